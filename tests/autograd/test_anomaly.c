/* Tests anomaly mode, which reports the operator and the module in which the
 * first NaN arose. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"

static void is_error(const char *text, const char *op, const char *path)
{
    const tn_error_details *e = tn_error_info();
    is_int(tn_error_code(), TN_ERR_NAN, "ERR_NAN");
    is_str(tn_error(), text, "%s", text);
    is_str(e ? e->called : "", op, "the message names the operator");
    is_str(e ? e->path : "", path, "and the module");
    tn_error_clear();
}

static tn_tensor *of(double a, double b)
{
    return tn_tensor_from_array((double[]){a, b}, TN_F64, tn_dims(2));
}

static void test_forward(void)
{
    tn_tensor *x = of(1, -1), *bad = of(NAN, 1);
    ok(!tn_anomaly_mode() && tn_log(x), "off at the start: a NaN passes");
    ok(!tn_anomaly_mode_set(true) && tn_anomaly_mode(), "switched on");
    ok(!tn_log(x), "the operator in which a NaN arises fails");
    is_error("log: the result (2,) is NaN at (1,), and no argument is", "log",
             "");
    ok(tn_exp(x) != NULL, "an operator without NaNs does not fail");
    ok(!tn_mul(x, bad), "a NaN that came in");
    is_error("mul: other (2,) is NaN at (0,); it was made by "
             "tensor_from_array", "mul", "");
    ok(!tn_stack(((tn_tensor *[]){x, bad}), 2, 0), "a NaN in a list of inputs");
    is_error("stack: tensors[1] (2,) is NaN at (0,); it was made by "
             "tensor_from_array", "stack", "");
    ok(!tn_log_(x), "a NaN of an in-place operator");
    is_error("log_: the result (2,) is NaN at (1,)", "log_", "");
    tn_tensor *mask = tn_isnan(bad);
    ok(tn_full(tn_dims(2), NAN) && tn_masked_fill_scalar(bad, mask, NAN),
       "a number that is NaN is believed");
    tn_error_clear();
    tn_tensor *clean = tn_nan_to_num(bad);
    ok(clean != NULL, "so is an operator that removes NaNs");
    ok(tn_sum(tn_arange(0, 5, 1)) && tn_zeros(tn_dims(0)),
       "integers and nothing have no NaN");
    ok(!tn_log(tn_neg(tn_ones(tn_dims(2), .dtype = TN_F16))), "half types");
    is_error("log: the result (2,) is NaN at (0,), and no argument is", "log",
             "");
    tn_anomaly_mode_set(false);
}

static tn_tensor *root_forward(tn_module *self, tn_tensor *x)
{
    (void)self;
    return tn_sqrt(x);
}

static const tn_module_class root_class = {
        .size = sizeof root_class,
        .name = "Root",
        .bytes = sizeof(tn_module),
        .forward = root_forward};

static void test_module(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_relu(), tn_nn_sequential(tn_module_new(&root_class)));
    TN_DETECT_ANOMALY {
        ok(tn_forward(net, of(4, -4)) != NULL, "no NaN behind relu");
        ok(!tn_forward(tn_module_child(net, "1"), of(4, -4)),
           "a NaN in a module");
        is_error("1.0: sqrt: the result (2,) is NaN at (1,), and no argument "
                 "is", "sqrt", "1.0");
    }
    ok(!tn_anomaly_mode(), "the mode ends with its statement");
    /* d sqrt(0) is infinite, and 0 times that is NaN. */
    tn_tensor *x = tn_requires_grad(of(4, 0));
    tn_tensor *y = tn_sum(tn_mul_scalar(tn_forward(net, x), 0));
    ok(!isnan(tn_item(y)), "a value without NaN");
    TN_DETECT_ANOMALY {
        ok(tn_backward(y) < 0, "whose gradient is NaN");
        is_error("1.0: backward of sqrt: the gradient of input (2,) is NaN at "
                 "(1,), and the incoming gradient is not", "sqrt", "1.0");
    }
    ok(!tn_tensor_grad(x), "gradients stay as they were");
}

static void test_backward(void)
{
    tn_tensor *x = tn_requires_grad(of(1, 2)), *g = of(1, NAN);
    tn_tensor *y = tn_exp(x);
    TN_DETECT_ANOMALY {
        ok(tn_backward(y, .gradient = g, .retain_graph = true) < 0,
           "a gradient given that is NaN");
        is_error("backward of exp: the incoming gradient (2,) is NaN at "
                 "(1,)", "exp", "");
        is_int(tn_backward(tn_sum(y)), TN_OK, "one that is not");
        ok(tn_anomaly_mode(), "the mode stays on");
        ok(!tn_log(of(-1, 1)), "for the operators after it");
        tn_error_clear();
    }
    is_double_near(tn_item(tn_sum(tn_tensor_grad(x))), exp(1) + exp(2), 1e-12,
                   "the gradient is right");
}

/* An error names the optimizer only if the optimizer's own step made the
 * NaN. */
static void test_step(void)
{
    tn_module *net = tn_nn_linear(2, 1);
    tn_tensor *w = tn_module_parameter(net, "weight");
    tn_optim *optim[] = {tn_optim_adam(tn_parameters(net), .lr = 0.1),
                         tn_optim_sgd(tn_parameters(net), .lr = 0.1)};
    for (int i = 0; i < 2; i++) {
        tn_tensor_set_grad(w, tn_to_dtype(tn_reshape(of(1, NAN), tn_dims(1, 2)),
                                          TN_F32));
        TN_DETECT_ANOMALY {
            ok(tn_optim_step(optim[i]) < 0, "a gradient that is NaN");
            is_str(tn_error_info()->argument, "grad",
                   "the message says that it is a gradient");
            is_error("optim_step: the gradient of parameter \"weight\" is NaN, "
                     "at element 1", "optim_step", "");
        }
    }
    tn_tensor *x = of(1, 1), *y = of(0, 0), *bad = of(NAN, 1);
    const tn_value value[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                              {TN_VALUE_TENSOR, 0, {.tensor = bad}}};
    TN_DETECT_ANOMALY {
        ok(tn_op_call_into(tn_op_find("add"), value, 2, &x, 1) < 0,
           "written into an argument");
        is_error("add: other (2,) is NaN at (0,); it was made by "
                 "tensor_from_array", "add", "");
        ok(tn_op_call_into(tn_op_find("mul"), value, 2, &y, 1) < 0,
           "and into another");
        tn_error_clear();
    }
}

int main(void)
{
    plan_later();
    test_step();
    test_forward();
    test_module();
    test_backward();
    return done_testing();
}
