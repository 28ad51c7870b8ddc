/* cycle.c: schedules that raise and lower the learning rate and change the
 * momentum in the opposite direction. */
#include <optim/schedule.h>

#include <math.h>

static const double pi = 3.14159265358979323846;

static bool has_momentum(const tn__schedule_kind *kind, const tn_optim *optim)
{
    if (!tn__optim_is(optim, kind->name) || optim->rule->momentum)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, kind->name, "cycle_momentum",
                             "the optimizer (%s) has no momentum to change: "
                             "give it one or set .cycle_momentum = false",
                             optim->rule->name);
    return false;
}

/* ---- CyclicLR, arXiv:1506.01186 ----------------------------------------- */

static double amplitude(const tn_schedule_cyclic_lr_options *o, double cycle,
                        double step)
{
    switch (o->mode) {
    case TN_CYCLE_TRIANGULAR2:
        return 1 / pow(2, cycle - 1);
    case TN_CYCLE_EXP_RANGE:
        return pow(o->gamma, step);
    default:
        return 1;
    }
}

static void cyclic_advance(const tn_schedule *schedule, int64_t step,
                           tn__optim_rates *rates)
{
    const tn_schedule_cyclic_lr_options *o = &schedule->of.cyclic.o;
    double up = (double)o->step_size_up;
    double total = up + (double)o->step_size_down;
    double ratio = up / total;
    double cycle = floor(1 + (double)step / total);
    double x = 1 + (double)step / total - cycle;
    double scale = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    double share = scale * amplitude(o, cycle, (double)step);
    double low = schedule->of.cyclic.base_lr;
    rates->lr = low + (schedule->of.cyclic.max_lr - low) * share;
    if (o->cycle_momentum)
        rates->momentum =
            o->max_momentum - (o->max_momentum - o->base_momentum) * share;
}

static const tn__schedule_kind cyclic_kind = {
    .name = "schedule_cyclic_lr", .advance = cyclic_advance};

TN_OPTIONS_TYPE(tn_schedule_cyclic_lr, "schedule_cyclic_lr",
                "optim, base_lr, max_lr", TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST)

tn_schedule *
tn_schedule_cyclic_lr_with(tn_optim *optim, double base_lr, double max_lr,
                           const tn_schedule_cyclic_lr_options *options)
{
    const tn__schedule_kind *kind = &cyclic_kind;
    tn_schedule_cyclic_lr_options o;
    if (tn_options_take(tn_schedule_cyclic_lr_type(), &o, options) < 0)
        return NULL;
    if (o.step_size_down == TN_NONE_INT)
        o.step_size_down = o.step_size_up;
    if (!tn__schedule_check(kind, "base_lr", base_lr, 0, 1e300) ||
        !tn__schedule_check(kind, "max_lr", max_lr, 0, 1e300) ||
        !tn__schedule_check(kind, "step_size_up", (double)o.step_size_up, 1,
                            1e300) ||
        !tn__schedule_check(kind, "step_size_down", (double)o.step_size_down,
                            1, 1e300) ||
        !tn__schedule_check(kind, "mode", o.mode, TN_CYCLE_TRIANGULAR,
                            TN_CYCLE_EXP_RANGE) ||
        !tn__schedule_check(kind, "gamma", o.gamma, 0, 1e300) ||
        !tn__schedule_check(kind, "base_momentum", o.base_momentum, 0, 1) ||
        !tn__schedule_check(kind, "max_momentum", o.max_momentum, 0, 1) ||
        (o.cycle_momentum && !has_momentum(kind, optim)))
        return NULL;
    const tn_option_need need[] = {
        {"gamma", o.mode == TN_CYCLE_EXP_RANGE,
         "unless mode is TN_CYCLE_EXP_RANGE", "change mode"},
        {"base_momentum", o.cycle_momentum, "without cycle_momentum",
         "give cycle_momentum = true"},
        {"max_momentum", o.cycle_momentum, "without cycle_momentum",
         "give cycle_momentum = true"}};
    if (tn_options_check_needs(tn_schedule_cyclic_lr_type(), &o, need, 3) < 0)
        return NULL;
    tn_schedule *schedule = tn__schedule_new(kind, optim, 0);
    if (schedule) {
        schedule->of.cyclic.base_lr = base_lr;
        schedule->of.cyclic.max_lr = max_lr;
        schedule->of.cyclic.o = o;
    }
    return tn__schedule_start(schedule);
}

/* ---- OneCycleLR, arXiv:1708.07120 --------------------------------------- */

typedef struct phase {
    double end; /* last step of the phase; may be fractional */
    double lr[2], momentum[2]; /* values at its begin and end */
} phase;

/* Writes the two or three phases of the cycle to out. Returns their number. */
static int phases_of(const tn_schedule *schedule, phase *out)
{
    const tn_schedule_one_cycle_lr_options *o = &schedule->of.one_cycle.o;
    double total = (double)schedule->limit;
    double top = schedule->of.one_cycle.max_lr, first = top / o->div_factor;
    double last = first / o->final_div_factor;
    double low = o->base_momentum, high = o->max_momentum;
    double up = o->pct_start * total;
    out[0] = (phase){up - 1, {first, top}, {high, low}};
    if (!o->three_phase) {
        out[1] = (phase){total - 1, {top, last}, {low, high}};
        return 2;
    }
    out[1] = (phase){2 * up - 2, {top, first}, {low, high}};
    out[2] = (phase){total - 1, {first, last}, {high, high}};
    return 3;
}

static double interpolate(const double ends[2], double share, bool linear)
{
    return linear ? (ends[1] - ends[0]) * share + ends[0]
                  : ends[1] + (ends[0] - ends[1]) / 2 * (cos(pi * share) + 1);
}

static void one_cycle_advance(const tn_schedule *schedule, int64_t step,
                              tn__optim_rates *rates)
{
    const tn_schedule_one_cycle_lr_options *o = &schedule->of.one_cycle.o;
    phase all[3];
    int count = phases_of(schedule, all), i = 0;
    while (i < count - 1 && (double)step > all[i].end)
        i++;
    double start = i ? all[i - 1].end : 0, length = all[i].end - start;
    double share = length != 0 ? ((double)step - start) / length : 1;
    rates->lr = interpolate(all[i].lr, share, o->linear);
    if (o->cycle_momentum)
        rates->momentum = interpolate(all[i].momentum, share, o->linear);
}

static const tn__schedule_kind one_cycle_kind = {
    .name = "schedule_one_cycle_lr", .advance = one_cycle_advance};

TN_OPTIONS_TYPE(tn_schedule_one_cycle_lr, "schedule_one_cycle_lr",
                "optim, max_lr, total_steps",
                TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST)

tn_schedule *
tn_schedule_one_cycle_lr_with(tn_optim *optim, double max_lr,
                              int64_t total_steps,
                              const tn_schedule_one_cycle_lr_options *options)
{
    const tn__schedule_kind *kind = &one_cycle_kind;
    tn_schedule_one_cycle_lr_options o;
    if (tn_options_take(tn_schedule_one_cycle_lr_type(), &o, options) < 0)
        return NULL;
    if (!tn__schedule_check(kind, "max_lr", max_lr, 0, 1e300) ||
        !tn__schedule_check(kind, "total_steps", (double)total_steps, 1,
                            1e300) ||
        !tn__schedule_check(kind, "pct_start", o.pct_start, 0, 1) ||
        !tn__schedule_check(kind, "div_factor", o.div_factor, 1, 1e300) ||
        !tn__schedule_check(kind, "final_div_factor", o.final_div_factor, 1,
                            1e300) ||
        !tn__schedule_check(kind, "base_momentum", o.base_momentum, 0, 1) ||
        !tn__schedule_check(kind, "max_momentum", o.max_momentum, 0, 1) ||
        (o.cycle_momentum && !has_momentum(kind, optim)))
        return NULL;
    const tn_option_need need[] = {
        {"base_momentum", o.cycle_momentum, "without cycle_momentum",
         "give cycle_momentum = true"},
        {"max_momentum", o.cycle_momentum, "without cycle_momentum",
         "give cycle_momentum = true"}};
    if (tn_options_check_needs(tn_schedule_one_cycle_lr_type(), &o, need, 2) <
        0)
        return NULL;
    tn_schedule *schedule = tn__schedule_new(kind, optim, 0);
    if (schedule) {
        schedule->limit = total_steps;
        schedule->of.one_cycle.max_lr = max_lr;
        schedule->of.one_cycle.o = o;
    }
    return tn__schedule_start(schedule);
}
