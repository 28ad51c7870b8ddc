/* experts.c: a mixture of experts. Which experts each token has chosen is read
 * back to the host. Then each expert runs once, on the rows of all tokens that
 * chose it. The outputs for a token are added in the order of the experts'
 * indices. */
#include <lm/model/layers.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/ops.h>

typedef struct experts {
    tn_module base;
    tn_module *router, *list;
    int64_t count, used;
    bool normalize;
} experts;

/* The rows of x that chose an expert, and the positions of their weights in the
 * flattened (rows, used) matrix. A product with one row sums in another order
 * than a product with several rows. So a single row is listed twice, and the
 * result is the same as in a batch. `rows` does not count this copy. */
typedef struct share {
    tn_tensor *row, *place;
    int64_t rows;
} share;

static bool find_share(share *s, const int64_t *chosen, int64_t count,
                       int64_t used, int64_t expert, int64_t *scratch)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        if (chosen[i] == expert) {
            scratch[n] = i / used;
            scratch[count + 1 + n++] = i;
        }
    s->rows = n;
    if (n == 1)
        scratch[1] = scratch[0];
    if (n == 0)
        return true;
    s->row = tn_tensor_from_array(scratch, TN_I64, tn_dims(n == 1 ? 2 : n));
    s->place = tn_tensor_from_array(scratch + count + 1, TN_I64, tn_dims(n));
    return s->row && s->place;
}

static tn_tensor *add_expert(const experts *e, int64_t i, const share *s,
                             tn_tensor *x, tn_tensor *weights, tn_tensor *sum)
{
    tn_module *expert = tn_module_child_at(e->list, (int)i);
    tn_tensor *y = tn_forward(expert, tn_index_select(x, 0, s->row));
    tn_tensor *row = s->row;
    if (s->rows == 1) {
        y = tn_narrow(y, 0, 0, 1);
        row = tn_narrow(row, 0, 0, 1);
    }
    tn_tensor *weight = tn_unsqueeze(tn_index_select(weights, 0, s->place), 1);
    return tn_index_add(sum, 0, row, tn_mul(y, weight));
}

/* x (rows, hidden). */
static tn_tensor *run(const experts *e, tn_tensor *x)
{
    tn_tensor *best, *scores = tn_forward(e->router, x);
    scores = tn_softmax(scores, -1, .dtype = TN_F32);
    tn_tensor *weights = tn_topk(scores, e->used, -1, true, true, &best);
    if (e->normalize)
        weights = tn_div(weights, tn_sum(weights, .dim = -1, .keepdim = true));
    weights = tn_flatten(tn__lm_in_dtype(weights, tn_tensor_dtype(x)));
    if (!weights)
        return NULL;
    const int64_t count = tn_tensor_numel(best);
    int64_t *chosen = malloc((size_t)(3 * count + 4) * sizeof *chosen);
    if (!chosen) {
        tn_error_set(TN_ERR_MEMORY, "lm_experts: out of memory");
        return NULL;
    }
    tn_tensor *sum = NULL;
    if (tn_tensor_to_array(best, chosen, (size_t)count * sizeof *chosen) ==
        TN_OK)
        sum = tn_zeros_like(x);
    for (int64_t i = 0; sum && i < e->count; i++) {
        share s = {0};
        if (!find_share(&s, chosen, count, e->used, i, chosen + count))
            sum = NULL;
        else if (s.rows)
            sum = add_expert(e, i, &s, x, weights, sum);
    }
    free(chosen);
    return sum;
}

static tn_tensor *forward(tn_module *self, tn_tensor *x)
{
    const experts *e = (const experts *)self;
    if (!x)
        return NULL;
    tn_dims_list shape =
        tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x));
    tn_tensor *rows = tn_reshape(x, tn_dims(-1, tn_tensor_size(x, -1)));
    return tn_reshape(run(e, rows), shape);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const experts *e = (const experts *)self;
    snprintf(text, room, "%" PRId64 " experts, %" PRId64 " for each token",
             e->count, e->used);
}

static const tn_module_class experts_class = {.size = sizeof experts_class,
                                              .name = "Experts",
                                              .bytes = sizeof(experts),
                                              .forward = forward,
                                              .describe = describe};

tn_module *tn__lm_experts_make(tn__lm_maker *maker, const char *path,
                               const tn__lm_spec *s)
{
    char full[TN__LM_PATH], one[TN__LM_PATH], number[16];
    experts *e = tn_module_new(&experts_class);
    if (!e)
        return NULL;
    const char *const *names = s->family->names;
    e->count = s->experts;
    e->used = s->experts_used;
    e->normalize = s->normalize_experts;
    e->router = tn__lm_add(
        &e->base, names[TN__LM_ROUTER],
        tn__lm_linear(maker, tn__lm_join(full, path, names[TN__LM_ROUTER]),
                      s->hidden, s->experts, false, false));
    e->list =
        tn__lm_add(&e->base, names[TN__LM_EXPERTS_AT], tn_nn_module_list());
    tn__lm_join(full, path, names[TN__LM_EXPERTS_AT]);
    for (int64_t i = 0; e->list && i < s->experts; i++) {
        if (tn__lm_weights_give_up(maker->weights))
            break; /* tn__lm_weights_check fails */
        tn_format(number, sizeof number, "%" PRId64, i);
        if (!tn_module_append(
                e->list, tn__lm_mlp_make(maker, tn__lm_join(one, full, number),
                                         s, s->expert_inner)))
            return NULL;
    }
    return e->router && e->list ? &e->base : NULL;
}

TN_OPTIONS_TYPE(tn_lm_experts, "lm_experts",
                "hidden, inner, experts, per_token", TN_LM_EXPERTS_OPTIONS_LIST)

tn_module *tn_lm_experts_with(int64_t hidden, int64_t inner, int count,
                              int per_token,
                              const tn_lm_experts_options *options)
{
    extern const tn__lm_family tn__lm_qwen3_moe;
    tn_lm_experts_options o;
    if (tn_options_take(tn_lm_experts_type(), &o, options) < 0)
        return NULL;
    tn__lm_activation activation = tn__lm_activation_of(o.activation);
    const char *wrong = hidden < 1 || hidden > INT32_MAX     ? "hidden"
                        : inner < 1 || inner > INT32_MAX     ? "inner"
                        : count < 1 || count > 65536         ? "experts"
                        : per_token < 1 || per_token > count ? "per_token"
                        : activation == TN__LM_ACTIVATIONS   ? "activation"
                                                             : NULL;
    if (wrong) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "lm_experts", wrong,
            "hidden is %" PRId64 ", inner %" PRId64 ", experts %d, per_token "
            "%d and activation \"%.60s\"; expected hidden and inner of at "
            "least 1, 1 to 65536 experts, 1 <= per_token <= experts, and the "
            "activation \"silu\", \"gelu\", \"gelu_tanh\" or \"relu\"",
            hidden, inner, count, per_token, o.activation);
        return NULL;
    }
    tn__lm_spec s = {.family = &tn__lm_qwen3_moe,
                     .hidden = hidden,
                     .expert_inner = inner,
                     .experts = count,
                     .experts_used = per_token,
                     .activation = activation,
                     .normalize_experts = o.normalize};
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(scope,
                           tn__lm_experts_make(&(tn__lm_maker){0}, "", &s));
}
