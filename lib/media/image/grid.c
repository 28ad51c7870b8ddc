/* grid.c: a batch of images as one image. */
#include <media/image/image_tensor.h>

#include <math.h>
#include <string.h>
#include <tenon/image.h>
#include <tenon/ops.h>

/* Fills *in with the batch, on the device of images. */
static bool open_batch(tn__pixels *in, const tn_tensor *batch, const char *call)
{
    const tn_given given[] = {{"batch", batch}};
    if (!tn_object_check_kind(batch, "tensor", call, "batch"))
        return false;
    if (tn_tensor_ndim(batch) != 4 || !tn_tensor_numel(batch)) {
        tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                        "batch has %d dimensions; expected (N, C, H, W) with "
                        "at least one pixel",
                        tn_tensor_ndim(batch));
        return false;
    }
    const bool pending = tn_error() != NULL;
    /* None of these calls changes the object. */
    tn_tensor *x = tn_detach((tn_tensor *)batch);
    tn_device *device = tn__image_device();
    if (!x || !device || !(x = tn_to(x, device)) ||
        !tn__pixels_open(in, x, call, false)) {
        if (!pending)
            tn_error_rename("to", call, "batch");
        return false;
    }
    return true;
}

static bool check(const tn_image_grid_options *o, const tn__pixels *in,
                  const char *call)
{
    const double most = (double)(1 << 20);
    return tn__check_range(call, "columns", (double)o->columns, 1, 0x1p53) &&
           tn__check_range(call, "padding", (double)o->padding, 0, most) &&
           tn__check_range(call, "pad_value", o->pad_value,
                           in->dtype == TN_U8 ? 0 : -3.4e38,
                           in->dtype == TN_U8 ? 255 : 3.4e38);
}

/* Normalises `count` float elements from low .. high to 0 .. 1. */
static void normalize(float *x, int64_t count, const tn_image_grid_options *o)
{
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    low = tn_is_none_float(o->low) ? low : (float)o->low;
    high = tn_is_none_float(o->high) ? high : (float)o->high;
    const float range = high - low > 1e-5f ? high - low : 1e-5f;
    for (int64_t i = 0; i < count; i++) {
        const float v = x[i] < low ? low : x[i] > high ? high : x[i];
        x[i] = (v - low) / range;
    }
}

/* Returns the batch with values normalised, in a copy. */
static bool normalized(tn__pixels *in, const tn_image_grid_options *o,
                       const char *call)
{
    const int64_t image = in->c * in->h * in->w;
    tn__pixels copy;
    if (in->dtype != TN_F32) {
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "normalize",
                                 ".normalize needs float32, but batch is "
                                 "uint8: use tn_image_to_float");
        return false;
    }
    tn_tensor *x = tn__pixels_copy(in);
    if (!x || !tn__pixels_open(&copy, x, call, false))
        return false;
    if (o->each)
        for (int64_t i = 0; i < in->n; i++)
            normalize((float *)copy.data + i * image, image, o);
    else
        normalize(copy.data, in->n * image, o);
    *in = copy;
    return true;
}

static void put_value(const tn__pixels *out, double value)
{
    const int64_t count = out->c * out->h * out->w;
    for (int64_t i = 0; i < count; i++) {
        if (out->dtype == TN_U8)
            ((uint8_t *)out->data)[i] = (uint8_t)value;
        else
            ((float *)out->data)[i] = (float)value;
    }
}

static void put_image(const tn__pixels *in, const tn__pixels *out, int64_t i,
                      int64_t top, int64_t left)
{
    const size_t row = (size_t)in->w * in->bytes;
    for (int64_t c = 0; c < out->c; c++)
        for (int64_t y = 0; y < in->h; y++)
            memcpy(tn__plane_out(out, c) +
                       (size_t)((top + y) * out->w + left) * in->bytes,
                   tn__plane(in, i * in->c + (in->c == 1 ? 0 : c)) +
                       (size_t)y * row,
                   row);
}

static tn_tensor *make(tn__pixels *in, const tn_image_grid_options *o,
                       const char *call)
{
    const int64_t columns = o->columns < in->n ? o->columns : in->n;
    const int64_t rows = (in->n + columns - 1) / columns, p = o->padding;
    int64_t h, w;
    if (__builtin_mul_overflow(rows, in->h + p, &h) ||
        __builtin_mul_overflow(columns, in->w + p, &w))
        h = w = INT64_MAX - p;
    if (!tn__check_sides(call, h + p, w + p))
        return NULL;
    const tn__pixels like = {.tensor = in->tensor, .ndim = 3, .n = 1};
    tn__pixels out;
    if (!tn__pixels_new(&out, &like, in->c == 1 ? 3 : in->c, h + p, w + p,
                        in->dtype))
        return NULL;
    put_value(&out, o->pad_value);
    for (int64_t i = 0; i < in->n; i++)
        put_image(in, &out, i, p + i / columns * (in->h + p),
                  p + i % columns * (in->w + p));
    return out.tensor;
}

TN_OPTIONS_TYPE(tn_image_grid, "image_grid", "batch",
                TN_IMAGE_GRID_OPTIONS_LIST)
tn_tensor *tn_image_grid_with(const tn_tensor *batch,
                              const tn_image_grid_options *options)
{
    const char *call = "image_grid";
    tn_image_grid_options o;
    if (tn_options_take(tn_image_grid_type(), &o, options) < 0)
        return NULL;
    const tn_option_need need[] = {
        {"low", o.normalize, "without normalize", "give normalize"},
        {"high", o.normalize, "without normalize", "give normalize"},
        {"each", o.normalize, "without normalize", "give normalize"}};
    if (tn_options_check_needs(tn_image_grid_type(), &o, need, 3) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *grid = NULL;
    tn__pixels in;
    if (scope && open_batch(&in, batch, call) && check(&o, &in, call) &&
        (!o.normalize || normalized(&in, &o, call)))
        grid = make(&in, &o, call);
    return tn_scope_result(scope, grid);
}
