/* pickle_call.c: the names to which a pickle of torch.save may refer, and the
 * value that each makes from its arguments.
 *
 * Source: torch/_utils.py and torch/serialization.py of PyTorch 2.15. */
#include <media/array/pickle.h>

#include <media/array/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- dtypes --------------------------------------------------------------- */

static const tn__torch_dtype dtypes[] = {
    {"float64", "DoubleStorage", 8, TN_F64, TN__ARRAY_AS_IS},
    {"float32", "FloatStorage", 4, TN_F32, TN__ARRAY_AS_IS},
    {"float16", "HalfStorage", 2, TN_F16, TN__ARRAY_AS_IS},
    {"bfloat16", "BFloat16Storage", 2, TN_BF16, TN__ARRAY_AS_IS},
    {"int64", "LongStorage", 8, TN_I64, TN__ARRAY_AS_IS},
    {"int32", "IntStorage", 4, TN_I32, TN__ARRAY_AS_IS},
    {"int16", "ShortStorage", 2, TN_I16, TN__ARRAY_AS_IS},
    {"int8", "CharStorage", 1, TN_I8, TN__ARRAY_AS_IS},
    {"uint8", "ByteStorage", 1, TN_U8, TN__ARRAY_AS_IS},
    {"bool", "BoolStorage", 1, TN_BOOL, TN__ARRAY_AS_IS},
    {"uint16", NULL, 2, TN_I32, TN__ARRAY_U16},
    {"uint32", NULL, 4, TN_I64, TN__ARRAY_U32},
    {"uint64", NULL, 8, TN_I64, TN__ARRAY_U64},
    {"float8_e4m3fn", NULL, 1, TN_F8E4M3, TN__ARRAY_AS_IS},
    {"float8_e5m2", NULL, 1, TN_F8E5M2, TN__ARRAY_AS_IS},
    {"float8_e4m3fnuz", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"float8_e5m2fnuz", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"float8_e8m0fnu", NULL, 1, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"complex32", NULL, 4, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"complex64", "ComplexFloatStorage", 8, TN_DTYPE_NONE, TN__ARRAY_AS_IS},
    {"complex128", "ComplexDoubleStorage", 16, TN_DTYPE_NONE,
     TN__ARRAY_AS_IS},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes, DTYPE_UINT8 = 8 };

/* ---- the table ------------------------------------------------------------ */

typedef tn__pickle_value *maker(tn__pickle *pickle,
                                const tn__pickle_value *arguments);
static maker make_dict, make_counter, make_set, make_size, make_device,
    make_bytes, make_tensor, make_tensor_of_dtype, make_parameter,
    make_from_type;

typedef struct tn__pickle_name {
    const char *module, *name;
    maker *make;    /* NULL for a name that is never called */
    bool is_class;  /* NEWOBJ may make it */
    const tn__torch_dtype *dtype; /* of a dtype or a storage class */
} name;

static const name names[] = {
    {"collections", "OrderedDict", make_dict, true, NULL},
    {"collections", "Counter", make_counter, false, NULL},
    {"builtins", "set", make_set, false, NULL},
    {"__builtin__", "set", make_set, false, NULL},
    {"builtins", "frozenset", make_set, false, NULL},
    {"__builtin__", "frozenset", make_set, false, NULL},
    {"_codecs", "encode", make_bytes, false, NULL},
    {"torch", "Size", make_size, true, NULL},
    {"torch", "device", make_device, false, NULL},
    {"torch", "Tensor", NULL, false, NULL},
    {"torch.nn.parameter", "Parameter", NULL, false, NULL},
    {"torch.nn.parameter", "Buffer", NULL, false, NULL},
    {"torch._utils", "_rebuild_tensor", make_tensor, false, NULL},
    {"torch._utils", "_rebuild_tensor_v2", make_tensor, false, NULL},
    {"torch._utils", "_rebuild_tensor_v3", make_tensor_of_dtype, false, NULL},
    {"torch._utils", "_rebuild_parameter", make_parameter, false, NULL},
    {"torch._utils", "_rebuild_parameter_with_state", make_parameter, false,
     NULL},
    {"torch._tensor", "_rebuild_from_type_v2", make_from_type, false, NULL},
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
        dtype_names[i] = (name){.module = "torch",
                                .name = dtypes[i].name,
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
    static const char *const text[] = {
        "torch.float64", "torch.float32", "torch.float16", "torch.bfloat16",
        "torch.int64", "torch.int32", "torch.int16", "torch.int8",
        "torch.uint8", "torch.bool", "torch.uint16", "torch.uint32",
        "torch.uint64", "torch.float8_e4m3fn", "torch.float8_e5m2",
        "torch.float8_e4m3fnuz", "torch.float8_e5m2fnuz",
        "torch.float8_e8m0fnu", "torch.complex32", "torch.complex64",
        "torch.complex128"};
    _Static_assert(sizeof text / sizeof *text == DTYPE_COUNT, "a text each");
    return n >= dtype_names && n < dtype_names + DTYPE_COUNT
               ? text[n - dtype_names]
               : NULL;
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

/* ---- arguments ------------------------------------------------------------ */

static tn__pickle_value *mistaken(tn__pickle *pickle, const char *called)
{
    return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                           "the pickle is malformed: wrong arguments for %s",
                           called);
}

static const tn__pickle_value *argument(const tn__pickle_value *arguments,
                                        size_t i, tn__pickle_kind kind)
{
    return i < arguments->count && arguments->item[i]->kind == kind
               ? arguments->item[i]
               : NULL;
}

static bool is_list(const tn__pickle_value *value)
{
    return value->kind == TN__PICKLE_LIST || value->kind == TN__PICKLE_TUPLE;
}

/* Copies a list, so that changes of one are not seen in the other. */
static tn__pickle_value *copy_items(tn__pickle *pickle, tn__pickle_kind kind,
                                    const tn__pickle_value *from)
{
    tn__pickle_value *value = tn__pickle_new(pickle, kind);
    if (!value || !from->count)
        return value;
    value->item = tn__pickle_alloc(pickle, from->count, sizeof *value->item);
    if (!value->item)
        return NULL;
    memcpy(value->item, from->item, from->count * sizeof *value->item);
    value->count = value->room = from->count;
    return value;
}

/* ---- containers and texts ------------------------------------------------- */

/* OrderedDict(), or OrderedDict([(key, value), ...]) of Python 2. */
static tn__pickle_value *make_dict(tn__pickle *pickle,
                                   const tn__pickle_value *arguments)
{
    const tn__pickle_value *pairs = argument(arguments, 0, TN__PICKLE_LIST);
    tn__pickle_value *dict = tn__pickle_new(pickle, TN__PICKLE_DICT);
    if (arguments->count > 1 || (arguments->count && !pairs))
        return mistaken(pickle, "OrderedDict");
    if (!dict)
        return NULL;
    dict->attributes = true;
    if (!pairs || !pairs->count)
        return dict;
    dict->item = tn__pickle_alloc(pickle, pairs->count, 2 * sizeof *dict->item);
    for (size_t i = 0; dict->item && i < pairs->count; i++) {
        const tn__pickle_value *pair = pairs->item[i];
        if (!is_list(pair) || pair->count != 2)
            return mistaken(pickle, "OrderedDict");
        dict->item[dict->count++] = pair->item[0];
        dict->item[dict->count++] = pair->item[1];
    }
    dict->room = dict->count;
    return dict->item ? dict : NULL;
}

static tn__pickle_value *make_counter(tn__pickle *pickle,
                                      const tn__pickle_value *arguments)
{
    const tn__pickle_value *dict = argument(arguments, 0, TN__PICKLE_DICT);
    if (arguments->count != 1 || !dict)
        return mistaken(pickle, "Counter");
    return copy_items(pickle, TN__PICKLE_DICT, dict);
}

static tn__pickle_value *make_set(tn__pickle *pickle,
                                  const tn__pickle_value *arguments)
{
    if (arguments->count != 1 || !is_list(arguments->item[0]))
        return mistaken(pickle, "set");
    return copy_items(pickle, TN__PICKLE_LIST, arguments->item[0]);
}

static tn__pickle_value *make_size(tn__pickle *pickle,
                                   const tn__pickle_value *arguments)
{
    if (arguments->count != 1 || !is_list(arguments->item[0]))
        return mistaken(pickle, "torch.Size");
    return copy_items(pickle, TN__PICKLE_TUPLE, arguments->item[0]);
}

/* torch.device("cuda", 0) becomes the string "cuda:0". */
static tn__pickle_value *make_device(tn__pickle *pickle,
                                     const tn__pickle_value *arguments)
{
    const tn__pickle_value *kind = argument(arguments, 0, TN__PICKLE_TEXT);
    const tn__pickle_value *index = argument(arguments, 1, TN__PICKLE_INT);
    char text[64];
    if (!kind || kind->bytes > 32 || arguments->count > 2 ||
        (arguments->count == 2 && !index))
        return mistaken(pickle, "torch.device");
    int bytes = index ? snprintf(text, sizeof text, "%s:%lld", kind->text,
                                 (long long)index->integer)
                      : snprintf(text, sizeof text, "%s", kind->text);
    return tn__pickle_new_text(pickle, TN__PICKLE_TEXT, text, (size_t)bytes);
}

/* _codecs.encode(text, "latin1"): how protocol 2 stores bytes. */
static tn__pickle_value *make_bytes(tn__pickle *pickle,
                                    const tn__pickle_value *arguments)
{
    const tn__pickle_value *text = argument(arguments, 0, TN__PICKLE_TEXT);
    const tn__pickle_value *codec = argument(arguments, 1, TN__PICKLE_TEXT);
    if (!text || !codec || arguments->count != 2 ||
        strcmp(codec->text, "latin1") != 0)
        return mistaken(pickle, "_codecs.encode");
    tn__pickle_value *value =
        tn__pickle_new_text(pickle, TN__PICKLE_BYTES, text->text, text->bytes);
    if (!value)
        return NULL;
    const uint8_t *p = (const uint8_t *)text->text, *end = p + text->bytes;
    char *out = (char *)(uintptr_t)value->text; /* memory of the new value */
    size_t n = 0;
    while (p < end) {
        if (*p < 0x80) {
            out[n++] = (char)*p++;
        } else if ((*p & 0xfc) == 0xc0 && end - p >= 2) {
            out[n++] = (char)((*p & 3) << 6 | (p[1] & 0x3f));
            p += 2;
        } else {
            return mistaken(pickle, "_codecs.encode");
        }
    }
    out[n] = 0;
    value->bytes = n;
    return value;
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
        tuple ? argument(id, 0, TN__PICKLE_TEXT) : NULL;
    if (!kind || strcmp(kind->text, "storage") != 0)
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "the pickle has a persistent id that is no "
                               "storage");
    const tn__pickle_value *class = argument(id, 1, TN__PICKLE_NAME);
    const tn__pickle_value *key = argument(id, 2, TN__PICKLE_TEXT);
    const tn__pickle_value *numel = argument(id, 4, TN__PICKLE_INT);
    if (!class || class->name < storages ||
        class->name > storages + DTYPE_COUNT || !key || !numel ||
        numel->integer < 0 || numel->integer > INT64_MAX / 16 ||
        !tn__array_is_utf8(key->text, key->bytes) || key->bytes > 255 ||
        memchr(key->text, '\n', key->bytes))
        return mistaken(pickle, "a storage");
    tn__torch_storage *s =
        storage_of(pickle, key->text, class->name->dtype,
                   (uint64_t)numel->integer);
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_STORAGE);
    if (!s || !value)
        return NULL;
    value->whole = s;
    value->view_numel = s->numel;
    const tn__pickle_value *view = argument(id, 5, TN__PICKLE_TUPLE);
    if (!view)
        return value;
    const tn__pickle_value *offset = argument(view, 1, TN__PICKLE_INT);
    const tn__pickle_value *size = argument(view, 2, TN__PICKLE_INT);
    if (!offset || !size || offset->integer < 0 || size->integer < 0 ||
        (uint64_t)offset->integer > s->numel ||
        (uint64_t)size->integer > s->numel - (uint64_t)offset->integer)
        return mistaken(pickle, "a view of a storage");
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
    const tn__pickle_value *storage = argument(arguments, 0,
                                               TN__PICKLE_STORAGE);
    const tn__pickle_value *offset = argument(arguments, 1, TN__PICKLE_INT);
    const tn__pickle_value *shape = argument(arguments, 2, TN__PICKLE_TUPLE);
    const tn__pickle_value *stride = argument(arguments, 3, TN__PICKLE_TUPLE);
    if (!storage || !offset || offset->integer < 0 || !shape || !stride ||
        shape->count != stride->count)
        return mistaken(pickle, "a tensor");
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
        return mistaken(pickle, "a tensor");
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
    const tn__pickle_value *metadata = argument(arguments, i, TN__PICKLE_DICT);
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
    const tn__pickle_value *hooks = argument(arguments, 5, TN__PICKLE_DICT);
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
    const tn__pickle_value *dtype = argument(arguments, 6, TN__PICKLE_NAME);
    if (!dtype || !tn__pickle_name_text(dtype->name))
        return mistaken(pickle, "_rebuild_tensor_v3");
    return has_metadata(pickle, arguments, 7)
               ? NULL
               : tensor_of(pickle, arguments, dtype->name->dtype);
}

/* _rebuild_parameter(data, requires_grad, hooks, [state]) */
static tn__pickle_value *make_parameter(tn__pickle *pickle,
                                        const tn__pickle_value *arguments)
{
    const tn__pickle_value *data = argument(arguments, 0, TN__PICKLE_TENSOR);
    if (!data)
        return mistaken(pickle, "_rebuild_parameter");
    return arguments->item[0];
}

/* _rebuild_from_type_v2(function, type, arguments, state): a tensor or parameter
 * with attributes of Python, which are dropped. */
static tn__pickle_value *make_from_type(tn__pickle *pickle,
                                        const tn__pickle_value *arguments)
{
    const tn__pickle_value *function = argument(arguments, 0, TN__PICKLE_NAME);
    const tn__pickle_value *type = argument(arguments, 1, TN__PICKLE_NAME);
    const tn__pickle_value *inner = argument(arguments, 2, TN__PICKLE_TUPLE);
    if (!function || !type || !inner || type->name->make ||
        type->name->dtype ||
        (function->name->make != make_tensor &&
         function->name->make != make_tensor_of_dtype &&
         function->name->make != make_parameter))
        return mistaken(pickle, "_rebuild_from_type_v2");
    return function->name->make(pickle, inner);
}
