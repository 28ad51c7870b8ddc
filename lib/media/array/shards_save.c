/* shards_save.c: writes weights as several safetensors files and an index. */
#include <media/array/text.h>
#include <media/array/host.h>

#include <dirent.h>
#include <errno.h>
#include <json/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/safetensors_shards.h>
#include <unistd.h>

TN_OPTIONS_TYPE(tn_safetensors_shards_save, "safetensors_shards_save",
                "stem, names, tensors, count",
                TN_SAFETENSORS_SHARDS_SAVE_OPTIONS_LIST)

static const char call[] = "safetensors_shards_save";
enum { MOST_SHARDS = 99999, NUMBER_BYTES = 64 };

typedef struct job {
    const char *stem;
    const char *const *names;
    tn_tensor *const *tensors;
    int count;
    int *shard;       /* owned: the shard of each tensor */
    int shard_count;
    int64_t total_bytes;
    char *path;       /* owned: room for a path */
    size_t path_room;
} job;

/* Writes the path of a shard to job->path. A lone shard has no number. */
static const char *shard_path(job *j, int shard)
{
    if (j->shard_count == 1)
        snprintf(j->path, j->path_room, "%s.safetensors", j->stem);
    else
        snprintf(j->path, j->path_room, "%s-%05d-of-%05d.safetensors", j->stem,
                 shard + 1, j->shard_count);
    return j->path;
}

static const char *index_path(job *j)
{
    snprintf(j->path, j->path_room, "%s.safetensors.index.json", j->stem);
    return j->path;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- checks and the division into shards ---------------------------------- */

static tn_status check(const job *j, int64_t most)
{
    const char *missing = !j->stem                 ? "stem"
                          : j->count && !j->names   ? "names"
                          : j->count && !j->tensors ? "tensors"
                                                    : NULL;
    if (j->count < 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                                        "count is %d; expected at least 0",
                                        j->count);
    if (missing)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, missing,
                                        "%s is NULL", missing);
    if (!*base_of(j->stem))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "stem",
            "stem is \"%s\"; expected a path without .safetensors, such as "
            "\"folder/model\"", j->stem);
    if (most < 1)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "max_shard_bytes",
            "max_shard_bytes is %lld; expected at least 1", (long long)most);
    for (int i = 0; i < j->count; i++) {
        if (!tn_object_check_kind(j->tensors[i], "tensor", call, "tensors"))
            return tn_error_code();
        if (!j->names[i] ||
            !tn__array_is_utf8(j->names[i], strlen(j->names[i])))
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "names", "names[%d] is %s", i,
                j->names[i] ? "not valid UTF-8" : "NULL");
        if (strcmp(j->names[i], "__metadata__") == 0)
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "names",
                "the name \"__metadata__\" is reserved by the format: use "
                "another");
    }
    return tn__array_check_unique(j->names, j->count, call);
}

static tn_status divide(job *j, int64_t most)
{
    int64_t filled = 0;
    j->shard = malloc(((size_t)j->count + 1) * sizeof *j->shard);
    j->path_room = strlen(j->stem) + NUMBER_BYTES;
    j->path = malloc(j->path_room);
    if (!j->shard || !j->path)
        return tn__array_no_memory(call);
    j->shard_count = 1;
    for (int i = 0; i < j->count; i++) {
        const int64_t bytes =
            tn_tensor_numel(j->tensors[i]) *
            (int64_t)tn_dtype_bytes(tn_tensor_dtype(j->tensors[i]));
        if (filled > 0 && bytes > most - filled) {
            j->shard_count++;
            filled = 0;
        }
        j->shard[i] = j->shard_count - 1;
        /* A tensor above the limit fills its shard; the next starts another. */
        filled = filled + bytes < most ? filled + bytes : most;
        if (__builtin_add_overflow(j->total_bytes, bytes, &j->total_bytes))
            return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "tensors",
                                            "the tensors have more than 2^63 "
                                            "bytes in all");
    }
    if (j->shard_count > MOST_SHARDS)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "max_shard_bytes",
            "%lld bytes in files of %lld need %d files, more than %d",
            (long long)j->total_bytes, (long long)most, j->shard_count,
            MOST_SHARDS);
    return TN_OK;
}

/* ---- writing -------------------------------------------------------------- */

/* Tensors are in the order of their shards, so a shard is a part of the list. */
static tn_status save_shards(job *j)
{
    static const char *const format[][2] = {{"format", "pt"}};
    tn_status status = TN_OK;
    int first = 0;
    for (int s = 0; status == TN_OK && s < j->shard_count; s++) {
        int end = first;
        while (end < j->count && j->shard[end] == s)
            end++;
        /* both lists may be NULL if there are no tensors */
        status = tn_safetensors_save(
            shard_path(j, s), end > first ? j->names + first : NULL,
            end > first ? j->tensors + first : NULL, end - first, format, 1);
        first = end;
    }
    tn_error_rename("safetensors_save", call,
                    status == TN_ERR_IO ? "stem" : NULL);
    return status;
}

static tn_status produce_index(void *context, tn_file *file)
{
    return tn_file_write(file, context, strlen(context));
}

static tn_status save_index(job *j)
{
    tn__json_writer text = {.grow = realloc};
    tn__json_add(&text, "{\n  \"metadata\": {\n    \"total_size\": ");
    tn__json_add_integer(&text, j->total_bytes);
    tn__json_add(&text, "\n  },\n  \"weight_map\": {");
    for (int i = 0; i < j->count; i++) {
        tn__json_add(&text, i ? ",\n    " : "\n    ");
        tn__json_add_text(&text, j->names[i]);
        tn__json_add(&text, ": ");
        tn__json_add_text(&text, base_of(shard_path(j, j->shard[i])));
    }
    tn__json_add(&text, "\n  }\n}\n");
    tn_status status =
        text.failed ? tn__array_no_memory(call)
                    : tn_file_replace(index_path(j), call, produce_index,
                                      text.text);
    free(text.text);
    return status;
}

/* ---- files of an older save ----------------------------------------------- */

/* Returns whether a file name is one of a save with this stem, other than those
 * of the new one. */
static bool is_stale(const job *j, const char *name)
{
    const char *stem = base_of(j->stem);
    const size_t bytes = strlen(stem);
    if (strncmp(name, stem, bytes) != 0)
        return false;
    const char *rest = name + bytes;
    if (strcmp(rest, ".safetensors") == 0)
        return j->shard_count > 1;
    if (strcmp(rest, ".safetensors.index.json") == 0)
        return j->shard_count == 1;
    int shard, of, used = 0;
    char exact[NUMBER_BYTES];
    if (sscanf(rest, "-%5d-of-%5d.safetensors%n", &shard, &of, &used) != 2 ||
        !used || rest[used])
        return false;
    snprintf(exact, sizeof exact, "-%05d-of-%05d.safetensors", shard, of);
    return strcmp(rest, exact) == 0 &&
           (j->shard_count == 1 || of != j->shard_count);
}

static tn_status remove_stale(const job *j)
{
    const size_t folder_bytes = (size_t)(base_of(j->stem) - j->stem);
    char *folder = folder_bytes ? strndup(j->stem, folder_bytes) : strdup(".");
    DIR *dir = folder ? opendir(folder) : NULL;
    tn_status status = TN_OK;
    if (!dir)
        status = !folder || errno == ENOMEM
                     ? tn__array_no_memory(call)
                     : tn_error_refuse_argument(TN_ERR_IO, call, "stem",
                                                "%s: %s", folder,
                                                strerror(errno));
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_stale(j, entry->d_name) && status == TN_OK &&
            unlinkat(dirfd(dir), entry->d_name, 0) < 0)
            status = tn_error_refuse_argument(TN_ERR_IO, call, "stem",
                                              "%s in %s cannot be removed: %s",
                                              entry->d_name,
                                              folder, strerror(errno));
    if (dir)
        closedir(dir);
    free(folder);
    return status;
}

tn_status tn_safetensors_shards_save_with(
    const char *stem, const char *const *names, tn_tensor *const *tensors,
    int count, const tn_safetensors_shards_save_options *options)
{
    tn_safetensors_shards_save_options o;
    job j = {.stem = stem, .names = names, .tensors = tensors, .count = count};
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_safetensors_shards_save_type(), &o, options) < 0)
        return tn_error_code();
    tn_status status = check(&j, o.max_shard_bytes);
    if (status == TN_OK)
        status = divide(&j, o.max_shard_bytes);
    if (status == TN_OK)
        status = save_shards(&j);
    if (status == TN_OK && j.shard_count > 1)
        status = save_index(&j);
    if (status == TN_OK)
        status = remove_stale(&j);
    free(j.shard);
    free(j.path);
    return status;
}
