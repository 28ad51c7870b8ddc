/* attention.c: scaled dot-product attention (PyTorch's
 * scaled_dot_product_attention), softmax(query @ key^T * scale) @ value, by
 * matrix products and a softmax: Vaswani and others, arXiv:1706.03762. */
#include <ops/nn/attention.h>
#include <ops/engine/native.h>

#include <math.h>

static tn_status check_sizes(const tn__call *call, const tn_tensor *q,
                             const tn_tensor *k)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (q->ndim < 2 || k->ndim < 2 ||
        q->shape[q->ndim - 1] != k->shape[k->ndim - 1])
        return tn__fail(TN_ERR_SHAPE, "%s: {query} has shape %s and {key} %s; "
                        "expected (..., length, features) with the same "
                        "number of features", call->op->name,
                        tn__shape_text(a, q->ndim, q->shape),
                        tn__shape_text(b, k->ndim, k->shape));
    return TN_OK;
}

/* Checks that q and k have matching batch dimensions, and that mask broadcasts
 * to the shape of the scores, (..., length of q, length of k). */
static tn_status check_mask(const tn__call *call, const tn_tensor *q,
                            const tn_tensor *k, const tn_tensor *mask)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn__shape scores = {.ndim = q->ndim - 2}, both;
    for (int d = 0; d < scores.ndim; d++)
        scores.dim[d] = q->shape[d];
    if (!tn__shape_broadcast(&scores, k->ndim - 2, k->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {key} has shape %s and {query} %s; "
                        "expected batch dimensions (all but the last two) "
                        "that broadcast", call->op->name,
                        tn__shape_text(b, k->ndim, k->shape),
                        tn__shape_text(a, q->ndim, q->shape));
    scores.dim[scores.ndim++] = q->shape[q->ndim - 2];
    scores.dim[scores.ndim++] = k->shape[k->ndim - 2];
    if (!mask)
        return TN_OK;
    if (mask->dtype != TN_BOOL && !tn_dtype_is_floating(mask->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {attn_mask} is %s; expected bool, "
                        "or a floating-point mask that is added: convert it "
                        "with tn_to_dtype", call->op->name,
                        tn_dtype_name(mask->dtype));
    both = scores;
    if (!tn__shape_broadcast(&both, mask->ndim, mask->shape) ||
        !tn__shape_equal(both.ndim, both.dim, scores.ndim, scores.dim))
        return tn__fail(TN_ERR_SHAPE, "%s: {attn_mask} has shape %s; expected "
                        "one that broadcasts to (..., queries, keys), here %s",
                        call->op->name,
                        tn__shape_text(a, mask->ndim, mask->shape),
                        tn__shape_text(b, scores.ndim, scores.dim));
    return TN_OK;
}

/* Returns the integers first, first + 1, ..., one for each position along
 * dimension dim of scores. dim is negative and counts from the end. */
static tn_tensor *positions(const tn_tensor *scores, int dim, int64_t first)
{
    return tn_arange((double)first,
                     (double)(first + scores->shape[scores->ndim + dim]), 1,
                     .dtype = TN_I32, .device = scores->storage->device);
}

/* Returns the scores with minus infinity where `hidden` (the masked keys) is
 * true, so that their weights become 0. */
static tn_tensor *mask_scores(tn_tensor *scores, tn_tensor *hidden)
{
    return tn_masked_fill_scalar(scores, hidden, -INFINITY);
}

/* Applies the mask to the scores. Where a bool mask is false, the scores become
 * minus infinity. A floating mask is added. */
static tn_tensor *masked(tn_tensor *scores, tn_tensor *mask)
{
    return mask->dtype == TN_BOOL ? mask_scores(scores, tn_logical_not(mask))
                                  : tn_add(scores, mask);
}

/* Returns the attention weights softmax(q @ keys_t * scale). keys_t is the
 * transpose of the keys. A scale of 0 means 1 / sqrt(number of features).
 * `first` is the position of the first query, for the causal mask. */
static tn_tensor *weights(tn_tensor *q, tn_tensor *keys_t, tn_tensor *mask,
                          bool is_causal, int64_t first, double scale)
{
    if (!keys_t)
        return NULL;
    if (scale == 0)
        scale = 1 / sqrt((double)q->shape[q->ndim - 1]);
    /* The product is scaled, not q: to round a scaled q would add an error to
     * each score, which exp turns into a relative error of the weight. */
    const tn_value product[] = {tn__value_tensor(q), tn__value_tensor(keys_t),
                                tn__value_float(scale)};
    tn_tensor *scores = tn__row(TN__OP_ID_MATMUL_SCALED, product, 3);
    if (scores && mask)
        scores = masked(scores, mask);
    if (!scores)
        return NULL;
    if (!is_causal) {
        const tn_value value[] = {tn__value_tensor(scores), tn__value_int(-1)};
        /* With a mask, a row may consist of minus infinity alone. Its weights
         * are then 0. */
        return tn__row(mask ? TN__OP_ID_SOFTMAX_OR_ZERO : TN__OP_ID_SOFTMAX,
                       value, 2);
    }
    /* With a causal mask, a query does not attend to keys after its own
     * position. */
    tn_tensor *key = positions(scores, -1, 0);
    tn_tensor *query = tn_unsqueeze(positions(scores, -2, first), 1);
    const tn_value value[] = {tn__value_tensor(scores), tn__value_tensor(key),
                              tn__value_tensor(query), tn__value_int(-1)};
    return key && query ? tn__row(TN__OP_ID_SOFTMAX_CAUSAL, value, 4) : NULL;
}

tn_status tn__run_attention_weights(tn__call *call)
{
    tn_tensor *q = tn__call_tensor(call, TN__ARG_ATTENTION_WEIGHTS_QUERY);
    tn_tensor *k = tn__call_tensor(call, TN__ARG_ATTENTION_WEIGHTS_KEY);
    tn_status status = check_sizes(call, q, k);
    tn_tensor *mask =
        tn__call_tensor(call, TN__ARG_ATTENTION_WEIGHTS_ATTN_MASK);
    if (status >= 0)
        status = check_mask(call, q, k, mask);
    if (status < 0)
        return status;
    return tn__give(
        call,
        weights(q, tn_transpose(k, -2, -1), mask,
                tn__call_int(call, TN__ARG_ATTENTION_WEIGHTS_IS_CAUSAL), 0,
                tn__call_float(call, TN__ARG_ATTENTION_WEIGHTS_SCALE)));
}

/* Returns x, a key or value, with each head (dimension -3) repeated so that x
 * has as many heads as q. */
static tn_tensor *share_heads(const tn__call *call, tn_tensor *x,
                              const tn_tensor *q)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    int at = x->ndim - 3;
    int64_t heads = at >= 0 ? x->shape[at] : 0;
    int64_t wanted = q->ndim >= 3 ? q->shape[q->ndim - 3] : 0;
    if (heads == 0 || wanted % heads || x->ndim == TN_MAX_NDIM) {
        tn__fail(TN_ERR_SHAPE, "%s: {query} has shape %s, whose heads (dim -3) "
                 "must be a multiple of the heads of {key} or {value}, %s",
                 call->op->name,
                 tn__shape_text(a, q->ndim, q->shape),
                 tn__shape_text(b, x->ndim, x->shape));
        return NULL;
    }
    if (heads == wanted)
        return x;
    tn_dims_list wide = {x->ndim + 1, {0}}, whole = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++) {
        whole.dim[d] = d == at ? wanted : x->shape[d];
        wide.dim[d + (d > at)] = x->shape[d];
    }
    wide.dim[at + 1] = wanted / heads;
    return tn_reshape(tn_expand(tn_unsqueeze(x, at + 1), wide), whole);
}

static tn_status check_values(const tn__call *call, const tn_tensor *k,
                              const tn_tensor *v)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn__shape batch = {.ndim = k->ndim - 2};
    for (int d = 0; d < batch.ndim; d++)
        batch.dim[d] = k->shape[d];
    if (v->ndim < 2 || v->shape[v->ndim - 2] != k->shape[k->ndim - 2] ||
        !tn__shape_broadcast(&batch, v->ndim - 2, v->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {value} has shape %s and {key} %s; "
                        "expected the same length (dim -2), and batch "
                        "dimensions that broadcast", call->op->name,
                        tn__shape_text(a, v->ndim, v->shape),
                        tn__shape_text(b, k->ndim, k->shape));
    return tn__check_same_dtype(call->op->name, k, "key", v, "value");
}

/* The tensors of attention: the queries, the transposed keys, the values, and a
 * mask, which may be NULL. */
enum { QUERY, KEYS_T, VALUE, MASK, PARTS };
typedef struct lookup {
    tn_tensor *x[PARTS];
    bool is_causal;
    double scale;
} lookup;

/* Computes attention for all queries in a->x at once. `first` is the position
 * of the first query. */
static tn_tensor *attend(const lookup *a, int64_t first)
{
    tn_tensor *q = a->x[QUERY], *keys_t = a->x[KEYS_T], *v = a->x[VALUE];
    int64_t end = first + q->shape[q->ndim - 2];
    if (a->is_causal && end < keys_t->shape[keys_t->ndim - 1]) {
        keys_t = tn_narrow(keys_t, -1, 0, end); /* the mask hides later keys */
        v = tn_narrow(v, -2, 0, end);
    }
    return tn_matmul(
        weights(q, keys_t, a->x[MASK], a->is_causal, first, a->scale), v);
}

static int64_t size_from_end(const tn_tensor *x, int dim)
{
    return x && x->ndim >= dim ? x->shape[x->ndim - dim] : 1;
}

/* Chooses how attention is split, so that the scores of a part fit into the
 * cache. Returns the dimension to split, counted from the end starting at 1,
 * and sets *size to the size of a part. Returns 0 if no split is needed.
 *
 * On a synchronous device a dimension of heads or of the batch is split if
 * there is one. Else the queries are split into parts of QUERIES, or more if
 * there would be too many parts. On an asynchronous device only the queries are
 * split, because each part is a launch. */
static int find_cut(const lookup *a, int64_t *size)
{
    enum { QUERIES = 128, SCORES = 131072 };
    const tn_tensor *q = a->x[QUERY];
    int64_t queries = q->shape[q->ndim - 2];
    double scores = (double)size_from_end(a->x[KEYS_T], 1) *
                    (double)(queries < QUERIES ? queries : QUERIES);
    for (int d = 0; d < q->ndim - 2; d++)
        scores *= (double)q->shape[d];
    for (int d = 0; d < q->ndim - 2 && scores > SCORES &&
                    q->storage->device->synchronous;
         d++) {
        int64_t heads = q->shape[d], own = size_from_end(a->x[VALUE],
                                                         q->ndim - d);
        double parts = ceil(scores / SCORES);
        if (heads == 1 || (own != 1 && own != heads))
            continue;
        if (parts > TN__OP_MAX_OUTPUTS)
            parts = TN__OP_MAX_OUTPUTS;
        *size = (int64_t)ceil((double)heads / parts);
        return q->ndim - d;
    }
    for (*size = QUERIES; queries > *size * TN__OP_MAX_OUTPUTS;)
        *size *= 2;
    return queries > *size ? 2 : 0;
}

/* Splits the tensors of a along dimension dim into parts of `size`. A tensor
 * that does not have this dimension is the same in all parts. Returns the
 * number of parts. */
static int cut(const lookup *a, int dim, int64_t size,
               tn_tensor *part[PARTS][TN__OP_MAX_OUTPUTS])
{
    int64_t whole = size_from_end(a->x[QUERY], dim);
    int count = (int)((whole + size - 1) / size);
    for (int i = 0; i < PARTS; i++) {
        tn_tensor *x = a->x[i];
        bool has = size_from_end(x, dim) > 1 &&
                   (dim > 2 || i == QUERY || i == MASK);
        if (has && tn__split_parts(x, x->ndim - dim, size, part[i]) != count)
            return 0;
        for (int p = 0; !has && p < count; p++)
            part[i][p] = x;
    }
    return count;
}

static tn_tensor *attend_in_parts(const lookup *a)
{
    tn_tensor *part[PARTS][TN__OP_MAX_OUTPUTS], *done[TN__OP_MAX_OUTPUTS];
    int64_t size;
    int dim = find_cut(a, &size);
    if (dim == 0)
        return attend(a, 0);
    int count = cut(a, dim, size, part);
    for (int p = 0; p < count; p++) {
        lookup one = *a;
        for (int i = 0; i < PARTS; i++)
            one.x[i] = part[i][p];
        tn_scope *scope = tn_scope_open();
        done[p] = tn_scope_result(scope, dim == 2 ? attend(&one, p * size)
                                                  : attend_in_parts(&one));
        if (!done[p])
            return NULL;
    }
    return count ? tn_cat(done, count, -dim) : NULL;
}

tn_status tn__run_scaled_dot_product_attention(tn__call *call)
{
    enum {
        query = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_QUERY,
        key = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_KEY,
        value = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_VALUE,
        attn_mask = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_ATTN_MASK,
        dropout_p = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_DROPOUT_P,
        is_causal = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_IS_CAUSAL,
        scale = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_SCALE,
        enable_gqa = TN__ARG_SCALED_DOT_PRODUCT_ATTENTION_ENABLE_GQA
    };
    tn_tensor *q = tn__call_tensor(call, query);
    tn_tensor *k = tn__call_tensor(call, key);
    tn_tensor *v = tn__call_tensor(call, value);
    tn_tensor *mask = tn__call_tensor(call, attn_mask);
    bool causal_too = tn__call_int(call, is_causal);
    tn_status status = check_sizes(call, q, k);
    if (status < 0)
        return status;
    double p = tn__call_float(call, dropout_p);
    const tn__attention way = {
        .mask = mask, .dropout = p, .is_causal = causal_too,
        .scale = tn__call_has(call, scale)
                     ? tn__call_float(call, scale)
                     : 1 / sqrt((double)q->shape[q->ndim - 1]),
        .shares_heads = tn__call_int(call, enable_gqa)};
    k = tn__attention_widen(k, q, way.shares_heads);
    v = k ? tn__attention_widen(v, q, way.shares_heads) : NULL;
    if (!v)
        return tn_error_code();
    if (tn__attention_fits(&way, q, k, v))
        return tn__give(call, tn__attention_run(&way, q, k, v));
    if (way.shares_heads) {
        k = share_heads(call, k, q);
        v = k ? share_heads(call, v, q) : NULL;
        if (!v)
            return tn_error_code();
    }
    status = tn__check_same_dtype(call->op->name, q, "query", k, "key");
    if (status >= 0)
        status = check_mask(call, q, k, mask);
    if (status >= 0)
        status = check_values(call, k, v);
    if (status < 0)
        return status;
    tn_dtype dtype = q->dtype;
    if (tn_dtype_bytes(dtype) == 2 && dtype == k->dtype &&
        dtype == v->dtype) { /* half types are computed in float32 and rounded
                                once, at the end */
        q = tn_to_dtype(q, TN_F32);
        k = tn_to_dtype(k, TN_F32);
        v = tn_to_dtype(v, TN_F32);
        if (!q || !k || !v)
            return tn_error_code();
    }
    tn_tensor *keys_t = tn_transpose(k, -2, -1);
    lookup all = {{q, keys_t, v, mask}, causal_too, way.scale};
    if (!keys_t)
        return tn_error_code();
    tn_tensor *y = p > 0 ? tn_matmul(tn_dropout(weights(q, keys_t, mask,
                                                        causal_too, 0,
                                                        way.scale),
                                                p, true),
                                     v)
                         : attend_in_parts(&all);
    return tn__give(call, y && y->dtype != dtype ? tn_to_dtype(y, dtype) : y);
}
