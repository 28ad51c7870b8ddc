/* pool_nd.h: the windows of pooling in one and three dimensions, and of adaptive
 * pooling in one to three. */
#ifndef TN_LIB_OPS_POOL_ND_H
#define TN_LIB_OPS_POOL_ND_H

#include <ops/nn/taps.h>
#include <ops/nn/window.h>

enum { TN__WINDOWS_AXES = 3 };

/* Windows along each of the last `axes` dimensions. */
typedef struct tn__windows {
    int axes;
    int64_t in[TN__WINDOWS_AXES], out[TN__WINDOWS_AXES],
        kernel[TN__WINDOWS_AXES], stride[TN__WINDOWS_AXES],
        pad[TN__WINDOWS_AXES], dilation[TN__WINDOWS_AXES];
} tn__windows;

/* The row's name ends in the number of its dimensions: "..._pool2d". */
int tn__windows_axes(const tn__call *call);
/* Argument arg as `axes` numbers; `none` where the list is empty. */
tn_status tn__windows_list(const tn__call *call, int arg, int axes,
                           const int64_t *none, int64_t *list);
tn_status tn__windows_check_input(const tn__call *call, const tn_tensor *x,
                                  int axes);
/* args: the numbers of the arguments kernel_size, stride, padding and dilation.
 * dilation -1: the row has no such argument. */
tn_status tn__windows_read(const tn__call *call, const tn_tensor *x, int axes,
                           const int args[4], int ceil_mode, tn__windows *w);
/* The same for an adaptive row: sets in, out and axes. */
tn_status tn__windows_read_adaptive(const tn__call *call, const tn_tensor *x,
                                    tn__windows *w);

/* A table of the elements of each adaptive window along axis a. mean: the
 * weights are those of a mean. Otherwise missing elements repeat the first
 * one. */
tn_status tn__windows_even_taps(const tn__windows *w, int a, bool mean,
                                tn__taps *taps);

/* The first tap of window i that is not before the input. If it is behind the
 * input, the whole window is padding. */
int64_t tn__windows_first_tap(const tn__windows *w, int a, int64_t i);
/* Is a window all padding? */
bool tn__windows_all_padding(const tn__windows *w);

/* Adaptive windows of one size: sets kernel and stride. False if sizes differ.
 */
bool tn__windows_make_regular(tn__windows *w);
/* Can max_pool2d and avg_pool2d compute it? */
bool tn__windows_suit_images(const tn_tensor *x, const tn__windows *w);
/* One pass: x as (N, C, H, W) and windows over its last two dimensions. */
typedef struct tn__image_pass {
    tn_dims_list shape; /* of x */
    tn_dims_list kernel, stride, pad, dilation;
} tn__image_pass;
/* Passes over x, and their number: the last dimensions (H of one dimension is
 * 1), then depth. */
int tn__windows_plan(const tn_tensor *x, const tn__windows *w,
                     tn__image_pass pass[2]);
/* The result of the passes, with the shape of x except in the pooled axes. */
tn_tensor *tn__windows_shape(tn_tensor *made, const tn_tensor *x,
                             const tn__windows *w);

#endif
