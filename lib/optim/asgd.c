/* asgd.c: averaged stochastic gradient descent (Polyak and Juditsky, 1992), as
 * torch.optim.ASGD. tn_optim_save writes the average as state "ax". */
#include <optim/optim.h>

#include <math.h>

/* next->memory holds the step size (eta) of the next step. As in PyTorch, a
 * step computes it from the learning rate of the current step. */
static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_asgd_options *o = &group->optim->options.asgd;
    double lr = group->rates.lr, steps = (double)next->steps;
    double eta = next->steps == 1 ? lr : next->memory;
    next->memory = lr / pow(1 + o->lambd * lr * steps, o->alpha);
    number[0] = eta;
    number[1] = 1 - o->lambd * eta;
    number[2] = next->steps == 1 ? 1 : 1 / fmax(1, steps - 1 - o->t0);
    number[3] = group->rates.weight_decay;
    number[4] = o->maximize ? -1 : 1;
}

static tn__optim_rule asgd = {
    .name = "optim_asgd",
    .text = "optim_asgd(param, grad, a; eta, keep, share, decay, sign) "
            "= " TN__OPTIM_DIRECTION "let p1 = keep * param - eta * d; "
            "(p1, where(share == 1, p1, a + share * (p1 - a)))",
    .slots = 1,
    .slot_name = {"ax"},
    .numbers = 5,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_asgd, "optim_asgd", "parameters",
                TN_OPTIM_ASGD_OPTIONS_LIST)

tn_optim *tn_optim_asgd_with(tn_parameter_list *parameters,
                             const tn_optim_asgd_options *options)
{
    tn_optim_asgd_options o;
    if (tn_options_take(tn_optim_asgd_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_asgd", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_asgd", "lambd", o.lambd, 1e300) ||
        !tn__optim_check("optim_asgd", "alpha", o.alpha, 1e300) ||
        !tn__optim_check("optim_asgd", "t0", o.t0, 1e300) ||
        !tn__optim_check("optim_asgd", "weight_decay", o.weight_decay, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&asgd, parameters, o.lr, 0, o.weight_decay);
    if (optim)
        optim->options.asgd = o;
    return optim;
}
