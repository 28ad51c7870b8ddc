/* safetensors_save.c: writes named tensors to a safetensors file. */
#include <io/safetensors.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/utf8.h>
#include <io/file.h>
#include <json/json.h>
#include <stdlib.h>
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

/* ---- the header --------------------------------------------------------- */

static void add_metadata(tn__json_writer *header,
                         const char *const (*metadata)[2], int count)
{
    tn__json_add(header, "\"__metadata__\":{");
    for (int i = 0; i < count; i++) {
        tn__json_add(header, i ? "," : "");
        tn__json_add_text(header, metadata[i][0]);
        tn__json_add(header, ":");
        tn__json_add_text(header, metadata[i][1]);
    }
    tn__json_add(header, "}");
}

/* Adds the entry of a tensor whose data begins at byte *at, and advances *at to
 * the end of its data. */
static tn_status add_entry(tn__json_writer *header, const char *name,
                           tn_tensor *x, uint64_t *at)
{
    uint64_t end = tn__size_bytes(tn_tensor_numel(x),
                                  tn_dtype_bytes(tn_tensor_dtype(x)));
    if (__builtin_add_overflow(*at, end, &end) || end > INT64_MAX)
        return tn__fail(TN_ERR_ARGUMENT,
                        "safetensors_save: {tensors:}tensor \"%s\" of "
                        "%lld elements has more bytes than a file can have",
                        name, (long long)tn_tensor_numel(x));
    tn__json_add_text(header, name);
    tn__json_add(header, ":{\"dtype\":");
    tn__json_add_text(header, format_name(tn_tensor_dtype(x)));
    tn__json_add(header, ",\"shape\":[");
    for (int i = 0; i < tn_tensor_ndim(x); i++) {
        tn__json_add(header, i ? "," : "");
        tn__json_add_integer(header, tn_tensor_shape(x)[i]);
    }
    tn__json_add(header, "],\"data_offsets\":[");
    tn__json_add_integer(header, (int64_t)*at);
    tn__json_add(header, ",");
    tn__json_add_integer(header, (int64_t)end);
    tn__json_add(header, "]}");
    *at = end;
    return TN_OK;
}

/* Returns the header as a string, which the caller frees with tn__free. Records
 * an error and returns NULL on failure. */
static char *header_text(const char *const *names, tn_tensor *const *tensors,
                         int count, const char *const (*metadata)[2],
                         int metadata_count)
{
    tn__json_writer header = {.grow = tn__realloc};
    tn__json_add(&header, "{");
    if (metadata_count)
        add_metadata(&header, metadata, metadata_count);
    tn_status status = TN_OK;
    uint64_t at = 0;
    for (int i = 0; status == TN_OK && i < count; i++) {
        tn__json_add(&header, i || metadata_count ? "," : "");
        status = add_entry(&header, names[i], tensors[i], &at);
    }
    tn__json_add(&header, "}");
    if (status == TN_OK && !header.failed)
        return header.text;
    tn__free(header.text);
    return NULL;
}

/* ---- the file ----------------------------------------------------------- */

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

/* Writes the header, padded with spaces so that the data begins at a multiple
 * of 64 bytes. Then a program that maps the file can use the tensors without a
 * copy. */
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

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the strings text[0], text[step], ..., text[(count - 1) * step]
 * are distinct. */
static tn_status check_unique(const char *const *text, int count, int step,
                              const char *what)
{
    const char **sorted = tn__alloc_many(count, sizeof *sorted);
    if (!sorted)
        return TN_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        sorted[i] = text[(size_t)i * (size_t)step];
    if (count)
        qsort(sorted, (size_t)count, sizeof *sorted, compare_texts);
    tn_status status = TN_OK;
    for (int i = 1; i < count && status == TN_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = tn_error_refuse_argument(
                TN_ERR_ARGUMENT, "safetensors_save", what,
                "the name \"%s\" is given twice", sorted[i]);
    tn__free(sorted);
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
            "safetensors_save: {count} is %d, {metadata_count} %d; expected "
            "at least 0",
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
                "reserved by the format: use another");
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
    tn_status status = check_unique(names, count, 1, "names");
    return status < 0 || !metadata_count
               ? status
               : check_unique(metadata[0], metadata_count, 2, "metadata");
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
