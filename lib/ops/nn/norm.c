/* norm.c: normalisation layers (PyTorch's batch_norm, instance_norm,
 * layer_norm, rms_norm, group_norm and local_response_norm). Most run the same
 * kernel, which normalises rows, with different row dimensions.
 *
 * Half types are computed in float32 throughout. A mean that is rounded to
 * eight bits would be too inaccurate for the gradient. */
#include <ops/nn/window_taps.h>

#include <float.h>

/* Returns whether x has size 1 in the dimensions dims, so that it has one value
 * per row. x broadcasts to ndim dimensions. */
static bool is_one_a_row(const tn_tensor *x, const tn_dims_list *dims, int ndim)
{
    for (int i = 0; i < dims->count; i++) {
        int d = (int)tn__shape_dim(ndim, dims->dim[i]) - (ndim - x->ndim);
        if (d >= 0 && x->shape[d] != 1)
            return false;
    }
    return true;
}

/* Checks that the row dimensions exist in x itself, not only in the shape to
 * which x broadcasts. */
static tn_status check_dims(const tn__call *call, const tn_tensor *x,
                            const tn_dims_list *dims)
{
    for (int i = 0; i < dims->count; i++)
        if (tn__shape_dim(x->ndim, dims->dim[i]) < 0)
            return tn__fail_dim(call->op->name, "dim", dims->dim[i], x->ndim);
    return TN_OK;
}

tn_status tn__run_normalize_rows_affine(tn__call *call)
{
    enum {
        weight = TN__ARG_NORMALIZE_ROWS_AFFINE_WEIGHT,
        bias = TN__ARG_NORMALIZE_ROWS_AFFINE_BIAS
    };
    const tn_tensor *x =
        tn__call_tensor(call, TN__ARG_NORMALIZE_ROWS_AFFINE_INPUT);
    const tn_dims_list *dims =
        call->value[TN__ARG_NORMALIZE_ROWS_AFFINE_DIM].of.dims;
    tn_status status = check_dims(call, x, dims);
    if (status < 0)
        return status;
    bool by = is_one_a_row(tn__call_tensor(call, weight), dims, x->ndim) &&
              is_one_a_row(tn__call_tensor(call, bias), dims, x->ndim);
    tn_tensor *out[4] = {NULL};
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    int count = tn__op_run(&tn__op_table[by ? TN__OP_ID_NORMALIZE_ROWS_BY
                                            : TN__OP_ID_NORMALIZE_ROWS_EACH],
                           call->value, 5, out, 4);
    for (int o = 0; o < count; o++)
        tn__give(call, tn__ref(out[o]));
    tn_scope_close(scope);
    return count < 0 ? tn_error_code() : TN_OK;
}

tn_status tn__run_rms_norm_rows_affine(tn__call *call)
{
    tn_tensor *out[2] = {NULL};
    tn_status status = check_dims(
        call, tn__call_tensor(call, 0),
        call->value[TN__ARG_RMS_NORM_ROWS_AFFINE_DIM].of.dims);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    int count = tn__op_run(&tn__op_table[TN__OP_ID_RMS_NORM_ROWS_EACH],
                           call->value, 4, out, 2);
    for (int o = 0; o < count; o++)
        tn__give(call, tn__ref(out[o]));
    tn_scope_close(scope);
    return count < 0 ? tn_error_code() : TN_OK;
}

/* Returns x normalised along dims, times weight, plus bias. weight and bias
 * broadcast to x, and may be NULL. Stores the mean and the variance of x,
 * without the dimensions dims, in stats[]. */
static tn_tensor *normalize(tn_tensor *x, tn_dims_list dims, double eps,
                            tn_tensor *weight, tn_tensor *bias,
                            tn_tensor *stats[2])
{
    tn_dtype dtype = x->dtype;
    bool half = dtype == TN_F16 || dtype == TN_BF16;
    if (half && !(x = tn_to_dtype(x, TN_F32)))
        return NULL;
    bool both = weight && bias;
    const tn_value value[] = {
        tn__value_tensor(x), tn__value_dims(&dims), tn__value_float(eps),
        tn__value_optional(weight), tn__value_optional(bias)};
    tn_tensor *out[4] = {NULL};
    if (tn__op_run(&tn__op_table[both ? TN__OP_ID_NORMALIZE_ROWS_AFFINE
                                      : TN__OP_ID_NORMALIZE_ROWS],
                   value, both ? 5 : 3, out, 4) < 0)
        return NULL;
    tn_tensor *y = out[0];
    if (weight && !both)
        y = tn_mul(y, weight);
    if (bias && !both)
        y = tn_add(y, bias);
    if (stats) {
        stats[0] = out[1];
        stats[1] = out[2];
    }
    return y && y->dtype != dtype ? tn_to_dtype(y, dtype) : y;
}

/* Reads argument arg, a tensor of shape (channels), and reshapes it to
 * broadcast: *out has ndim dimensions, all of size 1 except that dimension `at`
 * has size channels. With several groups, dimensions `at` and `at` + 1 are
 * (groups, channels / groups). Sets *out to NULL if the argument is absent. */
static tn_status per_channel(const tn__call *call, int arg, int64_t channels,
                             int64_t groups, int at, int ndim, tn_tensor **out)
{
    tn_tensor *x = tn__call_tensor(call, arg);
    char text[TN__SHAPE_TEXT];
    *out = NULL;
    if (!x)
        return TN_OK;
    if (x->ndim != 1 || x->shape[0] != channels)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} %s does not have one number "
                        "for each of the %lld channels", call->op->name,
                        call->op->arg[arg].name,
                        tn__shape_text(text, x->ndim, x->shape),
                        (long long)channels);
    tn_dims_list shape = {ndim, {0}};
    for (int d = 0; d < ndim; d++)
        shape.dim[d] = 1;
    shape.dim[at] = channels / groups;
    if (groups > 1)
        shape.dim[at - 1] = groups;
    *out = tn_reshape(x, shape);
    return *out ? TN_OK : tn_error_code();
}

static tn_status check_channels(const tn__call *call, const tn_tensor *x)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s has no dimension of "
                        "channels: expected (N, C, ...)", call->op->name,
                        tn__shape_text(text, x->ndim, x->shape));
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype; convert it with tn_to_dtype",
                        call->op->name, tn_dtype_name(x->dtype));
    return TN_OK;
}

/* ---- batch_norm and instance_norm ---------------------------------------- */

/* Computes running = (1 - momentum) * running + momentum * batch in place.
 * Autograd does not record it. running may be NULL. */
static tn_status blend(tn_tensor *running, tn_tensor *batch, double momentum)
{
    if (!running)
        return TN_OK;
    batch = tn_mul_scalar(tn_detach(batch), momentum);
    if (!batch || !tn_mul_scalar_(running, 1 - momentum) ||
        !tn_add_(running, batch))
        return tn_error_code();
    return TN_OK;
}

/* Updates the running mean and variance with stats, the mean and variance of
 * `count` elements per channel. The running variance is the unbiased one, as in
 * PyTorch. */
static tn_status update(tn_tensor *const running[2], tn_tensor *const stats[2],
                        int64_t count, double momentum)
{
    tn_status status = blend(running[0], stats[0], momentum);
    if (status < 0 || !running[1])
        return status;
    double unbiased = (double)count / (double)(count > 1 ? count - 1 : 1);
    return blend(running[1],
                 count > 1 ? tn_mul_scalar(tn_detach(stats[1]), unbiased)
                           : stats[1],
                 momentum);
}

/* The indices of arguments that batch_norm and instance_norm share. */
enum {
    INPUT = TN__ARG_BATCH_NORM_INPUT,
    RUNNING_MEAN = TN__ARG_BATCH_NORM_RUNNING_MEAN,
    RUNNING_VAR = TN__ARG_BATCH_NORM_RUNNING_VAR,
    WEIGHT = TN__ARG_BATCH_NORM_WEIGHT,
    BIAS = TN__ARG_BATCH_NORM_BIAS,
    OWN_STATS = TN__ARG_BATCH_NORM_TRAINING,
    MOMENTUM = TN__ARG_BATCH_NORM_MOMENTUM,
    EPS = TN__ARG_BATCH_NORM_EPS
};
#define SAME(mine, arg) ((int)(mine) == (int)TN__ARG_INSTANCE_NORM_##arg)
_Static_assert(SAME(INPUT, INPUT) && SAME(RUNNING_VAR, RUNNING_VAR) &&
                   SAME(BIAS, BIAS) && SAME(OWN_STATS, USE_INPUT_STATS) &&
                   SAME(EPS, EPS),
               "batch_norm and instance_norm have the same arguments");
#undef SAME

/* Normalises x by the running statistics, element by element. */
static tn_status by_running(tn__call *call, tn_tensor *x)
{
    tn_tensor *mean, *var, *weight, *bias;
    const int64_t channels = x->shape[1];
    if (!tn__call_has(call, RUNNING_MEAN) || !tn__call_has(call, RUNNING_VAR))
        return tn__fail(TN_ERR_ARGUMENT, "%s: {running_mean} or {running_var} "
                        "is missing: give both, or set {training}",
                        call->op->name);
    if (per_channel(call, RUNNING_MEAN, channels, 1, 1, x->ndim, &mean) < 0 ||
        per_channel(call, RUNNING_VAR, channels, 1, 1, x->ndim, &var) < 0 ||
        per_channel(call, WEIGHT, channels, 1, 1, x->ndim, &weight) < 0 ||
        per_channel(call, BIAS, channels, 1, 1, x->ndim, &bias) < 0)
        return tn_error_code();
    if (tn_dtype_bytes(var->dtype) == 2)
        var = tn_to_dtype(var, TN_F32); /* a square root in a half type would be
                                           too inaccurate */
    tn_tensor *scale =
        tn_rsqrt(tn_add_scalar(var, tn__call_float(call, EPS)));
    if (weight)
        scale = tn_mul(scale, weight);
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(mean),
                              tn__value_tensor(scale),
                              tn__value_optional(bias)};
    tn_tensor *y = tn__row(TN__OP_ID_SCALE_SHIFT, value, 4);
    return tn__give(call, y && y->dtype != x->dtype ? tn_to_dtype(y, x->dtype)
                                                    : y);
}

tn_status tn__run_batch_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, INPUT);
    tn_tensor *weight, *bias, *stats[2], *unused;
    if (x->numel == 0) /* as in PyTorch, the running statistics are unchanged */
        return tn__give(call, tn_clone(x));
    tn_status status = check_channels(call, x);
    if (status < 0)
        return status;
    if (!tn__call_int(call, OWN_STATS))
        return by_running(call, x);
    const int64_t channels = x->shape[1];
    const int64_t count = x->numel / channels;
    char text[TN__SHAPE_TEXT];
    if (!(tn__call_float(call, EPS) > 0))
        return tn__fail(TN_ERR_ARGUMENT, "batch_norm: {eps} is %g; expected "
                        "more than 0 while training", tn__call_float(call, EPS));
    if (count == 1)
        return tn__fail(TN_ERR_SHAPE, "batch_norm: {input} has shape %s, "
                        "which is one element for each channel; expected more "
                        "while {training}, for the variance",
                        tn__shape_text(text, x->ndim, x->shape));
    if (per_channel(call, WEIGHT, channels, 1, 1, x->ndim, &weight) < 0 ||
        per_channel(call, BIAS, channels, 1, 1, x->ndim, &bias) < 0 ||
        per_channel(call, RUNNING_MEAN, channels, 1, 1, x->ndim, &unused) < 0 ||
        per_channel(call, RUNNING_VAR, channels, 1, 1, x->ndim, &unused) < 0)
        return tn_error_code();
    tn_dims_list dims = {x->ndim - 1, {0}};
    for (int d = 2; d < x->ndim; d++)
        dims.dim[d - 1] = d;
    tn_tensor *y = normalize(x, dims, tn__call_float(call, EPS), weight, bias,
                             stats);
    tn_tensor *const running[] = {tn__call_tensor(call, RUNNING_MEAN),
                                  tn__call_tensor(call, RUNNING_VAR)};
    if (!y || update(running, stats, count, tn__call_float(call, MOMENTUM)) < 0)
        return tn_error_code();
    return tn__give(call, y);
}

tn_status tn__run_instance_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, INPUT);
    tn_tensor *weight, *bias, *stats[2], *unused;
    tn_status status = check_channels(call, x);
    if (status < 0)
        return status;
    if (!tn__call_int(call, OWN_STATS))
        return by_running(call, x);
    const int64_t channels = x->shape[1];
    if (per_channel(call, WEIGHT, channels, 1, 1, x->ndim, &weight) < 0 ||
        per_channel(call, BIAS, channels, 1, 1, x->ndim, &bias) < 0 ||
        per_channel(call, RUNNING_MEAN, channels, 1, 1, x->ndim, &unused) < 0 ||
        per_channel(call, RUNNING_VAR, channels, 1, 1, x->ndim, &unused) < 0)
        return tn_error_code();
    tn_dims_list dims = {x->ndim - 2, {0}};
    int64_t count = 1;
    for (int d = 2; d < x->ndim; d++) {
        dims.dim[d - 2] = d;
        count *= x->shape[d];
    }
    char text[TN__SHAPE_TEXT];
    if (dims.count == 0 || count == 1)
        return tn__fail(TN_ERR_SHAPE, "instance_norm: {input} has shape %s, "
                        "which is one element for each channel; expected "
                        "more, for the variance",
                        tn__shape_text(text, x->ndim, x->shape));
    tn_tensor *y = normalize(x, dims, tn__call_float(call, EPS), weight, bias,
                             stats);
    tn_tensor *const running[] = {tn__call_tensor(call, RUNNING_MEAN),
                                  tn__call_tensor(call, RUNNING_VAR)};
    if (!y)
        return tn_error_code();
    /* The running statistics are updated with the mean and variance of each
     * item, averaged over the batch. */
    if (running[0] || running[1]) {
        for (int i = 0; i < 2; i++)
            stats[i] = tn_mean(tn_detach(stats[i]), .dim = 0);
        if (update(running, stats, count, tn__call_float(call, MOMENTUM)) < 0)
            return tn_error_code();
    }
    return tn__give(call, y);
}

/* ---- layer_norm and rms_norm --------------------------------------------- */

/* Checks that the last sizes of x are normalized_shape, which is argument arg.
 * Stores the indices of these dimensions in *dims. */
static tn_status last_dims(const tn__call *call, const tn_tensor *x, int arg,
                           tn_dims_list *dims)
{
    const tn_dims_list *want = call->value[arg].of.dims;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    int lead = x->ndim - want->count;
    bool fits = want->count > 0 && lead >= 0;
    for (int d = 0; d < want->count && fits; d++) {
        fits = x->shape[lead + d] == want->dim[d];
        dims->dim[d] = lead + d;
    }
    dims->count = want->count;
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s does not end in "
                        "{normalized_shape} %s", call->op->name,
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, want->count, want->dim));
    return TN_OK;
}

static tn_status check_affine(const tn__call *call, int arg, int shape_arg)
{
    const tn_tensor *x = tn__call_tensor(call, arg);
    const tn_dims_list *want = call->value[shape_arg].of.dims;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!x || tn__shape_equal(x->ndim, x->shape, want->count, want->dim))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected "
                    "{normalized_shape} %s", call->op->name,
                    call->op->arg[arg].name,
                    tn__shape_text(a, x->ndim, x->shape),
                    tn__shape_text(b, want->count, want->dim));
}

tn_status tn__run_layer_norm(tn__call *call)
{
    enum {
        shape = TN__ARG_LAYER_NORM_NORMALIZED_SHAPE,
        weight = TN__ARG_LAYER_NORM_WEIGHT,
        bias = TN__ARG_LAYER_NORM_BIAS
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LAYER_NORM_INPUT);
    tn_dims_list dims;
    if (last_dims(call, x, shape, &dims) < 0 ||
        check_affine(call, weight, shape) < 0 ||
        check_affine(call, bias, shape) < 0)
        return tn_error_code();
    return tn__give(call,
                    normalize(x, dims,
                              tn__call_float(call, TN__ARG_LAYER_NORM_EPS),
                              tn__call_tensor(call, weight),
                              tn__call_tensor(call, bias), NULL));
}

tn_status tn__run_rms_norm(tn__call *call)
{
    enum {
        shape = TN__ARG_RMS_NORM_NORMALIZED_SHAPE,
        weight = TN__ARG_RMS_NORM_WEIGHT,
        eps = TN__ARG_RMS_NORM_EPS
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_RMS_NORM_INPUT);
    tn_dims_list dims;
    if (last_dims(call, x, shape, &dims) < 0 ||
        check_affine(call, weight, shape) < 0)
        return tn_error_code();
    /* As in PyTorch, the default of eps is the machine epsilon of the dtype in
     * which the norm is computed. */
    double least = tn__call_has(call, eps) ? tn__call_float(call, eps)
                   : x->dtype == TN_F64    ? DBL_EPSILON
                                           : FLT_EPSILON;
    const tn_value value[] = {tn__value_tensor(x), tn__value_dims(&dims),
                              tn__value_float(least), call->value[weight]};
    /* RMS_NORM_ROWS_AFFINE also returns rstd, in the dtype of x. In a half type
     * rstd would be too inaccurate for the gradient. */
    const tn_tensor *w = tn__call_tensor(call, weight);
    bool with_root = w && w->dtype == x->dtype &&
                     (x->dtype == TN_F32 || x->dtype == TN_F64);
    return tn__give(call, tn__row(with_root ? TN__OP_ID_RMS_NORM_ROWS_AFFINE
                                            : TN__OP_ID_RMS_NORM_ROWS,
                                  value, 4));
}

/* ---- group_norm ---------------------------------------------------------- */

/* Views x (N, C, ...) as (N, groups, C / groups, product of the other sizes)
 * and normalises the last two dimensions. */
tn_status tn__run_group_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_GROUP_NORM_INPUT);
    int64_t groups = tn__call_int(call, TN__ARG_GROUP_NORM_NUM_GROUPS);
    char text[TN__SHAPE_TEXT];
    tn_tensor *weight, *bias;
    tn_status status = check_channels(call, x);
    if (status < 0)
        return status;
    const int64_t channels = x->shape[1];
    if (groups < 1 || channels % groups)
        return tn__fail(TN_ERR_ARGUMENT, "group_norm: {input} has shape %s, "
                        "whose channels (dim 1) do not divide into %lld equal "
                        "groups", tn__shape_text(text, x->ndim, x->shape),
                        (long long)groups);
    int64_t rest = 1;
    tn_dims_list whole = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++) {
        whole.dim[d] = x->shape[d];
        rest *= d > 1 ? x->shape[d] : 1;
    }
    if (per_channel(call, TN__ARG_GROUP_NORM_WEIGHT, channels, groups, 2, 4,
                    &weight) < 0 ||
        per_channel(call, TN__ARG_GROUP_NORM_BIAS, channels, groups, 2, 4,
                    &bias) < 0)
        return tn_error_code();
    tn_tensor *split =
        tn_reshape(x, tn_dims(x->shape[0], groups, channels / groups, rest));
    if (!split)
        return tn_error_code();
    tn_tensor *y = normalize(split, tn_dims(2, 3),
                             tn__call_float(call, TN__ARG_GROUP_NORM_EPS),
                             weight, bias, NULL);
    return tn__give(call, tn_reshape(y, whole));
}

/* ---- local_response_norm ------------------------------------------------- */

/* Divides x by a power of the mean of the squares of adjacent channels:
 * Krizhevsky and others, "ImageNet classification with deep convolutional
 * neural networks" (2012). PyTorch uses a mean in place of the paper's sum. */
tn_status tn__run_local_response_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LOCAL_RESPONSE_NORM_INPUT);
    int64_t size = tn__call_int(call, TN__ARG_LOCAL_RESPONSE_NORM_SIZE);
    char text[TN__SHAPE_TEXT];
    if (x->ndim < 3 || size < 1)
        return tn__fail(TN_ERR_SHAPE, "local_response_norm: {size} is %lld "
                        "and {input} has shape %s; expected a {size} of at "
                        "least 1, and (N, C, ...) with at least 3 dimensions",
                        (long long)size,
                        tn__shape_text(text, x->ndim, x->shape));
    tn_dtype dtype = tn_dtype_is_floating(x->dtype) ? x->dtype : TN_F32;
    tn_tensor *wide = tn_dtype_bytes(dtype) < 4 || dtype != x->dtype
                          ? tn_to_dtype(x, TN_F32)
                          : x;
    if (x->numel == 0) /* as in PyTorch, an empty result has the dtype of the
                          input */
        return tn__give(call, tn_clone(x));
    if (!wide)
        return tn_error_code();
    int64_t channels = x->shape[1];
    tn__taps taps;
    tn_status status = tn__taps_new(&taps, channels, channels,
                                    size < channels ? size : channels);
    for (int64_t i = 0; i < channels && status >= 0; i++) {
        int64_t first = i < size / 2 ? 0 : i - size / 2;
        int64_t end = i - size / 2 + size;
        for (int64_t at = first; at < end && at < channels; at++)
            tn__taps_set(&taps, i, (int)(at - first), at, 1 / (double)size);
    }
    tn_tensor *mean =
        status >= 0 ? tn__taps_sum(tn_square(wide), 1, &taps) : NULL;
    tn__taps_free(&taps);
    tn_tensor *below = tn_pow_scalar(
        tn_add_scalar(
            tn_mul_scalar(
                mean, tn__call_float(call, TN__ARG_LOCAL_RESPONSE_NORM_ALPHA)),
            tn__call_float(call, TN__ARG_LOCAL_RESPONSE_NORM_K)),
        tn__call_float(call, TN__ARG_LOCAL_RESPONSE_NORM_BETA));
    tn_tensor *y = tn_div(wide, below);
    return tn__give(call, y && y->dtype != dtype ? tn_to_dtype(y, dtype) : y);
}
