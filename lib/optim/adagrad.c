/* adagrad.c: Adagrad, as torch.optim.Adagrad. */
#include <optim/optim.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_adagrad_options *o = &group->optim->options.adagrad;
    number[0] =
        group->rates.lr / (1 + (double)(next->steps - 1) * o->lr_decay);
    number[1] = group->rates.weight_decay;
    number[2] = o->maximize ? -1 : 1;
    number[3] = o->eps;
}

static double initial(const tn__optim_group *group, int slot)
{
    (void)slot;
    return group->optim->options.adagrad.initial_accumulator_value;
}

static tn__optim_rule adagrad = {
    .name = "optim_adagrad",
    .text = "optim_adagrad(param, grad, s; lr, decay, sign, eps) "
            "= " TN__OPTIM_DIRECTION
            "let s1 = s + d * d; (param - lr * d / (sqrt(s1) + eps), s1)",
    .slots = 1,
    .slot_name = {"sum"},
    .numbers = 4,
    .numbers_of = numbers_of,
    .initial = initial,
};

TN_OPTIONS_TYPE(tn_optim_adagrad, "optim_adagrad", "parameters",
                TN_OPTIM_ADAGRAD_OPTIONS_LIST)

tn_optim *tn_optim_adagrad_with(tn_parameter_list *parameters,
                                const tn_optim_adagrad_options *options)
{
    tn_optim_adagrad_options o;
    if (tn_options_take(tn_optim_adagrad_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_adagrad", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_adagrad", "lr_decay", o.lr_decay, 1e300) ||
        !tn__optim_check("optim_adagrad", "weight_decay", o.weight_decay,
                         1e300) ||
        !tn__optim_check("optim_adagrad", "initial_accumulator_value",
                         o.initial_accumulator_value, 1e300) ||
        !tn__optim_check("optim_adagrad", "eps", o.eps, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&adagrad, parameters, o.lr, 0, o.weight_decay);
    if (optim)
        optim->options.adagrad = o;
    return optim;
}
