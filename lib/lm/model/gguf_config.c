/* gguf_config.c: converts the metadata of a GGUF file to an equivalent
 * config.json, so that the same code reads both (config.c). Each supported
 * architecture is a row of `architectures`. Most keys are common to all of
 * them. */
#include <lm/model/gguf_config.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>

static const char call[] = "lm_open";

typedef struct key {
    const char *gguf; /* the key without the prefix "ARCHITECTURE." */
    const char *name; /* the key in config.json; NULL if code below reads the
                         key, or if it is not needed */
} key;

/* Keys of all architectures with the structure of Llama. */
static const key common[] = {
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.key_length", "head_dim"},
    {"rope.freq_base", "rope_theta"},
    {"attention.sliding_window", "sliding_window"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"vocab_size", NULL},
    {"rope.dimension_count", NULL},
    {"rope.scaling.type", NULL},
    {"rope.scaling.factor", NULL},
    {"rope.scaling.original_context_length", NULL},
    {"rope.scaling.attn_factor", NULL},
    {"rope.scaling.finetuned", NULL},
    {"rope.scale_linear", NULL},
    {"attention.value_length", NULL},
    {"attention.causal", NULL},
    {"pooling_type", NULL},
    {"tensor_data_layout", NULL},
    {0}};

static const key gpt2_names[] = {
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"block_count", "n_layer"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {0}};

static const struct architecture {
    const char *name;       /* general.architecture */
    const char *model_type; /* in config.json */
    const key *names;       /* looked up before `common`; may be NULL */
    const char *more;       /* JSON of further members of config.json; may be
                               NULL */
} architectures[] = {
    {"llama", "llama", NULL, NULL},
    {"qwen2", "qwen2", NULL, NULL},
    {"qwen3", "qwen3", NULL, NULL},
    {"qwen3moe", "qwen3_moe", NULL, ",\"norm_topk_prob\":true"},
    {"gemma3", "gemma3_text", NULL, ",\"sliding_window_pattern\":6"},
    {"phi3", "phi3", NULL, NULL},
    {"gpt2", "gpt2", gpt2_names, NULL},
    {"gptneox", "gpt_neox", NULL, NULL},
    {"bert", "bert", NULL, NULL},
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

typedef struct reader {
    tn_gguf *file;
    const struct architecture *is;
    tn__json_writer *to;
} reader;

static bool refuse(const reader *r, const char *name, const char *why)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, call, "path", "%s: \"%s\" %s",
                             tn_gguf_path(r->file), name, why);
    return false;
}

static bool refuse_number(const reader *r, const char *name, double value,
                          const char *expected)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                             "%s: \"%s\" is %.15g; expected %s",
                             tn_gguf_path(r->file), name, value, expected);
    return false;
}

/* ---- values -------------------------------------------------------------- */

/* Returns the full name of a key, "ARCHITECTURE.name". */
static const char *full(const reader *r, const char *name, char buffer[128])
{
    tn_format(buffer, 128, "%s.%s", r->is->name, name);
    return buffer;
}

static bool has(const reader *r, const char *name)
{
    char buffer[128];
    return tn_gguf_kind_of(r->file, full(r, name, buffer)) != TN_GGUF_NONE;
}

/* Returns the number at a key, or `otherwise` if the key is missing. */
static double number(const reader *r, const char *name, double otherwise)
{
    char buffer[128];
    if (has(r, name) && tn_gguf_length(r->file, full(r, name, buffer)) == 1)
        tn_gguf_reals(r->file, buffer, &otherwise, 1);
    return otherwise;
}

static void begin(const reader *r, const char *name)
{
    tn__json_add(r->to, ",");
    tn__json_add_text(r->to, name);
    tn__json_add(r->to, ":");
}

static void add_integer(const reader *r, const char *name, int64_t value)
{
    begin(r, name);
    tn__json_add_integer(r->to, value);
}

static void add_real(const reader *r, const char *name, double value)
{
    begin(r, name);
    tn__json_add_real(r->to, value);
}

/* Copies a number or a flag. If the value is a list (some files have an element
 * for each layer), all its elements must be equal. */
static bool add_value(const reader *r, const char *key_name, const char *name)
{
    const tn_gguf_kind kind = tn_gguf_item_kind(r->file, key_name);
    const int64_t count = tn_gguf_length(r->file, key_name);
    double *values = count > 0 ? calloc((size_t)count, sizeof *values) : NULL;
    if (count > 0 && !values) {
        tn_error_set(TN_ERR_MEMORY, "lm_open: out of memory");
        return false;
    }
    bool fine =
        values && tn_gguf_reals(r->file, key_name, values, count) == TN_OK;
    for (int64_t i = 1; fine && i < count; i++)
        fine = values[i] == values[0];
    if (fine && kind == TN_GGUF_BOOL) {
        begin(r, name);
        tn__json_add(r->to, values[0] != 0 ? "true" : "false");
    } else if (fine && kind != TN_GGUF_F32 && kind != TN_GGUF_F64) {
        fine = (values[0] >= 0 && values[0] <= INT32_MAX) ||
               refuse_number(r, key_name, values[0],
                             "an integer from 0 to 2147483647");
        if (fine)
            add_integer(r, name, (int64_t)values[0]);
    } else if (fine && values[0] - values[0] == 0) {
        add_real(r, name, values[0]);
    } else {
        fine = tn_error() ? false
                          : refuse(r, key_name,
                                   "is not a finite number that is the same "
                                   "for all layers");
    }
    free(values);
    return fine;
}

/* ---- keys ---------------------------------------------------------------- */

static const key *find_key(const key *list, const char *name)
{
    for (; list && list->gguf; list++)
        if (strcmp(list->gguf, name) == 0)
            return list;
    return NULL;
}

/* Copies each key of the architecture. A key that no table contains is an
 * error, because it may change what the model computes. */
static bool add_keys(const reader *r)
{
    const size_t length = strlen(r->is->name);
    for (int64_t i = 0; i < tn_gguf_key_count(r->file); i++) {
        const char *name = tn_gguf_key(r->file, i);
        if (strncmp(name, r->is->name, length) != 0 || name[length] != '.')
            continue;
        const key *k = find_key(r->is->names, name + length + 1);
        if (!k)
            k = find_key(common, name + length + 1);
        if (!k)
            return refuse(r, name,
                          "is not supported, and it may change what the model "
                          "computes");
        if (k->name && !add_value(r, name, k->name))
            return false;
    }
    return true;
}

/* Checks the keys that have no equivalent in config.json: each must have the
 * value that the architecture's models have. */
static bool check_fixed(const reader *r)
{
    char buffer[128];
    const bool encoder = strcmp(r->is->name, "bert") == 0;
    if (has(r, "attention.causal") &&
        (number(r, "attention.causal", 0) != 0) == encoder)
        return refuse(r, full(r, "attention.causal", buffer),
                      encoder ? "is true; an encoder supports only false"
                              : "is false; a decoder supports only true");
    const double pooling = number(r, "pooling_type", 0);
    if (!(pooling >= 0 && pooling <= 3))
        return refuse_number(r, full(r, "pooling_type", buffer), pooling,
                             "0 to 3 (none, mean, cls, last)");
    if (!has(r, "tensor_data_layout"))
        return true;
    const char *layout =
        tn_gguf_text(r->file, full(r, "tensor_data_layout", buffer));
    return layout && (strcmp(layout, "Meta AI original pth") == 0 ||
                      refuse(r, buffer, "is not \"Meta AI original pth\""));
}

static void add_token(const reader *r, const char *gguf, const char *name)
{
    int64_t id;
    if (tn_gguf_kind_of(r->file, gguf) != TN_GGUF_NONE &&
        tn_gguf_ints(r->file, gguf, &id, 1) == TN_OK)
        add_integer(r, name, id);
}

/* Adds the tokens that end a text: the vocabulary's end of text, and the end of
 * a chat turn. */
static void add_eos(const reader *r)
{
    static const char *const names[] = {"tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id"};
    int64_t id[2];
    int count = 0;
    for (int i = 0; i < 2; i++)
        if (tn_gguf_kind_of(r->file, names[i]) != TN_GGUF_NONE &&
            tn_gguf_ints(r->file, names[i], &id[count], 1) == TN_OK)
            count++;
    if (!count)
        return;
    begin(r, "eos_token_id");
    tn__json_add(r->to, "[");
    for (int i = 0; i < count; i++) {
        tn__json_add(r->to, i ? "," : "");
        tn__json_add_integer(r->to, id[i]);
    }
    tn__json_add(r->to, "]");
}

/* ---- rotary embedding ---------------------------------------------------- */

/* Adds the numbers of a float32 tensor as a list. */
static bool add_factors(const reader *r, const char *tensor, const char *name)
{
    const float *data = tn_gguf_data(r->file, tensor);
    const uint64_t bytes = tn_gguf_data_bytes(r->file, tensor);
    if (tn_gguf_dtype(r->file, tensor) != TN_F32 || !data)
        return refuse(r, tensor, "is not a float32 tensor of factors");
    tn__json_add(r->to, ",");
    tn__json_add_text(r->to, name);
    tn__json_add(r->to, ":[");
    for (uint64_t i = 0; i < bytes / sizeof *data; i++) {
        if (!(data[i] > 0) || data[i] - data[i] != 0)
            return refuse(r, tensor, "has a factor that is not positive");
        tn__json_add(r->to, i ? "," : "");
        tn__json_add_real(r->to, (double)data[i]);
    }
    tn__json_add(r->to, "]");
    return true;
}

static void add_inner(const reader *r, const char *name, double value)
{
    if (value > 0)
        add_real(r, name, value);
}

/* Adds rope_scaling. Files of Llama 3 contain the scaling as a tensor of
 * factors, which is written as the type "longrope". */
static bool add_scaling(const reader *r)
{
    static const char freqs[] = "rope_freqs.weight",
                      shorts[] = "rope_factors_short.weight",
                      longs[] = "rope_factors_long.weight";
    char buffer[128];
    const char *type = "none";
    bool fine = true;
    if (has(r, "rope.scaling.type") &&
        !(type = tn_gguf_text(r->file, full(r, "rope.scaling.type", buffer))))
        return false;
    double factor = number(r, "rope.scaling.factor", 0);
    if (has(r, "rope.scale_linear")) {
        type = "linear";
        factor = number(r, "rope.scale_linear", 1);
    }
    const bool has_freqs = tn_gguf_has(r->file, freqs);
    if (has_freqs || tn_gguf_has(r->file, longs))
        type = "longrope";
    if (strcmp(type, "none") == 0)
        return true;
    begin(r, "rope_scaling");
    tn__json_add(r->to, "{\"type\":");
    tn__json_add_text(r->to, type);
    if (!has_freqs)
        add_inner(r, "factor", factor);
    add_inner(r, "attention_factor",
              has_freqs ? 1 : number(r, "rope.scaling.attn_factor", 0));
    double original = number(r, "rope.scaling.original_context_length", 0);
    if (original >= 1 && original < 1e12)
        add_integer(r, "original_max_position_embeddings", (int64_t)original);
    if (strcmp(type, "longrope") == 0)
        fine = add_factors(r, has_freqs ? freqs : shorts, "short_factor") &&
               add_factors(r, has_freqs ? freqs : longs, "long_factor");
    tn__json_add(r->to, "}");
    return fine;
}

/* Adds partial_rotary_factor, if only a part of each head is rotated. */
static bool add_rotated_part(const reader *r)
{
    const double heads = number(r, "attention.head_count", 0);
    const double hidden = number(r, "embedding_length", 0);
    const double size =
        number(r, "attention.key_length", heads > 0 ? hidden / heads : 0);
    const double rotated = number(r, "rope.dimension_count", size);
    if (number(r, "attention.value_length", size) != size)
        return refuse(r, "attention.value_length",
                      "differs from the size of keys, which is not supported");
    if (rotated != size && size > 0)
        add_real(r,
                 strcmp(r->is->name, "gptneox") == 0 ? "rotary_pct"
                                                     : "partial_rotary_factor",
                 rotated / size);
    return true;
}

/* ---- what tensors say ---------------------------------------------------- */

static int64_t rows_of(const reader *r, const char *tensor)
{
    const int64_t *shape = tn_gguf_shape(r->file, tensor);
    return shape ? shape[0] : 0;
}

static void add_flag(const reader *r, const char *name, bool value)
{
    begin(r, name);
    tn__json_add(r->to, value ? "true" : "false");
}

static void add_from_tensors(const reader *r)
{
    add_integer(r, "vocab_size", rows_of(r, "token_embd.weight"));
    if (strcmp(r->is->name, "bert") == 0) {
        add_integer(r, "type_vocab_size", rows_of(r, "token_types.weight"));
        return;
    }
    add_flag(r, "tie_word_embeddings", !tn_gguf_has(r->file, "output.weight"));
    if (strcmp(r->is->name, "llama") == 0 || strcmp(r->is->name, "qwen3") == 0)
        add_flag(r, "attention_bias",
                 tn_gguf_has(r->file, "blk.0.attn_q.bias"));
}

/* Gemma 3 divides attention scores by sqrt(head_dim); its largest model, with
 * 62 layers, by sqrt(hidden_size / heads). */
static void add_gemma(const reader *r)
{
    double scale = number(r, "attention.key_length", 256);
    if (strcmp(r->is->name, "gemma3") != 0)
        return;
    if (number(r, "block_count", 0) == 62)
        scale = number(r, "embedding_length", 0) /
                number(r, "attention.head_count", 1);
    add_real(r, "query_pre_attn_scalar", scale);
}

/* ---- all of it ----------------------------------------------------------- */

static const struct architecture *find_architecture(tn_gguf *file)
{
    const bool there =
        tn_gguf_kind_of(file, "general.architecture") == TN_GGUF_TEXT;
    const char *name =
        there ? tn_gguf_text(file, "general.architecture") : NULL;
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < ARCHITECTURES; i++) {
        if (name && strcmp(architectures[i].name, name) == 0)
            return &architectures[i];
        used += (size_t)tn_format(known + used, sizeof known - used, "%s%s",
                                  i ? ", " : "", architectures[i].name);
    }
    if (!tn_error())
        tn_error_refuse_argument(
            TN_ERR_FORMAT, call, "path",
            "%s: the architecture %.60s is not supported; it is one of %s",
            tn_gguf_path(file), name ? name : "is missing, which", known);
    return NULL;
}

char *tn__lm_gguf_config(tn_gguf *file)
{
    tn__json_writer to = {.grow = realloc};
    const reader r = {file, find_architecture(file), &to};
    if (!r.is)
        return NULL;
    tn__json_add(&to, "{\"model_type\":");
    tn__json_add_text(&to, r.is->model_type);
    bool fine = add_keys(&r) && check_fixed(&r) && add_rotated_part(&r) &&
                add_scaling(&r);
    if (fine) {
        add_from_tensors(&r);
        add_gemma(&r);
        add_eos(&r);
        add_token(&r, "tokenizer.ggml.bos_token_id", "bos_token_id");
        add_token(&r, "tokenizer.ggml.padding_token_id", "pad_token_id");
    }
    tn__json_add(&to, r.is->more ? r.is->more : "");
    tn__json_add(&to, "}\n");
    if (to.failed)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    if (to.failed || tn_error()) {
        free(to.text);
        return NULL;
    }
    return to.text;
}

void tn__lm_gguf_spec(tn__lm_spec *spec)
{
    /* In these files, unlike in Hugging Face's, the weights of GPT-2 are (out,
     * in), the queries, keys and values of GPT-NeoX are not interleaved, and 1
     * has been added to the weights of Gemma's norms. */
    spec->transposed = false;
    if (spec->packing == TN__LM_INTERLEAVED)
        spec->packing = TN__LM_JOINED;
    if (spec->norm == TN__LM_RMS_PLUS1)
        spec->norm = TN__LM_RMS;
}

const char *tn__lm_gguf_pooling(tn_gguf *file)
{
    static const char *const names[] = {"none", "mean", "cls", "last"};
    char name[128];
    int64_t type = 0;
    const char *is = tn_gguf_text(file, "general.architecture");
    tn_format(name, sizeof name, "%s.pooling_type", is ? is : "");
    if (tn_gguf_kind_of(file, name) == TN_GGUF_NONE ||
        tn_gguf_ints(file, name, &type, 1) != TN_OK || type < 1 || type > 3)
        return NULL; /* 0 means none; tn__lm_gguf_config has rejected other
                        values */
    return names[type];
}
