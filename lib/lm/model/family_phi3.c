/* family_phi3.c: Phi-3. Queries, keys and values are one matrix, and so are the
 * gate and the up projection. */
#include <lm/model/spec.h>

#include <math.h>

static const tn__lm_key keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),
    TN__LM_SIZE_KEYS,
    TN__LM_FIELD("num_key_value_heads", SIZE, kv_heads, 0),
    TN__LM_FIELD("max_position_embeddings", SIZE, positions, TN__LM_REQUIRED),
    TN__LM_FIELD("hidden_act", ACT, activation, TN__LM_SILU),
    TN__LM_FIELD("rms_norm_eps", REAL, eps, 1e-5),
    TN__LM_FIELD("tie_word_embeddings", FLAG, tied, 0),
    TN__LM_FIELD("sliding_window", SIZE, window, 0),
    TN__LM_FIELD("embd_pdrop", REAL, embed_dropout, 0),
    TN__LM_FIELD("resid_pdrop", REAL, hidden_dropout, 0),
    TN__LM_FIELD("attention_dropout", REAL, attention_dropout, 0),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_MUST("attention_bias", 0),
    TN__LM_READ("layer_types"),
    TN__LM_READ("rope_theta"),
    TN__LM_READ("rope_scaling"),
    TN__LM_READ("rope_parameters"),
    TN__LM_READ("partial_rotary_factor"),
    TN__LM_READ("original_max_position_embeddings"),
    {0}};

static void begin(tn__lm_spec *spec)
{
    spec->packing = TN__LM_JOINED;
}

static bool finish(tn__lm_spec *spec, const tn__lm_config *config)
{
    const tn__json_value *at = tn__json_get(config->root, "rope_parameters");
    double base = 10000;
    if (!at)
        at = tn__json_get(config->root, "rope_scaling");
    tn__json_real(tn__json_get(config->root, "rope_theta"), &base);
    for (int64_t i = 0; i < spec->layers; i++)
        spec->slides[i] = spec->window > 0;
    return tn__lm_read_rope(config, at, base, spec, &spec->rope[0]);
}

const tn__lm_family tn__lm_phi3 = {
    .type = "phi3",
    .keys = keys,
    .names = {[TN__LM_EMBED] = "model.embed_tokens",
              [TN__LM_LAYERS_AT] = "model.layers",
              [TN__LM_LAST_NORM] = "model.norm",
              [TN__LM_HEAD] = "lm_head",
              [TN__LM_ATTENTION] = "self_attn",
              [TN__LM_MLP] = "mlp",
              [TN__LM_NORM_1] = "input_layernorm",
              [TN__LM_NORM_2] = "post_attention_layernorm",
              [TN__LM_QKV] = "qkv_proj",
              [TN__LM_OUT] = "o_proj",
              [TN__LM_GATE_UP] = "gate_up_proj",
              [TN__LM_DOWN] = "down_proj"},
    .begin = begin,
    .finish = finish};
