/* layerwise.c: LARS (arXiv:1708.03888, algorithm 1) and LAMB (arXiv:1904.00962,
 * algorithm 2): the learning rate of each parameter is scaled by a quotient of
 * the 2-norms of the parameter and of its update. If a norm is 0, it is not
 * scaled. */
#include <optim/optim.h>

#include <math.h>
#include <tenon/ops.h>

static tn_value tensor_value(tn_tensor *x)
{
    return (tn_value){.kind = TN_VALUE_TENSOR, .of.tensor = x};
}

/* ---- LARS --------------------------------------------------------------- */

enum { LARS_NUMBERS = 6 };

static void lars_numbers(const tn__optim_group *group, tn__optim_progress *next,
                         double *number)
{
    (void)next;
    const tn_optim_lars_options *o = &group->optim->options.lars;
    number[0] = group->rates.lr;
    number[1] = group->rates.weight_decay;
    number[2] = group->rates.momentum;
    number[3] = o->trust_coefficient;
    number[4] = o->eps;
    number[5] = o->maximize ? -1 : 1;
}

static tn_status lars_step(const tn__optim_group *group, tn__optim_state *state,
                           const double *number, tn_tensor *p, tn_tensor *g)
{
    (void)group;
    static const tn_op *defined;
    const tn_op *op = tn_op_define_once(
        "optim_lars(param, grad, b, pnorm, gnorm; rate, decay, momentum, "
        "trust, eps, sign) = " TN__OPTIM_DIRECTION
        "let local = where((pnorm > 0) & (gnorm > 0), "
        "trust * pnorm / (gnorm + decay * pnorm + eps), 1); "
        "let b1 = momentum * b + rate * local * d; "
        "(like(param - b1, param), like(b1, b))",
        &defined);
    tn_tensor *pnorm = tn__optim_norm(p), *gnorm = tn__optim_norm(g);
    if (!op || !pnorm || !gnorm)
        return tn_error_code();
    tn_value value[5 + LARS_NUMBERS] = {
        tensor_value(p), tensor_value(g), tensor_value(state->slot[0]),
        tensor_value(pnorm), tensor_value(gnorm)};
    for (int i = 0; i < LARS_NUMBERS; i++)
        value[5 + i] = tn__optim_number(&number[i]);
    tn_tensor *out[] = {p, state->slot[0]};
    return tn_op_call_into(op, value, 5 + LARS_NUMBERS, out, 2);
}

static tn__optim_rule lars = {
    .name = "optim_lars",
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .momentum = true,
    .numbers_of = lars_numbers,
    .step = lars_step,
};

TN_OPTIONS_TYPE(tn_optim_lars, "optim_lars", "parameters",
                TN_OPTIM_LARS_OPTIONS_LIST)

tn_optim *tn_optim_lars_with(tn_parameter_list *parameters,
                             const tn_optim_lars_options *options)
{
    tn_optim_lars_options o;
    if (tn_options_take(tn_optim_lars_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_lars", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_lars", "momentum", o.momentum, 1e300) ||
        !tn__optim_check("optim_lars", "weight_decay", o.weight_decay, 1e300) ||
        !tn__optim_check("optim_lars", "trust_coefficient", o.trust_coefficient,
                         1e300) ||
        !tn__optim_check("optim_lars", "eps", o.eps, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&lars, parameters, o.lr, o.momentum, o.weight_decay);
    if (optim)
        optim->options.lars = o;
    return optim;
}

/* ---- LAMB --------------------------------------------------------------- */

enum {
    BETA1,
    SHARE1,
    BETA2,
    SHARE2,
    CORRECT1,
    CORRECT2,
    EPS,
    DECAY,
    SIGN,
    RATE /* not a number of the first kernel */
};

static void lamb_numbers(const tn__optim_group *group, tn__optim_progress *next,
                         double *number)
{
    const tn_optim_lamb_options *o = &group->optim->options.lamb;
    const double steps = (double)next->steps, beta1 = group->rates.momentum;
    number[BETA1] = beta1;
    number[SHARE1] = 1 - beta1;
    number[BETA2] = o->beta2;
    number[SHARE2] = 1 - o->beta2;
    number[CORRECT1] = 1 - pow(beta1, steps);
    number[CORRECT2] = 1 - pow(o->beta2, steps);
    number[EPS] = o->eps;
    number[DECAY] = group->rates.weight_decay;
    number[SIGN] = o->maximize ? -1 : 1;
    number[RATE] = group->rates.lr;
}

/* Changes tensors in place only after everything that can fail has
 * succeeded. */
static tn_status lamb_step(const tn__optim_group *group, tn__optim_state *state,
                           const double *number, tn_tensor *p, tn_tensor *g)
{
    (void)group;
    static const tn_op *update_op, *apply_op;
    const tn_op *update = tn_op_define_once(
        "optim_lamb_update(param, grad, m, v; beta1, share1, beta2, share2, "
        "correct1, correct2, eps, decay, sign) = let d = sign * grad; "
        "let m1 = beta1 * m + share1 * d; let v1 = beta2 * v + share2 * d * d; "
        "let r = m1 / correct1 / (sqrt(v1 / correct2) + eps); "
        "(where(decay == 0, r, r + decay * param), m1, v1)",
        &update_op);
    const tn_op *apply = tn_op_define_once(
        "optim_lamb_apply(param, u, pnorm, unorm; rate) = "
        "let ratio = where((pnorm > 0) & (unorm > 0), pnorm / unorm, 1); "
        "like(param - rate * ratio * u, param)",
        &apply_op);
    if (!update || !apply)
        return tn_error_code();
    tn_value value[4 + RATE] = {tensor_value(p), tensor_value(g),
                                        tensor_value(state->slot[0]),
                                        tensor_value(state->slot[1])};
    for (int i = 0; i < RATE; i++)
        value[4 + i] = tn__optim_number(&number[i]);
    tn_tensor *next[3];
    if (tn_op_call(update, value, 4 + RATE, next, 3) < 0)
        return tn_error_code();
    tn_tensor *pnorm = tn__optim_norm(p), *unorm = tn__optim_norm(next[0]);
    if (!pnorm || !unorm)
        return tn_error_code();
    value[1] = tensor_value(next[0]);
    value[2] = tensor_value(pnorm);
    value[3] = tensor_value(unorm);
    value[4] = tn__optim_number(&number[RATE]);
    if (tn_op_call_into(apply, value, 5, &p, 1) < 0 ||
        !tn_copy_(state->slot[0], next[1]) ||
        !tn_copy_(state->slot[1], next[2]))
        return tn_error_code();
    return TN_OK;
}

static tn__optim_rule lamb = {
    .name = "optim_lamb",
    .slots = 2,
    .slot_name = {"exp_avg", "exp_avg_sq"},
    .momentum = true,
    .numbers_of = lamb_numbers,
    .step = lamb_step,
};

TN_OPTIONS_TYPE(tn_optim_lamb, "optim_lamb", "parameters",
                TN_OPTIM_LAMB_OPTIONS_LIST)

tn_optim *tn_optim_lamb_with(tn_parameter_list *parameters,
                             const tn_optim_lamb_options *options)
{
    tn_optim_lamb_options o;
    if (tn_options_take(tn_optim_lamb_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_lamb", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_lamb", "beta1", o.beta1, 1) ||
        !tn__optim_check("optim_lamb", "beta2", o.beta2, 1) ||
        !tn__optim_check("optim_lamb", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_lamb", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&lamb, parameters, o.lr, o.beta1, o.weight_decay);
    if (optim)
        optim->options.lamb = o;
    return optim;
}
