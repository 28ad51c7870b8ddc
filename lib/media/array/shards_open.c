/* shards_open.c: reads weights in several safetensors files with an index. */
#include <media/array/host.h>
#include <media/array/text.h>

#include <json/json.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/safetensors_shards.h>

static const char call[] = "safetensors_shards_open";

typedef struct entry {
    char *name;  /* owned */
    int file;
} entry;

struct tn_safetensors_shards {
    tn_object object;
    char *path;             /* owned: of the index */
    entry *entry;           /* owned, in the order of the index */
    entry **sorted;         /* owned, by name */
    int count;
    tn_safetensors **file;  /* owned; each is kept */
    char **file_name;       /* owned: as in the index */
    int file_count;
};

static void release(void *object)
{
    tn_safetensors_shards *shards = object;
    for (int i = 0; i < shards->count; i++)
        free(shards->entry[i].name);
    for (int i = 0; i < shards->file_count; i++) {
        tn_drop(shards->file[i]);
        free(shards->file_name[i]);
    }
    free(shards->entry);
    free(shards->sorted);
    free(shards->file);
    free(shards->file_name);
    free(shards->path);
}

static const tn_object_class shards_class = {
    .size = sizeof shards_class,
    .name = "safetensors index",
    .bytes = sizeof(tn_safetensors_shards),
    .release = release};

/* ---- opening -------------------------------------------------------------- */

static tn_status malformed(const tn_safetensors_shards *shards,
                           const char *why)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                    "%s: not a valid index: %s", shards->path,
                                    why);
}

/* Opens a file of the folder of the index, and returns its index, or a negative
 * status. */
static int open_file(tn_safetensors_shards *shards, const char *name)
{
    for (int i = shards->file_count - 1; i >= 0; i--)
        if (strcmp(shards->file_name[i], name) == 0)
            return i;
    if (!*name || strchr(name, '/') || strcmp(name, "..") == 0)
        return malformed(shards, "a file is not in the folder of the index");
    const char *slash = strrchr(shards->path, '/');
    const size_t folder = slash ? (size_t)(slash - shards->path) + 1 : 0;
    const size_t bytes = strlen(name);
    char *path = malloc(folder + bytes + 1);
    char *copy = strdup(name);
    if (!path || !copy) {
        free(path);
        free(copy);
        return tn__array_no_memory(call);
    }
    memcpy(path, shards->path, folder);
    memcpy(path + folder, name, bytes + 1);
    const bool pending = tn_error() != NULL;
    tn_safetensors *file = tn_safetensors_open(path);
    if (!pending)
        tn_error_rename("safetensors_open", call, "path");
    free(path);
    if (!file) {
        free(copy);
        return tn_error_code();
    }
    shards->file[shards->file_count] = tn_keep(file);
    shards->file_name[shards->file_count] = copy;
    return shards->file_count++;
}

static tn_status add_entry(tn_safetensors_shards *shards,
                           const tn__json_value *value)
{
    const char *name = tn__json_text(value);
    if (!name || strlen(value->key) != value->key_bytes)
        return malformed(shards, "weight_map has a value that is not the name "
                         "of a file");
    const int file = open_file(shards, name);
    if (file < 0)
        return file;
    entry *e = &shards->entry[shards->count];
    *e = (entry){strdup(value->key), file};
    if (!e->name)
        return tn__array_no_memory(call);
    shards->sorted[shards->count++] = e;
    if (tn_safetensors_has(shards->file[file], e->name))
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_FORMAT, call, "path",
        "%s: not a valid index: \"%s\" is not in %s", shards->path, e->name,
        name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(entry *const *)a)->name, (*(entry *const *)b)->name);
}

static tn_status read_map(tn_safetensors_shards *shards,
                          const tn__json_value *map)
{
    if (!tn__json_is(map, TN__JSON_OBJECT))
        return malformed(shards, "weight_map is missing or no object");
    shards->entry = calloc(map->count + 1, sizeof *shards->entry);
    shards->sorted = calloc(map->count + 1, sizeof *shards->sorted);
    shards->file = calloc(map->count + 1, sizeof(tn_safetensors *));
    shards->file_name = calloc(map->count + 1, sizeof(char *));
    if (!shards->entry || !shards->sorted || !shards->file ||
        !shards->file_name)
        return tn__array_no_memory(call);
    tn_status status = TN_OK;
    TN__JSON_EACH(value, map)
        if (status == TN_OK)
            status = add_entry(shards, value);
    if (status < 0)
        return status;
    qsort(shards->sorted, (size_t)shards->count, sizeof *shards->sorted,
          by_name);
    for (int i = 1; i < shards->count; i++)
        if (strcmp(shards->sorted[i - 1]->name, shards->sorted[i]->name) == 0)
            return malformed(shards, "a name is repeated");
    return TN_OK;
}

static tn_status read_index(tn_safetensors_shards *shards)
{
    void *data = NULL;
    size_t bytes = 0;
    tn_status status = tn_file_read(shards->path, call, &data, &bytes);
    if (status < 0)
        return status;
    char *text = realloc(data, bytes + 1); /* the parser writes one byte more */
    tn__json json = {.take = malloc, .give = free};
    if (!text) {
        free(data);
        return tn__array_no_memory(call);
    }
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    if (root)
        status = read_map(shards, tn__json_get(root, "weight_map"));
    else
        status = *json.error
                     ? tn_error_refuse_argument(
                           TN_ERR_FORMAT, call, "path", "%s:%zu:%zu: %s",
                           shards->path, json.line, json.column, json.error)
                     : tn__array_no_memory(call);
    tn__json_free(&json);
    free(text);
    return status;
}

tn_safetensors_shards *tn_safetensors_shards_open(const char *path)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                 "path is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_safetensors_shards *shards =
        scope ? tn_object_new(&shards_class, 0) : NULL;
    if (!shards)
        return tn_scope_result(scope, NULL);
    shards->path = strdup(path);
    tn_status status =
        shards->path ? read_index(shards) : tn__array_no_memory(call);
    return tn_scope_result(scope, status == TN_OK ? shards : NULL);
}

/* ---- reading -------------------------------------------------------------- */

static bool is_shards(const tn_safetensors_shards *shards, const char *what)
{
    return shards && tn_object_check(shards, &shards_class, what, "shards");
}

static const entry *find(const tn_safetensors_shards *shards, const char *name)
{
    int low = 0, high = shards->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(shards->sorted[middle]->name, name);
        if (order == 0)
            return shards->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

int tn_safetensors_shards_count(const tn_safetensors_shards *shards)
{
    return is_shards(shards, "safetensors_shards_count") ? shards->count : 0;
}

const char *tn_safetensors_shards_name(const tn_safetensors_shards *shards,
                                       int i)
{
    return is_shards(shards, "safetensors_shards_name") && i >= 0 &&
                   i < shards->count
               ? shards->entry[i].name
               : NULL;
}

tn_safetensors *tn_safetensors_shards_of(const tn_safetensors_shards *shards,
                                         const char *name)
{
    const entry *e = is_shards(shards, "safetensors_shards_of") && name
                         ? find(shards, name)
                         : NULL;
    return e ? shards->file[e->file] : NULL;
}

int tn_safetensors_shards_file_count(const tn_safetensors_shards *shards)
{
    return is_shards(shards, "safetensors_shards_file_count")
               ? shards->file_count
               : 0;
}

tn_safetensors *tn_safetensors_shards_file(const tn_safetensors_shards *shards,
                                           int i)
{
    return is_shards(shards, "safetensors_shards_file") && i >= 0 &&
                   i < shards->file_count
               ? shards->file[i]
               : NULL;
}

tn_tensor *tn_safetensors_shards_tensor(tn_safetensors_shards *shards,
                                        const char *name)
{
    static const char own[] = "safetensors_shards_tensor";
    if (!tn_object_check(shards, &shards_class, own, "shards"))
        return NULL;
    const entry *e = name ? find(shards, name) : NULL;
    if (!e) {
        if (name)
            tn_error_refuse_argument(TN_ERR_ARGUMENT, own, "name",
                                     "%s has no tensor \"%s\" among %d",
                                     shards->path, name, shards->count);
        else
            tn_error_refuse_argument(TN_ERR_ARGUMENT, own, "name",
                                     "name is NULL");
        return NULL;
    }
    const bool pending = tn_error() != NULL;
    tn_tensor *x = tn_safetensors_tensor(shards->file[e->file], name);
    if (!pending)
        tn_error_rename("safetensors_tensor", own, NULL);
    return x;
}
