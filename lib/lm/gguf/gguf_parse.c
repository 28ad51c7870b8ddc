/* gguf_parse.c: parses the metadata and the list of tensors of a GGUF file.
 *
 * The file may be malicious. The parser tracks the number of bytes that are
 * left. Before it allocates memory for a number of items, it checks that these
 * items can fit in these bytes. So it uses at most a few times as much memory
 * as the file's size. */
#include <lm/gguf/gguf_parse.h>

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_VALUE = 8 + 1 + 4 + 1, /* bytes of a key of 1 byte, type and value */
    LEAST_ENTRY = 8 + 1 + 4 + 4 + 8, /* name of 1 byte, ndim, type, offset */
    LEAST_TEXT = 8,                  /* an empty text */
    LEAST_LIST = 4 + 8,              /* an empty list */
    MAX_SHOWN = 64                   /* bytes of a name in a message */
};
static const uint64_t default_alignment = 32;

static const struct {
    const char *name;
    unsigned bytes;
} kinds[] = {{"u8", 1},   {"i8", 1},   {"u16", 2},  {"i16", 2}, {"u32", 4},
             {"i32", 4},  {"f32", 4},  {"bool", 1}, {"text", 0}, {"list", 0},
             {"u64", 8},  {"i64", 8},  {"f64", 8},  {"none", 0}};

unsigned tn__gguf_number_bytes(tn_gguf_kind kind)
{
    return kind < TN_GGUF_NONE ? kinds[kind].bytes : 0;
}

const char *tn__gguf_kind_name(tn_gguf_kind kind)
{
    return kinds[kind < TN_GGUF_NONE ? kind : TN_GGUF_NONE].name;
}

static const tn__gguf_type types[] = {
#define TYPE(name, number, elements, bytes, dtype)                            \
    {#name, number, elements, bytes, dtype},
    TN__GGUF_TYPE_MAP(TYPE)
#undef TYPE
};

static const tn__gguf_type *type_find(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

/* ---- the cursor ---------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *data;
    uint64_t at, bytes;
    const char *where; /* the file, for messages */
    char thing[MAX_SHOWN + 16]; /* "key x" or "tensor x": what is being read;
                                   "header" before the first of them */
} cursor;

#define FAIL(c, ...)                                                          \
    tn_error_refuse_argument(TN_ERR_FORMAT, "gguf_open", "path", __VA_ARGS__)
#define WHERE "%s: %s at byte %llu: "
#define AT(c) (c)->where, (c)->thing, (unsigned long long)(c)->at

static tn_status fail_memory(void)
{
    return tn_error_set(TN_ERR_MEMORY, "gguf_open: out of memory");
}

/* Names what is being read. Bytes that are not printable ASCII become '?', so
 * that a message stays one readable line. */
static void name_thing(cursor *c, const char *what, const char *name,
                       uint64_t bytes)
{
    size_t n = strlen(what), shown = bytes < MAX_SHOWN ? bytes : MAX_SHOWN;
    memcpy(c->thing, what, n);
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)name[i];
        c->thing[n++] = byte < ' ' || byte > '~' ? '?' : (char)byte;
    }
    c->thing[n] = 0;
}

/* Reads a little-endian number of `bytes` bytes. The machine is little-endian,
 * too: tensors are used as they are in the file. */
static tn_status take(cursor *c, void *out, unsigned bytes)
{
    if (c->bytes - c->at < bytes)
        return FAIL(c, WHERE "the file ends within it", AT(c));
    memcpy(out, c->data + c->at, bytes);
    c->at += bytes;
    return TN_OK;
}

/* Reads the number of items that follow and that take at least `least` bytes
 * each. */
static tn_status take_count(cursor *c, uint64_t *count, unsigned least,
                            const char *things)
{
    tn_status status = take(c, count, sizeof *count);
    if (status < 0)
        return status;
    if (*count > (c->bytes - c->at) / least)
        return FAIL(c, WHERE "%llu %s do not fit in the %llu bytes that follow",
                    AT(c), (unsigned long long)*count, things,
                    (unsigned long long)(c->bytes - c->at));
    return TN_OK;
}

static tn_status take_text(cursor *c, tn_gguf_bytes *text)
{
    uint64_t bytes = 0;
    tn_status status = take_count(c, &bytes, 1, "bytes of text");
    if (status < 0)
        return status;
    *text = (tn_gguf_bytes){(const char *)c->data + c->at, (size_t)bytes};
    c->at += bytes;
    return TN_OK;
}

static char *copy_text(tn_gguf_bytes text)
{
    char *copy = malloc(text.bytes + 1);
    if (copy) {
        memcpy(copy, text.text, text.bytes);
        copy[text.bytes] = 0;
    }
    return copy;
}

/* Reads a key or a tensor's name. */
static tn_status take_name(cursor *c, const char *what, char **name)
{
    tn_gguf_bytes text = {NULL, 0};
    strcpy(c->thing, "a name");
    tn_status status = take_text(c, &text);
    if (status < 0)
        return status;
    name_thing(c, what, text.text, text.bytes);
    if (!text.bytes || text.bytes > TN__GGUF_MAX_NAME)
        return FAIL(c, WHERE "a name of %zu bytes; expected 1 to %d", AT(c),
                    text.bytes, TN__GGUF_MAX_NAME);
    if (memchr(text.text, 0, text.bytes))
        return FAIL(c, WHERE "the name contains a NUL byte", AT(c));
    *name = copy_text(text);
    return *name ? TN_OK : fail_memory();
}

/* ---- metadata ------------------------------------------------------------ */

static tn_status take_kind(cursor *c, tn_gguf_kind *kind)
{
    tn_status status = take(c, kind, sizeof *kind);
    if (status == TN_OK && *kind >= TN_GGUF_NONE)
        return FAIL(c, WHERE "type %u is unknown", AT(c), *kind);
    return status;
}

static tn_status skip_numbers(cursor *c, tn_gguf_kind kind, uint64_t count)
{
    const unsigned char *at = c->data + c->at;
    if (kind == TN_GGUF_BOOL)
        for (uint64_t i = 0; i < count; i++)
            if (at[i] > 1)
                return FAIL(c, WHERE "a bool is %d", AT(c), at[i]);
    c->at += count * kinds[kind].bytes;
    return TN_OK;
}

/* Reads the type and the number of items of a list. */
static tn_status take_list_head(cursor *c, tn_gguf_kind *item, uint64_t *count)
{
    tn_status status = take_kind(c, item);
    return status < 0 ? status
                      : take_count(c, count,
                                   kinds[*item].bytes       ? kinds[*item].bytes
                                   : *item == TN_GGUF_TEXT ? LEAST_TEXT
                                                           : LEAST_LIST,
                                   "items");
}

/* Checks the items of a list within a list, and skips them. No public function
 * returns such items. */
static tn_status skip_items(cursor *c, tn_gguf_kind item, uint64_t count,
                            int depth)
{
    if (depth > TN__GGUF_MAX_DEPTH)
        return FAIL(c, WHERE "lists are nested more than %d deep", AT(c),
                    TN__GGUF_MAX_DEPTH);
    if (kinds[item].bytes)
        return skip_numbers(c, item, count);
    tn_status status = TN_OK;
    for (uint64_t i = 0; i < count && status == TN_OK; i++) {
        tn_gguf_bytes text;
        tn_gguf_kind inner = 0;
        uint64_t inner_count = 0;
        if (item == TN_GGUF_TEXT) {
            status = take_text(c, &text);
            continue;
        }
        status = take_list_head(c, &inner, &inner_count);
        if (status == TN_OK)
            status = skip_items(c, inner, inner_count, depth + 1);
    }
    return status;
}

static tn_status take_texts(cursor *c, tn__gguf_value *value, uint64_t count)
{
    value->texts = calloc(count ? count : 1, sizeof *value->texts);
    if (!value->texts)
        return fail_memory();
    tn_status status = TN_OK;
    for (uint64_t i = 0; i < count && status == TN_OK; i++)
        status = take_text(c, &value->texts[i]);
    return status;
}

static tn_status take_value(cursor *c, tn__gguf_value *value)
{
    uint64_t count = 1;
    tn_status status = take_name(c, "key ", &value->key);
    if (status == TN_OK)
        status = take_kind(c, &value->kind);
    value->item = value->kind;
    if (status == TN_OK && value->kind == TN_GGUF_LIST)
        status = take_list_head(c, &value->item, &count);
    if (status < 0)
        return status;
    value->count = (int64_t)count;
    value->at = c->data + c->at;
    const unsigned bytes = kinds[value->item].bytes;
    if (bytes && c->bytes - c->at < bytes * count)
        return FAIL(c, WHERE "the file ends within it", AT(c));
    if (value->item != TN_GGUF_TEXT)
        return skip_items(c, value->item, count, 1);
    status = take_texts(c, value, count);
    if (status < 0 || value->kind == TN_GGUF_LIST)
        return status;
    value->text = copy_text(value->texts[0]);
    return value->text ? TN_OK : fail_memory();
}

/* ---- tensors ------------------------------------------------------------- */

static tn_status take_shape(cursor *c, tn__gguf_entry *entry)
{
    uint32_t ndim = 0;
    tn_status status = take(c, &ndim, sizeof ndim);
    if (status == TN_OK && ndim > TN_MAX_NDIM)
        return FAIL(c, WHERE "%u dimensions; at most %d are possible", AT(c),
                    ndim, TN_MAX_NDIM);
    entry->ndim = (int)ndim;
    for (uint32_t d = 0; d < ndim && status == TN_OK; d++) {
        int64_t *size = &entry->shape[ndim - 1 - d];
        status = take(c, size, sizeof *size);
        if (status == TN_OK && *size < 0)
            return FAIL(c, WHERE "dimension %u has size %llu", AT(c), d,
                        (unsigned long long)*size);
    }
    return status;
}

/* Computes entry->bytes, and checks each product for overflow. */
static tn_status measure(cursor *c, tn__gguf_entry *entry)
{
    const tn__gguf_type *type = entry->type;
    const int64_t row = entry->ndim ? entry->shape[entry->ndim - 1] : 1;
    if (row % type->elements)
        return FAIL(c, WHERE "a row has %lld elements, which are no whole "
                    "blocks of %s, %u elements each", AT(c), (long long)row,
                    type->name, type->elements);
    int64_t numel = 1;
    for (int d = 0; d < entry->ndim; d++)
        if (__builtin_mul_overflow(numel, entry->shape[d], &numel))
            return FAIL(c, WHERE "its number of elements overflows", AT(c));
    /* The bytes of a row count, too: with another dimension of 0 there may be no
     * elements, but rows of any size. */
    int64_t row_bytes;
    if (__builtin_mul_overflow(row / type->elements, type->bytes, &row_bytes) ||
        __builtin_mul_overflow((uint64_t)numel / type->elements, type->bytes,
                               &entry->bytes))
        return FAIL(c, WHERE "its number of bytes overflows", AT(c));
    return TN_OK;
}

static tn_status take_entry(cursor *c, tn__gguf_entry *entry,
                            uint64_t alignment)
{
    uint32_t number = 0;
    tn_status status = take_name(c, "tensor ", &entry->name);
    if (status == TN_OK)
        status = take_shape(c, entry);
    if (status == TN_OK)
        status = take(c, &number, sizeof number);
    if (status == TN_OK)
        status = take(c, &entry->offset, sizeof entry->offset);
    if (status < 0)
        return status;
    entry->type = type_find(number);
    if (!entry->type)
        return FAIL(c, WHERE "type %u is unknown", AT(c), number);
    if (entry->offset % alignment)
        return FAIL(c, WHERE "its data is at offset %llu, which is not a "
                    "multiple of general.alignment, %llu", AT(c),
                    (unsigned long long)entry->offset,
                    (unsigned long long)alignment);
    return measure(c, entry);
}

static int by_offset(const void *a, const void *b)
{
    const tn__gguf_entry *x = *(tn__gguf_entry *const *)a;
    const tn__gguf_entry *y = *(tn__gguf_entry *const *)b;
    return x->offset != y->offset ? (x->offset > y->offset) -
                                        (x->offset < y->offset)
                                  : (x->bytes > y->bytes) -
                                        (x->bytes < y->bytes);
}

/* Checks that the data of all tensors is within the file and does not overlap,
 * and makes offsets relative to the beginning of the file. Sorts by_name by
 * offset. */
static tn_status place(cursor *c, tn__gguf_header *header, uint64_t alignment)
{
    const uint64_t start = c->at + (alignment - c->at % alignment) % alignment;
    const uint64_t room = c->bytes > start ? c->bytes - start : 0;
    uint64_t end = 0;
    qsort(header->by_name, (size_t)header->entry_count, sizeof(void *),
          by_offset);
    for (int64_t i = 0; i < header->entry_count; i++) {
        tn__gguf_entry *entry = header->by_name[i];
        name_thing(c, "tensor ", entry->name, strlen(entry->name));
        if (entry->offset > room || entry->bytes > room - entry->offset)
            return FAIL(c, "%s: %s: %llu bytes at offset %llu; the data of the "
                        "file has %llu bytes: it is truncated or damaged",
                        c->where, c->thing, (unsigned long long)entry->bytes,
                        (unsigned long long)entry->offset,
                        (unsigned long long)room);
        if (entry->bytes && entry->offset < end)
            return FAIL(c, "%s: %s: its data at offset %llu overlaps another "
                        "tensor's, which ends at %llu", c->where, c->thing,
                        (unsigned long long)entry->offset,
                        (unsigned long long)end);
        if (entry->bytes)
            end = entry->offset + entry->bytes;
        entry->offset += start;
    }
    return TN_OK;
}

/* ---- the file ------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    return strcmp((*(tn__gguf_value *const *)a)->key,
                  (*(tn__gguf_value *const *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(tn__gguf_entry *const *)a)->name,
                  (*(tn__gguf_entry *const *)b)->name);
}

static tn_status sort_values(cursor *c, tn__gguf_header *header)
{
    tn__gguf_value **sorted = header->by_key;
    qsort(sorted, (size_t)header->value_count, sizeof *sorted, by_key);
    for (int64_t i = 1; i < header->value_count; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0) {
            name_thing(c, "key ", sorted[i]->key, strlen(sorted[i]->key));
            return FAIL(c, "%s: %s occurs twice", c->where, c->thing);
        }
    return TN_OK;
}

static tn_status sort_entries(cursor *c, tn__gguf_header *header)
{
    tn__gguf_entry **sorted = header->by_name;
    qsort(sorted, (size_t)header->entry_count, sizeof *sorted, by_name);
    for (int64_t i = 1; i < header->entry_count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            name_thing(c, "tensor ", sorted[i]->name, strlen(sorted[i]->name));
            return FAIL(c, "%s: %s occurs twice", c->where, c->thing);
        }
    return TN_OK;
}

/* Reads the beginning of the file: magic and version, number of tensors, number
 * of keys. */
static tn_status take_head(cursor *c, uint64_t *entries, uint64_t *values)
{
    char magic[4] = "";
    uint32_t version = 0;
    strcpy(c->thing, "header");
    if (take(c, magic, sizeof magic) < 0 || take(c, &version, 4) < 0)
        return TN_ERR_FORMAT;
    if (memcmp(magic, "GGUF", 4) != 0)
        return FAIL(c, "%s: no GGUF file: its first bytes are not \"GGUF\"",
                    c->where);
    if ((version & 0xffff) == 0 && version)
        return FAIL(c, "%s: a big-endian file; convert it to little-endian, as "
                    "with gguf-py's gguf_convert_endian", c->where);
    if (version < 2 || version > 3)
        return FAIL(c, "%s: version %u; versions 2 and 3 can be read", c->where,
                    version);
    tn_status status = take_count(c, entries, LEAST_ENTRY, "tensors");
    return status < 0 ? status
                      : take_count(c, values, LEAST_VALUE, "keys");
}

static tn_status find_alignment(cursor *c, const tn__gguf_header *header,
                                uint64_t *alignment)
{
    const tn__gguf_value *value =
        tn__gguf_value_find(header, "general.alignment");
    *alignment = default_alignment;
    if (!value)
        return TN_OK;
    uint32_t given = 0;
    if (value->kind != TN_GGUF_U32)
        return FAIL(c, "%s: key general.alignment is %s; expected u32",
                    c->where, tn__gguf_kind_name(value->kind));
    memcpy(&given, value->at, sizeof given);
    if (!given || given % 8)
        return FAIL(c, "%s: key general.alignment is %u; expected a multiple "
                    "of 8", c->where, given);
    *alignment = given;
    return TN_OK;
}

/* Allocates an array of `count` zeroed elements and an array of pointers to
 * them. */
static bool make(void *elements, size_t bytes, void *pointers, uint64_t count)
{
    char *element = calloc(count ? count : 1, bytes);
    char **pointer = calloc(count ? count : 1, sizeof *pointer);
    memcpy(elements, &element, sizeof element);
    memcpy(pointers, &pointer, sizeof pointer);
    for (uint64_t i = 0; element && pointer && i < count; i++)
        pointer[i] = element + i * bytes;
    return element && pointer;
}

tn_status tn__gguf_parse(tn__gguf_header *header, const void *data,
                         uint64_t bytes, const char *where)
{
    cursor c = {.data = data, .bytes = bytes, .where = where};
    uint64_t entries = 0, values = 0, alignment = 0;
    tn_status status = take_head(&c, &entries, &values);
    if (status < 0)
        return status;
    if (!make(&header->value, sizeof *header->value, &header->by_key, values) ||
        !make(&header->entry, sizeof *header->entry, &header->by_name, entries))
        return fail_memory();
    for (; header->value_count < (int64_t)values && status == TN_OK;)
        status = take_value(&c, &header->value[header->value_count++]);
    if (status == TN_OK)
        status = sort_values(&c, header);
    if (status == TN_OK)
        status = find_alignment(&c, header, &alignment);
    for (; header->entry_count < (int64_t)entries && status == TN_OK;)
        status =
            take_entry(&c, &header->entry[header->entry_count++], alignment);
    if (status == TN_OK)
        status = place(&c, header, alignment);
    return status < 0 ? status : sort_entries(&c, header);
}

void tn__gguf_release(tn__gguf_header *header)
{
    for (int64_t i = 0; i < header->value_count; i++) {
        free(header->value[i].key);
        free(header->value[i].texts);
        free(header->value[i].text);
    }
    for (int64_t i = 0; i < header->entry_count; i++)
        free(header->entry[i].name);
    free(header->value);
    free(header->by_key);
    free(header->entry);
    free(header->by_name);
    *header = (tn__gguf_header){0};
}

const tn__gguf_value *tn__gguf_value_find(const tn__gguf_header *header,
                                          const char *key)
{
    union {
        const char *given;
        char *key;
    } as = {key};
    tn__gguf_value wanted = {.key = as.key}, *pointer = &wanted;
    tn__gguf_value **found =
        header->value_count
            ? bsearch(&pointer, header->by_key, (size_t)header->value_count,
                      sizeof *header->by_key, by_key)
            : NULL;
    return found ? *found : NULL;
}

const tn__gguf_entry *tn__gguf_entry_find(const tn__gguf_header *header,
                                          const char *name)
{
    union {
        const char *given;
        char *name;
    } as = {name};
    tn__gguf_entry wanted = {.name = as.name}, *pointer = &wanted;
    tn__gguf_entry **found =
        header->entry_count
            ? bsearch(&pointer, header->by_name, (size_t)header->entry_count,
                      sizeof *header->by_name, by_name)
            : NULL;
    return found ? *found : NULL;
}
