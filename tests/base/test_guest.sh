# Opens libtenon with dlopen in a running process, from C and from Python,
# several times, with threads that end after the last dlclose.
. "$top_srcdir/tests/tap.sh"

library=$top_builddir/.libs/libtenon.so
if nm -D "$library" | grep -qE ' __(asan|tsan)_'; then
    skip "libtenon as a guest" "sanitizers must be loaded first"
    done_testing
fi

# thread_local FILE: prints the bytes of thread-local memory that the file
# needs
thread_local() {
    readelf -lW "$1" | awk '$1 == "TLS" { print $6 }'
}
for file in "$top_builddir"/.libs/libtenon*.so "$top_builddir"/tenon-1/tn_*.so; do
    name=$(basename "$file")
    bytes=$(($(thread_local "$file" | head -n 1)))
    echo "# $name: $bytes bytes of thread-local memory"
    is_str "$(test "$bytes" -le 512 || echo "$bytes")" "" \
        "$name takes at most 512 bytes of thread-local memory"
    is_str "$(readelf -dW "$file" | grep -c NODELETE)" 1 \
        "$name stays where it was loaded once"
done

# shellcheck disable=SC2086 # CC may hold options
succeeds "a program that opens libtenon compiles" ${CC:-cc} -std=c11 -D_GNU_SOURCE \
    -I"$top_builddir/include" -I"$top_srcdir/include" \
    -o "$scratch/guest" "$top_srcdir/tests/base/guest.c" -ldl -lpthread
if succeeds "it runs, and its threads end after dlclose" \
    "$scratch/guest" "$library"; then
    is_str "$(sort -u "$scratch/output")" "1e+06" "with right results"
fi

if python3 -c 'import ctypes' 2>/dev/null; then
    succeeds "Python opens it by ctypes" \
        python3 "$top_srcdir/tests/base/guest.py" "$library"
else
    skip "Python opens it by ctypes" "python3 is not installed"
fi
done_testing
