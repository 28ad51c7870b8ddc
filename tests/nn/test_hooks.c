/* Tests hooks of modules: which tensors they receive and may replace, and in
 * which calls they run. */
#include <base/memory.h>
#include <tenon/tenon.h>
#include "tap.h"

static tn_tensor *numbers(double a, double b)
{
    double data[] = {a, b};
    return tn_to_dtype(tn_tensor_from_array(data, TN_F64, tn_dims(1, 2)),
                       TN_F32);
}

static tn_tensor *leaf(double a, double b)
{
    return tn_requires_grad(numbers(a, b));
}

static bool is(tn_tensor *x, double a, double b)
{
    float got[2] = {0};
    return x && tn_tensor_to_array(x, got, sizeof got) == TN_OK &&
           got[0] == (float)a && got[1] == (float)b;
}

/* Checks that the pending error has this code and this message, then
 * clears it. */
static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

/* Returns a layer that computes y = x ((1, 3), (2, 4)) + (0.5, -0.5). */
static tn_module *linear(void)
{
    const float w[] = {1, 2, 3, 4}, b[] = {0.5f, -0.5f};
    tn_module *layer = tn_nn_linear(2, 2);
    TN_NO_GRAD {
        tn_tensor_set_array(tn_module_parameter(layer, "weight"), w, sizeof w);
        tn_tensor_set_array(tn_module_parameter(layer, "bias"), b, sizeof b);
    }
    return layer;
}

/* ---- hooks of this test -------------------------------------------------- */

/* The arguments of a hook's calls, and their number. */
struct seen {
    int count;
    double input[2], output[2];
    double times; /* the hook returns this multiple of the tensor; 0: it returns
                   * NULL */
};

static void note_values(tn_tensor *x, double out[2])
{
    float got[2] = {0};
    if (x && tn_tensor_numel(x) == 2)
        tn_tensor_to_array(x, got, sizeof got);
    for (int i = 0; i < 2; i++)
        out[i] = x ? (double)got[i] : NAN;
}

static tn_tensor *look_at(tn_tensor *input, tn_tensor *output,
                          struct seen *seen)
{
    seen->count++;
    note_values(input, seen->input);
    note_values(output, seen->output);
    return NULL;
}

static tn_tensor *at_input(tn_module *module, tn_tensor *input,
                           tn_tensor *output, void *seen)
{
    (void)module;
    look_at(input, output, seen);
    double times = ((struct seen *)seen)->times;
    return times != 0 ? tn_mul_scalar(input, times) : NULL;
}

static tn_tensor *at_output(tn_module *module, tn_tensor *input,
                            tn_tensor *output, void *seen)
{
    (void)module;
    look_at(input, output, seen);
    double times = ((struct seen *)seen)->times;
    return times != 0 ? tn_mul_scalar(output, times) : NULL;
}

static bool saw(const struct seen *s, double in0, double in1, double out0,
                double out1)
{
    return s->input[0] == in0 && s->input[1] == in1 && s->output[0] == out0 &&
           s->output[1] == out1;
}

static tn_tensor *bad_shape(tn_module *module, tn_tensor *input,
                            tn_tensor *output, void *context)
{
    (void)module, (void)input, (void)context;
    return tn_sum(output);
}

static tn_tensor *refusing(tn_module *module, tn_tensor *input,
                           tn_tensor *output, void *context)
{
    (void)module, (void)input, (void)output, (void)context;
    tn_error_set(TN_ERR_ARGUMENT, "not today");
    return NULL;
}

/* ---- gradients ----------------------------------------------------------- */

/* The expected numbers are those of PyTorch 2.15 with the same layer and
 * hooks. */
static void test_replacing(void)
{
    struct seen before = {.times = 2}, first = {.times = 10}, second = {0};
    tn_module *layer = linear();
    tn_module_register_full_backward_pre_hook(layer, at_output, &before);
    tn_module_register_full_backward_hook(layer, at_input, &first);
    tn_hook *last =
        tn_module_register_full_backward_hook(layer, at_input, &second);
    tn_tensor *x = leaf(1, 2), *h = tn_mul_scalar(x, 3);
    tn_tensor *y = tn_add(tn_forward(layer, h), h);
    is_int(before.count, 0, "no hook runs in forward");
    is_int(tn_backward(tn_sum(tn_mul(y, y))), TN_OK, "backward");
    ok(before.count == 1 && isnan(before.input[0]) && before.output[0] == 37 &&
           before.output[1] == 77,
       "a full backward pre-hook sees the gradient of the output");
    ok(first.count == 1 && saw(&first, 536, 764, 74, 154),
       "a full backward hook both gradients, as the pre-hook left them");
    ok(saw(&second, 5360, 7640, 74, 154),
       "the next one receives what the first returned");
    ok(is(tn_tensor_grad(x), 16191, 23151),
       "which is passed on, in addition to that of another use of the input");
    ok(is(tn_tensor_grad(tn_module_parameter(layer, "bias")), 74, 154),
       "parameters receive what the pre-hook returned");

    tn_hook_remove(last);
    tn_backward(tn_sum(tn_forward(layer, h)), .retain_graph = true);
    ok(first.count == 2 && second.count == 1, "a removed hook no longer runs");
    tn_module_register_full_backward_hook(layer, at_output, &second);
    tn_tensor *out = tn_forward(layer, tn_mul_scalar(x, 3));
    tn_tensor *g = NULL;
    first.times = 0;
    tn_grad(tn_sum(out), &x, 1, &g);
    ok(first.count == 3 && second.count == 2 && is(g, 24, 36),
       "they run in tn_grad too");
    tn_grad(tn_sum(tn_forward(layer, numbers(1, 1))), &x, 1, &g,
            .allow_unused = true);
    is_int(first.count, 3, "but not where backward does not run");
}

static tn_tensor *relu_in_place(tn_module *self, tn_tensor *x)
{
    (void)self;
    return tn_relu_(x);
}

static const tn_module_class in_place = {.size = sizeof in_place,
                                         .name = "InPlace",
                                         .bytes = sizeof(tn_module),
                                         .forward = relu_in_place};

static void test_each_run(void)
{
    struct seen seen = {0};
    tn_module *layer = linear();
    tn_module_register_full_backward_hook(layer, at_input, &seen);
    tn_tensor *x = leaf(1, 1);
    tn_tensor *y = tn_forward(layer, tn_forward(layer, x));
    tn_backward(tn_sum(y), .retain_graph = true);
    ok(seen.count == 2 && saw(&seen, 22, 32, 4, 6),
       "a module that runs twice has its hooks run for each");
    tn_backward(tn_sum(y));
    ok(seen.count == 4 && saw(&seen, 22, 32, 4, 6), "and in each walk");
    TN_NO_GRAD { tn_forward(layer, x); }
    y = tn_mul_scalar_(tn_forward(layer, tn_mul_scalar(x, 1)), 3);
    tn_backward(tn_sum(y));
    ok(saw(&seen, 12, 18, 3, 3), "a result may be changed in place: hooks see "
                                 "the gradient of the module's own result");
    tn_module *relu = tn_module_new(&in_place);
    tn_module_register_full_backward_hook(relu, at_input, &seen);
    tn_tensor *h = tn_mul_scalar(x, -1);
    tn_forward(relu, h);
    tn_backward(tn_sum(h));
    ok(is(h, 0, 0) && !is(tn_tensor_grad(x), 0, 0),
       "a module's in-place change reaches its input");
    h = tn_mul(x, numbers(-1, 1));
    tn_backward(tn_sum(tn_mul_scalar(tn_forward(relu, h), 2)));
    ok(saw(&seen, 0, 2, 2, 2), "and its hooks see the input before the change");
}

static void test_no_input(void)
{
    struct seen seen = {0}, all = {0};
    tn_module *layer = linear();
    tn_module_register_full_backward_hook(layer, at_output, &seen);
    tn_tensor *x = numbers(1, 2);
    tn_backward(tn_sum(tn_forward(layer, x)));
    ok(seen.count == 1 && isnan(seen.input[0]) && seen.output[1] == 1,
       "an input without a gradient is NULL to a full backward hook");
    seen.times = 2;
    ok(tn_backward(tn_sum(tn_forward(layer, x))) < 0,
       "a hook may return NULL then");
    is_error(TN_ERR_STATE,
             "Linear: a full backward hook returned a gradient, but the "
             "module's input requires none: return NULL",
             "a gradient for what has none");
    tn_module *relu = tn_nn_relu();
    tn_module_register_full_backward_hook(relu, at_input, &all);
    tn_forward(relu, x);
    is_int(all.count, 0, "nothing runs where there is no gradient at all");
}

/* Returns the square of the gradient. */
static tn_tensor *squared(tn_module *module, tn_tensor *input,
                          tn_tensor *output, void *context)
{
    (void)module, (void)output, (void)context;
    return tn_mul(input, input);
}

static void test_twice(void)
{
    tn_module *relu = tn_nn_relu();
    tn_module_register_full_backward_hook(relu, squared, NULL);
    tn_tensor *x = leaf(2, 3), *g = NULL, *gg = NULL;
    tn_tensor *y = tn_forward(relu, x);
    tn_grad(tn_sum(tn_mul(y, y)), &x, 1, &g, .create_graph = true);
    ok(is(g, 16, 36), "a hook may give anything");
    tn_grad(tn_sum(g), &x, 1, &gg);
    ok(is(gg, 256, 576), "and it has a derivative, which passes the hook too: "
                         "(8 x)^2");
}

/* ---- modules that hooks run for ------------------------------------------ */

static void test_recomputed(void)
{
    tn_tensor *g[2], *x = leaf(1, 2);
    for (int again = 0; again < 2; again++) {
        struct seen outer = {.times = 3}, inner = {.times = 5};
        tn_module *net = tn_nn_sequential(linear(), tn_nn_tanh());
        tn_module_set_recompute(net, again);
        tn_module_register_full_backward_hook(net, at_input, &outer);
        tn_module_register_full_backward_pre_hook(tn_module_child(net, "0"),
                                                  at_output, &inner);
        tn_tensor *y = tn_forward(net, tn_mul_scalar(x, 0.25));
        tn_grad(tn_sum(y), &x, 1, &g[again]);
        is_int(outer.count * 10 + inner.count, 11, "each hook runs once");
    }
    ok(tn_item(tn_max(tn_abs(tn_sub(g[0], g[1])))) == 0,
       "a module that is recomputed has the same gradients with hooks");
}

/* A module with several inputs, such as bilinear, also runs its hooks if it is
 * called by its own function (tn_nn_bilinear_forward). The hooks receive the
 * first input. */
static void test_several(void)
{
    struct seen in = {0}, out = {0}, grad = {0}, deep = {0};
    tn_manual_seed(1);
    tn_module *two = tn_nn_bilinear(2, 2, 2, false);
    tn_module_register_forward_pre_hook(two, at_input, &in);
    tn_module_register_forward_hook(two, at_output, &out);
    tn_module_register_full_backward_hook(two, at_input, &grad);
    tn_tensor *x = leaf(1, 2), *z = leaf(3, 4), *g[2];
    tn_grad(tn_sum(tn_nn_bilinear_forward(two, x, z)),
            ((tn_tensor *[]){x, z}), 2, g);
    ok(in.count == 1 && out.count == 1 && in.input[1] == 2 &&
           out.input[1] == 2,
       "hooks see the first of two inputs");
    double first[2];
    note_values(g[0], first);
    ok(grad.count == 1 && saw(&grad, first[0], first[1], 1, 1),
       "and its gradient");
    tn_module_register_forward_pre_hook(two, refusing, NULL);
    ok(!tn_nn_bilinear_forward(two, x, z), "an error ends the forward");
    is_error(TN_ERR_ARGUMENT, "not today", "an error in a hook");

    tn_module *net = tn_nn_transformer(2, 1, 1, 1, .dim_feedforward = 4,
                                       .dropout = 0);
    static const char *const path[] = {
        "encoder.layers.0", "encoder.layers.0.self_attn",
        "decoder.layers.0", "decoder.layers.0.multihead_attn", "decoder"};
    enum { PATHS = sizeof path / sizeof *path };
    for (int i = 0; i < PATHS; i++) {
        tn_module_register_forward_hook(tn_module_child(net, path[i]),
                                        at_input, &in);
        tn_module_register_full_backward_hook(tn_module_child(net, path[i]),
                                              at_input, &deep);
    }
    in.count = 0;
    tn_backward(tn_sum(tn_forward(net, tn_reshape(x, tn_dims(1, 1, 2)))));
    is_int(in.count, PATHS, "each module of a transformer runs its hooks");
    is_int(deep.count, PATHS, "and those of its gradient");

    tn_module *lstm = tn_nn_lstm(2, 2);
    tn_tensor *h, *c, *row = tn_reshape(x, tn_dims(1, 1, 2));
    grad.count = 0;
    tn_module_register_full_backward_hook(lstm, at_input, &grad);
    tn_grad(tn_sum(tn_nn_lstm_forward(lstm, row, NULL, NULL, &h, &c)), &x, 1,
            g);
    note_values(g[0], first);
    ok(grad.count == 1 && saw(&grad, first[0], first[1], 1, 1),
       "so does a recurrent one with states");
    tn_module_register_forward_pre_hook(lstm, refusing, NULL);
    ok(!tn_nn_lstm_forward(lstm, row, NULL, NULL, &h, &c),
       "and ends with an error");
    is_error(TN_ERR_ARGUMENT, "not today", "an error in its hook");
}

/* ---- errors -------------------------------------------------------------- */

static void test_mistakes(void)
{
    tn_module *layer = linear();
    ok(!tn_module_register_full_backward_hook(layer, NULL, NULL) &&
           !tn_module_register_full_backward_hook(NULL, at_input, NULL),
       "a hook and a module are wanted");
    is_error(TN_ERR_ARGUMENT, "register_full_backward_hook: hook is NULL",
             "no hook");
    ok(!tn_module_register_full_backward_pre_hook(layer, NULL, NULL) &&
           !tn_module_register_full_backward_pre_hook(NULL, at_input, NULL),
       "so they are for one before");
    is_error(TN_ERR_ARGUMENT, "register_full_backward_pre_hook: hook is NULL",
             "no pre-hook");

    tn_module *net = tn_nn_sequential(tn_nn_relu(), layer);
    tn_hook *hook =
        tn_module_register_full_backward_hook(layer, bad_shape, NULL);
    tn_tensor *x = leaf(1, 2);
    ok(tn_backward(tn_sum(tn_forward(net, x))) < 0,
       "a gradient of another shape is refused");
    char text[256];
    const char *device = tn_device_name(tn_device_current());
    snprintf(text, sizeof text,
             "1: a hook on the output of view received a gradient that is "
             "float32 (1, 2) on %s and returned one that is float32 () on %s: "
             "they must be the same",
             device, device);
    is_error(TN_ERR_SHAPE, text, "a hook with another shape");
    tn_hook_remove(hook);
    hook = tn_module_register_full_backward_pre_hook(layer, refusing, NULL);
    ok(tn_backward(tn_sum(tn_forward(net, x))) < 0, "an error ends the walk");
    is_error(TN_ERR_ARGUMENT, "1: not today", "with the module's path");
    tn_hook_remove(hook);
    tn_module_register_full_backward_hook(layer, refusing, NULL);
    ok(tn_backward(tn_sum(tn_forward(net, x))) < 0, "so does one behind it");
    is_error(TN_ERR_ARGUMENT, "1: not today", "with the path, too");
    ok(!tn_tensor_grad(x), "and no leaf has got anything");
}

/* ---- memory -------------------------------------------------------------- */

/* A hook that removes itself and another hook while hooks run. */
static tn_hook *other;
static tn_tensor *removing(tn_module *module, tn_tensor *input,
                           tn_tensor *output, void *self)
{
    (void)input, (void)output;
    tn_hook_remove(*(tn_hook **)self);
    tn_hook_remove(other);
    static struct seen seen;
    tn_module_register_full_backward_pre_hook(module, at_output, &seen);
    return NULL;
}

static void round_of_hooks(void)
{
    static struct seen seen;
    static tn_hook *self;
    tn_scope *scope = tn_scope_open(), *model = tn_scope_open();
    tn_module *net = linear();
    self = tn_module_register_full_backward_hook(net, removing, &self);
    other = tn_module_register_full_backward_hook(net, at_input, &seen);
    tn_module_register_full_backward_hook(net, at_input, &seen);
    tn_tensor *x = leaf(1, 2), *y = tn_forward(net, x);
    tn_backward(tn_sum(y), .retain_graph = true);
    tn_keep(x);
    y = tn_scope_result(model, tn_forward(net, x));
    tn_tensor *g = NULL; /* the module has been freed */
    tn_grad(tn_sum(tn_mul(y, y)), &x, 1, &g, .create_graph = true);
    tn_drop(x);
    tn_scope_close(scope);
}

static void test_memory(void)
{
    int64_t live = 0;
    for (int i = 0; i < 10; i++) {
        round_of_hooks();
        if (i == 2)
            live = tn__memory_live();
    }
    ok(!tn_error(),
       "hooks may change the list, and modules may be freed before their "
       "graph: %s",
       tn_error() ? tn_error() : "no error");
    is_int(tn__memory_live(), live, "and nothing is left behind");
}

/* ---- gradients of several inputs and outputs ----------------------------- */

/* The gradients that a list hook received, as a letter for each gradient ('-'
 * for none), and how the hook changes them. */
struct gradients {
    char inputs[TN_MODULE_VALUES + 1], outputs[TN_MODULE_VALUES + 1];
    int count;
    int double_input, double_output; /* -1: none */
    bool fails;
};

static tn_status see_gradients(tn_module *module, tn_tensor **inputs,
                               int input_count, tn_tensor **outputs,
                               int output_count, void *context)
{
    struct gradients *g = context;
    (void)module;
    for (int i = 0; i < input_count; i++)
        g->inputs[i] = inputs[i] ? 'x' : '-';
    for (int i = 0; i < output_count; i++)
        g->outputs[i] = outputs[i] ? 'x' : '-';
    g->inputs[input_count] = g->outputs[output_count] = '\0';
    g->count++;
    if (g->double_input >= 0 && input_count)
        inputs[g->double_input] = tn_mul_scalar(inputs[g->double_input], 2);
    if (g->double_output >= 0)
        outputs[g->double_output] = tn_mul_scalar(outputs[g->double_output], 2);
    return g->fails ? TN_ERR_STATE : TN_OK;
}

static void two_forward(tn_module *self, tn_tensor *const *in, int in_count,
                        tn_tensor **out, int out_count)
{
    (void)self, (void)in_count;
    out[0] = tn_mul(in[0], in[1]);
    if (out_count > 1)
        out[1] = tn_add(in[0], in[1]);
    if (out_count > 2)
        out[2] = tn_argmax(in[0]);
}

static const tn_module_class two_class = {
    .size = sizeof two_class,
    .name = "Two",
    .bytes = sizeof(tn_module),
    .forward_list = two_forward,
    .signature = "a, b, c? -> product, sum, index"};

static void test_gradient_lists(void)
{
    tn_module *two = tn_module_new(&two_class);
    tn_tensor *a = tn_requires_grad(tn_full(tn_dims(2), 3.0));
    tn_tensor *b = tn_requires_grad(tn_full(tn_dims(2), 5.0)), *out[3];
    struct gradients before = {.double_input = -1, .double_output = -1};
    struct gradients after = before;
    tn_module_register_full_backward_pre_list_hook(two, see_gradients, &before);
    tn_hook *hook =
        tn_module_register_full_backward_list_hook(two, see_gradients, &after);
    tn_forward_list(two, (tn_tensor *[]){a, b}, 2, out, 3);
    ok(tn_backward(tn_sum(tn_add(out[0], out[1]))) == TN_OK &&
           is(tn_tensor_grad(a), 6, 6) &&
           is(tn_tensor_grad(b), 4, 4),
       "list hooks leave gradients as they are (%s)", tn_error());
    is_str(before.outputs, "xx-", "those of the outputs, an index has none");
    is_str(before.inputs, "", "before backward there are no others");
    is_str(after.inputs, "xx-", "those of the inputs; an optional one has none");
    is_str(after.outputs, "xx-", "together with those of the outputs");
    ok(before.count == 1 && after.count == 1, "each runs once");

    tn_tensor_set_grad(a, NULL), tn_tensor_set_grad(b, NULL);
    after.double_input = 1;
    before.double_output = 0;
    tn_forward_list(two, (tn_tensor *[]){a, b}, 2, out, 2);
    tn_backward(tn_sum(out[0]));
    ok(is(tn_tensor_grad(a), 10, 10) && is(tn_tensor_grad(b), 12, 12),
       "and can replace any of them");
    is_str(before.outputs, "x-", "an output that is not used has none");

    after.double_input = before.double_output = -1;
    tn_tensor *fixed = tn_full(tn_dims(2), 7.0);
    tn_backward(tn_sum(tn_forward(two, fixed, b)));
    is_str(after.inputs, "-x-", "an input without a gradient has none");
    tn_backward(tn_sum(tn_forward(two, b, b)));
    is_str(after.inputs, "x--", "a tensor that is two inputs has one gradient");
    after.count = 0;
    tn_hook_remove(hook);
    tn_backward(tn_sum(tn_forward(two, a, b)));
    is_int(after.count, 0, "a removed hook does not run");
    before.fails = true;
    tn_status status = tn_backward(tn_sum(tn_forward(two, a, b)));
    is_int(status, TN_ERR_STATE, "a hook can fail: %s", tn_error());
    tn_error_clear();
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_replacing();
    test_each_run();
    test_no_input();
    test_twice();
    test_recomputed();
    test_several();
    test_mistakes();
    test_memory();
    test_gradient_lists();
    return done_testing();
}
