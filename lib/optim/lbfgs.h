/* lbfgs.h: the state of LBFGS. There is one for all parameters together, which
 * are treated as one vector. A ring buffer holds pairs of a step s and the
 * change y of the gradient along it. */
#ifndef TN_LIB_OPTIM_LBFGS_H
#define TN_LIB_OPTIM_LBFGS_H

#include <optim/optim.h>

typedef struct tn__lbfgs_pair {
    tn_tensor *y, *s; /* vectors over all parameters; references */
    double rho;       /* 1 / (y . s) */
} tn__lbfgs_pair;

typedef struct tn__lbfgs {
    tn_object object;
    int64_t iterations;
    double t, scale;             /* last step size; (y . s) / (y . y) */
    double loss;                 /* loss before the last step */
    tn_tensor *direction, *grad; /* vectors of the last step; references */
    int first, count, capacity;  /* oldest pair, number of pairs, ring size */
    tn__lbfgs_pair ring[];
} tn__lbfgs;

/* Makes a state without pairs, owned by the open scope. */
tn__lbfgs *tn__lbfgs_new(int capacity);
/* Returns pair i, where pair 0 is the oldest. */
static inline tn__lbfgs_pair *tn__lbfgs_pair_at(tn__lbfgs *h, int i)
{
    return &h->ring[(h->first + i) % h->capacity];
}

#endif
