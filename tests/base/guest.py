"""guest.py LIBRARY: uses libtenon through ctypes, in several threads."""
import ctypes
import sys
import threading

tn = ctypes.CDLL(sys.argv[1])


class Dims(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("dim", ctypes.c_int64 * 13)]


tn.tn_item.restype = ctypes.c_double
tn.tn_item.argtypes = [ctypes.c_void_p]
tn.tn_sum_with.restype = ctypes.c_void_p
tn.tn_sum_with.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
tn.tn_ones_with.restype = ctypes.c_void_p
tn.tn_ones_with.argtypes = [Dims, ctypes.c_void_p]
tn.tn_error.restype = ctypes.c_char_p


def compute(results, i):
    x = tn.tn_ones_with(Dims(2, (ctypes.c_int64 * 13)(30, 40)), None)
    results[i] = tn.tn_item(tn.tn_sum_with(x, None))


results = [0.0] * 5
threads = [threading.Thread(target=compute, args=(results, i)) for i in range(1, 5)]
for thread in threads:
    thread.start()
compute(results, 0)
for thread in threads:
    thread.join()
assert results == [1200.0] * 5, (results, tn.tn_error())
print("ok")
