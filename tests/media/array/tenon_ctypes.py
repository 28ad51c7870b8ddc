"""What the Python tests of arrays share: libtenon-media by ctypes."""
import ctypes
import os
import sys

build = os.environ["top_builddir"]
tn = ctypes.CDLL(os.path.join(build, ".libs", "libtenon.so"), ctypes.RTLD_GLOBAL)
# PyDLL: the GIL is held, as calls that touch Python objects need it
media = ctypes.PyDLL(os.path.join(build, ".libs", "libtenon-media.so"))

DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4,
          "float8_e4m3fn": 5, "float8_e5m2": 6, "int64": 7, "int32": 8,
          "int16": 9, "int8": 10, "uint8": 11, "bool": 12}
NAMES = {code: name for name, code in DTYPES.items()}
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2,
         "float8_e4m3fn": 1, "float8_e5m2": 1, "int64": 8, "int32": 4,
         "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


class Dims(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("dim", ctypes.c_int64 * 13)]


def dims(shape):
    return Dims(len(shape), (ctypes.c_int64 * 13)(*shape))


p = ctypes.c_void_p
for library, name, result, arguments in [
        (tn, "tn_error", ctypes.c_char_p, []),
        (tn, "tn_error_clear", None, []),
        (tn, "tn_options_init", ctypes.c_int32,
         [ctypes.c_char_p, p, ctypes.c_size_t]),
        (tn, "tn_keep", p, [p]),
        (tn, "tn_drop", None, [p]),
        (tn, "tn_scope_open", p, []),
        (tn, "tn_scope_close", None, [p]),
        (tn, "tn_tensor_from_array", p, [p, ctypes.c_uint32, Dims]),
        (tn, "tn_tensor_dtype", ctypes.c_uint32, [p]),
        (tn, "tn_tensor_ndim", ctypes.c_int, [p]),
        (tn, "tn_tensor_numel", ctypes.c_int64, [p]),
        (tn, "tn_tensor_shape", ctypes.POINTER(ctypes.c_int64), [p]),
        (tn, "tn_tensor_strides", ctypes.POINTER(ctypes.c_int64), [p]),
        (tn, "tn_tensor_data", p, [p]),
        (tn, "tn_tensor_is_contiguous", ctypes.c_bool, [p]),
        (tn, "tn_tensor_to_array", ctypes.c_int32, [p, p, ctypes.c_size_t]),
        (media, "tn_npy_load_with", p, [ctypes.c_char_p, p]),
        (media, "tn_npy_save_with", ctypes.c_int32, [ctypes.c_char_p, p, p]),
        (media, "tn_npz_open", p, [ctypes.c_char_p]),
        (media, "tn_npz_count", ctypes.c_int, [p]),
        (media, "tn_npz_name", ctypes.c_char_p, [p, ctypes.c_int]),
        (media, "tn_npz_tensor_with", p, [p, ctypes.c_char_p, p]),
        (media, "tn_npz_save_with", ctypes.c_int32,
         [ctypes.c_char_p, p, p, ctypes.c_int, p]),
        (media, "tn_torch_file_open", p, [ctypes.c_char_p]),
        (media, "tn_torch_file_count", ctypes.c_int, [p]),
        (media, "tn_torch_file_name", ctypes.c_char_p, [p, ctypes.c_int]),
        (media, "tn_torch_file_tensor", p, [p, ctypes.c_char_p]),
        (media, "tn_torch_file_value_count", ctypes.c_int, [p]),
        (media, "tn_torch_file_value_name", ctypes.c_char_p,
         [p, ctypes.c_int]),
        (media, "tn_torch_file_kind", ctypes.c_int, [p, ctypes.c_char_p]),
        (media, "tn_torch_file_length", ctypes.c_int64, [p, ctypes.c_char_p]),
        (media, "tn_torch_file_int", ctypes.c_int32, [p, ctypes.c_char_p, p]),
        (media, "tn_torch_file_real", ctypes.c_int32, [p, ctypes.c_char_p, p]),
        (media, "tn_torch_file_text", p, [p, ctypes.c_char_p]),
        (media, "tn_torch_file_is_alias", ctypes.c_bool,
         [p, ctypes.c_char_p, ctypes.c_char_p]),
        (media, "tn_dlpack_export_with", p, [p, p]),
        (media, "tn_dlpack_export_unversioned", p, [p]),
        (media, "tn_dlpack_import_with", p, [p, p]),
        (media, "tn_dlpack_import_unversioned", p, [p]),
        (media, "tn_dlpack_import_object", p, [p, p]),
        (media, "tn_dlpack_exchange_api", p, [p, p]),
        (media, "tn_safetensors_shards_save_with", ctypes.c_int32,
         [ctypes.c_char_p, p, p, ctypes.c_int, p]),
        (media, "tn_safetensors_shards_open", p, [ctypes.c_char_p]),
        (media, "tn_safetensors_shards_count", ctypes.c_int, [p]),
        (media, "tn_safetensors_shards_tensor", p, [p, ctypes.c_char_p])]:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments


class Failed(Exception):
    pass


def must(result):
    """Returns a result of Tenon, or raises its error."""
    error = tn.tn_error()
    if error is not None:
        tn.tn_error_clear()
        raise Failed(error.decode())
    return result


def options(call, **values):
    """A struct of options, made with its layout in the header: `given`, size,
    then the options with their C types."""
    layouts = {
        "npy_load": [("view", ctypes.c_uint32), ("mmap", ctypes.c_bool)],
        "npy_save": [("fortran_order", ctypes.c_bool),
                     ("version", ctypes.c_int)],
        "npz_tensor": [("view", ctypes.c_uint32)],
        "npz_save": [("compressed", ctypes.c_bool)],
        "dlpack_export": [("read_only", ctypes.c_bool)],
        "dlpack_import": [("copy", ctypes.c_bool)],
        "safetensors_shards_save": [("max_shard_bytes", ctypes.c_int64)]}

    class Options(ctypes.Structure):
        _fields_ = [("given", ctypes.c_char_p),
                    ("size", ctypes.c_size_t)] + layouts[call]

    o = Options()
    must(tn.tn_options_init(call.encode(), ctypes.byref(o), ctypes.sizeof(o)))
    for name, value in values.items():
        setattr(o, name, value)
    return ctypes.byref(o)


def shape_of(x):
    return tuple(tn.tn_tensor_shape(x)[:tn.tn_tensor_ndim(x)])


def bytes_of(x):
    """The elements in row-major order."""
    size = tn.tn_tensor_numel(x) * BYTES[NAMES[tn.tn_tensor_dtype(x)]]
    out = ctypes.create_string_buffer(max(size, 1))
    must(tn.tn_tensor_to_array(x, out, size))
    return out.raw[:size]


def tensor(data, dtype, shape):
    return must(tn.tn_tensor_from_array(data, DTYPES[dtype], dims(shape)))


count = failed = 0


def ok(holds, fact):
    global count, failed
    count += 1
    failed += not holds
    if not holds:
        print("# does not hold:", fact)


def refused(call, part, fact):
    try:
        call()
    except Failed as error:
        ok(part in str(error), "%s: %s" % (fact, error))
    else:
        ok(False, fact + " is refused")


def done():
    print("# %d checks" % count)
    sys.exit(failed != 0)
