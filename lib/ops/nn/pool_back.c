/* pool_back.c: the gradients of max_pool2d and avg_pool2d. They are operators
 * of their own, so that a device may compute them (the extension `pool`). They
 * are linear in the gradient g, so their own gradient is a forward pooling. */
#include <base/memory.h>
#include <ops/nn/window.h>

/* Checks that g is a floating-point tensor (N, C, oH, oW) or (C, oH, oW), and
 * that the size of the images is valid. */
static tn_status check_images(const tn__call *call, const tn_tensor *g,
                              const int64_t *size)
{
    char text[TN__SHAPE_TEXT];
    if (!tn_dtype_is_floating(g->dtype) || (g->ndim != 3 && g->ndim != 4))
        return tn__fail(TN_ERR_SHAPE, "%s: {g} %s of %s is neither (N, C, H, "
                        "W) nor (C, H, W) of a floating-point dtype",
                        call->op->name,
                        tn__shape_text(text, g->ndim, g->shape),
                        tn_dtype_name(g->dtype));
    if (size[0] < 1 || size[1] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: the images are %lld by %lld "
                        "elements; expected at least 1 by 1", call->op->name,
                        (long long)size[0], (long long)size[1]);
    return TN_OK;
}

/* ---- max pooling --------------------------------------------------------- */

/* Returns images of this size that are zero except that each element of g is
 * added at its index. If several windows chose the same element, their
 * gradients are summed. */
static tn_tensor *scattered(tn_tensor *g, tn_tensor *indices,
                            const int64_t *size)
{
    int64_t images = 1, area = size[0] * size[1];
    int64_t each = g->shape[g->ndim - 2] * g->shape[g->ndim - 1];
    for (int d = 0; d < g->ndim - 2; d++)
        images *= g->shape[d];
    /* `zero` is a single element, expanded to the size of the images without a
     * copy. scatter_add makes a full copy. */
    tn_tensor *zero = tn_zeros(tn_dims(1, 1), .dtype = g->dtype,
                               .device = g->storage->device);
    tn_tensor *flat = zero ? tn_expand(zero, tn_dims(images, area)) : NULL;
    return tn_scatter_add(flat, 1, tn_reshape(indices, tn_dims(images, each)),
                          tn_reshape(g, tn_dims(images, each)));
}

/* Makes a tensor with the batch and channels of g, for images of this size. */
static tn_tensor *new_images(const tn_tensor *g, const int64_t *size,
                             const char *what)
{
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < g->ndim - 2; d++)
        shape[d] = g->shape[d];
    shape[g->ndim - 2] = size[0];
    shape[g->ndim - 1] = size[1];
    return tn__tensor_new(g->storage->device, g->dtype, g->ndim, shape, what);
}

/* Frees `made`, which the device could not fill, and calls `make`, which
 * computes the result by other operators. That result, in the shape of `made`,
 * becomes the call's output. */
static tn_status replace(tn__call *call, tn_tensor *made,
                         tn_tensor *(*make)(const tn__call *call))
{
    tn_dims_list shape = {made->ndim, {0}};
    for (int d = 0; d < made->ndim; d++)
        shape.dim[d] = made->shape[d];
    tn__unref(made);
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_tensor *y = tn_reshape(make(call), shape);
    if (y)
        call->out[call->out_count++] = tn__ref(y);
    tn_scope_close(scope);
    return y ? TN_OK : tn_error_code();
}

static tn_tensor *max_by_primitives(const tn__call *call)
{
    int64_t size[2];
    if (tn__window_pair(call, TN__ARG_MAX_POOL2D_BACK_SIZE, size) < 0)
        return NULL;
    return scattered(tn__call_tensor(call, TN__ARG_MAX_POOL2D_BACK_G),
                     tn_contiguous(tn__call_tensor(
                         call, TN__ARG_MAX_POOL2D_BACK_INDICES)),
                     size);
}

tn_status tn__run_max_pool2d_back(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, TN__ARG_MAX_POOL2D_BACK_G);
    tn_tensor *indices =
        tn__call_tensor(call, TN__ARG_MAX_POOL2D_BACK_INDICES);
    /* The indices alone determine the gradient of max_pool2d. The device gets
     * windows of size 1, which have no effect. */
    tn__window w = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    tn_status status =
        tn__window_pair(call, TN__ARG_MAX_POOL2D_BACK_SIZE, w.in);
    if (status >= 0)
        status = check_images(call, g, w.in);
    if (status >= 0 &&
        (indices->dtype != TN_I64 ||
         !tn__shape_equal(g->ndim, g->shape, indices->ndim, indices->shape)))
        return tn__fail(TN_ERR_SHAPE, "%s: {indices} must have dtype int64 "
                        "and the shape of {g}", call->op->name);
    tn_tensor *made =
        status < 0 ? NULL : new_images(g, w.in, "max_pool2d");
    if (!made)
        return tn_error_code();
    status = tn__pool_by_extension((tn_pool_args){.kind = TN_POOL_MAX_BACK},
                                   &w, made, g, indices, "max_pool2d");
    if (status == TN_ERR_UNSUPPORTED)
        return replace(call, made, max_by_primitives);
    call->out[call->out_count++] = made;
    return status;
}

/* ---- average pooling ----------------------------------------------------- */

enum {
    G = TN__ARG_AVG_POOL2D_BACK_G,
    SIZE = TN__ARG_AVG_POOL2D_BACK_SIZE,
    KERNEL = TN__ARG_AVG_POOL2D_BACK_KERNEL_SIZE,
    STRIDE = TN__ARG_AVG_POOL2D_BACK_STRIDE,
    PADDING = TN__ARG_AVG_POOL2D_BACK_PADDING,
    COUNT = TN__ARG_AVG_POOL2D_BACK_COUNT_INCLUDE_PAD,
    DIVISOR = TN__ARG_AVG_POOL2D_BACK_DIVISOR_OVERRIDE
};

static tn_status take_windows(const tn__call *call, tn__window *w)
{
    const tn_tensor *g = tn__call_tensor(call, G);
    tn_status status = tn__window_pair(call, SIZE, w->in);
    if (status >= 0)
        status = tn__window_pair(call, KERNEL, w->kernel);
    if (status >= 0)
        status = tn__window_pair(call, STRIDE, w->stride);
    if (status >= 0)
        status = tn__window_pair(call, PADDING, w->pad);
    if (status >= 0)
        status = check_images(call, g, w->in);
    for (int a = 0; a < 2 && status >= 0; a++) {
        w->dilation[a] = 1;
        w->out[a] = g->shape[g->ndim - 2 + a];
        if (w->kernel[a] < 1 || w->stride[a] < 1 || w->pad[a] < 0 ||
            w->pad[a] > w->kernel[a] / 2 ||
            w->out[a] > (w->in[a] + w->pad[a] - 1) / w->stride[a] + 1)
            return tn__fail(TN_ERR_SHAPE, "%s: %lld windows of %lld elements "
                            "with {stride} %lld and {padding} %lld do not fit "
                            "into a dimension of %lld elements", call->op->name,
                            (long long)w->out[a], (long long)w->kernel[a],
                            (long long)w->stride[a], (long long)w->pad[a],
                            (long long)w->in[a]);
        /* A position of the window that is outside of the image in every window
         * does not change the result, so such positions are cut off. With
         * ceil_mode there may be billions of them. */
        int64_t taps = w->in[a] + 2 * w->pad[a];
        if (w->kernel[a] > taps)
            w->kernel[a] = taps;
    }
    return status;
}

/* Returns the number of elements of window i along axis a that are within the
 * image, or within the image and its padding if with_padding is true. */
static int64_t count_at(const tn__window *w, int a, int64_t i, bool with_padding)
{
    int64_t low = with_padding ? -w->pad[a] : 0;
    int64_t high = w->in[a] + (with_padding ? w->pad[a] : 0);
    int64_t start = i * w->stride[a] - w->pad[a], end = start + w->kernel[a];
    start = start < low ? low : start;
    end = end > high ? high : end;
    return end - start;
}

/* Returns the number of elements of each window as a tensor (oH, oW) of g's
 * dtype. */
static tn_tensor *divisors(const tn_tensor *g, const tn__window *w,
                           bool with_padding)
{
    int64_t rows = w->out[0], columns = w->out[1];
    double *count = tn__alloc_many(tn__size_mul(rows, columns), sizeof *count);
    if (!count)
        return NULL;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            count[i * columns + j] = (double)(count_at(w, 0, i, with_padding) *
                                              count_at(w, 1, j, with_padding));
    tn_tensor *x =
        tn__number_table(count, TN_F64, g->dtype, tn_dims(rows, columns),
                         g->storage->device);
    tn__free(count);
    return x;
}

/* Computes the gradient of avg_pool2d by col2im: each element of a window gets
 * g divided by the number of elements of the window. */
static tn_tensor *avg_by_primitives(const tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, G);
    int64_t fixed = tn__call_int(call, DIVISOR);
    tn__window w;
    if (take_windows(call, &w) < 0)
        return NULL;
    tn_tensor *share =
        fixed ? tn_div_scalar(g, fixed)
              : tn_div(g, divisors(g, &w, tn__call_int(call, COUNT)));
    int64_t images = 1, area = w.kernel[0] * w.kernel[1];
    int64_t count = w.out[0] * w.out[1];
    for (int d = 0; d < g->ndim - 2; d++)
        images *= g->shape[d];
    share = tn_expand(tn_reshape(share, tn_dims(images, 1, count)),
                      tn_dims(images, area, count));
    if (!share)
        return NULL;
    const tn_dims_list dilation = tn_dims(1, 1);
    const tn_dims_list out = tn_dims(w.out[0], w.out[1]);
    /* take_windows has removed positions that are outside of the image in every
     * window, so the kernel size is that of w, not that of the call. */
    const tn_dims_list kernel = tn_dims(w.kernel[0], w.kernel[1]);
    const tn_value value[] = {
        tn__value_tensor(share), call->value[SIZE], tn__value_dims(&kernel),
        tn__value_dims(&dilation), call->value[PADDING], call->value[STRIDE],
        tn__value_dims(&out)};
    return tn__row(TN__OP_ID_COL2IM, value, 7);
}

tn_status tn__run_avg_pool2d_back(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, G);
    tn__window w;
    tn_status status = take_windows(call, &w);
    tn_tensor *made = status < 0 ? NULL : new_images(g, w.in, "avg_pool2d");
    if (!made)
        return tn_error_code();
    status = tn__pool_by_extension(
        (tn_pool_args){.kind = TN_POOL_AVG_BACK,
                       .count_pad = tn__call_int(call, COUNT) != 0,
                       .divisor = tn__call_int(call, DIVISOR)},
        &w, made, g, NULL, "avg_pool2d");
    if (status == TN_ERR_UNSUPPORTED)
        return replace(call, made, avg_by_primitives);
    call->out[call->out_count++] = made;
    return status;
}
