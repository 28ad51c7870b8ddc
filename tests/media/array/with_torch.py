"""with_torch.py FOLDER: files of torch.save are read."""
import collections
import ctypes
import os
import sys

import numpy
import torch

from tenon_ctypes import (NAMES, bytes_of, done, media, must, ok, refused,
                          shape_of, tn)

folder = sys.argv[1]
path = os.path.join(folder, "x.pt")
WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
torch.manual_seed(3)


def elements(t):
    t = t.detach().cpu().contiguous()
    name = str(t.dtype)[6:]
    t = t.to(getattr(torch, WIDER[name])) if name in WIDER else t
    return t.reshape(-1).view(torch.uint8).numpy().tobytes()


def flatten(value, path=""):
    if isinstance(value, numpy.generic):
        value = value.item()
    elif isinstance(value, complex):
        value = [value.real, value.imag]
    yield path, value
    items = (value.items() if isinstance(value, dict) else
             enumerate(value) if isinstance(value, (list, tuple)) else
             enumerate(sorted(value))
             if isinstance(value, (set, frozenset)) else ())
    for key, item in items:
        yield from flatten(item, "%s.%s" % (path, key) if path else str(key))


def check(value, fact, **options):
    torch.save(value, path, **options)
    file = must(media.tn_torch_file_open(path.encode()))
    tensors = [media.tn_torch_file_name(file, i).decode()
               for i in range(media.tn_torch_file_count(file))]
    values = [media.tn_torch_file_value_name(file, i).decode()
              for i in range(media.tn_torch_file_value_count(file))]
    want = dict(flatten(value))
    ok(sorted(tensors + values) == sorted(want), fact + ": paths")
    for name, x in want.items():
        key = name.encode()
        kind = media.tn_torch_file_kind(file, key)
        if isinstance(x, torch.Tensor):
            y = must(media.tn_torch_file_tensor(file, key))
            dtype = str(x.dtype)[6:]
            ok(kind == 1 and shape_of(y) == tuple(x.shape) and
               NAMES[tn.tn_tensor_dtype(y)] == WIDER.get(dtype, dtype) and
               bytes_of(y) == elements(x), fact + ": " + name)
        elif isinstance(x, bool) or isinstance(x, int):
            n = ctypes.c_int64()
            must(media.tn_torch_file_int(file, key, ctypes.byref(n)))
            ok(n.value == x, fact + ": " + name)
        elif isinstance(x, float):
            n = ctypes.c_double()
            must(media.tn_torch_file_real(file, key, ctypes.byref(n)))
            ok(n.value == x, fact + ": " + name)
        elif x is None:
            ok(kind == 2, fact + ": " + name)
        elif isinstance(x, (str, bytes, bytearray, torch.dtype, torch.device,
                            torch.layout)):
            text = media.tn_torch_file_text(file, key)
            length = media.tn_torch_file_length(file, key)
            x = bytes(x) if isinstance(x, (bytes, bytearray)) \
                else str(x).encode()
            ok(ctypes.string_at(text, length) == x, fact + ": " + name)
        else:
            ok(media.tn_torch_file_length(file, key) == len(x),
               fact + ": " + name)
    must(None)
    return file


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return x


resnet = torch.nn.Sequential(
    collections.OrderedDict(conv1=torch.nn.Conv2d(3, 4, 3), layer1=Block(4),
                            fc=torch.nn.Linear(4, 2)))
bert = torch.nn.ModuleDict({
    "embeddings": torch.nn.Embedding(11, 8),
    "encoder": torch.nn.TransformerEncoderLayer(8, 2, 16),
    "decoder": torch.nn.Linear(8, 11)})
bert["decoder"].weight = bert["embeddings"].weight
optimizer = torch.optim.AdamW(resnet.parameters())
sum(p.sum() for p in resnet.parameters()).backward()
optimizer.step()
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
base = torch.arange(24.).reshape(2, 3, 4)
nested = {
    "epoch": 7, "best": 0.1, "big": 2 ** 40, "negative": -5, "nothing": None,
    "yes": True, "no": False, "name": "zähler", "raw": b"\0\xff\n",
    "list": [1, [2.5, {"deep": torch.ones(2)}], ()],
    "size": torch.Size([3, 4]), "dtype": torch.float32,
    "device": torch.device("cuda", 1), "set": {4},
    "views": {"t": base.transpose(0, 2), "slice": base[:, 1:, ::2],
              "expanded": torch.ones(1).expand(3, 5), "whole": base,
              "empty": torch.ones(0, 3), "scalar": torch.tensor(3)},
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    "counter": collections.Counter([1, 1, 2]),
    "default": collections.defaultdict(list, a=[1, 2]), "layout": torch.strided,
    "bytearray": bytearray(b"\xff\1"), "no bytes": b"", "complex": 1.5 - 2j,
    "quantized": torch.quint4x2, "frozenset": frozenset([6]),
    "numpy": [numpy.bool_(True), numpy.int8(-7), numpy.int16(-300),
              numpy.int32(-70000), numpy.int64(-2 ** 40), numpy.uint8(200),
              numpy.uint16(40000), numpy.uint32(3 * 10 ** 9),
              numpy.uint64(2 ** 40), numpy.float16(-0.25),
              numpy.float16(6e-8), numpy.float32(1.5), numpy.float64(0.1)]}
dtypes = {}
for name in ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 "
             "bool uint16 uint32 uint64 float8_e4m3fn float8_e5m2").split():
    dtypes[name] = torch.arange(6).reshape(2, 3).to(getattr(torch, name))

for old in (False, True):
    for protocol in (2, 3, 4, 5):
        options = {"_use_new_zipfile_serialization": not old,
                   "pickle_protocol": protocol}
        fact = "%s format, protocol %d" % ("old" if old else "new", protocol)
        check(resnet.state_dict(), fact + ", ResNet", **options)
        file = check(bert.state_dict(), fact + ", BERT", **options)
        ok(media.tn_torch_file_is_alias(file, b"decoder.weight",
                                        b"embeddings.weight"), "tied weights")
        ok(not media.tn_torch_file_is_alias(file, b"decoder.weight",
                                            b"decoder.bias"), "others are not")
        check({"model": resnet.state_dict(),
               "optimizer": optimizer.state_dict(),
               "schedule": {k: v for k, v in schedule.state_dict().items()
                            if k != "base_lrs"},
               "rng": torch.get_rng_state()}, fact + ", checkpoint", **options)
        check(nested, fact + ", nested", **options)
        check(dtypes, fact + ", dtypes", **options)
        check(torch.ones(2, 3), fact + ", one tensor", **options)
        check([], fact + ", an empty list", **options)
torch.serialization.set_crc32_options(False)
check(dtypes, "without CRC")
torch.serialization.set_crc32_options(True)

torch.save({"c": torch.ones(2, dtype=torch.complex64)}, path)
file = must(media.tn_torch_file_open(path.encode()))
refused(lambda: must(media.tn_torch_file_tensor(file, b"c")), "complex64",
        "a complex tensor")
for value, part in [(resnet, "torch.nn.modules.container.Sequential"), (optimizer.__class__, "torch.optim"),
                    (torch.ones(2).to_sparse(), "_rebuild_sparse_tensor"),
                    (print, "print, which is not in the table"), ({1.5: 2}, "key of a dict"),
                    (numpy.complex64(1), "NumPy's dtype c8"),
                    (numpy.str_("x"), "NumPy's dtype U1"),
                    (numpy.ones(2), "_reconstruct, which is not in the table"),
                    (collections.defaultdict(resnet.__class__),
                     "torch.nn.modules.container.Sequential"),
                    ({"a.b": 1, "a": {"b": 2}}, "the path \"a.b\"")]:
    torch.save(value, path)
    refused(lambda: must(media.tn_torch_file_open(path.encode())), part, part)
torch.jit.script(torch.nn.Linear(2, 3)).save(path)
refused(lambda: must(media.tn_torch_file_open(path.encode())), "TorchScript",
        "TorchScript")
done()
