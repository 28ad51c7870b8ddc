/* loss.c: losses of classes (PyTorch's nll_loss and cross_entropy), composed of
 * other operators, and helpers for all losses. The dimension of the classes is
 * moved to the end first, so that each row of log-probabilities has one
 * target. */
#include <base/context.h>
#include <base/hash.h>
#include <ops/loss/loss.h>
#include <ops/engine/native.h>
#include <stdatomic.h>

/* Reads the argument reduction. Returns false if the name is unknown, with the
 * error recorded. */
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
        return tn__fail(TN_ERR_ARGUMENT, "%s: {reduction} \"%s\" is neither "
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

/* Returns whether this function sees the key for the first time. If there are
 * too many keys, some are forgotten and count as new again. */
static bool is_first_time(uint64_t key)
{
    static _Atomic uint64_t seen[64];
    _Atomic uint64_t *slot = &seen[key % 64];
    return atomic_exchange_explicit(slot, key, memory_order_relaxed) != key;
}

void tn__warn_broadcast(const tn__call *call)
{
    const tn_tensor *x = tn__call_tensor(call, 0);
    const tn_tensor *y = tn__call_tensor(call, 1);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (tn__shape_equal(x->ndim, x->shape, y->ndim, y->shape) ||
        !tn__log_enabled(1))
        return;
    uint64_t h[2] = {(uint64_t)call->op->id,
                     (uint64_t)(x->ndim * 64 + y->ndim)};
    tn__hash_word(h, (uint64_t)(uintptr_t)tn__me.location.path);
    tn__hash_bytes(h, x->shape, (size_t)x->ndim * sizeof *x->shape);
    tn__hash_bytes(h, y->shape, (size_t)y->ndim * sizeof *y->shape);
    tn__hash_finish(h);
    if (!is_first_time(h[0]))
        return;
    const char *path = tn__me.location.path ? tn_path_text(tn__me.location.path) : "";
    tn__log(1, "%s%s%s: input has shape %s and target %s, so they are "
            "broadcast, which is often a mistake: tn_reshape one of them, or "
            "tn_expand it if this is intended", path, *path ? ": " : "",
            call->op->name, tn__shape_text(a, x->ndim, x->shape),
            tn__shape_text(b, y->ndim, y->shape));
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
    tn__warn_broadcast(call);
    return tn__give(call, tn__reduce_each(TN__OP_ID_MSE_EACH, call->value, 2,
                                          reduction));
}

/* ---- nll_loss ------------------------------------------------------------ */

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

/* Returns x[..., target[...]] for x (..., C) and target (...), with 0 where the
 * target is `ignore`. */
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

/* Checks the shapes of the input x, the target and the weight. target is NULL
 * if it holds probabilities, whose shape has been checked. */
static tn_status check_classes(const tn__call *call, const tn_tensor *x,
                               const tn_tensor *target,
                               const tn_tensor *weight)
{
    const char *name = call->op->name;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT], c[TN__SHAPE_TEXT];
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has no dimensions; "
                        "expected (C), (N, C) or (N, C, ...)", name);
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; it takes floating "
                        "tensors: convert it with tn_to_dtype", name,
                        tn_dtype_name(x->dtype));
    int at = class_dim(x);
    if (weight && (weight->ndim != 1 || weight->shape[0] != x->shape[at]))
        return tn__fail(TN_ERR_SHAPE, "%s: {weight} %s does not have one "
                        "number for each of the %lld classes", name,
                        tn__shape_text(a, weight->ndim, weight->shape),
                        (long long)x->shape[at]);
    tn__shape want = {.ndim = 0};
    for (int d = 0; d < x->ndim; d++)
        if (d != at)
            want.dim[want.ndim++] = x->shape[d];
    if (target &&
        !tn__shape_equal(want.ndim, want.dim, target->ndim, target->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {target} has shape %s for {input} "
                        "%s; expected one class number for each sample, so "
                        "shape %s", name,
                        tn__shape_text(a, target->ndim, target->shape),
                        tn__shape_text(b, x->ndim, x->shape),
                        tn__shape_text(c, want.ndim, want.dim));
    return TN_OK;
}

/* Returns the number of targets that are not `ignore`, as a tensor of this
 * dtype. */
static tn_tensor *count_of(tn_tensor *target, int64_t ignore, tn_dtype dtype)
{
    return tn_sum(tn_to_dtype(tn_ne_scalar(target, ignore), dtype));
}

/* Reduces the losses of all targets. The mean is taken over the targets that
 * are not ignored, and is weighted if weights is not NULL. */
static tn_tensor *reduce_weighted(tn_tensor *loss, tn_tensor *weights,
                                  tn_tensor *target, int64_t ignore,
                                  tn__reduction reduction)
{
    if (!loss || reduction == TN__REDUCE_NONE)
        return loss;
    tn_tensor *sum = tn_sum(loss);
    if (reduction == TN__REDUCE_SUM)
        return sum;
    return tn_div(sum, weights ? tn_sum(weights)
                               : count_of(target, ignore, loss->dtype));
}

/* Returns the negative log-likelihood loss. logp, the log-probabilities, has
 * the classes in the last dimension. */
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
    return reduce_weighted(loss, weights, target, ignore, reduction);
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

/* ---- cross entropy ------------------------------------------------------- */

tn_status tn__run_class_nll(tn__call *call)
{
    static tn__formula formula = TN__FORMULA(
        "nll(x, t, m, l; ignore: i64) = let gone = t == ignore;"
        "where(gone, like(0, m), (x[where(gone, 0, t)] - m) - l)");
    enum { LOGP, TOTAL, MOST, LOGSUM };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CLASS_NLL_INPUT);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_CLASS_NLL_TARGET);
    bool all = tn__call_int(call, TN__ARG_CLASS_NLL_ALL);
    const char *name = tn__op_outer("class_nll");
    tn_status status = check_classes(call, x, target, NULL);
    if (status < 0)
        return status;
    if (target->dtype != TN_I64)
        return tn__fail(TN_ERR_DTYPE, "%s: {target} is %s; convert it to int64 "
                        "with tn_to_dtype", name,
                        tn_dtype_name(target->dtype));
    int at = class_dim(x);
    const tn_dtype dtype[] = {x->dtype, TN_I64, x->dtype, x->dtype};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(at)};
    tn_tensor *made[3];
    tn_scope *scope = kernel ? tn_scope_open() : NULL;
    int count = scope ? tn__op_run(&tn__op_table[all ? TN__OP_ID_CLASS_SUMS
                                                     : TN__OP_ID_CLASS_TOPS],
                                   value, 2, made, 3)
                      : tn_error_code();
    if (count > 0) {
        call->out[LOGP] = tn__tensor_new(x->storage->device, x->dtype,
                                         target->ndim, target->shape, name);
        call->out[MOST] = tn__ref(made[0]);
        call->out[LOGSUM] = tn__ref(made[1]);
        call->out[TOTAL] = all ? tn__ref(made[2])
                               : tn__tensor_new(x->storage->device, x->dtype,
                                                0, NULL, name);
        call->out_count = 4;
    }
    tn_scope_close(scope);
    if (count < 0 || !call->out[LOGP] || !call->out[TOTAL])
        return tn_error_code();
    tn__shape shape = {.ndim = target->ndim};
    memcpy(shape.dim, target->shape, target->ndim * sizeof *shape.dim);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    for (int d = 0, outer = 0; d < x->ndim; d++)
        if (d != at)
            from->stride[outer++] = x->stride[d];
    from->index_stride[0] = x->stride[at];
    from->index_extent[0] = x->shape[at];
    tn__space_add(&space, &shape, 0, target);
    tn__space_add(&space, &shape, 0, call->out[MOST]);
    tn__space_add(&space, &shape, 0, call->out[LOGSUM]);
    tn__space_add_out(&space, &shape, 0, false, false, call->out[LOGP]);
    const tn_number param = {
        .i = tn__call_int(call, TN__ARG_CLASS_NLL_IGNORE_INDEX)};
    return tn__kernel_launch(x->storage->device, kernel, &space, &param, name);
}

tn_status tn__run_class_nll_back(tn__call *call)
{
    enum { INPUT, TARGET, MOST, LOGSUM, OWN, SHARE, EACH };
    const tn_value *in = call->value;
    const tn_value value[] = {in[INPUT], in[MOST], in[LOGSUM], in[SHARE],
                              in[EACH].kind == TN_VALUE_NONE
                                  ? tn__value_number(tn_num(0))
                                  : in[EACH]};
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = scope ? tn__row(TN__OP_ID_CLASS_SHARE, value, 5) : NULL;
    tn_status status = tn_error_code();
    if (out) {
        call->out[call->out_count++] = tn__ref(out);
        status = tn__scatter_into("class_nll_back", out, class_dim(out),
                                  in[TARGET].of.tensor, in[OWN].of.tensor,
                                  TN_SCATTER_ADD);
    }
    tn_scope_close(scope);
    return status;
}

/* Returns the cross entropy for class targets without weights, by an operator
 * that does not store log_softmax. */
static tn_tensor *plain_loss(tn_tensor *x, tn_tensor *target, int64_t ignore,
                             double smoothing, tn__reduction reduction)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(target),
                              tn__value_int(ignore),
                              tn__value_bool(smoothing > 0)};
    tn_tensor *out[4] = {NULL};
    if (tn__op_run(&tn__op_table[TN__OP_ID_CLASS_NLL], value, 4, out, 4) < 0)
        return NULL;
    const tn_value mean[] = {tn__value_tensor(out[0]), value[1], value[2]};
    tn_tensor *loss =
        reduction == TN__REDUCE_MEAN
            ? tn__row(TN__OP_ID_CLASS_MEAN, mean, 3)
            : reduce_weighted(tn_neg(out[0]), NULL, target, ignore, reduction);
    if (smoothing <= 0)
        return loss;
    tn_tensor *smooth = tn_masked_fill_scalar(
        tn_neg(out[1]), tn_eq_scalar(target, ignore), 0);
    smooth = reduce_weighted(smooth, NULL, target, ignore, reduction);
    double share = smoothing / (double)x->shape[class_dim(x)];
    return tn_add(tn_mul_scalar(loss, 1 - smoothing),
                  tn_mul_scalar(smooth, share));
}

static tn_tensor *plain_soft_loss(tn_tensor *x, tn_tensor *target,
                                  double smoothing, tn__reduction reduction)
{
    double classes = (double)x->shape[class_dim(x)];
    if (smoothing > 0)
        target = tn_add_scalar(tn_mul_scalar(target, 1 - smoothing),
                               smoothing / classes);
    const tn_value value[] = {tn__value_tensor(x), tn__value_optional(target),
                              tn__value_int(class_dim(x))};
    tn_tensor *out[4] = {NULL};
    if (!target ||
        tn__op_run(&tn__op_table[TN__OP_ID_CLASS_SOFT], value, 3, out, 4) < 0)
        return NULL;
    return tn__reduce(out[0], reduction);
}

/* Returns the cross entropy for probabilities as targets. logp and target have
 * the classes in the last dimension. */
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
    tn_tensor *loss = tn_neg(tn_sum(each, .dim = -1));
    return tn__reduce(loss, reduction);
}

/* Returns the term of label smoothing: the cross entropy with equal
 * probabilities for all classes, times the number of classes. */
static tn_tensor *smooth_loss(tn_tensor *logp, tn_tensor *target,
                              tn_tensor *weight, int64_t ignore,
                              tn__reduction reduction)
{
    tn_tensor *each = weight ? tn_mul(logp, weight) : logp;
    tn_tensor *loss = tn_neg(tn_sum(each, .dim = -1));
    loss = tn_masked_fill_scalar(loss, tn_eq_scalar(target, ignore), 0);
    return reduce_weighted(
        loss, weight ? weights_of(weight, logp, target, ignore) : NULL, target,
        ignore, reduction);
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
        return tn__fail(TN_ERR_ARGUMENT, "cross_entropy: {label_smoothing} %g "
                        "is outside [0, 1]", smoothing);
    bool soft = tn_dtype_is_floating(target->dtype) &&
                tn__shape_equal(x->ndim, x->shape, target->ndim,
                                target->shape);
    if (soft &&
        ignore != call->op->fallback[TN__ARG_CROSS_ENTROPY_IGNORE_INDEX].of.i)
        return tn__fail(TN_ERR_ARGUMENT, "cross_entropy: {ignore_index} is "
                        "%lld, but {target} holds class probabilities: leave "
                        "{ignore_index} out, or give class numbers",
                        (long long)ignore);
    tn_status status = check_classes(call, x, soft ? NULL : target, weight);
    if (status < 0)
        return status;
    if (soft && !weight && x->numel > 0)
        return tn__give(call, plain_soft_loss(x, target, smoothing, reduction));
    if (!soft && !weight && x->numel > 0 && target->dtype == TN_I64)
        return tn__give(call, plain_loss(x, target, ignore, smoothing,
                                         reduction));
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
