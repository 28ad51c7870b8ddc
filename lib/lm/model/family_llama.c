/* family_llama.c: Llama 2, 3, 3.1 and SmolLM, and the families that differ from
 * it by a few lines: Mistral, Qwen2, Qwen3, Qwen3-MoE. */
#include <lm/model/spec.h>

/* Keys of all models that are built like Llama. */
static const tn__lm_key common_keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),
    TN__LM_SIZE_KEYS,
    TN__LM_FIELD("num_key_value_heads", SIZE, kv_heads, 0),
    TN__LM_FIELD("head_dim", SIZE, head_dim, 0),
    TN__LM_FIELD("max_position_embeddings", SIZE, positions, TN__LM_REQUIRED),
    TN__LM_FIELD("hidden_act", ACT, activation, TN__LM_SILU),
    TN__LM_FIELD("rms_norm_eps", REAL, eps, 1e-6),
    TN__LM_FIELD("tie_word_embeddings", FLAG, tied, 0),
    TN__LM_FIELD("attention_dropout", REAL, attention_dropout, 0),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_READ("rope_theta"),
    TN__LM_READ("rope_scaling"),
    TN__LM_READ("rope_parameters"),
    TN__LM_READ("partial_rotary_factor"),
    TN__LM_READ("original_max_position_embeddings"),
    {0}};

#define LLAMA_NAMES                                                            \
    [TN__LM_EMBED] = "model.embed_tokens",                                     \
    [TN__LM_LAYERS_AT] = "model.layers", [TN__LM_LAST_NORM] = "model.norm",    \
    [TN__LM_HEAD] = "lm_head", [TN__LM_ATTENTION] = "self_attn",               \
    [TN__LM_MLP] = "mlp", [TN__LM_NORM_1] = "input_layernorm",                 \
    [TN__LM_NORM_2] = "post_attention_layernorm", [TN__LM_QUERY] = "q_proj",   \
    [TN__LM_KEY] = "k_proj", [TN__LM_VALUE] = "v_proj",                        \
    [TN__LM_OUT] = "o_proj", [TN__LM_GATE] = "gate_proj",                      \
    [TN__LM_UP] = "up_proj", [TN__LM_DOWN] = "down_proj"

static const char *const unused[] = {"rotary_emb.inv_freq", NULL};

static bool finish_rope(tn__lm_spec *spec, const tn__lm_config *config)
{
    double base = 10000;
    const tn__json_value *at = tn__json_get(config->root, "rope_parameters");
    if (!at)
        at = tn__json_get(config->root, "rope_scaling");
    const tn__json_value *theta = tn__json_get(config->root, "rope_theta");
    if (theta && theta->kind != TN__JSON_NULL && !tn__json_real(theta, &base))
        return tn__lm_refuse(config, "rope_theta", "expected a number");
    return tn__lm_read_rope(config, at, base, spec, &spec->rope[0]);
}

/* ---- Llama --------------------------------------------------------------- */

static const tn__lm_key llama_keys[] = {
    TN__LM_FIELD("attention_bias", FLAG, qkv_bias, 0),
    TN__LM_FIELD("attention_bias", FLAG, out_bias, 0),
    TN__LM_FIELD("mlp_bias", FLAG, mlp_bias, 0),
    TN__LM_MUST("pretraining_tp", 1),
    {0}};

const tn__lm_family tn__lm_llama = {.type = "llama",
                                    .keys = common_keys,
                                    .more = llama_keys,
                                    .names = {LLAMA_NAMES},
                                    .unused = unused,
                                    .finish = finish_rope};

/* ---- Mistral: every layer slides ----------------------------------------- */

static const tn__lm_key mistral_keys[] = {
    TN__LM_FIELD("sliding_window", SIZE, window, 0),
    TN__LM_READ("layer_types"),
    {0}};

static bool finish_mistral(tn__lm_spec *spec, const tn__lm_config *config)
{
    for (int64_t i = 0; i < spec->layers; i++)
        spec->slides[i] = spec->window > 0;
    return finish_rope(spec, config) && tn__lm_read_layer_types(config, spec);
}

const tn__lm_family tn__lm_mistral = {.type = "mistral",
                                      .keys = common_keys,
                                      .more = mistral_keys,
                                      .names = {LLAMA_NAMES},
                                      .unused = unused,
                                      .finish = finish_mistral};

/* ---- Qwen: layers from max_window_layers on slide, if any ---------------- */

#define QWEN_KEYS                                                              \
    TN__LM_FIELD("sliding_window", SIZE, window, 0),                           \
        TN__LM_READ("use_sliding_window"), TN__LM_READ("max_window_layers"),   \
        TN__LM_READ("layer_types"), TN__LM_MUST("use_mrope", 0)

static const tn__lm_key qwen2_keys[] = {QWEN_KEYS, {0}};

static bool finish_qwen(tn__lm_spec *spec, const tn__lm_config *config)
{
    const tn__json_value *first =
        tn__json_get(config->root, "max_window_layers");
    int64_t from = tn__json_is(first, TN__JSON_INTEGER) ? first->integer : 28;
    if (!tn__json_is(tn__json_get(config->root, "use_sliding_window"),
                     TN__JSON_TRUE))
        spec->window = 0;
    for (int64_t i = 0; i < spec->layers; i++)
        spec->slides[i] = spec->window > 0 && i >= from;
    if (!finish_rope(spec, config))
        return false;
    return !spec->window || tn__lm_read_layer_types(config, spec);
}

static void begin_qwen2(tn__lm_spec *spec)
{
    spec->qkv_bias = true;
}

const tn__lm_family tn__lm_qwen2 = {.type = "qwen2",
                                    .keys = common_keys,
                                    .more = qwen2_keys,
                                    .names = {LLAMA_NAMES},
                                    .unused = unused,
                                    .begin = begin_qwen2,
                                    .finish = finish_qwen};

#define QWEN3_NAMES                                                            \
    LLAMA_NAMES, [TN__LM_QUERY_NORM] = "q_norm", [TN__LM_KEY_NORM] = "k_norm"

static const tn__lm_key qwen3_keys[] = {
    QWEN_KEYS,
    TN__LM_FIELD("attention_bias", FLAG, qkv_bias, 0),
    TN__LM_FIELD("attention_bias", FLAG, out_bias, 0),
    {0}};

static void begin_qwen3(tn__lm_spec *spec)
{
    spec->qk_norm = true;
    spec->head_dim = 128;
}

const tn__lm_family tn__lm_qwen3 = {.type = "qwen3",
                                    .keys = common_keys,
                                    .more = qwen3_keys,
                                    .names = {QWEN3_NAMES},
                                    .begin = begin_qwen3,
                                    .finish = finish_qwen};

/* ---- Qwen3-MoE ----------------------------------------------------------- */

static const tn__lm_key qwen3_moe_keys[] = {
    QWEN_KEYS,
    TN__LM_FIELD("attention_bias", FLAG, qkv_bias, 0),
    TN__LM_FIELD("attention_bias", FLAG, out_bias, 0),
    TN__LM_FIELD("num_experts", SIZE, experts, TN__LM_OPTIONAL),
    TN__LM_FIELD("num_local_experts", SIZE, experts, TN__LM_OPTIONAL),
    TN__LM_FIELD("num_experts_per_tok", SIZE, experts_used, TN__LM_REQUIRED),
    TN__LM_FIELD("moe_intermediate_size", SIZE, expert_inner, TN__LM_REQUIRED),
    TN__LM_FIELD("norm_topk_prob", FLAG, normalize_experts, 0),
    TN__LM_READ("decoder_sparse_step"),
    TN__LM_READ("mlp_only_layers"),
    {0}};

static bool finish_qwen3_moe(tn__lm_spec *spec, const tn__lm_config *config)
{
    const tn__json_value *step =
        tn__json_get(config->root, "decoder_sparse_step");
    int64_t every = tn__json_is(step, TN__JSON_INTEGER) ? step->integer : 1;
    if (!spec->experts)
        return tn__lm_refuse(config, "num_experts", "the model needs it");
    if (every < 1)
        return tn__lm_refuse(config, "decoder_sparse_step",
                             "expected at least 1");
    for (int64_t i = 0; i < spec->layers; i++)
        spec->dense[i] = (i + 1) % every != 0;
    TN__JSON_EACH(item, tn__json_get(config->root, "mlp_only_layers"))
    {
        if (!tn__json_is(item, TN__JSON_INTEGER) || item->integer < 0 ||
            item->integer >= spec->layers)
            return tn__lm_refuse(config, "mlp_only_layers",
                                 "expected indices of layers");
        spec->dense[item->integer] = true;
    }
    return finish_qwen(spec, config);
}

static void begin_qwen3_moe(tn__lm_spec *spec)
{
    spec->qk_norm = true; /* head_dim defaults to hidden / heads */
}

const tn__lm_family tn__lm_qwen3_moe = {
    .type = "qwen3_moe",
    .keys = common_keys,
    .more = qwen3_moe_keys,
    .names = {QWEN3_NAMES, [TN__LM_ROUTER] = "gate",
              [TN__LM_EXPERTS_AT] = "experts"},
    .begin = begin_qwen3_moe,
    .finish = finish_qwen3_moe};
