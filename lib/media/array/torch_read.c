/* torch_read.c: the two formats of torch.save, and the paths of the values.
 *
 * New: a zip archive with FOLDER/data.pkl and a member FOLDER/data/KEY for each
 * storage. Old: five pickles (a magic number, a version, facts about the system,
 * the object, the keys of the storages), then for each key the number of its
 * elements in 8 bytes, and the elements. */
#include <media/array/torch_file.h>

#include <media/array/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *refuse(const tn_torch_file *file, tn_status code,
                    const char *call, const char *why)
{
    tn_error_refuse_argument(code, call, NULL, "%s: %s", file->source.path,
                             why);
    return NULL;
}

/* ---- the zip archive ------------------------------------------------------ */

/* Returns the slash of FOLDER/data.pkl, or NULL. */
static const char *slash_of(const tn__zip_member *member)
{
    const char *slash = strchr(member->name, '/');
    return slash && strcmp(slash, "/data.pkl") == 0 ? slash : NULL;
}

/* Finds FOLDER/data.pkl and stores FOLDER. */
static const tn__zip_member *find_pickle(tn_torch_file *file, const char *call)
{
    size_t i = 0;
    while (i < file->zip.count && !slash_of(&file->zip.member[i]))
        i++;
    if (i == file->zip.count)
        return refuse(file, TN_ERR_FORMAT, call,
                      "a zip archive without data.pkl: no file of torch.save");
    const tn__zip_member *member = &file->zip.member[i];
    const size_t bytes = (size_t)(slash_of(member) - member->name);
    char *folder = tn__pickle_alloc(&file->pickle, bytes + 1, 1);
    if (!folder)
        return NULL;
    file->folder = memcpy(folder, member->name, bytes);
    return member;
}

static const tn__zip_member *member_of(const tn_torch_file *file,
                                       const char *path)
{
    const char *const piece[] = {file->folder, "/", path, NULL};
    return tn__zip_find(&file->zip, piece);
}

static tn_status read_byte_order(tn_torch_file *file, const char *call)
{
    const tn__zip_member *member = member_of(file, "byteorder");
    char text[8] = "little";
    if (member && member->bytes < sizeof text) {
        memset(text, 0, sizeof text);
        tn_status status = tn__zip_read(&file->zip, member, text, true, call);
        if (status < 0)
            return status;
    }
    const bool little = strcmp(text, "little") == 0;
    if ((!little && strcmp(text, "big") != 0) ||
        (member && member->bytes >= sizeof text)) {
        refuse(file, TN_ERR_FORMAT, call,
               "the record byteorder is neither little nor big");
        return TN_ERR_FORMAT;
    }
    file->swapped = little != tn__array_is_little_endian();
    return TN_OK;
}

tn__pickle_value *tn__torch_read_zip(tn_torch_file *file, const char *call)
{
    if (tn__zip_open(&file->zip, &file->source, call) < 0)
        return NULL;
    const tn__zip_member *member = find_pickle(file, call);
    if (!member)
        return NULL;
    if (member_of(file, "constants.pkl"))
        return refuse(file, TN_ERR_UNSUPPORTED, call,
                      "it is a TorchScript archive, which contains code: save "
                      "model.state_dict() instead");
    if (member->bytes > TN__PICKLE_MOST_BYTES)
        return refuse(file, TN_ERR_FORMAT, call,
                      "its pickle has more than 64 MiB");
    if (read_byte_order(file, call) < 0)
        return NULL;
    uint8_t *data = malloc((size_t)member->bytes + 1);
    if (!data)
        return tn__array_no_memory(call), NULL;
    const uint8_t *p = data;
    tn__pickle_value *root = NULL;
    if (tn__zip_read(&file->zip, member, data, true, call) == TN_OK)
        root = tn__pickle_run(&file->pickle, &p, data + member->bytes);
    free(data);
    return root;
}

/* ---- the old format ------------------------------------------------------- */

/* The number in the first pickle. It is looked for before this pickle runs, so
 * that a file of another kind is not called a malformed pickle. */
static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                0x20, 0x6a, 0xa8, 0x50, 0x19};
enum { MOST_BEFORE_MAGIC = 16 };

static bool has_magic(const uint8_t *p, const uint8_t *end)
{
    const size_t most = MOST_BEFORE_MAGIC + sizeof magic;
    const size_t bytes = (size_t)(end - p) < most ? (size_t)(end - p) : most;
    return memmem(p, bytes, magic, sizeof magic) != NULL;
}

/* Checks the pickles before the object. */
static bool read_preamble(tn_torch_file *file, const uint8_t **p,
                          const uint8_t *end, const char *call)
{
    if (!has_magic(*p, end))
        return refuse(file, TN_ERR_FORMAT, call, "it was not written by torch.save");
    const tn__pickle_value *v = tn__pickle_run(&file->pickle, p, end);
    if (!v)
        return false;
    if (v->kind != TN__PICKLE_LONG || v->bytes != sizeof magic ||
        memcmp(v->text, magic, sizeof magic) != 0)
        return refuse(file, TN_ERR_FORMAT, call, "it was not written by torch.save");
    v = tn__pickle_run(&file->pickle, p, end);
    if (v && (v->kind != TN__PICKLE_INT || v->integer != 1001))
        return refuse(file, TN_ERR_UNSUPPORTED, call,
                      "its protocol version is not 1001");
    v = v ? tn__pickle_run(&file->pickle, p, end) : NULL;
    if (!v)
        return false;
    bool little = true;
    for (size_t i = 0; v->kind == TN__PICKLE_DICT && i < v->count; i += 2)
        if (v->item[i]->kind == TN__PICKLE_TEXT &&
            strcmp(v->item[i]->text, "little_endian") == 0)
            little = v->item[i + 1]->kind == TN__PICKLE_BOOL &&
                     v->item[i + 1]->integer;
    file->swapped = little != tn__array_is_little_endian();
    return true;
}

/* Stores where each storage begins. `at` is the offset of the first byte after
 * the pickles. */
static bool place_storages(tn_torch_file *file, const tn__pickle_value *keys,
                           uint64_t at, const char *call)
{
    if (keys->kind != TN__PICKLE_LIST)
        return refuse(file, TN_ERR_FORMAT, call,
                      "the keys of its storages are not a list");
    for (size_t i = 0; i < keys->count; i++) {
        const tn__pickle_value *key = keys->item[i];
        tn__torch_storage *s =
            key->kind == TN__PICKLE_TEXT
                ? tn__pickle_storage(&file->pickle, key->text)
                : NULL;
        uint64_t numel;
        if (!s)
            return refuse(file, TN_ERR_FORMAT, call,
                          "it has a storage that no tensor uses");
        if (tn__array_source_read(&file->source, &numel, 8, at, call) < 0)
            return false;
        if (file->swapped)
            tn__array_swap(&numel, 1, 8);
        const uint64_t left = file->source.bytes - at - 8;
        if (numel != s->numel || numel * s->dtype->item > left)
            return refuse(file, TN_ERR_FORMAT, call,
                          "a storage is truncated, or its size differs from "
                          "the size in the pickle");
        s->at = at + 8;
        s->found = true;
        at += 8 + numel * s->dtype->item;
    }
    return true;
}

tn__pickle_value *tn__torch_read_old(tn_torch_file *file, const char *call)
{
    const size_t bytes = file->source.bytes < TN__PICKLE_MOST_BYTES
                             ? (size_t)file->source.bytes
                             : TN__PICKLE_MOST_BYTES;
    uint8_t *data = malloc(bytes + 1);
    if (!data)
        return tn__array_no_memory(call), NULL;
    const uint8_t *p = data, *end = data + bytes;
    tn__pickle_value *root = NULL, *keys = NULL;
    bool fine =
        tn__array_source_read(&file->source, data, bytes, 0, call) == TN_OK;
    if (fine && bytes > 262 && memcmp(data + 257, "ustar", 5) == 0)
        fine = refuse(file, TN_ERR_UNSUPPORTED, call,
                      "it is a tar file of PyTorch 0.1: load it in PyTorch and "
                      "save it again");
    if (fine && read_preamble(file, &p, end, call))
        root = tn__pickle_run(&file->pickle, &p, end);
    if (root)
        keys = tn__pickle_run(&file->pickle, &p, end);
    if (keys && !place_storages(file, keys, (uint64_t)(p - data), call))
        keys = NULL;
    free(data);
    return keys ? root : NULL;
}

/* ---- paths ---------------------------------------------------------------- */

enum { MOST_DEPTH = 64, MOST_ENTRIES = 1 << 20, MOST_PATH = 4096,
       MOST_NAME_BYTES = 64 << 20 };

typedef struct lister {
    tn_torch_file *file;
    const char *call;
    char path[MOST_PATH];
} lister;

static bool add_entry(lister *l, size_t path_bytes,
                      const tn__pickle_value *value)
{
    tn_torch_file *file = l->file;
    file->name_bytes += path_bytes + 1;
    if (file->count >= MOST_ENTRIES || file->name_bytes > MOST_NAME_BYTES)
        return refuse(file, TN_ERR_FORMAT, l->call,
                      "its tree has more than 2^20 values, or 64 MiB of "
                      "paths");
    if (file->count == file->room) {
        const size_t room = file->room ? 2 * file->room : 64;
        tn__torch_entry *larger =
            realloc(file->entry, room * sizeof *larger);
        if (!larger)
            return tn__array_no_memory(l->call), false;
        file->entry = larger;
        file->room = room;
    }
    char *name = tn__pickle_alloc(&file->pickle, path_bytes + 1, 1);
    if (!name)
        return false;
    memcpy(name, l->path, path_bytes);
    file->entry[file->count++] = (tn__torch_entry){name, value};
    return true;
}

/* Appends a key to the path and returns the new length, or 0 with an error. */
static size_t append_key(lister *l, size_t path_bytes, const char *text,
                         size_t bytes)
{
    const size_t dot = path_bytes > 0;
    if (bytes + path_bytes + dot >= MOST_PATH)
        return refuse(l->file, TN_ERR_FORMAT, l->call,
                      "a path has more than 4095 bytes"), 0;
    if (!bytes || !tn__array_is_utf8(text, bytes))
        return refuse(l->file, TN_ERR_UNSUPPORTED, l->call,
                      "a key of a dict is empty or not UTF-8"), 0;
    if (dot)
        l->path[path_bytes] = '.';
    memcpy(l->path + path_bytes + dot, text, bytes);
    return path_bytes + dot + bytes;
}

static size_t append_value(lister *l, size_t path_bytes,
                           const tn__pickle_value *key)
{
    char number[32];
    if (key->kind == TN__PICKLE_TEXT)
        return append_key(l, path_bytes, key->text, key->bytes);
    if (key->kind == TN__PICKLE_INT)
        snprintf(number, sizeof number, "%lld", (long long)key->integer);
    else if (key->kind == TN__PICKLE_BOOL)
        snprintf(number, sizeof number, "%s", key->integer ? "True" : "False");
    else
        return refuse(l->file, TN_ERR_UNSUPPORTED, l->call,
                      "a key of a dict is neither a string nor an integer"), 0;
    return append_key(l, path_bytes, number, strlen(number));
}

static bool list(lister *l, size_t path_bytes, const tn__pickle_value *value,
                 int depth)
{
    const bool is_dict = value->kind == TN__PICKLE_DICT;
    if (depth > MOST_DEPTH)
        return refuse(l->file, TN_ERR_FORMAT, l->call,
                      "its tree is more than 64 levels deep");
    if (value->kind == TN__PICKLE_STORAGE ||
        value->kind == TN__PICKLE_NUMPY_DTYPE ||
        (value->kind == TN__PICKLE_NAME && !tn__pickle_name_text(value->name)))
        return refuse(l->file, TN_ERR_UNSUPPORTED, l->call,
                      "it has a storage or a class that is no part of a "
                      "tensor");
    if (!add_entry(l, path_bytes, value))
        return false;
    if (!is_dict && value->kind != TN__PICKLE_LIST &&
        value->kind != TN__PICKLE_TUPLE)
        return true;
    for (size_t i = 0; i < value->count; i += is_dict ? 2 : 1) {
        const tn__pickle_value position = {.kind = TN__PICKLE_INT,
                                           .integer = (int64_t)i};
        size_t bytes =
            append_value(l, path_bytes, is_dict ? value->item[i] : &position);
        if (!bytes || !list(l, bytes, value->item[is_dict ? i + 1 : i],
                            depth + 1))
            return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(tn__torch_entry *const *)a)->name,
                  (*(tn__torch_entry *const *)b)->name);
}

tn_status tn__torch_list(tn_torch_file *file, const tn__pickle_value *root,
                         const char *call)
{
    lister *l = calloc(1, sizeof *l);
    if (!l)
        return tn__array_no_memory(call);
    l->file = file;
    l->call = call;
    const bool listed = list(l, 0, root, 0);
    free(l);
    if (!listed)
        return tn_error_code();
    file->sorted = malloc(file->count * sizeof *file->sorted);
    file->tensor = malloc(file->count * sizeof *file->tensor);
    file->other = malloc(file->count * sizeof *file->other);
    if (!file->sorted || !file->tensor || !file->other)
        return tn__array_no_memory(call);
    for (size_t i = 0; i < file->count; i++) {
        tn__torch_entry *entry = file->sorted[i] = &file->entry[i];
        if (entry->value->kind == TN__PICKLE_TENSOR)
            file->tensor[file->tensor_count++] = entry;
        else
            file->other[file->other_count++] = entry;
    }
    qsort(file->sorted, file->count, sizeof *file->sorted, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->sorted[i - 1]->name, file->sorted[i]->name) == 0)
            return tn_error_refuse_argument(
                TN_ERR_UNSUPPORTED, call, NULL,
                "%s: two values have the path \"%s\"", file->source.path,
                file->sorted[i]->name);
    return TN_OK;
}
