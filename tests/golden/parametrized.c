/* parametrized.c: parametrized and pruned layers. The arguments of a sample name
 * a layer, and the calls to make on it (make_layers_more.py). */
#include "layer.h"

#include <math.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

static double number(const json_t *args, const char *name, double fallback)
{
    const json_t *value = json_object_get(args, name);
    const char *text = json_string_value(value);
    return text                   ? strtod(text, NULL)
           : json_is_number(value) ? json_number_value(value)
                                   : fallback;
}

static int64_t whole(const json_t *args, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(args, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static bool truth(const json_t *args, const char *name, bool fallback)
{
    const json_t *value = json_object_get(args, name);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* Splits the path of a parameter. Returns its module, and sets *name to its
 * name in the module. */
static tn_module *module_of(tn_module *module, const char *path,
                            const char **name)
{
    const char *dot = strrchr(path, '.');
    char parent[64];
    *name = dot ? dot + 1 : path;
    if (!dot)
        return module;
    snprintf(parent, sizeof parent, "%.*s", (int)(dot - path), path);
    return tn_module_child(module, parent);
}

/* ---- parametrizations of the samples ------------------------------------- */

static tn_tensor *symmetric(tn_tensor *x, void *context)
{
    (void)context;
    tn_tensor *upper = tn_triu(x, .diagonal = 1);
    return tn_add(tn_triu(x), tn_transpose(upper, -1, -2));
}

static tn_tensor *upper(tn_tensor *x, void *context)
{
    (void)context;
    return tn_triu(x);
}

static tn_tensor *twice(tn_tensor *x, void *context)
{
    (void)context;
    return tn_mul_scalar(x, 2);
}

static tn_tensor *half(tn_tensor *x, void *context)
{
    (void)context;
    return tn_div_scalar(x, 2);
}

/* ---- steps --------------------------------------------------------------- */

static tn_tensor *mask_of(const tn_tensor *x, int64_t every)
{
    tn_tensor *at = tn_arange(0, (double)tn_tensor_numel(x), 1, .dtype = TN_I64);
    tn_tensor *mask = tn_ne_scalar(tn_remainder_scalar(at, (double)every), 0);
    return tn_reshape(tn_to_dtype(mask, TN_F32),
                      tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x)));
}

static void prune_global(tn_module *module, const json_t *args)
{
    const json_t *paths = json_object_get(args, "names");
    tn_module *modules[8];
    const char *names[8];
    int count = (int)json_array_size(paths);
    for (int i = 0; i < count; i++)
        modules[i] = module_of(
            module, json_string_value(json_array_get(paths, (size_t)i)),
            &names[i]);
    tn_prune_global_unstructured(modules, names, count, "l1_unstructured",
                                 .amount = number(args, "amount", 0));
}

static void step(tn_module *net, const json_t *one)
{
    const char *how = json_string_value(json_array_get(one, 0));
    const char *path = json_string_value(json_array_get(one, 1)), *name;
    const json_t *args = json_array_get(one, 2);
    tn_module *module = module_of(net, path, &name);
    if (strcmp(how, "weight_norm") == 0)
        tn_nn_weight_norm(module, name, .dim = whole(args, "dim", 0));
    else if (strcmp(how, "spectral_norm") == 0)
        tn_nn_spectral_norm(
            module, name,
            .n_power_iterations = whole(args, "n_power_iterations", 1),
            .eps = number(args, "eps", 1e-12),
            .dim = whole(args, "dim", TN_NONE_INT));
    else if (strcmp(how, "orthogonal") == 0)
        tn_nn_orthogonal(
            module, name,
            .orthogonal_map = json_string_value(json_object_get(args, "map")),
            .use_trivialization = truth(args, "use_trivialization", true));
    else if (strcmp(how, "symmetric") == 0)
        tn_module_register_parametrization(
            module, name, tn_nn_parametrization(symmetric, upper, NULL));
    else if (strcmp(how, "scaled") == 0)
        tn_module_register_parametrization(
            module, name, tn_nn_parametrization(twice, half, NULL));
    else if (strcmp(how, "remove_parametrizations") == 0)
        tn_module_remove_parametrizations(
            module, name,
            .leave_parametrized = truth(args, "leave_parametrized", true));
    else if (strcmp(how, "remove") == 0)
        tn_prune_remove(module, name);
    else if (strcmp(how, "global_unstructured") == 0)
        prune_global(net, args);
    else if (strcmp(how, "custom_from_mask") == 0)
        tn_prune(module, name, how,
                 .mask = mask_of(tn_module_parameter(module, name),
                                 whole(args, "every", 1)));
    else
        tn_prune(module, name, how,
                 .amount = number(args, "amount", TN_NONE_FLOAT),
                 .count = whole(args, "count", TN_NONE_INT),
                 .dim = whole(args, "dim", TN_NONE_INT),
                 .n = number(args, "n", TN_NONE_FLOAT));
}

/* ---- the layer ----------------------------------------------------------- */

static const json_t *of_last; /* the arguments of the layer made last */

static void make_steps(tn_module *module, const json_t *args)
{
    const json_t *steps = json_object_get(args, "steps");
    for (size_t i = 0; i < json_array_size(steps) && !tn_error(); i++)
        step(module, json_array_get(steps, i));
}

static const layer *layer_of(const json_t *args)
{
    return layer_find(json_string_value(json_object_get(args, "layer")));
}

tn_module *parametrized_make(const json_t *args)
{
    of_last = args;
    tn_module *module = layer_of(args)->make(args);
    if (!truth(args, "late", false))
        make_steps(module, args);
    return module;
}

void parametrized_ready(tn_module *module)
{
    if (truth(of_last, "late", false))
        make_steps(module, of_last);
}

int parametrized_run(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    const layer *kind = layer_of(of_last);
    if (kind->run)
        return kind->run(module, in, out);
    out[0] = tn_forward(module, in[0]);
    return 1;
}
