/* <tenon/nn_norm.h>: normalisation layers. Part of <tenon/nn.h>.
 *
 * Each makes a module owned by the open scope. Parameters, unless no_affine:
 * weight (ones) and bias (zeros), on the current device. Source: torch.nn. */
#ifndef TENON_NN_NORM_H
#define TENON_NN_NORM_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Batch normalisation of (N, C), (N, C, L) [1d], (N, C, H, W) [2d] or
 * (N, C, D, H, W) [3d] over all but C: arXiv:1502.03167. While training by the
 * batch's own mean and variance, else by the running ones, which training
 * blends in. Buffers: running_mean, running_var (C), num_batches_tracked. */
typedef struct tn_nn_batch_norm_options {
    size_t size;
    double eps;            /* 1e-5 */
    double momentum;       /* share of the new batch in the running ones: 0.1 */
    bool cumulative;       /* the running ones are means over all batches
                              (PyTorch's momentum=None) */
    bool no_affine;        /* without weight and bias */
    bool no_running_stats; /* without buffers: always by the batch's own
                              (PyTorch's track_running_stats=False) */
} tn_nn_batch_norm_options;
TN_API tn_module *tn_nn_batch_norm1d_with(
    int64_t num_features, const tn_nn_batch_norm_options *options);
TN_API tn_module *tn_nn_batch_norm2d_with(
    int64_t num_features, const tn_nn_batch_norm_options *options);
TN_API tn_module *tn_nn_batch_norm3d_with(
    int64_t num_features, const tn_nn_batch_norm_options *options);

/* Each channel of each item by itself: (N, C, L) [1d], (N, C, H, W) [2d],
 * (N, C, D, H, W) [3d]: arXiv:1607.08022. Without parameters and buffers
 * unless asked for. */
typedef struct tn_nn_instance_norm_options {
    size_t size;
    double eps;         /* 1e-5 */
    double momentum;    /* 0.1 */
    bool affine;        /* with weight and bias */
    bool running_stats; /* with running_mean and running_var, used while not
                           training (PyTorch's track_running_stats) */
} tn_nn_instance_norm_options;
TN_API tn_module *tn_nn_instance_norm1d_with(
    int64_t num_features, const tn_nn_instance_norm_options *options);
TN_API tn_module *tn_nn_instance_norm2d_with(
    int64_t num_features, const tn_nn_instance_norm_options *options);
TN_API tn_module *tn_nn_instance_norm3d_with(
    int64_t num_features, const tn_nn_instance_norm_options *options);

/* Over the last dimensions, which have normalized_shape: arXiv:1607.06450. */
typedef struct tn_nn_layer_norm_options {
    size_t size;
    double eps;     /* 1e-5 */
    bool no_affine; /* without weight and bias */
    bool no_bias;   /* with weight alone */
} tn_nn_layer_norm_options;
TN_API tn_module *tn_nn_layer_norm_with(
    tn_dims_list normalized_shape, const tn_nn_layer_norm_options *options);

/* By the root of the mean square alone: arXiv:1910.07467. Parameter: weight. */
typedef struct tn_nn_rms_norm_options {
    size_t size;
    double eps;     /* the least step above 1 of the dtype */
    bool no_affine; /* without weight */
} tn_nn_rms_norm_options;
TN_API tn_module *tn_nn_rms_norm_with(tn_dims_list normalized_shape,
                                      const tn_nn_rms_norm_options *options);

/* (N, C, ...) over num_groups groups of channels: arXiv:1803.08494. */
typedef struct tn_nn_group_norm_options {
    size_t size;
    double eps;     /* 1e-5 */
    bool no_affine; /* without weight and bias */
} tn_nn_group_norm_options;
TN_API tn_module *tn_nn_group_norm_with(
    int64_t num_groups, int64_t num_channels,
    const tn_nn_group_norm_options *options);

#ifndef __cplusplus
#define tn_nn_batch_norm1d(...)                                               \
    TN__NN_NORM(tn_nn_batch_norm1d_with, tn_nn_batch_norm_options,            \
                __VA_ARGS__, .size = sizeof(tn_nn_batch_norm_options))
#define tn_nn_batch_norm2d(...)                                               \
    TN__NN_NORM(tn_nn_batch_norm2d_with, tn_nn_batch_norm_options,            \
                __VA_ARGS__, .size = sizeof(tn_nn_batch_norm_options))
#define tn_nn_batch_norm3d(...)                                               \
    TN__NN_NORM(tn_nn_batch_norm3d_with, tn_nn_batch_norm_options,            \
                __VA_ARGS__, .size = sizeof(tn_nn_batch_norm_options))
#define tn_nn_instance_norm1d(...)                                            \
    TN__NN_NORM(tn_nn_instance_norm1d_with, tn_nn_instance_norm_options,      \
                __VA_ARGS__, .size = sizeof(tn_nn_instance_norm_options))
#define tn_nn_instance_norm2d(...)                                            \
    TN__NN_NORM(tn_nn_instance_norm2d_with, tn_nn_instance_norm_options,      \
                __VA_ARGS__, .size = sizeof(tn_nn_instance_norm_options))
#define tn_nn_instance_norm3d(...)                                            \
    TN__NN_NORM(tn_nn_instance_norm3d_with, tn_nn_instance_norm_options,      \
                __VA_ARGS__, .size = sizeof(tn_nn_instance_norm_options))
#define tn_nn_layer_norm(...)                                                 \
    TN__NN_NORM(tn_nn_layer_norm_with, tn_nn_layer_norm_options, __VA_ARGS__, \
                .size = sizeof(tn_nn_layer_norm_options))
#define tn_nn_rms_norm(...)                                                   \
    TN__NN_NORM(tn_nn_rms_norm_with, tn_nn_rms_norm_options, __VA_ARGS__,     \
                .size = sizeof(tn_nn_rms_norm_options))
#define TN__NN_NORM(function, options, first, ...)                            \
    function(first, &(options){__VA_ARGS__})
#define tn_nn_group_norm(...)                                                 \
    TN__NN_GROUP_NORM(__VA_ARGS__, .size = sizeof(tn_nn_group_norm_options))
#define TN__NN_GROUP_NORM(num_groups, num_channels, ...)                      \
    tn_nn_group_norm_with(num_groups, num_channels,                           \
                          &(tn_nn_group_norm_options){__VA_ARGS__})
#else
} /* extern "C" */
#define TN__NN_NORM(name, kind, type)                                         \
    inline tn_module *name(type first, kind options = {})                     \
    {                                                                         \
        options.size = sizeof options;                                        \
        return name##_with(first, &options);                                  \
    }
TN__NN_NORM(tn_nn_batch_norm1d, tn_nn_batch_norm_options, int64_t)
TN__NN_NORM(tn_nn_batch_norm2d, tn_nn_batch_norm_options, int64_t)
TN__NN_NORM(tn_nn_batch_norm3d, tn_nn_batch_norm_options, int64_t)
TN__NN_NORM(tn_nn_instance_norm1d, tn_nn_instance_norm_options, int64_t)
TN__NN_NORM(tn_nn_instance_norm2d, tn_nn_instance_norm_options, int64_t)
TN__NN_NORM(tn_nn_instance_norm3d, tn_nn_instance_norm_options, int64_t)
TN__NN_NORM(tn_nn_layer_norm, tn_nn_layer_norm_options, tn_dims_list)
TN__NN_NORM(tn_nn_rms_norm, tn_nn_rms_norm_options, tn_dims_list)
#undef TN__NN_NORM
inline tn_module *tn_nn_group_norm(int64_t num_groups, int64_t num_channels,
                                   tn_nn_group_norm_options options = {})
{
    options.size = sizeof options;
    return tn_nn_group_norm_with(num_groups, num_channels, &options);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
