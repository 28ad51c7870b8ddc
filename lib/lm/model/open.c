/* open.c: opens a model from a folder in the format of Hugging Face, or from a
 * GGUF file. */
#include <lm/model/gguf_config.h>
#include <lm/model/json_file.h>
#include <lm/model/model.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/ops.h>
#include <unistd.h>

static const char call[] = "lm_open";

/* Opens the JSON file folder/name. If it does not exist, sets file->root to
 * NULL and returns true. Returns false if it cannot be read. */
static bool open_optional(tn__lm_json *file, const char *folder,
                          const char *name)
{
    char path[4096];
    *file = (tn__lm_json){0};
    if (tn_format(path, sizeof path, "%s/%s", folder, name) >=
            (int)sizeof path ||
        access(path, F_OK) != 0)
        return true;
    return tn__lm_json_open(file, path, call);
}

/* ---- tokens that end a text ---------------------------------------------- */

static void add_eos(tn_lm *lm, const tn__json_value *value)
{
    const bool list = tn__json_is(value, TN__JSON_LIST);
    for (const tn__json_value *item = list ? tn__json_first(value) : value;
         item; item = list ? item->next : NULL) {
        if (item->kind != TN__JSON_INTEGER || item->integer < 0)
            continue;
        if (lm->eos_count == TN__LM_MAX_EOS) {
            tn_error_refuse_argument(
                TN_ERR_FORMAT, call, "path",
                "\"eos_token_id\" lists more than %d tokens", TN__LM_MAX_EOS);
            return;
        }
        lm->eos[lm->eos_count++] = item->integer;
    }
}

/* generation_config.json takes precedence over config.json. */
static bool read_eos(tn_lm *lm, const char *folder, const tn__json_value *root)
{
    tn__lm_json file;
    bool fine = open_optional(&file, folder, "generation_config.json");
    if (fine)
        add_eos(lm, tn__json_get(file.root, "eos_token_id"));
    tn__lm_json_close(&file);
    if (fine && !lm->eos_count)
        add_eos(lm, tn__json_get(root, "eos_token_id"));
    return fine && !tn_error();
}

/* ---- how the folder makes sentence embeddings ---------------------------- */

static bool refuse(const char *folder, const char *file, const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                             "%s/%s: %.80s is not supported", folder, file,
                             what);
    return false;
}

/* Reads one pooling mode. Rejects several modes and unsupported modes, because
 * the embeddings would be wrong. */
static bool read_mode(tn_lm *lm, const char *folder, const tn__json_value *root)
{
    static const char name[] = "1_Pooling/config.json",
                      mode[] = "pooling_mode_";
    static const struct {
        const char *name;
        int pooling;
    } modes[] = {{"pooling_mode_cls_token", TN__LM_POOL_CLS},
                 {"pooling_mode_max_tokens", TN__LM_POOL_MAX},
                 {"pooling_mode_lasttoken", TN__LM_POOL_LAST},
                 {"pooling_mode_mean_tokens", TN__LM_POOL_MEAN}};
    enum { MODES = sizeof modes / sizeof *modes };
    int count = 0;
    TN__JSON_EACH(member, root)
    {
        if (member->kind != TN__JSON_TRUE ||
            strncmp(member->key, mode, strlen(mode)) != 0)
            continue;
        int i = 0;
        while (i < MODES && strcmp(modes[i].name, member->key) != 0)
            i++;
        if (i == MODES)
            return refuse(folder, name, member->key);
        if (count++)
            return refuse(folder, name, "more than one pooling_mode");
        lm->pooling = modes[i].pooling;
    }
    return true;
}

/* Reads the modules of sentence-transformers: the model, its pooling, and
 * whether embeddings are normalised. */
static bool read_modules(tn_lm *lm, const char *folder,
                         const tn__json_value *root)
{
    TN__JSON_EACH(module, root)
    {
        const char *type = tn__json_text(tn__json_get(module, "type"));
        const char *dot = type ? strrchr(type, '.') : NULL;
        const char *name = dot    ? dot + 1
                           : type ? type
                                  : "a module without type";
        if (strcmp(name, "Normalize") == 0)
            lm->normalize = true;
        else if (strcmp(name, "Transformer") != 0 &&
                 strcmp(name, "Pooling") != 0)
            return refuse(folder, "modules.json", name);
    }
    return true;
}

static bool read_pooling(tn_lm *lm, const char *folder)
{
    tn__lm_json mode = {0}, modules = {0};
    bool fine = open_optional(&mode, folder, "1_Pooling/config.json") &&
                read_mode(lm, folder, mode.root) &&
                open_optional(&modules, folder, "modules.json") &&
                read_modules(lm, folder, modules.root);
    tn__lm_json_close(&mode);
    tn__lm_json_close(&modules);
    return fine;
}

/* ---- the model ----------------------------------------------------------- */

/* Reads config.json. Sets *text to a copy for tn_lm_save, because the parser
 * modifies the text. */
static bool read_config(const char *folder, tn__lm_json *file, char **text,
                        size_t *bytes, tn__lm_spec *spec)
{
    char path[4096];
    if (tn_format(path, sizeof path, "%s/config.json", folder) >=
        (int)sizeof path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                 "the name is too long");
        return false;
    }
    *text = tn__lm_file_read(path, call, bytes);
    return *text && tn__lm_json_open(file, path, call) &&
           tn__lm_config_read(&(tn__lm_config){path, file->root},
                              tn__lm_families, spec);
}

static tn_lm *build(const char *folder, const tn__lm_spec *spec,
                    const tn_lm_open_options *o)
{
    const tn__lm_family *family = spec->family;
    bool prefixed;
    tn__lm_maker maker = {.relaxed = o->relaxed};
    maker.weights =
        tn__lm_weights_open(folder, o->dtype, family->names[TN__LM_EMBED],
                            family->prefix, &prefixed);
    if (!maker.weights)
        return NULL;
    tn_lm *lm = tn__lm_model_make(
        &maker, spec, family->prefix && prefixed ? family->prefix : "");
    /* Some files contain the output layer although it is tied to the
     * embedding. */
    const char *head = family->names[TN__LM_HEAD];
    char name[TN__LM_PATH];
    if (spec->tied && head)
        tn__lm_weights_skip(maker.weights, tn__lm_join(name, head, "weight"));
    return lm && tn__lm_weights_check(maker.weights, family->unused, o->strict)
               ? lm
               : NULL;
}

static tn_lm *open_folder(const char *folder, const tn_lm_open_options *o)
{
    tn__lm_json config = {0};
    tn__lm_spec *spec = malloc(sizeof *spec);
    char *text = NULL;
    size_t bytes = 0;
    tn_lm *lm = NULL;
    if (!spec)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    else if (read_config(folder, &config, &text, &bytes, spec))
        lm = build(folder, spec, o);
    if (lm && (!read_eos(lm, folder, config.root) || !read_pooling(lm, folder)))
        lm = NULL;
    if (lm) {
        lm->folder = strdup(folder);
        lm->config = text;
        lm->config_bytes = bytes;
        text = NULL;
        tn_module_eval(&lm->base);
    }
    tn__lm_json_close(&config);
    free(text);
    free(spec);
    return lm;
}

/* ---- GGUF files ---------------------------------------------------------- */

static tn_lm *build_gguf(tn_gguf *file, const tn__json_value *root,
                         tn__lm_spec *spec, const tn_lm_open_options *o)
{
    if (!tn__lm_config_read(&(tn__lm_config){tn_gguf_path(file), root},
                            tn__lm_families, spec))
        return NULL;
    tn__lm_gguf_spec(spec);
    const tn__lm_family *family = spec->family;
    const char *prefix = family->prefix && !spec->encoder ? family->prefix : "";
    tn__lm_maker maker = {
        tn__lm_weights_open_gguf(file, spec, o->dtype, prefix), o->relaxed};
    tn_lm *lm = maker.weights ? tn__lm_model_make(&maker, spec, prefix) : NULL;
    if (!lm || !tn__lm_weights_check(maker.weights, NULL, o->strict))
        return NULL;
    lm->block_numel = tn__lm_weights_in_blocks(maker.weights, &lm->block_bytes);
    add_eos(lm, tn__json_get(root, "eos_token_id"));
    if (tn_error())
        return NULL;
    const char *pooling = tn__lm_gguf_pooling(file);
    if (pooling)
        lm->pooling = strcmp(pooling, "cls") == 0    ? TN__LM_POOL_CLS
                      : strcmp(pooling, "last") == 0 ? TN__LM_POOL_LAST
                                                     : TN__LM_POOL_MEAN;
    return lm;
}

static tn_lm *open_gguf(const char *path, const tn_lm_open_options *o)
{
    tn_gguf *file = tn_gguf_open(path);
    if (!file) {
        tn_error_rename("gguf_open", call, "path");
        return NULL;
    }
    char *text = tn__lm_gguf_config(file);
    char *copy = text ? strdup(text) : NULL; /* the parser modifies the text */
    tn__lm_spec *spec = malloc(sizeof *spec);
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *root =
        copy ? tn__json_read(&json, copy, strlen(copy)) : NULL;
    tn_lm *lm = root && spec ? build_gguf(file, root, spec, o) : NULL;
    if (copy && !root && *json.error)
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                 "%s: its configuration: %s", path, json.error);
    else if (!lm && !tn_error())
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    if (lm) {
        lm->config_bytes = strlen(text);
        lm->config = text;
        text = NULL;
        tn_module_eval(&lm->base);
    }
    static const char *const inner[] = {"gguf_text", "gguf_ints", "gguf_reals",
                                        "gguf_tensor", "gguf_blocks"};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        tn_error_rename(inner[i], call, "path");
    tn__json_free(&json);
    free(spec);
    free(copy);
    free(text);
    return lm;
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

TN_OPTIONS_TYPE(tn_lm_open, "lm_open", "path", TN_LM_OPEN_OPTIONS_LIST)

tn_lm *tn_lm_open_with(const char *path, const tn_lm_open_options *options)
{
    tn_lm_open_options o;
    if (tn_options_take(tn_lm_open_type(), &o, options) < 0)
        return NULL;
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path", "it is NULL");
        return NULL;
    }
    tn_device *before = tn_device_current();
    if (!before || (o.device && tn_device_set(o.device) < 0))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = tn_scope_result(scope, is_file(path) ? open_gguf(path, &o)
                                                     : open_folder(path, &o));
    tn_device_set(before);
    return lm;
}

/* Returns the number of elements in all parameters. A parameter that two
 * modules share counts once. Returns -1 on failure. */
static int64_t count_elements(const tn_lm *lm)
{
    int64_t count = 0;
    tn_scope *scope = tn_scope_open();
    const tn_parameter_list *list = tn_parameters((tn_module *)&lm->base);
    for (int i = 0; i < tn_parameters_count(list); i++)
        count += tn_tensor_numel(tn_parameters_at(list, i));
    tn_scope_close(scope);
    return list ? count : -1;
}

tn_status tn_lm_info(const tn_lm *lm, tn_lm_sizes *sizes)
{
    static const char name[] = "lm_info";
    if (!tn__lm_is_model(lm, name))
        return tn_error_code();
    if (!sizes || sizes->size < sizeof sizes->size ||
        sizes->size > sizeof *sizes)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, name, "sizes",
            "set sizes->size = sizeof *sizes before the call");
    const tn__lm_spec *s = &lm->spec;
    const tn_dtype dtype = tn__lm_dtype(lm);
    const int64_t count = count_elements(lm);
    if (count < 0)
        return tn_error_code();
    tn_lm_sizes all = {
        .size = sizes->size,
        .family = s->family->type,
        .layers = s->layers,
        .hidden = s->hidden,
        .inner = s->inner,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .experts = s->experts,
        .vocabulary = s->vocab,
        .positions = s->positions,
        .parameters = count + lm->block_numel,
        .weight_bytes =
            count * (int64_t)tn_dtype_bytes(dtype) + lm->block_bytes,
        .cache_bytes = s->encoder ? 0
                                  : 2 * s->layers * s->kv_heads * s->head_dim *
                                        (int64_t)tn_dtype_bytes(dtype),
        .is_encoder = s->encoder,
        .dtype = dtype};
    memcpy(sizes, &all, sizes->size);
    return TN_OK;
}
