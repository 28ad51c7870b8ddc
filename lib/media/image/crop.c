/* crop.c: crops, padding and flips. They move elements of any dtype: each pixel
 * of the result is one of the image or the fill value. */
#include <media/image/convert.h>

#include <string.h>
#include <tenon/transform.h>

enum { CONSTANT, EDGE, REFLECT, SYMMETRIC };
static const char *const modes[] = {"constant", "edge", "reflect", "symmetric",
                                    NULL};

int64_t tn__centre(int64_t in, int64_t crop)
{
    const int64_t twice = in - crop;
    const int64_t half = twice >> 1; /* rounded down */
    return twice & 1 ? half + (half & 1) : half;
}

/* A value of a dtype, repeated to fill memory. */
typedef struct fill_value {
    unsigned char bytes[16];
} fill_value;

/* Returns false with the error set if the dtype has no such value. */
static bool fill_of(fill_value *out, const tn__pixels *image, double fill,
                    const char *call)
{
    *out = (fill_value){{0}};
    if (image->dtype == TN_U8) {
        out->bytes[0] = (unsigned char)(fill >= 0 && fill <= 255 ? fill : 0);
        if (out->bytes[0] == fill)
            return true;
    } else if (image->dtype == TN_F32) {
        const float value = (float)fill;
        memcpy(out->bytes, &value, sizeof value);
        return true;
    } else if (fill == 0) {
        return true;
    }
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "fill",
                             ".fill is %g, which %s does not have%s", fill,
                             tn_dtype_name(image->dtype),
                             image->dtype == TN_U8
                                 ? "; expected 0 to 255"
                                 : "; expected 0");
    return false;
}

static void put_fill(char *out, const fill_value *fill, size_t bytes,
                     int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(out + (size_t)i * bytes, fill->bytes, bytes);
}

/* Returns the element for position i of a padded axis of `size` elements, or -1
 * for the fill value. */
static int64_t source_of(int64_t i, int64_t size, int mode)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == CONSTANT)
        return -1;
    if (mode == EDGE)
        return i < 0 ? 0 : size - 1;
    if (mode == REFLECT)
        return i < 0 ? -i : 2 * (size - 1) - i;
    return i < 0 ? -i - 1 : 2 * size - 1 - i;
}

/* Copies the window of height x width at (top, left), which may reach over the
 * image. */
static tn_tensor *window(const tn__pixels *in, int64_t top, int64_t left,
                         int64_t height, int64_t width, int mode,
                         const fill_value *fill)
{
    tn__pixels out;
    if (!tn__pixels_new(&out, in, in->c, height, width, in->dtype))
        return NULL;
    const size_t b = in->bytes;
    /* Columns begin .. end - 1 of the result are within the image. */
    const int64_t begin = left >= 0 ? 0 : -left < width ? -left : width;
    int64_t end = in->w - left < width ? in->w - left : width;
    end = end < begin ? begin : end;
    for (int64_t i = 0; i < in->n * in->c; i++) {
        for (int64_t y = 0; y < height; y++) {
            char *to = tn__plane_out(&out, i) + (size_t)(y * width) * b;
            const int64_t row = source_of(top + y, in->h, mode);
            if (row < 0) {
                put_fill(to, fill, b, width);
                continue;
            }
            const char *from = tn__plane(in, i) + (size_t)(row * in->w) * b;
            if (end > begin)
                memcpy(to + (size_t)begin * b,
                       from + (size_t)(left + begin) * b,
                       (size_t)(end - begin) * b);
            for (int64_t x = 0; x < width; x++) {
                x = x == begin ? end : x;
                if (x == width)
                    break;
                const int64_t k = source_of(left + x, in->w, mode);
                memcpy(to + (size_t)x * b,
                       k < 0 ? (const char *)fill->bytes : from + (size_t)k * b,
                       b);
            }
        }
    }
    return out.tensor;
}

/* ---- crops -------------------------------------------------------------- */

static const fill_value zero;

tn_tensor *tn_image_crop(tn_tensor *image, int64_t top, int64_t left,
                         int64_t height, int64_t width)
{
    const char *call = "image_crop";
    const double limit = (double)TN__IMAGE_MAX_SIDE;
    tn__pixels in;
    if (!tn__pixels_open(&in, image, call, true) ||
        !tn__check_sides(call, height, width) ||
        !tn__check_range(call, "top", (double)top, -limit, limit) ||
        !tn__check_range(call, "left", (double)left, -limit, limit))
        return NULL;
    return window(&in, top, left, height, width, CONSTANT, &zero);
}

tn_tensor *tn_image_center_crop(tn_tensor *image, int64_t height, int64_t width)
{
    const char *call = "image_center_crop";
    tn__pixels in;
    if (!tn__pixels_open(&in, image, call, true) ||
        !tn__check_sides(call, height, width))
        return NULL;
    /* torchvision pads a smaller image first, with the smaller half at the top
     * and left. */
    const int64_t top = height > in.h ? -((height - in.h) / 2)
                                      : tn__centre(in.h, height);
    const int64_t left =
        width > in.w ? -((width - in.w) / 2) : tn__centre(in.w, width);
    return window(&in, top, left, height, width, CONSTANT, &zero);
}

/* ---- padding ------------------------------------------------------------ */

/* Checks that a border of reflect or symmetric is not longer than the image. */
static bool check_border(const tn__pixels *in, const int64_t *border, int mode,
                         const char *call)
{
    static const char *const names[] = {"left", "top", "right", "bottom"};
    for (int i = 0; i < 4; i++) {
        const int64_t size = i % 2 ? in->h : in->w;
        const int64_t most = mode == REFLECT     ? size - 1
                             : mode == SYMMETRIC ? size
                                                 : TN__IMAGE_MAX_SIDE;
        if (border[i] >= 0 && border[i] <= most)
            continue;
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, names[i],
                                 "%s is %lld; expected 0 to %lld in mode "
                                 "\"%s\"",
                                 names[i], (long long)border[i],
                                 (long long)most, modes[mode]);
        return false;
    }
    return true;
}

TN_OPTIONS_TYPE(tn_image_pad, "image_pad", "image, left, top, right, bottom",
                TN_IMAGE_PAD_OPTIONS_LIST)
tn_tensor *tn_image_pad_with(tn_tensor *image, int64_t left, int64_t top,
                             int64_t right, int64_t bottom,
                             const tn_image_pad_options *options)
{
    const char *call = "image_pad";
    const int64_t border[] = {left, top, right, bottom};
    tn_image_pad_options o;
    tn__pixels in;
    fill_value fill;
    if (tn_options_take(tn_image_pad_type(), &o, options) < 0 ||
        !tn__pixels_open(&in, image, call, true))
        return NULL;
    const int mode = tn__check_name(call, "mode", o.mode, modes);
    if (mode < 0)
        return NULL;
    const tn_option_need need[] = {
        {"fill", mode == CONSTANT, "without mode \"constant\"",
         "give that mode"}};
    if (tn_options_check_needs(tn_image_pad_type(), &o, need, 1) < 0 ||
        !check_border(&in, border, mode, call) ||
        !fill_of(&fill, &in, o.fill, call))
        return NULL;
    return window(&in, -top, -left, in.h + top + bottom, in.w + left + right,
                  mode, &fill);
}

/* ---- flips -------------------------------------------------------------- */

#define FLIP_ROW(type)                                                        \
    static void flip_row_##type(const void *from, void *to, int64_t count)    \
    {                                                                         \
        const type *s = from;                                                 \
        type *t = to;                                                         \
        for (int64_t x = 0; x < count; x++)                                   \
            t[x] = s[count - 1 - x];                                          \
    }
FLIP_ROW(uint8_t)
FLIP_ROW(uint16_t)
FLIP_ROW(uint32_t)
FLIP_ROW(uint64_t)

static tn_tensor *flip(tn_tensor *image, const char *call, bool rows)
{
    tn__pixels in, out;
    if (!tn__pixels_open(&in, image, call, true) ||
        !tn__pixels_new(&out, &in, in.c, in.h, in.w, in.dtype))
        return NULL;
    const size_t row = (size_t)in.w * in.bytes;
    for (int64_t y = 0; y < in.n * in.c * in.h; y++) {
        const int64_t plane = y / in.h;
        const int64_t from = rows ? (2 * plane + 1) * in.h - 1 - y : y;
        const char *s = (const char *)in.data + (size_t)from * row;
        char *t = (char *)out.data + (size_t)y * row;
        if (rows)
            memcpy(t, s, row);
        else if (in.bytes == 1)
            flip_row_uint8_t(s, t, in.w);
        else if (in.bytes == 2)
            flip_row_uint16_t(s, t, in.w);
        else if (in.bytes == 4)
            flip_row_uint32_t(s, t, in.w);
        else
            flip_row_uint64_t(s, t, in.w);
    }
    return out.tensor;
}

tn_tensor *tn_image_flip(tn_tensor *image)
{
    return flip(image, "image_flip", false);
}

tn_tensor *tn_image_flip_vertical(tn_tensor *image)
{
    return flip(image, "image_flip_vertical", true);
}
