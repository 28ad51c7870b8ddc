/* checkpoint_file.c: a checkpoint of many processes as one safetensors file: as an
 * object whose data is read from the pieces, which tn_checkpoint_load_part loads,
 * and as a file on disk (tn_sharded_merge). */
#include <parallel/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format's names of dtypes. */
static const char *format_name(tn_dtype dtype)
{
    static const struct {
        tn_dtype dtype;
        const char *name;
    } row[] = {{TN_F64, "F64"}, {TN_F32, "F32"}, {TN_F16, "F16"},
               {TN_BF16, "BF16"}, {TN_F8E4M3, "F8_E4M3"},
               {TN_F8E5M2, "F8_E5M2"}, {TN_I64, "I64"}, {TN_I32, "I32"},
               {TN_I16, "I16"}, {TN_I8, "I8"}, {TN_U8, "U8"},
               {TN_BOOL, "BOOL"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].dtype == dtype)
            return row[i].name;
    return NULL;
}

/* ---- the header ----------------------------------------------------------- */

static bool begins_with(const char *text, const char *prefix)
{
    return prefix && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether a text is about a file, a rank or a replica, not about the run. The
 * state of a rank's loader is left out if its position in the job is there. */
static bool is_own(const tn_safetensors *file, const char *key)
{
    return begins_with(key, TN__SHARDED_PREFIX) || strcmp(key, "random") == 0 ||
           (strcmp(key, "loader") == 0 &&
            tn_safetensors_metadata(file, "loader.position"));
}

static void add_pair(tn__json_writer *json, const char *key, const char *text,
                     bool *first)
{
    tn__json_add(json, *first ? "" : ",");
    *first = false;
    tn__json_add_text(json, key);
    tn__json_add(json, ":");
    tn__json_add_text(json, text);
}

static void add_entry(tn__json_writer *json, const tn__saved_whole *w,
                      int64_t at)
{
    tn__json_add(json, ",");
    tn__json_add_text(json, w->piece->name);
    tn__json_add(json, ":{\"dtype\":");
    tn__json_add_text(json, format_name(w->piece->dtype));
    tn__json_add(json, ",\"shape\":[");
    for (int i = 0; i < w->piece->ndim; i++) {
        tn__json_add(json, i ? "," : "");
        tn__json_add_integer(json, w->piece->shape[i]);
    }
    tn__json_add(json, "],\"data_offsets\":[");
    tn__json_add_integer(json, at);
    tn__json_add(json, ",");
    tn__json_add_integer(json, at + w->bytes);
    tn__json_add(json, "]}");
}

/* Returns the header, which the caller frees, or NULL, and the number of bytes
 * of the data. */
static char *header_of(const tn_sharded *s, const char *without,
                       const char *random, int64_t *data_bytes)
{
    tn__json_writer json = {.grow = realloc};
    bool first = true;
    const tn_safetensors *file = s->file[0];
    tn__json_add(&json, "{\"__metadata__\":{");
    for (int i = 0;; i++) {
        const char *key = tn_safetensors_metadata_key(file, i);
        if (!key)
            break;
        if (!is_own(file, key) && !begins_with(key, without))
            add_pair(&json, key, tn_safetensors_metadata(file, key), &first);
    }
    if (random)
        add_pair(&json, "random", random, &first);
    tn__json_add(&json, "}");
    int64_t at = 0;
    for (int i = 0; i < s->wholes; i++)
        if (!begins_with(s->whole[i].piece->name, without)) {
            add_entry(&json, &s->whole[i], at);
            at += s->whole[i].bytes; /* not more than the files have */
        }
    tn__json_add(&json, "}");
    *data_bytes = at;
    if (!json.failed)
        return json.text;
    tn_error_set(TN_ERR_MEMORY, "sharded_open: out of memory");
    free(json.text);
    return NULL;
}

/* ---- an object ------------------------------------------------------------ */

typedef struct view {
    tn_sharded *saved; /* kept */
    int64_t *begin;    /* owned: where each whole begins, as if those that are
                          left out had no bytes */
} view;

static void release(void *context)
{
    view *v = context;
    tn_drop(v->saved);
    free(v->begin);
    free(v);
}

/* Reads the tensor at that offset: the last one that begins there, since those
 * before it have no bytes. */
static tn_status read_view(void *context, int64_t offset, void *out,
                           size_t bytes)
{
    const view *v = context;
    const tn_sharded *s = v->saved;
    int low = 0, high = s->wholes;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (v->begin[middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    const tn__saved_whole *w = low ? &s->whole[low - 1] : NULL;
    if (!w || v->begin[low - 1] != offset || w->bytes != (int64_t)bytes)
        return tn_error_set(TN_ERR_FORMAT, "sharded_load: %s: no tensor is at "
                            "byte %" PRId64, s->path, offset);
    tn__region all;
    tn__sharded_all_of(w, &all);
    return tn__sharded_fill(s, w, &all, out, "sharded_load");
}

static view *view_of(tn_sharded *s, const char *without)
{
    view *v = calloc(1, sizeof *v);
    if (v)
        v->begin = malloc(((size_t)s->wholes + 1) * sizeof *v->begin);
    if (!v || !v->begin) {
        free(v);
        tn_error_set(TN_ERR_MEMORY, "sharded_load: out of memory");
        return NULL;
    }
    int64_t at = 0;
    for (int i = 0; i < s->wholes; i++) {
        v->begin[i] = at;
        if (!begins_with(s->whole[i].piece->name, without))
            at += s->whole[i].bytes;
    }
    v->saved = tn_keep(s);
    return v;
}

tn_safetensors *tn__sharded_as_file(tn_sharded *s, const char *without,
                                    const char *random)
{
    static const tn_safetensors_class type = {sizeof type, read_view, release};
    int64_t bytes = 0;
    view *v = view_of(s, without);
    char *header = v ? header_of(s, without, random, &bytes) : NULL;
    tn_safetensors *file =
        header ? tn_safetensors_new(s->path, header, bytes, &type, v) : NULL;
    free(header);
    if (!file && v)
        release(v);
    return file;
}

const char *tn__sharded_random(const tn_sharded *s, int rank, char *room,
                               size_t bytes)
{
    const char *first = tn_safetensors_metadata(s->file[0], "random");
    if (!first || rank < s->files)
        return first ? tn_safetensors_metadata(s->file[rank], "random") : NULL;
    bool same = true;
    for (int i = 1; i < s->files && same; i++) {
        const char *other = tn_safetensors_metadata(s->file[i], "random");
        same = other && strcmp(other, first) == 0;
    }
    if (same)
        return first;
    tn__xxh64 hash; /* a seed that no other rank has */
    tn__xxh64_begin(&hash);
    tn__xxh64_add(&hash, first, strlen(first));
    tn__xxh64_add(&hash, &rank, sizeof rank);
    snprintf(room, bytes, "%" PRIu64 " 0", tn__xxh64_end(&hash));
    return room;
}

/* ---- a file --------------------------------------------------------------- */

static tn_status put_whole(const tn_sharded *s, const tn__saved_whole *w,
                           tn_file *file)
{
    char *data = malloc(w->bytes ? (size_t)w->bytes : 1);
    if (!data)
        return tn_error_set(TN_ERR_MEMORY, "sharded_merge: out of memory");
    tn__region all;
    tn__sharded_all_of(w, &all);
    tn_status status = tn__sharded_fill(s, w, &all, data, "sharded_merge");
    if (status == TN_OK)
        status = tn_file_write(file, data, (size_t)w->bytes);
    free(data);
    return status;
}

static tn_status put(void *context, tn_file *file)
{
    const tn_sharded *s = context;
    int64_t bytes = 0;
    char *header = header_of(s, NULL,
                             tn_safetensors_metadata(s->file[0], "random"),
                             &bytes);
    if (!header)
        return tn_error_code();
    /* As the format asks for, the size is a little-endian number; spaces let
     * the data begin at a multiple of 64. */
    const size_t length = strlen(header);
    const size_t padded = (length + 8 + 63) / 64 * 64 - 8;
    unsigned char size[8];
    char spaces[64];
    memset(spaces, ' ', sizeof spaces);
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    tn_status status = tn_file_write(file, size, sizeof size);
    if (status == TN_OK)
        status = tn_file_write(file, header, length);
    if (status == TN_OK)
        status = tn_file_write(file, spaces, padded - length);
    for (int i = 0; i < s->wholes && status == TN_OK; i++)
        status = put_whole(s, &s->whole[i], file);
    free(header);
    return status;
}

tn_status tn_sharded_merge(tn_sharded *s, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_sharded_path(s) || !path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "sharded_merge",
                                        path ? "saved" : "path",
                                        "%s is NULL or no checkpoint",
                                        path ? "saved" : "path");
    return tn_file_replace(path, "sharded_merge", put, s);
}
