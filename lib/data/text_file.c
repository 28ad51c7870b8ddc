/* text_file.c: encodes texts as integer ids, one for each unit: a character, or
 * a byte.
 *
 * The vocabulary is sorted, so it depends only on which characters occur.
 * Therefore a model trained on one copy of a text works with another copy. */
#include <data/dataset.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/utf8.h>
#include <io/file.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <tensor/tensor.h>

struct tn_text {
    tn__object object;
    bool bytes;         /* true if ids represent bytes, not characters */
    int32_t *id;        /* owned; ids of the text */
    int64_t count;
    uint32_t *unit;     /* owned; the character or byte of each id, ascending */
    int unit_count;
};

static void destroy(tn__object *object)
{
    tn_text *text = (tn_text *)object;
    tn__free(text->id);
    tn__free(text->unit);
    tn__object_free(text, sizeof *text);
}

static const tn__class text_class = {.name = "text",
                                     .destroy = destroy};

/* ---- UTF-8 -------------------------------------------------------------- */

static int32_t read_unit(bool bytes, const unsigned char *data, size_t count,
                         size_t *at)
{
    return bytes ? data[(*at)++] : tn__utf8_next(data, count, at);
}

/* ---- making ------------------------------------------------------------- */

/* The source of the data, for error messages. */
typedef struct source {
    const char *call, *argument, *name; /* "text_load", "path", "a.txt: " */
} source;

/* Stores the characters (or bytes) of data in text->id. */
static tn_status read_units(tn_text *text, const unsigned char *data,
                            size_t count, const source *from)
{
    text->id = tn__alloc_many((int64_t)count, sizeof *text->id);
    if (!text->id)
        return TN_ERR_MEMORY;
    for (size_t at = 0; at < count;) {
        int32_t unit = read_unit(text->bytes, data, count, &at);
        if (unit == TN__NOT_UTF8)
            return tn__fail(TN_ERR_FORMAT,
                            "%s: {%s:}%sbyte %zu is not UTF-8; .bytes = true "
                            "accepts any bytes",
                            from->call, from->argument, from->name, at);
        text->id[text->count++] = unit;
    }
    return TN_OK;
}

/* Makes the vocabulary of the characters (or bytes) in text->id, then replaces
 * them by their ids. */
static tn_status number_units(tn_text *text)
{
    int32_t *id_of = tn__calloc(TN__UNICODE_COUNT, sizeof *id_of);
    if (!id_of)
        return TN_ERR_MEMORY;
    for (int64_t i = 0; i < text->count; i++)
        id_of[text->id[i]] = 1;
    for (int32_t unit = 0; unit < TN__UNICODE_COUNT; unit++)
        text->unit_count += id_of[unit];
    text->unit = tn__alloc_many(text->unit_count, sizeof *text->unit);
    if (text->unit) {
        int32_t id = 0;
        for (int32_t unit = 0; unit < TN__UNICODE_COUNT; unit++) {
            if (!id_of[unit])
                continue;
            text->unit[id] = (uint32_t)unit;
            id_of[unit] = id++;
        }
        for (int64_t i = 0; i < text->count; i++)
            text->id[i] = id_of[text->id[i]];
    }
    tn__free(id_of);
    return text->unit ? TN_OK : TN_ERR_MEMORY;
}

static tn_text *text_new(const unsigned char *data, size_t count,
                         const source *from, bool bytes)
{
    if (!count)
        return tn__fail_null(TN_ERR_FORMAT, "%s: {%s:}%sthe text is empty",
                             from->call, from->argument, from->name);
    tn_text *text = tn__calloc(1, sizeof *text);
    if (!text)
        return NULL;
    tn__object_init(&text->object, &text_class);
    text->bytes = bytes;
    if (read_units(text, data, count, from) < 0 || number_units(text) < 0) {
        tn__unref(text);
        return NULL;
    }
    return tn__scope_own(text);
}

TN_OPTIONS_TYPE(tn_text_load, "text_load", "path", TN_TEXT_LOAD_OPTIONS_LIST)

tn_text *tn_text_load_with(const char *path,
                           const tn_text_load_options *options)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT, "text_load: {path} is NULL");
    tn_text_load_options o;
    if (tn_options_take(tn_text_load_type(), &o, options) < 0)
        return NULL;
    unsigned char *data = NULL;
    size_t count;
    if (tn__file_read(path, "text_load", &data, &count) < 0)
        return NULL;
    tn__text what = {0};
    tn__text_add(&what, "%s: ", path);
    char *name = tn__text_finish(&what);
    const source from = {"text_load", "path", name};
    tn_text *text = name ? text_new(data, count, &from, o.bytes) : NULL;
    tn__free(name);
    tn__free(data);
    return text;
}

TN_OPTIONS_TYPE(tn_text_from_string, "text_from_string", "string",
                TN_TEXT_LOAD_OPTIONS_LIST)

tn_text *
tn_text_from_string_with(const char *string,
                         const tn_text_from_string_options *options)
{
    if (!string)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "text_from_string: {string} is NULL");
    tn_text_from_string_options o;
    if (tn_options_take(tn_text_from_string_type(), &o, options) < 0)
        return NULL;
    return text_new((const unsigned char *)string, strlen(string),
                    &(source){"text_from_string", "string", ""}, o.bytes);
}

/* ---- attributes, encoding and decoding ---------------------------------- */

int64_t tn_text_count(const tn_text *text)
{
    return tn__object_has(text, &text_class, "text_count", "text")
               ? text->count
               : 0;
}

int tn_text_vocabulary(const tn_text *text)
{
    return tn__object_has(text, &text_class, "text_vocabulary", "text")
               ? text->unit_count
               : 0;
}

/* Copies ids [begin, begin + count) of the text to out. */
static void copy_ids(const tn_text *text, int64_t begin, int64_t count,
                     int64_t *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = text->id[begin + i];
}

tn_tensor *tn_text_ids(const tn_text *text)
{
    if (!tn__object_check(text, &text_class, "text_ids", "text"))
        return NULL;
    int64_t *id = tn__alloc_many(text->count, sizeof *id);
    if (!id)
        return NULL;
    copy_ids(text, 0, text->count, id);
    tn_tensor *ids = tn_tensor_from_array(id, TN_I64, tn_dims(text->count));
    tn__free(id);
    return ids;
}

static int compare_units(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Writes the ids of data to id, which has space for one per byte. Returns their
 * number, or a negative status. */
static int64_t encode(const tn_text *text, const unsigned char *data,
                      size_t bytes, int64_t *id)
{
    int64_t count = 0;
    for (size_t at = 0; at < bytes;) {
        size_t begin = at;
        int32_t unit = read_unit(text->bytes, data, bytes, &at);
        if (unit == TN__NOT_UTF8)
            return tn__fail(TN_ERR_FORMAT,
                            "text_encode: {string:}byte %zu is not UTF-8",
                            begin);
        uint32_t key = (uint32_t)unit;
        const uint32_t *found =
            bsearch(&key, text->unit, (size_t)text->unit_count, sizeof key,
                    compare_units);
        if (!found)
            return tn__fail(
                TN_ERR_ARGUMENT,
                "text_encode: {string:}%s %u at byte %zu is not in the "
                "vocabulary of %d",
                text->bytes ? "byte" : "character", key, begin,
                text->unit_count);
        id[count++] = found - text->unit;
    }
    return count;
}

tn_tensor *tn_text_encode(const tn_text *text, const char *string)
{
    if (!tn__object_check(text, &text_class, "text_encode", "text"))
        return NULL;
    if (!string)
        return tn__fail_null(TN_ERR_ARGUMENT, "text_encode: {string} is NULL");
    size_t bytes = strlen(string);
    int64_t *id = tn__alloc_many((int64_t)bytes, sizeof *id);
    if (!id)
        return NULL;
    int64_t count = encode(text, (const unsigned char *)string, bytes, id);
    tn_tensor *ids =
        count < 0 ? NULL : tn_tensor_from_array(id, TN_I64, tn_dims(count));
    tn__free(id);
    return ids;
}

/* Returns the string of ids in memory from malloc. */
static char *decode(const tn_text *text, const int64_t *id, int64_t count)
{
    char *string = malloc((size_t)count * 4 + 1);
    if (!string)
        return tn__fail_null(TN_ERR_MEMORY, "text_decode: out of memory");
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        if (id[i] < 0 || id[i] >= text->unit_count) {
            free(string);
            tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){true, id[i], 0, text->unit_count, 1, {i}},
                "text_decode: {ids:}id %lld at position %lld is outside the "
                "vocabulary's [0, %d)",
                (long long)id[i], (long long)i, text->unit_count);
            return NULL;
        }
        if (text->bytes)
            string[at++] = (char)text->unit[id[i]];
        else
            at += tn__utf8_put(string + at, (int32_t)text->unit[id[i]]);
    }
    string[at] = '\0';
    return string;
}

char *tn_text_decode(const tn_text *text, const tn_tensor *ids)
{
    if (!tn__object_check(text, &text_class, "text_decode", "text") ||
        !tn__tensor_check(ids, "text_decode", "ids"))
        return NULL;
    tn_dtype dtype = tn_tensor_dtype(ids);
    if (tn_dtype_is_floating(dtype) || dtype == TN_BOOL)
        return tn__fail_null(TN_ERR_DTYPE,
                             "text_decode: {ids} are %s; expected integers",
                             tn_dtype_name(dtype));
    int64_t count = tn_tensor_numel(ids);
    int64_t *id = tn__alloc_many(count, sizeof *id);
    if (!id)
        return NULL;
    tn_scope *scope = tn_scope_open();
    char *string = NULL;
    /* Operators take inputs that are not const, because recording a call
     * changes them. Calls with integers are not recorded, so the cast is
     * safe. */
    tn_tensor *given = (tn_tensor *)(uintptr_t)ids;
    if (tn_tensor_to_array(tn_to_dtype(given, TN_I64), id,
                           (size_t)count * sizeof *id) == TN_OK)
        string = decode(text, id, count);
    tn_scope_close(scope);
    tn__free(id);
    return string;
}

/* ---- windows as samples ------------------------------------------------- */

static int windows_batch(tn_dataset *set, const int64_t *index, int64_t count,
                         tn_tensor **fields)
{
    int64_t length = set->of.windows.length;
    int64_t *id = tn__alloc_many(tn__size_mul(count, length), sizeof *id);
    if (!id)
        return TN_ERR_MEMORY;
    int got = 2;
    for (int f = 0; f < 2 && got > 0; f++) { /* y (field 1) starts one unit
                                                after x (field 0) */
        for (int64_t i = 0; i < count; i++)
            copy_ids(set->of.windows.text, index[i] + f, length,
                     id + i * length);
        fields[f] = tn_tensor_from_array(id, TN_I64, tn_dims(count, length));
        if (!fields[f])
            got = tn_error_code();
    }
    tn__free(id);
    return got;
}

static void windows_release(tn_dataset *set)
{
    tn__unref(set->of.windows.text);
}

static const tn__dataset_kind windows_kind = {windows_batch, windows_release,
                                              NULL};

tn_dataset *tn_dataset_from_text(tn_text *text, int64_t length)
{
    if (!tn__object_check(text, &text_class, "dataset_from_text", "text"))
        return NULL;
    if (length < 1 || length >= text->count)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_from_text: {length} is %lld; expected 1 "
                             "to %lld for a text of %lld ids",
                             (long long)length, (long long)text->count - 1,
                             (long long)text->count);
    tn_dataset *set = tn__dataset_new(&windows_kind, text->count - length);
    if (!set)
        return NULL;
    set->of.windows.text = tn__ref(text);
    set->of.windows.length = length;
    return tn__scope_own(set);
}
