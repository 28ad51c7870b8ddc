/* unpool.c: the partial inverse of max pooling (PyTorch's max_unpool1d, 2d and
 * 3d): puts each value at its index, with zeros elsewhere. */
#include <ops/nn/pool_nd.h>

/* Sets the size of the output along axis k to *given. If given is NULL, sets it
 * to the smallest size that pools to the input. Records an error if pooling
 * *given elements with these windows does not yield the size of the input. */
static tn_status unpooled_axis(const char *name, tn__windows *w, int k,
                               const int64_t *given)
{
    int64_t kernel = w->kernel[k], stride = w->stride[k], pad = w->pad[k];
    int64_t size;
    if (kernel < 1 || stride < 1 || pad < 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} is %lld, {stride} "
                        "%lld and {padding} %lld; expected at least 1, 1 and 0",
                        name, (long long)kernel, (long long)stride,
                        (long long)pad);
    if (__builtin_mul_overflow(w->in[k] - 1, stride, &size) ||
        size > (int64_t)1 << 62)
        return tn__fail(TN_ERR_SHAPE, "%s: an output of %lld times %lld "
                        "elements in a dimension is too large", name,
                        (long long)w->in[k], (long long)stride);
    size += kernel - 2 * pad;
    if (given && (*given <= size - stride || *given >= size + stride))
        return tn__fail(TN_ERR_SHAPE, "%s: {output_size} is %lld; sizes from "
                        "%lld to %lld are pooled to %lld by {kernel_size} "
                        "%lld, {stride} %lld and {padding} %lld", name,
                        (long long)*given,
                        (long long)(size - stride + 1),
                        (long long)(size + stride - 1),
                        (long long)w->in[k], (long long)kernel,
                        (long long)stride, (long long)pad);
    w->out[k] = given ? *given : size;
    if (w->out[k] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: the output would have %lld "
                        "elements in a dimension; expected at least 1", name,
                        (long long)w->out[k]);
    return TN_OK;
}

/* Sets the sizes of the output. The argument output_size has the sizes of the
 * pooled dimensions, or those of all dimensions. */
static tn_status unpooled_size(const tn__call *call, const tn_tensor *x,
                               int axes, tn__windows *w)
{
    enum {
        kernel_size = TN__ARG_MAX_UNPOOL2D_KERNEL_SIZE,
        stride = TN__ARG_MAX_UNPOOL2D_STRIDE,
        padding = TN__ARG_MAX_UNPOOL2D_PADDING,
        output_size = TN__ARG_MAX_UNPOOL2D_OUTPUT_SIZE
    };
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status =
        tn__windows_list(call, kernel_size, axes, NULL, w->kernel);
    if (status >= 0)
        status = tn__windows_list(call, stride, axes, w->kernel, w->stride);
    if (status >= 0)
        status = tn__windows_list(call, padding, axes, NULL, w->pad);
    if (status < 0)
        return status;
    const tn_dims_list *given = tn__call_has(call, output_size)
                                    ? call->value[output_size].of.dims
                                    : NULL;
    if (given && given->count != axes && given->count != x->ndim)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {output_size} is %s for {input} "
                        "%s; expected one number for each dimension, or for "
                        "each one that is unpooled", call->op->name,
                        tn__shape_text(a, given->count, given->dim),
                        tn__shape_text(b, x->ndim, x->shape));
    for (int k = 0; k < axes && status >= 0; k++) {
        w->in[k] = x->shape[x->ndim - axes + k];
        status = unpooled_axis(call->op->name, w, k,
                               given ? &given->dim[given->count - axes + k]
                                     : NULL);
    }
    return status;
}

tn_status tn__run_max_unpool(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MAX_UNPOOL2D_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_MAX_UNPOOL2D_INDICES);
    int axes = tn__windows_axes(call);
    tn__windows w = {.axes = axes};
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = tn__windows_check_input(call, x, axes);
    if (status >= 0)
        status = unpooled_size(call, x, axes, &w);
    if (status < 0)
        return status;
    if (!tn__shape_equal(x->ndim, x->shape, index->ndim, index->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s and {indices} %s "
                        "differ: expected one shape",
                        call->op->name, tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, index->ndim, index->shape));
    int lead = x->ndim - axes;
    tn_dims_list flat = {lead + 1, {0}}, shape = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d < lead ? x->shape[d] : w.out[d - lead];
    /* `zero` is a single element, expanded to the whole shape without a copy.
     * scatter makes a full copy. */
    tn_tensor *zero = tn_zeros((tn_dims_list){0}, .dtype = x->dtype,
                               .device = x->storage->device);
    if (!tn_expand(zero, shape))
        return tn_error_code(); /* the product of the sizes would overflow */
    memcpy(flat.dim, shape.dim, (size_t)lead * sizeof flat.dim[0]);
    flat.dim[lead] = tn__shape_numel(axes, shape.dim + lead);
    tn_tensor *zeros = tn_expand(zero, flat);
    flat.dim[lead] = tn__shape_numel(axes, x->shape + lead);
    tn_tensor *y = tn_scatter(zeros, -1, tn_reshape(index, flat),
                              tn_reshape(x, flat));
    return tn__give(call, tn_reshape(y, shape));
}
