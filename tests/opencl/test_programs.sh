# Runs random programs and the primitives on the OpenCL plugin: with the launch
# layout for CPUs and for GPUs, with and without optional features of devices,
# and on each of two devices. PoCL takes about 300 ms to compile a program, so
# there are few; TENON_TEST_PROGRAMS sets how many.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
if ! TENON_DEVICE=opencl tools/tenon info >"$scratch/output" 2>&1; then
    skip "the OpenCL plugin" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi
TENON_TEST_THREADS=1
TENON_TEST_PROGRAMS=${TENON_TEST_PROGRAMS:-24}
export TENON_TEST_THREADS TENON_TEST_PROGRAMS

# programs NAME DEVICE SEED [VARIABLE=VALUE...]: runs random programs on the
# device
programs() {
    name=$1 device=$2 seed=$3
    shift 3
    succeeds "$TENON_TEST_PROGRAMS programs from seed $seed: $name" \
        env TENON_TEST_PLUGIN="$device" TENON_TEST_SEED="$seed" "$@" \
        tests/device/test_random_programs
}
programs "work as on a CPU" opencl 1
programs "work as on a GPU" opencl 101 TENON_OPENCL_ORDER=grid
for way in 1 2 3; do
    programs "groups laid out in way $way" opencl ${way}01 \
        TENON_OPENCL_ORDER=grid TENON_OPENCL_TUNE=$way
done
most=$TENON_TEST_PROGRAMS
TENON_TEST_PROGRAMS=$((most / 8)) # fewer, because each program needs several
                                  # kernels
programs "groups share rows" opencl 7 TENON_OPENCL_ORDER=grid \
    TENON_TEST_GROUP=16
TENON_TEST_PROGRAMS=$most
programs "divisions in software" opencl 201 TENON_OPENCL_DIVIDE=0
for device in opencl:0 opencl:1; do
    programs "$device of two" $device 1 POCL_DEVICES="basic basic"
done
succeeds "matmul, scatter, scan and sort are right" \
    env TENON_TEST_PLUGIN=opencl tests/device/test_primitives
succeeds "cores of other minor versions get the same bits" \
    env TENON_TEST_PLUGIN=opencl tests/device/test_skew
succeeds "a caller's rounding mode changes nothing" \
    env TENON_TEST_PLUGIN=opencl tests/device/test_rounding
TENON_TEST_FLOAT32=1
export TENON_TEST_FLOAT32
succeeds "sorts of short and long rows, laid out as for a CPU" \
    env TENON_TEST_PLUGIN=opencl tests/device/test_sorts
succeeds "and as for a GPU" \
    env TENON_TEST_PLUGIN=opencl TENON_OPENCL_ORDER=grid tests/device/test_sorts
for order in chunked grid; do
    succeeds "scans of rows of more than 2^20 elements: $order" \
        env TENON_TEST_PLUGIN=opencl TENON_TEST_LONG=1050000 \
        TENON_OPENCL_ORDER=$order tests/device/test_scan
done
done_testing
