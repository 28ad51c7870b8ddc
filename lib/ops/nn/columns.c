/* columns.c: writes the windows of images as columns (im2col, PyTorch's
 * unfold), and sums columns back into images (col2im, PyTorch's fold). */
#include <ops/nn/window.h>

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

/* Reads into *w the arguments that im2col and col2im have in common:
 * kernel_size, dilation, padding, stride and out, beginning with argument
 * `first` (an index). */
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
                return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %lld is below %lld",
                                call->op->name, call->op->arg[first + i].name,
                                (long long)pair[i][a], (long long)least);
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

/* A call of col2im. out[n][c][h][w] is the sum of the elements of the columns x
 * that were copied from [n][c][h][w] by im2col. Each sum is computed in a fixed
 * order. Scattering the columns into the image would not fix the order. */
typedef struct fold {
    const tn__window *w;
    tn_tensor *x, *out; /* x is (N, C * kH * kW, oH * oW) */
    int64_t count, channels; /* N and C */
    int64_t batch, column, place; /* the strides of x's three dimensions */
} fold;

/* Computes the elements [low, high) of each image. If `inside` is true, the
 * stride is 1 and each of these elements is covered kH * kW times, once by each
 * position of a window. The columns are then read by strides, without indices.
 */
static tn_status fold_part(const fold *f, tn__formula *formula,
                           const int64_t *low, const int64_t *high,
                           bool inside)
{
    const tn__window *w = f->w;
    const tn_dtype dtype[] = {f->x->dtype, 0, 0};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    if (!kernel)
        return tn_error_code();
    /* The space is (N, C, H, W) with the row dimensions (kH, kW). Image row h
     * is row ki of the window oi if h + pad - ki * dilation = oi * stride. The
     * same holds for columns. */
    tn__space space = {.outer_ndim = 4, .row_ndim = 2,
                       .extent = {f->count, f->channels, high[0] - low[0],
                                  high[1] - low[1], w->kernel[0],
                                  w->kernel[1]}};
    const int64_t stride[2] = {w->out[1] * f->place, f->place};
    const int64_t column[2] = {w->kernel[1] * f->column, f->column};
    tn__operand *from = tn__space_add_bare(&space, f->x);
    from->stride[0] = f->batch;
    from->stride[1] = w->kernel[0] * w->kernel[1] * f->column;
    for (int a = 0; a < 2; a++) {
        from->stride[4 + a] = column[a];
        if (inside) {
            from->offset += (low[a] + w->pad[a]) * stride[a];
            from->stride[2 + a] = stride[a];
            from->stride[4 + a] -= w->dilation[a] * stride[a];
            continue;
        }
        from->index_stride[a] = stride[a];
        from->index_extent[a] = w->out[a];
        tn__operand *at = tn__space_add_bare(&space, NULL);
        at->offset = low[a] + w->pad[a];
        at->stride[2 + a] = 1;
        at->stride[4 + a] = -w->dilation[a];
    }
    tn__operand *to = tn__space_add_bare(&space, f->out);
    to->offset = low[0] * w->in[1] + low[1];
    const int64_t size[4] = {f->count, f->channels, w->in[0], w->in[1]};
    int64_t step = 1;
    for (int d = 3; d >= 0; d--) {
        to->stride[d] = step;
        step *= size[d];
    }
    const tn_number param[] = {{.i = w->stride[0]}, {.i = w->stride[1]}};
    bool steps = w->stride[0] != 1 || w->stride[1] != 1;
    return space.extent[2] < 1 || space.extent[3] < 1
               ? TN_OK
               : tn__kernel_launch(f->out->storage->device, kernel, &space,
                                   steps ? param : NULL, "col2im");
}

/* Computes whole images. If the stride is 1 and the image is large, the
 * interior, whose elements are covered by every position of a window, is
 * computed first and without index checks. Then come the borders above, below,
 * left and right of it. */
static tn_status fold_image(const fold *f)
{
    static tn__formula steps = TN__FORMULA(
        "col2im(x, h: offset, w: offset; sh: i64, sw: i64) ="
        "let i = div(h, sh); let j = div(w, sw);"
        "like(rsum(where((i * sh == h) & (j * sw == w), x[i, j; 0],"
        "                like(0, x))), x)");
    static tn__formula each = TN__FORMULA( /* the kernel for windows with
                                            * strides of 1 */
        "col2im(x, h: offset, w: offset) = like(rsum(x[h, w; 0]), x)");
    static tn__formula whole =
        TN__FORMULA("col2im(x) = like(rsum(x), x)");
    enum { LARGE = 16384 }; /* results with fewer elements are computed by a
                               single launch */
    const tn__window *w = f->w;
    const int64_t none[2] = {0, 0}, *all = w->in;
    if (w->stride[0] != 1 || w->stride[1] != 1)
        return fold_part(f, &steps, none, all, false);
    int64_t low[2], high[2];
    for (int a = 0; a < 2; a++) {
        low[a] = w->dilation[a] * (w->kernel[a] - 1) - w->pad[a];
        low[a] = low[a] > 0 ? low[a] : 0;
        high[a] = w->out[a] - w->pad[a];
        high[a] = high[a] < w->in[a] ? high[a] : w->in[a];
    }
    if (f->out->numel < LARGE || low[0] >= high[0] || low[1] >= high[1])
        return fold_part(f, &each, none, all, false);
    const int64_t part[4][2][2] = {{{0, 0}, {low[0], all[1]}},
                                   {{high[0], 0}, {all[0], all[1]}},
                                   {{low[0], 0}, {high[0], low[1]}},
                                   {{low[0], high[1]}, {high[0], all[1]}}};
    tn_status status = fold_part(f, &whole, low, high, true);
    for (int k = 0; k < 4 && status >= 0; k++)
        status = fold_part(f, &each, part[k][0], part[k][1], false);
    return status;
}

tn_status tn__run_col2im(tn__call *call)
{
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
        return tn__fail(TN_ERR_SHAPE, "col2im: {input} has shape %s; expected "
                        "(N, C * kH * kW, oH * oW) for a kernel of kH x kW at "
                        "oH x oW positions",
                        tn__shape_text(text, x->ndim, x->shape));
    bool batched = x->ndim == 3;
    int64_t channels = x->shape[batched] / area;
    const int64_t shape[] = {batched ? x->shape[0] : 1, channels, w.in[0],
                             w.in[1]};
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, 3 + batched,
                                    shape + !batched, "col2im");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    const fold f = {&w, x, out, shape[0], channels,
                    batched ? x->stride[0] : 0, x->stride[x->ndim - 2],
                    x->stride[x->ndim - 1]};
    return fold_image(&f);
}
