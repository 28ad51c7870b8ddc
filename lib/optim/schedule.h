/* schedule.h: what all learning-rate schedules share. */
#ifndef TN_LIB_OPTIM_SCHEDULE_H
#define TN_LIB_OPTIM_SCHEDULE_H

#include <optim/optim.h>
#include <tenon/schedule.h>

/* A schedule maps a step number and a group's rates to the new rates. It uses
 * the last learning rate where PyTorch's schedule can be chained, the initial
 * one where it cannot. */
typedef struct tn__schedule_kind {
    const char *name; /* of the call that makes it: "schedule_step_lr" */
    /* NULL for schedules of schedules, and for one whose step has a metric. */
    void (*advance)(const tn_schedule *schedule, int64_t step,
                    tn__optim_rates *rates);
    /* A step of a schedule of schedules. */
    tn_status (*step)(tn_schedule *schedule);
    /* Its step 0. */
    tn_status (*restart)(tn_schedule *schedule);
    /* The steps of child i after `steps` of its own; negative: it has not
     * begun, or has ended. */
    int64_t (*child_steps)(const tn_schedule *schedule, int i, int64_t steps);
    bool relative; /* in a sequence it begins with the current learning rate */
    bool metric;   /* its step has a metric, and its state is of.plateau */
} tn__schedule_kind;

struct tn_schedule {
    tn_object object;
    const tn__schedule_kind *kind;
    tn_optim *optim; /* kept */
    int64_t steps;
    int64_t limit; /* of steps; 0: none */
    union {
        struct {
            int64_t step_size;
            double gamma;
        } step;
        struct {
            const int64_t *milestones; /* stored after the struct */
            int count;
            double gamma;
        } multi_step;
        double gamma;
        tn_schedule_constant_lr_options constant;
        tn_schedule_linear_lr_options linear;
        tn_schedule_polynomial_lr_options polynomial;
        struct {
            int64_t period, mult;
            double eta_min;
        } cosine;
        struct {
            double base_lr, max_lr;
            tn_schedule_cyclic_lr_options o;
        } cyclic;
        struct {
            double max_lr;
            tn_schedule_one_cycle_lr_options o;
        } one_cycle;
        struct {
            tn_schedule_function of;
            void *context; /* lent */
        } function;
        struct {
            tn_schedule_reduce_lr_on_plateau_options o;
            bool rising, absolute;
            double best;
            int64_t bad_steps, cooldown;
        } plateau;
        struct {
            tn_schedule **child; /* kept; stored after the struct, as number */
            int64_t *number;     /* milestones of a sequence; steps that a
                                    child was ahead when the chain was made */
            int count;
        } group;
    } of;
};

/* A schedule of that kind with `extra` bytes after the struct. The caller fills
 * .of, then calls tn__schedule_start. NULL if optim is not an optimizer. */
tn_schedule *tn__schedule_new(const tn__schedule_kind *kind, tn_optim *optim,
                              size_t extra);
/* Sets the rates of step 0 and returns the schedule; NULL on failure. */
tn_schedule *tn__schedule_start(tn_schedule *schedule);

/* Is it a schedule? If not, records an error. */
bool tn__schedule_is(const tn_schedule *schedule, const char *call,
                     const char *argument);
/* One more step, of a schedule within another, too. Does not undo a failure. */
tn_status tn__schedule_advance(tn_schedule *schedule);
/* Step 0 of a schedule within another. first: the sequence begins with it, so
 * that the rates are the initial ones. */
tn_status tn__schedule_restart(tn_schedule *schedule, bool first);
/* Sets the learning rates of all groups to the initial ones. */
void tn__schedule_reset_lr(tn_optim *optim);
/* The learning rates and steps before a call that may fail, and its undoing. */
void tn__schedule_remember(tn_optim *optim);
void tn__schedule_recall(tn_optim *optim);

/* Is number in [low, high]? If not, records TN_ERR_ARGUMENT naming schedule and
 * option. */
bool tn__schedule_check(const tn__schedule_kind *kind, const char *option,
                        double number, double low, double high);

#endif
