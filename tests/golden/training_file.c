/* training_file.c: checks a whole training run on the digits data set, loss by
 * loss.
 *
 * The initial parameters in the file determine the model; its metadata has
 * optimizer, batch size and epochs. The first 20 losses must agree to 1e-4, the
 * last to 2 %: rounding differences grow during training, as they do between
 * two builds of PyTorch. */
#include "compiled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN = 1440, FIRST = 20, MOST_BATCHES = 256 };

/* ---- models -------------------------------------------------------------- */

typedef struct net {
    tn_module base;
    tn_module *a, *b, *c, *d; /* submodules, in the order in which the make_...
                               * functions below create them */
    tn_tensor *pos;
} net;

static tn_tensor *mlp_forward(tn_module *self, tn_tensor *x)
{
    net *n = (net *)self;
    return tn_forward(n->b, tn_relu(tn_forward(n->a, x)));
}

static tn_tensor *cnn_forward(tn_module *self, tn_tensor *x)
{
    net *n = (net *)self;
    const tn_dims_list two = tn_dims(2, 2);
    x = tn_reshape(x, tn_dims(-1, 1, 8, 8));
    x = tn_max_pool2d(tn_relu(tn_forward(n->c, x)), two);
    x = tn_max_pool2d(tn_relu(tn_forward(n->d, x)), two);
    return mlp_forward(self, tn_flatten(x, .start_dim = 1));
}

/* Rows of pixels are time steps; the classifier reads the last hidden state. */
static tn_tensor *lstm_forward(tn_module *self, tn_tensor *x)
{
    net *n = (net *)self;
    x = tn_forward(n->a, tn_reshape(x, tn_dims(-1, 8, 8)));
    return tn_forward(n->b, tn_select(x, 1, -1));
}

/* Rows of pixels are the tokens. */
static tn_tensor *vit_forward(tn_module *self, tn_tensor *x)
{
    net *n = (net *)self;
    x = tn_forward(n->a, tn_reshape(x, tn_dims(-1, 8, 8)));
    x = tn_forward(n->c, tn_add(x, n->pos));
    return tn_forward(n->b, tn_mean(x, .dim = 1));
}

/* A residual block: relu(bn(conv)), then the sum of a second bn(conv) and the
 * block's input, and relu. */
typedef struct residual {
    tn_module base;
    tn_module *c1, *b1, *c2, *b2, *fc;
} residual;

static tn_tensor *residual_forward(tn_module *self, tn_tensor *x)
{
    residual *n = (residual *)self;
    x = tn_forward(n->c1, tn_reshape(x, tn_dims(-1, 1, 8, 8)));
    x = tn_relu(tn_forward(n->b1, x));
    tn_tensor *y = tn_forward(n->b2, tn_forward(n->c2, x));
    y = tn_relu(tn_add(x, y));
    return tn_forward(n->fc, tn_mean(y, .dims = tn_dims(2, 3)));
}

static int64_t size_of(tn_safetensors *file, const char *name, int dim)
{
    return tn_tensor_size(tn_safetensors_tensor(file, name), dim);
}

static tn_module *linear_like(tn_safetensors *file, const char *weight)
{
    return tn_nn_linear(size_of(file, weight, 1), size_of(file, weight, 0));
}

static tn_module *conv_like(tn_safetensors *file, const char *weight,
                            bool no_bias)
{
    return tn_nn_conv2d(size_of(file, weight, 1), size_of(file, weight, 0),
                        size_of(file, weight, 2), .padding = 1,
                        .bias = !no_bias);
}

static tn_module *make_mlp(tn_safetensors *file)
{
    static const tn_module_class type = {
        .size = sizeof type,
        .name = "MLP",
        .bytes = sizeof(net),
        .forward = mlp_forward};
    net *n = tn_module_new(&type);
    n->a =
        tn_module_add(&n->base, "fc1", linear_like(file, "start.fc1.weight"));
    n->b =
        tn_module_add(&n->base, "fc2", linear_like(file, "start.fc2.weight"));
    return &n->base;
}

static tn_module *make_cnn(tn_safetensors *file)
{
    static const tn_module_class type = {
        .size = sizeof type,
        .name = "CNN",
        .bytes = sizeof(net),
        .forward = cnn_forward};
    net *n = tn_module_new(&type);
    n->a =
        tn_module_add(&n->base, "fc1", linear_like(file, "start.fc1.weight"));
    n->b =
        tn_module_add(&n->base, "fc2", linear_like(file, "start.fc2.weight"));
    n->c = tn_module_add(&n->base, "conv1",
                         conv_like(file, "start.conv1.weight", false));
    n->d = tn_module_add(&n->base, "conv2",
                         conv_like(file, "start.conv2.weight", false));
    return &n->base;
}

static tn_module *make_lstm(tn_safetensors *file)
{
    static const tn_module_class type = {
        .size = sizeof type,
        .name = "LSTMNet",
        .bytes = sizeof(net),
        .forward = lstm_forward};
    const char *in = "start.lstm.weight_ih_l0";
    const char *hidden = "start.lstm.weight_hh_l0";
    net *n = tn_module_new(&type);
    n->a = tn_module_add(&n->base, "lstm",
                         tn_nn_lstm(size_of(file, in, 1),
                                    size_of(file, hidden, 1),
                                    .batch_first = true));
    n->b = tn_module_add(&n->base, "fc", linear_like(file, "start.fc.weight"));
    return &n->base;
}

static tn_module *make_residual(tn_safetensors *file)
{
    static const tn_module_class type = {
        .size = sizeof type,
        .name = "Residual",
        .bytes = sizeof(residual),
        .forward = residual_forward};
    int64_t channels = size_of(file, "start.b1.weight", 0);
    residual *n = tn_module_new(&type);
    n->c1 =
        tn_module_add(&n->base, "c1", conv_like(file, "start.c1.weight", true));
    n->b1 = tn_module_add(&n->base, "b1", tn_nn_batch_norm2d(channels));
    n->c2 =
        tn_module_add(&n->base, "c2", conv_like(file, "start.c2.weight", true));
    n->b2 = tn_module_add(&n->base, "b2", tn_nn_batch_norm2d(channels));
    n->fc = tn_module_add(&n->base, "fc", linear_like(file, "start.fc.weight"));
    return &n->base;
}

/* The shapes of the parameters do not determine the number of heads. It is 4;
 * with another number the first loss would differ. */
static tn_module *make_vit(tn_safetensors *file)
{
    static const tn_module_class type = {
        .size = sizeof type,
        .name = "ViT",
        .bytes = sizeof(net),
        .forward = vit_forward};
    net *n = tn_module_new(&type);
    n->a =
        tn_module_add(&n->base, "embed",
                      linear_like(file, "start.embed.weight"));
    n->b = tn_module_add(&n->base, "fc", linear_like(file, "start.fc.weight"));
    n->c = tn_module_add(
        &n->base, "enc",
        tn_nn_transformer_encoder_layer(
            size_of(file, "start.embed.weight", 0), 4,
            .dim_feedforward = size_of(file, "start.enc.linear1.weight", 0),
            .dropout = false, .batch_first = true));
    n->pos = tn_module_add_parameter(
        &n->base, "pos", tn_clone(tn_safetensors_tensor(file, "start.pos")));
    return &n->base;
}

/* Names of parameters that identify a model: the first entry whose names all
 * exist is used. */
static const struct {
    const char *has[3];
    tn_module *(*make)(tn_safetensors *file);
} models[] = {
    {{"start.conv1.weight", "start.conv2.weight", "start.fc2.weight"},
     make_cnn},
    {{"start.fc1.weight", "start.fc2.weight", NULL}, make_mlp},
    {{"start.lstm.weight_hh_l0", "start.fc.weight", NULL}, make_lstm},
    {{"start.c1.weight", "start.b2.running_var", "start.fc.weight"},
     make_residual},
    {{"start.enc.linear1.weight", "start.pos", "start.fc.weight"}, make_vit},
};

/* Returns NULL without an error if no known model has these parameters. */
static tn_module *model_of(tn_safetensors *file)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bool all = true;
        for (int k = 0; k < 3 && models[i].has[k]; k++)
            all = all && tn_safetensors_has(file, models[i].has[k]);
        if (all)
            return models[i].make(file);
    }
    return NULL;
}

static void set_start(tn_safetensors *file, tn_parameter_list *list)
{
    TN_NO_GRAD {
        for (int i = 0; i < tn_parameters_count(list); i++) {
            char key[128];
            snprintf(key, sizeof key, "start.%s", tn_parameters_name(list, i));
            tn_copy_(tn_parameters_at(list, i),
                     tn_safetensors_tensor(file, key));
        }
    }
}

/* ---- optimizer and schedule ---------------------------------------------- */

/* Returns the number after "name=" in text, or fallback if there is none. */
static double number_in(const char *text, const char *name, double fallback)
{
    const char *at = strstr(text, name);
    return at && at[strlen(name)] == '=' ? strtod(at + strlen(name) + 1, NULL)
                                         : fallback;
}

static tn_optim *optimizer_of(const char *text, tn_parameter_list *list)
{
    double lr = number_in(text, "lr", 0);
    if (strncmp(text, "AdamW ", 6) == 0)
        return tn_optim_adamw(list, .lr = lr);
    if (strncmp(text, "Adam ", 5) == 0)
        return tn_optim_adam(list, .lr = lr);
    if (strncmp(text, "SGD ", 4) == 0)
        return tn_optim_sgd(list, .lr = lr,
                            .momentum = number_in(text, "momentum", 0));
    return NULL;
}

static tn_loader *loader_of(tn_safetensors *file, tn_dataset *digits,
                            int64_t batch_size)
{
    tn_tensor *order = tn_safetensors_tensor(file, "order");
    int64_t count = tn_tensor_numel(order);
    int64_t *index = malloc((size_t)count * sizeof *index + 1);
    tn_loader *loader = NULL;
    if (index && order &&
        tn_tensor_to_array(order, index, (size_t)count * sizeof *index) ==
            TN_OK)
        loader = tn_loader_new(digits, .batch_size = batch_size,
                               .order = index, .order_count = count);
    free(index);
    return loader;
}

static bool near(double got, double want, double relative)
{
    return fabs(got - want) <= relative * fmax(1, fabs(want));
}

static void compare_loss(verdict *v, size_t step, size_t steps, double got,
                         double want)
{
    bool first = step < FIRST, last = step + 1 == steps;
    if (!first && !last)
        return;
    if (near(got, want, first ? 1e-4 : 2e-2))
        v->passed++;
    else
        verdict_fail(v, "loss of step %zu is %.6f, wanted %.6f", step, got,
                     want);
}

static void train(verdict *v, tn_module *model, tn_optim *optim,
                  tn_loader *loader, const json_t *losses, int epochs)
{
    size_t steps = json_array_size(losses), step = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *loss = tn_cross_entropy(
                tn_forward(model, tn_mul_scalar(batch.x, 1.0 / 16)), batch.y);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            compare_loss(v, step, steps, tn_item(loss),
                         json_number_value(json_array_get(losses, step)));
            step++;
        }
    }
    if (tn_error())
        verdict_fail(v, "step %zu: %s", step, tn_error());
    else if (step != steps)
        verdict_fail(v, "%zu steps instead of %zu", step, steps);
}

static void check_accuracy(verdict *v, tn_safetensors *file, tn_module *model,
                           tn_dataset *digits)
{
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(digits, TRAIN, tn_dataset_count(digits)),
        .batch_size = 512);
    int64_t right = 0, count = 0;
    tn_module_eval(model);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *guess = tn_argmax(
                tn_forward(model, tn_mul_scalar(batch.x, 1.0 / 16)),
                .dim = 1);
            right += tn_item_int(tn_sum(tn_eq(guess, batch.y)));
            count += batch.count;
        }
    }
    double got = (double)right / (double)count;
    double want =
        strtod(tn_safetensors_metadata(file, "test_accuracy"), NULL);
    if (fabs(got - want) <= 0.02)
        v->passed++;
    else
        verdict_fail(v, "test accuracy %.4f, wanted %.4f", got, want);
}

/* What a file says about a run. */
typedef struct recipe {
    tn_module *model;
    tn_optim *optim;
    tn_dataset *digits;
    tn_loader *loader;
    int epochs;
} recipe;

/* Makes the model with its first parameters, the optimizer and the loader.
 * Returns false if Tenon has none of that name, or on an error. */
static bool make_run(tn_safetensors *file, recipe *r)
{
    const char *batch = tn_safetensors_metadata(file, "batch");
    const char *epochs = tn_safetensors_metadata(file, "epochs");
    const char *optimizer = tn_safetensors_metadata(file, "optimizer");
    *r = (recipe){.model = model_of(file)};
    tn_parameter_list *list = tn_parameters(r->model);
    r->optim = list && optimizer ? optimizer_of(optimizer, list) : NULL;
    if (!r->optim)
        return false;
    set_start(file, list);
    const char *top = getenv("top_srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/data/digits.csv.gz",
             top ? top : GOLDEN_TOP);
    r->digits = tn_dataset_from_csv(path, NULL);
    r->loader = loader_of(file, r->digits, batch ? strtol(batch, NULL, 10) : 1);
    r->epochs = epochs ? (int)strtol(epochs, NULL, 10) : 1;
    return r->loader != NULL;
}

static void unsupported(verdict *v, const char *name)
{
    v->unsupported = 1;
    snprintf(v->detail, sizeof v->detail, "no such model or optimizer: %s",
             name);
}

verdict training_file_run(tn_safetensors *file, const char *name)
{
    verdict v = {0};
    json_t *losses = json_loads(tn_safetensors_metadata(file, "losses"), 0,
                                NULL);
    recipe r;
    if (!make_run(file, &r) && !tn_error()) {
        unsupported(&v, name);
    } else {
        train(&v, r.model, r.optim, r.loader, losses, r.epochs);
        if (!v.failed)
            check_accuracy(&v, file, r.model, r.digits);
    }
    json_decref(losses);
    return v;
}

/* ---- compiled ------------------------------------------------------------ */

/* A run whose steps are calls of a compiled function, but for the
 * optimizer's. */
typedef struct compiled_run {
    recipe of;
    tn_tensor *x[MOST_BATCHES], *y[MOST_BATCHES]; /* of an epoch */
    int batches;
} compiled_run;

static tn_status call_step(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    compiled_run *r = context;
    (void)in_count, (void)out_count;
    tn_optim_zero_grad(r->of.optim);
    tn_tensor *loss = tn_cross_entropy(
        tn_forward(r->of.model, tn_mul_scalar(in[0], 1.0 / 16)), in[1]);
    out[0] = tn_detach(loss);
    return tn_backward(loss);
}

static void read_batches(compiled_run *r)
{
    TN_EACH_BATCH(batch, r->of.loader) {
        if (r->batches == MOST_BATCHES)
            break;
        r->x[r->batches] = tn_keep(tn_clone(batch.x));
        r->y[r->batches++] = tn_keep(tn_clone(batch.y));
    }
}

static void drop_batches(compiled_run *r)
{
    for (int i = 0; i < r->batches; i++) {
        tn_drop(r->x[i]);
        tn_drop(r->y[i]);
    }
}

static bool batch_inputs(void *context, int call, tn_tensor **in)
{
    const compiled_run *r = context;
    if (!r->batches)
        return false;
    in[0] = tn_clone(r->x[call % r->batches]);
    in[1] = tn_clone(r->y[call % r->batches]);
    return in[0] && in[1];
}

static void step_optimizer(void *context)
{
    tn_optim_step(((compiled_run *)context)->of.optim);
}

static int model_state(void *context, tn_tensor **state)
{
    const compiled_run *r = context;
    tn_parameter_list *list = tn_module_state(r->of.model);
    int filled = 0;
    for (int i = 0; i < tn_parameters_count(list) &&
                    filled < COMPILED_MOST_STATE; i++)
        state[filled++] = tn_parameters_at(list, i);
    return filled;
}

verdict training_file_compiled(tn_safetensors *file, const char *name,
                               size_t every)
{
    verdict v = {0};
    json_t *losses = json_loads(tn_safetensors_metadata(file, "losses"), 0,
                                NULL);
    compiled_run plain = {.batches = 0}, compiled = {.batches = 0};
    char why[480] = "";
    if ((!make_run(file, &plain.of) || !make_run(file, &compiled.of)) &&
        !tn_error()) {
        unsupported(&v, name);
    } else {
        const int steps = (int)(json_array_size(losses) / every);
        read_batches(&plain);
        read_batches(&compiled);
        const subject s = {.name = name,
                           .fn = call_step,
                           .plain = &plain,
                           .compiled = &compiled,
                           .in_count = 2,
                           .out_count = 1,
                           .calls = steps,
                           .inputs = batch_inputs,
                           .after = step_optimizer,
                           .state = model_state};
        const outcome found = compiled_compare(&s, why, sizeof why);
        compiled_count(&v, name, 0, found, why);
        drop_batches(&plain);
        drop_batches(&compiled);
    }
    json_decref(losses);
    return v;
}
