"""dlpack_numpy.py FOLDER: memory is shared with NumPy by DLPack."""
import ctypes
import gc

import numpy as np

from tenon_ctypes import (NAMES, bytes_of, done, media, must, ok, options,
                          refused, shape_of, tensor, tn)

api = ctypes.pythonapi
p = ctypes.c_void_p
Destructor = ctypes.CFUNCTYPE(None, p)
for name, result, arguments in [
        ("PyCapsule_New", ctypes.py_object, [p, ctypes.c_char_p, p]),
        ("PyCapsule_GetPointer", p, [ctypes.py_object, ctypes.c_char_p]),
        ("PyCapsule_SetName", ctypes.c_int,
         [ctypes.py_object, ctypes.c_char_p])]:
    getattr(api, name).restype = result
    getattr(api, name).argtypes = arguments


class Exported:
    """Offers a tensor to from_dlpack."""

    def __init__(self, x, **values):
        self.x, self.values = x, values

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None, max_version=None, dl_device=None,
                   copy=None):
        if max_version and max_version[0] >= 1:
            lent = must(media.tn_dlpack_export_with(
                self.x, options("dlpack_export", **self.values)))
            return api.PyCapsule_New(lent, b"dltensor_versioned", None)
        lent = must(media.tn_dlpack_export_unversioned(self.x))
        return api.PyCapsule_New(lent, b"dltensor", None)


def taken(array, versioned=True, **values):
    """A tensor that shares the memory of an array."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    capsule = (array.__dlpack__(max_version=(1, 3)) if versioned
               else array.__dlpack__())
    managed = api.PyCapsule_GetPointer(capsule, name)
    x = must(media.tn_dlpack_import_with(
        managed, options("dlpack_import", **values)) if versioned
             else media.tn_dlpack_import_unversioned(managed))
    api.PyCapsule_SetName(capsule, b"used_" + name)
    return x


def strides_of(x):
    return tuple(tn.tn_tensor_strides(x)[:tn.tn_tensor_ndim(x)])


def same(x, a, fact):
    ok(NAMES[tn.tn_tensor_dtype(x)] == a.dtype.name and
       shape_of(x) == a.shape and bytes_of(x) == a.tobytes(), fact)
    if a.size:
        ok(tn.tn_tensor_data(x) == a.ctypes.data, fact + ": one memory")
        ok(all(s * a.itemsize == t for s, t, n in
               zip(strides_of(x), a.strides, a.shape) if n > 1),
           fact + ": strides")


if __name__ == "__main__":
    for name in NAMES.values():
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            continue # NumPy does not have them
        base = np.arange(48).reshape(4, 6, 2).astype(name)
        for fact, a in [("all", base), ("transposed", base.T),
                        ("part", base[1:3, ::2, 1:]), ("0-d", base[0, 0, 0:1]
                        .reshape(())), ("empty", base[:0]),
                        ("expanded", np.broadcast_to(base[0, 0, 0], (3, 2)))]:
            fact = "%s, %s" % (name, fact)
            for versioned in (True, False):
                if not a.flags.writeable:
                    if versioned:
                        refused(lambda: taken(a), "read-only", fact)
                        x = taken(a, copy=True)
                        ok(bytes_of(x) == a.tobytes(), fact + ": copy")
                        tn.tn_drop(x)
                    continue
                x = taken(a, versioned)
                same(x, a, fact)
                back = np.from_dlpack(Exported(x))
                ok(back.dtype == a.dtype and back.shape == a.shape and
                   (back == a).all() and
                   (not a.size or back.ctypes.data == a.ctypes.data),
                   fact + ": back")
                tn.tn_drop(x)
                if a.size:
                    ok((back == a).all(), fact + ": it outlives the tensor")
    # a read-only export is a read-only array
    x = tensor(np.arange(4, dtype="int32").tobytes(), "int32", (4,))
    ok(not np.from_dlpack(Exported(x, read_only=True)).flags.writeable,
       "a read-only export")
    a = np.from_dlpack(Exported(x))
    a[2] = 7
    ok(bytes_of(x) == np.array([0, 1, 7, 3], "int32").tobytes(),
       "what NumPy writes is seen")
    refused(lambda: taken(np.arange(4)[::-1]), "negative", "negative strides")
    refused(lambda: taken(np.arange(4, dtype="uint16")), "uint",
            "a dtype that Tenon does not have")
    # lifetimes: the array goes when the last view does
    class Watched(np.ndarray):
        alive = 0

        def __del__(self):
            Watched.alive -= 1

    Watched.alive += 1
    a = np.arange(6.).view(Watched)
    x = taken(a)
    y = np.from_dlpack(Exported(x))
    del a
    tn.tn_drop(x)
    gc.collect()
    ok(Watched.alive == 1 and y[5] == 5, "NumPy's memory lives")
    del y
    gc.collect()
    ok(Watched.alive == 0, "NumPy's memory is freed with its last user")
    done()
