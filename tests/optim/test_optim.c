/* Compares optimizers with torch 2.x: the values of a parameter after four
 * steps. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"

static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

static tn_tensor *parameter(void)
{
    float start[] = {1, -2, 0.5f};
    return tn_requires_grad(tn_tensor_from_array(start, TN_F32, tn_dims(3)));
}

/* Sets the gradient of step t: (0.3, -1.5, 2) (t + 1) - p / 2. */
static void set_grad(tn_tensor *p, int t)
{
    float now[3], slope[] = {0.3f, -1.5f, 2};
    tn_tensor_to_array(p, now, sizeof now);
    for (int i = 0; i < 3; i++)
        slope[i] = slope[i] * (float)(t + 1) - 0.5f * now[i];
    tn_tensor_set_grad(p, tn_tensor_from_array(slope, TN_F32, tn_dims(3)));
}

static void after_four(tn_tensor *p, tn_optim *optim, const double *want,
                       const char *name)
{
    float got[3] = {0};
    for (int t = 0; t < 4; t++) {
        set_grad(p, t);
        is_int(tn_optim_step(optim), TN_OK, "%s: step %d", name, t);
    }
    tn_tensor_to_array(p, got, sizeof got);
    /* The tolerance allows for four steps of a few roundings each. */
    for (int i = 0; i < 3; i++)
        is_double_near((double)got[i], want[i], 1e-6 + 1e-6 * fabs(want[i]),
                       "%s: element %d", name, i);
}

#define CHECK(name, make, ...)                                                \
    do {                                                                      \
        tn_tensor *p = parameter();                                           \
        tn_parameter_list *list = tn_parameters_from(&p, 1);                  \
        after_four(p, make, (double[]){__VA_ARGS__}, name);                   \
    } while (0)

static void test_rules(void)
{
    CHECK("SGD", tn_optim_sgd(list, .lr = 0.1), 0.900127411, -0.854118824,
          -1.49477196);
    CHECK("SGD, decay, maximize",
          tn_optim_sgd(list, .lr = 0.1, .weight_decay = 0.2, .maximize = true),
          1.02777672, -2.89472771, 2.23885751);
    CHECK("SGD, momentum", tn_optim_sgd(list, .lr = 0.1, .momentum = 0.9),
          0.901072443, -0.0417561606, -3.16804075);
    CHECK("SGD, dampening",
          tn_optim_sgd(list, .lr = 0.1, .momentum = 0.9, .dampening = 0.5,
                       .weight_decay = 0.1),
          0.920354843, -0.824763775, -1.62815571);
    CHECK("SGD, nesterov",
          tn_optim_sgd(list, .lr = 0.1, .momentum = 0.9, .nesterov = true),
          0.815483868, 1.01542044, -5.03205585);
    CHECK("Adam", tn_optim_adam(list, .lr = 0.1), 1.04782975, -1.6308918,
          0.114104629);
    /* 1 - beta1 is 0.6; above one half torch's lerp uses another formula */
    CHECK("Adam, betas, decay",
          tn_optim_adam(list, .lr = 0.1, .beta1 = 0.4, .beta2 = 0.7,
                        .eps = 1e-3, .weight_decay = 0.3),
          0.584097564, -1.57975769, 0.0795105994);
    CHECK("Adam, amsgrad, maximize",
          tn_optim_adam(list, .lr = 0.1, .amsgrad = true, .maximize = true),
          1.0160805, -2.37014389, 0.886677206);
    CHECK("AdamW", tn_optim_adamw(list, .lr = 0.1), 1.04302537, -1.6234796,
          0.112695135);
    CHECK("AdamW, decay, amsgrad",
          tn_optim_adamw(list, .lr = 0.1, .weight_decay = 0.3,
                         .amsgrad = true),
          0.910264552, -1.41839302, 0.0740313008);
}

static void test_state(void)
{
    tn_tensor *p[] = {parameter(), parameter()};
    tn_optim *optim =
        tn_optim_sgd(tn_parameters_from(p, 2), .lr = 0.5, .momentum = 0.9);
    set_grad(p[0], 0);
    is_int(tn_optim_step(optim), TN_OK, "a step");
    float one[3], two[3];
    tn_tensor_to_array(p[0], one, sizeof one);
    tn_tensor_to_array(p[1], two, sizeof two);
    ok(one[0] != 1 && two[0] == 1, "parameters without a gradient stay");
    ok(tn_tensor_is_leaf(p[0]) && tn_tensor_requires_grad(p[0]),
       "a parameter is a leaf after a step");

    tn_optim_zero_grad(optim);
    ok(!tn_tensor_grad(p[0]), "zero_grad forgets gradients");
    is_double_near(tn_optim_lr(optim), 0.5, 0, "the learning rate");
    is_int(tn_optim_set_lr(optim, 0.25), TN_OK, "can be set");
    is_double_near(tn_optim_lr(optim), 0.25, 0,
                   "the learning rate can be changed");

    set_grad(p[1], 0);
    tn_error_set(TN_ERR_IO, "a batch is gone");
    is_int(tn_optim_step(optim), TN_ERR_STATE,
           "a step is refused while an error is pending");
    is_str(tn_error(), "a batch is gone", "which does not change");
    tn_error_clear();
    tn_tensor_to_array(p[1], two, sizeof two);
    ok(two[0] == 1, "and changes nothing");
}

/* Makes a step, moves the parameter to the device `other`, and checks that the
 * next step is an error. */
static void test_moved(tn_device *other, tn_tensor *p, tn_optim *optim,
                       const char *name)
{
    char text[256];
    set_grad(p, 0);
    is_int(tn_optim_step(optim), TN_OK, "%s: a step before moving", name);
    snprintf(text, sizeof text,
             "optim_step: parameter \"0\" is on %s, its state on %s: make a "
             "new optimizer after moving the model",
             tn_device_name(other), tn_device_name(tn_tensor_device(p)));
    TN_NO_GRAD {
        tn_tensor_set_data(p, tn_to(p, other));
    }
    float before[3], after[3] = {0}, ones[] = {1, 1, 1};
    tn_tensor_to_array(p, before, sizeof before);
    tn_tensor_set_grad(p, tn_to(tn_tensor_from_array(ones, TN_F32, tn_dims(3)),
                                other));
    ok(tn_optim_step(optim) < 0, "%s: a step of a parameter that has moved",
       name);
    is_error(TN_ERR_DEVICE, text, name);
    tn_tensor_to_array(p, after, sizeof after);
    ok(memcmp(before, after, sizeof after) == 0, "%s: and it does not change",
       name);
}

static void test_devices(void)
{
    tn_device *other = tn_device_open("reference");
    if (!other || other == tn_device_current()) {
        tn_error_clear();
        skip(1, "one device alone");
        return;
    }
    tn_tensor *p = parameter();
    test_moved(other, p,
               tn_optim_sgd(tn_parameters_from(&p, 1), .momentum = 0.9),
               "one tensor of state");
    p = parameter();
    test_moved(other, p, tn_optim_adam(tn_parameters_from(&p, 1)),
               "two tensors of state");
}

/* Fits a line to points without noise; gradients are computed by hand. */
static void test_descent(void)
{
    float xs[] = {-1, 0, 1, 2}, ys[] = {-5, -2, 1, 4}; /* points of the line 3 x
                                                        * - 2 */
    tn_tensor *x = tn_tensor_from_array(xs, TN_F32, tn_dims(4, 1));
    tn_tensor *y = tn_tensor_from_array(ys, TN_F32, tn_dims(4, 1));
    tn_module *line = tn_nn_linear(1, 1);
    tn_optim *optim = tn_optim_adam(tn_parameters(line), .lr = 0.1);
    int64_t objects = 0;
    for (int i = 0; i < 400; i++) {
        tn_scope *step = tn_scope_open();
        tn_tensor *loss = tn_mse_loss(tn_forward(line, x), y);
        tn_optim_zero_grad(optim);
        tn_backward(loss);
        tn_optim_step(optim);
        tn_scope_close(step);
        if (i == 0)
            objects = tn_scope_count();
    }
    is_double_near(tn_item(tn_module_parameter(line, "weight")), 3, 1e-3,
                   "Adam finds the slope");
    is_double_near(tn_item(tn_module_parameter(line, "bias")), -2, 1e-3,
                   "and the offset");
    is_int(tn_scope_count(), objects, "steps leave no object behind");
}

static void test_mistakes(void)
{
    tn_tensor *p = parameter(), *plain = tn_zeros(tn_dims(2));
    tn_parameter_list *list = tn_parameters_from(&p, 1);
    ok(!tn_parameters_from(&plain, 1), "a parameter requires a gradient");
    is_error(TN_ERR_STATE,
             "parameters_from: tensors[0] is not a leaf that requires a "
             "gradient: call tn_requires_grad on it",
             "a parameter without a gradient");
    ok(!tn_optim_sgd(list, .lr = -1), "a learning rate is not negative");
    ok(tn_error() && strstr(tn_error(), "optim_sgd: lr") != NULL, "%s", tn_error());
    tn_error_clear();
    ok(!tn_optim_adam(list, .beta1 = 1.5), "beta1 is below 1");
    ok(tn_error() && strstr(tn_error(), "optim_adam: beta1") != NULL, "%s",
       tn_error());
    tn_error_clear();
    ok(!tn_optim_sgd(list, .nesterov = true), "nesterov needs a momentum");
    is_error(TN_ERR_ARGUMENT,
             "optim_sgd: .nesterov has no effect without momentum: give "
             "momentum, or leave .nesterov out",
             "nesterov without a momentum");
    ok(!tn_optim_sgd(NULL), "no parameters, no optimizer");
    tn_error_clear();
    ok(tn_optim_step(NULL) < 0, "a step of nothing fails");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_rules();
    test_state();
    test_devices();
    test_descent();
    test_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
