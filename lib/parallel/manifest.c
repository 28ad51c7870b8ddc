/* manifest.c: the texts of a sharded checkpoint: see manifest.h. */
#include <parallel/manifest.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char no_memory[] = "out of memory";
static const char format[] = "tenon checkpoint";
enum { FORMAT_VERSION = 1, MOST_NAME = 255 };

/* ---- reading -------------------------------------------------------------- */

static const tn__json_value *read_json(tn__json *json, char **copy,
                                       const char *text, size_t bytes)
{
    *json = (tn__json){.take = malloc, .give = free};
    *copy = malloc(bytes + 1);
    if (!*copy)
        return NULL;
    memcpy(*copy, text, bytes);
    return tn__json_read(json, *copy, bytes);
}

static bool read_hash(const tn__json_value *value, uint64_t *out)
{
    const char *text = tn__json_text(value);
    if (!text || strlen(text) != 16 ||
        strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

/* Reads a list of at most TN_MAX_NDIM numbers that are not negative. Returns
 * their count, or -1. */
static int read_sizes(const tn__json_value *list, int64_t *out)
{
    if (!tn__json_is(list, TN__JSON_LIST) || list->count > TN_MAX_NDIM)
        return -1;
    int count = 0;
    TN__JSON_EACH(size, list)
    {
        if (size->kind != TN__JSON_INTEGER || size->integer < 0)
            return -1;
        out[count++] = size->integer;
    }
    return count;
}

static const char *read_record(tn__record *r, const tn__json_value *json)
{
    r->entry = r->name = json->key;
    if (strlen(json->key) != json->key_bytes ||
        !tn__json_is(json, TN__JSON_OBJECT))
        return "an entry is not an object";
    if (!read_hash(tn__json_get(json, "hash"), &r->hash))
        return "an entry has no hash";
    const tn__json_value *of = tn__json_get(json, "of");
    r->whole = !of;
    if (r->whole)
        return NULL;
    r->name = tn__json_text(of);
    if (!r->name)
        return "\"of\" is not a name";
    const tn__json_value *flat = tn__json_get(json, "flat");
    r->flat = tn__json_is(flat, TN__JSON_TRUE);
    if (flat && !r->flat)
        return "\"flat\" is not true";
    r->ndim = read_sizes(tn__json_get(json, "shape"), r->shape);
    const int offsets = read_sizes(tn__json_get(json, "offset"), r->offset);
    if (r->ndim < 0 || tn__sizes_numel(r->ndim, r->shape) < 0)
        return "\"shape\" is not a shape";
    return offsets == (r->flat ? 1 : r->ndim)
               ? NULL
               : "\"offset\" has not the dimensions of \"shape\"";
}

void tn__records_release(tn__records *records)
{
    tn__json_free(&records->json);
    free(records->record);
    free(records->text);
    *records = (tn__records){.count = 0};
}

const char *tn__records_parse(tn__records *records, const char *text)
{
    *records = (tn__records){.count = 0};
    const tn__json_value *top =
        read_json(&records->json, &records->text, text, strlen(text));
    const char *wrong = NULL;
    if (!top)
        wrong = records->text && *records->json.error ? "it is not JSON"
                                                      : no_memory;
    else if (!tn__json_is(top, TN__JSON_OBJECT))
        wrong = "it is not an object";
    if (!wrong) {
        /* The values that were parsed need more memory than the records. */
        records->record = calloc(top->count + 1, sizeof *records->record);
        if (!records->record)
            wrong = no_memory;
    }
    if (!wrong)
        TN__JSON_EACH(member, top)
        {
            wrong = read_record(&records->record[records->count++], member);
            if (wrong)
                break;
        }
    if (wrong)
        tn__records_release(records);
    return wrong;
}

/* The name of a file in the folder of the checkpoint, and in no other. */
static bool is_file_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') &&
           strlen(name) <= MOST_NAME;
}

static const char *read_files(tn__complete *c, const tn__json_value *list)
{
    if (!tn__json_is(list, TN__JSON_LIST) || !list->count)
        return "it has no list of files";
    c->file = calloc(list->count, sizeof *c->file);
    if (!c->file)
        return no_memory;
    TN__JSON_EACH(value, list)
    {
        tn__file_record *f = &c->file[c->count++];
        const tn__json_value *bytes = tn__json_get(value, "bytes");
        f->name = tn__json_text(tn__json_get(value, "name"));
        if (!is_file_name(f->name))
            return "a name is not that of a file in its folder";
        if (!tn__json_is(bytes, TN__JSON_INTEGER) || bytes->integer < 0 ||
            !read_hash(tn__json_get(value, "header"), &f->header))
            return "a file has no size or no hash";
        f->bytes = bytes->integer;
    }
    return NULL;
}

void tn__complete_release(tn__complete *c)
{
    tn__json_free(&c->json);
    free(c->file);
    free(c->text);
    *c = (tn__complete){.count = 0};
}

const char *tn__complete_parse(tn__complete *c, const char *text, size_t bytes)
{
    *c = (tn__complete){.count = 0};
    const tn__json_value *top = read_json(&c->json, &c->text, text, bytes);
    const tn__json_value *step = tn__json_get(top, "step");
    const tn__json_value *serial = tn__json_get(top, "serial");
    const tn__json_value *version = tn__json_get(top, "version");
    const char *said = tn__json_text(tn__json_get(top, "format"));
    const char *wrong = NULL;
    if (!top)
        wrong = c->text && *c->json.error ? "it is not JSON" : no_memory;
    else if (!said || strcmp(said, format) != 0)
        wrong = "it is not of a checkpoint";
    else if (!tn__json_is(version, TN__JSON_INTEGER) ||
             version->integer != FORMAT_VERSION)
        wrong = "it is of another version of Tenon";
    else if (!tn__json_is(step, TN__JSON_INTEGER) || step->integer < 0 ||
             !tn__json_is(serial, TN__JSON_INTEGER) || serial->integer < 0 ||
             serial->integer > INT64_MAX / 2)
        wrong = "it has no step";
    if (!wrong) {
        c->step = step->integer;
        c->serial = serial->integer;
        wrong = read_files(c, tn__json_get(top, "files"));
    }
    if (wrong)
        tn__complete_release(c);
    return wrong;
}

/* ---- writing -------------------------------------------------------------- */

static void add_hash(tn__json_writer *json, const char *key, uint64_t hash)
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":\"%016" PRIx64 "\"", key, hash);
    tn__json_add(json, text);
}

static void add_sizes(tn__json_writer *json, const char *key,
                      const int64_t *size, int count)
{
    tn__json_add(json, key);
    tn__json_add(json, ":[");
    for (int i = 0; i < count; i++) {
        tn__json_add(json, i ? "," : "");
        tn__json_add_integer(json, size[i]);
    }
    tn__json_add(json, "]");
}

void tn__record_write(tn__json_writer *json, const tn__record *r)
{
    tn__json_add_text(json, r->entry);
    tn__json_add(json, ":{");
    if (!r->whole) {
        tn__json_add(json, "\"of\":");
        tn__json_add_text(json, r->name);
        add_sizes(json, ",\"shape\"", r->shape, r->ndim);
        add_sizes(json, ",\"offset\"", r->offset, r->flat ? 1 : r->ndim);
        tn__json_add(json, r->flat ? ",\"flat\":true," : ",");
    }
    add_hash(json, "hash", r->hash);
    tn__json_add(json, "}");
}

void tn__complete_write(tn__json_writer *json, const tn__complete *c)
{
    tn__json_add(json, "{\"format\":");
    tn__json_add_text(json, format);
    tn__json_add(json, ",\"version\":");
    tn__json_add_integer(json, FORMAT_VERSION);
    tn__json_add(json, ",\"step\":");
    tn__json_add_integer(json, c->step);
    tn__json_add(json, ",\"serial\":");
    tn__json_add_integer(json, c->serial);
    tn__json_add(json, ",\"files\":[");
    for (size_t i = 0; i < c->count; i++) {
        tn__json_add(json, i ? ",\n{\"name\":" : "\n{\"name\":");
        tn__json_add_text(json, c->file[i].name);
        tn__json_add(json, ",\"bytes\":");
        tn__json_add_integer(json, c->file[i].bytes);
        tn__json_add(json, ",");
        add_hash(json, "header", c->file[i].header);
        tn__json_add(json, "}");
    }
    tn__json_add(json, "]}\n");
}
