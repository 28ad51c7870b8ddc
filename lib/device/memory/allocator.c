/* allocator.c: the caching allocator of a device (as PyTorch's
 * CUDACachingAllocator).
 *
 * All work of a device runs in order on one queue. So a freed block can be
 * reused at once: work that still uses the block runs before any work that is
 * submitted later. */
#include <device/memory/allocator.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>

#include <stdio.h>

struct tn__allocator *tn__allocator_make(tn_device *device)
{
    int64_t limit = 0;
    const char *text = tn__env("TENON_MEM_LIMIT");
    if (text && (limit = tn__bytes_parse(text)) < 0)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "TENON_MEM_LIMIT=%s is not a number of bytes, "
                             "such as 512M or 4G",
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

/* Records TN_ERR_MEMORY. The message has the bytes requested, in use and
 * cached, the operators that hold most memory, and the limit. */
static void fail_out_of_memory(tn__allocator *a, uint64_t asked)
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
             "out of memory on %s: %s requested, %s in live tensors, %s "
             "cached%s%s",
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
        /* If this allocation fails, the free small blocks that this thread
         * caches are released and the allocation is tried again. */
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
        fail_out_of_memory(a, bytes);
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
