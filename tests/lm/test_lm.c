/* test_lm.c: tests that a folder is opened as a module tree and saved again,
 * that inconsistent files are rejected with a message that names the cause, and
 * that layers can be used alone. */
#include <errno.h>
#include <sys/stat.h>
#include <tap.h>
#include <tenon/lm.h>
#include <tenon/tenon.h>
#include <unistd.h>

static char scratch[1024];

static const char *data(const char *name)
{
    static char path[4][4096];
    static int at;
    const char *source = getenv("top_srcdir");
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/tests/lm/data/%s",
             source ? source : ".", name);
    return path[at];
}

#define REFUSED(call, words)                                                   \
    do {                                                                       \
        bool failed = !(call);                                                 \
        const char *why = tn_error() ? tn_error() : "no error";                \
        ok(failed &&strstr(why, words), "refused: %s", why);                   \
        tn_error_clear();                                                      \
    } while (0)

/* ---- files --------------------------------------------------------------- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65536);
    if (!file || !text)
        bail_out("%s: %s", path, strerror(errno));
    size_t count = fread(text, 1, 65535, file);
    text[count] = '\0';
    fclose(file);
    return text;
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bail_out("%s: %s", path, strerror(errno));
}

/* Makes a folder with the config of a model of data/, in which the string
 * `from` is replaced by `to`, and a link to the model's weights. */
static const char *altered(const char *model, const char *from, const char *to)
{
    static char folder[2048];
    static int number;
    char path[4096], link_path[4096], text[66000];
    snprintf(folder, sizeof folder, "%s/%d", scratch, number++);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/config.json", data(model));
    char *config = read_text(path);
    char *at = strstr(config, from);
    if (!at)
        bail_out("%s has no %s", path, from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config, to,
             at + strlen(from));
    free(config);
    write_text(folder, "config.json", text);
    snprintf(path, sizeof path, "%s/model.safetensors", data(model));
    snprintf(link_path, sizeof link_path, "%s/model.safetensors", folder);
    char real[4096];
    if (!realpath(path, real) || symlink(real, link_path) < 0)
        bail_out("%s: %s", link_path, strerror(errno));
    return folder;
}

static tn_tensor *run(tn_lm *lm)
{
    int64_t ids[] = {3, 9, 27, 18, 54, 2};
    tn_tensor *y = NULL;
    TN_NO_GRAD
    {
        y = tn_forward(tn_lm_module(lm),
                       tn_tensor_from_array(ids, TN_I64, tn_dims(2, 3)));
    }
    return y;
}

static bool same_bits(tn_tensor *a, tn_tensor *b)
{
    return a && b && tn_item(tn_sum(tn_ne(a, b))) == 0;
}

/* ---- configs ------------------------------------------------------------- */

static void configs(void)
{
    REFUSED(tn_lm_open(NULL), "NULL");
    REFUSED(tn_lm_open("/dev/null"), "not a regular file");
    REFUSED(tn_lm_open("/dev"), "config.json");
    REFUSED(tn_lm_open(altered("llama", "\"hidden_act\": \"silu\"",
                               "\"hidden_act\": \"gegelu\"")),
            "\"hidden_act\" is \"gegelu\"");
    REFUSED(tn_lm_open(altered("llama", "{", "{\"logit_scale\": 0.5,")),
            "does not support the key \"logit_scale\" (0.5)");
    REFUSED(tn_lm_open(altered("llama", "\"model_type\": \"llama\"",
                               "\"model_type\": \"mamba\"")),
            "mamba is not supported");
    REFUSED(tn_lm_open(altered("llama", "\"hidden_size\": 32",
                               "\"hidden_size\": 4000000000000")),
            "\"hidden_size\" is 4000000000000");
    REFUSED(tn_lm_open(altered("llama", "\"hidden_size\": 32,", "")),
            "\"hidden_size\" is missing");
    REFUSED(tn_lm_open(altered("llama", "\"num_hidden_layers\": 2",
                               "\"num_hidden_layers\": 2000000")),
            "1000 layers");
    REFUSED(tn_lm_open(altered("qwen3_moe", "\"num_local_experts\": 4",
                               "\"num_local_experts\": 65536")),
            "weights do not fit the config");
    REFUSED(tn_lm_open(altered("llama", "\"num_key_value_heads\": 2",
                               "\"num_key_value_heads\": 3")),
            "not a multiple");
    REFUSED(tn_lm_open(altered("llama", "\"rope_type\": \"default\"",
                               "\"rope_type\": \"fourier\"")),
            "rotary scaling");
    REFUSED(tn_lm_open(altered("rope_llama3", "\"low_freq_factor\": 1.0",
                               "\"low_freq_factor\": 4.0")),
            "above low_freq_factor");
    REFUSED(tn_lm_open(altered("llama", "\"eos_token_id\": null",
                               "\"eos_token_id\": 9223372036854775807")),
            "\"eos_token_id\" is 9223372036854775807");
    REFUSED(tn_lm_open(altered("gemma3", "\"attn_logit_softcapping\": null",
                               "\"attn_logit_softcapping\": 50.0")),
            "\"attn_logit_softcapping\" is 50");
    REFUSED(tn_lm_open(altered("gemma3", "\"full_attention\",",
                               "\"linear_attention\",")),
            "layer_types");
    REFUSED(tn_lm_open(altered("llama", "{", "{,")), "config.json:1:2");
    REFUSED(tn_lm_open(altered("llama", "{", "[] {")), "config.json:1:");
    ok(tn_lm_open(altered("llama", "{", "{\"logit_scale\": null,")) != NULL,
       "an unknown key that is null does not matter");
}

/* Opens damaged files. */
static void damaged(void)
{
    char folder[2048], path[4096];
    snprintf(folder, sizeof folder, "%s/damaged", scratch);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/config.json", data("qwen3"));
    char *config = read_text(path);
    write_text(folder, "config.json", config);
    free(config);
    REFUSED(tn_lm_open(folder), "has neither model.safetensors nor");
    static const char index[] = "model.safetensors.index.json";
    write_text(folder, index, "{\"weight_map\": {\"a\": 3}}");
    REFUSED(tn_lm_open(folder), "the file of tensor \"a\" must be in the same "
            "folder");
    write_text(folder, index, "{\"weight_map\": {\"a\": \"../x\"}}");
    REFUSED(tn_lm_open(folder), "the file of tensor \"a\" must be in the same "
            "folder");
    write_text(folder, index, "{\"weight_map\": {\"a\": \"x.safetensors\"}}");
    REFUSED(tn_lm_open(folder), "x.safetensors");
    write_text(folder, index, "{}");
    REFUSED(tn_lm_open(folder), "weight_map");
    write_text(folder, "model.safetensors", "\x08");
    REFUSED(tn_lm_open(folder), "model.safetensors");
    write_text(folder, "model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f");
    REFUSED(tn_lm_open(folder), "model.safetensors");
    ok(tn_lm_open(data("qwen3")) != NULL, "the next call works");
}

static void weights(void)
{
    REFUSED(tn_lm_open(altered("llama", "\"intermediate_size\": 48",
                               "\"intermediate_size\": 40")),
            "6 weights do not fit the config: "
            "model.layers.0.mlp.gate_proj.weight has the shape (48, 32) "
            "instead of (40, 32)");
    REFUSED(tn_lm_open(altered("llama", "\"num_hidden_layers\": 2",
                               "\"num_hidden_layers\": 3")),
            "model.layers.2.self_attn.q_proj.weight is missing");
    const char *folder = altered("llama", "\"num_hidden_layers\": 2",
                                 "\"num_hidden_layers\": 1");
    REFUSED(tn_lm_open(folder),
            "model.layers.1.input_layernorm.weight is not part of the model");
    ok(tn_lm_open(folder, .strict = false) != NULL, "unless strict is false");
    tn_error_clear();
    REFUSED(tn_lm_open(data("llama"), .dtype = TN_I64), "int64");
    tn_lm *half = tn_lm_open(data("llama"), .dtype = TN_BF16);
    tn_tensor *y = run(half);
    ok(tn_tensor_dtype(y) == TN_BF16, "weights may be converted");
    double gap = tn_item(tn_amax(tn_abs(
        tn_sub(tn_to_dtype(y, TN_F32), run(tn_lm_open(data("llama")))))));
    /* bfloat16 has 8 significant bits, and two layers of sums increase the
     * error */
    ok(gap < 0.2, "with about the same logits (%.3f)", gap);
    tn_lm *loose =
        tn_lm_open(data("llama"), .dtype = TN_BF16, .relaxed = true);
    tn_tensor *z = run(loose);
    gap = tn_item(tn_amax(tn_abs(
        tn_sub(tn_to_dtype(z, TN_F32), tn_to_dtype(y, TN_F32)))));
    ok(gap < 0.1, "relaxed products, too (%.3f)", gap);
    TN_RELAXED(true) y = run(half);
    ok(tn_item(tn_equal(y, z)) == 1, "they are those of relaxed mode");
}

/* ---- the module tree ----------------------------------------------------- */

static tn_tensor *twice(tn_module *module, tn_tensor *input, tn_tensor *output,
                        void *context)
{
    (void)module, (void)input;
    ++*(int *)context;
    return tn_mul_scalar(output, 2);
}

static void tree(void)
{
    tn_lm *lm = tn_lm_open(data("llama"));
    tn_module *net = tn_lm_module(lm);
    tn_lm_sizes sizes = {.size = sizeof sizes};
    is_int(tn_lm_info(lm, &sizes), TN_OK, "info");
    is_str(sizes.family, "llama", "of the family");
    ok(sizes.layers == 2 && sizes.kv_heads == 2 && sizes.dtype == TN_F32 &&
           sizes.cache_bytes == 2 * 2 * 2 * 8 * 4,
       "and the sizes");
    sizes.size = 1;
    REFUSED(tn_lm_info(lm, &sizes) == TN_OK, "sizeof");
    ok(!net->training, "a model opens in evaluation mode");
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    tn_module_print(file, net);
    fclose(file);
    ok(strstr(text, "CausalLM(") && strstr(text, "(q_proj): Linear(in_features="
                                                 "32, out_features=32"),
       "it is printed");
    free(text);
    tn_tensor *plain = run(lm);
    int calls = 0;
    tn_hook *hook = tn_module_register_forward_hook(
        tn_module_child(net, "model.layers.1.mlp"), twice, &calls);
    ok(!same_bits(run(lm), plain) && calls == 1, "a hook changes its output");
    int64_t ids[] = {3, 4, 5};
    tn_lm_generate(lm, ids, 3, .max_tokens = 4, .ignore_eos = true);
    is_int(calls, 5, "also while it generates");
    tn_hook_remove(hook);
    ok(same_bits(run(lm), plain), "and is removed");
    ok(same_bits(run((tn_lm *)tn_module_clone(net)), plain),
       "a clone is equal");

    /* padding on the right must not change the results before it */
    int64_t padded[] = {3, 9, 27, 0, 0, 18, 54, 2, 7, 8};
    int64_t mask[] = {1, 1, 1, 0, 0, 1, 1, 1, 1, 1};
    tn_tensor *y = NULL;
    TN_NO_GRAD
    {
        y = tn_forward(net, tn_tensor_from_array(padded, TN_I64, tn_dims(2, 5)),
                       tn_tensor_from_array(mask, TN_I64, tn_dims(2, 5)));
    }
    double gap =
        tn_item(tn_amax(tn_abs(tn_sub(tn_narrow(tn_narrow(y, 0, 0, 1), 1, 0, 3),
                                      tn_narrow(plain, 0, 0, 1)))));
    ok(gap < 1e-5, "a padded sequence has the same logits (%.1e)", gap);
    REFUSED(tn_forward(net, tn_zeros(tn_dims(2, 3))), "int64");
    /* an asynchronous device reports the error when the result is read */
    tn_tensor *odd = tn_forward(
        net, tn_tensor_from_array((int64_t[]){64}, TN_I64, tn_dims(1)));
    REFUSED(!isnan(tn_item(tn_sum(odd))), "64");
    tn_lm *gpt2 = tn_lm_open(data("gpt2"));
    REFUSED(tn_forward(tn_lm_module(gpt2),
                       tn_zeros(tn_dims(1, 129), .dtype = TN_I64)),
            "128 positions");
    REFUSED(tn_lm_module((tn_lm *)tn_nn_relu()), "not a language model");
}

/* ---- training and saving ------------------------------------------------- */

static tn_tensor *loss_of(tn_module *net, tn_tensor *ids)
{
    int64_t time = tn_tensor_size(ids, 0);
    return tn_cross_entropy(tn_narrow(tn_forward(net, ids), 0, 0, time - 1),
                            tn_narrow(ids, 0, 1, time - 1));
}

static void train(const char *name)
{
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = tn_lm_open(data(name));
    tn_module *net = tn_lm_module(lm);
    tn_tensor *before = run(lm);
    int64_t list[] = {5, 9, 13, 21, 34, 55, 8, 13, 21, 34};
    tn_tensor *ids = tn_tensor_from_array(list, TN_I64, tn_dims(10));
    tn_optim *optim = tn_optim_adamw(tn_parameters(net), .lr = 1e-2);
    double first = 0, last = 0;
    tn_module_train(net, true);
    for (int i = 0; i < 10; i++) {
        tn_scope *step = tn_scope_open();
        tn_tensor *loss = loss_of(net, ids);
        tn_optim_zero_grad(optim);
        tn_backward(loss);
        tn_optim_step(optim);
        last = tn_item(loss);
        if (i == 0)
            first = last;
        tn_scope_close(step);
    }
    ok(last < 0.7 * first, "%s learns: %.3f to %.3f", name, first, last);
    tn_module_eval(net);
    tn_tensor *trained = run(lm);
    ok(!same_bits(trained, before), "its weights have changed");
    ok(same_bits(run(tn_lm_open(data(name))), before),
       "the file has not, though it is mapped");
    char path[2048];
    snprintf(path, sizeof path, "%s/saved-%s", scratch, name);
    is_int(tn_lm_save(lm, path), TN_OK, "it is saved");
    tn_lm *again = tn_lm_open(path);
    ok(same_bits(run(again), trained), "and opened again, with the same bits");
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    tn_scope_close(scope);
}

/* The config is replaced as any other file is. */
static void save_into_special_files(tn_lm *lm, const char *folder)
{
    char config[2100], kept[2100];
    struct stat info;
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(kept, sizeof kept, "%s/kept.json", folder);
    ok(rename(config, kept) == 0 && chmod(kept, 0600) == 0 &&
           symlink("kept.json", config) == 0,
       "its config becomes a symbolic link");
    is_int(tn_lm_save(lm, folder), TN_OK, "it is saved");
    ok(lstat(config, &info) == 0 && S_ISLNK(info.st_mode), "the link stays");
    ok(stat(config, &info) == 0 && (info.st_mode & 0777) == 0600 &&
           info.st_size > 0,
       "the file keeps its mode");
    unlink(config);
    ok(mkfifo(config, 0666) == 0, "its config becomes a FIFO");
    REFUSED(tn_lm_save(lm, folder) == TN_OK, "a FIFO, not a regular file");
    ok(stat(config, &info) == 0 && S_ISFIFO(info.st_mode), "which stays");
    unlink(config);
    unlink(kept);
    is_int(tn_lm_save(lm, folder), TN_OK, "it is saved again");
}

static void saving(void)
{
    char path[2048], inner[2100];
    tn_lm *lm = tn_lm_open(data("bert"), .dtype = TN_F16);
    snprintf(path, sizeof path, "%s/half", scratch);
    is_int(tn_lm_save(lm, path), TN_OK, "a converted model is saved");
    snprintf(inner, sizeof inner, "%s/config.json", path);
    char *text = read_text(inner);
    ok(strstr(text, "\"float16\"") && strstr(text, "\"hidden_size\": 32"),
       "with its dtype in the config");
    free(text);
    snprintf(inner, sizeof inner, "%s/1_Pooling/config.json", path);
    ok(access(inner, R_OK) == 0, "and how to pool");
    tn_lm *again = tn_lm_open(path);
    ok(same_bits(run(again), run(lm)), "and the same outputs");
    is_int(tn_lm_save(again, path), TN_OK, "it is saved over itself");
    ok(same_bits(run(tn_lm_open(path)), run(lm)), "and opened again");
    save_into_special_files(again, path);
    REFUSED(tn_lm_save(lm, NULL) == TN_OK, "NULL");
    REFUSED(tn_lm_save(lm, "/dev/null/x") == TN_OK, "/dev/null/x");
}

/* Opens a folder of bert with one more file. */
static tn_lm *open_with(const char *inner, const char *name, const char *text)
{
    const char *folder = altered("bert", "{", "{");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, inner);
    mkdir(path, 0777);
    write_text(path, name, text);
    return tn_lm_open(folder);
}

static void companions(void)
{
    REFUSED(open_with("1_Pooling", "config.json",
                      "{\"pooling_mode_cls_token\": true, "
                      "\"pooling_mode_mean_tokens\": true}"),
            "1_Pooling/config.json: more than one pooling_mode");
    REFUSED(open_with("1_Pooling", "config.json",
                      "{\"pooling_mode_weightedmean_tokens\": true}"),
            "pooling_mode_weightedmean_tokens is not supported");
    REFUSED(open_with("", "modules.json",
                      "[{\"type\": \"sentence_transformers.models.Dense\"}]"),
            "modules.json: Dense is not supported");
    REFUSED(open_with("", "generation_config.json",
                      "{\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
                      "13, 14, 15, 16, 17]}"),
            "more than 16 tokens");
    ok(open_with("1_Pooling", "config.json",
                 "{\"pooling_mode_cls_token\": true, "
                 "\"pooling_mode_mean_tokens\": false}") != NULL,
       "one pooling is read");
}

/* ---- layers -------------------------------------------------------------- */

static void layers(void)
{
    tn_manual_seed(1);
    tn_tensor *x = tn_randn(tn_dims(2, 10, 32));
    tn_module *attention = tn_lm_attention(32, 4, .kv_heads = 2, .window = 4,
                                           .rotary = tn_lm_rotary(8));
    tn_tensor *y = tn_forward(attention, x);
    is_int(tn_tensor_size(y, 2), 32, "attention");
    /* a window of 4: position 9 attends to positions 6 to 9 only */
    tn_tensor *other = tn_clone(x);
    tn_mul_scalar_(tn_narrow(other, 1, 0, 6), 0);
    tn_tensor *z = tn_forward(attention, other);
    ok(tn_item(tn_amax(
           tn_abs(tn_sub(tn_select(y, 1, 9), tn_select(z, 1, 9))))) < 1e-6,
       "with a window");
    tn_module_set_recompute(attention, true);
    ok(tn_backward(tn_sum(tn_forward(attention, x))) == TN_OK,
       "is recomputed in the backward pass");
    ok(tn_backward(tn_sum(tn_forward(tn_lm_mlp(32, 48), x))) == TN_OK, "mlp");
    tn_module *experts = tn_lm_experts(32, 16, 4, 2);
    y = tn_forward(experts, x);
    is_int(tn_tensor_size(y, 1), 10, "experts");
    /* computes the result for one token without the layer */
    tn_tensor *one = tn_narrow(tn_reshape(x, tn_dims(20, 32)), 0, 13, 1), *best;
    tn_tensor *p =
        tn_softmax(tn_forward(tn_module_child(experts, "gate"), one), -1);
    tn_tensor *top = tn_topk(p, 2, -1, true, true, &best);
    tn_tensor *sum = tn_zeros(tn_dims(1, 32));
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "experts.%d",
                 (int)tn_item(tn_select(best, 1, i)));
        sum =
            tn_add(sum, tn_mul(tn_forward(tn_module_child(experts, name), one),
                               tn_div(tn_narrow(top, 1, i, 1), tn_sum(top))));
    }
    ok(tn_item(tn_amax(tn_abs(tn_sub(
           sum, tn_narrow(tn_reshape(y, tn_dims(20, 32)), 0, 13, 1))))) < 1e-6,
       "are weighted by the router");
    tn_module *norm = tn_lm_rms_norm(32, .offset = 1);
    ok(tn_item(tn_amax(tn_abs(
           tn_sub(tn_forward(norm, x),
                  tn_rms_norm(x, tn_dims(32), NULL, .eps = 1e-6))))) < 1e-6,
       "a norm with offset 1 begins with weight 0");
    static const char *const scalings[] = {"none", "linear",   "dynamic",
                                           "yarn", "longrope", "llama3"};
    const double factors[] = {1, 2, 3, 4};
    tn_tensor *heads = tn_randn(tn_dims(40, 2, 8));
    for (int i = 0; i < 6; i++) {
        tn_module *rotary =
            tn_lm_rotary(8, .scaling = scalings[i], .factor = 2,
                         .original_positions = 16, .short_factor = factors,
                         .long_factor = factors, .attention_factor = 1);
        tn_tensor *r = tn_forward(rotary, heads);
        /* a rotation does not change lengths */
        double gap = tn_item(
            tn_abs(tn_sub(tn_sum(tn_mul(r, r)), tn_sum(tn_mul(heads, heads)))));
        ok(gap < 1e-2 && !same_bits(r, heads), "rotary, %s", scalings[i]);
    }
    ok(!tn_error(), "without an error");
    REFUSED(tn_lm_rotary(7), "even");
    REFUSED(tn_lm_rotary(8, .scaling = "su2"), "longrope");
    REFUSED(tn_lm_rotary(8, .scaling = "yarn"), "original_positions is 0");
    REFUSED(tn_forward(tn_lm_rotary(16), heads), "at least 16");
    REFUSED(tn_lm_attention(32, 5), "multiple");
    REFUSED(tn_lm_mlp(32, 0), "at least 1");
    REFUSED(tn_lm_mlp(32, 8, .activation = "tanh"), "silu");
    REFUSED(tn_lm_experts(32, 16, 4, 5), "per_token");
    REFUSED(tn_lm_rms_norm(0), "at least 1");
}

static void remove_scratch(void)
{
    char command[1200];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command) != 0)
        note("%s is left", scratch);
}

/* A parameter that two modules share must count once. */
static void shared(void)
{
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = tn_lm_open(data("smollm"));
    tn_lm_sizes sizes = {.size = sizeof sizes};
    is_int(tn_lm_info(lm, &sizes), TN_OK, "info of a model that ties weights");
    is_int(sizes.parameters,
           tn_module_parameter_count(tn_lm_module(lm)) -
               sizes.vocabulary * sizes.hidden,
           "the embedding that is also the output layer counts once");
    is_int(sizes.weight_bytes,
           sizes.parameters * (int64_t)tn_dtype_bytes(sizes.dtype),
           "and so do its bytes");
    tn_scope_close(scope);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    plan_later();
    snprintf(scratch, sizeof scratch, "%s/tenon-lm-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch))
        bail_out("%s: %s", scratch, strerror(errno));
    configs();
    weights();
    damaged();
    tree();
    train("llama");
    train("qwen3");
    train("qwen3_moe");
    train("gpt2");
    saving();
    companions();
    layers();
    shared();
    remove_scratch();
    return done_testing();
}
