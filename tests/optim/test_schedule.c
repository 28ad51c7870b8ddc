/* Tests learning rate schedules: properties that tests/golden does not check,
 * and errors. */
#include <math.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

static tn_parameter_list *parameters(void)
{
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(2)));
    return tn_parameters_from(&p, 1);
}

static void are_rates(tn_optim *optim, tn_schedule *schedule, int group,
                      const double *want, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        is_double_near(tn_optim_group_lr(optim, group), want[i],
                       1e-12 * want[i], "%s: step %d", name, i);
        is_int(tn_schedule_step(schedule), TN_OK, "%s: on", name);
    }
}
#define RATES(optim, schedule, group, name, ...)                              \
    are_rates(optim, schedule, group, (double[]){__VA_ARGS__},                \
              (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), name)

static void test_values(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1);
    RATES(optim, tn_schedule_linear_lr(optim, .start_factor = 1,
                                       .end_factor = 0, .total_iters = 4),
          0, "LinearLR to 0", 0.1, 0.075, 0.05, 0.025, 0, 0);

    /* lr * (1 - step / total_iters)^power */
    optim = tn_optim_sgd(parameters(), .lr = 0.1);
    RATES(optim, tn_schedule_polynomial_lr(optim, .total_iters = 4, .power = 2),
          0, "PolynomialLR", 0.1, 0.05625, 0.025, 0.00625, 0, 0);

    /* PyTorch's exp_range scales by gamma^step */
    optim = tn_optim_sgd(parameters(), .lr = 0.1);
    RATES(optim, tn_schedule_cyclic_lr(optim, 1, 3, .step_size_up = 2,
                                       .step_size_down = 1,
                                       .mode = TN_CYCLE_EXP_RANGE, .gamma = 0.5,
                                       .cycle_momentum = false),
          0, "CyclicLR, exp_range", 1, 1.5, 1.5, 1, 1.0625, 1.0625);

    optim = tn_optim_sgd(parameters(), .lr = 0.1);
    tn_schedule *three = tn_schedule_one_cycle_lr(
        optim, 1, 9, .pct_start = 1.0 / 3, .three_phase = true, .linear = true,
        .div_factor = 4, .final_div_factor = 5, .cycle_momentum = false);
    RATES(optim, three, 0, "OneCycleLR, three phases", 0.25, 0.625, 1, 0.625,
          0.25, 0.2, 0.15, 0.1, 0.05);
}

/* Uses two schedules on one optimizer. Their factors multiply, and parameter
 * groups keep the ratio of their rates. */
static void test_chain(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1);
    is_int(tn_optim_add_group(optim, parameters(), .lr = 0.4), TN_OK,
           "a second group");
    tn_schedule *decay = tn_schedule_exponential_lr(optim, 0.5);
    tn_schedule *warm =
        tn_schedule_constant_lr(optim, .factor = 0.25, .total_iters = 2);
    double want[] = {0.025, 0.0125, 0.025, 0.0125};
    for (int i = 0; i < 4; i++) {
        is_double_near(tn_optim_group_lr(optim, 0), want[i], 1e-15,
                       "chained: step %d", i);
        is_double_near(tn_optim_group_lr(optim, 1), 4 * want[i], 1e-15,
                       "chained: group 1");
        tn_schedule_step(decay);
        tn_schedule_step(warm);
    }
}

/* OneCycleLR decreases beta1 while the rate increases. With a gradient of 1,
 * Adam's first step is lr for any beta1; the second step depends on beta1. */
static void test_momentum(void)
{
    double change[2];
    for (int cycled = 0; cycled < 2; cycled++) {
        tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(1)));
        tn_optim *optim = tn_optim_adam(tn_parameters_from(&p, 1), .lr = 0.1);
        tn_schedule *schedule = tn_schedule_one_cycle_lr(
            optim, 0.1, 10, .cycle_momentum = cycled);
        for (int t = 0; t < 3; t++) {
            tn_tensor_set_grad(p, tn_full(tn_dims(1), t == 1 ? -2.0f : 1.0f));
            tn_optim_step(optim);
            tn_schedule_step(schedule);
        }
        change[cycled] = tn_item(p);
    }
    ok(change[0] != change[1], "OneCycleLR moves beta1: %g, %g", change[0],
       change[1]);
    tn_optim *plain = tn_optim_sgd(parameters());
    ok(!tn_schedule_one_cycle_lr(plain, 0.1, 10), "no momentum to move");
    is_str(tn_error(),
           "schedule_one_cycle_lr: the optimizer (optim_sgd) has no momentum "
           "to change: give it one or set .cycle_momentum = false",
           "is refused");
    tn_error_clear();
}

static void test_resume(void)
{
    char path[] = "/tmp/tenon-test-schedule-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no room for a file in /tmp");
    close(fd);
    double want[8];
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.3);
    tn_schedule *schedule =
        tn_schedule_cosine_annealing_lr(optim, 3, .eta_min = 0.01);
    for (int i = 0; i < 8; i++) {
        if (i == 4)
            is_int(tn_optim_save(optim, path), TN_OK, "saved in mid-course");
        tn_schedule_step(schedule);
        want[i] = tn_optim_lr(optim);
    }
    /* loading replaces this rate */
    optim = tn_optim_sgd(parameters(), .lr = 0.7);
    schedule = tn_schedule_cosine_annealing_lr(optim, 3, .eta_min = 0.01);
    is_int(tn_optim_load(optim, path), TN_OK, "loaded");
    is_int(tn_schedule_set_steps(schedule, 4), TN_OK, "taken up at step 4");
    for (int i = 4; i < 8; i++) {
        tn_schedule_step(schedule);
        ok(tn_optim_lr(optim) == want[i], "the same rate at step %d", i + 1);
    }
    is_int(tn_schedule_steps(schedule), 8, "steps are counted");
    unlink(path);
}

/* ---- functions, plateaus, sequences and chains --------------------------- */

typedef struct told {
    int calls, group;
    int64_t step;
    double factor;
    bool fails;
} told;

static double of_group(int64_t step, int group, void *context)
{
    told *t = context;
    t->calls++;
    t->step = step;
    t->group = group;
    if (t->fails)
        tn_error_set(TN_ERR_IO, "no table of rates");
    return group == 1 ? t->factor / 2 : t->factor;
}

static void test_functions(void)
{
    told t = {.factor = 0.5};
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1);
    tn_optim_add_group(optim, parameters(), .lr = 0.4);
    tn_schedule *schedule = tn_schedule_lambda_lr(optim, of_group, &t);
    is_int(t.calls, 2, "LambdaLR: one call for each group");
    is_double_near(tn_optim_group_lr(optim, 1), 0.1, 1e-15,
                   "a function may treat groups differently");
    is_int(tn_schedule_step(schedule), TN_OK, "a step");
    ok(t.step == 1 && t.group == 1, "with step and group");

    t.factor = -1;
    is_int(tn_schedule_step(schedule), TN_ERR_ARGUMENT,
           "a negative learning rate is refused");
    is_str(tn_error(),
           "schedule_lambda_lr: the function's factor makes the learning rate "
           "of group 0 -0.1 at step 2; expected a finite number of at least 0",
           "and its message");
    tn_error_clear();
    is_int(tn_schedule_steps(schedule), 1, "and is not counted");
    is_double_near(tn_optim_lr(optim), 0.05, 1e-15, "and changes no rate");
    t = (told){.factor = 1, .fails = true};
    is_int(tn_schedule_step(schedule), TN_ERR_IO, "a function that fails");
    is_str(tn_error(), "no table of rates", "has its own message");
    tn_error_clear();
    t = (told){.factor = NAN};
    ok(tn_schedule_multiplicative_lr(optim, of_group, &t) != NULL,
       "MultiplicativeLR does not ask at step 0");
    ok(!tn_schedule_lambda_lr(optim, of_group, &t), "LambdaLR does");
    is_int(tn_error_code(), TN_ERR_ARGUMENT, "and refuses NaN");
    tn_error_clear();
    is_double_near(tn_optim_lr(optim), 0.05, 1e-15, "without a change");
}

/* A second parameter group is near its lower bound; NaN is not an
 * improvement. */
static void test_plateau(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 1);
    tn_optim_add_group(optim, parameters(), .lr = 0.2);
    tn_schedule *schedule = tn_schedule_reduce_lr_on_plateau(
        optim, .factor = 0.5, .patience = 1, .min_lr = 0.15);
    is_double_near(tn_optim_lr(optim), 1, 0, "making it changes no rate");
    const double metrics[] = {2, 1, NAN, NAN, NAN, NAN};
    const double want[][2] = {{1, 0.2},    {1, 0.2},      {1, 0.2},
                              {0.5, 0.15}, {0.5, 0.15}, {0.25, 0.15}};
    for (int i = 0; i < 6; i++) {
        is_int(tn_schedule_step_metric(schedule, metrics[i]), TN_OK, "step");
        for (int g = 0; g < 2; g++)
            is_double_near(tn_optim_group_lr(optim, g), want[i][g], 1e-15,
                           "ReduceLROnPlateau: step %d, group %d", i, g);
    }
    tn_schedule_state state = tn_schedule_snapshot(schedule);
    ok(state.steps == 6 && state.bad_steps == 0 && state.cooldown == 0 &&
           state.best == 1,
       "its state can be read");
}

static tn_schedule *warm_and_fall(tn_optim *optim)
{
    tn_schedule *pair[2] = {
        tn_schedule_linear_lr(optim, .start_factor = 0.25, .total_iters = 3),
        tn_schedule_exponential_lr(optim, 0.9)};
    tn_schedule *all[3] = {
        tn_schedule_chained(pair, 2),
        tn_schedule_cosine_annealing_lr(optim, 3, .eta_min = 0.01),
        tn_schedule_multi_step_lr(optim, (int64_t[]){2}, 1)};
    return tn_schedule_sequential_lr(optim, all, 3, (int64_t[]){4, 9});
}

static tn_schedule *plateau(tn_optim *optim)
{
    return tn_schedule_reduce_lr_on_plateau(optim, .patience = 1,
                                            .cooldown = 1, .factor = 0.7);
}

static double metric(int64_t step)
{
    return 1 / (1 + (double)step) + (step % 3 ? 0.5 : 0);
}

static void step_any(tn_schedule *schedule)
{
    if (tn_schedule_step(schedule) == TN_OK)
        return;
    tn_error_clear();
    tn_schedule_step_metric(schedule, metric(tn_schedule_steps(schedule)));
}

/* Stops after each step: a run restored from the checkpoint continues with
 * identical bits. */
static void test_resume_all(void)
{
    char path[] = "/tmp/tenon-test-schedules-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no room for a file in /tmp");
    close(fd);
    tn_schedule *(*const make[])(tn_optim *) = {warm_and_fall, plateau};
    for (int k = 0; k < 2; k++) {
        double want[16];
        tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.3);
        tn_schedule *schedule = make[k](optim);
        for (int i = 0; i < 16; i++) {
            step_any(schedule);
            want[i] = tn_optim_lr(optim);
        }
        bool same = true;
        for (int stop = 0; stop < 15; stop++) {
            optim = tn_optim_sgd(parameters(), .lr = 0.3);
            schedule = make[k](optim);
            for (int i = 0; i < stop; i++)
                step_any(schedule);
            tn_checkpoint run = {
                sizeof run, .optim = optim, .schedule = schedule};
            same &= tn_checkpoint_save(path, &run) == TN_OK;
            optim = tn_optim_sgd(parameters(), .lr = 0.7);
            schedule = make[k](optim);
            tn_checkpoint again = {
                sizeof again, .optim = optim, .schedule = schedule};
            same &= tn_checkpoint_load(path, &again) == TN_OK;
            for (int i = stop; i < 16; i++) {
                step_any(schedule);
                same &= tn_optim_lr(optim) == want[i];
            }
        }
        ok(same && !tn_error(),
           "schedule %d: the same rates after a stop at each step%s%s", k,
           tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    }
    unlink(path);
}

/* If the second schedule of a chain or sequence fails, the first one's change
 * is undone. */
static void test_undone(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1, .momentum = 0.9);
    tn_schedule *pair[2] = {tn_schedule_exponential_lr(optim, 0.5),
                            tn_schedule_one_cycle_lr(optim, 1, 1)};
    tn_schedule *chain = tn_schedule_chained(pair, 2);
    is_int(tn_schedule_step(chain), TN_OK, "the last step of a cycle");
    const double lr = tn_optim_lr(optim);
    is_int(tn_schedule_step(chain), TN_ERR_STATE, "none is left");
    tn_error_clear();
    is_int(tn_schedule_steps(chain), 1, "a chain's step is undone");
    is_int(tn_schedule_steps(pair[0]), 1, "in each schedule");
    ok(tn_optim_lr(optim) == lr, "and in the optimizer");
    is_int(tn_schedule_set_steps(chain, 2), TN_ERR_ARGUMENT,
           "nor can it be set there");
    tn_error_clear();
    is_int(tn_schedule_steps(pair[0]), 1, "and nothing is set");
}

#define REFUSED(make, code, text)                                             \
    do {                                                                      \
        ok(!(make), "refused: " #make);                                       \
        is_int(tn_error_code(), code, "with %s", tn_status_name(code));       \
        is_str(tn_error(), text, "and its message");                          \
        tn_error_clear();                                                     \
    } while (0)

static void test_mistakes(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1, .momentum = 0.9);
    REFUSED(tn_schedule_step_lr(optim, 0), TN_ERR_ARGUMENT,
            "schedule_step_lr: step_size is 0; expected at least 1");
    REFUSED(tn_schedule_multi_step_lr(optim, NULL, 2), TN_ERR_ARGUMENT,
            "schedule_multi_step_lr: milestones is NULL");
    REFUSED(tn_schedule_exponential_lr(optim, -1), TN_ERR_ARGUMENT,
            "schedule_exponential_lr: gamma is -1; expected at least 0");
    REFUSED(tn_schedule_constant_lr(optim, .factor = 2), TN_ERR_ARGUMENT,
            "schedule_constant_lr: factor is 2; expected more than 0 and at "
            "most 1");
    REFUSED(tn_schedule_linear_lr(optim, .total_iters = -1), TN_ERR_ARGUMENT,
            "schedule_linear_lr: total_iters is -1; expected at least 1");
    REFUSED(tn_schedule_polynomial_lr(optim, .power = -2), TN_ERR_ARGUMENT,
            "schedule_polynomial_lr: power is -2; expected at least 0");
    REFUSED(tn_schedule_cosine_annealing_lr(optim, 0), TN_ERR_ARGUMENT,
            "schedule_cosine_annealing_lr: T_max is 0; expected at least 1");
    REFUSED(tn_schedule_one_cycle_lr(optim, 1, 10, .pct_start = 1.5),
            TN_ERR_ARGUMENT,
            "schedule_one_cycle_lr: pct_start is 1.5; expected between 0 and "
            "1");
    REFUSED(tn_schedule_exponential_lr(NULL, 0.9), TN_ERR_ARGUMENT,
            "schedule_exponential_lr: optim is NULL");

    tn_schedule *schedule = tn_schedule_one_cycle_lr(optim, 1, 1);
    double first = tn_optim_lr(optim);
    ok(isfinite(first), "a cycle of one step has a rate");
    is_int(tn_schedule_step(schedule), TN_OK, "the last step");
    REFUSED(tn_schedule_step(schedule) == TN_OK, TN_ERR_STATE,
            "schedule_step: this is step 2, but total_steps is 1");
    REFUSED(tn_schedule_set_steps(schedule, 2) == TN_OK, TN_ERR_ARGUMENT,
            "schedule_set_steps: steps is 2; expected at least 0 and at most "
            "total_steps");
    REFUSED(tn_schedule_step(NULL) == TN_OK, TN_ERR_ARGUMENT,
            "schedule_step: schedule is NULL");
    is_int(tn_schedule_steps(NULL), 0, "no schedule has made no steps");
    ok(!tn_error(), "and asking for them is no error");
    tn_schedule_one_cycle_lr(optim, 2, 10, .pct_start = 0.1);
    is_double_near(tn_optim_lr(optim), 2, 0,
                   "a warm-up of length 0 has no steps");
    schedule = tn_schedule_exponential_lr(optim, 0.5);
    double now = tn_optim_lr(optim);
    tn_error_set(TN_ERR_IO, "a batch is gone");
    is_int(tn_schedule_step(schedule), TN_ERR_STATE,
           "a step is refused while an error is pending");
    tn_error_clear();
    ok(tn_optim_lr(optim) == now, "and changes nothing");
}

static void test_new_mistakes(void)
{
    tn_optim *optim = tn_optim_sgd(parameters(), .lr = 0.1);
    tn_optim *other = tn_optim_sgd(parameters(), .lr = 0.1);
    tn_schedule *plain = tn_schedule_step_lr(optim, 2);
    tn_schedule *watching = tn_schedule_reduce_lr_on_plateau(optim);
    tn_schedule *strange[] = {plain, tn_schedule_step_lr(other, 2)};
    tn_schedule *twice[] = {plain, plain};
    tn_schedule *with_metric[] = {plain, watching};
    tn_schedule *none[] = {plain, NULL};
    tn_schedule *two[] = {plain, tn_schedule_step_lr(optim, 3)};
    REFUSED(tn_schedule_lambda_lr(optim, NULL, NULL), TN_ERR_ARGUMENT,
            "schedule_lambda_lr: function is NULL");
    REFUSED(tn_schedule_multiplicative_lr(NULL, of_group, NULL),
            TN_ERR_ARGUMENT, "schedule_multiplicative_lr: optim is NULL");
    REFUSED(tn_schedule_chained(NULL, 1), TN_ERR_ARGUMENT,
            "schedule_chained: schedules is NULL");
    REFUSED(tn_schedule_chained(two, 0), TN_ERR_ARGUMENT,
            "schedule_chained: count is 0; expected at least 1");
    REFUSED(tn_schedule_chained(none, 2), TN_ERR_ARGUMENT,
            "schedule_chained: schedules[1] is NULL");
    REFUSED(tn_schedule_chained(strange, 2), TN_ERR_ARGUMENT,
            "schedule_chained: schedules[1] belongs to another optimizer");
    REFUSED(tn_schedule_chained(twice, 2), TN_ERR_ARGUMENT,
            "schedule_chained: schedules[1] equals schedules[0]");
    REFUSED(tn_schedule_sequential_lr(optim, with_metric, 2, (int64_t[]){1}),
            TN_ERR_ARGUMENT,
            "schedule_sequential_lr: schedules[1] is "
            "schedule_reduce_lr_on_plateau, whose step needs a metric: step it "
            "separately");
    REFUSED(tn_schedule_sequential_lr(optim, two, 2, NULL), TN_ERR_ARGUMENT,
            "schedule_sequential_lr: milestones is NULL; 2 schedules need 1 "
            "milestones");
    REFUSED(tn_schedule_sequential_lr(optim, two, 2, (int64_t[]){-1}),
            TN_ERR_ARGUMENT,
            "schedule_sequential_lr: milestones[0] is -1; expected at least 0");
    REFUSED(tn_schedule_sequential_lr(other, two, 2, (int64_t[]){1}),
            TN_ERR_ARGUMENT,
            "schedule_sequential_lr: schedules[0] belongs to another "
            "optimizer");
    REFUSED(tn_schedule_reduce_lr_on_plateau(optim, .mode = "best"),
            TN_ERR_ARGUMENT,
            "schedule_reduce_lr_on_plateau: mode is \"best\"; expected \"min\" "
            "or \"max\"");
    REFUSED(tn_schedule_reduce_lr_on_plateau(optim, .threshold_mode = "x"),
            TN_ERR_ARGUMENT,
            "schedule_reduce_lr_on_plateau: threshold_mode is \"x\"; expected "
            "\"rel\" or \"abs\"");
    REFUSED(tn_schedule_reduce_lr_on_plateau(optim, .factor = 1),
            TN_ERR_ARGUMENT,
            "schedule_reduce_lr_on_plateau: factor is 1; expected at least 0 "
            "and below 1");
    REFUSED(tn_schedule_reduce_lr_on_plateau(optim, .patience = -1),
            TN_ERR_ARGUMENT,
            "schedule_reduce_lr_on_plateau: patience is -1; expected at least "
            "0");
    REFUSED(tn_schedule_step(watching) == TN_OK, TN_ERR_ARGUMENT,
            "schedule_step: a step of schedule_reduce_lr_on_plateau needs a "
            "metric: call tn_schedule_step_metric");
    REFUSED(tn_schedule_step_metric(plain, 1) == TN_OK, TN_ERR_ARGUMENT,
            "schedule_step_metric: a step of schedule_step_lr takes no metric: "
            "call tn_schedule_step");
    tn_schedule_state bad = {.steps = 1, .bad_steps = -2};
    REFUSED(tn_schedule_restore(watching, bad) == TN_OK, TN_ERR_ARGUMENT,
            "schedule_restore: steps is 1, bad_steps -2, cooldown 0, best 0; "
            "expected at least 0, steps at most total_steps, and best not NaN");
    ok(isinf(tn_schedule_snapshot(watching).best), "and nothing is set");
    is_int(tn_schedule_snapshot(NULL).steps, 0, "no schedule has no state");
    tn_error_set(TN_ERR_IO, "a batch is gone");
    ok(!tn_schedule_chained(two, 2) &&
           tn_schedule_step_metric(watching, 1) == TN_ERR_STATE &&
           tn_schedule_restore(plain, (tn_schedule_state){0}) == TN_ERR_STATE,
       "nothing is done while an error is pending");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_values();
    test_chain();
    test_momentum();
    test_resume();
    test_mistakes();
    test_functions();
    test_plateau();
    test_resume_all();
    test_undone();
    test_new_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
