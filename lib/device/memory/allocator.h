/* allocator.h: the caching allocator of a device (as PyTorch's
 * CUDACachingAllocator). Only the files of this folder include it.
 *
 *   slab.c        allocates and releases slabs of the plugin's memory
 *   bins.h        keeps free blocks above 1 KiB, by size
 *   large.c       blocks above 1 KiB: best fit, splitting, coalescing
 *   small.c       blocks up to 1 KiB: lists of equal blocks, without a lock
 *   allocator.c   chooses between large.c and small.c
 *   holders.c     names operators that hold memory, for out-of-memory errors
 *   stats.c       the statistics and the limit, for programs
 *   bytes.c       converts sizes to text ("10.00 MiB") and back */
#ifndef TN_LIB_DEVICE_ALLOCATOR_H
#define TN_LIB_DEVICE_ALLOCATOR_H

#include <base/lock.h>
#include <device/registry.h>

#define TN__SMALL_MAX 1024u
#define TN__SMALL_UNIT 64u
#define TN__SMALL_CLASSES (TN__SMALL_MAX / TN__SMALL_UNIT)

/* The sizes of block that a slab holds. Blocks of different sorts do not share
 * slabs, so that a scalar cannot keep a large slab from being released. */
enum { TN__SLAB_SMALL, TN__SLAB_MEDIUM, TN__SLAB_LARGE, TN__SLAB_SORTS };

typedef struct tn__slab {
    struct tn__slab *next, *previous;
    tn_buffer *buffer; /* owned */
    char *host;        /* host address of the slab; NULL if not host visible */
    uint64_t bytes;
    int sort;
    /* For TN__SLAB_SMALL: number of bytes cut into blocks so far, the blocks'
     * records, and how many blocks there are and are free. */
    uint64_t carved_bytes;
    struct tn__batch *batches;
    int64_t block_count, free_count;
    /* For other sorts: the first block. It covers the whole slab if the slab is
     * free. */
    tn__block *first;
} tn__slab;

/* Records of small blocks, which are allocated TN__BATCH at a time. */
#define TN__BATCH 32
typedef struct tn__batch {
    struct tn__batch *next;
    tn__block block[TN__BATCH];
} tn__batch;

/* Number of bins of free blocks: four bins for each power of two. */
#define TN__BINS 256

/* One thread's free small blocks on one device, and its share of the
 * statistics. Only that thread writes the statistics; all threads read them. */
typedef struct tn__cache {
    tn__block *head[TN__SMALL_CLASSES];
    int count[TN__SMALL_CLASSES];
    _Atomic int64_t bytes;       /* bytes allocated minus bytes freed */
    _Atomic int64_t block_count; /* number of allocations since the start */
    struct tn__allocator *allocator;
    struct tn__cache *next, *previous; /* list of all threads' caches of this
                                        * device */
} tn__cache;

typedef struct tn__allocator {
    tn_device *device;
    uint64_t small_unit;  /* small blocks have multiples of it: 64, or the
                           * device's alignment if greater */
    int small_shift;      /* log2 of small_unit; 0 if all blocks are large */
    uint64_t large_unit;  /* large blocks have multiples of it */
    tn__lock lock; /* guards the fields below, except the atomics */

    tn__slab *slabs;
    uint64_t held_bytes; /* total size of all slabs */
    uint64_t limit_bytes;
    int64_t slab_count; /* number of the plugin's allocation calls since the
                         * start */

    tn__slab *carving; /* the small slab that still has space; NULL if none */
    tn__block *small[TN__SMALL_CLASSES]; /* free blocks in no thread's cache */
    tn__cache *caches;

    tn__block *bin[TN__SLAB_SORTS][TN__BINS];
    /* bit i is set if bin i is not empty */
    uint64_t bin_map[TN__SLAB_SORTS][TN__BINS / 64];
    int64_t large_bytes;    /* bytes of large blocks in use */
    int64_t ended_bytes;     /* sum of tn__cache.bytes of threads that have
                              * ended */
    int64_t block_count;
    int64_t peak_bytes;
} tn__allocator;

/* For the functions below, the caller holds the lock unless noted otherwise. */

/* Makes a slab of at least `bytes`. Returns NULL if the limit would be exceeded
 * or the device has no memory. Records no error. */
tn__slab *tn__slab_make(tn__allocator *a, int sort, uint64_t bytes);
void tn__slab_free(tn__allocator *a, tn__slab *slab);
/* Releases every slab without used blocks. */
void tn__slabs_trim(tn__allocator *a);

tn__block *tn__large_alloc(tn__allocator *a, uint64_t bytes);
void tn__large_free(tn__allocator *a, tn__block *block);

/* The caller does not hold the lock. These functions take it if the thread's
 * cache is empty or full. */
tn__block *tn__small_alloc(tn__allocator *a, uint64_t bytes);
void tn__small_free(tn__allocator *a, tn__block *block);
/* Moves this thread's free blocks to the allocator's lists, so that their slabs
 * can be released. Takes the lock. */
void tn__small_flush(tn__allocator *a);

/* Writes "; largest holders: 8.00 MiB by zeros (2)", or "" if no used block has
 * a known operator. */
void tn__holders_text(const tn__allocator *a, char *text, size_t room);

/* Writes a size as "10.00 MiB" and returns `out`. Needs no lock. */
#define TN__BYTES_TEXT 32
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes);
/* Parses a size such as "512M" or "4GiB". Returns a negative number if the text
 * is not a size. */
int64_t tn__bytes_parse(const char *text);

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
