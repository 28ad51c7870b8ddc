# With TENON_DEVICE=cpu, a program loads only the cpu plugin, and no library of
# OpenCL or CUDA.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
trace=$scratch/trace

if ! strace -f -o "$trace" true 2>"$scratch/why"; then
    skip "TENON_DEVICE=cpu opens one plugin" "strace is absent or not permitted: $(head -n 1 "$scratch/why")"
    done_testing
    exit
fi

# Runs the program itself, not the script that libtool makes, since strace would
# also record the files that the script opens.
TENON_DEVICE=cpu LD_LIBRARY_PATH=$top_builddir/.libs \
    strace -f -e trace=%file,%process \
    -o "$trace" tools/.libs/tenon info >"$scratch/out" 2>"$scratch/err"
is_str "$?" 0 "TENON_DEVICE=cpu tenon info succeeds under strace"

opened() {
    grep -E 'open' "$trace" | grep -v ENOENT | grep -oE "$1" | sort -u
}
is_str "$(opened 'tn_[a-z0-9_]*\.so')" "tn_cpu.so" "it opens one plugin"
is_empty "$(opened 'lib(OpenCL|cuda|nvrtc|cudart|cublas|pocl)[^"]*')" \
    "and no library of OpenCL or CUDA"
is_empty "$(opened 'libopenblas[^"]*')" "nor OpenBLAS before a factorisation"
is_empty "$(grep -E '^[0-9]+ +(v?fork|clone3?)\(' "$trace")" \
    "and starts no process or thread"

done_testing
