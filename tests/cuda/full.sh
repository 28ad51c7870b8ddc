# Runs all tests on the simulated driver, for `make check-cuda-full`. They take
# about an hour of processor time with an empty cache. `make check` runs a part
# of each.
#
#   TENON_TEST_PROGRAMS   random programs, for each of TENON_SIM_SEEDS (400)
#   TENON_SIM_SEEDS       seeds that randomize the order of the driver's work;
#                         none: a fixed order (none 1 2 3)
#   TENON_SIM_PARTS       parts to run, in this order (seeds golden suite kit
#                         learn)
#
# It prints the time of each part.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
LD_LIBRARY_PATH=$PWD/tests/sim/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TENON_CUDA_CODE=ptx
TENON_DEVICE=cuda
TENON_TEST_PLUGIN=cuda
TENON_TEST_THREADS=1
: "${TENON_TEST_PROGRAMS:=400}"
export LD_LIBRARY_PATH TENON_CUDA_CODE TENON_DEVICE TENON_TEST_PLUGIN \
    TENON_TEST_THREADS TENON_TEST_PROGRAMS
if ! tools/tenon info >"$scratch/output" 2>&1; then
    skip "the simulated driver, whole" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi

# whole NAME COMMAND...: runs the command as a test, and also prints its output
whole() {
    began=$(date +%s)
    ! succeeds "$@" || grep -v '^ok ' "$scratch/output" | note
    took
}

took() {
    echo "# took $(($(date +%s) - began)) s"
}

part_seeds() {
    for seed in ${TENON_SIM_SEEDS:-none 1 2 3}; do
        TENON_SIM_SEED=$seed
        chance=", by chance $seed"
        export TENON_SIM_SEED
        if [ "$seed" = none ]; then
            unset TENON_SIM_SEED
            chance=
        fi
        whole "random programs have the interpreter's bits$chance" \
            tests/device/test_random_programs
        whole "primitives are right$chance" tests/device/test_primitives
        whole "sorts are right$chance" tests/device/test_sorts
        whole "every sample of every operator has the reference's bits$chance" \
            env TENON_CUDA_MATMUL=own TENON_MASK=attention,lapack \
            tests/golden/bits cuda tests/golden/samples
        whole "products by cuBLASLt are right$chance" tests/cuda/test_products
        whole "training has the cpu's losses$chance" tests/cuda/test_devices
        for arch in 75 80; do
            whole "attention is right for sm_$arch$chance" \
                env TENON_SIM_ARCH=$arch tests/cuda/test_attention
        done
    done
    unset TENON_SIM_SEED
}

part_golden() {
    for part in ops modules optim schedulers training; do
        whole "PyTorch's results: $part" \
            tests/golden/run tests/golden/samples/$part
    done
    whole "compiled functions have the bits of eager calls" \
        tests/golden/run -c 1 tests/golden/samples/ops \
        tests/golden/samples/layers tests/golden/samples/training
}

part_suite() {
    whole "the test programs of all rooms" \
        env TENON_SIM_SUITE=all sh "$top_srcdir/tests/cuda/test_suite.sh"
}

part_kit() {
    whole "tenon-plugin-check" \
        tools/tenon-plugin-check --timeout 3600 tenon-1/tn_cuda.so
}

# losses: prints the lines with losses, without the times at their ends
losses() {
    "$@" | sed -n 's/.*\(epoch .*loss [0-9.]*\).*/\1/p; /^test acc/p'
}

# Runs the same training as ./quickstart, 12 epochs, and the same training on
# two devices.
part_learn() {
    digits=$top_srcdir/data/digits.csv.gz
    began=$(date +%s)
    TENON_DEVICE=cpu losses examples/digits "$digits" >"$scratch/cpu"
    losses examples/digits "$digits" >"$scratch/cuda"
    is_str "$(cat "$scratch/cuda")" "$(cat "$scratch/cpu")" \
        "the digits network learns with the cpu's losses, 12 epochs"
    note <"$scratch/cuda"
    took
    began=$(date +%s)
    TENON_SIM_DEVICES=2 losses examples/two_devices cuda:0 cuda:1 "$digits" \
        >"$scratch/two"
    is_str "$(grep -c epoch "$scratch/two") $(tail -n 1 "$scratch/two" |
        cut -c1-18)" "12 test accuracy: 0.9" "and on two devices"
    note <"$scratch/two"
    took
}

for one in ${TENON_SIM_PARTS:-seeds golden suite kit learn}; do
    part_"$one"
done
done_testing
