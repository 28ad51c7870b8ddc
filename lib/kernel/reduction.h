/* reduction.h: the reference implementation of row reductions (REDUCE of
 * plugin_program.h: sum, prod, max, min, argmax, argmin). Elements are added
 * one after the other.
 *
 * SUM and PROD add in the order that plugin_program.h fixes, without storing
 * the row. The row is divided into chunks of TN_CHUNK elements. Element i of a
 * chunk is added to partial result i % TN_LANES of the chunk, called a lane. At
 * the end of a chunk, its lanes are combined. The chunks are then combined
 * pairwise, as a binary counter carries: if bit j of `chunks` is set, tree[j]
 * is the result of 2^j neighbouring chunks. */
#ifndef TN_LIB_KERNEL_REDUCTION_H
#define TN_LIB_KERNEL_REDUCTION_H

#include <tenon/plugin.h>

typedef struct tn__reduction {
    int64_t count;            /* number of elements that were added */
    int64_t chunks;           /* number of chunks that are complete */
    tn_number lane[TN_LANES]; /* lanes of the current chunk */
    tn_number tree[64];
    tn_number best; /* the best value so far, for MAX, MIN, ARGMAX and ARGMIN */
    int64_t best_at; /* index of the first element equal to `best` */
} tn__reduction;

/* To reduce a row, call tn__reduction_init, then tn__reduction_add for each
 * element, then tn__reduction_result. `kind` is TN_REDUCE_..., and dtype is the
 * register type of the elements; both must be the same in all calls. The
 * functions cannot fail. */
void tn__reduction_init(tn__reduction *f);
void tn__reduction_add(tn__reduction *f, unsigned kind, tn_dtype dtype,
                       tn_number x);
tn_number tn__reduction_result(tn__reduction *f, unsigned kind, tn_dtype dtype);

#endif
