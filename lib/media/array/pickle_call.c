/* pickle_call.c: the table of names to which a pickle of torch.save may refer,
 * and the functions that make a value from the arguments of a call of such a
 * name.
 *
 * Source: torch/_utils.py and torch/serialization.py of PyTorch 2.15. */
#include <media/array/pickle_make.h>

#include <media/array/text.h>
#include <stdlib.h>
#include <string.h>

/* ---- dtypes --------------------------------------------------------------- */

static const tn__torch_dtype dtypes[] = {
    {"torch.float64", "DoubleStorage", 8, TN_F64, TN__ARRAY_AS_IS},
    {"torch.float32", "FloatStorage", 4, TN_F32, TN__ARRAY_AS_IS},
    {"torch.float16", "HalfStorage", 2, TN_F16, TN__ARRAY_AS_IS},
    {"torch.bfloat16", "BFloat16Storage", 2, TN_BF16, TN__ARRAY_AS_IS},
    {"torch.int64", "LongStorage", 8, TN_I64, TN__ARRAY_AS_IS},
    {"torch.int32", "IntStorage", 4, TN_I32, TN__ARRAY_AS_IS},
    {"torch.int16", "ShortStorage", 2, TN_I16, TN__ARRAY_AS_IS},
    {"torch.int8", "CharStorage", 1, TN_I8, TN__ARRAY_AS_IS},
    {"torch.uint8", "ByteStorage", 1, TN_U8, TN__ARRAY_AS_IS},
    {"torch.bool", "BoolStorage", 1, TN_BOOL, TN__ARRAY_AS_IS},
    {"torch.uint16", NULL, 2, TN_I32, TN__ARRAY_U16},
    {"torch.uint32", NULL, 4, TN_I64, TN__ARRAY_U32},
    {"torch.uint64", NULL, 8, TN_I64, TN__ARRAY_U64},
    {"torch.float8_e4m3fn", NULL, 1, TN_F8E4M3, TN__ARRAY_AS_IS},
    {"torch.float8_e5m2", NULL, 1, TN_F8E5M2, TN__ARRAY_AS_IS},
    {"torch.float8_e4m3fnuz", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"torch.float8_e5m2fnuz", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"torch.float8_e8m0fnu", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"torch.complex32", NULL, 4, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"torch.complex64", "ComplexFloatStorage", 8, TN_DTYPE_NONE,
     TN__ARRAY_AS_IS},
    {"torch.complex128", "ComplexDoubleStorage", 16, TN_DTYPE_NONE,
     TN__ARRAY_AS_IS},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes, DTYPE_UINT8 = 8 };

/* ---- the table ------------------------------------------------------------ */

static tn__pickle_maker make_tensor, make_tensor_of_dtype, make_parameter,
    make_moved, make_from_type;

typedef struct tn__pickle_name {
    const char *module, *name;
    tn__pickle_maker *make; /* NULL for a name that is never called */
    bool is_class;          /* NEWOBJ may make it */
    const char *text;       /* of a dtype, which is a value of the tree */
    const tn__torch_dtype *dtype; /* of a dtype or a storage class */
} name;

/* The names that torch.load(weights_only=True) allows, except those whose
 * values Tenon does not support. NumPy's scalars, collections.defaultdict and
 * frozenset are added, because they are data, too. Pickles of protocol 2 use
 * the old name of the module builtins, __builtin__. */
#define BUILTIN(name, make)                                                   \
    {"builtins", name, make, false, NULL, NULL},                              \
    {"__builtin__", name, make, false, NULL, NULL}
#define DTYPE(name) {"torch", name, NULL, false, "torch." name, NULL}
static const name names[] = {
    {"collections", "OrderedDict", tn__pickle_make_dict, true, NULL, NULL},
    {"collections", "defaultdict", tn__pickle_make_default_dict, false, NULL,
     NULL},
    {"collections", "Counter", tn__pickle_make_counter, false, NULL, NULL},
    BUILTIN("set", tn__pickle_make_set),
    BUILTIN("frozenset", tn__pickle_make_set),
    BUILTIN("bytes", tn__pickle_make_bytes),
    BUILTIN("bytearray", tn__pickle_make_bytes),
    BUILTIN("complex", tn__pickle_make_complex),
    /* types that may be the default factory of a defaultdict */
    BUILTIN("list", NULL),
    BUILTIN("dict", NULL),
    BUILTIN("tuple", NULL),
    BUILTIN("int", NULL),
    BUILTIN("float", NULL),
    BUILTIN("bool", NULL),
    BUILTIN("str", NULL),
    {"_codecs", "encode", tn__pickle_make_encoded, false, NULL, NULL},
    {"numpy", "dtype", tn__pickle_make_numpy_dtype, false, NULL, NULL},
    {"numpy.core.multiarray", "scalar", tn__pickle_make_numpy_scalar, false,
     NULL, NULL},
    {"numpy._core.multiarray", "scalar", tn__pickle_make_numpy_scalar, false,
     NULL, NULL},
    {"torch", "Size", tn__pickle_make_size, true, NULL, NULL},
    {"torch", "device", tn__pickle_make_device, false, NULL, NULL},
    {"torch.serialization", "_get_layout", tn__pickle_make_layout, false, NULL,
     NULL},
    {"torch", "Tensor", NULL, false, NULL, NULL},
    {"torch.nn.parameter", "Parameter", NULL, false, NULL, NULL},
    {"torch.nn.parameter", "Buffer", NULL, false, NULL, NULL},
    {"torch._utils", "_rebuild_tensor", make_tensor, false, NULL, NULL},
    {"torch._utils", "_rebuild_tensor_v2", make_tensor, false, NULL, NULL},
    {"torch._utils", "_rebuild_tensor_v3", make_tensor_of_dtype, false, NULL,
     NULL},
    {"torch._utils", "_rebuild_parameter", make_parameter, false, NULL, NULL},
    {"torch._utils", "_rebuild_parameter_with_state", make_parameter, false,
     NULL, NULL},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", make_moved,
     false, NULL, NULL},
    {"torch._tensor", "_rebuild_from_type_v2", make_from_type, false, NULL,
     NULL},
    /* dtypes that a pickle may name, but whose tensors are not read */
    DTYPE("qint8"), DTYPE("qint32"), DTYPE("quint8"), DTYPE("quint4x2"),
    DTYPE("quint2x4"), DTYPE("bits1x8"), DTYPE("bits2x4"), DTYPE("bits4x2"),
    DTYPE("bits8"), DTYPE("bits16"), DTYPE("float4_e2m1fn_x2"),
    DTYPE("bcomplex32"), DTYPE("uint1"), DTYPE("uint2"), DTYPE("uint3"),
    DTYPE("uint4"), DTYPE("uint5"), DTYPE("uint6"), DTYPE("uint7"),
    DTYPE("int1"), DTYPE("int2"), DTYPE("int3"), DTYPE("int4"), DTYPE("int5"),
    DTYPE("int6"), DTYPE("int7"),
};

/* Storage classes and dtypes are names of their own. Element i is of dtypes[i];
 * the last storage has no dtype: its elements are bytes. */
static name storages[DTYPE_COUNT + 1];
static name dtype_names[DTYPE_COUNT];

__attribute__((constructor)) static void fill_names(void)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        storages[i] = (name){.module = "torch",
                             .name = dtypes[i].storage,
                             .dtype = &dtypes[i]};
        /* the name without "torch." */
        dtype_names[i] = (name){.module = "torch",
                                .name = dtypes[i].name + sizeof "torch",
                                .text = dtypes[i].name,
                                .dtype = &dtypes[i]};
    }
    storages[DTYPE_COUNT] = (name){.module = "torch.storage",
                                   .name = "UntypedStorage",
                                   .dtype = &dtypes[DTYPE_UINT8]};
}

static bool is_text(const char *text, size_t bytes, const char *want)
{
    return want && strlen(want) == bytes && memcmp(text, want, bytes) == 0;
}

static const name *find(const name *rows, int count, const char *module,
                        size_t module_bytes, const char *text, size_t bytes)
{
    for (int i = 0; i < count; i++)
        if (is_text(text, bytes, rows[i].name) &&
            (!module || is_text(module, module_bytes, rows[i].module)))
            return &rows[i];
    return NULL;
}

/* Copies a name of a file for a message: printable ASCII, cut. */
static void show(char *out, size_t room, const char *text, size_t bytes)
{
    size_t n = 0;
    for (; n < bytes && n + 1 < room; n++)
        out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    out[n] = 0;
}

tn__pickle_value *tn__pickle_find(tn__pickle *pickle, const char *module,
                                  size_t module_bytes, const char *text,
                                  size_t bytes)
{
    const name *found = find(names, sizeof names / sizeof *names, module,
                             module_bytes, text, bytes);
    /* Storages have been in several modules (torch.cuda.FloatStorage). */
    const bool in_torch = is_text(module, module_bytes, "torch");
    if (!found && (in_torch || is_text(module, module_bytes, "torch.cuda") ||
                   is_text(module, module_bytes, "torch.storage")))
        found = find(storages, DTYPE_COUNT + 1, NULL, 0, text, bytes);
    if (!found && in_torch)
        found = find(dtype_names, DTYPE_COUNT, NULL, 0, text, bytes);
    if (!found) {
        char m[100], n[100];
        show(m, sizeof m, module, module_bytes);
        show(n, sizeof n, text, bytes);
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "it refers to %s.%s, which is not in the table "
                               "of names that Tenon reads: save "
                               "model.state_dict() in a file of its own", m,
                               n);
    }
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_NAME);
    if (value)
        value->name = found;
    return value;
}

const char *tn__pickle_name_text(const name *n)
{
    return n->text;
}

tn__pickle_value *tn__pickle_call(tn__pickle *pickle,
                                  const tn__pickle_value *called,
                                  const tn__pickle_value *arguments,
                                  bool with_new)
{
    if (called->kind != TN__PICKLE_NAME ||
        arguments->kind != TN__PICKLE_TUPLE)
        return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                               "the pickle is malformed: it calls an object "
                               "that is not a name");
    const name *n = called->name;
    if (!n->make || (with_new && !n->is_class))
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "a call of %s.%s%s", n->module, n->name,
                               with_new ? ".__new__" : "");
    return n->make(pickle, arguments);
}

/* ---- storages ------------------------------------------------------------- */

static size_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

static bool grow_buckets(tn__pickle *pickle)
{
    const size_t count = pickle->bucket_count ? 4 * pickle->bucket_count : 64;
    tn__torch_storage **bucket = calloc(count, sizeof *bucket);
    if (!bucket)
        return tn__array_no_memory(pickle->call), false;
    for (size_t i = 0; i < pickle->bucket_count; i++)
        for (tn__torch_storage *s = pickle->bucket[i], *next; s; s = next) {
            tn__torch_storage **to = &bucket[hash(s->key) % count];
            next = s->next;
            s->next = *to;
            *to = s;
        }
    free(pickle->bucket);
    pickle->bucket = bucket;
    pickle->bucket_count = count;
    return true;
}

tn__torch_storage *tn__pickle_storage(tn__pickle *pickle, const char *key)
{
    tn__torch_storage *s =
        pickle->bucket_count ? pickle->bucket[hash(key) % pickle->bucket_count]
                             : NULL;
    while (s && strcmp(s->key, key) != 0)
        s = s->next;
    return s;
}

static tn__torch_storage *storage_of(tn__pickle *pickle, const char *key,
                                     const tn__torch_dtype *dtype,
                                     uint64_t numel)
{
    tn__torch_storage *s = tn__pickle_storage(pickle, key);
    if (s)
        return s->dtype == dtype && s->numel == numel
                   ? s
                   : tn__pickle_fail(pickle, TN_ERR_FORMAT,
                                     "storage \"%.40s\" has two dtypes or "
                                     "sizes", key);
    if (pickle->storage_count >= pickle->bucket_count && !grow_buckets(pickle))
        return NULL;
    s = tn__pickle_alloc(pickle, 1, sizeof *s);
    if (!s)
        return NULL;
    tn__torch_storage **to = &pickle->bucket[hash(key) % pickle->bucket_count];
    *s = (tn__torch_storage){
        .key = key, .dtype = dtype, .numel = numel, .next = *to};
    *to = s;
    pickle->storage_count++;
    return s;
}

/* ('storage', class, key, location, numel), and in the old format a sixth item:
 * None or (key of the view, offset, numel). */
tn__pickle_value *tn__pickle_persistent(tn__pickle *pickle,
                                        const tn__pickle_value *id)
{
    const bool tuple = id->kind == TN__PICKLE_TUPLE;
    const tn__pickle_value *kind =
        tuple ? tn__pickle_argument(id, 0, TN__PICKLE_TEXT) : NULL;
    if (!kind || strcmp(kind->text, "storage") != 0)
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "the pickle has a persistent id that is no storage");
    const tn__pickle_value *class = tn__pickle_argument(id, 1, TN__PICKLE_NAME);
    const tn__pickle_value *key = tn__pickle_argument(id, 2, TN__PICKLE_TEXT);
    const tn__pickle_value *numel = tn__pickle_argument(id, 4, TN__PICKLE_INT);
    if (!class || class->name < storages ||
        class->name > storages + DTYPE_COUNT || !key || !numel ||
        numel->integer < 0 || numel->integer > INT64_MAX / 16 ||
        !tn__array_is_utf8(key->text, key->bytes) || key->bytes > 255 ||
        memchr(key->text, '\n', key->bytes))
        return tn__pickle_mistaken(pickle, "a storage");
    tn__torch_storage *s =
        storage_of(pickle, key->text, class->name->dtype,
                   (uint64_t)numel->integer);
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_STORAGE);
    if (!s || !value)
        return NULL;
    value->whole = s;
    value->view_numel = s->numel;
    const tn__pickle_value *view = tn__pickle_argument(id, 5, TN__PICKLE_TUPLE);
    if (!view)
        return value;
    const tn__pickle_value *offset =
        tn__pickle_argument(view, 1, TN__PICKLE_INT);
    const tn__pickle_value *size = tn__pickle_argument(view, 2, TN__PICKLE_INT);
    if (!offset || !size || offset->integer < 0 || size->integer < 0 ||
        (uint64_t)offset->integer > s->numel ||
        (uint64_t)size->integer > s->numel - (uint64_t)offset->integer)
        return tn__pickle_mistaken(pickle, "a view of a storage");
    value->view_offset = (uint64_t)offset->integer;
    value->view_numel = (uint64_t)size->integer;
    return value;
}

/* ---- tensors -------------------------------------------------------------- */

/* Stores a tuple of sizes or strides. */
static bool sizes(const tn__pickle_value *tuple, int64_t *out)
{
    for (size_t i = 0; i < tuple->count; i++) {
        if (tuple->item[i]->kind != TN__PICKLE_INT ||
            tuple->item[i]->integer < 0)
            return false;
        out[i] = tuple->item[i]->integer;
    }
    return true;
}

/* Checks that the last element is inside the storage. room is the number of
 * bytes after the offset. */
static bool fits(const tn__torch_tensor *t, uint64_t room)
{
    int64_t last = 0;
    uint64_t bytes;
    if (!t->numel)
        return true;
    for (int d = 0; d < t->ndim; d++) {
        int64_t step;
        if (__builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return !__builtin_mul_overflow((uint64_t)last + 1, t->dtype->item,
                                   &bytes) &&
           bytes <= room;
}

static tn__pickle_value *tensor_of(tn__pickle *pickle,
                                   const tn__pickle_value *arguments,
                                   const tn__torch_dtype *dtype)
{
    const tn__pickle_value *storage = tn__pickle_argument(arguments, 0,
                                               TN__PICKLE_STORAGE);
    const tn__pickle_value *offset =
        tn__pickle_argument(arguments, 1, TN__PICKLE_INT);
    const tn__pickle_value *shape =
        tn__pickle_argument(arguments, 2, TN__PICKLE_TUPLE);
    const tn__pickle_value *stride =
        tn__pickle_argument(arguments, 3, TN__PICKLE_TUPLE);
    if (!storage || !offset || offset->integer < 0 || !shape || !stride ||
        shape->count != stride->count)
        return tn__pickle_mistaken(pickle, "a tensor");
    if (shape->count > TN_MAX_NDIM)
        return tn__pickle_fail(pickle, TN_ERR_SHAPE,
                               "a tensor of %zu dimensions; Tenon's have at "
                               "most %d", shape->count, TN_MAX_NDIM);
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_TENSOR);
    tn__torch_tensor *t = value ? tn__pickle_alloc(pickle, 1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    const tn__torch_storage *s = storage->whole;
    *t = (tn__torch_tensor){.storage = storage->whole,
                            .dtype = dtype ? dtype : s->dtype,
                            .ndim = (int)shape->count};
    const uint64_t item = t->dtype->item;
    const uint64_t view = storage->view_numel * s->dtype->item;
    if (!sizes(shape, t->shape) || !sizes(stride, t->stride) ||
        !tn__array_numel(t->shape, t->ndim, &t->numel))
        return tn__pickle_mistaken(pickle, "a tensor");
    if (__builtin_mul_overflow((uint64_t)offset->integer, item, &t->offset) ||
        (t->numel && t->offset > view) ||
        !fits(t, t->offset > view ? 0 : view - t->offset))
        return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                               "a tensor is larger than its storage");
    t->offset += storage->view_offset * s->dtype->item;
    value->tensor = t;
    return value;
}

/* Rejects metadata, such as {"neg": True}: a tensor whose elements are stored
 * with the opposite sign. */
static bool has_metadata(tn__pickle *pickle, const tn__pickle_value *arguments,
                         size_t i)
{
    const tn__pickle_value *metadata =
        tn__pickle_argument(arguments, i, TN__PICKLE_DICT);
    if (metadata && metadata->count)
        tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                        "a tensor has metadata, such as the negative bit: save "
                        "x.resolve_conj().resolve_neg()");
    return metadata && metadata->count;
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks,
 * [metadata]): hooks are functions, so there must be none. The tensor requires
 * no gradient here. */
static tn__pickle_value *make_tensor(tn__pickle *pickle,
                                     const tn__pickle_value *arguments)
{
    const tn__pickle_value *hooks =
        tn__pickle_argument(arguments, 5, TN__PICKLE_DICT);
    if (hooks && hooks->count)
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "a tensor has backward hooks, which are not "
                               "supported");
    return has_metadata(pickle, arguments, 6)
               ? NULL
               : tensor_of(pickle, arguments, NULL);
}

/* _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype,
 * [metadata]) is for dtypes without a storage class. */
static tn__pickle_value *
make_tensor_of_dtype(tn__pickle *pickle, const tn__pickle_value *arguments)
{
    const tn__pickle_value *dtype =
        tn__pickle_argument(arguments, 6, TN__PICKLE_NAME);
    if (!dtype || !dtype->name->text)
        return tn__pickle_mistaken(pickle, "_rebuild_tensor_v3");
    if (!dtype->name->dtype)
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED, "a tensor of %s",
                               dtype->name->text);
    return has_metadata(pickle, arguments, 7)
               ? NULL
               : tensor_of(pickle, arguments, dtype->name->dtype);
}

/* _rebuild_parameter(data, requires_grad, hooks, [state]) */
static tn__pickle_value *make_parameter(tn__pickle *pickle,
                                        const tn__pickle_value *arguments)
{
    const tn__pickle_value *data =
        tn__pickle_argument(arguments, 0, TN__PICKLE_TENSOR);
    if (!data)
        return tn__pickle_mistaken(pickle, "_rebuild_parameter");
    return arguments->item[0];
}

/* _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad): a
 * tensor of a device whose storages are not saved. */
static tn__pickle_value *make_moved(tn__pickle *pickle,
                                    const tn__pickle_value *arguments)
{
    const tn__pickle_value *data =
        tn__pickle_argument(arguments, 0, TN__PICKLE_TENSOR);
    const tn__pickle_value *dtype =
        tn__pickle_argument(arguments, 1, TN__PICKLE_NAME);
    if (!data || !dtype || dtype->name->dtype != data->tensor->dtype)
        return tn__pickle_mistaken(pickle,
                                   "_rebuild_device_tensor_from_cpu_tensor");
    return arguments->item[0];
}

/* _rebuild_from_type_v2(function, type, arguments, state): a tensor or parameter
 * with attributes of Python, which are dropped. */
static tn__pickle_value *make_from_type(tn__pickle *pickle,
                                        const tn__pickle_value *arguments)
{
    const tn__pickle_value *function =
        tn__pickle_argument(arguments, 0, TN__PICKLE_NAME);
    const tn__pickle_value *type =
        tn__pickle_argument(arguments, 1, TN__PICKLE_NAME);
    const tn__pickle_value *inner =
        tn__pickle_argument(arguments, 2, TN__PICKLE_TUPLE);
    if (!function || !type || !inner || type->name->make ||
        type->name->dtype ||
        (function->name->make != make_tensor &&
         function->name->make != make_tensor_of_dtype &&
         function->name->make != make_parameter))
        return tn__pickle_mistaken(pickle, "_rebuild_from_type_v2");
    return function->name->make(pickle, inner);
}
