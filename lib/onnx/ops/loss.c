/* loss.c: classification losses. Input (N, C, d1, ...), target (N, d1, ...). */
#include <onnx/ops/ops.h>

#include <string.h>

/* Returns the negative log-likelihood loss of log-probabilities. In the row,
 * ignore_index must be attribute 0 and reduction attribute 1. */
static tn_tensor *likelihood(tn__onnx_call *c, tn_tensor *logp)
{
    tn_tensor *target = tn_to_dtype(c->x[1], TN_I64),
              *weight = tn__onnx_x(c, 2);
    const char *reduction = tn__onnx_string(c, 1);
    const int64_t classes =
        tn_tensor_ndim(logp) > 1 ? tn_tensor_size(logp, 1) : 0;
    const bool mean = strcmp(reduction, "mean") == 0,
               sum = strcmp(reduction, "sum") == 0;
    if (tn_tensor_ndim(logp) < 2 ||
        tn_tensor_ndim(target) != tn_tensor_ndim(logp) - 1) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "input has %d dimensions and target %d; input must "
                        "have one more than target",
                        tn_tensor_ndim(logp), tn_tensor_ndim(target));
        return NULL;
    }
    if (!mean && !sum && strcmp(reduction, "none") != 0) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "reduction is \"%.40s\"; it must be none, mean or "
                        "sum",
                        reduction);
        return NULL;
    }
    tn_tensor *each = weight ? weight
                             : tn_ones(tn_dims(classes),
                                       .dtype = tn_tensor_dtype(logp),
                                       .device = c->device);
    tn_tensor *used = NULL, *safe = target;
    if (c->attr[0]) { /* an ignored target may be an invalid class, so class 0
                         replaces it */
        used = tn_ne_scalar(target, c->attr[0]->i);
        safe = tn_where(used, target, tn_zeros_like(target));
    }
    tn_tensor *own = tn_squeeze(tn_gather(logp, 1, tn_unsqueeze(safe, 1)),
                                .dim = 1);
    const int64_t n = tn_tensor_numel(safe);
    tn_tensor *w = tn_reshape(tn_index_select(each, 0,
                                              tn_reshape(safe, tn_dims(n))),
                              tn__onnx_shape(safe));
    if (used)
        w = tn_where(used, w, tn_zeros_like(w));
    /* the loss of an ignored target must be 0, but 0 * -inf is NaN */
    tn_tensor *loss = tn_neg(tn_mul(own, w));
    if (used)
        loss = tn_where(used, loss, tn_zeros_like(loss));
    if (mean)
        return tn_div(tn_sum(loss), tn_sum(w));
    return sum ? tn_sum(loss) : loss;
}

static void negative_log_likelihood(tn__onnx_call *c)
{
    c->y[0] = likelihood(c, c->x[0]);
    c->y_type[0] = c->x_type[0];
}

static void softmax_cross_entropy(tn__onnx_call *c)
{
    if (tn_tensor_ndim(c->x[0]) < 2) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "scores has %d dimensions; expected at least 2",
                        tn_tensor_ndim(c->x[0]));
        return;
    }
    tn_tensor *logp = tn_log_softmax_with(c->x[0], 1, NULL);
    c->y[0] = likelihood(c, logp);
    c->y[1] = logp;
    c->y_type[0] = c->y_type[1] = c->x_type[0];
}

static const tn__onnx_op rows[] = {
    {.name = "NegativeLogLikelihoodLoss", .since = 12, .min_in = 2, .max_in = 3,
     .max_out = 1, .attributes = "ignore_index:int reduction:string=mean",
     .run = negative_log_likelihood},
    {.name = "SoftmaxCrossEntropyLoss", .since = 12, .min_in = 2, .max_in = 3,
     .max_out = 2, .attributes = "ignore_index:int reduction:string=mean",
     .run = softmax_cross_entropy},
};
const tn__onnx_family tn__onnx_loss = TN__ONNX_FAMILY(rows);
