/* <tenon/grad_scaler.h>: loss scaling for training in float16.
 *
 * Under autocast to float16 (<tenon/autocast.h>), gradients below 6e-8 become
 * 0. Therefore the loss is multiplied by a scale before the backward pass, and
 * the gradients are divided by it before the step. If a gradient has
 * overflowed, the step is skipped and the scale is halved. After many steps
 * without overflow it is doubled.
 *
 *     tn_grad_scaler *scaler = tn_grad_scaler_new();
 *     ...
 *         TN_AUTOCAST(TN_F16)
 *             loss = tn_cross_entropy(tn_forward(net, x), y);
 *         tn_optim_zero_grad(opt);
 *         tn_backward(tn_grad_scaler_scale(scaler, loss));
 *         tn_grad_scaler_step(scaler, opt);
 *         tn_grad_scaler_update(scaler);
 *
 * bfloat16 has float32's range and needs no scaling: with .disabled = true the
 * same program trains in bfloat16. Source: torch.amp.GradScaler.
 *
 * Threads: A scaler and its optimizers belong to one thread at a time.
 */
#ifndef TENON_GRAD_SCALER_H
#define TENON_GRAD_SCALER_H

#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_grad_scaler tn_grad_scaler;

/* Options of tn_grad_scaler_new:
 *   init_scale       from 2^-126 to the largest float32
 *   growth_factor    the scale is multiplied by it to grow; above 1
 *   backoff_factor   the scale is multiplied by it after an overflow; between 0
 *                    and 1
 *   growth_interval  number of steps without overflow until the scale grows
 *   disabled         no scaling; only tn_grad_scaler_step has an effect */
#define TN_GRAD_SCALER_NEW_OPTIONS_LIST(X)                                    \
    X(double, init_scale, 65536)                                              \
    X(double, growth_factor, 2)                                               \
    X(double, backoff_factor, 0.5)                                            \
    X(int64_t, growth_interval, 2000)                                         \
    X(bool, disabled, false)
TN_OPTIONS_STRUCT(tn_grad_scaler_new, TN_GRAD_SCALER_NEW_OPTIONS_LIST);
#define TN_GRAD_SCALER_NEW_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_grad_scaler_new, TN_GRAD_SCALER_NEW_OPTIONS_LIST)
/* Makes a scaler, which the open scope owns. Returns NULL with TN_ERR_ARGUMENT
 * if an option is out of range, with TN_ERR_MEMORY if memory runs out. */
TN_API tn_grad_scaler *
tn_grad_scaler_new_with(const tn_grad_scaler_new_options *options);

/* Returns loss times the scale. Differentiable. A loss of a half type is
 * converted to float32, because the product may exceed the range of the half
 * type. Returns NULL if loss is NULL. */
TN_API tn_tensor *tn_grad_scaler_scale(tn_grad_scaler *scaler,
                                       tn_tensor *loss);

/* Divides the gradients of optim's parameters by the scale, in place. The step
 * divides them itself, so this call is needed only to read or change the
 * gradients before the step (tn_clip_grad_norm). Fails with TN_ERR_STATE if
 * this call was made for optim since the last update, or if no parameter has a
 * gradient. Fails with TN_ERR_DTYPE if a gradient is float16, because
 * parameters must stay float32. */
TN_API tn_status tn_grad_scaler_unscale(tn_grad_scaler *scaler,
                                        tn_optim *optim);

/* Calls tn_optim_step, unless an unscaled gradient is infinite or NaN. Returns
 * 1 if the step was done, 0 if it was skipped, or a negative status on failure.
 * Waits for the device. Fails with TN_ERR_STATE if optim was stepped since the
 * last update, or while an error is pending.
 *
 * While work is recorded (tn_graph_record, tn_compile), it does not wait and
 * returns 1: each replay decides on the device whether the step is skipped. The
 * host learns of it before the next replay, or in the next call that uses the
 * scaler or the optimizer. */
TN_API int tn_grad_scaler_step(tn_grad_scaler *scaler, tn_optim *optim);

/* Adjusts the scale, after the steps of all optimizers. The scale never falls
 * below 2^-126. Fails with TN_ERR_STATE if there was no step since the last
 * update, or while an error is pending. */
TN_API tn_status tn_grad_scaler_update(tn_grad_scaler *scaler);

/* Returns the scale, 1 if the scaler is disabled, or 0 for NULL. Cannot
 * fail. */
TN_API double tn_grad_scaler_factor(const tn_grad_scaler *scaler);

/* The saved state of a scaler (PyTorch's state_dict), which
 * <tenon/checkpoint.h> saves. Closed: the struct never changes. */
typedef struct tn_grad_scaler_state {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval;
    int64_t growth_tracker; /* steps since the scale last changed */
} tn_grad_scaler_state;
/* Returns the scaler's state, or zeros for NULL. Cannot fail. */
TN_API tn_grad_scaler_state
tn_grad_scaler_snapshot(const tn_grad_scaler *scaler);
/* Sets the scaler's state. Forgets unscaling and steps since the last update.
 * Fails with TN_ERR_ARGUMENT, with nothing changed, if a value is out of
 * range. */
TN_API tn_status tn_grad_scaler_restore(tn_grad_scaler *scaler,
                                          tn_grad_scaler_state state);

#ifndef __cplusplus
#define tn_grad_scaler_new(...) TN_CALL_0(tn_grad_scaler_new, __VA_ARGS__)
#else
} /* extern "C" */
TN_OVERLOAD_0(tn_grad_scaler *, tn_grad_scaler_new)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
