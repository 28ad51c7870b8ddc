/* mlp.c: the feed-forward part of a layer: down(act(gate(x)) * up(x)), or
 * down(act(up(x))) without a gate. */
#include <lm/model/layers.h>

#include <inttypes.h>
#include <stdio.h>
#include <tenon/op.h>
#include <tenon/ops.h>

tn_tensor *tn__lm_activate(tn_tensor *x, tn__lm_activation activation)
{
    switch (activation) {
    case TN__LM_SILU:
        return tn_silu(x);
    case TN__LM_GELU:
        return tn_gelu(x);
    case TN__LM_GELU_TANH:
        return tn_gelu(x, .approximate = "tanh");
    default:
        return tn_relu(x);
    }
}

/* Returns activation(gate) * up. */
static tn_tensor *activate_gate(tn_tensor *gate, tn_tensor *up,
                                tn__lm_activation activation)
{
    static const tn_op *silu_gate;
    if (activation != TN__LM_SILU || tn_tensor_dtype(gate) != TN_F32)
        return tn_mul(tn__lm_activate(gate, activation), up);
    if (!tn_op_define_once("lm_silu_gate(x, y) = x * sigmoid(x) * y",
                           &silu_gate))
        return NULL;
    return tn_op_apply(silu_gate, (tn_tensor *[]){gate, up}, NULL);
}

tn_tensor *tn__lm_mlp_run(const tn__lm_mlp *mlp, tn_tensor *x)
{
    tn_tensor *gate, *up;
    if (mlp->gate_up) {
        tn_tensor *both = tn_forward(mlp->gate_up, x);
        gate = tn_narrow(both, -1, 0, mlp->inner);
        up = tn_narrow(both, -1, mlp->inner, mlp->inner);
    } else {
        up = tn_forward(mlp->up, x);
        if (!mlp->gate)
            return tn_forward(mlp->down, tn__lm_activate(up, mlp->activation));
        gate = tn_forward(mlp->gate, x);
    }
    return tn_forward(mlp->down, activate_gate(gate, up, mlp->activation));
}

static tn_module *add(tn_module *module, tn__lm_maker *maker, const char *path,
                      const tn__lm_spec *spec, tn__lm_role role, int64_t in,
                      int64_t out)
{
    char full[TN__LM_PATH];
    const char *name = spec->family->names[role];
    return tn__lm_add(module, name,
                      tn__lm_linear(maker, tn__lm_join(full, path, name), in,
                                    out, spec->mlp_bias, spec->transposed));
}

bool tn__lm_mlp_init(tn__lm_mlp *mlp, tn_module *module, tn__lm_maker *maker,
                     const char *path, const tn__lm_spec *s, int64_t inner)
{
    *mlp = (tn__lm_mlp){.activation = s->activation, .inner = inner};
    if (s->family->names[TN__LM_GATE_UP]) {
        mlp->gate_up =
            add(module, maker, path, s, TN__LM_GATE_UP, s->hidden, 2 * inner);
    } else {
        if (s->family->names[TN__LM_GATE])
            mlp->gate =
                add(module, maker, path, s, TN__LM_GATE, s->hidden, inner);
        mlp->up = add(module, maker, path, s, TN__LM_UP, s->hidden, inner);
    }
    mlp->down = add(module, maker, path, s, TN__LM_DOWN, inner, s->hidden);
    return mlp->down && !tn_error();
}

typedef struct mlp_module {
    tn_module base;
    tn__lm_mlp mlp;
} mlp_module;

static tn_tensor *forward(tn_module *self, tn_tensor *x)
{
    return tn__lm_mlp_run(&((mlp_module *)self)->mlp, x);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const tn__lm_mlp *mlp = &((const mlp_module *)self)->mlp;
    snprintf(text, room, "%s", tn__lm_activation_name(mlp->activation));
}

static const tn_module_class mlp_class = {.size = sizeof mlp_class,
                                          .name = "MLP",
                                          .bytes = sizeof(mlp_module),
                                          .forward = forward,
                                          .describe = describe};

tn_module *tn__lm_mlp_make(tn__lm_maker *maker, const char *path,
                           const tn__lm_spec *spec, int64_t inner)
{
    mlp_module *m = tn_module_new(&mlp_class);
    return m && tn__lm_mlp_init(&m->mlp, &m->base, maker, path, spec, inner)
               ? &m->base
               : NULL;
}

TN_OPTIONS_TYPE(tn_lm_mlp, "lm_mlp", "hidden, inner", TN_LM_MLP_OPTIONS_LIST)

tn_module *tn_lm_mlp_with(int64_t hidden, int64_t inner,
                          const tn_lm_mlp_options *options)
{
    extern const tn__lm_family tn__lm_llama;
    tn_lm_mlp_options o;
    if (tn_options_take(tn_lm_mlp_type(), &o, options) < 0)
        return NULL;
    tn__lm_activation activation = tn__lm_activation_of(o.activation);
    if (hidden < 1 || inner < 1 || hidden > INT32_MAX || inner > INT32_MAX ||
        activation == TN__LM_ACTIVATIONS) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "lm_mlp",
            activation == TN__LM_ACTIVATIONS   ? "activation"
            : hidden < 1 || hidden > INT32_MAX ? "hidden"
                                               : "inner",
            "hidden is %" PRId64 ", inner %" PRId64 " and activation "
            "\"%.60s\"; expected sizes of at least 1, and the activation "
            "\"silu\", \"gelu\", \"gelu_tanh\" or \"relu\"",
            hidden, inner, o.activation);
        return NULL;
    }
    tn__lm_spec s = {.family = &tn__lm_llama,
                     .hidden = hidden,
                     .activation = activation,
                     .mlp_bias = o.bias};
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(scope,
                           tn__lm_mlp_make(&(tn__lm_maker){0}, "", &s, inner));
}
