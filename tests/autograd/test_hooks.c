/* Tests hooks that run when a gradient is computed, and tn_retain_grad. */
#include <base/memory.h>
#include <tenon/hook.h>
#include <tenon/op.h>
#include <tenon/ops.h>
#include <tenon/random.h>
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

/* ---- hooks --------------------------------------------------------------- */

/* One letter for each hook that ran, in order. */
static char ran[32];

static tn_tensor *look(tn_tensor *grad, void *letter)
{
    (void)grad;
    strncat(ran, letter, sizeof ran - strlen(ran) - 1);
    return NULL;
}

static tn_tensor *times(tn_tensor *grad, void *factor)
{
    strcat(ran, "t");
    return tn_mul_scalar(grad, *(double *)factor);
}

static double ten = 10;

static void test_tensor_hooks(void)
{
    tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3);
    ran[0] = '\0';
    tn_tensor_register_hook(y, look, "a");
    tn_hook *hook = tn_tensor_register_hook(y, times, &ten);
    tn_tensor_register_hook(y, look, "b");
    tn_tensor_register_hook(x, look, "x");
    tn_tensor *loss = tn_sum(tn_add(y, y));
    tn_backward(loss, .retain_graph = true);
    is_str(ran, "atbx", "hooks run in order, once for the whole gradient");
    ok(is(tn_tensor_grad(x), 60, 60), "a hook's result replaces the gradient");

    tn_tensor *g[2] = {NULL};
    tn_grad(loss, ((tn_tensor *[]){y, x}), 2, g, .retain_graph = true);
    ok(is(g[0], 20, 20) && is(g[1], 60, 60), "in tn_grad too, of the hook's "
                                             "own tensor as well");
    ran[0] = '\0';
    tn_hook_remove(hook);
    tn_hook_remove(hook);
    tn_hook_remove(NULL);
    tn_tensor_set_grad(x, NULL);
    tn_backward(loss);
    is_str(ran, "abx", "a hook that is removed runs no more");
    ok(is(tn_tensor_grad(x), 6, 6), "and changes nothing");
}

static void test_leaf_hooks(void)
{
    tn_tensor *x = leaf(1, 2);
    ran[0] = '\0';
    tn_tensor_register_hook(x, times, &ten);
    tn_backward(tn_sum(tn_mul(x, x)));
    ok(is(tn_tensor_grad(x), 20, 40),
       "a leaf's hook changes what is accumulated");
    tn_backward(tn_sum(x));
    ok(is(tn_tensor_grad(x), 30, 50), "in each backward its own part");
    is_str(ran, "tt", "and runs once a walk");
}

static void test_handles(void)
{
    tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3);
    ran[0] = '\0';
    tn_scope *scope = tn_scope_open();
    tn_tensor_register_hook(y, look, "y");
    tn_hook *hook = tn_keep(tn_tensor_register_hook(y, look, "z"));
    tn_scope_close(scope);
    tn_tensor *loss = tn_sum(y);
    tn_backward(loss, .retain_graph = true);
    is_str(ran, "yz", "a hook outlives its handle");
    tn_hook_remove(hook);
    tn_drop(hook);
    tn_backward(loss);
    is_str(ran, "yzy", "a handle that was kept removes its hook");
}

static void test_in_place(void)
{
    tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3);
    ran[0] = '\0';
    tn_tensor_register_hook(y, times, &ten);
    tn_mul_scalar_(y, 2);
    tn_backward(tn_sum(y));
    is_str(ran, "t", "a hook belongs to the tensor before the in-place change");
    ok(is(tn_tensor_grad(x), 60, 60), "and gets the gradient of that");
}

static tn_tensor *tell_path(tn_tensor *grad, void *path)
{
    (void)grad;
    *(const tn_path **)path = tn_path_current();
    return NULL;
}

/* The error of a hook contains the path of the module that owns the tensor. */
static void test_paths(void)
{
    const tn_path *inside = tn_path_join(NULL, "encoder"), *outside = NULL;
    const tn_path *caller = tn_path_join(NULL, "trainer");
    const tn_path *of_leaf = NULL, *of_result = NULL;
    tn_tensor *x = leaf(1, 2);
    outside = tn_path_enter(inside);
    tn_tensor *y = tn_mul_scalar(x, 3);
    tn_path_enter(caller);
    tn_tensor_register_hook(x, tell_path, &of_leaf);
    tn_tensor_register_hook(y, tell_path, &of_result);
    is_int(tn_backward(tn_sum(y)), TN_OK, "backward from another module");
    is_str(tn_path_text(of_result), "encoder",
           "a hook runs within the module that made its tensor");
    is_str(tn_path_text(of_leaf), "trainer",
           "one of a leaf within the caller's");
    ok(tn_path_enter(outside) == caller, "which is where the walk ends");
}

/* First stride of the gradient that was passed to the hook last. */
static int64_t passed_stride;

static tn_tensor *measure(tn_tensor *grad, void *unused)
{
    (void)unused;
    passed_stride = tn_tensor_strides(grad)[0];
    return NULL;
}

/* All elements of a sum's input have the same gradient. The backward pass
 * represents it as one number with stride 0. */
static void test_spread(void)
{
    tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3), *asked[1];
    tn_tensor *made[] = {tn_sum(y), tn_mean(y)};
    const double want[] = {1, 0.5};
    tn_tensor_register_hook(y, measure, NULL);
    for (int i = 0; i < 2; i++) {
        passed_stride = -1;
        tn_grad(made[i], &y, 1, asked, .retain_graph = true);
        is_int(passed_stride, 0, "a gradient passes as one number");
        ok(tn_tensor_strides(asked[0])[0] == 1 &&
               is(asked[0], want[i], want[i]),
           "and is complete when it is requested");
    }
    tn_tensor *z = leaf(1, 2);
    tn_backward(tn_mean(z));
    ok(tn_tensor_strides(tn_tensor_grad(z))[0] == 1 &&
           is(tn_tensor_grad(z), 0.5, 0.5),
       "or a leaf has it");
    tn_backward(tn_add(tn_sum(z), tn_mean(z)));
    ok(is(tn_tensor_grad(z), 2, 2), "where it adds up");
    double numbers[] = {1, 2, 3, 4};
    tn_tensor *m = tn_requires_grad(
        tn_tensor_from_array(numbers, TN_F64, tn_dims(2, 2)));
    tn_tensor *w = tn_tensor_from_array(numbers, TN_F64, tn_dims(2));
    double got[4] = {0};
    tn_backward(tn_sum(tn_mul(tn_mean(m, .dim = 0), w)));
    tn_tensor_to_array(tn_tensor_grad(m), got, sizeof got);
    ok(got[0] == 0.5 && got[1] == 1 && got[2] == 0.5 && got[3] == 1,
       "each column has its own gradient");
}

/* ---- hooks that run when a leaf's gradient is complete ------------------- */

static tn_status descend(tn_tensor *x, void *rate)
{
    strcat(ran, "d");
    tn_sub_(x, tn_mul_scalar(tn_tensor_grad(x), *(double *)rate));
    return tn_tensor_set_grad(x, NULL);
}

static tn_status give_up(tn_tensor *x, void *context)
{
    (void)context;
    return tn_error_set(TN_ERR_ARGUMENT, "not with %d dimensions",
                        tn_tensor_ndim(x));
}

static void test_accumulated(void)
{
    tn_tensor *x = leaf(1, 2), *w = leaf(3, 4);
    double rate = 0.5;
    ran[0] = '\0';
    tn_tensor_register_post_accumulate_grad_hook(x, descend, &rate);
    tn_hook *hook =
        tn_tensor_register_post_accumulate_grad_hook(w, descend, &rate);
    is_int(tn_backward(tn_sum(tn_mul(x, w))), TN_OK, "backward");
    is_str(ran, "dd", "each leaf's hook runs when it has its gradient");
    ok(is(x, -0.5, 0), "a hook may step");
    ok(is(w, 2.5, 3), "with gradients that were made before");
    ok(!tn_tensor_grad(x) && !tn_tensor_grad(w), "and forget the gradient");
    tn_tensor *g = NULL;
    tn_grad(tn_sum(tn_mul(x, w)), &x, 1, &g);
    is_str(ran, "dd", "tn_grad adds to no leaf and runs none");
    tn_hook_remove(hook);
    tn_backward(tn_sum(w));
    is_str(ran, "dd", "nor does one that is removed");

    tn_tensor_register_post_accumulate_grad_hook(w, give_up, NULL);
    tn_tensor *plain = leaf(5, 6);
    ok(tn_backward(tn_sum(tn_mul(tn_mul_scalar(plain, 2), w))) < 0,
       "a hook that fails ends tn_backward");
    is_error(TN_ERR_ARGUMENT, "not with 1 dimensions", "its own error");
    ok(tn_tensor_grad(w), "its leaf has the gradient");
    ok(!tn_tensor_grad(plain), "the others are as they were");

    tn_tensor *y = NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *gone = leaf(1, 1);
    tn_tensor_register_post_accumulate_grad_hook(gone, give_up, NULL);
    y = tn_scope_result(scope, tn_sum(gone));
    is_int(tn_backward(y), TN_OK, "the hook of a freed leaf no longer runs");
}

static tn_status say(tn_tensor *x, void *letter)
{
    strncat(ran, tn_tensor_grad(x) ? letter : "?",
            sizeof ran - strlen(ran) - 1);
    return TN_OK;
}

/* Computes x * a, with x * a used twice, then * b, and checks the order of
 * hooks. */
static void test_accumulated_order(void)
{
    tn_tensor *x = leaf(1, 2), *a = leaf(3, 4), *b = leaf(5, 6);
    tn_tensor_register_post_accumulate_grad_hook(x, say, "x");
    tn_tensor_register_post_accumulate_grad_hook(a, say, "a");
    tn_tensor_register_post_accumulate_grad_hook(b, say, "b");
    tn_tensor *p = tn_mul(x, a), *q = tn_mul(p, a), *r = tn_mul(q, b);
    tn_tensor_register_hook(p, look, "P");
    tn_tensor_register_hook(q, look, "Q");
    tn_tensor_register_hook(r, look, "R");
    tn_tensor *loss = tn_sum(r);
    ran[0] = '\0';
    tn_backward(loss, .retain_graph = true);
    ok(strcmp(ran, "RQbPax") == 0 || strcmp(ran, "RQbPxa") == 0 ||
           strcmp(ran, "RbQPxa") == 0 || strcmp(ran, "RbQPax") == 0,
       "a leaf's hook runs after its last use, before earlier operators: %s",
       ran);
    ok(is(tn_tensor_grad(a), 2 * 3 * 5, 2 * 2 * 4 * 6),
       "with the whole gradient of a leaf that is used twice");
    ran[0] = '\0';
    tn_backward(loss, .create_graph = true);
    is_int((int)strlen(ran), 6, "the next backward runs each again: %s", ran);
    ok(is(tn_tensor_grad(b), 2 * 1 * 9, 2 * 2 * 16), "and adds");
    tn_tensor_set_grad(x, NULL); /* breaks the cycle: the gradients refer to the
                                  * leaves */
    tn_tensor_set_grad(a, NULL);
    tn_tensor_set_grad(b, NULL);

    /* sign passes no gradient to its input. */
    tn_tensor *w = leaf(1, 2);
    tn_tensor_register_post_accumulate_grad_hook(w, say, "w");
    ran[0] = '\0';
    tn_backward(tn_sum(tn_add(tn_sign(tn_mul_scalar(w, 3)),
                              tn_mul_scalar(w, 2))));
    is_str(ran, "w", "a use through which nothing comes is not waited for");
    ok(is(tn_tensor_grad(w), 2, 2), "nor is it counted");
    ran[0] = '\0';
    tn_backward(w, .gradient = leaf(7, 8));
    is_str(ran, "w", "a root that is a leaf has its hook run");
}

/* Tracks the maximum number of leaves that hold a gradient at any time during
 * backward. */
enum { LAYERS = 8, WIDE = 128 };
static struct {
    tn_tensor *w[LAYERS];
    double rate;
    int alive, steps;
} deep;

static tn_status step_deep(tn_tensor *x, void *context)
{
    (void)context;
    int alive = 0;
    for (int i = 0; i < LAYERS; i++)
        alive += tn_tensor_grad(deep.w[i]) != NULL;
    deep.alive = alive > deep.alive ? alive : deep.alive;
    deep.steps++;
    return descend(x, &deep.rate);
}

/* Runs a training step of a deep network and returns the peak memory in
 * bytes. */
static int64_t peak_of_step(bool in_backward)
{
    tn_scope *scope = tn_scope_open();
    tn_manual_seed(1);
    tn_hook *hook[LAYERS] = {NULL};
    for (int i = 0; i < LAYERS; i++) {
        deep.w[i] = tn_requires_grad(
            tn_mul_scalar(tn_randn(tn_dims(WIDE, WIDE)), 0.05));
        if (in_backward)
            hook[i] = tn_tensor_register_post_accumulate_grad_hook(
                deep.w[i], step_deep, NULL);
    }
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory(tn_device_current(), &before);
    tn_memory_reset_peak(tn_device_current());
    tn_tensor *x = tn_ones(tn_dims(1, WIDE));
    for (int i = 0; i < LAYERS; i++)
        x = tn_tanh(tn_matmul(x, deep.w[i]));
    tn_backward(tn_sum(x));
    TN_NO_GRAD {
        for (int i = 0; i < LAYERS && !in_backward; i++)
            descend(deep.w[i], &deep.rate);
    }
    tn_memory(tn_device_current(), &after);
    for (int i = 0; i < LAYERS; i++)
        tn_hook_remove(hook[i]);
    double sum = 0;
    for (int i = 0; i < LAYERS; i++)
        sum += tn_item(tn_sum(tn_abs(deep.w[i])));
    note("%s: peak %lld bytes, weights %.17g",
         in_backward ? "in backward" : "after it",
         (long long)(after.peak_bytes - before.allocated_bytes), sum);
    static double other;
    if (in_backward)
        ok(sum == other, "the weights are those of steps after backward");
    other = sum;
    tn_scope_close(scope);
    return after.peak_bytes - before.allocated_bytes;
}

static void test_optimizer_in_backward(void)
{
    const int64_t one = INT64_C(4) * WIDE * WIDE;
    deep.rate = 0.1;
    ran[0] = '\0';
    int64_t together = peak_of_step(false);
    ran[0] = '\0';
    int64_t apart = peak_of_step(true);
    is_int(deep.steps, LAYERS, "each leaf is stepped once");
    is_int(deep.alive, 1, "one gradient exists at a time");
    ok(together >= LAYERS * one, "gradients of all leaves at once: %lld bytes",
       (long long)together);
    ok(apart < 4 * one, "stepped and forgotten as they come: %lld bytes",
       (long long)apart);
}

/* ---- retained gradients -------------------------------------------------- */

static void test_retain(void)
{
    tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3);
    ok(!tn_tensor_grad(y) && !tn_tensor_retains_grad(y),
       "a tensor that is no leaf retains no gradient");
    is_int(tn_tensor_retain_grad(y), TN_OK,
           "unless tn_tensor_retain_grad is called");
    ok(tn_tensor_retains_grad(y), "as it says");
    is_int(tn_tensor_retain_grad(y), TN_OK,
           "a second tn_tensor_retain_grad changes nothing");
    tn_tensor_register_hook(y, times, &ten);
    tn_tensor *loss = tn_sum(tn_mul(y, y));
    tn_backward(loss, .retain_graph = true);
    ok(is(tn_tensor_grad(y), 60, 120), "it retains what its hooks return");
    tn_backward(loss, .retain_graph = true);
    ok(is(tn_tensor_grad(y), 120, 240), "the next backward adds to it");
    is_int(tn_tensor_set_grad(y, NULL), TN_OK, "it can be removed");
    tn_backward(loss);
    ok(is(tn_tensor_grad(y), 60, 120), "and is computed again");

    tn_tensor *z = tn_mul_scalar(x, 3);
    tn_tensor_retain_grad(z);
    tn_mul_scalar_(z, 2);
    tn_backward(tn_sum(tn_mul(z, z)));
    ok(is(tn_tensor_grad(z), 12, 24),
       "a tensor changed in place retains the gradient of its new value");
    is_int(tn_tensor_retain_grad(x), TN_OK, "nothing happens to a leaf");
    ok(!tn_tensor_retains_grad(x), "a leaf accumulates its gradient anyway");
}

/* ---- errors -------------------------------------------------------------- */

static tn_tensor *bad_shape(tn_tensor *grad, void *context)
{
    (void)context;
    return tn_sum(grad);
}

static tn_tensor *bad_luck(tn_tensor *grad, void *context)
{
    (void)context;
    return tn_reshape(grad, tn_dims(7));
}

static void test_mistakes(void)
{
    tn_tensor *x = leaf(1, 2), *plain = tn_zeros(tn_dims(2));
    ok(!tn_tensor_register_hook(plain, look, "a"), "no hook without a gradient");
    is_error(TN_ERR_STATE,
             "register_hook: x does not require a gradient: mark it, or its "
             "inputs, with tn_requires_grad()",
             "a hook on a constant");
    ok(!tn_tensor_register_hook(x, NULL, NULL), "no hook without a function");
    is_error(TN_ERR_ARGUMENT, "register_hook: hook is NULL", "no function");
    ok(!tn_tensor_register_hook(NULL, look, NULL), "no hook on NULL");
    is_error(TN_ERR_ARGUMENT, "register_hook: x is NULL", "no tensor");
    ok(tn_tensor_retain_grad(plain) < 0, "nothing to retain");
    is_error(TN_ERR_STATE,
             "retain_grad: x does not require a gradient: mark it, or its "
             "inputs, with tn_requires_grad()",
             "retaining what there is not");
    tn_tensor *y = tn_mul_scalar(x, 3);
    ok(!tn_tensor_register_post_accumulate_grad_hook(y, give_up, NULL),
       "a tensor that is no leaf accumulates nothing");
    is_error(TN_ERR_STATE,
             "register_post_accumulate_grad_hook: x was made by mul: only "
             "leaves accumulate gradients; use tn_tensor_register_hook",
             "a hook on gathering");

    tn_hook *hook = tn_tensor_register_hook(y, bad_shape, NULL);
    ok(tn_backward(tn_sum(y), .retain_graph = true) < 0,
       "a gradient of another shape is refused");
    char text[256];
    const char *device = tn_device_name(tn_device_current());
    snprintf(text, sizeof text,
             "a hook on the output of mul received a gradient that is float64 "
             "(2,) on %s and returned one that is float64 () on %s: they must "
             "be the same",
             device, device);
    is_error(TN_ERR_SHAPE, text, "a hook with another shape");
    tn_hook_remove(hook);
    tn_tensor_register_hook(y, bad_luck, NULL);
    ok(tn_backward(tn_sum(y)) < 0, "an error in a hook ends the walk");
    is_error(TN_ERR_SHAPE,
             "reshape: shape (2,) with 2 elements does not fit shape (7,)",
             "an error in a hook");
    ok(!tn_tensor_grad(x), "and no leaf has got anything");
}

static tn_tensor *changing;
static tn_hook *leaving;

static tn_tensor *leave_and_register(tn_tensor *grad, void *letter)
{
    look(grad, letter);
    tn_hook_remove(leaving);
    tn_tensor_register_hook(changing, look, "n");
    return NULL;
}

static void test_changing(void)
{
    tn_tensor *x = leaf(1, 2);
    changing = tn_mul_scalar(x, 3);
    tn_scope *scope = tn_scope_open();
    leaving = tn_tensor_register_hook(changing, leave_and_register, "a");
    tn_tensor_register_hook(changing, look, "b");
    tn_scope_close(scope);
    ran[0] = '\0';
    tn_backward(tn_sum(changing), .retain_graph = true);
    ok(strncmp(ran, "ab", 2) == 0,
       "after a hook that removes itself and registers another, the next one "
       "runs (%s)",
       ran);
    ran[0] = '\0';
    tn_backward(tn_sum(changing));
    is_str(ran, "bn", "the next time the one that left does not");
}

static tn_tensor *tells_graph(tn_tensor *grad, void *seen)
{
    *(int *)seen = tn_tensor_requires_grad(grad);
    return NULL;
}

/* If the incoming gradient requires a gradient, the gradient rule uses
 * differentiable operators instead of a faster kernel without a derivative. */
static void test_given_gradient(void)
{
    tn_tensor *x = leaf(1, 2), *with = leaf(3, 4), *slope = NULL;
    tn_tensor *y = tn_mul_scalar(x, 3);
    int seen = -1;
    tn_tensor_register_hook(y, tells_graph, &seen);
    tn_grad(y, &x, 1, &slope, .gradient = with, .retain_graph = true);
    ok(seen == 0 && is(slope, 9, 12) && !tn_tensor_requires_grad(slope),
       "a given gradient's graph is left out");
    tn_grad(y, &x, 1, &slope, .gradient = with, .create_graph = true);
    ok(seen == 1 && tn_tensor_requires_grad(slope),
       "unless one of the gradients is requested");
}

static void test_memory(void)
{
    int64_t live = 0;
    for (int i = 0; i < 20; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *x = leaf(1, 2), *y = tn_mul_scalar(x, 3);
        tn_tensor_register_hook(y, times, &ten);
        tn_hook_remove(tn_tensor_register_hook(x, times, &ten));
        tn_tensor_register_hook(x, times, &ten);
        tn_tensor_retain_grad(y);
        tn_backward(tn_sum(y));
        tn_scope_close(scope);
        if (i == 2)
            live = tn__memory_live();
        ran[0] = '\0';
    }
    is_int(tn__memory_live(), live, "hooks are freed with their tensors");
}

int main(void)
{
    plan_later();
    test_tensor_hooks();
    test_leaf_hooks();
    test_handles();
    test_in_place();
    test_paths();
    test_spread();
    test_accumulated();
    test_accumulated_order();
    test_optimizer_in_backward();
    test_retain();
    test_mistakes();
    test_given_gradient();
    test_changing();
    test_memory();
    return done_testing();
}
