/* rprop.c: resilient backpropagation (Riedmiller and Braun, 1993), as
 * torch.optim.Rprop. Each element has a step size, which grows while the
 * gradient keeps its sign and shrinks when the sign changes. */
#include <optim/optim.h>

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    (void)next;
    const tn_optim_rprop_options *o = &group->optim->options.rprop;
    number[0] = o->maximize ? -1 : 1;
    number[1] = o->eta_minus;
    number[2] = o->eta_plus;
    number[3] = o->step_min;
    number[4] = o->step_max;
}

enum { PREVIOUS, STEP_SIZE };

static double initial(const tn__optim_group *group, int slot)
{
    return slot == STEP_SIZE ? group->rates.lr : 0;
}

/* If the gradient's sign changed, the element is not moved in this step, and
 * its gradient counts as 0 in the comparison of the next step. */
static tn__optim_rule rprop = {
    .name = "optim_rprop",
    .text =
        "optim_rprop(param, grad, prev, size; sign, minus, plus, low, high) = "
        "let d = sign * grad; let turn = d * prev; "
        "let eta = where(turn > 0, plus, where(turn < 0, minus, 1)); "
        "let size1 = min(max(size * eta, low), high); "
        "let d1 = where(turn < 0, 0, d); "
        "(param - where(d1 > 0, size1, where(d1 < 0, -size1, 0)), d1, size1)",
    .slots = 2,
    .slot_name = {[PREVIOUS] = "prev", [STEP_SIZE] = "step_size"},
    .numbers = 5,
    .numbers_of = numbers_of,
    .initial = initial,
};

TN_OPTIONS_TYPE(tn_optim_rprop, "optim_rprop", "parameters",
                TN_OPTIM_RPROP_OPTIONS_LIST)

tn_optim *tn_optim_rprop_with(tn_parameter_list *parameters,
                              const tn_optim_rprop_options *options)
{
    tn_optim_rprop_options o;
    if (tn_options_take(tn_optim_rprop_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check("optim_rprop", "lr", o.lr, 1e300) ||
        !tn__optim_check("optim_rprop", "step_min", o.step_min, 1e300) ||
        !tn__optim_check("optim_rprop", "step_max", o.step_max, 1e300))
        return NULL;
    if (!(0 < o.eta_minus && o.eta_minus < 1 && 1 < o.eta_plus)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_rprop",
            o.eta_minus > 0 && o.eta_minus < 1 ? "eta_plus" : "eta_minus",
            "eta_minus is %g, eta_plus %g; expected eta_minus in (0, 1) and "
            "eta_plus above 1",
            o.eta_minus, o.eta_plus);
        return NULL;
    }
    tn_optim *optim = tn__optim_new(&rprop, parameters, o.lr, 0, 0);
    if (optim)
        optim->options.rprop = o;
    return optim;
}
