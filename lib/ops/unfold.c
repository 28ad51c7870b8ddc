/* unfold.c: windows as dimensions: views, their adjoint, and columns. */
#include <ops/window.h>

static tn_status check_windows(const char *name, const tn_tensor *x, int dim,
                               int64_t size, int64_t step, int64_t dilation)
{
    int64_t span;
    if (size < 0 || step < 1 || dilation < 1 ||
        __builtin_mul_overflow(dilation, size > 0 ? size - 1 : 0, &span) ||
        span >= (x->ndim ? x->shape[dim] : 1) + (size == 0))
        return tn__fail(TN_ERR_ARGUMENT, "%s: size %lld, step %lld for a "
                        "dimension of size %lld", name, (long long)size,
                        (long long)step,
                        (long long)(x->ndim ? x->shape[dim] : 1));
    if (x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "%s: %d dimensions; at most %d", name,
                        x->ndim + 1, TN_MAX_NDIM);
    return TN_OK;
}

tn_status tn__run_windows(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_WINDOWS_INPUT);
    int dim = tn__call_dim(call, TN__ARG_WINDOWS_DIMENSION, x->ndim);
    int64_t size = tn__call_int(call, TN__ARG_WINDOWS_SIZE);
    int64_t step = tn__call_int(call, TN__ARG_WINDOWS_STEP);
    int64_t dilation = tn__call_int(call, TN__ARG_WINDOWS_DILATION);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_windows(tn__op_outer("unfold"), x, dim, size,
                                     step, dilation);
    if (status < 0)
        return status;
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = x->shape[d];
        stride[d] = x->stride[d];
    }
    shape[x->ndim] = size;
    stride[x->ndim] = x->ndim ? dilation * x->stride[dim] : 1;
    if (x->ndim) {
        int64_t span = size ? dilation * (size - 1) + 1 : 0;
        shape[dim] = (x->shape[dim] - span) / step + 1;
        stride[dim] = shape[dim] > 1 ? step * x->stride[dim] : x->stride[dim];
    }
    return tn__give(call, tn__tensor_view(x, x->dtype, x->ndim + 1, shape,
                                          stride, x->offset));
}

tn_status tn__run_unfold(tn__call *call)
{
    const tn_value value[] = {
        call->value[TN__ARG_UNFOLD_INPUT], call->value[TN__ARG_UNFOLD_DIMENSION],
        call->value[TN__ARG_UNFOLD_SIZE], call->value[TN__ARG_UNFOLD_STEP],
        tn__value_int(1)};
    return tn__give(call, tn__row(TN__OP_ID_WINDOWS, value, 5));
}

/* Element p of the dimension lies in window q at place k where p = q step + k
 * dilation: a row over k. */
tn_status tn__run_windows_backward(tn__call *call)
{
    static tn__formula sum = TN__FORMULA(
        "windows_backward(g, at: offset; step: i64) ="
        "let q = div(at, step);"
        "like(rsum(where((at >= 0) & (rem(at, step) == 0), g[q; 0], 0)), g)");
    static tn__formula each = TN__FORMULA( /* a step of 1 */
        "windows_backward(g, at: offset) = like(rsum(g[at; 0]), g)");
    tn_tensor *g = tn__call_tensor(call, TN__ARG_WINDOWS_BACKWARD_INPUT);
    int64_t length = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_LENGTH);
    const char *name = tn__op_outer("unfold");
    if (g->ndim < 2 || length < 0 || g->shape[g->ndim - 1] > INT32_MAX)
        return tn__fail(TN_ERR_SHAPE, "%s: windows with %d dimensions, length "
                        "%lld", name, g->ndim, (long long)length);
    int ndim = g->ndim - 1;
    int dim = tn__call_dim(call, TN__ARG_WINDOWS_BACKWARD_DIMENSION, ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < ndim; d++)
        shape[d] = d == dim ? length : g->shape[d];
    const tn_dtype dtype[] = {g->dtype, 0};
    tn_number step = {.i = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_STEP)};
    bool steps = step.i != 1;
    const tn__kernel *kernel =
        tn__formula_kernel(steps ? &sum : &each, dtype);
    tn_tensor *out = kernel ? tn__tensor_new(g->storage->device, g->dtype, ndim,
                                             shape, name)
                            : NULL;
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    int64_t dilation = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_DILATION);
    tn_status status = check_windows(name, out, dim, g->shape[ndim], step.i,
                                     dilation);
    if (status < 0)
        return status;
    tn__space space = {.outer_ndim = ndim, .row_ndim = 1};
    for (int d = 0; d < ndim; d++)
        space.extent[d] = shape[d];
    space.extent[ndim] = g->shape[ndim];
    tn__operand *from = tn__space_add_bare(&space, g);
    for (int d = 0; d <= ndim; d++)
        from->stride[d] = d == dim ? 0 : g->stride[d];
    from->index_stride[0] = g->stride[dim];
    from->index_extent[0] = g->shape[dim];
    tn__operand *at = tn__space_add_bare(&space, NULL);
    at->stride[dim] = 1;
    at->stride[ndim] = -dilation;
    tn__operand *to = tn__space_add_bare(&space, out);
    for (int d = 0; d < ndim; d++)
        to->stride[d] = out->stride[d];
    return tn__kernel_launch(out->storage->device, kernel, &space,
                             steps ? &step : NULL, name);
}

/* ---- columns ---------------------------------------------------------------- */

enum { KERNEL, DILATION, PADDING, STRIDE, LISTS };

/* kernel_size and the lists behind it, as two numbers each, and how many
 * windows lie over an image of this size. */
static tn_status take_lists(const tn__call *call, int first,
                            const int64_t size[2], tn_dims_list list[LISTS],
                            tn_dims_list *out)
{
    for (int k = 0; k < LISTS; k++) {
        int64_t pair[2];
        tn_status status = tn__window_pair(call, first + k, pair);
        if (status < 0)
            return status;
        list[k] = tn_dims(pair[0], pair[1]);
    }
    out->count = 2;
    for (int a = 0; a < 2; a++) {
        int64_t k = list[KERNEL].dim[a], d = list[DILATION].dim[a];
        int64_t pad = list[PADDING].dim[a], step = list[STRIDE].dim[a];
        int64_t room = size[a] + 2 * pad - d * (k - 1) - 1;
        if (k < 1 || d < 1 || pad < 0 || step < 1 || room < 0)
            return tn__fail(TN_ERR_ARGUMENT, "%s: kernel_size %lld, dilation "
                            "%lld, padding %lld, stride %lld for a dimension "
                            "of size %lld", call->op->name, (long long)k,
                            (long long)d, (long long)pad, (long long)step,
                            (long long)size[a]);
        out->dim[a] = room / step + 1;
    }
    return TN_OK;
}

tn_status tn__run_unfold_images(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNFOLD_IMAGES_INPUT);
    tn_dims_list list[LISTS], out;
    tn__images images;
    tn_status status = tn__images_of("unfold", x, &images);
    if (status >= 0)
        status = take_lists(call, TN__ARG_UNFOLD_IMAGES_KERNEL_SIZE,
                            x->shape + x->ndim - 2, list, &out);
    if (status < 0)
        return status;
    bool batched = x->ndim == 4;
    const tn_value value[] = {
        tn__value_tensor(batched ? x : tn_unsqueeze(x, 0)),
        tn__value_dims(&list[KERNEL]), tn__value_dims(&list[DILATION]),
        tn__value_dims(&list[PADDING]), tn__value_dims(&list[STRIDE]),
        tn__value_dims(&out)};
    tn_tensor *y = tn__row(TN__OP_ID_IM2COL, value, 6);
    return tn__give(call, y && !batched ? tn_squeeze(y, .dim = tn_dims(0)) : y);
}

tn_status tn__run_fold(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_FOLD_INPUT);
    tn_dims_list list[LISTS], out, size = {2, {0}};
    char text[TN__SHAPE_TEXT];
    tn_status status =
        tn__window_pair(call, TN__ARG_FOLD_OUTPUT_SIZE, size.dim);
    if (status >= 0)
        status = take_lists(call, TN__ARG_FOLD_KERNEL_SIZE, size.dim, list,
                            &out);
    if (status < 0)
        return status;
    bool batched = x->ndim == 3;
    int64_t window = list[KERNEL].dim[0] * list[KERNEL].dim[1];
    int64_t places = tn__size_mul(out.dim[0], out.dim[1]);
    if ((!batched && x->ndim != 2) || x->shape[x->ndim - 1] != places ||
        x->shape[x->ndim - 2] % window)
        return tn__fail(TN_ERR_SHAPE, "fold: input %s; (N, C * %lld, %lld) is "
                        "wanted", tn__shape_text(text, x->ndim, x->shape),
                        (long long)window, (long long)places);
    const tn_value value[] = {
        tn__value_tensor(batched ? x : tn_unsqueeze(x, 0)),
        tn__value_dims(&size), tn__value_dims(&list[KERNEL]),
        tn__value_dims(&list[DILATION]), tn__value_dims(&list[PADDING]),
        tn__value_dims(&list[STRIDE]), tn__value_dims(&out)};
    tn_tensor *y = tn__row(TN__OP_ID_COL2IM, value, 7);
    return tn__give(call, y && !batched ? tn_squeeze(y, .dim = tn_dims(0)) : y);
}
