/* The library checks the values that a program's callbacks return like
 * arguments. Here they return a tensor whose scope is closed, or a module. The
 * same is tested for values in options. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include <tenon/tenon.h>

static tn_tensor *wrong; /* the wrong object that callbacks return */
static bool told;        /* under TENON_DEBUG=scopes the message says where the
                          * object was freed */

static tn_tensor *gone(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_ones(tn_dims(2, 3));
    tn_scope_close(scope);
    return x;
}

static tn_tensor *forward(tn_module *self, tn_tensor *x)
{
    (void)self, (void)x;
    return wrong;
}

static const tn_module_class thing = {.size = sizeof thing,
                                      .name = "Thing",
                                      .bytes = sizeof(tn_module),
                                      .forward = forward};

static tn_tensor *module_hook(tn_module *module, tn_tensor *input,
                              tn_tensor *output, void *context)
{
    (void)module, (void)input, (void)output, (void)context;
    return wrong;
}

static tn_status list_hook(tn_module *module, tn_tensor **inputs,
                           int input_count, tn_tensor **outputs,
                           int output_count, void *context)
{
    (void)module, (void)input_count, (void)context;
    *(output_count ? outputs : inputs) = wrong;
    return TN_OK;
}

static void forward_list(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count)
{
    (void)self, (void)in_count;
    out[0] = in[0];
    out[out_count - 1] = wrong;
}

static const tn_module_class pair = {.size = sizeof pair,
                                     .name = "Pair",
                                     .bytes = sizeof(tn_module),
                                     .forward_list = forward_list,
                                     .signature = "x -> y, z"};

static tn_tensor *grad_hook(tn_tensor *grad, void *context)
{
    (void)grad, (void)context;
    return wrong;
}

static int get(void *context, int64_t i, tn_tensor **fields)
{
    (void)context, (void)i;
    fields[0] = wrong;
    return 1;
}

static tn_status rule_forward(tn_op_context *call, tn_tensor **out)
{
    (void)call;
    out[0] = wrong;
    return TN_OK;
}

static tn_status again(tn_tensor *const *inputs, int count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)inputs, (void)count, (void)out_count, (void)context;
    out[0] = wrong;
    return TN_OK;
}

static tn_tensor *checked(tn_tensor *const *inputs, int count, void *context)
{
    (void)inputs, (void)count, (void)context;
    return wrong;
}

static void refused(bool did, const char *name)
{
    const char *error = tn_error() ? tn_error() : "nothing";
    const char *why = told ? " freed it when it was closed" : " was freed: ";
    ok(!did && (strstr(error, why) ||
                strstr(error, " is a module, not a tensor")),
       "%s: %s", name, error);
    tn_error_clear();
}

static void try_all(void)
{
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(2, 3))), *out = NULL;
    tn_module *module = tn_module_new(&thing);
    refused(tn_forward(module, x), "a module's result");

    tn_tensor *outs[2];
    refused(tn_forward_list(tn_module_new(&pair), &x, 1, outs, 2) >= 0,
            "a module's second result");

    tn_module *linear = tn_nn_linear(3, 2);
    tn_hook *hook = tn_module_register_forward_pre_hook(linear, module_hook,
                                                        NULL);
    refused(tn_forward(linear, x), "the result of a forward pre-hook");
    tn_hook_remove(hook);
    hook = tn_module_register_forward_hook(linear, module_hook, NULL);
    refused(tn_forward(linear, x), "the result of a forward hook");
    tn_hook_remove(hook);
    hook = tn_module_register_forward_pre_list_hook(linear, list_hook, NULL);
    refused(tn_forward(linear, x), "the result of a forward pre-list hook");
    tn_hook_remove(hook);
    hook = tn_module_register_forward_list_hook(linear, list_hook, NULL);
    refused(tn_forward(linear, x), "the result of a forward list hook");
    tn_hook_remove(hook);
    hook = tn_module_register_full_backward_hook(linear, module_hook, NULL);
    tn_tensor *y = tn_forward(linear, x);
    refused(tn_backward(tn_sum(y)) >= 0, "the result of a backward hook");
    tn_hook_remove(hook);

    y = tn_mul(x, x);
    tn_tensor_register_hook(y, grad_hook, NULL);
    refused(tn_backward(tn_sum(y)) >= 0, "the result of a tensor's hook");
    y = tn_mul(x, x);
    tn_backward_options with = TN_BACKWARD_OPTIONS;
    with.gradient = wrong;
    refused(tn_backward_with(y, &with) >= 0, "the option .gradient");

    static const tn_dataset_class set = {sizeof set, 3, get, NULL};
    int64_t index = 0;
    tn_tensor *fields[TN_MAX_FIELDS];
    refused(tn_dataset_batch(tn_dataset_new(&set, NULL), &index, 1, fields) >=
                0,
            "a sample");
    TN_EACH_BATCH(batch, tn_loader_new(tn_dataset_new(&set, NULL)))
        ok(false, "no batch is made of it");
    refused(false, "a sample of a loader");

    static const tn_op_rule rule = {.size = sizeof rule,
                                    .signature = "callback_of_nulls(x)",
                                    .forward = rule_forward};
    static const tn_op *op;
    op = op ? op : tn_op_register(&rule);
    refused(tn_op_apply(op, &x, NULL), "an operator's result");
    refused(tn_recompute(again, NULL, &x, 1, &out, 1) >= 0,
            "an output that is recomputed");
    tn_tensor *wide = tn_requires_grad(tn_ones(tn_dims(2), .dtype = TN_F64));
    refused(tn_gradcheck(checked, &wide, 1, NULL) >= 0, "gradcheck's output");
    refused(tn_gradgradcheck(checked, &wide, 1, NULL) >= 0,
            "gradgradcheck's output");
    refused(tn_cat(&wrong, 1, 0), "one of a list");
    refused(tn_zeros_like(wrong), "an operator's input");
}

/* Runs the tests in a process with TENON_DEBUG=scopes. Returns how many
 * failed. */
static int try_debug(void)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("TENON_DEBUG", "scopes", 1);
        told = true;
        if (!freopen("/dev/null", "w", stdout))
            _exit(99);
        wrong = gone();
        try_all();
        tn_scope *scope = tn_scope_open();
        tn_optim *optim = tn_optim_sgd_with(
            tn_parameters(tn_nn_linear(1, 1)), NULL);
        tn_scope_close(scope);
        tn_optim_step(optim);
        ok(strstr(tn_error(), "optim_step: optim was freed: made by optim_sgd, scope "),
           "an optimizer's maker is named");
        _exit(tap_failed);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

int main(void)
{
    plan_later();
    is_int(try_debug(), 0, "TENON_DEBUG=scopes reports which scope freed it");
    note("of a tensor that is gone:");
    wrong = gone();
    try_all();
    note("of a module:");
    wrong = (tn_tensor *)(void *)tn_nn_relu();
    try_all();
    tn_checkpoint all = {.size = sizeof all, .module = (void *)gone()};
    ok(tn_checkpoint_save("callbacks.ckpt", &all) < 0 &&
           strstr(tn_error(), "checkpoint_save: module is a tensor that was "
                              "freed, not a module"),
       "a part of a checkpoint: %s", tn_error());
    ok(access("callbacks.ckpt", F_OK) != 0, "of which no file is made");
    return done_testing();
}
