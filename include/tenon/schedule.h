/* <tenon/schedule.h>: learning rate schedules.
 *
 *     tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
 *     tn_schedule *schedule = tn_schedule_step_lr(opt, 30, .gamma = 0.1);
 *     for (int epoch = 0; epoch < 90; epoch++) {
 *         train(net, opt);
 *         tn_schedule_step(schedule);
 *     }
 *
 * Names, defaults and values are those of torch.optim.lr_scheduler. Making a
 * schedule sets the first learning rate; each tn_schedule_step sets the next
 * one, in every group of the optimizer. If one optimizer has several schedules,
 * their factors multiply, as in PyTorch. tn_schedule_chained steps several
 * schedules in one call, and tn_schedule_sequential_lr runs one after another.
 * A schedule holds a reference to its optimizer.
 *
 * Threads: A schedule and its optimizer belong to one thread at a time. */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_schedule tn_schedule;

/* Sets the next learning rate. Fails with TN_ERR_STATE while an error is pending or
 * work is recorded (call it after each replay), and with TN_ERR_ARGUMENT for tn_schedule_reduce_lr_on_plateau, which
 * steps by tn_schedule_step_metric. A step that fails changes nothing. */
TN_API tn_status tn_schedule_step(tn_schedule *schedule);
/* The step of tn_schedule_reduce_lr_on_plateau. metric is the value that it
 * watches, for example a validation loss. NaN does not count as an improvement.
 * Fails with TN_ERR_STATE while an error is pending or work is recorded, and with
 * TN_ERR_ARGUMENT for another schedule. */
TN_API tn_status tn_schedule_step_metric(tn_schedule *schedule, double metric);
/* Returns "min" or "max" if the step of schedule is tn_schedule_step_metric
 * with a metric that should fall or rise, and NULL if it is tn_schedule_step or
 * schedule is NULL. Cannot fail. */
TN_API const char *tn_schedule_metric_mode(const tn_schedule *schedule);

/* The number of steps so far. To resume training, make optimizer and schedule
 * as before, call tn_optim_load, then tn_schedule_set_steps. Setting the number
 * does not change learning rates, because tn_optim_load restores them. A chain
 * or a sequence also sets the schedules in it. */
TN_API int64_t tn_schedule_steps(const tn_schedule *schedule);
TN_API tn_status tn_schedule_set_steps(tn_schedule *schedule, int64_t steps);

/* The saved state of a schedule (PyTorch's state_dict), which
 * <tenon/checkpoint.h> saves. Together with the learning rates in the
 * optimizer's file it determines all later learning rates. A
 * tn_schedule_function is not saved: make the schedule with the same function.
 * The last three members are used by tn_schedule_reduce_lr_on_plateau only, and
 * are 0 for other schedules. Closed. */
typedef struct tn_schedule_state {
    int64_t steps;
    int64_t bad_steps; /* steps since the last improvement */
    int64_t cooldown;  /* steps until bad steps are counted again */
    double best;       /* the best metric so far */
} tn_schedule_state;
/* Returns the state, or zeros for NULL. Cannot fail. */
TN_API tn_schedule_state tn_schedule_snapshot(const tn_schedule *schedule);
/* Sets the state, without a change of learning rates. Fails with
 * TN_ERR_ARGUMENT, with nothing changed, if a value is out of range. */
TN_API tn_status tn_schedule_restore(tn_schedule *schedule,
                                     tn_schedule_state state);

/* ---- the schedules -------------------------------------------------------
 * Each X(...) row below is the type, name and default of an option. Each call
 * returns a schedule owned by the open scope. It returns NULL with
 * TN_ERR_ARGUMENT if a value is out of range, with TN_ERR_MEMORY if memory runs
 * out. */

#define TN_SCHEDULE_STEP_LR_OPTIONS_LIST(X)                                   \
    X(double, gamma, 0.1)
TN_OPTIONS_STRUCT(tn_schedule_step_lr, TN_SCHEDULE_STEP_LR_OPTIONS_LIST);
#define TN_SCHEDULE_STEP_LR_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_schedule_step_lr, TN_SCHEDULE_STEP_LR_OPTIONS_LIST)
/* Multiplies the learning rate by gamma every step_size steps. */
TN_API tn_schedule *
tn_schedule_step_lr_with(tn_optim *optim, int64_t step_size,
                         const tn_schedule_step_lr_options *options);

#define TN_SCHEDULE_MULTI_STEP_LR_OPTIONS_LIST(X)                             \
    X(double, gamma, 0.1)
TN_OPTIONS_STRUCT(tn_schedule_multi_step_lr,
                  TN_SCHEDULE_MULTI_STEP_LR_OPTIONS_LIST);
#define TN_SCHEDULE_MULTI_STEP_LR_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_schedule_multi_step_lr,                            \
                        TN_SCHEDULE_MULTI_STEP_LR_OPTIONS_LIST)
/* Multiplies the learning rate by gamma at each of the steps in milestones. */
TN_API tn_schedule *tn_schedule_multi_step_lr_with(
    tn_optim *optim, const int64_t *milestones, int count,
    const tn_schedule_multi_step_lr_options *options);

/* Multiplies the learning rate by gamma at each step. */
TN_API tn_schedule *tn_schedule_exponential_lr(tn_optim *optim, double gamma);

#define TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST(X)                               \
    X(double, factor, 1.0 / 3)                                                \
    X(int64_t, total_iters, 5)
TN_OPTIONS_STRUCT(tn_schedule_constant_lr,
                  TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CONSTANT_LR_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_schedule_constant_lr,                              \
                        TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST)
/* Multiplies the learning rate by factor before step total_iters, and by 1 from
 * then on. */
TN_API tn_schedule *
tn_schedule_constant_lr_with(tn_optim *optim,
                             const tn_schedule_constant_lr_options *options);

#define TN_SCHEDULE_LINEAR_LR_OPTIONS_LIST(X)                                 \
    X(double, start_factor, 1.0 / 3)                                          \
    X(double, end_factor, 1)                                                  \
    X(int64_t, total_iters, 5)
TN_OPTIONS_STRUCT(tn_schedule_linear_lr, TN_SCHEDULE_LINEAR_LR_OPTIONS_LIST);
#define TN_SCHEDULE_LINEAR_LR_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_schedule_linear_lr,                                \
                        TN_SCHEDULE_LINEAR_LR_OPTIONS_LIST)
/* Multiplies the learning rate by a factor that changes linearly from
 * start_factor to end_factor in total_iters steps. */
TN_API tn_schedule *
tn_schedule_linear_lr_with(tn_optim *optim,
                           const tn_schedule_linear_lr_options *options);

#define TN_SCHEDULE_POLYNOMIAL_LR_OPTIONS_LIST(X)                             \
    X(int64_t, total_iters, 5)                                                \
    X(double, power, 1)
TN_OPTIONS_STRUCT(tn_schedule_polynomial_lr,
                  TN_SCHEDULE_POLYNOMIAL_LR_OPTIONS_LIST);
#define TN_SCHEDULE_POLYNOMIAL_LR_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_schedule_polynomial_lr,                            \
                        TN_SCHEDULE_POLYNOMIAL_LR_OPTIONS_LIST)
/* Multiplies the learning rate by (1 - step / total_iters)^power, which reaches
 * 0 at step total_iters. */
TN_API tn_schedule *tn_schedule_polynomial_lr_with(
    tn_optim *optim, const tn_schedule_polynomial_lr_options *options);

#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST(X)                       \
    X(double, eta_min, 0)
TN_OPTIONS_STRUCT(tn_schedule_cosine_annealing_lr,
                  TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST);
#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_schedule_cosine_annealing_lr,                      \
                        TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST)
/* Decreases the learning rate along half a cosine to eta_min in T_max steps,
 * then increases it again: arXiv:1608.03983 without restarts. */
TN_API tn_schedule *tn_schedule_cosine_annealing_lr_with(
    tn_optim *optim, int64_t T_max,
    const tn_schedule_cosine_annealing_lr_options *options);

#define TN_SCHEDULE_COSINE_ANNEALING_WARM_RESTARTS_OPTIONS_LIST(X)            \
    X(int64_t, T_mult, 1)                                                     \
    X(double, eta_min, 0)
TN_OPTIONS_STRUCT(tn_schedule_cosine_annealing_warm_restarts,
                  TN_SCHEDULE_COSINE_ANNEALING_WARM_RESTARTS_OPTIONS_LIST);
#define TN_SCHEDULE_COSINE_ANNEALING_WARM_RESTARTS_OPTIONS                    \
    TN_OPTIONS_DEFAULTS(tn_schedule_cosine_annealing_warm_restarts,           \
                        TN_SCHEDULE_COSINE_ANNEALING_WARM_RESTARTS_OPTIONS_LIST)
/* Decreases the learning rate along half a cosine for T_0 steps, then restarts
 * at the initial rate. Each period is T_mult times as long as the one before
 * (arXiv:1608.03983). */
TN_API tn_schedule *tn_schedule_cosine_annealing_warm_restarts_with(
    tn_optim *optim, int64_t T_0,
    const tn_schedule_cosine_annealing_warm_restarts_options *options);

typedef enum tn_cycle_mode {
    TN_CYCLE_TRIANGULAR,  /* every cycle reaches max_lr */
    TN_CYCLE_TRIANGULAR2, /* each cycle has half the amplitude of the last */
    TN_CYCLE_EXP_RANGE    /* the amplitude is multiplied by gamma^step */
} tn_cycle_mode;
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST(X)                                 \
    X(int64_t, step_size_up, 2000)                                            \
    X(int64_t, step_size_down, TN_NONE_INT) /* default: step_size_up */       \
    X(tn_cycle_mode, mode, TN_CYCLE_TRIANGULAR)                               \
    X(double, gamma, 1) /* requires TN_CYCLE_EXP_RANGE */                     \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.8)                                             \
    X(double, max_momentum, 0.9)
TN_OPTIONS_STRUCT(tn_schedule_cyclic_lr, TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_schedule_cyclic_lr,                                \
                        TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST)
/* Moves the learning rate up and down between base_lr and max_lr
 * (arXiv:1506.01186). With cycle_momentum, the optimizer must have a momentum,
 * else the result is NULL with TN_ERR_ARGUMENT. base_momentum and max_momentum
 * are rejected without cycle_momentum. gamma is rejected unless the mode is
 * TN_CYCLE_EXP_RANGE. */
TN_API tn_schedule *
tn_schedule_cyclic_lr_with(tn_optim *optim, double base_lr, double max_lr,
                           const tn_schedule_cyclic_lr_options *options);

#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST(X)                              \
    X(double, pct_start, 0.3) /* fraction of steps in which lr rises */       \
    X(bool, linear, false) /* lr changes linearly instead of by a cosine */   \
    X(bool, three_phase, false) /* lr falls to the first lr, then the last */ \
    X(double, div_factor, 25) /* first lr = max_lr / div_factor */            \
    X(double, final_div_factor, 1e4) /* first lr / last lr */                 \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.85)                                            \
    X(double, max_momentum, 0.95)
TN_OPTIONS_STRUCT(tn_schedule_one_cycle_lr,
                  TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST);
#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS                                      \
    TN_OPTIONS_DEFAULTS(tn_schedule_one_cycle_lr,                             \
                        TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST)
/* Raises the learning rate to max_lr, then lowers it to nearly 0, within
 * total_steps (arXiv:1708.07120). Further steps fail with TN_ERR_STATE. With
 * cycle_momentum, the optimizer must have a momentum. Without cycle_momentum,
 * base_momentum and max_momentum are rejected. */
TN_API tn_schedule *
tn_schedule_one_cycle_lr_with(tn_optim *optim, double max_lr,
                              int64_t total_steps,
                              const tn_schedule_one_cycle_lr_options *options);

/* Returns the factor by which the learning rate of a group is multiplied at a
 * step. Both count from 0. On failure the function sets an error
 * (tn_error_set). */
typedef double (*tn_schedule_function)(int64_t step, int group, void *context);
/* Multiplies the initial learning rate by function(step). Step 0 is made
 * together with the schedule. function and context must remain valid as long as
 * the schedule. A step fails with TN_ERR_ARGUMENT if the learning rate would be
 * negative or not finite. Source: LambdaLR. */
TN_API tn_schedule *tn_schedule_lambda_lr(tn_optim *optim,
                                          tn_schedule_function function,
                                          void *context);
/* Multiplies the current learning rate by function(step), from step 1. Source:
 * MultiplicativeLR. */
TN_API tn_schedule *tn_schedule_multiplicative_lr(tn_optim *optim,
                                                  tn_schedule_function function,
                                                  void *context);

/* Options of tn_schedule_reduce_lr_on_plateau:
 *
 *   mode            "min": the metric should fall; "max": it should rise
 *   factor          multiplies the learning rate in a reduction; below 1
 *   patience        number of steps without an improvement that are tolerated
 *   threshold       a smaller change does not count as an improvement
 *   threshold_mode  "rel": threshold is a fraction of the best metric; "abs":
 *                   it is a difference
 *   cooldown        number of steps after a reduction that are not counted
 *   min_lr          lower bound of the learning rate
 *   eps             a reduction by less than this is not made */
#define TN_SCHEDULE_REDUCE_LR_ON_PLATEAU_OPTIONS_LIST(X)                      \
    X(const char *, mode, "min")                                              \
    X(double, factor, 0.1)                                                    \
    X(int64_t, patience, 10)                                                  \
    X(double, threshold, 1e-4)                                                \
    X(const char *, threshold_mode, "rel")                                    \
    X(int64_t, cooldown, 0)                                                   \
    X(double, min_lr, 0)                                                      \
    X(double, eps, 1e-8)
TN_OPTIONS_STRUCT(tn_schedule_reduce_lr_on_plateau,
                  TN_SCHEDULE_REDUCE_LR_ON_PLATEAU_OPTIONS_LIST);
#define TN_SCHEDULE_REDUCE_LR_ON_PLATEAU_OPTIONS                              \
    TN_OPTIONS_DEFAULTS(tn_schedule_reduce_lr_on_plateau,                     \
                        TN_SCHEDULE_REDUCE_LR_ON_PLATEAU_OPTIONS_LIST)
/* Multiplies the learning rate by factor when a metric has stopped improving.
 * Its step is tn_schedule_step_metric. Source: ReduceLROnPlateau. */
TN_API tn_schedule *tn_schedule_reduce_lr_on_plateau_with(
    tn_optim *optim, const tn_schedule_reduce_lr_on_plateau_options *options);

/* ---- schedules of schedules ------------------------------------------------
 * These schedules hold references to the given ones, which must not be stepped
 * directly from then on. All given schedules must be of one optimizer, and none
 * may be a tn_schedule_reduce_lr_on_plateau (TN_ERR_ARGUMENT).
 * tn_schedule_snapshot and tn_schedule_restore cover the given schedules,
 * too. */

/* Runs schedules[0] until step milestones[0], then schedules[1] until
 * milestones[1], and so on. Each schedule begins with its step 0 and the
 * initial learning rate. milestones has count - 1 elements in ascending order;
 * equal ones are allowed. The initial learning rate is the one that the
 * optimizer had before its first schedule was made, even if that schedule is a
 * OneCycleLR or CyclicLR (PyTorch uses the first learning rate that these two
 * set). Source: SequentialLR. */
TN_API tn_schedule *tn_schedule_sequential_lr(tn_optim *optim,
                                              tn_schedule *const *schedules,
                                              int count,
                                              const int64_t *milestones);
/* Each step is a step of all schedules, in their order. Source:
 * ChainedScheduler. */
TN_API tn_schedule *tn_schedule_chained(tn_schedule *const *schedules,
                                        int count);

/* ---- calls with options by name ------------------------------------------ */

#ifndef __cplusplus
#define tn_schedule_step_lr(...) TN_CALL_2(tn_schedule_step_lr, __VA_ARGS__, )
#define tn_schedule_multi_step_lr(...)                                        \
    TN_CALL_3(tn_schedule_multi_step_lr, __VA_ARGS__, )
#define tn_schedule_constant_lr(...)                                          \
    TN_CALL_1(tn_schedule_constant_lr, __VA_ARGS__, )
#define tn_schedule_linear_lr(...)                                            \
    TN_CALL_1(tn_schedule_linear_lr, __VA_ARGS__, )
#define tn_schedule_polynomial_lr(...)                                        \
    TN_CALL_1(tn_schedule_polynomial_lr, __VA_ARGS__, )
#define tn_schedule_cosine_annealing_lr(...)                                  \
    TN_CALL_2(tn_schedule_cosine_annealing_lr, __VA_ARGS__, )
#define tn_schedule_cosine_annealing_warm_restarts(...)                       \
    TN_CALL_2(tn_schedule_cosine_annealing_warm_restarts, __VA_ARGS__, )
#define tn_schedule_cyclic_lr(...)                                            \
    TN_CALL_3(tn_schedule_cyclic_lr, __VA_ARGS__, )
#define tn_schedule_one_cycle_lr(...)                                         \
    TN_CALL_3(tn_schedule_one_cycle_lr, __VA_ARGS__, )
#define tn_schedule_reduce_lr_on_plateau(...)                                 \
    TN_CALL_1(tn_schedule_reduce_lr_on_plateau, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_schedule *, tn_schedule_step_lr, tn_optim *, int64_t)
TN_OVERLOAD_3(tn_schedule *, tn_schedule_multi_step_lr,
              tn_optim *, const int64_t *, int)
TN_OVERLOAD_1(tn_schedule *, tn_schedule_constant_lr, tn_optim *)
TN_OVERLOAD_1(tn_schedule *, tn_schedule_linear_lr, tn_optim *)
TN_OVERLOAD_1(tn_schedule *, tn_schedule_polynomial_lr, tn_optim *)
TN_OVERLOAD_2(tn_schedule *, tn_schedule_cosine_annealing_lr,
              tn_optim *, int64_t)
TN_OVERLOAD_2(tn_schedule *, tn_schedule_cosine_annealing_warm_restarts,
              tn_optim *, int64_t)
TN_OVERLOAD_3(tn_schedule *, tn_schedule_cyclic_lr, tn_optim *, double, double)
TN_OVERLOAD_3(tn_schedule *, tn_schedule_one_cycle_lr,
              tn_optim *, double, int64_t)
TN_OVERLOAD_1(tn_schedule *, tn_schedule_reduce_lr_on_plateau, tn_optim *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
