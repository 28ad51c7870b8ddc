/* resample.h: interpolation along one axis. */
#ifndef TN_MEDIA_IMAGE_RESAMPLE_H
#define TN_MEDIA_IMAGE_RESAMPLE_H

#include <media/image/image_tensor.h>

typedef enum tn__mode {
    TN__NEAREST,
    TN__NEAREST_EXACT,
    TN__BILINEAR,
    TN__BICUBIC
} tn__mode;

/* How the elements of an axis are made: element i is the sum of weights
 * [i * taps + k] times input element first[i] + k, k = 0 .. taps - 1. All
 * elements have the same number of taps; weights that are not needed are 0. */
typedef struct tn__axis {
    int64_t in, out, taps;
    int64_t *first; /* owned: the memory of all three arrays */
    float *real;    /* weights for float32 */
    int16_t *fixed; /* weights for uint8, times 2^shift */
    int shift;
} tn__axis;

/* Returns false with the error of call set. free: tn__axis_free. */
bool tn__axis_make(tn__axis *axis, int64_t in, int64_t out, tn__mode mode,
                   bool antialias, const char *call);
void tn__axis_free(tn__axis *axis);

/* A part of a resized image. */
typedef struct tn__window {
    int64_t top, left, height, width;
} tn__window;

/* Resizes the box `from` of each plane of image to the axes' sizes, and stores
 * the window `part` of the result in out, which has the part's size and image's
 * dtype. Columns are interpolated before rows, and uint8 is rounded between, as
 * in torchvision. Returns false with the error of call set. */
bool tn__resample(const tn__pixels *image, const tn__window *from,
                  const tn__axis *y, const tn__axis *x, const tn__window *part,
                  const tn__pixels *out, const char *call);

/* Computes the size that tn_image_resize_shorter makes. */
void tn__shorter_size(int64_t height, int64_t width, int64_t side,
                      int64_t max_size, int64_t *out_height,
                      int64_t *out_width);

#endif
