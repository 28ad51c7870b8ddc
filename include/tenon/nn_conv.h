/* <tenon/nn_conv.h>: convolutions, transposed convolutions and upsampling. Part
 * of <tenon/nn.h>.
 *
 * Each function returns a module owned by the open scope. Shapes are documented
 * with the operator of the same name in <tenon/ops.h>. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_CONV_H
#define TENON_NN_CONV_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters: weight (out, in / groups, kernel...), or (in, out / groups,
 * kernel...) if transposed, and bias (out). stride applies to each axis;
 * strides lists one number for each axis. So do padding and paddings, and the
 * other pairs. kernel_sizes is used if kernel_size is TN_NONE_INT.
 * output_padding is for transposed convolutions only; padding_same and
 * padding_mode are for ordinary ones only. padding_mode: "zeros", or a mode of
 * tn_pad: "reflect", "replicate" or "circular". */
#define TN_NN_CONV_OPTIONS_LIST(X)                                             \
    X(int64_t, stride, 1)                                                      \
    X(tn_dims_list, strides, TN_NONE_DIMS)                                     \
    X(int64_t, padding, 0)                                                     \
    X(tn_dims_list, paddings, TN_NONE_DIMS)                                    \
    X(bool, padding_same, false) /* output size = input size; stride 1 */      \
    X(const char *, padding_mode, "zeros")                                     \
    X(int64_t, output_padding, 0)                                              \
    X(tn_dims_list, output_paddings, TN_NONE_DIMS)                             \
    X(int64_t, dilation, 1)                                                    \
    X(tn_dims_list, dilations, TN_NONE_DIMS)                                   \
    X(int64_t, groups, 1)                                                      \
    X(bool, bias, true)                                                        \
    X(tn_dims_list, kernel_sizes, TN_NONE_DIMS)
TN_OPTIONS_STRUCT(tn_nn_conv1d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV1D_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_conv1d, TN_NN_CONV_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_conv2d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV2D_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_conv2d, TN_NN_CONV_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_conv_transpose1d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV_TRANSPOSE1D_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_nn_conv_transpose1d, TN_NN_CONV_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_conv_transpose2d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV_TRANSPOSE2D_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_nn_conv_transpose2d, TN_NN_CONV_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_conv3d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV3D_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_conv3d, TN_NN_CONV_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_conv_transpose3d, TN_NN_CONV_OPTIONS_LIST);
#define TN_NN_CONV_TRANSPOSE3D_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_nn_conv_transpose3d, TN_NN_CONV_OPTIONS_LIST)

/* Map (N, in, L) to (N, out, L'). */
TN_API tn_module *tn_nn_conv1d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv1d_options *options);
TN_API tn_module *tn_nn_conv_transpose1d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_transpose1d_options *options);
/* Map (N, in, H, W) to (N, out, H', W'). */
TN_API tn_module *tn_nn_conv2d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv2d_options *options);
TN_API tn_module *tn_nn_conv_transpose2d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_transpose2d_options *options);
/* Map (N, in, D, H, W) to (N, out, D', H', W'). */
TN_API tn_module *tn_nn_conv3d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv3d_options *options);
TN_API tn_module *tn_nn_conv_transpose3d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_transpose3d_options *options);

/* Resizes (N, C, ...) by scale_factor, or, if that is TN_NONE_FLOAT, to
 * output_size on each axis or output_sizes. The modes are those of
 * tn_interpolate. align_corners is for the modes linear, bilinear, trilinear
 * and bicubic. scale_factors, instead of scale_factor, has scale_factor_count
 * factors, one for each axis (at most 3); sizes times factors must be integers
 * unless all factors are equal (else a forward fails with TN_ERR_SHAPE). */
#define TN_NN_UPSAMPLE_OPTIONS_LIST(X)                                        \
    X(int64_t, output_size, TN_NONE_INT)                                      \
    X(tn_dims_list, output_sizes, TN_NONE_DIMS)                               \
    X(const char *, mode, "nearest")                                          \
    X(bool, align_corners, false)                                             \
    X(const double *, scale_factors, NULL)                                    \
    X(int, scale_factor_count, 0)
TN_OPTIONS_STRUCT(tn_nn_upsample, TN_NN_UPSAMPLE_OPTIONS_LIST);
#define TN_NN_UPSAMPLE_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_nn_upsample, TN_NN_UPSAMPLE_OPTIONS_LIST)
TN_API tn_module *tn_nn_upsample_with(double scale_factor,
                                      const tn_nn_upsample_options *options);

#ifndef __cplusplus
#define tn_nn_conv1d(...) TN_CALL_3(tn_nn_conv1d, __VA_ARGS__, )
#define tn_nn_conv2d(...) TN_CALL_3(tn_nn_conv2d, __VA_ARGS__, )
#define tn_nn_conv_transpose1d(...)                                           \
    TN_CALL_3(tn_nn_conv_transpose1d, __VA_ARGS__, )
#define tn_nn_conv_transpose2d(...)                                           \
    TN_CALL_3(tn_nn_conv_transpose2d, __VA_ARGS__, )
#define tn_nn_conv3d(...) TN_CALL_3(tn_nn_conv3d, __VA_ARGS__, )
#define tn_nn_conv_transpose3d(...)                                           \
    TN_CALL_3(tn_nn_conv_transpose3d, __VA_ARGS__, )
#define tn_nn_upsample(...) TN_CALL_1(tn_nn_upsample, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(tn_module *, tn_nn_conv1d, int64_t, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv2d, int64_t, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv_transpose1d, int64_t, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv_transpose2d, int64_t, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv3d, int64_t, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv_transpose3d, int64_t, int64_t, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_upsample, double)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
