/* linear_regression.c: fits a linear function to noisy points,
 * y = 2 x0 - 3.4 x1 + 4.2.
 *
 *     linear_regression [EPOCHS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : 5;
    tn_manual_seed(1);
    tn_tensor *weight =
        tn_tensor_from_array((float[]){2, -3.4f}, TN_F32, tn_dims(2, 1));
    tn_tensor *x = tn_randn(tn_dims(1000, 2));
    tn_tensor *noise = tn_mul_scalar(tn_randn(tn_dims(1000, 1)), 0.01);
    tn_tensor *y = tn_add(tn_add_scalar(tn_matmul(x, weight), 4.2), noise);
    tn_loader *loader = tn_loader_new(tn_dataset_from_tensors(x, y),
                                      .batch_size = 10, .shuffle = true);

    tn_module *net = tn_nn_linear(2, 1);
    tn_optim *optim = tn_optim_sgd(tn_parameters(net), .lr = 0.03);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *loss = tn_mse_loss(tn_forward(net, batch.x), batch.y);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
        }
        TN_NO_GRAD {
            tn_tensor *loss = tn_mse_loss(tn_forward(net, x), y);
            printf("epoch %d: loss %.6f\n", epoch, tn_item(loss));
        }
    }
    printf("weight ");
    tn_print(tn_module_parameter(net, "weight"));
    printf("bias ");
    tn_print(tn_module_parameter(net, "bias"));
    if (tn_error())
        return fprintf(stderr, "linear_regression: %s\n", tn_error()), 1;
}
