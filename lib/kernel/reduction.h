/* reduction.h: reductions (REDUCE of plugin.h), one element after the other.
 *
 * SUM and PROD keep the fixed order without storing the row. They store the
 * lanes of the current chunk, and combine finished chunks as in a binary
 * counter: bit j of `chunks` is set if tree[j] holds the reduction of 2^j
 * neighbouring chunks. So chunk 2j is combined with 2j + 1, then the pair at 4j
 * with the one at 4j + 2. */
#ifndef TN_LIB_KERNEL_REDUCTION_H
#define TN_LIB_KERNEL_REDUCTION_H

#include <tenon/plugin.h>

typedef struct tn__reduction {
    int64_t count;            /* elements so far */
    int64_t chunks;           /* finished chunks so far */
    tn_number lane[TN_LANES]; /* of the current chunk */
    tn_number tree[64];
    tn_number best;  /* MAX MIN ARGMAX ARGMIN: the best value so far */
    int64_t best_at; /* index of its first occurrence */
} tn__reduction;

/* kind: TN_REDUCE_...; dtype: the register type of the elements. Both are the
 * same in all calls from an init to its result. These calls cannot fail. */
void tn__reduction_init(tn__reduction *f);
void tn__reduction_add(tn__reduction *f, unsigned kind, tn_dtype dtype,
                       tn_number x);
tn_number tn__reduction_result(tn__reduction *f, unsigned kind, tn_dtype dtype);

#endif
