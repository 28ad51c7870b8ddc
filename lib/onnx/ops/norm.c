/* norm.c: normalisation. */
#include <onnx/ops/ops.h>

/* Returns the shape that broadcasts one number for each channel against x. */
static tn_dims_list channel_shape(const tn_tensor *x)
{
    tn_dims_list shape = tn__onnx_blank(tn_tensor_ndim(x));
    for (int i = 0; i < shape.count; i++)
        shape.dim[i] = i == 1 ? tn_tensor_size(x, 1) : 1;
    return shape;
}

/* ---- batch normalisation ------------------------------------------------- */

/* Running statistics: momentum * running + (1 - momentum) * batch, with the
 * biased variance of the batch. */
static void batch_norm(tn__onnx_call *c, bool training)
{
    tn_tensor *x = c->x[0], *mean = c->x[3], *var = c->x[4];
    const double eps = tn__onnx_float(c, 0), momentum = tn__onnx_float(c, 1);
    if (!training) {
        c->y[0] = tn_batch_norm(x, mean, var, c->x[1], c->x[2], .eps = eps);
        return;
    }
    tn_dims_list axes = tn__onnx_blank(0);
    for (int i = 0; i < tn_tensor_ndim(x); i++)
        if (i != 1)
            axes.dim[axes.count++] = i;
    TN_NO_GRAD {
        tn_tensor *own = tn_mean(x, .dims = axes);
        tn_tensor *spread = tn_var(x, .dims = axes, .correction = 0);
        c->y[1] = tn_add(tn_mul_scalar(mean, momentum),
                         tn_mul_scalar(tn_to_dtype(own, tn_tensor_dtype(mean)),
                                       1 - momentum));
        c->y[2] =
            tn_add(tn_mul_scalar(var, momentum),
                   tn_mul_scalar(tn_to_dtype(spread, tn_tensor_dtype(var)),
                                 1 - momentum));
    }
    c->y[0] = tn_batch_norm(x, NULL, NULL, c->x[1], c->x[2], .training = true,
                            .eps = eps);
}

/* In training mode, copies the new running statistics to the buffers of the
 * module. */
static void update(tn__onnx_call *c)
{
    TN_NO_GRAD {
        tn_copy_(c->x[3], c->y[1]);
        tn_copy_(c->x[4], c->y[2]);
    }
    c->y[1] = c->y[2] = NULL;
}

static void batch_norm_7(tn__onnx_call *c)
{
    batch_norm(c, c->training);
    if (c->training && !tn_error())
        update(c);
}
static void batch_norm_14(tn__onnx_call *c)
{
    const bool asked = tn__onnx_int(c, 2) != 0;
    batch_norm(c, asked || c->training);
    if (c->training && !asked && !tn_error())
        update(c);
}

/* ---- layers, instances and groups ---------------------------------------- */

static tn_dims_list from_axis(const tn_tensor *x, int axis)
{
    return tn_dims_from_array(tn_tensor_shape(x) + axis,
                              tn_tensor_ndim(x) - axis);
}

static void layer_norm(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const int axis = tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(x));
    if (axis < 0)
        return;
    const double eps = tn__onnx_float(c, 1);
    tn_tensor *weight = c->x[1], *bias = tn__onnx_x(c, 2);
    const tn_dims_list over = from_axis(x, axis);
    /* ONNX broadcasts scale and bias, but tn_layer_norm does not */
    tn_tensor *y = tn_layer_norm(x, over, NULL, NULL, .eps = eps);
    y = tn_mul(y, weight);
    c->y[0] = bias ? tn_add(y, bias) : y;
    if (!tn__onnx_wants(c, 1) && !tn__onnx_wants(c, 2))
        return;
    tn_dims_list axes = tn__onnx_blank(0);
    for (int i = axis; i < tn_tensor_ndim(x); i++)
        axes.dim[axes.count++] = i;
    tn_tensor *wide = tn_to_dtype(x, TN_F32);
    c->y[1] = tn_mean(wide, .dims = axes, .keepdim = true);
    c->y[2] = tn_rsqrt(tn_add_scalar(
        tn_var(wide, .dims = axes, .correction = 0, .keepdim = true), eps));
    c->y_type[1] = c->y_type[2] = TN__ONNX_FLOAT;
}

static void rms_norm(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const tn_dtype dtype = tn_tensor_dtype(x);
    const int axis = tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(x));
    if (axis < 0)
        return;
    c->y[0] = tn_mul(tn_to_dtype(tn_rms_norm(x, from_axis(x, axis), NULL,
                                             .eps = tn__onnx_float(c, 1)),
                                 dtype),
                     c->x[1]);
}

static void instance_norm(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const double eps = tn__onnx_float(c, 0);
    int64_t each = 1;
    for (int i = 2; i < tn_tensor_ndim(x); i++)
        each *= tn_tensor_size(x, i);
    /* instance_norm rejects images of one element, ONNX does not */
    c->y[0] = each == 1 && tn_tensor_ndim(x) > 2
                  ? tn_group_norm(x, tn_tensor_size(x, 1), c->x[1], c->x[2],
                                  .eps = eps)
                  : tn_instance_norm(x, NULL, NULL, c->x[1], c->x[2],
                                     .eps = eps);
}

/* Until opset 20, scale and bias have one element for each group. */
static void group_norm_18(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const int64_t groups = tn__onnx_int(c, 1), channels = tn_tensor_size(x, 1);
    if (groups < 1 || channels % groups) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "num_groups is %lld, which does not divide the %lld "
                        "channels",
                        (long long)groups, (long long)channels);
        return;
    }
    tn_tensor *y = tn_group_norm(x, groups, NULL, NULL,
                                 .eps = tn__onnx_float(c, 0));
    const tn_dims_list shape = channel_shape(x);
    tn_tensor *scale =
        tn_repeat_interleave(c->x[1], channels / groups, .dim = 0);
    tn_tensor *bias =
        tn_repeat_interleave(c->x[2], channels / groups, .dim = 0);
    c->y[0] = tn_add(tn_mul(y, tn_reshape(scale, shape)),
                     tn_reshape(bias, shape));
}
static void group_norm_21(tn__onnx_call *c)
{
    c->y[0] = tn_group_norm(c->x[0], tn__onnx_int(c, 1), c->x[1], c->x[2],
                            .eps = tn__onnx_float(c, 0));
}

static void lp_normalization(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const int axis = tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(x));
    if (axis < 0)
        return;
    tn_tensor *norm = tn_vector_norm(x, .ord = (double)tn__onnx_int(c, 1),
                                     .dim = axis, .keepdim = true);
    /* a zero vector stays zero */
    c->y[0] = tn_where(tn_eq_scalar(norm, 0), tn_zeros_like(x),
                       tn_div(x, norm));
}

static void mean_variance(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    tn_dims_list axes;
    if (!tn__onnx_dims(c, 0, -1, &axes))
        return;
    if (axes.count < 0)
        axes = tn_dims(0, 2, 3);
    if (!tn__onnx_axes(c, &axes, tn_tensor_ndim(x)))
        return;
    tn_tensor *mean = tn_mean(x, .dims = axes, .keepdim = true);
    tn_tensor *var = tn_var(x, .dims = axes, .correction = 0, .keepdim = true);
    c->y[0] = tn_div(tn_sub(x, mean), tn_add_scalar(tn_sqrt(var), 1e-9));
}

static void local_response(tn__onnx_call *c)
{
    c->y[0] = tn_local_response_norm(
        c->x[0], tn__onnx_int(c, 3), .alpha = tn__onnx_float(c, 0),
        .beta = tn__onnx_float(c, 1), .k = tn__onnx_float(c, 2));
}

/* com.microsoft: layer norm of input + skip + bias. */
static void skip_layer_norm(tn__onnx_call *c)
{
    tn_tensor *x = tn_add(c->x[0], c->x[1]);
    if (tn__onnx_has(c, 4))
        x = tn_add(x, c->x[4]);
    c->y[0] = tn_layer_norm(x, tn_dims(tn_tensor_size(x, -1)), c->x[2],
                            tn__onnx_x(c, 3), .eps = tn__onnx_float(c, 0));
    c->y[3] = tn__onnx_wants(c, 3) ? x : NULL;
}

static const tn__onnx_op rows[] = {
    {.name = "BatchNormalization", .since = 7, .until = 13, .min_in = 5,
     .max_in = 5, .max_out = 5,
     .attributes = "epsilon:float=1e-5 momentum:float=0.9", .run = batch_norm_7,
     .buffer = 24},
    {.name = "BatchNormalization", .since = 14, .min_in = 5, .max_in = 5,
     .max_out = 3,
     .attributes = "epsilon:float=1e-5 momentum:float=0.9 training_mode:int=0",
     .run = batch_norm_14, .buffer = 24},
    {.name = "InstanceNormalization", .since = 6, .min_in = 3, .max_in = 3,
     .max_out = 1, .attributes = "epsilon:float=1e-5", .run = instance_norm},
    {.name = "LayerNormalization", .since = 17, .min_in = 2, .max_in = 3,
     .max_out = 3,
     .attributes = "axis:int=-1 epsilon:float=1e-5 stash_type:int=1",
     .run = layer_norm},
    {.name = "RMSNormalization", .since = 23, .min_in = 2, .max_in = 2,
     .max_out = 1,
     .attributes = "axis:int=-1 epsilon:float=1e-5 stash_type:int=1",
     .run = rms_norm},
    {.name = "GroupNormalization", .since = 18, .until = 20, .min_in = 3,
     .max_in = 3, .max_out = 1,
     .attributes = "epsilon:float=1e-5 num_groups:int!", .run = group_norm_18},
    {.name = "GroupNormalization", .since = 21, .min_in = 3, .max_in = 3,
     .max_out = 1,
     .attributes = "epsilon:float=1e-5 num_groups:int! stash_type:int=1",
     .run = group_norm_21},
    {.name = "LpNormalization", .since = 1, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "axis:int=-1 p:int=2",
     .run = lp_normalization},
    {.name = "MeanVarianceNormalization", .since = 9, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "axes:ints", .run = mean_variance},
    {.name = "LRN", .since = 1, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "alpha:float=1e-4 beta:float=0.75 bias:float=1 size:int!",
     .run = local_response},
    {.domain = "com.microsoft", .name = "SkipLayerNormalization", .since = 1,
     .min_in = 3, .max_in = 5, .max_out = 4,
     .attributes = "epsilon:float=1e-12", .run = skip_layer_norm},
};
const tn__onnx_family tn__onnx_norm = TN__ONNX_FAMILY(rows);
