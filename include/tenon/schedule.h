/* <tenon/schedule.h>: learning rates that change as training goes on.
 *
 *     tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
 *     tn_schedule *schedule = tn_schedule_step_lr(opt, 30, .gamma = 0.1);
 *     for (int epoch = 0; epoch < 90; epoch++) {
 *         train(net, opt);
 *         tn_schedule_step(schedule);
 *     }
 *
 * Names, defaults and values are those of torch.optim.lr_scheduler. Making a
 * schedule sets the first learning rate; each tn_schedule_step the next, in
 * every group of the optimizer. Several schedules on one optimizer multiply,
 * where PyTorch's do. A schedule keeps its optimizer.
 *
 * Threads: A schedule, with its optimizer, belongs to one thread at a time.
 */
#ifndef TENON_SCHEDULE_H
#define TENON_SCHEDULE_H

#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_schedule tn_schedule;

/* On to the next learning rate. Refused while an error is pending. */
TN_API tn_status tn_schedule_step(tn_schedule *schedule);

/* How many steps it has gone. To take up training again: make optimizer and
 * schedule as before, tn_optim_load, then set the steps of the schedule. Sets
 * the count alone: the learning rates are the optimizer's. */
TN_API int64_t tn_schedule_steps(const tn_schedule *schedule);
TN_API tn_status tn_schedule_set_steps(tn_schedule *schedule, int64_t steps);

/* ---- the schedules -------------------------------------------------------
 * Each row: type, name, default. */

#define TN_SCHEDULE_STEP_LR_OPTIONS_LIST(X)                                   \
    X(double, gamma, 0.1)
TN_OPTIONS_STRUCT(tn_schedule_step_lr, TN_SCHEDULE_STEP_LR_OPTIONS_LIST);
#define TN_SCHEDULE_STEP_LR_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_schedule_step_lr, TN_SCHEDULE_STEP_LR_OPTIONS_LIST)
/* Times gamma after every step_size steps. */
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
/* Times gamma at each of the steps in milestones. */
TN_API tn_schedule *tn_schedule_multi_step_lr_with(
    tn_optim *optim, const int64_t *milestones, int count,
    const tn_schedule_multi_step_lr_options *options);

/* Times gamma at each step. */
TN_API tn_schedule *tn_schedule_exponential_lr(tn_optim *optim, double gamma);

#define TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST(X)                               \
    X(double, factor, 1.0 / 3)                                                \
    X(int64_t, total_iters, 5)
TN_OPTIONS_STRUCT(tn_schedule_constant_lr,
                  TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CONSTANT_LR_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_schedule_constant_lr,                              \
                        TN_SCHEDULE_CONSTANT_LR_OPTIONS_LIST)
/* Times factor until step total_iters. */
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
/* Times a factor that goes in a straight line from start to end. */
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
/* Times (1 - step / total_iters)^power, to 0. */
TN_API tn_schedule *tn_schedule_polynomial_lr_with(
    tn_optim *optim, const tn_schedule_polynomial_lr_options *options);

#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST(X)                       \
    X(double, eta_min, 0)
TN_OPTIONS_STRUCT(tn_schedule_cosine_annealing_lr,
                  TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST);
#define TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS                               \
    TN_OPTIONS_DEFAULTS(tn_schedule_cosine_annealing_lr,                      \
                        TN_SCHEDULE_COSINE_ANNEALING_LR_OPTIONS_LIST)
/* Half a cosine down to eta_min in T_max steps, then up again. arXiv:1608.03983
 * without its restarts. */
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
/* The same, from the top again after T_0 steps, then T_0 * T_mult and so on.
 * arXiv:1608.03983. */
TN_API tn_schedule *tn_schedule_cosine_annealing_warm_restarts_with(
    tn_optim *optim, int64_t T_0,
    const tn_schedule_cosine_annealing_warm_restarts_options *options);

typedef enum tn_cycle_mode {
    TN_CYCLE_TRIANGULAR,  /* every cycle to max_lr */
    TN_CYCLE_TRIANGULAR2, /* half as high each time */
    TN_CYCLE_EXP_RANGE    /* gamma^step as high */
} tn_cycle_mode;
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST(X)                                 \
    X(int64_t, step_size_up, 2000)                                            \
    X(int64_t, step_size_down, TN_NONE_INT) /* none: as up */                 \
    X(tn_cycle_mode, mode, TN_CYCLE_TRIANGULAR)                               \
    X(double, gamma, 1) /* of TN_CYCLE_EXP_RANGE */                           \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.8)                                             \
    X(double, max_momentum, 0.9)
TN_OPTIONS_STRUCT(tn_schedule_cyclic_lr, TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST);
#define TN_SCHEDULE_CYCLIC_LR_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_schedule_cyclic_lr,                                \
                        TN_SCHEDULE_CYCLIC_LR_OPTIONS_LIST)
/* Up and down between base_lr and max_lr. arXiv:1506.01186. With cycle_momentum
 * the optimizer must have one (TN_ERR_ARGUMENT); without, base_momentum and
 * max_momentum are refused, and so is gamma in another mode than its own. */
TN_API tn_schedule *
tn_schedule_cyclic_lr_with(tn_optim *optim, double base_lr, double max_lr,
                           const tn_schedule_cyclic_lr_options *options);

#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST(X)                              \
    X(double, pct_start, 0.3) /* the share of steps that rise */              \
    X(bool, linear, false) /* lines, not cosines */                           \
    X(bool, three_phase, false) /* down as up, then to the end */             \
    X(double, div_factor, 25) /* starts at max_lr / div_factor */             \
    X(double, final_div_factor, 1e4) /* ends at that / this */                \
    X(bool, cycle_momentum, true) /* momentum falls as lr rises */            \
    X(double, base_momentum, 0.85)                                            \
    X(double, max_momentum, 0.95)
TN_OPTIONS_STRUCT(tn_schedule_one_cycle_lr,
                  TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST);
#define TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS                                      \
    TN_OPTIONS_DEFAULTS(tn_schedule_one_cycle_lr,                             \
                        TN_SCHEDULE_ONE_CYCLE_LR_OPTIONS_LIST)
/* Up to max_lr, then down to nearly nothing, within total_steps, after which
 * tn_schedule_step is refused (TN_ERR_STATE). arXiv:1708.07120. cycle_momentum,
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
