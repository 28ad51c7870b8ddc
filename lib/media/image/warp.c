/* warp.c: rotation and affine transforms.
 *
 * The inverse matrix maps a pixel of the result to a position in the image.
 * Positions are measured from the image's centre, and computed in float32 in
 * the order of torchvision's grid, so that "nearest" chooses the same
 * pixels. */
#include <base/nearest.h>
#include <media/image/image_tensor.h>

#include <math.h>
#include <string.h>
#include <tenon/transform.h>

enum { NEAREST, BILINEAR };
static const char *const modes[] = {"nearest", "bilinear", NULL};

/* x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5] */
typedef struct matrix {
    double m[6];
} matrix;

typedef struct motion {
    double degrees, translate_x, translate_y, scale, shear_x, shear_y;
    double center_x, center_y; /* from the image's centre */
} motion;

static double radians(double degrees)
{
    return degrees * (3.14159265358979323846 / 180);
}

/* Returns the inverse of: shear, scale and rotate about the centre, then
 * translate. */
static matrix inverse_of(const motion *a)
{
    const double angle = radians(a->degrees), sx = radians(a->shear_x),
                 sy = radians(a->shear_y);
    const double c0 = cos(angle - sy) / cos(sy);
    const double c1 = -c0 * tan(sx) - sin(angle);
    const double s0 = sin(angle - sy) / cos(sy);
    const double s1 = -s0 * tan(sx) + cos(angle);
    matrix r = {{s1 / a->scale, -c1 / a->scale, 0, -s0 / a->scale,
                 c0 / a->scale, 0}};
    const double x = -a->center_x - a->translate_x;
    const double y = -a->center_y - a->translate_y;
    r.m[2] = r.m[0] * x + r.m[1] * y + a->center_x;
    r.m[5] = r.m[3] * x + r.m[4] * y + a->center_y;
    return r;
}

/* ---- pixels ------------------------------------------------------------- */

static float value_at(const tn__pixels *in, const char *plane, int64_t y,
                      int64_t x)
{
    const int64_t i = y * in->w + x;
    return in->dtype == TN_U8 ? (float)((const uint8_t *)plane)[i]
                              : ((const float *)plane)[i];
}

/* Returns element (y, x), and adds its weight to *inside if it is within the
 * image. */
static float corner(const tn__pixels *in, const char *plane, float y, float x,
                    float weight, float *inside)
{
    if (!(y >= 0 && y < (float)in->h && x >= 0 && x < (float)in->w))
        return 0;
    *inside += weight;
    return weight * value_at(in, plane, (int64_t)y, (int64_t)x);
}

static float sample(const tn__pixels *in, const char *plane, float y, float x,
                    int mode, float fill)
{
    float inside = 0;
    if (mode == NEAREST) {
        const float v =
            corner(in, plane, nearbyintf(y), nearbyintf(x), 1, &inside);
        return inside > 0 ? v : fill;
    }
    const float y0 = floorf(y), x0 = floorf(x), dy = y - y0, dx = x - x0;
    const float ey = 1 - dy, ex = 1 - dx;
    const float v = corner(in, plane, y0, x0, ey * ex, &inside) +
                    corner(in, plane, y0, x0 + 1, ey * dx, &inside) +
                    corner(in, plane, y0 + 1, x0, dy * ex, &inside) +
                    corner(in, plane, y0 + 1, x0 + 1, dy * dx, &inside);
    return inside < 1 ? v + (1 - inside) * fill : v;
}

static void put(const tn__pixels *out, int64_t i, int64_t y, int64_t x, float v)
{
    char *plane = tn__plane_out(out, i);
    const int64_t at = y * out->w + x;
    if (out->dtype == TN_U8)
        ((uint8_t *)plane)[at] = (uint8_t)nearbyintf(v);
    else
        ((float *)plane)[at] = v;
}

static void warp(const tn__pixels *in, const tn__pixels *out, const matrix *r,
                 int mode, float fill)
{
    const float half_w = 0.5f * (float)in->w, half_h = 0.5f * (float)in->h;
    float m[6];
    for (int i = 0; i < 6; i++)
        m[i] = (float)r->m[i] / (i < 3 ? half_w : half_h);
    for (int64_t y = 0; y < out->h; y++) {
        const float gy = (float)y - ((float)out->h - 1) * 0.5f;
        for (int64_t x = 0; x < out->w; x++) {
            const float gx = (float)x - ((float)out->w - 1) * 0.5f;
            const float px = gx * m[0] + gy * m[1] + m[2];
            const float py = gx * m[3] + gy * m[4] + m[5];
            const float at_x = ((px + 1) * (float)in->w - 1) * 0.5f;
            const float at_y = ((py + 1) * (float)in->h - 1) * 0.5f;
            for (int64_t i = 0; i < in->n * in->c; i++)
                put(out, i, y, x,
                    sample(in, tn__plane(in, i), at_y, at_x, mode, fill));
        }
    }
}

/* ---- the transforms ----------------------------------------------------- */

static bool check_fill(const tn__pixels *in, double fill, const char *call)
{
    return in->dtype != TN_U8 ? tn__check_range(call, "fill", fill, -3.4e38,
                                                3.4e38)
                              : tn__check_range(call, "fill", fill, 0, 255);
}

/* Returns the offset of a centre from the middle of an axis. */
static double center_of(double center, int64_t size)
{
    return tn_is_none_float(center) ? 0 : center - (double)size * 0.5;
}

static bool check_number(const char *call, const char *name, double value)
{
    return tn_is_none_float(value) ||
           tn__check_range(call, name, value, -1e9, 1e9);
}

/* Computes the size of a rotated image, as torchvision and Pillow do: that of
 * the bounding box of the rotated corners. Each side of the box is rounded
 * outward to an integer, unless it exceeds an integer by less than 1e-4. The
 * computation is in float32, as in torchvision: in float64, corners would more
 * often be just below an integer. */
static void expanded(const matrix *r, const tn__pixels *in, int64_t *out_h,
                     int64_t *out_w)
{
    const double half[] = {0.5 * (double)in->w, 0.5 * (double)in->h};
    int64_t size[2];
    for (int axis = 0; axis < 2; axis++) {
        float low = HUGE_VALF, high = -HUGE_VALF;
        for (int i = 0; i < 4; i++) {
            const float p =
                (float)(r->m[3 * axis] * (i & 1 ? half[0] : -half[0]) +
                        r->m[3 * axis + 1] * (i & 2 ? half[1] : -half[1]) +
                        r->m[3 * axis + 2] + half[axis]);
            low = p < low ? p : low;
            high = p > high ? p : high;
        }
        size[axis] = (int64_t)(ceilf(truncf(high * 1e4f) * 1e-4f) -
                               floorf(truncf(low * 1e4f) * 1e-4f));
    }
    *out_w = size[0];
    *out_h = size[1];
}

/* Rotates by quarter turns, without interpolation. */
static void turn(const tn__pixels *in, const tn__pixels *out, int quarters)
{
    for (int64_t i = 0; i < in->n * in->c; i++)
        for (int64_t y = 0; y < out->h; y++)
            for (int64_t x = 0; x < out->w; x++) {
                const int64_t from_y = quarters == 1   ? x
                                       : quarters == 2 ? in->h - 1 - y
                                       : quarters == 3 ? in->h - 1 - x
                                                       : y;
                const int64_t from_x = quarters == 1   ? in->w - 1 - y
                                       : quarters == 2 ? in->w - 1 - x
                                       : quarters == 3 ? y
                                                       : x;
                memcpy(tn__plane_out(out, i) +
                           (size_t)(y * out->w + x) * in->bytes,
                       tn__plane(in, i) +
                           (size_t)(from_y * in->w + from_x) * in->bytes,
                       in->bytes);
            }
}

TN_OPTIONS_TYPE(tn_image_rotate, "image_rotate", "image, degrees",
                TN_IMAGE_ROTATE_OPTIONS_LIST)
tn_tensor *tn_image_rotate_with(tn_tensor *image, double degrees,
                                const tn_image_rotate_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_rotate";
    tn_image_rotate_options o;
    tn__pixels in, out;
    if (tn_options_take(tn_image_rotate_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false))
        return NULL;
    const int mode = tn__check_name(call, "mode", o.mode, modes);
    if (mode < 0 || !check_fill(&in, o.fill, call) ||
        !tn__check_range(call, "degrees", degrees, -1e9, 1e9) ||
        !check_number(call, "center_x", o.center_x) ||
        !check_number(call, "center_y", o.center_y))
        return NULL;
    double angle = fmod(degrees, 360);
    angle = angle < 0 ? angle + 360 : angle;
    const bool centred =
        tn_is_none_float(o.center_x) && tn_is_none_float(o.center_y);
    if (centred && (angle == 0 || angle == 180 ||
                    ((angle == 90 || angle == 270) &&
                     (o.expand || in.h == in.w)))) {
        const int quarters = (int)(angle / 90);
        const bool swap = quarters & 1;
        if (!tn__pixels_new(&out, &in, in.c, swap ? in.w : in.h,
                            swap ? in.h : in.w, in.dtype))
            return NULL;
        turn(&in, &out, quarters);
        return out.tensor;
    }
    const motion a = {.degrees = -angle,
                      .scale = 1,
                      .center_x = center_of(o.center_x, in.w),
                      .center_y = center_of(o.center_y, in.h)};
    const matrix r = inverse_of(&a);
    int64_t height = in.h, width = in.w;
    if (o.expand)
        expanded(&r, &in, &height, &width);
    if (!tn__check_sides(call, height, width) ||
        !tn__pixels_new(&out, &in, in.c, height, width, in.dtype))
        return NULL;
    warp(&in, &out, &r, mode, (float)o.fill);
    return out.tensor;
}

TN_OPTIONS_TYPE(tn_image_affine, "image_affine", "image",
                TN_IMAGE_AFFINE_OPTIONS_LIST)
tn_tensor *tn_image_affine_with(tn_tensor *image,
                                const tn_image_affine_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "image_affine";
    tn_image_affine_options o;
    tn__pixels in, out;
    if (tn_options_take(tn_image_affine_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, false))
        return NULL;
    const int mode = tn__check_name(call, "mode", o.mode, modes);
    if (mode < 0 || !check_fill(&in, o.fill, call) ||
        !tn__check_range(call, "degrees", o.degrees, -1e9, 1e9) ||
        !tn__check_range(call, "translate_x", o.translate_x, -1e9, 1e9) ||
        !tn__check_range(call, "translate_y", o.translate_y, -1e9, 1e9) ||
        !tn__check_range(call, "scale", o.scale, 1e-6, 1e6) ||
        !tn__check_range(call, "shear_x", o.shear_x, -89.9, 89.9) ||
        !tn__check_range(call, "shear_y", o.shear_y, -89.9, 89.9) ||
        !check_number(call, "center_x", o.center_x) ||
        !check_number(call, "center_y", o.center_y) ||
        !tn__pixels_new(&out, &in, in.c, in.h, in.w, in.dtype))
        return NULL;
    const motion a = {.degrees = o.degrees,
                      .translate_x = o.translate_x,
                      .translate_y = o.translate_y,
                      .scale = o.scale,
                      .shear_x = o.shear_x,
                      .shear_y = o.shear_y,
                      .center_x = center_of(o.center_x, in.w),
                      .center_y = center_of(o.center_y, in.h)};
    const matrix r = inverse_of(&a);
    warp(&in, &out, &r, mode, (float)o.fill);
    return out.tensor;
}
