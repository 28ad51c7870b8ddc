"""make_fourier.py OUT: writes OUT/samples_fourier.tar.xz, samples of PyTorch's
torch.fft.rfft, torch.fft.irfft and torch.stft of real tensors. Complex tensors and
their gradients are stored as pairs of real numbers (torch.view_as_real)."""
import io
import json
import lzma
import struct
import sys
import tarfile

import torch
from torch import view_as_complex, view_as_real

torch.manual_seed(0)
NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def rfft(x, **options):
    return view_as_real(torch.fft.rfft(x, **options))


def irfft(x, **options):
    return torch.fft.irfft(view_as_complex(x), **options)


def stft(x, n_fft, **options):
    return view_as_real(torch.stft(x, n_fft, return_complex=True, **options))


def real(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


F64 = torch.float64
CALLS = {
    "fft.rfft": (rfft, [
        ((real(31),), {}), ((real(1),), {}), ((real(2, 2),), {}),
        ((real(5, 6, 7),), dict(n=10, dim=1, norm="ortho")),
        ((real(5, 6, 7),), dict(n=4, norm="forward")),
        ((real(5, 6, 7),), dict(dim=-3, norm="backward")),
        ((real(2, 400),), {}), ((real(2, 149),), {}),
        ((real(3, 240, dtype=F64),), {}), ((real(298, dtype=F64),), {}),
        ((torch.randint(-9, 9, (3, 8)),), {})]),
    "fft.irfft": (irfft, [
        ((real(16, 2),), dict(n=31)), ((real(3, 16, 2),), {}),
        ((real(1, 2),), dict(n=1)),
        ((real(5, 6, 7, 2),), dict(n=10, dim=1, norm="ortho")),
        ((real(5, 6, 7, 2),), dict(n=5, norm="forward")),
        ((real(5, 6, 7, 2),), dict(dim=-3)),
        ((real(2, 201, 2),), {}), ((real(75, 2),), dict(n=149)),
        ((real(3, 121, 2, dtype=F64),), {}),
        ((real(150, 2, dtype=F64),), {})]),
    "stft": (stft, [
        ((real(100), 10), {}), ((real(2, 40), 16), dict(hop_length=4)),
        ((real(10), 7), dict(center=False)),
        ((real(2, 50), 16), dict(window=real(16), pad_mode="constant")),
        ((real(50), 12), dict(win_length=9, window=real(9), hop_length=5)),
        ((real(50), 12), dict(win_length=7, normalized=True)),
        ((real(2, 40), 10), dict(onesided=False)),
        ((real(30), 9), dict(onesided=False, pad_mode="replicate")),
        ((real(2, 60, dtype=F64), 20),
         dict(window=real(20, dtype=F64), pad_mode="circular"))]),
}


def file_of(name, function, calls):
    data, header, samples = b"", {}, []

    def put(key, x):
        nonlocal data
        x = x.detach().contiguous()
        raw = x.numpy().tobytes()
        header[key] = {"dtype": NAMES[x.dtype], "shape": list(x.shape),
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
        return key

    def value(key, x):
        return {"tensor": put(key, x)} if torch.is_tensor(x) else x

    for k, (args, options) in enumerate(calls):
        given = [*args, *options.values()]
        tensors = [x for x in given if torch.is_tensor(x)]
        leaves = [x for x in tensors if x.is_floating_point()]
        for x in leaves:
            x.requires_grad_()
        out = function(*args, **options)
        sample = {
            "variant": "", "dtype": str(args[0].dtype).split(".")[1],
            "args": [value(f"{k}.a{i}", x) for i, x in enumerate(args)],
            "kwargs": {q: value(f"{k}.k.{q}", x) for q, x in options.items()},
            "outs": [put(f"{k}.o0", out)]}
        if leaves:
            g = torch.randn(out.shape, dtype=F64).to(out.dtype)
            grads = torch.autograd.grad(out, leaves, g)
            sample["cotangents"] = [put(f"{k}.c0", g)]
            sample["diff_outs"] = [0]
            sample["grads"] = [{"input": i, "tensor": put(f"{k}.g{i}", x)}
                               for i, x in enumerate(grads)]
        samples.append(sample)
    header["__metadata__"] = {"op": name, "torch": torch.__version__,
                              "seed": "0", "samples": json.dumps(samples)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


pack = io.BytesIO()
with tarfile.open(fileobj=pack, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    for name, (function, calls) in CALLS.items():
        content = file_of(name, function, calls)
        info = tarfile.TarInfo(f"ops/{name}.safetensors")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
with open(sys.argv[1] + "/samples_fourier.tar.xz", "wb") as file:
    file.write(lzma.compress(pack.getvalue(), preset=9 | lzma.PRESET_EXTREME))
