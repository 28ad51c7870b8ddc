/* adam.c: Adam (arXiv:1412.6980) and AdamW (arXiv:1711.05101), computed in the
 * order of torch.optim. */
#include <optim/optim.h>

#include <math.h>

/* Scalar parameters of the kernels below: share1 is 1 - beta1, share2 is 1 -
 * beta2, keep is the factor of the parameter for decoupled weight decay
 * (AdamW), decay is weight decay that is added to the gradient (Adam), and root
 * is the square root of the second bias correction. */
#define MOMENTS                                                               \
    TN__OPTIM_DIRECTION                                                       \
    "let m1 = m + share1 * (d - m); "                                         \
    "let v1 = beta2 * v + share2 * d * d; "

#define NUMBERS                                                               \
    "rate, share1, beta2, share2, eps, root, decay, keep, sign"

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_adam_options *o = &group->optim->options.adam;
    const tn__optim_rates *r = &group->rates;
    bool decoupled = group->optim->rule->decoupled;
    double steps = (double)next->steps;
    number[0] = r->lr / (1 - pow(r->momentum, steps));
    number[1] = 1 - r->momentum;
    number[2] = o->beta2;
    number[3] = 1 - o->beta2;
    number[4] = o->eps;
    number[5] = sqrt(1 - pow(o->beta2, steps));
    number[6] = decoupled ? 0 : r->weight_decay;
    number[7] = decoupled ? 1 - r->lr * r->weight_decay : 1;
    number[8] = o->maximize ? -1 : 1;
}

#define PLAIN_TEXT(name)                                                      \
    name "(param, grad, m, v; " NUMBERS ") = " MOMENTS                        \
         "(keep * param - rate * (m1 / (sqrt(v1) / root + eps)), m1, v1)"
#define AMSGRAD_TEXT(name)                                                    \
    name "(param, grad, m, v, top; " NUMBERS ") = " MOMENTS                   \
         "let t1 = max(top, v1); "                                            \
         "(keep * param - rate * (m1 / (sqrt(t1) / root + eps)), m1, v1, t1)"

#define RULE(variable, rule_name, rule_text, slot_count, is_decoupled)         \
    static tn__optim_rule variable = {                                         \
        .name = rule_name,                                                     \
        .text = rule_text,                                                     \
        .slots = slot_count,                                                   \
        .slot_name = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},              \
        .numbers = 9,                                                          \
        .momentum = true,                                                      \
        .decoupled = is_decoupled,                                             \
        .numbers_of = numbers_of}

RULE(adam, "optim_adam", PLAIN_TEXT("optim_adam"), 2, false);
RULE(adam_amsgrad, "optim_adam", AMSGRAD_TEXT("optim_adam_amsgrad"), 3, false);
RULE(adamw, "optim_adamw", PLAIN_TEXT("optim_adamw"), 2, true);
RULE(adamw_amsgrad, "optim_adamw", AMSGRAD_TEXT("optim_adamw_amsgrad"), 3,
     true);

static tn_optim *make(tn_parameter_list *parameters, tn__optim_rule *plain,
                      tn__optim_rule *amsgrad, const tn_optim_adam_options *o)
{
    const char *name = plain->name;
    if (!tn__optim_check(name, "lr", o->lr, 1e300) ||
        !tn__optim_check(name, "beta1", o->beta1, 1) ||
        !tn__optim_check(name, "beta2", o->beta2, 1) ||
        !tn__optim_check(name, "eps", o->eps, 1e300) ||
        !tn__optim_check(name, "weight_decay", o->weight_decay, 1e300))
        return NULL;
    tn_optim *optim = tn__optim_new(o->amsgrad ? amsgrad : plain, parameters,
                                    o->lr, o->beta1, o->weight_decay);
    if (optim)
        optim->options.adam = *o;
    return optim;
}

TN_OPTIONS_TYPE(tn_optim_adam, "optim_adam", "parameters",
                TN_OPTIM_ADAM_OPTIONS_LIST)

tn_optim *tn_optim_adam_with(tn_parameter_list *parameters,
                             const tn_optim_adam_options *options)
{
    tn_optim_adam_options o;
    if (tn_options_take(tn_optim_adam_type(), &o, options) < 0)
        return NULL;
    return make(parameters, &adam, &adam_amsgrad, &o);
}

TN_OPTIONS_TYPE(tn_optim_adamw, "optim_adamw", "parameters",
                TN_OPTIM_ADAMW_OPTIONS_LIST)

tn_optim *tn_optim_adamw_with(tn_parameter_list *parameters,
                              const tn_optim_adamw_options *options)
{
    tn_optim_adamw_options o;
    if (tn_options_take(tn_optim_adamw_type(), &o, options) < 0)
        return NULL;
    return make(parameters, &adamw, &adamw_amsgrad,
                &(tn_optim_adam_options){.lr = o.lr,
                                         .beta1 = o.beta1,
                                         .beta2 = o.beta2,
                                         .eps = o.eps,
                                         .weight_decay = o.weight_decay,
                                         .amsgrad = o.amsgrad,
                                         .maximize = o.maximize});
}
