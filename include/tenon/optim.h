/* <tenon/optim.h>: optimizers.
 *
 *     tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 1e-3);
 *     ...
 *     tn_optim_zero_grad(opt);
 *     tn_backward(loss);
 *     tn_clip_grad_norm(tn_parameters(net), 1.0);
 *     tn_optim_step(opt);
 *
 * Rules, names and defaults are PyTorch's. A step is one kernel for each
 * parameter, run in place; parameters without a gradient are passed over.
 * <tenon/schedule.h> changes the learning rate as training goes on.
 */
#ifndef TENON_OPTIM_H
#define TENON_OPTIM_H

#include <tenon/parameters.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_optim tn_optim;

/* Changes every parameter that has a gradient. Refused (TN_ERR_STATE), with
 * nothing changed, while an error is pending. */
TN_API tn_status tn_optim_step(tn_optim *optim);
/* Forgets the gradients of its parameters. */
TN_API void tn_optim_zero_grad(tn_optim *optim);

/* For rules that look at the loss more than once in a step (LBFGS): closure
 * zeroes the gradients, computes the loss, calls tn_backward and returns the
 * loss. All rules take it; most call it once, then step. Returns the first
 * loss; NAN, with a message, on failure. */
typedef double (*tn_optim_closure)(void *context);
TN_API double tn_optim_step_closure(tn_optim *optim, tn_optim_closure closure,
                                    void *context);

/* The learning rate: of the first group; set in all groups. */
TN_API double tn_optim_lr(const tn_optim *optim);
TN_API tn_status tn_optim_set_lr(tn_optim *optim, double lr);

/* ---- groups ------------------------------------------------------------
 * Parameters with a learning rate and a weight decay of their own. The list
 * that an optimizer is made with is group 0. */

typedef struct tn_optim_group_options {
    size_t size;
    double lr;            /* as given to the optimizer */
    double weight_decay;  /* as given to the optimizer */
    bool no_weight_decay; /* 0, whatever the optimizer was given */
} tn_optim_group_options;
/* Adds a group; its parameters stand in no other (TN_ERR_ARGUMENT). */
TN_API tn_status tn_optim_add_group_with(tn_optim *optim,
                                         tn_parameter_list *parameters,
                                         const tn_optim_group_options *options);

TN_API int tn_optim_group_count(const tn_optim *optim);
/* The learning rate of one group: NAN (TN_ERR_ARGUMENT) if there is no such. */
TN_API double tn_optim_group_lr(const tn_optim *optim, int group);
TN_API tn_status tn_optim_group_set_lr(tn_optim *optim, int group, double lr);

/* ---- state in a file -----------------------------------------------------
 * Training that is taken up again goes on with the same bits. */

/* Writes what the rule has gathered as safetensors, each tensor as
 * "0.conv1.weight.exp_avg" (group, parameter, PyTorch's name), and the rest
 * (steps, learning rates) as JSON in the metadata under "optimizer". Atomic.
 * Refused while an error is pending. TN_ERR_UNSUPPORTED for LBFGS. */
TN_API tn_status tn_optim_save(tn_optim *optim, const char *path);
/* Reads it into an optimizer made in the same way: rule, groups and parameters
 * must be those of the file (TN_ERR_ARGUMENT, TN_ERR_SHAPE), else nothing is
 * changed. Restores lr, weight decay and momentum of each group; the other
 * options are those it was made with. */
TN_API tn_status tn_optim_load(tn_optim *optim, const char *path);

/* The same as part of a file that holds more (<tenon/checkpoint.h>): visit sees
 * each tensor under its name, both lent; the text of the metadata is returned
 * in malloc'ed memory, yours to free. NULL as tn_optim_save fails. */
typedef void (*tn_optim_state_visit)(const char *name, tn_tensor *x,
                                     void *context);
TN_API char *tn_optim_state(tn_optim *optim, tn_optim_state_visit visit,
                            void *context);
/* tn_optim_load from an open file or a part of one. */
struct tn_safetensors;
TN_API tn_status tn_optim_load_part(tn_optim *optim,
                                    struct tn_safetensors *part);

/* ---- gradients that are too large ---------------------------------------- */

/* Scales all gradients so that their common 2-norm is at most max_norm. Returns
 * the norm as it was (NAN, with a message, on failure). Source:
 * torch.nn.utils.clip_grad_norm_. */
TN_API double tn_clip_grad_norm(tn_parameter_list *parameters,
                                double max_norm);
/* Brings each value of the gradients into [-value, value]. Source:
 * torch.nn.utils.clip_grad_value_. */
TN_API tn_status tn_clip_grad_value(tn_parameter_list *parameters,
                                    double value);

/* ---- the rules -----------------------------------------------------------
 * A number left 0 means the default beside it. maximize walks up. */


typedef struct tn_optim_sgd_options {
    size_t size;
    double lr;            /* 1e-3 */
    double momentum;      /* 0 */
    double dampening;     /* 0 */
    double weight_decay;  /* 0 */
    bool nesterov, maximize;
} tn_optim_sgd_options;
/* Stochastic gradient descent. Source: torch.optim.SGD. */
TN_API tn_optim *tn_optim_sgd_with(tn_parameter_list *parameters,
                                   const tn_optim_sgd_options *options);

typedef struct tn_optim_adam_options {
    size_t size;
    double lr;            /* 1e-3 */
    double beta1, beta2;  /* 0.9, 0.999 */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0; AdamW: 0.01 */
    bool no_weight_decay; /* AdamW: 0 */
    bool amsgrad, maximize;
} tn_optim_adam_options;
/* Adam, arXiv:1412.6980. Source: torch.optim.Adam. */
TN_API tn_optim *tn_optim_adam_with(tn_parameter_list *parameters,
                                    const tn_optim_adam_options *options);

/* Adam with decoupled weight decay, arXiv:1711.05101. Source:
 * torch.optim.AdamW. */
TN_API tn_optim *tn_optim_adamw_with(tn_parameter_list *parameters,
                                     const tn_optim_adam_options *options);

typedef struct tn_optim_rmsprop_options {
    size_t size;
    double lr;            /* 1e-2 */
    double alpha;         /* 0.99: of the mean of squares */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0 */
    double momentum;      /* 0 */
    bool centered, maximize;
} tn_optim_rmsprop_options;
/* RMSprop (G. Hinton, lecture 6e, 2012); centered: arXiv:1308.0850. Source:
 * torch.optim.RMSprop. */
TN_API tn_optim *tn_optim_rmsprop_with(tn_parameter_list *parameters,
                                       const tn_optim_rmsprop_options *options);

typedef struct tn_optim_adagrad_options {
    size_t size;
    double lr;            /* 1e-2 */
    double lr_decay;      /* 0 */
    double weight_decay;  /* 0 */
    double initial_accumulator_value; /* 0 */
    double eps;           /* 1e-10 */
    bool maximize;
} tn_optim_adagrad_options;
/* Adagrad (Duchi et al., JMLR 12, 2011). Source: torch.optim.Adagrad. */
TN_API tn_optim *tn_optim_adagrad_with(tn_parameter_list *parameters,
                                       const tn_optim_adagrad_options *options);

typedef struct tn_optim_adadelta_options {
    size_t size;
    double lr;            /* 1 */
    double rho;           /* 0.9 */
    double eps;           /* 1e-6 */
    double weight_decay;  /* 0 */
    bool maximize;
} tn_optim_adadelta_options;
/* Adadelta, arXiv:1212.5701. Source: torch.optim.Adadelta. */
TN_API tn_optim *
tn_optim_adadelta_with(tn_parameter_list *parameters,
                       const tn_optim_adadelta_options *options);

typedef struct tn_optim_adamax_options {
    size_t size;
    double lr;            /* 2e-3 */
    double beta1, beta2;  /* 0.9, 0.999 */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0 */
    bool maximize;
} tn_optim_adamax_options;
/* Adam by the largest gradient, arXiv:1412.6980. Source: torch.optim.Adamax. */
TN_API tn_optim *tn_optim_adamax_with(tn_parameter_list *parameters,
                                      const tn_optim_adamax_options *options);

typedef struct tn_optim_nadam_options {
    size_t size;
    double lr;            /* 2e-3 */
    double beta1, beta2;  /* 0.9, 0.999 */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0 */
    double momentum_decay;/* 4e-3 */
    bool no_momentum_decay;
    bool decoupled_weight_decay, maximize;
} tn_optim_nadam_options;
/* Adam with Nesterov momentum (T. Dozat, 2016). Source: torch.optim.NAdam. */
TN_API tn_optim *tn_optim_nadam_with(tn_parameter_list *parameters,
                                     const tn_optim_nadam_options *options);

typedef struct tn_optim_radam_options {
    size_t size;
    double lr;            /* 1e-3 */
    double beta1, beta2;  /* 0.9, 0.999 */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0 */
    bool decoupled_weight_decay, maximize;
} tn_optim_radam_options;
/* Rectified Adam, arXiv:1908.03265. Source: torch.optim.RAdam. */
TN_API tn_optim *tn_optim_radam_with(tn_parameter_list *parameters,
                                     const tn_optim_radam_options *options);

typedef struct tn_optim_asgd_options {
    size_t size;
    double lr;            /* 1e-2 */
    double lambd;         /* 1e-4 */
    bool no_lambd;        /* 0 */
    double alpha;         /* 0.75 */
    double t0;            /* 1e6: the step after which the mean is taken */
    double weight_decay;  /* 0 */
    bool maximize;
} tn_optim_asgd_options;
/* Averaged stochastic gradient descent (Polyak and Juditsky, 1992). Source:
 * torch.optim.ASGD. */
TN_API tn_optim *tn_optim_asgd_with(tn_parameter_list *parameters,
                                    const tn_optim_asgd_options *options);

typedef struct tn_optim_rprop_options {
    size_t size;
    double lr;            /* 1e-2: the first step's size */
    double eta_minus, eta_plus; /* 0.5, 1.2 */
    double step_min, step_max;  /* 1e-6, 50 */
    bool maximize;
} tn_optim_rprop_options;
/* Resilient backpropagation (Riedmiller and Braun, 1993). Source:
 * torch.optim.Rprop. */
TN_API tn_optim *tn_optim_rprop_with(tn_parameter_list *parameters,
                                     const tn_optim_rprop_options *options);

typedef struct tn_optim_muon_options {
    size_t size;
    double lr;            /* 1e-3 */
    double weight_decay;  /* 0.1 */
    bool no_weight_decay; /* 0 */
    double momentum;      /* 0.95 */
    bool no_nesterov;
    bool match_rms_adamw; /* 0.2 sqrt(max(rows, columns)) times lr instead of
                             sqrt(max(1, rows / columns)) */
    double eps;           /* 1e-7 */
    int ns_steps;         /* 5: Newton-Schulz iterations */
} tn_optim_muon_options;
/* Muon (K. Jordan, 2024): momentum, made orthogonal by Newton-Schulz iterations
 * with values rounded to bfloat16. Matrices alone (TN_ERR_SHAPE). Source:
 * torch.optim.Muon. */
TN_API tn_optim *tn_optim_muon_with(tn_parameter_list *parameters,
                                    const tn_optim_muon_options *options);

typedef struct tn_optim_lbfgs_options {
    size_t size;
    double lr;            /* 1 */
    int max_iter;         /* 20 */
    int max_eval;         /* max_iter * 5 / 4 */
    double tolerance_grad;   /* 1e-7 */
    double tolerance_change; /* 1e-9 */
    int history_size;     /* 100 */
} tn_optim_lbfgs_options;
/* Limited-memory BFGS (Nocedal, 1980), without a line search: each iteration
 * goes lr along the direction. One group; steps by tn_optim_step_closure.
 * Source: torch.optim.LBFGS. */
TN_API tn_optim *tn_optim_lbfgs_with(tn_parameter_list *parameters,
                                     const tn_optim_lbfgs_options *options);

/* ---- calls with options by name ------------------------------------------ */

#ifndef __cplusplus
#define TN__OPTIM_CALL(function, type, first, ...)                            \
    function##_with(first, &(type){__VA_ARGS__})
#define TN__OPTIM_ADD_GROUP(optim, list, ...)                                 \
    tn_optim_add_group_with(optim, list,                                      \
                            &(tn_optim_group_options){__VA_ARGS__})
#define tn_optim_add_group(optim, ...)                                        \
    TN__OPTIM_ADD_GROUP(optim, __VA_ARGS__,                                   \
                        .size = sizeof(tn_optim_group_options))
#define tn_optim_sgd(...)                                                     \
    TN__OPTIM_CALL(tn_optim_sgd, tn_optim_sgd_options, __VA_ARGS__,           \
                   .size = sizeof(tn_optim_sgd_options))
#define tn_optim_adam(...)                                                    \
    TN__OPTIM_CALL(tn_optim_adam, tn_optim_adam_options, __VA_ARGS__,         \
                   .size = sizeof(tn_optim_adam_options))
#define tn_optim_adamw(...)                                                   \
    TN__OPTIM_CALL(tn_optim_adamw, tn_optim_adam_options, __VA_ARGS__,        \
                   .size = sizeof(tn_optim_adam_options))
#define tn_optim_rmsprop(...)                                                 \
    TN__OPTIM_CALL(tn_optim_rmsprop, tn_optim_rmsprop_options, __VA_ARGS__,   \
                   .size = sizeof(tn_optim_rmsprop_options))
#define tn_optim_adagrad(...)                                                 \
    TN__OPTIM_CALL(tn_optim_adagrad, tn_optim_adagrad_options, __VA_ARGS__,   \
                   .size = sizeof(tn_optim_adagrad_options))
#define tn_optim_adadelta(...)                                                \
    TN__OPTIM_CALL(tn_optim_adadelta, tn_optim_adadelta_options, __VA_ARGS__, \
                   .size = sizeof(tn_optim_adadelta_options))
#define tn_optim_adamax(...)                                                  \
    TN__OPTIM_CALL(tn_optim_adamax, tn_optim_adamax_options, __VA_ARGS__,     \
                   .size = sizeof(tn_optim_adamax_options))
#define tn_optim_nadam(...)                                                   \
    TN__OPTIM_CALL(tn_optim_nadam, tn_optim_nadam_options, __VA_ARGS__,       \
                   .size = sizeof(tn_optim_nadam_options))
#define tn_optim_radam(...)                                                   \
    TN__OPTIM_CALL(tn_optim_radam, tn_optim_radam_options, __VA_ARGS__,       \
                   .size = sizeof(tn_optim_radam_options))
#define tn_optim_asgd(...)                                                    \
    TN__OPTIM_CALL(tn_optim_asgd, tn_optim_asgd_options, __VA_ARGS__,         \
                   .size = sizeof(tn_optim_asgd_options))
#define tn_optim_rprop(...)                                                   \
    TN__OPTIM_CALL(tn_optim_rprop, tn_optim_rprop_options, __VA_ARGS__,       \
                   .size = sizeof(tn_optim_rprop_options))
#define tn_optim_muon(...)                                                    \
    TN__OPTIM_CALL(tn_optim_muon, tn_optim_muon_options, __VA_ARGS__,         \
                   .size = sizeof(tn_optim_muon_options))
#define tn_optim_lbfgs(...)                                                   \
    TN__OPTIM_CALL(tn_optim_lbfgs, tn_optim_lbfgs_options, __VA_ARGS__,       \
                   .size = sizeof(tn_optim_lbfgs_options))
#else
} /* extern "C" */
inline tn_status tn_optim_add_group(tn_optim *optim,
                                    tn_parameter_list *parameters,
                                    tn_optim_group_options options = {})
{
    options.size = sizeof options;
    return tn_optim_add_group_with(optim, parameters, &options);
}
#define TN__OPTIM_CALL(function, type)                                        \
    inline tn_optim *function(tn_parameter_list *parameters,                  \
                              type options = {})                              \
    {                                                                         \
        options.size = sizeof options;                                        \
        return function##_with(parameters, &options);                         \
    }
TN__OPTIM_CALL(tn_optim_sgd, tn_optim_sgd_options)
TN__OPTIM_CALL(tn_optim_adam, tn_optim_adam_options)
TN__OPTIM_CALL(tn_optim_adamw, tn_optim_adam_options)
TN__OPTIM_CALL(tn_optim_rmsprop, tn_optim_rmsprop_options)
TN__OPTIM_CALL(tn_optim_adagrad, tn_optim_adagrad_options)
TN__OPTIM_CALL(tn_optim_adadelta, tn_optim_adadelta_options)
TN__OPTIM_CALL(tn_optim_adamax, tn_optim_adamax_options)
TN__OPTIM_CALL(tn_optim_nadam, tn_optim_nadam_options)
TN__OPTIM_CALL(tn_optim_radam, tn_optim_radam_options)
TN__OPTIM_CALL(tn_optim_asgd, tn_optim_asgd_options)
TN__OPTIM_CALL(tn_optim_rprop, tn_optim_rprop_options)
TN__OPTIM_CALL(tn_optim_muon, tn_optim_muon_options)
TN__OPTIM_CALL(tn_optim_lbfgs, tn_optim_lbfgs_options)
#undef TN__OPTIM_CALL
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
