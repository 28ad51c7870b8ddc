/* pool_nd.h: the windows of pooling in one and three dimensions, and of
 * adaptive pooling in one to three dimensions (PyTorch's max_pool1d,
 * avg_pool3d, adaptive_avg_pool2d and others).
 *
 * An axis is one of the pooled dimensions, which are the last ones: axis a is
 * dimension x->ndim - axes + a of the input x. A tap of a window is one of its
 * positions. Tap k of window i has this coordinate along axis a:
 *
 *     i * stride[a] + k * dilation[a] - pad[a] */
#ifndef TN_LIB_OPS_POOL_ND_H
#define TN_LIB_OPS_POOL_ND_H

#include <ops/nn/window_taps.h>
#include <ops/nn/window.h>

enum { TN__WINDOWS_AXES = 3 };

/* The windows of a pooling operator. Element a of each array is for axis a.
 * `in` is the size of the input, `out` the number of windows. */
typedef struct tn__windows {
    int axes;
    int64_t in[TN__WINDOWS_AXES], out[TN__WINDOWS_AXES],
        kernel[TN__WINDOWS_AXES], stride[TN__WINDOWS_AXES],
        pad[TN__WINDOWS_AXES], dilation[TN__WINDOWS_AXES];
} tn__windows;

/* Returns the number of pooled dimensions, which is in the name of the
 * operator: "..._pool2d". */
int tn__windows_axes(const tn__call *call);
/* Reads argument arg as `axes` numbers. A list of one number applies to all
 * axes. An empty list gives the numbers in `none`, or zeros if that is NULL. */
tn_status tn__windows_list(const tn__call *call, int arg, int axes,
                           const int64_t *none, int64_t *list);
/* Checks the number of dimensions of x: `axes`, a channel dimension, and an
 * optional batch dimension. */
tn_status tn__windows_check_input(const tn__call *call, const tn_tensor *x,
                                  int axes);
/* Sets *w from the arguments of a call. args[] has the indices of the arguments
 * kernel_size, stride, padding and dilation. `ceil_mode` is the index of the
 * argument ceil_mode. args[3] is -1 if the operator has no dilation. */
tn_status tn__windows_read(const tn__call *call, const tn_tensor *x, int axes,
                           const int args[4], int ceil_mode, tn__windows *w);
/* Sets the fields `in`, `out` and `axes` of *w from the arguments of a call of
 * adaptive pooling. */
tn_status tn__windows_read_adaptive(const tn__call *call, const tn_tensor *x,
                                    tn__windows *w);

/* Makes a table (window_taps.h) of the elements of each adaptive window along
 * axis a. The sizes of the windows differ by at most one element. If mean is
 * true, the weights are 1 / size. Else the table is for a maximum, and a
 * shorter window lists its first element twice. */
tn_status tn__windows_even_taps(const tn__windows *w, int a, bool mean,
                                tn__taps *taps);

/* Returns the coordinate along axis a of the first position of window i that is
 * not before the start of the input. If this coordinate is past the end of the
 * input, the whole window is padding. */
int64_t tn__windows_first_tap(const tn__windows *w, int a, int64_t i);
/* Returns whether some window consists of padding alone. */
bool tn__windows_all_padding(const tn__windows *w);

/* If all adaptive windows have the same size and distance, sets kernel, stride,
 * pad and dilation of *w to describe them, and returns true. Else returns
 * false. */
bool tn__windows_make_regular(tn__windows *w);
/* Returns whether max_pool2d and avg_pool2d can compute this pooling of x. */
bool tn__windows_suit_images(const tn_tensor *x, const tn__windows *w);
/* A call of max_pool2d or avg_pool2d that pools one or two of the axes. */
typedef struct tn__image_pass {
    tn_dims_list shape; /* the (N, C, H, W) to which the input is reshaped */
    tn_dims_list kernel, stride, pad, dilation;
} tn__image_pass;
/* Plans the passes that pool x and returns their number. The first pass pools
 * the last two dimensions. With one axis, x is first reshaped to images of
 * height 1. With three axes, the second pass pools the depth. */
int tn__windows_plan(const tn_tensor *x, const tn__windows *w,
                     tn__image_pass pass[2]);
/* Returns `made`, the result of the passes, reshaped to the shape of x with the
 * sizes w->out in the pooled dimensions. */
tn_tensor *tn__windows_shape(tn_tensor *made, const tn_tensor *x,
                             const tn__windows *w);

#endif
