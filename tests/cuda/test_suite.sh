# Runs test programs that work on any device, unchanged, on the simulated CUDA
# driver (TENON_DEVICE=cuda). NVIDIA's NVRTC compiles the kernels.
#
#   TENON_SIM_SUITE=all  also programs that take minutes (check-cuda-full)
#
# Work is synchronous, because the programs check an error right after its call.
# cuSOLVER is masked, because test_linalg counts the operators that run on the
# host, with LAPACK. test_misuse masks conv, because some misused convolutions
# have 8 million results, for which the plugin's kernel takes minutes here.
# Devices of OpenCL are hidden, because other tests compile their kernels.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
LD_LIBRARY_PATH=$PWD/tests/sim/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TENON_CUDA_CODE=ptx
TENON_CUDA_BLOCKING=1
TENON_DEVICE=cuda
TENON_TEST_THREADS=1
OCL_ICD_VENDORS=/nonexistent
export LD_LIBRARY_PATH TENON_CUDA_CODE TENON_CUDA_BLOCKING TENON_DEVICE \
    TENON_MASK TENON_TEST_THREADS OCL_ICD_VENDORS
if ! tools/tenon info >"$scratch/output" 2>&1; then
    skip "the suite on the simulated driver" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi

rooms="autograd data device graph io nn nulls ops optim tensor trace training"
# Each of these takes 20 s to 7 minutes on the simulated driver.
long=" autograd/test_backward autograd/test_gradients \
    autograd/test_hard_points ops/test_conv ops/test_misuse ops/test_pool \
    trace/test_trace training/test_amp training/test_threads "

for room in $rooms; do
    for test in tests/"$room"/test_*; do
        case $test in
        *.* | *~) continue ;;
        esac
        [ -f "$test" ] && [ -x "$test" ] || continue
        case " ${TENON_SIM_SUITE-} $long" in
        " all "*) ;;
        *" ${test#tests/} "*)
            echo "# left to make check-cuda-full: $test"
            continue
            ;;
        esac
        case $test in
        */test_misuse) TENON_MASK=lapack,conv ;;
        *) TENON_MASK=lapack ;;
        esac
        began=$(date +%s)
        "$test" >"$scratch/output" 2>&1
        status=$?
        results=$(grep -c '^ok' "$scratch/output")
        skipped=$(grep -c '^ok.* SKIP' "$scratch/output")
        if [ $status = 0 ] || [ $status = 77 ]; then
            pass "$test: $results passed, $skipped of them skipped"
        else
            fail "$test: status $status"
            grep -vE '^ok' "$scratch/output" | tail -n 30 | note
        fi
        echo "# $(($(date +%s) - began)) s"
    done
done
done_testing
