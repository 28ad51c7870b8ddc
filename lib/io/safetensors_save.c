/* safetensors_save.c: named tensors written to a file. */
#include <io/safetensors.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/utf8.h>
#include <io/file.h>
#include <jansson.h>
#include <string.h>
#include <tensor/tensor.h>

static const char *format_name(tn_dtype dtype)
{
#define ROW(name, bytes, code)                                                \
    if (code == dtype)                                                        \
        return name;
    TN__SAFETENSORS_DTYPE_MAP(ROW)
#undef ROW
    return NULL;
}

/* jansson reports neither why it refused nor, from its parts, that it did: each
 * call is looked at. Names are known to be UTF-8, so what fails is memory. */
static json_t *entry_json(tn_tensor *x, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    int failed = !shape;
    for (int i = 0; i < tn_tensor_ndim(x); i++)
        failed |=
            json_array_append_new(shape, json_integer(tn_tensor_shape(x)[i]));
    if (failed) {
        json_decref(shape);
        return NULL;
    }
    /* json_pack owns shape, whatever it returns. */
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     format_name(tn_tensor_dtype(x)), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static json_t *metadata_json(const char *const (*metadata)[2], int count)
{
    json_t *object = json_object();
    int failed = !object;
    for (int i = 0; i < count; i++)
        failed |= json_object_set_new(object, metadata[i][0],
                                      json_string(metadata[i][1]));
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static tn_status out_of_memory(void)
{
    return tn__fail(TN_ERR_MEMORY, "safetensors_save: out of memory");
}

static tn_status add_entry(json_t *root, const char *name, tn_tensor *x,
                           uint64_t *at)
{
    uint64_t end = tn__size_bytes(tn_tensor_numel(x),
                                  tn_dtype_bytes(tn_tensor_dtype(x)));
    if (__builtin_add_overflow(*at, end, &end) || end > INT64_MAX)
        return tn__fail(TN_ERR_ARGUMENT,
                        "safetensors_save: {tensors:}tensor \"%s\" of "
                        "%lld elements has more bytes than a file can have",
                        name, (long long)tn_tensor_numel(x));
    if (json_object_get(root, name))
        return tn__fail(TN_ERR_ARGUMENT,
                        "safetensors_save: {names:}the name \"%s\" is given "
                        "twice",
                        name);
    if (json_object_set_new(root, name, entry_json(x, *at, end)) < 0)
        return out_of_memory();
    *at = end;
    return TN_OK;
}

/* Measured and then written: where json_dumps has no memory for a key, it leaves
 * the key out and goes on. */
static char *text_of(const json_t *root)
{
    size_t bytes = json_dumpb(root, NULL, 0, JSON_COMPACT);
    char *text = bytes ? tn__alloc(bytes + 1) : NULL;
    if (text && json_dumpb(root, text, bytes, JSON_COMPACT) == bytes) {
        text[bytes] = '\0';
        return text;
    }
    tn__free(text);
    out_of_memory();
    return NULL;
}

/* The header's text (tn__free it); NULL with the error recorded. */
static char *header_text(const char *const *names, tn_tensor *const *tensors,
                         int count, const char *const (*metadata)[2],
                         int metadata_count)
{
    json_t *root = json_object();
    tn_status status = root ? TN_OK : out_of_memory();
    if (root && metadata_count &&
        json_object_set_new(root, "__metadata__",
                            metadata_json(metadata, metadata_count)) < 0)
        status = out_of_memory();
    uint64_t at = 0;
    for (int i = 0; status == TN_OK && i < count; i++)
        status = add_entry(root, names[i], tensors[i], &at);
    char *text = status == TN_OK ? text_of(root) : NULL;
    json_decref(root);
    return text;
}

static tn_status write_tensor(tn__file_writer *writer, tn_tensor *x)
{
    size_t bytes = tn__size_bytes(tn_tensor_numel(x),
                                  tn_dtype_bytes(tn_tensor_dtype(x)));
    void *copy = tn__alloc(bytes);
    if (!copy)
        return TN_ERR_MEMORY;
    tn_status status = tn_tensor_to_array(x, copy, bytes);
    if (status == TN_OK)
        status = tn__file_writer_write(writer, copy, bytes);
    tn__free(copy);
    return status;
}

/* Padded with spaces so that the data begins at a multiple of 64: a reader that
 * maps the file can use every tensor in place. */
static tn_status write_header(tn__file_writer *writer, const char *text)
{
    static const char spaces[64] = "                                "
                                   "                               ";
    uint64_t length = strlen(text);
    uint64_t padded = (length + 8 + 63) / 64 * 64 - 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(padded >> 8 * i);
    tn_status status = tn__file_writer_write(writer, size, sizeof size);
    if (status == TN_OK)
        status = tn__file_writer_write(writer, text, length);
    if (status == TN_OK)
        status = tn__file_writer_write(writer, spaces, padded - length);
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
        if (!tn__utf8_is(names[i]))
            return tn__fail(TN_ERR_ARGUMENT,
                            "safetensors_save: {names:}name %d is not valid "
                            "UTF-8", i);
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
    for (int i = 0; i < metadata_count; i++) {
        if (!metadata[i][0] || !metadata[i][1])
            return tn__fail(TN_ERR_ARGUMENT,
                            "safetensors_save: {metadata[%d]} is NULL", i);
        if (!tn__utf8_is(metadata[i][0]) ||
            !tn__utf8_is(metadata[i][1]))
            return tn__fail(TN_ERR_ARGUMENT,
                            "safetensors_save: {metadata[%d]} is not valid "
                            "UTF-8", i);
    }
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
        status = write_header(&writer, text);
        for (int i = 0; i < count && status == TN_OK; i++)
            status = write_tensor(&writer, tensors[i]);
        if (status == TN_OK)
            status = tn__file_writer_commit(&writer);
        else
            tn__file_writer_abandon(&writer);
    }
    tn__free(text);
    return status;
}
