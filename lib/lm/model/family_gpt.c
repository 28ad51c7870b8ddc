/* family_gpt.c: GPT-2, with learned positions, and GPT-NeoX (Pythia), whose
 * attention and MLP read the same input. */
#include <lm/model/spec.h>

#include <string.h>

/* ---- GPT-2 --------------------------------------------------------------- */

static const tn__lm_key gpt2_keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),
    TN__LM_FIELD("n_embd", SIZE, hidden, TN__LM_REQUIRED),
    TN__LM_FIELD("n_inner", SIZE, inner, 0),
    TN__LM_FIELD("n_layer", SIZE, layers, TN__LM_REQUIRED),
    TN__LM_FIELD("n_head", SIZE, heads, TN__LM_REQUIRED),
    TN__LM_FIELD("n_positions", SIZE, positions, TN__LM_REQUIRED),
    TN__LM_FIELD("activation_function", ACT, activation, TN__LM_GELU_TANH),
    TN__LM_FIELD("layer_norm_epsilon", REAL, eps, 1e-5),
    TN__LM_FIELD("tie_word_embeddings", FLAG, tied, 1),
    TN__LM_FIELD("scale_attn_by_inverse_layer_idx", FLAG, scale_by_layer, 0),
    TN__LM_FIELD("embd_pdrop", REAL, embed_dropout, 0.1),
    TN__LM_FIELD("resid_pdrop", REAL, hidden_dropout, 0.1),
    TN__LM_FIELD("attn_pdrop", REAL, attention_dropout, 0.1),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_MUST("scale_attn_weights", 1),
    TN__LM_MUST("reorder_and_upcast_attn", 0),
    TN__LM_READ("n_ctx"),
    {0}};

static void gpt2_begin(tn__lm_spec *spec)
{
    spec->norm = TN__LM_LAYER;
    spec->packing = TN__LM_JOINED;
    spec->transposed = true;
    spec->qkv_bias = spec->out_bias = spec->mlp_bias = true;
}

static bool gpt2_finish(tn__lm_spec *spec, const tn__lm_config *config)
{
    (void)config;
    if (!spec->inner)
        spec->inner = 4 * spec->hidden;
    spec->position_rows = spec->positions;
    return true;
}

static const char *const gpt2_unused[] = {"attn.bias", "attn.masked_bias",
                                          NULL};

const tn__lm_family tn__lm_gpt2 = {.type = "gpt2",
                                   .keys = gpt2_keys,
                                   .prefix = "transformer.",
                                   .unused = gpt2_unused,
                                   .names = {[TN__LM_EMBED] = "wte",
                                             [TN__LM_EMBED_POSITION] = "wpe",
                                             [TN__LM_LAYERS_AT] = "h",
                                             [TN__LM_LAST_NORM] = "ln_f",
                                             [TN__LM_HEAD] = "lm_head",
                                             [TN__LM_ATTENTION] = "attn",
                                             [TN__LM_MLP] = "mlp",
                                             [TN__LM_NORM_1] = "ln_1",
                                             [TN__LM_NORM_2] = "ln_2",
                                             [TN__LM_QKV] = "c_attn",
                                             [TN__LM_OUT] = "c_proj",
                                             [TN__LM_UP] = "c_fc",
                                             [TN__LM_DOWN] = "c_proj"},
                                   .begin = gpt2_begin,
                                   .finish = gpt2_finish};

/* ---- GPT-NeoX ------------------------------------------------------------ */

static const tn__lm_key neox_keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),
    TN__LM_SIZE_KEYS,
    TN__LM_FIELD("max_position_embeddings", SIZE, positions, TN__LM_REQUIRED),
    TN__LM_FIELD("hidden_act", ACT, activation, TN__LM_GELU),
    TN__LM_FIELD("layer_norm_eps", REAL, eps, 1e-5),
    TN__LM_FIELD("tie_word_embeddings", FLAG, tied, 0),
    TN__LM_FIELD("attention_bias", FLAG, qkv_bias, 1),
    TN__LM_FIELD("attention_bias", FLAG, out_bias, 1),
    TN__LM_FIELD("attention_dropout", REAL, attention_dropout, 0),
    TN__LM_FIELD("hidden_dropout", REAL, hidden_dropout, 0),
    TN__LM_FIELD("hidden_dropout", REAL, embed_dropout, 0),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_MUST("is_decoder", 0),
    TN__LM_READ("use_parallel_residual"),
    TN__LM_READ("rotary_pct"),
    TN__LM_READ("rotary_emb_base"),
    TN__LM_READ("rope_theta"),
    TN__LM_READ("rope_scaling"),
    TN__LM_READ("rope_parameters"),
    TN__LM_READ("partial_rotary_factor"),
    {0}};

static void neox_begin(tn__lm_spec *spec)
{
    spec->norm = TN__LM_LAYER;
    spec->order = TN__LM_PARALLEL;
    spec->packing = TN__LM_INTERLEAVED;
    spec->mlp_bias = true;
}

static bool neox_finish(tn__lm_spec *spec, const tn__lm_config *config)
{
    double base = 10000;
    const tn__json_value *root = config->root;
    const tn__json_value *at = tn__json_get(root, "rope_parameters");
    if (!at)
        at = tn__json_get(root, "rope_scaling");
    if (tn__json_is(tn__json_get(root, "use_parallel_residual"),
                    TN__JSON_FALSE))
        spec->order = TN__LM_BEFORE;
    tn__json_real(tn__json_get(root, "rotary_emb_base"), &base);
    tn__json_real(tn__json_get(root, "rope_theta"), &base);
    return tn__lm_read_rope(config, at, base, spec, &spec->rope[0]);
}

static const char *const neox_unused[] = {
    "attention.bias", "attention.masked_bias", "rotary_emb.inv_freq", NULL};

const tn__lm_family tn__lm_gptneox = {
    .type = "gpt_neox",
    .keys = neox_keys,
    .prefix = "gpt_neox.",
    .unused = neox_unused,
    .names = {[TN__LM_EMBED] = "embed_in",
              [TN__LM_LAYERS_AT] = "layers",
              [TN__LM_LAST_NORM] = "final_layer_norm",
              [TN__LM_HEAD] = "embed_out",
              [TN__LM_ATTENTION] = "attention",
              [TN__LM_MLP] = "mlp",
              [TN__LM_NORM_1] = "input_layernorm",
              [TN__LM_NORM_2] = "post_attention_layernorm",
              [TN__LM_QKV] = "query_key_value",
              [TN__LM_OUT] = "dense",
              [TN__LM_UP] = "dense_h_to_4h",
              [TN__LM_DOWN] = "dense_4h_to_h"},
    .begin = neox_begin,
    .finish = neox_finish};
