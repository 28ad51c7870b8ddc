/* window.h: windows that slide over images (N, C, H, W) or (C, H, W). */
#ifndef TN_LIB_OPS_WINDOW_H
#define TN_LIB_OPS_WINDOW_H

#include <ops/engine/native.h>

/* Axis 0 is that of H, 1 that of W. */
typedef struct tn__window {
    int64_t in[2], kernel[2], stride[2], dilation[2];
    int64_t pad[2];   /* before the axis; what lies beyond its end follows */
    int64_t out[2];   /* number of windows */
} tn__window;

/* Do all windows lie within the image? Then a window is only strides. */
bool tn__window_is_inside(const tn__window *w);

/* Does a window lie wholly in the padding? Its first tap that is not before the
 * image then lies behind it: with more than the image between two taps. */
bool tn__window_all_padding(const tn__window *w);
/* Where there is such a window: bool (oH, oW), which show the image, and what
 * PyTorch says where their greatest stands, int64 (oH, oW): the first tap that
 * is not before the image, also behind its end. */
tn_status tn__window_visible(const tn__window *w, tn_device *device,
                             tn_tensor **shows, tn_tensor **first);

/* A dims argument of one number for both axes, or two. */
tn_status tn__window_pair(const tn__call *call, int arg, int64_t pair[2]);

/* divisor_override, 0 where there is none. */
tn_status tn__window_divisor(const tn__call *call, int arg, int64_t *divisor);

/* images and channels of x; x must have 3 or 4 dimensions. */
typedef struct tn__images {
    tn_tensor *tensor;
    int64_t count, channels;           /* count 1 where x has 3 dimensions */
    int64_t count_stride, channel_stride, stride[2];
} tn__images;
tn_status tn__images_of(const char *name, tn_tensor *x, tn__images *images);

/* The windows of x written into out: (N, C kH kW, oH oW), contiguous. */
tn_status tn__columns_write(const tn__images *x, const tn__window *w,
                            tn_tensor *out, const char *what);

/* Pooling by the device: TN_ERR_UNSUPPORTED, and nothing recorded, where it has
 * not the extension or declines. `args` says what is not in the rest. */
tn_status tn__pool_by_extension(tn_pool_args args, const tn__window *w,
                                const tn_tensor *in, const tn_tensor *out,
                                const tn_tensor *index, const char *what);

/* Operands over the space (N, C, oH, oW | kH, kW): */
/* the image, read by strides alone; */
void tn__window_add_strided(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* or by two indices, rows and columns, that coordinates give. */
void tn__window_add_indexed(tn__space *space, const tn__window *w,
                            const tn__images *x);
/* The coordinate along an axis: an offset operand. */
void tn__window_add_coordinate(tn__space *space, const tn__window *w,
                               int axis);
/* The space itself: the window's dimensions are its row (in_row), or follow
 * the channel: (N, C, kH, kW, oH, oW). */
void tn__window_space(tn__space *space, const tn__window *w,
                      const tn__images *x, bool in_row);

#endif
