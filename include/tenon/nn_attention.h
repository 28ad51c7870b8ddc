/* <tenon/nn_attention.h>: attention and transformers: arXiv:1706.03762. Part of
 * <tenon/nn.h>.
 *
 *     tn_module *block = tn_nn_transformer_encoder_layer(
 *         128, 4, .dim_feedforward = 512, .batch_first = true);
 *     tn_tensor *y = tn_forward(block, x);             (batch, time, 128)
 *
 * Parameters have PyTorch's names and initial values. Sequences are (time, batch,
 * features), or (batch, time, features) with batch_first, or one alone: (time,
 * features). Source: torch.nn. */
#ifndef TENON_NN_ATTENTION_H
#define TENON_NN_ATTENTION_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters: in_proj_weight (3 E, E), in_proj_bias, out_proj.weight,
 * out_proj.bias; where kdim or vdim differ from embed_dim, q_proj_weight,
 * k_proj_weight, v_proj_weight in place of the first. */
typedef struct tn_nn_multihead_attention_options {
    size_t size;
    int64_t kdim, vdim; /* features of key and value: embed_dim */
    double dropout;     /* of the weights, while training: 0 */
    bool batch_first, no_bias;
} tn_nn_multihead_attention_options;
TN_API tn_module *tn_nn_multihead_attention_with(
    int64_t embed_dim, int64_t num_heads,
    const tn_nn_multihead_attention_options *options);

/* tn_forward attends from its input to itself. Masks are bool, true where not to
 * look (as in PyTorch's layers; the operator's are the other way round), or
 * floating, added to the scores. */
typedef struct tn_nn_attention_masks {
    size_t size;
    tn_tensor *attn_mask;        /* (L, S) or (batch heads, L, S) */
    tn_tensor *key_padding_mask; /* (batch, S), without batch for one alone */
    bool is_causal;              /* position i looks at 0 .. i */
} tn_nn_attention_masks;
/* From query (length L) to key and value (length S). out_weights: NULL, or takes
 * the weights (batch, L, S), means over the heads. */
TN_API tn_tensor *tn_nn_multihead_attention_forward_with(
    void *attention, tn_tensor *query, tn_tensor *key, tn_tensor *value,
    tn_tensor **out_weights, const tn_nn_attention_masks *masks);

/* All the layers below. */
typedef struct tn_nn_transformer_options {
    size_t size;
    int64_t dim_feedforward; /* 2048 */
    double dropout;          /* while training: 0.1, unless */
    bool no_dropout;
    const char *activation;  /* "relu" or "gelu": relu */
    double layer_norm_eps;   /* 1e-5 */
    bool batch_first;
    bool norm_first;         /* norms before attention and feedforward */
    bool no_bias;
    bool final_norm;         /* encoder and decoder: a norm after all layers
                                (the transformer has both) */
} tn_nn_transformer_options;

/* Attention to itself and two linear layers, each added to its input and
 * normalized. Children: self_attn, linear1, linear2, norm1, norm2. */
TN_API tn_module *tn_nn_transformer_encoder_layer_with(
    int64_t d_model, int64_t nhead, const tn_nn_transformer_options *options);
/* The same, with attention to memory between. Children: self_attn,
 * multihead_attn, linear1, linear2, norm1, norm2, norm3. */
TN_API tn_module *tn_nn_transformer_decoder_layer_with(
    int64_t d_model, int64_t nhead, const tn_nn_transformer_options *options);
/* num_layers of them: children layers.0, layers.1, ... and norm. */
TN_API tn_module *tn_nn_transformer_encoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_options *options);
TN_API tn_module *tn_nn_transformer_decoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_options *options);
/* An encoder and a decoder, each with a last norm. Children: encoder, decoder.
 * Matrices start as xavier_uniform. */
TN_API tn_module *tn_nn_transformer_with(
    int64_t d_model, int64_t nhead, int num_encoder_layers,
    int num_decoder_layers, const tn_nn_transformer_options *options);

/* An encoder (or layer) on src, with masks; tn_forward has none. */
TN_API tn_tensor *tn_nn_transformer_encoder_forward_with(
    void *encoder, tn_tensor *src, const tn_nn_attention_masks *masks);
/* A decoder (or layer) on tgt and the encoder's output; masks: of tgt and of
 * memory. (tn_forward of a decoder takes its input for memory too.) */
TN_API tn_tensor *tn_nn_transformer_decoder_forward_with(
    void *decoder, tn_tensor *tgt, tn_tensor *memory,
    const tn_nn_attention_masks *masks,
    const tn_nn_attention_masks *memory_masks);
/* A transformer from src to tgt; tgt_masks as above, each may be NULL. */
TN_API tn_tensor *tn_nn_transformer_forward_with(
    void *transformer, tn_tensor *src, tn_tensor *tgt,
    const tn_nn_attention_masks *src_masks,
    const tn_nn_attention_masks *tgt_masks,
    const tn_nn_attention_masks *memory_masks);

#ifndef __cplusplus
#define TN__NN_PAIR(function, options, a, b, ...)                             \
    function(a, b, &(options){__VA_ARGS__})
#define TN__NN_TRIPLE(function, options, a, b, c, ...)                        \
    function(a, b, c, &(options){__VA_ARGS__})
#define TN__NN_QUADRUPLE(function, options, a, b, c, d, ...)                  \
    function(a, b, c, d, &(options){__VA_ARGS__})
#define tn_nn_multihead_attention(...)                                        \
    TN__NN_PAIR(tn_nn_multihead_attention_with,                               \
                tn_nn_multihead_attention_options, __VA_ARGS__,               \
                .size = sizeof(tn_nn_multihead_attention_options))
#define tn_nn_transformer_encoder_layer(...)                                  \
    TN__NN_PAIR(tn_nn_transformer_encoder_layer_with,                         \
                tn_nn_transformer_options, __VA_ARGS__,                       \
                .size = sizeof(tn_nn_transformer_options))
#define tn_nn_transformer_decoder_layer(...)                                  \
    TN__NN_PAIR(tn_nn_transformer_decoder_layer_with,                         \
                tn_nn_transformer_options, __VA_ARGS__,                       \
                .size = sizeof(tn_nn_transformer_options))
#define tn_nn_transformer_encoder(...)                                        \
    TN__NN_TRIPLE(tn_nn_transformer_encoder_with, tn_nn_transformer_options,  \
                  __VA_ARGS__, .size = sizeof(tn_nn_transformer_options))
#define tn_nn_transformer_decoder(...)                                        \
    TN__NN_TRIPLE(tn_nn_transformer_decoder_with, tn_nn_transformer_options,  \
                  __VA_ARGS__, .size = sizeof(tn_nn_transformer_options))
#define tn_nn_transformer(...)                                                \
    TN__NN_QUADRUPLE(tn_nn_transformer_with, tn_nn_transformer_options,       \
                     __VA_ARGS__, .size = sizeof(tn_nn_transformer_options))
#define tn_nn_multihead_attention_forward(attention, query, key, value, ...)  \
    TN__NN_ATTEND(attention, query, key, value, __VA_ARGS__,                  \
                  .size = sizeof(tn_nn_attention_masks))
#define TN__NN_ATTEND(attention, query, key, value, out_weights, ...)         \
    tn_nn_multihead_attention_forward_with(                                   \
        attention, query, key, value, out_weights,                            \
        &(tn_nn_attention_masks){__VA_ARGS__})
#else
} /* extern "C" */
#define TN__NN_MAKE(name, parameters, ...)                                    \
    inline tn_module *name parameters                                         \
    {                                                                         \
        options.size = sizeof options;                                        \
        return name##_with(__VA_ARGS__, &options);                            \
    }
TN__NN_MAKE(tn_nn_multihead_attention,
            (int64_t embed_dim, int64_t num_heads,
             tn_nn_multihead_attention_options options = {}),
            embed_dim, num_heads)
TN__NN_MAKE(tn_nn_transformer_encoder_layer,
            (int64_t d_model, int64_t nhead,
             tn_nn_transformer_options options = {}),
            d_model, nhead)
TN__NN_MAKE(tn_nn_transformer_decoder_layer,
            (int64_t d_model, int64_t nhead,
             tn_nn_transformer_options options = {}),
            d_model, nhead)
TN__NN_MAKE(tn_nn_transformer_encoder,
            (int64_t d_model, int64_t nhead, int num_layers,
             tn_nn_transformer_options options = {}),
            d_model, nhead, num_layers)
TN__NN_MAKE(tn_nn_transformer_decoder,
            (int64_t d_model, int64_t nhead, int num_layers,
             tn_nn_transformer_options options = {}),
            d_model, nhead, num_layers)
TN__NN_MAKE(tn_nn_transformer,
            (int64_t d_model, int64_t nhead, int num_encoder_layers,
             int num_decoder_layers, tn_nn_transformer_options options = {}),
            d_model, nhead, num_encoder_layers, num_decoder_layers)
#undef TN__NN_MAKE
inline tn_tensor *tn_nn_multihead_attention_forward(
    void *attention, tn_tensor *query, tn_tensor *key, tn_tensor *value,
    tn_tensor **out_weights, tn_nn_attention_masks masks = {})
{
    masks.size = sizeof masks;
    return tn_nn_multihead_attention_forward_with(attention, query, key, value,
                                                  out_weights, &masks);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
