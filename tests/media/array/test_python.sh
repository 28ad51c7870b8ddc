# Exchanges arrays with NumPy and PyTorch: files in both directions, and memory by
# DLPack. Needs python3 with numpy; $PYTHON names another interpreter.
. "$top_srcdir/tests/tap.sh"

python=${PYTHON:-python3}
here=$top_srcdir/tests/media/array
# exchange NAME MODULES SCRIPT
exchange() {
    for module in $2; do
        if ! "$python" -c "import $module" 2>/dev/null; then
            skip "$1" "$python has no $module"
            return
        fi
    done
    mkdir "$scratch/$3"
    succeeds "$1" "$python" -W ignore -B "$here/$3" "$scratch/$3"
}

if nm -D "$top_builddir/.libs/libtenon.so" | grep -qE ' __(asan|tsan)_'; then
    skip "exchange with Python" "sanitizers must be loaded first"
else
    exchange "npy and npz files of NumPy, and ours by NumPy" "ctypes numpy" \
        with_numpy.py
    exchange "memory shared with NumPy by DLPack" "ctypes numpy" dlpack_numpy.py
    exchange "memory shared with PyTorch by DLPack" "ctypes numpy torch" \
        dlpack_torch.py
    exchange "weights in several files" "ctypes numpy safetensors" \
        with_safetensors.py
    exchange "files of torch.save" "ctypes numpy torch" \
        with_torch.py
fi
done_testing
