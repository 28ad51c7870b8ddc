/* tensor.h: the tensor struct: a view of a reference-counted storage. */
#ifndef TN_LIB_TENSOR_TENSOR_H
#define TN_LIB_TENSOR_TENSOR_H

#include <base/error.h>
#include <base/context.h>
#include <base/object.h>
#include <base/size.h>
#include <device/device.h>
#include <device/recorder.h>
#include <tenon/tensor.h>

/* Data of autograd: of a tensor, and of memory that was changed in place while
 * several tensors shared it. Defined and freed by that room. */
typedef struct tn__grad_meta tn__grad_meta;
typedef struct tn__history tn__history;

typedef struct tn__storage {
    _Atomic int32_t references;
    _Atomic int32_t saved;    /* the references of values saved for gradients;
                                 autograd counts them */
    _Atomic uint32_t version; /* incremented by each change in place; shared by
                                 all views */
    const char *changed_by;   /* last operator that wrote in place (autograd's
                                 hook sets it, for messages); NULL: none */
    _Atomic(tn__history *) history; /* owned; NULL: the tensors' own data are
                                 complete. Freed when only saved values hold
                                 the storage: else a node that saved one would
                                 hold itself */
    bool has_leaf;            /* a tensor on it was marked as a leaf that
                                 requires a gradient */
    tn_device *device;
    tn__block *block;         /* owned; wrapped memory has a separate block */
    bool wrapped;             /* the memory is not the allocator's */
    uint64_t bytes;
    void (*release)(void *context); /* wrapped memory: called when unused */
    void *context;
} tn__storage;

struct tn_tensor {
    tn__object object;
    tn__storage *storage;  /* one reference */
    tn__grad_meta *grad;   /* owned; NULL until autograd needs it */
    const char *made_by;   /* for errors: the operator or call that made it, */
    const tn_path *made_in;/*   and the module in which */
    int64_t offset;        /* of element 0, in elements, within the storage */
    int64_t numel;
    uint8_t dtype, ndim;
    bool contiguous;       /* row-major without gaps */
    bool requires_grad;    /* a leaf that does, or an input did: read by calls
                              to decide whether to record */
    bool apart;            /* does not take part in the history of the memory
                              that it shares: detached, made in no-grad mode,
                              or made so by a user's function */
    int64_t shape[TN_MAX_NDIM];
    int64_t stride[TN_MAX_NDIM];
};

/* Is x a live tensor? */
extern const tn__class tn__tensor_class;
static inline bool tn__tensor_is_live(const tn_tensor *x)
{
    return tn__object_is(x, &tn__tensor_class);
}
/* The same, with an error recorded if not. _check: for arguments; _has: for
 * attributes, where NULL gives no error. */
static inline bool tn__tensor_check(const tn_tensor *x, const char *call,
                                    const char *argument)
{
    return tn__object_check(x, &tn__tensor_class, call, argument);
}
static inline bool tn__tensor_has(const tn_tensor *x, const char *call)
{
    return tn__object_has(x, &tn__tensor_class, call, "x");
}

/* Lets this thread's recording keep x's memory. */
void tn__tensor_recorded(const tn_tensor *x);
/* The drop function for tn__record_begin. */
void tn__tensor_recorded_drop(void *storage);

/* The buffer, for arguments of plugin calls. */
static inline tn_buffer *tn__tensor_buffer(const tn_tensor *x)
{
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__tensor_recorded(x);
    return x->storage->block->buffer;
}

/* log2 of the bytes of each dtype, two bits each, in one constant: small
 * operators so need no table and no division. */
#define TN__DTYPE_SHIFT(name, code, text, bytes, kind, reg)                   \
    | (uint64_t)(bytes == 8 ? 3 : bytes / 2) << 2 * code
enum { TN__DTYPE_SHIFTS = 0 TN_DTYPE_MAP(TN__DTYPE_SHIFT) };

static inline int tn__tensor_shift(const tn_tensor *x)
{
    return TN__DTYPE_SHIFTS >> 2 * x->dtype & 3;
}

/* The offset of element 0 in that buffer, in elements. */
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

/* ---- making: all return NULL with the error recorded. The caller owns the
 * result's one reference and passes it to tn__scope_own. ---------------- */

/* An uninitialised, contiguous tensor. TN_ERR_SHAPE, naming `what`, for
 * negative sizes or more than 2^62 bytes. */
tn_tensor *tn__tensor_new(tn_device *device, tn_dtype dtype, int ndim,
                          const int64_t *shape, const char *what);
/* Another view of base's storage, without gradient data; offset in elements
 * from the storage's start. An empty view gets offset 0 and contiguous strides,
 * whatever the arguments, so that they are never out of range. TN_ERR_SHAPE if
 * the number of elements (of an empty view: over its non-empty dimensions) does
 * not fit in int64_t. */
tn_tensor *tn__tensor_view(const tn_tensor *base, tn_dtype dtype, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           int64_t offset);
/* A tensor of the shape and on the device of x, which is contiguous: the fast
 * path for an operator's output. */
tn_tensor *tn__tensor_new_like(const tn_tensor *x, tn_dtype dtype);
/* A new tensor object over the same view, without gradient data. */
tn_tensor *tn__tensor_alias(const tn_tensor *x);

/* Marks x as written in place: increments its storage's version. */
static inline void tn__tensor_changed(tn_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* Must a call with x be recorded for gradients? Because x requires a gradient,
 * or because a value that does was written into its memory. */
static inline bool tn__tensor_tracks(const tn_tensor *x)
{
    return x->requires_grad ||
           (!x->apart && atomic_load_explicit(&x->storage->history,
                                              memory_order_relaxed));
}

/* Functions that autograd sets: they free its data, and write the name of a
 * tensor's gradient function into TN__GRAD_FN_BYTES bytes ("" for a leaf). */
enum { TN__GRAD_FN_BYTES = 64 };
typedef struct tn__tensor_hooks {
    void (*release_grad)(tn__grad_meta *grad);
    void (*release_history)(tn__history *history);
    void (*grad_fn)(tn_tensor *x, char *text);
} tn__tensor_hooks;
extern tn__tensor_hooks tn__tensor_hook;

/* Copies src to contiguous dst on another device, with the same dtype and
 * shape. src must be contiguous, or both must be host visible: the caller (ops)
 * ensures it. */
tn_status tn__tensor_transfer(tn_tensor *dst, const tn_tensor *src);

/* ---- shapes ------------------------------------------------------------ */

typedef struct tn__shape {
    int ndim;
    int64_t dim[TN_MAX_NDIM];
} tn__shape;
bool tn__shape_equal(int andim, const int64_t *a, int bndim, const int64_t *b);
/* Broadcasts b into out; false if the shapes are incompatible. */
bool tn__shape_broadcast(tn__shape *out, int ndim, const int64_t *b);
int64_t tn__shape_numel(int ndim, const int64_t *shape);
/* Maps dim from [-ndim, ndim) to [0, ndim) (a 0-d tensor counts as 1-d). -1,
 * with no error recorded, if out of range. */
int tn__shape_dim(int ndim, int64_t dim);
void tn__shape_contiguous_strides(int ndim, const int64_t *shape,
                                  int64_t *stride);
bool tn__shape_is_contiguous(int ndim, const int64_t *shape,
                             const int64_t *stride);

/* The lowest and highest offsets of a view's elements, relative to its element
 * 0; 0 and -1 for an empty view. */
void tn__shape_span(int ndim, const int64_t *shape, const int64_t *stride,
                    int64_t *low, int64_t *high);

/* May several elements of a view share memory? False if each stride is larger
 * than the span of all smaller ones. */
bool tn__shape_repeats(int ndim, const int64_t *shape, const int64_t *stride);

/* ---- errors -------------------------------------------------------------- */

/* Adds x to the tensors of an error, which must be fewer than
 * TN_ERROR_TENSORS. */
void tn__error_add_tensor(tn__error_facts *facts, const char *argument,
                          int index, const tn_tensor *x);

/* ---- elements on the host ------------------------------------------------ */

/* An element of any dtype as a number; the second is exact for integers. */
double tn__element_double(tn_dtype dtype, const void *element);
int64_t tn__element_int(tn_dtype dtype, const void *element);

/* The elements of a tensor in host memory, after waiting for the device: the
 * device's memory if host visible, else a copy of the view's span. base points
 * to element 0. */
typedef struct tn__host_view {
    const char *base;
    void *copy; /* owned; NULL if base is the device's memory */
} tn__host_view;
tn_status tn__host_view_open(tn__host_view *view, const tn_tensor *x);
void tn__host_view_close(tn__host_view *view);

#endif
