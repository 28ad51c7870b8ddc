/* adamax.c: Adam with the infinity norm (arXiv:1412.6980, section 7.1), as
 * torch.optim.Adamax. */
#include <optim/optim.h>

#include <math.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_adamax_options *o = &group->optim->options.adamax;
    const tn__optim_rates *r = &group->rates;
    number[0] = r->lr / (1 - pow(r->momentum, (double)next->steps));
    number[1] = r->weight_decay;
    number[2] = o->maximize ? -1 : 1;
    number[3] = 1 - r->momentum;
    number[4] = o->beta2;
    number[5] = o->eps;
}

static tn__optim_rule adamax = {
    .name = "optim_adamax",
    .text = "optim_adamax(param, grad, m, u; rate, decay, sign, share, beta2, "
            "eps) = " TN__OPTIM_DIRECTION "let m1 = m + share * (d - m); "
            "let u1 = max(beta2 * u, abs(d) + eps); "
            "(param - rate * m1 / u1, m1, u1)",
    .slots = 2,
    .slot_name = {"exp_avg", "exp_inf"},
    .numbers = 6,
    .momentum = true,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_adamax, "optim_adamax", "parameters",
                TN_OPTIM_ADAMAX_OPTIONS_LIST)

tn_optim *tn_optim_adamax_with(tn_parameter_list *parameters,
                               const tn_optim_adamax_options *options)
{
    tn_optim_adamax_options o;
    if (tn_options_take(tn_optim_adamax_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_adamax", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_adamax", "beta1", o.beta1, 1) ||
        !tn__optim_check("optim_adamax", "beta2", o.beta2, 1) ||
        !tn__optim_check("optim_adamax", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_adamax", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&adamax, parameters, o.lr, o.beta1, o.weight_decay);
    if (optim)
        optim->options.adamax = o;
    return optim;
}
