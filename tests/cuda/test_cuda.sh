# Tests the CUDA plugin on the simulated driver. NVIDIA's NVRTC compiles the
# kernels; without it only the error messages are tested.
#
#   TENON_TEST_PROGRAMS  random programs (40)
#   TENON_TEST_CASES     cases of each primitive (40)
#   TENON_CUDA           the toolkit's folder (/usr/local/cuda)
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99

# refuses TEXT NAME COMMAND...: passes if the command fails and prints the text
refuses() {
    text=$1 name=$2
    shift 2
    if "$@" >"$scratch/output" 2>&1; then
        fail "$name"
    else
        is_str "$(grep -cF "$text" "$scratch/output")" 1 "$name"
    fi
    note <"$scratch/output"
}

# Without a driver, the error has a reason and a remedy, and `auto` selects
# another device.
if TENON_DEVICE=cuda tools/tenon info >/dev/null 2>&1; then
    skip "without a driver" "this machine has one, and a device"
else
    refuses "install the NVIDIA driver" "no driver: the error names the remedy" \
        env TENON_DEVICE=cuda tools/tenon info
    succeeds "and auto uses another device" \
        env TENON_DEVICE=auto tools/tenon info
fi

folder=${TENON_CUDA:-/usr/local/cuda}
if test -f "$folder/include/cuda.h"; then
    succeeds "the plugin's declarations are the toolkit's" \
        $CC -std=c11 -fsyntax-only -I"$folder/include" \
        -I"$top_srcdir/include" -I"$top_builddir/include" \
        "$top_srcdir/tests/cuda/declarations.c"
else
    skip "the plugin's declarations are the toolkit's" "no $folder/include"
fi

LD_LIBRARY_PATH=$PWD/tests/sim/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TENON_CUDA_CODE=ptx
TENON_DEVICE=cuda
TENON_TEST_PLUGIN=cuda
TENON_TEST_THREADS=1
: "${TENON_TEST_PROGRAMS:=40}" "${TENON_TEST_CASES:=40}"
export LD_LIBRARY_PATH TENON_CUDA_CODE TENON_DEVICE TENON_TEST_PLUGIN \
    TENON_TEST_THREADS TENON_TEST_PROGRAMS TENON_TEST_CASES
# The core's own matrix products have the reference's bits.
TENON_CUDA_MATMUL=own
export TENON_CUDA_MATMUL

refuses "cuInit: CUDA_ERROR_UNKNOWN" "an error of cuInit is reported" \
    env TENON_SIM_INIT=999 tools/tenon info
refuses "the CUDA driver has no device" "a driver without a device" \
    env TENON_SIM_DEVICES=0 tools/tenon info
refuses "there is no device 2: the plugin has 2" "a device that is not there" \
    env TENON_SIM_DEVICES=2 TENON_DEVICE=cuda:2 tools/tenon info
refuses "NVRTC, CUDA's run-time compiler, is not found" "no compiler" \
    env TENON_CUDA_NVRTC=/nonexistent tools/tenon info

if ! tools/tenon info >"$scratch/output" 2>&1 &&
    grep -q 'NVRTC.* is not found' "$scratch/output"
then
    skip "programs run" "NVRTC is not installed"
    done_testing
fi
succeeds "the simulated device is listed and opened" tools/tenon info
# An NVRTC that the driver accepts. tests/sim/nvrtc contains one whose version
# TENON_SIM_NVRTC sets.
refuses "newer than the driver (CUDA 10.0), which cannot load its code" \
    "no compiler that the driver takes" env TENON_SIM_VERSION=10000 \
    tools/tenon info
TENON_CUDA_LIBS=/nonexistent:$PWD/tests/sim/nvrtc
export TENON_CUDA_LIBS
succeeds "an NVRTC in TENON_CUDA_LIBS that the driver accepts" \
    env TENON_SIM_VERSION=11080 TENON_SIM_NVRTC=11.4 TENON_LOG=3 \
    TENON_CACHE_DIR=off examples/autograd
is_str "$(grep -c 'NVRTC is loaded from .*/tests/sim/nvrtc' \
    "$scratch/output")" 1 "is loaded from there"
refuses "needs PTX, but the PTX of NVRTC 11.9 is newer than the driver \
(CUDA 11.8)" "PTX of a later minor version is nothing to the driver" \
    env TENON_SIM_VERSION=11080 TENON_SIM_NVRTC=11.9 tools/tenon info
succeeds "machine code is" env TENON_SIM_VERSION=11080 TENON_SIM_NVRTC=11.9 \
    TENON_CUDA_CODE= tools/tenon info
unset TENON_CUDA_LIBS
succeeds "an example runs" examples/autograd
succeeds "random programs have the interpreter's bits" \
    tests/device/test_random_programs
note <"$scratch/output"
succeeds "so have those in which groups share rows" \
    env TENON_TEST_GROUP=16 tests/device/test_random_programs
note <"$scratch/output"
succeeds "primitives are right" tests/device/test_primitives
note <"$scratch/output"
succeeds "cores of other minor versions get the same" tests/device/test_skew
note <"$scratch/output"
succeeds "a caller's rounding mode changes nothing" tests/device/test_rounding
note <"$scratch/output"
succeeds "sorts of short lines and long ones are right" tests/device/test_sorts
note <"$scratch/output"
succeeds "scans of lines of many chunks are right" tests/device/test_scan
note <"$scratch/output"
succeeds "each operator's first sample has the reference's bits" \
    env TENON_MASK=attention,lapack \
    tests/golden/bits cuda tests/golden/samples 100000 1
is_str "$(grep -c ' 0 within tolerance' "$scratch/output")" 1 \
    "in matrix products and convolutions, too"
note <"$scratch/output"
succeeds "the conformance kit" \
    tools/tenon-plugin-check --timeout 600 tenon-1/tn_cuda.so
tail -n 1 "$scratch/output" | note

# The same tests with matrix products by cuBLASLt, which is simulated through
# OpenBLAS.
unset TENON_CUDA_MATMUL
succeeds "primitives are right in random cases" tests/device/test_primitives
files=
for name in ops/addmm ops/baddbmm ops/bmm ops/matmul ops/mm \
    ops/nn.functional.linear ops/nn.functional.conv2d \
    ops/nn.functional.scaled_dot_product_attention modules/linear \
    modules/linear_nobias_3d modules/bilinear modules/conv2d modules/lstm \
    modules/multihead_attention
do
    files="$files tests/golden/samples/$name.safetensors"
done
whole=$files # all samples of these operators
succeeds "samples of products, layers and convolutions pass" \
    tests/golden/run $files
note <"$scratch/output"

files=
for name in cholesky_ex eigh inv lu_factor pinv qr solve solve_triangular svd
do
    files="$files tests/golden/samples/ops/linalg.$name.safetensors"
done
whole="$whole $files "
succeeds "samples of factorisations pass" tests/golden/run $files
note <"$scratch/output"

# Tests half types with tensor cores. The tests above run without tensor cores.
for seed in "" 1; do
    succeeds "attention by tensor cores${seed:+ (order $seed)}" \
        env TENON_SIM_ARCH=80 ${seed:+TENON_SIM_SEED=$seed} \
        tests/cuda/test_attention
    note <"$scratch/output"
done
succeeds "the kit's attention, by tensor cores" env TENON_SIM_ARCH=80 \
    tools/tenon-plugin-check --only attention --timeout 600 tenon-1/tn_cuda.so

# The first epoch of what ./quickstart runs: 45 steps. (head closes the pipe,
# which ends the program in the second epoch.)
first_epoch() {
    examples/digits "$top_srcdir/data/digits.csv.gz" 2>&1 | sed -n '2 {p; q}' |
        sed 's/ *(.*//' # removes the time
}
is_str "$(first_epoch)" "$(TENON_DEVICE=cpu first_epoch)" \
    "the digits network learns with the cpu's loss"

# Steps that are recorded and replayed as CUDA graphs.
succeeds "replayed steps have the bits of those that are run" tests/graph/test_graph
note <"$scratch/output"

# Batches that are copied while the device computes must be right, even if the
# simulated driver executes the work in another order.
for seed in "" 1 2 3; do
    succeeds "a loader's batches arrive${seed:+ (order $seed)}" \
        env ${seed:+TENON_SIM_SEED=$seed} tests/data/test_upload
    note <"$scratch/output"
done

# Runs those of the other samples that are quick on the simulated driver:
# layers, optimizers, schedules, and one of five training runs. `make
# check-cuda-full` runs the rest.
one=tests/golden/samples/training/mlp_sgd.safetensors
succeeds "layers, optimizers, schedules, a training run: PyTorch's results" \
    tests/golden/run tests/golden/samples/modules tests/golden/samples/optim \
    tests/golden/samples/schedulers $one
tail -n 3 "$scratch/output" | note
succeeds "the first sample of every layer: PyTorch's results" \
    tests/golden/run tests/golden/samples/layers/*_1.safetensors
tail -n 1 "$scratch/output" | note
succeeds "compiled functions have the bits of eager calls" \
    tests/golden/run -c 40 tests/golden/samples/ops/[l-m]*.safetensors \
    tests/golden/samples/modules $one
tail -n 8 "$scratch/output" | note
for file in tests/golden/samples/ops/* tests/golden/samples/training/*; do
    case "$whole$one " in
    *" $file "*) ;;
    *) echo "${file#tests/golden/samples/}" ;;
    esac
done | sed 's/[.]safetensors$//' >"$scratch/left"
{
    echo "left to make check-cuda-full: PyTorch's results for all samples of" \
        "$(grep -c '^ops/' "$scratch/left") operators (the first of each has" \
        "the reference's bits, above) and" \
        "$(grep -c '^training/' "$scratch/left") training runs:"
    sed 's,^ops/,,' "$scratch/left" | tr '\n' ' ' | fold -s -w 76
    echo
} | note

# Random scheduling: the driver executes the work of streams, thread blocks and
# threads in another order.
for seed in 1 2 3; do
    TENON_SIM_SEED=$seed
    export TENON_SIM_SEED
    succeeds "by chance $seed: random programs have the interpreter's bits" \
        tests/device/test_random_programs
    succeeds "by chance $seed: so have those in which groups share rows" \
        env TENON_TEST_GROUP=16 tests/device/test_random_programs
    succeeds "by chance $seed: primitives are right" \
        tests/device/test_primitives
    succeeds "by chance $seed: layers and optimizers give PyTorch's results" \
        tests/golden/run tests/golden/samples/modules \
        tests/golden/samples/optim
done
done_testing
