/* <tenon/nn_conv.h>: convolutions of other shapes than Conv2d, and pooling. Part
 * of <tenon/nn.h>.
 *
 * Each makes a module owned by the open scope; shapes are in the operator of the
 * same name in <tenon/ops.h>. Source: torch.nn. */
#ifndef TENON_NN_CONV_H
#define TENON_NN_CONV_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters: weight (out, in / groups, kernel), or, transposed, (in, out /
 * groups, kernel...); bias (out). A number holds for each axis, but where a list
 * with one for each is given. */
typedef struct tn_nn_conv_options {
    size_t size;
    int64_t stride, padding, dilation; /* 1, 0, 1 */
    int64_t groups;                    /* 1 */
    int64_t output_padding;            /* transposed ones alone: 0 */
    bool no_bias;
    tn_dims_list kernel_sizes, strides, paddings, dilations, output_paddings;
} tn_nn_conv_options;
/* (N, in, L) to (N, out, L'). */
TN_API tn_module *tn_nn_conv1d_with(int64_t in_channels, int64_t out_channels,
                                    int64_t kernel_size,
                                    const tn_nn_conv_options *options);
TN_API tn_module *tn_nn_conv_transpose1d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_options *options);
/* (N, in, H, W) to (N, out, H', W'). */
TN_API tn_module *tn_nn_conv_transpose2d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_options *options);

/* (N, in, D, H, W) to (N, out, D', H', W'), and the same transposed. */
TN_API tn_module *tn_nn_conv3d_with(int64_t in_channels, int64_t out_channels,
                                    int64_t kernel_size,
                                    const tn_nn_conv_options *options);
TN_API tn_module *tn_nn_conv_transpose3d_with(
    int64_t in_channels, int64_t out_channels, int64_t kernel_size,
    const tn_nn_conv_options *options);

typedef struct tn_nn_avg_pool2d_options {
    size_t size;
    int64_t stride, padding;  /* kernel_size, 0 */
    bool ceil_mode;
    bool no_count_include_pad; /* the mean of what lies within the image */
    int64_t divisor_override;  /* by what sums are divided: their count */
} tn_nn_avg_pool2d_options;
TN_API tn_module *tn_nn_avg_pool2d_with(
    int64_t kernel_size, const tn_nn_avg_pool2d_options *options);

/* (..., H, W) to (..., height, width): means over parts as even as can be. A
 * size of 0 stays as it is. */
TN_API tn_module *tn_nn_adaptive_avg_pool2d(int64_t height, int64_t width);

/* (N, C r r, H, W) to (N, C, H r, W r). */
TN_API tn_module *tn_nn_pixel_shuffle(int64_t upscale_factor);

/* (N, C, ...) stretched by scale_factor, or to the sizes in output_size where
 * scale_factor is 0. mode as tn_interpolate has it; NULL is "nearest". */
typedef struct tn_nn_upsample_options {
    size_t size;
    tn_dims_list output_size;
    const char *mode;
    bool align_corners;
} tn_nn_upsample_options;
TN_API tn_module *tn_nn_upsample_with(double scale_factor,
                                      const tn_nn_upsample_options *options);

#ifndef __cplusplus
#define TN__NN_CONV(function, in_channels, out_channels, kernel_size, ...)    \
    function(in_channels, out_channels, kernel_size,                          \
             &(tn_nn_conv_options){__VA_ARGS__})
#define tn_nn_conv1d(...)                                                     \
    TN__NN_CONV(tn_nn_conv1d_with, __VA_ARGS__,                               \
                .size = sizeof(tn_nn_conv_options))
#define tn_nn_conv_transpose1d(...)                                           \
    TN__NN_CONV(tn_nn_conv_transpose1d_with, __VA_ARGS__,                     \
                .size = sizeof(tn_nn_conv_options))
#define tn_nn_conv_transpose2d(...)                                           \
    TN__NN_CONV(tn_nn_conv_transpose2d_with, __VA_ARGS__,                     \
                .size = sizeof(tn_nn_conv_options))
#define tn_nn_conv3d(...)                                                     \
    TN__NN_CONV(tn_nn_conv3d_with, __VA_ARGS__,                               \
                .size = sizeof(tn_nn_conv_options))
#define tn_nn_conv_transpose3d(...)                                           \
    TN__NN_CONV(tn_nn_conv_transpose3d_with, __VA_ARGS__,                     \
                .size = sizeof(tn_nn_conv_options))
#define tn_nn_upsample(...)                                                   \
    TN__NN_UPSAMPLE(__VA_ARGS__, .size = sizeof(tn_nn_upsample_options))
#define TN__NN_UPSAMPLE(scale_factor, ...)                                    \
    tn_nn_upsample_with(scale_factor, &(tn_nn_upsample_options){__VA_ARGS__})
#define tn_nn_avg_pool2d(...)                                                 \
    TN__NN_AVG_POOL2D(__VA_ARGS__, .size = sizeof(tn_nn_avg_pool2d_options))
#define TN__NN_AVG_POOL2D(kernel_size, ...)                                   \
    tn_nn_avg_pool2d_with(kernel_size,                                        \
                          &(tn_nn_avg_pool2d_options){__VA_ARGS__})
#else
} /* extern "C" */
#define TN__NN_CONV(name)                                                     \
    inline tn_module *name(int64_t in_channels, int64_t out_channels,         \
                           int64_t kernel_size,                               \
                           tn_nn_conv_options options = {})                   \
    {                                                                         \
        options.size = sizeof options;                                        \
        return name##_with(in_channels, out_channels, kernel_size, &options); \
    }
TN__NN_CONV(tn_nn_conv1d)
TN__NN_CONV(tn_nn_conv_transpose1d)
TN__NN_CONV(tn_nn_conv_transpose2d)
TN__NN_CONV(tn_nn_conv3d)
TN__NN_CONV(tn_nn_conv_transpose3d)
#undef TN__NN_CONV
inline tn_module *tn_nn_upsample(double scale_factor,
                                 tn_nn_upsample_options options = {})
{
    options.size = sizeof options;
    return tn_nn_upsample_with(scale_factor, &options);
}
inline tn_module *tn_nn_avg_pool2d(int64_t kernel_size,
                                   tn_nn_avg_pool2d_options options = {})
{
    options.size = sizeof options;
    return tn_nn_avg_pool2d_with(kernel_size, &options);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
