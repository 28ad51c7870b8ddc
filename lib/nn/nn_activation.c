/* nn_activation.c: layers of one operator: activations, flatten, dropout. */
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

static void describe_flatten(const tn_module *self, char *text, size_t room)
{
    (void)self;
    snprintf(text, room, "start_dim=1, end_dim=-1");
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
ACTIVATION(flatten, "Flatten", tn_flatten(input, .start_dim = 1),
           describe_flatten)

const char *tn__nn_activation_of(const tn_module *module)
{
    if (module->tree->hook || module->tree->recompute)
        return NULL;
    return module->type == &relu_class        ? "relu"
           : module->type == &gelu_class      ? "gelu"
           : module->type == &gelu_tanh_class ? "gelu_tanh"
                                              : NULL;
}

/* ---- layers with one or two numbers ------------------------------------- */

/* A layer of one operator with up to two numbers, called by its arguments. */
typedef struct numbered {
    tn_module base;
    const tn_op *op;
    tn_value value[2];
    int count;
} numbered;

static tn_tensor *numbered_forward(tn_module *self, tn_tensor *input)
{
    numbered *n = (numbered *)self;
    tn_value value[3] = {{TN_VALUE_TENSOR, 0, {.tensor = input}}};
    tn_tensor *out = NULL;
    for (int i = 0; i < n->count; i++)
        value[1 + i] = n->value[i];
    tn_op_call(n->op, value, 1 + n->count, &out, 1);
    return out;
}

static void numbered_describe(const tn_module *self, char *text, size_t room)
{
    const numbered *n = (const numbered *)self;
    size_t at = 0;
    for (int i = 0; i < n->count && at < room; i++) {
        const tn_value *v = &n->value[i];
        const char *name = tn_op_arg_at(n->op, 1 + i)->name;
        at += (size_t)snprintf(text + at, room - at, "%s%s=%g", i ? ", " : "",
                               name,
                               v->kind == TN_VALUE_INT ? (double)v->of.i
                                                       : v->of.f);
    }
}

static tn_module *make_numbered(const tn_module_class *type, const char *op,
                                const tn_value *value, int count)
{
    numbered *n = tn_module_new(type);
    if (!n)
        return NULL;
    n->op = tn_op_find(op);
    n->count = count;
    for (int i = 0; i < count; i++)
        n->value[i] = value[i];
    return &n->base;
}

static tn_value number(double x)
{
    return (tn_value){TN_VALUE_NUMBER, TN_SCALAR_FLOAT, {.f = x}};
}

static tn_value real(double x)
{
    return (tn_value){TN_VALUE_FLOAT, 0, {.f = x}};
}

static tn_value whole(int64_t i)
{
    return (tn_value){TN_VALUE_INT, 0, {.i = i}};
}

#define NUMBERED(function, class_name, parameters, count, ...)                 \
    tn_module *tn_nn_##function parameters                                     \
    {                                                                          \
        static const tn_module_class type = {.size = sizeof type,              \
                                             .name = class_name,               \
                                             .bytes = sizeof(numbered),        \
                                             .forward = numbered_forward,      \
                                             .describe = numbered_describe};   \
        const tn_value value[] = {__VA_ARGS__};                                \
        return make_numbered(&type, #function, value, count);                  \
    }

NUMBERED(elu, "ELU", (double alpha), 1, real(alpha))
NUMBERED(celu, "CELU", (double alpha), 1, real(alpha))
NUMBERED(leaky_relu, "LeakyReLU", (double negative_slope), 1,
         real(negative_slope))
NUMBERED(hardshrink, "Hardshrink", (double lambd), 1, real(lambd))
NUMBERED(softshrink, "Softshrink", (double lambd), 1, real(lambd))
NUMBERED(softplus, "Softplus", (double beta, double threshold), 2, real(beta),
         real(threshold))
NUMBERED(hardtanh, "Hardtanh", (double min_val, double max_val), 2,
         number(min_val), number(max_val))
NUMBERED(threshold, "Threshold", (double threshold, double value_), 2,
         number(threshold), number(value_))
NUMBERED(softmax, "Softmax", (int dim), 1, whole(dim))
NUMBERED(log_softmax, "LogSoftmax", (int dim), 1, whole(dim))
NUMBERED(softmin, "Softmin", (int dim), 1, whole(dim))
NUMBERED(glu, "GLU", (int dim), 1, whole(dim))

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
                                 "; at least 1 is wanted",
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
    snprintf(text, room, "p=%g, inplace=False", ((const dropout *)self)->p);
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
                                 "p is %g; a probability in [0, 1] is wanted",
                                 p);
        return NULL;
    }
    dropout *d = tn_module_new(&dropout_class);
    if (d)
        d->p = p;
    return (tn_module *)d;
}
