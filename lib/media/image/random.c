/* random.c: random transforms: each draws numbers and calls the transform. */
#include <base/nearest.h>
#include <media/image/image_tensor.h>

#include <math.h>
#include <string.h>
#include <tenon/random.h>
#include <tenon/transform.h>

/* ---- numbers ------------------------------------------------------------ */

/* The numbers of one call. They depend only on the seed, and on the number of
 * calls of the thread's generator before. */
typedef struct draw {
    uint64_t state;
} draw;

/* Returns the next random number: a step of SplitMix64 (Steele, Lea, Flood:
 * "Fast splittable pseudorandom number generators", 2014). */
static uint64_t next(draw *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Takes the next number of the thread's sequence. */
static draw begin_draw(void)
{
    tn_rng_state rng = tn_rng_snapshot();
    draw seed = {rng.seed}, call = {rng.call};
    draw d = {next(&seed) ^ next(&call) * 0xd1342543de82ef95};
    rng.call++;
    tn_rng_restore(rng);
    return d;
}

/* Returns a number in [low, high]. */
static double uniform(draw *d, double low, double high)
{
    return low + (high - low) * ((double)(next(d) >> 11) * 0x1p-53);
}

/* Returns 0 .. count - 1. */
static int64_t below(draw *d, int64_t count)
{
    return (int64_t)((double)(next(d) >> 11) * 0x1p-53 * (double)count);
}

/* ---- flips, crops ------------------------------------------------------- */

typedef tn_tensor *flip_function(tn_tensor *image);

static tn_tensor *maybe_flip(tn_tensor *image, flip_function *flip,
                             const char *from, const char *call)
{
    tn__pixels in;
    draw d = begin_draw();
    const bool flips = next(&d) >> 63;
    if (!tn__pixels_open(&in, image, call, true))
        return NULL;
    const bool pending = tn_error() != NULL;
    tn_tensor *out = flips ? flip(image) : tn__pixels_copy(&in);
    if (!out && !pending)
        tn_error_rename(from, call, NULL);
    return out;
}

tn_tensor *tn_image_random_flip(tn_tensor *image)
{
    return maybe_flip(image, tn_image_flip, "image_flip", "image_random_flip");
}

tn_tensor *tn_image_random_flip_vertical(tn_tensor *image)
{
    return maybe_flip(image, tn_image_flip_vertical, "image_flip_vertical",
                      "image_random_flip_vertical");
}

TN_OPTIONS_TYPE(tn_image_random_crop, "image_random_crop",
                "image, height, width", TN_IMAGE_RANDOM_CROP_OPTIONS_LIST)
tn_tensor *
tn_image_random_crop_with(tn_tensor *image, int64_t height, int64_t width,
                          const tn_image_random_crop_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_random_crop";
    draw d = begin_draw();
    tn_image_random_crop_options o;
    tn__pixels in;
    if (tn_options_take(tn_image_random_crop_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, true) ||
        !tn__check_sides(call, height, width) ||
        !tn__check_range(call, "padding", (double)o.padding, 0,
                         (double)TN__IMAGE_MAX_SIDE))
        return NULL;
    const int64_t free_h = in.h + 2 * o.padding - height;
    const int64_t free_w = in.w + 2 * o.padding - width;
    if (free_h < 0 || free_w < 0) {
        const tn_given given[] = {{"image", image}};
        tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                        "image of %lld x %lld with padding %lld is smaller than "
                        "the crop of %lld x %lld: give a larger .padding",
                        (long long)in.h, (long long)in.w, (long long)o.padding,
                        (long long)height, (long long)width);
        return NULL;
    }
    const int64_t top = below(&d, free_h + 1), left = below(&d, free_w + 1);
    const int64_t p = o.padding;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = image;
    const bool pending = tn_error() != NULL;
    /* With padding 0, this checks .mode and .fill. */
    if (p || strcmp(o.mode, "constant") != 0 || o.fill != 0)
        x = tn_image_pad(image, p, p, p, p, .mode = o.mode, .fill = o.fill);
    x = x ? tn_image_crop(x, top, left, height, width) : NULL;
    if (!x && !pending) {
        tn_error_rename("image_pad", call, NULL);
        tn_error_rename("image_crop", call, NULL);
    }
    return tn_scope_result(scope, x);
}

/* Checks a range with a positive lower end. */
static bool check_span(const char *call, const char *low_name,
                       const char *high_name, double low, double high,
                       double most)
{
    return tn__check_range(call, low_name, low, 1e-9, most) &&
           tn__check_range(call, high_name, high, low, most);
}

typedef struct span {
    double scale_min, scale_max, ratio_min, ratio_max;
} span;

static bool check_spans(const char *call, const span *s)
{
    return check_span(call, "scale_min", "scale_max", s->scale_min,
                      s->scale_max, 1) &&
           check_span(call, "ratio_min", "ratio_max", s->ratio_min,
                      s->ratio_max, 1e9);
}

/* Draws the size of a box by its area and its ratio (first side / second side).
 */
static void draw_box(draw *d, const span *s, double area, int64_t *first,
                     int64_t *second)
{
    const double part = area * uniform(d, s->scale_min, s->scale_max);
    const double ratio = exp(uniform(d, log(s->ratio_min), log(s->ratio_max)));
    *first = (int64_t)nearbyint(sqrt(part * ratio));
    *second = (int64_t)nearbyint(sqrt(part / ratio));
}

/* Draws a box within an image of h x w pixels. If ten drawn boxes do not fit,
 * returns the largest centred box whose aspect ratio is allowed. */
static tn_dims_list draw_crop(draw *d, const span *s, int64_t h, int64_t w)
{
    int64_t bh, bw;
    for (int i = 0; i < 10; i++) {
        draw_box(d, s, (double)h * (double)w, &bw, &bh);
        if (bw > 0 && bw <= w && bh > 0 && bh <= h) {
            const int64_t top = below(d, h - bh + 1);
            return tn_dims(top, below(d, w - bw + 1), bh, bw);
        }
    }
    const double ratio = (double)w / (double)h;
    bh = h;
    bw = w;
    if (ratio < s->ratio_min)
        bh = (int64_t)nearbyint((double)w / s->ratio_min);
    else if (ratio > s->ratio_max)
        bw = (int64_t)nearbyint((double)h * s->ratio_max);
    bh = bh < 1 ? 1 : bh;
    bw = bw < 1 ? 1 : bw;
    return tn_dims((h - bh) / 2, (w - bw) / 2, bh, bw);
}

TN_OPTIONS_TYPE(tn_image_random_resized_crop, "image_random_resized_crop",
                "image, height, width",
                TN_IMAGE_RANDOM_RESIZED_CROP_OPTIONS_LIST)
tn_tensor *tn_image_random_resized_crop_with(
    tn_tensor *image, int64_t height, int64_t width,
    const tn_image_random_resized_crop_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_random_resized_crop";
    draw d = begin_draw();
    tn_image_random_resized_crop_options o;
    tn__pixels in;
    if (tn_options_take(tn_image_random_resized_crop_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false))
        return NULL;
    const span s = {o.scale_min, o.scale_max, o.ratio_min, o.ratio_max};
    if (!check_spans(call, &s))
        return NULL;
    const bool pending = tn_error() != NULL;
    tn_tensor *x = tn_image_resized_crop(
        image, draw_crop(&d, &s, in.h, in.w), height, width, .mode = o.mode,
        .antialias = o.antialias);
    if (!x && !pending)
        tn_error_rename("image_resized_crop", call, NULL);
    return x;
}

/* ---- affine ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_image_random_affine, "image_random_affine", "image",
                TN_IMAGE_RANDOM_AFFINE_OPTIONS_LIST)
tn_tensor *
tn_image_random_affine_with(tn_tensor *image,
                            const tn_image_random_affine_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_random_affine";
    draw d = begin_draw();
    tn_image_random_affine_options o;
    tn__pixels in;
    if (tn_options_take(tn_image_random_affine_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false) ||
        !tn__check_range(call, "degrees", o.degrees, 0, 360) ||
        !tn__check_range(call, "translate_x", o.translate_x, 0, 1) ||
        !tn__check_range(call, "translate_y", o.translate_y, 0, 1) ||
        !tn__check_range(call, "shear", o.shear, 0, 89) ||
        !tn__check_range(call, "scale_min", o.scale_min, 1e-6, 1e6) ||
        !tn__check_range(call, "scale_max", o.scale_max, o.scale_min, 1e6))
        return NULL;
    const double degrees = uniform(&d, -o.degrees, o.degrees);
    const double dx = o.translate_x * (double)in.w;
    const double dy = o.translate_y * (double)in.h;
    const double x = nearbyint(uniform(&d, -dx, dx));
    const double y = nearbyint(uniform(&d, -dy, dy));
    const double scale = uniform(&d, o.scale_min, o.scale_max);
    const double shear = uniform(&d, -o.shear, o.shear);
    const bool pending = tn_error() != NULL;
    tn_tensor *out = tn_image_affine(
        image, .degrees = degrees, .translate_x = x, .translate_y = y,
        .scale = scale, .shear_x = shear, .mode = o.mode, .fill = o.fill);
    if (!out && !pending)
        tn_error_rename("image_affine", call, NULL);
    return out;
}

/* ---- colour ------------------------------------------------------------- */

typedef tn_tensor *adjust_function(tn_tensor *image, double factor);
static const struct {
    adjust_function *adjust;
    const char *call;
} adjustments[] = {
    {tn_image_adjust_brightness, "image_adjust_brightness"},
    {tn_image_adjust_contrast, "image_adjust_contrast"},
    {tn_image_adjust_saturation, "image_adjust_saturation"},
    {tn_image_adjust_hue, "image_adjust_hue"},
};
enum { ADJUSTMENTS = sizeof adjustments / sizeof *adjustments, HUE = 3 };

TN_OPTIONS_TYPE(tn_image_color_jitter, "image_color_jitter", "image",
                TN_IMAGE_COLOR_JITTER_OPTIONS_LIST)
tn_tensor *
tn_image_color_jitter_with(tn_tensor *image,
                           const tn_image_color_jitter_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_color_jitter";
    draw d = begin_draw();
    tn_image_color_jitter_options o;
    tn__pixels in;
    if (tn_options_take(tn_image_color_jitter_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false) ||
        !tn__check_range(call, "brightness", o.brightness, 0, 1e6) ||
        !tn__check_range(call, "contrast", o.contrast, 0, 1e6) ||
        !tn__check_range(call, "saturation", o.saturation, 0, 1e6) ||
        !tn__check_range(call, "hue", o.hue, 0, 0.5))
        return NULL;
    const double width[] = {o.brightness, o.contrast, o.saturation, o.hue};
    int order[ADJUSTMENTS];
    double factor[ADJUSTMENTS];
    for (int i = 0; i < ADJUSTMENTS; i++) {
        const int64_t k = below(&d, i + 1); /* shuffles */
        order[i] = order[k];
        order[k] = i;
        factor[i] = i == HUE ? uniform(&d, -width[i], width[i])
                             : uniform(&d, fmax(0, 1 - width[i]), 1 + width[i]);
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn__pixels_copy(&in);
    const bool pending = tn_error() != NULL;
    for (int i = 0; x && i < ADJUSTMENTS; i++) {
        const int k = order[i];
        if (width[k] == 0)
            continue;
        x = adjustments[k].adjust(x, factor[k]);
        if (!x && !pending)
            tn_error_rename(adjustments[k].call, call, NULL);
    }
    return tn_scope_result(scope, x);
}

/* ---- erasing ------------------------------------------------------------ */

static bool check_value(const tn__pixels *in, double value, const char *call)
{
    return in->dtype == TN_U8
               ? tn__check_range(call, "value", value, 0, 255)
               : tn__check_range(call, "value", value, -3.4e38, 3.4e38);
}

static void erase(const tn__pixels *out, int64_t top, int64_t left,
                  int64_t height, int64_t width, double value)
{
    for (int64_t i = 0; i < out->n * out->c; i++)
        for (int64_t y = top; y < top + height; y++)
            for (int64_t x = left; x < left + width; x++) {
                char *plane = tn__plane_out(out, i);
                if (out->dtype == TN_U8)
                    ((uint8_t *)plane)[y * out->w + x] = (uint8_t)value;
                else
                    ((float *)plane)[y * out->w + x] = (float)value;
            }
}

TN_OPTIONS_TYPE(tn_image_random_erasing, "image_random_erasing", "image",
                TN_IMAGE_RANDOM_ERASING_OPTIONS_LIST)
tn_tensor *
tn_image_random_erasing_with(tn_tensor *image,
                             const tn_image_random_erasing_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_random_erasing";
    draw d = begin_draw();
    tn_image_random_erasing_options o;
    tn__pixels in;
    if (tn_options_take(tn_image_random_erasing_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false) ||
        !tn__check_range(call, "p", o.p, 0, 1) ||
        !check_value(&in, o.value, call))
        return NULL;
    const span s = {o.scale_min, o.scale_max, o.ratio_min, o.ratio_max};
    if (!check_spans(call, &s))
        return NULL;
    tn_tensor *copy = tn__pixels_copy(&in);
    tn__pixels out;
    if (!copy || !tn__pixels_open(&out, copy, call, false))
        return NULL;
    if (uniform(&d, 0, 1) >= o.p)
        return copy;
    for (int i = 0; i < 10; i++) {
        int64_t h, w;
        draw_box(&d, &s, (double)in.h * (double)in.w, &h, &w);
        if (h >= in.h || w >= in.w)
            continue;
        const int64_t top = below(&d, in.h - h + 1);
        erase(&out, top, below(&d, in.w - w + 1), h, w, o.value);
        break;
    }
    return copy;
}
