"""make_arrays.py OUT.tar.xz: files of NumPy and PyTorch, and what is in them.

Made with NumPy 2.4.6 and PyTorch 2.15.0. expected.txt has a line for each array or
value, with tabs between: file, name, kind, dtype, shape, and the elements in
row-major order, little-endian, in hexadecimal. Files that must be rejected have the
kind "refused" and a part of the message.

The data is made by this script, so it has the licence of the project."""
import collections
import io
import os
import pickle
import pickletools
import struct
import sys
import tarfile
import zipfile

import numpy as np
import torch
from numpy.lib import format as npy

files, lines = {}, []
WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
random = np.random.default_rng(1)
torch.manual_seed(1)


def expect(file, name, kind, dtype="", shape=(), data=b""):
    lines.append("\t".join([file, name, kind, dtype,
                            ",".join(map(str, shape)), data.hex()]))


def expect_array(file, name, a):
    wide = a.astype(WIDER.get(a.dtype.name, a.dtype.newbyteorder("<")))
    expect(file, name, "tensor", wide.dtype.name, a.shape,
           wide.astype(wide.dtype.newbyteorder("<")).tobytes())


def array(name, shape):
    dtype = np.dtype(name)
    if dtype.kind == "f":
        a = random.standard_normal(shape).astype(dtype)
    elif dtype.kind == "b":
        a = np.asarray(random.integers(0, 2, shape)).astype(dtype)
    else:
        info = np.iinfo(dtype)
        a = np.asarray(random.integers(
            info.min, min(info.max, 2 ** 63 - 1), shape, dtype=dtype,
            endpoint=True))
    return a


# ---- npy -----------------------------------------------------------------------

for name in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 "
             "float32 float64").split():
    for order, way in (("<", "little"), (">", "big")):
        for layout in "CF":
            for version in (1, 2, 3):
                a = np.asarray(array(name, (2, 3)).astype(
                    np.dtype(name).newbyteorder(order)), order=layout)
                out = io.BytesIO()
                npy.write_array(out, a, version=(version, 0))
                file = "npy/%s-%s-%s-%d.npy" % (name, way, layout, version)
                files[file] = out.getvalue()
                expect_array(file, "", a)
for fact, a in [("scalar", np.array(2.5)), ("empty", np.zeros((0, 3))),
                ("hole", np.zeros((2, 0, 4), "int16")),
                ("one", np.array([7], "int8")),
                ("deep", np.arange(2, dtype="int32").reshape((1,) * 11 + (2,)))]:
    out = io.BytesIO()
    np.save(out, a)
    files["npy/%s.npy" % fact] = out.getvalue()
    expect_array("npy/%s.npy" % fact, "", a)
for fact, a, part in [
        ("text", np.array(["a"]), "is text"),
        ("bytes", np.array([b"a"]), "byte strings"),
        ("complex", np.array([1j]), "complex"),
        ("object", np.array([None]), "Python objects"),
        ("date", np.array(["2020-01-01"], "M8[D]"), "datetime64"),
        ("time", np.array([1], "m8[s]"), "timedelta64"),
        ("fields", np.zeros(2, [("a", "f4"), ("b", "i4")]), "structured"),
        ("raw", np.zeros(2, "V2"), ".view = TN_BF16"),
        ("large", np.array([1, 2 ** 63], "u8"), "element 1 is 9223372036854775808"),
        ("deeper", np.zeros((1,) * 13), "13 dimensions")]:
    out = io.BytesIO()
    np.save(out, a)
    files["npy/bad-%s.npy" % fact] = out.getvalue()
    expect("npy/bad-%s.npy" % fact, part, "refused")

# ---- npz -----------------------------------------------------------------------


class Stream(io.RawIOBase):
    """A file that cannot seek: zipfile writes data descriptors then."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


arrays = {"x": array("float32", (3, 4)), "folder/y": array("int64", ()),
          "zähler": array("bool", (0, 3)), "zeros": np.zeros((10, 10)),
          "../up": array("uint16", (3,))}
for fact, compression, zip64, stream in [
        ("stored", zipfile.ZIP_STORED, False, False),
        ("deflated", zipfile.ZIP_DEFLATED, False, False),
        ("zip64", zipfile.ZIP_DEFLATED, True, False),
        ("stream", zipfile.ZIP_STORED, False, True),
        ("stream-deflated", zipfile.ZIP_DEFLATED, False, True),
        ("stream-zip64", zipfile.ZIP_STORED, True, True)]:
    out = Stream() if stream else io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, a in arrays.items():
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w",
                              force_zip64=zip64) as member:
                npy.write_array(member, a)
    file = "npz/%s.npz" % fact
    files[file] = out.data if stream else out.getvalue()
    for name, a in arrays.items():
        expect_array(file, name, a)
for fact, compression in [("bzip2", zipfile.ZIP_BZIP2),
                          ("LZMA", zipfile.ZIP_LZMA)]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), b"x" * 40, compression)
    files["npz/bad-%s.npz" % fact] = out.getvalue()
    expect("npz/bad-%s.npz" % fact, fact, "refused")

# ---- files of torch.save ---------------------------------------------------------


def expect_value(file, path, x):
    if isinstance(x, torch.Tensor):
        t = x.detach()
        dtype = str(t.dtype)[6:]
        t = t.to(getattr(torch, WIDER.get(dtype, dtype))).contiguous()
        expect(file, path, "tensor", str(t.dtype)[6:], t.shape,
               t.reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(x, bool):
        expect(file, path, "bool", str(int(x)))
    elif isinstance(x, int):
        expect(file, path, "int", str(x))
    elif isinstance(x, float):
        expect(file, path, "real", x.hex())
    elif x is None:
        expect(file, path, "none")
    elif isinstance(x, (str, torch.dtype, torch.device)):
        expect(file, path, "text", data=str(x).encode())
    elif isinstance(x, bytes):
        expect(file, path, "bytes", data=x)
    else:
        is_dict = isinstance(x, dict)
        expect(file, path, "dict" if is_dict else "list", str(len(x)))
        for key, item in x.items() if is_dict else enumerate(x):
            expect_value(file, "%s.%s" % (path, key) if path else str(key),
                         item)


resnet = torch.nn.Sequential(collections.OrderedDict(
    conv1=torch.nn.Conv2d(3, 2, 3, bias=False), bn1=torch.nn.BatchNorm2d(2),
    layer1=torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3, bias=False),
                               torch.nn.BatchNorm2d(2)),
    fc=torch.nn.Linear(2, 3)))
bert = torch.nn.ModuleDict({
    "embeddings": torch.nn.Embedding(5, 4),
    "encoder": torch.nn.TransformerEncoderLayer(4, 2, 8),
    "decoder": torch.nn.Linear(4, 5)})
bert["decoder"].weight = bert["embeddings"].weight
optimizer = torch.optim.AdamW(resnet.parameters())
sum(p.sum() for p in resnet.parameters()).backward()
optimizer.step()
base = torch.arange(24.).reshape(2, 3, 4)
nested = {
    "epoch": 7, "best": 0.1, "big": 2 ** 40, "negative": -5, "nothing": None,
    "yes": True, "no": False, "name": "zähler", "raw": b"\0\xff\n",
    "list": [1, [2.5, {"deep": torch.ones(2)}], ()],
    "size": torch.Size([3, 4]), "dtype": torch.float32,
    "device": torch.device("cuda", 1), "set": [4],
    "views": {"t": base.transpose(0, 2), "slice": base[:, 1:, ::2],
              "expanded": torch.ones(1).expand(3, 5), "whole": base,
              "empty": torch.ones(0, 3), "scalar": torch.tensor(3)},
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "counter": collections.Counter([1, 1, 2])}
dtypes = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in
          ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool "
           "uint16 uint32 uint64 float8_e4m3fn float8_e5m2").split()}
checkpoint = {"model": resnet.state_dict(), "optimizer": optimizer.state_dict(),
              "epoch": 3}
for fact, value in [("resnet", resnet.state_dict()), ("bert", bert.state_dict()),
                    ("nested", nested), ("dtypes", dtypes),
                    ("checkpoint", checkpoint), ("tensor", torch.ones(2, 2))]:
    for old in (False, True):
        for protocol in (2, 4) if fact == "nested" else (2,):
            out = io.BytesIO()
            torch.save(value, out, pickle_protocol=protocol,
                       _use_new_zipfile_serialization=not old)
            file = "pt/%s-%s-%d.pt" % (fact, "old" if old else "new", protocol)
            files[file] = out.getvalue()
            expect_value(file, "", value)

# the same on a big-endian machine: 32-bit elements swapped
value = {"a": torch.arange(6.).reshape(2, 3), "b": torch.tensor([1, 2 ** 20],
                                                               dtype=torch.int32)}
out = io.BytesIO()
torch.save(value, out)
swapped = io.BytesIO()
with zipfile.ZipFile(out) as source, zipfile.ZipFile(swapped, "w") as target:
    for name in source.namelist():
        data = source.read(name)
        if name.endswith("/byteorder"):
            data = b"big"
        if "/data/" in name:
            data = np.frombuffer(data, "<u4").byteswap().tobytes()
        target.writestr(zipfile.ZipInfo(name), data)
files["pt/big-new.pt"] = swapped.getvalue()
expect_value("pt/big-new.pt", "", value)
out = io.BytesIO()
torch.save(value, out, _use_new_zipfile_serialization=False)
data, ends, at = out.getvalue(), [], 0
for i in range(5):
    at += [position for _, _, position in pickletools.genops(data[at:])][-1] + 1
    ends.append(at)
keys = pickle.loads(data[ends[3]:ends[4]])
tail, at = b"", ends[4]
for key in keys:
    count, = struct.unpack_from("<q", data, at)
    tail += struct.pack(">q", count)
    tail += np.frombuffer(data, "<u4", count, at + 8).byteswap().tobytes()
    at += 8 + 4 * count
system = {"protocol_version": 1001, "little_endian": False}
files["pt/big-old.pt"] = (data[:ends[1]] + pickle.dumps(system, 2) +
                          data[ends[2]:ends[4]] + tail)
expect_value("pt/big-old.pt", "", value)

# ---- pickles that would run code --------------------------------------------------

COMMAND = "touch tenon-executed"


class Runs:
    def __init__(self, function, *arguments):
        self.value = function, arguments

    def __reduce__(self):
        return self.value


class Sets:
    def __setstate__(self, state):
        os.system(COMMAND)

    def __getstate__(self):
        return {"x": 1}


import operator
import subprocess

GLOBAL = b"\x80\x02c%s\n%s\n"
text = lambda s: b"X" + struct.pack("<I", len(s)) + s.encode()
bad = [
    ("system", pickle.dumps(Runs(os.system, COMMAND), 2), "posix.system"),
    ("eval", pickle.dumps(Runs(eval, "__import__('os').system('%s')" % COMMAND),
                          2), "__builtin__.eval"),
    ("exec", pickle.dumps(Runs(exec, "import os; os.system('%s')" % COMMAND), 4),
     "builtins.exec"),
    ("getattr", pickle.dumps(Runs(getattr, collections.OrderedDict, "fromkeys"),
                             2), "__builtin__.getattr"),
    ("attrgetter", pickle.dumps(operator.attrgetter("system"), 2),
     "operator.attrgetter"),
    ("popen", pickle.dumps(Runs(subprocess.Popen, COMMAND.split()), 2),
     "Popen, which is not in the table"),
    ("inst", b"(S'" + COMMAND.encode() + b"'\nios\nsystem\n.",
     "instruction STRING"),
    ("inst-plain", b"(ios\nsystem\n.", "instruction INST"),
    ("obj", b"\x80\x02(ccollections\nOrderedDict\no.", "instruction OBJ"),
    ("build", b"\x80\x02]}b.", "instruction BUILD"),
    ("setstate", pickle.dumps(Sets(), 2), "__main__.Sets"),
    ("setstate-new", pickle.dumps(Sets(), 4), "__main__.Sets"),
    ("stack-global", pickle.dumps(Runs(os.system, COMMAND), 4), "posix.system"),
    ("persistent", b"\x80\x02" + text("module") + b"\x85Q.",
     "persistent id that is no storage"),
    ("persistent-text", b"P" + COMMAND.encode() + b"\n.", "instruction PERSID"),
    ("hub", GLOBAL % (b"torch.hub", b"load") + text("x") + b"\x85R.",
     "torch.hub.load"),
    ("load", GLOBAL % (b"torch.serialization", b"load") + text("x") + b"\x85R.",
     "torch.serialization.load"),
    ("numpy", pickle.dumps(np.ones(2), 2), "_reconstruct"),
    ("ext", b"\x80\x02\x82\1.", "instruction EXT1"),
    ("newobj-ex", b"\x80\x04]]]\x92.", "instruction NEWOBJ_EX"),
    ("tensor-type", GLOBAL % (b"torch", b"Tensor") + b")R.",
     "a call of torch.Tensor"),
    ("new-function", GLOBAL % (b"torch._utils", b"_rebuild_tensor_v2") +
     b")\x81.", "_rebuild_tensor_v2.__new__"),
    ("codec", GLOBAL % (b"_codecs", b"encode") + text("x") + text("rot13") +
     b"\x86R.", "wrong arguments for _codecs.encode"),
    ("class", GLOBAL % (b"collections", b"OrderedDict") + b".",
     "no part of a tensor"),
    ("itself", b"\x80\x02]q\0h\0a.", "64 levels deep"),
    ("memo", b"\x80\x02]r\xff\xff\xff\x7f.", "index of the memo"),
    ("long", b"\x80\x02\x8b\xff\xff\xff\x7f.", "truncated"),
    ("many", b"\x80\x02" + b"N" * 5 + b".", "values are left"),
]
doubled = b"]q\0" + b"".join(b"0](h%ch%ceq%c" % (i, i, i + 1) for i in range(40))
bad.append(("doubled", b"\x80\x02" + doubled + b".", "bytes of memory"))
# many copies of one large dict
bad.append(("copies", b"\x80\x02}q\0(" + b"K\1N" * 2000 + b"u0" +
            b"ccollections\nCounter\nq\1" + b"0h\1h\0\x85R" * 500 + b".",
            "bytes of memory"))
for fact, data, part in bad:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x/data.pkl"), data)
    files["pt/bad-%s.pt" % fact] = out.getvalue()
    expect("pt/bad-%s.pt" % fact, part, "refused")
head = files["pt/tensor-old-2.pt"]
at = 0
for i in range(3):
    at += [position for _, _, position in pickletools.genops(head[at:])][-1] + 1
files["pt/bad-old.pt"] = head[:at] + pickle.dumps(Runs(os.system, COMMAND), 2)
expect("pt/bad-old.pt", "posix.system", "refused")

files["expected.txt"] = ("\n".join(lines) + "\n").encode()
with tarfile.open(sys.argv[1], "w:xz", preset=9) as pack:
    for name in sorted(files, key=lambda n: (os.path.splitext(n)[1], n)):
        info = tarfile.TarInfo(name)
        info.size = len(files[name])
        pack.addfile(info, io.BytesIO(files[name]))
print(len(files), "files,", os.path.getsize(sys.argv[1]), "bytes")
