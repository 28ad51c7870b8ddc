/* schedule.h: the kinds, the struct and internal functions of learning-rate
 * schedules.
 *
 * A group schedule is a schedule of schedules (sequential, chained); the
 * schedules in it are its children. */
#ifndef TN_LIB_OPTIM_SCHEDULE_H
#define TN_LIB_OPTIM_SCHEDULE_H

#include <optim/optim.h>
#include <tenon/schedule.h>

/* A kind of schedule (StepLR, ...). It maps a step count and the rates of a
 * parameter group to the new rates. A schedule that PyTorch can chain computes
 * from the last learning rate, others from the initial one. */
typedef struct tn__schedule_kind {
    const char *name; /* the call that makes it: "schedule_step_lr" */
    /* Computes the rates of a step. NULL for group schedules, function
     * schedules and ReduceLROnPlateau. */
    void (*advance)(const tn_schedule *schedule, int64_t step,
                    tn__optim_rates *rates);
    /* Makes a step of a group schedule. */
    tn_status (*step)(tn_schedule *schedule);
    /* Makes step 0 of a group schedule. */
    tn_status (*restart)(tn_schedule *schedule);
    /* Returns how many steps child i has made when the group schedule has made
     * `steps`; negative if the child has not begun or has ended. */
    int64_t (*child_steps)(const tn_schedule *schedule, int i, int64_t steps);
    bool relative; /* true if, in a sequence, it begins with the current
                    * learning rate instead of the initial one */
    bool metric;   /* it is ReduceLROnPlateau, whose step takes a metric */
} tn__schedule_kind;

struct tn_schedule {
    tn_object object;
    const tn__schedule_kind *kind;
    tn_optim *optim; /* counted reference */
    int64_t steps;
    int64_t limit; /* maximum number of steps, or 0 if there is no limit */
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
            void *context; /* not owned */
        } function;
        struct {
            tn_schedule_reduce_lr_on_plateau_options o;
            bool rising, absolute;
            double best;
            int64_t bad_steps, cooldown;
        } plateau;
        struct {
            tn_schedule **child; /* counted references; both arrays are stored
                                    after the struct */
            int64_t *number;     /* in a sequence, the milestones; in a chain,
                                    the number of steps that each child had made
                                    before */
            int count;
        } group;
    } of;
};

/* Makes a schedule of a kind with `extra` bytes after the struct. The caller
 * fills .of, then calls tn__schedule_start. Returns NULL if optim is not an
 * optimizer. */
tn_schedule *tn__schedule_new(const tn__schedule_kind *kind, tn_optim *optim,
                              size_t extra);
/* Sets the rates of step 0. Returns the schedule, or NULL on failure. */
tn_schedule *tn__schedule_start(tn_schedule *schedule);

/* Returns whether schedule is a learning-rate schedule. If not, records an
 * error. */
bool tn__schedule_is(const tn_schedule *schedule, const char *call,
                     const char *argument);
/* Makes one step, also of a child. If it fails, rates may have changed. */
tn_status tn__schedule_advance(tn_schedule *schedule);
/* Makes step 0 of a child. If first is false, it follows another schedule in a
 * sequence, and the learning rates are first reset to the initial ones. */
tn_status tn__schedule_restart(tn_schedule *schedule, bool first);
/* Sets the learning rates of all groups to the initial ones. */
void tn__schedule_reset_lr(tn_optim *optim);
/* Save the rates of all groups before a call that may fail, and restore
 * them. */
void tn__schedule_remember(tn_optim *optim);
void tn__schedule_recall(tn_optim *optim);

/* Returns whether number is in [low, high]. If not, records TN_ERR_ARGUMENT
 * with the names of schedule and option. */
bool tn__schedule_check(const tn__schedule_kind *kind, const char *option,
                        double number, double low, double high);

#endif
