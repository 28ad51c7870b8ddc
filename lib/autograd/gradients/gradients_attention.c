/* gradients_attention.c: the gradient of scaled dot-product attention that the
 * device computed in one call. The device's backward computes it, or operators
 * do if the gradient itself is to be differentiated. */
#include <autograd/autograd.h>
#include <device/device.h>
#include <ops/table.h>
#include <tenon/ops.h>

enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, SEED, CALL };

/* Repeats each head of x so that x has as many heads as `like` (grouped-query
 * attention). The heads are dimension -3. */
static tn_tensor *repeat_heads(tn_tensor *x, const tn_tensor *like)
{
    if (like->ndim < 3 ||
        x->shape[x->ndim - 3] == like->shape[like->ndim - 3])
        return x;
    return tn_repeat_interleave(x,
                                like->shape[like->ndim - 3] /
                                    x->shape[x->ndim - 3],
                                .dim = -3);
}

/* Sums the gradients of all copies of each head that repeat_heads made. shape
 * is the shape before the repetition. */
static tn_tensor *sum_heads(tn_tensor *g, tn_dims_list shape)
{
    int heads = shape.count - 3;
    if (!g || heads < 0 || g->shape[heads] == shape.dim[heads])
        return g;
    tn_dims_list wide = {shape.count + 1, {0}};
    for (int d = 0; d < shape.count; d++)
        wide.dim[d + (d > heads)] = shape.dim[d];
    wide.dim[heads + 1] = g->shape[heads] / shape.dim[heads];
    return tn_sum(tn_reshape(g, wide), .dim = heads + 1);
}

/* Applies dropout to x with the random numbers of the forward call. */
static tn_tensor *apply_dropout(const tn__node *node, tn_tensor *x)
{
    double p = tn__node_value(node, DROPOUT)->of.f;
    if (p <= 0 || !x)
        return x;
    const tn_value value[] = {
        tn__value_tensor(x), tn__value_float(p),
        tn__value_int(tn__node_value(node, SEED)->of.i),
        tn__value_int(tn__node_value(node, CALL)->of.i)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_DROPOUT_AGAIN], value, 4);
}

static tn_status by_operators(const tn__node *node, tn_tensor *g,
                              tn_tensor *const *in, tn_tensor **out)
{
    double scale = tn__node_value(node, SCALE)->of.f;
    tn_tensor *q = in[QUERY], *k = repeat_heads(in[KEY], q);
    tn_tensor *v = repeat_heads(in[VALUE], q);
    if (!k || !v)
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(q), tn__value_tensor(k), tn__value_optional(in[MASK]),
        tn__value_int(tn__node_value(node, CAUSAL)->of.i),
        tn__value_float(scale)};
    tn_tensor *p =
        tn__op_run1(&tn__op_table[TN__OP_ID_ATTENTION_WEIGHTS], value, 5);
    tn_tensor *dp = apply_dropout(node, tn_matmul(g, tn_transpose(v, -2, -1)));
    tn_tensor *mean = tn_sum(tn_mul(p, dp), .dim = -1, .keepdim = true);
    tn_tensor *ds = tn_mul_scalar(tn_mul(p, tn_sub(dp, mean)), scale);
    out[QUERY] = tn_matmul(ds, k);
    out[KEY] = sum_heads(tn_matmul(tn_transpose(ds, -2, -1), q),
                         tn__node_shape(node, KEY));
    out[VALUE] =
        sum_heads(tn_matmul(tn_transpose(apply_dropout(node, p), -2, -1), g),
                  tn__node_shape(node, VALUE));
    return out[QUERY] && out[KEY] && out[VALUE] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_attention_forward)
{
    tn_tensor *in[4] = {NULL}, *result = tn__node_output(node, 0);
    tn_tensor *lse = tn__node_output(node, 1);
    if (g[1] || !g[0])
        return tn__fail(TN_ERR_UNSUPPORTED, "attention_forward: logsumexp has "
                        "no gradient: use tn_logsumexp of the scores");
    /* Operators compute the gradient if it must be differentiable, or if the
     * program has disabled the device's attention since the forward call
     * (tn_device_mask). */
    bool by_ops = tn__tensor_tracks(g[0]) ||
                  !atomic_load(&tn__node_device(node, QUERY)->attention);
    for (int i = QUERY; i <= MASK; i++) {
        if (tn__node_ndim(node, i) < 0)
            continue;
        in[i] = tn__node_input(node, i);
        if (!in[i])
            return tn_error_code();
        by_ops = by_ops || tn__tensor_tracks(in[i]);
    }
    if (!result || !lse)
        return tn_error_code();
    if (by_ops)
        return by_operators(node, g[0], in, out);
    tn_value value[12] = {
        tn__value_tensor(g[0]),      tn__value_tensor(in[QUERY]),
        tn__value_tensor(in[KEY]),   tn__value_tensor(in[VALUE]),
        tn__value_tensor(result),    tn__value_tensor(lse),
        tn__value_optional(in[MASK])};
    for (int i = DROPOUT; i <= CALL; i++)
        value[i + 3] = *tn__node_value(node, i);
    tn_tensor **others[] = {&out[KEY], &out[VALUE]};
    out[QUERY] = tn__op_run_outputs(
        &tn__op_table[TN__OP_ID_ATTENTION_BACKWARD], value, 12, others, 2);
    return out[QUERY] ? TN_OK : tn_error_code();
}
