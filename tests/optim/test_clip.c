/* Tests clipping of gradients by norm and by value. */
#include <math.h>
#include <string.h>
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

    /* 300^2 exceeds the range of float16 */
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

/* The expected numbers are those of torch.nn.utils.clip_grad_norm_ in PyTorch
 * 2.15 on a CPU. */
static void test_orders(void)
{
    static const struct {
        double order, norm;
        float a[3], b[4];
    } want[] = {
        {2, 0x1.5aae06p+2, {0x1.54452ap-4f, -0x1.e20ca6p-2f, 0x1.37ea12p-1f},
         {-0x1.1b8ef8p-4f, 0x1.3f00d8p+0f, 0x1.37ea12p-2f, 0}},
        {1, 0x1.419998p+3, {0x1.6ece54p-5f, -0x1.03d226p-2f, 0x1.503d22p-2f},
         {-0x1.31abfp-5f, 0x1.57e16ep-1f, 0x1.503d22p-3f, 0}},
        {(double)INFINITY, 0x1.2p+2,
         {0x1.999994p-4f, -0x1.22221ep-1f, 0x1.777772p-1f},
         {-0x1.55555p-4f, 0x1.7ffffap+0f, 0x1.777772p-2f, 0}},
        {3, 0x1.30d64cp+2, {0x1.82f9f8p-4f, -0x1.121bbap-1f, 0x1.62ba78p-1f},
         {-0x1.427af8p-4f, 0x1.6aca58p+0f, 0x1.62ba78p-2f, 0}},
        {0.5, 0x1.888d76p+5, {0x1.2c81ccp-7f, -0x1.a9b7ep-5f, 0x1.1376fap-4f},
         {-0x1.f4d852p-8f, 0x1.19b9aep-3f, 0x1.1376fap-5f, 0}},
        {0, 2, {0x1.ccccc0p-3f, -0x1.46665cp+0f, 0x1.a6665ap+0f},
         {-0x1.7ffff4p-3f, 0x1.affff2p+1f, 0x1.a6665ap-1f, 0}},
        {-1, 0, {0.3f, -1.7f, 2.2f}, {-0.25f, 4.5f, 1.1f, 0}},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tn_tensor *p[] = {tn_requires_grad(tn_zeros(tn_dims(3))),
                          tn_requires_grad(tn_zeros(tn_dims(2, 2))),
                          tn_requires_grad(tn_zeros(tn_dims(0, 2)))};
        tn_tensor_set_grad(p[0], tn_tensor_from_array(
                                     (float[]){0.3f, -1.7f, 2.2f}, TN_F32,
                                     tn_dims(3)));
        tn_tensor_set_grad(p[1], tn_tensor_from_array(
                                     (float[]){-0.25f, 4.5f, 1.1f, 0}, TN_F32,
                                     tn_dims(2, 2)));
        tn_tensor_set_grad(p[2], tn_zeros(tn_dims(0, 2)));
        const double order = want[i].order;
        const double norm = tn_clip_grad_norm(tn_parameters_from(p, 3), 1.5,
                                              .norm_type = order);
        /* the last bit of a sum of powers may differ, which changes every
         * clipped gradient */
        const double ulps = order == 2 || order == 1 || !isfinite(order) ||
                                    order <= 0
                                ? 0
                                : 0x1p-22;
        is_double_near(norm, want[i].norm, ulps * want[i].norm,
                       "order %g: PyTorch's norm", order);
        float got[7];
        tn_tensor_to_array(tn_tensor_grad(p[0]), got, 3 * sizeof *got);
        tn_tensor_to_array(tn_tensor_grad(p[1]), got + 3, 4 * sizeof *got);
        for (int k = 0; k < 7; k++) {
            const double to = (double)(k < 3 ? want[i].a[k]
                                             : want[i].b[k - 3]);
            is_double_near((double)got[k], to, ulps * fabs(to),
                           "order %g: element %d", order, k);
        }
    }
}

static void test_nonfinite(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(2, 2), tn_nn_linear(2, 1));
    tn_parameter_list *list = tn_parameters(net);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *p = tn_parameters_at(list, i);
        tn_tensor_set_grad(p, tn_full_like(p, i == 2 ? (double)INFINITY : 3));
    }
    ok(isinf(tn_clip_grad_norm(list, 1)), "infinite gradients are no error");
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *p = tn_parameters_at(list, i);
        tn_tensor_set_grad(p, tn_full_like(p, i == 2 ? (double)NAN : 3));
    }
    ok(isnan(tn_clip_grad_norm(list, 1, .error_if_nonfinite = true)),
       "unless the caller says so");
    is_int(tn_error_code(), TN_ERR_NAN, "with TN_ERR_NAN");
    is_str(tn_error(),
           "clip_grad_norm: the gradient of parameter \"1.weight\" has norm "
           "nan: lower the learning rate, or find its cause with "
           "TN_DETECT_ANOMALY",
           "which names the parameter");
    tn_error_clear();
    is_double_near(tn_item(tn_select(tn_tensor_grad(tn_parameters_at(list, 1)),
                                     0, 0)),
                   3, 0, "and changes no gradient");
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *p = tn_parameters_at(list, i);
        tn_tensor_set_grad(p, tn_full_like(p, 2e38));
    }
    ok(isnan(tn_clip_grad_norm(list, 1, .norm_type = 1,
                               .error_if_nonfinite = true)),
       "a sum may be infinite");
    ok(tn_error() && strstr(tn_error(), "has norm inf"), "%s", tn_error());
    tn_error_clear();
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
    is_str(tn_error(), "clip_grad_norm: max_norm is -1; expected at least 0",
           "and its message");
    ok(isnan(tn_clip_grad_norm(list, 1)),
       "nothing is clipped while an error is pending");
    tn_error_clear();
    is_double_near(grad_at(p, 0), 3, 0, "and nothing is changed");
    ok(tn_clip_grad_value(list, NAN) < 0, "a bound that is no number");
    is_str(tn_error(), "clip_grad_value: value is nan; expected at least 0",
           "and its message");
    tn_error_clear();
    ok(isnan(tn_clip_grad_norm(list, 1, .norm_type = NAN)), "no order");
    is_str(tn_error(), "clip_grad_norm: norm_type is NaN; expected a number",
           "and its message");
    tn_error_clear();
    ok(isnan(tn_clip_grad_norm(NULL, 1)), "no list");
    is_str(tn_error(), "clip_grad_norm: parameters is NULL",
           "and its message");
    tn_error_clear();
}

/* As in PyTorch, a NaN norm makes all gradients NaN. */
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
    test_orders();
    test_nonfinite();
    test_value();
    test_nan();
    test_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
