/* loss.h: helpers for losses: the argument `reduction`, and a warning if input
 * and target broadcast. */
#ifndef TN_LIB_OPS_LOSS_H
#define TN_LIB_OPS_LOSS_H

#include <ops/engine/ops.h>

typedef enum tn__reduction {
    TN__REDUCE_NONE,
    TN__REDUCE_MEAN,
    TN__REDUCE_SUM
} tn__reduction;

/* Reads argument arg, the name of a reduction, into *reduction. Returns false
 * if the name is unknown, with the error recorded. */
bool tn__find_reduction(const tn__call *call, int arg,
                        tn__reduction *reduction);

/* Returns the sum or the mean of loss, or loss itself, as `reduction` says. */
tn_tensor *tn__reduce(tn_tensor *loss, tn__reduction reduction);

/* Calls the element-wise operator `each` and reduces its result. The mean of
 * floating-point elements is computed by another operator, which generate.awk
 * makes for each operator with the flag `means`. Its kernel computes the
 * elements and their mean together, so the elements are not stored. */
tn_tensor *tn__reduce_each(int each, const tn_value *value, int count,
                           tn__reduction reduction);

/* Logs a warning, as PyTorch does, if input and target of a loss have different
 * shapes and broadcast. Most often that is a mistake: input or target lacks a
 * dimension of size 1, and the result is a mean over all pairs. The warning is
 * logged once for each combination of operator, module and shapes. */
void tn__warn_broadcast(const tn__call *call);

/* Returns the number of rows of the linear layer's output that
 * linear_cross_entropy computes at a time. A row has `results_a_row`
 * elements. */
int64_t tn__linear_nll_rows(int64_t results_a_row);

#endif
