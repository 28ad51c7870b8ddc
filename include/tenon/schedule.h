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
 * one, in every group of the optimizer. As in PyTorch, several schedules of one
 * optimizer multiply. A schedule keeps its optimizer.
 *
 * Threads: A schedule and its optimizer belong to one thread at a time.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_schedule tn_schedule;

/* Sets the next learning rate. TN_ERR_STATE while an error is pending. */
TN_API tn_status tn_schedule_step(tn_schedule *schedule);

/* The number of steps so far. To resume training: make optimizer and schedule
 * as before, call tn_optim_load, then set the steps. Setting changes the count
 * only, because the optimizer's file has the learning rates. */
TN_API int64_t tn_schedule_steps(const tn_schedule *schedule);
TN_API tn_status tn_schedule_set_steps(tn_schedule *schedule, int64_t steps);

/* ---- the schedules -------------------------------------------------------
 * Each row: type, name, default. Each call returns a schedule owned by the open
 * scope. NULL: TN_ERR_ARGUMENT for a value out of range, TN_ERR_MEMORY. */

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
/* Multiplies it by gamma at each of the steps in milestones. */
TN_API tn_schedule *tn_schedule_multi_step_lr_with(
    tn_optim *optim, const int64_t *milestones, int count,
    const tn_schedule_multi_step_lr_options *options);

/* Multiplies it by gamma at each step. */
TN_API tn_schedule *tn_schedule_exponential_lr(tn_optim *optim, double gamma);

#define TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST(X)                               \
    X(double, factor, 1.0 / 3)                                                \
    X(int64_t, total_iters, 5)
TN_OPTIONS_STRUCT(tn_schedule_constant_lr,
                  TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CONSTANT_LR_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_schedule_constant_lr,                              \
                        TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST)
/* Multiplies it by factor until step total_iters. */
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
/* Multiplies it by a factor that changes linearly from start_factor to
 * end_factor in total_iters steps. */
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
/* Multiplies it by (1 - step / total_iters)^power, which ends at 0. */
TN_API tn_schedule *tn_schedule_polynomial_lr_with(
    tn_optim *optim, const tn_schedule_polynomial_lr_options *options);

#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST(X)                       \
    X(double, eta_min, 0)
TN_OPTIONS_STRUCT(tn_schedule_cosine_annealing_lr,
                  TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST);
#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_schedule_cosine_annealing_lr,                      \
                        TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST)
/* Decreases along half a cosine to eta_min in T_max steps, then increases
 * again: arXiv:1608.03983 without restarts. */
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
/* Decreases along half a cosine and restarts, after T_0 steps, then after
 * T_0 * T_mult more, and so on: arXiv:1608.03983. */
TN_API tn_schedule *tn_schedule_cosine_annealing_warm_restarts_with(
    tn_optim *optim, int64_t T_0,
    const tn_schedule_cosine_annealing_warm_restarts_options *options);

typedef enum tn_cycle_mode {
    TN_CYCLE_TRIANGULAR,  /* every cycle up to max_lr */
    TN_CYCLE_TRIANGULAR2, /* half the amplitude each cycle */
    TN_CYCLE_EXP_RANGE    /* amplitude times gamma^step */
} tn_cycle_mode;
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST(X)                                 \
    X(int64_t, step_size_up, 2000)                                            \
    X(int64_t, step_size_down, TN_NONE_INT) /* none: step_size_up */          \
    X(tn_cycle_mode, mode, TN_CYCLE_TRIANGULAR)                               \
    X(double, gamma, 1) /* for TN_CYCLE_EXP_RANGE */                          \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.8)                                             \
    X(double, max_momentum, 0.9)
TN_OPTIONS_STRUCT(tn_schedule_cyclic_lr, TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_schedule_cyclic_lr,                                \
                        TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST)
/* Cycles between base_lr and max_lr: arXiv:1506.01186. With cycle_momentum the
 * optimizer must have a momentum (TN_ERR_ARGUMENT). base_momentum and
 * max_momentum are rejected without cycle_momentum, gamma in another mode than
 * TN_CYCLE_EXP_RANGE. */
TN_API tn_schedule *
tn_schedule_cyclic_lr_with(tn_optim *optim, double base_lr, double max_lr,
                           const tn_schedule_cyclic_lr_options *options);

#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST(X)                              \
    X(double, pct_start, 0.3) /* fraction of rising steps */                  \
    X(bool, linear, false) /* linear, not cosine */                           \
    X(bool, three_phase, false) /* mirror the rise, then anneal */            \
    X(double, div_factor, 25) /* first lr: max_lr / div_factor */             \
    X(double, final_div_factor, 1e4) /* last: first / final_div_factor */     \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.85)                                            \
    X(double, max_momentum, 0.95)
TN_OPTIONS_STRUCT(tn_schedule_one_cycle_lr,
                  TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST);
#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS                                      \
    TN_OPTIONS_DEFAULTS(tn_schedule_one_cycle_lr,                             \
                        TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST)
/* Rises to max_lr, then falls to nearly 0, within total_steps:
 * arXiv:1708.07120. Further steps are TN_ERR_STATE. cycle_momentum,
 * base_momentum and max_momentum as in tn_schedule_cyclic_lr. */
TN_API tn_schedule *
tn_schedule_one_cycle_lr_with(tn_optim *optim, double max_lr,
                              int64_t total_steps,
                              const tn_schedule_one_cycle_lr_options *options);

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
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
