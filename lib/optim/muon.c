/* muon.c: Muon (K. Jordan, "Muon: An optimizer for hidden layers in neural
 * networks", 2024), as torch.optim.Muon: a momentum step whose update matrix is
 * made approximately orthogonal. */
#include <optim/optim.h>

#include <math.h>
#include <tenon/ops.h>

/* Coefficients of the quintic Newton-Schulz iteration, which replaces x by A x
 * + (B g + C g g) x with g = x x^T. Jordan tuned them so that the singular
 * values of x approach 1 in few iterations. */
#define A 3.4445
#define B (-4.7750)
#define C 2.0315

enum { MOMENTUM, NESTEROV, KEEP, RATE };

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    (void)next;
    const tn_optim_muon_options *o = &group->optim->options.muon;
    number[MOMENTUM] = group->rates.momentum;
    number[NESTEROV] = o->nesterov;
    number[KEEP] = 1 - group->rates.lr * group->rates.weight_decay;
    number[RATE] = group->rates.lr;
}

/* Rounds x to bfloat16, the dtype in which PyTorch iterates, but returns it in
 * float32. Matrix products of such values are summed in float32 and rounded to
 * bfloat16 only at the end. */
static tn_tensor *rounded(tn_tensor *x)
{
    static const tn_op *defined;
    const tn_op *op =
        tn_op_define_once("optim_muon_round(x) = f32(bf16(x))", &defined);
    return op ? tn_op_apply(op, &x, NULL) : NULL;
}

/* Returns first * x + second * y, rounded to bfloat16. */
static tn_tensor *blend(double first, tn_tensor *x, double second,
                        tn_tensor *y)
{
    static const tn_op *defined;
    const tn_op *op =
        tn_op_define_once("optim_muon_blend(x, y; first, second) = "
                          "f32(bf16(first * x + second * y))", &defined);
    return op ? tn_op_apply(op, (tn_tensor *[]){x, y},
                            (double[]){first, second})
              : NULL;
}

static tn_tensor *orthogonal(tn_tensor *update, double eps, int iterations)
{
    bool tall = tn_tensor_size(update, 0) > tn_tensor_size(update, 1);
    tn_tensor *x = rounded(tall ? tn_t(update) : update);
    tn_tensor *norm = rounded(tn_sqrt(tn_sum(tn_square(x))));
    x = rounded(tn_div(x, tn_clamp_min_scalar(norm, eps)));
    for (int i = 0; i < iterations; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *gram = rounded(tn_matmul(x, tn_t(x)));
        tn_tensor *more = blend(B, gram, C, tn_matmul(gram, gram));
        x = tn_scope_result(scope, blend(A, x, 1, tn_matmul(more, x)));
    }
    return tall ? tn_t(x) : x;
}

static void numbers_for(const tn__optim_group *group, const tn_tensor *p,
                        double *number)
{
    const tn_optim_muon_options *o = &group->optim->options.muon;
    double rows = (double)tn_tensor_size(p, 0);
    double columns = (double)tn_tensor_size(p, 1);
    number[RATE] *= o->match_rms_adamw ? 0.2 * sqrt(fmax(rows, columns))
                                       : sqrt(fmax(1, rows / columns));
}

static tn_status step(const tn__optim_group *group, tn__optim_state *state,
                      const double *number, tn_tensor *p, tn_tensor *g)
{
    static const tn_op *momentum_op, *apply_op;
    const tn_optim_muon_options *o = &group->optim->options.muon;
    /* Tensors are changed in place only after everything that can fail has
     * succeeded. */
    const tn_op *momentum = tn_op_define_once(
        "optim_muon_momentum(grad, b; momentum, nesterov) = "
        "let b1 = b + (1 - momentum) * (grad - b); "
        "(where(nesterov != 0, grad + momentum * (b1 - grad), b1), b1)",
        &momentum_op);
    const tn_op *apply = tn_op_define_once(
        "optim_muon_apply(param, u; keep, rate) = keep * param - rate * u",
        &apply_op);
    if (!momentum || !apply)
        return tn_error_code();

    tn_value value[4] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = g},
        {.kind = TN_VALUE_TENSOR, .of.tensor = state->slot[0]},
        tn__optim_number(&number[MOMENTUM]),
        tn__optim_number(&number[NESTEROV])};
    tn_tensor *moved[2];
    if (tn_op_call(momentum, value, 4, moved, 2) < 0)
        return tn_error_code();
    tn_tensor *update = orthogonal(moved[0], o->eps, o->ns_steps);
    update = tn_to_dtype(update, tn_tensor_dtype(p));
    if (!update)
        return tn_error_code();

    value[0].of.tensor = p;
    value[1].of.tensor = update;
    value[2] = tn__optim_number(&number[KEEP]);
    value[3] = tn__optim_number(&number[RATE]);
    tn_status status = tn_op_call_into(apply, value, 4, &p, 1);
    if (status >= 0 && !tn_copy_(state->slot[0], moved[1]))
        status = tn_error_code();
    return status;
}

static tn_status matrices_only(const tn_parameter_list *list, const char *call)
{
    for (int i = 0; i < tn_parameters_count(list); i++) {
        int ndim = tn_tensor_ndim(tn_parameters_at(list, i));
        if (ndim != 2)
            return tn_error_refuse_argument(
                TN_ERR_SHAPE, call, "parameters",
                "parameter \"%s\" has %d dimension%s; Muon supports only "
                "matrices: give other parameters to tn_optim_adamw",
                tn_parameters_name(list, i), ndim, ndim == 1 ? "" : "s");
    }
    return TN_OK;
}

static tn__optim_rule muon = {
    .name = "optim_muon",
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .momentum = true,
    .numbers_of = numbers_of,
    .numbers_for = numbers_for,
    .step = step,
    .accepts = matrices_only,
};

TN_OPTIONS_TYPE(tn_optim_muon, "optim_muon", "parameters",
                TN_OPTIM_MUON_OPTIONS_LIST)

tn_optim *tn_optim_muon_with(tn_parameter_list *parameters,
                             const tn_optim_muon_options *options)
{
    tn_optim_muon_options o;
    if (tn_options_take(tn_optim_muon_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_muon", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_muon", "weight_decay", o.weight_decay, 1e300) ||
        !tn__optim_check("optim_muon", "momentum", o.momentum, 1e300) ||
        !tn__optim_check("optim_muon", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_muon", "ns_steps", o.ns_steps, 100))
        return NULL;
    tn_optim *optim = tn__optim_new(&muon, parameters, o.lr, o.momentum,
                                    o.weight_decay);
    if (optim)
        optim->options.muon = o;
    return optim;
}
