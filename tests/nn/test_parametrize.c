/* test_parametrize.c: tests parametrized and pruned parameters: their names,
 * calls, copies, files, optimizers, threads, and errors. tests/golden
 * (make_layers_more.py) compares their values with PyTorch's. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "tap.h"

static void refused(bool did, tn_status code, const char *message)
{
    ok(!did, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

/* Returns the largest difference of two tensors, or infinity if one is NULL. */
static double distance(tn_tensor *a, tn_tensor *b)
{
    double d = INFINITY;
    TN_NO_GRAD {
        tn_tensor *most = a && b ? tn_max(tn_abs(tn_sub(a, b))) : NULL;
        if (most)
            d = tn_item(most);
    }
    return d;
}

/* Returns the names of a list, joined by spaces. */
static const char *names_of(tn_parameter_list *list)
{
    static char text[512];
    text[0] = '\0';
    for (int i = 0; i < tn_parameters_count(list); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                 i ? " " : "", tn_parameters_name(list, i));
    return text;
}

static tn_tensor *twice(tn_tensor *x, void *context)
{
    ++*(int *)context;
    return tn_mul_scalar(x, 2);
}

static tn_tensor *half(tn_tensor *x, void *context)
{
    (void)context;
    return tn_div_scalar(x, 2);
}

static tn_tensor *flat(tn_tensor *x, void *context)
{
    (void)context;
    return tn_flatten(x);
}

static tn_tensor *fails(tn_tensor *x, void *context)
{
    (void)x, (void)context;
    tn_error_set(TN_ERR_STATE, "no luck");
    return NULL;
}

static int runs;

static tn_module *doubled(void)
{
    return tn_nn_parametrization(twice, half, &runs);
}

/* ---- a parametrized layer ------------------------------------------------ */

static void test_registering(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 2);
    tn_tensor *weight = tn_module_parameter(net, "weight");
    tn_tensor *before = tn_forward(net, x);
    ok(!tn_module_is_parametrized(net, NULL), "not parametrized");
    ok(tn_module_register_parametrization(net, "weight", doubled()) == net,
       "registered");
    ok(tn_module_is_parametrized(net, NULL) &&
           tn_module_is_parametrized(net, "weight") &&
           !tn_module_is_parametrized(net, "bias") &&
           !tn_module_is_parametrized(NULL, "weight"),
       "is_parametrized");
    is_str(names_of(tn_parameters(net)), "bias parametrizations.weight.original",
           "PyTorch's names in PyTorch's order");
    ok(tn_module_parameter(net, "parametrizations.weight.original") == weight,
       "the original is the same tensor");
    ok(distance(tn_forward(net, x), before) == 0, "the value stays");
    runs = 0;
    tn_tensor *y = tn_forward(net, x);
    is_int(runs, 1, "computed once in a forward");
    ok(tn_backward(tn_sum(y)) == TN_OK && tn_tensor_grad(weight),
       "the original gets a gradient");
    ok(distance(tn_select(tn_tensor_grad(weight), 0, 0),
                tn_mul_scalar(tn_sum(x, .dim = 0), 2)) < 1e-6,
       "that of the parametrization");
    tn_module_register_parametrization(net, "weight", doubled());
    ok(distance(tn_module_parameter(net, "weight"),
                tn_mul_scalar(weight, 4)) == 0,
       "a second one applies to the value of the first");
    tn_tensor *value = tn_full(tn_dims(2, 3), 8.0);
    ok(tn_module_set_parametrized(net, "weight", value) == net &&
           tn_item(tn_max(weight)) == 2 &&
           distance(tn_module_parameter(net, "weight"), value) == 0,
       "set_parametrized inverts both");
    ok(tn_module_remove_parametrizations(net, "weight") == net &&
           tn_module_parameter(net, "weight") == weight &&
           distance(weight, value) == 0,
       "removed: the parameter has the value");
    is_str(names_of(tn_parameters(net)), "bias weight", "and is the last one");
    ok(tn_module_child_count(net) == 0, "nothing else is left");
    ok(distance(tn_forward(net, x),
                tn_linear(x, value, tn_module_parameter(net, "bias"))) == 0,
       "the layer uses it");
    tn_module_register_parametrization(net, "weight", doubled());
    tn_module_remove_parametrizations(net, "weight",
                                      .leave_parametrized = false);
    ok(distance(weight, tn_full(tn_dims(2, 3), 4.0)) == 0,
       "removed, with the value of the original");
    ok(!tn_error(), "no error (%s)", tn_error());
}

static void test_cache(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 2);
    tn_module_register_parametrization(net, "weight", doubled());
    runs = 0;
    TN_PARAMETRIZE_CACHED {
        tn_tensor *y = tn_forward(net, x);
        TN_PARAMETRIZE_CACHED {
            y = tn_add(y, tn_forward(net, x));
        }
        y = tn_add(y, tn_forward(net, x));
        ok(tn_backward(tn_sum(y)) == TN_OK, "backward");
    }
    is_int(runs, 1, "computed once in a cached region");
    tn_forward(net, x);
    is_int(runs, 2, "and anew after it");
}

static void test_copies(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 2);
    tn_nn_weight_norm(net, "weight");
    tn_tensor *y = tn_forward(net, x);
    tn_module *copy = tn_module_clone(net);
    is_str(names_of(tn_parameters(copy)),
           "bias parametrizations.weight.original0 "
           "parametrizations.weight.original1",
           "a clone is parametrized");
    ok(distance(tn_forward(copy, x), y) == 0, "with the same result");
    TN_NO_GRAD {
        tn_mul_scalar_(
            tn_module_parameter(copy, "parametrizations.weight.original0"), 3);
    }
    ok(distance(tn_forward(net, x), y) == 0, "with tensors of its own");
    ok(distance(tn_forward(copy, x), y) > 0, "which it uses");

    tn_tensor *g = tn_requires_grad(tn_full(tn_dims(2, 1), 2.0));
    const char *names[] = {"parametrizations.weight.original0"};
    tn_tensor *z = tn_forward(
        tn_module_substitute(net, &g, 1, .names = names), x);
    ok(distance(z, y) > 0 && tn_backward(tn_sum(z)) == TN_OK &&
           tn_tensor_grad(g),
       "substitute replaces an original");

    char path[] = "/tmp/tenon-parametrize-XXXXXX";
    int file = mkstemp(path);
    tn_module *other = tn_nn_linear(3, 2);
    tn_nn_weight_norm(other, "weight");
    ok(tn_module_save(net, path) == TN_OK &&
           tn_module_load(other, path) == TN_OK &&
           distance(tn_forward(other, x), y) == 0,
       "saved and loaded by name");
    close(file);
    unlink(path);

    ok(tn_module_to(copy, .dtype = TN_F64) &&
           tn_tensor_dtype(tn_forward(copy, tn_to_dtype(x, TN_F64))) == TN_F64,
       "converted to float64");
    tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
    double first = 0, last = 0;
    for (int i = 0; i < 20; i++) {
        tn_tensor *loss = tn_mean(tn_square(tn_forward(net, x)));
        tn_optim_zero_grad(opt);
        tn_backward(loss);
        tn_optim_step(opt);
        last = tn_item(loss);
        first = i ? first : last;
    }
    ok(last < first, "an optimizer lowers the loss: %g, %g", first, last);
    ok(!tn_error(), "no error (%s)", tn_error());
}

static void test_orthogonal(void)
{
    tn_module *net = tn_nn_linear(4, 7);
    tn_nn_orthogonal(net, "weight");
    tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.3);
    for (int i = 0; i < 5; i++) {
        tn_tensor *y = tn_forward(net, tn_randn(tn_dims(6, 4)));
        tn_optim_zero_grad(opt);
        tn_backward(tn_mean(tn_square(tn_add_scalar(y, 1))));
        tn_optim_step(opt);
    }
    tn_tensor *w = tn_detach(tn_module_parameter(net, "weight"));
    ok(distance(tn_matmul(tn_transpose(w, 0, 1), w), tn_eye(4)) < 1e-5,
       "columns stay orthonormal in training");
    tn_tensor *q = tn_linalg_qr(tn_randn(tn_dims(7, 4)), &(tn_tensor *){NULL});
    ok(tn_module_set_parametrized(net, "weight", q) &&
           distance(tn_module_parameter(net, "weight"), q) < 1e-5,
       "an orthogonal value can be set");
    tn_module *twofold = tn_nn_linear(4, 4);
    tn_module_register_parametrization(twofold, "weight", doubled());
    ok(tn_nn_orthogonal(twofold, "weight", .use_trivialization = false) ==
           twofold,
       "of a parametrized parameter");
    ok(!tn_error(), "no error (%s)", tn_error());
}

/* ---- a module that changes while it runs ------------------------------------- */

static int changes;

/* Parametrizes, prunes or restores the layer that is running. */
static tn_tensor *changing_forward(tn_module *self, tn_tensor *x)
{
    tn_tensor *y = tn_mul(x, tn_module_parameter(self, "scale"));
    if (changes == 1)
        tn_module_register_parametrization(
            self, "other", tn_nn_parametrization(twice, NULL, &runs));
    else if (changes == 2)
        tn_module_remove_parametrizations(self, "scale");
    else if (changes == 3)
        tn_prune(self, "scale", "l1_unstructured", .count = 1);
    else if (changes == 4)
        tn_prune_remove(self, "scale");
    changes = 0;
    return y;
}

struct changing {
    tn_module base;
    tn_tensor *scale, *other;
};

static const tn_module_class changing_class = {.size = sizeof changing_class,
                                               .name = "Changing",
                                               .bytes = sizeof(struct changing),
                                               .forward = changing_forward};

static void test_changing(void)
{
    struct changing *c = tn_module_new(&changing_class);
    tn_module *m = &c->base;
    tn_tensor *x = tn_ones(tn_dims(3));
    c->scale = tn_module_add_parameter(m, "scale", tn_ones(tn_dims(3)));
    c->other = tn_module_add_parameter(m, "other", tn_ones(tn_dims(3)));
    tn_module_register_parametrization(
        m, "scale", tn_nn_parametrization(twice, NULL, &runs));
    for (int i = 1; i <= 4; i++) {
        tn_forward(m, x); /* leaves a copy for the next call */
        changes = i;
        tn_scope *scope = tn_scope_open();
        tn_forward(m, x);
        tn_scope_close(scope);
        for (int k = 0; k < 3; k++)
            tn_forward(m, x);
        ok(!tn_error() && c->scale, "change %d while it runs (%s)", i,
           tn_error());
    }
    ok(c->scale == tn_module_parameter(m, "scale"),
       "a member is the parameter again");
    is_double_near(tn_item(tn_sum(tn_forward(m, x))), 4, 0, "what is pruned stays so");
    is_double_near(tn_item(tn_sum(tn_module_parameter(m, "other"))), 6, 0,
           "what was parametrized meanwhile stays so");
}

/* ---- calls that are no tn_forward ---------------------------------------- */

struct scaler {
    tn_module base;
    tn_tensor *scale, *odd;
    int64_t calls;
    tn_module *kept;
};

static tn_tensor *scaler_forward(tn_module *self, tn_tensor *x)
{
    struct scaler *s = (struct scaler *)self;
    s->calls++;
    s->kept = self;
    return tn_mul(x, s->scale);
}

static void scaler_describe(const tn_module *self, char *text, size_t room)
{
    const struct scaler *s = (const struct scaler *)self;
    snprintf(text, room, "size=%d", (int)tn_tensor_size(s->scale, 0));
}

static const tn_module_class scaler_class = {.size = sizeof scaler_class,
                                             .name = "Scaler",
                                             .bytes = sizeof(struct scaler),
                                             .forward = scaler_forward,
                                             .describe = scaler_describe};

static struct scaler *new_scaler(void)
{
    struct scaler *s = tn_module_new(&scaler_class);
    s->scale = tn_module_add_parameter(&s->base, "scale", tn_ones(tn_dims(3)));
    return s;
}

static tn_tensor *plus_call(struct scaler *s, tn_tensor *x, bool right)
{
    tn_tensor *in[] = {x}, *out;
    tn_module_call call = tn_module_begin(&s->base, in, 1);
    struct scaler *self = right ? (struct scaler *)call.self : s;
    out = tn_add(in[0], self->scale);
    tn_module_end(&s->base, &call, &out, 1);
    return out;
}

static void test_own_class(tn_tensor *x)
{
    struct scaler *s = new_scaler();
    tn_module_register_parametrization(&s->base, "scale",
                                       tn_nn_parametrization(twice, NULL,
                                                             &runs));
    ok(tn_item(tn_max(tn_forward(&s->base, tn_ones(tn_dims(3))))) == 2,
       "a class of the program's own is parametrized");
    tn_forward(&s->base, x);
    is_int(s->calls, 2, "members that forward changes are changed");
    tn_tensor *out = plus_call(s, tn_ones(tn_dims(3)), true);
    ok(out && tn_item(tn_max(out)) == 3, "tn_module_call.self has the value");
    refused(plus_call(s, x, false), TN_ERR_ARGUMENT,
            "add: other is a module, not a tensor");
    ok(tn_module_is_parametrized(s->kept, "scale") &&
           tn_forward(s->kept, x),
       "a kept self still is the module");
    FILE *file = tmpfile();
    char text[256] = "";
    tn_module_print(file, &s->base);
    rewind(file);
    size_t read = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[read] = '\0';
    is_str(text,
           "ParametrizedScaler(size=3\n"
           "  (parametrizations): ModuleDict(\n"
           "    (scale): ParametrizationList(\n"
           "      (0): Parametrization()\n"
           "    )\n"
           "  )\n"
           ")\n",
           "printed as in PyTorch, with the shapes of computed tensors");
    refused(tn_module_add_parameter(&s->base, "scale", tn_ones(tn_dims(1))),
            TN_ERR_ARGUMENT,
            "Scaler: module_add_parameter: \"scale\": the name is taken");

    tn_module *attention = tn_nn_multihead_attention(4, 2);
    tn_tensor *q = tn_randn(tn_dims(3, 2, 4)), *weights;
    tn_tensor *y = tn_forward(attention, q);
    tn_nn_weight_norm(attention, "in_proj_weight");
    ok(distance(y, tn_nn_multihead_attention_forward(attention, q, q, q,
                                                     &weights)) < 1e-6,
       "a function of a layer's own uses the value");
    tn_module *stack = tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_relu());
    y = tn_forward(stack, x);
    tn_module_register_parametrization(tn_module_child(stack, "0"), "weight",
                                       doubled());
    ok(distance(tn_forward(stack, x), y) == 0, "in a sequential");
    tn_module_set_recompute(tn_module_child(stack, "0"), true);
    y = tn_forward(stack, x);
    ok(tn_backward(tn_sum(y)) == TN_OK &&
           tn_tensor_grad(tn_module_parameter(
               stack, "0.parametrizations.weight.original")),
       "with recomputation");
    tn_summary_totals totals = {.size = sizeof totals};
    ok(tn_summary(NULL, stack, tn_dims(2, 3), .totals = &totals) == TN_OK &&
           totals.parameters == 16 && totals.multiply_adds == 24,
       "tn_summary counts its parameters and multiply-adds: %d, %d",
       (int)totals.parameters, (int)totals.multiply_adds);
    ok(!tn_error(), "no error (%s)", tn_error());
}

static void *forwards(void *context)
{
    tn_module *net = context;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *first = NULL;
    double most = 0;
    for (int i = 0; i < 200; i++) {
        tn_tensor *y = tn_forward(net, x);
        first = first ? first : y;
        most = fmax(most, distance(first, y));
    }
    bool fine = !tn_error() && most == 0;
    tn_scope_close(scope);
    return fine ? net : NULL;
}

static void test_threads(void)
{
    tn_module *net = tn_nn_linear(3, 2);
    tn_nn_weight_norm(net, "weight");
    tn_module_eval(net);
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, forwards, net);
    bool fine = true;
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(thread[i], &result);
        fine = fine && result;
    }
    ok(fine, "three threads run one parametrized layer");
}

/* ---- mistakes ------------------------------------------------------------ */

static void test_mistakes(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 2);
    refused(tn_module_register_parametrization(net, "wait", doubled()),
            TN_ERR_ARGUMENT,
            "module_register_parametrization: Linear has no parameter or buffer "
            "\"wait\"");
    refused(tn_module_register_parametrization(
                net, "weight", tn_nn_parametrization(flat, NULL, NULL)),
            TN_ERR_SHAPE,
            "module_register_parametrization: the value has shape (6,); "
            "expected (2, 3)");
    refused(tn_module_register_parametrization(
                net, "weight", tn_nn_parametrization(fails, NULL, NULL)),
            TN_ERR_STATE, "no luck");
    refused(tn_module_register_parametrization(
                net, "weight", tn_nn_parametrization(twice, fails, &runs)),
            TN_ERR_STATE, "no luck");
    refused(tn_module_register_parametrization(net, "weight",
                                               tn_nn_bilinear(1, 1, 1, false)),
            TN_ERR_SHAPE,
            "bilinear: input1 (2, 3), input2 (2, 3) and weight (1, 1, 1) do not "
            "fit: expected (..., I), (..., J) and (O, I, J)");
    refused(tn_module_register_parametrization(net, "weight",
                                               tn_nn_mse_loss()),
            TN_ERR_ARGUMENT,
            "module_register_parametrization: MSELoss has 2 inputs, but no "
            "right_inverse that computes them");
    is_str(names_of(tn_parameters(net)), "weight bias", "nothing has changed");
    refused(tn_module_remove_parametrizations(net, "weight"), TN_ERR_ARGUMENT,
            "module_remove_parametrizations: \"weight\" of Linear is not "
            "parametrized");
    refused(tn_module_set_parametrized(net, "weight", x), TN_ERR_ARGUMENT,
            "module_set_parametrized: \"weight\" of Linear is not parametrized");
    refused(tn_nn_weight_norm(net, "weight", .dim = 2), TN_ERR_ARGUMENT,
            "nn_weight_norm: dim 2 is outside [-1, 2)");
    refused(tn_nn_weight_norm(net, "wait"), TN_ERR_ARGUMENT,
            "nn_weight_norm: Linear has no parameter or buffer \"wait\"");
    refused(tn_nn_spectral_norm(net, "weight", .n_power_iterations = 0),
            TN_ERR_ARGUMENT,
            "nn_spectral_norm: n_power_iterations is 0; expected 1 to 10000");
    refused(tn_nn_spectral_norm(net, "weight", .dim = -3), TN_ERR_ARGUMENT,
            "nn_spectral_norm: dim -3 is outside [-2, 2)");
    refused(tn_nn_orthogonal(net, "bias"), TN_ERR_SHAPE,
            "nn_orthogonal: \"bias\" has 1 dimension; expected a matrix or a "
            "batch of matrices");
    refused(tn_nn_orthogonal(net, "weight", .orthogonal_map = "exp"),
            TN_ERR_ARGUMENT,
            "nn_orthogonal: orthogonal_map \"exp\" is none of matrix_exp, "
            "cayley, householder");
    tn_nn_weight_norm(net, "weight");
    refused(tn_nn_orthogonal(net, "weight"), TN_ERR_ARGUMENT,
            "nn_orthogonal: \"weight\" is parametrized already: pass "
            "use_trivialization = false");
    refused(tn_nn_weight_norm(net, "weight"), TN_ERR_ARGUMENT,
            "nn_weight_norm: _WeightNorm has 2 inputs: only the first "
            "parametrization may have several");
    refused(tn_module_remove_parametrizations(net, "weight",
                                              .leave_parametrized = false),
            TN_ERR_ARGUMENT,
            "module_remove_parametrizations: leave_parametrized is false, but "
            "\"weight\" has 2 originals");
    tn_module_register_parametrization(
        net, "weight", tn_nn_parametrization(twice, NULL, &runs));
    refused(tn_module_set_parametrized(net, "weight", tn_ones(tn_dims(2, 3))),
            TN_ERR_UNSUPPORTED,
            "module_set_parametrized: parametrization 1, Parametrization, has "
            "no right_inverse");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = 0.5),
            TN_ERR_ARGUMENT,
            "prune: \"weight\" of Linear is parametrized: remove its "
            "parametrizations first");
    refused(tn_nn_parametrization(NULL, NULL, NULL), TN_ERR_ARGUMENT,
            "nn_parametrization: forward is NULL");
    ok(tn_forward(net, x), "the layer still works (%s)", tn_error());

    struct scaler *s = new_scaler();
    tn_module_add_parameter(&s->base, "again", s->scale);
    refused(tn_module_register_parametrization(&s->base, "scale", doubled()),
            TN_ERR_UNSUPPORTED,
            "module_register_parametrization: \"scale\" of Scaler cannot be "
            "replaced by a computed value: it is registered under two names");
    tn_module *bad = tn_nn_linear(3, 2);
    tn_module_register_parametrization(
        bad, "weight", tn_nn_parametrization(fails, NULL, NULL),
        .unsafe = true);
    refused(tn_forward(bad, x), TN_ERR_STATE,
            "parametrizations.weight.0: no luck");
    refused(tn_module_parameter(bad, "weight"), TN_ERR_STATE,
            "parametrizations.weight.0: no luck");
    tn_module *flattened = tn_nn_linear(3, 2);
    ok(tn_module_register_parametrization(flattened, "weight",
                                          tn_nn_parametrization(flat, NULL,
                                                                NULL),
                                          .unsafe = true) &&
           tn_tensor_ndim(tn_module_parameter(flattened, "weight")) == 1,
       "unsafe allows another shape");
}

/* ---- pruning ------------------------------------------------------------- */

static int zeros_of(tn_module *net, const char *name)
{
    int count = -1;
    TN_NO_GRAD {
        tn_tensor *x = tn_module_parameter(net, name);
        count = (int)tn_item(tn_sum(tn_to_dtype(tn_eq_scalar(x, 0), TN_F32)));
    }
    return count;
}

static void test_pruning(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 4);
    tn_tensor *weight = tn_module_parameter(net, "weight");
    ok(!tn_prune_is_pruned(net) && !tn_prune_is_pruned(NULL), "not pruned");
    ok(tn_prune(net, "weight", "random_unstructured", .amount = 0.25) == net,
       "pruned");
    ok(tn_prune_is_pruned(net) && !tn_module_is_parametrized(net, NULL),
       "is_pruned");
    is_str(names_of(tn_module_state(net)), "bias weight_orig weight_mask",
           "PyTorch's names in PyTorch's order");
    is_int(zeros_of(net, "weight"), 3, "a quarter of the elements is 0");
    tn_prune(net, "weight", "random_unstructured", .count = 4);
    is_int(zeros_of(net, "weight"), 7, "pruned again");
    tn_prune(net, "weight", "random_structured", .dim = 0, .count = 1);
    ok(zeros_of(net, "weight") >= 7, "and a row");
    ok(tn_backward(tn_sum(tn_forward(net, x))) == TN_OK &&
           tn_tensor_grad(weight) ==
               tn_tensor_grad(tn_module_parameter(net, "weight_orig")),
       "weight_orig is the parameter");
    tn_module *copy = tn_module_clone(net);
    ok(distance(tn_forward(copy, x), tn_forward(net, x)) == 0 &&
           tn_prune_is_pruned(copy),
       "a clone is pruned");
    int zeros = zeros_of(net, "weight");
    ok(tn_prune_remove(net, "weight") == net && !tn_prune_is_pruned(net) &&
           tn_module_parameter(net, "weight") == weight,
       "removed");
    is_int(zeros_of(net, "weight"), zeros, "its elements stay 0");
    is_str(names_of(tn_module_state(net)), "bias weight", "names after it");

    tn_module *a = tn_nn_linear(3, 4), *b = tn_nn_linear(4, 2);
    tn_module *const both[] = {a, b};
    const char *const names[] = {"weight", "weight"};
    ok(tn_prune_global_unstructured(both, names, 2,
                                    "random_unstructured", .amount = 0.5) ==
               TN_OK &&
           zeros_of(a, "weight") + zeros_of(b, "weight") == 10,
       "half of two layers");
    ok(!tn_error(), "no error (%s)", tn_error());
}

static void test_pruning_mistakes(tn_tensor *x)
{
    tn_module *net = tn_nn_linear(3, 4), *norm = tn_nn_batch_norm1d(3);
    const char *const names[] = {"weight", "weight"};
    tn_module *const twofold[] = {net, net}, *const both[] = {net, norm};
    refused(tn_prune(net, "weight", "l2", .amount = 0.5), TN_ERR_ARGUMENT,
            "prune: method \"l2\" is none of random_unstructured, "
            "l1_unstructured, random_structured, ln_structured, "
            "custom_from_mask");
    refused(tn_prune(net, "wait", "l1_unstructured", .amount = 0.5),
            TN_ERR_ARGUMENT,
            "prune: Linear has no parameter or buffer \"wait\"");
    refused(tn_prune(norm, "running_mean", "l1_unstructured", .amount = 0.5),
            TN_ERR_ARGUMENT,
            "prune: \"running_mean\" of BatchNorm1d is a buffer; expected a "
            "parameter");
    refused(tn_prune(net, "weight", "l1_unstructured"), TN_ERR_ARGUMENT,
            "prune: neither amount nor count is given; expected one of them");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = 0.5,
                     .count = 1),
            TN_ERR_ARGUMENT,
            "prune: both amount and count are given; expected one of them");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = 1.5),
            TN_ERR_ARGUMENT,
            "prune: amount is 1.5; expected a fraction in [0, 1]");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = NAN),
            TN_ERR_ARGUMENT,
            "prune: amount is nan; expected a fraction in [0, 1]");
    refused(tn_prune(net, "weight", "l1_unstructured", .count = -1),
            TN_ERR_ARGUMENT, "prune: count is -1; expected at least 0");
    refused(tn_prune(net, "weight", "l1_unstructured", .count = 13),
            TN_ERR_ARGUMENT,
            "prune: count is 13, but only 12 elements are left");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = 0.5, .dim = 0),
            TN_ERR_ARGUMENT,
            "prune: .dim has no effect unless method is structured: change "
            "method, or leave .dim out");
    refused(tn_prune(net, "weight", "ln_structured", .amount = 0.5, .dim = 0),
            TN_ERR_ARGUMENT, "prune: expected n");
    refused(tn_prune(net, "weight", "ln_structured", .amount = 0.5, .n = 2),
            TN_ERR_ARGUMENT, "prune: structured pruning needs dim");
    refused(tn_prune(net, "weight", "ln_structured", .amount = 0.5, .n = 2,
                     .dim = 2),
            TN_ERR_ARGUMENT,
            "prune: dim is 2; the parameter has 2 dimensions");
    refused(tn_prune(net, "bias", "random_structured", .amount = 0.5, .dim = 0),
            TN_ERR_ARGUMENT,
            "prune: dim is 0 and the parameter has 1 dimension(s); "
            "structured pruning needs at least 2");
    refused(tn_prune(net, "weight", "custom_from_mask"), TN_ERR_ARGUMENT,
            "prune: mask is NULL");
    refused(tn_prune(net, "weight", "custom_from_mask", .mask = x),
            TN_ERR_SHAPE,
            "prune: mask has shape (2, 3); expected the shape (4, 3) of "
            "\"weight\"");
    refused(tn_prune(net, "weight", "l1_unstructured", .amount = 0.5,
                     .importance_scores = x),
            TN_ERR_SHAPE,
            "prune: importance_scores has shape (2, 3); expected the shape (4, "
            "3) of \"weight\"");
    refused(tn_prune_remove(net, "weight"), TN_ERR_ARGUMENT,
            "prune_remove: \"weight\" of Linear is not pruned");
    refused(tn_prune_global_unstructured(twofold, names, 2,
                                         "l1_unstructured", .amount = 0.5) >= 0,
            TN_ERR_ARGUMENT,
            "prune_global_unstructured: a parameter is given twice");
    refused(tn_prune_global_unstructured(both, names, 2,
                                         "ln_structured", .amount = 0.5) >= 0,
            TN_ERR_ARGUMENT,
            "prune_global_unstructured: method \"ln_structured\" is none of "
            "random_unstructured, l1_unstructured");
    refused(tn_prune_global_unstructured(both, names, 0,
                                         "l1_unstructured", .amount = 0.5) >= 0,
            TN_ERR_ARGUMENT,
            "prune_global_unstructured: parameter_count must be at least 1");
    is_str(names_of(tn_module_state(net)), "weight bias", "nothing has changed");
    tn_prune(net, "weight", "l1_unstructured", .amount = 0.5);
    refused(tn_module_register_parametrization(net, "weight", doubled()),
            TN_ERR_ARGUMENT,
            "module_register_parametrization: \"weight\" is pruned: call "
            "tn_prune_remove first");
    refused(tn_module_register_parametrization(net, "weight_orig", doubled()),
            TN_ERR_UNSUPPORTED,
            "module_register_parametrization: \"weight_orig\" of Linear cannot "
            "be replaced by a computed value: no field of the layer's struct "
            "points to it");
    struct scaler *s = new_scaler();
    tn_module_add_buffer(&s->base, "scale_mask", tn_ones(tn_dims(1)));
    refused(tn_prune(&s->base, "scale", "l1_unstructured", .amount = 0.5),
            TN_ERR_ARGUMENT,
            "prune: the module already has a tensor NAME_orig or NAME_mask");
}

int main(void)
{
    plan_later();
    tn_manual_seed(3);
    tn_tensor *x = tn_randn(tn_dims(2, 3));
    test_registering(x);
    test_cache(x);
    test_copies(x);
    test_orthogonal();
    test_changing();
    test_own_class(x);
    test_threads();
    test_mistakes(x);
    test_pruning(x);
    test_pruning_mistakes(x);
    return done_testing();
}
