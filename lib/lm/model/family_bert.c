/* family_bert.c: encoders: BERT, RoBERTa (the same names, other positions),
 * DistilBERT and MPNet (a bias by distance). */
#include <lm/model/spec.h>

static void begin(tn__lm_spec *spec)
{
    spec->encoder = true;
    spec->norm = TN__LM_LAYER;
    spec->order = TN__LM_AFTER;
    spec->qkv_bias = spec->out_bias = spec->mlp_bias = true;
}

#define BERT_KEYS                                                              \
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),                  \
        TN__LM_SIZE_KEYS,     \
        TN__LM_FIELD("max_position_embeddings", SIZE, position_rows,           \
                     TN__LM_REQUIRED),                                         \
        TN__LM_FIELD("hidden_act", ACT, activation, TN__LM_GELU),              \
        TN__LM_FIELD("layer_norm_eps", REAL, eps, 1e-12),                      \
        TN__LM_FIELD("hidden_dropout_prob", REAL, hidden_dropout, 0.1),        \
        TN__LM_FIELD("hidden_dropout_prob", REAL, embed_dropout, 0.1),         \
        TN__LM_FIELD("attention_probs_dropout_prob", REAL, attention_dropout,  \
                     0.1),                                                     \
        TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),                \
        TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),                \
        TN__LM_READ("tie_word_embeddings")

static bool finish(tn__lm_spec *spec, const tn__lm_config *config)
{
    (void)config;
    spec->positions = spec->position_rows;
    return true;
}

static const char *const unused[] = {"embeddings.position_ids", NULL};

/* ---- BERT and RoBERTa ---------------------------------------------------- */

static const tn__lm_key bert_keys[] = {
    BERT_KEYS,
    TN__LM_FIELD("type_vocab_size", SIZE, type_rows, 2),
    TN__LM_MUST("is_decoder", 0),
    TN__LM_ONLY("position_embedding_type", "absolute"),
    {0}};

#define BERT_NAMES                                                             \
    [TN__LM_EMBED] = "embeddings.word_embeddings",                             \
    [TN__LM_EMBED_POSITION] = "embeddings.position_embeddings",                \
    [TN__LM_EMBED_TYPE] = "embeddings.token_type_embeddings",                  \
    [TN__LM_EMBED_NORM] = "embeddings.LayerNorm",                              \
    [TN__LM_LAYERS_AT] = "encoder.layer", [TN__LM_POOLER] = "pooler.dense",    \
    [TN__LM_ATTENTION] = "attention",                                          \
    [TN__LM_NORM_1] = "attention.output.LayerNorm",                            \
    [TN__LM_NORM_2] = "output.LayerNorm", [TN__LM_QUERY] = "self.query",       \
    [TN__LM_KEY] = "self.key", [TN__LM_VALUE] = "self.value",                  \
    [TN__LM_OUT] = "output.dense", [TN__LM_UP] = "intermediate.dense",         \
    [TN__LM_DOWN] = "output.dense"

const tn__lm_family tn__lm_bert = {.type = "bert",
                                   .keys = bert_keys,
                                   .prefix = "bert.",
                                   .unused = unused,
                                   .names = {BERT_NAMES},
                                   .begin = begin,
                                   .finish = finish};

static bool finish_skipping_pad(tn__lm_spec *spec, const tn__lm_config *config)
{
    if (spec->pad < 0)
        return tn__lm_refuse(config, "pad_token_id", "the positions need it");
    spec->positions_skip_pad = true;
    spec->positions = spec->position_rows - spec->pad - 1;
    if (spec->positions < 1)
        return tn__lm_refuse(config, "max_position_embeddings",
                             "it leaves no position after the padding's");
    return true;
}

const tn__lm_family tn__lm_roberta = {.type = "roberta",
                                      .keys = bert_keys,
                                      .prefix = "roberta.",
                                      .unused = unused,
                                      .names = {BERT_NAMES},
                                      .begin = begin,
                                      .finish = finish_skipping_pad};

/* ---- MPNet --------------------------------------------------------------- */

static const tn__lm_key mpnet_keys[] = {
    BERT_KEYS, TN__LM_MUST("relative_attention_num_buckets", 32), {0}};

static bool finish_mpnet(tn__lm_spec *spec, const tn__lm_config *config)
{
    spec->pad = 1; /* MPNet uses 1 regardless of pad_token_id */
    spec->bias_buckets = 32;
    return finish_skipping_pad(spec, config);
}

const tn__lm_family tn__lm_mpnet = {
    .type = "mpnet",
    .keys = mpnet_keys,
    .prefix = "mpnet.",
    .unused = unused,
    .names = {[TN__LM_EMBED] = "embeddings.word_embeddings",
              [TN__LM_EMBED_POSITION] = "embeddings.position_embeddings",
              [TN__LM_EMBED_NORM] = "embeddings.LayerNorm",
              [TN__LM_DISTANCE_BIAS] = "encoder.relative_attention_bias",
              [TN__LM_LAYERS_AT] = "encoder.layer",
              [TN__LM_POOLER] = "pooler.dense",
              [TN__LM_ATTENTION] = "attention",
              [TN__LM_NORM_1] = "attention.LayerNorm",
              [TN__LM_NORM_2] = "output.LayerNorm",
              [TN__LM_QUERY] = "attn.q",
              [TN__LM_KEY] = "attn.k",
              [TN__LM_VALUE] = "attn.v",
              [TN__LM_OUT] = "attn.o",
              [TN__LM_UP] = "intermediate.dense",
              [TN__LM_DOWN] = "output.dense"},
    .begin = begin,
    .finish = finish_mpnet};

/* ---- DistilBERT ---------------------------------------------------------- */

static const tn__lm_key distilbert_keys[] = {
    TN__LM_FIELD("vocab_size", SIZE, vocab, TN__LM_REQUIRED),
    TN__LM_FIELD("dim", SIZE, hidden, TN__LM_REQUIRED),
    TN__LM_FIELD("hidden_dim", SIZE, inner, TN__LM_REQUIRED),
    TN__LM_FIELD("n_layers", SIZE, layers, TN__LM_REQUIRED),
    TN__LM_FIELD("n_heads", SIZE, heads, TN__LM_REQUIRED),
    TN__LM_FIELD("max_position_embeddings", SIZE, position_rows,
                 TN__LM_REQUIRED),
    TN__LM_FIELD("activation", ACT, activation, TN__LM_GELU),
    TN__LM_FIELD("dropout", REAL, hidden_dropout, 0.1),
    TN__LM_FIELD("dropout", REAL, embed_dropout, 0.1),
    TN__LM_FIELD("attention_dropout", REAL, attention_dropout, 0.1),
    TN__LM_FIELD("eos_token_id", ID, eos, TN__LM_OPTIONAL),
    TN__LM_FIELD("pad_token_id", ID, pad, TN__LM_OPTIONAL),
    TN__LM_READ("sinusoidal_pos_embds"), /* the files contain them like learned
                                            positions */
    TN__LM_READ("qa_dropout"),
    TN__LM_READ("seq_classif_dropout"),
    TN__LM_READ("tie_weights_"),
    TN__LM_READ("tie_word_embeddings"),
    {0}};

static bool finish_distilbert(tn__lm_spec *spec, const tn__lm_config *config)
{
    spec->eps = 1e-12;
    return finish(spec, config);
}

const tn__lm_family tn__lm_distilbert = {
    .type = "distilbert",
    .keys = distilbert_keys,
    .prefix = "distilbert.",
    .unused = unused,
    .names = {[TN__LM_EMBED] = "embeddings.word_embeddings",
              [TN__LM_EMBED_POSITION] = "embeddings.position_embeddings",
              [TN__LM_EMBED_NORM] = "embeddings.LayerNorm",
              [TN__LM_LAYERS_AT] = "transformer.layer",
              [TN__LM_ATTENTION] = "attention",
              [TN__LM_MLP] = "ffn",
              [TN__LM_NORM_1] = "sa_layer_norm",
              [TN__LM_NORM_2] = "output_layer_norm",
              [TN__LM_QUERY] = "q_lin",
              [TN__LM_KEY] = "k_lin",
              [TN__LM_VALUE] = "v_lin",
              [TN__LM_OUT] = "out_lin",
              [TN__LM_UP] = "lin1",
              [TN__LM_DOWN] = "lin2"},
    .begin = begin,
    .finish = finish_distilbert};
