/* schedule_compose.c: schedules with a function of the caller, and schedules of
 * schedules. */
#include <optim/schedule.h>

#include <string.h>

/* ---- LambdaLR, MultiplicativeLR ----------------------------------------- */

static const tn__schedule_kind lambda_kind = {.name = "schedule_lambda_lr"};
static const tn__schedule_kind multiplicative_kind = {
    .name = "schedule_multiplicative_lr", .relative = true};

static tn_schedule *function_new(const tn__schedule_kind *kind, tn_optim *optim,
                                 tn_schedule_function function, void *context)
{
    if (tn_error())
        return NULL;
    if (!function) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, "function",
                                 "function is NULL");
        return NULL;
    }
    tn_schedule *schedule = tn__schedule_new(kind, optim, 0);
    if (schedule) {
        schedule->of.function.of = function;
        schedule->of.function.context = context;
    }
    return tn__schedule_start(schedule);
}

tn_schedule *tn_schedule_lambda_lr(tn_optim *optim,
                                   tn_schedule_function function, void *context)
{
    return function_new(&lambda_kind, optim, function, context);
}

tn_schedule *tn_schedule_multiplicative_lr(tn_optim *optim,
                                           tn_schedule_function function,
                                           void *context)
{
    return function_new(&multiplicative_kind, optim, function, context);
}

/* ---- shared by schedules of schedules ----------------------------------- */

static bool check_child(const tn__schedule_kind *kind, const tn_optim *optim,
                        tn_schedule *const *schedules, int i)
{
    char name[32];
    snprintf(name, sizeof name, "schedules[%d]", i);
    if (!tn__schedule_is(schedules[i], kind->name, name))
        return false;
    if (schedules[i]->kind->metric)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, kind->name, name,
            "%s is %s, whose step needs a metric: step it separately", name,
            schedules[i]->kind->name);
    else if (schedules[i]->optim != optim)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, name,
                                 "%s belongs to another optimizer", name);
    for (int k = 0; k < i && !tn_error(); k++) {
        if (schedules[k] == schedules[i])
            tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, name,
                                     "%s equals schedules[%d]",
                                     name, k);
    }
    return !tn_error();
}

/* Makes a group schedule (schedule.h) of the given schedules. The elements of
 * group.number are 0. */
static tn_schedule *group_new(const tn__schedule_kind *kind, tn_optim *optim,
                              tn_schedule *const *schedules, int count)
{
    for (int i = 0; i < count; i++) {
        if (!check_child(kind, optim, schedules, i))
            return NULL;
    }
    const size_t n = (size_t)count;
    tn_schedule *group = tn__schedule_new(
        kind, optim, n * (sizeof *schedules + sizeof(int64_t)));
    if (!group)
        return NULL;
    group->of.group.number = (int64_t *)(group + 1);
    group->of.group.child = (tn_schedule **)(group->of.group.number + n);
    for (int i = 0; i < count; i++)
        group->of.group.child[i] = tn_keep(schedules[i]);
    group->of.group.count = count;
    return group;
}

static bool check_list(const tn__schedule_kind *kind,
                       tn_schedule *const *schedules, int count)
{
    if (tn_error())
        return false;
    if (schedules && count > 0)
        return true;
    if (!schedules)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, "schedules",
                                 "schedules is NULL");
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, "count",
                                 "count is %d; expected at least 1", count);
    return false;
}

/* ---- SequentialLR ------------------------------------------------------- */

/* Returns the index of the schedule that runs at a step. */
static int running_at(const tn_schedule *sequence, int64_t step)
{
    int i = 0;
    while (i < sequence->of.group.count - 1 &&
           sequence->of.group.number[i] <= step)
        i++;
    return i;
}

static int64_t begin_of(const tn_schedule *sequence, int i)
{
    return i ? sequence->of.group.number[i - 1] : 0;
}

static tn_status sequence_step(tn_schedule *sequence)
{
    const int i = running_at(sequence, sequence->steps);
    tn_schedule *child = sequence->of.group.child[i];
    return i > 0 && begin_of(sequence, i) == sequence->steps
               ? tn__schedule_restart(child, false)
               : tn__schedule_advance(child);
}

static tn_status sequence_restart(tn_schedule *sequence)
{
    return tn__schedule_restart(
        sequence->of.group.child[running_at(sequence, 0)], true);
}

static int64_t sequence_child(const tn_schedule *sequence, int i, int64_t steps)
{
    return i == running_at(sequence, steps) ? steps - begin_of(sequence, i)
                                            : -1;
}

static const tn__schedule_kind sequential_kind = {
    .name = "schedule_sequential_lr",
    .step = sequence_step,
    .restart = sequence_restart,
    .child_steps = sequence_child};

static bool check_milestones(const int64_t *milestones, int count)
{
    const char *call = sequential_kind.name;
    if (count > 0 && !milestones) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "milestones",
                                 "milestones is NULL; %d schedules need %d "
                                 "milestones",
                                 count + 1, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        const int64_t least = i ? milestones[i - 1] : 0;
        if (milestones[i] < least) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "milestones",
                                     "milestones[%d] is %lld; expected at "
                                     "least %lld",
                                     i, (long long)milestones[i],
                                     (long long)least);
            return false;
        }
    }
    return true;
}

tn_schedule *tn_schedule_sequential_lr(tn_optim *optim,
                                       tn_schedule *const *schedules, int count,
                                       const int64_t *milestones)
{
    const tn__schedule_kind *kind = &sequential_kind;
    if (!check_list(kind, schedules, count) ||
        !tn__optim_is(optim, kind->name) ||
        !check_milestones(milestones, count - 1))
        return NULL;
    tn_schedule *sequence = group_new(kind, optim, schedules, count);
    if (!sequence)
        return NULL;
    if (count > 1)
        memcpy(sequence->of.group.number, milestones,
               (size_t)(count - 1) * sizeof *milestones);
    tn__schedule_remember(optim);
    tn__schedule_reset_lr(optim);
    if (sequence_restart(sequence) == TN_OK)
        return sequence;
    tn__schedule_recall(optim);
    tn_drop(sequence);
    return NULL;
}

/* ---- ChainedScheduler --------------------------------------------------- */

static tn_status chain_step(tn_schedule *chain)
{
    tn_status status = TN_OK;
    for (int i = 0; i < chain->of.group.count && status == TN_OK; i++)
        status = tn__schedule_advance(chain->of.group.child[i]);
    return status;
}

static tn_status chain_restart(tn_schedule *chain)
{
    tn_status status = TN_OK;
    for (int i = 0; i < chain->of.group.count && status == TN_OK; i++) {
        chain->of.group.number[i] = 0;
        status = tn__schedule_restart(chain->of.group.child[i], true);
    }
    return status;
}

static int64_t chain_child(const tn_schedule *chain, int i, int64_t steps)
{
    const int64_t ahead = chain->of.group.number[i];
    return steps > INT64_MAX - ahead ? INT64_MAX : steps + ahead;
}

static const tn__schedule_kind chained_kind = {.name = "schedule_chained",
                                               .step = chain_step,
                                               .restart = chain_restart,
                                               .child_steps = chain_child};

tn_schedule *tn_schedule_chained(tn_schedule *const *schedules, int count)
{
    const tn__schedule_kind *kind = &chained_kind;
    if (!check_list(kind, schedules, count) ||
        !tn__schedule_is(schedules[0], kind->name, "schedules[0]"))
        return NULL;
    tn_schedule *chain = group_new(kind, schedules[0]->optim, schedules, count);
    for (int i = 0; chain && i < count; i++)
        chain->of.group.number[i] = schedules[i]->steps;
    return chain;
}
