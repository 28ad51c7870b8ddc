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
    void (*advance)(const tn_schedule *schedule, int64_t step,
                    tn__optim_rates *rates);
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
    } of;
};

/* A schedule of that kind with `extra` bytes after the struct. The caller fills
 * .of, then calls tn__schedule_start. NULL if optim is not an optimizer. */
tn_schedule *tn__schedule_new(const tn__schedule_kind *kind, tn_optim *optim,
                              size_t extra);
/* Sets the rates of step 0 and returns the schedule. */
tn_schedule *tn__schedule_start(tn_schedule *schedule);

/* Is number in [low, high]? If not, records TN_ERR_ARGUMENT naming schedule and
 * option. */
bool tn__schedule_check(const tn__schedule_kind *kind, const char *option,
                        double number, double low, double high);

#endif
