/* nn_activation.c: activations without numeric options, PReLU and dropout. */
#include <nn/tree.h>

#include <inttypes.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* ---- layers without options --------------------------------------------- */

/* Defines a layer of one operator without options. */
#define ACTIVATION(function, class_name, call, describe_as)                    \
    static tn_tensor *function##_forward(tn_module *self, tn_tensor *input)    \
    {                                                                          \
        (void)self;                                                            \
        return call;                                                           \
    }                                                                          \
    static const tn_module_class function##_class = {                          \
        .size = sizeof function##_class,                                       \
        .name = class_name,                                                    \
        .bytes = sizeof(tn_module),                                            \
        .forward = function##_forward,                                         \
        .describe = describe_as};                                              \
    tn_module *tn_nn_##function(void)                                          \
    {                                                                          \
        return tn_module_new(&function##_class);                               \
    }

static void describe_gelu(const tn_module *self, char *text, size_t room)
{
    (void)self;
    snprintf(text, room, "approximate='none'");
}

static void describe_gelu_tanh(const tn_module *self, char *text, size_t room)
{
    (void)self;
    snprintf(text, room, "approximate='tanh'");
}

ACTIVATION(relu, "ReLU", tn_relu(input), NULL)
ACTIVATION(tanh, "Tanh", tn_tanh(input), NULL)
ACTIVATION(sigmoid, "Sigmoid", tn_sigmoid(input), NULL)
ACTIVATION(gelu, "GELU", tn_gelu(input), describe_gelu)
ACTIVATION(gelu_tanh, "GELU", tn_gelu(input, .approximate = "tanh"),
           describe_gelu_tanh)
ACTIVATION(silu, "SiLU", tn_silu(input), NULL)
ACTIVATION(mish, "Mish", tn_mish(input), NULL)
ACTIVATION(selu, "SELU", tn_selu(input), NULL)
ACTIVATION(relu6, "ReLU6", tn_relu6(input), NULL)
ACTIVATION(hardswish, "Hardswish", tn_hardswish(input), NULL)
ACTIVATION(hardsigmoid, "Hardsigmoid", tn_hardsigmoid(input), NULL)
ACTIVATION(logsigmoid, "LogSigmoid", tn_logsigmoid(input), NULL)
ACTIVATION(softsign, "Softsign", tn_softsign(input), NULL)
ACTIVATION(tanhshrink, "Tanhshrink", tn_tanhshrink(input), NULL)

const char *tn__nn_activation_of(const tn_module *module)
{
    if (module->tree->hook || module->tree->recompute)
        return NULL;
    return module->type == &relu_class        ? "relu"
           : module->type == &gelu_class      ? "gelu"
           : module->type == &gelu_tanh_class ? "gelu_tanh"
                                              : NULL;
}

/* ---- a learned slope ---------------------------------------------------- */

typedef struct prelu {
    tn_module base;
    tn_tensor *weight; /* (num_parameters) */
} prelu;

static tn_tensor *prelu_forward(tn_module *self, tn_tensor *input)
{
    return tn_prelu(input, ((prelu *)self)->weight);
}

static void prelu_describe(const tn_module *self, char *text, size_t room)
{
    snprintf(text, room, "num_parameters=%" PRId64,
             tn_tensor_numel(((const prelu *)self)->weight));
}

tn_module *tn_nn_prelu(int64_t num_parameters, double init)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "PReLU",
                                         .bytes = sizeof(prelu),
                                         .forward = prelu_forward,
                                         .describe = prelu_describe};
    if (num_parameters < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_prelu", "num_parameters",
                                 "num_parameters is %" PRId64
                                 "; expected at least 1",
                                 num_parameters);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    prelu *p = tn_module_new(&type);
    if (p)
        p->weight = tn_module_add_parameter(
            &p->base, "weight", tn_full(tn_dims(num_parameters), init));
    return tn_scope_result(scope, p && p->weight ? &p->base : NULL);
}

/* ---- dropout ------------------------------------------------------------ */

typedef struct dropout {
    tn_module base;
    double p;
} dropout;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    return self->training ? tn_dropout(input, ((dropout *)self)->p, true)
                          : input;
}

static void describe(const tn_module *self, char *text, size_t room)
{
    tn_format(text, room, "p=%g, inplace=False", ((const dropout *)self)->p);
}

static const tn_module_class dropout_class = {.size = sizeof dropout_class,
                                              .name = "Dropout",
                                              .bytes = sizeof(dropout),
                                              .forward = forward,
                                              .describe = describe};

tn_module *tn_nn_dropout(double p)
{
    if (!(p >= 0 && p <= 1)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_dropout", "p",
                                 "p is %g; expected a probability in [0, 1]",
                                 p);
        return NULL;
    }
    dropout *d = tn_module_new(&dropout_class);
    if (d)
        d->p = p;
    return (tn_module *)d;
}
