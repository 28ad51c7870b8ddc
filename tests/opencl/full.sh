# All that can be held on an OpenCL device, whole, run by
# `make check-opencl-full`: minutes to an hour on PoCL, which takes some 300 ms
# for each program that its cache has not. `make check` runs a part of each.
#
#   TENON_TEST_PROGRAMS   random programs for each layout and device (2000)
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
if ! TENON_DEVICE=opencl tools/tenon info >"$scratch/output" 2>&1; then
    skip "an OpenCL device, whole" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi
TENON_TEST_PROGRAMS=${TENON_TEST_PROGRAMS:-2000} TENON_TEST_THREADS=1
export TENON_TEST_PROGRAMS TENON_TEST_THREADS

# whole NAME COMMAND...: what it says is in the log, too
whole() {
    succeeds "$@"
    grep -v '^ok ' "$scratch/output" | note
}

# programs NAME DEVICE [VARIABLE=VALUE...]
programs() {
    name=$1 device=$2
    shift 2
    whole "$TENON_TEST_PROGRAMS random programs: $name" \
        env TENON_TEST_PLUGIN="$device" "$@" tests/device/test_random_programs
}
programs "work as on a CPU" opencl
programs "work as on a GPU" opencl TENON_OPENCL_ORDER=grid
for device in opencl:0 opencl:1; do
    programs "$device of two" $device POCL_DEVICES="basic basic"
done

# Every sample of every operator. The last line tells how many programs were
# compiled for them; a second process finds all of them in the cache.
whole "every sample of every operator has the reference's bits" \
    tests/golden/bits opencl tests/golden/samples
is_str "$(grep -c ' 0 within tolerance' "$scratch/output")" 1 \
    "matrix products and convolutions, too"
whole "the same in a second process" \
    tests/golden/bits opencl tests/golden/samples
is_str "$(grep -c '^# 0 programs went through a compiler' "$scratch/output")" \
    1 "which compiles none"

whole "operators, layers, optimizers, schedules, training: PyTorch's results" \
    env TENON_DEVICE=opencl tests/golden/run tests/golden/samples
whole "tenon-plugin-check" \
    tools/tenon-plugin-check --timeout 3600 tenon-1/tn_opencl.so
whole "each printed text through clang and NVRTC" \
    env TENON_TEST_TEXTS=0 TENON_TEST_PROGRAMS=100 tests/kernel/test_print
done_testing
