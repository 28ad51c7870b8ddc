/* test_carry.c: tests tn_scope_carry, which passes a loop's state from one step
 * to the next: values, gradients, and that earlier steps are freed. */
#include <tenon/tenon.h>

#include "../tap.h"

static void check_loop(void)
{
    tn_manual_seed(3);
    tn_module *lstm = tn_nn_lstm(4, 5);
    tn_tensor *x = tn_randn(tn_dims(6, 2, 4)); /* 3 chunks of 2 time steps */
    tn_tensor *h = NULL, *c = NULL, *h2 = NULL, *c2 = NULL;
    tn_scope *all = tn_scope_open();
    int64_t count = 0;
    for (int step = 0; step < 3; step++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *out = tn_nn_lstm_forward(lstm, tn_narrow(x, 0, 2 * step, 2),
                                            h, c, &h, &c);
        tn_module_zero_grad(lstm);
        tn_backward(tn_sum(tn_square(out)));
        is_int(tn_scope_carry(scope, &h, &c), TN_OK, "step %d carries", step);
        ok(!tn_tensor_requires_grad(h), "h is detached");
        tn_scope_close(scope);
        if (step)
            is_int(tn_scope_count(), count, "the state before is freed");
        count = tn_scope_count();
    }
    tn_tensor *grad =
        tn_clone(tn_tensor_grad(tn_module_parameter(lstm, "weight_hh_l0")));
    for (int step = 0; step < 3; step++) { /* the same computation without
                                            * tn_scope_carry */
        tn_tensor *out = tn_nn_lstm_forward(lstm, tn_narrow(x, 0, 2 * step, 2),
                                            h2, c2, &h2, &c2);
        tn_module_zero_grad(lstm);
        tn_backward(tn_sum(tn_square(out)));
        h2 = tn_detach(h2);
        c2 = tn_detach(c2);
    }
    ok(tn_item_int(tn_all(tn_eq(h, h2))) && tn_item_int(tn_all(tn_eq(c, c2))),
       "the state is that of a loop with tn_detach");
    ok(tn_item_int(tn_all(tn_eq(
           grad, tn_tensor_grad(tn_module_parameter(lstm, "weight_hh_l0"))))),
       "and so are the gradients");
    h = tn_scope_result(all, h);
    is_int(tn_tensor_numel(h), 10, "the last state can be a scope's result");
    ok(tn_item(tn_sum(tn_square(h))) > 0, "and is alive");
}

static void check_cases(void)
{
    int64_t before = tn_scope_count();
    tn_tensor *x = NULL, *none = NULL, *kept = NULL;
    for (int i = 0; i < 200; i++) { /* the loop's scopes are within the root
                                     * scope */
        tn_scope *scope = tn_scope_open();
        x = x ? tn_add_scalar(x, 1) : tn_zeros(tn_dims(2));
        tn_ones(tn_dims(1));
        tn_scope_carry(scope, &x, &none);
        tn_scope_close(scope);
    }
    is_double_near(tn_item(tn_sum(x)), 398, 0, "200 steps have counted");
    ok(tn_scope_count() - before <= 3, "one object is left: %lld",
       (long long)(tn_scope_count() - before));
    ok(!none, "a variable that is NULL stays so");
    tn_scope *scope = tn_scope_open();
    kept = tn_keep(tn_ones(tn_dims(1)));
    tn_tensor *outer = x;
    tn_scope_carry(scope, &x, &kept);
    tn_scope_carry(scope, &kept);
    ok(x == outer, "an outer scope's tensor stays");
    tn_scope_close(scope);
    tn_drop(kept);
    tn_drop(x);
    scope = tn_scope_open();
    x = tn_ones(tn_dims(3)); /* frees the tensor that was carried before */
    tn_scope_carry(scope, &x);
    tn_scope_close(scope);
    is_int(tn_tensor_numel(x), 3, "a dropped tensor is replaced");
    tn_drop(x);
    ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "");
}

#define REFUSED(call, want, text)                                              \
    do {                                                                       \
        is_int(call, want, "refused");                                         \
        ok(tn_error() && strstr(tn_error(), text), "by name: %s",              \
           tn_error() ? tn_error() : "");                                      \
        tn_error_clear();                                                      \
    } while (0)

static void check_mistakes(void)
{
    tn_tensor *x = tn_ones(tn_dims(1));
    tn_scope *scope = tn_scope_open(), *inner = tn_scope_open();
    tn_tensor *y = tn_ones(tn_dims(1));
    REFUSED(tn_scope_carry(scope, &y), TN_ERR_STATE, "close it first");
    tn_scope_close(inner);
    REFUSED(tn_scope_carry(NULL, &x), TN_ERR_ARGUMENT,
            "scope_carry: scope is NULL");
    REFUSED(tn_scope_carry(scope, (tn_tensor **)NULL), TN_ERR_ARGUMENT,
            "variable 1 is NULL");
    tn_tensor *module = (tn_tensor *)tn_nn_linear(1, 1);
    REFUSED(tn_scope_carry(scope, &module), TN_ERR_ARGUMENT, "module");
    tn_scope_close(scope);
    REFUSED(tn_scope_carry(scope, &x), TN_ERR_STATE, "not open");
    tn_mul(NULL, NULL);
    is_int(tn_scope_carry(scope, &x), TN_ERR_STATE, "a pending error stays");
    tn_error_clear();
}

int main(void)
{
    check_loop();
    check_cases();
    check_mistakes();
    return done_testing();
}
