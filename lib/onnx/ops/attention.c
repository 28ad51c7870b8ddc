/* attention.c: attention and rotary embeddings. Queries, keys and values have
 * the shape (batch, heads, time, size), or (batch, time, heads * size) with the
 * numbers of heads as attributes. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <string.h>

/* (batch, time, heads * size) -> (batch, heads, time, size) */
static tn_tensor *split_heads(tn__onnx_call *c, tn_tensor *x, int64_t heads)
{
    if (tn_tensor_ndim(x) == 4)
        return x;
    const int64_t width = tn_tensor_ndim(x) == 3 ? tn_tensor_size(x, 2) : 0;
    if (heads < 1 || !width || width % heads) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the input has %d dimensions and %lld elements in the "
                        "last one; it must have 4 dimensions, or 3 with a last "
                        "one that is a multiple of %lld heads",
                        tn_tensor_ndim(x), (long long)width, (long long)heads);
        return NULL;
    }
    return tn_transpose(tn_reshape(x, tn_dims(tn_tensor_size(x, 0),
                                              tn_tensor_size(x, 1), heads,
                                              width / heads)),
                        1, 2);
}

/* (batch, heads, time, size) -> (batch, time, heads * size) */
static tn_tensor *join_heads(tn_tensor *x)
{
    return tn_flatten(tn_transpose(x, 1, 2), .start_dim = 2);
}

static tn_tensor *infinite(tn__onnx_call *c, tn_dtype dtype)
{
    return tn_full(TN_SCALAR, -INFINITY, .dtype = dtype, .device = c->device);
}

/* Converts a mask to numbers that are added to the scores: 0, or -inf where a
 * key is masked. If the mask is shorter than the keys, the remaining keys are
 * masked. */
static tn_tensor *bias_of(tn__onnx_call *c, tn_tensor *mask, int64_t keys,
                          tn_dtype dtype)
{
    if (!mask)
        return NULL;
    if (tn_tensor_dtype(mask) == TN_BOOL) {
        tn_tensor *zero =
            tn_zeros(TN_SCALAR, .dtype = dtype, .device = c->device);
        mask = tn_where(mask, zero, infinite(c, dtype));
    }
    const int64_t missing = keys - tn_tensor_size(mask, -1);
    return missing > 0 ? tn_pad(mask, tn_dims(0, missing), .value = -INFINITY)
                       : mask;
}

/* For query i, masks the keys after position i + offset. */
static tn_tensor *add_causal(tn__onnx_call *c, tn_tensor *bias, int64_t queries,
                             int64_t keys, int64_t offset, tn_dtype dtype)
{
    tn_tensor *i = tn_arange(offset, offset + queries, 1, .dtype = TN_I64,
                             .device = c->device);
    tn_tensor *j = tn_arange(0, keys, 1, .dtype = TN_I64, .device = c->device);
    tn_tensor *zero = tn_zeros(TN_SCALAR, .dtype = dtype, .device = c->device);
    tn_tensor *hidden = tn_where(tn_le(j, tn_unsqueeze(i, 1)), zero,
                                 infinite(c, dtype));
    return bias ? tn_add(bias, hidden) : hidden;
}

typedef struct scores {
    double scale, softcap;
    int precision; /* ONNX type of the softmax; 0 means the type of the input */
    int output;    /* which scores the node returns: 0 products, 1 after
                      softcap, 2 with bias, 3 after softmax */
} scores;

/* Returns softmax(scale * q k^T + bias) v. Stores the scores that s->output
 * selects in *shown. */
static tn_tensor *attend(const scores *s, tn_tensor *q, tn_tensor *k,
                         tn_tensor *v, tn_tensor *bias, tn_tensor **shown)
{
    const tn_dtype dtype = tn_tensor_dtype(q);
    /* both operands get the root of the scale, so that products of half types
     * do not overflow */
    const double root = sqrt(fabs(s->scale));
    tn_tensor *x = tn_matmul(tn_mul_scalar(q, s->scale < 0 ? -root : root),
                             tn_transpose(tn_mul_scalar(k, root), -2, -1));
    *shown = x;
    if (s->softcap > 0)
        x = tn_mul_scalar(tn_tanh(tn_div_scalar(x, s->softcap)), s->softcap);
    *shown = s->output >= 1 ? x : *shown;
    x = bias ? tn_add(x, bias) : x;
    *shown = s->output >= 2 ? x : *shown;
    if (s->precision)
        x = tn_to_dtype(x, tn__onnx_type_of(s->precision).dtype);
    tn_tensor *p = tn_to_dtype(tn_softmax_with(x, -1, NULL), dtype);
    if (bias) { /* a query whose keys are all masked gets zeros */
        tn_tensor *none =
            tn_isneginf(tn_amax(bias, .dim = -1, .keepdim = true));
        p = tn_where(none, tn_zeros_like(p), p);
    }
    *shown = s->output >= 3 ? p : *shown;
    return tn_matmul(p, v);
}

static void attention(tn__onnx_call *c)
{
    enum { CAUSAL, KV_HEADS, Q_HEADS, OUTPUT, SCALE, SOFTCAP, PRECISION };
    tn_tensor *q = split_heads(c, c->x[0], tn__onnx_int(c, Q_HEADS)),
              *k = split_heads(c, c->x[1], tn__onnx_int(c, KV_HEADS)),
              *v = split_heads(c, c->x[2], tn__onnx_int(c, KV_HEADS));
    if (!q || !k || !v)
        return;
    const tn_dtype dtype = tn_tensor_dtype(q);
    const bool flat = tn_tensor_ndim(c->x[0]) == 3,
               causal = tn__onnx_int(c, CAUSAL) != 0,
               has_past = tn__onnx_has(c, 4) && tn__onnx_has(c, 5);
    int64_t offset = 0;
    if (tn__onnx_has(c, 4) != tn__onnx_has(c, 5)) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "past_key and past_value must be given together");
        return;
    }
    if (has_past) {
        offset = tn_tensor_size(c->x[4], 2);
        k = tn_cat((tn_tensor *[]){c->x[4], k}, 2, 2);
        v = tn_cat((tn_tensor *[]){c->x[5], v}, 2, 2);
    }
    c->y[1] = k;
    c->y[2] = v;
    const int64_t heads = tn_tensor_size(q, 1), own = tn_tensor_size(k, 1),
                  queries = tn_tensor_size(q, 2), keys = tn_tensor_size(k, 2);
    if (own < 1 || heads % own) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the queries have %lld heads and the keys %lld; the "
                        "first number must be a multiple of the second",
                        (long long)heads, (long long)own);
        return;
    }
    if (heads != own) {
        k = tn_repeat_interleave(k, heads / own, .dim = 1);
        v = tn_repeat_interleave(v, heads / own, .dim = 1);
    }
    const int64_t precision = c->attr[PRECISION] ? c->attr[PRECISION]->i : 0;
    const scores s = {
        .scale = c->attr[SCALE] ? (double)c->attr[SCALE]->f
                                : 1 / sqrt((double)tn_tensor_size(q, 3)),
        .softcap = tn__onnx_float(c, SOFTCAP),
        .precision = precision > 0 && precision < 1000 ? (int)precision : 0,
        .output = (int)tn__onnx_int(c, OUTPUT)};
    tn_tensor *mask = tn__onnx_x(c, 3), *y, *shown = NULL;
    const bool shows = tn__onnx_wants(c, 3);
    if (!mask && !causal && !shows && s.softcap == 0 && !s.precision) {
        y = tn_scaled_dot_product_attention(q, k, v, NULL, .scale = s.scale);
    } else {
        tn_tensor *bias = bias_of(c, mask, keys, dtype);
        if (causal)
            bias = add_causal(c, bias, queries, keys, offset, dtype);
        y = attend(&s, q, k, v, bias, &shown);
    }
    c->y[0] = flat ? join_heads(y) : y;
    c->y[3] = shows ? shown : NULL;
    for (int i = 0; i < c->out_count; i++)
        c->y_type[i] = c->x_type[0];
}

/* Returns which keys a query sees, in a shape that broadcasts to
 * (batch, heads, queries, keys). The forms of mask_index are
 *
 *   (batch)                 the number of keys
 *   (2 * batch)             the ends of the keys, then their starts
 *   (batch, time)           0 for hidden keys
 *   (batch, time, time)     0 for hidden keys of a query */
static tn_tensor *visible_keys(tn__onnx_call *c, tn_tensor *mask, int64_t batch,
                               int64_t time)
{
    const int ndim = tn_tensor_ndim(mask);
    const int64_t first = ndim ? tn_tensor_size(mask, 0) : 0;
    if (ndim == 1 && (first == batch || first == 2 * batch)) {
        tn_tensor *at = tn_arange(0, time, 1, .dtype = tn_tensor_dtype(mask),
                                  .device = c->device);
        tn_tensor *end = tn_narrow(mask, 0, 0, batch);
        tn_tensor *seen = tn_lt(at, tn_unsqueeze(end, 1));
        if (first == 2 * batch && batch) {
            tn_tensor *start = tn_narrow(mask, 0, batch, batch);
            seen = tn_logical_and(seen, tn_ge(at, tn_unsqueeze(start, 1)));
        }
        return tn_unsqueeze(tn_unsqueeze(seen, 1), 1);
    }
    if ((ndim == 2 || ndim == 3) && first == batch &&
        tn_tensor_size(mask, 1) == time && tn_tensor_size(mask, -1) == time) {
        tn_tensor *seen = tn_unsqueeze(tn_ne_scalar(mask, 0), 1);
        return ndim == 2 ? tn_unsqueeze(seen, 1) : seen;
    }
    tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                    "mask_index must have the shape (batch), (2 * batch), "
                    "(batch, time) or (batch, time, time), with batch = %lld "
                    "and time = %lld",
                    (long long)batch, (long long)time);
    return NULL;
}

/* Attention of com.microsoft: one product with `weights` makes queries, keys
 * and values. */
static void packed_attention(tn__onnx_call *c)
{
    enum { HEADS, CAUSAL, SCALE, FILTER };
    tn_tensor *x = c->x[0], *bias = tn__onnx_x(c, 2), *mask = tn__onnx_x(c, 3);
    const int64_t heads = tn__onnx_int(c, HEADS);
    tn_tensor *all = tn_matmul(x, c->x[1]);
    all = bias ? tn_add(all, bias) : all;
    const int64_t width = tn_tensor_size(all, -1) / 3;
    tn_tensor *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = split_heads(
            c, tn_narrow(all, tn_tensor_ndim(all) - 1, i * width, width),
            heads);
    if (!part[0] || !part[1] || !part[2])
        return;
    const tn_dtype dtype = tn_tensor_dtype(x);
    const int64_t time = tn_tensor_size(part[0], 2);
    tn_tensor *hidden = NULL, *shown = NULL;
    if (mask) {
        tn_tensor *seen =
            visible_keys(c, mask, tn_tensor_size(part[0], 0), time);
        if (!seen)
            return;
        tn_tensor *far = tn_full(TN_SCALAR, tn__onnx_float(c, FILTER),
                                 .dtype = dtype, .device = c->device);
        hidden = tn_where(seen, tn_zeros_like(far), far);
    }
    if (tn__onnx_int(c, CAUSAL))
        hidden = add_causal(c, hidden, time, time, 0, dtype);
    const double scale = tn__onnx_float(c, SCALE);
    const scores s = {
        .scale = scale > 0 ? scale
                           : 1 / sqrt((double)tn_tensor_size(part[0], 3))};
    c->y[0] = join_heads(
        attend(&s, part[0], part[1], part[2], hidden, &shown));
}

/* ---- rotary embeddings --------------------------------------------------- */

/* Rotates pairs of elements by angles, given as tables of cosines and sines.
 * The row of a table is the position, or is selected by position_ids. */
static void rotary(tn__onnx_call *c)
{
    enum { INTERLEAVED, HEADS, ROTATED };
    tn_tensor *x = c->x[0], *cosine = c->x[1], *sine = c->x[2];
    const bool flat = tn_tensor_ndim(x) == 3;
    x = split_heads(c, x, tn__onnx_int(c, HEADS));
    if (!x)
        return;
    const int64_t size = tn_tensor_size(x, 3);
    int64_t n = tn__onnx_int(c, ROTATED);
    n = n ? n : size;
    if (n < 2 || n % 2 || n > size) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "rotary_embedding_dim selects %lld of %lld elements; "
                        "it must be even, and at most the size of a head",
                        (long long)n, (long long)size);
        return;
    }
    if (tn__onnx_has(c, 3)) {
        tn_tensor *ids = tn_to_dtype(c->x[3], TN_I64);
        tn_tensor *flat_ids = tn_reshape(ids, tn_dims(tn_tensor_numel(ids)));
        tn_dims_list to =
            tn_dims(tn_tensor_size(ids, 0), tn_tensor_size(ids, 1),
                    tn_tensor_size(cosine, -1));
        cosine = tn_reshape(tn_index_select(cosine, 0, flat_ids), to);
        sine = tn_reshape(tn_index_select(sine, 0, flat_ids), to);
    }
    cosine = tn_unsqueeze(cosine, 1); /* the same for all heads */
    sine = tn_unsqueeze(sine, 1);
    tn_tensor *turned = tn_narrow(x, 3, 0, n), *a, *b;
    const bool interleaved = tn__onnx_int(c, INTERLEAVED) != 0;
    if (interleaved) {
        a = tn_slice(turned, 3, 0, n, 2);
        b = tn_slice(turned, 3, 1, n, 2);
    } else {
        a = tn_narrow(turned, 3, 0, n / 2);
        b = tn_narrow(turned, 3, n / 2, n / 2);
    }
    tn_tensor *part[] = {tn_sub(tn_mul(cosine, a), tn_mul(sine, b)),
                         tn_add(tn_mul(sine, a), tn_mul(cosine, b))};
    tn_tensor *y = interleaved
                       ? tn_flatten(tn_stack(part, 2, -1), .start_dim = 3)
                       : tn_cat(part, 2, 3);
    if (n < size)
        y = tn_cat((tn_tensor *[]){y, tn_narrow(x, 3, n, size - n)}, 2, 3);
    c->y[0] = flat ? join_heads(y) : y;
}

static const tn__onnx_op rows[] = {
    {.name = "Attention", .since = 23, .min_in = 3, .max_in = 6, .max_out = 4,
     .attributes = "is_causal:int=0 kv_num_heads:int=0 q_num_heads:int=0 "
                   "qk_matmul_output_mode:int=0 scale:float softcap:float=0 "
                   "softmax_precision:int",
     .run = attention},
    {.name = "RotaryEmbedding", .since = 23, .min_in = 3, .max_in = 4,
     .max_out = 1,
     .attributes = "interleaved:int=0 num_heads:int=0 "
                   "rotary_embedding_dim:int=0",
     .run = rotary},
    {.domain = "com.microsoft", .name = "Attention", .since = 1, .min_in = 2,
     .max_in = 4, .max_out = 1,
     .attributes = "num_heads:int! unidirectional:int=0 scale:float=0 "
                   "mask_filter_value:float=-10000",
     .run = packed_attention},
};
const tn__onnx_family tn__onnx_attention = TN__ONNX_FAMILY(rows);
