/* schedule.c: makes and steps learning-rate schedules, and contains those that
 * do not change the momentum. Each step computes the next rate from the last
 * one by PyTorch's formula, so that chained schedules give PyTorch's values. */
#include <optim/schedule.h>

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* ---- all schedules ------------------------------------------------------ */

static void schedule_release(void *object)
{
    tn_schedule *schedule = object;
    for (int i = 0; schedule->kind->child_steps && i < schedule->of.group.count;
         i++)
        tn_drop(schedule->of.group.child[i]);
    tn_drop(schedule->optim);
}

static const tn_object_class schedule_class = {
    sizeof schedule_class, "schedule", sizeof(tn_schedule), schedule_release};

bool tn__schedule_is(const tn_schedule *schedule, const char *call,
                     const char *argument)
{
    return tn_object_check(schedule, &schedule_class, call, argument);
}

tn_schedule *tn__schedule_new(const tn__schedule_kind *kind, tn_optim *optim,
                              size_t extra)
{
    if (!tn__optim_is(optim, kind->name))
        return NULL;
    tn_schedule *schedule = tn_object_new(&schedule_class, extra);
    if (schedule) {
        schedule->kind = kind;
        schedule->optim = tn_keep(optim);
        tn_object_set_maker(schedule, kind->name);
    }
    return schedule;
}

static tn_status check_rate(const tn_schedule *schedule, int group, double lr)
{
    if (tn_error())
        return tn_error_code();
    if (lr >= 0 && isfinite(lr))
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_ARGUMENT, schedule->kind->name, "function",
        "the function's factor makes the learning rate of group %d %g at step "
        "%lld; expected a finite number of at least 0",
        group, lr, (long long)schedule->steps);
}

static double factor_of(const tn_schedule *schedule, int group)
{
    return schedule->of.function.of(schedule->steps, group,
                                    schedule->of.function.context);
}

/* Sets the rates of all groups for the current step. first is true for step 0
 * of a new schedule, false for all other steps. */
static tn_status advance_groups(tn_schedule *schedule, bool first)
{
    const tn__schedule_kind *kind = schedule->kind;
    tn_status status = TN_OK;
    int number = 0;
    for (tn__optim_group *g = schedule->optim->first; g && status == TN_OK;
         g = g->next, number++) {
        tn__optim_rates *r = &g->rates;
        if (r->initial_lr < 0)
            r->initial_lr = r->lr;
        const int rounding = tn__nearest_begin();
        if (kind->advance)
            kind->advance(schedule, schedule->steps, r);
        else if (!kind->relative)
            r->lr = r->initial_lr * factor_of(schedule, number);
        else if (!first)
            r->lr *= factor_of(schedule, number);
        tn__nearest_end(&rounding);
        if (!kind->advance)
            status = check_rate(schedule, number, r->lr);
    }
    return status;
}

void tn__schedule_reset_lr(tn_optim *optim)
{
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        if (g->rates.initial_lr >= 0)
            g->rates.lr = g->rates.initial_lr;
    }
}

void tn__schedule_remember(tn_optim *optim)
{
    for (tn__optim_group *g = optim->first; g; g = g->next)
        g->before = g->rates;
}

void tn__schedule_recall(tn_optim *optim)
{
    for (tn__optim_group *g = optim->first; g; g = g->next)
        g->rates = g->before;
}

tn_schedule *tn__schedule_start(tn_schedule *schedule)
{
    if (!schedule)
        return NULL;
    tn__schedule_remember(schedule->optim);
    if (advance_groups(schedule, true) == TN_OK)
        return schedule;
    tn__schedule_recall(schedule->optim);
    tn_drop(schedule);
    return NULL;
}

tn_status tn__schedule_restart(tn_schedule *schedule, bool first)
{
    if (!first && !schedule->kind->relative)
        tn__schedule_reset_lr(schedule->optim);
    schedule->steps = 0;
    return schedule->kind->restart ? schedule->kind->restart(schedule)
                                   : advance_groups(schedule, first);
}

tn_status tn__schedule_advance(tn_schedule *schedule)
{
    if (schedule->limit && schedule->steps >= schedule->limit)
        return tn_error_refuse_argument(TN_ERR_STATE, "schedule_step", NULL,
                                        "this is step %lld, but total_steps is "
                                        "%lld",
                                        (long long)schedule->steps + 1,
                                        (long long)schedule->limit);
    schedule->steps++;
    return schedule->kind->step ? schedule->kind->step(schedule)
                                : advance_groups(schedule, false);
}

bool tn__schedule_check(const tn__schedule_kind *kind, const char *option,
                        double number, double low, double high)
{
    if (number >= low && number <= high)
        return true;
    if (high < 1e300)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                                 "%s is %g; expected between %g and %g",
                                 option, number, low, high);
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                                 "%s is %g; expected at least %g", option,
                                 number, low);
    return false;
}

/* Returns whether `steps` is within the limits of the schedule and, if it
 * consists of schedules, within their limits. */
static bool is_within(const tn_schedule *schedule, int64_t steps)
{
    if (steps < 0 || (schedule->limit && steps > schedule->limit))
        return false;
    for (int i = 0; schedule->kind->child_steps && i < schedule->of.group.count;
         i++) {
        const int64_t own = schedule->kind->child_steps(schedule, i, steps);
        if (own >= 0 && !is_within(schedule->of.group.child[i], own))
            return false;
    }
    return true;
}

static void set_steps(tn_schedule *schedule, int64_t steps)
{
    schedule->steps = steps;
    for (int i = 0; schedule->kind->child_steps && i < schedule->of.group.count;
         i++) {
        const int64_t own = schedule->kind->child_steps(schedule, i, steps);
        if (own >= 0)
            set_steps(schedule->of.group.child[i], own);
    }
}

tn_status tn_schedule_step(tn_schedule *schedule)
{
    if (tn_error() || tn__optim_refuse_recording("schedule_step") < 0)
        return TN_ERR_STATE;
    if (!tn__schedule_is(schedule, "schedule_step", "schedule"))
        return tn_error_code();
    if (schedule->kind->metric)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "schedule_step", "schedule",
            "a step of %s needs a metric: call tn_schedule_step_metric",
            schedule->kind->name);
    const int64_t before = schedule->steps;
    tn__schedule_remember(schedule->optim);
    tn_status status = tn__schedule_advance(schedule);
    if (status < 0) {
        tn__schedule_recall(schedule->optim);
        set_steps(schedule, before);
    }
    return status;
}

int64_t tn_schedule_steps(const tn_schedule *schedule)
{
    return schedule && tn__schedule_is(schedule, "schedule_steps", "schedule")
               ? schedule->steps
               : 0;
}

tn_status tn_schedule_set_steps(tn_schedule *schedule, int64_t steps)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__schedule_is(schedule, "schedule_set_steps", "schedule"))
        return tn_error_code();
    if (!is_within(schedule, steps))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "schedule_set_steps", "steps",
            "steps is %lld; expected at least 0 and at most total_steps",
            (long long)steps);
    set_steps(schedule, steps);
    return TN_OK;
}

tn_schedule_state tn_schedule_snapshot(const tn_schedule *schedule)
{
    tn_schedule_state state = {0};
    if (!schedule ||
        !tn__schedule_is(schedule, "schedule_snapshot", "schedule"))
        return state;
    state.steps = schedule->steps;
    if (schedule->kind->metric) {
        state.bad_steps = schedule->of.plateau.bad_steps;
        state.cooldown = schedule->of.plateau.cooldown;
        state.best = schedule->of.plateau.best;
    }
    return state;
}

tn_status tn_schedule_restore(tn_schedule *schedule, tn_schedule_state state)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__schedule_is(schedule, "schedule_restore", "schedule"))
        return tn_error_code();
    if (!is_within(schedule, state.steps) || state.bad_steps < 0 ||
        state.cooldown < 0 || isnan(state.best))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "schedule_restore", "state",
            "steps is %lld, bad_steps %lld, cooldown %lld, best %g; expected "
            "at least 0, steps at most total_steps, and best not NaN",
            (long long)state.steps, (long long)state.bad_steps,
            (long long)state.cooldown, state.best);
    set_steps(schedule, state.steps);
    if (schedule->kind->metric) {
        schedule->of.plateau.bad_steps = state.bad_steps;
        schedule->of.plateau.cooldown = state.cooldown;
        schedule->of.plateau.best = state.best;
    }
    return TN_OK;
}

/* ---- StepLR, MultiStepLR, ExponentialLR --------------------------------- */

static void step_advance(const tn_schedule *schedule, int64_t step,
                         tn__optim_rates *rates)
{
    if (step > 0 && step % schedule->of.step.step_size == 0)
        rates->lr *= schedule->of.step.gamma;
}

static const tn__schedule_kind step_kind = {
    .name = "schedule_step_lr", .advance = step_advance};

TN_OPTIONS_TYPE(tn_schedule_step_lr, "schedule_step_lr", "optim, step_size",
                TN_SCHEDULE_STEP_LR_OPTIONS_LIST)

tn_schedule *
tn_schedule_step_lr_with(tn_optim *optim, int64_t step_size,
                         const tn_schedule_step_lr_options *options)
{
    tn_schedule_step_lr_options o;
    if (tn_options_take(tn_schedule_step_lr_type(), &o, options) < 0)
        return NULL;
    if (!tn__schedule_check(&step_kind, "step_size", (double)step_size, 1,
                            1e300) ||
        !tn__schedule_check(&step_kind, "gamma", o.gamma, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&step_kind, optim, 0);
    if (schedule) {
        schedule->of.step.step_size = step_size;
        schedule->of.step.gamma = o.gamma;
    }
    return tn__schedule_start(schedule);
}

static void multi_step_advance(const tn_schedule *schedule, int64_t step,
                               tn__optim_rates *rates)
{
    for (int i = 0; i < schedule->of.multi_step.count; i++) {
        if (schedule->of.multi_step.milestones[i] == step)
            rates->lr *= schedule->of.multi_step.gamma;
    }
}

static const tn__schedule_kind multi_step_kind = {
    .name = "schedule_multi_step_lr", .advance = multi_step_advance};

TN_OPTIONS_TYPE(tn_schedule_multi_step_lr, "schedule_multi_step_lr",
                "optim, milestones, count",
                TN_SCHEDULE_MULTI_STEP_LR_OPTIONS_LIST)

tn_schedule *tn_schedule_multi_step_lr_with(
    tn_optim *optim, const int64_t *milestones, int count,
    const tn_schedule_multi_step_lr_options *options)
{
    tn_schedule_multi_step_lr_options o;
    if (tn_options_take(tn_schedule_multi_step_lr_type(), &o, options) < 0)
        return NULL;
    if (count < 0 || (count > 0 && !milestones)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "schedule_multi_step_lr",
                                 "milestones", "milestones is NULL");
        return NULL;
    }
    if (!tn__schedule_check(&multi_step_kind, "gamma", o.gamma, 0, 1e300))
        return NULL;
    size_t bytes = (size_t)count * sizeof *milestones;
    tn_schedule *schedule = tn__schedule_new(&multi_step_kind, optim, bytes);
    if (schedule) {
        int64_t *copy = (int64_t *)(schedule + 1);
        if (count > 0)
            memcpy(copy, milestones, bytes);
        schedule->of.multi_step.milestones = copy;
        schedule->of.multi_step.count = count;
        schedule->of.multi_step.gamma = o.gamma;
    }
    return tn__schedule_start(schedule);
}

static void exponential_advance(const tn_schedule *schedule, int64_t step,
                                tn__optim_rates *rates)
{
    if (step > 0)
        rates->lr *= schedule->of.gamma;
}

static const tn__schedule_kind exponential_kind = {
    .name = "schedule_exponential_lr", .advance = exponential_advance};

tn_schedule *tn_schedule_exponential_lr(tn_optim *optim, double gamma)
{
    if (!tn__schedule_check(&exponential_kind, "gamma", gamma, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&exponential_kind, optim, 0);
    if (schedule)
        schedule->of.gamma = gamma;
    return tn__schedule_start(schedule);
}

/* ---- ConstantLR, LinearLR, PolynomialLR --------------------------------- */

static void constant_advance(const tn_schedule *schedule, int64_t step,
                             tn__optim_rates *rates)
{
    const tn_schedule_constant_lr_options *o = &schedule->of.constant;
    if (step == 0)
        rates->lr *= o->factor;
    else if (step == o->total_iters)
        rates->lr *= 1 / o->factor;
}

static const tn__schedule_kind constant_kind = {
    .name = "schedule_constant_lr", .advance = constant_advance};

/* Checks a factor, which must not be 0 because later steps divide by it. */
static bool is_factor(const tn__schedule_kind *kind, const char *option,
                      double factor)
{
    if (factor > 0 && factor <= 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                             "%s is %g; expected more than 0 and at most 1",
                             option, factor);
    return false;
}

TN_OPTIONS_TYPE(tn_schedule_constant_lr, "schedule_constant_lr", "optim",
                TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST)

tn_schedule *
tn_schedule_constant_lr_with(tn_optim *optim,
                             const tn_schedule_constant_lr_options *options)
{
    tn_schedule_constant_lr_options o;
    if (tn_options_take(tn_schedule_constant_lr_type(), &o, options) < 0)
        return NULL;
    if (!is_factor(&constant_kind, "factor", o.factor) ||
        !tn__schedule_check(&constant_kind, "total_iters",
                            (double)o.total_iters, 1, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&constant_kind, optim, 0);
    if (schedule)
        schedule->of.constant = o;
    return tn__schedule_start(schedule);
}

static void linear_advance(const tn_schedule *schedule, int64_t step,
                           tn__optim_rates *rates)
{
    const tn_schedule_linear_lr_options *o = &schedule->of.linear;
    double start = o->start_factor, slope = o->end_factor - start;
    if (step == 0)
        rates->lr *= start;
    else if (step <= o->total_iters)
        rates->lr *= 1 + slope / ((double)o->total_iters * start +
                                  (double)(step - 1) * slope);
}

static const tn__schedule_kind linear_kind = {
    .name = "schedule_linear_lr", .advance = linear_advance};

TN_OPTIONS_TYPE(tn_schedule_linear_lr, "schedule_linear_lr", "optim",
                TN_SCHEDULE_LINEAR_LR_OPTIONS_LIST)

tn_schedule *
tn_schedule_linear_lr_with(tn_optim *optim,
                           const tn_schedule_linear_lr_options *options)
{
    tn_schedule_linear_lr_options o;
    if (tn_options_take(tn_schedule_linear_lr_type(), &o, options) < 0)
        return NULL;
    if (!is_factor(&linear_kind, "start_factor", o.start_factor) ||
        !tn__schedule_check(&linear_kind, "end_factor", o.end_factor, 0, 1) ||
        !tn__schedule_check(&linear_kind, "total_iters", (double)o.total_iters,
                            1, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&linear_kind, optim, 0);
    if (schedule)
        schedule->of.linear = o;
    return tn__schedule_start(schedule);
}

static void polynomial_advance(const tn_schedule *schedule, int64_t step,
                               tn__optim_rates *rates)
{
    const tn_schedule_polynomial_lr_options *o = &schedule->of.polynomial;
    double total = (double)o->total_iters;
    if (step > 0 && step <= o->total_iters)
        rates->lr *= pow((1 - (double)step / total) /
                             (1 - (double)(step - 1) / total),
                         o->power);
}

static const tn__schedule_kind polynomial_kind = {
    .name = "schedule_polynomial_lr", .advance = polynomial_advance};

TN_OPTIONS_TYPE(tn_schedule_polynomial_lr, "schedule_polynomial_lr", "optim",
                TN_SCHEDULE_POLYNOMIAL_LR_OPTIONS_LIST)

tn_schedule *tn_schedule_polynomial_lr_with(
    tn_optim *optim, const tn_schedule_polynomial_lr_options *options)
{
    tn_schedule_polynomial_lr_options o;
    if (tn_options_take(tn_schedule_polynomial_lr_type(), &o, options) < 0)
        return NULL;
    if (!tn__schedule_check(&polynomial_kind, "total_iters",
                            (double)o.total_iters, 1, 1e300) ||
        !tn__schedule_check(&polynomial_kind, "power", o.power, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&polynomial_kind, optim, 0);
    if (schedule)
        schedule->of.polynomial = o;
    return tn__schedule_start(schedule);
}

/* ---- CosineAnnealingLR, CosineAnnealingWarmRestarts --------------------- */

/* A step multiplies the rate by the quotient of two values of the cosine. In
 * the first rising step that quotient would be 0 / 0, so a difference is added
 * instead. */
static void cosine_advance(const tn_schedule *schedule, int64_t step,
                           tn__optim_rates *rates)
{
    int64_t period = schedule->of.cosine.period;
    double low = schedule->of.cosine.eta_min, T = (double)period;
    if (step == 0)
        return;
    if (step > period && (step - 1 - period) % (2 * period) == 0)
        rates->lr += (rates->initial_lr - low) * (1 - cos(pi / T)) / 2;
    else
        rates->lr = (1 + cos(pi * (double)step / T)) /
                        (1 + cos(pi * (double)(step - 1) / T)) *
                        (rates->lr - low) +
                    low;
}

static const tn__schedule_kind cosine_kind = {
    .name = "schedule_cosine_annealing_lr", .advance = cosine_advance};

TN_OPTIONS_TYPE(tn_schedule_cosine_annealing_lr,
                "schedule_cosine_annealing_lr", "optim, T_max",
                TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST)

tn_schedule *tn_schedule_cosine_annealing_lr_with(
    tn_optim *optim, int64_t T_max,
    const tn_schedule_cosine_annealing_lr_options *options)
{
    tn_schedule_cosine_annealing_lr_options o;
    if (tn_options_take(tn_schedule_cosine_annealing_lr_type(), &o, options) <
        0)
        return NULL;
    if (!tn__schedule_check(&cosine_kind, "T_max", (double)T_max, 1, 1e300) ||
        !tn__schedule_check(&cosine_kind, "eta_min", o.eta_min, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&cosine_kind, optim, 0);
    if (schedule) {
        schedule->of.cosine.period = T_max;
        schedule->of.cosine.eta_min = o.eta_min;
    }
    return tn__schedule_start(schedule);
}

static void restarts_advance(const tn_schedule *schedule, int64_t step,
                             tn__optim_rates *rates)
{
    int64_t period = schedule->of.cosine.period;
    if (schedule->of.cosine.mult == 1)
        step %= period;
    while (step >= period) {
        step -= period;
        if (__builtin_mul_overflow(period, schedule->of.cosine.mult, &period))
            period = INT64_MAX;
    }
    double low = schedule->of.cosine.eta_min;
    rates->lr = low + (rates->initial_lr - low) *
                          (1 + cos(pi * (double)step / (double)period)) / 2;
}

static const tn__schedule_kind restarts_kind = {
    .name = "schedule_cosine_annealing_warm_restarts", .advance = restarts_advance};

TN_OPTIONS_TYPE(tn_schedule_cosine_annealing_warm_restarts,
                "schedule_cosine_annealing_warm_restarts", "optim, T_0",
                TN_SCHEDULE_COSINE_ANNEALING_WARM_RESTARTS_OPTIONS_LIST)

tn_schedule *tn_schedule_cosine_annealing_warm_restarts_with(
    tn_optim *optim, int64_t T_0,
    const tn_schedule_cosine_annealing_warm_restarts_options *options)
{
    tn_schedule_cosine_annealing_warm_restarts_options o;
    if (tn_options_take(tn_schedule_cosine_annealing_warm_restarts_type(), &o,
                        options) < 0)
        return NULL;
    if (!tn__schedule_check(&restarts_kind, "T_0", (double)T_0, 1, 0x1p62) ||
        !tn__schedule_check(&restarts_kind, "T_mult", (double)o.T_mult, 1,
                            0x1p62) ||
        !tn__schedule_check(&restarts_kind, "eta_min", o.eta_min, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(&restarts_kind, optim, 0);
    if (schedule) {
        schedule->of.cosine.period = T_0;
        schedule->of.cosine.mult = o.T_mult;
        schedule->of.cosine.eta_min = o.eta_min;
    }
    return tn__schedule_start(schedule);
}
