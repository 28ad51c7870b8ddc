/* allocator.h: the parts of the caching allocator. For the files of this room
 * only.
 *
 *   slab.c        slabs of the plugin's memory: allocation, limit, release
 *   bins.h        free blocks above 1 KiB by size
 *   large.c       best fit with splitting and coalescing, above 1 KiB
 *   small.c       lists of equal blocks up to 1 KiB, without a lock
 *   allocator.c   the choice between the two
 *   holders.c     which operators hold the memory, for out-of-memory errors
 *   stats.c       the figures and the limit, for programs
 *   bytes.c       "10.00 MiB" and back
 */
#ifndef TN_LIB_DEVICE_ALLOCATOR_H
#define TN_LIB_DEVICE_ALLOCATOR_H

#include <base/lock.h>
#include <device/registry.h>

#define TN__SMALL_MAX 1024u
#define TN__SMALL_UNIT 64u
#define TN__SMALL_CLASSES (TN__SMALL_MAX / TN__SMALL_UNIT)

/* What a slab is for. Blocks of different sorts do not share slabs, so that a
 * scalar cannot keep a large slab from being released. */
enum { TN__SLAB_SMALL, TN__SLAB_MEDIUM, TN__SLAB_LARGE, TN__SLAB_SORTS };

typedef struct tn__slab {
    struct tn__slab *next, *previous;
    tn_buffer *buffer; /* owned */
    char *host;        /* NULL if not host visible */
    uint64_t bytes;
    int sort;
    /* TN__SLAB_SMALL: bytes cut into blocks so far, and the blocks' records. */
    uint64_t carved_bytes;
    struct tn__batch *batches;
    int64_t block_count, free_count;
    /* Other sorts: the first block, which covers the slab if all of it is
     * free. */
    tn__block *first;
} tn__slab;

/* Records of small blocks, allocated together. */
#define TN__BATCH 32
typedef struct tn__batch {
    struct tn__batch *next;
    tn__block block[TN__BATCH];
} tn__batch;

/* Free blocks by size: four bins to each power of two. */
#define TN__BINS 256

/* One thread's free small blocks of one device, and its part of the statistics:
 * written by that thread only, read by all. */
typedef struct tn__cache {
    tn__block *head[TN__SMALL_CLASSES];
    int count[TN__SMALL_CLASSES];
    _Atomic int64_t bytes;       /* allocated minus freed */
    _Atomic int64_t block_count; /* allocations since start */
    struct tn__allocator *allocator;
    struct tn__cache *next, *previous; /* all threads', of this device */
} tn__cache;

typedef struct tn__allocator {
    tn_device *device;
    uint64_t small_unit;  /* 64, or the device's alignment if greater */
    int small_shift;      /* log2 of small_unit; 0: all blocks are large */
    uint64_t large_unit;  /* sizes of large blocks are multiples of it */
    tn__lock lock; /* guards all below, except the atomics */

    tn__slab *slabs;
    uint64_t held_bytes; /* of all slabs */
    uint64_t limit_bytes;
    int64_t slab_count; /* allocation calls of the plugin since start */

    tn__slab *carving; /* the small slab with space left; or NULL */
    tn__block *small[TN__SMALL_CLASSES]; /* free blocks in no thread's cache */
    tn__cache *caches;

    tn__block *bin[TN__SLAB_SORTS][TN__BINS];
    uint64_t bin_map[TN__SLAB_SORTS][TN__BINS / 64]; /* which are not empty */
    int64_t large_bytes;    /* in use */
    int64_t ended_bytes;     /* tn__cache.bytes of threads that have ended */
    int64_t block_count;
    int64_t peak_bytes;
} tn__allocator;

/* The caller holds the lock, unless noted otherwise. */

/* A slab of at least `bytes`; NULL if the limit would be exceeded or the device
 * has no memory. Records no error. */
tn__slab *tn__slab_make(tn__allocator *a, int sort, uint64_t bytes);
void tn__slab_free(tn__allocator *a, tn__slab *slab);
/* Releases every slab without used blocks. */
void tn__slabs_trim(tn__allocator *a);

tn__block *tn__large_alloc(tn__allocator *a, uint64_t bytes);
void tn__large_free(tn__allocator *a, tn__block *block);

/* Called without the lock; they take it if the thread's cache is empty or
 * full. */
tn__block *tn__small_alloc(tn__allocator *a, uint64_t bytes);
void tn__small_free(tn__allocator *a, tn__block *block);
/* Moves this thread's free blocks to the common lists, so that their slabs can
 * be released. Takes the lock. */
void tn__small_flush(tn__allocator *a);

/* "; largest holders: 8.00 MiB by zeros (2)", or "" if no origin is known. */
void tn__holders_text(const tn__allocator *a, char *text, size_t room);

/* "10.00 MiB", without the lock. */
#define TN__BYTES_TEXT 32
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes);
/* Parses "512M", "4GiB" and the like; negative if it is not a number of
 * bytes. */
int64_t tn__bytes_parse(const char *text);

/* Bytes in use by all threads; updates the peak. */
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
