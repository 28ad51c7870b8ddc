/* slab.c: allocates and releases slabs, the large pieces of memory that a
 * device's plugin allocates.
 *
 * An allocation by a plugin is slow: it takes microseconds on a CPU, and CUDA
 * may wait until all the device's work is done. So a slab has megabytes, and a
 * free slab is kept for reuse until memory of another size is needed. */
#include <device/memory/bins.h>

#include <base/memory.h>
#include <base/platform.h>

/* Allocates memory from the plugin. Records no error, since the caller's
 * message has more details. */
static tn_buffer *buffer_alloc(tn_device *device, uint64_t bytes, char **host)
{
    const tn_plugin *plugin = device->plugin;
    tn_buffer *buffer = NULL;
    tn__error before;
    tn__error_hide(&before);
    tn_status status = plugin->buffer_alloc(device->handle, bytes, &buffer);
    *host = NULL;
    if (!status && device->host_visible) {
        void *pointer = NULL;
        status = plugin->buffer_map(device->handle, buffer, &pointer);
        *host = pointer;
        if (status)
            plugin->buffer_free(device->handle, buffer);
    }
    if (status)
        tn__log(2, "%s: %s", device->name,
                tn_error() ? tn_error() : "memory refused");
    tn__error_restore(&before);
    return status ? NULL : buffer;
}

tn__slab *tn__slab_make(tn__allocator *a, int sort, uint64_t bytes)
{
    if (a->limit_bytes && (bytes > a->limit_bytes ||
                           a->held_bytes > a->limit_bytes - bytes))
        return NULL;
    tn__error before;
    tn__error_hide(&before);
    tn__slab *slab = tn__calloc(1, sizeof *slab);
    tn__error_restore(&before);
    if (!slab)
        return NULL;
    slab->buffer = buffer_alloc(a->device, bytes, &slab->host);
    a->slab_count++;
    if (!slab->buffer) {
        tn__free(slab);
        return NULL;
    }
    slab->bytes = bytes;
    slab->sort = sort;
    slab->next = a->slabs;
    if (a->slabs)
        a->slabs->previous = slab;
    a->slabs = slab;
    a->held_bytes += bytes;
    if (slab->host)
        TN__POISON(slab->host, bytes);
    return slab;
}

void tn__slab_free(tn__allocator *a, tn__slab *slab)
{
    if (slab->host)
        TN__UNPOISON(slab->host, slab->bytes);
    a->device->plugin->buffer_free(a->device->handle, slab->buffer);
    a->held_bytes -= slab->bytes;
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        a->slabs = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
    if (a->carving == slab)
        a->carving = NULL;
    while (slab->batches) {
        tn__batch *batch = slab->batches;
        slab->batches = batch->next;
        tn__free(batch);
    }
    tn__free(slab);
}

/* Removes the blocks of slabs that are completely free from the allocator's
 * lists of free small blocks. */
static void forget_small(tn__allocator *a)
{
    for (int class = 0; class < (int)TN__SMALL_CLASSES; class++) {
        tn__block **at = &a->small[class];
        while (*at) {
            if ((*at)->slab->free_count == (*at)->slab->block_count)
                *at = (*at)->next;
            else
                at = &(*at)->next;
        }
    }
}

void tn__slabs_trim(tn__allocator *a)
{
    /* Waits for the device, which may still use memory that the host has
     * freed. */
    tn__work_drain(a->device);
    forget_small(a);
    tn__slab *next;
    for (tn__slab *slab = a->slabs; slab; slab = next) {
        next = slab->next;
        if (slab->sort == TN__SLAB_SMALL) {
            if (slab->free_count == slab->block_count)
                tn__slab_free(a, slab);
        } else if (!slab->first->used && !slab->first->next_in_slab) {
            tn__block *block = slab->first;
            tn__bin_remove(a, block);
            tn__slab_free(a, slab);
            tn__free(block);
        }
    }
}
