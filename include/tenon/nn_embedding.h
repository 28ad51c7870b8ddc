/* <tenon/nn_embedding.h>: tables of vectors, and products of two inputs. Part of
 * <tenon/nn.h>. Source: torch.nn. */
#ifndef TENON_NN_EMBEDDING_H
#define TENON_NN_EMBEDDING_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whole numbers (...) to vectors (..., embedding_dim): the rows of weight
 * (num_embeddings, embedding_dim), which starts as normal numbers. */
typedef struct tn_nn_embedding_options {
    size_t size;
    bool has_padding_idx; /* a row of zeros that gets no gradient: */
    int64_t padding_idx;  /*   this one; below 0 it counts from the end */
} tn_nn_embedding_options;
TN_API tn_module *tn_nn_embedding_with(int64_t num_embeddings,
                                       int64_t embedding_dim,
                                       const tn_nn_embedding_options *options);

/* Whole numbers (batch, length) to the mean (or "sum") of their vectors:
 * (batch, embedding_dim). mode: "mean" or "sum", NULL: mean. */
TN_API tn_module *tn_nn_embedding_bag(int64_t num_embeddings,
                                      int64_t embedding_dim,
                                      const char *mode);

/* (..., in1) and (..., in2) to (..., out). Parameters: weight (out, in1, in2),
 * bias (out). tn_forward takes one input for both. */
TN_API tn_module *tn_nn_bilinear(int64_t in1_features, int64_t in2_features,
                                 int64_t out_features, bool bias);
TN_API tn_tensor *tn_nn_bilinear_forward(void *bilinear, tn_tensor *input1,
                                         tn_tensor *input2);

#ifndef __cplusplus
#define tn_nn_embedding(...)                                                  \
    TN__NN_EMBEDDING(__VA_ARGS__, .size = sizeof(tn_nn_embedding_options))
#define TN__NN_EMBEDDING(num_embeddings, embedding_dim, ...)                  \
    tn_nn_embedding_with(num_embeddings, embedding_dim,                       \
                         &(tn_nn_embedding_options){__VA_ARGS__})
#else
} /* extern "C" */
inline tn_module *tn_nn_embedding(int64_t num_embeddings,
                                  int64_t embedding_dim,
                                  tn_nn_embedding_options options = {})
{
    options.size = sizeof options;
    return tn_nn_embedding_with(num_embeddings, embedding_dim, &options);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
