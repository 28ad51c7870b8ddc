/* device_check.c: checks that every device trains a small network with the same
 * result as the CPU.
 *
 *     device_check [DEVICE ...]             device_check cpu opencl:0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

enum { SIZE = 256, PRODUCTS = 10, STEPS = 50 };

/* Trains a small network for a few steps, always from the same weights and
 * data. Returns the last loss. */
static double train(void)
{
    tn_manual_seed(1);
    tn_module *net = tn_nn_sequential(tn_nn_linear(8, 32), tn_nn_tanh(),
                                      tn_nn_linear(32, 1));
    tn_tensor *x = tn_randn(tn_dims(64, 8));
    tn_tensor *y = tn_sum(tn_square(x), .dim = 1, .keepdim = true);
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 5e-2);
    double value = NAN;
    for (int step = 0; step < STEPS && !tn_error(); step++)
        TN_SCOPE(scope) {
            tn_tensor *loss = tn_mse_loss(tn_forward(net, x), y);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            value = tn_item(loss);
        }
    return value;
}

/* Measures the speed of a matrix product in GFLOP/s. */
static double speed(void)
{
    tn_tensor *a = tn_randn(tn_dims(SIZE, SIZE));
    tn_matmul(a, a);
    tn_mark *start = tn_mark_set(NULL);
    for (int i = 0; i < PRODUCTS; i++)
        tn_matmul(a, a);
    double seconds = NAN;
    tn_mark_elapsed(start, tn_mark_set(NULL), &seconds);
    return 2.0 * SIZE * SIZE * SIZE * PRODUCTS / seconds / 1e9;
}

/* Trains on one device and prints a line. Returns whether the loss is the
 * expected one. */
static bool check(const char *name, double expected)
{
    tn_scope *scope = tn_scope_open();
    tn_device_set(tn_device_open(name));
    double loss = train(), gflops = speed();
    bool ok = !tn_error() && fabs(loss - expected) < 1e-4;
    if (tn_error())
        printf("%s: %s\n", name, tn_error());
    else
        printf("%s: loss %.5f, %.1f GFLOP/s, %s\n", name, loss, gflops,
               ok ? "ok" : "WRONG");
    tn_scope_close(scope);
    tn_error_clear();
    return ok;
}

int main(int argc, char **argv)
{
    static const char *const plugins[] = {"cpu", "cuda", "opencl", "reference"};
    printf("Tenon %s, %d threads\n", tn_version(), tn_num_threads());
    tn_device_set(tn_device_open("cpu"));
    double expected = train();
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad += !check(argv[i], expected);
    for (int i = 0; argc < 2 && i < 4; i++)
        for (int j = 0; j < tn_device_count(plugins[i]); j++) {
            char name[32];
            snprintf(name, sizeof name, "%s:%d", plugins[i], j);
            bad += !check(name, expected);
        }
    return bad > 0;
}
