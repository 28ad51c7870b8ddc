/* <tenon/nn_loss.h>: losses that call several operators. Losses of one operator
 * are in <tenon/nn_layers.h>. Part of <tenon/nn.h>. Each function that makes a
 * loss returns a module owned by the open scope. Source: torch.nn.
 *
 *     tn_module *loss = tn_nn_triplet_margin_with_distance_loss(.margin = 0.5);
 *     tn_backward(tn_forward(loss, anchor, positive, negative));
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_LOSS_H
#define TENON_NN_LOSS_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the distances of a and b, one for each sample. It calls
 * differentiable operators; the open scope owns the result. On failure it
 * returns NULL, with an error. */
typedef tn_tensor *(*tn_nn_distance)(tn_tensor *a, tn_tensor *b, void *context);

/* Computes max(0, margin + d(anchor, positive) - d(anchor, negative)) for
 * inputs (N, ...), and reduces it by "mean", "sum" or "none".
 *
 *   distance_function  d; NULL means pairwise_distance
 *   context            passed to distance_function; lent
 *   margin             greater than 0
 *   swap               replace d(anchor, negative) by d(positive, negative)
 *                      where the latter is less
 *
 * Source: torch.nn.TripletMarginWithDistanceLoss. */
#define TN_NN_TRIPLET_DISTANCE_OPTIONS_LIST(X)                                \
    X(tn_nn_distance, distance_function, NULL)                                \
    X(void *, context, NULL)                                                  \
    X(double, margin, 1)                                                      \
    X(bool, swap, false)                                                      \
    X(const char *, reduction, "mean")
TN_OPTIONS_STRUCT(tn_nn_triplet_margin_with_distance_loss,
                  TN_NN_TRIPLET_DISTANCE_OPTIONS_LIST);
#define TN_NN_TRIPLET_MARGIN_WITH_DISTANCE_LOSS_OPTIONS                       \
    TN_OPTIONS_DEFAULTS(tn_nn_triplet_margin_with_distance_loss,              \
                        TN_NN_TRIPLET_DISTANCE_OPTIONS_LIST)
TN_API tn_module *tn_nn_triplet_margin_with_distance_loss_with(
    const tn_nn_triplet_margin_with_distance_loss_options *options);

/* Computes cross_entropy(linear(input), target) without storing the result of
 * linear. input is (N, in_features) or (in_features). If out_features is (d1,
 * ...), target holds classes (N, d1, ...) or probabilities (N, C, d1, ...),
 * where C is num_classes. Parameters: linear.weight (C d1 ..., in_features)
 * and, if bias is true, linear.bias. The option weight (C) becomes a buffer.
 * The other options are those of tn_nn_cross_entropy_loss. Source:
 * torch.nn.LinearCrossEntropyLoss. */
#define TN_NN_LINEAR_CROSS_ENTROPY_LOSS_OPTIONS_LIST(X)                       \
    X(tn_dims_list, out_features, TN_NONE_DIMS)                               \
    X(bool, bias, false)                                                      \
    X(tn_tensor *, weight, NULL)                                              \
    X(const char *, reduction, "mean")                                        \
    X(int64_t, ignore_index, -100)                                            \
    X(double, label_smoothing, 0)
TN_OPTIONS_STRUCT(tn_nn_linear_cross_entropy_loss,
                  TN_NN_LINEAR_CROSS_ENTROPY_LOSS_OPTIONS_LIST);
#define TN_NN_LINEAR_CROSS_ENTROPY_LOSS_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_nn_linear_cross_entropy_loss,                      \
                        TN_NN_LINEAR_CROSS_ENTROPY_LOSS_OPTIONS_LIST)
TN_API tn_module *tn_nn_linear_cross_entropy_loss_with(
    int64_t in_features, int64_t num_classes,
    const tn_nn_linear_cross_entropy_loss_options *options);

/* An approximation of softmax for many classes (arXiv:1609.04309). Class 0 must
 * be the most frequent one, class 1 the next, and so on. cutoffs (c1, c2, ...)
 * rises within [1, n_classes - 1] and cuts the classes into ranges. The head
 * scores the classes below c1, and each further range as a whole. The range
 * that begins at c1 is cluster 1 (child tail.0), the next one cluster 2
 * (tail.1). Cluster i projects its input to in_features / div_value ** i
 * features and scores the classes of its range. Children: head, tail.0.0,
 * tail.0.1, tail.1.0, ... Source: torch.nn.AdaptiveLogSoftmaxWithLoss. */
#define TN_NN_ADAPTIVE_LOG_SOFTMAX_OPTIONS_LIST(X)                            \
    X(double, div_value, 4)                                                   \
    X(bool, head_bias, false)
TN_OPTIONS_STRUCT(tn_nn_adaptive_log_softmax_with_loss,
                  TN_NN_ADAPTIVE_LOG_SOFTMAX_OPTIONS_LIST);
#define TN_NN_ADAPTIVE_LOG_SOFTMAX_WITH_LOSS_OPTIONS                          \
    TN_OPTIONS_DEFAULTS(tn_nn_adaptive_log_softmax_with_loss,                 \
                        TN_NN_ADAPTIVE_LOG_SOFTMAX_OPTIONS_LIST)
TN_API tn_module *tn_nn_adaptive_log_softmax_with_loss_with(
    int64_t in_features, int64_t n_classes, tn_dims_list cutoffs,
    const tn_nn_adaptive_log_softmax_with_loss_options *options);
/* For input (N, in_features) and target (N), which holds classes, returns the
 * log-probabilities of the targets (N), and sets *out_loss, if out_loss is not
 * NULL, to the mean of their negatives. For an input without a batch,
 * (in_features), target is 0-d. The host reads how many targets each cluster
 * has, which waits for the device. Both results are owned by the open scope.
 * Returns NULL on failure, with *out_loss unchanged. tn_forward(module, input,
 * target) returns the log-probabilities of the targets, too. tn_forward(module,
 * input) returns the log-probabilities of all classes, (N, n_classes);
 * tn_argmax along dimension 1 then gives the most probable class. */
TN_API tn_tensor *tn_nn_adaptive_log_softmax_forward(tn_module *module,
                                                     tn_tensor *input,
                                                     tn_tensor *target,
                                                     tn_tensor **out_loss);

#ifndef __cplusplus
#define tn_nn_triplet_margin_with_distance_loss(...)                          \
    TN_CALL_0(tn_nn_triplet_margin_with_distance_loss, __VA_ARGS__)
#define tn_nn_linear_cross_entropy_loss(...)                                  \
    TN_CALL_2(tn_nn_linear_cross_entropy_loss, __VA_ARGS__, )
#define tn_nn_adaptive_log_softmax_with_loss(...)                             \
    TN_CALL_3(tn_nn_adaptive_log_softmax_with_loss, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_0(tn_module *, tn_nn_triplet_margin_with_distance_loss)
TN_OVERLOAD_2(tn_module *, tn_nn_linear_cross_entropy_loss, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_adaptive_log_softmax_with_loss, int64_t,
              int64_t, tn_dims_list)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
