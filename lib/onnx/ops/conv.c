/* conv.c: convolutions and pools. Tenon's operators do not support uneven
 * padding, so it is added to the input before. */
#include <onnx/ops/conv.h>

#include <math.h>
#include <string.h>

static tn_dims_list list(const int64_t *x, int n)
{
    return tn_dims_from_array(x, n);
}

/* ---- geometry ------------------------------------------------------------ */

static bool read_numbers(tn__onnx_call *c, int attr, int n, int64_t least,
                         int64_t *out)
{
    const tn__onnx_attr *a = attr >= 0 ? c->attr[attr] : NULL;
    if (!a || !a->count)
        return true;
    if (a->count != n) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "attribute \"%s\" has %lld numbers; expected %d",
                        a->name, (long long)a->count, n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        out[i] = a->ints[i];
        if (out[i] < least || out[i] > INT32_MAX) {
            tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                            "%s[%d] is %lld; it must be %lld to 2^31 - 1",
                            a->name, i, (long long)out[i], (long long)least);
            return false;
        }
    }
    return true;
}

bool tn__onnx_window_read(tn__onnx_call *c, const int *which,
                          const tn_tensor *x, const int64_t *kernel,
                          tn__onnx_window *w)
{
    const int n = tn_tensor_ndim(x) - 2;
    *w = (tn__onnx_window){.n = n};
    if (n < 1 || n > 3) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the input has %d dimensions; expected 3 to 5",
                        n + 2);
        return false;
    }
    int64_t pads[6] = {0};
    for (int i = 0; i < n; i++) {
        w->stride[i] = w->dilation[i] = 1;
        w->kernel[i] = kernel ? kernel[i] : 1;
    }
    if (!read_numbers(c, which[1], n, 1, w->dilation) ||
        !read_numbers(c, which[2], n, 1, w->kernel) ||
        !read_numbers(c, which[3], 2 * n, 0, pads) ||
        !read_numbers(c, which[4], n, 1, w->stride))
        return false;
    const char *how = which[0] >= 0 ? tn__onnx_string(c, which[0]) : "NOTSET";
    const bool upper = strcmp(how, "SAME_UPPER") == 0,
               same = upper || strcmp(how, "SAME_LOWER") == 0,
               valid = strcmp(how, "VALID") == 0;
    if (!same && !valid && *how && strcmp(how, "NOTSET") != 0) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "auto_pad is \"%.40s\"; it must be NOTSET, SAME_UPPER, "
                        "SAME_LOWER or VALID",
                        how);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const int64_t size = tn_tensor_size(x, i + 2);
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (same) {
            const int64_t out = (size + w->stride[i] - 1) / w->stride[i];
            int64_t all = (out - 1) * w->stride[i] + reach - size;
            all = all < 0 ? 0 : all;
            w->before[i] = upper ? all / 2 : all - all / 2;
            w->after[i] = all - w->before[i];
        } else if (!valid) {
            w->before[i] = pads[i];
            w->after[i] = pads[i + n];
        }
    }
    return true;
}

tn_tensor *tn__onnx_pad_uneven(tn_tensor *x, tn__onnx_window *w, double value)
{
    bool even = true;
    int64_t pad[6];
    for (int i = 0; i < w->n; i++) {
        even = even && w->before[i] == w->after[i];
        /* tn_pad takes sizes from the last dimension to the first */
        pad[2 * (w->n - 1 - i)] = w->before[i];
        pad[2 * (w->n - 1 - i) + 1] = w->after[i];
    }
    if (even)
        return x;
    memset(w->before, 0, sizeof w->before);
    memset(w->after, 0, sizeof w->after);
    return tn_pad(x, list(pad, 2 * w->n), .value = value);
}

/* ---- convolutions -------------------------------------------------------- */

/* The largest number of positions of an output, over all images, for which
 * convolve_few is faster: for 128 channels and 3 taps it takes 9 instead of
 * 21 us on an EPYC (Zen 4) with 4 positions, and is even with 10 to 16. */
enum { FEW = 8 };

/* Returns whether an output has few positions, as in models that process a
 * stream. `positions` receives their sizes. */
static bool has_few(const tn_tensor *x, const tn_tensor *weight,
                    const tn__onnx_window *w, int64_t groups,
                    int64_t *positions)
{
    int64_t count = tn_tensor_size(x, 0);
    bool fits =
        groups == 1 && tn_tensor_size(x, 1) == tn_tensor_size(weight, 1);
    for (int i = 0; i < w->n && fits; i++) {
        const int64_t size =
            tn_tensor_size(x, i + 2) + w->before[i] + w->after[i];
        positions[i] = (size - w->kernel[i]) / w->stride[i] + 1;
        fits = w->dilation[i] == 1 && w->kernel[i] > 0 &&
               size >= w->kernel[i] && positions[i] <= FEW &&
               (count *= positions[i]) <= FEW;
    }
    return fits && count > 0;
}

/* Convolves as a product of the windows (positions, channels * kernel) and the
 * weights. It reads each weight once. A convolution would first copy the
 * weights to panels, which is worth it only for many positions. */
static tn_tensor *convolve_few(tn_tensor *x, tn_tensor *weight, tn_tensor *bias,
                               const tn__onnx_window *w,
                               const int64_t *positions)
{
    const int n = w->n;
    int64_t pad[6], columns = tn_tensor_size(x, 1);
    int64_t order[8], out[5] = {tn_tensor_size(x, 0)};
    bool pads = false;
    for (int i = 0; i < n; i++) {
        pad[2 * (n - 1 - i)] = w->before[i];
        pad[2 * (n - 1 - i) + 1] = w->after[i];
        pads = pads || w->before[i] || w->after[i];
        columns *= w->kernel[i];
        out[i + 1] = positions[i];
        order[i + 1] = i + 2;     /* the positions come before the channels */
        order[n + 2 + i] = n + 2 + i;
    }
    order[0] = 0;
    order[n + 1] = 1;
    if (pads)
        x = tn_pad(x, list(pad, 2 * n));
    for (int i = 0; i < n; i++)
        x = tn_unfold(x, i + 2, w->kernel[i], w->stride[i]);
    x = tn_permute(x, list(order, 2 * n + 2));
    out[n + 1] = columns;
    weight = tn_reshape(weight, tn_dims(tn_tensor_size(weight, 0), columns));
    x = tn_linear(tn_reshape(x, list(out, n + 2)), weight, bias);
    return tn_movedim(x, tn_dims(-1), tn_dims(1));
}

tn_tensor *tn__onnx_convolve(tn__onnx_call *c, tn_tensor *x, tn_tensor *weight,
                             tn_tensor *bias, tn__onnx_window *w,
                             int64_t groups)
{
    int64_t positions[3];
    (void)c;
    if (has_few(x, weight, w, groups, positions))
        return convolve_few(x, weight, bias, w, positions);
    x = tn__onnx_pad_uneven(x, w, 0);
    const tn_dims_list stride = list(w->stride, w->n),
                       pad = list(w->before, w->n),
                       dilation = list(w->dilation, w->n);
    switch (w->n) {
    case 1:
        return tn_conv1d(x, weight, bias, .strides = stride, .paddings = pad,
                         .dilations = dilation, .groups = groups);
    case 2:
        return tn_conv2d(x, weight, bias, .strides = stride, .paddings = pad,
                         .dilations = dilation, .groups = groups);
    default:
        return tn_conv3d(x, weight, bias, .strides = stride, .paddings = pad,
                         .dilations = dilation, .groups = groups);
    }
}

static bool check_ndim(tn__onnx_call *c, tn_tensor *x, tn_tensor *weight)
{
    if (tn_tensor_ndim(weight) == tn_tensor_ndim(x))
        return true;
    tn__onnx_refuse(c, TN_ERR_SHAPE,
                    "the input has %d dimensions and the weight %d; these must "
                    "be equal",
                    tn_tensor_ndim(x), tn_tensor_ndim(weight));
    return false;
}

static void conv(tn__onnx_call *c)
{
    static const int which[] = {0, 1, -1, 4, 5};
    tn__onnx_window w;
    tn_tensor *x = c->x[0], *weight = c->x[1];
    if (!check_ndim(c, x, weight))
        return;
    if (tn__onnx_window_read(c, which, x, tn_tensor_shape(weight) + 2, &w))
        c->y[0] = tn__onnx_convolve(c, x, weight, tn__onnx_x(c, 2), &w,
                                    tn__onnx_int(c, 2));
}

/* Computes the full result without padding. Then it cuts the padding off both
 * ends, and adds zeros for output_padding. */
static void conv_transpose(tn__onnx_call *c)
{
    enum { AUTO_PAD, DILATIONS, GROUP, KERNEL, OUTPUT_PADDING, OUTPUT_SHAPE,
           PADS, STRIDES };
    static const int which[] = {-1, DILATIONS, -1, PADS, STRIDES};
    tn__onnx_window w;
    tn_tensor *x = c->x[0], *weight = c->x[1];
    int64_t extra[3] = {0}, size[3] = {0}, more[3] = {0};
    if (!check_ndim(c, x, weight))
        return;
    if (!tn__onnx_window_read(c, which, x, tn_tensor_shape(weight) + 2, &w) ||
        !read_numbers(c, OUTPUT_PADDING, w.n, 0, extra))
        return;
    const tn__onnx_attr *to = c->attr[OUTPUT_SHAPE];
    const char *how = tn__onnx_string(c, AUTO_PAD);
    const bool lower = strcmp(how, "SAME_LOWER") == 0,
               same = lower || strcmp(how, "SAME_UPPER") == 0;
    for (int i = 0; i < w.n; i++) {
        const int64_t in = tn_tensor_size(x, i + 2);
        const int64_t full = (in - 1) * w.stride[i] +
                             (w.kernel[i] - 1) * w.dilation[i] + 1;
        if (to && to->count >= w.n)
            size[i] = to->ints[to->count - w.n + i];
        else if (same)
            size[i] = in * w.stride[i];
        else
            size[i] = full + extra[i] - w.before[i] - w.after[i];
        if ((to && to->count >= w.n) || same) {
            const int64_t cut = full + extra[i] - size[i];
            w.before[i] = lower ? cut - cut / 2 : cut / 2;
            if (cut < 0)
                w.before[i] = 0;
        }
        /* tn_conv_transpose needs an output padding below stride or dilation */
        more[i] = w.before[i] + size[i] - full;
        if (size[i] < 0) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "the result would have size %lld in a dimension",
                            (long long)size[i]);
            return;
        }
    }
    const tn_dims_list stride = list(w.stride, w.n),
                       dilation = list(w.dilation, w.n);
    const int64_t groups = tn__onnx_int(c, GROUP);
    tn_tensor *bias = tn__onnx_x(c, 2), *y;
    if (w.n == 1)
        y = tn_conv_transpose1d(x, weight, NULL, .strides = stride,
                                .dilations = dilation, .groups = groups);
    else if (w.n == 2)
        y = tn_conv_transpose2d(x, weight, NULL, .strides = stride,
                                .dilations = dilation, .groups = groups);
    else
        y = tn_conv_transpose3d(x, weight, NULL, .strides = stride,
                                .dilations = dilation, .groups = groups);
    int64_t pad[6];
    bool grows = false;
    for (int i = 0; i < w.n; i++) {
        pad[2 * (w.n - 1 - i)] = 0;
        pad[2 * (w.n - 1 - i) + 1] = more[i] > 0 ? more[i] : 0;
        grows = grows || more[i] > 0;
    }
    if (grows)
        y = tn_pad(y, list(pad, 2 * w.n));
    for (int i = 0; i < w.n && y; i++)
        if (size[i] != tn_tensor_size(y, i + 2))
            y = tn_narrow(y, i + 2, w.before[i], size[i]);
    if (bias) {
        int64_t along[5] = {1, tn_tensor_numel(bias), 1, 1, 1};
        y = tn_add(y, tn_reshape(bias, list(along, w.n + 2)));
    }
    c->y[0] = y;
}

/* ---- pools --------------------------------------------------------------- */

/* For ceil_mode: increases `after`, so that the last window fits if it begins
 * inside the image. A window that would begin in the padding after the image is
 * left out. */
static void widen(const tn_tensor *x, tn__onnx_window *w, bool ceil_mode)
{
    for (int i = 0; i < w->n && ceil_mode; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t size = tn_tensor_size(x, i + 2);
        const int64_t span = size + w->before[i] + w->after[i] - reach;
        if (span <= -w->stride[i])
            continue; /* not even one window fits: the pool reports the error */
        int64_t count = (span + w->stride[i] - 1) / w->stride[i] + 1;
        if ((count - 1) * w->stride[i] >= size + w->before[i])
            count--;
        const int64_t needed =
            (count - 1) * w->stride[i] + reach - size - w->before[i];
        w->after[i] = needed > w->after[i] ? needed : w->after[i];
    }
}

static tn_tensor *max_pool_by(tn_tensor *x, const tn__onnx_window *w,
                              tn_tensor **index)
{
    const tn_dims_list kernel = list(w->kernel, w->n),
                       stride = list(w->stride, w->n),
                       pad = list(w->before, w->n),
                       dilation = list(w->dilation, w->n);
    if (w->n == 1)
        return tn_max_pool1d_with_indices(x, kernel, index, .strides = stride,
                                          .paddings = pad,
                                          .dilations = dilation);
    if (w->n == 2)
        return tn_max_pool2d_with_indices(x, kernel, index, .strides = stride,
                                          .paddings = pad,
                                          .dilations = dilation);
    return tn_max_pool3d_with_indices(x, kernel, index, .strides = stride,
                                      .paddings = pad, .dilations = dilation);
}

/* Converts an index in a padded image to ONNX's index, which counts the
 * elements of the whole tensor without padding. column: whether storage_order
 * is 1 (column major). */
static tn_tensor *whole_index(tn_tensor *index, const tn_tensor *x,
                              const int64_t *padded, const int64_t *before,
                              int n, bool column)
{
    int64_t each = 1;
    tn_tensor *out = NULL;
    int64_t step = 1;
    for (int i = 0; i < n; i++)
        each *= tn_tensor_size(x, i + 2);
    tn_tensor *rest = index;
    tn_tensor *at[3];
    for (int i = n - 1; i >= 0; i--) {
        at[i] = tn_sub_scalar(tn_remainder_scalar(rest, padded[i]), before[i]);
        rest = tn_floor_divide_scalar(rest, padded[i]);
    }
    for (int k = 0; k < n; k++) {
        const int i = column ? k : n - 1 - k;
        tn_tensor *part = tn_mul_scalar(at[i], step);
        out = out ? tn_add(out, part) : part;
        step *= tn_tensor_size(x, i + 2);
    }
    const int64_t images = tn_tensor_size(x, 0) * tn_tensor_size(x, 1);
    int64_t along[5] = {tn_tensor_size(x, 0), tn_tensor_size(x, 1), 1, 1, 1};
    tn_tensor *first =
        tn_mul_scalar(tn_arange(0, images, 1, .dtype = TN_I64,
                                .device = tn_tensor_device(index)),
                      each);
    return tn_add(out, tn_reshape(first, list(along, n + 2)));
}

static void max_pool(tn__onnx_call *c)
{
    enum { AUTO_PAD, CEIL, DILATIONS, KERNEL, PADS, ORDER, STRIDES };
    static const int which[] = {AUTO_PAD, DILATIONS, KERNEL, PADS, STRIDES};
    tn__onnx_window w;
    tn_tensor *x = c->x[0], *index = NULL;
    const tn_dtype dtype = tn_tensor_dtype(x);
    if (!tn__onnx_window_read(c, which, x, NULL, &w))
        return;
    widen(x, &w, tn__onnx_int(c, CEIL) != 0);
    const bool is_float = tn_dtype_is_floating(dtype);
    if (!is_float) /* float32 represents 8-bit integers exactly */
        x = tn_to_dtype(x, TN_F32);
    int64_t before[3] = {0}, padded[3];
    bool uneven = false;
    for (int i = 0; i < w.n; i++) {
        const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
        uneven = uneven || w.before[i] != w.after[i] ||
                 2 * w.before[i] > w.kernel[i] || reach > w.kernel[i];
    }
    if (uneven) {
        int64_t pad[6];
        for (int i = 0; i < w.n; i++) {
            pad[2 * (w.n - 1 - i)] = before[i] = w.before[i];
            pad[2 * (w.n - 1 - i) + 1] = w.after[i];
            w.before[i] = 0;
        }
        x = tn_pad(x, list(pad, 2 * w.n), .value = -INFINITY);
    }
    for (int i = 0; i < w.n; i++)
        padded[i] = tn_tensor_size(x, i + 2);
    tn_tensor *y = max_pool_by(x, &w, &index);
    c->y[0] = is_float ? y : tn_to_dtype(y, dtype);
    if (tn__onnx_wants(c, 1))
        c->y[1] = whole_index(index, c->x[0], padded, before, w.n,
                              tn__onnx_int(c, ORDER) != 0);
    c->y_type[1] = TN__ONNX_INT64;
}

/* Returns sums over windows: a convolution of each channel with ones. */
static tn_tensor *window_sums(tn__onnx_call *c, tn_tensor *x,
                              tn__onnx_window *w)
{
    const int64_t channels = tn_tensor_size(x, 1);
    int64_t size[5] = {channels, 1};
    for (int i = 0; i < w->n; i++)
        size[i + 2] = w->kernel[i];
    tn_tensor *ones = tn_ones(list(size, w->n + 2), .dtype = tn_tensor_dtype(x),
                              .device = c->device);
    tn__onnx_window copy = *w;
    return tn__onnx_convolve(c, x, ones, NULL, &copy, channels);
}

static void average_pool(tn__onnx_call *c)
{
    enum { AUTO_PAD, CEIL, COUNT_PAD, DILATIONS, KERNEL, PADS, STRIDES };
    static const int which[] = {AUTO_PAD, DILATIONS, KERNEL, PADS, STRIDES};
    tn__onnx_window w;
    tn_tensor *x = c->x[0];
    if (!tn__onnx_window_read(c, which, x, NULL, &w))
        return;
    const bool counts = tn__onnx_int(c, COUNT_PAD) != 0,
               ceil = tn__onnx_int(c, CEIL) != 0;
    tn__onnx_window given = w;
    bool plain = !ceil;
    for (int i = 0; i < w.n; i++)
        plain = plain && w.before[i] == w.after[i] && w.dilation[i] == 1 &&
                2 * w.before[i] <= w.kernel[i];
    const tn_dims_list kernel = list(w.kernel, w.n),
                       stride = list(w.stride, w.n), pad = list(w.before, w.n);
    if (plain && w.n == 1)
        c->y[0] = tn_avg_pool1d(x, kernel, .strides = stride, .paddings = pad,
                                .count_include_pad = counts);
    else if (plain && w.n == 2)
        c->y[0] = tn_avg_pool2d(x, kernel, .strides = stride, .paddings = pad,
                                .count_include_pad = counts);
    else if (plain)
        c->y[0] = tn_avg_pool3d(x, kernel, .strides = stride, .paddings = pad,
                                .count_include_pad = counts);
    if (plain)
        return;
    widen(x, &w, ceil);
    /* counts the elements in each window: those of the image and, with
     * count_include_pad, those of the padding that the attributes give */
    tn_dims_list one = tn__onnx_shape(x);
    one.dim[0] = one.dim[1] = 1;
    tn_tensor *ones = tn_ones(one, .dtype = tn_tensor_dtype(x),
                              .device = c->device);
    tn__onnx_window at = w;
    if (counts) {
        int64_t around[6];
        for (int i = 0; i < w.n; i++) {
            around[2 * (w.n - 1 - i)] = given.before[i];
            around[2 * (w.n - 1 - i) + 1] = given.after[i];
            at.before[i] = 0;
            at.after[i] = w.after[i] - given.after[i];
        }
        ones = tn_pad(ones, list(around, 2 * w.n), .value = 1);
    }
    c->y[0] = tn_div(window_sums(c, x, &w), window_sums(c, ones, &at));
}

static void lp_pool(tn__onnx_call *c)
{
    enum { AUTO_PAD, CEIL, DILATIONS, KERNEL, P, PADS, STRIDES };
    static const int which[] = {AUTO_PAD, DILATIONS, KERNEL, PADS, STRIDES};
    tn__onnx_window w;
    tn_tensor *x = c->x[0];
    const double p = (double)tn__onnx_int(c, P);
    if (!tn__onnx_window_read(c, which, x, NULL, &w))
        return;
    widen(x, &w, tn__onnx_int(c, CEIL) != 0);
    tn_tensor *sums = window_sums(c, tn_pow_scalar(tn_abs(x), p), &w);
    c->y[0] = tn_pow_scalar(sums, 1 / p);
}

/* ---- over all of an image ------------------------------------------------ */

static tn_dims_list spatial(const tn_tensor *x)
{
    tn_dims_list dims = tn__onnx_blank(0);
    for (int i = 2; i < tn_tensor_ndim(x); i++)
        dims.dim[dims.count++] = i;
    return dims;
}

static bool check_image(tn__onnx_call *c)
{
    if (tn_tensor_ndim(c->x[0]) >= 3)
        return true;
    tn__onnx_refuse(c, TN_ERR_SHAPE,
                    "the input has %d dimensions; expected at least 3",
                    tn_tensor_ndim(c->x[0]));
    return false;
}

static void global_average_pool(tn__onnx_call *c)
{
    if (check_image(c))
        c->y[0] = tn_mean(c->x[0], .dims = spatial(c->x[0]), .keepdim = true);
}
static void global_max_pool(tn__onnx_call *c)
{
    if (check_image(c))
        c->y[0] = tn_amax(c->x[0], .dims = spatial(c->x[0]), .keepdim = true);
}
static void global_lp_pool(tn__onnx_call *c)
{
    if (check_image(c))
        c->y[0] = tn_vector_norm(c->x[0], .ord = (double)tn__onnx_int(c, 0),
                                 .dims = spatial(c->x[0]), .keepdim = true);
}

/* Inverts a max pool: stores each element at its index in the whole tensor. */
static void max_unpool(tn__onnx_call *c)
{
    static const int which[] = {-1, -1, 0, 1, 2};
    tn__onnx_window w;
    tn_tensor *x = c->x[0];
    tn_dims_list to;
    if (!tn__onnx_window_read(c, which, x, NULL, &w) ||
        !tn__onnx_dims(c, -1, 2, &to))
        return;
    if (to.count >= 0 && to.count != w.n + 2) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "output_shape has %d sizes; it must have one for each "
                        "dimension of the input",
                        to.count);
        return;
    }
    /* indices refer to a tensor of the size that the pool's input had */
    tn_dims_list own = tn__onnx_shape(x);
    int64_t numel = own.dim[0] * own.dim[1];
    for (int i = 0; i < w.n; i++) {
        own.dim[i + 2] = (tn_tensor_size(x, i + 2) - 1) * w.stride[i] +
                         w.kernel[i] - w.before[i] - w.after[i];
        numel *= own.dim[i + 2];
    }
    tn_tensor *flat = tn_reshape(x, tn_dims(tn_tensor_numel(x)));
    tn_tensor *at = tn_reshape(c->x[1], tn_dims(tn_tensor_numel(x)));
    tn_tensor *zeros = tn_zeros(tn_dims(numel), .dtype = tn_tensor_dtype(x),
                                .device = c->device);
    tn_tensor *y = tn_reshape(tn_scatter(zeros, 0, at, flat), own);
    /* if output_shape is larger, zeros follow at the end */
    int64_t pad[6];
    for (int i = 0; i < w.n && to.count >= 0; i++) {
        pad[2 * (w.n - 1 - i)] = 0;
        pad[2 * (w.n - 1 - i) + 1] = to.dim[i + 2] - own.dim[i + 2];
        if (to.dim[i + 2] < own.dim[i + 2]) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "output_shape is smaller than the unpadded result");
            return;
        }
    }
    c->y[0] = to.count < 0 ? y : tn_pad(y, list(pad, 2 * w.n));
}

/* ---- rows ---------------------------------------------------------------- */

#define CONV "auto_pad:string=NOTSET dilations:ints group:int=1 "              \
             "kernel_shape:ints pads:ints strides:ints"
static const tn__onnx_op rows[] = {
    {.name = "Conv", .since = 1, .min_in = 2, .max_in = 3, .max_out = 1,
     .attributes = CONV, .run = conv, .grows = true},
    {.name = "ConvTranspose", .since = 1, .min_in = 2, .max_in = 3,
     .max_out = 1,
     .attributes = "auto_pad:string=NOTSET dilations:ints group:int=1 "
                   "kernel_shape:ints output_padding:ints output_shape:ints "
                   "pads:ints strides:ints",
     .run = conv_transpose, .grows = true},
    {.name = "MaxPool", .since = 1, .min_in = 1, .max_in = 1, .max_out = 2,
     .attributes = "auto_pad:string=NOTSET ceil_mode:int=0 dilations:ints "
                   "kernel_shape:ints! pads:ints storage_order:int=0 "
                   "strides:ints",
     .run = max_pool, .grows = true},
    {.name = "AveragePool", .since = 7, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "auto_pad:string=NOTSET ceil_mode:int=0 "
                   "count_include_pad:int=0 dilations:ints kernel_shape:ints! "
                   "pads:ints strides:ints",
     .run = average_pool, .grows = true},
    {.name = "LpPool", .since = 2, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "auto_pad:string=NOTSET ceil_mode:int=0 dilations:ints "
                   "kernel_shape:ints! p:int=2 pads:ints strides:ints",
     .run = lp_pool, .grows = true},
    {.name = "GlobalAveragePool", .since = 1, .min_in = 1, .max_in = 1,
     .max_out = 1, .run = global_average_pool},
    {.name = "GlobalMaxPool", .since = 1, .min_in = 1, .max_in = 1,
     .max_out = 1, .run = global_max_pool},
    {.name = "GlobalLpPool", .since = 2, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "p:int=2", .run = global_lp_pool},
    {.name = "MaxUnpool", .since = 9, .min_in = 2, .max_in = 3, .max_out = 1,
     .attributes = "kernel_shape:ints! pads:ints strides:ints",
     .run = max_unpool, .host = 4, .grows = true},
};
const tn__onnx_family tn__onnx_conv = TN__ONNX_FAMILY(rows);
