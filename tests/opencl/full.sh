# Runs all tests on an OpenCL device, for `make check-opencl-full`. They take
# minutes to an hour on PoCL, which needs about 350 ms for each program that is
# not in its cache (130 ms of that for the compiler's own header). So the work
# is divided among processes. `make check` runs a part of each.
#
#   TENON_TEST_PROGRAMS   random programs for each layout and device (2000)
#   TENON_TEST_JOBS       number of processes (one for each core)
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
if ! TENON_DEVICE=opencl tools/tenon info >"$scratch/output" 2>&1; then
    skip "an OpenCL device, whole" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi
TENON_TEST_PROGRAMS=${TENON_TEST_PROGRAMS:-2000} TENON_TEST_THREADS=1
export TENON_TEST_PROGRAMS TENON_TEST_THREADS
jobs=${TENON_TEST_JOBS:-$(getconf _NPROCESSORS_ONLN)}

# whole NAME COMMAND...: runs the command as a test, and also prints its output
whole() {
    succeeds "$@"
    grep -v '^ok ' "$scratch/output" | note
}

# together COMMAND...: runs $jobs processes at the same time, each with its
# number as last argument; succeeds if all of them do
together() {
    (
        for job in $(seq 0 $((jobs - 1))); do
            (job=$job "$@" >"$scratch/job.$job" 2>&1) &
            eval "pid$job=$!"
        done
        status=0
        for job in $(seq 0 $((jobs - 1))); do
            eval "wait \$pid$job" || status=1
            cat "$scratch/job.$job"
        done
        exit $status
    )
}

# some_programs: runs this process's part of the random programs, which begins
# at its first seed
some_programs() {
    first=$((TENON_TEST_PROGRAMS * job / jobs))
    next=$((TENON_TEST_PROGRAMS * (job + 1) / jobs))
    [ $first = $next ] && return
    env TENON_TEST_SEED=$((first + 1)) TENON_TEST_PROGRAMS=$((next - first)) \
        "$@" tests/device/test_random_programs
}

# programs NAME DEVICE [VARIABLE=VALUE...]: runs random programs on a device,
# in $jobs processes
programs() {
    name=$1 device=$2
    shift 2
    whole "$TENON_TEST_PROGRAMS random programs: $name" \
        together some_programs TENON_TEST_PLUGIN="$device" "$@"
}
programs "work as on a CPU" opencl
programs "work as on a GPU" opencl TENON_OPENCL_ORDER=grid
for device in opencl:0 opencl:1; do
    programs "$device of two" $device POCL_DEVICES="basic basic"
done

# some_operators: runs this process's part of the files of samples
some_operators() {
    mkdir -p "$scratch/part.$job/ops"
    ls tests/golden/samples/ops | awk -v job="$job" -v jobs="$jobs" \
        'NR % jobs == job' | while read -r file; do
        ln -s "$PWD/tests/golden/samples/ops/$file" "$scratch/part.$job/ops/"
    done
    tests/golden/bits opencl "$scratch/part.$job"
}

# Runs every sample of every operator. The last line of the output says how many
# programs were compiled. A second process finds all of them in the cache, and prints how many
# there are and how they differ.
whole "every sample of every operator has the reference's bits" \
    together some_operators
is_str "$(grep -c ' 0 within tolerance' "$scratch/output")" $((jobs * 5)) \
    "matrix products and convolutions, too"
whole "the same in a second process" \
    tests/golden/bits opencl tests/golden/samples
is_str "$(grep -c '^# 0 programs went through a compiler' "$scratch/output")" \
    1 "which compiles none"

whole "operators, layers, optimizers, schedules, training: PyTorch's results" \
    env TENON_DEVICE=opencl tests/golden/run tests/golden/samples
whole "compiled functions have the bits of eager calls" \
    env TENON_DEVICE=opencl tests/golden/run -c 1 tests/golden/samples
whole "matrix products by CLBlast" \
    env TENON_TEST_DTYPES="float32 float64" tests/opencl/test_matmul
whole "tenon-plugin-check" \
    tools/tenon-plugin-check --timeout 3600 tenon-1/tn_opencl.so

some_texts() {
    env TENON_TEST_TEXTS=0 TENON_TEST_PROGRAMS=100 \
        TENON_TEST_PART="$job/$jobs" tests/kernel/test_print
}
whole "each printed text through clang" together some_texts
done_testing
