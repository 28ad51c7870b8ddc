/* tensor.c: reads TensorProto. The data is raw bytes, numbers in typed fields,
 * or in a separate external file. */
#include <onnx/reader/reader.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { /* fields of TensorProto */
    DIMS = 1, DATA_TYPE = 2, SEGMENT = 3, FLOAT_DATA = 4, INT32_DATA = 5,
    STRING_DATA = 6, INT64_DATA = 7, NAME = 8, RAW_DATA = 9, DOUBLE_DATA = 10,
    UINT64_DATA = 11, EXTERNAL_DATA = 13, DATA_LOCATION = 14
};

static bool wrong(const tn__onnx_reader *r, const tn__onnx_tensor *t,
                  tn_status code, const char *what)
{
    tn_error_refuse_argument(code, r->call, "path", "%s: tensor \"%.80s\": %s",
                             r->path, t->name, what);
    return false;
}

/* ---- the description ----------------------------------------------------- */

static bool read_number(const char *text, int64_t *out)
{
    char *end;
    const long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && value >= 0;
}

static bool read_external(tn__onnx_reader *r, tn__onnx_span entry,
                          tn__onnx_tensor *t)
{
    const char *key = NULL, *value = NULL;
    tn__onnx_item item;
    int found;
    while ((found = tn__onnx_next(&entry, &item)) > 0) {
        const char **out = item.field == 1 ? &key : &value;
        if (item.field <= 2 && !(*out = tn__onnx_text(r, &item)))
            return false;
    }
    if (found < 0 || !key || !value)
        return wrong(r, t, TN_ERR_FORMAT,
                     "its description of external data is malformed");
    if (strcmp(key, "location") == 0)
        t->location = value;
    else if (strcmp(key, "offset") == 0 ? !read_number(value, &t->offset)
                                        : strcmp(key, "length") == 0 &&
                                              !read_number(value, &t->length))
        return wrong(r, t, TN_ERR_FORMAT,
                     "the offset or length of its external data is not a "
                     "number");
    return true;
}

static bool read_dims(tn__onnx_reader *r, tn__onnx_tensor *t)
{
    tn__onnx_list list = {.message = t->message, .field = DIMS,
                          .width = TN__WIRE_VARINT};
    uint64_t dim;
    int found;
    t->numel = 1;
    while ((found = tn__onnx_list_next(&list, &dim)) > 0) {
        if (t->ndim == TN_MAX_NDIM)
            return wrong(r, t, TN_ERR_UNSUPPORTED,
                         "it has more than 12 dimensions");
        if (dim > INT64_MAX ||
            __builtin_mul_overflow(t->numel, (int64_t)dim, &t->numel))
            return wrong(r, t, TN_ERR_FORMAT, "its size overflows");
        t->dim[t->ndim++] = (int64_t)dim;
    }
    return found == 0 ||
           wrong(r, t, TN_ERR_FORMAT, "its dimensions are malformed");
}

bool tn__onnx_tensor_read(tn__onnx_reader *r, tn__onnx_span message,
                          tn__onnx_tensor *t)
{
    *t = (tn__onnx_tensor){.name = "", .message = message, .length = -1};
    tn__onnx_item item;
    int found;
    tn__onnx_span s = message;
    while ((found = tn__onnx_next(&s, &item)) > 0) {
        if (item.field == NAME && !(t->name = tn__onnx_text(r, &item)))
            return false;
        if (item.field == DATA_TYPE)
            t->type = item.number > INT32_MAX ? 0 : (int)item.number;
        if (item.field == SEGMENT)
            return wrong(r, t, TN_ERR_UNSUPPORTED,
                         "tensors in segments are not supported");
        if (item.field == RAW_DATA) {
            if (item.wire != TN__WIRE_BYTES)
                return wrong(r, t, TN_ERR_FORMAT, "its raw data is malformed");
            t->has_raw = true;
            t->raw = item.bytes;
        }
        if (item.field == DATA_LOCATION)
            t->is_external = item.number == 1;
        if (item.field == EXTERNAL_DATA &&
            (item.wire != TN__WIRE_BYTES || !read_external(r, item.bytes, t)))
            return tn_error() != NULL
                       ? false
                       : wrong(r, t, TN_ERR_FORMAT,
                               "its description of external data is malformed");
    }
    if (found < 0)
        return wrong(r, t, TN_ERR_FORMAT, "the file is truncated or damaged");
    if (!read_dims(r, t))
        return false;
    const tn__onnx_type type = tn__onnx_type_of(t->type);
    if (!type.dtype) {
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, r->call, "path",
            "%s: tensor \"%.80s\": element type %s (%d) is not supported",
            r->path, t->name, type.name, t->type);
        return false;
    }
    /* the size of the tensor in memory, in bits, must not overflow either */
    int64_t bits;
    if (__builtin_mul_overflow(t->numel, (int64_t)64, &bits))
        return wrong(r, t, TN_ERR_FORMAT, "its size overflows");
    return true;
}

int64_t tn__onnx_tensor_bytes(const tn__onnx_tensor *t)
{
    return t->numel * (int64_t)tn_dtype_bytes(tn__onnx_type_of(t->type).dtype);
}

/* ---- data ---------------------------------------------------------------- */

/* Finds the external data file, which must be in the folder of the model. */
static bool find_external(tn__onnx_reader *r, const tn__onnx_tensor *t,
                          tn__onnx_span *out)
{
    const char *name = t->location;
    if (!name || !*name || strchr(name, '/') || strcmp(name, "..") == 0 ||
        strcmp(name, ".") == 0) {
        /* accepts "./weights.bin", but no other folder */
        if (name && strncmp(name, "./", 2) == 0 && name[2] &&
            !strchr(name + 2, '/') && strcmp(name + 2, "..") != 0)
            name += 2;
        else
            return wrong(r, t, TN_ERR_FORMAT,
                         "its external data must be a file in the folder of "
                         "the model");
    }
    int i = 0;
    while (i < r->external_count && strcmp(r->external[i].name, name) != 0)
        i++;
    if (i == TN__ONNX_MAX_EXTERNAL)
        return wrong(r, t, TN_ERR_UNSUPPORTED,
                     "the model has more than 64 external data files");
    if (i == r->external_count) {
        const char *slash = strrchr(r->path, '/');
        char folder[4096] = ".";
        if (slash)
            snprintf(folder, sizeof folder, "%.*s",
                     slash == r->path ? 1 : (int)(slash - r->path), r->path);
        if (slash && slash - r->path >= (int)sizeof folder)
            return wrong(r, t, TN_ERR_IO, "the path of the model is too long");
        const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return wrong(r, t, TN_ERR_IO, "the folder cannot be opened");
        const bool fine = tn__onnx_file_open(&r->external[i].file, fd, name,
                                             false, r->call);
        close(fd);
        if (!fine)
            return false;
        r->external[i].name = name;
        r->external_count++;
    }
    const tn__onnx_file *file = &r->external[i].file;
    const uint64_t at = (uint64_t)t->offset;
    if (at > file->bytes ||
        (t->length >= 0 && (uint64_t)t->length > file->bytes - at))
        return wrong(r, t, TN_ERR_FORMAT,
                     "its external data ends after the end of the file");
    const uint8_t *p = file->memory ? file->memory + at : NULL;
    const size_t bytes =
        t->length >= 0 ? (size_t)t->length : file->bytes - (size_t)at;
    *out = (tn__onnx_span){p, p ? p + bytes : NULL};
    return true;
}

/* Returns the field that has the data of a type, and the wire type of its
 * elements. */
static int data_field(int type, int *width)
{
    *width = TN__WIRE_VARINT;
    switch (type) {
    case TN__ONNX_FLOAT:
        *width = TN__WIRE_32;
        return FLOAT_DATA;
    case TN__ONNX_DOUBLE:
        *width = TN__WIRE_64;
        return DOUBLE_DATA;
    case TN__ONNX_INT64:
        return INT64_DATA;
    case TN__ONNX_UINT32:
    case TN__ONNX_UINT64:
        return UINT64_DATA;
    default:
        return INT32_DATA;
    }
}

/* Converts `bits`, the bits of an element in the file, to element i of
 * `out`. */
static bool store(const tn__onnx_type *type, void *out, int64_t i,
                  uint64_t bits)
{
    if (type->narrow == 64 && bits > INT64_MAX)
        return false;
    if (type->dtype == TN_BOOL)
        bits = bits != 0;
    if (type->narrow && type->narrow < 64)
        bits &= ((uint64_t)1 << type->narrow) - 1;
    const size_t bytes = tn_dtype_bytes(type->dtype);
    memcpy((char *)out + (size_t)i * bytes, &bits, bytes);
    return true;
}

/* Returns 4-bit element i, extended to 8 bits. */
static uint64_t nibble(const uint8_t *p, int64_t i, bool is_signed)
{
    const int low = p[i / 2] >> (i % 2 ? 4 : 0) & 15;
    return (uint64_t)(is_signed && low > 7 ? low - 16 : low) & 255;
}

static const char above[] = "a uint64 number is above 2^63 - 1";

static bool convert_raw(const tn__onnx_reader *r, const tn__onnx_tensor *t,
                        const tn__onnx_type *type, const uint8_t *p, void *out)
{
    const int bytes = type->bits / 8;
    for (int64_t i = 0; i < t->numel; i++) {
        uint64_t bits = 0;
        if (type->bits == 4)
            bits = nibble(p, i, t->type == TN__ONNX_INT4);
        else
            memcpy(&bits, p + i * bytes, (size_t)bytes);
        if (!store(type, out, i, bits))
            return wrong(r, t, TN_ERR_UNSUPPORTED, above);
    }
    return true;
}

static bool convert_typed(const tn__onnx_reader *r, const tn__onnx_tensor *t,
                          const tn__onnx_type *type, void *out)
{
    tn__onnx_list list = {.message = t->message};
    list.field = (uint32_t)data_field(t->type, &list.width);
    int64_t count = 0;
    uint64_t bits;
    int found;
    const int each = type->bits == 4 ? 2 : 1; /* elements that one number in the
                                                 file holds */
    while ((found = tn__onnx_list_next(&list, &bits)) > 0) {
        const uint8_t pair = (uint8_t)bits;
        for (int j = 0; j < each && count < t->numel; j++, count++) {
            if (each == 2)
                bits = nibble(&pair, j, t->type == TN__ONNX_INT4);
            if (!store(type, out, count, bits))
                return wrong(r, t, TN_ERR_UNSUPPORTED, above);
        }
    }
    return (found == 0 && count == t->numel) ||
           wrong(r, t, TN_ERR_FORMAT,
                 "its data does not have as many elements as its shape");
}

/* Returns whether the data in the file has the same bytes as in memory. */
static bool is_plain(const tn__onnx_tensor *t, const tn__onnx_type *type,
                     tn__onnx_span raw)
{
    if (type->bits != (int)tn_dtype_bytes(type->dtype) * 8 ||
        type->narrow == 64)
        return false;
    for (int64_t i = 0; type->dtype == TN_BOOL && i < t->numel; i++)
        if (raw.p[i] > 1)
            return false;
    return true;
}

/* Counts the elements in typed fields. This comes before allocation, so that
 * the size of the file limits the memory. */
static bool has_elements(const tn__onnx_tensor *t, const tn__onnx_type *type)
{
    tn__onnx_list list = {.message = t->message};
    list.field = (uint32_t)data_field(t->type, &list.width);
    const int64_t wanted = type->bits == 4 ? t->numel / 2 + t->numel % 2
                                           : t->numel;
    uint64_t bits;
    for (int64_t i = 0; i < wanted; i++)
        if (tn__onnx_list_next(&list, &bits) <= 0)
            return false;
    return tn__onnx_list_next(&list, &bits) == 0;
}

enum {
    /* Smaller tensors are copied, so that their rows begin at cache lines. */
    IN_PLACE_BYTES = 1 << 20,
    CHUNK_BYTES = 1 << 22
};

/* Makes a tensor from data that has the same bytes as in memory. */
static tn_tensor *make_plain(const tn__onnx_reader *r, tn__onnx_span data,
                             tn_dtype dtype, tn_dims_list shape)
{
    tn_device *device = tn_device_current();
    const size_t bytes = tn__onnx_span_bytes(data);
    /* Decides by the name, as lm_open does: trying tn_tensor_wrap could cause
     * an error, which would reach the program's error handler. */
    const bool is_host =
        device && strncmp(tn_device_name(device), "cpu", 3) == 0;
    if (!is_host || bytes < IN_PLACE_BYTES) {
        tn_tensor *x = tn_tensor_from_array(data.p, dtype, shape);
        tn__onnx_reader_copied(r, data);
        return x;
    }
    if (r->maps && (uintptr_t)data.p % tn_dtype_bytes(dtype) == 0)
        return tn__onnx_reader_wrap(r, data, dtype, shape);
    /* copies in chunks, so that few pages of the file are in memory at once */
    tn_tensor *x = tn_empty(shape, .dtype = dtype);
    char *out = x ? tn_tensor_data(x) : NULL;
    for (size_t at = 0, n; at < bytes && out; at += n) {
        n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        memcpy(out + at, data.p + at, n);
        tn__onnx_reader_copied(
            r, (tn__onnx_span){data.p + at, data.p + at + n});
    }
    return x;
}

tn_tensor *tn__onnx_tensor_make(tn__onnx_reader *r, const tn__onnx_tensor *t)
{
    const tn__onnx_type type = tn__onnx_type_of(t->type);
    const tn_dims_list shape = tn_dims_from_array(t->dim, t->ndim);
    const bool raw = t->is_external || t->has_raw;
    tn__onnx_span data = t->raw;
    if (t->is_external && !find_external(r, t, &data))
        return NULL;
    const uint64_t wanted =
        ((uint64_t)t->numel * (uint64_t)type.bits + 7) / 8;
    if (raw ? tn__onnx_span_bytes(data) != wanted : !has_elements(t, &type)) {
        wrong(r, t, TN_ERR_FORMAT,
              "its data does not have as many elements as its shape");
        return NULL;
    }
    if (t->numel == 0)
        return tn_empty(shape, .dtype = type.dtype);
    if (raw && is_plain(t, &type, data))
        return make_plain(r, data, type.dtype, shape);
    void *memory = malloc((size_t)tn__onnx_tensor_bytes(t));
    if (!memory) {
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", r->call);
        return NULL;
    }
    const bool fine = raw ? convert_raw(r, t, &type, data.p, memory)
                          : convert_typed(r, t, &type, memory);
    tn_tensor *x =
        fine ? tn_tensor_from_array(memory, type.dtype, shape) : NULL;
    free(memory);
    return x;
}

static const char load_call[] = "onnx_tensor_load";

tn_tensor *tn_onnx_tensor_load(const char *path)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, load_call, "path",
                                 "path is NULL");
        return NULL;
    }
    tn__onnx_arena arena = {0};
    tn__onnx_reader r = {.call = load_call, .path = path, .arena = &arena};
    tn__onnx_tensor t;
    tn_tensor *x = NULL;
    if (tn__onnx_file_open(&r.file, AT_FDCWD, path, true, load_call)) {
        const tn__onnx_span all = {r.file.memory,
                                   r.file.memory ? r.file.memory + r.file.bytes
                                                 : NULL};
        if (tn__onnx_tensor_read(&r, all, &t))
            x = tn__onnx_tensor_make(&r, &t);
    }
    tn__onnx_reader_close(&r);
    tn__onnx_arena_free(&arena);
    return x;
}
