/* safetensors.c: files of named tensors: mapped when read, replaced when
 * written. The header's checks are in safetensors_header.c. */
#include <io/safetensors.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <device/device.h>
#include <inttypes.h>
#include <io/file.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/tensor.h>

/* The format's own bound on the header. */
enum { MOST_HEADER_BYTES = 100 * 1000 * 1000 };

struct tn_safetensors {
    tn__object object;
    char *path;  /* owned */
    void *map;   /* owned: the whole file; NULL of a part */
    size_t map_bytes;
    struct tn_safetensors *whole; /* of a part: one reference */
    char *data;  /* within map: after the header */
    tn__safetensors_header header;
};

static void destroy(tn__object *object)
{
    tn_safetensors *file = (tn_safetensors *)object;
    tn__safetensors_release(&file->header);
    tn__file_unmap(file->map, file->map_bytes);
    tn__unref(file->whole);
    tn__free(file->path);
    tn__object_free(file, sizeof *file);
}

static const tn__class safetensors_class = {.name = "safetensors file",
                                            .destroy = destroy};

static tn_status read_header(tn_safetensors *file)
{
    tn_status status = tn__file_map(file->path, "safetensors_open", &file->map,
                                    &file->map_bytes);
    if (status < 0)
        return status;
    if (file->map_bytes < 8)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: %zu bytes are no safetensors file",
            file->path, file->map_bytes);
    const unsigned char *bytes = file->map;
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > MOST_HEADER_BYTES || length > file->map_bytes - 8)
        return tn__fail(TN_ERR_FORMAT,
                        "safetensors_open: {path:}%s: a header of %" PRIu64
                        " bytes in a file of %zu",
                        file->path, length, file->map_bytes);
    file->data = (char *)file->map + 8 + length;
    return tn__safetensors_parse(&file->header, (char *)file->map + 8,
                                 (size_t)length,
                                 file->map_bytes - 8 - length, file->path);
}

tn_safetensors *tn_safetensors_open(const char *path)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "safetensors_open: {path} is NULL");
    tn_safetensors *file = tn__calloc(1, sizeof *file);
    if (!file)
        return NULL;
    tn__object_init(&file->object, &safetensors_class);
    file->path = tn__strdup(path);
    if (!file->path || read_header(file) < 0) {
        tn__unref(file);
        return NULL;
    }
    return tn__scope_own(file);
}

tn_safetensors *tn_safetensors_part(tn_safetensors *file, const char *prefix)
{
    if (!tn__object_check(file, &safetensors_class, "safetensors_part",
                          "file"))
        return NULL;
    if (!prefix)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "safetensors_part: {prefix} is NULL");
    tn_safetensors *part = tn__calloc(1, sizeof *part);
    if (!part)
        return NULL;
    tn__object_init(&part->object, &safetensors_class);
    part->whole = tn__ref(file);
    part->data = file->data;
    part->path = tn__strdup(file->path);
    if (!part->path ||
        tn__safetensors_select(&part->header, &file->header, prefix) < 0) {
        tn__unref(part);
        return NULL;
    }
    return tn__scope_own(part);
}

/* For attributes: NULL is no error. */
static bool is_file(const tn_safetensors *file, const char *call)
{
    return tn__object_has(file, &safetensors_class, call, "file");
}

const char *tn_safetensors_path(const tn_safetensors *file)
{
    return is_file(file, "safetensors_path") ? file->path : NULL;
}

int tn_safetensors_count(const tn_safetensors *file)
{
    return is_file(file, "safetensors_count") ? (int)file->header.count : 0;
}

const char *tn_safetensors_name(const tn_safetensors *file, int i)
{
    if (!is_file(file, "safetensors_name") || i < 0 ||
        (size_t)i >= file->header.count)
        return NULL;
    return file->header.entry[i].name;
}

bool tn_safetensors_has(const tn_safetensors *file, const char *name)
{
    return is_file(file, "safetensors_has") && name &&
           tn__safetensors_find(&file->header, name);
}

const char *tn_safetensors_metadata(const tn_safetensors *file,
                                    const char *key)
{
    if (!is_file(file, "safetensors_metadata") || !key)
        return NULL;
    for (size_t i = 0; i < file->header.metadata_count; i++) {
        if (strcmp(file->header.metadata[2 * i], key) == 0)
            return file->header.metadata[2 * i + 1];
    }
    return NULL;
}

static void release_file(void *context)
{
    tn__unref(context);
}

/* A view on the mapped bytes where the device can use them as they lie. */
static bool can_wrap(const tn_device *device, const void *data, tn_dtype dtype)
{
    return device->host_visible && device->plugin->buffer_wrap &&
           (uintptr_t)data % tn_dtype_bytes(dtype) == 0;
}

tn_tensor *tn_safetensors_tensor(tn_safetensors *file, const char *name)
{
    if (!tn__object_check(file, &safetensors_class, "safetensors_tensor",
                          "file"))
        return NULL;
    if (!name)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "safetensors_tensor: {name} is NULL");
    const tn__safetensors_entry *entry =
        tn__safetensors_find(&file->header, name);
    if (!entry)
        return tn__fail_null(
            TN_ERR_ARGUMENT,
            "safetensors_tensor: {name:}%s: no tensor \"%s\" among %zu",
            file->path, name, file->header.count);
    if (!entry->dtype)
        return tn__fail_null(
            TN_ERR_DTYPE,
            "safetensors_tensor: {name:}%s: tensor \"%s\": dtype %s is not "
            "one of Tenon's",
            file->path, name, entry->type);
    tn_device *device = tn_device_current();
    if (!device)
        return NULL;
    tn_dims_list shape = {.count = entry->ndim};
    memcpy(shape.dim, entry->shape, sizeof shape.dim);
    char *data = file->data + entry->begin;
    if (entry->begin == entry->end || !can_wrap(device, data, entry->dtype))
        return tn_tensor_from_array(data, entry->dtype, shape);
    tn_tensor *x = tn_tensor_wrap(data, entry->dtype, shape, release_file,
                                  tn__ref(file));
    if (!x)
        tn__unref(file);
    return x;
}

/* ---- writing ------------------------------------------------------------- */

static const char *format_name(tn_dtype dtype)
{
#define ROW(name, bytes, code)                                                \
    if (code == dtype)                                                        \
        return name;
    TN__SAFETENSORS_DTYPE_MAP(ROW)
#undef ROW
    return NULL;
}

static json_t *entry_json(tn_tensor *x, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < tn_tensor_ndim(x); i++)
        json_array_append_new(shape, json_integer(tn_tensor_shape(x)[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     format_name(tn_tensor_dtype(x)), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static json_t *metadata_json(const char *const (*metadata)[2], int count)
{
    json_t *object = json_object();
    for (int i = 0; i < count; i++)
        json_object_set_new(object, metadata[i][0],
                            json_string(metadata[i][1]));
    return object;
}

/* The header's text, malloc'ed by jansson; NULL if a name is no UTF-8, stands
 * twice, or memory runs out. */
static char *header_text(const char *const *names, tn_tensor *const *tensors,
                         int count, const char *const (*metadata)[2],
                         int metadata_count)
{
    json_t *root = json_object();
    bool ok = root != NULL;
    if (ok && metadata_count)
        ok = json_object_set_new(root, "__metadata__",
                                 metadata_json(metadata, metadata_count)) == 0;
    uint64_t at = 0;
    for (int i = 0; ok && i < count; i++) {
        uint64_t end = tn__size_bytes(
            tn_tensor_numel(tensors[i]),
            tn_dtype_bytes(tn_tensor_dtype(tensors[i])));
        if (__builtin_add_overflow(at, end, &end) || end > INT64_MAX) {
            tn__fail(TN_ERR_ARGUMENT,
                     "safetensors_save: {tensors:}tensor \"%s\" of "
                     "%lld elements has more bytes than a file can have",
                     names[i], (long long)tn_tensor_numel(tensors[i]));
            ok = false;
            break;
        }
        if (json_object_get(root, names[i])) {
            tn__fail(TN_ERR_ARGUMENT,
                     "safetensors_save: {names:}the name \"%s\" is given twice",
                     names[i]);
            ok = false;
            break;
        }
        ok = json_object_set_new(root, names[i],
                                 entry_json(tensors[i], at, end)) == 0;
        if (!ok)
            tn__fail(TN_ERR_ARGUMENT,
                     "safetensors_save: {names:}name %d is not valid UTF-8", i);
        at = end;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (ok && !text)
        tn__fail(TN_ERR_MEMORY, "safetensors_save: out of memory");
    return text;
}

static tn_status write_tensor(FILE *stream, tn_tensor *x)
{
    size_t bytes = tn__size_bytes(tn_tensor_numel(x),
                                  tn_dtype_bytes(tn_tensor_dtype(x)));
    void *copy = tn__alloc(bytes);
    if (!copy)
        return TN_ERR_MEMORY;
    tn_status status = tn_tensor_to_array(x, copy, bytes);
    /* A short write leaves the stream's error flag, which commit looks at. */
    if (status == TN_OK)
        (void)fwrite(copy, 1, bytes, stream);
    tn__free(copy);
    return status;
}

static tn_status check_arguments(const char *path, const char *const *names,
                                 tn_tensor *const *tensors, int count,
                                 const char *const (*metadata)[2],
                                 int metadata_count)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (count < 0 || metadata_count < 0)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "safetensors_save: {count} is %d, {metadata_count} %d; at "
            "least 0 is wanted",
            count, metadata_count);
    const char *missing = !path                         ? "path"
                          : count && !names              ? "names"
                          : count && !tensors            ? "tensors"
                                                         : NULL;
    if (missing)
        return tn__fail(TN_ERR_ARGUMENT, "safetensors_save: {%s} is NULL",
                        missing);
    for (int i = 0; i < count; i++) {
        char number[32];
        snprintf(number, sizeof number, "tensors[%d]", i);
        if (!names[i])
            return tn__fail(TN_ERR_ARGUMENT,
                            "safetensors_save: {names[%d]} is NULL", i);
        if (!tn__tensor_check(tensors[i], "safetensors_save", number))
            return tn_error_code();
        if (strcmp(names[i], "__metadata__") == 0)
            return tn__fail(
                TN_ERR_ARGUMENT,
                "safetensors_save: {names:}the name \"__metadata__\" is "
                "the format's own");
    }
    if (metadata_count && !metadata)
        return tn__fail(TN_ERR_ARGUMENT,
                        "safetensors_save: {metadata} is NULL");
    for (int i = 0; i < metadata_count; i++)
        if (!metadata[i][0] || !metadata[i][1])
            return tn__fail(TN_ERR_ARGUMENT,
                            "safetensors_save: {metadata[%d]} is NULL", i);
    return TN_OK;
}

tn_status tn_safetensors_save(const char *path, const char *const *names,
                              tn_tensor *const *tensors, int count,
                              const char *const (*metadata)[2],
                              int metadata_count)
{
    tn_status status = check_arguments(path, names, tensors, count,
                                       metadata, metadata_count);
    if (status < 0)
        return status;
    char *text =
        header_text(names, tensors, count, metadata, metadata_count);
    if (!text)
        return tn_error_code();
    tn__file_writer writer;
    status = tn__file_writer_open(&writer, path, "safetensors_save");
    if (status == TN_OK) {
        /* Padded with spaces so that the data begins at a multiple of 64: a
         * reader that maps the file can use every tensor in place. */
        uint64_t length = strlen(text);
        uint64_t padded = (length + 8 + 63) / 64 * 64 - 8;
        unsigned char size[8];
        for (int i = 0; i < 8; i++)
            size[i] = (unsigned char)(padded >> 8 * i);
        fwrite(size, 1, sizeof size, writer.stream);
        fprintf(writer.stream, "%s%*s", text, (int)(padded - length), "");
        for (int i = 0; i < count && status == TN_OK; i++)
            status = write_tensor(writer.stream, tensors[i]);
        if (status == TN_OK)
            status = tn__file_writer_commit(&writer);
        else
            tn__file_writer_abandon(&writer);
    }
    free(text);
    return status;
}
