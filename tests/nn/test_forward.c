/* test_forward.c: tests modules with several inputs and outputs: tn_forward
 * with several inputs, tn_forward_list, signatures, and hooks that receive all
 * tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

static tn_tensor *number(double x)
{
    return tn_full(tn_dims(1), x);
}

static void refused(bool did, tn_status code, const char *message)
{
    ok(!did, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

/* ---- a custom module class ----------------------------------------------- */

/* Computes y = scale x + memory - (mask, if passed) and z = y * memory. */
struct cross {
    tn_module base;
    tn_tensor *scale;
    int in_count, out_count; /* numbers of inputs and outputs of the last
                              * call */
    int runs;
};

static void cross_forward(tn_module *self, tn_tensor *const *in, int in_count,
                          tn_tensor **out, int out_count)
{
    struct cross *cross = (struct cross *)self;
    cross->in_count = in_count;
    cross->out_count = out_count;
    cross->runs++;
    out[0] = tn_add(tn_mul(in[0], cross->scale), in[1]);
    if (in[2])
        out[0] = tn_sub(out[0], in[2]);
    if (out_count > 1)
        out[1] = tn_mul(out[0], in[1]);
}

static const tn_module_class cross_class = {
    .size = sizeof cross_class,
    .name = "Cross",
    .bytes = sizeof(struct cross),
    .forward_list = cross_forward,
    .signature = "x, memory, mask? -> y, z"};

static struct cross *cross_new(void)
{
    struct cross *cross = tn_module_new(&cross_class);
    cross->scale = tn_module_add_parameter(&cross->base, "scale", number(10));
    return cross;
}

static void test_calls(void)
{
    struct cross *cross = cross_new();
    tn_module *m = &cross->base;
    tn_tensor *x = number(2), *memory = number(3), *mask = number(1);
    tn_tensor *out[2] = {x, x};
    is_str(tn_module_signature(m), "x, memory, mask? -> y, z",
           "the signature");
    is_str(tn_module_signature(tn_nn_relu()), "input -> output",
           "the signature of a module with one input");
    is_double_near(tn_item(tn_forward(m, x, memory)), 23, 0, "two inputs");
    is_int(cross->in_count, 3, "an input that is left out is counted");
    is_int(cross->out_count, 1, "tn_forward wants one output");
    is_double_near(tn_item(tn_forward(m, x, memory, mask)), 22, 0,
                   "three inputs");
    is_double_near(tn_item(tn_forward(m, x, memory, NULL)), 23, 0,
                   "NULL leaves an optional input out");
    is_double_near(tn_item(tn_forward(m, tn_forward(m, x, memory),
                                      tn_forward(m, memory, x))),
                   262, 0, "calls nest");
    ok(tn_forward_list(m, (tn_tensor *[]){x, memory}, 2, out, 2) == TN_OK,
       "a list of inputs and outputs");
    is_double_near(tn_item(out[0]), 23, 0, "the first output");
    is_double_near(tn_item(out[1]), 69, 0, "the second output");
    is_int(cross->out_count, 2, "both are wanted");
    out[0] = x;
    out[1] = memory;
    ok(tn_forward_list(m, out, 2, out, 2) == TN_OK &&
           tn_item(out[1]) == 69,
       "the outputs may replace the inputs");
    ok(tn_forward_list(m, (tn_tensor *[]){x, memory, mask}, 3, out, 1) ==
               TN_OK &&
           tn_item(out[0]) == 22,
       "fewer outputs than there are");
    tn_tensor *y = (tn_forward)(tn_nn_relu(), x);
    is_double_near(tn_item(y), 2, 0, "tn_forward is a function, too");
}

static void test_scope(void)
{
    struct cross *cross = cross_new();
    tn_tensor *x = number(2), *out[2];
    tn_scope *scope = tn_scope_open();
    int64_t before = tn_scope_count();
    TN_NO_GRAD {
        tn_forward_list(&cross->base, (tn_tensor *[]){x, x, x}, 3, out, 2);
    }
    is_int(tn_scope_count() - before, 2,
           "the outputs are all that remains of a call");
    tn_scope_close(scope);
}

static void test_gradients(void)
{
    struct cross *cross = cross_new();
    tn_tensor *x = tn_requires_grad(number(2));
    tn_tensor *memory = tn_requires_grad(number(3)), *out[2];
    double plain[3] = {0}, again[3] = {0};
    for (int round = 0; round < 2; round++) {
        tn_module_set_recompute(&cross->base, round);
        cross->runs = 0;
        tn_forward_list(&cross->base, (tn_tensor *[]){x, memory, NULL}, 3, out,
                        2);
        is_int(tn_backward(tn_add(out[0], out[1])), TN_OK, "backward");
        double *to = round ? again : plain;
        to[0] = tn_item(tn_tensor_grad(x));
        to[1] = tn_item(tn_tensor_grad(memory));
        to[2] = tn_item(tn_tensor_grad(cross->scale));
        is_int(cross->runs, 1 + round, "recomputed: the number of runs");
        tn_tensor_set_grad(x, NULL);
        tn_tensor_set_grad(memory, NULL);
        tn_module_zero_grad(&cross->base);
    }
    /* the gradients of y + y m with y = 10 x + m */
    is_double_near(plain[0], 10 + 30, 0, "the gradient of x");
    is_double_near(plain[1], 1 + 3 + 23, 0, "the gradient of memory");
    is_double_near(plain[2], 2 + 6, 0, "the gradient of the parameter");
    for (int i = 0; i < 3; i++)
        is_double_near(again[i], plain[i], 0, "recomputed: gradient %d", i);
}

/* ---- errors -------------------------------------------------------------- */

static void lazy_forward(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count)
{
    (void)self, (void)in_count, (void)out_count;
    out[0] = in[0];
}

static const tn_module_class lazy_class = {.size = sizeof lazy_class,
                                           .name = "Lazy",
                                           .bytes = sizeof(tn_module),
                                           .forward_list = lazy_forward,
                                           .signature = "x -> y, z"};

static void test_mistakes(void)
{
    tn_module *m = &cross_new()->base;
    tn_tensor *x = number(2), *out[3] = {x, x, x};
    refused(tn_forward(m, x), TN_ERR_ARGUMENT,
            "Cross: 1 input is given, but its signature is \"x, memory, mask? "
            "-> y, z\"");
    refused(tn_forward(m, x, x, x, x), TN_ERR_ARGUMENT,
            "Cross: 4 inputs are given, but its signature is \"x, memory, "
            "mask? -> y, z\"");
    refused(tn_forward(tn_nn_relu(), x, x), TN_ERR_ARGUMENT,
            "ReLU: 2 inputs are given, but its signature is \"input -> "
            "output\"");
    refused(tn_forward(m, x, NULL), TN_ERR_ARGUMENT, "Cross: memory is NULL");
    is_str(tn_error_info() ? tn_error_info()->argument : NULL, NULL,
           "no error is pending afterwards");
    refused(tn_forward(m, NULL, x), TN_ERR_ARGUMENT, "Cross: x is NULL");
    tn_forward(m, NULL, x);
    is_str(tn_error_info()->argument, "x", "the argument, as data");
    is_str(tn_error_info()->called, "Cross", "the module, as data");
    tn_error_clear();
    refused(tn_forward(m, x, (tn_tensor *)(void *)m), TN_ERR_ARGUMENT,
            "Cross: memory is a module, not a tensor");
    refused(tn_forward_list(m, (tn_tensor *[]){x, x}, 2, out, 3) >= 0,
            TN_ERR_ARGUMENT,
            "forward_list: out_count is 3, but the signature of Cross is \"x, "
            "memory, mask? -> y, z\"");
    refused(tn_forward_list(m, (tn_tensor *[]){x, x}, 2, out, 0) >= 0,
            TN_ERR_ARGUMENT,
            "forward_list: out_count is 0, but the signature of Cross is \"x, "
            "memory, mask? -> y, z\"");
    refused(tn_forward_list(m, NULL, 2, out, 1) >= 0, TN_ERR_ARGUMENT,
            "forward_list: inputs is NULL");
    refused(tn_forward_list(m, &x, 1, NULL, 1) >= 0, TN_ERR_ARGUMENT,
            "forward_list: out is NULL");
    refused(tn_forward_list(m, &x, -1, out, 1) >= 0, TN_ERR_ARGUMENT,
            "Cross: -1 inputs are given, but its signature is \"x, memory, "
            "mask? -> y, z\"");
    tn_module *lazy = tn_module_new(&lazy_class);
    ok(tn_forward(lazy, x) == x, "an output that is not wanted may be absent");
    refused(tn_forward_list(lazy, &x, 1, out, 2) >= 0, TN_ERR_ARGUMENT,
            "Lazy: its forward set no output \"z\"");
    ok(!out[0] && !out[1], "after a failure the outputs are NULL");
    out[0] = out[1] = x;
    refused(tn_forward_list(NULL, &x, 1, out, 2) >= 0, TN_ERR_ARGUMENT,
            "forward_list: module is NULL");
    ok(!out[0] && !out[1], "also if there is no module");
    out[0] = out[1] = x;
    refused(tn_forward_list(m, NULL, 2, out, 2) >= 0, TN_ERR_ARGUMENT,
            "forward_list: inputs is NULL");
    ok(!out[0] && !out[1], "also if there are no inputs");

    /* If creating a mask failed, its NULL must not count as "no mask". */
    tn_tensor *mask = tn_reshape(x, tn_dims(2));
    ok(!mask && !tn_forward(m, x, x, mask), "a mask that failed");
    ok(strncmp(tn_error(), "reshape: ", 9) == 0, "the first error stays");
    tn_error_clear();
}

static void test_classes(void)
{
    static const char *const wrong[] = {
        "",       "x",          "x ->",      "-> y",        "x? -> y",
        "x, -> y", "x?, m -> y", "x -> y?",   "x y -> z",    "x -> y -> z",
        "x -> y,", "x; m -> y",  "x.1 -> y", "x -> y, , z",
        "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q -> y"};
    char message[300];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tn_module_class type = cross_class;
        type.signature = wrong[i];
        snprintf(message, sizeof message,
                 "module_new: Cross: the signature \"%s\" is not of the form "
                 "\"x, memory, mask? -> y, weights\", with at most 16 names on "
                 "each side",
                 wrong[i]);
        refused(tn_module_new(&type), TN_ERR_FORMAT, message);
    }
    static tn_module_class type; /* static: modules keep a pointer to it */
    type = cross_class;
    type.signature = "  a_1 ,b ,  C9?->out";
    ok(tn_module_new(&type) && !tn_error(), "blanks are free");
    type.signature = "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p -> y";
    ok(tn_module_new(&type) && !tn_error(), "16 inputs");
    type.signature = NULL;
    ok(tn_module_new(&type) && !tn_error(), "no signature: one input");
    const char *both = "module_new: the class needs a name, either forward or "
                       "forward_list, and a size of at least sizeof(tn_module)";
    type.forward_list = NULL;
    refused(tn_module_new(&type), TN_ERR_ARGUMENT, both);
    type = cross_class;
    type.forward = (tn_tensor * (*)(tn_module *, tn_tensor *)) abort;
    refused(tn_module_new(&type), TN_ERR_ARGUMENT, both);
    /* A class struct from older headers: fields after its size are not read. */
    type = cross_class;
    type.size = offsetof(tn_module_class, forward_list);
    refused(tn_module_new(&type), TN_ERR_ARGUMENT, both);
}

/* ---- the macros for a class ---------------------------------------------- */

/* Sets both outputs, whether they are wanted or not. */
struct pair {
    tn_module base;
    tn_module *fc;
    tn_tensor *scale, *count;
};

static void pair_forward(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count)
{
    struct pair *pair = (struct pair *)self;
    ok(!out[0] && !out[1] && out_count <= 2, "outputs are NULL at first");
    out[0] = tn_mul(in[0], pair->scale);
    out[1] = tn_add(in[0], pair->count);
    (void)in_count;
}

static const tn_module_class pair_class =
    TN_MODULE_CLASS(struct pair, "Pair", .forward_list = pair_forward,
                    .signature = "x -> y, z");

static void test_macros(void)
{
    struct pair *pair = tn_module_new(&pair_class);
    tn_module *m = (tn_module *)pair;
    TN_MODULE_ADD(pair, fc, tn_nn_linear(2, 3, .bias = false));
    TN_MODULE_ADD_PARAMETER(pair, scale, number(3));
    TN_MODULE_ADD_BUFFER(pair, count, number(4));
    ok(pair->fc && pair->fc == tn_module_child(m, "fc"), "a child");
    ok(pair->scale && pair->scale == tn_module_parameter(m, "scale"),
       "a parameter");
    ok(tn_tensor_requires_grad(pair->scale), "which requires a gradient");
    ok(pair->count && pair->count == tn_module_buffer(m, "count"), "a buffer");

    tn_tensor *x = number(5), *out[2];
    int64_t before = tn_scope_count();
    TN_NO_GRAD {
        is_double_near(tn_item(tn_forward(m, x)), 15, 0,
                       "forward may set an output that is not wanted");
        is_int(tn_scope_count() - before, 1, "which is freed");
        is_int(tn_forward_list(m, &x, 1, out, 2), TN_OK, "both are wanted");
        is_double_near(tn_item(out[1]), 9, 0, "the second output");
    }

    /* An argument with commas in braces. */
    TN_MODULE_ADD(pair, fc,
                  tn_nn_sequential_with((tn_module *[]){tn_nn_relu(),
                                                        tn_nn_tanh()}, 2));
    ok(!pair->fc, "a second child of this name");
    is_str(tn_error(), "Pair: module_add: \"fc\": the name is taken", "its error");
    tn_error_clear();
    TN_MODULE_ADD_BUFFER(pair, count, NULL);
    ok(!pair->count && tn_error(), "no buffer: %s", tn_error());
    tn_error_clear();
    struct pair *none = NULL;
    TN_MODULE_ADD(none, fc, tn_nn_relu());
    TN_MODULE_ADD_PARAMETER(none, scale, x);
    TN_MODULE_ADD_BUFFER(none, count, x);
    ok(!tn_error(), "nothing happens without a module");
}

/* ---- hooks --------------------------------------------------------------- */

struct seen {
    int calls, inputs, outputs;
    double value[4];
    bool replaces, fails;
};

static tn_status before(tn_module *module, tn_tensor **inputs, int input_count,
                        tn_tensor **outputs, int output_count, void *context)
{
    struct seen *seen = context;
    (void)module, (void)outputs;
    seen->calls++;
    seen->inputs = input_count;
    seen->outputs = output_count;
    for (int i = 0; i < input_count && i < 4; i++)
        seen->value[i] = inputs[i] ? tn_item(inputs[i]) : NAN;
    if (seen->replaces)
        inputs[1] = number(100);
    return seen->fails ? TN_ERR_SHAPE : TN_OK;
}

static tn_status after(tn_module *module, tn_tensor **inputs, int input_count,
                       tn_tensor **outputs, int output_count, void *context)
{
    struct seen *seen = context;
    before(module, inputs, input_count, outputs, output_count, seen);
    seen->value[3] = output_count > 1 ? tn_item(outputs[1]) : NAN;
    if (seen->replaces)
        outputs[0] = number(-1);
    if (seen->fails)
        return tn_error_set(TN_ERR_STATE, "enough");
    return TN_OK;
}

static tn_tensor *twice(tn_module *module, tn_tensor *input, tn_tensor *output,
                        void *context)
{
    (void)module, (void)output, (void)context;
    return tn_mul_scalar(input, 2);
}

static void test_hooks(void)
{
    tn_module *m = &cross_new()->base;
    tn_tensor *x = number(2), *memory = number(3), *out[2];
    struct seen first = {0}, last = {0};
    tn_hook *a = tn_module_register_forward_pre_list_hook(m, before, &first);
    tn_module_register_forward_list_hook(m, after, &last);
    tn_forward_list(m, (tn_tensor *[]){x, memory}, 2, out, 2);
    is_int(first.inputs, 3, "before: all inputs");
    is_int(first.outputs, 0, "before: no outputs");
    ok(first.value[0] == 2 && first.value[1] == 3 && isnan(first.value[2]),
       "before: their values");
    is_int(last.inputs, 3, "after: all inputs");
    is_int(last.outputs, 2, "after: all outputs");
    is_double_near(last.value[3], 69, 0, "after: the second output");

    first.replaces = true;
    tn_forward_list(m, (tn_tensor *[]){x, memory}, 2, out, 2);
    is_double_near(tn_item(out[0]), 120, 0, "an input is replaced");
    is_double_near(last.value[1], 100, 0, "and what replaced it seen after");
    last.replaces = true;
    tn_hook_remove(a);
    tn_forward_list(m, (tn_tensor *[]){x, memory}, 2, out, 2);
    ok(tn_item(out[0]) == -1 && tn_item(out[1]) == 69,
       "an output is replaced");
    is_int(first.calls, 2, "a hook that was removed is not called");

    /* a second hook that receives only the first tensor; hooks run in the order
     * of registration */
    tn_module_register_forward_pre_hook(m, twice, NULL);
    struct seen second = {0};
    tn_module_register_forward_pre_list_hook(m, before, &second);
    last.replaces = false;
    is_double_near(tn_item(tn_forward(m, x, x)), 44, 0,
                   "one tensor for two inputs is replaced in both");
    ok(second.value[0] == 4 && second.value[1] == 4, "and seen in both");

    second.fails = true;
    refused(tn_forward(m, x, x), TN_ERR_STATE,
            "register_forward_pre_list_hook: the hook failed without an "
            "error");
    second.fails = false;
    last.fails = true;
    refused(tn_forward(m, x, x), TN_ERR_STATE, "enough");
    refused(tn_module_register_forward_list_hook(m, NULL, NULL),
            TN_ERR_ARGUMENT, "register_forward_list_hook: hook is NULL");
}

/* ---- layers of Tenon ----------------------------------------------------- */

static bool same(tn_tensor *a, tn_tensor *b)
{
    return a && b && tn_item(tn_all(tn_eq(a, b))) == 1;
}

static void test_layers(void)
{
    TN_NO_GRAD_HERE;
    tn_tensor *x = tn_rand(tn_dims(4, 2, 8)), *y = tn_rand(tn_dims(5, 2, 8));
    tn_tensor *h = tn_rand(tn_dims(1, 2, 8)), *c = tn_rand(tn_dims(1, 2, 8));
    tn_tensor *out[3], *want, *want_h, *want_c;
    tn_module *lstm = tn_nn_lstm(8, 8);
    tn_forward_list(lstm, (tn_tensor *[]){x, h, c}, 3, out, 3);
    want = tn_nn_lstm_forward(lstm, x, h, c, &want_h, &want_c);
    ok(same(out[0], want) && same(out[1], want_h) && same(out[2], want_c),
       "LSTM: output, h_n and c_n");
    ok(same(tn_forward(lstm, x), tn_nn_lstm_forward(lstm, x, NULL, NULL, NULL,
                                                    NULL)),
       "LSTM: without states");
    tn_module *gru = tn_nn_gru(8, 8);
    ok(same(tn_forward(gru, x, h), tn_nn_rnn_forward(gru, x, h, NULL)),
       "GRU: with a state");
    tn_module *cell = tn_nn_lstm_cell(8, 8);
    tn_tensor *state[2] = {tn_select(h, 0, 0), tn_select(c, 0, 0)};
    want = tn_nn_lstm_cell_forward(cell, tn_select(x, 0, 0), state[0],
                                   state[1], &want_c);
    tn_forward_list(cell,
                    (tn_tensor *[]){tn_select(x, 0, 0), state[0], state[1]}, 3,
                    state, 2);
    ok(same(state[0], want) && same(state[1], want_c), "LSTMCell: h and c");
    tn_module *attention = tn_nn_multihead_attention(8, 2);
    tn_tensor *mask = tn_gt_scalar(tn_rand(tn_dims(4, 5)), 0.7), *weights;
    want = tn_nn_multihead_attention_forward(attention, x, y, y, &weights,
                                             .attn_mask = mask);
    tn_forward_list(attention, (tn_tensor *[]){x, y, y, NULL, mask}, 5, out, 2);
    ok(same(out[0], want) && same(out[1], weights),
       "MultiheadAttention: masks and weights");
    ok(same(tn_forward(attention, x, y),
            tn_nn_multihead_attention_forward(attention, x, y, y, NULL)),
       "MultiheadAttention: value is key if it is left out");
    tn_module *decoder = tn_nn_transformer_decoder(8, 2, 2);
    tn_module_eval(decoder);
    ok(same(tn_forward(decoder, x, y),
            tn_nn_transformer_decoder_forward_with(decoder, x, y, NULL,
                                                   NULL)),
       "TransformerDecoder: tgt and memory");
    tn_module *transformer = tn_nn_transformer(8, 2, 1, 1);
    tn_module_eval(transformer);
    ok(same(tn_forward(transformer, y, x),
            tn_nn_transformer_forward_with(transformer, y, x, NULL, NULL,
                                           NULL)),
       "Transformer: src and tgt");
    tn_module *bilinear = tn_nn_bilinear(8, 8, 3, true);
    ok(same(tn_forward(bilinear, tn_select(x, 0, 0), tn_select(y, 0, 0)),
            tn_nn_bilinear_forward(bilinear, tn_select(x, 0, 0),
                                   tn_select(y, 0, 0))),
       "Bilinear: two inputs");
    is_str(tn_module_signature(lstm),
           "input, h0?, c0? -> output, h_n, c_n", "LSTM: the signature");
}

int main(void)
{
    tap_find_plugin();
    test_calls();
    test_scope();
    test_gradients();
    test_mistakes();
    test_classes();
    test_macros();
    test_hooks();
    test_layers();
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
