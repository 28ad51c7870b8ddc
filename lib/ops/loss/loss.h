/* loss.h: helpers for losses. */
#ifndef TN_LIB_OPS_LOSS_H
#define TN_LIB_OPS_LOSS_H

#include <ops/engine/ops.h>

typedef enum tn__reduction {
    TN__REDUCE_NONE,
    TN__REDUCE_MEAN,
    TN__REDUCE_SUM
} tn__reduction;

/* Reads the reduction that a string argument names; false with the error
 * recorded. */
bool tn__find_reduction(const tn__call *call, int arg,
                        tn__reduction *reduction);

tn_tensor *tn__reduce(tn_tensor *loss, tn__reduction reduction);

/* Calls the row `each`, which has the flag means, and reduces its result. A
 * mean of floating elements is computed in the same kernel, and the elements
 * are not stored. */
tn_tensor *tn__reduce_each(int each, const tn_value *value, int count,
                           tn__reduction reduction);

/* PyTorch warns if input and target broadcast. Most often one of them lacks a
 * dimension of 1, and the result is a mean over all pairs. This logs the same
 * warning once for each place (operator, module and shapes). */
void tn__warn_broadcast(const tn__call *call);

/* The number of rows of linear_cross_entropy's results that are in memory at
 * once. */
int64_t tn__linear_nll_rows(int64_t results_a_row);

#endif
