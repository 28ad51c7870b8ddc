/* bins.h: lists of free blocks above 1 KiB, called bins. A bin has the blocks
 * of one size range; each power of two is divided into four ranges. A bit map
 * of the non-empty bins makes the search fast. The caller holds the allocator's
 * lock. Only the files of this folder include this header. */
#ifndef TN_LIB_DEVICE_BINS_H
#define TN_LIB_DEVICE_BINS_H

#include <device/memory/allocator.h>

static inline int tn__bin_of(uint64_t bytes)
{
    int log = 63 - __builtin_clzll(bytes | 4);
    return log * 4 + (int)(bytes >> (log - 2) & 3);
}

static inline void tn__bin_add(tn__allocator *a, tn__block *block)
{
    int sort = block->slab->sort, i = tn__bin_of(block->bytes);
    block->previous = NULL;
    block->next = a->bin[sort][i];
    if (block->next)
        block->next->previous = block;
    a->bin[sort][i] = block;
    a->bin_map[sort][i / 64] |= (uint64_t)1 << (i % 64);
}

/* Takes a free block out of its bin. */
static inline void tn__bin_remove(tn__allocator *a, tn__block *block)
{
    int sort = block->slab->sort, i = tn__bin_of(block->bytes);
    if (block->previous)
        block->previous->next = block->next;
    else
        a->bin[sort][i] = block->next;
    if (block->next)
        block->next->previous = block->previous;
    if (!a->bin[sort][i])
        a->bin_map[sort][i / 64] &= ~((uint64_t)1 << (i % 64));
    block->next = block->previous = NULL;
}

/* Returns the index of the first non-empty bin with an index of at least i;
 * TN__BINS if there is none. */
static inline int tn__bin_next(const tn__allocator *a, int sort, int i)
{
    for (; i < TN__BINS; i = (i / 64 + 1) * 64) {
        uint64_t map = a->bin_map[sort][i / 64] >> (i % 64);
        if (map)
            return i + __builtin_ctzll(map);
    }
    return TN__BINS;
}

/* Returns the smallest free block of at least `bytes` in the bin of that size,
 * else any block of the next non-empty bin; NULL if there is none. */
static inline tn__block *tn__bin_best(tn__allocator *a, int sort,
                                      uint64_t bytes)
{
    int i = tn__bin_of(bytes);
    tn__block *best = NULL;
    for (tn__block *b = a->bin[sort][i]; b; b = b->next)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    if (!best && (i = tn__bin_next(a, sort, i + 1)) < TN__BINS)
        best = a->bin[sort][i];
    return best;
}

#endif
