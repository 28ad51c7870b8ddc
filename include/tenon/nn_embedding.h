/* <tenon/nn_embedding.h>: embeddings, and the bilinear layer. Part of
 * <tenon/nn.h>. Each function that makes a layer returns a module owned by the
 * open scope. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_EMBEDDING_H
#define TENON_NN_EMBEDDING_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maps integers (...) to vectors (..., embedding_dim), the rows of weight
 * (num_embeddings, embedding_dim). The initial weight is normally distributed.
 *
 *   padding_idx         this row is zeros and gets no gradient; a negative
 *                       index counts from the end
 *   max_norm            selected rows are scaled to a p-norm of at most this; a
 *                       forward changes them in weight
 *   norm_type           p; rejected without max_norm
 *   scale_grad_by_freq  divides the gradient of a row by the number of its
 *                       occurrences */
#define TN_NN_EMBEDDING_OPTIONS_LIST(X)                                       \
    X(int64_t, padding_idx, TN_NONE_INT)                                      \
    X(double, max_norm, TN_NONE_FLOAT)                                        \
    X(double, norm_type, 2)                                                   \
    X(bool, scale_grad_by_freq, false)
TN_OPTIONS_STRUCT(tn_nn_embedding, TN_NN_EMBEDDING_OPTIONS_LIST);
#define TN_NN_EMBEDDING_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_nn_embedding, TN_NN_EMBEDDING_OPTIONS_LIST)
TN_API tn_module *tn_nn_embedding_with(int64_t num_embeddings,
                                       int64_t embedding_dim,
                                       const tn_nn_embedding_options *options);

/* Maps bags (lists of integers) to (bags, embedding_dim): for each bag, the
 * mean, sum or maximum of the rows of weight (num_embeddings, embedding_dim)
 * that its integers select. The initial weight is normally distributed.
 * Signature: "input, offsets?, per_sample_weights? -> output". input has the
 * shape (bags, length), or it is 1-d and bag i begins at offsets[i].
 * per_sample_weights has the shape of input and requires mode "sum".
 * tn_nn_embedding_bag_forward is tn_forward with all three inputs; the last two
 * may be NULL.
 *
 *   mode                 "mean", "sum" or "max"
 *   padding_idx          a row of zeros that no bag includes; a negative index
 *                        counts from the end
 *   include_last_offset  offsets has one more element, the end of the last bag
 *   scale_grad_by_freq   divides the gradient of a row by the number of its
 *                        occurrences; not with mode "max"
 *   max_norm             selected rows are scaled to a p-norm of at most this
 *   norm_type            p; rejected without max_norm */
#define TN_NN_EMBEDDING_BAG_OPTIONS_LIST(X)                                   \
    X(const char *, mode, "mean")                                             \
    X(int64_t, padding_idx, TN_NONE_INT)                                      \
    X(bool, include_last_offset, false)                                       \
    X(bool, scale_grad_by_freq, false)                                        \
    X(double, max_norm, TN_NONE_FLOAT)                                        \
    X(double, norm_type, 2)
TN_OPTIONS_STRUCT(tn_nn_embedding_bag, TN_NN_EMBEDDING_BAG_OPTIONS_LIST);
#define TN_NN_EMBEDDING_BAG_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_nn_embedding_bag, TN_NN_EMBEDDING_BAG_OPTIONS_LIST)
TN_API tn_module *tn_nn_embedding_bag_with(
    int64_t num_embeddings, int64_t embedding_dim,
    const tn_nn_embedding_bag_options *options);
TN_API tn_tensor *tn_nn_embedding_bag_forward(tn_module *embedding_bag,
                                              tn_tensor *input,
                                              tn_tensor *offsets,
                                              tn_tensor *per_sample_weights);

/* Maps (..., in1) and (..., in2) to (..., out): y[o] = x1^T weight[o] x2 +
 * bias[o]. Parameters: weight (out, in1, in2), bias (out). Signature: "input1,
 * input2? -> output". Without input2, input1 is used for both. */
TN_API tn_module *tn_nn_bilinear(int64_t in1_features, int64_t in2_features,
                                 int64_t out_features, bool bias);
TN_API tn_tensor *tn_nn_bilinear_forward(tn_module *bilinear, tn_tensor *input1,
                                         tn_tensor *input2);

#ifndef __cplusplus
#define tn_nn_embedding(...) TN_CALL_2(tn_nn_embedding, __VA_ARGS__, )
#define tn_nn_embedding_bag(...) TN_CALL_2(tn_nn_embedding_bag, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_module *, tn_nn_embedding, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_embedding_bag, int64_t, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
