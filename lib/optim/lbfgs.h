/* lbfgs.h: the state of LBFGS, which belongs to all parameters together. */
#ifndef TN_LIB_OPTIM_LBFGS_H
#define TN_LIB_OPTIM_LBFGS_H

#include <optim/optim.h>

typedef struct tn__lbfgs_pair {
    tn_tensor *y, *s; /* kept; vectors of all parameters' elements */
    double rho;       /* 1 / (y . s) */
} tn__lbfgs_pair;

typedef struct tn__lbfgs {
    tn_object object;
    int64_t iterations;
    double t, scale;             /* last step size; y . s / y . y */
    double loss;                 /* before the last step */
    tn_tensor *direction, *grad; /* kept: of the last step */
    int first, count, capacity;  /* of the ring of pairs */
    tn__lbfgs_pair ring[];
} tn__lbfgs;

/* An empty history, owned by the open scope. */
tn__lbfgs *tn__lbfgs_new(int capacity);
/* Pair i, the oldest first. */
static inline tn__lbfgs_pair *tn__lbfgs_pair_at(tn__lbfgs *h, int i)
{
    return &h->ring[(h->first + i) % h->capacity];
}

#endif
