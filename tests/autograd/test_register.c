/* Tests operators that a program registers in C. They are found by name and use
 * their own gradient functions. Wrong registrations and calls are errors. */
#include <base/memory.h>
#include <tenon/op_register.h>
#include <tenon/ops.h>
#include <tenon/recompute.h>
#include "tap.h"

static tn_tensor *leaf(double a, double b)
{
    double data[] = {a, b};
    return tn_requires_grad(tn_tensor_from_array(data, TN_F64, tn_dims(2)));
}

static bool is(tn_tensor *x, double a, double b)
{
    double got[2] = {NAN, NAN};
    return x && tn_tensor_to_array(x, got, sizeof got) == TN_OK &&
           got[0] == a && got[1] == b;
}

/* Checks that the pending error has this code and this message, then
 * clears it. */
static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

static const tn_op *add_op(const char *signature,
                           tn_status (*forward)(tn_op_context *, tn_tensor **),
                           tn_status (*backward)(tn_op_context *,
                                                 tn_tensor *const *,
                                                 tn_tensor **))
{
    tn_op_rule rule = {.size = sizeof rule, .signature = signature,
                       .forward = forward, .backward = backward};
    return tn_op_register(&rule);
}

/* ---- cube(x): saves its input -------------------------------------------- */

static tn_status cube(tn_op_context *call, tn_tensor **out)
{
    tn_tensor *x = tn_op_context_tensor(call, 0);
    tn_op_context_save(call, x);
    out[0] = tn_mul(tn_mul(x, x), x);
    return TN_OK;
}

static tn_status cube_backward(tn_op_context *call, tn_tensor *const *grad,
                               tn_tensor **out)
{
    tn_tensor *x = tn_op_context_saved(call, 0);
    out[0] = tn_mul(grad[0], tn_mul_scalar(tn_mul(x, x), 3));
    return TN_OK;
}

/* ---- scaled_exp(x, w?; factor, name) -------------------------------------
 *
 * It has options and several results, and saves inputs, outputs and numbers. */

struct counts {
    int forwards, backwards, released;
} counts;

static void release_data(void *data)
{
    counts.released += *(int *)data;
}

/* Computes y = exp(x w factor) and z = x + w. */
static tn_status scaled(tn_op_context *call, tn_tensor **out)
{
    counts.forwards++;
    *(int *)tn_op_context_data(call) = 1;
    tn_tensor *x = tn_op_context_tensor(call, 0);
    tn_tensor *w = tn_op_context_tensor(call, 1);
    double factor = tn_op_context_value(call, 2).of.f;
    tn_tensor *made = w ? tn_mul_scalar(w, factor) : NULL;
    out[0] = tn_exp(w ? tn_mul(x, made) : tn_mul_scalar(x, factor));
    out[1] = w ? tn_add(x, w) : x;
    tn_op_context_save(call, out[0]);
    tn_op_context_save(call, made);
    if (tn_op_context_needs_grad(call, 1))
        tn_op_context_save(call, x);
    return TN_OK;
}

static tn_status scaled_backward(tn_op_context *call, tn_tensor *const *grad,
                                 tn_tensor **out)
{
    counts.backwards++;
    double factor = tn_op_context_value(call, 2).of.f;
    tn_tensor *made = tn_op_context_saved(call, 1), *g = NULL;
    if (grad[0]) {
        g = tn_mul(grad[0], tn_op_context_saved(call, 0));
        out[0] = made ? tn_mul(g, made) : tn_mul_scalar(g, factor);
    }
    if (grad[1])
        out[0] = out[0] ? tn_add(out[0], grad[1]) : grad[1];
    if (!tn_op_context_needs_grad(call, 1))
        return TN_OK;
    if (g)
        out[1] = tn_mul_scalar(tn_mul(g, tn_op_context_saved(call, 2)),
                               factor);
    if (grad[1])
        out[1] = out[1] ? tn_add(out[1], grad[1]) : grad[1];
    return TN_OK;
}

/* ---- results and gradients ----------------------------------------------- */

static tn_tensor *call_cube(tn_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tn_call("cube", inputs[0]);
}

static tn_tensor *call_scaled(tn_tensor *const *inputs, int count,
                              void *context)
{
    tn_value value[3] = {{.kind = TN_VALUE_TENSOR, .of.tensor = inputs[0]},
                         {.kind = count > 1 ? TN_VALUE_TENSOR : TN_VALUE_NONE},
                         {.kind = TN_VALUE_FLOAT, .of.f = 0.5}};
    if (count > 1)
        value[1].of.tensor = inputs[1];
    tn_tensor *out[2] = {NULL};
    tn_op_call(tn_op_find("scaled_exp"), value, 3, out, 2);
    return context ? out[1] : tn_mul(out[0], out[1]);
}

static void test_values(void)
{
    const tn_op *op = add_op("cube(x)", cube, cube_backward);
    ok(op && tn_op_find("cube") == op, "an operator in C is found by name");
    is_str(tn_op_signature(op), "cube(x)", "with its signature");
    ok(tn_op_is_differentiable(op), "and is differentiable");
    tn_tensor *x = leaf(2, -3), *y = tn_call("cube", x);
    ok(is(y, 8, -27), "tn_call runs it");
    char *text = tn_tensor_text(y);
    ok(text && strstr(text, "grad_fn=<CubeBackward>"), "its results name it");
    free(text);
    tn_backward(tn_sum(y));
    ok(is(tn_tensor_grad(x), 12, 27), "its gradient is the registered one");
    ok(is(tn_op_apply(op, &x, NULL), 8, -27), "tn_op_apply runs it too");
    is_int(tn_gradgradcheck(call_cube, &x, 1, NULL), TN_OK,
           "the gradient of its saved values is right too");
    tn_tensor *g = NULL;
    tn_grad(tn_sum(tn_call("cube", x)), &x, 1, &g, .create_graph = true);
    tn_grad(tn_sum(g), &x, 1, &g);
    ok(is(g, 12, -18), "the second derivative of x^3 is 6 x");
    TN_NO_GRAD { y = tn_call("cube", x); }
    ok(!tn_tensor_requires_grad(y), "nothing is recorded under TN_NO_GRAD");

    tn_op_rule rule = {
        .size = sizeof rule,
        .signature = "scaled_exp(x, w?; factor: float = 2) -> y, z",
        .doc = "exp(x w factor), x + w",
        .forward = scaled, .backward = scaled_backward,
        .bytes = sizeof(int), .release = release_data};
    op = tn_op_register(&rule);
    is_str(tn_op_doc(op), "exp(x w factor), x + w", "a sentence is kept");
    is_int(tn_op_arg_count(op), 3, "there are three arguments");
    ok(tn_op_arg_at(op, 1)->optional && tn_op_arg_at(op, 2)->keyword,
       "of these kinds");
    tn_tensor *in[2] = {leaf(0.3, -0.7), leaf(1.1, 0.4)};
    is_int(tn_gradcheck(call_scaled, in, 2, NULL), TN_OK,
           "several results and options: gradients agree with differences%s",
           tn_error() ? tn_error() : "");
    is_int(tn_gradgradcheck(call_scaled, in, 1, NULL), TN_OK,
           "with an argument left out, in both positions");
    is_int(tn_gradcheck(call_scaled, in, 2, in), TN_OK,
           "where one result is used alone");
    is_str(tn_error(), NULL, "no error%s", "");
    tn_value one = {.kind = TN_VALUE_TENSOR, .of.tensor = in[0]};
    tn_tensor *out[2];
    is_int(tn_op_call(op, &one, 1, out, 2), 2,
           "an argument left out has its default");
    ok(fabs(tn_item(tn_select(out[0], 0, 0)) - exp(0.6)) < 1e-15,
       "with its value");
    tn_error_clear();
    ok(counts.released > 0 && counts.released <= counts.forwards,
       "data of a call is given back (%d of %d)", counts.released,
       counts.forwards);
}

/* ---- shared tensors ------------------------------------------------------ */

static tn_status same(tn_op_context *call, tn_tensor **out)
{
    out[0] = tn_op_context_tensor(call, 0);
    return TN_OK;
}

static tn_status twice(tn_op_context *call, tn_tensor *const *grad,
                       tn_tensor **out)
{
    (void)call;
    out[0] = tn_mul_scalar(grad[0], 2);
    return TN_OK;
}

static void test_sharing(void)
{
    add_op("same(x)", same, twice);
    tn_tensor *x = leaf(1, 2), *y = tn_call("same", x);
    ok(y != x && tn_tensor_is_alias(x, y), "an argument may be the result");
    tn_backward(tn_sum(y));
    ok(is(tn_tensor_grad(x), 2, 2), "the operator has its own gradient");
    ok(!tn_mul_scalar_(y, 2),
       "a result that shares a leaf's memory is not changed in place");
    is_error(TN_ERR_STATE,
             "mul_: input shares its memory with a leaf that requires a "
             "gradient: change it under TN_NO_GRAD, or change a tn_clone() of "
             "it",
             "a result that is an argument");
    tn_tensor *z = tn_exp(x), *w = tn_call("same", z);
    ok(!tn_mul_scalar_(w, 2), "nor where it is of what was made");
    tn_error_clear();
    tn_mul_scalar_(z, 2);
    ok(!tn_add(w, w), "and a change of the argument is noticed");
    is_error(TN_ERR_STATE,
             "add: the output of same was changed in place through another "
             "tensor that shares its memory, and its gradient does not "
             "include that: change a tn_clone() of the other tensor instead",
             "a change of the argument");
    x = leaf(1, 2);
    y = tn_mul_scalar(x, 1);
    z = tn_call("cube", y);
    tn_mul_scalar_(y, 2);
    ok(tn_backward(tn_sum(z)) < 0, "a saved value that changed is noticed");
    is_error(TN_ERR_STATE,
             "backward: a value that cube saved for its gradient was changed "
             "in place since by mul_ (version 1, saved at 0): change a "
             "tn_clone() of it instead",
             "a saved value that changed");
}

static tn_status cube_block(tn_tensor *const *in, int count, tn_tensor **out,
                            int out_count, void *context)
{
    (void)count, (void)out_count, (void)context;
    out[0] = tn_call("cube", tn_call("cube", in[0]));
    return TN_OK;
}

static void test_recompute(void)
{
    tn_tensor *x = leaf(2, -1), *y = NULL;
    tn_recompute(cube_block, NULL, &x, 1, &y, 1);
    tn_backward(tn_sum(y));
    ok(is(tn_tensor_grad(x), 2304, 9), "its saved values can be recomputed");
}

/* ---- errors -------------------------------------------------------------- */

static tn_status fails(tn_op_context *call, tn_tensor **out)
{
    out[0] = tn_op_context_tensor(call, 0);
    return TN_ERR_ARGUMENT;
}

static tn_status forgets(tn_op_context *call, tn_tensor **out)
{
    (void)call, (void)out;
    return TN_OK;
}

static tn_status bad_shape(tn_op_context *call, tn_tensor *const *grad,
                           tn_tensor **out)
{
    (void)call, (void)grad;
    out[0] = tn_zeros(tn_dims(3), .dtype = TN_F64);
    return TN_OK;
}

static tn_status bad_number(tn_op_context *call, tn_tensor *const *grad,
                            tn_tensor **out)
{
    (void)grad;
    out[0] = tn_op_context_saved(call, 1);
    return TN_OK;
}

static void test_mistakes(void)
{
    static const struct {
        const char *signature, *message;
    } wrong[] = {
        {"", "op_register: \"\": column 1: a signature is name(arguments)"},
        {"f", "op_register: \"f\": column 2: a signature is name(arguments)"},
        {"f(x", "op_register: \"f(x\": column 4: expected a comma or ')'"},
        {"f(x, x)",
         "op_register: \"f(x, x)\": column 7: this name is given twice"},
        {"f(x: what)",
         "op_register: \"f(x: what)\": column 10: expected a kind: tensor, "
         "number, int, float, bool, dims, string, dtype or device"},
        {"f(x; n: int = a)",
         "op_register: \"f(x; n: int = a)\": column 16: a default is a number, "
         "true, false or a \"text\""},
        {"f(x; n: int = true)",
         "op_register: \"f(x; n: int = true)\": column 19: the default is of "
         "no kind that the argument takes"},
        {"f(x; n: int = 9223372036854775808)",
         "op_register: \"f(x; n: int = 9223372036854775808)\": column 34: the "
         "default is outside the range of int64"},
        {"f(x; n: float = 1e400)",
         "op_register: \"f(x; n: float = 1e400)\": column 22: the default is "
         "outside the range of float64"},
        {"f(x; n: int = 1.5)",
         "op_register: \"f(x; n: int = 1.5)\": column 18: the argument takes "
         "no such number"},
        {"f(x) ->", "op_register: \"f(x) ->\": column 8: the names of the "
                    "results follow a '->'"},
        {"f(x) y", "op_register: \"f(x) y\": column 6: the signature ends "
                   "here"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ok(!add_op(wrong[i].signature, same, NULL), "\"%s\" is refused",
           wrong[i].signature);
        is_error(TN_ERR_FORMAT, wrong[i].message, wrong[i].signature);
    }
    ok(!add_op("relu(x)", same, NULL), "a name of the table is taken");
    is_error(TN_ERR_ARGUMENT, "op_register: an operator named relu exists "
                              "already; choose another name",
                              "a name of the table");
    ok(!add_op("cube(x)", same, NULL), "and one of the program's");
    tn_error_clear();
    ok(!add_op("f(x)", NULL, NULL), "a forward is wanted");
    is_error(TN_ERR_ARGUMENT, "op_register: the rule has no forward",
             "no forward");

    tn_tensor *x = leaf(1, 2);
    add_op("t_fails(x)", fails, twice);
    ok(!tn_call("t_fails", x), "a forward may fail");
    is_error(TN_ERR_ARGUMENT, "t_fails: its forward failed without an error",
             "a forward");
    add_op("t_forgets(x)", forgets, NULL);
    ok(!tn_call("t_forgets", x), "a result is wanted");
    is_error(TN_ERR_ARGUMENT, "t_forgets: its forward did not set result 0",
             "no result");
    add_op("t_shape(x)", same, bad_shape);
    ok(tn_backward(tn_sum(tn_call("t_shape", x))) < 0,
       "a gradient has its argument's shape");
    char text[256];
    const char *device = tn_device_name(tn_device_current());
    snprintf(text, sizeof text,
             "backward of t_shape: backward returned a gradient of shape (3,) "
             "on %s for x, which has shape (2,) on %s", device, device);
    is_error(TN_ERR_SHAPE, text, "a gradient's shape");
    add_op("t_number(x)", same, bad_number);
    ok(tn_backward(tn_sum(tn_call("t_number", x))) < 0,
       "a value that was not saved is NULL");
    is_error(TN_ERR_ARGUMENT,
             "backward of t_number: saved value 1 does not exist: forward "
             "saved 0 values, with indices from 0",
             "what was not saved");
    add_op("t_constant(x)", same, NULL);
    ok(!tn_tensor_requires_grad(tn_call("t_constant", x)),
       "without backward no gradient flows");
    ok(!tn_call("cube", NULL), "an argument is wanted");
    tn_error_clear();
}

static void test_memory(void)
{
    int64_t live = 0;
    for (int i = 0; i < 20; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[2] = {leaf(0.3, -0.7), leaf(1.1, 0.4)};
        tn_tensor *y = call_scaled(in, 2, NULL);
        if (i & 1)
            tn_backward(tn_sum(tn_call("cube", y)));
        tn_scope_close(scope);
        if (i == 2)
            live = tn__memory_live();
    }
    is_int(tn__memory_live(), live, "calls leave nothing behind");
    int failures = 0, wrong = 0;
    for (int n = 1; n < 2000; n++) {
        int64_t before = tn__memory_count();
        tn__memory_fail_at(n);
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[2] = {leaf(0.3, -0.7), leaf(1.1, 0.4)};
        tn_backward(tn_sum(tn_call("cube", call_scaled(in, 2, NULL))));
        tn_scope_close(scope);
        bool reached = tn__memory_count() - before >= n || tn_error();
        tn__memory_fail_at(0);
        wrong += tn_error() && tn_error_code() != TN_ERR_MEMORY;
        tn_error_clear();
        if (!reached)
            break;
        failures++;
    }
    ok(failures > 0 && !wrong, "%d allocations that fail give that error",
       failures);
}

int main(void)
{
    plan_later();
    test_values();
    test_sharing();
    test_recompute();
    test_mistakes();
    test_memory();
    return done_testing();
}
