/* <tenon/nn_norm.h>: normalisation layers. Part of <tenon/nn.h>.
 *
 * Each function returns a module owned by the open scope. The output has the
 * shape of the input. With affine or elementwise_affine, a layer has the
 * parameters weight (initially ones) and bias (initially zeros), on the current
 * device. eps is 0 or more. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_NORM_H
#define TENON_NN_NORM_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Batch normalisation (arXiv:1502.03167) of (N, C), (N, C, L) [1d], (N, C, H,
 * W) [2d] or (N, C, D, H, W) [3d] over all dimensions but C. In training mode,
 * the mean and variance of the batch are used, and running averages of them are
 * updated. In evaluation mode, the running averages are used.
 *
 *   momentum             running = (1 - momentum) running + momentum batch
 *   cumulative           running averages are means over all batches (PyTorch's
 *                        momentum=None); excludes momentum
 *   track_running_stats  true: the layer has the buffers running_mean (C),
 *                        running_var (C) and num_batches_tracked. false: it
 *                        always uses the statistics of the batch, and momentum
 *                        and cumulative are rejected */
#define TN_NN_BATCH_NORM_OPTIONS_LIST(X)                                      \
    X(double, eps, 1e-5)                                                      \
    X(double, momentum, 0.1)                                                  \
    X(bool, cumulative, false)                                                \
    X(bool, affine, true)                                                     \
    X(bool, track_running_stats, true)                                        \
    X(bool, bias, true) /* false: weight is the only parameter */
TN_OPTIONS_STRUCT(tn_nn_batch_norm1d, TN_NN_BATCH_NORM_OPTIONS_LIST);
#define TN_NN_BATCH_NORM1D_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_nn_batch_norm1d, TN_NN_BATCH_NORM_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_batch_norm2d, TN_NN_BATCH_NORM_OPTIONS_LIST);
#define TN_NN_BATCH_NORM2D_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_nn_batch_norm2d, TN_NN_BATCH_NORM_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_batch_norm3d, TN_NN_BATCH_NORM_OPTIONS_LIST);
#define TN_NN_BATCH_NORM3D_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_nn_batch_norm3d, TN_NN_BATCH_NORM_OPTIONS_LIST)
TN_API tn_module *tn_nn_batch_norm1d_with(
    int64_t num_features, const tn_nn_batch_norm1d_options *options);
TN_API tn_module *tn_nn_batch_norm2d_with(
    int64_t num_features, const tn_nn_batch_norm2d_options *options);
TN_API tn_module *tn_nn_batch_norm3d_with(
    int64_t num_features, const tn_nn_batch_norm3d_options *options);

/* Instance normalisation (arXiv:1607.08022) of (N, C, L) [1d], (N, C, H, W)
 * [2d] or (N, C, D, H, W) [3d]: each channel of each sample separately. By
 * default there are no parameters and no buffers. Running statistics, if
 * tracked, are used in evaluation mode. */
#define TN_NN_INSTANCE_NORM_OPTIONS_LIST(X)                                   \
    X(double, eps, 1e-5)                                                      \
    X(double, momentum, 0.1)                                                  \
    X(bool, affine, false)                                                    \
    X(bool, track_running_stats, false)                                       \
    X(bool, bias, true) /* false: weight is the only parameter */
TN_OPTIONS_STRUCT(tn_nn_instance_norm1d, TN_NN_INSTANCE_NORM_OPTIONS_LIST);
#define TN_NN_INSTANCE_NORM1D_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_nn_instance_norm1d,                                \
                        TN_NN_INSTANCE_NORM_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_instance_norm2d, TN_NN_INSTANCE_NORM_OPTIONS_LIST);
#define TN_NN_INSTANCE_NORM2D_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_nn_instance_norm2d,                                \
                        TN_NN_INSTANCE_NORM_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_instance_norm3d, TN_NN_INSTANCE_NORM_OPTIONS_LIST);
#define TN_NN_INSTANCE_NORM3D_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_nn_instance_norm3d,                                \
                        TN_NN_INSTANCE_NORM_OPTIONS_LIST)
TN_API tn_module *tn_nn_instance_norm1d_with(
    int64_t num_features, const tn_nn_instance_norm1d_options *options);
TN_API tn_module *tn_nn_instance_norm2d_with(
    int64_t num_features, const tn_nn_instance_norm2d_options *options);
TN_API tn_module *tn_nn_instance_norm3d_with(
    int64_t num_features, const tn_nn_instance_norm3d_options *options);

/* Layer normalisation over the last dimensions, whose sizes are
 * normalized_shape (arXiv:1607.06450). */
#define TN_NN_LAYER_NORM_OPTIONS_LIST(X)                                      \
    X(double, eps, 1e-5)                                                      \
    X(bool, elementwise_affine, true)                                         \
    X(bool, bias, true) /* false: weight is the only parameter */
TN_OPTIONS_STRUCT(tn_nn_layer_norm, TN_NN_LAYER_NORM_OPTIONS_LIST);
#define TN_NN_LAYER_NORM_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_nn_layer_norm, TN_NN_LAYER_NORM_OPTIONS_LIST)
TN_API tn_module *tn_nn_layer_norm_with(
    tn_dims_list normalized_shape, const tn_nn_layer_norm_options *options);

/* Division by the root of the mean square over the last dimensions, whose sizes
 * are normalized_shape (arXiv:1910.07467). Parameter: weight. */
#define TN_NN_RMS_NORM_OPTIONS_LIST(X)                                        \
    X(double, eps, TN_NONE_FLOAT) /* default: machine epsilon of the dtype */ \
    X(bool, elementwise_affine, true)
TN_OPTIONS_STRUCT(tn_nn_rms_norm, TN_NN_RMS_NORM_OPTIONS_LIST);
#define TN_NN_RMS_NORM_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_nn_rms_norm, TN_NN_RMS_NORM_OPTIONS_LIST)
TN_API tn_module *tn_nn_rms_norm_with(tn_dims_list normalized_shape,
                                      const tn_nn_rms_norm_options *options);

/* Group normalisation of (N, C, ...): each of num_groups groups of channels of
 * each sample separately (arXiv:1803.08494). */
#define TN_NN_GROUP_NORM_OPTIONS_LIST(X)                                      \
    X(double, eps, 1e-5)                                                      \
    X(bool, affine, true)                                                     \
    X(bool, bias, true) /* false: weight is the only parameter */
TN_OPTIONS_STRUCT(tn_nn_group_norm, TN_NN_GROUP_NORM_OPTIONS_LIST);
#define TN_NN_GROUP_NORM_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_nn_group_norm, TN_NN_GROUP_NORM_OPTIONS_LIST)
TN_API tn_module *tn_nn_group_norm_with(
    int64_t num_groups, int64_t num_channels,
    const tn_nn_group_norm_options *options);

#ifndef __cplusplus
#define tn_nn_batch_norm1d(...) TN_CALL_1(tn_nn_batch_norm1d, __VA_ARGS__, )
#define tn_nn_batch_norm2d(...) TN_CALL_1(tn_nn_batch_norm2d, __VA_ARGS__, )
#define tn_nn_batch_norm3d(...) TN_CALL_1(tn_nn_batch_norm3d, __VA_ARGS__, )
#define tn_nn_instance_norm1d(...)                                            \
    TN_CALL_1(tn_nn_instance_norm1d, __VA_ARGS__, )
#define tn_nn_instance_norm2d(...)                                            \
    TN_CALL_1(tn_nn_instance_norm2d, __VA_ARGS__, )
#define tn_nn_instance_norm3d(...)                                            \
    TN_CALL_1(tn_nn_instance_norm3d, __VA_ARGS__, )
#define tn_nn_layer_norm(...) TN_CALL_1(tn_nn_layer_norm, __VA_ARGS__, )
#define tn_nn_rms_norm(...) TN_CALL_1(tn_nn_rms_norm, __VA_ARGS__, )
#define tn_nn_group_norm(...) TN_CALL_2(tn_nn_group_norm, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_module *, tn_nn_batch_norm1d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_batch_norm2d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_batch_norm3d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_instance_norm1d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_instance_norm2d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_instance_norm3d, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_layer_norm, tn_dims_list)
TN_OVERLOAD_1(tn_module *, tn_nn_rms_norm, tn_dims_list)
TN_OVERLOAD_2(tn_module *, tn_nn_group_norm, int64_t, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
