/* test_scaler.c: tests gradient scaling for mixed precision. The sequence of
 * scales and steps equals that of torch.amp.GradScaler (2.15), whose numbers
 * are in `rounds`. */
#include <tenon/tenon.h>

#include "tap.h"

static double at(tn_tensor *x, int i)
{
    return tn_item(tn_narrow(x, 0, i, 1));
}

/* Returns an optimizer of a parameter of two elements whose gradient is g times
 * the scale. */
static tn_optim *optimizer(tn_tensor **p)
{
    *p = tn_requires_grad(tn_zeros(tn_dims(2)));
    return tn_optim_sgd(tn_parameters_from(p, 1), .lr = 1);
}

static tn_status walk(tn_grad_scaler *scaler, tn_optim *opt, tn_tensor *p,
                      double g)
{
    tn_optim_zero_grad(opt);
    return tn_backward(
        tn_grad_scaler_scale(scaler, tn_sum(tn_mul_scalar(p, g))));
}

static void test_rounds(void)
{
    /* init_scale 4, growth_interval 2. Columns: the gradient, whether the
     * optimizer steps, the scale afterwards. */
    static const struct {
        double g;
        int step;
        double scale;
    } rounds[] = {{1, 1, 4},        {1, 1, 8},   {INFINITY, 0, 4},
                  {1, 1, 4},        {NAN, 0, 2}, {1, 1, 2},
                  {0x1p120, 1, 4},  {1, 1, 4},   {1, 1, 8},
                  {0x1.8p126, 0, 4}};
    tn_tensor *p;
    tn_optim *opt = optimizer(&p);
    tn_grad_scaler *scaler =
        tn_grad_scaler_new(.init_scale = 4, .growth_interval = 2);
    bool good = true;
    double sum = 0;
    int64_t before = tn_scope_count();
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        tn_scope *scope = tn_scope_open();
        walk(scaler, opt, p, rounds[i].g);
        int step = tn_grad_scaler_step(scaler, opt);
        tn_grad_scaler_update(scaler);
        if (rounds[i].step)
            sum -= (float)rounds[i].g;
        tn_scope_close(scope);
        scope = tn_scope_open();
        if (step != rounds[i].step ||
            tn_grad_scaler_factor(scaler) != rounds[i].scale ||
            at(p, 1) != (float)sum) {
            note("round %zu: step %d, scale %g, parameter %g, not %g", i, step,
                 tn_grad_scaler_factor(scaler), at(p, 1), sum);
            good = false;
        }
        tn_scope_close(scope);
    }
    ok(good, "steps and scales are PyTorch's");
    is_int(tn_scope_count(), before, "no object is left behind");
    tn_grad_scaler_state s = tn_grad_scaler_snapshot(scaler);
    ok(s.scale == 4 && s.growth_factor == 2 && s.backoff_factor == 0.5 &&
           s.growth_interval == 2 && s.growth_tracker == 0,
       "the state has all of it");
    s.growth_tracker = 1;
    tn_grad_scaler *other = tn_grad_scaler_new();
    is_int(tn_grad_scaler_restore(other, s), TN_OK, "another scaler loads it");
    walk(other, opt, p, 1);
    ok(tn_grad_scaler_step(other, opt) == 1 && !tn_grad_scaler_update(other) &&
           tn_grad_scaler_factor(other) == 8,
       "and continues from there");
}

static void test_unscale(void)
{
    tn_tensor *p, *q;
    tn_optim *opt = optimizer(&p), *second = optimizer(&q);
    tn_grad_scaler *scaler = tn_grad_scaler_new();
    is_double_near(tn_grad_scaler_factor(scaler), 65536, 0, "65536 at first");
    walk(scaler, opt, p, 3);
    is_double_near(at(tn_tensor_grad(p), 0), 3 * 65536., 0,
                   "the walk gives scaled gradients");
    is_int(tn_grad_scaler_unscale(scaler, opt), TN_OK, "they are unscaled");
    is_double_near(at(tn_tensor_grad(p), 0), 3, 0, "gradients are unscaled");
    tn_clip_grad_norm(tn_parameters_from(&p, 1), 1);
    is_int(tn_grad_scaler_step(scaler, opt), 1, "the step does not do it again");
    is_double_near(at(p, 0), -1 / sqrt(2), 1e-6, "clipped as it was");
    walk(scaler, second, q, INFINITY);
    is_int(tn_grad_scaler_step(scaler, second), 0,
           "a second optimizer is checked separately");
    tn_grad_scaler_update(scaler);
    is_double_near(tn_grad_scaler_factor(scaler), 32768, 0,
                   "one infinite gradient among all halves the scale");
    tn_tensor *matrix = tn_requires_grad(tn_ones(tn_dims(3, 2)));
    tn_optim *rows = tn_optim_sgd(tn_parameters_from(&matrix, 1), .lr = 1);
    float g[] = {1, 2, 3, 4, 5, INFINITY};
    tn_tensor_set_grad(matrix, tn_tensor_from_array(g, TN_F32, tn_dims(3, 2)));
    is_int(tn_grad_scaler_step(scaler, rows), 0,
           "an infinity in the last row counts");
    tn_grad_scaler_update(scaler);
    tn_tensor_set_grad(matrix, tn_transpose(tn_ones(tn_dims(2, 3)), 0, 1));
    is_int(tn_grad_scaler_step(scaler, rows), 1, "a transposed gradient too");
    tn_grad_scaler_update(scaler);
    tn_tensor *half = tn_to_dtype(tn_requires_grad(tn_full(TN_SCALAR, 2.0)),
                                  TN_F16);
    tn_tensor *scaled = tn_grad_scaler_scale(scaler, half);
    ok(tn_tensor_dtype(scaled) == TN_F32 &&
           tn_item(scaled) == 2 * tn_grad_scaler_factor(scaler),
       "a float16 loss is scaled in float32");
}

static void test_disabled(void)
{
    tn_tensor *p;
    tn_optim *opt = optimizer(&p);
    tn_grad_scaler *scaler = tn_grad_scaler_new(.disabled = true);
    tn_tensor *loss = tn_sum(p);
    ok(tn_grad_scaler_scale(scaler, loss) == loss,
       "if disabled, a loss is not changed");
    tn_backward(loss);
    is_int(tn_grad_scaler_unscale(scaler, opt), TN_OK, "nothing is unscaled");
    is_int(tn_grad_scaler_step(scaler, opt), 1, "a step is a step");
    is_int(tn_grad_scaler_update(scaler), TN_OK, "nothing is updated");
    is_double_near(tn_grad_scaler_factor(scaler), 1, 0, "the scale is 1");
    is_double_near(at(p, 0), -1, 0, "and the parameter has moved");
}

#define REFUSED(call, code, text)                                              \
    do {                                                                       \
        (void)(call);                                                          \
        is_int(tn_error_code(), code, "refused: " #call);                      \
        is_str(tn_error(), text, "and is reported");                           \
        tn_error_clear();                                                      \
    } while (0)

static void test_mistakes(void)
{
    tn_tensor *p;
    tn_optim *opt = optimizer(&p);
    tn_grad_scaler *scaler = tn_grad_scaler_new();
    REFUSED(tn_grad_scaler_new(.init_scale = -1), TN_ERR_ARGUMENT,
            "grad_scaler_new: the scale is -1; expected more than 0");
    REFUSED(tn_grad_scaler_new(.growth_factor = 1), TN_ERR_ARGUMENT,
            "grad_scaler_new: growth_factor is 1; expected more than 1");
    REFUSED(tn_grad_scaler_new(.backoff_factor = 1), TN_ERR_ARGUMENT,
            "grad_scaler_new: backoff_factor is 1; expected between 0 and 1");
    REFUSED(tn_grad_scaler_new(.growth_interval = -1), TN_ERR_ARGUMENT,
            "grad_scaler_new: growth_interval is -1, growth_tracker 0; "
            "expected at least 1 and at least 0");
    tn_grad_scaler_state s = tn_grad_scaler_snapshot(scaler);
    s.scale = NAN;
    REFUSED(tn_grad_scaler_restore(scaler, s), TN_ERR_ARGUMENT,
            "grad_scaler_restore: the scale is nan; expected more than 0");
    REFUSED(tn_grad_scaler_update(scaler), TN_ERR_STATE,
            "grad_scaler_update: no step since the last update: call "
            "tn_grad_scaler_step first");
    REFUSED(tn_grad_scaler_step(scaler, opt), TN_ERR_STATE,
            "grad_scaler_unscale: no parameter of the optimizer has a "
            "gradient: call tn_backward first");
    REFUSED(tn_grad_scaler_step(NULL, opt), TN_ERR_ARGUMENT,
            "grad_scaler_step: scaler is NULL");
    REFUSED(tn_grad_scaler_step(scaler, NULL), TN_ERR_ARGUMENT,
            "grad_scaler_step: optim is NULL");
    REFUSED(tn_grad_scaler_unscale(scaler, NULL), TN_ERR_ARGUMENT,
            "grad_scaler_unscale: optim is NULL");
    REFUSED(tn_grad_scaler_update(NULL), TN_ERR_ARGUMENT,
            "grad_scaler_update: scaler is NULL");
    REFUSED(tn_grad_scaler_scale(scaler, NULL), TN_ERR_ARGUMENT,
            "grad_scaler_scale: loss is NULL");
    REFUSED(tn_grad_scaler_scale(NULL, p), TN_ERR_ARGUMENT,
            "grad_scaler_scale: scaler is NULL");
    ok(tn_grad_scaler_factor(NULL) == 0 &&
           tn_grad_scaler_snapshot(NULL).scale == 0,
       "and 0");
    walk(scaler, opt, p, 1);
    tn_grad_scaler_unscale(scaler, opt);
    REFUSED(tn_grad_scaler_unscale(scaler, opt), TN_ERR_STATE,
            "grad_scaler_unscale: the gradients were unscaled already since "
            "the last tn_grad_scaler_update");
    tn_grad_scaler_step(scaler, opt);
    REFUSED(tn_grad_scaler_step(scaler, opt), TN_ERR_STATE,
            "grad_scaler_step: the optimizer has stepped already since the "
            "last tn_grad_scaler_update");
    tn_error_set(TN_ERR_ARGUMENT, "mine");
    ok(tn_grad_scaler_step(scaler, opt) == TN_ERR_STATE &&
           tn_grad_scaler_update(scaler) == TN_ERR_STATE &&
           tn_grad_scaler_unscale(scaler, opt) == TN_ERR_STATE &&
           tn_grad_scaler_restore(scaler, tn_grad_scaler_snapshot(scaler)) ==
               TN_ERR_STATE,
       "nothing is done while an error is pending");
    tn_error_clear();
    tn_tensor *half = tn_requires_grad(tn_zeros(tn_dims(2), .dtype = TN_F16));
    tn_optim *of_half = tn_optim_sgd(tn_parameters_from(&half, 1));
    tn_backward(tn_sum(half));
    REFUSED(tn_grad_scaler_step(scaler, of_half), TN_ERR_DTYPE,
            "grad_scaler_unscale: the gradient of \"0\" is float16: keep "
            "parameters in float32, and use TN_AUTOCAST");
}

int main(void)
{
    plan_later();
    static const char *const devices[] = {"reference", "cpu", "opencl"};
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        note("on %s", tn_device_name(device));
        tn_device_set(device);
        tn_scope *scope = tn_scope_open();
        test_rounds();
        test_unscale();
        tn_scope_close(scope);
    }
    tn_device_set(tn_device_open("cpu"));
    test_disabled();
    test_mistakes();
    ok(!tn_error(), "no error is left: %s", tn_error() ? tn_error() : "none");
    return done_testing();
}
