/* Compiled modules (tn_module_compile): the bits of the module itself, a new capture
 * when modes or tensors change, and errors for what a replay would leave out. */
#include <tenon/tenon.h>

#include "../same_bits.h"
#include "../tap.h"

static int64_t captures_of(const tn_module *module)
{
    tn_compiled_counts counts = {.size = sizeof counts};
    const tn_compiled *c = tn_module_compiled(module);
    if (c)
        tn_compiled_read_counts(c, &counts);
    return counts.captures;
}

static int64_t replays_of(const tn_module *module)
{
    tn_compiled_counts counts = {.size = sizeof counts};
    const tn_compiled *c = tn_module_compiled(module);
    if (c)
        tn_compiled_read_counts(c, &counts);
    return counts.replays;
}

/* Runs the module and its compiled copy with `count` new inputs. */
static bool calls_are_same(tn_module *plain, tn_module *fast, tn_dims_list shape,
                           int count)
{
    bool same = true;
    for (int i = 0; i < count && same; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *x = tn_randn(shape), *want = NULL, *got = NULL;
        TN_NO_GRAD {
            want = tn_forward(plain, x);
            got = tn_forward(fast, x);
        }
        same = want && got && same_bits(want, got);
        tn_scope_close(scope);
    }
    if (tn_error())
        note("%s", tn_error());
    return same && !tn_error();
}

static tn_module *network(void)
{
    return tn_nn_sequential(tn_nn_conv2d(3, 4, 3), tn_nn_batch_norm2d(4),
                            tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
                            tn_nn_linear(36, 10), tn_nn_softmax(1));
}

static void check_network(void)
{
    tn_scope *scope = tn_scope_open();
    tn_module *plain = network();
    tn_module_eval(plain);
    tn_module *fast = tn_module_clone(plain);
    ok(tn_module_compile(fast) == TN_OK && !tn_module_compiled(fast),
       "a module is compiled");
    const tn_dims_list shape = tn_dims(2, 3, 8, 8), other = tn_dims(5, 3, 8, 8);
    ok(calls_are_same(plain, fast, shape, 5), "its calls have the same bits");
    is_int(replays_of(fast), 3, "the first two calls are captured");
    ok(calls_are_same(plain, fast, other, 4), "another batch size");
    ok(tn_compiled_text(tn_module_compiled(fast)) != NULL, "it has a text");
    tn_module_train(plain, true);
    tn_module_train(fast, true);
    ok(calls_are_same(plain, fast, shape, 5), "in training mode");
    is_int(captures_of(fast), 2, "which is a form of its own");
    tn_module_eval(plain);
    tn_module_eval(fast);
    ok(calls_are_same(plain, fast, shape, 2), "in evaluation mode again");
    is_int(captures_of(fast), 4, "whose program still exists");
    tn_module_to(plain, .dtype = TN_F64);
    tn_module_to(plain, .dtype = TN_F32);
    tn_module_to(fast, .dtype = TN_F64);
    tn_module_to(fast, .dtype = TN_F32);
    ok(calls_are_same(plain, fast, shape, 4), "with other memory");
    ok(captures_of(fast) > 4, "for which it is captured again");
    tn_module *copy = tn_module_clone(fast);
    ok(calls_are_same(plain, copy, shape, 3) && !tn_module_compiled(copy),
       "a copy is not compiled");
    ok(tn_module_compile(fast, .off = true) == TN_OK &&
           calls_are_same(plain, fast, shape, 3) && !tn_module_compiled(fast),
       "compilation is switched off");
    tn_scope_close(scope);
}

/* Several inputs, some of them left out, and several outputs. */
static void check_list(void)
{
    tn_scope *scope = tn_scope_open();
    tn_module *plain = tn_nn_lstm(3, 4);
    tn_module *fast = tn_module_clone(plain);
    tn_module_compile(fast);
    bool same = true;
    for (int i = 0; i < 8 && same; i++) {
        tn_tensor *in[3] = {tn_randn(tn_dims(5, 2, 3)),
                            tn_randn(tn_dims(1, 2, 4)),
                            tn_randn(tn_dims(1, 2, 4))};
        tn_tensor *want[3] = {NULL}, *got[3] = {NULL};
        const int in_count = i % 2 ? 3 : 1, out_count = i % 4 < 2 ? 3 : 1;
        TN_NO_GRAD {
            tn_forward_list(plain, in, in_count, want, out_count);
            tn_forward_list(fast, in, in_count, got, out_count);
        }
        for (int o = 0; o < out_count && same; o++)
            same = !tn_error() && same_bits(want[o], got[o]);
    }
    ok(same, "an LSTM with and without its state%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

static tn_status calls_module(tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_relu(tn_forward(context, in[0]));
    return tn_error() ? tn_error_code() : TN_OK;
}

static void check_nested(void)
{
    tn_scope *scope = tn_scope_open();
    tn_module *net = tn_nn_linear(3, 3);
    tn_module_compile(net);
    tn_compiled *c = tn_compile(calls_module, net);
    bool same = true;
    for (int i = 0; i < 4 && same; i++) {
        tn_tensor *x = tn_randn(tn_dims(2, 3)), *y = NULL, *want = NULL;
        TN_NO_GRAD {
            tn_compiled_run(c, &x, 1, &y, 1);
            want = tn_relu(tn_forward(net, x));
        }
        same = y && want && same_bits(want, y);
    }
    ok(same && !tn_error(), "a compiled module within a compiled function");
    tn_error_clear();
    tn_scope_close(scope);
}

static tn_tensor *hook(tn_module *module, tn_tensor *input, tn_tensor *output,
                       void *context)
{
    (void)module, (void)input, (void)context;
    return output;
}

static void refused(const void *result, const char *message, const char *what)
{
    ok(!result && tn_error() && strstr(tn_error(), message), "%s: %s", what,
       tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void check_mistakes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_module *net = tn_nn_linear(3, 3);
    tn_tensor *x = tn_ones(tn_dims(2, 3));
    ok(tn_module_compile(NULL) < 0, "no module: %s", tn_error());
    tn_error_clear();
    ok(tn_module_compile(net, .plans = 0) < 0, "no plans: %s", tn_error());
    tn_error_clear();
    ok(tn_module_compile(net, .check_every = -1) < 0, "a negative interval");
    tn_error_clear();
    ok(!tn_module_compiled(NULL) && !tn_module_compiled(net) && !tn_error(),
       "a module that is not compiled has no compiled function");
    tn_module_compile(net, .check_every = 1);
    refused(tn_forward(net, x), "tn_compile_step", "a call with gradients");
    ok(tn_forward_list(net, &x, 2, &x, 1) < 0, "too many inputs: %s", tn_error());
    tn_error_clear();
    tn_module_set_requires_grad(net, false);
    x = tn_ones(tn_dims(2, 3));
    ok(tn_forward(net, x), "parameters that need no gradient");
    refused(tn_forward(net, tn_ones(tn_dims(2, 4))), "linear", "a wrong shape");
    ok(tn_forward(net, x) && tn_forward(net, x), "the next call works");
    tn_hook *h = tn_module_register_forward_hook(net, hook, NULL);
    refused(tn_forward(net, x), "has a hook", "a hook");
    tn_hook_remove(h);
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    check_network();
    check_list();
    check_nested();
    check_mistakes();
    return done_testing();
}
