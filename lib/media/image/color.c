/* color.c: brightness, contrast, saturation, hue and grey. Computed in float32;
 * uint8 is rounded as torchvision does. */
#include <media/image/image_tensor.h>
#include <base/nearest.h>

#include <math.h>
#include <string.h>
#include <tenon/transform.h>

/* ---- access to pixels of either dtype ----------------------------------- */

static float load(const tn__pixels *image, const void *plane, int64_t i)
{
    return image->dtype == TN_U8 ? (float)((const uint8_t *)plane)[i]
                                 : ((const float *)plane)[i];
}

/* Clamps v to the dtype's range, and stores it; uint8 is rounded down. */
static void store(const tn__pixels *image, void *plane, int64_t i, float v)
{
    const float most = image->dtype == TN_U8 ? 255 : 1;
    v = v < 0 ? 0 : v > most ? most : v;
    if (image->dtype == TN_U8)
        ((uint8_t *)plane)[i] = (uint8_t)v;
    else
        ((float *)plane)[i] = v;
}

/* Returns the grey value of pixel i of an image with 1 or 3 channels. uint8 is
 * rounded down. first is the image's first plane. */
static float grey(const tn__pixels *image, const char *first, int64_t i)
{
    const size_t plane = (size_t)(image->h * image->w) * image->bytes;
    const float r = load(image, first, i);
    if (image->c == 1)
        return r;
    const float v = r * 0.2989f + load(image, first + plane, i) * 0.587f +
                    load(image, first + 2 * plane, i) * 0.114f;
    return image->dtype == TN_U8 ? floorf(v) : v;
}

static bool open_color(tn__pixels *in, tn_tensor *image, const char *call)
{
    if (!tn__pixels_open(in, image, call, false))
        return false;
    if (in->c == 1 || in->c == 3)
        return true;
    const tn_given given[] = {{"image", image}};
    tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                    "image has %lld channels; expected 1 or 3",
                    (long long)in->c);
    return false;
}

/* ---- brightness, contrast, saturation ----------------------------------- */

typedef enum toward { BLACK, MEAN, GREY } toward;

static float mean_grey(const tn__pixels *in, const char *first)
{
    const int64_t count = in->h * in->w;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)grey(in, first, i);
    return (float)(sum / (double)count);
}

/* Computes factor * image + (1 - factor) * other. */
static tn_tensor *blend(tn_tensor *image, double factor, toward other,
                        const char *call)
{
    TN__ROUND_NEAREST;
    tn__pixels in, out;
    if (!open_color(&in, image, call) ||
        !tn__check_range(call, "factor", factor, 0, 3.4e38))
        return NULL;
    if (other == GREY && in.c == 1)
        return tn__pixels_copy(&in);
    if (!tn__pixels_new(&out, &in, in.c, in.h, in.w, in.dtype))
        return NULL;
    const float f = (float)factor, rest = (float)(1 - factor);
    for (int64_t n = 0; n < in.n; n++) {
        const char *first = tn__plane(&in, n * in.c);
        const float mean = other == MEAN ? mean_grey(&in, first) : 0;
        for (int64_t i = 0; i < in.h * in.w; i++) {
            const float to = other == GREY ? grey(&in, first, i) : mean;
            for (int64_t c = 0; c < in.c; c++) {
                const float v = load(&in, tn__plane(&in, n * in.c + c), i) * f;
                store(&out, tn__plane_out(&out, n * in.c + c), i,
                      other == BLACK ? v : v + rest * to);
            }
        }
    }
    return out.tensor;
}

tn_tensor *tn_image_adjust_brightness(tn_tensor *image, double factor)
{
    return blend(image, factor, BLACK, "image_adjust_brightness");
}

tn_tensor *tn_image_adjust_contrast(tn_tensor *image, double factor)
{
    return blend(image, factor, MEAN, "image_adjust_contrast");
}

tn_tensor *tn_image_adjust_saturation(tn_tensor *image, double factor)
{
    return blend(image, factor, GREY, "image_adjust_saturation");
}

/* ---- hue ---------------------------------------------------------------- */

/* Shifts the hue of a colour with values 0 .. 1, through HSV as in Pillow. */
static void shift_hue(float *rgb, float shift)
{
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    const float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b));
    const float range = most - least, divisor = range == 0 ? 1 : range;
    const float s = range / (range == 0 ? 1 : most);
    const float rc = (most - r) / divisor, gc = (most - g) / divisor,
                bc = (most - b) / divisor;
    float h = most == r   ? bc - gc
              : most == g ? rc + 2 - bc
                          : gc + 4 - rc;
    h = fmodf(h * (1.0f / 6.0f) + 1, 1) + shift;
    h -= floorf(h);
    const float h6 = h * 6, whole = floorf(h6), f = h6 - whole;
    const float v = most;
    const float p = fminf(fmaxf((1 - s) * v, 0), 1);
    const float q = fminf(fmaxf((1 - s * f) * v, 0), 1);
    const float t = fminf(fmaxf((s * f + (1 - s)) * v, 0), 1);
    const float out[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                             {p, q, v}, {t, p, v}, {v, p, q}};
    const int sector = whole >= 0 && whole < 6 ? (int)whole : 0; /* 6, NaN */
    memcpy(rgb, out[sector], sizeof out[sector]);
}

tn_tensor *tn_image_adjust_hue(tn_tensor *image, double shift)
{
    TN__ROUND_NEAREST;
    const char *call = "image_adjust_hue";
    tn__pixels in, out;
    if (!open_color(&in, image, call) ||
        !tn__check_range(call, "shift", shift, -0.5, 0.5))
        return NULL;
    if (in.c == 1)
        return tn__pixels_copy(&in);
    if (!tn__pixels_new(&out, &in, 3, in.h, in.w, in.dtype))
        return NULL;
    const bool bytes = in.dtype == TN_U8;
    for (int64_t n = 0; n < in.n; n++) {
        for (int64_t i = 0; i < in.h * in.w; i++) {
            float rgb[3];
            for (int c = 0; c < 3; c++)
                rgb[c] = load(&in, tn__plane(&in, 3 * n + c), i) /
                         (bytes ? 255.0f : 1.0f);
            shift_hue(rgb, (float)shift);
            /* 255.999 divides 0 .. 1 into 256 equal parts, as torchvision's
             * to_dtype does. */
            for (int c = 0; c < 3; c++)
                store(&out, tn__plane_out(&out, 3 * n + c), i,
                      bytes ? rgb[c] * 255.999f : rgb[c]);
        }
    }
    return out.tensor;
}

tn_tensor *tn_image_grayscale(tn_tensor *image, int channels)
{
    TN__ROUND_NEAREST;
    const char *call = "image_grayscale";
    tn__pixels in, out;
    if (!open_color(&in, image, call))
        return NULL;
    if (channels != 1 && channels != 3)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "channels",
                                        "channels is %d; expected 1 or 3",
                                        channels),
               NULL;
    if (!tn__pixels_new(&out, &in, channels, in.h, in.w, in.dtype))
        return NULL;
    for (int64_t n = 0; n < in.n; n++) {
        const char *first = tn__plane(&in, n * in.c);
        char *to = tn__plane_out(&out, n * channels);
        const size_t plane = (size_t)(in.h * in.w) * in.bytes;
        for (int64_t i = 0; i < in.h * in.w; i++) {
            if (in.dtype == TN_U8)
                ((uint8_t *)to)[i] = (uint8_t)grey(&in, first, i);
            else
                ((float *)to)[i] = grey(&in, first, i);
        }
        for (int c = 1; c < channels; c++)
            memcpy(to + (size_t)c * plane, to, plane);
    }
    return out.tensor;
}
