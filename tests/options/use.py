"""Passes options from another language, by ctypes with structs written by hand."""
import ctypes
import sys

tenon = ctypes.CDLL(sys.argv[1])


class Dims(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("dim", ctypes.c_int64 * 13)]


class Sum(ctypes.Structure):
    _fields_ = [("given", ctypes.c_char_p), ("size", ctypes.c_size_t),
                ("dim", ctypes.c_int64), ("dims", Dims),
                ("keepdim", ctypes.c_bool), ("dtype", ctypes.c_uint32)]


class Newer(ctypes.Structure):
    _fields_ = Sum._fields_ + [("more", ctypes.c_int64)]


tenon.tn_tensor_from_array.restype = ctypes.c_void_p
tenon.tn_tensor_from_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, Dims]
tenon.tn_sum_with.restype = ctypes.c_void_p
tenon.tn_sum_with.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
tenon.tn_select.restype = ctypes.c_void_p
tenon.tn_select.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
tenon.tn_item.restype = ctypes.c_double
tenon.tn_item.argtypes = [ctypes.c_void_p]
tenon.tn_error.restype = ctypes.c_char_p
tenon.tn_options_init.argtypes = [ctypes.c_char_p, ctypes.c_void_p,
                                  ctypes.c_size_t]

F32 = 1
shape = Dims(2)
shape.dim[0], shape.dim[1] = 2, 2
x = tenon.tn_tensor_from_array((ctypes.c_float * 4)(1, 2, 3, 4), F32, shape)

o = Sum()
assert not tenon.tn_sum_with(x, ctypes.byref(o)), "zeros are taken"
assert b"not initialised" in tenon.tn_error(), tenon.tn_error()
tenon.tn_error_clear()

assert tenon.tn_options_init(b"sum", ctypes.byref(o), ctypes.sizeof(o)) == 0
assert tenon.tn_item(tenon.tn_sum_with(x, ctypes.byref(o))) == 10
o.dim = 0
y = tenon.tn_sum_with(x, ctypes.byref(o))
assert tenon.tn_item(tenon.tn_select(y, 0, 0)) == 4

o.dim = -2**63
o.dims.count, o.dims.dim[0], o.dims.dim[1] = 2, 0, 1
assert not tenon.tn_sum_with(x, ctypes.byref(o)), "a list without its mark"
assert b"tn_dims" in tenon.tn_error(), tenon.tn_error()
tenon.tn_error_clear()
o.dims.dim[12] = 0x736d6964  # TN_DIMS_MARK
assert tenon.tn_item(tenon.tn_sum_with(x, ctypes.byref(o))) == 10

newer = Newer()
assert tenon.tn_options_init(b"sum", ctypes.byref(newer),
                             ctypes.sizeof(newer)) < 0
tenon.tn_error_clear()
assert tenon.tn_options_init(b"sum", ctypes.byref(newer),
                             ctypes.sizeof(o)) == 0
newer.size = ctypes.sizeof(newer)
assert not tenon.tn_sum_with(x, ctypes.byref(newer))
assert b"older than the header" in tenon.tn_error(), tenon.tn_error()
