/* pool_nd.c: pooling of one and three dimensions and of windows that cover
 * evenly: a mean of means, the greatest of the greatest. Windows of one size and
 * distance are those of images (max_pool2d, avg_pool2d, which a device may have
 * as a whole): the last two dimensions at once, then the one before them, a
 * slice being one row. All others go one dimension after the other, by a table
 * of each output's elements. Half types keep float32's digits until the end. */
#include <base/memory.h>
#include <math.h>
#include <ops/nn/taps.h>
#include <ops/nn/window.h>

enum { MAX_AXES = 3, KEEP_SIZE = INT32_MIN /* TN_NONE_INT in a list */ };

/* Windows along each of the last `axes` dimensions. */
typedef struct windows {
    int axes;
    int64_t in[MAX_AXES], out[MAX_AXES], kernel[MAX_AXES], stride[MAX_AXES],
        pad[MAX_AXES], dilation[MAX_AXES];
} windows;

/* Argument arg as `axes` numbers; `none` where the list is empty. */
static tn_status take_list(const tn__call *call, int arg, int axes,
                           const int64_t *none, int64_t *list)
{
    const tn_dims_list *given = call->value[arg].of.dims;
    char text[TN__SHAPE_TEXT];
    bool empty = !tn__call_has(call, arg) || given->count == 0;
    if (!empty && given->count != 1 && given->count != axes)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %s is neither one number "
                        "nor %d", call->op->name, call->op->arg[arg].name,
                        tn__shape_text(text, given->count, given->dim), axes);
    for (int a = 0; a < axes; a++) {
        list[a] = empty ? (none ? none[a] : 0)
                        : given->dim[given->count > 1 ? a : 0];
        if (list[a] == TN_NONE_INT)
            list[a] = KEEP_SIZE; /* so that sums of products fit */
        else if (list[a] > INT32_MAX || list[a] < -INT32_MAX)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %lld is beyond 2^31",
                            call->op->name, call->op->arg[arg].name,
                            (long long)list[a]);
    }
    return TN_OK;
}

static tn_status check_input(const tn__call *call, const tn_tensor *x,
                             int axes)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim == axes + 1 || x->ndim == axes + 2)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {input} %s has neither %d dimensions "
                    "nor, with a batch, %d", call->op->name,
                    tn__shape_text(text, x->ndim, x->shape), axes + 1,
                    axes + 2);
}

/* How many windows lie along axis a. */
static tn_status count_windows(const char *name, windows *w, int a, bool up)
{
    int64_t span = w->dilation[a] * (w->kernel[a] - 1) + 1;
    if (w->kernel[a] < 1 || w->stride[a] < 1 || w->dilation[a] < 1)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} %lld, {stride} "
                        "%lld, {dilation} %lld; all are at least 1", name,
                        (long long)w->kernel[a], (long long)w->stride[a],
                        (long long)w->dilation[a]);
    if (w->pad[a] < 0 || w->pad[a] > span / 2)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {padding} %lld is not between 0 "
                        "and half of a window over %lld", name,
                        (long long)w->pad[a], (long long)span);
    int64_t room = w->in[a] + 2 * w->pad[a] - span;
    w->out[a] = room < 0 && !(up && room + w->stride[a] > 0)
                    ? 0
                    : (room + (up ? w->stride[a] - 1 : 0)) / w->stride[a] + 1;
    /* The last window starts inside the input or its padding before it. */
    if (up && (w->out[a] - 1) * w->stride[a] >= w->in[a] + w->pad[a])
        w->out[a]--;
    if (w->out[a] < 1 || w->in[a] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {kernel_size} reaches over %lld, "
                        "the padded {input} has %lld", name, (long long)span,
                        (long long)(w->in[a] + 2 * w->pad[a]));
    return TN_OK;
}

/* dilation -1: the row has no such argument. */
static tn_status take_windows(const tn__call *call, const tn_tensor *x,
                              int axes, const int args[4], int ceil_mode,
                              windows *w)
{
    static const int64_t ones[MAX_AXES] = {1, 1, 1};
    *w = (windows){.axes = axes, .dilation = {1, 1, 1}};
    tn_status status = check_input(call, x, axes);
    if (status >= 0)
        status = take_list(call, args[0], axes, ones, w->kernel);
    if (status >= 0)
        status = take_list(call, args[1], axes, w->kernel, w->stride);
    if (status >= 0)
        status = take_list(call, args[2], axes, NULL, w->pad);
    if (status >= 0 && args[3] >= 0)
        status = take_list(call, args[3], axes, ones, w->dilation);
    for (int a = 0; a < axes && status >= 0; a++) {
        w->in[a] = x->shape[x->ndim - axes + a];
        status = count_windows(call->op->name, w, a,
                               tn__call_int(call, ceil_mode));
    }
    return status;
}

/* ---- the greatest --------------------------------------------------------- */

/* The elements of each window along axis a; an absent one is the first of its
 * window once more. */
static tn_status fill_window_taps(const windows *w, int a, tn__taps *taps)
{
    int64_t in = w->in[a], step = w->dilation[a];
    int64_t within = (in - 1) / step + 1; /* most that lie in the input */
    int64_t reach = w->kernel[a] < within ? w->kernel[a] : within;
    tn_status status = tn__taps_new(taps, in, w->out[a], reach);
    for (int64_t i = 0; i < w->out[a] && status >= 0; i++) {
        int64_t start = i * w->stride[a] - w->pad[a];
        int64_t before = start < 0 ? (step - 1 - start) / step : 0;
        int64_t first = start + before * step;
        if (before >= w->kernel[a] || first >= in) { /* in padding alone */
            first = 0;
            before = w->kernel[a];
        }
        for (int64_t k = 0; k < reach; k++) {
            int64_t at = first + k * step;
            bool there = before + k < w->kernel[a] && at < in;
            tn__taps_set(taps, i, (int)k, there ? at : first, 1);
        }
    }
    return status;
}

/* Of windows that cover `in` places evenly, those of output i: [start, end).
 * Whole and rest apart, so that no product is beyond 64 bits. */
static int64_t even_start(int64_t i, int64_t in, int64_t out)
{
    return in / out * i + in % out * i / out;
}
static int64_t even_end(int64_t i, int64_t in, int64_t out)
{
    return in / out * (i + 1) + (in % out * (i + 1) + out - 1) / out;
}

static tn_status fill_even_taps(const windows *w, int a, bool mean,
                                tn__taps *taps)
{
    int64_t in = w->in[a], out = w->out[a], reach = 1;
    for (int64_t i = 0; i < out; i++) {
        int64_t size = even_end(i, in, out) - even_start(i, in, out);
        reach = size > reach ? size : reach;
    }
    tn_status status = tn__taps_new(taps, in, out, reach);
    for (int64_t i = 0; i < out && status >= 0; i++) {
        int64_t start = even_start(i, in, out);
        int64_t size = even_end(i, in, out) - start;
        for (int64_t k = 0; k < (mean ? size : reach); k++)
            tn__taps_set(taps, i, (int)k, k < size ? start + k : start,
                         1 / (double)size);
    }
    return status;
}

/* The greatest along the last dimension, then along the one before it ...; the
 * first of equals in each, which is the first row by row. */
static tn_status max_by_tables(tn_tensor *x, const windows *w, bool even,
                               tn_tensor **values, tn_tensor **indices)
{
    tn_tensor *index = NULL;
    int64_t below = 1; /* elements of a slice of the dimensions done */
    for (int a = w->axes - 1; a >= 0; a--) {
        int dim = x->ndim - w->axes + a;
        tn__taps taps = {0};
        tn_tensor *place;
        tn_status status = tn__taps_check_memory(x, dim, w->out[a]);
        if (status >= 0)
            status = even ? fill_even_taps(w, a, false, &taps)
                          : fill_window_taps(w, a, &taps);
        if (status >= 0)
            status = tn__taps_max(x, dim, &taps, &x, &place);
        tn__taps_free(&taps);
        if (status < 0)
            return status;
        index = index ? tn_add(tn_gather(index, dim, place),
                               tn_mul_scalar(place, below))
                      : place;
        if (!index)
            return tn_error_code();
        below *= w->in[a];
    }
    *values = x;
    *indices = index;
    return TN_OK;
}

/* ---- as images ------------------------------------------------------------ */

/* Windows that cover evenly and have one size: as others are told. */
static bool make_regular(windows *w)
{
    for (int a = 0; a < w->axes; a++) {
        if (w->out[a] < 1 || w->in[a] % w->out[a] != 0)
            return false;
        w->kernel[a] = w->stride[a] = w->in[a] / w->out[a];
        w->pad[a] = 0;
        w->dilation[a] = 1;
    }
    return true;
}

/* The first tap of window i that is not before the input; behind it, the window
 * lies in padding alone. */
static int64_t first_tap(const windows *w, int a, int64_t i)
{
    int64_t at = i * w->stride[a] - w->pad[a], step = w->dilation[a];
    return at < 0 ? at + (step - 1 - at) / step * step : at;
}

static bool has_padding_windows(const windows *w)
{
    for (int a = 0; a < w->axes; a++)
        for (int64_t i = 0; w->dilation[a] > w->in[a] && i < w->out[a] &&
                            i * w->stride[a] < w->pad[a]; i++)
            if (first_tap(w, a, i) >= w->in[a])
                return true;
    return false;
}

/* Windows in padding alone: the least there is, at their first tap not before
 * the input, as in PyTorch. */
static tn_status fill_padding_windows(const windows *w, tn_tensor **values,
                                      tn_tensor **indices)
{
    tn_dtype dtype = (*values)->dtype;
    tn_device *device = (*values)->storage->device;
    tn_tensor *gone = NULL, *first = NULL;
    for (int a = 0; a < w->axes; a++) {
        tn_dims_list along = {w->axes, {1, 1, 1}};
        along.dim[a] = w->out[a];
        int64_t *list = tn__alloc_many(w->out[a], sizeof *list);
        if (!list)
            return TN_ERR_MEMORY;
        for (int64_t i = 0; i < w->out[a]; i++)
            list[i] = first_tap(w, a, i);
        tn_tensor *tap =
            tn_to(tn_tensor_from_array(list, TN_I64, along), device);
        tn__free(list);
        tn_tensor *behind = tn_ge_scalar(tap, tn_scalar_int(w->in[a]));
        gone = a ? tn_logical_or(gone, behind) : behind;
        first = a ? tn_add(tn_mul_scalar(first, tn_scalar_int(w->in[a])), tap)
                  : tap;
    }
    double least = tn_dtype_is_floating(dtype) ? -INFINITY
                   : dtype == TN_U8            ? 0
                       : -ldexp(1, 8 * (int)tn_dtype_bytes(dtype) - 1);
    *values = tn_masked_fill_scalar(*values, gone, least);
    *indices = tn_where(gone, first, *indices);
    return *values && *indices ? TN_OK : tn_error_code();
}

/* Can max_pool2d and avg_pool2d do it? */
static bool suits_images(const tn_tensor *x, const windows *w)
{
    if (w->axes == 3 && has_padding_windows(w)) /* depth is a pass of its own */
        return false;
    for (int a = 0; a < w->axes; a++)
        if (w->pad[a] > w->kernel[a] / 2 || /* of what dilation made wider */
            w->kernel[a] > w->in[a] + 2 * w->pad[a]) /* it looks at each tap */
            return false;
    return tn_dtype_is_floating(x->dtype) && x->numel > 0;
}

/* One pass: x as (N, C, H, W) and windows over its last two dimensions. */
typedef struct image_pass {
    tn_dims_list shape; /* of x */
    tn_dims_list kernel, stride, pad, dilation;
} image_pass;

/* Passes over x: the last dimensions (H of one dimension is 1), and depth. */
static int plan_passes(const tn_tensor *x, const windows *w,
                       image_pass pass[2])
{
    int last = w->axes - 1, row = w->axes > 1 ? last - 1 : -1;
    int64_t lead = tn__shape_numel(x->ndim - w->axes, x->shape);
#define BOTH(list, none) tn_dims(row < 0 ? (none) : w->list[row], w->list[last])
    pass[0] = (image_pass){
        tn_dims(lead, w->axes > 2 ? w->in[0] : 1, row < 0 ? 1 : w->in[row],
                w->in[last]),
        BOTH(kernel, 1), BOTH(stride, 1), BOTH(pad, 0), BOTH(dilation, 1)};
#undef BOTH
    if (w->axes < 3)
        return 1;
    pass[1] = (image_pass){tn_dims(lead, 1, w->in[0], w->out[1] * w->out[2]),
                           tn_dims(w->kernel[0], 1), tn_dims(w->stride[0], 1),
                           tn_dims(w->pad[0], 0), tn_dims(w->dilation[0], 1)};
    return 2;
}

/* What passes made of x, in its own shape but for the axes. */
static tn_tensor *in_shape(tn_tensor *made, const tn_tensor *x,
                           const windows *w)
{
    tn_dims_list shape = {x->ndim, {0}};
    int lead = x->ndim - w->axes;
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d < lead ? x->shape[d] : w->out[d - lead];
    return made ? tn_reshape(made, shape) : NULL;
}

/* ceil_mode, for windows may hang over the end; out has been counted. */
static tn_status max_of_images(tn_tensor *x, const windows *w, bool up,
                               tn_tensor **values, tn_tensor **indices)
{
    image_pass pass[2];
    int count = plan_passes(x, w, pass);
    /* Gradients of half types add up pass by pass. */
    bool half = count > 1 && tn_dtype_bytes(x->dtype) < 4;
    tn_tensor *y = half ? tn_to_dtype(x, TN_F32) : x, *index = NULL;
    for (int k = 0; k < count; k++) {
        tn_tensor *at = NULL;
        y = tn_reshape(y, pass[k].shape);
        y = indices ? tn_max_pool2d_with_indices(
                          y, pass[k].kernel, &at,
                          .strides = tn__marked(pass[k].stride),
                          .paddings = tn__marked(pass[k].pad),
                          .dilations = tn__marked(pass[k].dilation),
                          .ceil_mode = up)
                    : tn_max_pool2d(y, pass[k].kernel,
                                    .strides = tn__marked(pass[k].stride),
                                    .paddings = tn__marked(pass[k].pad),
                                    .dilations = tn__marked(pass[k].dilation),
                                    .ceil_mode = up);
        if (!y)
            return tn_error_code();
        if (!indices || k == 0) {
            index = at;
            continue;
        }
        /* of a slice, and of an element in its slice */
        int64_t lead = pass[k].shape.dim[0], slice = pass[k].shape.dim[3];
        at = tn_reshape(at, tn_dims(lead, -1));
        tn_tensor *inner =
            tn_gather(tn_reshape(index, tn_dims(lead, -1)), 1, at);
        tn_tensor *depth =
            tn_div_scalar(at, slice, .rounding_mode = "floor");
        index = tn_add(inner, tn_mul_scalar(depth, w->in[1] * w->in[2]));
    }
    *values = in_shape(half ? tn_to_dtype(y, x->dtype) : y, x, w);
    if (indices)
        *indices = in_shape(index, x, w);
    return *values ? TN_OK : tn_error_code();
}

/* sums: not divided. */
static tn_tensor *mean_of_images(tn_tensor *x, const windows *w, bool up,
                                 bool count_pad, bool sums)
{
    image_pass pass[2];
    int count = plan_passes(x, w, pass);
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
    return in_shape(y, x, w);
}

static tn_status give_max(tn__call *call, tn_tensor *x, windows *w,
                          bool even, bool up, bool with_indices)
{
    tn_tensor *values = NULL, *indices = NULL;
    bool regular = (!even || make_regular(w)) && suits_images(x, w);
    tn_status status =
        regular ? max_of_images(x, w, up, &values,
                                with_indices ? &indices : NULL)
                : max_by_tables(x, w, even, &values, &indices);
    if (status >= 0 && !regular && !even && has_padding_windows(w))
        status = fill_padding_windows(w, &values, &indices);
    if (status >= 0)
        status = tn__give(call, values);
    return status >= 0 && with_indices ? tn__give(call, indices) : status;
}

static tn_status max_pool(tn__call *call, int axes, bool with_indices)
{
    enum {
        kernel_size = TN__ARG_MAX_POOL3D_KERNEL_SIZE,
        stride = TN__ARG_MAX_POOL3D_STRIDE,
        padding = TN__ARG_MAX_POOL3D_PADDING,
        dilation = TN__ARG_MAX_POOL3D_DILATION,
        ceil_mode = TN__ARG_MAX_POOL3D_CEIL_MODE
    };
    static const int args[] = {kernel_size, stride, padding, dilation};
    tn_tensor *x = tn__call_tensor(call, 0);
    windows w;
    tn_status status = take_windows(call, x, axes, args, ceil_mode, &w);
    if (status < 0)
        return status;
    return give_max(call, x, &w, false, tn__call_int(call, ceil_mode),
                    with_indices);
}

tn_status tn__run_max_pool1d(tn__call *call)
{
    return max_pool(call, 1,
                    tn__call_int(call, TN__ARG_MAX_POOL1D_RETURN_INDICES));
}

tn_status tn__run_max_pool3d(tn__call *call)
{
    return max_pool(call, 3,
                    tn__call_int(call, TN__ARG_MAX_POOL3D_RETURN_INDICES));
}

tn_status tn__run_max_pool1d_with_indices(tn__call *call)
{
    return max_pool(call, 1, true);
}

tn_status tn__run_max_pool3d_with_indices(tn__call *call)
{
    return max_pool(call, 3, true);
}

/* ---- windows that cover evenly -------------------------------------------- */

/* The row's name ends in the number of its dimensions: "..._pool2d". */
static int axes_of(const tn__call *call)
{
    return call->op->name[strlen(call->op->name) - 2] - '0';
}

static tn_status take_even(const tn__call *call, const tn_tensor *x,
                           windows *w)
{
    *w = (windows){.axes = axes_of(call)};
    tn_status status = check_input(call, x, w->axes);
    if (status >= 0)
        status = take_list(call, TN__ARG_ADAPTIVE_AVG_POOL2D_OUTPUT_SIZE,
                           w->axes, NULL, w->out);
    for (int a = 0; a < w->axes && status >= 0; a++) {
        w->in[a] = x->shape[x->ndim - w->axes + a];
        if (w->out[a] == KEEP_SIZE)
            w->out[a] = w->in[a];
        if (w->out[a] < 0)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {output_size} %lld is "
                            "negative; TN_NONE_INT keeps a size", call->op->name,
                            (long long)w->out[a]);
        if (w->in[a] < 1)
            return tn__fail(TN_ERR_SHAPE, "%s: %lld windows over a dimension "
                            "of size %lld", call->op->name,
                            (long long)w->out[a], (long long)w->in[a]);
    }
    return status;
}

/* x mapped along each axis by what fill gives. */
static tn_tensor *map_axes(tn_tensor *x, const windows *w,
                           tn_status (*fill)(const windows *w, int a,
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

static tn_status fill_means(const windows *w, int a, tn__taps *taps)
{
    return fill_even_taps(w, a, true, taps);
}

/* One window over each dimension is a reduction. */
static tn_tensor *even_means(tn_tensor *x, const windows *w)
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
    windows w;
    tn_status status = take_even(call, x, &w);
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; it takes floating "
                        "tensors: convert it with tn_to_dtype",
                        call->op->name, tn_dtype_name(x->dtype));
    if (make_regular(&w) && suits_images(x, &w))
        return tn__give(call, even_means(x, &w));
    return tn__give(call, map_axes(x, &w, fill_means));
}

tn_status tn__run_adaptive_max_pool(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    windows w;
    tn_status status = take_even(call, x, &w);
    if (status < 0)
        return status;
    return give_max(
        call, x, &w, true, false,
        tn__call_int(call, TN__ARG_ADAPTIVE_MAX_POOL2D_RETURN_INDICES));
}

/* ---- means ------------------------------------------------------------------ */

/* Where window i along axis a begins and ends; in the padding where that
 * counts. */
static int64_t window_size(const windows *w, int a, int64_t i, bool count_pad,
                           int64_t *from)
{
    int64_t start = i * w->stride[a] - w->pad[a];
    int64_t end = start + w->kernel[a];
    int64_t most = w->in[a] + (count_pad ? w->pad[a] : 0);
    *from = start > 0 ? start : 0;
    return (end < most ? end : most) - (count_pad ? start : *from);
}

static tn_status fill_box(const windows *w, int a, bool mean, bool count_pad,
                          tn__taps *taps)
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

static tn_status fill_padded_means(const windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, true, true, taps);
}
static tn_status fill_inner_means(const windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, true, false, taps);
}
static tn_status fill_sums(const windows *w, int a, tn__taps *taps)
{
    return fill_box(w, a, false, false, taps);
}

/* Whole numbers: their sums, in float64, over the sizes, cut off. */
static tn_tensor *whole_means(tn_tensor *x, const windows *w, bool count_pad,
                              int64_t divisor)
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
    windows w;
    tn_status status = take_windows(call, x, 3, args, ceil_mode, &w);
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__give(call, whole_means(x, &w, count_pad, divisor));
    bool up = tn__call_int(call, ceil_mode), images = suits_images(x, &w);
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

/* The greatest magnitude of each window, or the least. */
static tn_status give_magnitude(tn__call *call, tn_tensor *x, int axes, bool least)
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

/* The mean of powers times the number of elements that a whole window has. The
 * root has no slope where a window is all 0: it is taken of 1 there. */
tn_status tn__run_lp_pool(tn__call *call)
{
    int id = call->op->id;
    int axes = id == TN__OP_ID_LP_POOL1D ? 1 : id == TN__OP_ID_LP_POOL2D ? 2 : 3;
    static const int rows[] = {0, TN__OP_ID_AVG_POOL1D, TN__OP_ID_AVG_POOL2D,
                               TN__OP_ID_AVG_POOL3D};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LP_POOL2D_INPUT);
    double norm = tn__call_float(call, TN__ARG_LP_POOL2D_NORM_TYPE), count = 1;
    int64_t kernel[MAX_AXES];
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; it takes floating "
                        "tensors: convert it with tn_to_dtype",
                        call->op->name, tn_dtype_name(x->dtype));
    if (norm == 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {norm_type} is 0",
                        call->op->name);
    if (check_input(call, x, axes) < 0 ||
        take_list(call, TN__ARG_LP_POOL2D_KERNEL_SIZE, axes, NULL, kernel) < 0)
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

/* Sequences as images of height 1. */
tn_status tn__run_avg_pool1d(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AVG_POOL1D_INPUT);
    int64_t kernel, stride, pad;
    if (check_input(call, x, 1) < 0 ||
        take_list(call, TN__ARG_AVG_POOL1D_KERNEL_SIZE, 1, NULL, &kernel) <
            0 ||
        take_list(call, TN__ARG_AVG_POOL1D_STRIDE, 1, &kernel, &stride) < 0 ||
        take_list(call, TN__ARG_AVG_POOL1D_PADDING, 1, NULL, &pad) < 0)
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

/* ---- back to where the greatest stood -------------------------------------- */

/* The output along axis k: the size asked for, if pooling by these windows,
 * which may leave a rest of less than a stride, can make the input of it. */
static tn_status unpooled_axis(const char *name, windows *w, int k,
                               const int64_t *given)
{
    int64_t kernel = w->kernel[k], stride = w->stride[k], pad = w->pad[k];
    int64_t size;
    if (kernel < 1 || stride < 1 || pad < 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} %lld, {stride} "
                        "%lld, {padding} %lld; the first two are at least 1, "
                        "{padding} at least 0", name, (long long)kernel,
                        (long long)stride, (long long)pad);
    if (__builtin_mul_overflow(w->in[k] - 1, stride, &size) ||
        size > (int64_t)1 << 62)
        return tn__fail(TN_ERR_SHAPE, "%s: an output of %lld times %lld", name,
                        (long long)w->in[k], (long long)stride);
    size += kernel - 2 * pad;
    if (given && (*given <= size - stride || *given >= size + stride))
        return tn__fail(TN_ERR_SHAPE, "%s: {output_size} %lld; what is pooled "
                        "to %lld by {kernel_size} %lld, {stride} %lld and "
                        "{padding} %lld had from %lld to %lld", name,
                        (long long)*given,
                        (long long)w->in[k], (long long)kernel,
                        (long long)stride, (long long)pad,
                        (long long)(size - stride + 1),
                        (long long)(size + stride - 1));
    w->out[k] = given ? *given : size;
    if (w->out[k] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: an output of size %lld", name,
                        (long long)w->out[k]);
    return TN_OK;
}

/* output_size may be that of the last dimensions or of all. */
static tn_status unpooled_size(const tn__call *call, const tn_tensor *x,
                               int axes, windows *w)
{
    enum {
        kernel_size = TN__ARG_MAX_UNPOOL2D_KERNEL_SIZE,
        stride = TN__ARG_MAX_UNPOOL2D_STRIDE,
        padding = TN__ARG_MAX_UNPOOL2D_PADDING,
        output_size = TN__ARG_MAX_UNPOOL2D_OUTPUT_SIZE
    };
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = take_list(call, kernel_size, axes, NULL, w->kernel);
    if (status >= 0)
        status = take_list(call, stride, axes, w->kernel, w->stride);
    if (status >= 0)
        status = take_list(call, padding, axes, NULL, w->pad);
    if (status < 0)
        return status;
    const tn_dims_list *given = tn__call_has(call, output_size)
                                    ? call->value[output_size].of.dims
                                    : NULL;
    if (given && given->count != axes && given->count != x->ndim)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {output_size} %s for {input} %s",
                        call->op->name,
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
    int axes = axes_of(call);
    windows w = {.axes = axes};
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = check_input(call, x, axes);
    if (status >= 0)
        status = unpooled_size(call, x, axes, &w);
    if (status < 0)
        return status;
    if (!tn__shape_equal(x->ndim, x->shape, index->ndim, index->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s and {indices} %s differ: "
                        "one shape is wanted",
                        call->op->name, tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, index->ndim, index->shape));
    int lead = x->ndim - axes;
    tn_dims_list flat = {lead + 1, {0}}, shape = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d < lead ? x->shape[d] : w.out[d - lead];
    /* One zero, expanded: scatter copies what it stores into. */
    tn_tensor *zero = tn_zeros((tn_dims_list){0}, .dtype = x->dtype,
                               .device = x->storage->device);
    if (!tn_expand(zero, shape))
        return tn_error_code(); /* too large: no product of sizes then */
    memcpy(flat.dim, shape.dim, (size_t)lead * sizeof flat.dim[0]);
    flat.dim[lead] = tn__shape_numel(axes, shape.dim + lead);
    tn_tensor *zeros = tn_expand(zero, flat);
    flat.dim[lead] = tn__shape_numel(axes, x->shape + lead);
    tn_tensor *y = tn_scatter(zeros, -1, tn_reshape(index, flat),
                              tn_reshape(x, flat));
    return tn__give(call, tn_reshape(y, shape));
}
