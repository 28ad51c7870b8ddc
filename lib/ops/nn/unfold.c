/* unfold.c: sliding windows as a new dimension of a tensor (PyTorch's
 * Tensor.unfold), the gradient of that view, which sums overlapping windows,
 * and windows of images as columns (nn.functional.unfold and fold). Tap k of a
 * window is its element k. */
#include <ops/nn/window.h>

static tn_status check_windows(const char *name, const tn_tensor *x, int dim,
                               int64_t size, int64_t step, int64_t dilation)
{
    int64_t span;
    if (size < 0 || step < 1 || dilation < 1 ||
        __builtin_mul_overflow(dilation, size > 0 ? size - 1 : 0, &span) ||
        span >= (x->ndim ? x->shape[dim] : 1) + (size == 0))
        return tn__fail(TN_ERR_ARGUMENT, "%s: {size} is %lld and {step} %lld "
                        "for a dimension of %lld elements; expected windows "
                        "that fit into it, and a {step} of at least 1", name,
                        (long long)size, (long long)step,
                        (long long)(x->ndim ? x->shape[dim] : 1));
    if (x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "%s: the result would have %d "
                        "dimensions; expected at most %d", name, x->ndim + 1,
                        TN_MAX_NDIM);
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
    stride[x->ndim] = !x->ndim  ? 1
                      : size > 1 ? dilation * x->stride[dim]
                                 : x->stride[dim];
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

/* A call of windows_backward. Along dimension dim, each element of out is the
 * sum of all elements of g that the view showed at its position:
 *
 *     out[p] = sum of g[q][k] over all q, k with q * step + k * dilation = p */
typedef struct sum_back {
    tn_tensor *g, *out;
    int dim;
    int64_t step, dilation;
    const char *name;
} sum_back;

/* Computes the elements [from, end) along the dimension. Each of these elements
 * is the sum over k of g[q][k], where q is the window whose element k it is. If
 * `indexed` is true, g is read by index. */
static tn_status sum_places(const sum_back *s, tn__formula *formula,
                            int64_t from, int64_t end, bool indexed)
{
    const tn_dtype dtype[] = {s->g->dtype, 0};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    if (!kernel)
        return tn_error_code();
    const int ndim = s->out->ndim, dim = s->dim;
    tn__space space = {.outer_ndim = ndim, .row_ndim = 1};
    for (int d = 0; d < ndim; d++)
        space.extent[d] = d == dim ? end - from : s->out->shape[d];
    space.extent[ndim] = s->g->shape[ndim];
    tn__operand *in = tn__space_add_bare(&space, s->g);
    for (int d = 0; d <= ndim; d++)
        in->stride[d] = s->g->stride[d];
    if (indexed) {
        in->stride[dim] = 0;
        in->index_stride[0] = s->g->stride[dim];
        in->index_extent[0] = s->g->shape[dim];
        tn__operand *at = tn__space_add_bare(&space, NULL);
        at->offset = from;
        at->stride[dim] = 1;
        at->stride[ndim] = -s->dilation;
    } else {
        in->offset = from * in->stride[dim];
        in->stride[ndim] -= s->dilation * in->stride[dim];
    }
    tn__operand *to = tn__space_add_bare(&space, s->out);
    to->offset = from * s->out->stride[dim];
    for (int d = 0; d < ndim; d++)
        to->stride[d] = s->out->stride[d];
    const tn_number step = {.i = s->step};
    return tn__kernel_launch(s->out->storage->device, kernel, &space,
                             s->step != 1 ? &step : NULL, s->name);
}

/* Element k of a window that begins `shift` steps before the element to
 * compute. */
typedef struct tap {
    int k;
    int64_t shift;
} tap;

/* Computes elements first + i * step for i in [from, end). Each of them belongs
 * to `count` windows: element i is element taps[].k of the window i - shift.
 * The kernel's source has one term for each of these windows, in the order in
 * which a reduction would sum them. The kernel runs over adjacent elements. */
static tn_status sum_written(const sum_back *s, int64_t first, int64_t from,
                             int64_t end, const tap *taps, int count)
{
    static tn__formula written[] = {
        TN__FORMULA("windows_backward(a) = a + 0"),
        TN__FORMULA("windows_backward(a, b) = a + 0 + b"),
        TN__FORMULA("windows_backward(a, c, b) = a + c + b")};
    const tn_dtype type = s->g->dtype, dtype[] = {type, type, type};
    const tn__kernel *kernel = tn__formula_kernel(&written[count - 1], dtype);
    if (!kernel)
        return tn_error_code();
    const int ndim = s->out->ndim, dim = s->dim;
    tn__space space = {.outer_ndim = ndim};
    for (int d = 0; d < ndim; d++)
        space.extent[d] = d == dim ? end - from : s->out->shape[d];
    for (int i = 0; i < count; i++) {
        tn__operand *in = tn__space_add_bare(&space, s->g);
        for (int d = 0; d < ndim; d++)
            in->stride[d] = s->g->stride[d];
        in->offset = (from - taps[i].shift) * s->g->stride[dim] +
                     taps[i].k * s->g->stride[ndim];
    }
    tn__operand *to = tn__space_add_bare(&space, s->out);
    to->offset = (first + from * s->step) * s->out->stride[dim];
    for (int d = 0; d < ndim; d++)
        to->stride[d] = s->out->stride[d] * (d == dim ? s->step : 1);
    return tn__kernel_launch(s->out->storage->device, kernel, &space, NULL,
                             s->name);
}

/* Computes the elements first + i * step, which at most two taps reach. */
static tn_status sum_pairs(const sum_back *s, int64_t first, const tap *taps,
                           int count)
{
    const int64_t windows = s->g->shape[s->dim];
    const int64_t end = (s->out->shape[s->dim] - first + s->step - 1) / s->step;
    int64_t from = 0;
    tn_status status = TN_OK;
    while (from < end && status >= 0) {
        tap here[2];
        int some = 0;
        int64_t to = end;
        for (int i = 0; i < count; i++) {
            const int64_t low = taps[i].shift, high = low + windows;
            if (from >= low && from < high)
                here[some++] = taps[i];
            to = low > from && low < to ? low : to;
            to = high > from && high < to ? high : to;
        }
        if (some > 0)
            status = sum_written(s, first, from, to, here, some);
        from = to;
    }
    return status;
}

/* Sums windows with a step above 1 if each element is in at most two windows.
 * Elements with the same remainder by the step are reached by the same taps, so
 * that g is read by strides alone. Sets *done if it has summed. */
static tn_status sum_steps(const sum_back *s, bool *done)
{
    enum { MOST = 16 };
    tap taps[MOST][2];
    int count[MOST] = {0};
    const int64_t size = s->g->shape[s->out->ndim];
    *done = false;
    if (s->step > MOST || size > 2 * MOST || !tn_dtype_is_floating(s->g->dtype))
        return TN_OK;
    for (int k = 0; k < size; k++) {
        const int64_t at = k * s->dilation, first = at % s->step;
        if (count[first] == 2)
            return TN_OK;
        taps[first][count[first]++] = (tap){k, at / s->step};
    }
    *done = true;
    tn_status status = tn__fill(s->out, 0, s->name); /* gaps stay 0 */
    for (int64_t r = 0; r < s->step && status >= 0; r++)
        status = sum_pairs(s, r, taps[r], count[r]);
    return status;
}

/* Computes all elements that windows of three elements cover, and sets *end to
 * the end of their range. The elements at both ends are covered by fewer than
 * three windows. */
static tn_status sum_threes(const sum_back *s, int64_t windows, int64_t *end)
{
    const int64_t d = s->dilation;
    const struct part {
        int64_t from, end;
        tap taps[3];
        int count;
    } part[] = {{0, d, {{0, 0}}, 1},
                {d, 2 * d, {{0, 0}, {1, d}}, 2},
                {2 * d, windows, {{0, 0}, {2, 2 * d}, {1, d}}, 3},
                {windows, windows + d, {{2, 2 * d}, {1, d}}, 2},
                {windows + d, windows + 2 * d, {{2, 2 * d}}, 1}};
    tn_status status = TN_OK;
    for (int i = 0; i < 5 && status >= 0; i++)
        status = sum_written(s, 0, part[i].from, part[i].end, part[i].taps,
                             part[i].count);
    *end = windows + 2 * d;
    return status;
}

/* Sums the windows. Element p of the dimension is element k of window q if p =
 * q * step + k * dilation. If the step is 1, the elements from `first` up to
 * the number of windows are element k of some window for every k, so g is read
 * by strides alone. */
static tn_status sum_windows(const sum_back *s)
{
    static tn__formula steps = TN__FORMULA(
        "windows_backward(g, at: offset; step: i64) ="
        "let q = div(at, step);"
        "like(rsum(where((at >= 0) & (rem(at, step) == 0), g[q; 0], 0)), g)");
    static tn__formula each = TN__FORMULA(
        "windows_backward(g, at: offset) = like(rsum(g[at; 0]), g)");
    static tn__formula whole =
        TN__FORMULA("windows_backward(g) = like(rsum(g), g)");
    int64_t length = s->out->shape[s->dim], windows = s->g->shape[s->dim];
    int64_t size = s->g->shape[s->out->ndim];
    int64_t first = size > 0 ? s->dilation * (size - 1) : 0;
    if (s->step != 1) {
        bool done;
        tn_status status = sum_steps(s, &done);
        return done ? status : sum_places(s, &steps, 0, length, true);
    }
    if (first >= windows)
        return sum_places(s, &each, 0, length, true);
    tn_status status = TN_OK;
    int64_t end = windows;
    if (size == 3 && tn_dtype_is_floating(s->g->dtype)) {
        status = sum_threes(s, windows, &end);
    } else {
        if (first > 0)
            status = sum_places(s, &each, 0, first, true);
        if (status >= 0)
            status = sum_places(s, &whole, first, windows, false);
    }
    return status < 0 || end == length
               ? status
               : sum_places(s, &each, end, length, true);
}

tn_status tn__run_windows_backward(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, TN__ARG_WINDOWS_BACKWARD_INPUT);
    int64_t length = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_LENGTH);
    sum_back s = {
        .g = g, .name = tn__op_outer("unfold"),
        .step = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_STEP),
        .dilation = tn__call_int(call, TN__ARG_WINDOWS_BACKWARD_DILATION)};
    if (g->ndim < 2 || length < 0 || g->shape[g->ndim - 1] > INT32_MAX)
        return tn__fail(TN_ERR_SHAPE, "%s: the windows have %d dimensions and "
                        "{length} is %lld; expected at least 2 and 0", s.name,
                        g->ndim, (long long)length);
    int ndim = g->ndim - 1;
    s.dim = tn__call_dim(call, TN__ARG_WINDOWS_BACKWARD_DIMENSION, ndim);
    if (s.dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < ndim; d++)
        shape[d] = d == s.dim ? length : g->shape[d];
    s.out = tn__tensor_new(g->storage->device, g->dtype, ndim, shape, s.name);
    if (!s.out)
        return tn_error_code();
    call->out[call->out_count++] = s.out;
    tn_status status = check_windows(s.name, s.out, s.dim, g->shape[ndim],
                                     s.step, s.dilation);
    if (status < 0)
        return status;
    const int64_t size = g->shape[ndim];
    int64_t covered = size > 0 ? s.dilation * (size - 1) + 1 : 0;
    int64_t fit = (length - covered) / s.step + 1;
    if (g->shape[s.dim] > fit)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %lld windows, but "
                        "{length} %lld has only %lld", s.name,
                        (long long)g->shape[s.dim], (long long)length,
                        (long long)fit);
    /* Windows of size 0 have no elements, so the sums are 0. */
    return size == 0 ? tn__fill(s.out, 0, s.name) : sum_windows(&s);
}

/* ---- unfold and fold of images ------------------------------------------- */

enum { KERNEL, DILATION, PADDING, STRIDE, LISTS };

/* Reads kernel_size, dilation, padding and stride, as two numbers each. `first`
 * is the index of the first of these four arguments. Sets *out to the number of
 * windows over an image of this size. */
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
            return tn__fail(TN_ERR_ARGUMENT, "%s: {kernel_size} is %lld, "
                            "{dilation} %lld, {padding} %lld and {stride} "
                            "%lld for a dimension of %lld elements; expected "
                            "at least 1, 1, 0 and 1, and a kernel that fits "
                            "into the padded dimension", call->op->name,
                            (long long)k, (long long)d, (long long)pad,
                            (long long)step, (long long)size[a]);
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
    return tn__give(call, y && !batched ? tn_squeeze(y, .dim = 0) : y);
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
        return tn__fail(TN_ERR_SHAPE, "fold: {input} %s; expected (N, C * "
                        "%lld, %lld)", tn__shape_text(text, x->ndim, x->shape),
                        (long long)window, (long long)places);
    const tn_value value[] = {
        tn__value_tensor(batched ? x : tn_unsqueeze(x, 0)),
        tn__value_dims(&size), tn__value_dims(&list[KERNEL]),
        tn__value_dims(&list[DILATION]), tn__value_dims(&list[PADDING]),
        tn__value_dims(&list[STRIDE]), tn__value_dims(&out)};
    tn_tensor *y = tn__row(TN__OP_ID_COL2IM, value, 7);
    return tn__give(call, y && !batched ? tn_squeeze(y, .dim = 0) : y);
}
