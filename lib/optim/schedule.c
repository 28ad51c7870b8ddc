/* schedule.c: making and stepping schedules, and the schedules that leave the
 * momentum alone. The recurrences are PyTorch's, so that chained schedules give
 * its values. */
#include <optim/schedule.h>

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* ---- all schedules ------------------------------------------------------ */

static void schedule_release(void *object)
{
    tn_schedule *schedule = object;
    tn_drop(schedule->optim);
}

static const tn_object_class schedule_class = {
    sizeof schedule_class, "schedule", sizeof(tn_schedule), schedule_release};

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

static void advance_groups(tn_schedule *schedule)
{
    for (tn__optim_group *g = schedule->optim->first; g; g = g->next) {
        if (g->rates.initial_lr < 0)
            g->rates.initial_lr = g->rates.lr;
        const int rounding = tn__optim_nearest_begin();
        schedule->kind->advance(schedule, schedule->steps, &g->rates);
        tn__optim_nearest_end(rounding);
    }
}

tn_schedule *tn__schedule_start(tn_schedule *schedule)
{
    if (schedule)
        advance_groups(schedule);
    return schedule;
}

bool tn__schedule_check(const tn__schedule_kind *kind, const char *option,
                        double number, double low, double high)
{
    if (number >= low && number <= high)
        return true;
    if (high < 1e300)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                                 "%s is %g; it must be between %g and %g",
                                 option, number, low, high);
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                                 "%s is %g; it must be at least %g", option,
                                 number, low);
    return false;
}

tn_status tn_schedule_step(tn_schedule *schedule)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check(schedule, &schedule_class, "schedule_step",
                         "schedule"))
        return tn_error_code();
    if (schedule->limit && schedule->steps >= schedule->limit)
        return tn_error_refuse_argument(TN_ERR_STATE, "schedule_step", NULL,
                                        "step %lld, but total_steps is %lld",
                                        (long long)schedule->steps + 1,
                                        (long long)schedule->limit);
    schedule->steps++;
    advance_groups(schedule);
    return TN_OK;
}

int64_t tn_schedule_steps(const tn_schedule *schedule)
{
    return schedule && tn_object_check(schedule, &schedule_class,
                                       "schedule_steps", "schedule")
               ? schedule->steps
               : 0;
}

tn_status tn_schedule_set_steps(tn_schedule *schedule, int64_t steps)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check(schedule, &schedule_class, "schedule_set_steps",
                         "schedule"))
        return tn_error_code();
    if (steps < 0 || (schedule->limit && steps > schedule->limit))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "schedule_set_steps", "steps",
            "steps is %lld; it must be at least 0 and at most total_steps",
            (long long)steps);
    schedule->steps = steps;
    return TN_OK;
}

/* ---- StepLR, MultiStepLR, ExponentialLR --------------------------------- */

static void step_advance(const tn_schedule *schedule, int64_t step,
                         tn__optim_rates *rates)
{
    if (step > 0 && step % schedule->of.step.step_size == 0)
        rates->lr *= schedule->of.step.gamma;
}

static const tn__schedule_kind step_kind = {"schedule_step_lr", step_advance};

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

static const tn__schedule_kind multi_step_kind = {"schedule_multi_step_lr",
                                                  multi_step_advance};

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

static const tn__schedule_kind exponential_kind = {"schedule_exponential_lr",
                                                   exponential_advance};

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

static const tn__schedule_kind constant_kind = {"schedule_constant_lr",
                                                constant_advance};

/* A factor of 0 has no reciprocal. */
static bool is_factor(const tn__schedule_kind *kind, const char *option,
                      double factor)
{
    if (factor > 0 && factor <= 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, option,
                             "%s is %g; it must be above 0 and at most 1",
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

static const tn__schedule_kind linear_kind = {"schedule_linear_lr",
                                              linear_advance};

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

static const tn__schedule_kind polynomial_kind = {"schedule_polynomial_lr",
                                                  polynomial_advance};

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

/* Where the cosine starts to rise, the quotient of two of its values is 0 / 0.
 * The first rising step is written as a difference. */
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

static const tn__schedule_kind cosine_kind = {"schedule_cosine_annealing_lr",
                                              cosine_advance};

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
    "schedule_cosine_annealing_warm_restarts", restarts_advance};

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
