/* native.h: what C functions of rows share. */
#ifndef TN_LIB_OPS_NATIVE_H
#define TN_LIB_OPS_NATIVE_H

#include <base/error.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <string.h>
#include <tenon/ops.h>

/* Hands an output to the call; the status of what made it. */
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

/* Another row on these values. */
static inline tn_tensor *tn__row(int id, const tn_value *value, int count)
{
    return tn__op_run1(&tn__op_table[id], value, count);
}

/* An index whose numbers below 0 count from the end of size elements, as those
 * from the front. */
static inline tn_tensor *tn__from_front(tn_tensor *index, int64_t size)
{
    const tn_value value[] = {tn__value_tensor(index), tn__value_int(size)};
    return tn__row(TN__OP_ID_FROM_FRONT, value, 2);
}

/* Parts of x along dim (from the front) of at most so much, TN__OP_MAX_OUTPUTS
 * of them at most, whose gradient is one cat; how many, 0 on failure. */
int tn__split_parts(tn_tensor *x, int dim, int64_t size, tn_tensor **part);

/* Several tensors must share a dtype: "matmul: dtypes differ: input float32,
 * other float64; convert one with tn_to_dtype". */
tn_status tn__check_same_dtype(const char *name, const tn_tensor *a,
                               const char *a_name, const tn_tensor *b,
                               const char *b_name);

/* src, of any strides and broadcast, written into dst's view with its dtype. */
tn_status tn__copy_into(tn_tensor *dst, tn_tensor *src, const char *what);
/* The same, where dst is next folded into. */
tn_status tn__copy_for_update(tn_tensor *dst, tn_tensor *src, const char *what);
/* A number written into all of dst. */
tn_status tn__fill(tn_tensor *dst, double number, const char *what);
/* src, or where that is NULL the number, written into dst where index says along
 * dim, or folded into what is there: TN_SCATTER_... What it makes belongs to the
 * open scope. */
tn_status tn__scatter_into(const char *name, tn_tensor *dst, int dim,
                           tn_tensor *index, tn_tensor *src, double number,
                           uint32_t reduce);

#endif
