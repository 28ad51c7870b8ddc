/* test_long.c: checks that ten thousand training steps do not increase the
 * memory of the process or the number of live tensors. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "../tap.h"

/* Under a sanitizer freed memory is not reused, so the process always grows. */
#if defined(__SANITIZE_ADDRESS__)
static const bool holds_back = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
static const bool holds_back = true;
#else
static const bool holds_back = false;
#endif
#else
static const bool holds_back = false;
#endif

static long resident_kib(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &total, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(void)
{
    plan_later();
    tn_manual_seed(1);
    tn_module *net = tn_nn_sequential(tn_nn_linear(8, 16), tn_nn_tanh(),
                                      tn_nn_linear(16, 4));
    tn_optim *optim = tn_optim_adam(tn_parameters(net));
    tn_tensor *x = tn_randn(tn_dims(16, 8)), *y = tn_randn(tn_dims(16, 4));
    tn_memory_stats early = {.size = sizeof early}, late = early;
    long early_kib = 0;
    double first = 0, last = 0;
    for (int i = 0; i < 10000 && !tn_error(); i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *loss = tn_mse_loss(tn_forward(net, x), y);
        tn_optim_zero_grad(optim);
        tn_backward(loss);
        tn_optim_step(optim);
        if (i == 0)
            first = tn_item(loss);
        last = tn_item(loss);
        tn_scope_close(scope);
        if (i == 500) {
            early_kib = resident_kib();
            tn_memory(NULL, &early);
        }
    }
    ok(!tn_error(), "ten thousand steps: %s", tn_error() ? tn_error() : "ok");
    ok(last < first, "the loss went from %.4f to %.4f", first, last);
    tn_memory(NULL, &late);
    is_int(late.allocated_bytes, early.allocated_bytes,
           "tensors take the same bytes after step 500 and after the last");
    is_int(late.slab_count, early.slab_count,
           "no device memory was allocated after step 500");
    if (holds_back)
        skip(1, "a sanitizer holds back freed memory");
    else if (early_kib == 0)
        skip(1, "the size of the process is not available here");
    else
        ok(resident_kib() - early_kib <= 256,
           "the process grew by %ld KiB since step 500",
           resident_kib() - early_kib);
    return done_testing();
}
