/* plateau.c: lowers the learning rate when a metric has stopped improving, as
 * torch.optim.lr_scheduler.ReduceLROnPlateau. */
#include <optim/schedule.h>

#include <math.h>
#include <string.h>

static const tn__schedule_kind plateau_kind = {
    .name = "schedule_reduce_lr_on_plateau", .metric = true};

static bool is_one_of(const char *option, const char *text, const char *first,
                      const char *second)
{
    if (strcmp(text, first) == 0 || strcmp(text, second) == 0)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, plateau_kind.name, option,
                             "%s is \"%s\"; expected \"%s\" or \"%s\"",
                             option, text, first, second);
    return false;
}

static bool is_below_1(double factor)
{
    if (factor >= 0 && factor < 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, plateau_kind.name, "factor",
                             "factor is %g; expected at least 0 and below 1",
                             factor);
    return false;
}

TN_OPTIONS_TYPE(tn_schedule_reduce_lr_on_plateau,
                "schedule_reduce_lr_on_plateau", "optim",
                TN_SCHEDULE_REDUCE_LR_ON_PLATEAU_OPTIONS_LIST)

tn_schedule *tn_schedule_reduce_lr_on_plateau_with(
    tn_optim *optim, const tn_schedule_reduce_lr_on_plateau_options *options)
{
    const tn__schedule_kind *kind = &plateau_kind;
    tn_schedule_reduce_lr_on_plateau_options o;
    if (tn_options_take(tn_schedule_reduce_lr_on_plateau_type(), &o, options) <
        0)
        return NULL;
    if (!is_one_of("mode", o.mode, "min", "max") ||
        !is_one_of("threshold_mode", o.threshold_mode, "rel", "abs") ||
        !is_below_1(o.factor) ||
        !tn__schedule_check(kind, "patience", (double)o.patience, 0, 1e300) ||
        !tn__schedule_check(kind, "threshold", o.threshold, 0, 1e300) ||
        !tn__schedule_check(kind, "cooldown", (double)o.cooldown, 0, 1e300) ||
        !tn__schedule_check(kind, "min_lr", o.min_lr, 0, 1e300) ||
        !tn__schedule_check(kind, "eps", o.eps, 0, 1e300))
        return NULL;
    tn_schedule *schedule = tn__schedule_new(kind, optim, 0);
    if (schedule) {
        schedule->of.plateau.rising = strcmp(o.mode, "max") == 0;
        schedule->of.plateau.absolute = strcmp(o.threshold_mode, "abs") == 0;
        schedule->of.plateau.o = o;
        schedule->of.plateau.best =
            schedule->of.plateau.rising ? -INFINITY : INFINITY;
    }
    return schedule;
}

static bool is_better(const tn_schedule *schedule, double metric)
{
    const double best = schedule->of.plateau.best;
    const double threshold = schedule->of.plateau.o.threshold;
    if (schedule->of.plateau.absolute)
        return schedule->of.plateau.rising ? metric > best + threshold
                                           : metric < best - threshold;
    return schedule->of.plateau.rising ? metric > best * (threshold + 1)
                                       : metric < best * (1 - threshold);
}

static void reduce(const tn_schedule *schedule)
{
    const tn_schedule_reduce_lr_on_plateau_options *o = &schedule->of.plateau.o;
    for (tn__optim_group *g = schedule->optim->first; g; g = g->next) {
        const double lr = fmax(g->rates.lr * o->factor, o->min_lr);
        if (g->rates.lr - lr > o->eps)
            g->rates.lr = lr;
    }
}

static void watch(tn_schedule *schedule, double metric)
{
    const tn_schedule_reduce_lr_on_plateau_options *o = &schedule->of.plateau.o;
    int64_t *bad = &schedule->of.plateau.bad_steps;
    int64_t *cooldown = &schedule->of.plateau.cooldown;
    if (is_better(schedule, metric)) {
        schedule->of.plateau.best = metric;
        *bad = 0;
    } else {
        ++*bad;
    }
    if (*cooldown > 0) {
        --*cooldown;
        *bad = 0;
    }
    if (*bad > o->patience) {
        reduce(schedule);
        *cooldown = o->cooldown;
        *bad = 0;
    }
}

const char *tn_schedule_metric_mode(const tn_schedule *schedule)
{
    if (!schedule ||
        !tn__schedule_is(schedule, "schedule_metric_mode", "schedule") ||
        !schedule->kind->metric)
        return NULL;
    return schedule->of.plateau.rising ? "max" : "min";
}

tn_status tn_schedule_step_metric(tn_schedule *schedule, double metric)
{
    const char *call = "schedule_step_metric";
    if (tn_error() || tn__optim_refuse_recording(call) < 0)
        return TN_ERR_STATE;
    if (!tn__schedule_is(schedule, call, "schedule"))
        return tn_error_code();
    if (!schedule->kind->metric)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "schedule",
            "a step of %s takes no metric: call tn_schedule_step",
            schedule->kind->name);
    schedule->steps++;
    const int rounding = tn__nearest_begin();
    watch(schedule, metric);
    tn__nearest_end(&rounding);
    return TN_OK;
}
