/* region.h: parts of a tensor: blocks, and the runs of neighbouring elements of
 * which a block consists in the row-major order of the whole. Whether regions
 * overlap, and whether they make up a whole, is decided by their runs, so a
 * block and a flat range of the same tensor need no case of their own. */
#ifndef TN_LIB_PARALLEL_REGION_H
#define TN_LIB_PARALLEL_REGION_H

#include <tenon/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__region {
    int ndim;
    int64_t shape[TN_MAX_NDIM];  /* of the whole; of a flat range: its numel */
    int64_t offset[TN_MAX_NDIM];
    int64_t extent[TN_MAX_NDIM]; /* shape of the block */
} tn__region;

/* Returns the number of elements, or -1 if a size is negative or they are more
 * than a file can have. */
int64_t tn__sizes_numel(int ndim, const int64_t *shape);

/* Fills a region from untrusted numbers. A flat one has the elements offset[0]
 * .. offset[0] + extent[0] - 1 of the whole. Returns false if it is not within
 * the whole. */
bool tn__region_make(tn__region *region, int ndim, const int64_t *shape,
                     const int64_t *offset, const int64_t *extent, bool flat);
/* Returns the number of elements of the block. */
int64_t tn__region_numel(const tn__region *region);

/* Called with `numel` elements that two regions have in common: their positions
 * in a and in b. Returns false to stop. */
typedef bool (*tn__region_visit)(void *context, int64_t in_a, int64_t in_b,
                                 int64_t numel);
/* Visits what a and b have in common, ascending in both. Returns false if a
 * visit did. */
bool tn__region_overlap(const tn__region *a, const tn__region *b,
                        tn__region_visit visit, void *context);

typedef enum tn__tiling {
    TN__TILING_EXACT,
    TN__TILING_GAP,
    TN__TILING_OVERLAP,
    TN__TILING_NO_MEMORY
} tn__tiling;
/* Returns whether the regions make up a whole of numel elements. If not, *at is
 * the element at which there is a gap or an overlap. */
tn__tiling tn__regions_tile(const tn__region *const *region, size_t count,
                            int64_t numel, int64_t *at);

#endif
