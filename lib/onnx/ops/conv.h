/* conv.h: the geometry of windows over images, which convolutions and pools
 * share. */
#ifndef TN_ONNX_OPS_CONV_H
#define TN_ONNX_OPS_CONV_H

#include <onnx/ops/ops.h>

/* Numbers for each of the n spatial dimensions. */
typedef struct tn__onnx_window {
    int n;
    int64_t kernel[3], stride[3], dilation[3], before[3], after[3];
} tn__onnx_window;

/* Reads the attributes auto_pad, dilations, kernel_shape, pads and strides,
 * which are number 0 to 4 of the row, or -1 in `which`. kernel: NULL, or the
 * kernel's sizes. x: the images. False with an error. */
bool tn__onnx_window_read(tn__onnx_call *c, const int *which,
                          const tn_tensor *x, const int64_t *kernel,
                          tn__onnx_window *out);
/* Adds value around x where pads are uneven, and sets them to 0. */
tn_tensor *tn__onnx_pad_uneven(tn_tensor *x, tn__onnx_window *w, double value);
/* Convolution with the geometry of w, in 1 to 3 dimensions. */
tn_tensor *tn__onnx_convolve(tn__onnx_call *c, tn_tensor *x, tn_tensor *weight,
                             tn_tensor *bias, tn__onnx_window *w,
                             int64_t groups);

#endif
