/* slice.c: operators that join, cut, repeat and pad tensors. */
#include <onnx/ops/ops.h>

#include <stdlib.h>
#include <string.h>

/* ---- joining and cutting ------------------------------------------------- */

static void concat(tn__onnx_call *c)
{
    const int axis =
        tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(c->x[0]));
    if (axis >= 0)
        c->y[0] = tn_cat(c->x, c->in_count, axis);
}

static void split(tn__onnx_call *c, int64_t axis, const int64_t *sizes,
                  int count)
{
    tn_tensor *x = c->x[0];
    axis = tn__onnx_axis(c, axis, tn_tensor_ndim(x));
    if (axis < 0)
        return;
    const int64_t size = tn_tensor_size(x, (int)axis);
    if (count && count != c->out_count) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "split has %d sizes, but the node has %d "
                        "outputs",
                        count, c->out_count);
        return;
    }
    const int64_t each = (size + c->out_count - 1) / c->out_count;
    int64_t at = 0;
    for (int i = 0; i < c->out_count; i++) {
        int64_t length = count ? sizes[i] : each;
        if (!count && length > size - at)
            length = size - at; /* the last part may be smaller */
        c->y[i] = tn_narrow(x, axis, at, length);
        c->y_type[i] = c->x_type[0];
        at += length;
    }
    if (at != size)
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the sum of the sizes is %lld, but dimension %lld has "
                        "size %lld",
                        (long long)at, (long long)axis, (long long)size);
}

static void split_attr(tn__onnx_call *c)
{
    const tn__onnx_attr *a = c->attr[1];
    split(c, tn__onnx_int(c, 0), a ? a->ints : NULL, a ? (int)a->count : 0);
}

enum { MANY = 1024 };

static void split_input(tn__onnx_call *c)
{
    int64_t sizes[MANY];
    const int count = tn__onnx_ints(c, 1, sizes, MANY);
    if (count >= 0)
        split(c, tn__onnx_int(c, 0), sizes, count);
}

/* Slices one dimension, with start and end as in Python. There are two
 * exceptions for a negative step: elements are taken from start down to the one
 * after end, and a start before the first element means the first element. */
static tn_tensor *slice_dim(tn__onnx_call *c, tn_tensor *x, int64_t axis,
                            int64_t start, int64_t end, int64_t step)
{
    const int64_t size = tn_tensor_size(x, (int)axis);
    if (step == 0) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT, "steps has a 0; expected only "
                        "other numbers");
        return NULL;
    }
    if (step > 0) {
        start = start < 0 ? start + size : start;
        end = end < 0 ? end + size : end;
        start = start < 0 ? 0 : start > size ? size : start;
        end = end < start ? start : end > size ? size : end;
        if (start == 0 && end == size && step == 1)
            return x;
        return tn_slice(x, axis, start, end, step);
    }
    start = start < 0 ? start + size : start;
    end = end < 0 ? end + size : end;
    start = start < 0 ? 0 : start;
    start = start > size - 1 ? size - 1 : start;
    end = end < -1 ? -1 : end > size - 1 ? size - 1 : end;
    /* element i of x is element size - 1 - i of the flipped tensor */
    int64_t from = size - 1 - start, to = size - 1 - end;
    to = to < from ? from : to;
    return tn_slice(tn_flip(x, tn_dims(axis)), axis, from, to,
                    step == INT64_MIN ? INT64_MAX : -step);
}

static void slice(tn__onnx_call *c, tn_dims_list starts, tn_dims_list ends,
                  tn_dims_list axes, tn_dims_list steps)
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    if (starts.count < 0 || starts.count != ends.count ||
        (axes.count >= 0 && axes.count != starts.count) ||
        (steps.count >= 0 && steps.count != starts.count)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "starts, ends, axes and steps must have equal lengths");
        return;
    }
    for (int i = 0; i < starts.count && x; i++) {
        const int axis =
            tn__onnx_axis(c, axes.count >= 0 ? axes.dim[i] : i, ndim);
        if (axis < 0)
            return;
        x = slice_dim(c, x, axis, starts.dim[i], ends.dim[i],
                      steps.count >= 0 ? steps.dim[i] : 1);
    }
    c->y[0] = x;
}
static void slice_attr(tn__onnx_call *c)
{
    tn_dims_list starts, ends, axes;
    if (tn__onnx_dims(c, 0, -1, &starts) && tn__onnx_dims(c, 1, -1, &ends) &&
        tn__onnx_dims(c, 2, -1, &axes))
        slice(c, starts, ends, axes, tn__onnx_blank(-1));
}
static void slice_input(tn__onnx_call *c)
{
    tn_dims_list starts, ends, axes, steps;
    if (tn__onnx_dims(c, -1, 1, &starts) && tn__onnx_dims(c, -1, 2, &ends) &&
        tn__onnx_dims(c, -1, 3, &axes) && tn__onnx_dims(c, -1, 4, &steps))
        slice(c, starts, ends, axes, steps);
}

/* ---- repeating ----------------------------------------------------------- */

static void expand(tn__onnx_call *c)
{
    tn_dims_list to;
    tn_tensor *x = c->x[0];
    if (!tn__onnx_dims(c, -1, 1, &to))
        return;
    /* a target size of 1 keeps the size of x, and the target may have fewer
     * dimensions */
    const int ndim = tn_tensor_ndim(x);
    tn_dims_list full = tn__onnx_blank(to.count > ndim ? to.count
                                                                 : ndim);
    for (int i = 1; i <= full.count; i++) {
        const int64_t have = i <= ndim ? tn_tensor_size(x, ndim - i) : 1;
        const int64_t want = i <= to.count ? to.dim[to.count - i] : 1;
        full.dim[full.count - i] = want == 1 ? have : want;
    }
    if (tn__onnx_may_make(c, full))
        c->y[0] = tn_expand(x, full);
}

static void tile(tn__onnx_call *c)
{
    tn_dims_list repeats, to = tn__onnx_shape(c->x[0]);
    if (!tn__onnx_dims(c, -1, 1, &repeats))
        return;
    if (repeats.count != to.count) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "repeats has %d numbers; expected %d, one for each "
                        "dimension",
                        repeats.count, to.count);
        return;
    }
    for (int i = 0; i < to.count; i++)
        if (repeats.dim[i] < 0 || __builtin_mul_overflow(
                                      to.dim[i], repeats.dim[i], &to.dim[i])) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "repeats[%d] is %lld; it must be at least 0, and "
                            "the result at most 2^63 - 1 in each dimension",
                            i, (long long)repeats.dim[i]);
            return;
        }
    if (tn__onnx_may_make(c, to))
        c->y[0] = tn_tile(c->x[0], repeats);
}

/* ---- padding ------------------------------------------------------------- */

/* Returns the element 0 <= e < size that is at position i of a padded
 * dimension. */
static int64_t source_of(int64_t i, int64_t size, const char *mode)
{
    if (strcmp(mode, "edge") == 0)
        return i < 0 ? 0 : i < size ? i : size - 1;
    /* wrap has the period size, and reflect 2 * (size - 1) */
    const bool wraps = strcmp(mode, "wrap") == 0;
    const int64_t period = wraps ? size : size > 1 ? 2 * (size - 1) : 1;
    i = i % period < 0 ? i % period + period : i % period;
    return i < size ? i : period - i;
}

/* Returns n elements of a padded dimension of x, from position `first`. */
static tn_tensor *border(tn__onnx_call *c, tn_tensor *x, int axis,
                         int64_t first, int64_t n, const char *mode)
{
    if (!tn__onnx_fits(c, n))
        return NULL;
    int64_t *index =
        n <= INT32_MAX ? malloc(((size_t)n + 1) * sizeof *index) : NULL;
    if (!index) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        index[i] = source_of(first + i, tn_tensor_size(x, axis), mode);
    tn_tensor *from = tn__onnx_from_ints(c, index, (int)n);
    free(index);
    return tn_index_select(x, axis, from);
}

/* Pads one dimension of x. Negative sizes remove elements. */
static tn_tensor *pad_dim(tn__onnx_call *c, tn_tensor *x, int axis,
                          int64_t before, int64_t after, const char *mode,
                          tn_tensor *value)
{
    const int64_t size = tn_tensor_size(x, axis);
    if (before < 0 || after < 0) {
        const int64_t from = before < 0 ? -before : 0;
        x = tn_slice(x, axis, from < size ? from : size,
                     after < 0 ? size + after : size, 1);
        before = before < 0 ? 0 : before;
        after = after < 0 ? 0 : after;
    }
    if (!before && !after)
        return x;
    const int64_t left = x ? tn_tensor_size(x, axis) : 0;
    if (strcmp(mode, "constant") == 0) {
        tn_dims_list edge = tn__onnx_shape(x);
        edge.dim[axis] = before;
        tn_tensor *first = tn_expand(value, edge);
        edge.dim[axis] = after;
        return tn_cat((tn_tensor *[]){first, x, tn_expand(value, edge)}, 3,
                      axis);
    }
    tn_tensor *part[3] = {NULL};
    int count = 0;
    if (before)
        part[count++] = border(c, x, axis, -before, before, mode);
    part[count++] = x;
    if (after)
        part[count++] = border(c, x, axis, left, after, mode);
    return tn_cat(part, count, axis);
}

static void pad(tn__onnx_call *c, const char *mode, const int64_t *pads,
                int count, tn_dims_list axes, tn_tensor *value)
{
    static const char *const known[] = {"constant", "reflect", "edge", "wrap"};
    tn_tensor *x = c->x[0];
    bool fine = false;
    for (int i = 0; i < 4; i++)
        fine = fine || strcmp(mode, known[i]) == 0;
    if (!fine) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "mode \"%.40s\" is not supported", mode);
        return;
    }
    if (axes.count < 0) {
        axes.count = tn_tensor_ndim(x);
        for (int i = 0; i < axes.count; i++)
            axes.dim[i] = i;
    }
    if (!tn__onnx_axes(c, &axes, tn_tensor_ndim(x)))
        return;
    if (count != 2 * axes.count) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "pads has %d numbers, but there are %d axes; expected "
                        "two numbers for each",
                        count, axes.count);
        return;
    }
    if (value && tn_tensor_ndim(value))
        value = tn_reshape(value, TN_SCALAR);
    if (!value)
        value = tn_zeros(TN_SCALAR, .dtype = tn_tensor_dtype(x),
                         .device = c->device);
    tn_dims_list to = tn__onnx_shape(x);
    for (int i = 0; i < axes.count; i++) {
        int64_t *at = &to.dim[axes.dim[i]];
        if (__builtin_add_overflow(*at, pads[i], at) ||
            __builtin_add_overflow(*at, pads[i + axes.count], at))
            *at = -1;
        if (tn_tensor_size(x, (int)axes.dim[i]) == 0 && *at > 0 &&
            strcmp(mode, "constant") != 0) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "dimension %lld has size 0; it can only be padded "
                            "with mode constant",
                            (long long)axes.dim[i]);
            return;
        }
    }
    if (!tn__onnx_may_make(c, to))
        return;
    for (int i = 0; i < axes.count && x; i++)
        x = pad_dim(c, x, (int)axes.dim[i], pads[i], pads[i + axes.count], mode,
                    value);
    c->y[0] = x;
}

static void pad_attr(tn__onnx_call *c)
{
    const tn__onnx_attr *pads = c->attr[1];
    const tn_dtype dtype = tn_tensor_dtype(c->x[0]);
    tn_tensor *value = tn_full(TN_SCALAR, tn__onnx_float(c, 2), .dtype = dtype,
                               .device = c->device);
    pad(c, tn__onnx_string(c, 0), pads->ints, (int)pads->count,
        tn__onnx_blank(-1), value);
}

static void pad_input(tn__onnx_call *c)
{
    tn_dims_list axes;
    int64_t pads[2 * TN_MAX_NDIM];
    const int count = tn__onnx_ints(c, 1, pads, 2 * TN_MAX_NDIM);
    if (count >= 0 && tn__onnx_dims(c, -1, 3, &axes))
        pad(c, tn__onnx_string(c, 0), pads, count, axes, tn__onnx_x(c, 2));
}

static void center_crop_pad(tn__onnx_call *c)
{
    tn_dims_list axes, to;
    tn_tensor *x = c->x[0];
    if (!tn__onnx_dims(c, 0, -1, &axes) || !tn__onnx_dims(c, -1, 1, &to))
        return;
    if (axes.count < 0) {
        axes.count = tn_tensor_ndim(x);
        for (int i = 0; i < axes.count; i++)
            axes.dim[i] = i;
    }
    if (!tn__onnx_axes(c, &axes, tn_tensor_ndim(x)))
        return;
    if (axes.count != to.count) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "shape has %d sizes, but there are %d axes", to.count,
                        axes.count);
        return;
    }
    tn_tensor *zero =
        tn_zeros(TN_SCALAR, .dtype = tn_tensor_dtype(x), .device = c->device);
    for (int i = 0; i < to.count && x; i++) {
        const int64_t size = tn_tensor_size(x, (int)axes.dim[i]);
        const int64_t more = to.dim[i] - size;
        /* if the difference is odd, the end gets the larger part */
        const int64_t cut = -more;
        if (more < 0)
            x = tn_narrow(x, axes.dim[i], cut / 2, to.dim[i]);
        else
            x = pad_dim(c, x, (int)axes.dim[i], more / 2, more - more / 2,
                        "constant", zero);
    }
    c->y[0] = x;
}

/* ---- rows ---------------------------------------------------------------- */

#define ROW(label, first, last, in_min, in_max, list, function, ...)           \
    {.name = label, .since = first, .until = last, .min_in = in_min,          \
     .max_in = in_max, .max_out = 1, .attributes = list, .run = function,     \
     __VA_ARGS__}

static const tn__onnx_op rows[] = {
    ROW("Concat", 4, 0, 1, -1, "axis:int!", concat, .sums = true),
    {.name = "Split", .since = 2, .until = 12, .min_in = 1, .max_in = 1,
     .max_out = -1, .attributes = "axis:int=0 split:ints", .run = split_attr},
    {.name = "Split", .since = 13, .until = 17, .min_in = 1, .max_in = 2,
     .max_out = -1, .attributes = "axis:int=0", .run = split_input, .host = 2},
    {.name = "Split", .since = 18, .min_in = 1, .max_in = 2, .max_out = -1,
     .attributes = "axis:int=0 num_outputs:int", .run = split_input,
     .host = 2},
    ROW("Slice", 1, 9, 1, 1, "starts:ints! ends:ints! axes:ints", slice_attr,
        .host = 0),
    ROW("Slice", 10, 0, 3, 5, "", slice_input, .host = 30),
    ROW("Expand", 8, 0, 2, 2, "", expand, .host = 2),
    ROW("Tile", 6, 0, 2, 2, "", tile, .host = 2),
    ROW("Pad", 2, 10, 1, 1, "mode:string=constant pads:ints! value:float=0",
        pad_attr, .host = 0),
    ROW("Pad", 11, 0, 2, 4, "mode:string=constant", pad_input, .host = 10),
    ROW("CenterCropPad", 18, 0, 2, 2, "axes:ints", center_crop_pad, .host = 2,
        .grows = true),
};
const tn__onnx_family tn__onnx_slice = TN__ONNX_FAMILY(rows);
