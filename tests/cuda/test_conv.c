/* Tests convolutions without cuDNN: the plugin's own kernel computes them,
 * bit-identical to the reference plugin's results, whichever library computes
 * matrix products. Half types with many filters use cuBLASLt instead if there
 * are tensor cores. */
#include "../device/convolutions.h"
#include "on_sim.h"

static int cases = 30;

static void print_convolutions(void)
{
    tn_log_set(conv_listen, NULL);
    int wrong = wrong_convolutions(tn_device_open("cuda"), cases);
    printf("%d wrong, %d declined", wrong, atomic_load(&convs_declined));
}

/* Only the result is allocated: there is no im2col matrix. */
static void print_memory(void)
{
    tn_device *device = tn_device_open("cuda");
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_device_set(device);
    tn_tensor *x = tn_ones(tn_dims(1, 64, 32, 32));
    tn_tensor *w = tn_ones(tn_dims(1, 64, 3, 3));
    tn_memory(device, &before);
    tn_conv2d(x, w, NULL, .padding = 1);
    tn_memory(device, &after);
    printf("%d KiB", (int)((after.peak_bytes - before.peak_bytes) >> 10));
}

static void print_many_filters(void)
{
    tn_log_set(conv_listen, NULL);
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = tn_ones(tn_dims(1, 2, 4, 4), .dtype = TN_F16);
    for (int64_t filters = 16; filters <= 17; filters++) {
        tn_tensor *y = tn_conv2d(
            x, tn_ones(tn_dims(filters, 2, 3, 3), .dtype = TN_F16), NULL);
        printf("%g, %d declined; ", tn_item(tn_sum(y)),
               atomic_load(&convs_declined));
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("TENON_TEST_CASES"))
        cases = atoi(getenv("TENON_TEST_CASES"));
    plan_later();
    on_any_driver(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    setenv("TENON_LOG", "3", 1);
    setenv("TENON_CUDA_CUDNN", "/nonexistent", 1);
    is_str(in_child(print_convolutions), "0 wrong, 0 declined",
           "convolutions and their gradients have the reference's bits");
    is_str(in_child(print_memory), "4 KiB", "in the result's memory");
    setenv("TENON_SIM_ARCH", "80", 1);
    is_str(in_child(print_many_filters),
           "1152, 0 declined; 1224, 1 declined; ",
           "tensor cores: half types of more than 16 filters are products");
    setenv("TENON_CUDA_MATMUL", "own", 1);
    is_str(in_child(print_many_filters), "1152, 0 declined; 1224, 0 declined; ",
           "with the plugin's own products they are not");
    return done_testing();
}
