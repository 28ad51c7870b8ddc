/* <tenon/transform.h>: transforms of images.
 *
 * The transforms work on an image (C, H, W) or a batch (N, C, H, W), uint8 (0
 * .. 255) or float32 (0 .. 1), and return a new, contiguous tensor of the same
 * dtype, which the open scope owns. They are written for the workers of a
 * loader: each runs in the calling thread, on memory of the CPU.
 *
 *     image = tn_image_resize_shorter(image, 256);
 *     image = tn_image_center_crop(image, 224, 224);
 *     image = tn_image_color_jitter(image, .brightness = 0.4, .hue = 0.1);
 *     image = tn_image_normalize(image, mean, deviation, 3);
 *
 * Definitions, and names where C allows, are those of
 * torchvision.transforms.v2. Results equal its results on tensors: float32
 * within 1e-5, uint8 within 1.
 *
 * Random transforms draw their numbers from the thread's generator
 * (<tenon/random.h>); each call takes one number of the generator's sequence. A
 * batch is transformed in one way: draw for each image in a data set's
 * transform.
 *
 * Errors, common to all: NULL with TN_ERR_SHAPE if the tensor is not an image,
 * TN_ERR_DTYPE for another dtype, TN_ERR_DEVICE if the CPU cannot use the
 * device's memory (use tn_to), TN_ERR_UNSUPPORTED if a gradient would be
 * recorded (transforms are not differentiable; use tn_detach), TN_ERR_ARGUMENT
 * for a number out of range, TN_ERR_MEMORY.
 *
 * While an error is pending (error.h), the functions work as usual, and the
 * first error stays.
 *
 * Threads: any thread may call these functions.
 */
#ifndef TENON_TRANSFORM_H
#define TENON_TRANSFORM_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- size ------------------------------------------------------------------
 * mode is "nearest", "nearest-exact", "bilinear" or "bicubic". With antialias,
 * bilinear and bicubic average over all pixels that a smaller result covers;
 * it has no effect on the other modes. */

#define TN_IMAGE_RESIZE_OPTIONS_LIST(X)                                       \
    X(const char *, mode, "bilinear")                                         \
    X(bool, antialias, true)
TN_OPTIONS_STRUCT(tn_image_resize, TN_IMAGE_RESIZE_OPTIONS_LIST);
#define TN_IMAGE_RESIZE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_image_resize, TN_IMAGE_RESIZE_OPTIONS_LIST)
/* Resizes to height x width, each 1 or more. */
TN_API tn_tensor *tn_image_resize_with(tn_tensor *image, int64_t height,
                                       int64_t width,
                                       const tn_image_resize_options *options);

#define TN_IMAGE_RESIZE_SHORTER_OPTIONS_LIST(X)                               \
    X(const char *, mode, "bilinear")                                         \
    X(bool, antialias, true)                                                  \
    X(int64_t, max_size, TN_NONE_INT) /* at most this for the longer side */
TN_OPTIONS_STRUCT(tn_image_resize_shorter,
                  TN_IMAGE_RESIZE_SHORTER_OPTIONS_LIST);
#define TN_IMAGE_RESIZE_SHORTER_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_image_resize_shorter,                              \
                        TN_IMAGE_RESIZE_SHORTER_OPTIONS_LIST)
/* Resizes so that the shorter side is `side`, and keeps the ratio of the sides;
 * the longer side is rounded down. */
TN_API tn_tensor *
tn_image_resize_shorter_with(tn_tensor *image, int64_t side,
                             const tn_image_resize_shorter_options *options);

/* Crops height x width pixels whose upper left corner is (top, left), which may
 * be negative. Pixels outside of the image are 0. Accepts every dtype. */
TN_API tn_tensor *tn_image_crop(tn_tensor *image, int64_t top, int64_t left,
                                int64_t height, int64_t width);
/* Crops the centre. Accepts every dtype. */
TN_API tn_tensor *tn_image_center_crop(tn_tensor *image, int64_t height,
                                       int64_t width);

TN_OPTIONS_STRUCT(tn_image_resized_crop, TN_IMAGE_RESIZE_OPTIONS_LIST);
#define TN_IMAGE_RESIZED_CROP_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_image_resized_crop, TN_IMAGE_RESIZE_OPTIONS_LIST)
/* Crops the box at offset dim[0], dim[1] with size dim[2], dim[3] (top, left,
 * height, width), which must be within the image, and resizes it to height x
 * width:
 *
 *     tn_image_resized_crop(image, tn_dims(10, 20, 100, 80), 224, 224); */
TN_API tn_tensor *
tn_image_resized_crop_with(tn_tensor *image, tn_dims_list box, int64_t height,
                           int64_t width,
                           const tn_image_resized_crop_options *options);

/* Options: the pixels outside are `fill` with mode "constant", and otherwise
 * repeat the image as in tn_pad: "edge", "reflect" or "symmetric". */
#define TN_IMAGE_PAD_OPTIONS_LIST(X)                                          \
    X(const char *, mode, "constant")                                         \
    X(double, fill, 0)
TN_OPTIONS_STRUCT(tn_image_pad, TN_IMAGE_PAD_OPTIONS_LIST);
#define TN_IMAGE_PAD_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_image_pad, TN_IMAGE_PAD_OPTIONS_LIST)
/* Adds pixels at the four sides, each 0 or more. Accepts every dtype with fill
 * 0. */
TN_API tn_tensor *tn_image_pad_with(tn_tensor *image, int64_t left, int64_t top,
                                    int64_t right, int64_t bottom,
                                    const tn_image_pad_options *options);

/* ---- flips, rotations --------------------------------------------------- */

/* Mirrors left and right, or top and bottom. Accept every dtype. */
TN_API tn_tensor *tn_image_flip(tn_tensor *image);
TN_API tn_tensor *tn_image_flip_vertical(tn_tensor *image);

/* Options: mode is "nearest" or "bilinear". fill is the value of pixels outside
 * of the image. The centre of the rotation is that of the image, unless
 * center_x and center_y, in pixels from the upper left corner, are given. */
#define TN_IMAGE_ROTATE_OPTIONS_LIST(X)                                       \
    X(const char *, mode, "nearest")                                          \
    X(bool, expand, false) /* enlarges the result to contain the whole rotated
                            * image */  \
    X(double, center_x, TN_NONE_FLOAT)                                        \
    X(double, center_y, TN_NONE_FLOAT)                                        \
    X(double, fill, 0)
TN_OPTIONS_STRUCT(tn_image_rotate, TN_IMAGE_ROTATE_OPTIONS_LIST);
#define TN_IMAGE_ROTATE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_image_rotate, TN_IMAGE_ROTATE_OPTIONS_LIST)
/* Rotates counter-clockwise by degrees. */
TN_API tn_tensor *tn_image_rotate_with(tn_tensor *image, double degrees,
                                       const tn_image_rotate_options *options);

#define TN_IMAGE_AFFINE_OPTIONS_LIST(X)                                       \
    X(double, degrees, 0) /* of the rotation, clockwise */                    \
    X(double, translate_x, 0)                                                 \
    X(double, translate_y, 0) /* in pixels */                                 \
    X(double, scale, 1)                                                       \
    X(double, shear_x, 0)                                                     \
    X(double, shear_y, 0) /* in degrees */                                    \
    X(const char *, mode, "nearest")                                          \
    X(double, center_x, TN_NONE_FLOAT)                                        \
    X(double, center_y, TN_NONE_FLOAT)                                        \
    X(double, fill, 0)
TN_OPTIONS_STRUCT(tn_image_affine, TN_IMAGE_AFFINE_OPTIONS_LIST);
#define TN_IMAGE_AFFINE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_image_affine, TN_IMAGE_AFFINE_OPTIONS_LIST)
/* Rotates, shears, scales and translates, keeping the size. */
TN_API tn_tensor *tn_image_affine_with(tn_tensor *image,
                                       const tn_image_affine_options *options);

/* ---- colour ----------------------------------------------------------------
 * Images have 1 or 3 channels. factor is 0 or more. 1 changes nothing. */

/* Multiplies by factor. */
TN_API tn_tensor *tn_image_adjust_brightness(tn_tensor *image, double factor);
/* Interpolates between the mean grey of each image (factor 0) and the image. */
TN_API tn_tensor *tn_image_adjust_contrast(tn_tensor *image, double factor);
/* Interpolates between the grey image (factor 0) and the image. */
TN_API tn_tensor *tn_image_adjust_saturation(tn_tensor *image, double factor);
/* Shifts the hue by shift, -0.5 .. 0.5, where 1 is a full turn. */
TN_API tn_tensor *tn_image_adjust_hue(tn_tensor *image, double shift);
/* Converts colour to grey, 0.2989 R + 0.587 G + 0.114 B, with 1 or 3 equal
 * channels. */
TN_API tn_tensor *tn_image_grayscale(tn_tensor *image, int channels);

/* ---- to floating point -------------------------------------------------- */

/* Converts uint8 0 .. 255 to float32 0 .. 1. float32 stays as it is. */
TN_API tn_tensor *tn_image_to_float(tn_tensor *image);
/* Computes (image - mean[c]) / deviation[c] for each of the count channels c,
 * in float32. uint8 is converted by tn_image_to_float first. deviation[c] must
 * not be 0. */
TN_API tn_tensor *tn_image_normalize(tn_tensor *image, const double *mean,
                                     const double *deviation, int count);

/* Options: mean and deviation have 3 numbers; NULL means those of ImageNet,
 * 0.485, 0.456, 0.406 and 0.229, 0.224, 0.225. */
#define TN_IMAGE_PREPARE_OPTIONS_LIST(X)                                      \
    X(int64_t, resize, 256)                                                   \
    X(int64_t, crop, 224)                                                     \
    X(const char *, mode, "bilinear")                                         \
    X(bool, antialias, true)                                                  \
    X(const double *, mean, NULL)                                             \
    X(const double *, deviation, NULL)
TN_OPTIONS_STRUCT(tn_image_prepare, TN_IMAGE_PREPARE_OPTIONS_LIST);
#define TN_IMAGE_PREPARE_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_image_prepare, TN_IMAGE_PREPARE_OPTIONS_LIST)
/* Prepares an image with 3 channels for a classifier: tn_image_resize_shorter
 * to .resize, tn_image_center_crop to .crop, tn_image_normalize. The result is
 * bit-identical, but only pixels within the crop are computed. Source:
 * torchvision.transforms._presets.ImageClassification. */
TN_API tn_tensor *tn_image_prepare_with(tn_tensor *image,
                                        const tn_image_prepare_options *options);

/* ---- random transforms -------------------------------------------------- */

/* Mirrors, with probability 1/2. Accept every dtype. */
TN_API tn_tensor *tn_image_random_flip(tn_tensor *image);
TN_API tn_tensor *tn_image_random_flip_vertical(tn_tensor *image);

#define TN_IMAGE_RANDOM_CROP_OPTIONS_LIST(X)                                  \
    X(int64_t, padding, 0) /* pixels added at each side before cropping */    \
    X(const char *, mode, "constant") /* of the padding, as in tn_image_pad */\
    X(double, fill, 0)
TN_OPTIONS_STRUCT(tn_image_random_crop, TN_IMAGE_RANDOM_CROP_OPTIONS_LIST);
#define TN_IMAGE_RANDOM_CROP_OPTIONS                                          \
    TN_OPTIONS_DEFAULTS(tn_image_random_crop, TN_IMAGE_RANDOM_CROP_OPTIONS_LIST)
/* Crops height x width pixels at a random position. A smaller image is rejected
 * (TN_ERR_SHAPE). */
TN_API tn_tensor *
tn_image_random_crop_with(tn_tensor *image, int64_t height, int64_t width,
                          const tn_image_random_crop_options *options);

/* Options: the area of the box, as a fraction of the image's area, is uniform
 * in scale_min .. scale_max. The logarithm of its ratio width / height is
 * uniform between the logarithms of ratio_min and ratio_max. */
#define TN_IMAGE_RANDOM_RESIZED_CROP_OPTIONS_LIST(X)                          \
    X(double, scale_min, 0.08)                                                \
    X(double, scale_max, 1)                                                   \
    X(double, ratio_min, 3.0 / 4)                                             \
    X(double, ratio_max, 4.0 / 3)                                             \
    X(const char *, mode, "bilinear")                                         \
    X(bool, antialias, true)
TN_OPTIONS_STRUCT(tn_image_random_resized_crop,
                  TN_IMAGE_RANDOM_RESIZED_CROP_OPTIONS_LIST);
#define TN_IMAGE_RANDOM_RESIZED_CROP_OPTIONS                                  \
    TN_OPTIONS_DEFAULTS(tn_image_random_resized_crop,                         \
                        TN_IMAGE_RANDOM_RESIZED_CROP_OPTIONS_LIST)
/* Crops a random box and resizes it to height x width. */
TN_API tn_tensor *tn_image_random_resized_crop_with(
    tn_tensor *image, int64_t height, int64_t width,
    const tn_image_random_resized_crop_options *options);

/* Options: rotates by -degrees .. degrees, translates by at most translate_x
 * times the width and translate_y times the height, scales by scale_min ..
 * scale_max, and shears x by -shear .. shear degrees. */
#define TN_IMAGE_RANDOM_AFFINE_OPTIONS_LIST(X)                                \
    X(double, degrees, 0)                                                     \
    X(double, translate_x, 0)                                                 \
    X(double, translate_y, 0)                                                 \
    X(double, scale_min, 1)                                                   \
    X(double, scale_max, 1)                                                   \
    X(double, shear, 0)                                                       \
    X(const char *, mode, "nearest")                                          \
    X(double, fill, 0)
TN_OPTIONS_STRUCT(tn_image_random_affine, TN_IMAGE_RANDOM_AFFINE_OPTIONS_LIST);
#define TN_IMAGE_RANDOM_AFFINE_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_image_random_affine,                               \
                        TN_IMAGE_RANDOM_AFFINE_OPTIONS_LIST)
TN_API tn_tensor *
tn_image_random_affine_with(tn_tensor *image,
                            const tn_image_random_affine_options *options);

/* Options: the factors of brightness, contrast and saturation are uniform in
 * max(0, 1 - x) .. 1 + x; the shift of the hue is uniform in -hue .. hue, with
 * hue 0 .. 0.5. */
#define TN_IMAGE_COLOR_JITTER_OPTIONS_LIST(X)                                 \
    X(double, brightness, 0)                                                  \
    X(double, contrast, 0)                                                    \
    X(double, saturation, 0)                                                  \
    X(double, hue, 0)
TN_OPTIONS_STRUCT(tn_image_color_jitter, TN_IMAGE_COLOR_JITTER_OPTIONS_LIST);
#define TN_IMAGE_COLOR_JITTER_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_image_color_jitter,                                \
                        TN_IMAGE_COLOR_JITTER_OPTIONS_LIST)
/* Adjusts brightness, contrast, saturation and hue, in random order. */
TN_API tn_tensor *
tn_image_color_jitter_with(tn_tensor *image,
                           const tn_image_color_jitter_options *options);

/* Options: with probability p, the pixels of a random box become `value`. Its
 * area and ratio (height / width) are as in tn_image_random_resized_crop. */
#define TN_IMAGE_RANDOM_ERASING_OPTIONS_LIST(X)                               \
    X(double, p, 0.5)                                                         \
    X(double, scale_min, 0.02)                                                \
    X(double, scale_max, 0.33)                                                \
    X(double, ratio_min, 0.3)                                                 \
    X(double, ratio_max, 3.3)                                                 \
    X(double, value, 0)
TN_OPTIONS_STRUCT(tn_image_random_erasing,
                  TN_IMAGE_RANDOM_ERASING_OPTIONS_LIST);
#define TN_IMAGE_RANDOM_ERASING_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_image_random_erasing,                              \
                        TN_IMAGE_RANDOM_ERASING_OPTIONS_LIST)
/* Erases a random box. Source: arXiv:1708.04896. */
TN_API tn_tensor *
tn_image_random_erasing_with(tn_tensor *image,
                             const tn_image_random_erasing_options *options);

#ifndef __cplusplus
#define tn_image_resize(...) TN_CALL_3(tn_image_resize, __VA_ARGS__, )
#define tn_image_resize_shorter(...)                                          \
    TN_CALL_2(tn_image_resize_shorter, __VA_ARGS__, )
#define tn_image_resized_crop(...)                                            \
    TN_CALL_4(tn_image_resized_crop, __VA_ARGS__, )
#define tn_image_pad(...) TN_CALL_5(tn_image_pad, __VA_ARGS__, )
#define tn_image_rotate(...) TN_CALL_2(tn_image_rotate, __VA_ARGS__, )
#define tn_image_affine(...) TN_CALL_1(tn_image_affine, __VA_ARGS__, )
#define tn_image_prepare(...) TN_CALL_1(tn_image_prepare, __VA_ARGS__, )
#define tn_image_random_crop(...) TN_CALL_3(tn_image_random_crop, __VA_ARGS__, )
#define tn_image_random_resized_crop(...)                                     \
    TN_CALL_3(tn_image_random_resized_crop, __VA_ARGS__, )
#define tn_image_random_affine(...)                                           \
    TN_CALL_1(tn_image_random_affine, __VA_ARGS__, )
#define tn_image_color_jitter(...)                                            \
    TN_CALL_1(tn_image_color_jitter, __VA_ARGS__, )
#define tn_image_random_erasing(...)                                          \
    TN_CALL_1(tn_image_random_erasing, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(tn_tensor *, tn_image_resize, tn_tensor *, int64_t, int64_t)
TN_OVERLOAD_2(tn_tensor *, tn_image_resize_shorter, tn_tensor *, int64_t)
TN_OVERLOAD_4(tn_tensor *, tn_image_resized_crop, tn_tensor *, tn_dims_list,
              int64_t, int64_t)
TN_OVERLOAD_5(tn_tensor *, tn_image_pad, tn_tensor *, int64_t, int64_t, int64_t,
              int64_t)
TN_OVERLOAD_2(tn_tensor *, tn_image_rotate, tn_tensor *, double)
TN_OVERLOAD_1(tn_tensor *, tn_image_affine, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_image_prepare, tn_tensor *)
TN_OVERLOAD_3(tn_tensor *, tn_image_random_crop, tn_tensor *, int64_t, int64_t)
TN_OVERLOAD_3(tn_tensor *, tn_image_random_resized_crop, tn_tensor *, int64_t,
              int64_t)
TN_OVERLOAD_1(tn_tensor *, tn_image_random_affine, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_image_color_jitter, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_image_random_erasing, tn_tensor *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
