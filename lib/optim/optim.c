/* optim.c: parameter groups, optimizer state and the step, shared by all update
 * rules (SGD, Adam, ...). */
#include <optim/optim.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/graph.h>
#include <tenon/ops.h>
#include <tenon/trace.h>

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

/* ---- stepping ----------------------------------------------------------- */

bool tn__optim_slot_shape(const tn__optim_rule *rule, const tn_tensor *p,
                          int slot, tn_dims_list *shape)
{
    if (rule->slot_shape)
        return rule->slot_shape(p, slot, shape);
    shape->count = tn_tensor_ndim(p);
    for (int i = 0; i < shape->count; i++)
        shape->dim[i] = tn_tensor_shape(p)[i];
    return true;
}

tn_tensor *tn__optim_norm(tn_tensor *x)
{
    const tn_dtype dtype = tn_tensor_dtype(x) == TN_F64 ? TN_F64 : TN_F32;
    return tn_vector_norm(x, .dtype = dtype);
}

static tn_status make_state(const tn__optim_group *group,
                            tn__optim_state *state, tn_tensor *parameter)
{
    const tn__optim_rule *rule = group->optim->rule;
    for (int k = 0; k < rule->slots; k++) {
        tn_dims_list shape;
        if (state->slot[k] ||
            !tn__optim_slot_shape(rule, parameter, k, &shape))
            continue;
        double initial = rule->initial ? rule->initial(group, k) : 0;
        state->slot[k] = tn_keep(
            rule->slot_shape
                ? tn_zeros(shape, .dtype = tn_tensor_dtype(parameter),
                           .device = tn_tensor_device(parameter))
            : initial == 0 ? tn_zeros_like(parameter)
                           : tn_full_like(parameter, initial));
        if (!state->slot[k])
            return tn_error_code();
    }
    return TN_OK;
}

/* Checks that the state is on the parameter's device. The parameter may have
 * been moved since the last step. */
static tn_status check_device(const tn__optim_group *group, int i,
                              tn_tensor *p)
{
    tn_tensor *slot = NULL;
    for (int k = 0; k < TN__OPTIM_SLOTS && !slot; k++)
        slot = group->state[i].slot[k];
    if (!slot || tn_tensor_device(slot) == tn_tensor_device(p))
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_DEVICE, "optim_step", NULL,
        "parameter \"%s\" is on %s, its state on %s: make a new optimizer "
        "after moving the model",
        tn_parameters_name(group->parameters, i),
        tn_device_name(tn_tensor_device(p)),
        tn_device_name(tn_tensor_device(slot)));
}

/* In anomaly mode, checks a gradient for NaN before the step. The check after
 * the step's kernel could name only the parameter that became NaN. */
static tn_status check_nan(const tn__optim_group *group, int i, tn_tensor *g)
{
    tn_tensor *nan = tn_to_dtype(tn_flatten(tn_isnan(g)), TN_U8);
    if (tn_tensor_numel(g) == 0 || tn_item_int(tn_max(nan)) != 1)
        return tn_error() ? tn_error_code() : TN_OK;
    int64_t at = tn_item_int(tn_argmax(nan));
    return tn_error_refuse(TN_ERR_NAN, "optim_step", &(tn_given){"grad", g}, 1,
                           "the gradient of parameter \"%s\" is NaN, at "
                           "element %" PRId64,
                           tn_parameters_name(group->parameters, i), at);
}

static tn_status run_kernel(const tn_optim *optim, tn__optim_state *state,
                            const double *number, tn_tensor *p, tn_tensor *g)
{
    const tn__optim_rule *rule = optim->rule;
    tn_value value[2 + TN__OPTIM_SLOTS + TN__OPTIM_NUMBERS] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = p},
        {.kind = TN_VALUE_TENSOR, .of.tensor = g}};
    tn_tensor *out[1 + TN__OPTIM_SLOTS] = {p};
    int count = 2;
    for (int k = 0; k < rule->slots; k++) {
        value[count++] = (tn_value){.kind = TN_VALUE_TENSOR,
                                    .of.tensor = state->slot[k]};
        out[1 + k] = state->slot[k];
    }
    for (int k = 0; k < rule->numbers; k++)
        value[count++] = (tn_value){.kind = TN_VALUE_NUMBER,
                                    .count = TN_SCALAR_FLOAT,
                                    .of.f = number[k]};
    bool undecayed = rule->undecayed && number[optim->decay] == 0 &&
                     number[optim->sign] == 1;
    return tn_op_call_into(undecayed ? rule->undecayed : rule->op, value, count,
                           out, 1 + rule->slots);
}

static tn_status step_one(tn__optim_group *group, int i)
{
    tn_tensor *p = tn_parameters_at(group->parameters, i);
    tn_tensor *g = tn_tensor_grad(p);
    if (!g)
        return TN_OK;
    const tn__optim_rule *rule = group->optim->rule;
    tn__optim_state *state = &group->state[i];
    tn_status status = tn_anomaly_mode() ? check_nan(group, i, g) : TN_OK;
    if (status == TN_OK)
        status = make_state(group, state, p);
    if (status == TN_OK)
        status = check_device(group, i, p);
    if (status < 0)
        return status;

    double number[TN__OPTIM_NUMBERS];
    tn__optim_progress next = state->progress;
    next.steps++;
    const int rounding = tn__nearest_begin();
    rule->numbers_of(group, &next, number);
    tn__nearest_end(&rounding);
    status = rule->step ? rule->step(group, state, number, p, g)
                        : run_kernel(group->optim, state, number, p, g);
    if (status >= 0)
        state->progress = next;
    return status;
}

/* Rejects a step while work is being recorded: step counts and rates are
 * computed on the host, so a replay would not update them. */
static tn_status refuse_recording(void)
{
    return tn_graph_is_recording()
               ? tn_error_refuse_argument(
                     TN_ERR_STATE, "optim_step", NULL,
                     "work is being recorded, and a replay would not count the "
                     "step: call it after the recorded function, and after "
                     "each replay")
               : TN_OK;
}

tn_status tn_optim_step(tn_optim *optim)
{
    if (tn_error() || refuse_recording())
        return TN_ERR_STATE;
    if (!tn__optim_is(optim, "optim_step"))
        return tn_error_code();
    if (optim->rule->closure)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_step", "optim",
            "a step of %s evaluates the loss several times: call "
            "tn_optim_step_closure",
            optim->rule->name);
    tn_status status = TN_OK;
    tn_trace_push("optim_step");
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        for (tn__optim_group *g = optim->first; g && status >= 0; g = g->next) {
            for (int i = 0;
                 i < tn_parameters_count(g->parameters) && status >= 0; i++)
                status = step_one(g, i);
        }
    }
    tn_scope_close(scope);
    tn_trace_pop();
    return status < 0 ? status : TN_OK;
}

double tn_optim_step_closure(tn_optim *optim, tn_optim_closure closure,
                             void *context)
{
    if (tn_error())
        return NAN;
    if (!tn__optim_is(optim, "optim_step_closure"))
        return NAN;
    if (!closure) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_step_closure",
                                 "closure", "closure is NULL");
        return NAN;
    }
    if (optim->rule->closure)
        return optim->rule->closure(optim, closure, context);
    double loss = closure(context);
    return tn_optim_step(optim) < 0 ? NAN : loss;
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

double tn_optim_lr(const tn_optim *optim)
{
    return optim && tn__optim_is(optim, "optim_lr") ? optim->first->rates.lr
                                                    : 0;
}

tn_status tn_optim_set_lr(tn_optim *optim, double lr)
{
    if (tn_error())
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

tn_status tn_optim_group_set_lr(tn_optim *optim, int group, double lr)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn__optim_group *g = group_at("optim_group_set_lr", optim, group);
    if (!g || !tn__optim_check("optim_group_set_lr", "lr", lr, 1e300))
        return TN_ERR_ARGUMENT;
    g->rates.lr = lr;
    return TN_OK;
}
