/* gguf_values.c: reads the metadata of a GGUF file. */
#include <lm/gguf/gguf.h>

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

int64_t tn_gguf_key_count(const tn_gguf *file)
{
    return tn__gguf_is(file, "gguf_key_count") ? file->header.value_count : 0;
}

const char *tn_gguf_key(const tn_gguf *file, int64_t i)
{
    return tn__gguf_is(file, "gguf_key") && i >= 0 &&
                   i < file->header.value_count
               ? file->header.value[i].key
               : NULL;
}

static const tn__gguf_value *find(const tn_gguf *file, const char *key,
                                  const char *call)
{
    return tn__gguf_is(file, call) && key
               ? tn__gguf_value_find(&file->header, key)
               : NULL;
}

tn_gguf_kind tn_gguf_kind_of(const tn_gguf *file, const char *key)
{
    const tn__gguf_value *value = find(file, key, "gguf_kind_of");
    return value ? value->kind : TN_GGUF_NONE;
}

tn_gguf_kind tn_gguf_item_kind(const tn_gguf *file, const char *key)
{
    const tn__gguf_value *value = find(file, key, "gguf_item_kind");
    return value ? value->item : TN_GGUF_NONE;
}

int64_t tn_gguf_length(const tn_gguf *file, const char *key)
{
    const tn__gguf_value *value = find(file, key, "gguf_length");
    return value ? value->count : 0;
}

/* ---- values -------------------------------------------------------------- */

/* Returns the value of a key, or NULL after recording that it is missing. */
static const tn__gguf_value *need(const tn_gguf *file, const char *key,
                                  const char *call)
{
    if (!tn__gguf_check(file, call))
        return NULL;
    if (!key) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "key", "key is NULL");
        return NULL;
    }
    const tn__gguf_value *value = tn__gguf_value_find(&file->header, key);
    if (!value)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "key",
                                 "%s has no key \"%s\"", file->path, key);
    return value;
}

static tn_status fail_kind(const tn_gguf *file, const tn__gguf_value *value,
                           const char *call, const char *expected)
{
    const char *list = value->kind == TN_GGUF_LIST ? "a list of " : "";
    return tn_error_refuse_argument(
        TN_ERR_DTYPE, call, "key", "key \"%s\" of %s is %s%s; expected %s",
        value->key, file->path, list, tn__gguf_kind_name(value->item),
        expected);
}

const char *tn_gguf_text(const tn_gguf *file, const char *key)
{
    static const char call[] = "gguf_text";
    const tn__gguf_value *value = need(file, key, call);
    if (!value)
        return NULL;
    if (value->kind != TN_GGUF_TEXT) {
        fail_kind(file, value, call, "text");
        return NULL;
    }
    if (strlen(value->text) != value->texts->bytes) {
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "key",
                                 "key \"%s\" of %s contains a NUL byte; read "
                                 "it with tn_gguf_texts", key, file->path);
        return NULL;
    }
    return value->text;
}

const tn_gguf_bytes *tn_gguf_texts(const tn_gguf *file, const char *key)
{
    static const char call[] = "gguf_texts";
    const tn__gguf_value *value = need(file, key, call);
    if (value && value->item != TN_GGUF_TEXT)
        fail_kind(file, value, call, "texts");
    return value ? value->texts : NULL;
}

/* Reads item i as an integer. Returns false if it does not fit. */
static bool read_int(const tn__gguf_value *value, int64_t i, int64_t *out)
{
    const unsigned bytes = tn__gguf_number_bytes(value->item);
    uint64_t bits = 0;
    memcpy(&bits, value->at + (uint64_t)i * bytes, bytes);
    switch (value->item) {
    case TN_GGUF_I8: *out = (int8_t)bits; break;
    case TN_GGUF_I16: *out = (int16_t)bits; break;
    case TN_GGUF_I32: *out = (int32_t)bits; break;
    case TN_GGUF_U64: *out = (int64_t)bits; return bits <= INT64_MAX;
    default: *out = (int64_t)bits; break;
    }
    return true;
}

static double read_real(const tn__gguf_value *value, int64_t i)
{
    float f32;
    double f64;
    uint64_t u64;
    int64_t whole = 0;
    switch (value->item) {
    case TN_GGUF_F32: memcpy(&f32, value->at + i * 4, 4); return (double)f32;
    case TN_GGUF_F64: memcpy(&f64, value->at + i * 8, 8); return f64;
    case TN_GGUF_U64: memcpy(&u64, value->at + i * 8, 8); return (double)u64;
    default: read_int(value, i, &whole); return (double)whole;
    }
}

/* Returns the value of a key that is `count` numbers, or NULL after recording
 * why not. */
static const tn__gguf_value *numbers(const tn_gguf *file, const char *key,
                                     const void *out, int64_t count, bool real,
                                     const char *call)
{
    const tn__gguf_value *value = need(file, key, call);
    if (!value)
        return NULL;
    bool fraction = value->item == TN_GGUF_F32 || value->item == TN_GGUF_F64;
    if (!tn__gguf_number_bytes(value->item) || (fraction && !real)) {
        fail_kind(file, value, call, real ? "numbers" : "integers");
        return NULL;
    }
    if (count != value->count) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "count",
            "count is %lld; key \"%s\" of %s has %lld items (tn_gguf_length)",
            (long long)count, key, file->path, (long long)value->count);
        return NULL;
    }
    if (!out && count) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "out", "out is NULL");
        return NULL;
    }
    return value;
}

tn_status tn_gguf_ints(const tn_gguf *file, const char *key, int64_t *out,
                       int64_t count)
{
    static const char call[] = "gguf_ints";
    const tn__gguf_value *value = numbers(file, key, out, count, false, call);
    if (!value)
        return tn_error_code();
    int64_t number;
    for (int64_t i = 0; i < count; i++)
        if (!read_int(value, i, &number))
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "key",
                "item %lld of key \"%s\" of %s is %" PRIu64
                ", which int64_t cannot hold; read it with tn_gguf_reals",
                (long long)i, key, file->path, (uint64_t)number);
    for (int64_t i = 0; i < count; i++)
        read_int(value, i, &out[i]);
    return TN_OK;
}

tn_status tn_gguf_reals(const tn_gguf *file, const char *key, double *out,
                        int64_t count)
{
    const tn__gguf_value *value =
        numbers(file, key, out, count, true, "gguf_reals");
    if (!value)
        return tn_error_code();
    for (int64_t i = 0; i < count; i++)
        out[i] = read_real(value, i);
    return TN_OK;
}
