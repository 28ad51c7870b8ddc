/* loss.h: what losses make of their elements. */
#ifndef TN_LIB_OPS_LOSS_H
#define TN_LIB_OPS_LOSS_H

#include <ops/engine/ops.h>

typedef enum tn__reduction {
    TN__REDUCE_NONE,
    TN__REDUCE_MEAN,
    TN__REDUCE_SUM
} tn__reduction;

/* The reduction that a string argument names; false with the error recorded. */
bool tn__find_reduction(const tn__call *call, int arg,
                        tn__reduction *reduction);

tn_tensor *tn__reduce(tn_tensor *loss, tn__reduction reduction);

/* The row `each`, flagged means, of the values, reduced: a mean of floating
 * elements is taken as they are made, and they are not stored. */
tn_tensor *tn__reduce_each(int each, const tn_value *value, int count,
                           tn__reduction reduction);

/* PyTorch warns where input and target merely broadcast: most often a dimension
 * of 1 that one of them lacks, and then a mean over all pairs. So does this, in
 * the log, once for each place (operator, module and shapes). */
void tn__warn_broadcast(const tn__call *call);

/* How many rows of linear_cross_entropy's results stand in memory at once. */
int64_t tn__linear_nll_rows(int64_t results_a_row);

#endif
