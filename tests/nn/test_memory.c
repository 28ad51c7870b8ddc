/* test_memory.c: tests how much memory a model uses, and the error details when
 * memory runs out. */
#include <stdlib.h>
#include <tap.h>
#include <tenon/tenon.h>

enum { LAYERS = 50, ROWS = 256, WIDTH = 512 };

static tn_memory_stats memory(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    return stats;
}

/* A container frees the intermediate results of its layers. */
static void test_layers(void)
{
    tn_scope *scope = tn_scope_open();
    tn_module *layer[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        layer[i] = i % 2 ? tn_nn_relu() : tn_nn_linear(WIDTH, WIDTH);
    tn_module *net = tn_nn_sequential_with(layer, LAYERS);
    tn_tensor *x = tn_randn(tn_dims(ROWS, WIDTH));
    int64_t activation = ROWS * WIDTH * (int64_t)sizeof(float);
    int64_t before = memory().allocated_bytes;
    tn_memory_reset_peak(NULL);
    TN_NO_GRAD {
        ok(tn_forward(net, x) != NULL, "%d layers run without gradients",
           LAYERS);
    }
    double most = (double)(memory().peak_bytes - before) / (double)activation;
    ok(most >= 1 && most <= 3, "they hold at most 3 activations: %.2f", most);
    is_str(tn_error(), NULL, "no error");
    tn_scope_close(scope);
}

static void test_out_of_memory(void)
{
    enum { MIB = 1024 * 1024 };
    tn_scope *scope = tn_scope_open();
    tn_module *net = tn_nn_sequential(tn_nn_linear(512, 1024), tn_nn_relu(),
                                      tn_nn_linear(1024, 4096));
    tn_tensor *x = tn_zeros(tn_dims(1024, 512)); /* takes 2 MiB */
    tn_tensor *two = tn_ones(tn_dims(1024, 1024));
    int64_t used = memory().allocated_bytes;
    tn_memory_set_limit(NULL, used + 12 * MIB);
    ok(!tn_forward(net, x), "a model that needs more than the limit");
    is_int(tn_error_code(), TN_ERR_MEMORY, "runs out of memory");
    const char *text = tn_error() ? tn_error() : "";
    note("%s", text);
    ok(strncmp(text, "2: linear: out of memory on ", 28) == 0,
       "the message begins with the module and the operator");
    ok(strstr(text, ": 16.00 MiB requested, ") != NULL, "tells what was asked");
    ok(strstr(text, "largest holders: ") != NULL &&
           /* a matrix library may save one more value for the gradient */
           (strstr(text, " by linear_activation in 0 (1)") != NULL ||
            strstr(text, " by linear_activation in 0 (2)") != NULL) &&
           strstr(text, " by ones (1)") != NULL,
       "and who holds the most, by operator and module");
    tn_error_clear();
    tn_memory_set_limit(NULL, 0);
    ok(two && tn_forward(net, x) != NULL, "without the limit it runs");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    test_layers();
    test_out_of_memory();
    return done_testing();
}
