/* activation.c: activation functions, softmax and dropout. */
#include <onnx/ops/ops.h>

#include <string.h>

static void celu(tn__onnx_call *c)
{
    c->y[0] = tn_celu(c->x[0], .alpha = tn__onnx_float(c, 0));
}
static void elu(tn__onnx_call *c)
{
    c->y[0] = tn_elu(c->x[0], .alpha = tn__onnx_float(c, 0));
}
static void leaky_relu(tn__onnx_call *c)
{
    c->y[0] = tn_leaky_relu(c->x[0], .negative_slope = tn__onnx_float(c, 0));
}
static void selu(tn__onnx_call *c)
{
    c->y[0] = tn_mul_scalar(tn_elu(c->x[0], .alpha = tn__onnx_float(c, 0)),
                            tn__onnx_float(c, 1));
}
static void gelu(tn__onnx_call *c)
{
    c->y[0] = tn_gelu(c->x[0], .approximate = tn__onnx_string(c, 0));
}
/* com.microsoft */
static void bias_gelu(tn__onnx_call *c)
{
    c->y[0] = tn_gelu_with(tn_add(c->x[0], c->x[1]), NULL);
}
static void fast_gelu(tn__onnx_call *c)
{
    tn_tensor *x = tn__onnx_has(c, 1) ? tn_add(c->x[0], c->x[1]) : c->x[0];
    c->y[0] = tn_gelu(x, .approximate = "tanh");
}
static tn_tensor *erf_gelu(tn_tensor *x)
{
    return tn_gelu_with(x, NULL);
}
static void quick_gelu(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    c->y[0] = tn_mul(x, tn_sigmoid(tn_mul_scalar(x, tn__onnx_float(c, 0))));
}
static void hard_sigmoid(tn__onnx_call *c)
{
    tn_tensor *line = tn_add_scalar(
        tn_mul_scalar(c->x[0], tn__onnx_float(c, 0)), tn__onnx_float(c, 1));
    c->y[0] = tn_clamp_scalars(line, 0.0, 1.0);
}
static tn_tensor *softplus(tn_tensor *x)
{
    return tn_softplus_with(x, NULL);
}
static void prelu(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    c->y[0] = tn_where(tn_lt_scalar(x, 0), tn_mul(x, c->x[1]), x);
}
static void shrink(tn__onnx_call *c)
{
    const double bias = tn__onnx_float(c, 0), lambd = tn__onnx_float(c, 1);
    tn_tensor *x = c->x[0];
    tn_tensor *high = tn_where(tn_gt_scalar(x, lambd), tn_sub_scalar(x, bias),
                               tn_zeros_like(x));
    tn_tensor *y =
        tn_where(tn_lt_scalar(x, -lambd), tn_add_scalar(x, bias), high);
    c->y[0] = tn_to_dtype(y, tn_tensor_dtype(x));
}
static void thresholded_relu(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    c->y[0] = tn_where(tn_gt_scalar(x, tn__onnx_float(c, 0)), x,
                       tn_zeros_like(x));
}

/* ---- softmax ------------------------------------------------------------- */

static tn_tensor *softmax(tn_tensor *x, int64_t dim)
{
    return tn_softmax_with(x, dim, NULL);
}
static tn_tensor *log_softmax(tn_tensor *x, int64_t dim)
{
    return tn_log_softmax_with(x, dim, NULL);
}
/* 1 at the first maximum, 0 elsewhere. */
static tn_tensor *hardmax(tn_tensor *x, int64_t dim)
{
    if (tn_tensor_numel(x) == 0)
        return x;
    tn_tensor *at = tn_argmax(x, .dim = dim, .keepdim = true);
    return tn_scatter(tn_zeros_like(x), dim, at, tn_ones_like(
        tn_to_dtype(at, tn_tensor_dtype(x))));
}

/* Before opset 13, the operator applied to a matrix: the input, flattened at
 * the axis. */
static void flat(tn__onnx_call *c, tn_tensor *(*call)(tn_tensor *, int64_t))
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    int64_t axis = tn__onnx_int(c, 0);
    if (axis != ndim && (axis = tn__onnx_axis(c, axis, ndim)) < 0)
        return;
    int64_t rows = 1;
    for (int i = 0; i < axis; i++)
        rows *= tn_tensor_size(x, i);
    const int64_t each = rows ? tn_tensor_numel(x) / rows : 0;
    c->y[0] = tn_reshape(call(tn_reshape(x, tn_dims(rows, each)), 1),
                         tn__onnx_shape(x));
}

static void along(tn__onnx_call *c, tn_tensor *(*call)(tn_tensor *, int64_t))
{
    const int axis =
        tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(c->x[0]));
    if (axis >= 0)
        c->y[0] = call(c->x[0], axis);
}

static void softmax_flat(tn__onnx_call *c) { flat(c, softmax); }
static void log_softmax_flat(tn__onnx_call *c) { flat(c, log_softmax); }
static void hardmax_flat(tn__onnx_call *c) { flat(c, hardmax); }
static void softmax_along(tn__onnx_call *c) { along(c, softmax); }
static void log_softmax_along(tn__onnx_call *c) { along(c, log_softmax); }
static void hardmax_along(tn__onnx_call *c) { along(c, hardmax); }

/* ---- dropout ------------------------------------------------------------- */

static void drop(tn__onnx_call *c, double ratio, bool training)
{
    tn_tensor *x = c->x[0];
    if (!training || ratio == 0) {
        c->y[0] = x;
        c->y[1] = tn__onnx_wants(c, 1) ? tn_ones_like(x, .dtype = TN_BOOL)
                                       : NULL;
        return;
    }
    tn_tensor *kept = tn_ge_scalar(tn_rand_like(x), ratio);
    c->y[0] = tn_where(kept, tn_div_scalar(x, 1 - ratio), tn_zeros_like(x));
    c->y[1] = kept;
}

static void dropout_attr(tn__onnx_call *c)
{
    drop(c, tn__onnx_float(c, 0), c->training);
}

/* Dropout is active if the module is in training mode, whatever the node's
 * input training_mode says, because exporters write false there for
 * inference. */
static void dropout(tn__onnx_call *c)
{
    double ratio = 0.5;
    int64_t training = 0;
    if (tn__onnx_floats(c, 1, &ratio, 1) < 0 ||
        tn__onnx_ints(c, 2, &training, 1) < 0)
        return;
    drop(c, ratio, training || c->training);
}

/* ---- rows ---------------------------------------------------------------- */

#define UNARY(label, first, call)                                              \
    {.name = label, .since = first, .min_in = 1, .max_in = 1, .max_out = 1,    \
     .run = tn__onnx_unary, .unary = call}
#define WITH(label, first, list, function)                                     \
    {.name = label, .since = first, .min_in = 1, .max_in = 1, .max_out = 1,    \
     .attributes = list, .run = function}

static const tn__onnx_op rows[] = {
    UNARY("HardSwish", 14, tn_hardswish),
    UNARY("Mish", 18, tn_mish),
    UNARY("Relu", 6, tn_relu),
    UNARY("Sigmoid", 6, tn_sigmoid),
    UNARY("Softplus", 1, softplus),
    UNARY("Softsign", 1, tn_softsign),
    UNARY("Tanh", 6, tn_tanh),
    WITH("Celu", 12, "alpha:float=1", celu),
    WITH("Elu", 6, "alpha:float=1", elu),
    WITH("Gelu", 20, "approximate:string=none", gelu),
    WITH("HardSigmoid", 6, "alpha:float=0.2 beta:float=0.5", hard_sigmoid),
    WITH("LeakyRelu", 6, "alpha:float=0.01", leaky_relu),
    WITH("Selu", 6, "alpha:float=1.67326319217681884765625 "
                    "gamma:float=1.05070102214813232421875", selu),
    WITH("Shrink", 9, "bias:float=0 lambd:float=0.5", shrink),
    WITH("ThresholdedRelu", 10, "alpha:float=1", thresholded_relu),
    {.domain = "com.microsoft", .name = "Gelu", .since = 1, .min_in = 1,
     .max_in = 1, .max_out = 1, .run = tn__onnx_unary, .unary = erf_gelu},
    {.domain = "com.microsoft", .name = "BiasGelu", .since = 1, .min_in = 2,
     .max_in = 2, .max_out = 1, .run = bias_gelu},
    {.domain = "com.microsoft", .name = "FastGelu", .since = 1, .min_in = 1,
     .max_in = 2, .max_out = 1, .run = fast_gelu},
    {.domain = "com.microsoft", .name = "QuickGelu", .since = 1, .min_in = 1,
     .max_in = 1, .max_out = 1, .attributes = "alpha:float=1.702",
     .run = quick_gelu},
    {.name = "PRelu", .since = 7, .min_in = 2, .max_in = 2, .max_out = 1,
     .run = prelu},
    {.name = "Softmax", .since = 1, .until = 12, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "axis:int=1", .run = softmax_flat},
    {.name = "LogSoftmax", .since = 1, .until = 12, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "axis:int=1", .run = log_softmax_flat},
    {.name = "Hardmax", .since = 1, .until = 12, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "axis:int=1", .run = hardmax_flat},
    WITH("Softmax", 13, "axis:int=-1", softmax_along),
    WITH("LogSoftmax", 13, "axis:int=-1", log_softmax_along),
    WITH("Hardmax", 13, "axis:int=-1", hardmax_along),
    {.name = "Dropout", .since = 7, .until = 11, .min_in = 1, .max_in = 1,
     .max_out = 2, .attributes = "ratio:float=0.5", .run = dropout_attr,
     .random = true},
    {.name = "Dropout", .since = 12, .min_in = 1, .max_in = 3, .max_out = 2,
     .attributes = "seed:int=0", .run = dropout, .random = true, .host = 6},
};
const tn__onnx_family tn__onnx_activation = TN__ONNX_FAMILY(rows);
