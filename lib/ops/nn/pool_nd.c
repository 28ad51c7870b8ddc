/* pool_nd.c: the windows of pooling in one and three dimensions and of adaptive
 * pooling (pool_nd.h).
 *
 * Windows of equal size and distance are pooled by max_pool2d and avg_pool2d,
 * since a device may have kernels for them. With three axes, the last two are
 * pooled first. Then each slice (H, W) is reshaped to one row of an image, and
 * the depth is pooled.
 *
 * All other windows are pooled one dimension after the other, by a table of the
 * elements of each window (window_taps.h). Half types stay in float32 until the
 * end. */
#include <ops/nn/pool_nd.h>

/* KEEP_SIZE replaces TN_NONE_INT in a list of output sizes, where it means that
 * the output has the size of the input. */
enum { KEEP_SIZE = INT32_MIN };

tn_status tn__windows_list(const tn__call *call, int arg, int axes,
                           const int64_t *none, int64_t *list)
{
    const tn_dims_list *given = call->value[arg].of.dims;
    char text[TN__SHAPE_TEXT];
    bool empty = !tn__call_has(call, arg) || given->count == 0;
    if (!empty && given->count != 1 && given->count != axes)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is %s; expected one "
                        "number, or %d, one for each dimension", call->op->name,
                        call->op->arg[arg].name,
                        tn__shape_text(text, given->count, given->dim), axes);
    for (int a = 0; a < axes; a++) {
        list[a] = empty ? (none ? none[a] : 0)
                        : given->dim[given->count > 1 ? a : 0];
        if (list[a] == TN_NONE_INT)
            list[a] = KEEP_SIZE;
        /* The limit keeps sums of products from overflowing. */
        else if (list[a] > INT32_MAX || list[a] < -INT32_MAX)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %lld is outside (-2^31, 2^31)",
                            call->op->name, call->op->arg[arg].name,
                            (long long)list[a]);
    }
    return TN_OK;
}

tn_status tn__windows_check_input(const tn__call *call, const tn_tensor *x,
                                  int axes)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim == axes + 1 || x->ndim == axes + 2)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s; expected %d "
                    "dimensions, or %d with a batch", call->op->name,
                    tn__shape_text(text, x->ndim, x->shape), axes + 1,
                    axes + 2);
}

/* Sets w->out[a] to the number of windows along axis a. `up` is the argument
 * ceil_mode. */
static tn_status count_windows(const char *name, tn__windows *w, int a, bool up)
{
    int64_t span = w->dilation[a] * (w->kernel[a] - 1) + 1;
    if (w->kernel[a] < 1 || w->stride[a] < 1 || w->dilation[a] < 1)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} is %lld, {stride} "
                        "%lld and {dilation} %lld; expected at least 1 for "
                        "each", name, (long long)w->kernel[a],
                        (long long)w->stride[a], (long long)w->dilation[a]);
    if (w->pad[a] < 0 || w->pad[a] > span / 2)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {padding} is %lld; expected 0 "
                        "to half of the %lld elements that {kernel_size} spans",
                        name, (long long)w->pad[a], (long long)span);
    int64_t room = w->in[a] + 2 * w->pad[a] - span;
    w->out[a] = room < 0 && !(up && room + w->stride[a] > 0)
                    ? 0
                    : (room + (up ? w->stride[a] - 1 : 0)) / w->stride[a] + 1;
    /* With ceil_mode, the last window is dropped if it starts in the padding
     * after the input. */
    if (up && (w->out[a] - 1) * w->stride[a] >= w->in[a] + w->pad[a])
        w->out[a]--;
    if (w->out[a] < 1 || w->in[a] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {kernel_size} spans %lld elements, "
                        "but the padded {input} has only %lld", name,
                        (long long)span, (long long)(w->in[a] + 2 * w->pad[a]));
    return TN_OK;
}

tn_status tn__windows_read(const tn__call *call, const tn_tensor *x,
                           int axes, const int args[4], int ceil_mode,
                           tn__windows *w)
{
    static const int64_t ones[TN__WINDOWS_AXES] = {1, 1, 1};
    *w = (tn__windows){.axes = axes, .dilation = {1, 1, 1}};
    tn_status status = tn__windows_check_input(call, x, axes);
    if (status >= 0)
        status = tn__windows_list(call, args[0], axes, ones, w->kernel);
    if (status >= 0)
        status = tn__windows_list(call, args[1], axes, w->kernel, w->stride);
    if (status >= 0)
        status = tn__windows_list(call, args[2], axes, NULL, w->pad);
    if (status >= 0 && args[3] >= 0)
        status = tn__windows_list(call, args[3], axes, ones, w->dilation);
    for (int a = 0; a < axes && status >= 0; a++) {
        w->in[a] = x->shape[x->ndim - axes + a];
        status = count_windows(call->op->name, w, a,
                               tn__call_int(call, ceil_mode));
    }
    return status;
}

/* ---- adaptive windows ---------------------------------------------------- */

int tn__windows_axes(const tn__call *call)
{
    return call->op->name[strlen(call->op->name) - 2] - '0';
}

tn_status tn__windows_read_adaptive(const tn__call *call, const tn_tensor *x,
                                    tn__windows *w)
{
    *w = (tn__windows){.axes = tn__windows_axes(call)};
    tn_status status = tn__windows_check_input(call, x, w->axes);
    if (status >= 0)
        status = tn__windows_list(call, TN__ARG_ADAPTIVE_AVG_POOL2D_OUTPUT_SIZE,
                                  w->axes, NULL, w->out);
    for (int a = 0; a < w->axes && status >= 0; a++) {
        w->in[a] = x->shape[x->ndim - w->axes + a];
        if (w->out[a] == KEEP_SIZE)
            w->out[a] = w->in[a];
        if (w->out[a] < 0)
            return tn__fail(TN_ERR_ARGUMENT,
                            "%s: {output_size} %lld is "
                            "negative; TN_NONE_INT keeps a size",
                            call->op->name, (long long)w->out[a]);
        if (w->in[a] < 1)
            return tn__fail(TN_ERR_SHAPE, "%s: a pooled dimension of {input} "
                            "has size %lld; %lld windows need at least 1",
                            call->op->name, (long long)w->in[a],
                            (long long)w->out[a]);
    }
    return status;
}

/* Return the start and the end of adaptive window i: floor(i * in / out) and
 * ceil((i + 1) * in / out). The quotient and the remainder of in / out are
 * multiplied separately, so that no product exceeds 64 bits. */
static int64_t even_start(int64_t i, int64_t in, int64_t out)
{
    return in / out * i + in % out * i / out;
}
static int64_t even_end(int64_t i, int64_t in, int64_t out)
{
    return in / out * (i + 1) + (in % out * (i + 1) + out - 1) / out;
}

tn_status tn__windows_even_taps(const tn__windows *w, int a, bool mean,
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

/* ---- pooling by max_pool2d and avg_pool2d -------------------------------- */

bool tn__windows_make_regular(tn__windows *w)
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

int64_t tn__windows_first_tap(const tn__windows *w, int a, int64_t i)
{
    int64_t at = i * w->stride[a] - w->pad[a], step = w->dilation[a];
    return at < 0 ? at + (step - 1 - at) / step * step : at;
}

bool tn__windows_all_padding(const tn__windows *w)
{
    for (int a = 0; a < w->axes; a++)
        for (int64_t i = 0; w->dilation[a] > w->in[a] && i < w->out[a] &&
                            i * w->stride[a] < w->pad[a]; i++)
            if (tn__windows_first_tap(w, a, i) >= w->in[a])
                return true;
    return false;
}

bool tn__windows_suit_images(const tn_tensor *x, const tn__windows *w)
{
    if (w->axes == 3 &&
        tn__windows_all_padding(w)) /* the depth is pooled in a second pass,
                                       which cannot recognise that a maximum of
                                       the first pass is padding */
        return false;
    for (int a = 0; a < w->axes; a++)
        /* max_pool2d and avg_pool2d compute the limit of the padding from the
         * kernel without dilation, which is lower than the limit here. A kernel
         * larger than the padded input is excluded because max_pool2d reads
         * each tap. */
        if (w->pad[a] > w->kernel[a] / 2 ||
            w->kernel[a] > w->in[a] + 2 * w->pad[a])
            return false;
    return tn_dtype_is_floating(x->dtype) && x->numel > 0;
}

int tn__windows_plan(const tn_tensor *x, const tn__windows *w,
                     tn__image_pass pass[2])
{
    int last = w->axes - 1, row = w->axes > 1 ? last - 1 : -1;
    int64_t lead = tn__shape_numel(x->ndim - w->axes, x->shape);
#define BOTH(list, none) tn_dims(row < 0 ? (none) : w->list[row], w->list[last])
    pass[0] = (tn__image_pass){
        tn_dims(lead, w->axes > 2 ? w->in[0] : 1, row < 0 ? 1 : w->in[row],
                w->in[last]),
        BOTH(kernel, 1), BOTH(stride, 1), BOTH(pad, 0), BOTH(dilation, 1)};
#undef BOTH
    if (w->axes < 3)
        return 1;
    pass[1] =
        (tn__image_pass){tn_dims(lead, 1, w->in[0], w->out[1] * w->out[2]),
                         tn_dims(w->kernel[0], 1), tn_dims(w->stride[0], 1),
                         tn_dims(w->pad[0], 0), tn_dims(w->dilation[0], 1)};
    return 2;
}

tn_tensor *tn__windows_shape(tn_tensor *made, const tn_tensor *x,
                             const tn__windows *w)
{
    tn_dims_list shape = {x->ndim, {0}};
    int lead = x->ndim - w->axes;
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d < lead ? x->shape[d] : w->out[d - lead];
    return made ? tn_reshape(made, shape) : NULL;
}
