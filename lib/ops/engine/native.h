/* native.h: helpers for the C functions that run NATIVE and COMPOSITE
 * operators. */
#ifndef TN_LIB_OPS_NATIVE_H
#define TN_LIB_OPS_NATIVE_H

#include <base/error.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <string.h>
#include <tenon/ops.h>

/* Adds `out` to the call's outputs. If out is NULL, returns the status of the
 * error that is recorded. */
static inline tn_status tn__give(tn__call *call, tn_tensor *out)
{
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return TN_OK;
}

static inline tn__shape tn__shape_of(const tn_tensor *x)
{
    tn__shape shape = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = x->shape[d];
    return shape;
}

/* Calls the operator with this id (TN__OP_ID_...) on these values. Returns its
 * output, or NULL on failure. */
static inline tn_tensor *tn__row(int id, const tn_value *value, int count)
{
    return tn__op_run1(&tn__op_table[id], value, count);
}

/* Returns an index tensor in which negative indices i, which count from the end
 * of `size` elements, are replaced by i + size. */
static inline tn_tensor *tn__from_front(tn_tensor *index, int64_t size)
{
    const tn_value value[] = {tn__value_tensor(index), tn__value_int(size)};
    return tn__row(TN__OP_ID_FROM_FRONT, value, 2);
}

/* Splits x along dim into views of at most `size` elements along dim. Stores
 * the views, at most TN__OP_MAX_OUTPUTS, in part[] and returns their number, or
 * 0 on failure. The gradient of all views together is a single cat. */
int tn__split_parts(tn_tensor *x, int dim, int64_t size, tn_tensor **part);

/* Checks that two tensors have the same dtype. If not, records an error as
 * "matmul: dtypes differ: input is float32, other is float64; convert one with
 * tn_to_dtype". */
tn_status tn__check_same_dtype(const char *name, const tn_tensor *a,
                               const char *a_name, const tn_tensor *b,
                               const char *b_name);

/* Returns a tensor of numbers that an operator computed on the host from shapes
 * and options alone, such as the indices of windows. Converts them from `dtype`
 * to `to`. The open scope owns it. A recording takes it for a tensor that existed
 * before: a replay reads the same numbers. tn__storage.table identifies them, so
 * that captures of a compiled function with other numbers differ. */
tn_tensor *tn__number_table(const void *numbers, tn_dtype dtype, tn_dtype to,
                            tn_dims_list shape, tn_device *device);

/* Copies src into dst, converted to the dtype of dst. src may have any strides,
 * and is broadcast to the shape of dst. */
tn_status tn__copy_into(tn_tensor *dst, tn_tensor *src, const char *what);
/* Copies src into dst like tn__copy_into, and hints to the device that dst is
 * read again soon, so that it keeps dst in its caches. Used where a scatter or
 * a matrix product updates dst next. */
tn_status tn__copy_for_update(tn_tensor *dst, tn_tensor *src, const char *what);
/* Fills dst with a number. */
tn_status tn__fill(tn_tensor *dst, double number, const char *what);
/* Scatters src into dst along dim, as PyTorch's scatter_reduce_: writes each
 * element of src to the position that `index` gives, or combines it with the
 * element there as `reduce` says (TN_SCATTER_...). The open scope owns
 * intermediate tensors. */
tn_status tn__scatter_into(const char *name, tn_tensor *dst, int dim,
                           tn_tensor *index, tn_tensor *src, uint32_t reduce);

#endif
