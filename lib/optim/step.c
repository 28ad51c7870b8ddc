/* step.c: one step of an optimizer: its state, its numbers, and its kernel.
 *
 * A step may be recorded (tn_graph_record, tn_compile). Then the kernels read
 * their numbers as late numbers, and each replay computes them anew before its
 * device work (tn_graph_on_replay). */
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

/* ---- state and numbers ---------------------------------------------------- */

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
    parameter = tn__optim_part(group->optim, state, parameter);
    if (!parameter)
        return tn_error() ? tn_error_code() : TN_OK;
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

/* Returns the parameter whose numbers parameter i uses. */
static int find_leader(const tn__optim_group *g, int i)
{
    const tn__optim_progress *own = &g->state[i].progress;
    int first = 0;
    while (!g->state[first].steps)
        first++;
    const tn__optim_progress *other = &g->state[first].progress;
    return own->steps == other->steps && own->memory == other->memory &&
                   !g->optim->rule->numbers_for
               ? first
               : i;
}

/* Checks all parameters that have a gradient, so that a step that fails for one of
 * them changes none. Notes which they are. */
static tn_status prepare(tn_optim *optim)
{
    tn_status status = TN_OK;
    optim->skips = optim->skip != NULL;
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn__optim_state *state = &g->state[i];
            tn_tensor *p = tn_parameters_at(g->parameters, i);
            tn_tensor *grad = tn_tensor_grad(p);
            state->steps = grad != NULL;
            if (!grad)
                continue;
            state->leader = find_leader(g, i);
            if (status == TN_OK && tn_anomaly_mode())
                status = check_nan(g, i, grad);
            if (status == TN_OK)
                status = check_device(g, i, p);
        }
    }
    return status;
}

/* Makes the state of the parameters that have none. */
static tn_status make_states(tn_optim *optim)
{
    tn_status status = TN_OK;
    for (tn__optim_group *g = optim->first; g && status >= 0; g = g->next)
        for (int i = 0;
             i < tn_parameters_count(g->parameters) && status >= 0; i++)
            if (g->state[i].steps)
                status = make_state(g, &g->state[i],
                                    tn_parameters_at(g->parameters, i));
    return status;
}

/* Counts the step and computes its numbers. This makes the state, too, because it
 * runs outside of a recording: a replay must not make the state again. */
static tn_status advance(tn_optim *optim)
{
    const tn__optim_rule *rule = optim->rule;
    tn_status status = make_states(optim);
    if (status < 0)
        return status;
    const int rounding = tn__nearest_begin();
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn__optim_state *state = &g->state[i];
            if (!state->steps)
                continue;
            state->before = state->progress;
            if (state->leader != i) {
                state->progress = g->state[state->leader].progress;
                continue;
            }
            state->progress.steps++;
            rule->numbers_of(g, &state->progress, state->number);
            if (rule->numbers_for)
                rule->numbers_for(g, tn_parameters_at(g->parameters, i),
                                  state->number);
        }
    }
    tn__nearest_end(&rounding);
    return TN_OK;
}

/* ---- recorded steps -------------------------------------------------------- */

/* A recorded step: which parameters it updates, and whose numbers they use. Several
 * recordings of one optimizer can update different parameters. */
typedef struct recorded {
    tn_object object;
    tn_optim *optim; /* counted reference */
    int64_t version; /* that of the optimizer */
    bool skips;      /* optim->skips of the step */
    int leader[];    /* of the parameters of all groups; -1: no step */
} recorded;

static void release(void *object)
{
    recorded *r = object;
    tn_drop(r->optim);
}

static const tn_object_class recorded_class = {
    sizeof recorded_class, "recorded step", sizeof(recorded), release};

/* Calls visit for each parameter, with its number among those of all groups, until
 * it returns false. Returns false then. */
static bool each_state(const recorded *r,
                       bool (*visit)(tn__optim_group *g, int i, int leader))
{
    int at = 0;
    for (tn__optim_group *g = r->optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            if (!visit(g, i, r->leader[at++]))
                return false;
    return true;
}

static bool set_step(tn__optim_group *g, int i, int leader)
{
    g->state[i].steps = leader >= 0;
    g->state[i].leader = leader >= 0 ? leader : 0;
    return true;
}

/* Returns whether a parameter has stepped as often as the one whose numbers it
 * uses. */
static bool follows(tn__optim_group *g, int i, int leader)
{
    if (leader < 0 || leader == i)
        return true;
    const tn__optim_progress *own = &g->state[i].progress;
    const tn__optim_progress *of_leader = &g->state[leader].progress;
    return own->steps == of_leader->steps && own->memory == of_leader->memory;
}

/* Changes if the groups or the state's tensors change. Is negative if another
 * recording or step has updated only some of the parameters with common numbers. */
static int64_t recorded_version(const void *object)
{
    const recorded *r = object;
    /* After tn_optim_add_group there are more parameters than leaders. */
    int64_t version = r->optim->version;
    return version == r->version && !each_state(r, follows) ? -1 : version;
}

static tn_status recorded_advance(void *object)
{
    const recorded *r = object;
    /* With a scaler, its own part has settled the last round. */
    const tn_status status = r->skips ? TN_OK : tn__optim_settle(r->optim);
    if (status < 0)
        return status;
    r->optim->skips = r->skips;
    each_state(r, set_step);
    return advance(r->optim);
}

static void recorded_take_back(void *object)
{
    tn__optim_take_back(((const recorded *)object)->optim);
}

static const tn_graph_host recorded_host = {
    .size = sizeof recorded_host, .version = recorded_version,
    .advance = recorded_advance, .take_back = recorded_take_back};

/* A recorded step also depends on which parameters require a gradient. */
static int64_t trained(const void *object)
{
    const tn_optim *optim = object;
    uint64_t set = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            set = set * 0x9e3779b97f4a7c15u +
                  tn_tensor_requires_grad(tn_parameters_at(g->parameters, i));
    return (int64_t)set;
}

static tn_status advance_nothing(void *object)
{
    (void)object;
    return TN_OK;
}

static const tn_graph_host trained_host = {.size = sizeof trained_host,
                                           .version = trained,
                                           .advance = advance_nothing,
                                           .returns = true};

/* Describes the step that is recorded, in the open scope. */
static recorded *record_step(tn_optim *optim)
{
    size_t count = 0, at = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        count += (size_t)tn_parameters_count(g->parameters);
    recorded *r = tn_object_new(&recorded_class, count * sizeof *r->leader);
    if (!r)
        return NULL;
    r->optim = tn_keep(optim);
    r->version = optim->version;
    r->skips = optim->skips;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            r->leader[at++] = g->state[i].steps ? g->state[i].leader : -1;
    return r;
}

/* Computes the numbers of this step, and of each replay of it. */
static tn_status begin_step(tn_optim *optim)
{
    if (!tn_graph_is_recording()) {
        const tn_status status = optim->skips ? TN_OK : tn__optim_settle(optim);
        return status < 0 ? status : advance(optim);
    }
    const int given = tn_graph_on_replay(optim, &trained_host);
    if (given > 0)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "optim_step", "optim",
            "it has stepped in this recording already: record one step of each "
            "optimizer");
    recorded *r = given < 0 ? NULL : record_step(optim);
    return r ? tn_graph_on_replay(r, &recorded_host) : tn_error_code();
}

/* ---- the kernel ------------------------------------------------------------ */

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
        value[count++] = tn__optim_number(&number[k]);
    const bool undecayed = rule->undecayed && number[optim->decay] == 0 &&
                           number[optim->sign] == 1;
    return tn_op_call_into(undecayed ? rule->undecayed : rule->op, value, count,
                           out, 1 + rule->slots);
}

/* Updates one parameter and its state. */
static tn_status run_rule(const tn__optim_group *group, tn__optim_state *state,
                          tn_tensor *p, tn_tensor *g)
{
    const tn__optim_rule *rule = group->optim->rule;
    const double *number = group->state[state->leader].number;
    return rule->step ? rule->step(group, state, number, p, g)
                      : run_kernel(group->optim, state, number, p, g);
}

/* Like run_rule, but keeps all values if `skip`, a bool tensor, is true. */
static tn_status run_unless(tn_tensor *skip, const tn__optim_group *group,
                            tn__optim_state *state, tn_tensor *p, tn_tensor *g)
{
    static const tn_op *defined;
    const tn_op *choose = tn_op_define_once(
        "optim_unless(new, old, skip) = where(skip, old, new)", &defined);
    tn_tensor *now[1 + TN__OPTIM_SLOTS] = {p}, *old[1 + TN__OPTIM_SLOTS];
    for (int k = 0; k < TN__OPTIM_SLOTS; k++)
        now[1 + k] = state->slot[k];
    for (int k = 0; k <= TN__OPTIM_SLOTS; k++)
        old[k] = now[k] ? tn_clone(now[k]) : NULL;
    tn_status status = choose ? run_rule(group, state, p, g) : tn_error_code();
    for (int k = 0; k <= TN__OPTIM_SLOTS && status >= 0; k++)
        if (now[k])
            status = tn_op_call_into(
                choose,
                (tn_value[]){{.kind = TN_VALUE_TENSOR, .of.tensor = now[k]},
                             {.kind = TN_VALUE_TENSOR, .of.tensor = old[k]},
                             {.kind = TN_VALUE_TENSOR, .of.tensor = skip}},
                3, &now[k], 1);
    return status;
}

/* Updates the elements of one parameter that this process has. */
static tn_status run_part(const tn__optim_group *group, tn__optim_state *state,
                          tn_tensor *p)
{
    tn_optim *optim = (tn_optim *)group->optim;
    tn_tensor *g = tn__optim_part(optim, state, tn_tensor_grad(p));
    p = tn__optim_part(optim, state, p);
    if (!p || !g)
        return tn_error() ? tn_error_code() : TN_OK;
    return optim->skip ? run_unless(optim->skip, group, state, p, g)
                       : run_rule(group, state, p, g);
}

/* Steps all parameters. If one fails, it and those after it have not stepped. */
static tn_status run(tn_optim *optim)
{
    tn_status status = TN_OK;
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn__optim_state *state = &g->state[i];
            tn_tensor *p = tn_parameters_at(g->parameters, i);
            if (!state->steps)
                continue;
            if (status >= 0)
                status = run_part(g, state, p);
            if (status < 0)
                state->progress = state->before;
        }
    }
    return status < 0 ? status : TN_OK;
}

tn_status tn_optim_step(tn_optim *optim)
{
    const bool pending = tn_error() != NULL;
    if (!tn__optim_is(optim, "optim_step"))
        return pending ? TN_ERR_STATE : tn_error_code();
    if (pending) {
        if (optim->after) /* the other processes wait for this one */
            optim->after(optim->context);
        return TN_ERR_STATE;
    }
    if (optim->rule->closure)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_step", "optim",
            "a step of %s evaluates the loss several times: call "
            "tn_optim_step_closure",
            optim->rule->name);
    if (tn_graph_is_recording() &&
        tn__optim_refuse_restricted(optim, "optim_step",
                                    "its step cannot be recorded") < 0)
        return TN_ERR_UNSUPPORTED;
    /* recorded_advance() settles a recorded step, outside of the recording. */
    tn_status status =
        tn_graph_is_recording() ? TN_OK : tn__optim_settle(optim);
    tn_trace_push("optim_step");
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        if (status >= 0)
            status = prepare(optim);
        if (status >= 0)
            status = begin_step(optim);
        if (status >= 0)
            status = run(optim);
        /* After a failure, too: it reports the error to the others. */
        const tn_status last = optim->after ? optim->after(optim->context)
                                            : TN_OK;
        status = status < 0 ? status : last;
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
