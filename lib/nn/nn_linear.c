/* nn_linear.c: y = x weight^T + bias. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct linear {
    tn_module base;
    tn_tensor *weight; /* (out, in) */
    tn_tensor *bias;   /* (out) or NULL */
    int64_t in_features, out_features;
} linear;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    linear *l = (linear *)self;
    return tn__nn_check_dtype(input, "input", l->weight, "linear")
               ? tn_linear(input, l->weight, l->bias)
               : NULL;
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const linear *l = (const linear *)self;
    snprintf(text, room,
             "in_features=%" PRId64 ", out_features=%" PRId64 ", bias=%s",
             l->in_features, l->out_features, l->bias ? "True" : "False");
}

static const tn_module_class linear_class = {.size = sizeof linear_class,
                                             .name = "Linear",
                                             .bytes = sizeof(linear),
                                             .forward = forward,
                                             .describe = describe};

bool tn__nn_linear_can_activate(const tn_module *module,
                                const tn_tensor *input)
{
    return input && module->type == &linear_class && !module->tree->hook &&
           !module->tree->recompute && !module->tree->computed &&
           !tn__nn_is_watched();
}

tn_tensor *tn__nn_linear_activate(tn_module *module, tn_tensor *input,
                                  const char *activation)
{
    const linear *l = (linear *)module;
    tn_module_call call = tn_module_begin(module, &input, 1);
    tn_tensor *output = tn__nn_check_dtype(input, "input", l->weight, "linear")
                            ? tn_linear_activation(input, l->weight, l->bias,
                                                   .activation = activation)
                            : NULL;
    if (!output) /* the user called linear, not linear_activation */
        tn_error_rename("linear_activation", "linear", NULL);
    tn_module_end(module, &call, &output, 1);
    return output;
}

TN_OPTIONS_TYPE(tn_nn_linear, "nn_linear", "in_features, out_features",
                TN_NN_LINEAR_OPTIONS_LIST)

tn_module *tn_nn_linear_with(int64_t in_features, int64_t out_features,
                             const tn_nn_linear_options *options)
{
    tn_nn_linear_options o;
    if (tn_options_take(tn_nn_linear_type(), &o, options) < 0)
        return NULL;
    if (in_features < 0 || out_features < 0) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_linear",
            in_features < 0 ? "in_features" : "out_features",
            "in_features %" PRId64 ", out_features %" PRId64
            ": expected at least 0",
            in_features, out_features);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    linear *l = tn_module_new(&linear_class);
    tn_module *made = NULL;
    if (l) {
        l->in_features = in_features;
        l->out_features = out_features;
        l->weight = tn_module_add_parameter(
            &l->base, "weight",
            tn__nn_init_fan_in(tn_dims(out_features, in_features),
                               in_features));
        if (o.bias)
            l->bias = tn_module_add_parameter(
                &l->base, "bias",
                tn__nn_init_fan_in(tn_dims(out_features), in_features));
        if (l->weight && (l->bias || !o.bias))
            made = &l->base;
    }
    return tn_scope_result(scope, made);
}
