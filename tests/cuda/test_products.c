/* Matrix products by cuBLASLt on the simulated driver, which has a simulated
 * cuBLASLt, equal the cpu's. */
#include "../device/products.h"
#include "on_sim.h"

#include <stdatomic.h>

static atomic_int takes, has_none, slow;

static void listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    atomic_fetch_add(&takes, strstr(line, "cuBLASLt computes") != NULL);
    atomic_fetch_add(&has_none, strstr(line, "cuBLASLt has no algorithm for") != NULL);
    atomic_fetch_add(&slow, strstr(line, "products are slow") != NULL);
}

/* Returns how many products differ from the cpu's. */
static int wrong_products(tn_device *device)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        double apart = difference(&products[i], device);
        if (apart != 0)
            note("%s: %g apart", products[i].name, apart);
        wrong += apart != 0;
    }
    return wrong;
}

/* Returns a product with two batch dimensions that no single stride describes,
 * so it needs several calls. c is transposed. */
static tn_tensor *broadcast(void)
{
    tn_tensor *a = tn_reshape(numbers(6, 7, 8, 1), tn_dims(2, 3, 1, 7, 8));
    tn_tensor *b = tn_reshape(numbers(10, 8, 9, 2), tn_dims(2, 1, 5, 8, 9));
    return tn_matmul(a, b);
}

static double broadcast_difference(tn_device *device)
{
    tn_scope *scope = tn_scope_open();
    tn_device_set(tn_device_open("cpu"));
    tn_tensor *want = broadcast();
    tn_device_set(device);
    tn_tensor *got = tn_to(broadcast(), tn_device_open("cpu"));
    double apart = tn_item(tn_max(tn_abs(tn_sub(want, got))));
    if (tn_error())
        note("%s", tn_error());
    tn_scope_close(scope);
    return apart;
}

static void print_products(void)
{
    tn_log_set(listen, NULL);
    tn_device *device = tn_device_open("cuda");
    int wrong = wrong_products(device);
    double apart = broadcast_difference(device);
    int chosen = atomic_load(&takes);
    wrong += wrong_products(device);
    printf("%d wrong, %g apart, takes %d then %d, has no %d, slow %d", wrong,
           apart, chosen, atomic_load(&takes), atomic_load(&has_none),
           atomic_load(&slow));
}

static void print_error(void)
{
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = numbers(1, 2, 2, 1);
    tn_matmul(x, x);
    printf("%s", tn_error() ? tn_error() : "no error");
}

static void print_report(void)
{
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = numbers(1, 2, 2, 1);
    tn_matmul(x, x);
    printf("%d", strstr(tn_load_report(), "cuBLASLt is not found") != NULL);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"float32", "float64", "float16",
                                        "bfloat16"};
    (void)argc;
    plan_later();
    on_any_driver(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    setenv("TENON_LOG", "3", 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dtype = tn_dtype_from_name(names[i]);
        is_str(in_child(print_products),
               "0 wrong, 0 apart, takes 14 then 14, has no 0, slow 0",
               "%s: products are the cpu's, and an algorithm is chosen once "
               "for a shape", names[i]);
    }
    dtype = TN_F32;
    if (!on_real_driver()) {
        setenv("TENON_SIM_NO_ALGORITHM", "13", 1);
        is_str(in_child(print_products),
               "0 wrong, 0 apart, takes 13 then 13, has no 1, slow 0",
               "where cuBLASLt has no algorithm the own kernel multiplies");
        unsetenv("TENON_SIM_NO_ALGORITHM");
    }
    setenv("TENON_CUDA_CUBLASLT", "/nonexistent", 1);
    is_str(in_child(print_products),
           "0 wrong, 0 apart, takes 0 then 0, has no 0, slow 1",
           "without cuBLASLt it does, and the log says so once");
    is_str(in_child(print_report), "1", "the report says so, too");
    setenv("TENON_CUDA_MATMUL", "cublaslt", 1);
    is_str(in_child(print_error),
           "matmul: cuda:0: TENON_CUDA_MATMUL=cublaslt: cuBLASLt is not found; "
           "install NVIDIA's libcublas, or set TENON_CUDA_LIBS to its "
           "folder (/nonexistent: cannot open shared object "
           "file: No such file or directory)",
           "a library that is requested by name and missing is an error");
    return done_testing();
}
