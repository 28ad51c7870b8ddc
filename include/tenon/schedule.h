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
 * A number left 0 means the default beside it. */

typedef struct tn_schedule_step_lr_options {
    size_t size;
    double gamma; /* 0.1 */
} tn_schedule_step_lr_options;
/* Times gamma after every step_size steps. */
TN_API tn_schedule *
tn_schedule_step_lr_with(tn_optim *optim, int64_t step_size,
                         const tn_schedule_step_lr_options *options);

typedef struct tn_schedule_multi_step_lr_options {
    size_t size;
    double gamma; /* 0.1 */
} tn_schedule_multi_step_lr_options;
/* Times gamma at each of the steps in milestones. */
TN_API tn_schedule *tn_schedule_multi_step_lr_with(
    tn_optim *optim, const int64_t *milestones, int count,
    const tn_schedule_multi_step_lr_options *options);

/* Times gamma at each step. */
TN_API tn_schedule *tn_schedule_exponential_lr(tn_optim *optim, double gamma);

typedef struct tn_schedule_constant_lr_options {
    size_t size;
    double factor;       /* 1/3 */
    int64_t total_iters; /* 5 */
} tn_schedule_constant_lr_options;
/* Times factor until step total_iters. */
TN_API tn_schedule *
tn_schedule_constant_lr_with(tn_optim *optim,
                             const tn_schedule_constant_lr_options *options);

typedef struct tn_schedule_linear_lr_options {
    size_t size;
    double start_factor; /* 1/3 */
    double end_factor;   /* 1 */
    bool to_zero;        /* end_factor 0 */
    int64_t total_iters; /* 5 */
} tn_schedule_linear_lr_options;
/* Times a factor that goes in a straight line from start to end. */
TN_API tn_schedule *
tn_schedule_linear_lr_with(tn_optim *optim,
                           const tn_schedule_linear_lr_options *options);

typedef struct tn_schedule_polynomial_lr_options {
    size_t size;
    int64_t total_iters; /* 5 */
    double power;        /* 1 */
} tn_schedule_polynomial_lr_options;
/* Times (1 - step / total_iters)^power, to 0. */
TN_API tn_schedule *tn_schedule_polynomial_lr_with(
    tn_optim *optim, const tn_schedule_polynomial_lr_options *options);

typedef struct tn_schedule_cosine_annealing_lr_options {
    size_t size;
    double eta_min; /* 0 */
} tn_schedule_cosine_annealing_lr_options;
/* Half a cosine down to eta_min in T_max steps, then up again. arXiv:1608.03983
 * without its restarts. */
TN_API tn_schedule *tn_schedule_cosine_annealing_lr_with(
    tn_optim *optim, int64_t T_max,
    const tn_schedule_cosine_annealing_lr_options *options);

typedef struct tn_schedule_cosine_annealing_warm_restarts_options {
    size_t size;
    int64_t T_mult; /* 1 */
    double eta_min; /* 0 */
} tn_schedule_cosine_annealing_warm_restarts_options;
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
typedef struct tn_schedule_cyclic_lr_options {
    size_t size;
    int64_t step_size_up;   /* 2000 */
    int64_t step_size_down; /* as step_size_up */
    tn_cycle_mode mode;
    double gamma;           /* 1; of TN_CYCLE_EXP_RANGE */
    bool no_cycle_momentum; /* else momentum (beta1) falls where lr rises */
    double base_momentum;   /* 0.8 */
    double max_momentum;    /* 0.9 */
} tn_schedule_cyclic_lr_options;
/* Up and down between base_lr and max_lr. arXiv:1506.01186. With momentum the
 * optimizer must have one (TN_ERR_ARGUMENT). */
TN_API tn_schedule *
tn_schedule_cyclic_lr_with(tn_optim *optim, double base_lr, double max_lr,
                           const tn_schedule_cyclic_lr_options *options);

typedef struct tn_schedule_one_cycle_lr_options {
    size_t size;
    double pct_start;        /* 0.3: the share of steps that go up */
    bool linear;             /* straight lines instead of cosines */
    bool three_phase;        /* down as it came up, then to the end */
    double div_factor;       /* 25: starts at max_lr / div_factor */
    double final_div_factor; /* 1e4: ends at that / final_div_factor */
    bool no_cycle_momentum;  /* else momentum (beta1) falls where lr rises */
    double base_momentum;    /* 0.85 */
    double max_momentum;     /* 0.95 */
} tn_schedule_one_cycle_lr_options;
/* Up to max_lr, then down to nearly nothing, within total_steps, after which
 * tn_schedule_step is refused (TN_ERR_STATE). arXiv:1708.07120. With momentum
 * the optimizer must have one (TN_ERR_ARGUMENT). */
TN_API tn_schedule *
tn_schedule_one_cycle_lr_with(tn_optim *optim, double max_lr,
                              int64_t total_steps,
                              const tn_schedule_one_cycle_lr_options *options);

/* ---- calls with options by name ------------------------------------------ */

#ifndef __cplusplus
/* The struct comes after the arguments that must be given: one, two, three. */
#define TN__SCHEDULE_CALL1(name, a, ...)                                      \
    name##_with(a, &(name##_options){__VA_ARGS__})
#define TN__SCHEDULE_CALL2(name, a, b, ...)                                   \
    name##_with(a, b, &(name##_options){__VA_ARGS__})
#define TN__SCHEDULE_CALL3(name, a, b, c, ...)                                \
    name##_with(a, b, c, &(name##_options){__VA_ARGS__})
#define tn_schedule_step_lr(...)                                              \
    TN__SCHEDULE_CALL2(tn_schedule_step_lr, __VA_ARGS__,                      \
                       .size = sizeof(tn_schedule_step_lr_options))
#define tn_schedule_multi_step_lr(...)                                        \
    TN__SCHEDULE_CALL3(tn_schedule_multi_step_lr, __VA_ARGS__,                \
                       .size = sizeof(tn_schedule_multi_step_lr_options))
#define tn_schedule_constant_lr(...)                                          \
    TN__SCHEDULE_CALL1(tn_schedule_constant_lr, __VA_ARGS__,                  \
                       .size = sizeof(tn_schedule_constant_lr_options))
#define tn_schedule_linear_lr(...)                                            \
    TN__SCHEDULE_CALL1(tn_schedule_linear_lr, __VA_ARGS__,                    \
                       .size = sizeof(tn_schedule_linear_lr_options))
#define tn_schedule_polynomial_lr(...)                                        \
    TN__SCHEDULE_CALL1(tn_schedule_polynomial_lr, __VA_ARGS__,                \
                       .size = sizeof(tn_schedule_polynomial_lr_options))
#define tn_schedule_cosine_annealing_lr(...)                                  \
    TN__SCHEDULE_CALL2(                                                       \
        tn_schedule_cosine_annealing_lr, __VA_ARGS__,                         \
        .size = sizeof(tn_schedule_cosine_annealing_lr_options))
#define tn_schedule_cosine_annealing_warm_restarts(...)                       \
    TN__SCHEDULE_CALL2(                                                       \
        tn_schedule_cosine_annealing_warm_restarts, __VA_ARGS__,              \
        .size = sizeof(tn_schedule_cosine_annealing_warm_restarts_options))
#define tn_schedule_cyclic_lr(...)                                            \
    TN__SCHEDULE_CALL3(tn_schedule_cyclic_lr, __VA_ARGS__,                    \
                       .size = sizeof(tn_schedule_cyclic_lr_options))
#define tn_schedule_one_cycle_lr(...)                                         \
    TN__SCHEDULE_CALL3(tn_schedule_one_cycle_lr, __VA_ARGS__,                 \
                       .size = sizeof(tn_schedule_one_cycle_lr_options))
#else
} /* extern "C" */
inline tn_schedule *
tn_schedule_step_lr(tn_optim *optim, int64_t step_size,
                    tn_schedule_step_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_step_lr_with(optim, step_size, &options);
}
inline tn_schedule *
tn_schedule_multi_step_lr(tn_optim *optim, const int64_t *milestones,
                          int count,
                          tn_schedule_multi_step_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_multi_step_lr_with(optim, milestones, count, &options);
}
inline tn_schedule *
tn_schedule_constant_lr(tn_optim *optim,
                        tn_schedule_constant_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_constant_lr_with(optim, &options);
}
inline tn_schedule *
tn_schedule_linear_lr(tn_optim *optim,
                      tn_schedule_linear_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_linear_lr_with(optim, &options);
}
inline tn_schedule *
tn_schedule_polynomial_lr(tn_optim *optim,
                          tn_schedule_polynomial_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_polynomial_lr_with(optim, &options);
}
inline tn_schedule *tn_schedule_cosine_annealing_lr(
    tn_optim *optim, int64_t T_max,
    tn_schedule_cosine_annealing_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_cosine_annealing_lr_with(optim, T_max, &options);
}
inline tn_schedule *tn_schedule_cosine_annealing_warm_restarts(
    tn_optim *optim, int64_t T_0,
    tn_schedule_cosine_annealing_warm_restarts_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_cosine_annealing_warm_restarts_with(optim, T_0,
                                                           &options);
}
inline tn_schedule *
tn_schedule_cyclic_lr(tn_optim *optim, double base_lr, double max_lr,
                      tn_schedule_cyclic_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_cyclic_lr_with(optim, base_lr, max_lr, &options);
}
inline tn_schedule *
tn_schedule_one_cycle_lr(tn_optim *optim, double max_lr, int64_t total_steps,
                         tn_schedule_one_cycle_lr_options options = {})
{
    options.size = sizeof options;
    return tn_schedule_one_cycle_lr_with(optim, max_lr, total_steps, &options);
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
