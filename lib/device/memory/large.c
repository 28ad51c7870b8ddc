/* large.c: allocates blocks above 1 KiB by best fit. Blocks are split when
 * allocated and joined with adjacent free blocks when freed.
 *
 * Free blocks are in bins by size (bins.h). The bin of the requested size is
 * searched for the best fit. If it has no block that is large enough, the first
 * block of the next non-empty bin is taken. */
#include <device/memory/bins.h>

#include <base/context.h>
#include <base/memory.h>

#include <assert.h>

#define MIB (1024u * 1024u)

/* Sizes of slabs in bytes, the same as PyTorch's (CUDACachingAllocator).
 * Requests up to 1 MiB share slabs of 2 MiB. Requests up to 10 MiB share slabs
 * of 20 MiB. Each larger request gets a slab of its own. */
#define MEDIUM_MAX (1u * MIB)
#define MEDIUM_SLAB (2u * MIB)
#define SHARED_MAX (10u * MIB)
#define SHARED_SLAB (20u * MIB)
#define OWN_UNIT (2u * MIB)

/* Rounds a request up to the size of a block, a multiple of large_unit. */
static uint64_t large_round(const tn__allocator *a, uint64_t bytes)
{
    return (bytes + a->large_unit - 1) / a->large_unit * a->large_unit;
}

/* Makes the record of a block. Returns NULL if memory runs out, but records no
 * error: the caller either records a better one or can do without the
 * record. */
static tn__block *record_make(tn__slab *slab, tn_device *device,
                              uint64_t offset, uint64_t bytes)
{
    tn__error before;
    tn__error_hide(&before);
    tn__block *block = tn__alloc(sizeof *block);
    tn__error_restore(&before);
    if (block)
        *block = (tn__block){.buffer = slab->buffer,
                             .host = slab->host ? slab->host + offset : NULL,
                             .offset = offset,
                             .bytes = bytes,
                             .device = device,
                             .slab = slab};
    return block;
}

static tn__block *slab_whole(tn__allocator *a, int sort, uint64_t bytes)
{
    tn__slab *slab = tn__slab_make(a, sort, bytes);
    if (!slab)
        return NULL;
    slab->first = record_make(slab, a->device, 0, bytes);
    if (!slab->first) {
        tn__slab_free(a, slab);
        return NULL;
    }
    tn__bin_add(a, slab->first);
    return slab->first;
}

/* Allocates a slab for a request. Tries the usual size of slab first, then just
 * the size of the request. */
static tn__block *slab_for(tn__allocator *a, int sort, uint64_t bytes)
{
    uint64_t usual = sort == TN__SLAB_MEDIUM ? MEDIUM_SLAB
                     : bytes <= SHARED_MAX
                         ? SHARED_SLAB
                         : (bytes + OWN_UNIT - 1) / OWN_UNIT * OWN_UNIT;
    tn__block *block = slab_whole(a, sort, usual);
    return block || usual == bytes ? block : slab_whole(a, sort, bytes);
}

/* Splits a block after `bytes`, and makes the rest a free block. The block
 * stays whole if the rest would be too small, or if there is no memory for the
 * record of the rest. */
static void split(tn__allocator *a, tn__block *block, uint64_t bytes)
{
    if (block->bytes - bytes < a->large_unit)
        return;
    tn__block *rest = record_make(block->slab, a->device,
                                  block->offset + bytes,
                                  block->bytes - bytes);
    if (!rest)
        return;
    rest->prev_in_slab = block;
    rest->next_in_slab = block->next_in_slab;
    if (rest->next_in_slab)
        rest->next_in_slab->prev_in_slab = rest;
    block->next_in_slab = rest;
    block->bytes = bytes;
    tn__bin_add(a, rest);
}

tn__block *tn__large_alloc(tn__allocator *a, uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2)
        return NULL;
    bytes = large_round(a, bytes);
    int sort = bytes <= MEDIUM_MAX ? TN__SLAB_MEDIUM : TN__SLAB_LARGE;
    tn__block *block = tn__bin_best(a, sort, bytes);
    if (!block)
        block = slab_for(a, sort, bytes);
    if (!block) {
        tn__slabs_trim(a);
        block = slab_for(a, sort, bytes);
    }
    /* As a last resort, uses a free block of a slab of the other kind (medium
     * or large). */
    if (!block)
        block = tn__bin_best(a, sort == TN__SLAB_LARGE ? TN__SLAB_MEDIUM
                                                   : TN__SLAB_LARGE, bytes);
    if (!block)
        return NULL;
    tn__bin_remove(a, block);
    split(a, block, bytes);
    block->used = true;
    block->made_by = tn__outermost_op();
    block->made_in = tn__me.location.path;
    a->large_bytes += (int64_t)block->bytes;
    a->block_count++;
    return block;
}

/* Joins two adjacent free blocks, neither of which is in a bin. The record of
 * `right` is freed. */
static void join(tn__block *left, tn__block *right)
{
    left->bytes += right->bytes;
    left->next_in_slab = right->next_in_slab;
    if (left->next_in_slab)
        left->next_in_slab->prev_in_slab = left;
    tn__free(right);
}

void tn__large_free(tn__allocator *a, tn__block *block)
{
    assert(block->used);
    block->used = false;
    a->large_bytes -= (int64_t)block->bytes;
    tn__block *right = block->next_in_slab, *left = block->prev_in_slab;
    if (right && !right->used) {
        tn__bin_remove(a, right);
        join(block, right);
    }
    if (left && !left->used) {
        tn__bin_remove(a, left);
        join(left, block);
        block = left;
    }
    tn__bin_add(a, block);
}
