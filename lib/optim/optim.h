/* optim.h: what all rules share: groups of parameters, their state, a step. */
#ifndef TN_LIB_OPTIM_OPTIM_H
#define TN_LIB_OPTIM_OPTIM_H

#include <fenv.h>
#include <tenon/op.h>
#include <tenon/optim.h>

/* What the host computes is rounded to nearest, whatever the program has set:
 * begin, compute, end. */
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

/* How far a parameter has come; saved with the tensors of its state. */
typedef struct tn__optim_progress {
    int64_t steps;
    double memory; /* a number that a rule carries on, at first 0 */
} tn__optim_progress;

typedef struct tn__optim_state {
    tn_tensor *slot[TN__OPTIM_SLOTS]; /* kept */
    tn__optim_progress progress;
} tn__optim_state;

/* What a group may have of its own; all of it is saved. */
typedef struct tn__optim_rates {
    double lr;
    double initial_lr; /* before any schedule; below 0: there is none */
    double momentum;   /* or beta1; 0 where the rule has none */
    double weight_decay;
} tn__optim_rates;

typedef struct tn__optim_group {
    tn_object object;
    struct tn__optim_group *next;  /* kept */
    const tn_optim *optim;         /* lent: it keeps its groups */
    tn_parameter_list *parameters; /* kept */
    tn__optim_rates rates;
    tn__optim_state state[]; /* one for each parameter */
} tn__optim_group;

/* A rule is most often a kernel in the language: its tensors are the parameter,
 * the gradient, then the state; its outputs the parameter and the state anew.
 * One that is more than a kernel has a step function instead, or, where it
 * looks at all parameters and at the loss at once, a closure function. */
typedef struct tn__optim_rule {
    const char *name; /* of the call that makes it: "optim_adam" */
    const char *text; /* of the kernel, NULL for a rule with a function */
    int slots;        /* tensors of state */
    const char *slot_name[TN__OPTIM_SLOTS]; /* PyTorch's */
    int numbers;      /* of the kernel's parameters */
    bool momentum;    /* a schedule may change it */
    bool decoupled;   /* weights decay by themselves, not by the gradient */
    /* Fills numbers[] for a step. next is the progress after that step, with
     * the memory still of the last; it counts if the step succeeds. */
    void (*numbers_of)(const tn__optim_group *group, tn__optim_progress *next,
                       double *numbers);
    /* What a slot is filled with at first; NULL: zeros. */
    double (*initial)(const tn__optim_group *group, int slot);
    tn_status (*step)(const tn__optim_group *group, tn__optim_state *state,
                      const double *numbers, tn_tensor *p, tn_tensor *g);
    double (*closure)(tn_optim *optim, tn_optim_closure loss, void *context);
    /* Refuses parameters the rule cannot change, for call; may be NULL. */
    tn_status (*accepts)(const tn_parameter_list *parameters, const char *call);
    const tn_op *op;  /* text, defined on first use; guarded by a lock */
    const tn_op *undecayed; /* likewise, of a direction that is the gradient */
    int decay, sign;       /* where these stand among the numbers */
} tn__optim_rule;

struct tn_optim {
    tn_object object;
    tn__optim_rule *rule;
    tn__optim_rates defaults; /* of new groups */
    tn__optim_group *first;   /* kept; the others hang on it */
    void *history;            /* kept: what LBFGS knows of its past */
    int64_t unscaled, stepped; /* the rounds of a scaler in which that was */
    bool found_inf;            /* then: a gradient that is not finite */
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
    } options;
};

/* An argument that is an optimizer: else the error is recorded. */
bool tn__optim_is(const tn_optim *optim, const char *call);
/* A list of parameters, named "parameters". */
bool tn__optim_is_list(const tn_parameter_list *list, const char *call);

/* An optimizer by rule with parameters as its first group; the caller fills
 * options. */
tn_optim *tn__optim_new(tn__optim_rule *rule, tn_parameter_list *parameters,
                        double lr, double momentum, double weight_decay);

/* The kernel of a text, defined when first asked for; *op keeps it. */
const tn_op *tn__optim_op(const char *text, const tn_op **op);

/* number is in [0, below), or TN_ERR_ARGUMENT naming call and option. */
bool tn__optim_check(const char *call, const char *option, double number,
                     double below);

/* The beginning of kernels: d is the gradient g with weight decay. sign is -1
 * to maximize. A weight decay of 0 must not touch the gradient: 0 times an
 * infinite parameter is NaN. Most often d is the gradient as it is: such a step
 * has a kernel without these three lines, which are a pass over blocks each. */
#define TN__OPTIM_DIRECTION                                                   \
    "let d0 = sign * grad; "                                                  \
    "let d = where(decay == 0, d0, d0 + decay * param); "

#endif
