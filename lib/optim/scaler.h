/* scaler.h: the state of a gradient scaler, and its rounds within recorded work.
 *
 * A replay decides on the device whether an optimizer steps. The host reads the
 * decision of a replay only when it needs it: before the next replay, or when the
 * program reads the scale. It then settles the round: takes back the counts of
 * optimizers that have not stepped, and updates the scale. */
#ifndef TN_LIB_OPTIM_SCALER_H
#define TN_LIB_OPTIM_SCALER_H

#include <optim/optim.h>

#include <float.h>

/* The smallest scale. Smaller float32 numbers are subnormal, and their
 * reciprocals are inexact or infinite. */
#define TN__SCALER_MIN ((double)FLT_MIN)

struct tn_grad_scaler {
    tn_object object;
    tn_grad_scaler_state state;
    bool disabled;
    int64_t round;
    /* In this round, gradients were unscaled; one of them was not finite. */
    bool has_unscaled, found_inf;
    /* The scale and its reciprocal, both float32 numbers. Replays read them
     * here. */
    double scale, inverse;
    /* Of recorded rounds: */
    tn_optim *scaled; /* list of the optimizers, by next_scaled; a reference to
                         each */
    bool pending;     /* a round was replayed and is not settled */
    bool updates;     /* the recorded round ends with an update of the scale */
    bool capturing;   /* the round is being recorded, not replayed */
    void *update;     /* the host part of a recorded update; counted reference, or
                         NULL */
};

void tn__scaler_release(void *scaler);
void tn__scaler_begin_round(tn_grad_scaler *scaler);
/* Sets scale and inverse. */
void tn__scaler_set_numbers(tn_grad_scaler *scaler);
/* Changes the scale at the end of a round. */
void tn__scaler_update(tn_grad_scaler *scaler);

/* Settles the last replayed round, if it is not settled. Waits for the
 * device. */
tn_status tn__scaler_settle(tn_grad_scaler *scaler);

/* While work is recorded: begins a round, if none has begun in this
 * recording. */
tn_status tn__scaler_record(tn_grad_scaler *scaler);
/* While work is recorded: ends the round with an update of the scale. */
tn_status tn__scaler_record_update(tn_grad_scaler *scaler);
/* Returns the loss times the scale. The scale is a tensor there, because autograd
 * cannot record late numbers. */
tn_tensor *tn__scaler_record_scale(const tn_grad_scaler *scaler,
                                   tn_tensor *loss);
/* Stores on the device whether a gradient of optim was not finite. */
tn_status tn__scaler_record_found(tn_grad_scaler *scaler, tn_optim *optim,
                                  tn_tensor *found);

#endif
