/* optim.c: optimizers, their parameter groups and the kernels of their rules. */
#include <optim/optim.h>

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/graph.h>

/* ---- making ------------------------------------------------------------- */

static void group_release(void *object)
{
    tn__optim_group *group = object;
    for (int i = 0; i < tn_parameters_count(group->parameters); i++) {
        for (int k = 0; k < TN__OPTIM_SLOTS; k++)
            tn_drop(group->state[i].slot[k]);
    }
    tn_drop(group->parameters);
    tn_drop(group->next);
}

static const tn_object_class group_class = {
    sizeof group_class, "parameter group", sizeof(tn__optim_group),
    group_release};

static void optim_release(void *object)
{
    tn_optim *optim = object;
    tn_drop(optim->first);
    tn_drop(optim->history);
    tn_drop(optim->found);
    if (optim->release)
        optim->release(optim->context);
}

static const tn_object_class optim_class = {
    sizeof optim_class, "optimizer", sizeof(tn_optim), optim_release};

bool tn__optim_is(const tn_optim *optim, const char *call)
{
    return tn_object_check(optim, &optim_class, call, "optim");
}

bool tn__optim_is_list(const tn_parameter_list *list, const char *call)
{
    return tn_object_check_kind(list, "parameter list", call, "parameters");
}

/* Returns the index of a scalar parameter in a kernel's parameter list, which
 * follows the ';' in its source text. */
static int number_index(const char *text, const char *name)
{
    const char *end = strstr(text, name);
    int place = 0;
    for (const char *c = strchr(text, ';'); c < end; c++)
        place += *c == ',';
    return place;
}

/* Defines a second kernel for steps without weight decay and maximization, if
 * the rule's kernel begins with TN__OPTIM_DIRECTION. */
static tn_status define_undecayed(tn__optim_rule *rule)
{
    char text[700];
    const char *from = strstr(rule->text, TN__OPTIM_DIRECTION);
    if (!from)
        return TN_OK;
    int name = (int)strcspn(rule->text, "(");
    int length =
        snprintf(text, sizeof text, "%.*s_undecayed%.*slet d = grad; %s", name,
                 rule->text, (int)(from - rule->text) - name,
                 rule->text + name, from + strlen(TN__OPTIM_DIRECTION));
    assert(length < (int)sizeof text);
    (void)length;
    return tn_op_define_once(text, &rule->undecayed) ? TN_OK : tn_error_code();
}

/* Returns the group that contains p, or NULL if there is none. */
static const tn__optim_group *find_group(const tn_optim *optim,
                                         const tn_tensor *p)
{
    for (const tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            if (tn_parameters_at(g->parameters, i) == p)
                return g;
        }
    }
    return NULL;
}

static tn_status check_list(const char *name, const tn_optim *optim,
                            const tn_parameter_list *list)
{
    if (tn_parameters_count(list) == 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "parameters",
                                        "the parameter list is empty");
    for (int i = 0; i < tn_parameters_count(list); i++) {
        if (find_group(optim, tn_parameters_at(list, i)))
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, name, "parameters",
                "parameter \"%s\" is in another group already",
                tn_parameters_name(list, i));
    }
    return optim->rule->accepts ? optim->rule->accepts(list, name) : TN_OK;
}

static tn_status add_group(const char *call, tn_optim *optim,
                           tn_parameter_list *parameters,
                           const tn__optim_rates *rates)
{
    tn_status status = check_list(call, optim, parameters);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    tn__optim_group *group = tn_object_new(
        &group_class,
        (size_t)tn_parameters_count(parameters) * sizeof(tn__optim_state));
    if (group) {
        group->optim = optim;
        group->parameters = tn_keep(parameters);
        group->rates = *rates;
        tn__optim_group **end = &optim->first;
        while (*end)
            end = &(*end)->next;
        *end = tn_keep(group);
        optim->version++;
    }
    tn_scope_close(scope);
    return group ? TN_OK : tn_error_code();
}

tn_optim *tn__optim_new(tn__optim_rule *rule, tn_parameter_list *parameters,
                        double lr, double momentum, double weight_decay)
{
    if (!tn__optim_is_list(parameters, rule->name) ||
        (rule->text &&
         (!tn_op_define_once(rule->text, &rule->op) ||
          define_undecayed(rule) < 0)))
        return NULL;
    tn_optim *optim = tn_object_new(&optim_class, 0);
    if (!optim)
        return NULL;
    optim->rule = rule;
    if (rule->undecayed) {
        optim->decay = number_index(rule->text, "decay");
        optim->sign = number_index(rule->text, "sign");
    }
    tn_object_set_maker(optim, rule->name);
    optim->defaults = (tn__optim_rates){.lr = lr,
                                        .initial_lr = -1,
                                        .momentum = momentum,
                                        .weight_decay = weight_decay};
    if (add_group(rule->name, optim, parameters, &optim->defaults) < 0) {
        tn_drop(optim);
        return NULL;
    }
    return optim;
}

TN_OPTIONS_TYPE(tn_optim_add_group, "optim_add_group", "optim, parameters",
                TN_OPTIM_ADD_GROUP_OPTIONS_LIST)

tn_status tn__optim_refuse_restricted(const tn_optim *optim, const char *call,
                                      const char *what)
{
    return optim->after
               ? tn_error_refuse_argument(
                     TN_ERR_UNSUPPORTED, call, "optim",
                     "the state of this %s is divided among processes "
                     "(tn_optim_sharded): %s", optim->rule->name, what)
               : TN_OK;
}

tn_status tn_optim_add_group_with(tn_optim *optim,
                                  tn_parameter_list *parameters,
                                  const tn_optim_add_group_options *options)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__optim_is(optim, "optim_add_group") ||
        !tn__optim_is_list(parameters, "optim_add_group"))
        return tn_error_code();
    tn_optim_add_group_options o;
    if (tn_options_take(tn_optim_add_group_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    const char *name = "optim_add_group";
    if (tn__optim_refuse_restricted(optim, name,
                                    "add groups before it is divided") < 0)
        return TN_ERR_UNSUPPORTED;
    if (optim->rule->closure)
        return tn_error_refuse_argument(TN_ERR_UNSUPPORTED, name, "optim",
                                        "%s supports only one group of "
                                        "parameters",
                                        optim->rule->name);
    tn__optim_rates rates = optim->defaults;
    if (!tn_is_none_float(o.lr))
        rates.lr = o.lr;
    if (!tn_is_none_float(o.weight_decay))
        rates.weight_decay = o.weight_decay;
    if (!tn__optim_check(name, "lr", rates.lr, 1e300) ||
        !tn__optim_check(name, "weight_decay", rates.weight_decay, 1e300))
        return TN_ERR_ARGUMENT;
    return add_group(name, optim, parameters, &rates);
}

bool tn__optim_check(const char *call, const char *option, double number,
                     double below)
{
    if (number >= 0 && number < below)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, option,
                             "%s is %g; expected at least 0%s", option,
                             number, below == 1 ? " and below 1" : "");
    return false;
}

tn_scalar tn__optim_scalar(const double *number)
{
    return tn_graph_is_recording() ? tn_late_number(number)
                                   : tn_scalar_float(*number);
}

void tn__optim_take_back(tn_optim *optim)
{
    for (tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            if (g->state[i].steps)
                g->state[i].progress = g->state[i].before;
}

void tn_optim_zero_grad(tn_optim *optim)
{
    if (!tn__optim_is(optim, "optim_zero_grad"))
        return;
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn_tensor *p = tn_parameters_at(g->parameters, i);
            if (tn_tensor_grad(p))
                tn_tensor_set_grad(p, NULL);
        }
    }
}

/* ---- learning rates ----------------------------------------------------- */

tn_status tn__optim_refuse_recording(const char *call)
{
    return tn_graph_is_recording()
               ? tn_error_refuse_argument(
                     TN_ERR_STATE, call, NULL,
                     "work is being recorded, and a replay would not change the "
                     "learning rate again: call it after each replay")
               : TN_OK;
}

double tn_optim_lr(const tn_optim *optim)
{
    return optim && tn__optim_is(optim, "optim_lr") ? optim->first->rates.lr
                                                    : 0;
}

tn_status tn_optim_set_lr(tn_optim *optim, double lr)
{
    if (tn_error() || tn__optim_refuse_recording("optim_set_lr") < 0)
        return TN_ERR_STATE;
    if (!tn__optim_is(optim, "optim_set_lr"))
        return tn_error_code();
    if (!tn__optim_check("optim_set_lr", "lr", lr, 1e300))
        return TN_ERR_ARGUMENT;
    for (tn__optim_group *g = optim->first; g; g = g->next)
        g->rates.lr = lr;
    return TN_OK;
}

int tn_optim_group_count(const tn_optim *optim)
{
    int count = 0;
    if (!optim || !tn__optim_is(optim, "optim_group_count"))
        return 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        count++;
    return count;
}

static tn__optim_group *group_at(const char *call, const tn_optim *optim,
                                 int group)
{
    if (!tn__optim_is(optim, call))
        return NULL;
    tn__optim_group *g = group < 0 ? NULL : optim->first;
    for (int i = 0; g && i < group; i++)
        g = g->next;
    if (!g)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "group",
                                 "group is %d; expected less than %d",
                                 group,
                                 tn_optim_group_count(optim));
    return g;
}

double tn_optim_group_lr(const tn_optim *optim, int group)
{
    tn__optim_group *g = group_at("optim_group_lr", optim, group);
    return g ? g->rates.lr : NAN;
}

tn_parameter_list *tn_optim_parameters(const tn_optim *optim, int group)
{
    tn__optim_group *g = group_at("optim_parameters", optim, group);
    return g ? g->parameters : NULL;
}

tn_status tn_optim_group_set_lr(tn_optim *optim, int group, double lr)
{
    if (tn_error() || tn__optim_refuse_recording("optim_group_set_lr") < 0)
        return TN_ERR_STATE;
    tn__optim_group *g = group_at("optim_group_set_lr", optim, group);
    if (!g || !tn__optim_check("optim_group_set_lr", "lr", lr, 1e300))
        return TN_ERR_ARGUMENT;
    g->rates.lr = lr;
    return TN_OK;
}
