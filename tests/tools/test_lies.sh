# Tests that tenon-plugin-check finds faults. Each fault ("lie") of
# tests/plugins/threaded/lies.txt is put into a correct plugin. The check that
# lies.txt names for it must fail with the message in that file.
. "$top_srcdir/tests/tap.sh"

kit=$top_builddir/tools/tenon-plugin-check
here=$top_srcdir/tests/plugins/threaded
[ -x "$kit" ] || bail_out "$kit was not built"
if nm -D "$kit" | grep -qE '__(asan|tsan)_init'; then
    skip "tenon-plugin-check finds lies" "sanitizers print, and watch memory"
    done_testing
fi

# Copies the sources that the device needs, and compiles them.
mkdir -p "$scratch/plugins/reference" "$scratch/tests/plugins/threaded" \
    "$scratch/right" "$scratch/wrong"
cp "$top_srcdir"/plugins/reference/*.[ch] "$scratch/plugins/reference"
rm "$scratch/plugins/reference/reference.c"
cp "$here/threaded.c" "$scratch/tests/plugins/threaded"

# compile OBJECT SOURCE: compiles a source file
compile() {
    # shellcheck disable=SC2086 # CC may hold options
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -fPIC -pthread -ffp-contract=off \
        -fvisibility=default -I"$top_srcdir/include" \
        -I"$top_builddir/include" -I"$scratch/plugins/reference" $warnings \
        -c "$2" -o "$1"
}
# link PLUGIN OBJECT...: links the objects to a plugin
link() {
    so=$1
    shift
    printf '{ global: tenon_plugin_v1; local: *; };\n' >"$scratch/exports"
    ${CC:-cc} -shared -pthread "-Wl,--version-script=$scratch/exports" "$@" \
        -lm -o "$so"
}

warnings="-Wall -Wextra -Werror"
for source in "$scratch"/plugins/reference/*.c \
    "$scratch/tests/plugins/threaded/threaded.c"; do
    succeeds "$(basename "$source") compiles without a warning" \
        compile "$scratch/right/$(basename "$source" .c).o" "$source" ||
        done_testing
done
link "$scratch/tn_threaded.so" "$scratch"/right/*.o || bail_out "does not link"
"$kit" --programs 100 "$scratch/tn_threaded.so" >"$scratch/out" 2>&1
is_str "$? $(tail -n 1 "$scratch/out" | grep -c ' L2 (L0 ')" "0 1" \
    "without a lie it passes every check"
grep -v '^ok ' "$scratch/out" | note

# Builds a vendor's library in a folder of its own. finds() also puts one into
# the folder of the plugin.
mkdir "$scratch/vendor"
VENDOR=$scratch/vendor/libvendor.so
VENDOR_BESIDE=$scratch/wrong/libbeside.so
export VENDOR VENDOR_BESIDE
succeeds "vendor.c is built" sh -c "${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 \
    -fPIC -shared -pthread $warnings '$here/vendor.c' -o '$VENDOR'" ||
    done_testing

# finds LIE CHECK WORDS [notes]: builds a plugin with this fault, and passes if
# the check fails with the words
warnings=-w
finds() {
    rm -f "$scratch"/wrong/*
    cp "$scratch"/right/*.o "$scratch/wrong"
    for source in "$scratch"/plugins/reference/*.c \
        "$scratch/tests/plugins/threaded/threaded.c"; do
        file=$(basename "$source")
        awk -v lie="$1" -v file="$file" -f "$here/lie.awk" "$here/lies.txt" \
            "$source" >"$scratch/lie" 2>"$scratch/out"
        case $? in
        0)
            mv "$scratch/lie" "$(dirname "$source")/lie_$file"
            compile "$scratch/wrong/${file%.c}.o" \
                "$(dirname "$source")/lie_$file" >"$scratch/out" 2>&1
            bad=$?
            rm "$(dirname "$source")/lie_$file"
            ;;
        3) continue ;;
        *) bad=1 ;;
        esac
        [ $bad = 0 ] || break
    done
    if [ $bad != 0 ] ||
        ! link "$scratch/wrong/tn_threaded.so" "$scratch"/wrong/*.o \
            >>"$scratch/out" 2>&1; then
        fail "$1: its lines exist in the source, and it compiles"
        note <"$scratch/out"
        return
    fi
    cp "$VENDOR" "$VENDOR_BESIDE"
    "$kit" --only "$2" --programs 60 --timeout 3 \
        "$scratch/wrong/tn_threaded.so" >"$scratch/out" 2>&1
    status=$?
    if [ "${4-}" = notes ]; then
        is_str "$status $(grep -cE "^# noted: $3\$" "$scratch/out")" "0 1" \
            "$1: $2 passes, noting $3" || note <"$scratch/out"
        return
    fi
    if [ $status = 1 ] && grep -qE "^not ok 1 - L[012] $2: .*($3)" "$scratch/out"
    then
        pass "$1: $2 finds it"
    else
        fail "$1: $2 finds it, saying $3"
        note <"$scratch/out"
    fi
}
while read -r word rest; do
    case $word in
    lie) lie=$rest ;;
    check) check=$rest ;;
    says) finds "$lie" "$check" "$rest" </dev/null ;;
    notes) finds "$lie" "$check" "$rest" notes </dev/null ;;
    esac
done <"$here/lies.txt"

done_testing
