/* weights.c: reads weights from the safetensors files of a folder.
 *
 * tn_safetensors_open checks the whole header. In particular, the data of
 * tensor i begins where that of tensor i - 1 ends. So the offset of a tensor is
 * the sum of the preceding sizes, and the file can be mapped. */
#include <lm/model/json_file.h>
#include <lm/model/weight_entry.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/ops.h>
#include <unistd.h>

static const char call[] = "lm_open";

/* ---- opening ------------------------------------------------------------- */

/* Maps the file copy-on-write, so that training can change the weights but not
 * the file. It maps the open descriptor, so another file that now has the same
 * name is not read. */
static tn__lm_mapping *map_file(tn__lm_weights *w, tn_safetensors *file)
{
    tn__lm_mapping **list = realloc(w->map, (w->map_count + 1) * sizeof *list);
    if (list)
        w->map = list;
    tn__lm_mapping *map = list ? calloc(1, sizeof *map) : NULL;
    if (!map) {
        tn__lm_no_memory();
        return NULL;
    }
    const int fd = tn_safetensors_descriptor(file, NULL);
    struct stat info;
    void *memory = MAP_FAILED;
    if (fstat(fd, &info) == 0)
        memory = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
        const int why = errno;
        free(map);
        tn_error_refuse_argument(tn__lm_file_code(why), call, "path", "%s: %s",
                                 tn_safetensors_path(file), strerror(why));
        return NULL;
    }
    map->memory = memory;
    map->bytes = (size_t)info.st_size;
    atomic_init(&map->references, 1);
    w->map[w->map_count++] = map;
    return map;
}

static uint64_t bytes_of(tn_safetensors *file, const char *name)
{
    uint64_t bytes = tn_dtype_bytes(tn_safetensors_dtype(file, name));
    for (int d = 0; d < tn_safetensors_ndim(file, name); d++)
        bytes *= (uint64_t)tn_safetensors_shape(file, name)[d];
    return bytes;
}

static bool add_file(tn__lm_weights *w, const char *path)
{
    tn_safetensors *file = tn_safetensors_open(path);
    if (!file) {
        tn_error_rename("safetensors_open", call, "path");
        return false;
    }
    int64_t data;
    tn_safetensors_descriptor(file, &data);
    uint64_t at = (uint64_t)data;
    tn__lm_mapping *map = w->maps ? map_file(w, file) : NULL;
    if (w->maps && !map)
        return false;
    for (int i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        /* after a tensor of unknown dtype, offsets are unknown */
        if (!tn_safetensors_dtype(file, name))
            map = NULL;
        if (!tn__lm_weights_add(w, (tn__lm_entry){.name = name,
                                                  .file = file,
                                                  .map = map,
                                                  .at = at,
                                                  .expert = -1}))
            return false;
        at += bytes_of(file, name);
    }
    if (map && at != map->bytes) {
        tn_error_refuse_argument(TN_ERR_IO, call, "path",
                                 "%s: the file changed while it was opened",
                                 path);
        return false;
    }
    return true;
}

/* Adds each file that the index lists, once. */
static bool add_shards(tn__lm_weights *w, const char *folder,
                       const tn__json_value *index, const char *index_path)
{
    const tn__json_value *names = tn__json_get(index, "weight_map");
    if (!tn__json_is(names, TN__JSON_OBJECT) || !names->count) {
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                 "%s: \"weight_map\" is missing", index_path);
        return false;
    }
    const char **seen = calloc(names->count, sizeof *seen);
    size_t count = 0;
    bool fine = seen != NULL || tn__lm_no_memory();
    TN__JSON_EACH(member, names)
    {
        const char *name = tn__json_text(member);
        char path[4096];
        size_t i = 0;
        if (!fine)
            break;
        while (name && i < count && strcmp(seen[i], name) != 0)
            i++;
        if (name && i < count)
            continue;
        if (!name || strchr(name, '/') ||
            tn_format(path, sizeof path, "%s/%s", folder, name) >=
                (int)sizeof path) {
            tn_error_refuse_argument(
                TN_ERR_FORMAT, call, "path",
                "%s: the file of tensor \"%.80s\" must be in the same folder",
                index_path,
                member->key);
            fine = false;
            break;
        }
        seen[count++] = name;
        fine = add_file(w, path);
    }
    free(seen);
    return fine;
}

static bool add_files(tn__lm_weights *w, const char *folder)
{
    char path[4096];
    tn__lm_json index;
    bool fine = false;
    int wrote = tn_format(path, sizeof path, "%s/model.safetensors", folder);
    if (wrote < 0 || wrote >= (int)sizeof path - 16) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                 "the name is too long");
        return false;
    }
    if (access(path, F_OK) == 0)
        fine = add_file(w, path);
    else {
        strcat(path, ".index.json");
        if (access(path, F_OK) != 0) {
            tn_error_refuse_argument(TN_ERR_IO, call, "path",
                                     "%s: the folder has neither "
                                     "model.safetensors nor "
                                     "model.safetensors.index.json",
                                     folder);
            return false;
        }
        fine = tn__lm_json_open(&index, path, call) &&
               add_shards(w, folder, index.root, path);
        tn__lm_json_close(&index);
    }
    return fine && tn__lm_weights_sort(w, folder);
}

tn__lm_weights *tn__lm_weights_open(const char *folder, tn_dtype dtype,
                                    const char *first, const char *prefix,
                                    bool *prefixed)
{
    tn__lm_weights *w = tn__lm_weights_new();
    if (!w || !add_files(w, folder))
        return NULL;
    char path[TN__LM_PATH];
    tn_format(path, sizeof path, "%s%s.weight", prefix ? prefix : "", first);
    const tn__lm_entry *at = tn__lm_weights_find(w, path);
    *prefixed = at != NULL;
    if (!at) {
        tn_format(path, sizeof path, "%s.weight", first);
        at = tn__lm_weights_find(w, path);
        *prefixed = !at;
    }
    if (!dtype)
        dtype = at ? tn_safetensors_dtype(at->file, at->name) : TN_F32;
    return tn__lm_weights_set_dtype(w, dtype) ? w : NULL;
}

tn_dtype tn__lm_weights_dtype(const tn__lm_weights *weights)
{
    return weights->dtype;
}

int64_t tn__lm_weights_in_blocks(const tn__lm_weights *weights, int64_t *bytes)
{
    *bytes = weights->block_bytes;
    return weights->block_numel;
}

bool tn__lm_weights_has(const tn__lm_weights *weights, const char *name)
{
    return tn__lm_weights_find(weights, name) != NULL;
}

bool tn__lm_weights_give_up(const tn__lm_weights *weights)
{
    return weights && weights->complaints > 10000;
}

void tn__lm_weights_skip(tn__lm_weights *weights, const char *name)
{
    tn__lm_entry *e = tn__lm_weights_find(weights, name);
    if (e)
        e->taken = true;
}

/* ---- taking -------------------------------------------------------------- */

static void complain(tn__lm_weights *w, tn_status code, const char *format,
                     const char *name, const char *detail)
{
    size_t room = sizeof w->complaint - w->complained;
    int wrote = tn_format(w->complaint + w->complained, room, format,
                          w->complaints ? "; " : "", name, detail);
    if (wrote > 0 && (size_t)wrote < room)
        w->complained += (size_t)wrote;
    else
        w->complaint[w->complained] = '\0'; /* whole complaints only */
    if (!w->complaints++)
        w->worst = code;
}

static void shape_text(char text[128], const int64_t *shape, int ndim)
{
    size_t used = 0;
    text[0] = '\0';
    for (int d = 0; d < ndim && used < 100; d++)
        used += (size_t)tn_format(text + used, 128 - used, "%s%" PRId64,
                                  d ? ", " : "", shape[d]);
}

static tn_dtype dtype_of(const tn__lm_entry *e)
{
    return e->gguf ? tn__lm_gguf_dtype(e)
                   : tn_safetensors_dtype(e->file, e->name);
}

static bool check_shape(tn__lm_weights *w, const tn__lm_entry *e,
                        tn_dims_list shape)
{
    const int64_t *has;
    int ndim = e->gguf ? tn__lm_gguf_shape(e, &has)
                       : tn_safetensors_ndim(e->file, e->name);
    if (!e->gguf)
        has = tn_safetensors_shape(e->file, e->name);
    bool same = ndim == shape.count;
    for (int d = 0; same && d < ndim; d++)
        same = has[d] == shape.dim[d];
    if (!same) {
        char wants[128], got[128], text[300];
        shape_text(got, has, ndim);
        shape_text(wants, shape.dim, shape.count);
        tn_format(text, sizeof text, "(%s) instead of (%s)", got, wants);
        complain(w, TN_ERR_SHAPE, "%s%s has the shape %s", e->name, text);
        return false;
    }
    tn_dtype dtype = dtype_of(e);
    if (dtype != TN_F32 && dtype != TN_F16 && dtype != TN_BF16 &&
        dtype < TN_BLOCK) {
        complain(w, TN_ERR_DTYPE,
                 "%s%s has the dtype %s, which is not supported", e->name,
                 e->gguf ? tn_gguf_type(e->gguf, e->source)
                         : tn_dtype_name(dtype));
        return false;
    }
    return true;
}

static tn_tensor *load(tn__lm_weights *w, const tn__lm_entry *e,
                       tn_dims_list shape)
{
    if (e->gguf)
        return tn__lm_gguf_load(w, e, false);
    tn_dtype dtype = tn_safetensors_dtype(e->file, e->name);
    tn_tensor *x = NULL;
    if (e->map && e->at % tn_dtype_bytes(dtype) == 0) {
        atomic_fetch_add(&e->map->references, 1);
        x = tn_tensor_wrap(e->map->memory + e->at, dtype, shape, tn__lm_unmap,
                           e->map);
        if (!x)
            tn__lm_unmap(e->map);
    } else {
        x = tn_safetensors_tensor(e->file, e->name);
    }
    return dtype == w->dtype ? x : tn_to_dtype(x, w->dtype);
}

static tn_tensor *random_tensor(tn_dims_list shape, int begin)
{
    if (begin == TN__LM_RANDOM)
        return tn_mul_scalar(tn_randn(shape), 0.02);
    return begin == TN__LM_ONES ? tn_ones(shape) : tn_zeros(shape);
}

tn_tensor *tn__lm_take(tn__lm_maker *maker, const char *path, const char *name,
                       tn_dims_list shape, int begin)
{
    tn__lm_weights *w = maker->weights;
    char full[TN__LM_PATH];
    if (!w)
        return random_tensor(shape, begin);
    tn_format(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
    tn__lm_entry *e = tn__lm_weights_find(w, full);
    if (e)
        e->taken = true;
    else
        complain(w, TN_ERR_ARGUMENT, "%s%s is missing%s", full, "");
    return e && check_shape(w, e, shape) ? load(w, e, shape)
                                         : tn_zeros(tn_dims(1));
}

tn_tensor *tn__lm_take_blocks(tn__lm_maker *maker, const char *path,
                              const char *name, int64_t rows, int64_t size,
                              char format[TN__LM_FORMAT])
{
    tn__lm_weights *w = maker->weights;
    char full[TN__LM_PATH];
    if (!w || !w->keep_blocks)
        return NULL;
    tn_format(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
    tn__lm_entry *e = tn__lm_weights_find(w, full);
    if (!e || dtype_of(e) < TN_BLOCK || !check_shape(w, e, tn_dims(rows, size)))
        return NULL;
    e->taken = true;
    tn_format(format, TN__LM_FORMAT, "%s", tn_gguf_type(e->gguf, e->source));
    tn_tensor *x = tn__lm_gguf_load(w, e, true);
    w->block_numel += rows * size;
    w->block_bytes += x ? tn_tensor_numel(x) : 0;
    return x;
}

static bool ends_with_any(const char *name, const char *const *ends)
{
    size_t length = strlen(name);
    for (; ends && *ends; ends++) {
        size_t end = strlen(*ends);
        if (end <= length && strcmp(name + length - end, *ends) == 0)
            return true;
    }
    return false;
}

bool tn__lm_weights_check(tn__lm_weights *w, const char *const *unused,
                          bool strict)
{
    for (size_t i = 0; strict && i < w->count; i++)
        if (!w->entry[i].taken && !ends_with_any(w->entry[i].name, unused))
            complain(w, TN_ERR_ARGUMENT, "%s%s is not part of the model%s",
                     w->entry[i].name, "");
    if (!w->complaints)
        return true;
    tn_error_refuse_argument(w->worst, call, "path",
                             "%zu weights do not fit the config: %s",
                             w->complaints, w->complaint);
    return false;
}
