/* <tenon/nn_attention.h>: attention and transformers (arXiv:1706.03762). Part
 * of <tenon/nn.h>.
 *
 *     tn_module *block = tn_nn_transformer_encoder_layer(
 *         128, 4, .dim_feedforward = 512, .batch_first = true);
 *     tn_tensor *y = tn_forward(block, x);             (batch, time, 128)
 *
 * Parameters have PyTorch's names and initial distributions. Sequences have the
 * shape (time, batch, features), or with batch_first (batch, time, features). A
 * sequence without a batch has the shape (time, features). Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_ATTENTION_H
#define TENON_NN_ATTENTION_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Multi-head attention. Parameters: in_proj_weight (3 E, E), in_proj_bias,
 * out_proj.weight, out_proj.bias, with E = embed_dim. If kdim or vdim differ
 * from embed_dim, q_proj_weight, k_proj_weight and v_proj_weight replace
 * in_proj_weight. With add_bias_kv, the parameters bias_k and bias_v (1, 1, E)
 * are one more key and value for each query. */
#define TN_NN_MULTIHEAD_ATTENTION_OPTIONS_LIST(X)                             \
    X(double, dropout, 0) /* for attention weights, in training mode */       \
    X(bool, bias, true)                                                       \
    X(int64_t, kdim, TN_NONE_INT) /* features of key; default embed_dim */    \
    X(int64_t, vdim, TN_NONE_INT) /* features of value; default embed_dim */  \
    X(bool, batch_first, false)                                               \
    X(bool, add_bias_kv, false) /* one more key and value: bias_k, bias_v */  \
    X(bool, add_zero_attn, false) /* one more key and value of zeros */
TN_OPTIONS_STRUCT(tn_nn_multihead_attention,
                  TN_NN_MULTIHEAD_ATTENTION_OPTIONS_LIST);
#define TN_NN_MULTIHEAD_ATTENTION_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_nn_multihead_attention,                            \
                        TN_NN_MULTIHEAD_ATTENTION_OPTIONS_LIST)
TN_API tn_module *tn_nn_multihead_attention_with(
    int64_t embed_dim, int64_t num_heads,
    const tn_nn_multihead_attention_options *options);

/* Signature: "query, key?, value?, key_padding_mask?, attn_mask? -> output,
 * weights". If key is left out it is query, and if value is left out it is key.
 * So tn_forward with one input computes self-attention. This struct holds the
 * masks for all calls below. A bool mask is true where a key is masked out, as
 * in PyTorch's layers. (In a mask of the operator
 * tn_scaled_dot_product_attention, true means that the key is used.) A
 * floating-point mask is added to the scores. L is the length of query, S that
 * of key:
 *
 *   attn_mask         (L, S) or (batch * heads, L, S)
 *   key_padding_mask  (batch, S); (S) for a sequence without batch
 *   is_causal         query i attends to keys 0 .. i */
#define TN_NN_ATTENTION_MASKS_LIST(X)                                         \
    X(tn_tensor *, attn_mask, NULL)                                           \
    X(tn_tensor *, key_padding_mask, NULL)                                    \
    X(bool, is_causal, false)
TN_OPTIONS_STRUCT(tn_nn_multihead_attention_forward,
                  TN_NN_ATTENTION_MASKS_LIST);
typedef tn_nn_multihead_attention_forward_options tn_nn_attention_masks;
#define TN_NN_ATTENTION_MASKS                                                 \
    TN_OPTIONS_DEFAULTS(tn_nn_multihead_attention_forward,                    \
                        TN_NN_ATTENTION_MASKS_LIST)
#define TN_NN_MULTIHEAD_ATTENTION_FORWARD_OPTIONS TN_NN_ATTENTION_MASKS
/* Computes attention from query (length L) to key and value (length S). If
 * out_weights is not NULL, it is set to the attention weights (batch, L, S),
 * averaged over the heads. Both results are owned by the open scope. */
TN_API tn_tensor *tn_nn_multihead_attention_forward_with(
    tn_module *attention, tn_tensor *query, tn_tensor *key, tn_tensor *value,
    tn_tensor **out_weights, const tn_nn_attention_masks *masks);

/* Options of all layers below. final_norm adds a layer norm after the last
 * layer of an encoder or a decoder. A single encoder or decoder layer rejects
 * it. */
#define TN_NN_TRANSFORMER_ROWS(X)                                             \
    X(int64_t, dim_feedforward, 2048)                                         \
    X(double, dropout, 0.1) /* probability, in training mode */               \
    X(const char *, activation, "relu") /* "relu" or "gelu" */                \
    X(double, layer_norm_eps, 1e-5)                                           \
    X(bool, batch_first, false)                                               \
    X(bool, norm_first, false) /* norm before each sublayer */                \
    X(bool, bias, true)
#define TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST(X)                              \
    TN_NN_TRANSFORMER_ROWS(X)                                                 \
    X(bool, final_norm, false)
TN_OPTIONS_STRUCT(tn_nn_transformer_encoder_layer,
                  TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST);
#define TN_NN_TRANSFORMER_ENCODER_LAYER_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_nn_transformer_encoder_layer,                      \
                        TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_transformer_decoder_layer,
                  TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST);
#define TN_NN_TRANSFORMER_DECODER_LAYER_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_nn_transformer_decoder_layer,                      \
                        TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_transformer_encoder,
                  TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST);
#define TN_NN_TRANSFORMER_ENCODER_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_nn_transformer_encoder,                            \
                        TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_transformer_decoder,
                  TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST);
#define TN_NN_TRANSFORMER_DECODER_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_nn_transformer_decoder,                            \
                        TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST)
#define TN_NN_TRANSFORMER_OPTIONS_LIST(X)                                     \
    TN_NN_TRANSFORMER_ROWS(X)                                                 \
    X(bool, final_norm, true) /* for encoder and decoder */
TN_OPTIONS_STRUCT(tn_nn_transformer, TN_NN_TRANSFORMER_OPTIONS_LIST);
#define TN_NN_TRANSFORMER_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_nn_transformer, TN_NN_TRANSFORMER_OPTIONS_LIST)

/* Two sublayers: self-attention, and two linear layers with an activation. The
 * output of each is added to its input and normalised. Children: self_attn,
 * linear1, linear2, norm1, norm2. */
TN_API tn_module *tn_nn_transformer_encoder_layer_with(
    int64_t d_model, int64_t nhead,
    const tn_nn_transformer_encoder_layer_options *options);
/* Three sublayers: self-attention, attention to memory (the encoder's output),
 * and two linear layers. Children: self_attn, multihead_attn, linear1, linear2,
 * norm1, norm2, norm3. */
TN_API tn_module *tn_nn_transformer_decoder_layer_with(
    int64_t d_model, int64_t nhead,
    const tn_nn_transformer_decoder_layer_options *options);
/* A stack of num_layers encoder or decoder layers. Children: layers.0,
 * layers.1, ... and, with final_norm, norm. */
TN_API tn_module *tn_nn_transformer_encoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_encoder_options *options);
TN_API tn_module *tn_nn_transformer_decoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_decoder_options *options);
/* An encoder and a decoder, each with a final norm by default. Children:
 * encoder, decoder. Matrices are initialised as by xavier_uniform. */
TN_API tn_module *tn_nn_transformer_with(
    int64_t d_model, int64_t nhead, int num_encoder_layers,
    int num_decoder_layers, const tn_nn_transformer_options *options);

/* Runs an encoder or an encoder layer on src with masks:
 * tn_nn_transformer_encoder_forward(encoder, src, .is_causal = true).
 * Signature: "src, src_mask?, src_key_padding_mask? -> output"; is_causal is an
 * option of this call only. */
typedef tn_nn_attention_masks tn_nn_transformer_encoder_forward_options;
#define TN_NN_TRANSFORMER_ENCODER_FORWARD_OPTIONS TN_NN_ATTENTION_MASKS
TN_API tn_tensor *tn_nn_transformer_encoder_forward_with(
    tn_module *encoder, tn_tensor *src, const tn_nn_attention_masks *masks);
/* Runs a decoder (or a decoder layer) on tgt and memory, the encoder's output.
 * masks apply to attention within tgt, memory_masks to attention to memory;
 * either may be NULL. Signature: "tgt, memory?, tgt_mask?, memory_mask?,
 * tgt_key_padding_mask?, memory_key_padding_mask? -> output". Without memory,
 * tgt is used as memory. */
TN_API tn_tensor *tn_nn_transformer_decoder_forward_with(
    tn_module *decoder, tn_tensor *tgt, tn_tensor *memory,
    const tn_nn_attention_masks *masks,
    const tn_nn_attention_masks *memory_masks);
/* Runs the encoder on src, then the decoder on tgt and the encoder's output.
 * src_masks apply to attention in the encoder, tgt_masks to self-attention in
 * the decoder, and memory_masks to attention to the encoder's output; each may
 * be NULL. Signature: "src, tgt?, src_mask?, tgt_mask?, memory_mask?,
 * src_key_padding_mask?, tgt_key_padding_mask?, memory_key_padding_mask? ->
 * output". */
TN_API tn_tensor *tn_nn_transformer_forward_with(
    tn_module *transformer, tn_tensor *src, tn_tensor *tgt,
    const tn_nn_attention_masks *src_masks,
    const tn_nn_attention_masks *tgt_masks,
    const tn_nn_attention_masks *memory_masks);

#ifndef __cplusplus
#define tn_nn_multihead_attention(...)                                        \
    TN_CALL_2(tn_nn_multihead_attention, __VA_ARGS__, )
#define tn_nn_multihead_attention_forward(...)                                \
    TN_CALL_5(tn_nn_multihead_attention_forward, __VA_ARGS__, )
#define tn_nn_transformer_encoder_layer(...)                                  \
    TN_CALL_2(tn_nn_transformer_encoder_layer, __VA_ARGS__, )
#define tn_nn_transformer_decoder_layer(...)                                  \
    TN_CALL_2(tn_nn_transformer_decoder_layer, __VA_ARGS__, )
#define tn_nn_transformer_encoder(...)                                        \
    TN_CALL_3(tn_nn_transformer_encoder, __VA_ARGS__, )
#define tn_nn_transformer_decoder(...)                                        \
    TN_CALL_3(tn_nn_transformer_decoder, __VA_ARGS__, )
#define tn_nn_transformer(...) TN_CALL_4(tn_nn_transformer, __VA_ARGS__, )
#define tn_nn_transformer_encoder_forward(...)                                \
    TN_CALL_2(tn_nn_transformer_encoder_forward, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_module *, tn_nn_multihead_attention, int64_t, int64_t)
TN_OVERLOAD_5(tn_tensor *, tn_nn_multihead_attention_forward, tn_module *,
              tn_tensor *, tn_tensor *, tn_tensor *, tn_tensor **)
TN_OVERLOAD_2(tn_module *, tn_nn_transformer_encoder_layer, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_transformer_decoder_layer, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_transformer_encoder, int64_t, int64_t, int)
TN_OVERLOAD_3(tn_module *, tn_nn_transformer_decoder, int64_t, int64_t, int)
TN_OVERLOAD_2(tn_tensor *, tn_nn_transformer_encoder_forward, tn_module *,
              tn_tensor *)
TN_OVERLOAD_4(tn_module *, tn_nn_transformer, int64_t, int64_t, int, int)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
