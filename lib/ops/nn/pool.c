/* pool.c: pooling of images (PyTorch's max_pool2d and avg_pool2d), as kernels
 * that reduce rows, where a row is a window (window.h). */
#include <ops/nn/window.h>
#include <device/work.h>

/* The indices of the arguments of a pooling operator. dilation is -1 if the
 * operator has no such argument. */
typedef struct pool_args {
    int kernel_size, stride, padding, dilation, ceil_mode;
} pool_args;

static tn_status take_pool(const tn__call *call, tn_tensor *x,
                           const pool_args *arg, tn__window *w)
{
    const char *name = tn__op_outer(call->op->name);
    tn_status status = tn__window_pair(call, arg->kernel_size, w->kernel);
    /* As in PyTorch, an empty stride means kernel_size. */
    w->stride[0] = w->stride[1] = 0;
    bool strides = tn__call_has(call, arg->stride) &&
                   call->value[arg->stride].of.dims->count > 0;
    if (status >= 0 && strides)
        status = tn__window_pair(call, arg->stride, w->stride);
    if (status >= 0)
        status = tn__window_pair(call, arg->padding, w->pad);
    w->dilation[0] = w->dilation[1] = 1;
    if (status >= 0 && arg->dilation >= 0)
        status = tn__window_pair(call, arg->dilation, w->dilation);
    if (status < 0)
        return status;
    if (arg->dilation >= 0 && x->dtype == TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is bool; convert it with "
                        "tn_to_dtype", name);
    for (int a = 0; a < 2; a++) {
        if (!strides)
            w->stride[a] = w->kernel[a];
        if (w->kernel[a] < 1 || w->stride[a] < 1 || w->dilation[a] < 1)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} is %lld, "
                            "{stride} %lld and {dilation} %lld; expected at "
                            "least 1 for each", name, (long long)w->kernel[a],
                            (long long)w->stride[a], (long long)w->dilation[a]);
        if (w->pad[a] < 0 || w->pad[a] > w->kernel[a] / 2)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {padding} %lld is not "
                            "between 0 and half of {kernel_size} %lld", name,
                            (long long)w->pad[a], (long long)w->kernel[a]);
        w->in[a] = x->shape[x->ndim - 2 + a];
        int64_t room = w->in[a] + 2 * w->pad[a] -
                       w->dilation[a] * (w->kernel[a] - 1) - 1;
        bool up = tn__call_int(call, arg->ceil_mode);
        w->out[a] = room < 0 && !(up && room + w->stride[a] > 0)
                        ? 0
                        : (room + (up ? w->stride[a] - 1 : 0)) / w->stride[a] +
                              1;
        /* With ceil_mode, the last window is dropped if it starts in the
         * padding after the image. */
        if (up && (w->out[a] - 1) * w->stride[a] >= w->in[a] + w->pad[a])
            w->out[a]--;
        if (w->out[a] < 1)
            return tn__fail(TN_ERR_SHAPE, "%s: {kernel_size} spans %lld "
                            "elements, but the padded {input} has only %lld",
                            name,
                            (long long)(w->dilation[a] * (w->kernel[a] - 1) + 1),
                            (long long)(w->in[a] + 2 * w->pad[a]));
        /* A position of the window that is outside of the image in every window
         * does not change the result, so such positions are cut off. With
         * ceil_mode there may be billions of them. */
        int64_t taps = (w->in[a] + 2 * w->pad[a] - 1) / w->dilation[a] + 1;
        if (w->kernel[a] > taps)
            w->kernel[a] = taps;
    }
    return TN_OK;
}

static tn_tensor *new_out(tn__call *call, const tn__images *x,
                          const tn__window *w, tn_dtype dtype)
{
    bool batched = x->tensor->ndim == 4;
    const int64_t shape[] = {x->count, x->channels, w->out[0], w->out[1]};
    tn_tensor *out = tn__tensor_new(x->tensor->storage->device, dtype,
                                    3 + batched, shape + !batched,
                                    call->op->name);
    if (out)
        call->out[call->out_count++] = out;
    return out;
}

/* Adds an output with one value per window, contiguous of shape (N, C, oH,
 * oW). */
static void add_out(tn__space *space, const tn__window *w, tn_tensor *out)
{
    tn__operand *to = tn__space_add_bare(space, out);
    to->stride[3] = 1;
    to->stride[2] = w->out[1];
    to->stride[1] = w->out[1] * w->out[0];
    to->stride[0] = w->out[1] * w->out[0] * space->extent[1];
}

/* Adds an offset operand with one value per window: the row (axis 0) or column
 * (axis 1) of the window's first position, counted from the start of the image.
 */
static void add_origin(tn__space *space, const tn__window *w, int axis)
{
    tn__operand *at = tn__space_add_bare(space, NULL);
    at->offset = -w->pad[axis];
    at->stride[2 + axis] = w->stride[axis];
}

/* ---- pooling by the device ----------------------------------------------- */

static tn_strided planes(const tn_tensor *x)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = 4};
    /* (C, H, W) becomes (1, C, H, W). */
    for (int d = 0; d < x->ndim; d++)
        view.stride[4 - x->ndim + d] = x->stride[d];
    return view;
}

tn_status tn__pool_by_extension(tn_pool_args args, const tn__window *w,
                                const tn_tensor *in, const tn_tensor *out,
                                const tn_tensor *index, const char *what)
{
    if (in->numel == 0 || out->numel == 0)
        return TN_ERR_UNSUPPORTED;
    args.size = sizeof args;
    args.count = in->ndim == 4 ? in->shape[0] : 1;
    args.channels = in->shape[in->ndim - 3];
    args.in = planes(in);
    args.out = planes(out);
    if (index)
        args.index = planes(index);
    for (int a = 0; a < 2; a++) {
        args.in_size[a] = in->shape[in->ndim - 2 + a];
        args.kernel[a] = w->kernel[a];
        args.out_size[a] = out->shape[out->ndim - 2 + a];
        args.stride[a] = w->stride[a];
        args.dilation[a] = w->dilation[a];
        args.pad[a] = w->pad[a];
    }
    return tn__device_work(in->storage->device, TN__WORK_POOL, &args, what,
                           NULL, NULL);
}

/* ---- max pooling --------------------------------------------------------- */

/* max_pool2d_with_indices has the first MAX_ARGS arguments of max_pool2d. */
enum { MAX_ARGS = TN__ARG_MAX_POOL2D_RETURN_INDICES };

tn_status tn__run_max_pool2d(tn__call *call)
{
    tn_tensor *made[2] = {NULL, NULL};
    const bool with = tn__call_int(call, TN__ARG_MAX_POOL2D_RETURN_INDICES);
    const bool records = tn__hooks.recording && tn__hooks.recording() &&
                         tn__tensor_tracks(tn__call_tensor(call, 0));
    if (tn__op_run(
            &tn__op_table[with || records
                              ? TN__OP_ID_MAX_POOL2D_WITH_INDICES
                              : TN__OP_ID_MAX_POOL2D_GREATEST],
            call->value, MAX_ARGS, made, 2) < 0)
        return tn_error_code();
    tn__give(call, made[0]);
    if (with)
        tn__give(call, made[1]);
    return TN_OK;
}

static tn_status take_max_pool(const tn__call *call, tn_tensor *x,
                               tn__images *images, tn__window *w)
{
    static const pool_args arg = {
        .kernel_size = TN__ARG_MAX_POOL2D_WITH_INDICES_KERNEL_SIZE,
        .stride = TN__ARG_MAX_POOL2D_WITH_INDICES_STRIDE,
        .padding = TN__ARG_MAX_POOL2D_WITH_INDICES_PADDING,
        .dilation = TN__ARG_MAX_POOL2D_WITH_INDICES_DILATION,
        .ceil_mode = TN__ARG_MAX_POOL2D_WITH_INDICES_CEIL_MODE};
    tn_status status = tn__images_of(tn__op_outer(call->op->name), x, images);
    return status < 0 ? status : take_pool(call, x, &arg, w);
}

tn_status tn__run_max_pool2d_greatest(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0), *made[2] = {NULL, NULL};
    tn__images images;
    tn__window w;
    tn_status status = take_max_pool(call, x, &images, &w);
    if (status < 0)
        return status;
    tn_tensor *out = new_out(call, &images, &w, x->dtype);
    if (!out)
        return tn_error_code();
    status = tn__window_all_padding(&w)
                 ? TN_ERR_UNSUPPORTED /* a device may require that each window
                                         has an element of the image */
                 : tn__pool_by_extension(
                       (tn_pool_args){.kind = TN_POOL_GREATEST}, &w, x, out,
                       NULL, "max_pool2d");
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    tn__unref(call->out[--call->out_count]);
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    int count = tn__op_run(&tn__op_table[TN__OP_ID_MAX_POOL2D_WITH_INDICES],
                           call->value, MAX_ARGS, made, 2);
    if (count > 0)
        tn__give(call, tn__ref(made[0]));
    tn_scope_close(scope);
    return count < 0 ? tn_error_code() : TN_OK;
}

/* Computes the maximum of each window and its index in the image. `least` is
 * the value of padding. A window that consists only of padding gets the index
 * of its first position that is not above or left of the image, even if it is
 * below or right of it, as in PyTorch. */
#define MAX_PADDED(least)                                                     \
    TN__FORMULA("max_pool2d(x, r: offset, c: offset, i: row offset,"          \
                " j: row offset; h: i64, w: i64, kw: i64, dh: i64, dw: i64) =" \
                "let in = (r >= 0) & (r < h) & (c >= 0) & (c < w);"           \
                "let v = where(in, x[r, c; 0], " least "); let m = rmax(v);"  \
                "let k = rargmax(v);"                                         \
                "let p = where(i < 0, i + div(dh - 1 - i, dh) * dh, i);"      \
                "let q = where(j < 0, j + div(dw - 1 - j, dw) * dw, j);"      \
                "(like(m, x), where(m == " least ", p * w + q,"               \
                " (i + div(k, kw) * dh) * w + j + rem(k, kw) * dw))")

tn_status tn__run_max_pool2d_with_indices(tn__call *call)
{
    static tn__formula inside = TN__FORMULA(
        "max_pool2d(x, i: row offset, j: row offset; w: i64, kw: i64, dh: i64,"
        " dw: i64) = let k = rargmax(x);"
        "(rmax(x), (i + div(k, kw) * dh) * w + j + rem(k, kw) * dw)");
    static tn__formula padded = MAX_PADDED("like(-inf, x)");
    /* Narrow integers are computed in int32, where -inf becomes the minimum. */
    static tn__formula narrow = MAX_PADDED("i32(-inf)");
    tn_tensor *x = tn__call_tensor(call, 0);
    tn__images images;
    tn__window w;
    tn_status status = take_max_pool(call, x, &images, &w);
    if (status < 0)
        return status;
    bool plain = tn__window_is_inside(&w);
    tn_tensor *out = new_out(call, &images, &w, x->dtype);
    tn_tensor *indices = out ? new_out(call, &images, &w, TN_I64) : NULL;
    if (!indices)
        return tn_error_code();
    status = tn__window_all_padding(&w)
                 ? TN_ERR_UNSUPPORTED
                 : tn__pool_by_extension((tn_pool_args){.kind = TN_POOL_MAX},
                                         &w, x, out, indices, "max_pool2d");
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    const tn_dtype dtype[] = {x->dtype, 0, 0, 0, 0};
    const tn__kernel *kernel =
        tn__formula_kernel(plain                                 ? &inside
                           : tn_dtype_is_floating(x->dtype) ||
                                   tn_dtype_bytes(x->dtype) > 2
                               ? &padded
                               : &narrow,
                           dtype);
    if (!kernel)
        return tn_error_code();
    tn__space space;
    tn__window_space(&space, &w, &images, true);
    if (plain) {
        tn__window_add_strided(&space, &w, &images);
    } else {
        tn__window_add_indexed(&space, &w, &images);
        tn__window_add_coordinate(&space, &w, 0);
        tn__window_add_coordinate(&space, &w, 1);
    }
    add_origin(&space, &w, 0);
    add_origin(&space, &w, 1);
    add_out(&space, &w, out);
    add_out(&space, &w, indices);
    const tn_number param[] = {{.i = w.in[0]},     {.i = w.in[1]},
                               {.i = w.kernel[1]}, {.i = w.dilation[0]},
                               {.i = w.dilation[1]}};
    return tn__kernel_launch(x->storage->device, kernel, &space,
                             param + plain, "max_pool2d");
}

/* ---- average pooling ----------------------------------------------------- */

/* The source with which the kernels of avg_pool2d begin. The kernels divide the
 * sum of each window by its number of elements. */
#define POOL_HEAD                                                             \
    "avg_pool2d(x, r: offset, c: offset, i: row offset, j: row offset;"       \
    " h: i64, w: i64, kh: i64, kw: i64, ph: i64, pw: i64) ="

tn_status tn__run_avg_pool2d(tn__call *call)
{
    static tn__formula inside = TN__FORMULA("avg_pool2d(x) = rmean(x)");
    static tn__formula with_pad = TN__FORMULA(
        POOL_HEAD "let rows = min(i + kh, h + ph) - i;"
        "let columns = min(j + kw, w + pw) - j;"
        "like(div(rsum(x[r, c; 0]), rows * columns), x)");
    static tn__formula without_pad = TN__FORMULA(
        POOL_HEAD "let rows = min(i + kh, h) - max(i, 0);"
        "let columns = min(j + kw, w) - max(j, 0);"
        "like(div(rsum(x[r, c; 0]), rows * columns), x)");
    static tn__formula by_number = TN__FORMULA(
        "avg_pool2d(x, r: offset, c: offset; n: i64) ="
        "like(div(rsum(x[r, c; 0]), n), x)");
    static const pool_args arg = {.kernel_size = TN__ARG_AVG_POOL2D_KERNEL_SIZE,
                                  .stride = TN__ARG_AVG_POOL2D_STRIDE,
                                  .padding = TN__ARG_AVG_POOL2D_PADDING,
                                  .dilation = -1,
                                  .ceil_mode = TN__ARG_AVG_POOL2D_CEIL_MODE};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AVG_POOL2D_INPUT);
    int64_t divisor;
    if (tn__window_divisor(call, TN__ARG_AVG_POOL2D_DIVISOR_OVERRIDE,
                           &divisor) < 0)
        return TN_ERR_ARGUMENT;
    bool count_pad = tn__call_int(call, TN__ARG_AVG_POOL2D_COUNT_INCLUDE_PAD);
    tn__images images;
    tn__window w;
    tn_status status = tn__images_of("avg_pool2d", x, &images);
    if (status >= 0)
        status = take_pool(call, x, &arg, &w);
    if (status < 0)
        return status;
    bool plain = tn__window_is_inside(&w) && divisor == 0 &&
                 tn_dtype_is_floating(x->dtype); /* means of integers are
                                                    truncated */
    tn__formula *formula = plain       ? &inside
                           : divisor   ? &by_number
                           : count_pad ? &with_pad
                                       : &without_pad;
    tn_tensor *out = new_out(call, &images, &w, x->dtype);
    if (!out)
        return tn_error_code();
    status = tn__pool_by_extension((tn_pool_args){.kind = TN_POOL_AVG,
                                                  .count_pad = count_pad,
                                                  .divisor = divisor},
                                   &w, x, out, NULL, "avg_pool2d");
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    const tn_dtype dtype[] = {x->dtype, 0, 0, 0, 0};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__space space;
    tn__window_space(&space, &w, &images, true);
    if (plain) {
        tn__window_add_strided(&space, &w, &images);
    } else {
        tn__window_add_indexed(&space, &w, &images);
        tn__window_add_coordinate(&space, &w, 0);
        tn__window_add_coordinate(&space, &w, 1);
    }
    if (!plain && !divisor) {
        add_origin(&space, &w, 0);
        add_origin(&space, &w, 1);
    }
    add_out(&space, &w, out);
    const tn_number param[] = {{.i = w.in[0]},     {.i = w.in[1]},
                               {.i = w.kernel[0]}, {.i = w.kernel[1]},
                               {.i = w.pad[0]},    {.i = w.pad[1]}};
    const tn_number by = {.i = divisor};
    return tn__kernel_launch(x->storage->device, kernel, &space,
                             divisor ? &by : param, "avg_pool2d");
}
