/* reduction.h: reductions (REDUCE of plugin.h), fed one element after the other.
 *
 * SUM and PROD keep the fixed order without keeping the row: the lanes of the
 * chunk at hand, and finished chunks as a binary counter. Bit j of `chunks`
 * set means that tree[j] holds the fold of 2^j neighbouring chunks, so chunk
 * 2j meets 2j + 1, then 4j meets 4j + 2. */
#ifndef TN_LIB_KERNEL_REDUCTION_H
#define TN_LIB_KERNEL_REDUCTION_H

#include <tenon/plugin.h>

typedef struct tn__reduction {
    int64_t count;            /* elements so far */
    int64_t chunks;           /* whole chunks so far */
    tn_number lane[TN_LANES]; /* of the chunk at hand */
    tn_number tree[64];
    tn_number best;  /* MAX MIN ARGMAX ARGMIN: the extreme, */
    int64_t best_at; /*   and the first element that has it */
} tn__reduction;

/* kind: TN_REDUCE_...; dtype: the register type of what is folded. All calls
 * between an init and its end have the same. Cannot fail. */
void tn__reduction_init(tn__reduction *f);
void tn__reduction_add(tn__reduction *f, unsigned kind, tn_dtype dtype,
                       tn_number x);
tn_number tn__reduction_result(tn__reduction *f, unsigned kind, tn_dtype dtype);

#endif
