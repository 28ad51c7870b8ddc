/* sgd.c: stochastic gradient descent, as torch.optim.SGD. */
#include "optim.h"

static void plain_numbers(const tn__optim_group *group,
                          tn__optim_progress *next, double *number)
{
    (void)next;
    number[0] = group->rates.lr;
    number[1] = group->rates.weight_decay;
    number[2] = group->optim->options.sgd.maximize ? -1 : 1;
}

static tn__optim_rule plain = {
    .name = "SGD",
    .text = "optim_sgd(param, grad; lr, decay, sign) = " TN__OPTIM_DIRECTION
            "param - lr * d",
    .numbers = 3,
    .numbers_of = plain_numbers,
};

static void momentum_numbers(const tn__optim_group *group,
                             tn__optim_progress *next, double *number)
{
    const tn_optim_sgd_options *o = &group->optim->options.sgd;
    plain_numbers(group, next, number);
    number[3] = group->rates.momentum;
    /* The first step takes the gradient whole. */
    number[4] = next->steps == 1 ? 1 : 1 - o->dampening;
    number[5] = o->nesterov;
}

static tn__optim_rule momentum = {
    .name = "SGD",
    .text = "optim_sgd_momentum(param, grad, b; lr, decay, sign, momentum, share, "
            "nesterov) = " TN__OPTIM_DIRECTION
            "let b1 = momentum * b + share * d; "
            "let s = where(nesterov != 0, d + momentum * b1, b1); "
            "(param - lr * s, b1)",
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .numbers = 6,
    .momentum = true,
    .numbers_of = momentum_numbers,
};

tn_optim *tn_optim_sgd_with(tn_parameter_list *parameters,
                            const tn_optim_sgd_options *options)
{
    tn_optim_sgd_options o = {.size = sizeof o};
    tn__optim_take_options(&o, sizeof o, options);
    tn__optim_default(&o.lr, 1e-3);
    if (!tn__optim_check("SGD", "lr", o.lr, 1e300) ||
        !tn__optim_check("SGD", "momentum", o.momentum, 1e300) ||
        !tn__optim_check("SGD", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "SGD: nesterov needs a momentum and no dampening");
        return NULL;
    }
    tn_optim *optim =
        tn__optim_new(o.momentum != 0 ? &momentum : &plain, parameters, o.lr,
                      o.momentum, o.weight_decay);
    if (optim)
        optim->options.sgd = o;
    return optim;
}
