/* small.c: allocates blocks up to 1 KiB, from lists of free blocks of one size.
 *
 * Most calls of the allocator are for small blocks, so they take no lock. Each
 * thread has a cache for each device: lists of free blocks that no other thread
 * uses. A cache that is empty or full exchanges a batch of blocks with the
 * allocator's lists, under the lock. A freed block goes to the cache of the
 * thread that frees it. */
#include <device/memory/allocator.h>

#include <base/memory.h>
#include <base/context.h>
#include <base/lock.h>

#include <assert.h>
#include <string.h>

#define SLAB_BYTES (2u * 1024u * 1024u)
#define CACHE_MAX (2 * TN__BATCH) /* largest number of free blocks of one size
                                   * in a thread's cache */

/* All caches of a thread: one for each open device. */
typedef struct tn__small_caches {
    tn__cache *cache[TN__MAX_DEVICES];
} tn__small_caches;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void add(_Atomic int64_t *counter, int64_t n)
{
    /* Only this thread writes the counter, so no atomic read-modify-write
     * instruction is needed. */
    int64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

/* Moves up to `count` free blocks of one size from the thread's cache to the
 * allocator's list. */
static void give_back(tn__allocator *a, tn__cache *cache, int class, int count)
{
    while (count-- > 0 && cache->head[class]) {
        tn__block *block = cache->head[class];
        cache->head[class] = block->next;
        cache->count[class]--;
        block->next = a->small[class];
        a->small[class] = block;
        block->slab->free_count++;
    }
}

static void set_free(void *pointer)
{
    tn__small_caches *set = pointer;
    tn__me.small = NULL;
    for (int id = 0; id < TN__MAX_DEVICES; id++) {
        tn__cache *cache = set->cache[id];
        if (!cache)
            continue;
        tn__allocator *a = cache->allocator;
        tn__lock_take(&a->lock);
        for (int class = 0; class < (int)TN__SMALL_CLASSES; class++)
            give_back(a, cache, class, cache->count[class]);
        a->ended_bytes += atomic_load(&cache->bytes);
        a->block_count += atomic_load(&cache->block_count);
        if (cache->previous)
            cache->previous->next = cache->next;
        else
            a->caches = cache->next;
        if (cache->next)
            cache->next->previous = cache->previous;
        tn__lock_give(&a->lock);
        tn__free(cache);
    }
    tn__free(set);
}

static void key_make(void)
{
    key_made = !pthread_key_create(&key, set_free);
}

/* Returns this thread's cache for the device, which is made on first use. On
 * failure, records TN_ERR_MEMORY and returns NULL. */
static tn__cache *cache_make(tn__allocator *a)
{
    pthread_once(&key_once, key_make);
    if (!tn__me.small) {
        tn__small_caches *set = tn__calloc(1, sizeof *set);
        if (!set)
            return NULL;
        if (!key_made || pthread_setspecific(key, set)) {
            tn__free(set);
            return tn__fail_null(TN_ERR_MEMORY,
                                 "out of memory for free blocks");
        }
        tn__me.small = set;
    }
    tn__cache *cache = tn__calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->allocator = a;
    tn__lock_take(&a->lock);
    cache->next = a->caches;
    if (a->caches)
        a->caches->previous = cache;
    a->caches = cache;
    tn__lock_give(&a->lock);
    tn__me.small->cache[a->device->id] = cache;
    return cache;
}

static inline tn__cache *cache_get(const tn__allocator *a)
{
    return TN__LIKELY(tn__me.small != NULL) ? tn__me.small->cache[a->device->id] : NULL;
}

/* Cuts TN__BATCH blocks of one size from a small slab and adds them to the
 * allocator's list. Returns false if memory runs out. */
static bool carve(tn__allocator *a, int class)
{
    uint64_t bytes = (uint64_t)(class + 1) * a->small_unit;
    tn__slab *slab = a->carving;
    if (!slab || slab->bytes - slab->carved_bytes < bytes) {
        slab = tn__slab_make(a, TN__SLAB_SMALL, SLAB_BYTES);
        if (!slab) {
            tn__slabs_trim(a);
            slab = tn__slab_make(a, TN__SLAB_SMALL, SLAB_BYTES);
        }
        /* If memory is short, allocates a slab that is just large enough for
         * this batch. */
        if (!slab)
            slab = tn__slab_make(a, TN__SLAB_SMALL, bytes * TN__BATCH);
        if (!slab)
            return false;
        a->carving = slab;
    }
    tn__error before;
    tn__error_hide(&before);
    tn__batch *batch = tn__alloc(sizeof *batch);
    tn__error_restore(&before);
    if (!batch)
        return false;
    batch->next = slab->batches;
    slab->batches = batch;
    for (int i = 0; i < TN__BATCH && slab->bytes - slab->carved_bytes >= bytes;
         i++) {
        uint64_t offset = slab->carved_bytes;
        slab->carved_bytes += bytes;
        batch->block[i] =
            (tn__block){.buffer = slab->buffer,
                        .host = slab->host ? slab->host + offset : NULL,
                        .offset = offset,
                        .bytes = bytes,
                        .device = a->device,
                        .slab = slab,
                        .next = a->small[class]};
        a->small[class] = &batch->block[i];
        slab->block_count++;
        slab->free_count++;
    }
    return true;
}

static bool refill(tn__allocator *a, tn__cache *cache, int class)
{
    tn__lock_take(&a->lock);
    bool filled = a->small[class] || carve(a, class);
    for (int i = 0; i < TN__BATCH && a->small[class]; i++) {
        tn__block *block = a->small[class];
        a->small[class] = block->next;
        block->slab->free_count--;
        block->next = cache->head[class];
        cache->head[class] = block;
        cache->count[class]++;
    }
    tn__allocator_used(a);
    tn__lock_give(&a->lock);
    return filled;
}

tn__block *tn__small_alloc(tn__allocator *a, uint64_t bytes)
{
    int class = bytes ? (int)((bytes - 1) >> a->small_shift) : 0;
    tn__cache *cache = cache_get(a);
    if (TN__UNLIKELY(!cache) && !(cache = cache_make(a)))
        return NULL;
    if (TN__UNLIKELY(!cache->head[class]) && !refill(a, cache, class))
        return NULL;
    tn__block *block = cache->head[class];
    cache->head[class] = block->next;
    cache->count[class]--;
    add(&cache->bytes, (int64_t)block->bytes);
    add(&cache->block_count, 1);
    block->used = true;
    return block;
}

void tn__small_free(tn__allocator *a, tn__block *block)
{
    assert(block->used);
    block->used = false;
    int class = (int)((block->bytes - 1) >> a->small_shift);
    tn__cache *cache = cache_get(a);
    if (TN__UNLIKELY(!cache)) {
        /* This thread has only freed blocks so far, and has no cache. Making
         * one could fail, so the block goes to the allocator's list. */
        tn__lock_take(&a->lock);
        block->next = a->small[class];
        a->small[class] = block;
        block->slab->free_count++;
        a->ended_bytes -= (int64_t)block->bytes;
        tn__lock_give(&a->lock);
        return;
    }
    block->next = cache->head[class];
    cache->head[class] = block;
    add(&cache->bytes, -(int64_t)block->bytes);
    if (TN__UNLIKELY(++cache->count[class] > CACHE_MAX)) {
        tn__lock_take(&a->lock);
        give_back(a, cache, class, TN__BATCH);
        tn__lock_give(&a->lock);
    }
}

void tn__small_flush(tn__allocator *a)
{
    tn__cache *cache = cache_get(a);
    if (!cache)
        return;
    tn__lock_take(&a->lock);
    for (int class = 0; class < (int)TN__SMALL_CLASSES; class++)
        give_back(a, cache, class, cache->count[class]);
    tn__lock_give(&a->lock);
}
