/* golden.h: compares a model with the outputs of transformers: see golden.c. */
#ifndef TN_TESTS_LM_GOLDEN_H
#define TN_TESTS_LM_GOLDEN_H

#include <tap.h>
#include <tenon/lm.h>
#include <tenon/tenon.h>
#include <unistd.h>

static double *doubles_of(tn_tensor *x, int64_t *count)
{
    tn_tensor *y = tn_to_dtype(x, TN_F64);
    *count = tn_tensor_numel(y);
    double *values = malloc(sizeof *values * (size_t)(*count + 1));
    if (!y ||
        tn_tensor_to_array(y, values, sizeof *values * (size_t)*count) < 0)
        bail_out("%s", tn_error());
    return values;
}

static double largest_of(tn_tensor *x)
{
    return tn_item(tn_amax(tn_abs(tn_to_dtype(x, TN_F64))));
}

/* Returns the largest difference of two tensors, divided by the largest element
 * of the second one, or by `least` if that is larger. Returns infinity if a
 * tensor is missing or the shapes differ. */
static inline double difference_from(tn_tensor *got, tn_tensor *want,
                                     double least)
{
    int64_t n, m;
    if (!got || !want || tn_tensor_numel(got) != tn_tensor_numel(want))
        return INFINITY;
    double *a = doubles_of(got, &n), *b = doubles_of(want, &m);
    double worst = 0, largest = least;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        worst = d > worst || isnan(d) ? d : worst;
        largest = fabs(b[i]) > largest ? fabs(b[i]) : largest;
    }
    free(a);
    free(b);
    return isnan(worst) ? INFINITY : worst == 0 ? 0 : worst / largest;
}

static inline double difference(tn_tensor *got, tn_tensor *want)
{
    return difference_from(got, want, 0);
}

static tn_tensor *golden_of(tn_safetensors *file, const char *name)
{
    return tn_safetensors_has(file, name) ? tn_safetensors_tensor(file, name)
                                          : NULL;
}

static void check_hidden(tn_lm *lm, tn_safetensors *file, tn_tensor *ids,
                         const char *folder, double tolerance)
{
    tn_lm_sizes sizes = {.size = sizeof sizes};
    tn_lm_info(lm, &sizes);
    const int count = (int)sizes.layers + 1;
    if (!tn_safetensors_has(file, "hidden_0")) {
        skip(1, "the file has no hidden states");
        return;
    }
    tn_tensor *state[1001] = {0};
    double worst = 0;
    TN_NO_GRAD
    {
        if (tn_lm_hidden_states(lm, ids, state, count) < 0)
            note("%s", tn_error());
    }
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden_%d", i);
        double d = difference(state[i], golden_of(file, name));
        if (d > tolerance)
            note("%s differs by %.2g", name, d);
        worst = d > worst ? d : worst;
    }
    ok(worst <= tolerance, "%s: %d hidden states (%.1e)", folder, count, worst);
}

static void check_output(tn_lm *lm, tn_safetensors *file, tn_tensor *ids,
                         const char *folder, double tolerance)
{
    double d = INFINITY;
    TN_NO_GRAD
    {
        tn_tensor *x = tn_forward(tn_lm_module(lm), ids);
        tn_tensor *want = golden_of(file, "logits");
        if (!want) {
            /* for a large model the file has only the last two rows, and of
             * each row the 8 largest elements */
            want = golden_of(file, "logits_last2");
            tn_tensor *best, *top = tn_topk(x, 8, -1, true, true, &best);
            double gap = difference(top, golden_of(file, "top8_values"));
            ok(gap <= tolerance, "%s: largest logits (%.1e)", folder, gap);
            x = tn_narrow(x, -2, tn_tensor_size(x, -2) - 2, 2);
        }
        d = difference(x, want);
    }
    if (tn_error())
        note("%s", tn_error());
    ok(d <= tolerance, "%s: logits (%.1e)", folder, d);
}

/* transformers 5 keeps the experts of a layer in two tensors: gate_up_proj
 * (experts, 2 inner, hidden) and down_proj (experts, hidden, inner). Returns
 * the part that belongs to parameter "....mlp.experts.3.up_proj.weight". */
static tn_tensor *expert_gradient(tn_safetensors *file, const char *name)
{
    const char *at = strstr(name, ".experts.");
    char full[256], *end;
    if (!at)
        return NULL;
    long expert = strtol(at + 9, &end, 10);
    bool down = strncmp(end, ".down", 5) == 0;
    snprintf(full, sizeof full, "grad.%.*s.experts.%s", (int)(at - name), name,
             down ? "down_proj" : "gate_up_proj");
    tn_tensor *all = golden_of(file, full);
    tn_tensor *one = all ? tn_select(all, 0, expert) : NULL;
    if (!one || down)
        return one;
    int64_t inner = tn_tensor_size(one, 0) / 2;
    return tn_narrow(one, 0, strncmp(end, ".up", 3) == 0 ? inner : 0, inner);
}

/* The bias of keys adds the same number to all scores of a query if nothing
 * depends on positions. Softmax does not change then, so the gradient of the
 * bias is 0, and the computed gradient is rounding error. Therefore gradients
 * that are a thousand times smaller than the largest gradient of the model are
 * compared relative to that gradient. */
static double least_scale(tn_safetensors *file)
{
    double largest = 0;
    for (int i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        if (strncmp(name, "grad.", 5) != 0)
            continue;
        double x = largest_of(golden_of(file, name));
        largest = x > largest ? x : largest;
    }
    return largest / 1000;
}

static bool is_zero(tn_tensor *x)
{
    return largest_of(x) == 0;
}

static void check_gradients(tn_lm *lm, tn_safetensors *file, tn_tensor *loss,
                            const char *folder, double tolerance)
{
    double d = difference(loss, golden_of(file, "loss"));
    ok(d <= 1e-4, "%s: loss (%.1e)", folder, d);
    double least = least_scale(file);
    if (least == 0) {
        skip(1, "the file has no gradients");
        return;
    }
    tn_backward(loss);
    tn_parameter_list *list = tn_parameters(tn_lm_module(lm));
    double worst = 0;
    int count = 0;
    for (int i = 0; i < tn_parameters_count(list); i++) {
        const char *name = tn_parameters_name(list, i);
        char full[256];
        /* transformers 5 calls GPT-NeoX's output layer lm_head in memory and
         * embed_out in files */
        if (strcmp(name, "embed_out.weight") == 0)
            name = "lm_head.weight";
        snprintf(full, sizeof full, "grad.%s", name);
        tn_tensor *want = golden_of(file, full);
        want = want ? want : expert_gradient(file, name);
        tn_tensor *got = tn_tensor_grad(tn_parameters_at(list, i));
        if (!want && (!got || is_zero(got)))
            continue;
        /* no token chose this expert, so it has no gradient */
        double gap = want && !got && is_zero(want)
                         ? 0
                         : difference_from(got, want, least);
        if (!(gap <= tolerance))
            note("%s differs by %.2g", full, gap);
        worst = gap > worst ? gap : worst;
        count++;
    }
    if (tn_error())
        note("%s", tn_error());
    ok(count > 0 && worst <= tolerance, "%s: %d gradients (%.1e)", folder,
       count, worst);
}

/* Returns the cross entropy of the prediction of each next token. */
static tn_tensor *decoder_loss(tn_lm *lm, tn_tensor *ids)
{
    int64_t time = tn_tensor_size(ids, -1);
    tn_tensor *logits =
        tn_forward(tn_lm_module(lm), tn_reshape(ids, tn_dims(-1)));
    return tn_cross_entropy(
        tn_narrow(logits, 0, 0, time - 1),
        tn_narrow(tn_reshape(ids, tn_dims(-1)), 0, 1, time - 1));
}

static void check_greedy(tn_lm *lm, tn_safetensors *file, tn_tensor *ids,
                         const char *folder)
{
    int64_t prompt[4096], greedy[4096], length = tn_tensor_numel(ids);
    tn_tensor *want = golden_of(file, "greedy");
    float margin[4096];
    int64_t count = want ? tn_tensor_numel(want) : 0;
    tn_tensor_to_array(ids, prompt, sizeof *prompt * (size_t)length);
    tn_tensor_to_array(want, greedy, sizeof *greedy * (size_t)count);
    tn_tensor_to_array(golden_of(file, "margin"), margin,
                       sizeof *margin * (size_t)count);
    tn_lm_result *result = tn_lm_generate(
        lm, prompt, length, .ignore_eos = true, .max_tokens = count);
    const int64_t *got = tn_lm_result_ids(result, 0);
    int64_t same = 0;
    while (got && same < count && got[same] == greedy[same])
        same++;
    /* If the two largest logits are nearly equal, rounding decides, and from
     * there the texts may differ. */
    bool tie = same < count && margin[same] <= 1e-3f;
    if (tn_error())
        note("%s", tn_error());
    ok(count > 0 && (same == count || tie), "%s: %lld of %lld greedy tokens%s",
       folder, (long long)same, (long long)count, tie ? ", then a tie" : "");
}

static void check_embedding(tn_lm *lm, tn_safetensors *file, tn_tensor *ids,
                            const char *folder, double tolerance)
{
    int64_t one[4096], length = tn_tensor_numel(ids);
    tn_tensor_to_array(ids, one, sizeof *one * (size_t)length);
    tn_tensor *x = tn_lm_embed(lm, (const int64_t *[]){one}, &length, 1);
    double d = difference(x, golden_of(file, "embedding"));
    if (tn_error())
        note("%s", tn_error());
    ok(d <= tolerance, "%s: embedding (%.1e)", folder, d);
}

/* ---- fine-tuning --------------------------------------------------------- */

enum { STEPS = 10 };

/* Returns the cross entropy of the prediction of each next token, for ids
 * (batch, time). */
static tn_tensor *batch_loss(tn_lm *lm, tn_tensor *ids)
{
    const int64_t time = tn_tensor_size(ids, 1);
    tn_tensor *x = tn_forward(tn_lm_module(lm), ids);
    x = tn_narrow(x, 1, 0, time - 1);
    return tn_cross_entropy(
        tn_reshape(x, tn_dims(-1, tn_tensor_size(x, 2))),
        tn_reshape(tn_narrow(ids, 1, 1, time - 1), tn_dims(-1)));
}

/* Runs STEPS steps of AdamW. Compares the loss of each step with
 * "KIND.losses". */
static void check_losses(tn_lm *lm, tn_safetensors *file,
                         tn_parameter_list *parameters, const char *kind,
                         const char *folder)
{
    char name[64];
    float want[STEPS] = {0};
    double worst = 0;
    tn_optim *optim =
        tn_optim_adamw(parameters, .lr = 1e-3, .weight_decay = 0.01);
    tn_tensor *ids = golden_of(file, "ids");
    snprintf(name, sizeof name, "%s.losses", kind);
    tn_tensor_to_array(golden_of(file, name), want, sizeof want);
    for (int i = 0; i < STEPS; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *loss = batch_loss(lm, ids);
        const double gap = fabs(tn_item(loss) - (double)want[i]);
        worst = gap > worst || isnan(gap) ? gap : worst;
        tn_optim_zero_grad(optim);
        tn_backward(loss);
        tn_optim_step(optim);
        tn_scope_close(scope);
    }
    if (tn_error())
        note("%s", tn_error());
    ok(worst <= 1e-4 && !tn_error(), "%s: %d steps, %s: losses (%.1e)", folder,
       STEPS, kind, worst);
}

/* Returns the mean difference of two weights. A single weight may differ by
 * about the learning rate: where its gradient is nearly 0, rounding decides the
 * sign of AdamW's step. */
static double mean_difference(tn_tensor *got, tn_tensor *want)
{
    return tn_item(tn_mean(tn_abs(tn_sub(got, want))));
}

static void check_full(const char *path, tn_safetensors *file,
                       const char *folder)
{
    tn_lm *lm = tn_lm_open(path);
    tn_parameter_list *list = tn_parameters(tn_lm_module(lm));
    double worst = 0;
    check_losses(lm, file, list, "full", folder);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        char name[256];
        snprintf(name, sizeof name, "full.after.%s",
                 tn_parameters_name(list, i));
        const double gap = mean_difference(tn_parameters_at(list, i),
                                           golden_of(file, name));
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    ok(worst <= 1e-6, "%s: weights after fine-tuning (%.1e)", folder, worst);
}

/* A low-rank adapter (arXiv:2106.09685) of a linear layer. It adds 2 B A x to
 * the layer's result. */
typedef struct adapter {
    tn_tensor *a, *b;
    char name[64];
} adapter;

static tn_tensor *adapt(tn_module *module, tn_tensor *x, tn_tensor *y,
                        void *context)
{
    const adapter *with = context;
    (void)module;
    return tn_add(
        y, tn_mul_scalar(
               tn_linear(tn_linear(x, with->a, NULL), with->b, NULL), 2));
}

static void check_lora(const char *path, tn_safetensors *file,
                       const char *folder)
{
    enum { MOST = 64 };
    static adapter list[MOST];
    tn_lm *lm = tn_lm_open(path);
    tn_module *net = tn_lm_module(lm), *adapters = tn_nn_module_dict();
    tn_lm_sizes sizes = {.size = sizeof sizes};
    int count = 0;
    tn_lm_info(lm, &sizes);
    tn_module_set_requires_grad(net, false);
    for (int i = 0; i < (int)sizes.layers && count + 2 <= MOST; i++)
        for (int v = 0; v < 2; v++) {
            adapter *one = &list[count++];
            char name[128], key[16];
            snprintf(one->name, sizeof one->name, "lora.%d.%c_proj", i,
                     v ? 'v' : 'q');
            snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj", i,
                     v ? 'v' : 'q');
            tn_module *linear = tn_module_child(net, name);
            snprintf(name, sizeof name, "%s.A0", one->name);
            snprintf(key, sizeof key, "a%d", count);
            one->a = tn_module_add_parameter(adapters, key,
                                             golden_of(file, name));
            snprintf(name, sizeof name, "%s.B", one->name);
            snprintf(key, sizeof key, "b%d", count);
            one->b = tn_module_add_parameter(
                adapters, key, tn_zeros_like(golden_of(file, name)));
            tn_module_register_forward_hook(linear, adapt, one);
        }
    check_losses(lm, file, tn_parameters(adapters), "lora", folder);
    double worst = 0;
    for (int i = 0; i < 2 * count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%c", list[i / 2].name,
                 i % 2 ? 'B' : 'A');
        const double gap = mean_difference(
            i % 2 ? list[i / 2].b : list[i / 2].a, golden_of(file, name));
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    ok(worst <= 1e-6, "%s: adapters after fine-tuning (%.1e)", folder, worst);
}

/* Compares losses and weights during training by AdamW on ids (batch, time)
 * with finetune.safetensors, for the whole model and for adapters. */
static void check_finetuning(const char *path, const char *folder)
{
    char name[4600];
    snprintf(name, sizeof name, "%s/finetune.safetensors", path);
    if (access(name, F_OK) != 0)
        return;
    tn_safetensors *file = tn_safetensors_open(name);
    ok(file != NULL, "%s: finetune.safetensors", folder);
    check_full(path, file, folder);
    check_lora(path, file, folder);
}

static inline void check_folder(const char *folder)
{
    char path[4600];
    const double tolerance = 1e-4;
    tn_scope *scope = tn_scope_open();
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    tn_safetensors *file = tn_safetensors_open(path);
    tn_lm *lm = tn_lm_open(folder);
    const char *base = strrchr(folder, '/');
    base = base && base[1] ? base + 1 : folder;
    ok(file && lm, "%s opens", base);
    if (tn_error())
        note("%s", tn_error());
    if (file && lm) {
        tn_tensor *ids = golden_of(file, "ids");
        tn_lm_sizes sizes = {.size = sizeof sizes};
        tn_lm_info(lm, &sizes);
        check_hidden(lm, file, ids, base, tolerance);
        if (sizes.is_encoder) {
            check_embedding(lm, file, ids, base, tolerance);
            tn_tensor *x = tn_forward(tn_lm_module(lm), ids);
            check_gradients(lm, file, tn_mean(tn_mul(x, x)), base, 1e-3);
        } else {
            check_output(lm, file, ids, base, tolerance);
            check_greedy(lm, file, ids, base);
            check_gradients(lm, file, decoder_loss(lm, ids), base, 1e-3);
        }
        check_finetuning(folder, base);
    }
    tn_error_clear();
    tn_scope_close(scope);
}

#endif
