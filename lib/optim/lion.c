/* lion.c: Lion (arXiv:2302.06675, algorithm 2). A step goes along the sign of a
 * momentum, and weight decay is decoupled. Operations are in the order of the
 * authors' lion_pytorch.py (github.com/google/automl). */
#include <optim/optim.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    (void)next;
    const tn_optim_lion_options *o = &group->optim->options.lion;
    const tn__optim_rates *r = &group->rates;
    number[0] = r->lr;
    number[1] = r->momentum;
    number[2] = 1 - r->momentum;
    number[3] = o->beta2;
    number[4] = 1 - o->beta2;
    number[5] = 1 - r->lr * r->weight_decay;
    number[6] = o->maximize ? -1 : 1;
}

static tn__optim_rule lion = {
    .name = "optim_lion",
    .text =
        "optim_lion(param, grad, m; rate, beta1, share1, beta2, share2, keep, "
        "sign) = let d = sign * grad; let c = beta1 * m + share1 * d; "
        "(keep * param - where(c > 0, rate, where(c < 0, -rate, 0)), "
        "beta2 * m + share2 * d)",
    .slots = 1,
    .slot_name = {"exp_avg"},
    .numbers = 7,
    .momentum = true,
    .decoupled = true,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_lion, "optim_lion", "parameters",
                TN_OPTIM_LION_OPTIONS_LIST)

tn_optim *tn_optim_lion_with(tn_parameter_list *parameters,
                             const tn_optim_lion_options *options)
{
    tn_optim_lion_options o;
    if (tn_options_take(tn_optim_lion_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_lion", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_lion", "beta1", o.beta1, 1) ||
        !tn__optim_check("optim_lion", "beta2", o.beta2, 1) ||
        !tn__optim_check("optim_lion", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&lion, parameters, o.lr, o.beta1, o.weight_decay);
    if (optim)
        optim->options.lion = o;
    return optim;
}
