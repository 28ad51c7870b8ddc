/* conv.h: window geometry, which convolutions and pools share. */
#ifndef TN_ONNX_OPS_CONV_H
#define TN_ONNX_OPS_CONV_H

#include <onnx/ops/ops.h>

/* Sizes for each of the n spatial dimensions. `before` and `after` are
 * padding. */
typedef struct tn__onnx_window {
    int n;
    int64_t kernel[3], stride[3], dilation[3], before[3], after[3];
} tn__onnx_window;

/* Reads the attributes auto_pad, dilations, kernel_shape, pads and strides.
 * which[0] to which[4] are their indices in the row, or -1 if the operator does
 * not have them. kernel has the sizes of the kernel, or is NULL to take them
 * from kernel_shape. x has the images. Returns false with an error. */
bool tn__onnx_window_read(tn__onnx_call *c, const int *which,
                          const tn_tensor *x, const int64_t *kernel,
                          tn__onnx_window *out);
/* Pads x with value in dimensions where the padding before and after differs,
 * and sets the padding of w to 0 there. */
tn_tensor *tn__onnx_pad_uneven(tn_tensor *x, tn__onnx_window *w, double value);
/* Convolves x with the geometry of w, in 1 to 3 spatial dimensions. */
tn_tensor *tn__onnx_convolve(tn__onnx_call *c, tn_tensor *x, tn_tensor *weight,
                             tn_tensor *bias, tn__onnx_window *w,
                             int64_t groups);

#endif
