/* loss.c: losses, written with other rows. Classes move to the last axis first:
 * there a row of log-probabilities meets its target. */
#include <ops/loss.h>
#include <ops/native.h>

/* A reduction by name; false with the error recorded. */
bool tn__find_reduction(const tn__call *call, int arg,
                        tn__reduction *reduction)
{
    const char *name = call->value[arg].of.string;
    if (strcmp(name, "mean") == 0)
        *reduction = TN__REDUCE_MEAN;
    else if (strcmp(name, "sum") == 0)
        *reduction = TN__REDUCE_SUM;
    else if (strcmp(name, "none") == 0)
        *reduction = TN__REDUCE_NONE;
    else
        return tn__fail(TN_ERR_ARGUMENT, "%s: reduction \"%s\" is neither "
                        "\"mean\" nor \"sum\" nor \"none\"",
                        call->op->name, name), false;
    return true;
}

tn_tensor *tn__reduce(tn_tensor *loss, tn__reduction reduction)
{
    return reduction == TN__REDUCE_MEAN  ? tn_mean(loss)
           : reduction == TN__REDUCE_SUM ? tn_sum(loss)
                                     : loss;
}

static bool any_floating(const tn_value *value, int count)
{
    for (int i = 0; i < count; i++)
        if (value[i].kind == TN_VALUE_TENSOR &&
            tn_dtype_is_floating(value[i].of.tensor->dtype))
            return true;
    return false;
}

tn_tensor *tn__reduce_each(int each, const tn_value *value, int count,
                           tn__reduction reduction)
{
    if (reduction == TN__REDUCE_MEAN && any_floating(value, count))
        return tn__row(each + 1, value, count);
    return tn__reduce(tn__row(each, value, count), reduction);
}

tn_status tn__run_mse_loss(tn__call *call)
{
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_MSE_LOSS_REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    return tn__give(call, tn__reduce_each(TN__OP_ID_MSE_EACH, call->value, 2,
                                          reduction));
}

/* ---- classes ------------------------------------------------------------------ */

static int class_dim(const tn_tensor *x)
{
    return x->ndim > 1 ? 1 : 0;
}

static tn_tensor *classes_last(tn_tensor *x)
{
    if (!x || x->ndim <= 2)
        return x;
    tn_dims_list order = {x->ndim, {0}};
    for (int d = 2; d < x->ndim; d++)
        order.dim[d - 1] = d;
    order.dim[x->ndim - 1] = 1;
    return tn_permute(x, order);
}

/* x (..., C) at target (...), 0 where it is to be ignored. */
static tn_tensor *pick(tn_tensor *x, tn_tensor *target, int64_t ignore)
{
    tn_value value[] = {tn__value_tensor(x), tn__value_tensor(target),
                        tn__value_int(ignore)};
    return tn__row(TN__OP_ID_PICK, value, 3);
}

static tn_tensor *weights_of(tn_tensor *weight, tn_tensor *logp,
                             tn_tensor *target, int64_t ignore)
{
    tn_dims_list size = {logp->ndim, {0}};
    for (int d = 0; d < logp->ndim; d++)
        size.dim[d] = logp->shape[d];
    return pick(tn_expand(weight, size), target, ignore);
}

static tn_status check_classes(const tn__call *call, const tn_tensor *x,
                               const tn_tensor *target,
                               const tn_tensor *weight)
{
    const char *name = call->op->name;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT], c[TN__SHAPE_TEXT];
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: input has no dimension of classes",
                        name);
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: input is %s; it takes floating "
                        "tensors: convert it with tn_to_dtype", name,
                        tn_dtype_name(x->dtype));
    int at = class_dim(x);
    if (weight && (weight->ndim != 1 || weight->shape[0] != x->shape[at]))
        return tn__fail(TN_ERR_SHAPE, "%s: weight %s has not one number for "
                        "each of the %lld classes", name,
                        tn__shape_text(a, weight->ndim, weight->shape),
                        (long long)x->shape[at]);
    tn__shape want = {.ndim = 0};
    for (int d = 0; d < x->ndim; d++)
        if (d != at)
            want.dim[want.ndim++] = x->shape[d];
    if (!tn__shape_equal(want.ndim, want.dim, target->ndim, target->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: target %s does not fit input %s: "
                        "one class for each row, %s, is wanted", name,
                        tn__shape_text(a, target->ndim, target->shape),
                        tn__shape_text(b, x->ndim, x->shape),
                        tn__shape_text(c, want.ndim, want.dim));
    return TN_OK;
}

/* How many targets count, in the loss's dtype. */
static tn_tensor *count_of(tn_tensor *target, int64_t ignore, tn_dtype dtype)
{
    return tn_sum(tn_to_dtype(tn_ne_scalar(target, ignore), dtype));
}

/* logp has its classes last. */
static tn_tensor *nll(tn_tensor *logp, tn_tensor *target, tn_tensor *weight,
                      int64_t ignore, tn__reduction reduction)
{
    tn_tensor *loss = tn_neg(pick(logp, target, ignore));
    tn_tensor *weights = NULL;
    if (!loss)
        return NULL;
    if (weight) {
        weights = weights_of(weight, logp, target, ignore);
        loss = tn_mul(loss, weights);
    }
    if (reduction == TN__REDUCE_NONE)
        return loss;
    loss = tn_sum(loss);
    if (reduction == TN__REDUCE_SUM)
        return loss;
    return tn_div(loss, weight ? tn_sum(weights)
                               : count_of(target, ignore, logp->dtype));
}

tn_status tn__run_nll_loss(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NLL_LOSS_INPUT);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_NLL_LOSS_TARGET);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_NLL_LOSS_WEIGHT);
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_NLL_LOSS_REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    tn_status status = check_classes(call, x, target, weight);
    if (status < 0)
        return status;
    return tn__give(
        call, nll(classes_last(x), target, weight,
                  tn__call_int(call, TN__ARG_NLL_LOSS_IGNORE_INDEX),
                  reduction));
}

/* ---- cross entropy -------------------------------------------------------------- */

/* Targets that are probabilities. logp and target have their classes last. */
static tn_tensor *soft_loss(tn_tensor *logp, tn_tensor *target,
                            tn_tensor *weight, double smoothing,
                            tn__reduction reduction)
{
    int64_t classes = logp->shape[logp->ndim - 1];
    if (smoothing > 0)
        target = tn_add_scalar(tn_mul_scalar(target, 1 - smoothing),
                               smoothing / (double)classes);
    tn_tensor *each = tn_mul(logp, target);
    if (weight)
        each = tn_mul(each, weight);
    tn_tensor *loss = tn_neg(tn_sum(each, .dim = tn_dims(-1)));
    return tn__reduce(loss, reduction);
}

/* The part of label smoothing: the target's share of all classes. */
static tn_tensor *smooth_loss(tn_tensor *logp, tn_tensor *target,
                              tn_tensor *weight, int64_t ignore,
                              tn__reduction reduction)
{
    tn_tensor *each = weight ? tn_mul(logp, weight) : logp;
    tn_tensor *loss = tn_neg(tn_sum(each, .dim = tn_dims(-1)));
    loss = tn_masked_fill_scalar(loss, tn_eq_scalar(target, ignore), 0);
    if (reduction == TN__REDUCE_NONE)
        return loss;
    loss = tn_sum(loss);
    if (reduction == TN__REDUCE_SUM)
        return loss;
    return tn_div(loss,
                  weight ? tn_sum(weights_of(weight, logp, target, ignore))
                         : count_of(target, ignore, logp->dtype));
}

tn_status tn__run_cross_entropy(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CROSS_ENTROPY_INPUT);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_CROSS_ENTROPY_TARGET);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_CROSS_ENTROPY_WEIGHT);
    int64_t ignore = tn__call_int(call, TN__ARG_CROSS_ENTROPY_IGNORE_INDEX);
    double smoothing =
        tn__call_float(call, TN__ARG_CROSS_ENTROPY_LABEL_SMOOTHING);
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_CROSS_ENTROPY_REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    if (!(smoothing >= 0 && smoothing <= 1))
        return tn__fail(TN_ERR_ARGUMENT, "cross_entropy: label_smoothing %g "
                        "is outside [0, 1]", smoothing);
    bool soft = tn_dtype_is_floating(target->dtype) &&
                tn__shape_equal(x->ndim, x->shape, target->ndim,
                                target->shape);
    tn_status status = check_classes(
        call, x, soft && x->ndim ? tn_select(target, class_dim(x), 0) : target,
        weight);
    if (status < 0)
        return status;
    tn_tensor *logp = classes_last(tn_log_softmax(x, class_dim(x)));
    if (!logp)
        return tn_error_code();
    if (soft)
        return tn__give(call, soft_loss(logp, classes_last(target), weight,
                                        smoothing, reduction));
    tn_tensor *loss = nll(logp, target, weight, ignore, reduction);
    if (smoothing > 0) {
        tn_tensor *smooth =
            smooth_loss(logp, target, weight, ignore, reduction);
        double share =
            smoothing / (double)logp->shape[logp->ndim - 1];
        loss = tn_add(tn_mul_scalar(loss, 1 - smoothing),
                      tn_mul_scalar(smooth, share));
    }
    return tn__give(call, loss);
}
