/* allocator.h: the parts of the caching allocator. Serves the files of device
 * alone.
 *
 *   slab.c        slabs of the plugin's memory, the limit, and giving back
 *   bins.h        free blocks above 1 KiB by size
 *   large.c       best fit with splitting and coalescing, above 1 KiB
 *   small.c       lists of equal blocks up to 1 KiB, without a lock
 *   allocator.c   the choice between the two
 *   holders.c     who holds the memory when there is none
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

/* What a slab is for. Blocks of one sort do not hold on to slabs of another:
 * a scalar must not pin the memory of a large tensor. */
enum { TN__SLAB_SMALL, TN__SLAB_MEDIUM, TN__SLAB_LARGE, TN__SLAB_SORTS };

typedef struct tn__slab {
    struct tn__slab *next, *previous;
    tn_buffer *buffer; /* owned */
    char *host;        /* NULL where the CPU cannot see it */
    uint64_t bytes;
    int sort;
    /* TN__SLAB_SMALL: pieces handed out so far, and the records of them. */
    uint64_t carved_bytes;
    struct tn__batch *batches;
    int64_t block_count, free_count;
    /* The others: their first block; it covers all when the slab is free. */
    tn__block *first;
} tn__slab;

/* Records of small blocks, made together. */
#define TN__BATCH 32
typedef struct tn__batch {
    struct tn__batch *next;
    tn__block block[TN__BATCH];
} tn__batch;

/* Free blocks by size: four bins to each power of two. */
#define TN__BINS 256

/* One thread's free small blocks of one device, and its part of the figures:
 * written by that thread alone, read by all. */
typedef struct tn__cache {
    tn__block *head[TN__SMALL_CLASSES];
    int count[TN__SMALL_CLASSES];
    _Atomic int64_t bytes;       /* taken less given back */
    _Atomic int64_t block_count; /* taken since start */
    struct tn__allocator *allocator;
    struct tn__cache *next, *previous; /* all threads', of this device */
} tn__cache;

typedef struct tn__allocator {
    tn_device *device;
    uint64_t small_unit;  /* 64, or the device's alignment if greater */
    int small_shift;      /* its logarithm; 0: every block is large */
    uint64_t large_unit;  /* sizes of large blocks are multiples of it */
    tn__lock lock; /* of all below, except the atomics */

    tn__slab *slabs;
    uint64_t held_bytes; /* of all slabs */
    uint64_t limit_bytes;
    int64_t slab_count; /* times the plugin was asked */

    tn__slab *carving; /* the small slab that is not used up; or NULL */
    tn__block *small[TN__SMALL_CLASSES]; /* free, in no thread's cache */
    tn__cache *caches;

    tn__block *bin[TN__SLAB_SORTS][TN__BINS];
    uint64_t bin_map[TN__SLAB_SORTS][TN__BINS / 64]; /* which are not empty */
    int64_t large_bytes;    /* in use */
    int64_t gone_bytes;     /* figures of threads that ended */
    int64_t block_count;
    int64_t peak_bytes;
} tn__allocator;

/* All of these under the lock, unless said otherwise. */

/* A slab of at least `bytes`; NULL if the limit or the device refuse. Records
 * no error. */
tn__slab *tn__slab_make(tn__allocator *a, int sort, uint64_t bytes);
void tn__slab_free(tn__allocator *a, tn__slab *slab);
/* Gives back every slab of which nothing is used. */
void tn__slabs_trim(tn__allocator *a);

tn__block *tn__large_alloc(tn__allocator *a, uint64_t bytes);
void tn__large_free(tn__allocator *a, tn__block *block);

/* Without the lock, which they take if the thread's cache is empty (full). */
tn__block *tn__small_alloc(tn__allocator *a, uint64_t bytes);
void tn__small_free(tn__allocator *a, tn__block *block);
/* Gives this thread's free blocks to all, so that their slabs may go. Takes
 * the lock. */
void tn__small_flush(tn__allocator *a);

/* "; largest holders: 8.00 MiB by zeros (2)", or "" where no origin is known. */
void tn__holders_text(const tn__allocator *a, char *text, size_t room);

/* "10.00 MiB", without the lock. */
#define TN__BYTES_TEXT 32
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes);
/* Of "512M", "4 GiB" and the like; negative: it is no number of bytes. */
int64_t tn__bytes_parse(const char *text);

/* Bytes in use, of all threads; keeps the peak. */
int64_t tn__allocator_used(tn__allocator *a);

#endif
