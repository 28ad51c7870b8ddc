/* rmsprop.c: RMSprop, as torch.optim.RMSprop. Momentum and centering each add a
 * tensor of state. The four kernels, with and without each, are built from the
 * strings below. */
#include <optim/optim.h>

#define NUMBERS "lr, decay, sign, alpha, share, eps"
#define SQUARES TN__OPTIM_DIRECTION "let v1 = alpha * v + share * d * d; "
#define PLAIN "let avg = sqrt(v1) + eps; "
/* v1 - m1 * m1 can become negative by rounding, which gives NaN, as in
 * PyTorch. */
#define CENTERED                                                              \
    "let m1 = m + share * (d - m); let avg = sqrt(v1 - m1 * m1) + eps; "
#define MOMENTUM "let b1 = momentum * b + d / avg; "

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    (void)next;
    const tn_optim_rmsprop_options *o = &group->optim->options.rmsprop;
    number[0] = group->rates.lr;
    number[1] = group->rates.weight_decay;
    number[2] = o->maximize ? -1 : 1;
    number[3] = o->alpha;
    number[4] = 1 - o->alpha;
    number[5] = o->eps;
    number[6] = group->rates.momentum;
}

static tn__optim_rule rules[2][2] = {
    {{.name = "optim_rmsprop",
      .text = "optim_rmsprop(param, grad, v; " NUMBERS ") = " SQUARES PLAIN
              "(param - lr * d / avg, v1)",
      .slots = 1,
      .slot_name = {"square_avg"},
      .numbers = 6,
      .numbers_of = numbers_of},
     {.name = "optim_rmsprop",
      .text = "optim_rmsprop_centered(param, grad, v, m; " NUMBERS
              ") = " SQUARES CENTERED "(param - lr * d / avg, v1, m1)",
      .slots = 2,
      .slot_name = {"square_avg", "grad_avg"},
      .numbers = 6,
      .numbers_of = numbers_of}},
    {{.name = "optim_rmsprop",
      .text =
          "optim_rmsprop_momentum(param, grad, v, b; " NUMBERS
          ", momentum) = " SQUARES PLAIN MOMENTUM "(param - lr * b1, v1, b1)",
      .slots = 2,
      .slot_name = {"square_avg", "momentum_buffer"},
      .numbers = 7,
      .momentum = true,
      .numbers_of = numbers_of},
     {.name = "optim_rmsprop",
      .text = "optim_rmsprop_momentum_centered(param, grad, v, b, m; " NUMBERS
              ", momentum) = " SQUARES CENTERED MOMENTUM
              "(param - lr * b1, v1, b1, m1)",
      .slots = 3,
      .slot_name = {"square_avg", "momentum_buffer", "grad_avg"},
      .numbers = 7,
      .momentum = true,
      .numbers_of = numbers_of}},
};

TN_OPTIONS_TYPE(tn_optim_rmsprop, "optim_rmsprop", "parameters",
                TN_OPTIM_RMSPROP_OPTIONS_LIST)

tn_optim *tn_optim_rmsprop_with(tn_parameter_list *parameters,
                                const tn_optim_rmsprop_options *options)
{
    tn_optim_rmsprop_options o;
    if (tn_options_take(tn_optim_rmsprop_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_rmsprop", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_rmsprop", "alpha", o.alpha, 1e300) ||
        !tn__optim_check("optim_rmsprop", "eps", o.eps, 1e300) ||
        !tn__optim_check("optim_rmsprop", "weight_decay", o.weight_decay,
                         1e300) ||
        !tn__optim_check("optim_rmsprop", "momentum", o.momentum, 1e300))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&rules[o.momentum != 0][o.centered], parameters, o.lr,
                      o.momentum, o.weight_decay);
    if (optim)
        optim->options.rmsprop = o;
    return optim;
}
