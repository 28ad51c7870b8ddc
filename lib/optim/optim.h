/* optim.h: what all optimizers share: parameter groups, state, and a step. */
#ifndef TN_LIB_OPTIM_OPTIM_H
#define TN_LIB_OPTIM_OPTIM_H

#include <fenv.h>
#include <tenon/op.h>
#include <tenon/optim.h>

/* Scope of host computations that round to nearest, whatever rounding mode the
 * program has set: begin, compute, end. */
static inline int tn__optim_nearest_begin(void)
{
    const int before = fegetround();
    if (before != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return before;
}

static inline void tn__optim_nearest_end(int before)
{
    if (before != FE_TONEAREST)
        fesetround(before);
}

enum { TN__OPTIM_SLOTS = 3, TN__OPTIM_NUMBERS = 12 };

/* Counters of one parameter's state; saved with its tensors. */
typedef struct tn__optim_progress {
    int64_t steps;
    double memory; /* a number that a rule keeps between steps, initially 0 */
} tn__optim_progress;

typedef struct tn__optim_state {
    tn_tensor *slot[TN__OPTIM_SLOTS]; /* kept; NULL: none (slot_shape) */
    tn__optim_progress progress;
} tn__optim_state;

/* The rates that each group has separately; all are saved. */
typedef struct tn__optim_rates {
    double lr;
    double initial_lr; /* before any schedule; negative: no schedule */
    double momentum;   /* or beta1; 0 if the rule has none */
    double weight_decay;
} tn__optim_rates;

typedef struct tn__optim_group {
    tn_object object;
    struct tn__optim_group *next;  /* kept */
    const tn_optim *optim;         /* lent: it owns its groups */
    tn_parameter_list *parameters; /* kept */
    tn__optim_rates rates;
    tn__optim_rates before; /* a schedule's step; restored if the step fails */
    tn__optim_state state[]; /* one for each parameter */
} tn__optim_group;

/* The update rule of an optimizer. Most are a kernel in the kernel language:
 * its tensors are the parameter, the gradient, then the state; its outputs are
 * the new parameter and state. A rule that needs several operators has a step
 * function instead. One that needs all parameters and the loss at once has a
 * closure function. */
typedef struct tn__optim_rule {
    const char *name; /* of the call that makes it: "optim_adam" */
    const char *text; /* of the kernel; NULL for a rule with a function */
    int slots;        /* tensors of state */
    const char *slot_name[TN__OPTIM_SLOTS]; /* PyTorch's names */
    int numbers;      /* number of the kernel's scalar parameters */
    bool momentum;    /* a schedule may change it */
    bool decoupled;   /* weight decay applies to the parameter, not to the
                         gradient */
    /* Fills numbers[] for a step. next: the progress after this step, still
     * with the memory of the step before. It is stored if the step succeeds. */
    void (*numbers_of)(const tn__optim_group *group, tn__optim_progress *next,
                       double *numbers);
    /* The shape of a slot; false if a parameter has none. NULL: all slots have
     * the parameter's. */
    bool (*slot_shape)(const tn_tensor *p, int slot, tn_dims_list *shape);
    /* Initial value of a slot; NULL: zeros. */
    double (*initial)(const tn__optim_group *group, int slot);
    tn_status (*step)(const tn__optim_group *group, tn__optim_state *state,
                      const double *numbers, tn_tensor *p, tn_tensor *g);
    double (*closure)(tn_optim *optim, tn_optim_closure loss, void *context);
    /* Rejects parameters that the rule cannot update, in the name of call. May
     * be NULL. */
    tn_status (*accepts)(const tn_parameter_list *parameters, const char *call);
    const tn_op *op;  /* the kernel of text, defined on first use; guarded by a
                         lock */
    const tn_op *undecayed; /* likewise, of the text without weight decay and
                               sign */
    int decay, sign;       /* indices of these among the numbers */
} tn__optim_rule;

struct tn_optim {
    tn_object object;
    tn__optim_rule *rule;
    tn__optim_rates defaults; /* for new groups */
    tn__optim_group *first;   /* kept; first of a list */
    void *history;            /* kept: the history of LBFGS */
    int64_t unscaled, stepped; /* round of a gradient scaler in which each
                                  happened last */
    bool found_inf;            /* in that round a gradient was not finite */
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

/* Is the argument an optimizer? If not, records an error. */
bool tn__optim_is(const tn_optim *optim, const char *call);
/* Likewise for a parameter list, the argument "parameters". */
bool tn__optim_is_list(const tn_parameter_list *list, const char *call);

/* An optimizer of that rule with one group of parameters; the caller fills
 * options. */
tn_optim *tn__optim_new(tn__optim_rule *rule, tn_parameter_list *parameters,
                        double lr, double momentum, double weight_decay);

/* The shape of a slot of parameter p; false if p has none. */
bool tn__optim_slot_shape(const tn__optim_rule *rule, const tn_tensor *p,
                          int slot, tn_dims_list *shape);

/* The 2-norm of x on its device: 0-d, in float64 for float64, otherwise in
 * float32, so that squares of half types do not overflow. */
tn_tensor *tn__optim_norm(tn_tensor *x);

/* The kernel of a text, defined on first use and stored in *op. */
const tn_op *tn__optim_op(const char *text, const tn_op **op);

/* Is number in [0, below)? If not, records TN_ERR_ARGUMENT naming call and
 * option. */
bool tn__optim_check(const char *call, const char *option, double number,
                     double below);

/* Start of kernels: d is the gradient with weight decay; sign is -1 to
 * maximize. A weight decay of 0 must not change the gradient: 0 times an
 * infinite parameter is NaN. If there is neither decay nor maximization, the
 * step runs a kernel without these three operations. */
#define TN__OPTIM_DIRECTION                                                   \
    "let d0 = sign * grad; "                                                  \
    "let d = where(decay == 0, d0, d0 + decay * param); "

#endif
