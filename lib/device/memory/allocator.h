/* allocator.h: the caching allocator of a device (as PyTorch's
 * CUDACachingAllocator). Only the files of this folder include it.
 *
 *   slab.c        allocates and releases slabs of the plugin's memory
 *   bins.h        keeps free blocks above 1 KiB, by size
 *   large.c       blocks above 1 KiB: best fit, splitting, coalescing
 *   small.c       blocks up to 1 KiB: lists of equal blocks, without a lock
 *   allocator.c   chooses between large.c and small.c
 *   holders.c     names operators that hold memory, for out-of-memory errors
 *   stats.c       the statistics and the limit, for programs */
#ifndef TN_LIB_DEVICE_ALLOCATOR_H
#define TN_LIB_DEVICE_ALLOCATOR_H

#include <base/bytes.h>
#include <base/lock.h>
#include <device/registry.h>

#define TN__SMALL_MAX 1024u
#define TN__SMALL_UNIT 64u
#define TN__SMALL_CLASSES (TN__SMALL_MAX / TN__SMALL_UNIT)

/* The kinds of slab, by the size of the blocks in them. Blocks of different
 * kinds never share a slab. Otherwise one scalar in use would prevent a large
 * slab from being released. */
enum { TN__SLAB_SMALL, TN__SLAB_MEDIUM, TN__SLAB_LARGE, TN__SLAB_SORTS };

typedef struct tn__slab {
    struct tn__slab *next, *previous;
    tn_buffer *buffer; /* buffer of the plugin, owned */
    char *host;        /* address of the slab in host memory; NULL if the host
                        * cannot access it */
    uint64_t bytes;
    int sort;
    /* Only for TN__SLAB_SMALL: the number of bytes already cut into blocks, the
     * records of the blocks, the number of blocks, and the number of free
     * blocks. */
    uint64_t carved_bytes;
    struct tn__batch *batches;
    int64_t block_count, free_count;
    /* Only for the other kinds: the first block of the slab. If the whole slab
     * is free, it is the only block. */
    tn__block *first;
} tn__slab;

/* Space for the records of TN__BATCH small blocks, allocated together. */
#define TN__BATCH 32
typedef struct tn__batch {
    struct tn__batch *next;
    tn__block block[TN__BATCH];
} tn__batch;

/* Number of bins for free blocks. A bin has the blocks of one size range; each
 * power of two is divided into four ranges. */
#define TN__BINS 256

/* For one thread and one device: the free small blocks that only this thread
 * uses, and the thread's part of the statistics. Only that thread writes the
 * statistics; all threads may read them. */
typedef struct tn__cache {
    tn__block *head[TN__SMALL_CLASSES];
    int count[TN__SMALL_CLASSES];
    _Atomic int64_t bytes;       /* bytes allocated by this thread minus bytes
                                  * it freed */
    _Atomic int64_t block_count; /* number of allocations since the thread
                                  * began */
    struct tn__allocator *allocator;
    struct tn__cache *next, *previous; /* list of the caches of all threads for
                                        * this device */
} tn__cache;

typedef struct tn__allocator {
    tn_device *device;
    uint64_t small_unit;  /* sizes of small blocks are multiples of it: 64, or
                           * the device's alignment if that is greater */
    int small_shift;      /* log2 of small_unit; 0 if the device has no small
                           * blocks */
    uint64_t large_unit;  /* sizes of large blocks are multiples of it */
    tn__lock lock; /* guards the fields below, except the atomic ones */

    tn__slab *slabs;
    uint64_t held_bytes; /* total size of all slabs in bytes */
    uint64_t limit_bytes;
    int64_t slab_count; /* number of calls of the plugin that allocated
                         * memory */

    tn__slab *carving; /* the small slab that is not yet fully cut into blocks;
                        * NULL if none */
    /* lists of free blocks that are in no thread's cache */
    tn__block *small[TN__SMALL_CLASSES];
    tn__cache *caches;

    tn__block *bin[TN__SLAB_SORTS][TN__BINS];
    /* Bit map of the bins: bit i is set if bin i is not empty. */
    uint64_t bin_map[TN__SLAB_SORTS][TN__BINS / 64];
    int64_t large_bytes;    /* bytes of large blocks in use */
    int64_t ended_bytes;     /* sum of tn__cache.bytes of all threads that have
                              * ended */
    int64_t block_count;
    int64_t peak_bytes;
} tn__allocator;

/* The caller of the functions below holds the allocator's lock, except where
 * noted. */

/* Allocates a slab of at least `bytes` from the plugin. Returns NULL if that
 * would exceed the limit or the device has no memory. Records no error. */
tn__slab *tn__slab_make(tn__allocator *a, int sort, uint64_t bytes);
void tn__slab_free(tn__allocator *a, tn__slab *slab);
/* Releases all slabs that have no used blocks. */
void tn__slabs_trim(tn__allocator *a);

tn__block *tn__large_alloc(tn__allocator *a, uint64_t bytes);
void tn__large_free(tn__allocator *a, tn__block *block);

/* Allocate and free small blocks. The caller does not hold the lock. The
 * functions take the lock only if the thread's cache is empty or full. */
tn__block *tn__small_alloc(tn__allocator *a, uint64_t bytes);
void tn__small_free(tn__allocator *a, tn__block *block);
/* Moves the free blocks that this thread caches to the allocator's lists, so
 * that their slabs can be released. Takes the lock itself. */
void tn__small_flush(tn__allocator *a);

/* Writes which operators hold the most memory, as "; largest holders: 8.00 MiB
 * by zeros (2)". Writes "" if no operator is known. */
void tn__holders_text(const tn__allocator *a, char *text, size_t room);


/* Returns the bytes in use by all threads, and updates the peak. */
static inline int64_t tn__allocator_used(tn__allocator *a)
{
    int64_t used = a->large_bytes + a->ended_bytes;
    for (tn__cache *c = a->caches; c; c = c->next)
        used += atomic_load_explicit(&c->bytes, memory_order_relaxed);
    if (used > a->peak_bytes)
        a->peak_bytes = used;
    return used;
}

#endif
