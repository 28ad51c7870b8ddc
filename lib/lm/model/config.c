/* config.c: reads config.json with the tables of keys of a family (spec.h).
 *
 * A key that no table contains is an error, since it may change what the model
 * computes. The keys in the list `ignored` do not: they describe training,
 * other tasks, other libraries or the tokenizer. */
#include <lm/model/spec.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/tensor.h>

static const char *const ignored[] = {"_name_or_path",
                                      "_attn_implementation_autoset",
                                      "add_cross_attention",
                                      "architectures",
                                      "auto_map",
                                      "bos_token_id",
                                      "chunk_size_feed_forward",
                                      "classifier_dropout",
                                      "cls_token_id",
                                      "dtype",
                                      "finetuning_task",
                                      "gradient_checkpointing",
                                      "id2label",
                                      "initializer_range",
                                      "is_llama_config",
                                      "keys_to_ignore_at_inference",
                                      "label2id",
                                      "model_type",
                                      "num_labels",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "output_router_logits",
                                      "problem_type",
                                      "return_dict",
                                      "rope_interleaved",
                                      "router_aux_loss_coef",
                                      "sep_token_id",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj",
                                      "task_specific_params",
                                      "tokenizer_class",
                                      "torch_dtype",
                                      "transformers.js_config",
                                      "transformers_version",
                                      "unsloth_fixed",
                                      "use_cache",
                                      NULL};

static const char *const activation_names[] = {"silu", "gelu", "gelu_tanh",
                                               "relu"};

const char *tn__lm_activation_name(tn__lm_activation activation)
{
    return activation_names[activation];
}

tn__lm_activation tn__lm_activation_of(const char *name)
{
    static const struct {
        const char *name;
        tn__lm_activation activation;
    } names[] = {
        {"silu", TN__LM_SILU},          {"swish", TN__LM_SILU},
        {"gelu", TN__LM_GELU},          {"gelu_tanh", TN__LM_GELU_TANH},
        {"gelu_new", TN__LM_GELU_TANH}, {"gelu_pytorch_tanh", TN__LM_GELU_TANH},
        {"relu", TN__LM_RELU}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].activation;
    return TN__LM_ACTIVATIONS;
}

tn__lm_scaling tn__lm_scaling_of(const char *name)
{
    static const struct {
        const char *name;
        tn__lm_scaling scaling;
    } names[] = {
        {"none", TN__LM_ROPE_NONE},     {"default", TN__LM_ROPE_NONE},
        {"linear", TN__LM_ROPE_LINEAR}, {"dynamic", TN__LM_ROPE_DYNAMIC},
        {"yarn", TN__LM_ROPE_YARN},     {"longrope", TN__LM_ROPE_LONG},
        {"su", TN__LM_ROPE_LONG},       {"llama3", TN__LM_ROPE_LLAMA3}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].scaling;
    return TN__LM_ROPE_SCALINGS;
}

/* ---- errors -------------------------------------------------------------- */

/* Writes a value as JSON, shortened, for an error message. */
static const char *value_text(const tn__json_value *value, char text[64])
{
    if (!value)
        return "missing";
    switch (value->kind) {
    case TN__JSON_NULL:
        return "null";
    case TN__JSON_FALSE:
        return "false";
    case TN__JSON_TRUE:
        return "true";
    case TN__JSON_INTEGER:
        tn_format(text, 64, "%" PRId64, value->integer);
        return text;
    case TN__JSON_REAL:
        tn_format(text, 64, "%.17g", value->real);
        return text;
    case TN__JSON_TEXT:
        tn_format(text, 64, "\"%.40s\"", value->text);
        return text;
    case TN__JSON_LIST:
        tn_format(text, 64, "a list of %zu", value->count);
        return text;
    case TN__JSON_OBJECT:
        break;
    }
    return "an object";
}

bool tn__lm_refuse(const tn__lm_config *config, const char *key,
                   const char *why)
{
    char text[64];
    tn_error_refuse_argument(
        TN_ERR_FORMAT, "lm_open", "path", "%s: \"%s\" is %s: %s", config->path,
        key, value_text(tn__json_get(config->root, key), text), why);
    return false;
}

/* ---- one key ------------------------------------------------------------- */

static bool is_null(const tn__json_value *value)
{
    return !value || value->kind == TN__JSON_NULL;
}

/* Returns the value of a number or a boolean, or NAN. */
static double number_of(const tn__json_value *value)
{
    double number = NAN;
    if (tn__json_is(value, TN__JSON_TRUE) || tn__json_is(value, TN__JSON_FALSE))
        return value->kind == TN__JSON_TRUE;
    if (is_null(value))
        return 0;
    tn__json_real(value, &number);
    return number;
}

static bool read_size(const tn__lm_config *config, const tn__lm_key *key,
                      const tn__json_value *value, int64_t *to)
{
    if (!tn__json_is(value, TN__JSON_INTEGER) || value->integer < 1 ||
        value->integer > INT32_MAX)
        return tn__lm_refuse(config, key->name,
                             "expected an integer from 1 to 2147483647");
    *to = value->integer;
    return true;
}

static bool read_id(const tn__lm_config *config, const tn__lm_key *key,
                    const tn__json_value *value, int64_t *to)
{
    if (tn__json_is(value, TN__JSON_LIST))
        value = tn__json_at(value, 0);
    if (!tn__json_is(value, TN__JSON_INTEGER) || value->integer < -1 ||
        value->integer > INT32_MAX)
        return tn__lm_refuse(config, key->name, "expected the id of a token");
    *to = value->integer;
    return true;
}

static bool set_fallback(const tn__lm_config *config, const tn__lm_key *key,
                         char *to)
{
    if (key->kind > TN__LM_KEY_ID || key->fallback == TN__LM_OPTIONAL)
        return true;
    if (key->fallback == TN__LM_REQUIRED)
        return tn__lm_refuse(config, key->name, "the model requires it");
    switch (key->kind) {
    case TN__LM_KEY_SIZE:
    case TN__LM_KEY_ID:
        *(int64_t *)to = (int64_t)key->fallback;
        break;
    case TN__LM_KEY_REAL:
        *(double *)to = key->fallback;
        break;
    case TN__LM_KEY_FLAG:
        *(bool *)to = key->fallback != 0;
        break;
    default:
        *(tn__lm_activation *)to = (tn__lm_activation)key->fallback;
    }
    return true;
}

static bool read_key(const tn__lm_config *config, const tn__lm_key *key,
                     const tn__json_value *value, tn__lm_spec *spec)
{
    char *to = (char *)spec + key->at;
    const char *text = tn__json_text(value);
    if (is_null(value))
        return set_fallback(config, key, to);
    switch (key->kind) {
    case TN__LM_KEY_SIZE:
        return read_size(config, key, value, (int64_t *)to);
    case TN__LM_KEY_ID:
        return read_id(config, key, value, (int64_t *)to);
    case TN__LM_KEY_REAL:
        if (!tn__json_real(value, (double *)to) || !isfinite(*(double *)to))
            return tn__lm_refuse(config, key->name, "expected a number");
        return true;
    case TN__LM_KEY_FLAG:
        if (value->kind != TN__JSON_TRUE && value->kind != TN__JSON_FALSE)
            return tn__lm_refuse(config, key->name, "expected true or false");
        *(bool *)to = value->kind == TN__JSON_TRUE;
        return true;
    case TN__LM_KEY_ACT:
        *(tn__lm_activation *)to = tn__lm_activation_of(text);
        if (*(tn__lm_activation *)to == TN__LM_ACTIVATIONS)
            return tn__lm_refuse(config, key->name,
                                 "expected silu, gelu, gelu_new, "
                                 "gelu_pytorch_tanh or relu");
        return true;
    case TN__LM_KEY_MUST:
        return number_of(value) == key->fallback ||
               tn__lm_refuse(config, key->name, "this is not supported");
    case TN__LM_KEY_TEXT:
        return (text && strcmp(text, key->only) == 0) ||
               tn__lm_refuse(config, key->name, "this is not supported");
    case TN__LM_KEY_READ:
        break;
    }
    return true;
}

/* ---- all keys ------------------------------------------------------------ */

static const tn__lm_key *find_key(const tn__lm_family *family, const char *name)
{
    const tn__lm_key *lists[] = {family->keys, family->more};
    for (int i = 0; i < 2; i++)
        for (const tn__lm_key *key = lists[i]; key && key->name; key++)
            if (strcmp(key->name, name) == 0)
                return key;
    return NULL;
}

static bool is_ignored(const char *name)
{
    for (size_t i = 0; ignored[i]; i++)
        if (strcmp(ignored[i], name) == 0)
            return true;
    return false;
}

static bool check_unknown(const tn__lm_config *config,
                          const tn__lm_family *family)
{
    TN__JSON_EACH(member, config->root)
    {
        if (is_null(member) || is_ignored(member->key) ||
            find_key(family, member->key))
            continue;
        char text[64];
        tn_error_refuse_argument(
            TN_ERR_FORMAT, "lm_open", "path",
            "%s: the family %s does not support the key \"%.80s\" (%s), which "
            "may change what the model computes: remove the key if it does not "
            "matter",
            config->path, family->type, member->key, value_text(member, text));
        return false;
    }
    return true;
}

static bool read_keys(const tn__lm_config *config, const tn__lm_key *list,
                      tn__lm_spec *spec)
{
    for (const tn__lm_key *key = list; key && key->name; key++)
        if (!read_key(config, key, tn__json_get(config->root, key->name), spec))
            return false;
    return true;
}

bool tn__lm_read_layer_types(const tn__lm_config *config, tn__lm_spec *spec)
{
    const tn__json_value *list = tn__json_get(config->root, "layer_types");
    if (is_null(list))
        return true;
    if (list->kind != TN__JSON_LIST || (int64_t)list->count != spec->layers)
        return tn__lm_refuse(config, "layer_types",
                             "expected one string for each layer");
    int64_t i = 0;
    TN__JSON_EACH(item, list)
    {
        const char *text = tn__json_text(item);
        if (!text || (strcmp(text, "full_attention") != 0 &&
                      strcmp(text, "sliding_attention") != 0))
            return tn__lm_refuse(
                config, "layer_types",
                "expected full_attention or sliding_attention");
        spec->slides[i++] = strcmp(text, "sliding_attention") == 0;
    }
    return true;
}

/* Checks what must hold for every family. */
static bool check_sizes(const tn__lm_config *config, tn__lm_spec *spec)
{
    const char *why = NULL;
    if (spec->layers < 1 || spec->layers > TN__LM_MAX_LAYERS)
        why = "at most 1000 layers are supported";
    else if (spec->heads > spec->hidden && spec->head_dim == 0)
        why = "there are more heads than hidden features";
    else if (spec->head_dim == 0 && spec->hidden % spec->heads)
        why = "the hidden size is not a multiple of the number of heads";
    if (!why && spec->head_dim == 0)
        spec->head_dim = spec->hidden / spec->heads;
    if (!why && spec->kv_heads == 0)
        spec->kv_heads = spec->heads;
    if (!why && spec->heads % spec->kv_heads)
        why = "the number of heads is not a multiple of the number of "
              "key-value heads";
    if (!why && spec->experts &&
        (spec->experts_used < 1 || spec->experts_used > spec->experts))
        why = "more experts are used than there are";
    if (!why && spec->experts > 65536)
        why = "at most 65536 experts are supported";
    if (!why)
        return true;
    tn_error_refuse_argument(TN_ERR_FORMAT, "lm_open", "path", "%s: %s",
                             config->path, why);
    return false;
}

static const tn__lm_family *find_family(const tn__lm_config *config,
                                        const tn__lm_family *const *families)
{
    const char *type = tn__json_text(tn__json_get(config->root, "model_type"));
    char known[512] = "";
    size_t used = 0;
    for (int i = 0; families[i]; i++) {
        if (type && strcmp(families[i]->type, type) == 0)
            return families[i];
        int wrote = tn_format(known + used, sizeof known - used, "%s%s",
                              i ? ", " : "", families[i]->type);
        if (wrote > 0 && used + (size_t)wrote < sizeof known)
            used += (size_t)wrote;
    }
    tn_error_refuse_argument(
        TN_ERR_FORMAT, "lm_open", "path",
        "%s: the model_type %.60s is not supported; it is one of %s",
        config->path, type ? type : "is missing, which", known);
    return NULL;
}

bool tn__lm_config_read(const tn__lm_config *config,
                        const tn__lm_family *const *families, tn__lm_spec *spec)
{
    if (!tn__json_is(config->root, TN__JSON_OBJECT)) {
        tn_error_refuse_argument(TN_ERR_FORMAT, "lm_open", "path",
                                 "%s: expected an object", config->path);
        return false;
    }
    const tn__lm_family *family = find_family(config, families);
    if (!family || !check_unknown(config, family))
        return false;
    memset(spec, 0, sizeof *spec);
    spec->family = family;
    spec->eos = spec->pad = -1;
    if (family->begin)
        family->begin(spec);
    return read_keys(config, family->keys, spec) &&
           read_keys(config, family->more, spec) && check_sizes(config, spec) &&
           (!family->finish || family->finish(spec, config));
}
