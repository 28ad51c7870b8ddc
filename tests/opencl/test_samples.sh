# Runs the golden samples on an OpenCL device: the first sample of each operator
# must give the same bits as the reference plugin. Each sample's program is
# compiled, which takes PoCL about 300 ms; `make check-opencl-full` runs all
# samples.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
if ! [ -x tests/golden/bits ]; then
    skip "each operator's first sample" \
        "jansson was not there when configure ran"
    done_testing
fi
if ! TENON_DEVICE=opencl tools/tenon info >"$scratch/output" 2>&1; then
    skip "each operator's first sample" "$(tail -n 1 "$scratch/output")"
    done_testing
fi
succeeds "each operator's first sample has the reference's bits" \
    tests/golden/bits opencl tests/golden/samples 100000 1
is_str "$(grep -c ' 0 within tolerance' "$scratch/output")" 1 \
    "in matrix products and convolutions, too"
note <"$scratch/output"
TENON_DEVICE=opencl succeeds "the first sample of every layer: PyTorch's results" \
    tests/golden/run tests/golden/samples/layers/*_1.safetensors
tail -n 1 "$scratch/output" | note
TENON_DEVICE=opencl succeeds "compiled functions have the bits of eager calls" \
    tests/golden/run -c 40 tests/golden/samples/ops/[l-m]*.safetensors \
    tests/golden/samples/modules tests/golden/samples/training/mlp_sgd.safetensors
tail -n 8 "$scratch/output" | note
done_testing
