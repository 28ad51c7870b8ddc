/* nadam.c: Adam with Nesterov momentum (T. Dozat, "Incorporating Nesterov
 * Momentum into Adam", 2016), as torch.optim.NAdam. */
#include <optim/optim.h>

#include <math.h>

/* Returns the momentum of a step, which rises from beta1 / 2 to beta1. 0.96 is
 * the paper's constant. */
static double momentum_at(const tn__optim_group *group, double step)
{
    double decay = group->optim->options.nadam.momentum_decay;
    return group->rates.momentum * (1 - 0.5 * pow(0.96, step * decay));
}

/* next->memory holds the product of the momenta of all steps so far. */
static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_nadam_options *o = &group->optim->options.nadam;
    const tn__optim_rates *r = &group->rates;
    double steps = (double)next->steps;
    double mu = momentum_at(group, steps);
    double mu_next = momentum_at(group, steps + 1);
    double product = (next->steps == 1 ? 1 : next->memory) * mu;
    next->memory = product;
    bool decoupled = o->decoupled_weight_decay;
    number[0] = r->lr * (1 - mu) / (1 - product);
    number[1] = r->lr * mu_next / (1 - product * mu_next);
    number[2] = decoupled ? 0 : r->weight_decay;
    number[3] = decoupled ? 1 - r->lr * r->weight_decay : 1;
    number[4] = o->maximize ? -1 : 1;
    number[5] = 1 - r->momentum;
    number[6] = o->beta2;
    number[7] = 1 - o->beta2;
    number[8] = 1 - pow(o->beta2, steps);
    number[9] = o->eps;
}

static tn__optim_rule nadam = {
    .name = "optim_nadam",
    .text = "optim_nadam(param, grad, m, v; rate, rate_next, decay, keep, "
            "sign, share1, "
            "beta2, share2, correction, eps) = " TN__OPTIM_DIRECTION
            "let m1 = m + share1 * (d - m); "
            "let v1 = beta2 * v + share2 * d * d; "
            "let q = sqrt(v1 / correction) + eps; "
            "(keep * param - rate * d / q - rate_next * m1 / q, m1, v1)",
    .slots = 2,
    .slot_name = {"exp_avg", "exp_avg_sq"},
    .numbers = 10,
    .momentum = true,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_nadam, "optim_nadam", "parameters",
                TN_OPTIM_NADAM_OPTIONS_LIST)

tn_optim *tn_optim_nadam_with(tn_parameter_list *parameters,
                              const tn_optim_nadam_options *options)
{
    tn_optim_nadam_options o;
    if (tn_options_take(tn_optim_nadam_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_nadam", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_nadam", "beta1", o.beta1, 1) ||
        !tn__optim_check("optim_nadam", "beta2", o.beta2, 1) ||
        !tn__optim_check("optim_nadam", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_nadam", "weight_decay", o.weight_decay,
                         1e300) ||
        !tn__optim_check("optim_nadam", "momentum_decay", o.momentum_decay,
                         1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&nadam, parameters, o.lr, o.beta1, o.weight_decay);
    if (optim)
        optim->options.nadam = o;
    return optim;
}
