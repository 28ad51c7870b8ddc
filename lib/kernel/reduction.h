/* reduction.h: the reference for row reductions (REDUCE of plugin.h: sum, prod,
 * max, min, argmax, argmin), which are fed one element after the other.
 *
 * SUM and PROD follow the fixed order of plugin.h without storing the row. A
 * chunk has TN_LANES partial results, its lanes. Finished chunks are combined
 * as in a binary counter: if bit j of `chunks` is set, tree[j] holds the
 * reduction of 2^j neighbouring chunks. So chunk 2j is combined with chunk 2j +
 * 1, then the pair at chunk 4j with the pair at chunk 4j + 2. */
#ifndef TN_LIB_KERNEL_REDUCTION_H
#define TN_LIB_KERNEL_REDUCTION_H

#include <tenon/plugin.h>

typedef struct tn__reduction {
    int64_t count;            /* number of elements added so far */
    int64_t chunks;           /* number of finished chunks so far */
    tn_number lane[TN_LANES]; /* lanes of the current chunk */
    tn_number tree[64];
    tn_number best;  /* the best value so far (MAX, MIN, ARGMAX, ARGMIN) */
    int64_t best_at; /* index of the first element equal to `best` */
} tn__reduction;

/* A reduction: init, add for each element, then result. kind is TN_REDUCE_...;
 * dtype is the register type of the elements. All calls of one reduction have
 * the same kind and dtype. The calls cannot fail. */
void tn__reduction_init(tn__reduction *f);
void tn__reduction_add(tn__reduction *f, unsigned kind, tn_dtype dtype,
                       tn_number x);
tn_number tn__reduction_result(tn__reduction *f, unsigned kind, tn_dtype dtype);

#endif
