/* model.c: builds the module tree of a model, and runs it. */
#include <lm/model/model.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

/* Returns the weight of a norm. Its dtype and device are those of the model,
 * because it is never in blocks. Every model has a last norm or a norm after
 * its embedding. */
static tn_tensor *norm_weight(const tn_lm *lm)
{
    return tn_module_parameter_at(
        lm->last_norm ? lm->last_norm : lm->embed_norm, 0);
}

tn_dtype tn__lm_dtype(const tn_lm *lm)
{
    return tn_tensor_dtype(norm_weight(lm));
}

tn_device *tn__lm_device(const tn_lm *lm)
{
    return tn_tensor_device(norm_weight(lm));
}

/* ---- a pass -------------------------------------------------------------- */

bool tn__lm_pass_tables(const tn_lm *lm, tn__lm_pass *pass,
                        const int64_t *positions, const int64_t *lengths,
                        int64_t count)
{
    const tn__lm_spec *s = &lm->spec;
    const tn_dtype dtype = tn__lm_dtype(lm);
    if (!s->rope[0].dim)
        return true;
    for (int i = 0; i < 1 + s->two_ropes; i++) {
        const bool rows = pass->flat && s->rope[i].dim == s->head_dim;
        if (!tn__lm_rope_tables(&s->rope[i], positions, lengths, count, dtype,
                                rows, &pass->cos[i], &pass->sin[i]))
            return false;
        if (!rows)
            continue;
        pass->partner[i] = tn__lm_rotary_partner(s->head_dim);
        pass->cos[i] = tn_unsqueeze(pass->cos[i], 1);
        pass->sin[i] = tn_unsqueeze(pass->sin[i], 1);
    }
    if (!s->two_ropes) {
        pass->cos[1] = pass->cos[0];
        pass->sin[1] = pass->sin[0];
        pass->partner[1] = pass->partner[0];
    }
    return !tn_error();
}

void tn__lm_position_rows(const tn_lm *lm, const int64_t *ids, int64_t count,
                          int64_t from, int64_t *out)
{
    const int64_t pad = lm->spec.pad;
    int64_t seen = 0;
    for (int64_t t = 0; t < count; t++) {
        if (!lm->spec.positions_skip_pad)
            out[t] = from + t;
        else
            out[t] = ids[t] == pad ? pad : pad + ++seen;
    }
}

/* Returns the bucket of a distance between key and query. Half of the buckets
 * are for keys after the query, half for keys before it. Small distances have a
 * bucket each, larger ones share buckets of increasing width up to 128. Source:
 * T5 (arXiv:1910.10683). */
static int64_t bucket(int64_t distance, int64_t buckets)
{
    const int64_t half = buckets / 2, exact = half / 2;
    int64_t n = distance < 0 ? -distance : distance,
            at = distance > 0 ? half : 0;
    if (n < exact)
        return at + n;
    double wide = log((double)n / (double)exact) / log(128.0 / (double)exact) *
                  (double)(half - exact);
    n = exact + (int64_t)wide;
    return at + (n < half ? n : half - 1);
}

tn_tensor *tn__lm_distance_bias(tn_lm *lm, int64_t time)
{
    int64_t *at = malloc((size_t)(time * time + 1) * sizeof *at);
    if (!at) {
        tn_error_set(TN_ERR_MEMORY, "lm: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < time; i++)
        for (int64_t j = 0; j < time; j++)
            at[i * time + j] = bucket(j - i, lm->spec.bias_buckets);
    tn_tensor *index = tn_tensor_from_array(at, TN_I64, tn_dims(time, time));
    free(at);
    return tn_permute(tn_forward(lm->distance_bias, index), tn_dims(2, 0, 1));
}

static tn_tensor *embed(tn_lm *lm, tn_tensor *ids, tn_tensor *positions,
                        tn_tensor *types)
{
    const tn__lm_spec *s = &lm->spec;
    tn_tensor *x = tn_forward(lm->embed, ids);
    if (s->embed_scale != 0) {
        /* the factor is rounded to the dtype, as in transformers */
        tn_tensor *scale =
            tn_full(TN_SCALAR, s->embed_scale, .dtype = tn_tensor_dtype(x),
                    .device = tn_tensor_device(x));
        x = tn_mul(x, scale);
    }
    if (lm->embed_type)
        x = tn_add(x, types
                          ? tn_forward(lm->embed_type, types)
                          : tn_narrow(tn_module_parameter_at(lm->embed_type, 0),
                                      0, 0, 1));
    if (lm->embed_position)
        x = tn_add(x, tn_forward(lm->embed_position, positions));
    if (lm->embed_norm)
        x = tn_forward(lm->embed_norm, x);
    return s->embed_dropout > 0
               ? tn_dropout(x, s->embed_dropout, lm->base.training)
               : x;
}

tn_tensor *tn__lm_body(tn_lm *lm, tn_tensor *ids, tn_tensor *positions,
                       tn_tensor *types, const tn__lm_pass *pass,
                       tn_tensor **hidden)
{
    tn_tensor *x = embed(lm, ids, positions, types);
    const int64_t layers = lm->spec.layers;
    for (int64_t i = 0; x && i < layers; i++) {
        tn_module *layer = tn_module_child_at(lm->layers, (int)i);
        const int kind = lm->spec.slides[i];
        if (hidden)
            hidden[i] = x;
        x = pass->flat ? tn__lm_layer_run(layer, x, pass)
                       : tn_forward(layer, x, pass->cos[kind], pass->sin[kind],
                                    pass->mask[kind]);
    }
    if (lm->last_norm)
        x = tn_forward(lm->last_norm, x);
    if (hidden)
        hidden[layers] = x;
    return x;
}

tn_tensor *tn__lm_logits(tn_lm *lm, tn_tensor *x)
{
    x = tn_forward(lm->head, x);
    const double cap = lm->spec.softcap;
    if (cap == 0)
        return x;
    return tn_mul_scalar(tn_tanh(tn_div_scalar(x, cap)), cap);
}

/* ---- forward of the module ----------------------------------------------- */

/* Makes the masks for padded sequences, (batch, 1, time, time), true where a
 * query may read a key. Not needed without padding, because attention then
 * makes its own mask. */
static bool padded_masks(const tn_lm *lm, tn__lm_pass *pass, tn_tensor *mask,
                         int64_t batch, int64_t time)
{
    const tn__lm_spec *s = &lm->spec;
    mask = tn_ne_scalar(tn_reshape(mask, tn_dims(batch, 1, 1, time)), 0);
    pass->mask[0] = pass->mask[1] = mask;
    if (s->encoder)
        return mask != NULL;
    tn_tensor *ones = tn_ones(tn_dims(time, time), .dtype = TN_BOOL,
                              .device = tn_tensor_device(mask));
    tn_tensor *causal = tn_tril(ones);
    pass->mask[0] = tn_logical_and(mask, causal);
    if (s->window)
        causal =
            tn_logical_and(causal, tn_triu(ones, .diagonal = 1 - s->window));
    pass->mask[1] = tn_logical_and(mask, causal);
    return pass->mask[0] && pass->mask[1];
}

static bool add_bias(tn_lm *lm, tn__lm_pass *pass, int64_t time)
{
    tn_tensor *bias = tn__lm_distance_bias(lm, time);
    if (bias && pass->mask[0])
        bias = tn_where_scalar(pass->mask[0], bias, -INFINITY);
    pass->mask[0] = pass->mask[1] = bias;
    return bias != NULL;
}

static tn_tensor *position_rows(const tn_lm *lm, tn_tensor *ids, int64_t batch,
                                int64_t time)
{
    const size_t count = (size_t)(batch * time);
    int64_t *at = malloc((2 * count + 1) * sizeof *at);
    tn_tensor *rows = NULL;
    if (!at)
        tn_error_set(TN_ERR_MEMORY, "lm: out of memory");
    else if (tn_tensor_to_array(ids, at, count * sizeof *at) == TN_OK) {
        for (int64_t b = 0; b < batch; b++)
            tn__lm_position_rows(lm, at + b * time, time, 0,
                                 at + count + b * time);
        rows = tn_tensor_from_array(at + count, TN_I64, tn_dims(batch, time));
    }
    free(at);
    return tn_to(rows, tn_tensor_device(ids));
}

static bool plain_tables(tn_lm *lm, tn__lm_pass *pass, int64_t time)
{
    int64_t *at = malloc((size_t)(2 * time + 1) * sizeof *at);
    if (!at) {
        tn_error_set(TN_ERR_MEMORY, "lm: out of memory");
        return false;
    }
    for (int64_t t = 0; t < time; t++) {
        at[t] = t;
        at[time + t] = time;
    }
    bool fine = tn__lm_pass_tables(lm, pass, at, at + time, time);
    free(at);
    return fine;
}

static bool check_ids(const tn_lm *lm, tn_tensor *ids, tn_tensor *mask,
                      tn_tensor *types)
{
    const int ndim = tn_tensor_ndim(ids);
    const int64_t time = ndim ? tn_tensor_size(ids, -1) : 0;
    if (tn_tensor_dtype(ids) != TN_I64 || ndim < 1 || ndim > 2 || time < 1 ||
        tn_tensor_size(ids, 0) < 1) {
        tn_error_refuse(TN_ERR_SHAPE, "lm", &(tn_given){"input_ids", ids}, 1,
                        "expected int64 input_ids of (batch, time) or (time), "
                        "with at least one token");
        return false;
    }
    if (lm->spec.position_rows && time > lm->spec.positions) {
        tn_error_refuse(TN_ERR_SHAPE, "lm", &(tn_given){"input_ids", ids}, 1,
                        "input_ids has %" PRId64 " tokens; the model has "
                        "%" PRId64 " positions",
                        time, lm->spec.positions);
        return false;
    }
    if ((mask && tn_tensor_numel(mask) != tn_tensor_numel(ids)) ||
        (types && tn_tensor_numel(types) != tn_tensor_numel(ids))) {
        tn_error_refuse(
            TN_ERR_SHAPE, "lm",
            (tn_given[]){{"attention_mask", mask}, {"token_type_ids", types}},
            2, "expected the shape of input_ids");
        return false;
    }
    if (types && !lm->embed_type) {
        tn_error_refuse(TN_ERR_ARGUMENT, "lm",
                        &(tn_given){"token_type_ids", types}, 1,
                        "this model has no token types");
        return false;
    }
    return true;
}

/* Runs the layers on a plain pass. */
static tn_tensor *run_plain(tn_lm *lm, tn_tensor *ids, tn_tensor *mask,
                            tn_tensor *types, tn_tensor **hidden)
{
    if (!check_ids(lm, ids, mask, types))
        return NULL;
    const int64_t time = tn_tensor_size(ids, -1);
    const int64_t batch = tn_tensor_numel(ids) / time;
    tn__lm_pass pass = {0};
    tn_device *before = tn_device_current();
    tn_tensor *positions = NULL, *x = NULL;
    if (!before || tn_device_set(tn_tensor_device(ids)) < 0)
        return NULL;
    ids = tn_reshape(ids, tn_dims(batch, time));
    if (types)
        types = tn_reshape(types, tn_dims(batch, time));
    bool fine = plain_tables(lm, &pass, time) &&
                (!mask || padded_masks(lm, &pass, mask, batch, time)) &&
                (!lm->distance_bias || add_bias(lm, &pass, time));
    if (fine && lm->embed_position)
        positions = position_rows(lm, ids, batch, time);
    if (fine && (!lm->embed_position || positions))
        x = tn__lm_body(lm, ids, positions, types, &pass, hidden);
    tn_device_set(before);
    return x;
}

/* Removes the batch dimension if ids have none. */
static tn_tensor *like_ids(tn_tensor *x, tn_tensor *ids)
{
    return tn_tensor_ndim(ids) == 1 ? tn_squeeze(x, .dim = 0) : x;
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    tn_lm *lm = (tn_lm *)self;
    (void)in_count, (void)out_count;
    if (tn_error())
        return;
    tn_tensor *x = run_plain(lm, in[0], in[1], in[2], NULL);
    out[0] = like_ids(tn__lm_logits(lm, x), in[0]);
}

static void encoder_forward(tn_module *self, tn_tensor *const *in, int in_count,
                            tn_tensor **out, int out_count)
{
    tn_lm *lm = (tn_lm *)self;
    (void)in_count;
    if (tn_error())
        return;
    tn_tensor *x = run_plain(lm, in[0], in[1], in[2], NULL);
    out[0] = like_ids(x, in[0]);
    if (out_count < 2)
        return;
    if (!lm->pooler) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, "lm", NULL,
                                 "the files of this model have no pooler");
        return;
    }
    tn_tensor *first = tn_select(x, 1, 0);
    out[1] = like_ids(tn_tanh(tn_forward(lm->pooler, first)), in[0]);
}

tn_status tn_lm_hidden_states(tn_lm *lm, tn_tensor *ids, tn_tensor **out,
                              int count)
{
    static const char call[] = "lm_hidden_states";
    if (!tn__lm_is_model(lm, call) ||
        !tn_object_check_kind(ids, "tensor", call, "ids"))
        return tn_error_code();
    if (!out || count != lm->spec.layers + 1)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                                        "count is %d and out %s: the model has "
                                        "%" PRId64 " hidden states",
                                        count, out ? "given" : "NULL",
                                        lm->spec.layers + 1);
    tn_tensor **states = calloc((size_t)count, sizeof *states);
    if (!states)
        return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                        "out of memory");
    tn_tensor *x = run_plain(lm, ids, NULL, NULL, states);
    for (int i = 0; x && i < count; i++)
        out[i] = states[i];
    free(states);
    return x ? TN_OK : tn_error_code();
}

/* ---- the tree ------------------------------------------------------------ */

static void describe(const tn_module *self, char *text, size_t room)
{
    const tn__lm_spec *s = &((const tn_lm *)self)->spec;
    snprintf(text, room, "%s, layers=%" PRId64 ", hidden=%" PRId64,
             s->family->type, s->layers, s->hidden);
}

static void release(tn_module *self)
{
    tn_lm *lm = (tn_lm *)self;
    free(lm->folder);
    free(lm->config);
}

static tn_status clone(tn_module *self, const tn_module *from)
{
    tn_lm *lm = (tn_lm *)self;
    const tn_lm *other = (const tn_lm *)from;
    lm->folder = other->folder ? strdup(other->folder) : NULL;
    lm->config = other->config ? malloc(other->config_bytes + 1) : NULL;
    if (lm->config)
        memcpy(lm->config, other->config, other->config_bytes + 1);
    if (!lm->folder != !other->folder || !lm->config != !other->config)
        return tn_error_set(TN_ERR_MEMORY, "module_clone: out of memory");
    return TN_OK;
}

static const tn_module_class decoder_class = {
    .size = sizeof decoder_class,
    .name = "CausalLM",
    .bytes = sizeof(tn_lm),
    .forward_list = forward,
    .describe = describe,
    .release = release,
    .signature = "input_ids, attention_mask?, token_type_ids? -> logits",
    .clone = clone};
static const tn_module_class encoder_class = {
    .size = sizeof encoder_class,
    .name = "Encoder",
    .bytes = sizeof(tn_lm),
    .forward_list = encoder_forward,
    .describe = describe,
    .release = release,
    .signature = "input_ids, attention_mask?, token_type_ids? -> "
                 "last_hidden_state, pooler_output",
    .clone = clone};

bool tn__lm_is_model(const tn_lm *lm, const char *call)
{
    if (!tn_object_check_kind(lm, "module", call, "lm"))
        return false;
    if (lm->base.type == &decoder_class || lm->base.type == &encoder_class)
        return true;
    tn_error_set(TN_ERR_ARGUMENT,
                 "%s: {lm} is a module %s, not a language model", call,
                 lm->base.type->name);
    return false;
}

tn_module *tn_lm_module(tn_lm *lm)
{
    return lm && tn__lm_is_model(lm, "lm_module") ? &lm->base : NULL;
}

/* Arguments of the functions below, which build a model and find the path of
 * each role. */
typedef struct place {
    tn_lm *lm;
    tn__lm_maker *maker;
    const char *prefix;
} place;

static const char *path_of(const place *p, tn__lm_role role, char *path)
{
    const char *name = p->lm->spec.family->names[role];
    tn_format(path, TN__LM_PATH, "%s%s", role == TN__LM_HEAD ? "" : p->prefix,
              name);
    return path;
}

static tn_module *add_embedding(const place *p, tn__lm_role role, int64_t rows,
                                int64_t size)
{
    char path[TN__LM_PATH];
    path_of(p, role, path);
    return tn__lm_add(&p->lm->base, path,
                      tn__lm_embedding(p->maker, path, rows, size));
}

static tn_module *add_norm(const place *p, tn__lm_role role)
{
    const tn__lm_spec *s = &p->lm->spec;
    char path[TN__LM_PATH];
    if (!s->family->names[role])
        return NULL;
    path_of(p, role, path);
    return tn__lm_add(
        &p->lm->base, path,
        tn__lm_norm_make(p->maker, path, s->hidden, s->norm, s->eps));
}

static void add_layers(const place *p)
{
    char path[TN__LM_PATH], full[TN__LM_PATH], number[24];
    path_of(p, TN__LM_LAYERS_AT, path);
    p->lm->layers = tn__lm_add(&p->lm->base, path, tn_nn_module_list());
    for (int64_t i = 0; i < p->lm->spec.layers && !tn_error(); i++) {
        tn_format(number, sizeof number, "%" PRId64, i);
        tn_module_append(p->lm->layers,
                         tn__lm_layer_make(p->maker,
                                           tn__lm_join(full, path, number),
                                           &p->lm->spec, i));
    }
}

/* Adds the pooler if the files contain it. */
static void add_pooler(const place *p)
{
    char path[TN__LM_PATH], weight[TN__LM_PATH];
    const tn__lm_spec *s = &p->lm->spec;
    if (!s->family->names[TN__LM_POOLER])
        return;
    path_of(p, TN__LM_POOLER, path);
    tn__lm_join(weight, path, "weight");
    if (p->maker->weights && !tn__lm_weights_has(p->maker->weights, weight))
        return;
    p->lm->pooler = tn__lm_add(
        &p->lm->base, path,
        tn__lm_linear(p->maker, path, s->hidden, s->hidden, true, false));
}

static void add_head(const place *p)
{
    char path[TN__LM_PATH];
    const tn__lm_spec *s = &p->lm->spec;
    path_of(p, TN__LM_HEAD, path);
    tn_module *head = s->tied ? tn__lm_tied_linear(p->maker, p->lm->embed)
                              : tn__lm_linear(p->maker, path, s->hidden,
                                              s->vocab, false, false);
    p->lm->head = tn__lm_add(&p->lm->base, path, head);
}

tn_lm *tn__lm_model_make(tn__lm_maker *maker, const tn__lm_spec *spec,
                         const char *prefix)
{
    tn_lm *lm = tn_module_new(spec->encoder ? &encoder_class : &decoder_class);
    if (!lm)
        return NULL;
    lm->spec = *spec;
    const place p = {lm, maker, prefix};
    lm->embed = add_embedding(&p, TN__LM_EMBED, spec->vocab, spec->hidden);
    if (spec->position_rows)
        lm->embed_position = add_embedding(&p, TN__LM_EMBED_POSITION,
                                           spec->position_rows, spec->hidden);
    if (spec->type_rows)
        lm->embed_type =
            add_embedding(&p, TN__LM_EMBED_TYPE, spec->type_rows, spec->hidden);
    lm->embed_norm = add_norm(&p, TN__LM_EMBED_NORM);
    if (spec->bias_buckets)
        lm->distance_bias = add_embedding(&p, TN__LM_DISTANCE_BIAS,
                                          spec->bias_buckets, spec->heads);
    add_layers(&p);
    lm->last_norm = add_norm(&p, TN__LM_LAST_NORM);
    if (spec->encoder)
        add_pooler(&p);
    else
        add_head(&p);
    return tn_error() ? NULL : lm;
}
