/* attention.c: self-attention with grouped heads.
 *
 * In a plain pass (training, tn_forward), x is (..., time, hidden). In a flat
 * pass, the rows of x are the tokens of several sequences, divided into groups.
 * The range of keys that a group attends to depends only on the positions of
 * its rows (TN__LM_BLOCK). */
#include <lm/model/layers.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/ops.h>

typedef struct attention {
    tn_module base;
    tn_module *query, *key, *value, *joined, *out; /* some are NULL */
    tn_module *query_norm, *key_norm, *rotary;     /* or NULL */
    int64_t heads, kv_heads, head_dim, window, layer;
    tn__lm_packing packing;
    double scale, dropout;
    bool causal;
    int rope; /* index into the arrays of tn__lm_pass: 1 for a layer with
                 sliding-window attention, else 0 */
} attention;

/* ---- projections --------------------------------------------------------- */

/* Reshapes x from (..., heads * size) to (..., heads, size). */
static tn_tensor *split_heads(tn_tensor *x, int64_t heads, int64_t size)
{
    int ndim = tn_tensor_ndim(x);
    if (!x || ndim >= TN_MAX_NDIM)
        return NULL;
    tn_dims_list shape = tn_dims_from_array(tn_tensor_shape(x), ndim + 1);
    shape.dim[ndim - 1] = heads;
    shape.dim[ndim] = size;
    return tn_reshape(x, shape);
}

static tn_tensor *join_heads(tn_tensor *x)
{
    return tn_flatten(x, .start_dim = -2);
}

/* Stores queries, keys and values as (..., heads, head_dim). */
static void project(const attention *a, tn_tensor *x, tn_tensor *qkv[3])
{
    const int64_t d = a->head_dim;
    if (a->packing == TN__LM_SEPARATE) {
        qkv[0] = split_heads(tn_forward(a->query, x), a->heads, d);
        qkv[1] = split_heads(tn_forward(a->key, x), a->kv_heads, d);
        qkv[2] = split_heads(tn_forward(a->value, x), a->kv_heads, d);
        return;
    }
    tn_tensor *all = tn_forward(a->joined, x);
    if (a->packing == TN__LM_INTERLEAVED) {
        all = split_heads(all, a->heads, 3 * d);
        for (int i = 0; i < 3; i++)
            qkv[i] = tn_narrow(all, -1, i * d, d);
        return;
    }
    const int64_t heads[3] = {a->heads, a->kv_heads, a->kv_heads};
    for (int64_t i = 0, at = 0; i < 3; at += heads[i++] * d)
        qkv[i] = split_heads(tn_narrow(all, -1, at, heads[i] * d), heads[i], d);
}

static void prepare(const attention *a, tn_tensor *x, tn_tensor *cos_,
                    tn_tensor *sin_, tn_tensor *partner, tn_tensor *qkv[3])
{
    project(a, x, qkv);
    if (a->query_norm) {
        qkv[0] = tn_forward(a->query_norm, qkv[0]);
        qkv[1] = tn_forward(a->key_norm, qkv[1]);
    }
    for (int i = 0; i < 2; i++) {
        if (partner)
            qkv[i] = tn__lm_rotate_rows(qkv[i], cos_, sin_, partner);
        else if (cos_)
            qkv[i] = tn__lm_rotate(qkv[i], cos_, sin_);
        else if (a->rotary)
            qkv[i] = tn_forward(a->rotary, qkv[i]);
    }
}

/* ---- plain passes -------------------------------------------------------- */

/* Makes the mask of a sliding window, (time, time), true where a key is
 * visible. */
static tn_tensor *window_mask(int64_t time, int64_t window)
{
    bool *seen = calloc((size_t)(time * time) + 1, sizeof *seen);
    if (!seen) {
        tn_error_set(TN_ERR_MEMORY, "lm_attention: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < time; i++)
        for (int64_t j = i < window ? 0 : i - window + 1; j <= i; j++)
            seen[i * time + j] = true;
    tn_tensor *mask = tn_tensor_from_array(seen, TN_BOOL, tn_dims(time, time));
    free(seen);
    return mask;
}

static tn_tensor *attend_plain(const attention *a, tn_tensor *const qkv[3],
                               tn_tensor *mask, double dropout)
{
    tn_tensor *q = tn_transpose(qkv[0], -3, -2);
    tn_tensor *k = tn_transpose(qkv[1], -3, -2);
    tn_tensor *v = tn_transpose(qkv[2], -3, -2);
    int64_t time = tn_tensor_size(q, -2);
    if (!mask && a->window && a->window < time)
        mask = window_mask(time, a->window);
    if (tn_error())
        return NULL;
    tn_tensor *y = tn_scaled_dot_product_attention(
        q, k, v, mask, .dropout_p = dropout, .is_causal = a->causal && !mask,
        .scale = a->scale, .enable_gqa = a->kv_heads != a->heads);
    return join_heads(tn_transpose(y, -3, -2));
}

/* ---- flat passes --------------------------------------------------------- */

/* Appends the rows of a group to the cache `kept`. Returns the keys or values
 * that the group reads, (kv_heads, keys, head_dim). */
static tn_tensor *through_cache(tn_tensor *kept, tn_tensor *rows,
                                const tn__lm_group *g)
{
    tn_tensor *new_rows = tn_transpose(rows, 0, 1);
    if (!kept)
        return new_rows;
    if (!tn_copy_(tn_narrow(kept, 1, g->position, g->count), new_rows))
        return NULL;
    return tn__lm_in_dtype(tn_narrow(kept, 1, g->key, g->keys),
                           tn_tensor_dtype(rows));
}

/* Attends with one row. The query heads that share keys become queries of one
 * head, so the device reads these keys once. */
static tn_tensor *attend_row(const attention *a, tn_tensor *q, tn_tensor *k,
                             tn_tensor *v, tn_tensor *mask)
{
    const int64_t d = a->head_dim;
    q = tn_reshape(q, tn_dims(a->kv_heads, a->heads / a->kv_heads, d));
    if (tn_error())
        return NULL;
    return tn_reshape(
        tn_scaled_dot_product_attention(q, k, v, mask, .scale = a->scale),
        tn_dims(1, a->heads * d));
}

static tn_tensor *attend_group(const attention *a, tn_tensor *const qkv[3],
                               const tn__lm_group *g)
{
    tn_tensor *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = g->count == tn_tensor_size(qkv[i], 0)
                      ? qkv[i]
                      : tn_narrow(qkv[i], 0, g->row, g->count);
    const tn__lm_kv *kv = g->kv ? &g->kv[a->layer] : NULL;
    tn_tensor *k = through_cache(kv ? kv->key : NULL, part[1], g);
    tn_tensor *v = through_cache(kv ? kv->value : NULL, part[2], g);
    tn_tensor *mask = g->mask;
    if (g->count == 1 && a->kv_heads < a->heads &&
        (!mask || tn_tensor_ndim(mask) == 2))
        return attend_row(a, part[0], k, v, mask);
    tn_tensor *q = tn_transpose(part[0], 0, 1);
    /* For half types, attention with one query rounds differently than with
     * several. A single query is therefore computed twice, so that the results
     * are bit-identical. */
    bool twice = g->count == 1 && tn_tensor_dtype(q) != TN_F32;
    if (twice) {
        q = tn_cat((tn_tensor *[]){q, q}, 2, 1);
        mask = mask ? tn_cat((tn_tensor *[]){mask, mask}, 2, -2) : NULL;
    }
    if (tn_error())
        return NULL;
    tn_tensor *y =
        tn_scaled_dot_product_attention(q, k, v, mask, .scale = a->scale,
                                        .enable_gqa = a->kv_heads != a->heads);
    if (twice)
        y = tn_narrow(y, 1, 0, 1);
    return join_heads(tn_transpose(y, 0, 1));
}

static tn_tensor *attend_flat(const attention *a, tn_tensor *const qkv[3],
                              const tn__lm_pass *pass)
{
    const int count = pass->group_count[a->rope];
    tn_tensor **part = calloc((size_t)count + 1, sizeof *part);
    if (!part) {
        tn_error_set(TN_ERR_MEMORY, "lm_attention: out of memory");
        return NULL;
    }
    bool fine = true;
    for (int i = 0; fine && i < count; i++) {
        tn_scope *scope = tn_scope_open();
        part[i] = tn_scope_result(
            scope, attend_group(a, qkv, &pass->group[a->rope][i]));
        fine = part[i] != NULL;
    }
    tn_tensor *y = !fine ? NULL : count == 1 ? part[0] : tn_cat(part, count, 0);
    free(part);
    return y;
}

/* ---- the layer ----------------------------------------------------------- */

tn_tensor *tn__lm_attention_run(tn_module *module, tn_tensor *x,
                                const tn__lm_pass *pass)
{
    attention *a = (attention *)module;
    if (!pass->flat)
        return tn_forward(module, x, pass->cos[a->rope], pass->sin[a->rope],
                          pass->mask[a->rope]);
    tn_tensor *in[] = {x}, *out, *qkv[3] = {0};
    tn_module_call call = tn_module_begin(module, in, 1);
    prepare(a, in[0], pass->cos[a->rope], pass->sin[a->rope],
            pass->partner[a->rope], qkv);
    out = attend_flat(a, qkv, pass);
    out = tn_forward(a->out, out);
    tn_module_end(module, &call, &out, 1);
    return out;
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    const attention *a = (const attention *)self;
    tn_tensor *qkv[3] = {0};
    (void)in_count, (void)out_count;
    if (tn_error())
        return;
    if (!in[1] != !in[2]) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "lm_attention", "cos",
                                 "give both cos and sin, or neither");
        return;
    }
    if (tn_tensor_ndim(in[0]) < 2) {
        tn_error_refuse(TN_ERR_SHAPE, "lm_attention", &(tn_given){"x", in[0]},
                        1, "expected x of (..., time, hidden)");
        return;
    }
    prepare(a, in[0], in[1], in[2], NULL, qkv);
    tn_tensor *y = attend_plain(a, qkv, in[3], self->training ? a->dropout : 0);
    out[0] = tn_forward(a->out, y);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const attention *a = (const attention *)self;
    int used =
        snprintf(text, room,
                 "heads=%" PRId64 ", kv_heads=%" PRId64 ", head_dim=%" PRId64,
                 a->heads, a->kv_heads, a->head_dim);
    if (a->window && used > 0 && (size_t)used < room)
        snprintf(text + used, room - (size_t)used, ", window=%" PRId64,
                 a->window);
}

static const tn_module_class attention_class = {
    .size = sizeof attention_class,
    .name = "Attention",
    .bytes = sizeof(attention),
    .forward_list = forward,
    .describe = describe,
    .signature = "x, cos?, sin?, mask? -> y"};

/* Adds a linear layer under the role's name. */
static tn_module *add_linear(attention *a, tn__lm_maker *maker,
                             const char *path, const tn__lm_spec *spec,
                             tn__lm_role role, int64_t in, int64_t out,
                             bool bias)
{
    char full[TN__LM_PATH];
    const char *name = spec->family->names[role];
    return tn__lm_add(&a->base, name,
                      tn__lm_linear(maker, tn__lm_join(full, path, name), in,
                                    out, bias, spec->transposed));
}

static bool add_projections(attention *a, tn__lm_maker *maker, const char *path,
                            const tn__lm_spec *s)
{
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    if (s->packing != TN__LM_SEPARATE) {
        a->joined = add_linear(a, maker, path, s, TN__LM_QKV, s->hidden,
                               q + 2 * kv, s->qkv_bias);
        return a->joined != NULL;
    }
    a->query =
        add_linear(a, maker, path, s, TN__LM_QUERY, s->hidden, q, s->qkv_bias);
    a->key =
        add_linear(a, maker, path, s, TN__LM_KEY, s->hidden, kv, s->qkv_bias);
    a->value =
        add_linear(a, maker, path, s, TN__LM_VALUE, s->hidden, kv, s->qkv_bias);
    return a->query && a->key && a->value;
}

static tn_module *add_norm(attention *a, tn__lm_maker *maker, const char *path,
                           const tn__lm_spec *s, tn__lm_role role)
{
    char full[TN__LM_PATH];
    const char *name = s->family->names[role];
    return tn__lm_add(&a->base, name,
                      tn__lm_norm_make(maker, tn__lm_join(full, path, name),
                                       s->head_dim, s->norm, s->eps));
}

tn_module *tn__lm_attention_make(tn__lm_maker *maker, const char *path,
                                 const tn__lm_spec *s, int64_t layer)
{
    attention *a = tn_module_new(&attention_class);
    if (!a || !add_projections(a, maker, path, s))
        return NULL;
    a->out = add_linear(a, maker, path, s, TN__LM_OUT, s->heads * s->head_dim,
                        s->hidden, s->out_bias);
    if (s->qk_norm) {
        a->query_norm = add_norm(a, maker, path, s, TN__LM_QUERY_NORM);
        a->key_norm = add_norm(a, maker, path, s, TN__LM_KEY_NORM);
    }
    a->heads = s->heads;
    a->kv_heads = s->kv_heads;
    a->head_dim = s->head_dim;
    a->packing = s->packing;
    a->layer = layer;
    a->causal = !s->encoder;
    a->rope = s->slides[layer];
    a->window = s->slides[layer] ? s->window : 0;
    a->dropout = s->attention_dropout;
    a->scale = s->attention_scale != 0 ? s->attention_scale
                                       : 1 / sqrt((double)s->head_dim);
    if (s->scale_by_layer)
        a->scale /= (double)(layer + 1);
    return a->out && !tn_error() ? &a->base : NULL;
}

TN_OPTIONS_TYPE(tn_lm_attention, "lm_attention", "hidden, heads",
                TN_LM_ATTENTION_OPTIONS_LIST)

tn_module *tn_lm_attention_with(int64_t hidden, int64_t heads,
                                const tn_lm_attention_options *options)
{
    extern const tn__lm_family tn__lm_llama;
    tn_lm_attention_options o;
    if (tn_options_take(tn_lm_attention_type(), &o, options) < 0)
        return NULL;
    const int64_t most = INT32_MAX, kv_heads = o.kv_heads ? o.kv_heads : heads;
    if (hidden < 1 || hidden > most || heads < 1 || heads > most ||
        kv_heads < 1 || heads % kv_heads || o.head_dim < 0 ||
        o.head_dim > most || o.window < 0 ||
        (!o.head_dim && (hidden < heads || hidden % heads)) ||
        (o.window && !o.causal)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "lm_attention", "heads",
            "hidden %" PRId64 ", heads %" PRId64 ", kv_heads %" PRId64
            ", head_dim %" PRId64 ", window %" PRId64
            ": expected positive sizes, heads that are a multiple of kv_heads, "
            "a hidden size that is a multiple of heads or a head_dim, and a "
            "window only with causal",
            hidden, heads, kv_heads, o.head_dim, o.window);
        return NULL;
    }
    tn__lm_spec s = {.family = &tn__lm_llama,
                     .hidden = hidden,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_dim = o.head_dim ? o.head_dim : hidden / heads,
                     .window = o.window,
                     .encoder = !o.causal,
                     .qkv_bias = o.bias,
                     .out_bias = o.bias,
                     .slides = {o.window > 0}};
    tn_scope *scope = tn_scope_open();
    tn_module *a = tn__lm_attention_make(&(tn__lm_maker){0}, "", &s, 0);
    if (a && o.rotary)
        ((attention *)a)->rotary = tn_module_add(a, "rotary", o.rotary);
    return tn_scope_result(scope, tn_error() ? NULL : a);
}
