/* <tenon/optim.h>: optimizers.
 *
 *     tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 1e-3);
 *     ...
 *     tn_optim_zero_grad(opt);
 *     tn_backward(loss);
 *     tn_clip_grad_norm(tn_parameters(net), 1.0);
 *     tn_optim_step(opt);
 *
 * Update rules, names and defaults are those of PyTorch. PyTorch lacks Lion,
 * LARS and LAMB; their update rules are from their papers.
 * torch.optim.SparseAdam has no counterpart, because there are no sparse
 * tensors. Most steps run one kernel for each parameter, in place. Parameters
 * without a gradient are skipped. <tenon/schedule.h> changes the learning rate
 * during training.
 *
 * Threads: An optimizer, its parameters and their gradients belong to one
 * thread at a time. Optimizers of different parameters are independent. */
#ifndef TENON_OPTIM_H
#define TENON_OPTIM_H

#include <tenon/compile.h>
#include <tenon/options.h>
#include <tenon/parameters.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_optim tn_optim;

/* Updates every parameter that has a gradient. Fails with TN_ERR_STATE, with
 * nothing changed, while an error is pending. */
TN_API tn_status tn_optim_step(tn_optim *optim);
/* Removes the gradients of the optimizer's parameters. Cannot fail. */
TN_API void tn_optim_zero_grad(tn_optim *optim);

/* A step for optimizers that evaluate the loss several times (LBFGS). closure
 * zeroes the gradients, computes the loss, calls tn_backward and returns the
 * loss. All optimizers accept a closure; all but LBFGS call it once before the
 * step. Returns the loss of the first call, or NAN with an error on failure. */
typedef double (*tn_optim_closure)(void *context);
TN_API double tn_optim_step_closure(tn_optim *optim, tn_optim_closure closure,
                                    void *context);

/* tn_optim_lr returns the learning rate of group 0. tn_optim_set_lr sets the
 * learning rate of all groups. It fails with TN_ERR_STATE while work is recorded,
 * since a replay would not set it again. */
TN_API double tn_optim_lr(const tn_optim *optim);
TN_API tn_status tn_optim_set_lr(tn_optim *optim, double lr);

/* ---- groups ------------------------------------------------------------
 * A group of parameters has its own learning rate and weight decay. Group 0 is
 * the list that is given when the optimizer is made. */

#define TN_OPTIM_ADD_GROUP_OPTIONS_LIST(X)                                    \
    X(double, lr, TN_NONE_FLOAT) /* default: the optimizer's lr */            \
    X(double, weight_decay, TN_NONE_FLOAT) /* default: the optimizer's */
TN_OPTIONS_STRUCT(tn_optim_add_group, TN_OPTIM_ADD_GROUP_OPTIONS_LIST);
#define TN_OPTIM_ADD_GROUP_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_optim_add_group, TN_OPTIM_ADD_GROUP_OPTIONS_LIST)
/* Adds a group of parameters. Fails with TN_ERR_ARGUMENT if a parameter is in a
 * group already. */
TN_API tn_status tn_optim_add_group_with(
    tn_optim *optim, tn_parameter_list *parameters,
    const tn_optim_add_group_options *options);

/* Returns the number of groups, or 0 for NULL. Cannot fail. */
TN_API int tn_optim_group_count(const tn_optim *optim);
/* Read and set the learning rate of one group. If there is no such group,
 * tn_optim_group_lr returns NAN, and both record TN_ERR_ARGUMENT. */
TN_API double tn_optim_group_lr(const tn_optim *optim, int group);
TN_API tn_status tn_optim_group_set_lr(tn_optim *optim, int group, double lr);

/* ---- state in a file -----------------------------------------------------
 * Training that is resumed from the file gives bit-identical results. */

/* Writes the optimizer's state to a safetensors file. A state tensor has a name
 * like "0.conv1.weight.exp_avg": group, parameter, and PyTorch's name of the
 * state. Steps and learning rates are written as JSON in the metadata under
 * "optimizer". LBFGS saves its history under "history.". The file is replaced
 * atomically. Fails with TN_ERR_IO if it cannot be written, with TN_ERR_STATE
 * while an error is pending. */
TN_API tn_status tn_optim_save(const tn_optim *optim, const char *path);
/* Reads the state into an optimizer made by the same call. Restores also the
 * learning rate, weight decay and momentum of each group. Other options keep
 * the values that the optimizer was made with. Fails with TN_ERR_ARGUMENT or
 * TN_ERR_SHAPE, with nothing changed, if the type of optimizer, the groups or
 * the parameters differ from the file. */
TN_API tn_status tn_optim_load(tn_optim *optim, const char *path);

/* Does the work of tn_optim_save for a caller that writes the state into a
 * larger file (<tenon/checkpoint.h>). Calls visit with each state tensor and
 * its name, both lent. Returns the JSON string for the metadata in memory from
 * malloc, which you free. Fails like tn_optim_save and then returns NULL. */
typedef void (*tn_optim_state_visit)(const char *name, tn_tensor *x,
                                     void *context);
TN_API char *tn_optim_state(const tn_optim *optim,
                            tn_optim_state_visit visit,
                            void *context);
/* Like tn_optim_load, but reads from an open safetensors file or a part of
 * one. */
struct tn_safetensors;
TN_API tn_status tn_optim_load_part(tn_optim *optim,
                                    struct tn_safetensors *part);

/* ---- state in pieces -----------------------------------------------------
 * Several processes may divide the state of one optimizer among them
 * (tn_optim_sharded in <tenon/parallel.h>). These calls read and write the part
 * of this process. For an optimizer that is not divided, each piece is a whole
 * tensor. */

/* A piece of a state tensor. */
typedef struct tn_optim_piece {
    size_t size;         /* sizeof(tn_optim_piece) */
    const char *name;    /* of the state tensor, as in tn_optim_save */
    tn_dims_list shape;  /* of the whole state tensor */
    int64_t offset;      /* of the piece's first element in the whole tensor, in
                            row-major order */
    tn_tensor *tensor;   /* the piece, contiguous: of `shape` if it is the whole
                            tensor, else 1-d */
} tn_optim_piece;

/* Calls visit with each piece that this process has; pieces are lent. Returns
 * the JSON string as tn_optim_state does: it is the same in all processes. Fails
 * like tn_optim_save and then returns NULL. visit ends the walk by a negative
 * status, which it has recorded as an error. */
typedef tn_status (*tn_optim_piece_fn)(const tn_optim_piece *piece,
                                       void *context);
TN_API char *tn_optim_state_pieces(const tn_optim *optim,
                                   tn_optim_piece_fn visit, void *context);
/* Loads the state that json (of tn_optim_state or tn_optim_state_pieces)
 * describes. Calls read for each piece that this process needs, whatever the
 * pieces of the processes that saved it were; read fills piece->tensor, which has
 * undefined elements (tn_copy_, tn_tensor_set_array). Fails like tn_optim_load,
 * with nothing changed; `source` is the text that messages begin with, such as a
 * path. */
TN_API tn_status tn_optim_load_pieces(tn_optim *optim, const char *json,
                                      const char *source,
                                      tn_optim_piece_fn read, void *context);

/* Returns the parameters of a group, lent, or NULL (TN_ERR_ARGUMENT) if there is
 * no such group. */
TN_API tn_parameter_list *tn_optim_parameters(const tn_optim *optim, int group);
/* Returns whether the update of an element depends on nothing but that element's
 * value, gradient and state, so that a parameter can be updated in parts. False
 * for LBFGS, Muon, Adafactor, LARS and LAMB. */
TN_API bool tn_optim_is_elementwise(const tn_optim *optim);

/* The elements of a parameter that tn_optim_restrict leaves to this process:
 * [offset, offset + count) of the flattened parameter. Closed: the struct never
 * changes. */
typedef struct tn_optim_range {
    int64_t offset, count;
} tn_optim_range;
/* Restricts optim to a part of its parameters' elements: it makes state for
 * them, and updates them, alone. For tn_optim_sharded and libraries like it.
 *   ranges   of the parameters, in the order of the groups
 *   after    called at the end of each tn_optim_step, also of one that failed;
 *            gives the processes each other's elements. NULL: there are no other
 *            processes, so that optim is checked, but stays as it is
 *   release  called with context when optim is freed, or on failure; or NULL
 * Fails with TN_ERR_UNSUPPORTED for LBFGS, TN_ERR_STATE if optim has made a step
 * or is restricted already, TN_ERR_ARGUMENT if a range is not within its
 * parameter, is a part of one although optim is not element-wise, or count is
 * not the number of parameters. Afterwards optim accepts no further groups, its
 * step is not recorded (tn_compile_step), and tn_optim_save and tn_optim_state
 * fail: all with TN_ERR_UNSUPPORTED. */
TN_API tn_status tn_optim_restrict(tn_optim *optim,
                                   const tn_optim_range *ranges, int count,
                                   tn_status (*after)(void *context),
                                   void *context,
                                   void (*release)(void *context));

/* ---- gradient clipping --------------------------------------------------- */

/* Options of tn_clip_grad_norm:
 *
 *   norm_type           order of the norm: 1, 2, any other number, INFINITY
 *                       (the largest magnitude), -INFINITY (the smallest), or 0
 *                       (the number of elements that are not 0)
 *   error_if_nonfinite  fail with TN_ERR_NAN if the norm is infinite or NaN;
 *                       the message names the parameter */
#define TN_CLIP_GRAD_NORM_OPTIONS_LIST(X)                                     \
    X(double, norm_type, 2)                                                   \
    X(bool, error_if_nonfinite, false)
TN_OPTIONS_STRUCT(tn_clip_grad_norm, TN_CLIP_GRAD_NORM_OPTIONS_LIST);
#define TN_CLIP_GRAD_NORM_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_clip_grad_norm, TN_CLIP_GRAD_NORM_OPTIONS_LIST)
/* Limits the norm of the gradients of all parameters, taken together as one
 * vector: multiplies them by min(1, max_norm / (norm + 1e-6)). The norm is
 * computed from the norms of the single gradients, in float64 if a gradient is
 * float64, otherwise in float32. Gradients without elements are left out. Waits
 * for the device. Returns the norm before scaling, or NAN, with an error and
 * nothing changed, on failure. Without error_if_nonfinite, a NaN in one
 * gradient makes all of them NaN. The host waits for the norm, so the call fails
 * with TN_ERR_STATE while work is recorded: tn_clip_grad_norm_on_device does not.
 * Source: torch.nn.utils.clip_grad_norm_. */
TN_API double tn_clip_grad_norm_with(const tn_parameter_list *parameters,
                                     double max_norm,
                                     const tn_clip_grad_norm_options *options);
/* Options of tn_clip_grad_norm_on_device: norm_type as in tn_clip_grad_norm. */
#define TN_CLIP_GRAD_NORM_ON_DEVICE_OPTIONS_LIST(X) X(double, norm_type, 2)
TN_OPTIONS_STRUCT(tn_clip_grad_norm_on_device,
                  TN_CLIP_GRAD_NORM_ON_DEVICE_OPTIONS_LIST);
#define TN_CLIP_GRAD_NORM_ON_DEVICE_OPTIONS                                   \
    TN_OPTIONS_DEFAULTS(tn_clip_grad_norm_on_device,                          \
                        TN_CLIP_GRAD_NORM_ON_DEVICE_OPTIONS_LIST)
/* Like tn_clip_grad_norm, with the same bits, but leaves the norm on the device,
 * which the host does not wait for. So it can be recorded (tn_graph_record,
 * tn_compile). All gradients are on one device. Returns the norm before the
 * change as a 0-d tensor, which the open scope owns; it is float64 if a gradient
 * is, else float32. Without gradients it is 0 on the current device. Returns NULL
 * on failure. */
TN_API tn_tensor *tn_clip_grad_norm_on_device_with(
    const tn_parameter_list *parameters, double max_norm,
    const tn_clip_grad_norm_on_device_options *options);
/* Clamps each element of the gradients to [-value, value]. Source:
 * torch.nn.utils.clip_grad_value_. */
TN_API tn_status tn_clip_grad_value(const tn_parameter_list *parameters,
                                    double value);

/* ---- compiled steps ------------------------------------------------------ */

/* Options of tn_compile_step: those of tn_compile, and
 *
 *   scaler      scales the loss, and skips the step if a gradient is not finite;
 *               for TN_AUTOCAST with float16
 *   max_norm    limits the norm of all gradients (tn_clip_grad_norm); none: no
 *               limit
 *   norm_type   the order of that norm
 *   clip_value  clamps each element of the gradients (tn_clip_grad_value); none:
 *               no limit
 *   keep_grads  keeps the gradients of a step until the next step. Otherwise they
 *               are removed at its end, and their memory is used again */
#define TN_COMPILE_STEP_OPTIONS_LIST(X)                                       \
    TN_COMPILE_OPTIONS_LIST(X)                                                \
    X(struct tn_grad_scaler *, scaler, NULL)                                  \
    X(double, max_norm, TN_NONE_FLOAT)                                        \
    X(double, norm_type, 2)                                                   \
    X(double, clip_value, TN_NONE_FLOAT)                                      \
    X(bool, keep_grads, false)
struct tn_grad_scaler;
TN_OPTIONS_STRUCT(tn_compile_step, TN_COMPILE_STEP_OPTIONS_LIST);
#define TN_COMPILE_STEP_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_compile_step, TN_COMPILE_STEP_OPTIONS_LIST)
/* Makes a compiled function that is a whole training step: the loss, its gradients,
 * clipping and the step of the optimizer.
 *
 *     static tn_status loss(tn_tensor *const *in, int in_count,
 *                           tn_tensor **out, int out_count, void *context)
 *     {
 *         out[0] = tn_cross_entropy(tn_forward(context, in[0]), in[1]);
 *         return TN_OK;
 *     }
 *
 *     tn_compiled *step = tn_compile_step(loss, net, opt, .max_norm = 1);
 *     TN_EACH_BATCH(batch, loader) {
 *         tn_tensor *value;
 *         tn_compiled_run(step, (tn_tensor *[]){batch.x, batch.y}, 2, &value, 1);
 *         tn_schedule_step(schedule);
 *     }
 *
 * fn stores the loss, a 0-d tensor, in out[0], and may store further results. All
 * are returned without gradients. A step removes the gradients of the step before,
 * as tn_optim_zero_grad does, and gives the bits of the single calls. Each step
 * uses the learning rates of that moment. Steps with a scaler do not wait for the
 * device: whether a step was skipped is known to the host after the next call that
 * uses the scaler or the optimizer.
 *
 * The compiled function holds references to optim and scaler. Returns NULL like
 * tn_compile, and with TN_ERR_ARGUMENT if optim evaluates the loss several times
 * (LBFGS), or if max_norm or clip_value is negative. */
TN_API tn_compiled *tn_compile_step_with(
    tn_compile_fn fn, void *context, tn_optim *optim,
    const tn_compile_step_options *options);

/* ---- the optimizers ------------------------------------------------------
 * Each X(...) row below is the type, name and default of an option. With
 * maximize, a step goes along the gradient, not against it. Each call returns
 * an optimizer, which the open scope owns and which holds references to the
 * parameters. It returns NULL with TN_ERR_ARGUMENT if an option is out of
 * range, with TN_ERR_MEMORY if memory runs out. */

#define TN_OPTIM_SGD_OPTIONS_LIST(X)                                          \
    X(double, lr, 1e-3)                                                       \
    X(double, momentum, 0)                                                    \
    X(double, dampening, 0)                                                   \
    X(double, weight_decay, 0)                                                \
    X(bool, nesterov, false)                                                  \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_sgd, TN_OPTIM_SGD_OPTIONS_LIST);
#define TN_OPTIM_SGD_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_optim_sgd, TN_OPTIM_SGD_OPTIONS_LIST)
/* Stochastic gradient descent. dampening and nesterov need momentum, and are
 * rejected without it. Source: torch.optim.SGD. */
TN_API tn_optim *tn_optim_sgd_with(tn_parameter_list *parameters,
                                   const tn_optim_sgd_options *options);

#define TN_OPTIM_ADAM_OPTIONS_LIST(X)                                         \
    X(double, lr, 1e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 0)                                                \
    X(bool, amsgrad, false)                                                   \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adam, TN_OPTIM_ADAM_OPTIONS_LIST);
#define TN_OPTIM_ADAM_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_adam, TN_OPTIM_ADAM_OPTIONS_LIST)
/* Adam, arXiv:1412.6980. Source: torch.optim.Adam. */
TN_API tn_optim *tn_optim_adam_with(tn_parameter_list *parameters,
                                    const tn_optim_adam_options *options);

#define TN_OPTIM_ADAMW_OPTIONS_LIST(X)                                        \
    X(double, lr, 1e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 1e-2)                                             \
    X(bool, amsgrad, false)                                                   \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adamw, TN_OPTIM_ADAMW_OPTIONS_LIST);
#define TN_OPTIM_ADAMW_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_optim_adamw, TN_OPTIM_ADAMW_OPTIONS_LIST)
/* Adam with decoupled weight decay, arXiv:1711.05101. Source:
 * torch.optim.AdamW. */
TN_API tn_optim *tn_optim_adamw_with(tn_parameter_list *parameters,
                                     const tn_optim_adamw_options *options);

#define TN_OPTIM_RMSPROP_OPTIONS_LIST(X)                                      \
    X(double, lr, 1e-2)                                                       \
    X(double, alpha, 0.99) /* decay of the mean squared gradient */           \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 0)                                                \
    X(double, momentum, 0)                                                    \
    X(bool, centered, false)                                                  \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_rmsprop, TN_OPTIM_RMSPROP_OPTIONS_LIST);
#define TN_OPTIM_RMSPROP_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_optim_rmsprop, TN_OPTIM_RMSPROP_OPTIONS_LIST)
/* RMSprop (G. Hinton, lecture 6e, 2012), or its variant of
 * arXiv:1308.0850 if centered is true. Source: torch.optim.RMSprop. */
TN_API tn_optim *tn_optim_rmsprop_with(tn_parameter_list *parameters,
                                       const tn_optim_rmsprop_options *options);

#define TN_OPTIM_ADAGRAD_OPTIONS_LIST(X)                                      \
    X(double, lr, 1e-2)                                                       \
    X(double, lr_decay, 0)                                                    \
    X(double, weight_decay, 0)                                                \
    X(double, initial_accumulator_value, 0)                                   \
    X(double, eps, 1e-10)                                                     \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adagrad, TN_OPTIM_ADAGRAD_OPTIONS_LIST);
#define TN_OPTIM_ADAGRAD_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_optim_adagrad, TN_OPTIM_ADAGRAD_OPTIONS_LIST)
/* Adagrad (Duchi et al., JMLR 12, 2011). Source: torch.optim.Adagrad. */
TN_API tn_optim *tn_optim_adagrad_with(tn_parameter_list *parameters,
                                       const tn_optim_adagrad_options *options);

#define TN_OPTIM_ADADELTA_OPTIONS_LIST(X)                                     \
    X(double, lr, 1)                                                          \
    X(double, rho, 0.9)                                                       \
    X(double, eps, 1e-6)                                                      \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adadelta, TN_OPTIM_ADADELTA_OPTIONS_LIST);
#define TN_OPTIM_ADADELTA_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_optim_adadelta, TN_OPTIM_ADADELTA_OPTIONS_LIST)
/* Adadelta, arXiv:1212.5701. Source: torch.optim.Adadelta. */
TN_API tn_optim *
tn_optim_adadelta_with(tn_parameter_list *parameters,
                       const tn_optim_adadelta_options *options);

#define TN_OPTIM_ADAMAX_OPTIONS_LIST(X)                                       \
    X(double, lr, 2e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adamax, TN_OPTIM_ADAMAX_OPTIONS_LIST);
#define TN_OPTIM_ADAMAX_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_optim_adamax, TN_OPTIM_ADAMAX_OPTIONS_LIST)
/* Adam with the infinity norm, arXiv:1412.6980. Source: torch.optim.Adamax. */
TN_API tn_optim *tn_optim_adamax_with(tn_parameter_list *parameters,
                                      const tn_optim_adamax_options *options);

#define TN_OPTIM_NADAM_OPTIONS_LIST(X)                                        \
    X(double, lr, 2e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 0)                                                \
    X(double, momentum_decay, 4e-3)                                           \
    X(bool, decoupled_weight_decay, false)                                    \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_nadam, TN_OPTIM_NADAM_OPTIONS_LIST);
#define TN_OPTIM_NADAM_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_optim_nadam, TN_OPTIM_NADAM_OPTIONS_LIST)
/* Adam with Nesterov momentum (T. Dozat, 2016). Source: torch.optim.NAdam. */
TN_API tn_optim *tn_optim_nadam_with(tn_parameter_list *parameters,
                                     const tn_optim_nadam_options *options);

#define TN_OPTIM_RADAM_OPTIONS_LIST(X)                                        \
    X(double, lr, 1e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-8)                                                      \
    X(double, weight_decay, 0)                                                \
    X(bool, decoupled_weight_decay, false)                                    \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_radam, TN_OPTIM_RADAM_OPTIONS_LIST);
#define TN_OPTIM_RADAM_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_optim_radam, TN_OPTIM_RADAM_OPTIONS_LIST)
/* Rectified Adam, arXiv:1908.03265. Source: torch.optim.RAdam. */
TN_API tn_optim *tn_optim_radam_with(tn_parameter_list *parameters,
                                     const tn_optim_radam_options *options);

#define TN_OPTIM_ASGD_OPTIONS_LIST(X)                                         \
    X(double, lr, 1e-2)                                                       \
    X(double, lambd, 1e-4)                                                    \
    X(double, alpha, 0.75)                                                    \
    X(double, t0, 1e6) /* averaging begins after this step */                 \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_asgd, TN_OPTIM_ASGD_OPTIONS_LIST);
#define TN_OPTIM_ASGD_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_asgd, TN_OPTIM_ASGD_OPTIONS_LIST)
/* Averaged stochastic gradient descent (Polyak and Juditsky, 1992). Source:
 * torch.optim.ASGD. */
TN_API tn_optim *tn_optim_asgd_with(tn_parameter_list *parameters,
                                    const tn_optim_asgd_options *options);

#define TN_OPTIM_RPROP_OPTIONS_LIST(X)                                        \
    X(double, lr, 1e-2) /* size of the first step */                          \
    X(double, eta_minus, 0.5)                                                 \
    X(double, eta_plus, 1.2)                                                  \
    X(double, step_min, 1e-6)                                                 \
    X(double, step_max, 50)                                                   \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_rprop, TN_OPTIM_RPROP_OPTIONS_LIST);
#define TN_OPTIM_RPROP_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_optim_rprop, TN_OPTIM_RPROP_OPTIONS_LIST)
/* Resilient backpropagation (Riedmiller and Braun, 1993). Source:
 * torch.optim.Rprop. */
TN_API tn_optim *tn_optim_rprop_with(tn_parameter_list *parameters,
                                     const tn_optim_rprop_options *options);

#define TN_OPTIM_MUON_OPTIONS_LIST(X)                                         \
    X(double, lr, 1e-3)                                                       \
    X(double, weight_decay, 0.1)                                              \
    X(double, momentum, 0.95)                                                 \
    X(bool, nesterov, true)                                                   \
    X(bool, match_rms_adamw, false) /* see tn_optim_muon */                   \
    X(double, eps, 1e-7)                                                      \
    X(int, ns_steps, 5) /* number of Newton-Schulz iterations */
TN_OPTIONS_STRUCT(tn_optim_muon, TN_OPTIM_MUON_OPTIONS_LIST);
#define TN_OPTIM_MUON_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_muon, TN_OPTIM_MUON_OPTIONS_LIST)
/* Muon (K. Jordan, 2024): steps along the momentum, orthogonalised by
 * Newton-Schulz iterations whose values are rounded to bfloat16.
 * match_rms_adamw scales lr by 0.2 sqrt(max(rows, columns)) instead of
 * sqrt(max(1, rows / columns)). All parameters must be matrices, else the
 * result is NULL with TN_ERR_SHAPE. Source: torch.optim.Muon. */
TN_API tn_optim *tn_optim_muon_with(tn_parameter_list *parameters,
                                    const tn_optim_muon_options *options);

#define TN_OPTIM_LBFGS_OPTIONS_LIST(X)                                        \
    X(double, lr, 1)                                                          \
    X(int, max_iter, 20)                                                      \
    X(int64_t, max_eval, TN_NONE_INT) /* default: max_iter * 5 / 4 */         \
    X(double, tolerance_grad, 1e-7)                                           \
    X(double, tolerance_change, 1e-9)                                         \
    X(int, history_size, 100)
TN_OPTIONS_STRUCT(tn_optim_lbfgs, TN_OPTIM_LBFGS_OPTIONS_LIST);
#define TN_OPTIM_LBFGS_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_optim_lbfgs, TN_OPTIM_LBFGS_OPTIONS_LIST)
/* Limited-memory BFGS (Nocedal, 1980) without a line search: each iteration
 * moves the parameters by lr times the search direction. LBFGS has only one
 * group, and its step is tn_optim_step_closure. Source: torch.optim.LBFGS. */
TN_API tn_optim *tn_optim_lbfgs_with(tn_parameter_list *parameters,
                                     const tn_optim_lbfgs_options *options);

#define TN_OPTIM_ADAFACTOR_OPTIONS_LIST(X)                                    \
    X(double, lr, 1e-2)                                                       \
    X(double, beta2_decay, -0.8) /* at most 0 */                              \
    X(double, eps1, TN_NONE_FLOAT) /* default: epsilon of the dtype */        \
    X(double, eps2, 1e-3) /* steps scale with max(eps2, parameter's RMS) */   \
    X(double, d, 1) /* upper bound of the update's RMS; at least 1 */         \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_adafactor, TN_OPTIM_ADAFACTOR_OPTIONS_LIST);
#define TN_OPTIM_ADAFACTOR_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_optim_adafactor, TN_OPTIM_ADAFACTOR_OPTIONS_LIST)
/* Adafactor, arXiv:1804.04235. It stores Adam's second moment of a matrix as
 * the product of a column and a row vector, so R x C elements need R + C
 * elements of state. eps1 and eps2 are PyTorch's eps = (eps1, eps2). Source:
 * torch.optim.Adafactor. */
TN_API tn_optim *
tn_optim_adafactor_with(tn_parameter_list *parameters,
                        const tn_optim_adafactor_options *options);

#define TN_OPTIM_LION_OPTIONS_LIST(X)                                         \
    X(double, lr, 1e-4)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.99)                                                    \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_lion, TN_OPTIM_LION_OPTIONS_LIST);
#define TN_OPTIM_LION_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_lion, TN_OPTIM_LION_OPTIONS_LIST)
/* Lion, arXiv:2302.06675: each element moves by lr in the direction of
 * sign(beta1 m + (1 - beta1) grad); then m = beta2 m + (1 - beta2) grad. Weight
 * decay is decoupled. Source: lion_pytorch.py of github.com/google/automl. */
TN_API tn_optim *tn_optim_lion_with(tn_parameter_list *parameters,
                                    const tn_optim_lion_options *options);

#define TN_OPTIM_LARS_OPTIONS_LIST(X)                                         \
    X(double, lr, 1)                                                          \
    X(double, momentum, 0.9)                                                  \
    X(double, weight_decay, 0)                                                \
    X(double, trust_coefficient, 1e-3)                                        \
    X(double, eps, 1e-8)                                                      \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_lars, TN_OPTIM_LARS_OPTIONS_LIST);
#define TN_OPTIM_LARS_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_lars, TN_OPTIM_LARS_OPTIONS_LIST)
/* LARS, for SGD with large batches. |p| and |grad| are norms of a whole
 * parameter and of its gradient:
 *     local = trust_coefficient |p| / (|grad| + weight_decay |p| + eps)
 *     b = momentum b + lr local (grad + weight_decay p),   p = p - b
 * local is 1 if a norm is 0. Biases and the parameters of normalisation layers
 * are usually given to another optimizer (tn_optim_sgd). Source:
 * arXiv:1708.03888, algorithm 1; eps as in NVIDIA's apex.parallel.LARC. */
TN_API tn_optim *tn_optim_lars_with(tn_parameter_list *parameters,
                                    const tn_optim_lars_options *options);

#define TN_OPTIM_LAMB_OPTIONS_LIST(X)                                         \
    X(double, lr, 1e-3)                                                       \
    X(double, beta1, 0.9)                                                     \
    X(double, beta2, 0.999)                                                   \
    X(double, eps, 1e-6)                                                      \
    X(double, weight_decay, 0)                                                \
    X(bool, maximize, false)
TN_OPTIONS_STRUCT(tn_optim_lamb, TN_OPTIM_LAMB_OPTIONS_LIST);
#define TN_OPTIM_LAMB_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_optim_lamb, TN_OPTIM_LAMB_OPTIONS_LIST)
/* LAMB, for Adam with large batches: p = p - lr (|p| / |u|) u, where u is
 * Adam's bias-corrected update plus weight_decay p. |p| / |u| is replaced by 1
 * if a norm is 0. Source: arXiv:1904.00962, algorithm 2, with the identity as
 * phi; defaults of optax.lamb. */
TN_API tn_optim *tn_optim_lamb_with(tn_parameter_list *parameters,
                                    const tn_optim_lamb_options *options);

/* ---- calls with options by name ------------------------------------------ */

#ifndef __cplusplus
#define tn_optim_add_group(...) TN_CALL_2(tn_optim_add_group, __VA_ARGS__, )
#define tn_compile_step(...) TN_CALL_3(tn_compile_step, __VA_ARGS__, )
#define tn_clip_grad_norm(...) TN_CALL_2(tn_clip_grad_norm, __VA_ARGS__, )
#define tn_clip_grad_norm_on_device(...)                                      \
    TN_CALL_2(tn_clip_grad_norm_on_device, __VA_ARGS__, )
#define tn_optim_sgd(...) TN_CALL_1(tn_optim_sgd, __VA_ARGS__, )
#define tn_optim_adam(...) TN_CALL_1(tn_optim_adam, __VA_ARGS__, )
#define tn_optim_adamw(...) TN_CALL_1(tn_optim_adamw, __VA_ARGS__, )
#define tn_optim_rmsprop(...) TN_CALL_1(tn_optim_rmsprop, __VA_ARGS__, )
#define tn_optim_adagrad(...) TN_CALL_1(tn_optim_adagrad, __VA_ARGS__, )
#define tn_optim_adadelta(...) TN_CALL_1(tn_optim_adadelta, __VA_ARGS__, )
#define tn_optim_adamax(...) TN_CALL_1(tn_optim_adamax, __VA_ARGS__, )
#define tn_optim_nadam(...) TN_CALL_1(tn_optim_nadam, __VA_ARGS__, )
#define tn_optim_radam(...) TN_CALL_1(tn_optim_radam, __VA_ARGS__, )
#define tn_optim_asgd(...) TN_CALL_1(tn_optim_asgd, __VA_ARGS__, )
#define tn_optim_rprop(...) TN_CALL_1(tn_optim_rprop, __VA_ARGS__, )
#define tn_optim_muon(...) TN_CALL_1(tn_optim_muon, __VA_ARGS__, )
#define tn_optim_lbfgs(...) TN_CALL_1(tn_optim_lbfgs, __VA_ARGS__, )
#define tn_optim_adafactor(...) TN_CALL_1(tn_optim_adafactor, __VA_ARGS__, )
#define tn_optim_lion(...) TN_CALL_1(tn_optim_lion, __VA_ARGS__, )
#define tn_optim_lars(...) TN_CALL_1(tn_optim_lars, __VA_ARGS__, )
#define tn_optim_lamb(...) TN_CALL_1(tn_optim_lamb, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_status, tn_optim_add_group, tn_optim *, tn_parameter_list *)
TN_OVERLOAD_3(tn_compiled *, tn_compile_step, tn_compile_fn, void *, tn_optim *)
TN_OVERLOAD_2(double, tn_clip_grad_norm, const tn_parameter_list *, double)
TN_OVERLOAD_2(tn_tensor *, tn_clip_grad_norm_on_device,
              const tn_parameter_list *, double)
TN_OVERLOAD_1(tn_optim *, tn_optim_sgd, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adam, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adamw, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_rmsprop, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adagrad, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adadelta, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adamax, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_nadam, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_radam, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_asgd, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_rprop, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_muon, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_lbfgs, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_adafactor, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_lion, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_lars, tn_parameter_list *)
TN_OVERLOAD_1(tn_optim *, tn_optim_lamb, tn_parameter_list *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
