/* Tests that functions which need a module reject NULL and other objects, with
 * an error that begins with the function's name. For NULL as another argument,
 * the error must name that argument. */
#include <tap.h>
#include <tenon/tenon.h>

static tn_tensor *x;
static tn_module *linear;
static FILE *nowhere;

/* ---- calls with a wrong module ------------------------------------------- */

static tn_tensor *hook(tn_module *module, tn_tensor *input, tn_tensor *output,
                       void *context)
{
    (void)module, (void)input, (void)context;
    return output;
}

static tn_status list_hook(tn_module *module, tn_tensor **inputs,
                           int input_count, tn_tensor **outputs,
                           int output_count, void *context)
{
    (void)module, (void)inputs, (void)input_count, (void)context;
    (void)outputs, (void)output_count;
    return TN_OK;
}

static void visit(tn_module *module, const char *path, void *context)
{
    (void)module, (void)path;
    ++*(int *)context;
}

static bool call_begin(void *m)
{
    tn_tensor *in[] = {x}, *out[] = {x};
    tn_module_call call = tn_module_begin(m, in, 1);
    return tn_module_end(m, &call, out, 1) || in[0] || out[0];
}

static bool call_walk(void *m)
{
    int seen = 0;
    tn_module_walk(m, visit, &seen);
    return seen > 0;
}

static bool call_list(void *m)
{
    tn_tensor *out = x;
    return tn_forward_list(m, &x, 1, &out, 1) >= 0 || out;
}

static bool call_pool(void *m)
{
    tn_tensor *indices = NULL;
    return tn_nn_pool_forward(m, x, &indices) || indices;
}

static bool call_zero_grad(void *m)
{
    tn_module_zero_grad(m);
    return !tn_error();
}

/* X(name, call): the call is true if the function returned anything. */
#define CALLS(X)                                                               \
    X(forward, tn_forward(m, x))                                               \
    X(forward_list, call_list(m))                                              \
    X(module_signature, tn_module_signature(m))                                \
    X(register_forward_pre_list_hook,                                          \
      tn_module_register_forward_pre_list_hook(m, list_hook, NULL))            \
    X(register_forward_list_hook,                                              \
      tn_module_register_forward_list_hook(m, list_hook, NULL))                \
    X(module_add, tn_module_add(m, "a", linear))                               \
    X(module_add, tn_module_add(linear, "b", m))                               \
    X(module_add_parameter, tn_module_add_parameter(m, "a", x))                \
    X(module_add_buffer, tn_module_add_buffer(m, "a", x))                      \
    X(register_forward_pre_hook,                                               \
      tn_module_register_forward_pre_hook(m, hook, NULL))                      \
    X(register_forward_hook, tn_module_register_forward_hook(m, hook, NULL))   \
    X(register_full_backward_pre_hook,                                         \
      tn_module_register_full_backward_pre_hook(m, hook, NULL))                \
    X(register_full_backward_hook,                                             \
      tn_module_register_full_backward_hook(m, hook, NULL))                    \
    X(register_full_backward_pre_list_hook,                                    \
      tn_module_register_full_backward_pre_list_hook(m, list_hook, NULL))      \
    X(register_full_backward_list_hook,                                        \
      tn_module_register_full_backward_list_hook(m, list_hook, NULL))          \
    X(module_register_parametrization,                                         \
      tn_module_register_parametrization(m, "weight", linear))                 \
    X(module_remove_parametrizations,                                          \
      tn_module_remove_parametrizations(m, "weight"))                          \
    X(module_set_parametrized, tn_module_set_parametrized(m, "weight", x))     \
    X(nn_weight_norm, tn_nn_weight_norm(m, "weight"))                          \
    X(nn_spectral_norm, tn_nn_spectral_norm(m, "weight"))                      \
    X(nn_orthogonal, tn_nn_orthogonal(m, "weight"))                            \
    X(prune, tn_prune(m, "weight", "l1_unstructured", .amount = 0.5))          \
    X(prune_remove, tn_prune_remove(m, "weight"))                              \
    X(module_set_recompute, tn_module_set_recompute(m, true))                  \
    X(module_begin, call_begin(m))                                             \
    X(module_child, tn_module_child(m, "a"))                                   \
    X(module_parameter, tn_module_parameter(m, "weight"))                      \
    X(module_buffer, tn_module_buffer(m, "a"))                                 \
    X(module_walk, call_walk(m))                                               \
    X(module_train, tn_module_train(m, true))                                  \
    X(module_to, tn_module_to(m, .device = tn_device_current()))               \
    X(module_set_requires_grad, tn_module_set_requires_grad(m, true))          \
    X(module_append, tn_module_append(m, linear))                              \
    X(module_append_parameter, tn_module_append_parameter(m, x))               \
    X(summary, tn_summary(nowhere, m, tn_dims(2)) >= 0)                        \
    X(module_clone, tn_module_clone(m))                                        \
    X(module_substitute, tn_module_substitute(m, &x, 1))                       \
    X(module_zero_grad, call_zero_grad(m))                                     \
    X(module_parameter_count, tn_module_parameter_count(m) > 0)                \
    X(module_print, tn_module_print(nowhere, m) >= 0)                          \
    X(parameters, tn_parameters(m))                                            \
    X(module_state, tn_module_state(m))                                        \
    X(module_save, tn_module_save(m, "no such folder/file") >= 0)              \
    X(module_load, tn_module_load(m, "no such folder/file") >= 0)              \
    X(nn_rnn_forward, tn_nn_rnn_forward(m, x, NULL, NULL))                     \
    X(nn_embedding_bag_forward, tn_nn_embedding_bag_forward(m, x, NULL, NULL)) \
    X(nn_bilinear_forward, tn_nn_bilinear_forward(m, x, x))                    \
    X(nn_pool_forward, call_pool(m))                                           \
    X(nn_adaptive_log_softmax_forward,                                         \
      tn_nn_adaptive_log_softmax_forward(m, x, x, NULL))

/* Makes the call with index `number` and stores its name; NULL after the last
 * one. */
static bool attempt(int number, void *m, const char **name)
{
    int at = 0;
#define TRY(called, call)                                                     \
    if (at++ == number) {                                                     \
        *name = #called;                                                      \
        return (call);                                                        \
    }
    CALLS(TRY)
#undef TRY
    *name = NULL;
    return false;
}

static void try_all(void *m, const char *what, const char *told)
{
    const char *name = "";
    for (int i = 0; name; i++) {
        bool did = attempt(i, m, &name);
        char want[120];
        if (!name)
            break;
        /* for module_add the wrong object is the child */
        bool child = tn_error() && strstr(tn_error(), "module_add: child");
        snprintf(want, sizeof want, "%s: %s is %s", name,
                 child ? "child" : "module", told);
        ok(!did, "%s of %s does nothing", name, what);
        is_str(tn_error(), want, "%s of %s is refused", name, what);
        tn_error_clear();
    }
}

/* ---- calls with NULL for another argument -------------------------------- */

static void refused(bool did, const char *want)
{
    ok(!did, "nothing done");
    is_str(tn_error(), want, "%s", want);
    tn_error_clear();
}

static void try_others(void)
{
    refused(tn_forward(linear, NULL), "forward: input is NULL");
    refused(tn_module_add(linear, "a", NULL), "module_add: child is NULL");
    refused(tn_module_add(linear, NULL, tn_nn_relu()),
            "Linear: module_add: \"\": expected a name");
    refused(tn_module_add_parameter(linear, "a", NULL),
            "module_add_parameter: value is NULL");
    refused(tn_module_add_buffer(linear, "a", NULL),
            "module_add_buffer: value is NULL");
    refused(tn_forward(tn_nn_mse_loss(), x, NULL),
            "MSELoss: target is NULL");
    refused(tn_nn_pool_forward(tn_nn_max_pool1d(2), x, NULL),
            "nn_pool_forward: out_indices is NULL");
    refused(tn_module_child(linear, NULL), "module_child: path is NULL");
    refused(tn_module_parameter(linear, NULL),
            "module_parameter: path is NULL");
    refused(tn_module_buffer(linear, NULL), "module_buffer: path is NULL");
    tn_module_walk(linear, NULL, NULL);
    refused(false, "module_walk: visit is NULL");
    refused(tn_module_to(linear),
            "module_to: device is NULL: give .device or .dtype");
    refused(tn_module_print(NULL, linear) >= 0, "module_print: file is NULL");
    refused(tn_parameters_from((tn_tensor *[]){NULL}, 1),
            "parameters_from: tensors[0] is NULL");
    tn_tensor *a = tn_requires_grad(tn_ones(tn_dims(2)));
    tn_tensor *b = tn_requires_grad(tn_ones(tn_dims(2)));
    refused(tn_parameters_from((tn_tensor *[]){a, b, a}, 3),
            "parameters_from: tensors[0] and tensors[2] are one tensor: an "
            "optimizer would step it twice");
    refused(tn_nn_bilinear_forward(tn_nn_bilinear(2, 2, 2, true), x, NULL),
            "nn_bilinear_forward: input2 is NULL");
    refused(tn_nn_rnn_forward(linear, x, NULL, NULL),
            "nn_rnn_forward: the module is a Linear");
}

static const tn_object_class other_class = {sizeof other_class, "other",
                                            sizeof(tn_object), NULL};

int main(void)
{
    plan_later();
    x = tn_ones(tn_dims(2, 3));
    linear = tn_nn_linear(3, 4);
    nowhere = tmpfile();
    void *object = tn_object_new(&other_class, 0);
    ok(tn_object_is(object, &other_class), "an object is of its class");
    ok(!tn_object_is(linear, &other_class) && !tn_object_is(x, &other_class) &&
           !tn_object_is(NULL, &other_class),
       "and others are not");
    try_all(NULL, "NULL", "NULL");
    try_all(x, "a tensor", "a tensor, not a module");
    try_all(object, "another object", "an other, not a module");
    try_all(tn_parameters(linear), "a list of parameters",
            "a parameter list, not a module");
    try_others();
    fclose(nowhere);
    return done_testing();
}
