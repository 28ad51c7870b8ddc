# The program tenon, as a person at a shell meets it.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99

# tenon DEVICE ARGUMENT...: its exit status is $status; what it said lies in
# $scratch/out and $scratch/err
tenon() {
    device=$1
    shift
    TENON_DEVICE=$device tools/tenon "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}
# out PATTERN NAME, err PATTERN NAME
out() { matches "$scratch/out" "$@"; }
err() { matches "$scratch/err" "$@"; }
matches() {
    if grep -qE -e "$2" "$1"; then
        pass "$3"
    else
        fail "$3"
        note <"$1"
    fi
}

tenon cpu info
is_str "$status" 0 "tenon info succeeds"
out '^tenon +[0-9]+\.[0-9]+\.[0-9]+$' "it names its version"
out '^device +cpu:0 \(TENON_DEVICE=cpu\)$' "and the device, and who chose it"
is_empty "$(cat "$scratch/err")" "and says nothing on stderr"

TENON_NUM_THREADS=many tenon cpu info
out '^threads +[0-9]+, what was asked for cannot be had' "threads not had"

tenon reference info
out '^device +reference:0 ' "the reference plugin is had by its name"

tenon nosuch info
is_str "$status" 1 "a device that does not exist is an error"
err 'nosuch' "which names what was asked for"
err 'cpu' "and what there is"
is_str "$(wc -l <"$scratch/err")" 1 "in one line"

tenon cuda info
is_str "$status" 1 "cuda without its plugin is an error, not the cpu"
err 'cuda' "which names cuda"

tenon auto devices
is_str "$status" 0 "tenon devices succeeds"
out '^cpu:0: ' "it lists cpu:0"
out '^reference:0: ' "and reference:0"
is_empty "$(grep -F / "$scratch/out" | grep -F .so)" "and no files"

tenon auto devices -v
out "^cpu: .*tn_cpu\\.so: 1 device$" "-v tells each plugin's file"
out '^looked in: .*tenon-1' "and the folders that were looked through"

(TENON_PLUGIN_PATH=$scratch/empty tools/tenon devices -v) >"$scratch/out" 2>&1
out '^cpu: ' "without a path, the plugins beside the library are found"

# One plugin is opened, and no vendor's library.
if command -v strace >/dev/null && strace -o "$scratch/probe" true 2>&1; then
    TENON_DEVICE=cpu ./libtool --mode=execute \
        strace -f -e trace=open,openat -o "$scratch/trace" \
        tools/tenon info >"$scratch/out" 2>&1
    opened=$(grep -v ENOENT "$scratch/trace" |
        sed -n 's|.*"[^"]*/\([^"/]*\)".*|\1|p')
    is_str "$(printf '%s\n' "$opened" | grep '^tn_.*\.so')" tn_cpu.so \
        "TENON_DEVICE=cpu opens one plugin"
    is_empty "$(printf '%s\n' "$opened" |
        grep -iE 'libopencl|libcuda|nvrtc|openblas')" \
        "and neither OpenCL nor CUDA nor OpenBLAS"
else
    skip "TENON_DEVICE=cpu opens one plugin" "strace cannot be used"
fi

tenon cpu device
is_str "$status" 2 "a wrong command is answered with the usage"
err '^usage: tenon' "on stderr"

done_testing
