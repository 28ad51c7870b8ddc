/* weights_gguf.c: reads weights from a GGUF file.
 *
 * Tensors of GGUF files have different names from those in safetensors files,
 * such as "blk.3.attn_q.weight". A table maps them to roles (spec.h), and a
 * family has the name of each role. */
#include <lm/model/spec.h>
#include <lm/model/weight_entry.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>

static const char call[] = "lm_open";

/* ---- names --------------------------------------------------------------- */

enum { OF_MODEL, OF_LAYER, OF_ATTENTION, OF_MLP, OF_EXPERT };

/* The role of each name in a GGUF file. Names of tensors have ".weight" or
 * ".bias" appended; those in layers are preceded by "blk.N.". */
static const struct {
    const char *name;
    int of;
    tn__lm_role role;
} parts[] = {
    {"token_embd", OF_MODEL, TN__LM_EMBED},
    {"position_embd", OF_MODEL, TN__LM_EMBED_POSITION},
    {"token_types", OF_MODEL, TN__LM_EMBED_TYPE},
    {"token_embd_norm", OF_MODEL, TN__LM_EMBED_NORM},
    {"output_norm", OF_MODEL, TN__LM_LAST_NORM},
    {"output", OF_MODEL, TN__LM_HEAD},
    {"attn_norm", OF_LAYER, TN__LM_NORM_1},
    {"attn_output_norm", OF_LAYER, TN__LM_NORM_1},
    {"post_attention_norm", OF_LAYER, TN__LM_NORM_1_AFTER},
    {"ffn_norm", OF_LAYER, TN__LM_NORM_2},
    {"layer_output_norm", OF_LAYER, TN__LM_NORM_2},
    {"post_ffw_norm", OF_LAYER, TN__LM_NORM_2_AFTER},
    {"attn_q", OF_ATTENTION, TN__LM_QUERY},
    {"attn_k", OF_ATTENTION, TN__LM_KEY},
    {"attn_v", OF_ATTENTION, TN__LM_VALUE},
    {"attn_qkv", OF_ATTENTION, TN__LM_QKV},
    {"attn_output", OF_ATTENTION, TN__LM_OUT},
    {"attn_q_norm", OF_ATTENTION, TN__LM_QUERY_NORM},
    {"attn_k_norm", OF_ATTENTION, TN__LM_KEY_NORM},
    {"ffn_gate", OF_MLP, TN__LM_GATE},
    {"ffn_up", OF_MLP, TN__LM_UP},
    {"ffn_down", OF_MLP, TN__LM_DOWN},
    {"ffn_gate_inp", OF_MLP, TN__LM_ROUTER},
    {"ffn_gate_exps", OF_EXPERT, TN__LM_GATE},
    {"ffn_up_exps", OF_EXPERT, TN__LM_UP},
    {"ffn_down_exps", OF_EXPERT, TN__LM_DOWN},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Returns whether a tensor has the factors of the rotary embedding, which are
 * part of the configuration (gguf_config.c). */
static bool is_rope(const char *name)
{
    return strcmp(name, "rope_freqs.weight") == 0 ||
           strcmp(name, "rope_factors_short.weight") == 0 ||
           strcmp(name, "rope_factors_long.weight") == 0;
}

typedef struct reader {
    tn__lm_weights *weights;
    tn_gguf *file;
    const tn__lm_spec *spec;
    const char *prefix;
} reader;

/* Adds an entry for the tensor `source`. expert is an index in its first
 * dimension, or -1. */
static bool add(const reader *r, const char *source, const char *name,
                int64_t expert, int64_t heads)
{
    char *copy = strdup(name);
    if (!copy) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return false;
    }
    if (!tn__lm_weights_add(r->weights, (tn__lm_entry){.name = copy,
                                                       .owned = copy,
                                                       .gguf = tn_keep(r->file),
                                                       .source = source,
                                                       .expert = expert,
                                                       .heads = heads})) {
        tn_drop(r->file);
        free(copy);
        return false;
    }
    return true;
}

/* Returns the number of heads whose rows are in another order in GGUF files
 * (halves, below), or 0. */
static int64_t paired_heads(const reader *r, tn__lm_role role)
{
    if (strcmp(r->spec->family->type, "llama") != 0)
        return 0;
    return role == TN__LM_QUERY ? r->spec->heads
           : role == TN__LM_KEY ? r->spec->kv_heads
                                : 0;
}

static const char *dot(const char *name)
{
    return *name ? "." : "";
}

/* Adds one tensor of a layer, or one for each expert. */
static bool add_in_layer(const reader *r, const char *source, int64_t layer,
                         int part, const char *end)
{
    const char *const *names = r->spec->family->names;
    const int of = parts[part].of;
    tn__lm_role role = parts[part].role;
    if (role == TN__LM_UP && names[TN__LM_GATE_UP])
        role = TN__LM_GATE_UP;
    const char *within = of == OF_ATTENTION ? names[TN__LM_ATTENTION]
                         : of == OF_LAYER   ? ""
                                            : names[TN__LM_MLP];
    char path[TN__LM_PATH], name[TN__LM_PATH];
    if (!within)
        within = "";
    tn_format(path, sizeof path, "%s%s.%" PRId64 "%s%s", r->prefix,
              names[TN__LM_LAYERS_AT], layer, dot(within), within);
    if (!names[role] || (of == OF_EXPERT && !names[TN__LM_EXPERTS_AT]))
        return add(r, source, source, -1, 0); /* "is not part of the model" */
    if (of != OF_EXPERT) {
        tn_format(name, sizeof name, "%s.%s%s", path, names[role], end);
        return add(r, source, name, -1, paired_heads(r, role));
    }
    const int64_t *shape = tn_gguf_shape(r->file, source);
    const int64_t count = tn_gguf_ndim(r->file, source) == 3 ? shape[0] : 0;
    if (count != r->spec->experts)
        return add(r, source, source, -1, 0);
    for (int64_t e = 0; e < count; e++) {
        tn_format(name, sizeof name, "%s.%s.%" PRId64 ".%s%s", path,
                  names[TN__LM_EXPERTS_AT], e, names[role], end);
        if (!add(r, source, name, e, 0))
            return false;
    }
    return true;
}

static bool add_tensor(const reader *r, const char *source)
{
    const char *end = strrchr(source, '.'), *part = source;
    char name[TN__LM_PATH], *after = NULL;
    int64_t layer = -1;
    if (is_rope(source))
        return true;
    if (strncmp(source, "blk.", 4) == 0 && source[4] >= '0' &&
        source[4] <= '9') {
        layer = strtoll(source + 4, &after, 10);
        part = *after == '.' ? after + 1 : source;
    }
    for (int i = 0; end && i < PARTS; i++) {
        const size_t length = strlen(parts[i].name);
        if ((size_t)(end - part) != length || (layer < 0) != !parts[i].of ||
            strncmp(part, parts[i].name, length) != 0)
            continue;
        if (parts[i].of)
            return add_in_layer(r, source, layer, i, end);
        const char *own = r->spec->family->names[parts[i].role];
        tn_format(name, sizeof name, "%s%s%s",
                  parts[i].role == TN__LM_HEAD ? "" : r->prefix,
                  own ? own : part, own ? end : "");
        return add(r, source, name, -1, 0);
    }
    return add(r, source, source, -1, 0);
}

/* ---- opening ------------------------------------------------------------- */

/* Returns the dtype of the model if the caller gave none: float32 if there are
 * blocks, else that of the embedding. */
static tn_dtype choose_dtype(tn__lm_weights *w, tn_gguf *file)
{
    tn_dtype dtype = tn_gguf_dtype(file, "token_embd.weight");
    for (int64_t i = 0; i < tn_gguf_count(file); i++)
        if (tn_gguf_dtype(file, tn_gguf_name(file, i)) >= TN_BLOCK)
            w->keep_blocks = true;
    return w->keep_blocks || !dtype ? TN_F32 : dtype;
}

tn__lm_weights *tn__lm_weights_open_gguf(tn_gguf *file, const tn__lm_spec *spec,
                                         tn_dtype dtype, const char *prefix)
{
    tn__lm_weights *w = tn__lm_weights_new();
    if (!w)
        return NULL;
    if (!dtype)
        dtype = choose_dtype(w, file);
    if (w->keep_blocks && !w->multiplies) {
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, "dtype",
            "%s has weights in blocks, which %s cannot multiply: give .dtype, "
            "and they are dequantised",
            tn_gguf_path(file), tn_device_name(tn_device_current()));
        return NULL;
    }
    const reader r = {w, file, spec, prefix};
    for (int64_t i = 0; i < tn_gguf_count(file); i++)
        if (!add_tensor(&r, tn_gguf_name(file, i)))
            return NULL;
    return tn__lm_weights_sort(w, tn_gguf_path(file)) &&
                   tn__lm_weights_set_dtype(w, dtype)
               ? w
               : NULL;
}
