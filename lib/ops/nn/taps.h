/* taps.h: linear maps along one dimension, given as a table: each output is a
 * weighted sum of a few inputs (taps). Interpolation, pooling and similar
 * operators are such maps, applied to one dimension after the other. The
 * transposed table is the adjoint of the map. So the gradient is the same
 * operator with the tables exchanged. */
#ifndef TN_LIB_OPS_TAPS_H
#define TN_LIB_OPS_TAPS_H

#include <ops/engine/native.h>

typedef struct tn__taps {
    int64_t in, out; /* sizes of the dimension before and after */
    int reach;       /* most taps of an output */
    int64_t *index;  /* out x reach, owned; in [0, in) */
    double *weight;  /* of each tap, owned; 0 where an output has fewer */
} tn__taps;

/* All weights are 0. Free it with tn__taps_free, also after a failure. */
tn_status tn__taps_new(tn__taps *taps, int64_t in, int64_t out, int64_t reach);
void tn__taps_free(tn__taps *taps);

/* Sets tap t of output i. */
static inline void tn__taps_set(tn__taps *taps, int64_t i, int t, int64_t from,
                                double weight)
{
    taps->index[i * taps->reach + t] = from;
    taps->weight[i * taps->reach + t] = weight;
}

/* Checks that x with size `out` along dim, and a table for that, fit into the
 * memory of x's device. To be called if a caller chose out, before tables are
 * filled. */
tn_status tn__taps_check_memory(const tn_tensor *x, int dim, int64_t out);

/* Maps x (floating) along dim, with a gradient. */
tn_tensor *tn__taps_sum(tn_tensor *x, int dim, const tn__taps *taps);
/* The maximum of each output's taps, whatever their weights, and its index
 * along dim (the first of equal elements). An output with fewer taps than reach
 * lists one of them twice. */
tn_status tn__taps_max(tn_tensor *x, int dim, const tn__taps *taps,
                       tn_tensor **values, tn_tensor **places);

#endif
