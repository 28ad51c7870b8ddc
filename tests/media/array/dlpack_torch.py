"""dlpack_torch.py FOLDER: memory is shared with PyTorch by DLPack and by the C
exchange table."""
import ctypes

import torch

from dlpack_numpy import Exported, api, strides_of, taken
from tenon_ctypes import (NAMES, bytes_of, done, media, must, ok, refused,
                          shape_of, tn)

p = ctypes.c_void_p


def elements(t):
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(x, t, fact):
    ok("torch." + NAMES[tn.tn_tensor_dtype(x)] == str(t.dtype) and
       shape_of(x) == tuple(t.shape) and bytes_of(x) == elements(t), fact)
    if t.numel():
        ok(tn.tn_tensor_data(x) == t.data_ptr(), fact + ": one memory")


table = None
if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    table = api.PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__,
                                     b"dlpack_exchange_api")
else:
    print("# this PyTorch has no exchange table")

for name in NAMES.values():
    base = torch.arange(48).reshape(4, 6, 2).to(getattr(torch, name))
    for fact, t in [("all", base), ("transposed", base.transpose(0, 2)),
                    ("part", base[1:3, ::2, 1:]), ("0-d", base[0, 0, 1]),
                    ("empty", base[:0]), ("expanded",
                                          base[0, 0, 0].expand(3, 2))]:
        fact = "%s, %s" % (name, fact)
        x = taken(t)
        same(x, t, fact)
        back = torch.from_dlpack(Exported(x))
        ok(back.dtype == t.dtype and back.shape == t.shape and
           elements(back) == elements(t) and
           (not t.numel() or back.data_ptr() == t.data_ptr()), fact + ": back")
        tn.tn_drop(x)
        if table:
            x = must(media.tn_dlpack_import_object(table, id(t)))
            same(x, t, fact + ", by the table")
            tn.tn_drop(x)

# ---- our table -----------------------------------------------------------------


class Tensor:
    def __init__(self, x):
        self.x = tn.tn_keep(x)

    def __del__(self):
        tn.tn_drop(self.x)


made = []


@ctypes.CFUNCTYPE(p, p)
def tensor_of(address):
    return ctypes.cast(address, ctypes.py_object).value.x


@ctypes.CFUNCTYPE(p, p)
def object_of(x):
    made.append(Tensor(x))
    return id(made[-1])


class Table(ctypes.Structure):
    pass


Table._fields_ = [
    ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", p),
    ("allocator", p),
    ("from_object", ctypes.PYFUNCTYPE(ctypes.c_int, p, ctypes.POINTER(p))),
    ("to_object", ctypes.PYFUNCTYPE(ctypes.c_int, p, ctypes.POINTER(p))),
    ("describe", p),
    ("stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
                                 ctypes.POINTER(p)))]
ours_at = must(media.tn_dlpack_exchange_api(tensor_of, object_of))
ours = ctypes.cast(ours_at, ctypes.POINTER(Table)).contents
ok((ours.major, ours.minor) == (1, 3), "version 1.3")
t = torch.arange(6.)
managed = p()
x = taken(t)
mine = Tensor(x)
ok(ours.from_object(id(mine), ctypes.byref(managed)) == 0, "an object is lent")
object_at = p()
ok(ours.to_object(managed, ctypes.byref(object_at)) == 0 and
   object_at.value == id(made[0]), "and becomes another object")
same(made[0].x, t, "with the same memory")
stream = p(1)
ok(ours.stream(1, 0, ctypes.byref(stream)) == 0 and not stream.value,
   "the CPU has no stream")
x = must(media.tn_dlpack_import_object(ours_at, id(mine)))
same(x, t, "our table gives our tensors")


@ctypes.CFUNCTYPE(p, p)
def another(address):
    return None


refused(lambda: must(media.tn_dlpack_exchange_api(another, object_of)),
        "other conversion functions", "a second pair of conversions")
Tensor.__dlpack_c_exchange_api__ = api.PyCapsule_New(
    ours_at, b"dlpack_exchange_api", None)
done()
