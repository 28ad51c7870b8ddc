/* join.c: concatenation (PyTorch's cat), and slice_backward, the gradient of a
 * slice: a tensor of zeros in which one slice is replaced. */
#include <ops/engine/native.h>

/* Sets *part to a slice of dst along dim: the `size` elements at start, start +
 * step, start + 2 * step and so on. Only the fields that describe a view are
 * set. */
static void set_part(tn_tensor *part, const tn_tensor *dst, int dim,
                     int64_t start, int64_t step, int64_t size)
{
    part->storage = dst->storage;
    part->dtype = dst->dtype;
    part->ndim = dst->ndim;
    part->offset = dst->offset + start * dst->stride[dim];
    for (int d = 0; d < dst->ndim; d++) {
        part->shape[d] = d == dim ? size : dst->shape[d];
        part->stride[d] = d == dim && size > 1 ? dst->stride[d] * step
                                               : dst->stride[d];
    }
}

/* Returns whether x is a 1-d tensor without elements, which concatenates with
 * anything, as in PyTorch. */
static bool is_empty_list(const tn_tensor *x)
{
    return x->ndim == 1 && x->shape[0] == 0;
}

static tn_status fail_cat(tn_tensor *const *x, int at, int k, int dim)
{
    char first[TN__SHAPE_TEXT], other[TN__SHAPE_TEXT];
    const tn_tensor *a = x[at], *b = x[k];
    return tn__fail(TN_ERR_SHAPE, "cat: {tensors[%d]} %s differs from "
                    "{tensors[%d]} %s in a dimension other than {dim} %d", k,
                    tn__shape_text(other, b->ndim, b->shape), at,
                    tn__shape_text(first, a->ndim, a->shape), dim);
}

tn_status tn__run_cat(tn__call *call)
{
    tn_tensor *const *x = call->value[TN__ARG_CAT_TENSORS].of.tensors;
    int count = call->value[TN__ARG_CAT_TENSORS].count;
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "cat: {tensors} is an empty list; "
                        "expected at least one tensor");
    /* the first tensor that does not have the shape (0), or the last tensor */
    int first = 0;
    tn_dtype dtype = x[0]->dtype;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[first]))
            first = k;
        if (x[k]->ndim == 0)
            return tn__fail(TN_ERR_SHAPE, "cat: {tensors[%d]} has no "
                            "dimension; use tn_stack", k);
        tn_dtype both = tn_dtype_promote(dtype, x[k]->dtype);
        if (!both)
            return tn__fail(TN_ERR_DTYPE, "cat: {tensors[%d]} is %s, which has "
                            "no common dtype with %s of those before it; "
                            "convert it with tn_to_dtype", k,
                            tn_dtype_name(x[k]->dtype), tn_dtype_name(dtype));
        dtype = both;
    }
    const tn_tensor *like = x[first];
    int dim = tn__call_dim(call, TN__ARG_CAT_DIM, like->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn__shape shape = tn__shape_of(like);
    shape.dim[dim] = 0;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[k]) && like->ndim != 1)
            continue;
        if (x[k]->ndim != like->ndim)
            return fail_cat(x, first, k, dim);
        for (int d = 0; d < like->ndim; d++)
            if (d != dim && x[k]->shape[d] != like->shape[d])
                return fail_cat(x, first, k, dim);
        shape.dim[dim] = tn__size_add(shape.dim[dim], x[k]->shape[dim]);
    }
    tn_tensor *out = tn__tensor_new(x[0]->storage->device, dtype, shape.ndim,
                                    shape.dim, "cat");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[k]))
            continue;
        tn_tensor part;
        set_part(&part, out, dim, at, 1, x[k]->shape[dim]);
        tn_status status = tn__copy_into(&part, x[k], "cat");
        if (status < 0)
            return status;
        at += x[k]->shape[dim];
    }
    return TN_OK;
}

/* Returns whether x has the shape of the slice along dim, beginning at `start`
 * with this step, of a tensor of this size. */
static bool is_slice(const tn_tensor *x, const tn_dims_list *size, int dim,
                     int64_t start, int64_t step)
{
    bool is = x->ndim == size->count && start >= 0 && step >= 1;
    for (int d = 0; is && d < x->ndim; d++)
        is = d == dim || x->shape[d] == size->dim[d];
    if (!is || x->shape[dim] == 0)
        return is && start <= size->dim[dim];
    return start < size->dim[dim] &&
           x->shape[dim] - 1 <= (size->dim[dim] - 1 - start) / step;
}

tn_status tn__run_slice_backward(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SLICE_BACKWARD_INPUT);
    const tn_dims_list *size =
        call->value[TN__ARG_SLICE_BACKWARD_SIZE].of.dims;
    int64_t start = tn__call_int(call, TN__ARG_SLICE_BACKWARD_START);
    int64_t step = tn__call_int(call, TN__ARG_SLICE_BACKWARD_STEP);
    int dim = tn__call_dim(call, TN__ARG_SLICE_BACKWARD_DIM, size->count);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (!is_slice(x, size, dim, start, step)) {
        char part[TN__SHAPE_TEXT], whole[TN__SHAPE_TEXT];
        return tn__fail(TN_ERR_SHAPE, "slice_backward: {input} has shape %s, "
                        "which is not that of the slice from %lld in steps of "
                        "%lld along {dim} %d of a tensor %s",
                        tn__shape_text(part, x->ndim, x->shape),
                        (long long)start, (long long)step, dim,
                        tn__shape_text(whole, size->count, size->dim));
    }
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, size->count,
                                    size->dim, "slice_backward");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_status status = tn__fill(out, 0, "slice_backward");
    if (status < 0)
        return status;
    tn_tensor part;
    set_part(&part, out, dim, start, step, x->shape[dim]);
    return tn__copy_into(&part, x, "slice_backward");
}
