/* In-place changes of memory that several tensors share, while gradients are
 * recorded. Values and gradients equal PyTorch's, first and second derivatives
 * agree with finite differences, and a change that would make a gradient wrong
 * is an error. */
#include <base/memory.h>
#include <tenon/autograd.h>
#include <tenon/op.h>
#include <tenon/ops.h>
#include "tap.h"

static const double x0[] = {0.5, -1.2, 2, 0.3, 1.5, -0.7}, w0[] = {1.3, 0.4};

static tn_tensor *constant(tn_dims_list shape)
{
    static const double numbers[] = {1, 2, 3, 4, 5, 6};
    return tn_tensor_from_array(numbers, TN_F64, shape);
}

static tn_tensor *zeros(tn_dims_list shape)
{
    return tn_zeros(shape, .dtype = TN_F64);
}

/* ---- cases --------------------------------------------------------------
 *
 * Each function of x (6 elements) and w (2) has its PyTorch code above it. */

/* y = x * 2; y[0] += 1; y[1:3] *= w; (y * y * c).sum() */
static tn_tensor *part(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_mul_scalar(x, 2);
    tn_add_scalar_(tn_select(y, 0, 0), 1);
    tn_mul_(tn_narrow(y, 0, 1, 2), w);
    return tn_sum(tn_mul(tn_square(y), constant(tn_dims(6))));
}

/* b = zeros(2, 6); b[0].copy_(x); b[1] = x * x; b[1, 2:4] = w;
 * (b * b * c).sum() */
static tn_tensor *rows(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *b = zeros(tn_dims(2, 6));
    tn_copy_(tn_select(b, 0, 0), x);
    tn_copy_(tn_select(b, 0, 1), tn_mul(x, x));
    tn_copy_(tn_narrow(tn_select(b, 0, 1), 0, 2, 2), w);
    return tn_sum(tn_mul(tn_square(b), constant(tn_dims(6))));
}

/* y = x * 2; v = y[1:3]; y.mul_(3); (v * v * w).sum() */
static tn_tensor *base(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_mul_scalar(x, 2), *v = tn_narrow(y, 0, 1, 2);
    tn_mul_scalar_(y, 3);
    return tn_sum(tn_mul(tn_square(v), w));
}

/* y = (x * 1).view(2, 3); v = y.t()[1]; v.sin_(); v.mul_(w); v.add_(w[0]);
 * (y * c.view(2, 3)).sum() + (v * v).sum() */
static tn_tensor *transposed(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_view(tn_mul_scalar(x, 1), tn_dims(2, 3));
    tn_tensor *v = tn_select(tn_transpose(y, 0, 1), 0, 1);
    tn_sin_(v);
    tn_mul_(v, w);
    tn_add_(v, tn_select(w, 0, 0));
    return tn_add(tn_sum(tn_mul(y, constant(tn_dims(2, 3)))),
                  tn_sum(tn_square(v)));
}

/* y = (x * 1).view(3, 2); a = y[:, 0]; b = y[:, 1]; a.mul_(w[0]);
 * b.add_(a * 2); (y * y * c.view(3, 2)).sum() */
static tn_tensor *siblings(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_view(tn_mul_scalar(x, 1), tn_dims(3, 2));
    tn_tensor *a = tn_select(y, 1, 0), *b = tn_select(y, 1, 1);
    tn_mul_(a, tn_select(w, 0, 0));
    tn_add_(b, tn_mul_scalar(a, 2));
    return tn_sum(tn_mul(tn_square(y), constant(tn_dims(3, 2))));
}

/* y = x * 1; for i in 1..5: y[i] += y[i - 1].clone() ** 2 * w[0];
 * (y * c).sum() */
static tn_tensor *recurrence(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_mul_scalar(x, 1);
    for (int i = 1; i < 6; i++)
        tn_add_(tn_select(y, 0, i),
                tn_mul(tn_square(tn_clone(tn_select(y, 0, i - 1))),
                       tn_select(w, 0, 0)));
    return tn_sum(tn_mul(y, constant(tn_dims(6))));
}

/* y = (x * 1).view(2, 3).t().sin(); v = y[1]; v.mul_(w); y[0].fill_(2);
 * (y * y).sum() */
static tn_tensor *filled(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_sin(
        tn_transpose(tn_view(tn_mul_scalar(x, 1), tn_dims(2, 3)), 0, 1));
    tn_mul_(tn_select(y, 0, 1), w);
    tn_fill_scalar_(tn_select(y, 0, 0), 2);
    return tn_sum(tn_square(y));
}

/* y = x * 1; y[0:2].mul_(w); v = y.view(3, 2); v[:, 1].mul_(3); z = y[1:4];
 * (z * z).sum() + (v * c.view(3, 2)).sum() */
static tn_tensor *later(tn_tensor *x, tn_tensor *w)
{
    tn_tensor *y = tn_mul_scalar(x, 1);
    tn_mul_(tn_narrow(y, 0, 0, 2), w);
    tn_tensor *v = tn_view(y, tn_dims(3, 2));
    tn_mul_scalar_(tn_select(v, 1, 1), 3);
    tn_tensor *z = tn_narrow(y, 0, 1, 3);
    return tn_add(tn_sum(tn_square(z)),
                  tn_sum(tn_mul(v, constant(tn_dims(3, 2)))));
}

/* Results of PyTorch 2.15 for x0 and w0. */
static const struct item {
    const char *name;
    tn_tensor *(*run)(tn_tensor *x, tn_tensor *w);
    double loss, gx[6], gw[2];
} items[] = {
    {"a part changed", part, 89.3488,
     {8, -32.448, 7.68, 9.6, 60, -33.6}, {29.952, 38.4}},
    {"constants that take up a gradient", rows, 66.3528,
     {1.5, -18.624, 12, 2.4, 82.5, -16.632}, {7.8, 3.2}},
    {"a base changed", base, 124.992,
     {0, -112.32, 57.6, 0, 0, 0}, {51.84, 144}},
    {"a view of a view", transposed, 15.0660881145527,
     {1, 1.0253665966390633, 3, 4, 0.2376202943593956, 6},
     {8.545926400522832, 8.376958896830992}},
    {"two views side by side", siblings, 222.175,
     {2.73, 0.4, 134.68, 44, 125.19, 38.4}, {352.7, 0}},
    {"a recurrence in place", recurrence, 275388.9673941902,
     {-2099913.6058225674, -1615318.9275558211, 710031.1769476137,
      91171.70925052621, 2930.9652711835206, 6}, {1588340.81333744, 0}},
    {"a part filled", filled, 10.869135328342074,
     {0, -1.1415327751314452, -0.7568024953079283, 0, 0.022579201289578757,
      -0.9854497299884603}, {2.258611830203619, 0.7959969986401783}},
    {"views made after a change", later, 9.1536,
     {1.3, -1.056, 7, 17.4, 5, 18}, {0.5, 3.168}},
};
enum { ITEMS = sizeof items / sizeof items[0] };

/* Creates x and w again as leaves. */
static void leaves(tn_tensor *out[2])
{
    out[0] = tn_requires_grad(tn_tensor_from_array(x0, TN_F64, tn_dims(6)));
    out[1] = tn_requires_grad(tn_tensor_from_array(w0, TN_F64, tn_dims(2)));
}

static double worst(tn_tensor *x, const double *want, int count)
{
    double got[6], most = 0;
    if (tn_tensor_to_array(x, got, (size_t)count * sizeof *got) < 0)
        return INFINITY;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(got[i] - want[i]) / fmax(1, fabs(want[i])));
    return most;
}

static tn_tensor *run_item(tn_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return ((const struct item *)context)->run(inputs[0], inputs[1]);
}

/* PyTorch sums in another order, so results may differ by a few units in the
 * last place. */
static void test_values(const struct item *item)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *leaf[2];
    leaves(leaf);
    tn_tensor *loss = item->run(leaf[0], leaf[1]);
    ok(worst(loss, &item->loss, 1) < 1e-13, "%s: PyTorch's value", item->name);
    is_int(tn_backward(loss), TN_OK, "%s: backward", item->name);
    ok(worst(tn_tensor_grad(leaf[0]), item->gx, 6) < 1e-13,
       "%s: PyTorch's gradient of x", item->name);
    ok(worst(tn_tensor_grad(leaf[1]), item->gw, 2) < 1e-13,
       "%s: PyTorch's gradient of w", item->name);
    is_str(tn_error(), NULL, "%s: no error", item->name);
    leaves(leaf);
    is_int(tn_gradgradcheck(run_item, leaf, 2, (void *)(uintptr_t)item), TN_OK,
           "%s: gradients of both orders agree with differences%s%s",
           item->name, tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

/* ---- attributes --------------------------------------------------------- */

static void test_attributes(void)
{
    tn_tensor *leaf[2];
    leaves(leaf);
    tn_tensor *b = zeros(tn_dims(2, 2)), *row = tn_select(b, 0, 1);
    tn_tensor *other = tn_select(b, 0, 0);
    ok(!tn_tensor_requires_grad(b), "zeros require no gradient");
    tn_copy_(row, leaf[1]);
    ok(tn_tensor_requires_grad(b) && !tn_tensor_is_leaf(b),
       "a history that a view recorded is the base's");
    ok(tn_tensor_requires_grad(row) && tn_tensor_requires_grad(other),
       "and so have all views");
    tn_tensor *g = NULL;
    tn_grad(tn_sum(tn_square(b)), &b, 1, &g);
    ok(worst(g, (double[]){0, 0, 2.6, 0.8}, 4) < 1e-15,
       "a base that was changed can be an input of tn_grad");
    tn_tensor *same = tn_detach(b);
    ok(!tn_tensor_requires_grad(same), "but not that of a detached tensor");
    is_int(tn_tensor_set_requires_grad(b, false), TN_ERR_STATE,
           "such a tensor is no leaf");
    tn_error_clear();
    char *text = tn_tensor_text(other);
    ok(text && strstr(text, "grad_fn=<AsStridedBackward>"),
       "a view names its base");
    free(text);
}

/* ---- errors -------------------------------------------------------------- */

static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

static void test_mistakes(void)
{
    tn_tensor *leaf[2];
    leaves(leaf);
    tn_tensor *x = leaf[0];
    ok(!tn_add_scalar_(tn_select(x, 0, 0), 1),
       "a view of a leaf is not changed");
    is_error(TN_ERR_STATE,
             "add_: input shares its memory with a leaf that requires a "
             "gradient: change it under TN_NO_GRAD, or change a tn_clone() of "
             "it",
             "a view of a leaf");
    TN_NO_GRAD { tn_add_scalar_(tn_select(x, 0, 0), 0); }
    is_str(tn_error(), NULL, "under TN_NO_GRAD it changes");

    tn_tensor *early = zeros(tn_dims(6)), *seen = tn_select(early, 0, 0);
    tn_requires_grad(early);
    ok(!tn_copy_(seen, tn_select(leaf[1], 0, 0)),
       "nor a view of a tensor that became a leaf since");
    tn_error_clear();

    tn_tensor *e = tn_exp(x);
    tn_mul_scalar_(tn_select(e, 0, 0), 2);
    ok(tn_backward(tn_sum(e)) < 0, "a saved value changed by a view is noticed");
    is_error(TN_ERR_STATE,
             "backward: a value that exp saved for its gradient was changed in "
             "place since by mul_ (version 1, saved at 0): change a tn_clone() "
             "of it instead",
             "a saved value changed by a view");

    tn_tensor *y = tn_mul_scalar(x, 2), *cut = tn_detach(y);
    ok(!tn_mul_(tn_narrow(cut, 0, 0, 2), leaf[1]),
       "a detached tensor records no gradient in memory that others share");
    is_error(TN_ERR_UNSUPPORTED,
             "mul_: input shares its memory with a tensor from which it was "
             "detached, or of which it was made a view while nothing was "
             "recorded: change a tn_clone() of it",
             "a detached tensor");
    tn_tensor *unseen = NULL;
    TN_NO_GRAD { unseen = tn_narrow(y, 0, 0, 2); }
    ok(!tn_mul_(unseen, leaf[1]), "nor does a view made without recording");
    tn_error_clear();
    tn_mul_scalar_(cut, 2);
    is_int(tn_backward(tn_sum(y)), TN_OK,
           "a detached tensor may change where no gradient comes in");
    ok(worst(tn_tensor_grad(x), (double[]){2, 2, 2, 2, 2, 2}, 6) < 1e-15,
       "and gradients know nothing of it");
}

/* ---- memory ------------------------------------------------------------- */

/* Makes a reference cycle: a node saves a value, and the history of the value's
 * memory leads back to the node. */
static void knot(bool walk)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *leaf[2];
    leaves(leaf);
    tn_tensor *y = tn_mul_scalar(leaf[0], 1);
    tn_tensor *v = tn_narrow(y, 0, 0, 2), *last = tn_narrow(y, 0, 5, 1);
    tn_sin_(v);
    tn_exp_(last);
    tn_tensor *loss = tn_sum(tn_mul(y, last));
    if (walk)
        tn_backward(loss);
    tn_scope_close(scope);
}

/* Changes of memory without an operator count as in-place changes, too. */
static void test_set_array(void)
{
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(2)));
    tn_tensor *w = tn_ones(tn_dims(2));
    tn_tensor *loss = tn_sum(tn_mul(x, w));
    const float v[] = {5, 5};
    tn_tensor_set_array(w, v, sizeof v);
    const bool refused = tn_backward(loss) < 0;
    ok(refused && strstr(tn_error(), "since by a copy from an array"),
       "a saved value that was set from an array is noticed: %s",
       tn_error() ? tn_error() : "(no error)");
    tn_error_clear();
}

static void test_memory(void)
{
    knot(true);
    knot(false);
    int64_t live = tn__memory_live();
    for (int i = 0; i < 20; i++)
        knot(i & 1);
    is_int(tn__memory_live(), live,
           "histories hold nothing after everything is freed");
    is_str(tn_error(), NULL, "and nothing went wrong");
}

static void test_failing_memory(void)
{
    int failures = 0, wrong = 0;
    for (int n = 1; n < 2000; n++) {
        int64_t before = tn__memory_count();
        tn__memory_fail_at(n);
        knot(true);
        bool reached = tn__memory_count() - before >= n || tn_error();
        tn__memory_fail_at(0);
        wrong += reached && tn_error_code() != TN_ERR_MEMORY;
        tn_error_clear();
        if (!reached)
            break;
        failures++;
        knot(true);
        wrong += tn_error() != NULL;
    }
    ok(failures > 0, "%d allocations were made to fail", failures);
    is_int(wrong, 0, "each gave an error, and the next step worked");
}

int main(void)
{
    plan_later();
    for (int i = 0; i < ITEMS; i++)
        test_values(&items[i]);
    test_attributes();
    test_mistakes();
    test_set_array();
    test_memory();
    test_failing_memory();
    return done_testing();
}
