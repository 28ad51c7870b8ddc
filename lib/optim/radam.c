/* radam.c: rectified Adam (arXiv:1908.03265), as torch.optim.RAdam. In the
 * first steps, while rho (the length of the moving average, as the paper
 * defines it) is at most 5, a step does not use the second moment. */
#include <optim/optim.h>

#include <math.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_radam_options *o = &group->optim->options.radam;
    const tn__optim_rates *r = &group->rates;
    double steps = (double)next->steps, power = pow(o->beta2, steps);
    double limit = 2 / (1 - o->beta2) - 1;
    double rho = limit - 2 * steps * power / (1 - power);
    bool rectified = rho > 5;
    bool decoupled = o->decoupled_weight_decay;
    number[0] = r->lr / (1 - pow(r->momentum, steps));
    number[1] = rectified;
    number[2] = rectified ? sqrt(1 - power) *
                                sqrt((rho - 4) * (rho - 2) * limit /
                                     ((limit - 4) * (limit - 2) * rho))
                          : 1;
    number[3] = decoupled ? 0 : r->weight_decay;
    number[4] = decoupled ? 1 - r->lr * r->weight_decay : 1;
    number[5] = o->maximize ? -1 : 1;
    number[6] = 1 - r->momentum;
    number[7] = o->beta2;
    number[8] = 1 - o->beta2;
    number[9] = o->eps;
}

static tn__optim_rule radam = {
    .name = "optim_radam",
    .text = "optim_radam(param, grad, m, v; rate, rectified, factor, decay, "
            "keep, sign, "
            "share1, beta2, share2, eps) = " TN__OPTIM_DIRECTION
            "let m1 = m + share1 * (d - m); "
            "let v1 = beta2 * v + share2 * d * d; "
            "let q = where(rectified != 0, factor / (sqrt(v1) + eps), factor); "
            "(keep * param - rate * m1 * q, m1, v1)",
    .slots = 2,
    .slot_name = {"exp_avg", "exp_avg_sq"},
    .numbers = 10,
    .momentum = true,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_radam, "optim_radam", "parameters",
                TN_OPTIM_RADAM_OPTIONS_LIST)

tn_optim *tn_optim_radam_with(tn_parameter_list *parameters,
                              const tn_optim_radam_options *options)
{
    tn_optim_radam_options o;
    if (tn_options_take(tn_optim_radam_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_radam", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_radam", "beta1", o.beta1, 1) ||
        !tn__optim_check("optim_radam", "beta2", o.beta2, 1) ||
        !tn__optim_check("optim_radam", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_radam", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&radam, parameters, o.lr, o.beta1, o.weight_decay);
    if (optim)
        optim->options.radam = o;
    return optim;
}
