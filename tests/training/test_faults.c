/* test_faults.c: each allocation of a training step fails in turn.
 *
 * The call must report each failure as an error. The next step must work, and
 * the memory in use must stay the same. */
#include <base/memory.h>
#include <tenon/tenon.h>

#include "../tap.h"

typedef struct trainer {
    tn_module *net;
    tn_optim *optim;
    tn_tensor *x, *y;
} trainer;

static tn_status step(trainer *t)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *loss = tn_cross_entropy(tn_forward(t->net, t->x), t->y);
    tn_optim_zero_grad(t->optim);
    tn_backward(loss);
    tn_optim_step(t->optim);
    tn_status status = tn_error_code();
    tn_scope_close(scope);
    return status;
}

static tn_module *network(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 4, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_linear(64, 8),
        tn_nn_gelu(), tn_nn_linear(8, 10));
}

static trainer trainer_new(void)
{
    tn_manual_seed(3);
    trainer t = {.net = network()};
    t.optim = tn_optim_adam(tn_parameters(t.net));
    t.x = tn_randn(tn_dims(4, 1, 8, 8));
    t.y = tn_arange(0, 4, 1, .dtype = TN_I64);
    return t;
}

/* Each allocation of a backward pass fails in turn: tn_backward returns the
 * pending error, and no leaf has a gradient. */
static void check_backward(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *v = tn_ones(tn_dims(3));
    tn_tensor *w[] = {tn_requires_grad(tn_ones(tn_dims(3, 2))),
                      tn_requires_grad(tn_ones(tn_dims(3)))};
    int64_t wrong = 0, refused = 0;
    tn_status status = TN_OK;
    enum { MORE = 400 }; /* more allocations than a backward pass makes */
    for (int n = 0; n <= MORE; n++) { /* the first round compiles the kernels */
        tn_scope *scope = tn_scope_open();
        tn_tensor *loss = tn_add(tn_sum(tn_matmul(x, w[0])),
                                 tn_sum(tn_mul(tn_matmul(x, w[1]),
                                               tn_matmul(x, v))));
        tn__memory_fail_at(n);
        status = tn_backward(loss);
        tn__memory_fail_at(0);
        bool all = tn_tensor_grad(w[0]) && tn_tensor_grad(w[1]);
        bool none = !tn_tensor_grad(w[0]) && !tn_tensor_grad(w[1]);
        refused += status == TN_ERR_MEMORY;
        wrong += status != tn_error_code() || !(status ? none : all);
        tn_error_clear();
        tn_tensor_set_grad(w[0], NULL);
        tn_tensor_set_grad(w[1], NULL);
        tn_scope_close(scope);
    }
    ok(refused > 20 && status == TN_OK,
       "%lld backward passes ran out of memory", (long long)refused);
    is_int(wrong, 0, "each returned that, and left no leaf a gradient");
}

/* Setting the first gradient of a tensor allocates memory. */
static void check_set_grad(void)
{
    tn_tensor *g = tn_ones(tn_dims(2));
    int64_t n = 1;
    for (tn_status status = TN_ERR_MEMORY; status && n < 20; n++) {
        tn_tensor *x = tn_ones(tn_dims(2));
        tn__memory_fail_at(n);
        status = tn_tensor_set_grad(x, g);
        tn__memory_fail_at(0);
        is_int(status, tn_error_code(), "set_grad, allocation %lld: %s",
               (long long)n, status ? "refused" : "set");
        ok(tn_tensor_grad(x) == (status ? NULL : g), "and so is the gradient");
        tn_error_clear();
    }
    ok(n > 2 && n < 20, "it needs memory, and is set where there is enough");
}

int main(void)
{
    plan_later();
    check_backward();
    check_set_grad();
    trainer t = trainer_new();
    for (int i = 0; i < 3; i++)
        step(&t);
    if (!ok(!tn_error(), "training works before anything fails"))
        bail_out("%s", tn_error());
    int64_t live = tn__memory_live();

    int64_t before = tn__memory_count();
    step(&t);
    int64_t allocations = tn__memory_count() - before;
    note("a step makes %lld allocations", (long long)allocations);
    int64_t failed = 0, wrong_code = 0, not_recovered = 0, grown = 0, n;
    for (n = 1; n <= allocations + 200; n++) {
        tn__memory_fail_at(n);
        tn_status status = step(&t);
        bool was_hit = status != TN_OK;
        tn__memory_fail_at(0);
        failed += was_hit;
        if (was_hit && status != TN_ERR_MEMORY) {
            note("allocation %lld: %s: %s", (long long)n,
                 tn_status_name(status), tn_error());
            wrong_code++;
        }
        tn_error_clear();
        if (step(&t) != TN_OK) {
            note("after allocation %lld: %s", (long long)n, tn_error());
            not_recovered++;
            tn_error_clear();
        }
        if (tn__memory_live() > live + 64) {
            grown++;
            live = tn__memory_live();
        }
    }
    note("%lld of %lld steps met a failure", (long long)failed,
         (long long)(n - 1));
    is_int(wrong_code, 0, "each failed allocation is TN_ERR_MEMORY");
    is_int(not_recovered, 0, "the step after each failure works");
    ok(grown <= 2, "no failure leaves memory behind (%lld did)",
       (long long)grown);

    /* Each allocation fails while a model is created and makes its first
     * step. */
    int64_t made = 0, refused = 0;
    for (n = 1; n < 2000; n++) {
        tn_scope *scope = tn_scope_open();
        tn__memory_fail_at(n);
        trainer fresh = trainer_new();
        tn_status status = tn_error() ? tn_error_code() : step(&fresh);
        tn__memory_fail_at(0);
        if (status == TN_OK)
            made++;
        else if (status == TN_ERR_MEMORY)
            refused++;
        else
            note("making, allocation %lld: %s", (long long)n, tn_error());
        tn_error_clear();
        tn_scope_close(scope);
        if (status != TN_OK && status != TN_ERR_MEMORY)
            break;
        if (made > 20)
            break; /* n is greater than the number of allocations */
    }
    is_int(made + refused, n < 2000 ? n : n - 1,
           "a model is made, or a failed allocation is reported");
    ok(refused > 0, "making a model met %lld failures", (long long)refused);
    return done_testing();
}
