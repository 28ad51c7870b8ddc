#include "use.h"

int main()
{
    const float values[] = {1, 2, 3, 4};
    tn_tensor *x = tn_tensor_from_array(values, TN_F32, tn_dims(2, 2));
    CHECK(is(tn_sum(x), 10));
    tn_sum_options o;
    o.dim = 0;
    CHECK(is(tn_select(tn_sum(x, o), 0, 0), 4));
    CHECK(is(tn_select(tn_sum_with(x, &o), 0, 1), 6));
    tn_sum_options both = TN_SUM_OPTIONS;
    both.dims = tn_dims(0, 1);
    CHECK(is(tn_sum(x, both), 10));
    tn_add_options none;
    none.alpha = 0;
    CHECK(is(tn_sum(tn_add(x, x, none)), 10));
    tn_nn_conv2d_options conv;
    CHECK(conv.bias && conv.stride == 1);
    conv.bias = false;
    tn_module *net = tn_nn_conv2d(1, 1, 3, conv);
    CHECK(tn_parameters_count(tn_parameters(net)) == 1);
    CHECK(tn_optim_sgd(tn_parameters(net)) && tn_grad_scaler_new());
    CHECK(tn_module_child_count(tn_nn_sequential()) == 0);
    CHECK(tn_module_child_count(tn_nn_sequential(net, tn_nn_relu())) == 2);
#if __cplusplus >= 202002L
    CHECK(is(tn_select(tn_sum(x, {.dim = 1}), 0, 0), 3));
    CHECK(is(tn_sum(x, {.dims = tn_dims(0, 1), .keepdim = true}), 10));
    CHECK(tn_optim_lr(tn_optim_sgd(tn_parameters(net), {.lr = 0})) == 0);
    CHECK(tn_optim_adam(tn_parameters(net), {.beta1 = 0, .amsgrad = true}));
    CHECK(tn_forward(tn_nn_bilinear(2, 2, 1, true), x, x));
    CHECK(tn_forward(tn_nn_embedding_bag(4, 2), nullptr, nullptr, nullptr) ==
          nullptr);
    tn_error_clear();
    CHECK(tn_nn_lstm(2, 3, {.num_layers = 2, .batch_first = true}));
#endif
    CHECK(!tn_error());
    return failed;
}
