/* Tests that gradients in float16 and bfloat16 equal those in float64 for the
 * same rounded inputs, to within one unit in the last place. If a gradient
 * depends on the result, the result is computed again in a wider dtype, because
 * the stored result is rounded or infinite. */
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include "tap.h"

static tn_tensor *run_pow(tn_tensor *x, tn_tensor *y) { return tn_pow(x, y); }
static tn_tensor *run_div(tn_tensor *x, tn_tensor *y) { return tn_div(x, y); }
static tn_tensor *run_logsumexp(tn_tensor *x, tn_tensor *y)
{
    return tn_logsumexp(tn_mul(x, y), tn_dims(1));
}
static tn_tensor *run_prod(tn_tensor *x, tn_tensor *y)
{
    return tn_prod(tn_div(x, y), .dim = 1);
}

static const struct {
    const char *name;
    tn_tensor *(*run)(tn_tensor *x, tn_tensor *y);
    double low, high; /* the range of x; y has one row, which all rows of x
                       * share */
    double y_low, y_high;
    int by; /* index of the input whose gradient is compared; the gradient of
             * the other input is rounded twice */
} calls[] = {
    {"pow by its base", run_pow, 0.5, 3, -4, 4, 0},
    {"pow by its exponent", run_pow, 0.5, 3, -4, 4, 1},
    {"pow by its exponent, results beyond float16", run_pow, 6, 7, 4, 6.5, 1},
    {"div", run_div, -8, 8, 1, 2, 1},
    {"logsumexp", run_logsumexp, 4, 12, 1, 1, 0},
    {"prod", run_prod, 0.5, 2, 1, 1, 0},
};

static tn_tensor *between(tn_dims_list shape, double low, double high)
{
    tn_tensor *x = tn_rand(shape, .dtype = TN_F64);
    return tn_add_scalar(tn_mul_scalar(x, high - low), low);
}

/* Returns a leaf of this dtype with the values of x rounded to the half
 * dtype. */
static tn_tensor *leaf(tn_tensor *x, tn_dtype half, tn_dtype dtype)
{
    return tn_requires_grad(tn_clone(tn_to_dtype(tn_to_dtype(x, half), dtype)));
}

/* Returns the largest difference in units in the last place of the half dtype,
 * among the elements that this dtype can represent. */
static double units(tn_tensor *got, tn_tensor *want, tn_dtype half)
{
    static double g[256], w[256];
    int digits = half == TN_F16 ? 10 : 7, exponent;
    double most = half == TN_F16 ? 65504 : 3.3e38, worst = 0;
    int count = (int)tn_tensor_numel(want);
    size_t bytes = sizeof *g * (size_t)count;
    if (tn_tensor_to_array(tn_to_dtype(got, TN_F64), g, bytes) ||
        tn_tensor_to_array(want, w, bytes))
        return INFINITY;
    for (int i = 0; i < count; i++) {
        frexp(w[i], &exponent);
        if (half == TN_F16 && exponent < -13)
            exponent = -13;
        double off = fabs(g[i] - w[i]) / ldexp(1, exponent - 1 - digits);
        if (fabs(w[i]) > most)
            off = g[i] == copysign(INFINITY, w[i]) ? 0 : INFINITY;
        worst = off > worst || isnan(off) ? off : worst;
    }
    return worst;
}

static void check(int k, tn_dtype half)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = between(tn_dims(12, 9), calls[k].low, calls[k].high);
    tn_tensor *y = between(tn_dims(1, 9), calls[k].y_low, calls[k].y_high);
    tn_tensor *grad[2], *weight = NULL;
    for (int wide = 0; wide < 2; wide++) {
        tn_dtype dtype = wide ? TN_F64 : half;
        tn_tensor *in[2] = {leaf(x, half, dtype), leaf(y, half, dtype)};
        tn_tensor *out = calls[k].run(in[0], in[1]);
        if (!wide) /* a small incoming gradient, so that gradients of large
                    * results are finite */
            weight = tn_to_dtype(tn_mul_scalar(tn_rand_like(out), 1e-3), half);
        tn_backward(out, .gradient = tn_to_dtype(weight, dtype));
        grad[wide] = tn_tensor_grad(in[calls[k].by]);
    }
    double off = grad[0] && grad[1] ? units(grad[0], grad[1], half) : INFINITY;
    ok(off <= 1, "%s in %s: within a unit of float64's: %.3g", calls[k].name,
       tn_dtype_name(half), off);
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    note("seed 6");
    tn_manual_seed(6);
    for (int k = 0; k < (int)(sizeof calls / sizeof *calls); k++) {
        check(k, TN_F16);
        check(k, TN_BF16);
    }
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
