/* sgd.c: stochastic gradient descent, as torch.optim.SGD. */
#include <optim/optim.h>

static void plain_numbers(const tn__optim_group *group,
                          tn__optim_progress *next, double *number)
{
    (void)next;
    number[0] = group->rates.lr;
    number[1] = group->rates.weight_decay;
    number[2] = group->optim->options.sgd.maximize ? -1 : 1;
}

static tn__optim_rule plain = {
    .name = "optim_sgd",
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
    /* The first step has no dampening. */
    number[4] = next->steps == 1 ? 1 : 1 - o->dampening;
}

#define MOMENTUM(rule, kernel, direction)                                      \
    static tn__optim_rule rule = {                                             \
        .name = "optim_sgd",                                                   \
        .text = kernel "(param, grad, b; lr, decay, sign, momentum, share) "   \
                       "= " TN__OPTIM_DIRECTION                                \
                       "let b1 = momentum * b + share * d; "                   \
                       "(param - lr * (" direction "), b1)",                   \
        .slots = 1,                                                            \
        .slot_name = {"momentum_buffer"},                                      \
        .numbers = 5,                                                          \
        .momentum = true,                                                      \
        .numbers_of = momentum_numbers,                                        \
    }
MOMENTUM(momentum, "optim_sgd_momentum", "b1");
MOMENTUM(nesterov, "optim_sgd_nesterov", "d + momentum * b1");

TN_OPTIONS_TYPE(tn_optim_sgd, "optim_sgd", "parameters",
                TN_OPTIM_SGD_OPTIONS_LIST)

tn_optim *tn_optim_sgd_with(tn_parameter_list *parameters,
                            const tn_optim_sgd_options *options)
{
    tn_optim_sgd_options o;
    if (tn_options_take(tn_optim_sgd_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_sgd", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_sgd", "momentum", o.momentum, 1e300) ||
        !tn__optim_check("optim_sgd", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    const tn_option_need need[] = {
        {"dampening", o.momentum != 0, "without momentum", "give momentum"},
        {"nesterov", o.momentum != 0, "without momentum", "give momentum"}};
    if (tn_options_check_needs(tn_optim_sgd_type(), &o, need, 2) < 0)
        return NULL;
    if (o.nesterov && o.dampening != 0) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_sgd", "nesterov",
            "nesterov requires dampening 0, but dampening is %g",
            o.dampening);
        return NULL;
    }
    tn_optim *optim =
        tn__optim_new(o.nesterov        ? &nesterov
                      : o.momentum != 0 ? &momentum
                                        : &plain,
                      parameters, o.lr, o.momentum, o.weight_decay);
    if (optim)
        optim->options.sgd = o;
    return optim;
}
