/* adadelta.c: Adadelta (arXiv:1212.5701), as torch.optim.Adadelta. */
#include <optim/optim.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    (void)next;
    const tn_optim_adadelta_options *o = &group->optim->options.adadelta;
    number[0] = group->rates.lr;
    number[1] = group->rates.weight_decay;
    number[2] = o->maximize ? -1 : 1;
    number[3] = o->rho;
    number[4] = 1 - o->rho;
    number[5] = o->eps;
}

static tn__optim_rule adadelta = {
    .name = "optim_adadelta",
    .text = "optim_adadelta(param, grad, v, a; lr, decay, sign, rho, share, "
            "eps) = " TN__OPTIM_DIRECTION "let v1 = rho * v + share * d * d; "
            "let s = sqrt(a + eps) / sqrt(v1 + eps) * d; "
            "(param - lr * s, v1, rho * a + share * s * s)",
    .slots = 2,
    .slot_name = {"square_avg", "acc_delta"},
    .numbers = 6,
    .numbers_of = numbers_of,
};

TN_OPTIONS_TYPE(tn_optim_adadelta, "optim_adadelta", "parameters",
                TN_OPTIM_ADADELTA_OPTIONS_LIST)

tn_optim *tn_optim_adadelta_with(tn_parameter_list *parameters,
                                 const tn_optim_adadelta_options *options)
{
    tn_optim_adadelta_options o;
    if (tn_options_take(tn_optim_adadelta_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_adadelta", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_adadelta", "rho", o.rho, 1) ||
        !tn__optim_check("optim_adadelta", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_adadelta", "weight_decay", o.weight_decay,
                         1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&adadelta, parameters, o.lr, 0, o.weight_decay);
    if (optim)
        optim->options.adadelta = o;
    return optim;
}
