/* raster.c: converts between rasters (rows of interleaved samples, as files
 * have them) and tensors: channels, dtype, layout and orientation in one pass.
 * */
#include <media/image/image_tensor.h>
#include <media/image/raster.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

/* ---- raster to tensor -------------------------------------------------------
 * The pixel of the raster for pixel (x, y) of the result is
 * first + x * dx + y * dy. */
typedef struct walk {
    int64_t first, dx, dy;
    int64_t width, height; /* of the result */
} walk;

static walk walk_of(const tn__raster *raster, int orientation)
{
    const int64_t w = raster->width, h = raster->height;
    /* Orientations 5 to 8 exchange rows and columns. In the result of the
     * others, 2 and 3 are mirrored in x, 3 and 4 in y. */
    const bool swap = orientation >= 5;
    const bool mirror_x = orientation == 2 || orientation == 3 ||
                          orientation == 7 || orientation == 8;
    const bool mirror_y = orientation == 3 || orientation == 4 ||
                          orientation == 6 || orientation == 7;
    const int64_t step_x = mirror_x ? -1 : 1, step_y = mirror_y ? -w : w;
    return (walk){
        .first = (mirror_x ? w - 1 : 0) + (mirror_y ? (h - 1) * w : 0),
        .dx = swap ? step_y : step_x,
        .dy = swap ? step_x : step_y,
        .width = swap ? h : w,
        .height = swap ? w : h,
    };
}

/* Where a channel of the result comes from: the index of a channel of the
 * raster, or one of these constants. */
enum { LUMA = -1, OPAQUE = -2 };

static int source_of(int channel, int channels, int from)
{
    const bool alpha = channels % 2 == 0 && channel == channels - 1;
    if (alpha)
        return from % 2 == 0 ? from - 1 : OPAQUE;
    if (channels >= 3)
        return from >= 3 ? channel : 0;
    return from >= 3 ? LUMA : 0;
}

/* ITU-R BT.601 in 16 bits of fraction, as in Pillow. The sum of 16-bit samples
 * fits into 32 bits. */
static uint32_t luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

/* Defines a function that copies one channel of one row. `step` and `to` are
 * distances in samples. */
#define ROW(name, in, out, largest, convert)                                  \
    static void name(const void *from, int64_t step, int source, void *target,\
                     int64_t to, int64_t count)                               \
    {                                                                         \
        const in *s = from;                                                   \
        out *t = target;                                                      \
        if (source == OPAQUE) {                                               \
            for (int64_t x = 0; x < count; x++)                               \
                t[x * to] = convert(largest);                                 \
        } else if (source == LUMA) {                                          \
            for (int64_t x = 0; x < count; x++, s += step)                    \
                t[x * to] = convert(luma(s[0], s[1], s[2]));                  \
        } else {                                                              \
            for (int64_t x = 0; x < count; x++)                               \
                t[x * to] = convert(s[x * step + source]);                    \
        }                                                                     \
    }
#define AS_U8(x) (uint8_t)(x)
#define AS_I32(x) (int32_t)(x)
#define AS_F32_8(x) ((float)(x) / 255.0f)
#define AS_F32_16(x) ((float)(x) / 65535.0f)
ROW(row_u8, uint8_t, uint8_t, 255, AS_U8)
ROW(row_i32, uint8_t, int32_t, 255, AS_I32)
ROW(row_f32, uint8_t, float, 255, AS_F32_8)
ROW(row_i32_16, uint16_t, int32_t, 65535, AS_I32)
ROW(row_f32_16, uint16_t, float, 65535, AS_F32_16)

/* Three planes of one row at once: the common case. */
static void split_u8(const uint8_t *restrict s, uint8_t *restrict r,
                     uint8_t *restrict g, uint8_t *restrict b, int64_t count)
{
    for (int64_t x = 0; x < count; x++, s += 3) {
        r[x] = s[0];
        g[x] = s[1];
        b[x] = s[2];
    }
}

static bool is_plain_colour(const tn__raster *raster, const tn__layout *layout)
{
    return raster->bits == 8 && raster->channels == 3 &&
           layout->channels == 3 && layout->dtype == TN_U8 && !layout->hwc &&
           layout->orientation == 1;
}

static void fill(const tn__raster *raster, const tn__layout *layout,
                 const walk *way, char *out)
{
    typedef void row_function(const void *, int64_t, int, void *, int64_t,
                              int64_t);
    row_function *row = layout->dtype == TN_U8 ? row_u8
                        : layout->dtype == TN_I32
                            ? (raster->bits == 16 ? row_i32_16 : row_i32)
                            : (raster->bits == 16 ? row_f32_16 : row_f32);
    const int64_t c = layout->channels, plane = way->width * way->height;
    const size_t in_bytes = (size_t)raster->channels * (size_t)raster->bits / 8;
    const size_t out_bytes = tn_dtype_bytes(layout->dtype);
    for (int64_t y = 0; y < way->height; y++) {
        const char *from = (const char *)raster->data +
                           (way->first + y * way->dy) * (int64_t)in_bytes;
        if (is_plain_colour(raster, layout)) {
            uint8_t *to = (uint8_t *)out + y * way->width;
            split_u8((const uint8_t *)from, to, to + plane, to + 2 * plane,
                     way->width);
            continue;
        }
        for (int64_t i = 0; i < c; i++) {
            const int64_t at = layout->hwc ? y * way->width * c + i
                                           : i * plane + y * way->width;
            row(from, way->dx * raster->channels,
                source_of((int)i, (int)c, raster->channels),
                out + (size_t)at * out_bytes, layout->hwc ? c : 1, way->width);
        }
    }
}

tn_tensor *tn__raster_to_tensor(const tn__raster *raster,
                                const tn__layout *layout)
{
    tn_device *device = tn__image_device();
    const walk way = walk_of(raster, layout->orientation);
    const int64_t c = layout->channels;
    const tn_dims_list shape = layout->hwc
                                   ? tn_dims(way.height, way.width, c)
                                   : tn_dims(c, way.height, way.width);
    if (!device)
        return NULL;
    tn_tensor *x = tn_empty(shape, .dtype = layout->dtype, .device = device);
    char *out = x ? tn_tensor_data(x) : NULL;
    if (!out)
        return NULL;
    fill(raster, layout, &way, out);
    return x;
}

/* ---- tensor to raster --------------------------------------------------- */

/* Reads the sizes of image: (C, H, W), (H, W, C) or (H, W). */
static tn_status read_sizes(tn__raster *out, const tn_tensor *image, bool hwc,
                            const char *call)
{
    const tn_given given[] = {{"image", image}};
    const int ndim = tn_tensor_ndim(image);
    const int64_t *s = tn_tensor_shape(image);
    if (ndim == 4)
        return tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                               "image has 4 dimensions: save one image of a "
                               "batch, or its tn_image_grid");
    const int64_t c = ndim != 3 ? 1 : hwc ? s[2] : s[0];
    if ((ndim != 2 && ndim != 3) || c < 1 || c > 4 || !tn_tensor_numel(image))
        return tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                               "image has %d dimensions and %lld channels; "
                               "expected %s or (H, W), with C from 1 to 4 and "
                               "at least one pixel",
                               ndim, (long long)c,
                               hwc ? "(H, W, C)" : "(C, H, W)");
    out->channels = (int)c;
    out->height = ndim == 2 || hwc ? s[0] : s[1];
    out->width = ndim == 2 || hwc ? s[1] : s[2];
    if (out->height > INT32_MAX || out->width > INT32_MAX)
        return tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                               "image is %lld x %lld; files have at most 2^31 "
                               "- 1 rows and columns",
                               (long long)out->height, (long long)out->width);
    return TN_OK;
}

/* Converts element i of the tensor's values to a sample. Returns false if it
 * has none. */
static bool to_sample(const void *values, tn_dtype dtype, int64_t i,
                      void *samples, int64_t at)
{
    if (dtype == TN_U8) {
        ((uint8_t *)samples)[at] = ((const uint8_t *)values)[i];
        return true;
    }
    if (dtype == TN_I32) {
        const int32_t x = ((const int32_t *)values)[i];
        ((uint16_t *)samples)[at] = (uint16_t)x;
        return x >= 0 && x <= 65535;
    }
    const float x = ((const float *)values)[i] * 255.0f + 0.5f;
    ((uint8_t *)samples)[at] = (uint8_t)(x >= 255 ? 255 : x > 0 ? x : 0);
    return x == x;
}

tn_status tn__raster_from_tensor(tn__raster *out, const tn_tensor *image,
                                 bool hwc, const char *call)
{
    const tn_given given[] = {{"image", image}};
    *out = (tn__raster){.orientation = 1};
    if (!tn_object_check_kind(image, "tensor", call, "image"))
        return tn_error_code();
    const tn_dtype dtype = tn_tensor_dtype(image);
    if (dtype != TN_U8 && dtype != TN_F32 && dtype != TN_I32)
        return tn_error_refuse(TN_ERR_DTYPE, call, given, 1,
                               "image is %s; files are made of uint8, float32 "
                               "or int32 (16 bits)",
                               tn_dtype_name(dtype));
    tn_status status = read_sizes(out, image, hwc, call);
    if (status < 0)
        return status;
    out->bits = dtype == TN_I32 ? 16 : 8;
    const int64_t count = tn_tensor_numel(image), c = out->channels;
    const int64_t plane = out->height * out->width;
    const size_t bytes = (size_t)count * tn_dtype_bytes(dtype);
    void *values = malloc(bytes);
    void *samples = malloc((size_t)count * (size_t)out->bits / 8);
    if (!values || !samples)
        status = tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
    else
        status = tn_tensor_to_array(image, values, bytes);
    const bool planes = tn_tensor_ndim(image) == 3 && !hwc;
    for (int64_t i = 0; status == TN_OK && i < count; i++) {
        const int64_t at = planes ? i % plane * c + i / plane : i;
        if (!to_sample(values, dtype, i, samples, at))
            status = tn_error_refuse(
                TN_ERR_ARGUMENT, call, given, 1,
                dtype == TN_I32
                    ? "image has a value outside 0 to 65535"
                    : "image has a NaN");
    }
    free(values);
    if (status < 0)
        free(samples);
    else
        out->data = samples;
    return status;
}
