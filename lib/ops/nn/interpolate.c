/* interpolate.c: resizes the last dimensions of a tensor, one after the other
 * (PyTorch's interpolate and upsample). Positions and weights are those of
 * PyTorch (aten/src/ATen/native/UpSample.h). For each dimension a table lists
 * the taps of each output element: the input elements that it is computed from,
 * and their weights (window_taps.h). */
#include <math.h>
#include <ops/nn/window_taps.h>

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA };

typedef struct stretch {
    int mode;
    bool align_corners, antialias;
    double factor; /* the scale factor as given, or 0 if it follows from the
                      sizes */
} stretch;

/* Returns the distance between the positions of two adjacent output elements,
 * in input elements. */
static double step_of(const stretch *s, int64_t in, int64_t out)
{
    bool aligned = s->align_corners && s->mode != NEAREST &&
                   s->mode != NEAREST_EXACT;
    if (aligned)
        return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    return s->factor > 0 ? 1 / s->factor : (double)in / (double)out;
}

/* Sets the tap of each output element to the nearest input element. Which
 * element is nearest depends on float rounding, so the positions are computed
 * in float as in PyTorch. */
static tn_status fill_nearest(const stretch *s, tn__taps *taps)
{
    float step = (float)step_of(s, taps->in, taps->out);
    for (int64_t i = 0; i < taps->out; i++) {
        float at = s->mode == NEAREST ? (float)i * step
                                      : ((float)i + 0.5f) * step;
        int64_t from = (int64_t)floorf(at);
        tn__taps_set(taps, i, 0, from < taps->in ? from : taps->in - 1, 1);
    }
    return TN_OK;
}

static double place(const stretch *s, double step, int64_t i)
{
    return s->align_corners ? step * (double)i
                            : step * ((double)i + 0.5) - 0.5;
}

static tn_status fill_linear(const stretch *s, tn__taps *taps)
{
    double step = step_of(s, taps->in, taps->out);
    for (int64_t i = 0; i < taps->out; i++) {
        double at = fmax(place(s, step, i), 0);
        int64_t from = (int64_t)at;
        if (from > taps->in - 1)
            from = taps->in - 1;
        double part = fmin(at - (double)from, 1);
        tn__taps_set(taps, i, 0, from, 1 - part);
        tn__taps_set(taps, i, 1, from + (from < taps->in - 1), part);
    }
    return TN_OK;
}

/* Returns the weight of cubic interpolation for an element at distance x: Keys,
 * "Cubic convolution interpolation" (1981). The parameter a is -0.75 in
 * PyTorch, and -0.5 with antialias. */
static double cubic(double x, double a)
{
    x = fabs(x);
    return x < 1   ? ((a + 2) * x - (a + 3)) * x * x + 1
           : x < 2 ? (((x - 5) * x + 8) * x - 4) * a
                   : 0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static tn_status fill_cubic(const stretch *s, tn__taps *taps)
{
    double step = step_of(s, taps->in, taps->out);
    for (int64_t i = 0; i < taps->out; i++) {
        double at = place(s, step, i), whole = floor(at);
        for (int t = 0; t < 4; t++) {
            int64_t from = (int64_t)whole - 1 + t;
            from = from < 0 ? 0 : from >= taps->in ? taps->in - 1 : from;
            tn__taps_set(taps, i, t, from,
                         cubic(at - whole + 1 - (double)t, -0.75));
        }
    }
    return TN_OK;
}

/* Returns half the width of the antialiasing filter, in input elements. If the
 * output is smaller than the input, the filter is widened by the factor `step`.
 * This is the method of Pillow, which PyTorch uses. */
static double filter_width(const stretch *s, double step)
{
    double half = s->mode == CUBIC ? 2 : 1;
    return step >= 1 ? half * step : half;
}

static tn_status fill_antialiased(const stretch *s, tn__taps *taps)
{
    double step = step_of(s, taps->in, taps->out);
    double width = filter_width(s, step), shrink = step >= 1 ? 1 / step : 1;
    for (int64_t i = 0; i < taps->out; i++) {
        double centre = step * ((double)i + 0.5), total = 0;
        int64_t from = (int64_t)fmax(centre - width + 0.5, 0);
        int64_t end = (int64_t)fmin(centre + width + 0.5, (double)taps->in);
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = from; k < end; k++) {
                double x = ((double)k - centre + 0.5) * shrink;
                double w = s->mode == CUBIC ? cubic(x, -0.5) : triangle(x);
                if (pass == 0)
                    total += w;
                else
                    tn__taps_set(taps, i, (int)(k - from), k, w / total);
            }
    }
    return TN_OK;
}

/* Converts the weights to integers for uint8 images, and returns the number of
 * bits by which the sums must be shifted right. The integers are the weights
 * times a power of 2, which is chosen so that the largest integer has 15 bits.
 * The results are rounded to bytes after each dimension. Pillow uses the same
 * power of 2 and the same rounding. An input that occurs twice among the taps
 * of an output gets a single weight. */
static int make_whole(tn__taps *taps)
{
    double most = 0;
    for (int64_t i = 0; i < taps->out; i++) {
        int64_t *index = &taps->index[i * taps->reach];
        double *weight = &taps->weight[i * taps->reach];
        for (int t = 1; t < taps->reach; t++)
            for (int u = 0; u < t; u++)
                if (index[u] == index[t]) {
                    weight[u] += weight[t];
                    weight[t] = 0;
                }
        for (int t = 0; t < taps->reach; t++)
            most = fmax(most, weight[t]);
    }
    int bits = 0;
    while (bits < 22 && 0.5 + ldexp(most, bits + 1) < 0x1p15)
        bits++;
    for (int64_t k = 0; k < taps->out * taps->reach; k++)
        taps->weight[k] = round(ldexp(taps->weight[k], bits));
    return bits;
}

/* Converts sums of bytes with integer weights to bytes: sum / 2^bits, rounded
 * and clamped. */
static tn_tensor *to_bytes(tn_tensor *sum, int bits)
{
    tn_tensor *y = tn_mul_scalar(tn_add_scalar(sum, ldexp(0.5, bits)),
                                 ldexp(1, -bits));
    return tn_clamp_scalars(tn_floor(y), 0, 255);
}

/* Resizes dimension dim of x to size `out`. If `whole` is true, x has the
 * values of a uint8 image in float64, for which the weights are integers. */
static tn_tensor *stretch_dim(const stretch *s, tn_tensor *x, int dim,
                              int64_t out, bool whole)
{
    int64_t in = x->shape[dim];
    tn__taps taps = {0};
    double width = filter_width(s, step_of(s, in, out));
    double most = fmin(ceil(width) * 2 + 1, (double)in);
    int64_t reach = s->antialias        ? (int64_t)fmax(most, 1)
                    : s->mode == LINEAR ? 2
                    : s->mode == CUBIC  ? 4
                                        : 1;
    tn_status status = tn__taps_check_memory(x, dim, out);
    if (status >= 0)
        status = tn__taps_new(&taps, in, out, reach);
    if (status >= 0)
        status = s->antialias        ? fill_antialiased(s, &taps)
                 : s->mode == LINEAR ? fill_linear(s, &taps)
                 : s->mode == CUBIC  ? fill_cubic(s, &taps)
                                     : fill_nearest(s, &taps);
    int bits = whole && status >= 0 ? make_whole(&taps) : 0;
    tn_tensor *y = status >= 0 ? tn__taps_sum(x, dim, &taps) : NULL;
    tn__taps_free(&taps);
    return whole ? to_bytes(y, bits) : y;
}

/* ---- reading the arguments ----------------------------------------------- */

static const struct {
    const char *name;
    int ndim; /* the number of dimensions that the input must have. 0 means 3, 4
                 or 5. */
    int mode;
} modes[] = {{"nearest", 0, NEAREST},      {"nearest-exact", 0, NEAREST_EXACT},
             {"linear", 3, LINEAR},        {"bilinear", 4, LINEAR},
             {"trilinear", 5, LINEAR},     {"bicubic", 4, CUBIC},
             {"area", 0, AREA}};

static tn_status find_mode(const tn__call *call, const tn_tensor *x,
                           const char *text, stretch *s)
{
    const char *name = call->op->name;
    char shape[TN__SHAPE_TEXT];
    size_t k = 0;
    /* The operator's line `bounds` has checked that the mode exists. */
    while (strcmp(modes[k].name, text) != 0)
        k++;
    s->mode = modes[k].mode;
    int ndim = modes[k].ndim;
    if (ndim ? x->ndim != ndim : x->ndim < 3 || x->ndim > 5)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s; for {mode} "
                        "\"%s\" it must be (N, C, ...) with %s dimensions",
                        name, tn__shape_text(shape, x->ndim, x->shape), text,
                        ndim == 3   ? "3"
                        : ndim == 4 ? "4"
                        : ndim == 5 ? "5"
                                    : "3 to 5");
    bool images = modes[k].mode == NEAREST || modes[k].mode == NEAREST_EXACT ||
                  modes[k].ndim == 4;
    if (!tn_dtype_is_floating(x->dtype) && !(x->dtype == TN_U8 && images))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype%s; convert it with tn_to_dtype",
                        name,
                        tn_dtype_name(x->dtype),
                        images ? " and uint8" : "");
    return TN_OK;
}

static double factor_of(const tn__call *call, int arg)
{
    return tn__call_has(call, arg) ? tn__call_float(call, arg) : 0;
}

/* Sets *size to the sizes of the output: those in argument arg, where one
 * number applies to all dimensions, or scale_factor times the sizes of the
 * input. */
static tn_status find_sizes(const tn__call *call, const tn_tensor *x, int arg,
                            int factor_arg, tn_dims_list *size)
{
    bool scaled = tn__call_has(call, factor_arg);
    double factor = factor_of(call, factor_arg);
    const char *name = call->op->name;
    const tn_dims_list *given =
        tn__call_has(call, arg) ? call->value[arg].of.dims : NULL;
    if (given && given->count == 0)
        given = NULL;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    size->count = x->ndim - 2;
    if (!given && !scaled)
        return tn__fail(TN_ERR_ARGUMENT, "%s: neither {size} nor "
                        "{scale_factor} is given: give one of them", name);
    if (given && given->count != 1 && given->count != size->count)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {size} is %s for {input} %s; "
                        "expected one number, or %d, one for each dimension "
                        "after the first two", name,
                        tn__shape_text(a, given->count, given->dim),
                        tn__shape_text(b, x->ndim, x->shape), size->count);
    for (int d = 0; d < size->count; d++) {
        double made = floor((double)x->shape[2 + d] * factor);
        size->dim[d] = given ? given->dim[given->count > 1 ? d : 0]
                       : made >= 0 && made < 0x1p40 ? (int64_t)made
                                                    : 0;
        if (size->dim[d] < 1 || x->shape[2 + d] < 1)
            return tn__fail(TN_ERR_SHAPE, "%s: {%s:}a dimension of %lld "
                            "elements cannot be resized to %lld; expected at "
                            "least 1 for both", name,
                            given ? "size" : "scale_factor",
                            (long long)x->shape[2 + d],
                            (long long)size->dim[d]);
    }
    return TN_OK;
}

static tn_tensor *stretched(tn_tensor *x, const stretch *s,
                            const tn_dims_list *size)
{
    if (s->mode == AREA)
        return size->count == 1   ? tn_adaptive_avg_pool1d(x, *size)
               : size->count == 2 ? tn_adaptive_avg_pool2d(x, *size)
                                  : tn_adaptive_avg_pool3d(x, *size);
    tn_dtype dtype = x->dtype;
    bool bytes = dtype == TN_U8;
    bool half = tn_dtype_bytes(dtype) < 4; /* half types are rounded once, at
                                              the end */
    if (half)
        x = tn_to_dtype(x, bytes ? TN_F64 : TN_F32);
    for (int d = size->count - 1; d >= 0 && x; d--)
        x = stretch_dim(s, x, 2 + d, size->dim[d],
                        bytes && (s->mode == LINEAR || s->mode == CUBIC));
    return x && half ? tn_to_dtype(x, dtype) : x;
}

tn_status tn__run_interpolate(tn__call *call)
{
    enum {
        size = TN__ARG_INTERPOLATE_SIZE,
        scale_factor = TN__ARG_INTERPOLATE_SCALE_FACTOR,
        mode = TN__ARG_INTERPOLATE_MODE,
        align_corners = TN__ARG_INTERPOLATE_ALIGN_CORNERS,
        recompute = TN__ARG_INTERPOLATE_RECOMPUTE_SCALE_FACTOR,
        antialias = TN__ARG_INTERPOLATE_ANTIALIAS
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INTERPOLATE_INPUT);
    double factor = factor_of(call, scale_factor);
    stretch s = {.align_corners = tn__call_int(call, align_corners),
                 .antialias = tn__call_int(call, antialias),
                 .factor = tn__call_int(call, recompute) ? 0 : factor};
    tn_dims_list sizes;
    tn_status status = find_mode(call, x, call->value[mode].of.string, &s);
    if (status >= 0)
        status = find_sizes(call, x, size, scale_factor, &sizes);
    return status < 0 ? status : tn__give(call, stretched(x, &s, &sizes));
}

static tn_status upsample(tn__call *call, const char *mode, stretch s)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UPSAMPLE_NEAREST_INPUT);
    s.factor = factor_of(call, TN__ARG_UPSAMPLE_NEAREST_SCALE_FACTOR);
    tn_dims_list sizes;
    tn_status status = find_mode(call, x, mode, &s);
    if (status >= 0)
        status = find_sizes(call, x, TN__ARG_UPSAMPLE_NEAREST_SIZE,
                            TN__ARG_UPSAMPLE_NEAREST_SCALE_FACTOR, &sizes);
    return status < 0 ? status : tn__give(call, stretched(x, &s, &sizes));
}

tn_status tn__run_upsample_nearest(tn__call *call)
{
    return upsample(call, "nearest", (stretch){0});
}

tn_status tn__run_upsample_bilinear(tn__call *call)
{
    return upsample(call, "bilinear", (stretch){.align_corners = true});
}
