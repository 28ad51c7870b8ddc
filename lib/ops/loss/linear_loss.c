/* linear_loss.c: linear_cross_entropy: the cross entropy of the results of a
 * linear layer, without storing them. For N tokens and C classes these are N *
 * C numbers, which take gigabytes in the last layer of a language model. They
 * are computed for one block of rows at a time, once in the forward pass and
 * again in the backward pass. In between, only one number per row is stored:
 * lse, the logarithm of the sum by which softmax divides. */
#include <ops/loss/loss.h>
#include <ops/engine/native.h>

/* Returns the number of rows of a block. A block has about 4 million results,
 * which is enough work for a matrix product. But a block has at least 256 rows,
 * since each block reads the whole weight. */
int64_t tn__linear_nll_rows(int64_t results_a_row)
{
    int64_t rows = results_a_row ? (1 << 22) / results_a_row : 256;
    return rows < 256 ? 256 : rows;
}

/* ---- a block of rows ----------------------------------------------------- */

/* Computes the outputs for one block from its results x (K, n, C) of the linear
 * layer. The outputs are log_softmax at each target, or 0 for an ignored
 * target, and lse. Both are (K, N), and the block is their columns [at, at +
 * n). */
static tn_status finish_block(tn__call *call, tn_tensor *x, int64_t at)
{
    static tn__formula formula = TN__FORMULA(
        "nll(x, y, t: row; ignore: i64) ="
        "let m = rmax(x); let l = log(rsum(exp(x - m)));"
        "let gone = t == ignore;"
        "(where(gone, like(0, m), y[where(gone, 0, t)] - m - l), m + l)");
    tn_tensor *target = tn__call_tensor(call, TN__ARG_LINEAR_NLL_TARGET);
    const tn_dtype dtype[] = {x->dtype, x->dtype, TN_I64};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = 3, .dim = {x->shape[0], x->shape[1],
                                          x->shape[2]}};
    const uint32_t classes = 1u << 2;
    tn__space space;
    tn__space_begin(&space, &shape, classes, true);
    tn__space_add(&space, &shape, classes, x);
    tn__operand *operand = tn__space_add_bare(&space, x);
    operand->stride[0] = x->stride[0];
    operand->stride[1] = x->stride[1];
    operand->index_stride[0] = x->stride[2];
    operand->index_extent[0] = x->shape[2];
    tn_tensor *const rows[] = {target, call->out[0], call->out[1]};
    for (int i = 0; i < 3; i++) {
        operand = tn__space_add_bare(&space, rows[i]);
        operand->offset = at * rows[i]->stride[1];
        operand->stride[0] = rows[i]->stride[0];
        operand->stride[1] = rows[i]->stride[1];
    }
    const tn_number param = {
        .i = tn__call_int(call, TN__ARG_LINEAR_NLL_IGNORE_INDEX)};
    return tn__kernel_launch(x->storage->device, kernel, &space, &param,
                             "linear_cross_entropy");
}

static tn_status check_parts(const tn_tensor *x, const tn_tensor *w,
                             const tn_tensor *bias, const tn_tensor *target)
{
    if (x->ndim == 2 && w->ndim == 3 && target->ndim == 2 &&
        x->shape[1] == w->shape[2] && w->shape[1] > 0 &&
        target->shape[0] == w->shape[0] && target->shape[1] == x->shape[0] &&
        target->dtype == TN_I64 && x->dtype == w->dtype &&
        (!bias || (bias->ndim == 2 && bias->shape[0] == w->shape[0] &&
                   bias->shape[1] == w->shape[1] && bias->dtype == w->dtype)))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "linear_nll: the tensors do not fit each "
                    "other; expected {input} (N, D), {weight} (K, C, D) and "
                    "{bias} (K, C) of one dtype, and int64 {target} (K, N)");
}

tn_status tn__run_linear_nll(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINEAR_NLL_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_LINEAR_NLL_WEIGHT);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_LINEAR_NLL_TARGET);
    tn_tensor *bias = tn__call_tensor(call, TN__ARG_LINEAR_NLL_BIAS);
    tn_status status = check_parts(x, w, bias, target);
    if (status < 0)
        return status;
    for (int o = 0; o < 2; o++) {
        tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, 2,
                                        target->shape, "linear_cross_entropy");
        if (!out)
            return tn_error_code();
        call->out[call->out_count++] = out;
    }
    if (target->numel == 0)
        return TN_OK;
    int64_t rows = tn__linear_nll_rows(w->shape[0] * w->shape[1]);
    for (int64_t at = 0; at < x->shape[0] && status >= 0; at += rows) {
        int64_t size = x->shape[0] - at < rows ? x->shape[0] - at : rows;
        tn_scope *scope = tn_scope_open();
        tn_tensor *y = scope ? tn_matmul(tn_narrow(x, 0, at, size),
                                         tn_transpose(w, 1, 2))
                             : NULL;
        if (y && bias)
            y = tn_add_(y, tn_unsqueeze(bias, 1));
        status = y ? finish_block(call, y, at) : tn_error_code();
        tn_scope_close(scope);
    }
    return status;
}

/* ---- linear_cross_entropy ------------------------------------------------ */

/* The arguments of a call. w is (C, d1, ..., D), or (C, D). C is the number of
 * classes, D that of features. */
typedef struct parts {
    tn_tensor *x, *w, *bias, *target, *weight;
    int64_t classes, places; /* C, and the product K of d1 and the other
                                dimensions between C and D */
    tn_dims_list each;       /* the shape of the losses, (N, d1, ...) */
    tn_dims_list logits;     /* the shape of the layer's results, (N, C, d1,
                                ...) */
    int64_t ignore;
    double smoothing;
    tn__reduction reduction;
} parts;

static const char *const NAME = "linear_cross_entropy";

static tn_status check(const tn__call *call, parts *p)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    const tn_tensor *x = p->x, *w = p->w;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype; convert it with tn_to_dtype",
                        NAME,
                        tn_dtype_name(x->dtype));
    if (tn__check_same_dtype(NAME, x, "input", w, "linear_weight") < 0 ||
        (p->bias && tn__check_same_dtype(NAME, x, "input", p->bias,
                                         "linear_bias") < 0) ||
        (p->weight &&
         tn__check_same_dtype(NAME, x, "input", p->weight, "weight") < 0))
        return TN_ERR_DTYPE;
    if (x->ndim < 1 || x->ndim > 2 || w->ndim < 2 ||
        (w->ndim > 2 && x->ndim == 1) ||
        x->shape[x->ndim - 1] != w->shape[w->ndim - 1])
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s and "
                        "{linear_weight} %s; expected (N, D) or (D), and (C, "
                        "..., D)", NAME, tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, w->ndim, w->shape));
    if (w->shape[0] < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {linear_weight} has shape %s; "
                        "expected (C, ..., D) with at least one class, C", NAME,
                        tn__shape_text(a, w->ndim, w->shape));
    if (p->bias && !tn__shape_equal(p->bias->ndim, p->bias->shape,
                                    w->ndim - 1, w->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {linear_bias} has shape %s; "
                        "expected the shape of {linear_weight} %s without its "
                        "last dimension", NAME,
                        tn__shape_text(a, p->bias->ndim, p->bias->shape),
                        tn__shape_text(b, w->ndim, w->shape));
    if (p->weight &&
        (p->weight->ndim != 1 || p->weight->shape[0] != w->shape[0]))
        return tn__fail(TN_ERR_SHAPE, "%s: {weight} %s does not have one "
                        "number for each of the %lld classes", NAME,
                        tn__shape_text(a, p->weight->ndim, p->weight->shape),
                        (long long)w->shape[0]);
    if (!(p->smoothing >= 0 && p->smoothing <= 1))
        return tn__fail(TN_ERR_ARGUMENT, "%s: {label_smoothing} %g is outside "
                        "[0, 1]", NAME, p->smoothing);
    return tn__find_reduction(call, TN__ARG_LINEAR_CROSS_ENTROPY_REDUCTION,
                              &p->reduction)
               ? TN_OK
               : TN_ERR_ARGUMENT;
}

static void find_shapes(parts *p)
{
    p->classes = p->w->shape[0];
    p->places = 1;
    if (p->x->ndim == 2)
        p->each.dim[p->each.count++] = p->x->shape[0];
    p->logits = p->each;
    p->logits.dim[p->logits.count++] = p->classes;
    for (int d = 1; d < p->w->ndim - 1; d++) {
        p->places *= p->w->shape[d];
        p->each.dim[p->each.count++] = p->w->shape[d];
        p->logits.dim[p->logits.count++] = p->w->shape[d];
    }
}

/* Returns the loss for probabilities as targets. Such targets are as large as
 * the results, so the results are stored too. */
static tn_tensor *soft_loss(const tn__call *call, const parts *p)
{
    tn_tensor *w = p->w, *bias = p->bias;
    int64_t rows = p->classes * p->places;
    if (w->ndim > 2) {
        w = tn_reshape(w, tn_dims(rows, w->shape[w->ndim - 1]));
        bias = bias ? tn_reshape(bias, tn_dims(rows)) : NULL;
    }
    tn_tensor *y = tn_reshape(tn_linear(p->x, w, bias), p->logits);
    const tn_value value[] = {
        tn__value_optional(y), tn__value_tensor(p->target),
        tn__value_optional(p->weight), tn__value_int(p->ignore),
        call->value[TN__ARG_LINEAR_CROSS_ENTROPY_REDUCTION],
        tn__value_float(p->smoothing)};
    return y ? tn__row(TN__OP_ID_CROSS_ENTROPY, value, 6) : NULL;
}

/* Returns the sum over the classes of weight * log_softmax, of shape (K, N),
 * without storing log_softmax. With v for the weights of the classes: v^T (W x
 * + b - lse) = (v^T W) x + v^T b - sum(v) * lse. */
static tn_tensor *sum_of_classes(const parts *p, tn_tensor *x, tn_tensor *w,
                                 tn_tensor *bias, tn_tensor *lse)
{
    tn_tensor *each = p->weight ? p->weight
                                : tn_ones(tn_dims(p->classes),
                                          .dtype = x->dtype,
                                          .device = x->storage->device);
    tn_tensor *sum = tn_matmul(tn_matmul(each, w), tn_t(x)); /* shape (K, N) */
    if (bias)
        sum = tn_add(sum, tn_unsqueeze(tn_matmul(bias, each), 1));
    return tn_sub(sum, tn_mul(lse, tn_sum(each)));
}

/* Returns the loss for classes as targets. The arguments are reshaped to x (N,
 * D), w (K, C, D), bias (K, C) and target (K, N). */
static tn_tensor *hard_loss(const parts *p)
{
    int64_t d = p->x->shape[p->x->ndim - 1];
    int64_t n = p->x->ndim == 2 ? p->x->shape[0] : 1;
    tn_tensor *x = tn_reshape(p->x, tn_dims(n, d)), *bias = NULL;
    tn_tensor *w = tn_transpose(
        tn_reshape(p->w, tn_dims(p->classes, p->places, d)), 0, 1);
    if (p->bias)
        bias = tn_t(tn_reshape(p->bias, tn_dims(p->classes, p->places)));
    tn_tensor *target =
        tn_t(tn_to_dtype(tn_reshape(p->target, tn_dims(n, p->places)),
                         TN_I64));
    if (!x || !w || !target || (p->bias && !bias))
        return NULL;
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(w),
                              tn__value_optional(bias),
                              tn__value_tensor(target),
                              tn__value_int(p->ignore)};
    tn_tensor *out[2] = {NULL};
    if (tn__op_run(&tn__op_table[TN__OP_ID_LINEAR_NLL], value, 5, out, 2) < 0)
        return NULL;
    tn_tensor *ignored = tn_eq_scalar(target, p->ignore);
    tn_tensor *loss = tn_neg(out[0]), *counts;
    if (p->weight) {
        counts = tn_embedding(tn_masked_fill_scalar(target, ignored, 0),
                              tn_unsqueeze(p->weight, 1));
        counts = tn_masked_fill_scalar(tn_squeeze(counts, .dim = -1),
                                       ignored, 0);
        loss = tn_mul(loss, counts);
    } else {
        counts = tn_to_dtype(tn_logical_not(ignored), x->dtype);
    }
    if (p->smoothing > 0) {
        tn_tensor *all = sum_of_classes(p, x, w, bias, out[1]);
        all = tn_masked_fill_scalar(all, ignored, 0);
        loss = tn_sub(tn_mul_scalar(loss, 1 - p->smoothing),
                      tn_mul_scalar(all, p->smoothing / (double)p->classes));
    }
    if (p->reduction == TN__REDUCE_NONE)
        return tn_reshape(tn_t(loss), p->each);
    loss = tn_sum(loss);
    return p->reduction == TN__REDUCE_SUM ? loss : tn_div(loss, tn_sum(counts));
}

tn_status tn__run_linear_cross_entropy(tn__call *call)
{
    enum {
        ignore_index = TN__ARG_LINEAR_CROSS_ENTROPY_IGNORE_INDEX
    };
    parts p = {
        .x = tn__call_tensor(call, TN__ARG_LINEAR_CROSS_ENTROPY_INPUT),
        .w = tn__call_tensor(call, TN__ARG_LINEAR_CROSS_ENTROPY_LINEAR_WEIGHT),
        .bias =
            tn__call_tensor(call, TN__ARG_LINEAR_CROSS_ENTROPY_LINEAR_BIAS),
        .target = tn__call_tensor(call, TN__ARG_LINEAR_CROSS_ENTROPY_TARGET),
        .weight = tn__call_tensor(call, TN__ARG_LINEAR_CROSS_ENTROPY_WEIGHT),
        .ignore = tn__call_int(call, ignore_index),
        .smoothing = tn__call_float(
            call, TN__ARG_LINEAR_CROSS_ENTROPY_LABEL_SMOOTHING)};
    tn_status status = check(call, &p);
    if (status < 0)
        return status;
    find_shapes(&p);
    const tn_tensor *t = p.target;
    if (tn_dtype_is_floating(t->dtype) &&
        tn__shape_equal(t->ndim, t->shape, p.logits.count, p.logits.dim))
        return tn__give(call, soft_loss(call, &p));
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!tn__shape_equal(t->ndim, t->shape, p.each.count, p.each.dim))
        return tn__fail(TN_ERR_SHAPE, "%s: {target} has shape %s; expected "
                        "class indices of shape %s, or floating-point class "
                        "probabilities", NAME,
                        tn__shape_text(a, t->ndim, t->shape),
                        tn__shape_text(b, p.each.count, p.each.dim));
    if (tn_dtype_is_floating(t->dtype) || t->dtype == TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "%s: {target} is %s; convert classes to "
                        "int64 with tn_to_dtype", NAME,
                        tn_dtype_name(t->dtype));
    return tn__give(call, hard_loss(&p));
}
