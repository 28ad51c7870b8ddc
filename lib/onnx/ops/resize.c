/* resize.c: Resize and Upsample. Each dimension is resized in turn. An element
 * of the result is a weighted sum of a few elements of the input, called taps.
 * The host computes the index and weight of each tap. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct resize {
    tn__onnx_call *c;
    const char *where;     /* coordinate_transformation_mode */
    const char *mode;      /* nearest, linear or cubic */
    const char *rounding;  /* nearest_mode */
    double cubic_a, extrapolation;
    bool antialias, exclude_outside;
} resize;

/* ---- coordinates --------------------------------------------------------- */

/* Computes the position in the input of element i of the result. The dimension
 * is scaled from `in` to `out` elements. `from` and `to` are the region for
 * tf_crop_and_resize. */
static bool coordinate(const resize *r, int64_t i, int64_t in, int64_t out,
                       double scale, double from, double to, double *x)
{
    const double width = scale * (double)in; /* size of the result before
                                                rounding */
    const double half = ((double)i + 0.5) / scale - 0.5;
    if (strcmp(r->where, "half_pixel") == 0) {
        *x = half;
    } else if (strcmp(r->where, "half_pixel_symmetric") == 0) {
        const double adjust = (double)out / width;
        *x = (double)in / 2 * (1 - adjust) + half;
    } else if (strcmp(r->where, "pytorch_half_pixel") == 0) {
        *x = out > 1 ? half : 0;
    } else if (strcmp(r->where, "align_corners") == 0) {
        *x = width == 1 || out == 1
                 ? 0
                 : (double)i * (double)(in - 1) / (width - 1);
    } else if (strcmp(r->where, "asymmetric") == 0) {
        *x = (double)i / scale;
    } else if (strcmp(r->where, "tf_crop_and_resize") == 0) {
        *x = from * (double)(in - 1) +
             (out > 1 ? (double)i * (to - from) * (double)(in - 1) /
                            (double)(out - 1)
                      : 0.5 * (to - from) * (double)(in - 1));
    } else {
        tn__onnx_refuse(r->c, TN_ERR_UNSUPPORTED,
                        "coordinate_transformation_mode \"%.40s\" is not "
                        "supported",
                        r->where);
        return false;
    }
    return true;
}

static int64_t nearest(const resize *r, double x, double scale)
{
    if (strcmp(r->rounding, "simple") == 0) /* of opset 10 */
        return (int64_t)(scale < 1 ? ceil(x) : floor(x));
    if (strcmp(r->rounding, "round_prefer_floor") == 0)
        return (int64_t)ceil(x - 0.5);
    if (strcmp(r->rounding, "round_prefer_ceil") == 0)
        return (int64_t)floor(x + 0.5);
    return (int64_t)(strcmp(r->rounding, "ceil") == 0 ? ceil(x) : floor(x));
}

/* Returns the weight of the cubic filter at distance x. Source: R. Keys,
 * 1981. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * a * x - 4 * a : 0;
}

/* ---- one dimension ------------------------------------------------------- */

/* Tap t of element i of the result has index[t * out + i] and weight[t * out +
 * i]. */
typedef struct taps {
    int64_t count, out;
    int64_t *index;
    double *weight;
    bool *outside; /* elements outside the input; NULL if there are none */
} taps;

static void taps_free(taps *t)
{
    free(t->index);
    free(t->weight);
    free(t->outside);
}

static bool taps_init(const resize *r, taps *t, int64_t in, int64_t out,
                      double scale, double from, double to)
{
    const bool is_nearest = strcmp(r->mode, "nearest") == 0,
               is_cubic = strcmp(r->mode, "cubic") == 0;
    /* antialiasing widens the filter if the image shrinks */
    const double narrow = r->antialias && scale < 1 ? scale : 1;
    const int64_t reach = is_cubic ? 2 : 1;
    const int64_t first =
        is_nearest ? 0 : (int64_t)floor(-(double)reach / narrow) + 1;
    *t = (taps){.count = is_nearest ? 1 : 2 - 2 * first, .out = out};
    if (is_cubic && narrow == 1)
        t->count = 4;
    if (t->count > 1 << 16 || t->count * out > 1 << 28) {
        tn__onnx_refuse(r->c, TN_ERR_SHAPE,
                        "the filter has %lld elements, which is too many: the "
                        "scale is too small",
                        (long long)t->count);
        return false;
    }
    if (!tn__onnx_fits(r->c, 2 * t->count * out))
        return false;
    const size_t n = (size_t)(t->count * out) + 1;
    t->index = malloc(n * sizeof *t->index);
    t->weight = malloc(n * sizeof *t->weight);
    t->outside = calloc((size_t)out + 1, 1);
    if (!t->index || !t->weight || !t->outside) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return false;
    }
    const bool crops = strcmp(r->where, "tf_crop_and_resize") == 0;
    for (int64_t i = 0; i < out; i++) {
        double x, sum = 0;
        if (!coordinate(r, i, in, out, scale, from, to, &x))
            return false;
        t->outside[i] = crops && (x < 0 || x > (double)(in - 1));
        /* scales of 0 and NaN give positions that do not fit in int64 */
        x = x > -1e9 ? x < 1e9 ? x : 1e9 : -1e9;
        const int64_t base = is_nearest ? nearest(r, x, scale) : (int64_t)floor(x);
        const double ratio = x - (double)base;
        for (int64_t k = 0; k < t->count; k++) {
            int64_t at = base + first + k;
            const double d = ((double)(first + k) - ratio) * narrow;
            double w = is_nearest ? 1
                       : is_cubic ? cubic(d, r->cubic_a)
                                  : fmax(0, 1 - fabs(d));
            if (r->exclude_outside && (at < 0 || at >= in))
                w = 0;
            at = at < 0 ? 0 : at >= in ? in - 1 : at;
            t->index[k * out + i] = at;
            t->weight[k * out + i] = w;
            sum += w;
        }
        for (int64_t k = 0; k < t->count; k++)
            t->weight[k * out + i] /= sum;
    }
    return true;
}

static tn_tensor *upload(tn__onnx_call *c, const void *data, tn_dtype dtype,
                         int64_t count)
{
    tn_tensor *x = tn_tensor_from_array(data, dtype, tn_dims(count));
    return x && tn_tensor_device(x) != c->device ? tn_to(x, c->device) : x;
}

static tn_tensor *resize_dim(const resize *r, tn_tensor *x, int axis,
                             int64_t out, double scale, double from, double to)
{
    taps t;
    const int ndim = tn_tensor_ndim(x);
    tn_dims_list along = tn__onnx_blank(ndim);
    for (int i = 0; i < ndim; i++)
        along.dim[i] = i == axis ? out : 1;
    tn_tensor *y = NULL;
    const bool fine =
        taps_init(r, &t, tn_tensor_size(x, axis), out, scale, from, to);
    for (int64_t k = 0; k < t.count && fine; k++) {
        tn_tensor *part = tn_index_select(
            x, axis, upload(r->c, t.index + k * out, TN_I64, out));
        if (t.count > 1)
            part = tn_mul(
                part,
                tn_reshape(tn_to_dtype(upload(r->c, t.weight + k * out, TN_F64,
                                              out),
                                       tn_tensor_dtype(x)),
                           along));
        y = y ? tn_add(y, part) : part;
    }
    bool any = false;
    for (int64_t i = 0; i < out && fine; i++)
        any = any || t.outside[i];
    if (any) {
        tn_tensor *outside =
            tn_reshape(upload(r->c, t.outside, TN_BOOL, out), along);
        y = tn_where(outside,
                     tn_full(TN_SCALAR, r->extrapolation,
                             .dtype = tn_tensor_dtype(x),
                             .device = r->c->device),
                     y);
    }
    taps_free(&t);
    return y;
}

/* Resizes the dimensions `axes` to `size`. region has the first and last
 * position in each dimension, or is NULL. */
static void resize_all(resize *r, tn_dims_list axes, const int64_t *size,
                       const double *scale, const double *region)
{
    tn__onnx_call *c = r->c;
    tn_tensor *x = c->x[0];
    const tn_dtype dtype = tn_tensor_dtype(x);
    const bool is_nearest = strcmp(r->mode, "nearest") == 0;
    tn_dims_list to = tn__onnx_shape(x);
    if (!is_nearest && strcmp(r->mode, "linear") != 0 &&
        strcmp(r->mode, "cubic") != 0) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "mode \"%.40s\" is not supported", r->mode);
        return;
    }
    for (int i = 0; i < axes.count; i++) {
        const int64_t in = to.dim[axes.dim[i]];
        if (size[i] < 0 || size[i] > INT32_MAX || (in == 0 && size[i] > 0)) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "dimension %lld cannot be resized from %lld to "
                            "%lld elements",
                            (long long)axes.dim[i], (long long)in,
                            (long long)size[i]);
            return;
        }
        to.dim[axes.dim[i]] = size[i];
    }
    if (!tn__onnx_may_make(c, to))
        return;
    if (!is_nearest && !tn_dtype_is_floating(dtype))
        x = tn_to_dtype(x, TN_F32);
    const bool crops = strcmp(r->where, "tf_crop_and_resize") == 0;
    for (int i = 0; i < axes.count && x; i++) {
        const int axis = (int)axes.dim[i];
        if (size[i] == tn_tensor_size(x, axis) && scale[i] == 1 && !crops)
            continue;
        x = resize_dim(r, x, axis, size[i], scale[i],
                       region ? region[i] : 0,
                       region ? region[i + axes.count] : 1);
    }
    if (tn_tensor_dtype(x) != dtype)
        x = tn_to_dtype(tn_round(x), dtype);
    c->y[0] = x;
}

/* ---- the operators ------------------------------------------------------- */

static tn_dims_list all_axes(const tn_tensor *x)
{
    tn_dims_list axes = tn__onnx_blank(tn_tensor_ndim(x));
    for (int i = 0; i < axes.count; i++)
        axes.dim[i] = i;
    return axes;
}

/* Resizes by scales; computes the sizes from them. */
static void by_scales(resize *r, tn_dims_list axes, const double *scale,
                      int count, const double *region)
{
    const tn_tensor *x = r->c->x[0];
    int64_t size[TN_MAX_NDIM];
    if (count != axes.count) {
        tn__onnx_refuse(r->c, TN_ERR_SHAPE,
                        "scales has %d numbers; expected %d, one for each "
                        "resized dimension",
                        count, axes.count);
        return;
    }
    for (int i = 0; i < count; i++) {
        const double wide =
            (double)tn_tensor_size(x, (int)axes.dim[i]) * scale[i];
        size[i] = wide >= 0 && wide < 1e15 ? (int64_t)floor(wide + 1e-9) : -1;
        if (!(scale[i] > 0))
            size[i] = -1;
    }
    resize_all(r, axes, size, scale, region);
}

static void resize_run(tn__onnx_call *c)
{
    enum { MODE, WHERE, ROUNDING, CUBIC_A, EXCLUDE, EXTRAPOLATION, ANTIALIAS,
           AXES, POLICY };
    const bool is_new = c->node->row->since >= 18;
    resize r = {.c = c, .mode = tn__onnx_string(c, MODE),
                .where = tn__onnx_string(c, WHERE),
                .rounding = tn__onnx_string(c, ROUNDING),
                .cubic_a = tn__onnx_float(c, CUBIC_A),
                .exclude_outside = tn__onnx_int(c, EXCLUDE) != 0,
                .extrapolation = tn__onnx_float(c, EXTRAPOLATION),
                .antialias = is_new && tn__onnx_int(c, ANTIALIAS)};
    tn_tensor *x = c->x[0];
    tn_dims_list axes = tn_dims_from_array(NULL, -1);
    double region[2 * TN_MAX_NDIM], scale[TN_MAX_NDIM];
    int64_t size[TN_MAX_NDIM];
    if (is_new && !tn__onnx_dims(c, AXES, -1, &axes))
        return;
    if (axes.count < 0)
        axes = all_axes(x);
    if (!tn__onnx_axes(c, &axes, tn_tensor_ndim(x)))
        return;
    const int regions = tn__onnx_floats(c, 1, region, 2 * TN_MAX_NDIM),
              scales = tn__onnx_floats(c, 2, scale, TN_MAX_NDIM),
              sizes = tn__onnx_ints(c, 3, size, TN_MAX_NDIM);
    if (regions < 0 || scales < 0 || sizes < 0)
        return;
    const double *where = regions == 2 * axes.count ? region : NULL;
    if (scales) {
        by_scales(&r, axes, scale, scales, where);
        return;
    }
    if (sizes != axes.count) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "sizes has %d numbers; expected %d, one for each "
                        "resized dimension",
                        sizes, axes.count);
        return;
    }
    double least = INFINITY, most = 0;
    for (int i = 0; i < sizes; i++) {
        scale[i] =
            (double)size[i] / (double)tn_tensor_size(x, (int)axes.dim[i]);
        least = fmin(least, scale[i]);
        most = fmax(most, scale[i]);
    }
    const char *policy = is_new ? tn__onnx_string(c, POLICY) : "stretch";
    for (int i = 0; i < sizes && strcmp(policy, "stretch") != 0; i++) {
        scale[i] = strcmp(policy, "not_larger") == 0 ? least : most;
        size[i] = (int64_t)floor(
            scale[i] * (double)tn_tensor_size(x, (int)axes.dim[i]) + 0.5);
    }
    resize_all(&r, axes, size, scale, where);
}

/* Until opset 10: output element i is input element floor(i / scale), or
 * between two elements. If the input shrinks, it is element ceil(i / scale). */
static resize old_resize(tn__onnx_call *c)
{
    const char *mode = tn__onnx_string(c, 0);
    return (resize){.c = c, .where = "asymmetric", .rounding = "simple",
                    .mode = strcmp(mode, "bilinear") == 0 ? "linear" : mode};
}
static void resize_10(tn__onnx_call *c)
{
    resize r = old_resize(c);
    double scale[TN_MAX_NDIM];
    const int count = tn__onnx_floats(c, 1, scale, TN_MAX_NDIM);
    if (count >= 0)
        by_scales(&r, all_axes(c->x[0]), scale, count, NULL);
}
static void upsample_7(tn__onnx_call *c)
{
    resize r = old_resize(c);
    const tn__onnx_attr *a = c->attr[1];
    double scale[TN_MAX_NDIM];
    for (int i = 0; i < a->count && i < TN_MAX_NDIM; i++)
        scale[i] = (double)a->floats[i];
    by_scales(&r, all_axes(c->x[0]), scale,
              a->count > TN_MAX_NDIM ? -1 : (int)a->count, NULL);
}

#define RESIZE "mode:string=nearest "                                          \
               "coordinate_transformation_mode:string=half_pixel "             \
               "nearest_mode:string=round_prefer_floor "                       \
               "cubic_coeff_a:float=-0.75 exclude_outside:int=0 "              \
               "extrapolation_value:float=0"
static const tn__onnx_op rows[] = {
    {.name = "Upsample", .since = 7, .until = 8, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "mode:string=nearest scales:floats!",
     .run = upsample_7},
    {.name = "Upsample", .since = 9, .until = 9, .min_in = 2, .max_in = 2,
     .max_out = 1, .attributes = "mode:string=nearest", .run = resize_10,
     .host = 2},
    {.name = "Resize", .since = 10, .until = 10, .min_in = 2, .max_in = 2,
     .max_out = 1, .attributes = "mode:string=nearest", .run = resize_10,
     .host = 2},
    {.name = "Resize", .since = 11, .until = 17, .min_in = 1, .max_in = 4,
     .max_out = 1, .attributes = RESIZE, .run = resize_run, .host = 14},
    {.name = "Resize", .since = 18, .min_in = 1, .max_in = 4, .max_out = 1,
     .attributes = RESIZE " antialias:int=0 axes:ints "
                   "keep_aspect_ratio_policy:string=stretch",
     .run = resize_run, .host = 14},
};
const tn__onnx_family tn__onnx_resize = TN__ONNX_FAMILY(rows);
