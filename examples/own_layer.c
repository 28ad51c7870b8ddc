/* own_layer.c: a layer of your own is a struct that begins with a tn_module.
 * The library prints, saves and trains it like its own layers. */
#include <stdio.h>
#include <tenon/tenon.h>

/* A residual connection, y = x + scale * f(x). Its scale is a learned
 * parameter. */
struct residual {
    tn_module base;
    tn_module *inner;
    tn_tensor *scale;
};

static tn_tensor *residual_forward(tn_module *self, tn_tensor *x)
{
    struct residual *layer = (struct residual *)self;
    return tn_add(x, tn_mul(layer->scale, tn_forward(layer->inner, x)));
}

static const tn_module_class residual_class =
    TN_MODULE_CLASS(struct residual, "Residual", .forward = residual_forward);

static tn_module *residual(tn_module *inner)
{
    struct residual *layer = tn_module_new(&residual_class);
    TN_MODULE_ADD(layer, inner, inner);
    TN_MODULE_ADD_PARAMETER(layer, scale, tn_full(tn_dims(1), 0.1));
    return (tn_module *)layer;
}

int main(void)
{
    tn_manual_seed(1);
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(2, 16), residual(tn_nn_linear(16, 16)), tn_nn_tanh(),
        tn_nn_linear(16, 1));
    tn_module_print(stdout, net);
    printf("%lld parameters\n", (long long)tn_module_parameter_count(net));

    /* Learns the product of two numbers. */
    tn_tensor *x = tn_randn(tn_dims(256, 2));
    tn_tensor *y = tn_prod(x, .dim = 1, .keepdim = true);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 0.02);
    for (int step = 0; step <= 100 && !tn_error(); step++)
        TN_SCOPE(scope) {
            tn_tensor *loss = tn_mse_loss(tn_forward(net, x), y);
            if (step % 50 == 0)
                printf("step %3d: loss %.3f\n", step, tn_item(loss));
            tn_optim_zero_grad(opt);
            tn_backward(loss);
            tn_optim_step(opt);
        }

    /* A layer rejects the input. The error message names the position of this
     * layer in the model. */
    if (!tn_error() && !tn_forward(net, tn_zeros(tn_dims(1, 3)))) {
        printf("refused: %s\n", tn_error());
        tn_error_clear();
    }
    if (tn_error())
        return fprintf(stderr, "own_layer: %s\n", tn_error()), 1;
    return 0;
}
