#include "use.h"

#define WITH_MEAN .dim = 0, .keepdim = true
#define total(...) tn_sum(__VA_ARGS__)
#define sum_kept(x, ...) tn_sum(x, .keepdim = true, __VA_ARGS__)

static tn_tensor *two(void)
{
    return tn_tensor_from_array((float[]){1, 2, 3, 4}, TN_F32, tn_dims(2, 2));
}

int main(void)
{
    tn_tensor *x = two();
    CHECK(is(tn_sum(x), 10));
    CHECK(is(tn_select(tn_sum(x, .dim = 1), 0, 0), 3));
    CHECK(is(tn_select(tn_sum(x, .dim = 0), 0, 0), 4));
    CHECK(is(tn_sum(x, .dims = tn_dims(0, 1)), 10));
    CHECK(tn_tensor_ndim(tn_sum(x, WITH_MEAN)) == 2);
    CHECK(is(total(x), 10) && is(tn_select(total(x, .dim = 0), 0, 1), 6));
    CHECK(tn_tensor_ndim(sum_kept(x, .dim = 0)) == 2);
    CHECK(is(tn_sum(tn_add(x, x, .alpha = 0)), 10));
    CHECK(is(tn_sum(tn_add(x, x, .alpha = -1)), 0));
    CHECK(is(tn_sum(tn_leaky_relu(tn_neg(x), .negative_slope = 0)), 0));
    CHECK(is(tn_vector_norm(x, .ord = 0), 4));
    CHECK(is(tn_var(x, .correction = 0), 1.25));
    tn_sum_options o = TN_SUM_OPTIONS;
    o.dim = 0;
    CHECK(is(tn_select(tn_sum_with(x, &o), 0, 0), 4));
    CHECK(is(tn_sum_with(x, NULL), 10));
    CHECK(is(tn_sum(tn_sum(tn_sum(tn_sum(tn_sum(
        tn_unsqueeze(tn_unsqueeze(tn_unsqueeze(x, 0), 0), 0), .dim = 0),
        .dim = 0), .dim = 0), .dim = 0), .dim = 0), 10));
    tn_requires_grad(x);
    CHECK(tn_backward(tn_mul(x, x), .gradient = tn_ones_like(
        tn_reshape(x, tn_dims(2, 2)), .dtype = TN_F32)) == TN_OK);
    CHECK(is(tn_sum(tn_tensor_grad(x), .dims = tn_dims(0, 1)), 20));
    tn_module *net = tn_nn_conv2d(1, 1, 3, .stride = 2, .bias = false);
    CHECK(tn_parameters_count(tn_parameters(net)) == 1);
    tn_optim *sgd = tn_optim_sgd(tn_parameters(net), .lr = 0);
    CHECK(tn_optim_lr(sgd) == 0);
    CHECK(tn_optim_adam(tn_parameters(net), .beta1 = 0, .lr = 1e-4));
    CHECK(tn_grad_scaler_new() && tn_grad_scaler_new(.init_scale = 2));
    CHECK(tn_loader_new(tn_dataset_from_tensors(two(), NULL),
                        .batch_size = 2, .shuffle = true));
    /* A list may be longer than any fixed buffer: these 70 weights must not be
     * ignored, and their number is wrong. */
    CHECK(!tn_loader_new(
        tn_dataset_from_tensors(two(), NULL), .weight_count = 70,
        .weights = (const double[]){
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            1}));
    CHECK(tn_error() && strstr(tn_error(), "70 weights for a set of 2"));
    tn_error_clear();
    CHECK(tn_module_child_count(tn_nn_sequential()) == 0);
    CHECK(tn_module_child_count(tn_nn_sequential(tn_nn_relu(),
                                                 tn_nn_relu())) == 2);
    CHECK(!tn_error());
    return failed;
}
