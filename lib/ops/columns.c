/* columns.c: the windows of images as columns (im2col), and columns summed back
 * into images (col2im). */
#include <ops/window.h>

tn_status tn__columns_write(const tn__images *x, const tn__window *w,
                            tn_tensor *out, const char *what)
{
    static tn__formula strided = TN__FORMULA("im2col(x) = x");
    static tn__formula padded = TN__FORMULA(
        "im2col(x, i: offset, j: offset) = x[i, j; 0]");
    bool inside = tn__window_is_inside(w);
    const tn_dtype dtype[] = {x->tensor->dtype, 0, 0};
    const tn__kernel *kernel =
        tn__formula_kernel(inside ? &strided : &padded, dtype);
    if (!kernel)
        return tn_error_code();
    tn__space space;
    tn__window_space(&space, w, x, false);
    if (inside) {
        tn__window_add_strided(&space, w, x);
    } else {
        tn__window_add_indexed(&space, w, x);
        tn__window_add_coordinate(&space, w, 0);
        tn__window_add_coordinate(&space, w, 1);
    }
    tn__operand *to = tn__space_add_bare(&space, out);
    int64_t step = 1;
    for (int d = 5; d >= 0; d--) {
        to->stride[d] = step;
        step *= space.extent[d];
    }
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL, what);
}

/* The arguments that im2col and col2im share, from `first` on: kernel_size,
 * dilation, padding, stride, out. */
static tn_status take_window(const tn__call *call, int first, tn__window *w)
{
    int64_t *pair[] = {w->kernel, w->dilation, w->pad, w->stride, w->out};
    for (int i = 0; i < 5; i++) {
        tn_status status = tn__window_pair(call, first + i, pair[i]);
        if (status < 0)
            return status;
        int64_t least = pair[i] == w->pad   ? -INT32_MAX
                        : pair[i] == w->out ? 0
                                            : 1;
        for (int a = 0; a < 2; a++)
            if (pair[i][a] < least)
                return tn__fail(TN_ERR_ARGUMENT, "%s: %s %lld is too small",
                                call->op->name, call->op->arg[first + i].name,
                                (long long)pair[i][a]);
    }
    return TN_OK;
}

tn_status tn__run_im2col(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_IM2COL_INPUT);
    tn__images images;
    tn__window w;
    tn_status status = tn__images_of("im2col", x, &images);
    if (status >= 0)
        status = take_window(call, TN__ARG_IM2COL_KERNEL_SIZE, &w);
    if (status < 0)
        return status;
    for (int a = 0; a < 2; a++)
        w.in[a] = x->shape[x->ndim - 2 + a];
    const int64_t shape[] = {images.count,
                             images.channels * w.kernel[0] * w.kernel[1],
                             w.out[0] * w.out[1]};
    bool batched = x->ndim == 4;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype,
                                    2 + batched, shape + !batched, "im2col");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return tn__columns_write(&images, &w, out, "im2col");
}

/* Each element of the image gathers the columns in which it stands: a fixed
 * order, unlike adding columns up. */
tn_status tn__run_col2im(tn__call *call)
{
    static tn__formula fold = TN__FORMULA(
        "col2im(x, h: offset, w: offset; sh: i64, sw: i64) ="
        "let i = div(h, sh); let j = div(w, sw);"
        "like(rsum(where((i * sh == h) & (j * sw == w), x[i, j; 0],"
        "                like(0, x))), x)");
    static tn__formula each = TN__FORMULA( /* strides of 1 */
        "col2im(x, h: offset, w: offset) = like(rsum(x[h, w; 0]), x)");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_COL2IM_INPUT);
    tn__window w;
    tn_status status =
        tn__window_pair(call, TN__ARG_COL2IM_OUTPUT_SIZE, w.in);
    if (status >= 0)
        status = take_window(call, TN__ARG_COL2IM_KERNEL_SIZE, &w);
    if (status < 0)
        return status;
    int64_t area = w.kernel[0] * w.kernel[1];
    char text[TN__SHAPE_TEXT];
    if ((x->ndim != 2 && x->ndim != 3) || area == 0 ||
        x->shape[x->ndim - 2] % area != 0 ||
        x->shape[x->ndim - 1] != w.out[0] * w.out[1])
        return tn__fail(TN_ERR_SHAPE, "col2im: input %s is no (N, C kH kW, "
                        "oH oW)", tn__shape_text(text, x->ndim, x->shape));
    bool batched = x->ndim == 3;
    int64_t channels = x->shape[batched] / area;
    const int64_t shape[] = {batched ? x->shape[0] : 1, channels, w.in[0],
                             w.in[1]};
    const tn_dtype dtype[] = {x->dtype, 0, 0};
    bool steps = w.stride[0] != 1 || w.stride[1] != 1;
    const tn__kernel *kernel =
        tn__formula_kernel(steps ? &fold : &each, dtype);
    tn_tensor *out =
        kernel ? tn__tensor_new(x->storage->device, x->dtype, 3 + batched,
                                shape + !batched, "col2im")
               : NULL;
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;

    /* (N, C, H, W | kH, kW): h + pad - ki * dilation is oi * stride, if any. */
    int64_t column = x->stride[x->ndim - 2], place = x->stride[x->ndim - 1];
    tn__space space = {.outer_ndim = 4, .row_ndim = 2,
                       .extent = {shape[0], channels, w.in[0], w.in[1],
                                  w.kernel[0], w.kernel[1]}};
    tn__operand *from = tn__space_add_bare(&space, x);
    from->stride[0] = batched ? x->stride[0] : 0;
    from->stride[1] = area * column;
    from->stride[4] = w.kernel[1] * column;
    from->stride[5] = column;
    from->index_stride[0] = w.out[1] * place;
    from->index_stride[1] = place;
    for (int a = 0; a < 2; a++) {
        from->index_extent[a] = w.out[a];
        tn__operand *at = tn__space_add_bare(&space, NULL);
        at->offset = w.pad[a];
        at->stride[2 + a] = 1;
        at->stride[4 + a] = -w.dilation[a];
    }
    tn__operand *to = tn__space_add_bare(&space, out);
    int64_t step = 1;
    for (int d = 3; d >= 0; d--) {
        to->stride[d] = step;
        step *= shape[d];
    }
    const tn_number param[] = {{.i = w.stride[0]}, {.i = w.stride[1]}};
    return tn__kernel_launch(out->storage->device, kernel, &space,
                             steps ? param : NULL, "col2im");
}
