/* layer.c: a layer of a model: attention and MLP with their norms. */
#include <lm/model/layers.h>

#include <tenon/ops.h>

typedef struct layer {
    tn_module base;
    tn_module *attention, *norm_1, *norm_1_after, *norm_2, *norm_2_after;
    tn_module *mlp_module; /* an MLP or experts; NULL: the layer uses `mlp` */
    tn__lm_mlp mlp;
    tn__lm_order order;
    double dropout;
} layer;

static tn_tensor *feed(const layer *l, tn_tensor *x)
{
    x = l->mlp_module ? tn_forward(l->mlp_module, x)
                      : tn__lm_mlp_run(&l->mlp, x);
    return l->dropout > 0 ? tn_dropout(x, l->dropout, l->base.training) : x;
}

static tn_tensor *attend(const layer *l, tn_tensor *x, const tn__lm_pass *pass)
{
    x = tn__lm_attention_run(l->attention, x, pass);
    return l->dropout > 0 ? tn_dropout(x, l->dropout, l->base.training) : x;
}

static tn_tensor *run(const layer *l, tn_tensor *x, const tn__lm_pass *pass)
{
    tn_tensor *a;
    switch (l->order) {
    case TN__LM_PARALLEL:
        a = attend(l, tn_forward(l->norm_1, x), pass);
        return tn_add(tn_add(feed(l, tn_forward(l->norm_2, x)), a), x);
    case TN__LM_AFTER:
        x = tn_forward(l->norm_1, tn_add(attend(l, x, pass), x));
        return tn_forward(l->norm_2, tn_add(feed(l, x), x));
    case TN__LM_AROUND:
        a = attend(l, tn_forward(l->norm_1, x), pass);
        x = tn_add(x, tn_forward(l->norm_1_after, a));
        a = feed(l, tn_forward(l->norm_2, x));
        return tn_add(x, tn_forward(l->norm_2_after, a));
    case TN__LM_BEFORE:
        break;
    }
    x = tn_add(x, attend(l, tn_forward(l->norm_1, x), pass));
    return tn_add(x, feed(l, tn_forward(l->norm_2, x)));
}

/* Rotary tables and mask are inputs, so that checkpointing can recompute the
 * layer in the backward pass. */
static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    if (tn_error())
        return;
    const tn__lm_pass pass = {
        .cos = {in[1], in[1]}, .sin = {in[2], in[2]}, .mask = {in[3], in[3]}};
    out[0] = run((const layer *)self, in[0], &pass);
}

static const tn_module_class layer_class = {.size = sizeof layer_class,
                                            .name = "Layer",
                                            .bytes = sizeof(layer),
                                            .forward_list = forward,
                                            .signature =
                                                "x, cos?, sin?, mask? -> y"};

tn_tensor *tn__lm_layer_run(tn_module *module, tn_tensor *x,
                            const tn__lm_pass *pass)
{
    tn_tensor *in[] = {x}, *out;
    tn_module_call call = tn_module_begin(module, in, 1);
    out = run((const layer *)module, in[0], pass);
    tn_module_end(module, &call, &out, 1);
    return out;
}

static tn_module *add_norm(layer *l, tn__lm_maker *maker, const char *path,
                           const tn__lm_spec *s, tn__lm_role role)
{
    char full[TN__LM_PATH];
    const char *name = s->family->names[role];
    return tn__lm_add(&l->base, name,
                      tn__lm_norm_make(maker, tn__lm_join(full, path, name),
                                       s->hidden, s->norm, s->eps));
}

static bool add_mlp(layer *l, tn__lm_maker *maker, const char *path,
                    const tn__lm_spec *s, int64_t at)
{
    char full[TN__LM_PATH];
    const char *name = s->family->names[TN__LM_MLP];
    if (!name)
        return tn__lm_mlp_init(&l->mlp, &l->base, maker, path, s, s->inner);
    tn__lm_join(full, path, name);
    l->mlp_module = s->experts && !s->dense[at]
                        ? tn__lm_experts_make(maker, full, s)
                        : tn__lm_mlp_make(maker, full, s, s->inner);
    return tn__lm_add(&l->base, name, l->mlp_module) != NULL;
}

tn_module *tn__lm_layer_make(tn__lm_maker *maker, const char *path,
                             const tn__lm_spec *s, int64_t at)
{
    char full[TN__LM_PATH];
    layer *l = tn_module_new(&layer_class);
    if (!l)
        return NULL;
    const char *name = s->family->names[TN__LM_ATTENTION];
    l->order = s->order;
    l->dropout = s->hidden_dropout;
    l->attention = tn__lm_add(
        &l->base, name,
        tn__lm_attention_make(maker, tn__lm_join(full, path, name), s, at));
    l->norm_1 = add_norm(l, maker, path, s, TN__LM_NORM_1);
    if (s->order == TN__LM_AROUND)
        l->norm_1_after = add_norm(l, maker, path, s, TN__LM_NORM_1_AFTER);
    l->norm_2 = add_norm(l, maker, path, s, TN__LM_NORM_2);
    if (s->order == TN__LM_AROUND)
        l->norm_2_after = add_norm(l, maker, path, s, TN__LM_NORM_2_AFTER);
    return add_mlp(l, maker, path, s, at) && !tn_error() ? &l->base : NULL;
}
