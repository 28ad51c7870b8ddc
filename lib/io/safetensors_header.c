/* safetensors_header.c: parses and checks the JSON header of a safetensors
 * file, which may come from an untrusted source. The code that reads tensors
 * relies on these checks: all sizes are computed without overflow, and every
 * byte of the data belongs to exactly one tensor. */
#include <io/safetensors.h>

#include <base/error.h>
#include <base/memory.h>
#include <json/json.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bytes;
    tn_dtype dtype;
} dtypes[] = {
#define ROW(name, bytes, dtype) {name, bytes, dtype},
    TN__SAFETENSORS_DTYPE_MAP(ROW)
#undef ROW
};

static tn_status fail_tensor(const char *where, const char *name,
                             const char *what)
{
    return tn__fail(TN_ERR_FORMAT,
                    "safetensors_open: {path:}%s: tensor \"%s\": %s", where,
                    name, what);
}

/* Computes the size in bytes of a tensor of this shape, whose elements have
 * `bytes` bytes. Returns false on overflow. */
static bool entry_bytes(const tn__safetensors_entry *entry, unsigned bytes,
                        uint64_t *out)
{
    uint64_t total = bytes;
    for (int i = 0; i < entry->ndim; i++) {
        if (__builtin_mul_overflow(total, (uint64_t)entry->shape[i], &total))
            return false;
    }
    *out = total;
    return true;
}

static tn_status parse_shape(tn__safetensors_entry *entry,
                             const tn__json_value *shape, const char *where)
{
    if (!tn__json_is(shape, TN__JSON_LIST))
        return fail_tensor(where, entry->name, "no \"shape\" list");
    if (shape->count > TN_MAX_NDIM)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: tensor \"%s\": %zu dimensions; "
            "expected at most %d",
            where, entry->name, shape->count, TN_MAX_NDIM);
    TN__JSON_EACH(size, shape) {
        if (size->kind != TN__JSON_INTEGER || size->integer < 0)
            return fail_tensor(where, entry->name,
                               "\"shape\" holds a value that is not a size");
        entry->shape[entry->ndim++] = size->integer;
    }
    return TN_OK;
}

static tn_status parse_entry(tn__safetensors_entry *entry,
                             const tn__json_value *value, uint64_t data_bytes,
                             const char *where)
{
    if (value->kind != TN__JSON_OBJECT)
        return fail_tensor(where, entry->name, "not an object");
    const char *type = tn__json_text(tn__json_get(value, "dtype"));
    if (!type)
        return fail_tensor(where, entry->name, "no \"dtype\" text");
    unsigned bytes = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, type) == 0) {
            bytes = dtypes[i].bytes;
            entry->dtype = dtypes[i].dtype;
            entry->type = dtypes[i].name;
        }
    }
    if (!bytes)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: tensor \"%s\": unknown dtype \"%s\"",
            where, entry->name, type);
    tn_status status =
        parse_shape(entry, tn__json_get(value, "shape"), where);
    if (status < 0)
        return status;

    const tn__json_value *offsets = tn__json_get(value, "data_offsets");
    const tn__json_value *begin = tn__json_at(offsets, 0);
    const tn__json_value *end = tn__json_at(offsets, 1);
    if (!tn__json_is(begin, TN__JSON_INTEGER) ||
        !tn__json_is(end, TN__JSON_INTEGER) || end->next ||
        begin->integer < 0 || end->integer < begin->integer)
        return fail_tensor(where, entry->name,
                           "\"data_offsets\" is not [begin, end]");
    entry->begin = (uint64_t)begin->integer;
    entry->end = (uint64_t)end->integer;
    uint64_t want;
    if (entry->end > data_bytes)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: tensor \"%s\": ends at byte %llu of "
            "%llu bytes of data",
            where, entry->name, (unsigned long long)entry->end,
            (unsigned long long)data_bytes);
    if (!entry_bytes(entry, bytes, &want) || want != entry->end - entry->begin)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: tensor \"%s\": shape and dtype do "
            "not match the %llu bytes of \"data_offsets\"",
            where, entry->name,
            (unsigned long long)(entry->end - entry->begin));
    return TN_OK;
}

static tn_status parse_metadata(tn__safetensors_header *header,
                                const tn__json_value *value, const char *where)
{
    if (value->kind != TN__JSON_OBJECT)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: \"__metadata__\" is not an object",
            where);
    header->metadata =
        tn__calloc(2 * value->count + 1, sizeof *header->metadata);
    if (!header->metadata)
        return TN_ERR_MEMORY;
    TN__JSON_EACH(member, value) {
        const char *text = tn__json_text(member);
        if (!text)
            return tn__fail(
                TN_ERR_FORMAT,
                "safetensors_open: {path:}%s: metadata \"%s\" is not a string",
                where, member->key);
        char **pair = header->metadata + 2 * header->metadata_count++;
        pair[0] = tn__strdup(member->key);
        pair[1] = tn__strdup(text);
        if (!pair[0] || !pair[1])
            return TN_ERR_MEMORY;
    }
    return TN_OK;
}

static int compare_begin(const void *a, const void *b)
{
    const tn__safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) /* an empty tensor comes before another tensor at the
                             same offset */
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* A name and the index of its entry. These pairs are sorted, because qsort does
 * not pass the array of entries to the comparison function. */
typedef struct name_number {
    const char *name;
    size_t number;
} name_number;

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const name_number *)a)->name,
                  ((const name_number *)b)->name);
}

static tn_status sort_names(tn__safetensors_header *header)
{
    name_number *pair = tn__alloc((header->count + 1) * sizeof *pair);
    header->by_name = tn__alloc((header->count + 1) * sizeof(size_t));
    if (!pair || !header->by_name) {
        tn__free(pair);
        return TN_ERR_MEMORY;
    }
    for (size_t i = 0; i < header->count; i++)
        pair[i] = (name_number){header->entry[i].name, i};
    if (header->count)
        qsort(pair, header->count, sizeof *pair, compare_name);
    for (size_t i = 0; i < header->count; i++)
        header->by_name[i] = pair[i].number;
    tn__free(pair);
    return TN_OK;
}

static tn_status check_cover(const tn__safetensors_header *header,
                             uint64_t data_bytes, const char *where)
{
    uint64_t at = 0;
    for (size_t i = 0; i < header->count; i++) {
        const tn__safetensors_entry *entry = &header->entry[i];
        if (entry->begin != at)
            return fail_tensor(where, entry->name,
                               entry->begin < at
                                   ? "overlaps the tensor before it"
                                   : "leaves a gap after the tensor before it");
        at = entry->end;
    }
    if (at != data_bytes)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: %llu bytes of data belong to no "
            "tensor",
            where, (unsigned long long)(data_bytes - at));
    return TN_OK;
}

static tn_status parse_root(tn__safetensors_header *header,
                            const tn__json_value *root, uint64_t data_bytes,
                            const char *where)
{
    if (root->kind != TN__JSON_OBJECT)
        return tn__fail(
            TN_ERR_FORMAT,
            "safetensors_open: {path:}%s: the header is not an object", where);
    header->entry = tn__calloc(root->count + 1, sizeof *header->entry);
    if (!header->entry)
        return TN_ERR_MEMORY;
    TN__JSON_EACH(member, root) {
        tn_status status;
        if (strlen(member->key) != member->key_bytes)
            return tn__fail(TN_ERR_FORMAT,
                            "safetensors_open: {path:}%s: header: a NUL after "
                            "\"%s\" in a name",
                            where, member->key);
        if (strcmp(member->key, "__metadata__") == 0) {
            status = parse_metadata(header, member, where);
        } else {
            tn__safetensors_entry *entry = &header->entry[header->count++];
            entry->name = tn__strdup(member->key);
            status = entry->name
                         ? parse_entry(entry, member, data_bytes, where)
                         : TN_ERR_MEMORY;
        }
        if (status < 0)
            return status;
    }
    if (header->count)
        qsort(header->entry, header->count, sizeof *header->entry,
              compare_begin);
    tn_status status = check_cover(header, data_bytes, where);
    return status < 0 ? status : sort_names(header);
}

tn_status tn__safetensors_parse(tn__safetensors_header *header, char *text,
                                size_t bytes, uint64_t data_bytes,
                                const char *where)
{
    memset(header, 0, sizeof *header);
    tn__json json = {.take = tn__alloc, .give = tn__free};
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    tn_status status = TN_ERR_MEMORY;
    if (root)
        status = parse_root(header, root, data_bytes, where);
    else if (*json.error)
        status = tn__fail(TN_ERR_FORMAT,
                          "safetensors_open: {path:}%s: header: line %zu, "
                          "column %zu: %s",
                          where, json.line, json.column, json.error);
    tn__json_free(&json);
    if (status < 0)
        tn__safetensors_release(header);
    return status;
}

/* Returns the rest of name after prefix, or NULL if name does not begin with
 * prefix. */
static const char *without_prefix(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static tn_status select_all(tn__safetensors_header *part,
                            const tn__safetensors_header *whole,
                            const char *prefix)
{
    part->entry = tn__calloc(whole->count + 1, sizeof *part->entry);
    part->metadata =
        tn__calloc(2 * whole->metadata_count + 1, sizeof *part->metadata);
    if (!part->entry || !part->metadata)
        return TN_ERR_MEMORY;
    for (size_t i = 0; i < whole->count; i++) {
        const char *rest = without_prefix(whole->entry[i].name, prefix);
        if (!rest)
            continue;
        tn__safetensors_entry *entry = &part->entry[part->count++];
        *entry = whole->entry[i];
        entry->name = tn__strdup(rest);
        if (!entry->name)
            return TN_ERR_MEMORY;
    }
    for (size_t i = 0; i < whole->metadata_count; i++) {
        const char *rest = without_prefix(whole->metadata[2 * i], prefix);
        if (!rest)
            continue;
        char **pair = part->metadata + 2 * part->metadata_count++;
        pair[0] = tn__strdup(rest);
        pair[1] = tn__strdup(whole->metadata[2 * i + 1]);
        if (!pair[0] || !pair[1])
            return TN_ERR_MEMORY;
    }
    return sort_names(part);
}

tn_status tn__safetensors_select(tn__safetensors_header *part,
                                 const tn__safetensors_header *whole,
                                 const char *prefix)
{
    memset(part, 0, sizeof *part);
    tn_status status = select_all(part, whole, prefix);
    if (status < 0)
        tn__safetensors_release(part);
    return status;
}

void tn__safetensors_release(tn__safetensors_header *header)
{
    for (size_t i = 0; i < header->count; i++)
        tn__free(header->entry[i].name);
    for (size_t i = 0; i < 2 * header->metadata_count; i++)
        tn__free(header->metadata[i]);
    tn__free(header->entry);
    tn__free(header->by_name);
    tn__free(header->metadata);
    memset(header, 0, sizeof *header);
}

const tn__safetensors_entry *
tn__safetensors_find(const tn__safetensors_header *header, const char *name)
{
    size_t low = 0, high = header->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const tn__safetensors_entry *entry =
            &header->entry[header->by_name[middle]];
        int order = strcmp(name, entry->name);
        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
