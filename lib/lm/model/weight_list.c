/* weight_list.c: the list of a model's tensors by name. */
#include <lm/model/weight_entry.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char call[] = "lm_open";

void tn__lm_unmap(void *context)
{
    tn__lm_mapping *map = context;
    if (map && atomic_fetch_sub(&map->references, 1) == 1) {
        munmap(map->memory, map->bytes);
        free(map);
    }
}

static void release(void *object)
{
    tn__lm_weights *w = object;
    for (size_t i = 0; i < w->map_count; i++)
        tn__lm_unmap(w->map[i]);
    for (size_t i = 0; i < w->count; i++) {
        free(w->entry[i].owned);
        tn_drop(w->entry[i].gguf);
    }
    free(w->map);
    free(w->entry);
}

static const tn_object_class weights_class = {.size = sizeof weights_class,
                                              .name = "weights",
                                              .bytes = sizeof(tn__lm_weights),
                                              .release = release};

bool tn__lm_no_memory(void)
{
    tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    return false;
}

bool tn__lm_weights_add(tn__lm_weights *w, tn__lm_entry added)
{
    /* The list grows when count + 1 is a power of two, to twice that size. */
    if ((w->count & (w->count + 1)) == 0) {
        tn__lm_entry *list =
            realloc(w->entry, (2 * w->count + 2) * sizeof *list);
        if (!list)
            return tn__lm_no_memory();
        w->entry = list;
    }
    w->entry[w->count++] = added;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tn__lm_entry *)a)->name,
                  ((const tn__lm_entry *)b)->name);
}

tn__lm_entry *tn__lm_weights_find(const tn__lm_weights *w, const char *name)
{
    tn__lm_entry key = {.name = name};
    return w->count ? bsearch(&key, w->entry, w->count, sizeof key, by_name)
                    : NULL;
}

bool tn__lm_weights_sort(tn__lm_weights *w, const char *path)
{
    qsort(w->entry, w->count, sizeof *w->entry, by_name);
    for (size_t i = 1; i < w->count; i++)
        if (strcmp(w->entry[i - 1].name, w->entry[i].name) == 0) {
            tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                     "%s: the tensor \"%.100s\" occurs twice",
                                     path, w->entry[i].name);
            return false;
        }
    return true;
}

bool tn__lm_weights_set_dtype(tn__lm_weights *w, tn_dtype dtype)
{
    w->dtype = dtype;
    if (dtype == TN_F32 || dtype == TN_F16 || dtype == TN_BF16)
        return true;
    tn_error_refuse_argument(TN_ERR_DTYPE, call, "dtype",
                             "%s is not supported: give float32, float16 or "
                             "bfloat16",
                             tn_dtype_name(dtype));
    return false;
}

tn__lm_weights *tn__lm_weights_new(void)
{
    tn__lm_weights *w = tn_object_new(&weights_class, 0);
    tn_device *device = w ? tn_device_current() : NULL;
    if (!device)
        return NULL;
    /* Decide by the device's name. Trying tn_tensor_wrap instead could cause an
     * error, which would reach the program's error handler. */
    const char *name = tn_device_name(device);
    w->maps = strncmp(name, "cpu", 3) == 0;
    w->multiplies = w->maps || strncmp(name, "reference", 9) == 0 ||
                    tn_device_has_extension(device, "quantised-product");
    return w;
}
