/* schedule_file.c: checks a learning rate schedule: the learning rate before
 * each of its steps.
 *
 * Tenon computes in double, in PyTorch's order of operations. Cosines may
 * differ in the last bit, and recurrences multiply this difference. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double within = 1e-12; /* largest relative difference */

/* ---- PyTorch's arguments ------------------------------------------------ */

static double number(const json_t *args, const char *name)
{
    return json_number_value(json_object_get(args, name));
}

static int64_t whole(const json_t *args, const char *name)
{
    return json_integer_value(json_object_get(args, name));
}

/* Returns the argument, or Tenon's default if it is missing. */
static double number_or(const json_t *args, const char *name, double fallback)
{
    return json_object_get(args, name) ? number(args, name) : fallback;
}

static int64_t whole_or(const json_t *args, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(args, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static bool is_off(const json_t *args, const char *name)
{
    return json_is_false(json_object_get(args, name));
}

static bool says(const json_t *args, const char *name, const char *text)
{
    const char *value = json_string_value(json_object_get(args, name));
    return value && strcmp(value, text) == 0;
}

/* ---- schedules ----------------------------------------------------------- */

static tn_schedule *step_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_step_lr(optim, whole(args, "step_size"),
                               .gamma = number_or(args, "gamma", 0.1));
}

static tn_schedule *multi_step_lr(tn_optim *optim, const json_t *args)
{
    const json_t *list = json_object_get(args, "milestones");
    int64_t milestones[64];
    size_t count = json_array_size(list);
    if (count > 64)
        return NULL;
    for (size_t i = 0; i < count; i++)
        milestones[i] = json_integer_value(json_array_get(list, i));
    return tn_schedule_multi_step_lr(optim, milestones, (int)count,
                                     .gamma = number_or(args, "gamma", 0.1));
}

static tn_schedule *exponential_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_exponential_lr(optim, number(args, "gamma"));
}

static tn_schedule *constant_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_constant_lr(optim, .factor = number_or(args, "factor", 1.0 / 3),
                                   .total_iters = whole_or(args, "total_iters", 5));
}

static tn_schedule *linear_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_linear_lr(
        optim, .start_factor = number_or(args, "start_factor", 1.0 / 3),
        .end_factor = number_or(args, "end_factor", 1),
        .total_iters = whole_or(args, "total_iters", 5));
}

static tn_schedule *polynomial_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_polynomial_lr(
        optim, .total_iters = whole_or(args, "total_iters", 5),
        .power = number_or(args, "power", 1));
}

static tn_schedule *cosine_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_cosine_annealing_lr(
        optim, whole(args, "T_max"), .eta_min = number_or(args, "eta_min", 0));
}

static tn_schedule *restarts(tn_optim *optim, const json_t *args)
{
    return tn_schedule_cosine_annealing_warm_restarts(
        optim, whole(args, "T_0"), .T_mult = whole_or(args, "T_mult", 1),
        .eta_min = number_or(args, "eta_min", 0));
}

static tn_schedule *cyclic_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_cyclic_lr(
        optim, number(args, "base_lr"), number(args, "max_lr"),
        .step_size_up = whole_or(args, "step_size_up", 2000),
        .step_size_down = whole_or(args, "step_size_down", TN_NONE_INT),
        .mode = says(args, "mode", "triangular2") ? TN_CYCLE_TRIANGULAR2
                : says(args, "mode", "exp_range") ? TN_CYCLE_EXP_RANGE
                                                  : TN_CYCLE_TRIANGULAR,
        .gamma = number_or(args, "gamma", 1),
        .cycle_momentum = !is_off(args, "cycle_momentum"),
        .base_momentum = number_or(args, "base_momentum", 0.8),
        .max_momentum = number_or(args, "max_momentum", 0.9));
}

static tn_schedule *one_cycle_lr(tn_optim *optim, const json_t *args)
{
    return tn_schedule_one_cycle_lr(
        optim, number(args, "max_lr"), whole(args, "total_steps"),
        .pct_start = number_or(args, "pct_start", 0.3),
        .linear = says(args, "anneal_strategy", "linear"),
        .three_phase = json_is_true(json_object_get(args, "three_phase")),
        .div_factor = number_or(args, "div_factor", 25),
        .final_div_factor = number_or(args, "final_div_factor", 1e4),
        .cycle_momentum = !is_off(args, "cycle_momentum"),
        .base_momentum = number_or(args, "base_momentum", 0.85),
        .max_momentum = number_or(args, "max_momentum", 0.95));
}

/* The files refer to the following functions by name. Their results depend only
 * on the step. */
static double reciprocal(int64_t step, int group, void *context)
{
    (void)group, (void)context;
    return 1 / (1 + (double)step);
}

static double power(int64_t step, int group, void *context)
{
    (void)group, (void)context;
    return pow(0.95, (double)step);
}

static double constant(int64_t step, int group, void *context)
{
    (void)step, (void)group, (void)context;
    return 0.9;
}

static double falling(int64_t step, int group, void *context)
{
    (void)group, (void)context;
    return 1.1 - 0.05 * (double)step;
}

static tn_schedule_function function_of(const json_t *args)
{
    static const struct {
        const char *text;
        tn_schedule_function function;
    } known[] = {{"1 / (1 + step)", reciprocal},
                 {"0.95 ** step", power},
                 {"0.9", constant},
                 {"1.1 - 0.05 * step", falling}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (says(args, "lr_lambda", known[i].text))
            return known[i].function;
    }
    return NULL;
}

static tn_schedule *lambda_lr(tn_optim *optim, const json_t *args)
{
    tn_schedule_function f = function_of(args);
    return f ? tn_schedule_lambda_lr(optim, f, NULL) : NULL;
}

static tn_schedule *multiplicative_lr(tn_optim *optim, const json_t *args)
{
    tn_schedule_function f = function_of(args);
    return f ? tn_schedule_multiplicative_lr(optim, f, NULL) : NULL;
}

static tn_schedule *plateau(tn_optim *optim, const json_t *args)
{
    return tn_schedule_reduce_lr_on_plateau(
        optim, .mode = says(args, "mode", "max") ? "max" : "min",
        .factor = number_or(args, "factor", 0.1),
        .patience = whole_or(args, "patience", 10),
        .threshold = number_or(args, "threshold", 1e-4),
        .threshold_mode = says(args, "threshold_mode", "abs") ? "abs" : "rel",
        .cooldown = whole_or(args, "cooldown", 0),
        .min_lr = number_or(args, "min_lr", 0),
        .eps = number_or(args, "eps", 1e-8));
}

enum { MOST_SCHEDULES = 8 };
static tn_schedule *schedule_named(tn_optim *optim, const char *name,
                                   json_t *args);

/* Creates the schedules in the list "schedulers", which has pairs of a name and
 * arguments. Returns their number; 0 if one is unknown. */
static int schedules_of(tn_optim *optim, const json_t *args, tn_schedule **out)
{
    const json_t *list = json_object_get(args, "schedulers");
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < MOST_SCHEDULES; i++) {
        const json_t *pair = json_array_get(list, i);
        out[i] = schedule_named(optim,
                                json_string_value(json_array_get(pair, 0)),
                                json_array_get(pair, 1));
        if (!out[i])
            return 0;
    }
    return count > MOST_SCHEDULES ? 0 : (int)count;
}

static tn_schedule *sequential_lr(tn_optim *optim, const json_t *args)
{
    tn_schedule *all[MOST_SCHEDULES];
    const int count = schedules_of(optim, args, all);
    const json_t *list = json_object_get(args, "milestones");
    int64_t milestones[MOST_SCHEDULES] = {0};
    if (!count || (int)json_array_size(list) != count - 1)
        return NULL;
    for (int i = 0; i < count - 1; i++)
        milestones[i] = json_integer_value(json_array_get(list, (size_t)i));
    return tn_schedule_sequential_lr(optim, all, count, milestones);
}

static tn_schedule *chained(tn_optim *optim, const json_t *args)
{
    tn_schedule *all[MOST_SCHEDULES];
    const int count = schedules_of(optim, args, all);
    return count ? tn_schedule_chained(all, count) : NULL;
}

/* Schedules, with the names of the arguments that they accept. */
static const struct {
    const char *name;
    tn_schedule *(*make)(tn_optim *optim, const json_t *args);
    const char *known;
} schedules[] = {
    {"StepLR", step_lr, " step_size gamma "},
    {"MultiStepLR", multi_step_lr, " milestones gamma "},
    {"ExponentialLR", exponential_lr, " gamma "},
    {"ConstantLR", constant_lr, " factor total_iters "},
    {"LinearLR", linear_lr, " start_factor end_factor total_iters "},
    {"PolynomialLR", polynomial_lr, " total_iters power "},
    {"CosineAnnealingLR", cosine_lr, " T_max eta_min "},
    {"CosineAnnealingWarmRestarts", restarts, " T_0 T_mult eta_min "},
    {"CyclicLR", cyclic_lr,
     " base_lr max_lr step_size_up step_size_down mode gamma cycle_momentum "
     "base_momentum max_momentum "},
    {"OneCycleLR", one_cycle_lr,
     " max_lr total_steps pct_start anneal_strategy cycle_momentum "
     "base_momentum max_momentum div_factor final_div_factor three_phase "},
    {"LambdaLR", lambda_lr, " lr_lambda "},
    {"MultiplicativeLR", multiplicative_lr, " lr_lambda "},
    {"ReduceLROnPlateau", plateau,
     " mode factor patience threshold threshold_mode cooldown min_lr eps "},
    {"SequentialLR", sequential_lr, " schedulers milestones "},
    {"ChainedScheduler", chained, " schedulers "},
};

static bool all_known(json_t *args, const char *known)
{
    const char *name;
    json_t *value;
    json_object_foreach(args, name, value) {
        char word[64];
        snprintf(word, sizeof word, " %s ", name);
        if (!strstr(known, word))
            return false;
    }
    return true;
}

/* Returns NULL without an error if Tenon lacks the schedule or one of its
 * arguments. */
static tn_schedule *schedule_named(tn_optim *optim, const char *name,
                                   json_t *args)
{
    for (size_t i = 0; name && i < sizeof schedules / sizeof *schedules; i++) {
        if (strcmp(schedules[i].name, name) == 0)
            return all_known(args, schedules[i].known)
                       ? schedules[i].make(optim, args)
                       : NULL;
    }
    return NULL;
}

static tn_schedule *schedule_of(tn_safetensors *file, tn_optim *optim)
{
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = json_loads(text ? text : "{}", 0, NULL);
    tn_schedule *schedule = schedule_named(
        optim, tn_safetensors_metadata(file, "scheduler"), args);
    json_decref(args);
    return schedule;
}

verdict schedule_file_run(tn_safetensors *file)
{
    verdict v = {0};
    const char *base = tn_safetensors_metadata(file, "base_lr");
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(1)));
    /* SGD with momentum, because some schedules change the momentum */
    tn_optim *optim = tn_optim_sgd(tn_parameters_from(&p, 1),
                                   .lr = strtod(base, NULL), .momentum = 0.9);
    tn_schedule *schedule = schedule_of(file, optim);
    if (!schedule && !tn_error()) {
        v.unsupported = 1;
        snprintf(v.detail, sizeof v.detail, "no such schedule or argument");
        return v;
    }
    const char *text = tn_safetensors_metadata(file, "metrics");
    json_t *metrics = text ? json_loads(text, 0, NULL) : NULL;
    tn_tensor *lr = golden_tensor(file, "lr", NULL);
    double want[64] = {0};
    int64_t count = tn_tensor_numel(lr);
    if (count < 1 || count > 64 ||
        tn_tensor_to_array(lr, want, (size_t)count * sizeof *want) < 0) {
        verdict_fail(&v, "%s", tn_error() ? tn_error() : "no rates");
        json_decref(metrics);
        return v;
    }
    for (int64_t i = 0; i < count && !v.failed; i++) {
        double got = tn_optim_lr(optim);
        if (tn_error())
            verdict_fail(&v, "%s", tn_error());
        else if (fabs(got - want[i]) > within * fabs(want[i]))
            verdict_fail(&v, "lr %d is %.17g, wanted %.17g", (int)i, got,
                         want[i]);
        if (i + 1 < count && metrics)
            tn_schedule_step_metric(schedule,
                                    json_number_value(json_array_get(
                                        metrics, (size_t)i)));
        else if (i + 1 < count)
            tn_schedule_step(schedule);
    }
    json_decref(metrics);
    v.passed = !v.failed;
    return v;
}
