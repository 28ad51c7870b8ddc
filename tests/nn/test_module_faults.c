/* test_module_faults.c: each allocation of a copy, a load, a summary and an
 * initialisation fails in turn. The call must report it and leak nothing, and
 * the next attempt must work. */
#include <base/memory.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

static tn_module *net;
static tn_tensor *x, *wide;
static char path[64];

static bool try_clone(void)
{
    return tn_module_clone(net);
}

static bool try_substitute(void)
{
    tn_tensor *value = tn_module_parameter(net, "0.bias");
    return tn_module_substitute(net, &value, 1,
                                .names = (const char *[]){"0.bias"});
}

static bool try_load(void)
{
    tn_module_report *report = NULL;
    return tn_module_load(
               net, path, .strict = false, .report = &report,
               .rename = (tn_rename[]){{"0.", "9."}, {NULL, NULL}}) == TN_OK &&
           tn_module_report_count(report) == 4;
}

static bool try_summary(void)
{
    tn_summary_totals totals;
    return tn_summary(NULL, net, tn_dims(2, 3), .totals = &totals) == TN_OK;
}

static bool try_forward_list(void)
{
    tn_module *gru = tn_nn_gru(3, 3);
    tn_tensor *out[2];
    tn_module_set_recompute(gru, true);
    return gru && tn_forward_list(gru, &x, 1, out, 2) == TN_OK &&
           tn_backward(tn_sum(out[1])) == TN_OK;
}

static bool try_lists(void)
{
    tn_module *list = tn_nn_module_list(tn_nn_relu(), tn_nn_identity());
    return tn_module_append(list, tn_nn_tanh()) != NULL;
}

static bool try_init(void)
{
    return tn_init_orthogonal(wide) && tn_init_sparse(wide, 0.5) &&
           tn_init_trunc_normal(wide, .a = 3, .b = 4) &&
           tn_init_kaiming_normal(wide);
}

static void fails_in_turn(bool (*run)(void), const char *name)
{
    enum { MOST = 2000 };
    int refused = 0, wrong = 0, left = 0, n = 0;
    bool done = false;
    for (n = 0; n <= MOST && !done; n++) { /* the first round also compiles
                                            * kernels */
        int64_t before = tn_scope_count();
        tn_scope *scope = tn_scope_open();
        tn__memory_fail_at(n);
        bool fine = run();
        tn__memory_fail_at(0);
        refused += !fine;
        wrong += fine ? tn_error() != NULL : tn_error_code() != TN_ERR_MEMORY;
        if (!fine && tn_error_code() != TN_ERR_MEMORY)
            note("%s, allocation %d: %s", name, n,
                 tn_error() ? tn_error() : "no error");
        done = fine && n > 0;
        tn_error_clear();
        tn_scope_close(scope);
        left += tn_scope_count() != before;
    }
    ok(done && refused > 1, "%s: %d allocations failed, then it worked", name,
       refused);
    is_int(wrong, 0, "%s: each failure was an error of memory", name);
    is_int(left, 0, "%s: no object was left over", name);
}

int main(void)
{
    tap_find_plugin();
    tn_scope *scope = tn_scope_open();
    net = tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_batch_norm1d(4),
                           tn_nn_linear(4, 2));
    x = tn_ones(tn_dims(2, 3));
    wide = tn_ones(tn_dims(4, 3));
    snprintf(path, sizeof path, "test_faults_%d.safetensors", (int)getpid());
    tn_module_save(net, path);
    fails_in_turn(try_clone, "clone");
    fails_in_turn(try_substitute, "substitute");
    fails_in_turn(try_load, "load");
    fails_in_turn(try_summary, "summary");
    fails_in_turn(try_forward_list, "forward_list");
    fails_in_turn(try_lists, "lists");
    fails_in_turn(try_init, "init");
    unlink(path);
    tn_scope_close(scope);
    return done_testing();
}
