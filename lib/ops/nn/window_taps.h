/* window_taps.h: linear maps along one dimension, given as a table. Each output
 * is a weighted sum of a few inputs. A tap is one term of this sum: the index of
 * the input and its weight. So
 *
 *   y[i] = sum over t < reach of weight[i][t] * x[index[i][t]]
 *
 * Interpolation, pooling and similar operators apply such maps to one dimension
 * after the other. The transposed table is the adjoint of the map. So the
 * gradient is the same operator with the transposed table. */
#ifndef TN_LIB_OPS_TAPS_H
#define TN_LIB_OPS_TAPS_H

#include <ops/engine/native.h>

typedef struct tn__taps {
    int64_t in, out; /* sizes of the dimension before and after the map */
    int reach;       /* number of terms in the sum of each output */
    int64_t *index;  /* index[i][t] is the input of term t of output i, owned */
    double *weight;  /* weight[i][t] is its weight, owned; 0 if output i has
                        fewer terms */
} tn__taps;

/* Makes a table in which all weights are 0. The caller frees it with
 * tn__taps_free, also after a failure. */
tn_status tn__taps_new(tn__taps *taps, int64_t in, int64_t out, int64_t reach);
void tn__taps_free(tn__taps *taps);

/* Sets tap t of output i: the index `from` of an input, and its weight. */
static inline void tn__taps_set(tn__taps *taps, int64_t i, int t, int64_t from,
                                double weight)
{
    taps->index[i * taps->reach + t] = from;
    taps->weight[i * taps->reach + t] = weight;
}

/* Checks that a tensor like x but with size `out` along dim, and a table for
 * it, fit into the memory of x's device. If the program chose `out`, this must
 * be called before a table is filled. */
tn_status tn__taps_check_memory(const tn_tensor *x, int dim, int64_t out);

/* Applies the map (the sums of taps) to dimension dim of x, a floating-point
 * tensor. Autograd records it. */
tn_tensor *tn__taps_sum(tn_tensor *x, int dim, const tn__taps *taps);
/* Sets *values to the maximum of the taps of each output, whatever their
 * weights, and *places to the index of the maximum along dim. If several
 * elements are equal, the first one is taken. An output that needs fewer than
 * `reach` taps lists one of its taps several times. */
tn_status tn__taps_max(tn_tensor *x, int dim, const tn__taps *taps,
                       tn_tensor **values, tn_tensor **places);

#endif
