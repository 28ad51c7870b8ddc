/* stats.c: reports statistics of a device's memory, sets its limit, and
 * releases free slabs. */
#include <device/memory/allocator.h>

#include <base/lock.h>

#include <string.h>

/* Returns the allocator of a device, or of the current device if it is NULL.
 * Returns NULL with the error recorded on failure. */
static tn__allocator *allocator_of(tn_device *device)
{
    if (!device)
        device = tn_device_current();
    return device ? device->allocator : NULL;
}

tn_status tn_memory(tn_device *device, tn_memory_stats *stats)
{
    if (!stats || stats->size < sizeof stats->size)
        return tn__fail(TN_ERR_ARGUMENT,
                        "memory: %s; set stats.size = sizeof stats first",
                        stats ? "stats.size is 0" : "stats is NULL");
    tn__allocator *a = allocator_of(device);
    if (!a)
        return tn_error_code();
    size_t size = stats->size < sizeof *stats ? stats->size : sizeof *stats;
    tn__lock_take(&a->lock);
    tn_memory_stats now = {
        .size = size,
        .allocated_bytes = tn__allocator_used(a),
        .limit_bytes = (int64_t)a->limit_bytes,
        .allocation_count = a->block_count,
        .slab_count = a->slab_count,
    };
    for (tn__cache *c = a->caches; c; c = c->next)
        now.allocation_count +=
            atomic_load_explicit(&c->block_count, memory_order_relaxed);
    now.peak_bytes = a->peak_bytes;
    now.cached_bytes = (int64_t)a->held_bytes - now.allocated_bytes;
    tn__lock_give(&a->lock);
    memcpy(stats, &now, size);
    return TN_OK;
}

void tn_memory_reset_peak(tn_device *device)
{
    tn__allocator *a = allocator_of(device);
    if (!a)
        return;
    tn__lock_take(&a->lock);
    a->peak_bytes = 0;
    tn__allocator_used(a);
    tn__lock_give(&a->lock);
}

tn_status tn_memory_set_limit(tn_device *device, int64_t bytes)
{
    if (bytes < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "memory_set_limit: bytes is %lld; expected at least 0 "
                        "(0: no limit)", (long long)bytes);
    tn__allocator *a = allocator_of(device);
    if (!a)
        return tn_error_code();
    tn__small_flush(a);
    tn__lock_take(&a->lock);
    a->limit_bytes = (uint64_t)bytes;
    if (bytes && a->held_bytes > (uint64_t)bytes)
        tn__slabs_trim(a);
    tn__lock_give(&a->lock);
    return TN_OK;
}

void tn_cache_empty(tn_device *device)
{
    tn__allocator *a = allocator_of(device);
    if (!a)
        return;
    tn__small_flush(a);
    tn__lock_take(&a->lock);
    tn__slabs_trim(a);
    tn__lock_give(&a->lock);
}
