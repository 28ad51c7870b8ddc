/* allocator.c: memory of a device for storages, and its figures.
 *
 * Work of a device is in order on one queue, so a block that was freed may be
 * handed out at once: whoever used it comes first on that queue. */
#include <device/memory/allocator.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "512M", "4GiB", "1000000": bytes; -1 for what is none. */
int64_t tn__bytes_parse(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -1;
    unsigned long long number = strtoull(text, &end, 10);
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    }
    if (shift)
        end += 1 + (end[1] == 'i');
    if (*end == 'B')
        end++;
    if (*end || number > (unsigned long long)INT64_MAX >> shift)
        return -1;
    return (int64_t)(number << shift);
}

/* "4.00 GiB" */
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes)
{
    static const char unit[] = "KMGTPE";
    if (bytes < 1024) {
        snprintf(out, 32, "%u bytes", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    int i = 0;
    while (value >= 1024 && i < 5) {
        value /= 1024;
        i++;
    }
    snprintf(out, 32, "%.2f %ciB", value, unit[i]);
    return out;
}

struct tn__allocator *tn__allocator_make(tn_device *device)
{
    int64_t limit = 0;
    const char *text = tn__env("TENON_MEM_LIMIT");
    if (text && (limit = tn__bytes_parse(text)) < 0)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "TENON_MEM_LIMIT=%s is no number of bytes, such "
                             "as 512M or 4G",
                             text);
    tn__allocator *a = tn__calloc(1, sizeof *a);
    if (!a)
        return NULL;
    tn__lock_init(&a->lock);
    a->device = device;
    a->limit_bytes = (uint64_t)limit;
    a->small_unit = device->align > TN__SMALL_UNIT ? device->align
                                                   : TN__SMALL_UNIT;
    a->large_unit = device->align > 512 ? device->align : 512;
    if (a->small_unit <= TN__SMALL_MAX)
        a->small_shift = __builtin_ctzll(a->small_unit);
    return a;
}

int64_t tn__allocator_used(tn__allocator *a)
{
    int64_t used = a->large_bytes + a->gone_bytes;
    for (tn__cache *c = a->caches; c; c = c->next)
        used += atomic_load_explicit(&c->bytes, memory_order_relaxed);
    if (used > a->peak_bytes)
        a->peak_bytes = used;
    return used;
}

/* What was asked, what is held and by whom, and where the end is. */
static void tell_out_of_memory(tn__allocator *a, uint64_t asked)
{
    char text[5][TN__BYTES_TEXT], end[160] = "", holders[400];
    tn_device *device = a->device;
    tn__lock_take(&a->lock);
    uint64_t used = (uint64_t)tn__allocator_used(a);
    uint64_t held = a->held_bytes, limit = a->limit_bytes;
    tn__holders_text(a, holders, sizeof holders);
    tn__lock_give(&a->lock);
    tn_device_info info = {.size = sizeof info};
    tn__error before;
    tn__error_hide(&before);
    tn_status status = device->plugin->device_info(device->index, &info);
    tn__error_restore(&before);
    if (limit)
        snprintf(end, sizeof end, "; the limit is %s (TENON_MEM_LIMIT or "
                                  "tn_memory_set_limit)",
                 tn__bytes_text(text[3], limit));
    else if (!status && info.memory_total && info.memory_free)
        snprintf(end, sizeof end, "; %s of %s are free",
                 tn__bytes_text(text[3], info.memory_free),
                 tn__bytes_text(text[4], info.memory_total));
    else if (!status && info.memory_total)
        snprintf(end, sizeof end, "; it has %s",
                 tn__bytes_text(text[3], info.memory_total));
    tn__fail(TN_ERR_MEMORY,
             "out of memory on %s: %s asked for, %s in live tensors, %s held "
             "for reuse%s%s",
             device->name, tn__bytes_text(text[0], asked),
             tn__bytes_text(text[1], used),
             tn__bytes_text(text[2], held > used ? held - used : 0), end,
             holders);
}

tn__block *tn__block_alloc(tn_device *device, uint64_t bytes)
{
    tn__allocator *a = device->allocator;
    tn__block *block;
    if (TN__LIKELY(bytes <= TN__SMALL_MAX && a->small_shift)) {
        block = tn__small_alloc(a, bytes);
    } else {
        /* What this thread keeps may be what is missing. */
        tn__lock_take(&a->lock);
        block = tn__large_alloc(a, bytes ? bytes : 1);
        if (block)
            tn__allocator_used(a);
        tn__lock_give(&a->lock);
        if (TN__UNLIKELY(!block) && a->small_shift) {
            tn__small_flush(a);
            tn__lock_take(&a->lock);
            block = tn__large_alloc(a, bytes ? bytes : 1);
            if (block)
                tn__allocator_used(a);
            tn__lock_give(&a->lock);
        }
    }
    if (TN__UNLIKELY(!block))
        tell_out_of_memory(a, bytes);
    else if (block->host)
        TN__UNPOISON(block->host, bytes);
    return block;
}

void tn__block_free(tn__block *block)
{
    if (!block)
        return;
    tn__allocator *a = block->device->allocator;
    if (block->host)
        TN__POISON(block->host, block->bytes);
    if (TN__LIKELY(block->slab->sort == TN__SLAB_SMALL)) {
        tn__small_free(a, block);
        return;
    }
    tn__lock_take(&a->lock);
    tn__large_free(a, block);
    tn__lock_give(&a->lock);
}

/* ---- figures ------------------------------------------------------------- */

/* NULL stands for the current device; NULL with an error if that fails. */
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
                        "memory_set_limit: %lld is less than 0; 0 means no "
                        "limit",
                        (long long)bytes);
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
