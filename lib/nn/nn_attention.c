/* nn_attention.c: multi-head attention. Head h uses features [h E / heads, (h +
 * 1) E / heads) of the E projected features. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct attention {
    tn_module base;
    tn_tensor *in_proj;    /* (3 E, E), or NULL if proj[] is used */
    tn_tensor *proj[3];    /* weights for query, key, value */
    tn_tensor *in_bias;    /* (3 E) or NULL */
    tn_tensor *extra[2];   /* bias_k and bias_v, or NULL */
    tn_module *out_proj;
    int64_t embed_dim, num_heads, kdim, vdim;
    double dropout;
    bool batch_first, add_zero_attn;
} attention;

static const tn_module_class attention_class;

/* ---- masks -------------------------------------------------------------- */

/* Returns mask as an additive mask: minus infinity where a bool mask is true,
 * else 0. */
static tn_tensor *additive(tn_tensor *mask, tn_dtype dtype)
{
    if (!mask || tn_tensor_dtype(mask) != TN_BOOL)
        return mask;
    tn_tensor *zeros = tn_zeros_like(mask, .dtype = dtype);
    return tn_masked_fill_scalar(zeros, mask, -INFINITY);
}

/* Appends one or two keys, or values, to x (batch, heads, time, E / heads): `bias`,
 * which may be NULL, and zeros. */
static tn_tensor *with_extra(const attention *a, tn_tensor *x, tn_tensor *bias)
{
    tn_tensor *part[3] = {x};
    int count = 1;
    tn_dims_list one = tn_dims(tn_tensor_size(x, 0), a->num_heads, 1,
                               a->embed_dim / a->num_heads);
    if (bias)
        part[count++] = tn_expand(
            tn_reshape(bias, tn_dims(1, a->num_heads, 1, one.dim[3])), one);
    if (a->add_zero_attn)
        part[count++] = tn_zeros(one, .dtype = tn_tensor_dtype(x),
                                 .device = tn_tensor_device(x));
    return count > 1 ? tn_cat(part, count, 2) : x;
}

/* Combines all masks into one that broadcasts to (batch, heads, L, S). Returns
 * NULL if there is none, or on an error. */
static tn_tensor *merge_masks(const attention *a,
                              const tn_nn_attention_masks *m, tn_tensor *q,
                              int64_t batch, int64_t length, int64_t source)
{
    tn_dtype dtype = tn_tensor_dtype(q);
    tn_tensor *mask = additive(m->attn_mask, dtype);
    if (mask && tn_tensor_ndim(mask) == 3)
        mask = tn_reshape(mask,
                          tn_dims(batch, a->num_heads, length, source));
    if (m->is_causal) {
        tn_tensor *future =
            tn_triu(tn_ones(tn_dims(length, source), .dtype = dtype,
                            .device = tn_tensor_device(q)),
                    .diagonal = 1);
        future = additive(tn_ne_scalar(future, 0), dtype);
        mask = mask ? tn_add(mask, future) : future;
    }
    if (m->key_padding_mask) {
        tn_tensor *padding =
            tn_reshape(additive(m->key_padding_mask, dtype),
                       tn_dims(batch, 1, 1, source));
        mask = mask ? tn_add(mask, padding) : padding;
    }
    return mask;
}

/* ---- running ------------------------------------------------------------ */

/* Applies input projection i (0 query, 1 key, 2 value) to x. */
static tn_tensor *project(const attention *a, tn_tensor *x, int i)
{
    int64_t e = a->embed_dim;
    tn_tensor *bias = a->in_bias ? tn_narrow(a->in_bias, 0, i * e, e) : NULL;
    if (a->in_bias && !bias)
        return NULL;
    return tn_linear(x, a->in_proj ? tn_narrow(a->in_proj, 0, i * e, e)
                                   : a->proj[i],
                     bias);
}

/* Converts (batch, time, E) to (batch, heads, time, E / heads). */
static tn_tensor *split_heads(const attention *a, tn_tensor *x)
{
    x = tn_reshape(x, tn_dims(tn_tensor_size(x, 0), tn_tensor_size(x, 1),
                              a->num_heads, a->embed_dim / a->num_heads));
    return tn_transpose(x, 1, 2);
}

static bool project_all(const attention *a, tn_tensor *const in[3],
                        tn_tensor *out[3])
{
    if (a->in_proj && in[0] == in[1] && in[1] == in[2]) {
        tn_tensor *all = tn_linear(in[0], a->in_proj, a->in_bias);
        for (int i = 0; i < 3; i++)
            out[i] = tn_narrow(all, -1, i * a->embed_dim, a->embed_dim);
    } else {
        for (int i = 0; i < 3; i++)
            out[i] = project(a, in[i], i);
    }
    for (int i = 0; i < 3; i++)
        out[i] = out[i] ? split_heads(a, out[i]) : NULL;
    return out[0] && out[1] && out[2];
}

/* Computes attention. in[] is query, key and value, each (batch, time,
 * features). */
static tn_tensor *attend(const attention *a, tn_tensor *const in[3],
                         const tn_nn_attention_masks *m, tn_tensor **weights)
{
    int64_t batch = tn_tensor_size(in[0], 0);
    tn_tensor *x[3];
    if (!project_all(a, in, x))
        return NULL;
    /* A causal mask alone is passed as an option of the operator, without a
     * mask tensor. */
    const int more = (a->extra[0] != NULL) + a->add_zero_attn;
    bool is_causal = m->is_causal && !weights && !m->attn_mask &&
                     !m->key_padding_mask && !more;
    tn_tensor *mask =
        is_causal ? NULL
                  : merge_masks(a, m, x[0], batch, tn_tensor_size(in[0], 1),
                                tn_tensor_size(in[1], 1));
    if (mask && more)
        mask = tn_pad(mask, tn_dims(0, more));
    for (int i = 0; i < 2; i++)
        x[i + 1] = with_extra(a, x[i + 1], a->extra[i]);
    if (tn_error())
        return NULL;
    double p = a->base.training ? a->dropout : 0;
    tn_tensor *y;
    if (weights) {
        tn_tensor *w = tn_attention_weights(x[0], x[1], mask);
        if (p > 0)
            w = tn_dropout(w, p, true);
        y = tn_matmul(w, x[2]);
        *weights = tn_mean(w, .dim = 1);
    } else {
        y = tn_scaled_dot_product_attention(x[0], x[1], x[2], mask,
                                            .dropout_p = p,
                                            .is_causal = is_causal);
    }
    if (!y)
        return NULL;
    y = tn_reshape(tn_transpose(y, 1, 2),
                   tn_dims(batch, tn_tensor_size(in[0], 1), a->embed_dim));
    return tn_forward(a->out_proj, y);
}

static bool check_inputs(const attention *a, tn_tensor *const in[3])
{
    const tn_tensor *weight = a->in_proj ? a->in_proj : a->proj[0];
    const int64_t wanted[] = {a->embed_dim, a->kdim, a->vdim};
    static const char *const name[] = {"query", "key", "value"};
    char text[TN__NN_SHAPE_TEXT];
    int ndim = tn_tensor_ndim(in[0]);
    for (int i = 0; i < 3; i++) {
        if ((ndim == 2 || ndim == 3) && tn_tensor_ndim(in[i]) == ndim &&
            tn_tensor_size(in[i], -1) == wanted[i]) {
            if (!tn__nn_check_dtype(in[i], name[i], weight,
                                    attention_class.name))
                return false;
            continue;
        }
        tn_error_refuse(TN_ERR_SHAPE, attention_class.name,
                        &(tn_given){name[i], in[i]}, 1,
                        "%s %s: expected 2 or 3 dimensions%s, the last of "
                        "size %" PRId64,
                        name[i], tn__nn_shape_text(text, in[i]),
                        i ? ", as many as query's," : "", wanted[i]);
        return false;
    }
    return true;
}

/* Checks that key and value fit query in batch and length. given[] are the
 * caller's tensors, for messages; in[] are the same as (batch, time,
 * features). */
static bool check_lengths(tn_tensor *const given[3], tn_tensor *const in[3])
{
    static const char *const name[] = {"query", "key", "value"};
    char text[TN__NN_SHAPE_TEXT], other[TN__NN_SHAPE_TEXT];
    for (int i = 1; i < 3; i++) {
        if (tn_tensor_size(in[i], 0) == tn_tensor_size(in[0], 0) &&
            (i == 1 || tn_tensor_size(in[2], 1) == tn_tensor_size(in[1], 1)))
            continue;
        const tn_given both[] = {{name[i], given[i]},
                                 {name[i - 1], given[i - 1]}};
        tn_error_refuse(TN_ERR_SHAPE, attention_class.name, both, 2,
                        "%s %s does not match %s %s: expected the same batch, "
                        "and a value for each key",
                        name[i], tn__nn_shape_text(text, given[i]),
                        name[i - 1], tn__nn_shape_text(other, given[i - 1]));
        return false;
    }
    return true;
}

/* Returns whether mask is NULL or has one of two shapes. */
static bool check_mask(const char *name, tn_tensor *mask, tn_tensor *query,
                       const char *meaning, tn_dims_list one, tn_dims_list two)
{
    const tn_dims_list *const shape[] = {&one, &two};
    char text[TN__NN_SHAPE_TEXT], first[64] = "", second[64] = "";
    char *const list[] = {first, second};
    bool fits = !mask;
    for (int i = 0; i < 2 && !fits; i++) {
        size_t at = 0;
        fits = tn_tensor_ndim(mask) == shape[i]->count;
        for (int d = 0; d < shape[i]->count; d++) {
            fits = fits && tn_tensor_size(mask, d) == shape[i]->dim[d];
            at += (size_t)snprintf(list[i] + at, 64 - at, "%s%" PRId64,
                                   d ? ", " : "", shape[i]->dim[d]);
        }
    }
    bool same = strcmp(first, second) == 0;
    const tn_given given[] = {{name, mask}, {"query", query}};
    if (!fits)
        tn_error_refuse(TN_ERR_SHAPE, attention_class.name, given, 2,
                        "%s %s: expected %s, (%s)%s%s%s", name,
                        tn__nn_shape_text(text, mask), meaning, first,
                        same ? "" : " or (", same ? "" : second,
                        same ? "" : ")");
    return fits;
}

static bool check_masks(const attention *a, tn_tensor *query,
                        tn_tensor *const in[3], const tn_nn_attention_masks *m)
{
    int64_t batch = tn_tensor_size(in[0], 0);
    int64_t length = tn_tensor_size(in[0], 1);
    int64_t source = tn_tensor_size(in[1], 1);
    bool unbatched = tn_tensor_ndim(query) == 2;
    return check_mask("attn_mask", m->attn_mask, query,
                      "queries and keys, or those of each head",
                      tn_dims(length, source),
                      tn_dims(batch * a->num_heads, length, source)) &&
           check_mask("key_padding_mask", m->key_padding_mask, query,
                      "the keys of each item", tn_dims(batch, source),
                      unbatched ? tn_dims(source) : tn_dims(batch, source));
}

static tn_tensor *run_attention(const attention *a, tn_tensor *const given[3],
                                const tn_nn_attention_masks *m,
                                tn_tensor **weights)
{
    if (!check_inputs(a, given))
        return NULL;
    bool unbatched = tn_tensor_ndim(given[0]) == 2;
    bool swap_axes = !a->batch_first && !unbatched;
    tn_tensor *in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = i > 0 && given[i] == given[i - 1] ? in[i - 1]
                : unbatched                       ? tn_unsqueeze(given[i], 0)
                : swap_axes                       ? tn_transpose(given[i], 0, 1)
                                                  : given[i];
        if (!in[i])
            return NULL;
    }
    if (!check_lengths(given, in) || !check_masks(a, given[0], in, m))
        return NULL;
    tn_tensor *y = attend(a, in, m, weights);
    if (y && swap_axes)
        y = tn_transpose(y, 0, 1);
    if (y && unbatched) {
        y = tn_squeeze(y, .dim = 0);
        if (weights)
            *weights = tn_squeeze(*weights, .dim = 0);
    }
    return y;
}

/* Runs attention. in[] are the inputs in the order of the signature. */
static void run_inputs(const attention *a, tn_tensor *const *in, bool is_causal,
                       tn_tensor **out, int out_count)
{
    tn_nn_attention_masks m = TN_NN_ATTENTION_MASKS;
    tn_tensor *key = in[1] ? in[1] : in[0];
    m.key_padding_mask = in[3];
    m.attn_mask = in[4];
    m.is_causal = is_causal;
    out[0] = run_attention(a, (tn_tensor *[]){in[0], key, in[2] ? in[2] : key},
                           &m, out_count > 1 ? &out[1] : NULL);
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    (void)in_count;
    run_inputs((attention *)self, in, false, out, out_count);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const attention *a = (const attention *)self;
    snprintf(text, room, "embed_dim=%" PRId64 ", num_heads=%" PRId64,
             a->embed_dim, a->num_heads);
}

static const tn_module_class attention_class = {
    .size = sizeof attention_class,
    .name = "MultiheadAttention",
    .bytes = sizeof(attention),
    .forward_list = forward,
    .signature = "query, key?, value?, key_padding_mask?, attn_mask? -> "
                 "output, weights",
    .describe = describe};

TN_OPTIONS_TYPE(tn_nn_multihead_attention_forward,
                "nn_multihead_attention_forward",
                "attention, query, key, value, out_weights",
                TN_NN_ATTENTION_MASKS_LIST)

tn_tensor *tn_nn_multihead_attention_forward_with(
    tn_module *module, tn_tensor *query, tn_tensor *key, tn_tensor *value,
    tn_tensor **out_weights, const tn_nn_attention_masks *masks)
{
    tn_nn_attention_masks m;
    if (tn_options_take(tn_nn_multihead_attention_forward_type(), &m, masks) <
        0)
        return NULL;
    const char *what = "nn_multihead_attention_forward";
    if (!tn__nn_is_kind(module, &attention_class, NULL, what) ||
        !tn__nn_tensor(query, what, "query") ||
        !tn__nn_tensor(key, what, "key") ||
        !tn__nn_tensor(value, what, "value") ||
        !tn__nn_check_masks(masks, what, "masks"))
        return NULL;
    tn_tensor *in[] = {query, key, value, m.key_padding_mask, m.attn_mask};
    tn_tensor *out[2] = {NULL};
    int count = out_weights ? 2 : 1;
    tn_module_call at = tn_module_begin(module, in, 5);
    if (!tn_error()) /* a mask that is NULL due to an error is not an omitted
                        one */
        run_inputs((const attention *)at.self, in, m.is_causal, out, count);
    if (!tn_module_end(module, &at, out, count))
        return NULL;
    if (out_weights)
        *out_weights = out[1];
    return out[0];
}

int64_t tn__nn_attention_multiply_adds(const tn_module *module,
                                       tn_tensor *const *in, int in_count)
{
    if (module->type != &attention_class || in_count < 3)
        return 0;
    const attention *a = (const attention *)module;
    const tn_tensor *key = in[1] ? in[1] : in[0], *value = in[2] ? in[2] : key;
    int64_t queries = tn_tensor_numel(in[0]) / a->embed_dim;
    /* The scores take one multiply-add for each query, key and feature, and so
     * do the weighted sums of values. */
    int64_t length =
        tn_tensor_size(key, a->batch_first && tn_tensor_ndim(key) == 3 ? 1 : 0);
    return a->embed_dim * (tn_tensor_numel(in[0]) + tn_tensor_numel(key) +
                           tn_tensor_numel(value) + 2 * queries * length);
}

/* ---- making ------------------------------------------------------------- */

static bool add_weights(attention *a, bool bias, bool bias_kv)
{
    static const char *const name[] = {"q_proj_weight", "k_proj_weight",
                                       "v_proj_weight"};
    int64_t e = a->embed_dim;
    const int64_t in[] = {e, a->kdim, a->vdim};
    if (a->kdim == e && a->vdim == e) {
        a->in_proj = tn_module_add_parameter(
            &a->base, "in_proj_weight",
            tn__nn_init_xavier(tn__nn_product(3, e), e));
        if (!a->in_proj)
            return false;
    } else {
        for (int i = 0; i < 3; i++) {
            a->proj[i] = tn_module_add_parameter(
                &a->base, name[i], tn__nn_init_xavier(e, in[i]));
            if (!a->proj[i])
                return false;
        }
    }
    if (bias)
        a->in_bias = tn_module_add_parameter(
            &a->base, "in_proj_bias",
            tn_zeros(tn_dims(tn__nn_product(3, e))));
    for (int i = 0; i < 2 && bias_kv; i++) {
        a->extra[i] = tn_module_add_parameter(
            &a->base, i ? "bias_v" : "bias_k",
            tn_init_xavier_normal(tn_empty(tn_dims(1, 1, e))));
        if (!a->extra[i])
            return false;
    }
    a->out_proj = tn_module_add(&a->base, "out_proj",
                                tn_nn_linear(e, e, .bias = bias));
    if (bias && a->out_proj)
        tn__nn_set(tn_module_parameter(a->out_proj, "bias"),
                   tn_zeros(tn_dims(e)));
    return a->out_proj && (a->in_bias || !bias) && !tn_error();
}

TN_OPTIONS_TYPE(tn_nn_multihead_attention, "nn_multihead_attention",
                "embed_dim, num_heads", TN_NN_MULTIHEAD_ATTENTION_OPTIONS_LIST)

tn_module *tn_nn_multihead_attention_with(
    int64_t embed_dim, int64_t num_heads,
    const tn_nn_multihead_attention_options *options)
{
    tn_nn_multihead_attention_options o;
    if (tn_options_take(tn_nn_multihead_attention_type(), &o, options) < 0 ||
        !tn__nn_check_probability(o.dropout, "nn_multihead_attention",
                                  "dropout"))
        return NULL;
    if (o.kdim == TN_NONE_INT)
        o.kdim = embed_dim;
    if (o.vdim == TN_NONE_INT)
        o.vdim = embed_dim;
    if (embed_dim < 1 || num_heads < 1 || embed_dim % num_heads ||
        o.kdim < 1 || o.vdim < 1) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_multihead_attention",
            embed_dim < 1 || embed_dim % (num_heads < 1 ? 1 : num_heads)
                ? "embed_dim"
            : num_heads < 1 ? "num_heads"
            : o.kdim < 1    ? "kdim"
                            : "vdim",
            "embed_dim %" PRId64 ", num_heads %" PRId64 ", kdim %" PRId64
            ", vdim %" PRId64 ": expected positive numbers, and "
            "embed_dim a multiple of num_heads",
            embed_dim, num_heads, o.kdim, o.vdim);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    attention *a = tn_module_new(&attention_class);
    bool made = false;
    if (a) {
        a->embed_dim = embed_dim;
        a->num_heads = num_heads;
        a->kdim = o.kdim;
        a->vdim = o.vdim;
        a->dropout = o.dropout;
        a->batch_first = o.batch_first;
        a->add_zero_attn = o.add_zero_attn;
        made = add_weights(a, o.bias, o.add_bias_kv);
    }
    return tn_scope_result(scope, made ? &a->base : NULL);
}
