/* gradients_loss.c: gradients of those loss functions that are not written in
 * the kernel language. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <ops/loss/loss.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* g[0] has one element per sequence, shape (N). The gradient has shape
 * (T, N, C). The forward operator returns its second output, log_alpha, only
 * for this function. */
TN__GRADIENT(tn__grad_ctc_forward)
{
    tn_value value[7];
    for (int p = 0; p < 6; p++) {
        tn_tensor *x =
            p < 4 ? tn__node_input(node, p) : tn__node_output(node, p - 4);
        if (!x)
            return tn_error_code();
        value[p] = tn__value_tensor(x);
    }
    value[6] = *tn__node_value(node, 4);
    tn_tensor *unit =
        tn__op_run1(&tn__op_table[TN__OP_ID_CTC_BACKWARD], value, 7);
    out[0] = g[0] && unit ? tn_mul(unit, tn_unsqueeze(g[0], 1)) : NULL;
    return out[0] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_ctc_backward)
{
    (void)node, (void)g, (void)out;
    return tn__fail(TN_ERR_UNSUPPORTED, "ctc_loss: its gradient has no "
                    "gradient, as in PyTorch");
}

/* ---- linear_nll --------------------------------------------------------- */

/* The state of the gradient of linear_nll, which computes log-probabilities of
 * linear(x) for a batch of N rows without storing all of them. K is the number
 * of weight matrices, each of C rows (classes) and D columns. */
typedef struct linear {
    const tn__node *node;
    tn_tensor *x, *w, *bias, *target, *lse;
    tn_tensor *g;     /* gradient of the target's log-probability, shape (K, N,
                       * 1) */
    tn_tensor *share; /* factor by which the softmax is multiplied in the
                         gradient, shape (K, N, 1) */
    tn_tensor *by_w, *by_bias; /* gradients of w and bias so far */
} linear;

/* Processes the rows from `at` to at + size - 1 of x. Computes their outputs
 * again and from them the gradients. Adds the gradients of weight and bias to
 * by_w and by_bias, which the first block makes. Returns the gradient of these
 * rows of x, or any non-NULL tensor if it is not needed. Returns NULL on
 * failure. */
static tn_tensor *block_back(linear *l, int64_t at, int64_t size)
{
    tn_tensor *x = tn_narrow(l->x, 0, at, size);
    tn_tensor *y = tn_matmul(x, tn_transpose(l->w, 1, 2)); /* y[K][size][C] */
    if (l->bias)
        y = tn_add_(y, tn_unsqueeze(l->bias, 1));
    const tn_value value[] = {
        tn__value_optional(y),
        tn__value_optional(tn_narrow(l->lse, 1, at, size)),
        tn__value_optional(tn_narrow(l->target, 1, at, size)),
        tn__value_optional(tn_narrow(l->g, 1, at, size)),
        tn__value_optional(tn_narrow(l->share, 1, at, size)),
        tn__value_int(-1)};
    tn_tensor *d =
        y ? tn__op_run1(&tn__op_table[TN__OP_ID_LINEAR_NLL_BACK], value, 6)
          : NULL;
    tn_tensor *result = d;
    if (d && tn__node_wants(l->node, 1)) {
        tn_tensor *part = tn_matmul(tn_transpose(d, 1, 2), x);
        result = l->by_w = at ? tn_add_(l->by_w, part) : part;
    }
    if (result && tn__node_wants(l->node, 2)) {
        tn_tensor *part = tn_sum(d, .dim = 1);
        result = l->by_bias = at ? tn_add_(l->by_bias, part) : part;
    }
    if (!result || !tn__node_wants(l->node, 0))
        return result;
    tn_tensor *by_x = tn_matmul(d, l->w); /* by_x[K][size][D] */
    return l->w->shape[0] == 1 ? tn_squeeze(by_x, .dim = 0)
                               : tn_sum(by_x, .dim = 0);
}

/* Processes all blocks of x, each in its own scope. Tensors that must outlive
 * the block are moved to the scope of the caller. Stores the gradient of each
 * block of x in part[]. */
static tn_status all_blocks(linear *l, int64_t rows, tn_tensor **part)
{
    int64_t n = l->x->shape[0];
    bool wants_x = tn__node_wants(l->node, 0);
    for (int64_t at = 0; at < n; at += rows) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *done =
            scope ? block_back(l, at, n - at < rows ? n - at : rows) : NULL;
        tn_tensor *keep[3] = {wants_x ? done : NULL,
                              at ? NULL : l->by_w, at ? NULL : l->by_bias};
        for (int i = 0; i < 3; i++)
            tn_keep(done ? keep[i] : NULL);
        tn_scope_close(scope);
        if (!done)
            return tn_error_code();
        for (int i = 0; i < 3; i++)
            if (keep[i])
                tn_scope_adopt(keep[i]);
        part[at / rows] = keep[0];
    }
    return TN_OK;
}

TN__GRADIENT(tn__grad_linear_nll)
{
    bool has_bias = tn__node_ndim(node, 2) >= 0;
    linear l = {.node = node, .x = tn__node_input(node, 0),
                .w = tn__node_input(node, 1),
                .bias = has_bias ? tn__node_input(node, 2) : NULL,
                .target = tn__node_input(node, 3),
                .lse = tn__node_output(node, 1)};
    if (!l.x || !l.w || !l.target || !l.lse || (has_bias && !l.bias))
        return tn_error_code();
    tn_tensor *ignored =
        tn_eq_scalar(l.target, tn__node_value(node, 4)->of.i);
    l.g = g[0] ? tn_masked_fill_scalar(g[0], ignored, 0)
               : tn_zeros_like(l.lse);
    l.share = g[1] ? tn_sub(g[1], l.g) : tn_neg(l.g);
    l.g = tn_unsqueeze(l.g, 2);
    l.share = tn_unsqueeze(l.share, 2);
    l.lse = tn_unsqueeze(l.lse, 2);
    l.target = tn_unsqueeze(l.target, 2);
    int64_t n = l.x->shape[0];
    int64_t rows = tn__linear_nll_rows(l.w->shape[0] * l.w->shape[1]);
    int64_t count = (n + rows - 1) / rows;
    if (!l.g || !l.share || !l.lse || !l.target || !count)
        return tn_error_code();
    tn_tensor **part = tn__alloc_many(count, sizeof *part);
    tn_status status = part ? all_blocks(&l, rows, part) : TN_ERR_MEMORY;
    if (status >= 0 && tn__node_wants(node, 0)) {
        const tn_value value[] = {tn__value_tensors(part, (int)count),
                                  tn__value_int(0)};
        out[0] = count == 1
                     ? part[0]
                     : tn__op_run1(&tn__op_table[TN__OP_ID_CAT], value, 2);
        status = out[0] ? TN_OK : tn_error_code();
    }
    tn__free(part);
    out[1] = l.by_w;
    if (has_bias)
        out[2] = l.by_bias;
    return status;
}

/* ---- class_nll ---------------------------------------------------------- */

/* `most` is the maximum that the forward operator subtracts before exp and adds
 * again after log. The result does not depend on it, so its gradient is
 * omitted. */
TN__GRADIENT(tn__grad_class_nll)
{
    enum { LOGP, TOTAL, MOST, LOGSUM };
    tn_tensor *x = tn__node_input(node, 0), *target = tn__node_input(node, 1);
    tn_tensor *most = tn__node_output(node, MOST);
    tn_tensor *logsum = tn__node_output(node, LOGSUM);
    if (!x || !target || !most || !logsum)
        return tn_error_code();
    int at = x->ndim > 1 ? 1 : 0;
    const tn_value masked[] = {
        tn__value_optional(g[LOGP] ? g[LOGP] : tn_zeros_like(most)),
        tn__value_tensor(target), *tn__node_value(node, 2)};
    tn_tensor *kept[2];
    if (masked[0].kind == TN_VALUE_NONE ||
        tn__op_run(&tn__op_table[TN__OP_ID_CLASS_OWN], masked, 3, kept, 2) < 0)
        return tn_error_code();
    tn_tensor *own = kept[0], *share = own;
    if (g[TOTAL])
        share = tn_add(share, tn_mul_scalar(g[TOTAL], x->shape[at]));
    if (g[LOGSUM])
        share = tn_sub(share, g[LOGSUM]);
    const tn_value value[] = {
        tn__value_tensor(x),
        tn__value_optional(tn_unsqueeze(kept[1], at)),
        tn__value_optional(tn_unsqueeze(most, at)),
        tn__value_optional(tn_unsqueeze(logsum, at)),
        tn__value_optional(tn_unsqueeze(own, at)),
        tn__value_optional(tn_unsqueeze(share, at)),
        tn__value_optional(g[TOTAL] ? tn_unsqueeze(g[TOTAL], at) : NULL)};
    for (int i = 1; i < 6 + (g[TOTAL] != NULL); i++)
        if (value[i].kind == TN_VALUE_NONE)
            return tn_error_code();
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_CLASS_NLL_BACK], value, 7);
    return out[0] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_class_nll_back)
{
    enum { INPUT, TARGET, MOST, LOGSUM, OWN, SHARE, EACH };
    tn_tensor *in[SHARE + 1];
    for (int p = 0; p <= SHARE; p++)
        if (p != OWN && !(in[p] = tn__node_input(node, p)))
            return tn_error_code();
    int at = in[INPUT]->ndim > 1 ? 1 : 0;
    const tn_dims_list rows = tn_dims(at);
    tn_tensor *weighted =
        tn_mul(g[0], tn_exp(tn_sub(tn_sub(in[INPUT], in[MOST]), in[LOGSUM])));
    tn_tensor *shared = tn_mul(weighted, in[SHARE]);
    out[INPUT] = tn_neg(shared);
    out[LOGSUM] = tn_sum(shared, .dims = tn__marked(rows), .keepdim = true);
    out[OWN] = tn_gather(g[0], at, in[TARGET]);
    out[SHARE] =
        tn_neg(tn_sum(weighted, .dims = tn__marked(rows), .keepdim = true));
    if (tn__node_wants(node, EACH))
        out[EACH] = tn_sum(g[0], .dims = tn__marked(rows), .keepdim = true);
    return out[INPUT] && out[LOGSUM] && out[OWN] && out[SHARE]
               ? TN_OK
               : tn_error_code();
}

/* ---- bags --------------------------------------------------------------- */

/* The values are maxima over rows of the input. Output 1 holds the index of the
 * row that each value was taken from, or -1 for an empty bag. */
TN__GRADIENT(tn__grad_bag_max)
{
    tn_tensor *place = tn__node_output(node, 1);
    if (!place || !g[0])
        return tn_error_code();
    tn_tensor *none = tn_lt_scalar(place, 0);
    tn_tensor *zeros =
        tn__zeros_expanded(tn__node_shape(node, 0), tn__node_dtype(node, 0),
                           tn__node_device(node, 0));
    out[0] = tn_scatter_add(zeros, 0, tn_masked_fill_scalar(place, none, 0),
                            tn_masked_fill_scalar(g[0], none, 0));
    return out[0] ? TN_OK : tn_error_code();
}

/* ---- multi_margin_loss -------------------------------------------------- */

TN__GRADIENT(tn__grad_margin_rows)
{
    enum { INPUT, TARGET, MARGIN, P };
    tn_tensor *x = tn__node_input(node, INPUT);
    tn_tensor *target = tn__node_input(node, TARGET);
    if (!x || !target)
        return tn_error_code();
    tn_tensor *at = tn_unsqueeze(target, 1);
    tn_tensor *own = tn_gather(x, 1, at), *each = tn_unsqueeze(g[0], 1);
    if (!own || !each)
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(x),          tn__value_tensor(own),
        tn__value_tensor(at),         tn__value_tensor(each),
        tn__value_int(1),             *tn__node_value(node, MARGIN),
        *tn__node_value(node, P)};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_MARGIN_BACK], value, 7);
    return out[0] ? TN_OK : tn_error_code();
}
