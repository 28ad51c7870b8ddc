/* history.h: the record of in-place changes of a storage. */
#ifndef TN_LIB_AUTOGRAD_HISTORY_H
#define TN_LIB_AUTOGRAD_HISTORY_H

#include <autograd/autograd.h>

/* A tensor's place in its storage. */
struct tn__place {
    int ndim;
    int64_t offset;
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM];
};

struct tn__history {
    tn__node *node;         /* counted: the node that made the base's values, */
    uint32_t index;         /*   as this output of it */
    _Atomic uint64_t count; /* number of the last change, counted over all
                               storages */
    tn_dtype dtype;
    struct tn__place base;
};

static inline tn__history *tn__history_of(const tn_tensor *x)
{
    return atomic_load_explicit(&x->storage->history, memory_order_acquire);
}

/* Number of the last in-place change of x's memory; 0: none. */
static inline uint64_t tn__history_count(const tn_tensor *x)
{
    tn__history *history = tn__history_of(x);
    return history ? atomic_load_explicit(&history->count, memory_order_relaxed)
                   : 0;
}

#endif
