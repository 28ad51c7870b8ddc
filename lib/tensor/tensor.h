/* tensor.h: what a tensor is inside: a view on a counted storage. */
#ifndef TN_LIB_TENSOR_TENSOR_H
#define TN_LIB_TENSOR_TENSOR_H

#include <base/error.h>
#include <base/context.h>
#include <base/object.h>
#include <base/size.h>
#include <device/device.h>
#include <device/recorder.h>
#include <tenon/tensor.h>

/* What autograd hangs on a tensor, and on memory that was changed in place
 * while several tensors saw it; defined and freed by that room. */
typedef struct tn__grad_meta tn__grad_meta;
typedef struct tn__history tn__history;

typedef struct tn__storage {
    _Atomic int32_t references;
    _Atomic int32_t saved;    /* of references: those of values that a gradient
                                 saved; autograd counts them */
    _Atomic uint32_t version; /* of the contents: every change in place adds 1;
                                 views share it */
    const char *changed_by;   /* name of the last operator that wrote in place
                                 (autograd's hook sets it, for messages); NULL:
                                 none did */
    _Atomic(tn__history *) history; /* owned; NULL: the tensors know all. Goes
                                 when only saved values are left: else a node
                                 that saved one of them would hold itself */
    bool has_leaf;            /* a tensor on it was marked as a leaf that
                                 requires a gradient */
    tn_device *device;
    tn__block *block;         /* owned; for wrapped memory one made for it */
    bool wrapped;             /* the block is not the allocator's */
    uint64_t bytes;
    void (*release)(void *context); /* wrapped memory: end of the loan */
    void *context;
} tn__storage;


struct tn_tensor {
    tn__object object;
    tn__storage *storage;  /* one reference */
    tn__grad_meta *grad;   /* owned; NULL until autograd needs it */
    const char *made_by;   /* name of the operator or call that made it, and */
    const tn_path *made_in;/*   the module in which: told in errors */
    int64_t offset;        /* of element 0, in elements, within the storage */
    int64_t numel;
    uint8_t dtype, ndim;
    bool contiguous;       /* row-major without gaps: kept up to date */
    bool requires_grad;    /* of a leaf, or because an input did: what a call
                              looks at before it records */
    bool apart;            /* its history is not that of the memory it shares:
                              detached, seen while nothing was recorded, or
                              made so by a function of the user's */
    int64_t shape[TN_MAX_NDIM];
    int64_t stride[TN_MAX_NDIM];
};

/* Is x a tensor, and not gone? */
extern const tn__class tn__tensor_class;
static inline bool tn__tensor_is_live(const tn_tensor *x)
{
    return tn__object_is(x, &tn__tensor_class);
}
/* Of an argument: else the error is recorded. Of an attribute's: NULL is no
 * error. */
static inline bool tn__tensor_check(const tn_tensor *x, const char *call,
                                    const char *argument)
{
    return tn__object_check(x, &tn__tensor_class, call, argument);
}
static inline bool tn__tensor_has(const tn_tensor *x, const char *call)
{
    return tn__object_has(x, &tn__tensor_class, call, "x");
}

/* What this thread records keeps x's memory. */
void tn__tensor_recorded(const tn_tensor *x);
/* What tn__record_begin is told. */
void tn__tensor_recorded_drop(void *storage);

/* The address the plugin needs. */
static inline tn_buffer *tn__tensor_buffer(const tn_tensor *x)
{
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__tensor_recorded(x);
    return x->storage->block->buffer;
}

/* Of each dtype the logarithm of its bytes, two bits; nothing is read and
 * nothing divided by on the way of a small operator. */
#define TN__DTYPE_SHIFT(name, code, text, bytes, kind, reg)                   \
    | (uint64_t)(bytes == 8 ? 3 : bytes / 2) << 2 * code
enum { TN__DTYPE_SHIFTS = 0 TN_DTYPE_MAP(TN__DTYPE_SHIFT) };

static inline int tn__tensor_shift(const tn_tensor *x)
{
    return TN__DTYPE_SHIFTS >> 2 * x->dtype & 3;
}

/* Element 0 counted from the start of that buffer. */
static inline int64_t tn__tensor_buffer_offset(const tn_tensor *x)
{
    return x->offset +
           (int64_t)(x->storage->block->offset >> tn__tensor_shift(x));
}

/* Host address of element 0 on a host-visible device, without waiting. */
static inline void *tn__tensor_host(const tn_tensor *x)
{
    return (char *)x->storage->block->host +
           x->offset * ((int64_t)1 << tn__tensor_shift(x));
}

/* ---- making: all NULL with the error recorded. The result carries one
 * reference, owned by the caller (hand it to tn__scope_own). ------------ */

/* Uninitialised, contiguous. TN_ERR_SHAPE for negative sizes or more than
 * 2^62 bytes, naming `what`. */
tn_tensor *tn__tensor_new(tn_device *device, tn_dtype dtype, int ndim,
                          const int64_t *shape, const char *what);
/* Another view on base's storage; offset in elements from the storage's
 * start. An empty view has no place: whatever was given, its offset is 0 and its
 * strides are those of its shape, so that none can be out of range. No gradient
 * data. TN_ERR_SHAPE for more elements (of an empty view: along the dimensions
 * that are not) than there are numbers for. */
tn_tensor *tn__tensor_view(const tn_tensor *base, tn_dtype dtype, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           int64_t offset);
/* Like the contiguous x in shape and device: the shortest way to an operator's
 * output. */
tn_tensor *tn__tensor_new_like(const tn_tensor *x, tn_dtype dtype);
/* A new tensor object over the same view, without gradient data. */
tn_tensor *tn__tensor_alias(const tn_tensor *x);

/* Is x written in place: adds 1 to its storage's version. */
static inline void tn__tensor_changed(tn_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* Would a call with x be recorded? By its own account, or because its memory
 * took up something that requires a gradient. */
static inline bool tn__tensor_tracks(const tn_tensor *x)
{
    return x->requires_grad ||
           (!x->apart && atomic_load_explicit(&x->storage->history,
                                              memory_order_relaxed));
}

/* What autograd hands down: how its parts are freed, and what a tensor's
 * gradient function is called (room: GRAD_FN_BYTES; "" for a leaf). */
enum { TN__GRAD_FN_BYTES = 64 };
typedef struct tn__tensor_hooks {
    void (*release_grad)(tn__grad_meta *grad);
    void (*release_history)(tn__history *history);
    void (*grad_fn)(tn_tensor *x, char *text);
} tn__tensor_hooks;
extern tn__tensor_hooks tn__tensor_hook;

/* Moving whole tensors: src (any strides) into contiguous dst on another
 * device, same dtype and shape. src must be contiguous or both host visible:
 * the caller (ops) makes it so. */
tn_status tn__tensor_transfer(tn_tensor *dst, const tn_tensor *src);

/* ---- shapes ------------------------------------------------------------ */

typedef struct tn__shape {
    int ndim;
    int64_t dim[TN_MAX_NDIM];
} tn__shape;
bool tn__shape_equal(int andim, const int64_t *a, int bndim, const int64_t *b);
/* out = broadcast of out and b; false where they do not fit. */
bool tn__shape_broadcast(tn__shape *out, int ndim, const int64_t *b);
int64_t tn__shape_numel(int ndim, const int64_t *shape);
/* dim in [-ndim, ndim) to [0, ndim) (a 0-d tensor counts as 1-d); -1 where
 * outside, no error recorded. */
int tn__shape_dim(int ndim, int64_t dim);
void tn__shape_contiguous_strides(int ndim, const int64_t *shape,
                                  int64_t *stride);
bool tn__shape_is_contiguous(int ndim, const int64_t *shape,
                             const int64_t *stride);

/* The offsets of the first and last element that a view touches, counted from
 * its element 0; of an empty one 0 and -1. */
void tn__shape_span(int ndim, const int64_t *shape, const int64_t *stride,
                    int64_t *low, int64_t *high);

/* May several elements of a view lie in one place? No if each stride leads
 * beyond what the smaller ones reach. */
bool tn__shape_repeats(int ndim, const int64_t *shape, const int64_t *stride);

/* ---- errors ---------------------------------------------------------------- */

/* Adds x to what the error tells; there must be room. */
void tn__error_add_tensor(tn__error_facts *facts, const char *argument,
                          int index, const tn_tensor *x);

/* ---- elements on the host ------------------------------------------------ */

/* One element of any dtype as a number; integers are exact in the second. */
double tn__element_double(tn_dtype dtype, const void *element);
int64_t tn__element_int(tn_dtype dtype, const void *element);

/* The elements of a tensor as the host sees them, after waiting for the
 * device: its own memory where it is host visible, else a copy of the span
 * that the view touches. base points to element 0. */
typedef struct tn__host_view {
    const char *base;
    void *copy; /* owned; NULL where base is the device's memory */
} tn__host_view;
tn_status tn__host_view_open(tn__host_view *view, const tn_tensor *x);
void tn__host_view_close(tn__host_view *view);

#endif
