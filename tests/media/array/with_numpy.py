"""with_numpy.py FOLDER: .npy and .npz files of NumPy are read, and ours by NumPy.

ml_dtypes is used if it is installed."""
import io
import os
import sys
import zipfile

import numpy as np
from numpy.lib import format as npy

from tenon_ctypes import (DTYPES, NAMES, Failed, bytes_of, done, media, must, ok,
                          options, refused, shape_of, tensor, tn)

folder = sys.argv[1]
path = os.path.join(folder, "x.npy")
random = np.random.default_rng(7)
WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4), (1, 1, 1, 1)]


def array(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    info = np.iinfo(dtype)
    top = min(info.max, 2 ** 63 - 1)
    return np.asarray(random.integers(info.min, top, shape, dtype=dtype,
                                      endpoint=True))


def same(x, a, fact):
    want = a.astype(WIDER.get(a.dtype.name, a.dtype.newbyteorder("=")))
    ok(NAMES[tn.tn_tensor_dtype(x)] == want.dtype.name and
       shape_of(x) == a.shape and bytes_of(x) == want.tobytes(), fact)


# ---- written by NumPy --------------------------------------------------------

for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
             "uint32", "uint64", "float16", "float32", "float64"):
    for order in "<>":
        for shape in SHAPES:
            for layout in "CF":
                for version in ((1, 0), (2, 0), (3, 0)):
                    a = np.asarray(array(name, shape).astype(
                        np.dtype(name).newbyteorder(order)), order=layout)
                    with open(path, "wb") as file:
                        npy.write_array(file, a, version=version)
                    fact = "%s %s%s %s %s" % (name, order, shape, layout,
                                              version)
                    same(must(media.tn_npy_load_with(path.encode(), None)), a,
                         fact)
                    mapped = lambda: must(media.tn_npy_load_with(
                        path.encode(), options("npy_load", mmap=True)))
                    swapped = order == ">" and a.dtype.itemsize > 1
                    if a.size and (name in WIDER or swapped):
                        refused(mapped, "cannot be mapped", fact + " mapped")
                    else:
                        same(mapped(), a, fact + " mapped")
np.save(path, np.array([1, 2 ** 63], dtype="uint64"))
refused(lambda: must(media.tn_npy_load_with(path.encode(), None)),
        "element 1 is 9223372036854775808", "a large uint64")
for a, part in [(np.array(["a"]), "text"), (np.array([b"a"]), "byte strings"),
                (np.array([1j]), "complex"),
                (np.array([None]), "Python objects"),
                (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
                (np.array([1], dtype="m8[s]"), "timedelta64"),
                (np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]), "structured"),
                (np.zeros(2, dtype="V2"), ".view = TN_BF16"),
                (np.zeros(2, dtype=np.longdouble), "longdouble")]:
    np.save(path, a)
    refused(lambda: must(media.tn_npy_load_with(path.encode(), None)), part,
            a.dtype.str)
with open(path, "wb") as file:
    np.save(file, np.arange(3))
    np.save(file, np.arange(3))
refused(lambda: must(media.tn_npy_load_with(path.encode(), None)),
        "several arrays", "two arrays in one file")

# ---- read by NumPy -----------------------------------------------------------

for name in DTYPES:
    raw = {"bfloat16": "V2", "float8_e4m3fn": "V1", "float8_e5m2": "V1"}
    for shape in SHAPES:
        for fortran in (False, True):
            for version in (1, 2, 3):
                kind = raw.get(name, name)
                a = (np.frombuffer(random.bytes(int(np.prod(shape)) *
                                                np.dtype(kind).itemsize),
                                   dtype=kind).reshape(shape)
                     if name in raw else array(name, shape))
                x = tensor(a.tobytes(), name, shape)
                must(media.tn_npy_save_with(path.encode(), x, options(
                    "npy_save", fortran_order=fortran, version=version)))
                fact = "%s %s %s %d" % (name, shape, fortran, version)
                with open(path, "rb") as file:
                    ok(npy.read_magic(file) == (version, 0), fact)
                back = np.load(path, allow_pickle=False)
                ok(back.dtype == a.dtype and back.shape == a.shape and
                   back.tobytes() == a.tobytes(), fact)
                if len(shape) > 1 and a.size > max(shape):
                    ok(back.flags.f_contiguous == fortran, fact + " order")
                if name in raw:
                    y = must(media.tn_npy_load_with(path.encode(), options(
                        "npy_load", view=DTYPES[name])))
                    ok(bytes_of(y) == a.tobytes(), fact + " back")

try:
    import ml_dtypes
except ImportError:
    print("# ml_dtypes is not installed: its arrays are not compared")
else:
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        a = np.arange(12).reshape(3, 4).astype(getattr(ml_dtypes, name))
        np.save(path, a)
        view = {} if name == "float8_e5m2" else {"view": DTYPES[name]}
        x = must(media.tn_npy_load_with(path.encode(),
                                        options("npy_load", **view)))
        ok(NAMES[tn.tn_tensor_dtype(x)] == name and
           bytes_of(x) == a.tobytes(), "ml_dtypes " + name)
        must(media.tn_npy_save_with(path.encode(), x, None))
        back = np.load(path).view(getattr(ml_dtypes, name))
        ok((back == a).all(), "ml_dtypes reads " + name)

# ---- npz ---------------------------------------------------------------------

path = os.path.join(folder, "x.npz")


def check_npz(arrays, fact):
    file = must(media.tn_npz_open(path.encode()))
    names = [media.tn_npz_name(file, i).decode()
             for i in range(media.tn_npz_count(file))]
    ok(sorted(names) == sorted(arrays), fact + ": names")
    for name, a in arrays.items():
        same(must(media.tn_npz_tensor_with(file, name.encode(), None)), a,
             fact + ": " + name)
    tn.tn_drop(file)


arrays = {"x": array("float32", (30, 40)), "folder/y": array("int64", ()),
          "zähler": array("bool", (0, 3)), "zeros": np.zeros((100, 100)),
          "f": np.asfortranarray(array("float16", (5, 6))),
          "big": array("int32", (3,)).astype(">i4")}
np.savez(path, **arrays)
check_npz(arrays, "savez")
np.savez_compressed(path, **arrays)
check_npz(arrays, "savez_compressed")


class Stream(io.RawIOBase):
    """A file that cannot seek: zipfile writes data descriptors then."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    for zip64 in (False, True):
        with open(path, "wb") as target, \
                zipfile.ZipFile(Stream(target), "w", compression) as archive:
            archive.comment = b"PK\5\6 a comment"
            for name, a in arrays.items():
                with archive.open(name + ".npy", "w",
                                  force_zip64=zip64) as member:
                    npy.write_array(member, a)
        check_npz(arrays, "stream %d %s" % (compression, zip64))
for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", b"x" * 100)
    refused(lambda: must(media.tn_npz_open(path.encode())), "compression",
            "compression %d" % compression)

import ctypes

for compressed in (False, True):
    plain = {name: a for name, a in arrays.items() if name != "big"}
    tensors = [tensor(np.ascontiguousarray(a).tobytes(), a.dtype.name, a.shape)
               for a in plain.values()]
    names = (ctypes.c_char_p * len(plain))(*[n.encode() for n in plain])
    must(media.tn_npz_save_with(
        path.encode(), names, (ctypes.c_void_p * len(plain))(*tensors),
        len(plain), options("npz_save", compressed=compressed)))
    with zipfile.ZipFile(path) as archive:
        ok(archive.testzip() is None, "CRCs are right")
        ok({m.compress_type for m in archive.infolist()} ==
           {zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED},
           "compression")
    with np.load(path) as file:
        ok(sorted(file.files) == sorted(plain), "names")
        for name, a in plain.items():
            ok(file[name].dtype == a.dtype and file[name].shape == a.shape and
               file[name].tobytes() == a.tobytes(), "NumPy reads " + name)
    check_npz(plain, "our npz")

# More members than the end record of a zip archive can count: zip64.
many = 65536 + 3
x = tensor(b"\7", "uint8", ())
names = (ctypes.c_char_p * many)(*[b"%d" % i for i in range(many)])
must(media.tn_npz_save_with(path.encode(), names,
                            (ctypes.c_void_p * many)(*([x] * many)), many,
                            None))
with np.load(path) as file:
    ok(len(file.files) == many and file[str(many - 1)] == 7, "zip64")
file = must(media.tn_npz_open(path.encode()))
ok(media.tn_npz_count(file) == many, "our zip64")
ok(bytes_of(must(media.tn_npz_tensor_with(file, b"65538", None))) == b"\7",
   "the last member")
done()
