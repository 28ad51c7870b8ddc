/* tensor.h: the tensor struct. A tensor is a view (dtype, shape, strides,
 * offset) of a reference-counted storage, as in PyTorch. */
#ifndef TN_LIB_TENSOR_TENSOR_H
#define TN_LIB_TENSOR_TENSOR_H

#include <base/error.h>
#include <base/context.h>
#include <base/object.h>
#include <base/size.h>
#include <device/device.h>
#include <device/recorder.h>
#include <tenon/tensor.h>

/* Data of autograd: tn__grad_meta of a tensor, tn__history of memory that was
 * changed in place while several tensors shared it. lib/autograd defines and
 * frees these structs. */
typedef struct tn__grad_meta tn__grad_meta;
typedef struct tn__history tn__history;

typedef struct tn__storage {
    _Atomic int32_t references;
    _Atomic int32_t saved;    /* number of references that are of values saved
                               * for gradients; autograd counts them */
    _Atomic uint32_t version; /* incremented by each change in place; all views
                               * share it */
    const char *changed_by;   /* last operator that wrote in place, for
                               * messages; NULL if none. autograd's hook sets
                               * it. */
    /* Owned. NULL if the tensors' own gradient data is complete. Freed when
     * only saved values hold the storage; otherwise a node that saved such a
     * value would hold itself. */
    _Atomic(tn__history *) history;
    bool has_leaf;            /* true if a tensor of this storage was marked as
                               * a leaf that requires a gradient */
    tn_device *device;
    tn__block *block;         /* owned; wrapped memory has a block of its own */
    bool wrapped;             /* true if the memory is not the allocator's */
    uint64_t bytes;
    void (*release)(void *context); /* called when wrapped memory is no longer
                                     * used */
    void *context;
} tn__storage;

struct tn_tensor {
    tn__object object;
    tn__storage *storage;  /* the tensor holds one reference */
    tn__grad_meta *grad;   /* owned; NULL until autograd needs it */
    const char *made_by;   /* operator or call that made the tensor, for
                            * errors */
    const tn_path *made_in;/* module that ran then */
    int64_t offset;        /* offset of element 0 in the storage, in elements */
    int64_t numel;
    uint8_t dtype, ndim;
    bool contiguous;       /* true if row-major without gaps */
    bool requires_grad;    /* true for a leaf that requires a gradient, or if an
                            * input of the operator that made the tensor did;
                            * calls read it to decide whether to record */
    /* true if the tensor takes no part in the history of the memory that it
     * shares: it is detached, was made in no-grad mode, or was set apart by a
     * user's function */
    bool apart;
    int64_t shape[TN_MAX_NDIM];
    int64_t stride[TN_MAX_NDIM];
};

/* Whether x is a live tensor. */
extern const tn__class tn__tensor_class;
static inline bool tn__tensor_is_live(const tn_tensor *x)
{
    return tn__object_is(x, &tn__tensor_class);
}
/* Whether x is a live tensor, with an error recorded if it is not. _check is
 * for arguments. _has is for attributes, where NULL gives no error. */
static inline bool tn__tensor_check(const tn_tensor *x, const char *call,
                                    const char *argument)
{
    return tn__object_check(x, &tn__tensor_class, call, argument);
}
static inline bool tn__tensor_has(const tn_tensor *x, const char *call)
{
    return tn__object_has(x, &tn__tensor_class, call, "x");
}

/* Lets this thread's recording keep the memory of x. */
void tn__tensor_recorded(const tn_tensor *x);
/* Drops the memory kept by a recording; the `drop` of tn__record_begin. */
void tn__tensor_recorded_drop(void *storage);

/* Returns the tensor's device buffer, for arguments of plugin calls. */
static inline tn_buffer *tn__tensor_buffer(const tn_tensor *x)
{
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__tensor_recorded(x);
    return x->storage->block->buffer;
}

/* log2 of the size of each dtype in bytes, two bits each, in one constant. So
 * small operators need no table and no division. */
#define TN__DTYPE_SHIFT(name, code, text, bytes, kind, reg)                   \
    | (uint64_t)(bytes == 8 ? 3 : bytes / 2) << 2 * code
enum { TN__DTYPE_SHIFTS = 0 TN_DTYPE_MAP(TN__DTYPE_SHIFT) };

static inline int tn__tensor_shift(const tn_tensor *x)
{
    return TN__DTYPE_SHIFTS >> 2 * x->dtype & 3;
}

/* Returns the offset of element 0 in the tensor's device buffer, in
 * elements. */
static inline int64_t tn__tensor_buffer_offset(const tn_tensor *x)
{
    return x->offset +
           (int64_t)(x->storage->block->offset >> tn__tensor_shift(x));
}

/* Returns the host address of element 0 on a host-visible device, without
 * waiting. */
static inline void *tn__tensor_host(const tn_tensor *x)
{
    return (char *)x->storage->block->host +
           x->offset * ((int64_t)1 << tn__tensor_shift(x));
}

/* ---- making ---------------------------------------------------------------
 *
 * These functions return NULL with the error recorded on failure. The caller
 * owns the result's one reference and passes it to tn__scope_own. */

/* Makes an uninitialised, contiguous tensor. For negative sizes or more than
 * 2^62 bytes, fails with TN_ERR_SHAPE; the message names `what`. */
tn_tensor *tn__tensor_new(tn_device *device, tn_dtype dtype, int ndim,
                          const int64_t *shape, const char *what);
/* Makes another view of base's storage, without gradient data. offset is in
 * elements from the storage's start. An empty view gets offset 0 and contiguous
 * strides, whatever the arguments, so that they are never out of range. Fails
 * with TN_ERR_SHAPE if the number of elements does not fit in int64_t; for an
 * empty view, only its non-empty dimensions count. */
tn_tensor *tn__tensor_view(const tn_tensor *base, tn_dtype dtype, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           int64_t offset);
/* Makes a tensor with the shape and device of x, which is contiguous. This is
 * the fast path for an operator's output. */
tn_tensor *tn__tensor_new_like(const tn_tensor *x, tn_dtype dtype);
/* Makes a new tensor object over the same view, without gradient data. */
tn_tensor *tn__tensor_alias(const tn_tensor *x);

/* Marks x as written in place, by incrementing the version of its storage. */
static inline void tn__tensor_changed(tn_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* Whether a call with x must be recorded for gradients: x requires a gradient,
 * or a value that requires one was written into its memory. */
static inline bool tn__tensor_tracks(const tn_tensor *x)
{
    return x->requires_grad ||
           (!x->apart && atomic_load_explicit(&x->storage->history,
                                              memory_order_relaxed));
}

/* Functions that autograd sets. release_grad and release_history free
 * autograd's data. grad_fn writes the name of a tensor's gradient function into
 * TN__GRAD_FN_BYTES bytes ("" for a leaf). */
enum { TN__GRAD_FN_BYTES = 64 };
typedef struct tn__tensor_hooks {
    void (*release_grad)(tn__grad_meta *grad);
    void (*release_history)(tn__history *history);
    void (*grad_fn)(tn_tensor *x, char *text);
} tn__tensor_hooks;
extern tn__tensor_hooks tn__tensor_hook;

/* Copies src to dst, a contiguous tensor on another device with the same dtype
 * and shape. The caller (lib/ops) ensures that src is contiguous or both are
 * host visible. */
tn_status tn__tensor_transfer(tn_tensor *dst, const tn_tensor *src);

/* ---- shapes ------------------------------------------------------------ */

typedef struct tn__shape {
    int ndim;
    int64_t dim[TN_MAX_NDIM];
} tn__shape;
bool tn__shape_equal(int andim, const int64_t *a, int bndim, const int64_t *b);
/* Broadcasts shape b into out. Returns false if the shapes are incompatible. */
bool tn__shape_broadcast(tn__shape *out, int ndim, const int64_t *b);
int64_t tn__shape_numel(int ndim, const int64_t *shape);
/* Maps dim from [-ndim, ndim) to [0, ndim); a 0-d tensor counts as 1-d. Returns
 * -1 with no error recorded if dim is out of range. */
int tn__shape_dim(int ndim, int64_t dim);
void tn__shape_contiguous_strides(int ndim, const int64_t *shape,
                                  int64_t *stride);
bool tn__shape_is_contiguous(int ndim, const int64_t *shape,
                             const int64_t *stride);

/* Returns the lowest and highest offsets of a view's elements, relative to its
 * element 0; 0 and -1 for an empty view. */
void tn__shape_span(int ndim, const int64_t *shape, const int64_t *stride,
                    int64_t *low, int64_t *high);

/* Whether several elements of a view may share memory. Returns false if each
 * stride is larger than the span of all smaller strides. */
bool tn__shape_repeats(int ndim, const int64_t *shape, const int64_t *stride);

/* ---- errors -------------------------------------------------------------- */

/* Adds x to the tensors of an error, which has fewer than TN_ERROR_TENSORS so
 * far. */
void tn__error_add_tensor(tn__error_facts *facts, const char *argument,
                          int index, const tn_tensor *x);

/* ---- elements on the host ------------------------------------------------ */

/* Convert an element of any dtype to a scalar. tn__element_int is exact for
 * integers. */
double tn__element_double(tn_dtype dtype, const void *element);
int64_t tn__element_int(tn_dtype dtype, const void *element);

/* The elements of a tensor in host memory, after waiting for the device. If the
 * device is host visible, this is the device's memory, else a copy of the
 * view's span. `base` points to element 0. */
typedef struct tn__host_view {
    const char *base;
    void *copy; /* owned; NULL if base is the device's memory */
} tn__host_view;
tn_status tn__host_view_open(tn__host_view *view, const tn_tensor *x);
void tn__host_view_close(tn__host_view *view);

#endif
