/* native.h: helpers for the C functions of rows. */
#ifndef TN_LIB_OPS_NATIVE_H
#define TN_LIB_OPS_NATIVE_H

#include <base/error.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <string.h>
#include <tenon/ops.h>

/* Adds an output to the call. Returns the error that is recorded if out is
 * NULL. */
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

/* Calls another row on these values. */
static inline tn_tensor *tn__row(int id, const tn_value *value, int count)
{
    return tn__op_run1(&tn__op_table[id], value, count);
}

/* An index tensor in which indices below 0, which count from the end of size
 * elements, are converted to count from the front. */
static inline tn_tensor *tn__from_front(tn_tensor *index, int64_t size)
{
    const tn_value value[] = {tn__value_tensor(index), tn__value_int(size)};
    return tn__row(TN__OP_ID_FROM_FRONT, value, 2);
}

/* Splits x along dim into views of at most `size`, at most TN__OP_MAX_OUTPUTS
 * of them. Their gradient is a single cat. Returns their number, 0 on
 * failure. */
int tn__split_parts(tn_tensor *x, int dim, int64_t size, tn_tensor **part);

/* Requires two tensors to share a dtype: "matmul: dtypes differ: input float32,
 * other float64; convert one with tn_to_dtype". */
tn_status tn__check_same_dtype(const char *name, const tn_tensor *a,
                               const char *a_name, const tn_tensor *b,
                               const char *b_name);

/* Writes src, which may have any strides and broadcasts, into dst and converts
 * it to the dtype of dst. */
tn_status tn__copy_into(tn_tensor *dst, tn_tensor *src, const char *what);
/* The same, if a scatter or a product updates dst next. */
tn_status tn__copy_for_update(tn_tensor *dst, tn_tensor *src, const char *what);
/* Fills dst with a number. */
tn_status tn__fill(tn_tensor *dst, double number, const char *what);
/* Writes src (or `number` if src is NULL) into dst at index along dim, or
 * reduces it into dst: TN_SCATTER_... The open scope owns intermediate
 * tensors. */
tn_status tn__scatter_into(const char *name, tn_tensor *dst, int dim,
                           tn_tensor *index, tn_tensor *src, double number,
                           uint32_t reduce);

#endif
