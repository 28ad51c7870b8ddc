/* optim.h: parameter groups, state and the step, shared by all optimizers.
 *
 * A rule is a kind of optimizer (SGD, Adam, ...). A slot is one tensor of the
 * state that a rule stores for each parameter, such as Adam's exp_avg. */
#ifndef TN_LIB_OPTIM_OPTIM_H
#define TN_LIB_OPTIM_OPTIM_H

#include <base/nearest.h>
#include <tenon/grad_scaler.h>
#include <tenon/op.h>
#include <tenon/optim.h>

enum { TN__OPTIM_SLOTS = 3, TN__OPTIM_NUMBERS = 12 };

/* Scalar state of one parameter, saved with its tensors. */
typedef struct tn__optim_progress {
    int64_t steps;
    double memory; /* a value that a rule stores between steps, initially 0 */
} tn__optim_progress;

typedef struct tn__optim_state {
    tn_tensor *slot[TN__OPTIM_SLOTS]; /* counted references; NULL if a slot is
                                         not used */
    tn__optim_progress progress;
    tn__optim_progress before; /* progress before the last step */
    /* The numbers of the rule's kernel for the step. Replays of a recorded step
     * read them here. */
    double number[TN__OPTIM_NUMBERS];
    /* The first parameter of the group that has the same numbers, or the parameter
     * itself. Its numbers are used, so that fused kernels need them once. */
    int leader;
    bool steps; /* the last step, or its replay, updates the parameter */
    tn_optim_range range; /* of a restricted optimizer: the elements that this
                             process updates */
} tn__optim_state;

/* The rates of a group. tn_optim_save saves all of them. */
typedef struct tn__optim_rates {
    double lr;
    double initial_lr; /* lr before any schedule; negative without a schedule */
    double momentum;   /* momentum or beta1; 0 if the rule has none */
    double weight_decay;
} tn__optim_rates;

typedef struct tn__optim_group {
    tn_object object;
    struct tn__optim_group *next;  /* counted reference */
    const tn_optim *optim;         /* not owned: it owns its groups */
    tn_parameter_list *parameters; /* counted reference */
    tn__optim_rates rates;
    tn__optim_rates before; /* copy of rates to restore if a schedule's step
                               fails */
    tn__optim_state state[]; /* one for each parameter */
} tn__optim_group;

/* The update rule of an optimizer. Most rules are a kernel (source text in the
 * kernel language, <tenon/op.h>). Its inputs are the parameter, the gradient
 * and the slots; its outputs are the new parameter and slots. A rule that needs
 * several operators has a step function instead. A rule that needs all
 * parameters and the loss at once (LBFGS) has a closure function. */
typedef struct tn__optim_rule {
    const char *name; /* the call that makes the optimizer: "optim_adam" */
    const char *text; /* source of the kernel; NULL if step or closure is set */
    int slots;        /* number of slots */
    const char *slot_name[TN__OPTIM_SLOTS]; /* PyTorch's names of the slots */
    int numbers;      /* number of the kernel's scalar parameters */
    bool momentum;    /* whether schedules may change the momentum */
    bool decoupled;   /* weight decay applies to the parameter, not to the
                         gradient */
    /* Fills numbers[], the scalar parameters of the kernel, for a step. next is
     * the progress after this step: next->steps already counts it, next->memory
     * is still that of the step before and may be set. next is stored if the
     * step succeeds. */
    void (*numbers_of)(const tn__optim_group *group, tn__optim_progress *next,
                       double *numbers);
    /* Changes numbers[] for one parameter. May be NULL. */
    void (*numbers_for)(const tn__optim_group *group, const tn_tensor *p,
                        double *numbers);
    /* Sets *shape to the shape of a slot for p, or returns false if p does not
     * use the slot. If the function is NULL, all slots have the parameter's
     * shape. */
    bool (*slot_shape)(const tn_tensor *p, int slot, tn_dims_list *shape);
    /* Returns the initial value of a slot. If the function is NULL, slots begin
     * as zeros. */
    double (*initial)(const tn__optim_group *group, int slot);
    tn_status (*step)(const tn__optim_group *group, tn__optim_state *state,
                      const double *numbers, tn_tensor *p, tn_tensor *g);
    double (*closure)(tn_optim *optim, tn_optim_closure loss, void *context);
    /* Rejects parameters that the rule cannot update; `call` is the name for
     * the error message. May be NULL. */
    tn_status (*accepts)(const tn_parameter_list *parameters, const char *call);
    const tn_op *op;  /* operator defined from the source, on first use */
    const tn_op *undecayed; /* variant without weight decay and sign, defined
                               together with op */
} tn__optim_rule;

struct tn_optim {
    tn_object object;
    tn__optim_rule *rule;
    int decay, sign; /* indices of decay and sign in numbers[], if the rule has
                        the operator undecayed */
    tn__optim_rates defaults; /* rates of new groups */
    tn__optim_group *first;   /* list of groups; counted reference */
    int64_t version;          /* number of changes of the groups and of the state's
                                 tensors */
    void *history;            /* state of LBFGS (lbfgs.h); counted reference */
    int64_t unscaled, stepped; /* gradient scaler's round (scaler.c) of the
                                  last unscaling and of the last step */
    bool found_inf;            /* a gradient was not finite in that round */
    /* Of a recorded step with a gradient scaler (scaler_round.c): whether a
     * gradient was not finite, on the device; counted reference. */
    tn_tensor *found;
    tn_tensor *skip;    /* found, while the scaler calls tn_optim_step, which then
                           keeps the old values if it is true */
    bool skips;         /* the last step had `skip` */
    tn_grad_scaler *scaler; /* which recorded it; it owns a reference to the
                               optimizer */
    tn_optim *next_scaled;  /* next in the scaler's list */
    /* Of a restricted optimizer (restrict.c); else NULL. */
    tn_status (*after)(void *context);
    void *context;
    void (*release)(void *context);
    union {
        tn_optim_sgd_options sgd;
        tn_optim_adam_options adam;
        tn_optim_rmsprop_options rmsprop;
        tn_optim_adagrad_options adagrad;
        tn_optim_adadelta_options adadelta;
        tn_optim_adamax_options adamax;
        tn_optim_nadam_options nadam;
        tn_optim_radam_options radam;
        tn_optim_asgd_options asgd;
        tn_optim_rprop_options rprop;
        tn_optim_muon_options muon;
        tn_optim_lbfgs_options lbfgs;
        tn_optim_adafactor_options adafactor;
        tn_optim_lion_options lion;
        tn_optim_lars_options lars;
        tn_optim_lamb_options lamb;
    } options;
};

/* Returns whether optim is an optimizer. If not, records an error. */
bool tn__optim_is(const tn_optim *optim, const char *call);
/* Returns whether list is a parameter list. If not, records an error about the
 * argument "parameters". */
bool tn__optim_is_list(const tn_parameter_list *list, const char *call);

/* Rejects a change of the learning rate while work is recorded. `call` is the
 * name of the public function. */
tn_status tn__optim_refuse_recording(const char *call);

/* Makes an optimizer of a rule with one group of parameters. The caller fills
 * options. */
tn_optim *tn__optim_new(tn__optim_rule *rule, tn_parameter_list *parameters,
                        double lr, double momentum, double weight_decay);

/* Sets *shape to the shape of a slot for parameter p. Returns false if p does
 * not use the slot. */
bool tn__optim_slot_shape(const tn__optim_rule *rule, const tn_tensor *p,
                          int slot, tn_dims_list *shape);

/* ---- restrict.c: an optimizer of a part of the elements ---- */

/* Returns whether this process updates only a part of parameter p. */
static inline bool tn__optim_is_cut(const tn_optim *optim,
                                    const tn__optim_state *state,
                                    const tn_tensor *p)
{
    return optim->after && state->range.count < tn_tensor_numel(p);
}
/* Returns the elements of x that this process updates: x, or a 1-d view. x is
 * the parameter, or a tensor of its shape. */
tn_tensor *tn__optim_part(const tn_optim *optim, const tn__optim_state *state,
                          tn_tensor *x);
/* Rejects a restricted optimizer. `what` completes the message. */
tn_status tn__optim_refuse_restricted(const tn_optim *optim, const char *call,
                                      const char *what);

/* Undoes the count of the last step. */
void tn__optim_take_back(tn_optim *optim);
/* If the optimizer's last replayed step was skipped because of its gradients,
 * undoes its count. Waits for the device. */
tn_status tn__optim_settle(const tn_optim *optim);

/* Returns a number of tn__optim_state.number as an argument of an operator. While
 * work is recorded, each replay reads the number again. */
tn_scalar tn__optim_scalar(const double *number);
static inline tn_value tn__optim_number(const double *number)
{
    const tn_scalar scalar = tn__optim_scalar(number);
    tn_value value = {.kind = TN_VALUE_NUMBER, .count = scalar.kind};
    value.of.i = scalar.value.i;
    return value;
}

/* Returns the 2-norm of x as a 0-d tensor on its device, in float64 if x is
 * float64, else in float32, so that squares of half types do not overflow. */
tn_tensor *tn__optim_norm(tn_tensor *x);

/* Returns whether number is in [0, below). If not, records TN_ERR_ARGUMENT with
 * the names of call and option. */
bool tn__optim_check(const char *call, const char *option, double number,
                     double below);

/* The first lines of most kernels. They compute d, the gradient with weight
 * decay; sign is -1 to maximize. A decay of 0 is tested for, since 0 times an
 * infinite parameter is NaN. If there is neither decay nor maximization, the
 * step runs a variant of the kernel without these lines. */
#define TN__OPTIM_DIRECTION                                                   \
    "let d0 = sign * grad; "                                                  \
    "let d = where(decay == 0, d0, d0 + decay * param); "

#endif
