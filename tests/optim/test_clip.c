/* Clipping of large gradients. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"

static tn_tensor *with_grad(tn_dtype dtype, float a, float b)
{
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(2), .dtype = dtype));
    tn_tensor *g =
        tn_tensor_from_array((float[]){a, b}, TN_F32, tn_dims(2));
    tn_tensor_set_grad(p, tn_to_dtype(g, dtype));
    return p;
}

static double grad_at(tn_tensor *p, int i)
{
    return tn_item(tn_narrow(tn_tensor_grad(p), 0, i, 1));
}

static void test_norm(void)
{
    tn_tensor *p[] = {with_grad(TN_F32, 3, 0), with_grad(TN_F64, 0, -4),
                      tn_requires_grad(tn_zeros(tn_dims(2)))};
    tn_parameter_list *list = tn_parameters_from(p, 3);
    int64_t before = tn_scope_count();
    double norm = tn_clip_grad_norm(list, 10);
    is_int(tn_scope_count(), before, "clipping leaves no object behind");
    is_double_near(norm, 5, 1e-12, "the norm over all gradients");
    is_double_near(grad_at(p[0], 0), 3, 0, "a smaller norm is not changed");
    is_double_near(tn_clip_grad_norm(list, 1), 5, 1e-12,
                   "the norm as it was is given");
    is_double_near(grad_at(p[0], 0), 0.6, 1e-6, "a larger one is scaled");
    is_double_near(grad_at(p[1], 1), -0.8, 1e-6,
                   "by the same factor in every gradient");
    is_double_near(grad_at(p[1], 0), 0, 0, "zeros stay");
    ok(!tn_tensor_grad(p[2]), "where there is no gradient none is made");

    /* 300^2 is beyond float16 */
    tn_tensor *half = with_grad(TN_F16, 300, 400);
    norm = tn_clip_grad_norm(tn_parameters_from(&half, 1), 100);
    is_double_near(norm, 500, 1e-3, "half types are summed in float32");
    is_double_near(grad_at(half, 1), 80, 0.1, "and scaled");

    tn_tensor *nan = with_grad(TN_F32, NAN, 1);
    norm = tn_clip_grad_norm(tn_parameters_from(&nan, 1), 1);
    ok(isnan(norm) && !tn_error(), "a NaN shows in the norm, without error");
    is_double_near(tn_clip_grad_norm(tn_parameters_from(&p[2], 1), 1), 0, 0,
                   "the norm of no gradients is 0");
}

static void test_value(void)
{
    tn_tensor *p = with_grad(TN_F32, -7, 0.25f);
    is_int(tn_clip_grad_value(tn_parameters_from(&p, 1), 0.5), TN_OK,
           "values are clipped");
    is_double_near(grad_at(p, 0), -0.5, 0, "elements are clipped to the bound");
    is_double_near(grad_at(p, 1), 0.25, 0, "those within stay");
}

static void test_mistakes(void)
{
    tn_tensor *p = with_grad(TN_F32, 3, 4);
    tn_parameter_list *list = tn_parameters_from(&p, 1);
    ok(isnan(tn_clip_grad_norm(list, -1)), "a negative norm is refused");
    is_str(tn_error(), "clip_grad_norm: max_norm is -1; it must be at least 0",
           "and its message");
    ok(isnan(tn_clip_grad_norm(list, 1)),
       "nothing is clipped while an error is pending");
    tn_error_clear();
    is_double_near(grad_at(p, 0), 3, 0, "and nothing is changed");
    ok(tn_clip_grad_value(list, NAN) < 0, "a bound that is no number");
    is_str(tn_error(), "clip_grad_value: value is nan; it must be at least 0",
           "and its message");
    tn_error_clear();
    ok(isnan(tn_clip_grad_norm(NULL, 1)), "no list");
    is_str(tn_error(), "clip_grad_norm: parameters is NULL",
           "and its message");
    tn_error_clear();
}

/* As PyTorch has it: a norm that is NaN spoils all gradients, and is not passed over. */
static void test_nan(void)
{
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(2)));
    tn_tensor *q = tn_requires_grad(tn_zeros(tn_dims(1)));
    tn_tensor_set_grad(p, tn_tensor_from_array((float[]){NAN, 1}, TN_F32,
                                               tn_dims(2)));
    tn_tensor_set_grad(q, tn_ones(tn_dims(1)));
    tn_clip_grad_norm(tn_parameters_from((tn_tensor *[]){p, q}, 2), 1);
    ok(isnan(tn_item(tn_narrow(tn_tensor_grad(p), 0, 1, 1))) &&
           isnan(tn_item(tn_tensor_grad(q))),
       "a NaN in one gradient is one in the norm, and so in all");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_norm();
    test_value();
    test_nan();
    test_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
