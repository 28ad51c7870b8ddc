/* pool_nd_mean.c: average pooling in one and three dimensions, adaptive average
 * pooling, and power-average pooling (PyTorch's avg_pool1d, avg_pool3d,
 * adaptive_avg_pool1d to 3d, lp_pool1d to 3d), by avg_pool2d or one dimension
 * after the other. */
#include <math.h>
#include <ops/nn/pool_nd.h>

/* Computes the mean of each window by avg_pool2d, or its sum if `sums` is true.
 * `up` is the argument ceil_mode. */
static tn_tensor *mean_of_images(tn_tensor *x, const tn__windows *w, bool up,
                                 bool count_pad, bool sums)
{
    tn__image_pass pass[2];
    int count = tn__windows_plan(x, w, pass);
    tn_dtype dtype = x->dtype;
    bool half = count > 1 && tn_dtype_bytes(dtype) < 4;
    tn_tensor *y = half ? tn_to_dtype(x, TN_F32) : x;
    for (int k = 0; k < count && y; k++)
        y = tn_avg_pool2d(tn_reshape(y, pass[k].shape), pass[k].kernel,
                          .strides = tn__marked(pass[k].stride),
                          .paddings = tn__marked(pass[k].pad),
                          .ceil_mode = up, .count_include_pad = count_pad,
                          .divisor_override = sums ? 1 : TN_NONE_INT);
    if (y && half)
        y = tn_to_dtype(y, dtype);
    return tn__windows_shape(y, x, w);
}

/* Applies a linear map to each axis of x. `fill` makes the table of the map
 * (window_taps.h). */
static tn_tensor *map_axes(tn_tensor *x, const tn__windows *w,
                           tn_status (*fill)(const tn__windows *w, int a,
                                             tn__taps *taps))
{
    if (!x)
        return NULL;
    tn_dtype dtype = x->dtype;
    bool half = tn_dtype_bytes(dtype) < 4;
    if (half)
        x = tn_to_dtype(x, TN_F32);
    for (int a = w->axes - 1; a >= 0 && x; a--) {
        int dim = x->ndim - w->axes + a;
        tn__taps taps = {0};
        tn_status status = tn__taps_check_memory(x, dim, w->out[a]);
        if (status >= 0)
            status = fill(w, a, &taps);
        x = status >= 0 ? tn__taps_sum(x, dim, &taps) : NULL;
        tn__taps_free(&taps);
    }
    return x && half ? tn_to_dtype(x, dtype) : x;
}

static tn_status fill_means(const tn__windows *w, int a, tn__taps *taps)
{
    return tn__windows_even_taps(w, a, true, taps);
}

/* Computes adaptive average pooling. If there is a single window over each
 * dimension, this is the mean over these dimensions. */
static tn_tensor *even_means(tn_tensor *x, const tn__windows *w)
{
    tn_dims_list dims = {w->axes, {0}};
    bool whole = true;
    for (int a = 0; a < w->axes; a++) {
        dims.dim[a] = x->ndim - w->axes + a;
        whole = whole && w->out[a] == 1;
    }
    return whole ? tn_mean(x, .dims = tn__marked(dims), .keepdim = true)
                 : mean_of_images(x, w, false, true, false);
}

tn_status tn__run_adaptive_avg_pool(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    tn__windows w;
    tn_status status = tn__windows_read_adaptive(call, x, &w);
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype; convert it with tn_to_dtype",
                        call->op->name, tn_dtype_name(x->dtype));
    if (tn__windows_make_regular(&w) && tn__windows_suit_images(x, &w))
        return tn__give(call, even_means(x, &w));
    return tn__give(call, map_axes(x, &w, fill_means));
}

/* Returns the number of elements of window i along axis a, including padding if
 * count_pad is true. Sets *from to the first element that is in the input. */
static int64_t window_size(const tn__windows *w, int a, int64_t i,
                           bool count_pad, int64_t *from)
{
    int64_t start = i * w->stride[a] - w->pad[a];
    int64_t end = start + w->kernel[a];
    int64_t most = w->in[a] + (count_pad ? w->pad[a] : 0);
    *from = start > 0 ? start : 0;
    return (end < most ? end : most) - (count_pad ? start : *from);
}

static tn_status fill_box(const tn__windows *w, int a, bool mean,
                          bool count_pad, tn__taps *taps)
{
    int64_t reach = w->kernel[a] < w->in[a] ? w->kernel[a] : w->in[a];
    tn_status status = tn__taps_new(taps, w->in[a], w->out[a], reach);
    for (int64_t i = 0; i < w->out[a] && status >= 0; i++) {
        int64_t start;
        int64_t size = window_size(w, a, i, count_pad, &start);
        int64_t end = i * w->stride[a] - w->pad[a] + w->kernel[a];
        for (int64_t k = start; k < end && k < w->in[a]; k++)
            tn__taps_set(taps, i, (int)(k - start), k,
                         mean ? 1 / (double)size : 1);
    }
    return status;
}

static tn_status fill_padded_means(const tn__windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, true, true, taps);
}

static tn_status fill_inner_means(const tn__windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, true, false, taps);
}

static tn_status fill_sums(const tn__windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, false, false, taps);
}

/* Computes the means of windows of integers: sums in float64, divided by the
 * number of elements or by `divisor`, and truncated. */
static tn_tensor *whole_means(tn_tensor *x, const tn__windows *w,
                              bool count_pad, int64_t divisor)
{
    tn_tensor *sum = map_axes(tn_to_dtype(x, TN_F64), w, fill_sums);
    if (divisor)
        return tn_to_dtype(tn_trunc(tn_div_scalar(sum, divisor)), x->dtype);
    tn_tensor *ones = tn_ones(tn_dims(w->in[0], w->in[1], w->in[2]),
                              .dtype = TN_F64, .device = x->storage->device);
    tn_tensor *share = map_axes(
        ones, w, count_pad ? fill_padded_means : fill_inner_means);
    tn_tensor *count = tn_round(tn_div(map_axes(ones, w, fill_sums), share));
    return tn_to_dtype(tn_trunc(tn_div(sum, count)), x->dtype);
}

tn_status tn__run_avg_pool3d(tn__call *call)
{
    enum {
        kernel_size = TN__ARG_AVG_POOL3D_KERNEL_SIZE,
        stride = TN__ARG_AVG_POOL3D_STRIDE,
        padding = TN__ARG_AVG_POOL3D_PADDING,
        ceil_mode = TN__ARG_AVG_POOL3D_CEIL_MODE
    };
    static const int args[] = {kernel_size, stride, padding, -1};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AVG_POOL3D_INPUT);
    int64_t divisor;
    if (tn__window_divisor(call, TN__ARG_AVG_POOL3D_DIVISOR_OVERRIDE,
                           &divisor) < 0)
        return TN_ERR_ARGUMENT;
    bool count_pad = tn__call_int(call, TN__ARG_AVG_POOL3D_COUNT_INCLUDE_PAD);
    tn__windows w;
    tn_status status = tn__windows_read(call, x, 3, args, ceil_mode, &w);
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__give(call, whole_means(x, &w, count_pad, divisor));
    bool up = tn__call_int(call, ceil_mode),
         images = tn__windows_suit_images(x, &w);
    if (!divisor)
        return tn__give(
            call, images ? mean_of_images(x, &w, up, count_pad, false)
                         : map_axes(x, &w, count_pad ? fill_padded_means
                                                     : fill_inner_means));
    bool half = tn_dtype_bytes(x->dtype) < 4;
    tn_tensor *wide = half ? tn_to_dtype(x, TN_F32) : x;
    tn_tensor *sum = images ? mean_of_images(wide, &w, up, count_pad, true)
                            : map_axes(wide, &w, fill_sums);
    tn_tensor *mean = tn_div_scalar(sum, (double)divisor);
    return tn__give(call, half ? tn_to_dtype(mean, x->dtype) : mean);
}

/* Computes an output of the call: the maximum of abs(x) in each window, or the
 * minimum if `least` is true. This is lp_pool with a norm of plus or minus
 * infinity. */
static tn_status give_magnitude(tn__call *call, tn_tensor *x, int axes,
                                bool least)
{
    static const int rows[] = {0, TN__OP_ID_MAX_POOL1D, TN__OP_ID_MAX_POOL2D,
                               TN__OP_ID_MAX_POOL3D};
    const tn_dims_list none = tn_dims(0), one = tn_dims(1);
    tn_tensor *size = tn_abs(x);
    const tn_value value[] = {
        tn__value_tensor(least && size ? tn_neg(size) : size),
        call->value[TN__ARG_LP_POOL2D_KERNEL_SIZE],
        call->value[TN__ARG_LP_POOL2D_STRIDE],
        tn__value_dims(&none),
        tn__value_dims(&one),
        call->value[TN__ARG_LP_POOL2D_CEIL_MODE],
        tn__value_bool(false)};
    tn_tensor *out = size ? tn__row(rows[axes], value, 7) : NULL;
    return tn__give(call, least && out ? tn_neg(out) : out);
}

/* Computes power-average pooling:
 *
 *     (mean of x^norm * number of elements of a full window)^(1 / norm)
 *
 * The root has no derivative at 0. So for a window of zeros the root of 1 is
 * computed and then replaced by 0. */
tn_status tn__run_lp_pool(tn__call *call)
{
    int id = call->op->id;
    int axes = id == TN__OP_ID_LP_POOL1D   ? 1
               : id == TN__OP_ID_LP_POOL2D ? 2
                                           : 3;
    static const int rows[] = {0, TN__OP_ID_AVG_POOL1D, TN__OP_ID_AVG_POOL2D,
                               TN__OP_ID_AVG_POOL3D};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LP_POOL2D_INPUT);
    double norm = tn__call_float(call, TN__ARG_LP_POOL2D_NORM_TYPE), count = 1;
    int64_t kernel[TN__WINDOWS_AXES];
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype; convert it with tn_to_dtype",
                        call->op->name, tn_dtype_name(x->dtype));
    if (norm == 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {norm_type} is 0; expected any "
                        "other number", call->op->name);
    if (tn__windows_check_input(call, x, axes) < 0 ||
        tn__windows_list(call, TN__ARG_LP_POOL2D_KERNEL_SIZE, axes, NULL,
                         kernel) < 0)
        return tn_error_code();
    for (int a = 0; a < axes; a++)
        count *= (double)kernel[a];
    if (isinf(norm))
        return give_magnitude(call, x, axes, norm < 0);
    const tn_dims_list none = tn_dims(0);
    const tn_value value[] = {tn__value_tensor(tn_pow_scalar(x, norm)),
                              call->value[TN__ARG_LP_POOL2D_KERNEL_SIZE],
                              call->value[TN__ARG_LP_POOL2D_STRIDE],
                              tn__value_dims(&none),
                              call->value[TN__ARG_LP_POOL2D_CEIL_MODE]};
    tn_tensor *mean = tn__row(rows[axes], value, 5);
    tn_tensor *sum = tn_mul_scalar(mean, count);
    if (norm <= 0 || norm == 1)
        return tn__give(call, tn_pow_scalar(sum, 1 / norm));
    tn_tensor *dead = tn_eq_scalar(sum, 0);
    tn_tensor *root = tn_pow_scalar(tn_masked_fill_scalar(sum, dead, 1),
                                    1 / norm);
    return tn__give(call, tn_masked_fill_scalar(root, dead, 0));
}

/* Pools sequences (N, C, L) by avg_pool2d, as images of height 1. */
tn_status tn__run_avg_pool1d(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AVG_POOL1D_INPUT);
    int64_t kernel, stride, pad;
    if (tn__windows_check_input(call, x, 1) < 0 ||
        tn__windows_list(call, TN__ARG_AVG_POOL1D_KERNEL_SIZE, 1, NULL,
                         &kernel) < 0 ||
        tn__windows_list(call, TN__ARG_AVG_POOL1D_STRIDE, 1, &kernel, &stride) <
            0 ||
        tn__windows_list(call, TN__ARG_AVG_POOL1D_PADDING, 1, NULL, &pad) < 0)
        return tn_error_code();
    const tn_dims_list kernels = tn_dims(1, kernel), pads = tn_dims(0, pad);
    const tn_dims_list strides = tn_dims(1, stride);
    const tn_value value[] = {
        tn__value_tensor(tn_unsqueeze(x, -2)), tn__value_dims(&kernels),
        tn__value_dims(&strides), tn__value_dims(&pads),
        call->value[TN__ARG_AVG_POOL1D_CEIL_MODE],
        call->value[TN__ARG_AVG_POOL1D_COUNT_INCLUDE_PAD]};
    tn_tensor *y = tn__row(TN__OP_ID_AVG_POOL2D, value, 6);
    return tn__give(call, y ? tn_squeeze(y, .dim = -2) : NULL);
}
