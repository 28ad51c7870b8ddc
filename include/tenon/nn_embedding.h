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

/* Bags of whole numbers to the fold of their rows of weight (num_embeddings,
 * embedding_dim), which starts as normal numbers: (bags, embedding_dim).
 * tn_forward takes (bags, length); the other call also a list, which is cut
 * before each of offsets (bags), and per_sample_weights, of input's shape, for
 * mode "sum": NULL where they are left out. */
typedef struct tn_nn_embedding_bag_options {
    size_t size;
    const char *mode;         /* "mean" (NULL), "sum" or "max" */
    bool has_padding_idx;     /* a row of zeros that is in no bag: */
    int64_t padding_idx;      /*   this one; below 0 it counts from the end */
    bool include_last_offset; /* offsets also hold the end of the last bag */
    bool scale_grad_by_freq;  /* a row's gradient: over how often it is named */
    double max_norm;          /* rows in use are scaled to it; 0: not */
    double norm_type;         /*   the p-norm; 0 means 2 */
} tn_nn_embedding_bag_options;
TN_API tn_module *tn_nn_embedding_bag_with(
    int64_t num_embeddings, int64_t embedding_dim,
    const tn_nn_embedding_bag_options *options);
TN_API tn_tensor *tn_nn_embedding_bag_forward(void *embedding_bag,
                                              tn_tensor *input,
                                              tn_tensor *offsets,
                                              tn_tensor *per_sample_weights);

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
#define tn_nn_embedding_bag(...)                                              \
    TN__NN_EMBEDDING_BAG(__VA_ARGS__,                                         \
                         .size = sizeof(tn_nn_embedding_bag_options))
#define TN__NN_EMBEDDING_BAG(num_embeddings, embedding_dim, ...)              \
    tn_nn_embedding_bag_with(num_embeddings, embedding_dim,                   \
                             &(tn_nn_embedding_bag_options){__VA_ARGS__})
#else
} /* extern "C" */
inline tn_module *tn_nn_embedding(int64_t num_embeddings,
                                  int64_t embedding_dim,
                                  tn_nn_embedding_options options = {})
{
    options.size = sizeof options;
    return tn_nn_embedding_with(num_embeddings, embedding_dim, &options);
}
inline tn_module *tn_nn_embedding_bag(int64_t num_embeddings,
                                      int64_t embedding_dim,
                                      tn_nn_embedding_bag_options options = {})
{
    options.size = sizeof options;
    return tn_nn_embedding_bag_with(num_embeddings, embedding_dim, &options);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
