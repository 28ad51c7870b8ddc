/* window.h: sliding windows over images (N, C, H, W) or (C, H, W). */
#ifndef TN_LIB_OPS_WINDOW_H
#define TN_LIB_OPS_WINDOW_H

#include <ops/engine/native.h>

/* Axis 0 is H, axis 1 is W. */
typedef struct tn__window {
    int64_t in[2], kernel[2], stride[2], dilation[2];
    int64_t pad[2];   /* before the axis; the padding behind it follows from
                         out */
    int64_t out[2];   /* number of windows */
} tn__window;

/* Are all windows within the image? Then a window is described by strides
 * alone. */
bool tn__window_is_inside(const tn__window *w);

/* Is a window all padding? Its first tap that is not before the image is then
 * behind it: dilation exceeds the size of the image. */
bool tn__window_all_padding(const tn__window *w);
/* For the case that there is such a window. visible: bool (oH, oW), true for
 * windows that cover part of the image. first: int64 (oH, oW), the index that
 * PyTorch reports for a window's maximum otherwise: that of the first tap that
 * is not before the image, even if it is behind the end. */
tn_status tn__window_visible(const tn__window *w, tn_device *device,
                             tn_tensor **shows, tn_tensor **first);

/* Reads a dims argument with one number for both axes, or two. */
tn_status tn__window_pair(const tn__call *call, int arg, int64_t pair[2]);

/* Reads divisor_override; 0 if it is absent. */
tn_status tn__window_divisor(const tn__call *call, int arg, int64_t *divisor);

/* The images and channels of x, which must have 3 or 4 dimensions. */
typedef struct tn__images {
    tn_tensor *tensor;
    int64_t count, channels;           /* count is 1 if x has 3 dimensions */
    int64_t count_stride, channel_stride, stride[2];
} tn__images;
tn_status tn__images_of(const char *name, tn_tensor *x, tn__images *images);

/* Writes the windows of x into out: (N, C * kH * kW, oH * oW), contiguous. */
tn_status tn__columns_write(const tn__images *x, const tn__window *w,
                            tn_tensor *out, const char *what);

/* Pooling by the device. TN_ERR_UNSUPPORTED, and nothing recorded, if it lacks
 * the extension or declines. args holds what the other arguments do not. */
tn_status tn__pool_by_extension(tn_pool_args args, const tn__window *w,
                                const tn_tensor *in, const tn_tensor *out,
                                const tn_tensor *index, const char *what);

/* Operands over the space (N, C, oH, oW | kH, kW): */
/* the image, read by strides alone; */
void tn__window_add_strided(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* or by two indices, row and column, which coordinates supply. */
void tn__window_add_indexed(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* The coordinate along an axis: an offset operand. */
void tn__window_add_coordinate(tn__space *space, const tn__window *w,
                               int axis);
/* Starts the space. The dimensions of the window are its row (in_row), or
 * follow the channel: (N, C, kH, kW, oH, oW). */
void tn__window_space(tn__space *space, const tn__window *w,
                      const tn__images *x, bool in_row);

#endif
