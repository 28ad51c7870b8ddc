/* test_clone.c: tests copies of modules, calls with other tensors in place of a
 * module's parameters, conversion to another dtype, and freezing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

static void refused(bool did, tn_status code, const char *message)
{
    ok(!did, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

static bool same(tn_tensor *a, tn_tensor *b)
{
    bool equal = false;
    TN_NO_GRAD {
        equal = a && b && tn_item(tn_all(tn_eq(a, b))) == 1;
    }
    return equal;
}

/* ---- a custom module class ----------------------------------------------- */

/* Holds pointers of every kind: to children, to a grandchild's parameter, to a
 * buffer, to a field of itself, to malloc'ed memory, to a constant. */
struct net {
    tn_module base;
    tn_module *body, *again; /* again: body under a second name */
    tn_tensor *inner, *scale, *steps;
    double numbers[3], *largest; /* largest: points to an element of numbers */
    char *text;                  /* malloc'ed */
    const char *constant;
    int64_t count;
};

static int released, cloned, fail_clone;

static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
{
    struct net *net = (struct net *)self;
    x = tn_mul(tn_forward(net->body, x), net->scale);
    return tn_mul_scalar(x, *net->largest);
}

static void net_release(tn_module *self)
{
    struct net *net = (struct net *)self;
    released++;
    free(net->text);
}

static tn_status net_clone(tn_module *self, const tn_module *from)
{
    struct net *net = (struct net *)self;
    cloned++;
    if (fail_clone)
        return tn_error_set(TN_ERR_IO, "no more copies");
    net->text = strdup(((const struct net *)from)->text);
    return TN_OK;
}

static const tn_module_class net_class = {.size = sizeof net_class,
                                          .name = "Net",
                                          .bytes = sizeof(struct net),
                                          .forward = net_forward,
                                          .release = net_release,
                                          .clone = net_clone};

static struct net *net_new(void)
{
    struct net *net = tn_module_new(&net_class);
    net->body = tn_module_add(
        &net->base, "body",
        tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_batch_norm1d(4),
                         tn_nn_dropout(0.5), tn_nn_linear(4, 2)));
    net->again = tn_module_add(&net->base, "again", net->body);
    net->inner = tn_module_parameter(net->body, "0.weight");
    net->scale = tn_module_add_parameter(&net->base, "scale",
                                         tn_full(TN_SCALAR, 3.0));
    tn_module_add_parameter(&net->base, "tied", net->scale);
    net->steps = tn_module_add_buffer(
        &net->base, "steps", tn_full(tn_dims(2), 7, .dtype = TN_I64));
    net->numbers[1] = 2;
    net->largest = &net->numbers[1];
    net->text = strdup("text");
    net->constant = "constant";
    net->count = 5;
    return net;
}

static void test_clone(void)
{
    tn_tensor *x = tn_rand(tn_dims(5, 3));
    struct net *net = net_new();
    tn_module *m = &net->base;
    tn_forward(m, x); /* changes the running averages */
    tn_tensor_set_requires_grad(tn_module_parameter(m, "body.3.bias"), false);
    tn_backward(tn_sum(tn_forward(m, x)));
    tn_module_train(tn_module_child(m, "body.2"), false);
    tn_module_set_recompute(net->body, true);

    struct net *copy = tn_module_clone(m);
    ok(copy && !tn_error(), "a copy: %s", tn_error() ? tn_error() : "");
    if (!copy)
        return;
    tn_parameter_list *a = tn_module_state(m), *b = tn_module_state(&copy->base);
    int count = tn_parameters_count(a), equal = 0, shared = 0;
    is_int(tn_parameters_count(b), count, "as many tensors");
    for (int i = 0; i < count; i++) {
        tn_tensor *p = tn_parameters_at(a, i), *q = tn_parameters_at(b, i);
        equal += same(p, q) &&
                 strcmp(tn_parameters_name(a, i), tn_parameters_name(b, i)) ==
                     0 &&
                 tn_tensor_requires_grad(p) == tn_tensor_requires_grad(q) &&
                 tn_tensor_dtype(p) == tn_tensor_dtype(q) &&
                 tn_tensor_is_leaf(q) && !tn_tensor_grad(q);
        shared += p == q || tn_tensor_is_alias(p, q);
    }
    is_int(equal, count, "with the names, values and modes of the first");
    is_int(shared, 0, "in memory of their own");
    ok(copy->body == tn_module_child(&copy->base, "body") &&
           copy->body != net->body,
       "members point to the copy's modules");
    ok(copy->again == copy->body && tn_module_child(&copy->base, "again") ==
                                        copy->body,
       "a module with two names is one in the copy");
    ok(copy->inner == tn_module_parameter(&copy->base, "body.0.weight") &&
           copy->scale == tn_module_parameter(&copy->base, "scale") &&
           copy->steps == tn_module_buffer(&copy->base, "steps"),
       "and to its parameters and buffers");
    ok(tn_module_parameter(&copy->base, "tied") == copy->scale,
       "a shared parameter is shared in the copy");
    ok(copy->largest == &copy->numbers[1] && copy->constant == net->constant &&
           copy->count == 5,
       "pointers into the instance, constants and numbers");
    ok(cloned == 1 && copy->text != net->text &&
           strcmp(copy->text, "text") == 0,
       "clone copies what release frees");
    ok(!tn_module_child(&copy->base, "body.2")->training &&
           tn_module_child(&copy->base, "body.1")->training,
       "training modes");

    tn_module_eval(m);
    tn_module_eval(&copy->base);
    ok(same(tn_forward(m, x), tn_forward(&copy->base, x)),
       "both give the same result");
    TN_NO_GRAD {
        tn_init_zeros(copy->inner);
    }
    ok(!same(tn_forward(m, x), tn_forward(&copy->base, x)) &&
           !same(net->inner, copy->inner),
       "a change of the copy is none of the first");
    tn_error_clear();
    tn_forward(&copy->base, tn_rand(tn_dims(5, 2)));
    ok(tn_error() && strncmp(tn_error(), "again.0: ", 9) == 0,
       "an error in the copy has a path: %s", tn_error());
    tn_error_clear();

    int before = released;
    tn_scope *scope = tn_scope_open();
    tn_module *again = tn_module_clone(tn_module_clone(m));
    ok(again && strcmp(((struct net *)again)->text, "text") == 0,
       "a copy of a copy");
    tn_scope_close(scope);
    is_int(released - before, 2, "copies are released");
}

static tn_tensor *never(tn_module *module, tn_tensor *input, tn_tensor *output,
                        void *context)
{
    (void)module, (void)input, (void)output;
    ++*(int *)context;
    return NULL;
}

static void test_layers(void)
{
    tn_manual_seed(4);
    tn_tensor *x = tn_rand(tn_dims(2, 4, 8));
    tn_tensor *image = tn_rand(tn_dims(2, 4, 6, 6));
    struct {
        tn_module *module;
        tn_tensor *input;
    } layers[] = {
        {tn_nn_lstm(8, 8, .num_layers = 2, .bidirectional = true), x},
        {tn_nn_gru_cell(8, 8), tn_select(x, 0, 0)},
        {tn_nn_multihead_attention(8, 2), x},
        {tn_nn_transformer(8, 2, 1, 1), x},
        {tn_nn_conv2d(4, 4, 3, .padding = 1), image},
        {tn_nn_group_norm(2, 4), image},
        {tn_nn_sequential(tn_nn_conv2d(4, 2, 3), tn_nn_batch_norm2d(2),
                          tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten()),
         image},
        {tn_nn_bilinear(8, 8, 2, true), x}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        tn_module *m = layers[i].module;
        tn_module_eval(m);
        tn_module *copy = tn_module_clone(m);
        ok(copy && same(tn_forward(m, layers[i].input),
                        tn_forward(copy, layers[i].input)),
           "%s: the copy gives the same result", m->type->name);
        /* The copy must work after the original is freed. */
        TN_NO_GRAD {
            tn_parameter_list *list = tn_parameters(m);
            tn_tensor *want = tn_forward(copy, layers[i].input);
            for (int k = 0; k < tn_parameters_count(list); k++)
                tn_init_constant(tn_parameters_at(list, k), NAN);
            ok(same(want, tn_forward(copy, layers[i].input)),
               "%s: the copy does not use the first's parameters",
               m->type->name);
        }
    }
    int calls = 0;
    tn_module *relu = tn_nn_relu();
    tn_module_register_forward_hook(relu, never, &calls);
    tn_forward(tn_module_clone(relu), x);
    is_int(calls, 0, "a copy has no hooks");
}

static const tn_module_class no_clone = {.size = sizeof no_clone,
                                         .name = "NoClone",
                                         .bytes = sizeof(struct net),
                                         .forward = net_forward,
                                         .release = net_release};

static void test_clone_mistakes(void)
{
    int before = released;
    tn_scope *scope = tn_scope_open();
    refused(tn_module_clone(NULL), TN_ERR_ARGUMENT,
            "module_clone: module is NULL");
    refused(tn_module_clone(
                tn_nn_sequential(tn_nn_relu(), tn_module_new(&no_clone))),
            TN_ERR_UNSUPPORTED,
            "module_clone: the class NoClone has a release but no clone, so "
            "its instances cannot be copied");
    struct net *net = net_new();
    fail_clone = true;
    refused(tn_module_clone(&net->base), TN_ERR_IO, "no more copies");
    fail_clone = false;
    ok(strcmp(net->text, "text") == 0, "a copy that failed frees nothing of "
                                       "the first");
    tn_scope_close(scope);
    is_int(released - before, 3, "all instances are released");
}

/* ---- other tensors in place of parameters -------------------------------- */

static void test_substitute(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(2, 2), tn_nn_tanh(),
                                      tn_nn_linear(2, 1));
    tn_tensor *x = tn_rand(tn_dims(3, 2));
    tn_parameter_list *list = tn_parameters(net);
    int count = tn_parameters_count(list);
    tn_tensor *own[4], *grad[4], *fast[4], *second[4];
    for (int i = 0; i < count; i++)
        own[i] = tn_parameters_at(list, i);
    ok(same(tn_functional_call(net, own, count, x), tn_forward(net, x)),
       "with its own parameters it is the module");
    /* Makes a step of gradient descent, then computes the derivative of the
     * loss after the step by the parameters before it. */
    tn_tensor *loss = tn_sum(tn_square(tn_forward(net, x)));
    is_int(tn_grad(loss, own, count, grad, .create_graph = true), TN_OK,
           "gradients with a graph");
    for (int i = 0; i < count; i++)
        fast[i] = tn_sub(own[i], tn_mul_scalar(grad[i], 0.1));
    tn_tensor *after =
        tn_sum(tn_square(tn_functional_call(net, fast, count, x)));
    ok(tn_item(after) < tn_item(loss), "the step lowers the loss");
    is_int(tn_grad(after, own, count, second), TN_OK,
           "gradients pass through the step");
    /* Computes the same step with the parameters changed in place. */
    TN_NO_GRAD {
        for (int i = 0; i < count; i++)
            tn_copy_(own[i], fast[i]);
    }
    ok(same(after, tn_sum(tn_square(tn_forward(net, x)))),
       "the result is that of changed parameters");
    ok(second[0] && tn_tensor_ndim(second[0]) == 2, "in the parameter's shape");

    tn_tensor *bias = tn_full(tn_dims(1), 100.0);
    tn_module *other = tn_module_substitute(net, &bias, 1,
                                            .names = (const char *[]){"2.bias"});
    ok(other && tn_item(tn_min(tn_forward(other, x))) > 50 &&
           tn_item(tn_max(tn_forward(net, x))) < 50,
       "one parameter, by its name");
    ok(tn_module_parameter(other, "0.weight") == own[0],
       "the others are shared");

    /* Buffers are shared with the module and change; hooks run. */
    tn_module *norm = tn_nn_batch_norm1d(2);
    int calls = 0;
    tn_module_register_forward_hook(norm, never, &calls);
    tn_tensor *pair[] = {tn_ones(tn_dims(2)), tn_zeros(tn_dims(2))};
    tn_functional_call(norm, pair, 2, x);
    is_double_near(tn_item(tn_module_buffer(norm, "num_batches_tracked")), 1,
                   0, "buffers of the module change");
    is_int(calls, 1, "hooks of the module run");

    tn_module *gru = tn_nn_gru(2, 2);
    tn_tensor *out[2], *weights[8];
    list = tn_parameters(gru);
    for (int i = 0; i < tn_parameters_count(list); i++)
        weights[i] = tn_zeros_like(tn_parameters_at(list, i));
    tn_forward_list(
        tn_module_substitute(gru, weights, tn_parameters_count(list)),
        (tn_tensor *[]){x}, 1, out, 2);
    is_double_near(tn_item(tn_sum(tn_abs(out[1]))), 0, 0,
                   "with several outputs");

    refused(tn_functional_call(net, fast, 3, x), TN_ERR_ARGUMENT,
            "module_substitute: count is 3, but the module has 4 parameters");
    fast[1] = NULL;
    refused(tn_functional_call(net, fast, 4, x), TN_ERR_ARGUMENT,
            "module_substitute: values is NULL");
    fast[1] = x;
    refused(tn_functional_call(net, fast, 4, x), TN_ERR_SHAPE,
            "module_substitute: the value of \"0.bias\" (3, 2) does not have "
            "its shape (2,)");
    refused(tn_module_substitute(net, &bias, 1,
                                 .names = (const char *[]){"2.bais"}),
            TN_ERR_ARGUMENT,
            "module_substitute: the module has no parameter or buffer "
            "\"2.bais\"");
    refused(tn_module_substitute(net, &bias, 1,
                                 .names = (const char *[]){NULL}),
            TN_ERR_ARGUMENT,
            "module_substitute: the module has no parameter or buffer \"\"");
}

/* ---- conversion to another dtype, and freezing --------------------------- */

static void test_to(void)
{
    struct net *net = net_new();
    tn_module *m = &net->base;
    tn_tensor *scale = net->scale, *x = tn_rand(tn_dims(5, 3));
    tn_optim *optim = tn_optim_sgd(tn_parameters(m), .lr = 0.5);
    ok(tn_module_to(m, .dtype = TN_F64) == m, "to float64");
    ok(net->scale == scale && tn_module_parameter(m, "scale") == scale &&
           tn_tensor_dtype(scale) == TN_F64,
       "the parameters are the same objects");
    ok(tn_tensor_dtype(tn_module_buffer(m, "body.1.running_mean")) == TN_F64,
       "floating buffers are converted");
    ok(tn_tensor_dtype(net->steps) == TN_I64, "integers are not");
    tn_tensor *y = tn_forward(m, tn_to_dtype(x, TN_F64));
    ok(y && tn_tensor_dtype(y) == TN_F64, "the module computes in float64");
    double before = tn_item(scale);
    tn_backward(tn_sum(tn_square(y)));
    tn_optim_step(optim);
    ok(!tn_error() && tn_item(scale) != before,
       "an optimizer that was made before updates the parameters");
    ok(tn_module_to(m, .dtype = TN_BF16, .device = tn_device_current()) == m &&
           tn_tensor_dtype(net->inner) == TN_BF16 &&
           tn_tensor_requires_grad(net->inner),
       "to bfloat16, with a device");
    refused(tn_module_to(m), TN_ERR_ARGUMENT,
            "module_to: device is NULL: give .device or .dtype");
    refused(tn_module_to(m, .dtype = TN_I32), TN_ERR_DTYPE,
            "module_to: dtype is int32: expected a floating-point dtype");
    tn_module *odd = tn_nn_relu();
    tn_module_add_parameter(odd, "a", tn_ones(tn_dims(1)));
    tn_module_add_buffer(odd, "made",
                         tn_mul_scalar(tn_requires_grad(tn_ones(tn_dims(1))),
                                       2));
    refused(tn_module_to(odd, .dtype = TN_F64), TN_ERR_STATE,
            "module_to: made is the result of a recorded operator: make it "
            "without recording, or tn_detach it");
    ok(tn_tensor_dtype(tn_module_parameter(odd, "a")) == TN_F32,
       "and nothing is changed");
}

static void test_default_dtype(void)
{
    tn_default_dtype_set(TN_F64);
    const struct {
        tn_tensor *x;
        tn_dtype dtype;
        const char *name;
    } cases[] = {{tn_zeros(tn_dims(2)), TN_F64, "zeros"},
                 {tn_rand(tn_dims(2)), TN_F64, "rand"},
                 {tn_randn(tn_dims(2)), TN_F64, "randn"},
                 {tn_empty(tn_dims(2)), TN_F64, "empty"},
                 {tn_eye(2), TN_F64, "eye"},
                 {tn_full(tn_dims(2), 0.5), TN_F64, "full of a float"},
                 {tn_full(tn_dims(2), 5), TN_I64, "full of an integer"},
                 {tn_scalar_tensor(0.5), TN_F64, "scalar_tensor"},
                 {tn_arange(0, 1, 0.5), TN_F64, "arange by a float"},
                 {tn_arange(0, 4, 1), TN_I64, "arange by an integer"},
                 {tn_linspace(0, 1, 3), TN_F64, "linspace"},
                 {tn_ones(tn_dims(2), .dtype = TN_F32), TN_F32,
                  "a dtype that is given"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(tn_tensor_dtype(cases[i].x), cases[i].dtype, "default: %s",
               cases[i].name);
    tn_module *layers[] = {tn_nn_sequential(tn_nn_linear(4, 4), tn_nn_relu(),
                                            tn_nn_layer_norm(tn_dims(4))),
                           tn_nn_lstm(4, 4), tn_nn_multihead_attention(4, 2),
                           tn_nn_batch_norm1d(4)};
    tn_tensor *inputs[] = {tn_rand(tn_dims(3, 4)), tn_rand(tn_dims(3, 4)),
                           tn_rand(tn_dims(3, 4)), tn_rand(tn_dims(3, 4, 2))};
    for (int i = 0; i < 4; i++) {
        tn_tensor *y = tn_forward(layers[i], inputs[i]);
        ok(y && tn_tensor_dtype(y) == TN_F64 && tn_backward(tn_sum(y)) == TN_OK,
           "default: %s is made in float64: %s", layers[i]->type->name,
           tn_error() ? tn_error() : "");
        tn_error_clear();
    }
    tn_default_dtype_set(TN_F32);
    is_int(tn_tensor_dtype(tn_rand(tn_dims(1))), TN_F32, "and back");
}

static void test_freeze(void)
{
    struct net *net = net_new();
    ok(tn_module_set_requires_grad(net->body, false) == net->body, "frozen");
    tn_tensor *y = tn_sum(tn_forward(&net->base, tn_rand(tn_dims(5, 3))));
    is_int(tn_backward(y), TN_OK, "backward");
    ok(!tn_tensor_grad(net->inner) && tn_tensor_grad(net->scale),
       "frozen parameters get no gradients, others do");
    tn_module_set_requires_grad(net->body, true);
    ok(tn_tensor_requires_grad(net->inner), "and back");
}

int main(void)
{
    tap_find_plugin();
    tn_scope *scope = tn_scope_open();
    test_clone();
    test_layers();
    test_clone_mistakes();
    test_substitute();
    test_to();
    test_default_dtype();
    test_freeze();
    tn_scope_close(scope);
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
