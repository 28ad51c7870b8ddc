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

/* Structs of autograd, which lib/autograd defines and frees. tn__grad_meta is a
 * tensor's part of the graph. tn__history records in-place changes of memory
 * that several tensors share. */
typedef struct tn__grad_meta tn__grad_meta;
typedef struct tn__history tn__history;

typedef struct tn__storage {
    _Atomic int32_t references;
    _Atomic int32_t saved;    /* how many of the references belong to values
                               * that autograd saved for gradients */
    _Atomic uint32_t version; /* version counter: incremented by each in-place
                               * change, through any view */
    const char *changed_by;   /* name of the last operator that wrote in place,
                               * for messages; NULL if there was none.
                               * lib/autograd sets it. */
    /* Owned; NULL if there was no in-place change of shared memory. The history
     * is freed when only saved values still refer to the storage, because a
     * history refers to nodes and nodes refer to saved values. */
    _Atomic(tn__history *) history;
    bool has_leaf;            /* a tensor of this storage is a leaf that
                               * requires a gradient */
    tn_device *device;
    tn__block *block;         /* owned: the memory */
    bool wrapped;             /* the memory was passed by the program
                               * (tn_tensor_wrap), not allocated by Tenon */
    uint64_t bytes;
    uint64_t table;           /* a hash of the numbers of tn__number_table; 0 in
                               * other storages */
    void (*release)(void *context); /* called when wrapped memory is no longer
                                     * used */
    void *context;
} tn__storage;

struct tn_tensor {
    tn__object object;
    tn__storage *storage;  /* the tensor holds one reference */
    tn__grad_meta *grad;   /* owned; NULL until autograd needs it */
    const char *made_by;   /* name of the operator or function that made the
                            * tensor, for error messages */
    const tn_path *made_in;/* path of the module that ran when the tensor was
                            * made */
    int64_t offset;        /* offset of element 0 in the storage, in elements */
    int64_t numel;
    uint8_t dtype, ndim;
    bool contiguous;       /* elements are in row-major order without gaps */
    bool requires_grad;    /* the tensor is a leaf that requires a gradient, or
                            * was computed from one; then operators record
                            * their calls */
    /* Whether in-place changes of shared memory are ignored for this tensor's
     * gradient. That is so for a tensor that was detached, was made as a view
     * in no-grad mode, or was saved for a gradient. */
    bool apart;
    int64_t shape[TN_MAX_NDIM];
    int64_t stride[TN_MAX_NDIM];
};

/* Returns whether x points to a tensor that has not been freed. */
extern const tn__class tn__tensor_class;
static inline bool tn__tensor_is_live(const tn_tensor *x)
{
    return tn__object_is(x, &tn__tensor_class);
}
/* Return whether x points to a tensor that has not been freed, and record an
 * error if it does not. tn__tensor_check also records an error for NULL.
 * tn__tensor_has does not; functions that read an attribute use it. */
static inline bool tn__tensor_check(const tn_tensor *x, const char *call,
                                    const char *argument)
{
    return tn__object_check(x, &tn__tensor_class, call, argument);
}
static inline bool tn__tensor_has(const tn_tensor *x, const char *call)
{
    return tn__object_has(x, &tn__tensor_class, call, "x");
}

/* Takes the memory of a tensor away, and lets later calls reject the tensor: it was
 * donated to a compiled function. */
void tn__tensor_use_up(tn_tensor *x);

/* Keeps the memory of x allocated for the graph that this thread is recording
 * (tn_graph). */
void tn__tensor_recorded(const tn_tensor *x);
/* Releases memory that was kept for a recorded graph. This is the `drop`
 * function passed to tn__record_begin. */
void tn__tensor_recorded_drop(void *storage);

/* Returns whether two storages have memory in common: they are one storage, or the
 * program has wrapped the same memory twice (tn_tensor_wrap). */
bool tn__storages_overlap(const tn__storage *a, const tn__storage *b);

/* Returns the tensor's device buffer, for arguments of plugin calls. */
static inline tn_buffer *tn__tensor_buffer(const tn_tensor *x)
{
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__tensor_recorded(x);
    return x->storage->block->buffer;
}

/* A constant with log2 of the size of each dtype in bytes, two bits for each
 * dtype. Shifting by these bits is faster than a table and a division, which
 * matters for operators on small tensors. */
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

/* Returns the host address of element 0. The device must be host visible, which
 * means that the CPU can access its memory. Does not wait for pending work. */
static inline void *tn__tensor_host(const tn_tensor *x)
{
    return (char *)x->storage->block->host +
           x->offset * ((int64_t)1 << tn__tensor_shift(x));
}

/* ---- making ---------------------------------------------------------------
 *
 * On failure these functions record an error and return NULL. The caller owns
 * the only reference to the result and passes it to tn__scope_own. */

/* Makes an uninitialised, contiguous tensor. Fails with TN_ERR_SHAPE if a size
 * is negative or the tensor would have more than 2^62 bytes. The message then
 * begins with `what`. */
tn_tensor *tn__tensor_new(tn_device *device, tn_dtype dtype, int ndim,
                          const int64_t *shape, const char *what);
/* Makes another view of base's storage, which has no graph. offset is in
 * elements from the start of the storage. An empty view always gets offset 0
 * and contiguous strides, so that they are never out of range. Fails with
 * TN_ERR_SHAPE if the number of elements does not fit in int64_t. For an empty
 * view, the product of its non-zero sizes must fit. */
tn_tensor *tn__tensor_view(const tn_tensor *base, tn_dtype dtype, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           int64_t offset);
/* Makes an uninitialised, contiguous tensor with the shape and device of x. x
 * must be contiguous, so strides are copied, not computed. */
tn_tensor *tn__tensor_new_like(const tn_tensor *x, tn_dtype dtype);
/* Makes a new tensor object that is the same view of the same storage, but has
 * no graph. */
tn_tensor *tn__tensor_alias(const tn_tensor *x);

/* Must be called after x was written in place. Increments the version counter
 * of its storage. */
static inline void tn__tensor_changed(tn_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* Returns whether a call with x must be recorded for gradients: x requires a
 * gradient, or a value that requires a gradient may have been written into its
 * memory. */
static inline bool tn__tensor_tracks(const tn_tensor *x)
{
    return x->requires_grad ||
           (!x->apart && atomic_load_explicit(&x->storage->history,
                                              memory_order_relaxed));
}

/* Functions of autograd, which lib/autograd sets. release_grad and
 * release_history free autograd's structs. grad_fn writes the name of a
 * tensor's gradient function to `text`, which has TN__GRAD_FN_BYTES bytes. The
 * name is "" for a leaf. */
enum { TN__GRAD_FN_BYTES = 64 };
typedef struct tn__tensor_hooks {
    void (*release_grad)(tn__grad_meta *grad);
    void (*release_history)(tn__history *history);
    void (*grad_fn)(tn_tensor *x, char *text);
} tn__tensor_hooks;
extern tn__tensor_hooks tn__tensor_hook;

/* Copies src to dst, which is on another device. Both have the same dtype and
 * shape, and dst is contiguous. The caller ensures that src is contiguous or
 * that the CPU can access the memory of both devices. */
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
/* Maps a dimension from [-ndim, ndim) to [0, ndim). A 0-d tensor counts as 1-d.
 * Returns -1 if dim is out of range, without recording an error. */
int tn__shape_dim(int ndim, int64_t dim);
void tn__shape_contiguous_strides(int ndim, const int64_t *shape,
                                  int64_t *stride);
bool tn__shape_is_contiguous(int ndim, const int64_t *shape,
                             const int64_t *stride);

/* Sets *low and *high to the lowest and highest offset of a view's elements,
 * relative to element 0. For an empty view they are 0 and -1. */
void tn__shape_span(int ndim, const int64_t *shape, const int64_t *stride,
                    int64_t *low, int64_t *high);

/* Returns whether several elements of a view may share memory. The elements
 * certainly do not if each stride is larger than the span of all dimensions
 * with smaller strides. */
bool tn__shape_repeats(int ndim, const int64_t *shape, const int64_t *stride);

/* ---- errors -------------------------------------------------------------- */

/* Adds x to the tensors in the details of an error, which must contain fewer
 * than TN_ERROR_TENSORS tensors before. */
void tn__error_add_tensor(tn__error_facts *facts, const char *argument,
                          int index, const tn_tensor *x);

/* ---- elements on the host ------------------------------------------------ */

/* Convert an element of any dtype to a C scalar. tn__element_int is exact for
 * integers. */
double tn__element_double(tn_dtype dtype, const void *element);
int64_t tn__element_int(tn_dtype dtype, const void *element);

/* The elements of a tensor in host memory. tn__host_view_open waits for the
 * device. If the CPU can access the device's memory, no copy is made. Otherwise
 * the memory from the first to the last element is copied. */
typedef struct tn__host_view {
    const char *base; /* address of element 0 */
    void *copy; /* owned; NULL if no copy was made */
} tn__host_view;
tn_status tn__host_view_open(tn__host_view *view, const tn_tensor *x);
void tn__host_view_close(tn__host_view *view);

#endif
