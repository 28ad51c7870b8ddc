/* distance.c: losses that compare input and target element by element
 * (PyTorch's mse_loss, smooth_l1_loss, kl_div and others). Each is an
 * element-wise operator followed by a reduction. */
#include <ops/loss/loss.h>
#include <ops/engine/native.h>

/* Calls the element-wise operator with id `each` on the first `count` arguments
 * of the call, and reduces its result as the call's last argument says. */
static tn_status reduced_of(tn__call *call, int each, int count)
{
    tn__reduction reduction;
    if (!tn__find_reduction(call, call->op->arg_count - 1, &reduction))
        return TN_ERR_ARGUMENT;
    if (strcmp(call->op->arg[1].name, "target") == 0)
        tn__warn_broadcast(call);
    return tn__give(call,
                    tn__reduce_each(each, call->value, count, reduction));
}

static tn_status reduced(tn__call *call, int each)
{
    return reduced_of(call, each, call->op->arg_count - 1);
}

tn_status tn__run_l1_loss(tn__call *call)
{
    return reduced(call, TN__OP_ID_L1_EACH);
}

/* Computes smooth_l1_loss. If beta is 0 in the dtype of the input, l1_loss is
 * computed instead, because the gradient divides by beta. */
tn_status tn__run_smooth_l1_loss(tn__call *call)
{
    double beta = tn__call_float(call, TN__ARG_SMOOTH_L1_LOSS_BETA);
    const tn_tensor *x = tn__call_tensor(call, TN__ARG_SMOOTH_L1_LOSS_INPUT);
    if (beta < 0)
        return tn__fail(TN_ERR_ARGUMENT, "smooth_l1_loss: {beta} is %g; "
                        "expected at least 0", beta);
    if (x->dtype == TN_F64 ? beta == 0 : (float)beta == 0)
        return reduced_of(call, TN__OP_ID_L1_EACH, 2);
    return reduced(call, TN__OP_ID_SMOOTH_L1_EACH);
}

tn_status tn__run_huber_loss(tn__call *call)
{
    double delta = tn__call_float(call, TN__ARG_HUBER_LOSS_DELTA);
    if (delta <= 0)
        return tn__fail(TN_ERR_ARGUMENT, "huber_loss: {delta} is %g; expected "
                        "more than 0", delta);
    return reduced(call, TN__OP_ID_HUBER_EACH);
}

tn_status tn__run_poisson_nll_loss(tn__call *call)
{
    if (tn__call_int(call, TN__ARG_POISSON_NLL_LOSS_LOG_INPUT) &&
        !tn__call_int(call, TN__ARG_POISSON_NLL_LOSS_FULL))
        return reduced_of(call, TN__OP_ID_POISSON_LOG_EACH, 2);
    return reduced(call, TN__OP_ID_POISSON_NLL_EACH);
}

tn_status tn__run_hinge_embedding_loss(tn__call *call)
{
    return reduced(call, TN__OP_ID_HINGE_EMBEDDING_EACH);
}

tn_status tn__run_margin_ranking_loss(tn__call *call)
{
    return reduced(call, TN__OP_ID_MARGIN_RANKING_EACH);
}

tn_status tn__run_soft_margin_loss(tn__call *call)
{
    return reduced(call, TN__OP_ID_SOFT_MARGIN_EACH);
}

/* Computes the Gaussian negative log-likelihood. If var lacks the last
 * dimension of the input, var broadcasts along this dimension. */
tn_status tn__run_gaussian_nll_loss(tn__call *call)
{
    enum { input, target, var, full, eps, reduction };
    const tn_tensor *x = tn__call_tensor(call, input);
    tn_tensor *v = tn__call_tensor(call, var);
    tn_value value[reduction + 1];
    memcpy(value, call->value, sizeof value);
    if (x->ndim == v->ndim + 1)
        value[var] = tn__value_tensor(tn_unsqueeze(v, -1));
    if (!value[var].of.tensor)
        return tn_error_code();
    const tn_value *given = call->value;
    call->value = value;
    tn_status status = reduced(call, TN__OP_ID_GAUSSIAN_NLL_EACH);
    call->value = given;
    return status;
}

tn_status tn__run_kl_div(tn__call *call)
{
    const char *name = call->value[TN__ARG_KL_DIV_REDUCTION].of.string;
    const tn_tensor *x = tn__call_tensor(call, TN__ARG_KL_DIV_INPUT);
    bool batch = strcmp(name, "batchmean") == 0;
    tn__reduction reduction = TN__REDUCE_SUM;
    if (!batch &&
        !tn__find_reduction(call, TN__ARG_KL_DIV_REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    tn__warn_broadcast(call);
    tn_tensor *loss = tn__row(tn__call_int(call, TN__ARG_KL_DIV_LOG_TARGET)
                                  ? TN__OP_ID_KL_LOG_EACH
                                  : TN__OP_ID_KL_EACH,
                              call->value, 2);
    loss = tn__reduce(loss, reduction);
    if (batch && x->ndim > 0)
        loss = tn_div_scalar(loss, x->shape[0]);
    return tn__give(call, loss);
}

/* ---- binary cross entropy ------------------------------------------------ */

tn_status tn__run_binary_cross_entropy(tn__call *call)
{
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_BINARY_CROSS_ENTROPY_REDUCTION,
                            &reduction))
        return TN_ERR_ARGUMENT;
    tn_tensor *weight =
        tn__call_tensor(call, TN__ARG_BINARY_CROSS_ENTROPY_WEIGHT);
    tn__warn_broadcast(call);
    if (!weight)
        return tn__give(call, tn__reduce_each(TN__OP_ID_BCE_EACH, call->value,
                                              2, reduction));
    tn_tensor *loss =
        tn_mul(tn__row(TN__OP_ID_BCE_EACH, call->value, 2), weight);
    return tn__give(call, tn__reduce(loss, reduction));
}

tn_status tn__run_bce_with_logits(tn__call *call)
{
    enum {
        weight = TN__ARG_BINARY_CROSS_ENTROPY_WITH_LOGITS_WEIGHT,
        reduce = TN__ARG_BINARY_CROSS_ENTROPY_WITH_LOGITS_REDUCTION,
        pos_weight = TN__ARG_BINARY_CROSS_ENTROPY_WITH_LOGITS_POS_WEIGHT
    };
    tn__reduction reduction;
    if (!tn__find_reduction(call, reduce, &reduction))
        return TN_ERR_ARGUMENT;
    tn__warn_broadcast(call);
    const tn_value value[] = {call->value[0], call->value[1],
                              call->value[pos_weight]};
    if (!tn__call_has(call, weight) && !tn__call_has(call, pos_weight))
        return tn__give(call, tn__reduce_each(TN__OP_ID_BCE_LOGITS_EACH, value,
                                              2, reduction));
    tn_tensor *loss = tn__call_has(call, pos_weight)
                          ? tn__row(TN__OP_ID_BCE_LOGITS_WEIGHTED, value, 3)
                          : tn__row(TN__OP_ID_BCE_LOGITS_EACH, value, 2);
    if (tn__call_has(call, weight))
        loss = tn_mul(loss, tn__call_tensor(call, weight));
    return tn__give(call, tn__reduce(loss, reduction));
}

tn_status tn__run_multilabel_soft_margin_loss(tn__call *call)
{
    enum {
        weight = TN__ARG_MULTILABEL_SOFT_MARGIN_LOSS_WEIGHT,
        reduce = TN__ARG_MULTILABEL_SOFT_MARGIN_LOSS_REDUCTION
    };
    tn__reduction reduction;
    if (!tn__find_reduction(call, reduce, &reduction))
        return TN_ERR_ARGUMENT;
    tn__warn_broadcast(call);
    tn_tensor *loss = tn__row(TN__OP_ID_BCE_LOGITS_EACH, call->value, 2);
    if (tn__call_has(call, weight))
        loss = tn_mul(loss, tn__call_tensor(call, weight));
    loss = tn_mean(loss, .dim = -1);
    return tn__give(call, tn__reduce(loss, reduction));
}

/* ---- losses by distances of vectors -------------------------------------- */

tn_status tn__run_cosine_embedding_loss(tn__call *call)
{
    enum { first, second, target, margin, reduce };
    tn__reduction reduction;
    if (!tn__find_reduction(call, reduce, &reduction))
        return TN_ERR_ARGUMENT;
    const tn_value rows[] = {call->value[first], call->value[second],
                             tn__value_int(-1)};
    tn_tensor *cosine = tn__row(TN__OP_ID_COSINE_ROWS, rows, 3);
    if (!cosine)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(cosine), call->value[target],
                              call->value[margin]};
    tn_tensor *loss = tn__row(TN__OP_ID_COSINE_EMBEDDING_EACH, value, 3);
    return tn__give(call, tn__reduce(loss, reduction));
}

static tn_tensor *distance(tn_tensor *a, tn_tensor *b, double p, double eps,
                           bool keepdim)
{
    tn_tensor *d = tn_add_scalar(tn_sub(a, b), eps);
    return tn_vector_norm(d, .ord = p, .dim = -1,
                          .keepdim = keepdim);
}

tn_status tn__run_pairwise_distance(tn__call *call)
{
    return tn__give(
        call, distance(tn__call_tensor(call, TN__ARG_PAIRWISE_DISTANCE_X1),
                       tn__call_tensor(call, TN__ARG_PAIRWISE_DISTANCE_X2),
                       tn__call_float(call, TN__ARG_PAIRWISE_DISTANCE_P),
                       tn__call_float(call, TN__ARG_PAIRWISE_DISTANCE_EPS),
                       tn__call_int(call,
                                    TN__ARG_PAIRWISE_DISTANCE_KEEPDIM)));
}

tn_status tn__run_triplet_margin_loss(tn__call *call)
{
    enum { anchor, positive, negative, margin, p, eps, swap, reduce };
    tn__reduction reduction;
    if (!tn__find_reduction(call, reduce, &reduction))
        return TN_ERR_ARGUMENT;
    tn_tensor *a = tn__call_tensor(call, anchor);
    tn_tensor *near = tn__call_tensor(call, positive);
    tn_tensor *far = tn__call_tensor(call, negative);
    double power = tn__call_float(call, p), small = tn__call_float(call, eps);
    tn_tensor *to_near = distance(a, near, power, small, false);
    tn_tensor *to_far = distance(a, far, power, small, false);
    if (tn__call_int(call, swap))
        to_far = tn_minimum(to_far, distance(near, far, power, small, false));
    tn_tensor *loss = tn_clamp_min_scalar(
        tn_add_scalar(tn_sub(to_near, to_far), tn__call_float(call, margin)),
        0);
    return tn__give(call, tn__reduce(loss, reduction));
}
