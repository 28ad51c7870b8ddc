/* physics.c: a physics-informed network solves the heat equation
 * u_t = 0.1 u_xx.
 *
 * The rod is x in [0, 1]. It begins as sin(pi x), and its ends stay at 0. The
 * exact solution is exp(-0.1 pi^2 t) sin(pi x).
 *
 *     physics [STEPS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { POINTS = 256 };
static const double DIFFUSIVITY = 0.1;

static tn_tensor *value(tn_module *net, tn_tensor *t, tn_tensor *x)
{
    return tn_forward(net, tn_cat((tn_tensor *[]){t, x}, 2, 1));
}

static tn_tensor *exact(tn_tensor *t, tn_tensor *x)
{
    tn_tensor *decay = tn_exp(tn_mul_scalar(t, -DIFFUSIVITY * M_PI * M_PI));
    return tn_mul(decay, tn_sin(tn_mul_scalar(x, M_PI)));
}

/* Returns the mean square of the residual u_t - 0.1 u_xx at random points. */
static tn_tensor *equation_loss(tn_module *net)
{
    tn_tensor *t = tn_requires_grad(tn_rand(tn_dims(POINTS, 1)));
    tn_tensor *x = tn_requires_grad(tn_rand(tn_dims(POINTS, 1)));
    tn_tensor *u = tn_sum(value(net, t, x));
    tn_tensor *in[] = {t, x}, *d[2] = {NULL}, *u_xx = NULL;
    tn_grad(u, in, 2, d, .create_graph = true);
    tn_grad(tn_sum(d[1]), &x, 1, &u_xx, .create_graph = true);
    tn_tensor *residual = tn_sub(d[0], u_xx, .alpha = DIFFUSIVITY);
    return tn_mean(tn_square(residual));
}

/* Returns the mean square difference between the network and the exact solution
 * at t = 0 and at both ends of the rod. */
static tn_tensor *boundary_loss(tn_module *net)
{
    tn_tensor *zero = tn_zeros(tn_dims(POINTS, 1));
    tn_tensor *one = tn_ones(tn_dims(POINTS, 1));
    tn_tensor *s = tn_rand(tn_dims(POINTS, 1));
    tn_tensor *t = tn_cat((tn_tensor *[]){zero, s, s}, 3, 0);
    tn_tensor *x = tn_cat((tn_tensor *[]){s, zero, one}, 3, 0);
    return tn_mse_loss(value(net, t, x), exact(t, x));
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 2000;
    tn_manual_seed(1);
    tn_module *net = tn_nn_sequential(tn_nn_linear(2, 32), tn_nn_tanh(),
                                      tn_nn_linear(32, 32), tn_nn_tanh(),
                                      tn_nn_linear(32, 1));
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 5e-3);
    tn_schedule *schedule = tn_schedule_cosine_annealing_lr(optim, steps);
    for (int step = 1; step <= steps && !tn_error(); step++)
        TN_SCOPE(scope) {
            tn_tensor *loss =
                tn_add(equation_loss(net), boundary_loss(net), .alpha = 10);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            tn_schedule_step(schedule);
            if (step % 400 == 0 || step == steps)
                printf("step %d: loss %.2e\n", step, tn_item(loss));
        }
    TN_NO_GRAD {
        tn_tensor *t = tn_rand(tn_dims(1000, 1));
        tn_tensor *x = tn_rand(tn_dims(1000, 1));
        tn_tensor *error = tn_abs(tn_sub(value(net, t, x), exact(t, x)));
        printf("greatest error %.4f\n", tn_item(tn_max(error)));
    }
    if (tn_error())
        return fprintf(stderr, "physics: %s\n", tn_error()), 1;
}
