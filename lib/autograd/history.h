/* history.h: the record of in-place changes of a storage whose memory several
 * tensors share. history.c describes it. */
#ifndef TN_LIB_AUTOGRAD_HISTORY_H
#define TN_LIB_AUTOGRAD_HISTORY_H

#include <autograd/autograd.h>

/* The elements of a storage that a tensor covers. */
struct tn__place {
    int ndim;
    int64_t offset;
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM];
};

/* The history of a storage. Its base is the tensor of which all others that use
 * the storage are views. */
struct tn__history {
    tn__node *node;         /* owned reference: node of the call that made the
                               base's current values */
    uint32_t index;         /* which output of node the base is */
    _Atomic uint64_t count; /* sequence number of the last in-place change of
                               this storage; all storages share one sequence */
    tn_dtype dtype;         /* dtype of the base */
    struct tn__place base;
};

static inline tn__history *tn__history_of(const tn_tensor *x)
{
    return atomic_load_explicit(&x->storage->history, memory_order_acquire);
}

/* Returns the sequence number of the last in-place change of x's memory, or 0
 * if it was never changed. */
static inline uint64_t tn__history_count(const tn_tensor *x)
{
    tn__history *history = tn__history_of(x);
    return history ? atomic_load_explicit(&history->count, memory_order_relaxed)
                   : 0;
}

#endif
