/* <tenon/grad_scaler.h>: gradients that are too small for float16.
 *
 * Under autocast to float16 (<tenon/autocast.h>), gradients below 6e-8 become
 * 0. So the loss is multiplied by a large number before the backward walk, and
 * the gradients are divided by it before the step. Where one has become
 * infinite the step is left out and the number halved; after many good steps
 * it is doubled.
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
 * bfloat16 has float32's range and needs none: made with .disabled = true, the
 * same program trains in it. Source: torch.amp.GradScaler.
 *
 * Threads: A scaler, with its optimizers, belongs to one thread at a time.
 */
#ifndef TENON_GRAD_SCALER_H
#define TENON_GRAD_SCALER_H

#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_grad_scaler tn_grad_scaler;

#define TN_GRAD_SCALER_NEW_OPTIONS_LIST(X)                                    \
    X(double, init_scale, 65536) /* from 2^-126 to the greatest float32 */    \
    X(double, growth_factor, 2) /* above 1 */                                 \
    X(double, backoff_factor, 0.5) /* between 0 and 1 */                      \
    X(int64_t, growth_interval, 2000) /* good steps before it grows */        \
    X(bool, disabled, false) /* all calls but the step do nothing */
TN_OPTIONS_STRUCT(tn_grad_scaler_new, TN_GRAD_SCALER_NEW_OPTIONS_LIST);
#define TN_GRAD_SCALER_NEW_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_grad_scaler_new, TN_GRAD_SCALER_NEW_OPTIONS_LIST)
/* A scaler, owned by the open scope. NULL: TN_ERR_ARGUMENT. */
TN_API tn_grad_scaler *
tn_grad_scaler_new_with(const tn_grad_scaler_new_options *options);

/* loss times the scale, recorded; half types in float32, whose range it needs.
 * NULL for NULL. */
TN_API tn_tensor *tn_grad_scaler_scale(tn_grad_scaler *scaler,
                                       tn_tensor *loss);

/* Divides the gradients of optim's parameters by the scale, in place: before
 * they are looked at, as by tn_clip_grad_norm. The step does it otherwise. Once
 * for each optimizer and update (TN_ERR_STATE). TN_ERR_STATE if no parameter
 * has a gradient; TN_ERR_DTYPE if one is float16: parameters stay float32. */
TN_API tn_status tn_grad_scaler_unscale(tn_grad_scaler *scaler,
                                        tn_optim *optim);

/* tn_optim_step, unless a gradient is infinite or NaN once it is unscaled.
 * Waits for the device.
 * 1 if it stepped, 0 if it did not, negative on failure. Once for each
 * optimizer and update (TN_ERR_STATE). Refused while an error is pending. */
TN_API int tn_grad_scaler_step(tn_grad_scaler *scaler, tn_optim *optim);

/* After the steps of all optimizers: the scale of the next round, which never
 * falls below 2^-126. TN_ERR_STATE if there was no step. Refused while an error
 * is pending. */
TN_API tn_status tn_grad_scaler_update(tn_grad_scaler *scaler);

/* The scale; 1 where it is disabled, 0 for NULL. Cannot fail. */
TN_API double tn_grad_scaler_factor(const tn_grad_scaler *scaler);

/* What is saved of it (PyTorch's state_dict); <tenon/checkpoint.h> does.
 * Closed. */
typedef struct tn_grad_scaler_state {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval;
    int64_t growth_tracker; /* good steps since the scale last changed */
} tn_grad_scaler_state;
/* Zeros for NULL. Cannot fail. */
TN_API tn_grad_scaler_state
tn_grad_scaler_snapshot(const tn_grad_scaler *scaler);
/* Goes on from there; a round that has begun is forgotten. TN_ERR_ARGUMENT,
 * with nothing changed, for numbers that no scaler has. */
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
