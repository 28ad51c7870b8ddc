/* window.h: sliding windows over images (N, C, H, W) or (C, H, W), as
 * convolution and pooling have them.
 *
 * A tap of a window is one of its kernel[0] * kernel[1] positions. Tap (ki, kj)
 * of the window for output (oi, oj) is the element
 *
 *     x[n][c][oi * stride[0] + ki * dilation[0] - pad[0]]
 *            [oj * stride[1] + kj * dilation[1] - pad[1]]
 *
 * of the image, or padding if one of the last two indices is out of range. */
#ifndef TN_LIB_OPS_WINDOW_H
#define TN_LIB_OPS_WINDOW_H

#include <ops/engine/native.h>

/* The sizes of windows. Element 0 of each array is for H, element 1 for W. `in`
 * is the size of the image. */
typedef struct tn__window {
    int64_t in[2], kernel[2], stride[2], dilation[2];
    int64_t pad[2];   /* padding above and left of the image. The padding below
                         and right follows from `out`. */
    int64_t out[2];   /* number of windows */
} tn__window;

/* Returns whether all windows are within the image. Then strides alone describe
 * a window. */
bool tn__window_is_inside(const tn__window *w);

/* Returns whether some window consists of padding alone. That happens if
 * dilation exceeds the size of the image, so that a window steps over it. */
bool tn__window_all_padding(const tn__window *w);
/* Makes two tensors of shape (oH, oW), with one element for each window.
 * *shows, of dtype bool, is true for windows that contain an element of the
 * image. *first, of dtype int64, holds the index that PyTorch reports for the
 * maximum of a window that consists of padding alone. This is the index of the
 * window's first position that is not above or left of the image, even if it is
 * below or right of it. */
tn_status tn__window_visible(const tn__window *w, tn_device *device,
                             tn_tensor **shows, tn_tensor **first);

/* Reads argument arg, a list of two numbers for H and W, or of one number for
 * both. */
tn_status tn__window_pair(const tn__call *call, int arg, int64_t pair[2]);

/* Reads the argument divisor_override into *divisor. Stores 0 if it is
 * absent. */
tn_status tn__window_divisor(const tn__call *call, int arg, int64_t *divisor);

/* A tensor as images: (N, C, H, W), or (C, H, W), which is a single image. */
typedef struct tn__images {
    tn_tensor *tensor;
    int64_t count, channels; /* count is N, or 1 for (C, H, W). channels is
                                C. */
    /* Strides of N, C, H and W, in elements. */
    int64_t count_stride, channel_stride, stride[2];
} tn__images;
/* Fills *images from x, which must have 3 or 4 dimensions. */
tn_status tn__images_of(const char *name, tn_tensor *x, tn__images *images);

/* Writes the windows of x as columns (im2col, PyTorch's unfold) into out, which
 * is contiguous, of shape (N, C * kH * kW, oH * oW). */
tn_status tn__columns_write(const tn__images *x, const tn__window *w,
                            tn_tensor *out, const char *what);

/* Pools by the device's extension `pool`. Returns TN_ERR_UNSUPPORTED, without
 * an error recorded, if the device lacks the extension or declines the call.
 * The caller has set the fields of args that do not follow from the other
 * arguments. */
tn_status tn__pool_by_extension(tn_pool_args args, const tn__window *w,
                                const tn_tensor *in, const tn_tensor *out,
                                const tn_tensor *index, const char *what);

/* Adds the images as an operand to a space that tn__window_space has started.
 * The kernel reads the operand by strides alone, so all windows must be within
 * the image. */
void tn__window_add_strided(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* Adds the images as an operand to a space that tn__window_space has started.
 * The kernel reads the operand by two indices, the row and the column in the
 * image. */
void tn__window_add_indexed(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* Adds an offset operand to a space that tn__window_space has started. Its
 * value is the row (axis 0) or the column (axis 1) in the image of the point's
 * position (a tap: one of the kH * kW positions of a window). */
void tn__window_add_coordinate(tn__space *space, const tn__window *w,
                               int axis);
/* Starts an iteration space with a point for each position (tap) of each
 * window. If in_row is true, the space is (N, C, oH, oW) with the row
 * dimensions (kH, kW). Else it is (N, C, kH, kW, oH, oW) without row
 * dimensions. */
void tn__window_space(tn__space *space, const tn__window *w,
                      const tn__images *x, bool in_row);

#endif
