/* family_gemma3.c: Gemma 3, text only. Each five layers with sliding-window
 * attention are followed by one with full attention. The two kinds use
 * different rotary embeddings. */
#include <lm/model/spec.h>

#include <math.h>

static const tn__lm_key keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, 262208),
    TN__LM_SIZE_KEYS,
    TN__LM_FIELD("num_key_value_heads", SIZE, kv_heads, 4),
    TN__LM_FIELD("head_dim", SIZE, head_dim, 256),
    TN__LM_FIELD("max_position_embeddings", SIZE, positions, 131072),
    TN__LM_FIELD("hidden_activation", ACT, activation, TN__LM_GELU_TANH),
    TN__LM_FIELD("hidden_act", ACT, activation, TN__LM_OPTIONAL),
    TN__LM_FIELD("rms_norm_eps", REAL, eps, 1e-6),
    TN__LM_FIELD("tie_word_embeddings", FLAG, tied, 1),
    TN__LM_FIELD("attention_bias", FLAG, qkv_bias, 0),
    TN__LM_FIELD("attention_bias", FLAG, out_bias, 0),
    TN__LM_FIELD("attention_dropout", REAL, attention_dropout, 0),
    TN__LM_FIELD("sliding_window", SIZE, window, 4096),
    TN__LM_FIELD("final_logit_softcapping", REAL, softcap, 0),
    TN__LM_FIELD("query_pre_attn_scalar", REAL, attention_scale, 256),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_MUST("attn_logit_softcapping", 0),
    TN__LM_MUST("use_bidirectional_attention", 0),
    TN__LM_READ("cache_implementation"),
    TN__LM_READ("layer_types"),
    TN__LM_READ("sliding_window_pattern"),
    TN__LM_READ("_sliding_window_pattern"),
    TN__LM_READ("rope_theta"),
    TN__LM_READ("rope_scaling"),
    TN__LM_READ("rope_local_base_freq"),
    TN__LM_READ("rope_parameters"),
    {0}};

static void begin(tn__lm_spec *spec)
{
    spec->norm = TN__LM_RMS_PLUS1;
    spec->order = TN__LM_AROUND;
    spec->qk_norm = true;
    spec->two_ropes = true;
}

static bool finish(tn__lm_spec *spec, const tn__lm_config *config)
{
    const tn__json_value *root = config->root;
    const tn__json_value *step = tn__json_get(root, "sliding_window_pattern");
    if (!step)
        step = tn__json_get(root, "_sliding_window_pattern");
    int64_t every = tn__json_is(step, TN__JSON_INTEGER) ? step->integer : 6;
    if (every < 1)
        return tn__lm_refuse(config, "sliding_window_pattern",
                             "expected at least 1");
    for (int64_t i = 0; i < spec->layers; i++)
        spec->slides[i] = (i + 1) % every != 0;
    if (!(spec->attention_scale > 0))
        return tn__lm_refuse(config, "query_pre_attn_scalar",
                             "expected a positive number");
    spec->attention_scale = 1 / sqrt(spec->attention_scale);
    spec->embed_scale = sqrt((double)spec->hidden);
    double base = 1000000, local = 10000;
    tn__json_real(tn__json_get(root, "rope_theta"), &base);
    tn__json_real(tn__json_get(root, "rope_local_base_freq"), &local);
    const tn__json_value *ropes = tn__json_get(root, "rope_parameters");
    const tn__json_value *full = tn__json_get(ropes, "full_attention");
    if (!ropes)
        full = tn__json_get(root, "rope_scaling");
    return tn__lm_read_layer_types(config, spec) &&
           tn__lm_read_rope(config, full, base, spec, &spec->rope[0]) &&
           tn__lm_read_rope(config, tn__json_get(ropes, "sliding_attention"),
                            local, spec, &spec->rope[1]);
}

const tn__lm_family tn__lm_gemma3 = {
    .type = "gemma3_text",
    .keys = keys,
    .names = {[TN__LM_EMBED] = "model.embed_tokens",
              [TN__LM_LAYERS_AT] = "model.layers",
              [TN__LM_LAST_NORM] = "model.norm",
              [TN__LM_HEAD] = "lm_head",
              [TN__LM_ATTENTION] = "self_attn",
              [TN__LM_MLP] = "mlp",
              [TN__LM_NORM_1] = "input_layernorm",
              [TN__LM_NORM_1_AFTER] = "post_attention_layernorm",
              [TN__LM_NORM_2] = "pre_feedforward_layernorm",
              [TN__LM_NORM_2_AFTER] = "post_feedforward_layernorm",
              [TN__LM_QUERY] = "q_proj",
              [TN__LM_KEY] = "k_proj",
              [TN__LM_VALUE] = "v_proj",
              [TN__LM_OUT] = "o_proj",
              [TN__LM_QUERY_NORM] = "q_norm",
              [TN__LM_KEY_NORM] = "k_norm",
              [TN__LM_GATE] = "gate_proj",
              [TN__LM_UP] = "up_proj",
              [TN__LM_DOWN] = "down_proj"},
    .begin = begin,
    .finish = finish};
