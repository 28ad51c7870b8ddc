/* <tenon/train.h>: a training loop.
 *
 *     static tn_tensor *loss(tn_tensor *out, const tn_batch *batch,
 *                            void *context)
 *     {
 *         return tn_cross_entropy(out, batch->y);
 *     }
 *
 *     tn_metric *accuracy = tn_metric_accuracy();
 *     tn_train(net, opt, loader, .epochs = 20, .loss = loss,
 *              .validation = held_out,
 *              .metrics = (tn_metric *[]){accuracy, NULL},
 *              .monitor = accuracy, .maximize = true, .patience = 3,
 *              .last = "run.ckpt", .resume = true, .best = "best.safetensors");
 *     if (tn_error())
 *         fprintf(stderr, "%s\n", tn_error());
 *     tn_evaluate(net, test, .metrics = (tn_metric *[]){accuracy, NULL});
 *     printf("accuracy %.4f\n", tn_metric_value(accuracy));
 *
 * If this loop does not fit, write your own with TN_EACH_BATCH (data.h):
 * tn_train calls public functions only.
 *
 * An epoch consists of the steps, the validation, the step of the schedule, the
 * callback on_epoch_end and the checkpoint, in this order. A step processes
 * `accumulate` batches (default 1). A run that is killed and started again with
 * .last and .resume gives results that are bit-identical to those of a run
 * without interruption.
 *
 * An error ends the training. Its message begins with the epoch and the step,
 * counted from 1: "train: epoch 3, step 17: encoder.fc: linear: ...".
 * tn_error_info has the details of the operator that failed.
 *
 * Threads: During a call all objects passed to it belong to the calling thread,
 * which runs the callbacks. */
#ifndef TENON_TRAIN_H
#define TENON_TRAIN_H

#include <tenon/checkpoint.h>
#include <tenon/metric.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the model's output for a batch. If the option is NULL,
 * tn_forward(module, batch->x) is used. */
typedef tn_tensor *(*tn_train_forward)(tn_module *module, const tn_batch *batch,
                                       void *context);
/* Computes the loss, a floating-point tensor with one element, from the output
 * and the batch. */
typedef tn_tensor *(*tn_train_loss)(tn_tensor *output, const tn_batch *batch,
                                    void *context);

/* The state of the training, which callbacks get. */
typedef struct tn_train_state {
    size_t size;             /* sizeof(tn_train_state) */
    tn_module *module;
    tn_optim *optim;
    const tn_batch *batch;   /* current batch; NULL outside of step callbacks */
    tn_tensor *batch_loss;   /* loss of the batch in on_step_end; else NULL */
    int64_t epoch, epochs;   /* current epoch, from 0; number of epochs */
    int64_t step;            /* optimizer steps done in all epochs */
    double loss;             /* mean per sample of the last complete epoch; NAN
                                before the first one has ended */
    double validation_loss;  /* mean per sample; NAN without validation */
    double monitored;        /* the value that the option monitor selects */
    double best;             /* best `monitored` so far; NAN if none */
    int64_t epochs_since_best;
    bool stop;               /* a callback sets it to end the training */
} tn_train_state;
typedef void (*tn_train_callback)(tn_train_state *state, void *context);

/* Options of tn_train:
 *
 *   epochs         number of epochs, from the loader's position
 *   forward, loss  functions of the types tn_train_forward and
 *                  tn_train_loss; loss is required
 *   context        passed to all functions; lent
 *   validation     a loader whose batches are evaluated after each epoch, in
 *                  eval mode and without gradients
 *   metrics        a list that ends with NULL, reset in each epoch and updated
 *                  with the output and batch->y of each validation batch, or
 *                  without validation of each training batch
 *   monitor        the metric, one of metrics, by which epochs are compared.
 *                  NULL: the validation loss, or without validation the
 *                  training loss
 *   maximize       a larger value of monitor is better
 *   patience       number of epochs in a row without an improvement by more
 *                  than min_delta after which the training ends
 *   last           path of a checkpoint (checkpoint.h) of all parts of the
 *                  training, written after each epoch, when `stop` is set, and
 *                  after every checkpoint_every steps
 *   resume         continues from `last` if that file exists
 *   best           path to which tn_module_save writes the weights of the best
 *                  epoch, or their averages if there is an average
 *   accumulate     batches per optimizer step; their gradients are averaged
 *   autocast       TN_BF16 or TN_F16 for forward and loss
 *   scaler         gradient scaler, for autocast to TN_F16
 *   clip_norm, clip_value  limits for tn_clip_grad_norm, tn_clip_grad_value
 *   schedule       stepped after each epoch, or after each optimizer step with
 *                  schedule_per_step. tn_schedule_reduce_lr_on_plateau gets the
 *                  monitored value of the epoch; its mode is "max" with
 *                  maximize, else "min"
 *   average        updated after each optimizer step; swapped in for the
 *                  validation
 *   log            file to which a line is written after each epoch
 *   progress       shows loss, rate and time left of each epoch and of its
 *                  validation on stderr, if that is a terminal
 *   on_...         callbacks. on_epoch_begin runs after the module was set to
 *                  training mode, and may set layers to eval mode again.
 *                  on_epoch_end runs before the checkpoint
 *
 * The state of metrics is not saved. If a run without validation is resumed
 * within an epoch, the metrics cover only the rest of that epoch. */
#define TN_TRAIN_OPTIONS_LIST(X)                                              \
    X(int64_t, epochs, 1)                                                     \
    X(tn_train_forward, forward, NULL)                                        \
    X(tn_train_loss, loss, NULL)                                              \
    X(void *, context, NULL)                                                  \
    X(tn_loader *, validation, NULL)                                          \
    X(tn_metric *const *, metrics, NULL)                                      \
    X(tn_metric *, monitor, NULL)                                             \
    X(bool, maximize, false)                                                  \
    X(int64_t, patience, TN_NONE_INT)                                         \
    X(double, min_delta, 0)                                                   \
    X(const char *, last, NULL)                                               \
    X(int64_t, checkpoint_every, TN_NONE_INT)                                 \
    X(bool, resume, false)                                                    \
    X(const char *, best, NULL)                                               \
    X(int64_t, accumulate, 1)                                                 \
    X(tn_dtype, autocast, TN_DTYPE_NONE)                                      \
    X(tn_grad_scaler *, scaler, NULL)                                         \
    X(double, clip_norm, TN_NONE_FLOAT)                                       \
    X(double, clip_value, TN_NONE_FLOAT)                                      \
    X(tn_schedule *, schedule, NULL)                                          \
    X(bool, schedule_per_step, false)                                         \
    X(tn_average *, average, NULL)                                            \
    X(FILE *, log, NULL)                                                      \
    X(bool, progress, true)                                                   \
    X(tn_train_callback, on_epoch_begin, NULL)                                \
    X(tn_train_callback, on_epoch_end, NULL)                                  \
    X(tn_train_callback, on_step_begin, NULL)                                 \
    X(tn_train_callback, on_step_end, NULL)
TN_OPTIONS_STRUCT(tn_train, TN_TRAIN_OPTIONS_LIST);
#define TN_TRAIN_OPTIONS TN_OPTIONS_DEFAULTS(tn_train, TN_TRAIN_OPTIONS_LIST)
/* Trains module with optim on the batches of loader. Batches are not copied to
 * another device: give the loader a .device if the module and the data are on
 * different devices. The module is in training mode during steps, and in its
 * former mode afterwards. Fails with TN_ERR_ARGUMENT for options that are out
 * of range or have no effect, TN_ERR_STATE while an error is pending, TN_ERR_IO
 * if a file cannot be written or read, TN_ERR_MEMORY if memory runs out, and
 * with the errors of your functions. Weights keep what was trained before an
 * error. */
TN_API tn_status tn_train_with(tn_module *module, tn_optim *optim,
                               tn_loader *loader,
                               const tn_train_options *options);

#define TN_EVALUATE_OPTIONS_LIST(X)                                           \
    X(tn_train_forward, forward, NULL)                                        \
    X(tn_train_loss, loss, NULL)                                              \
    X(void *, context, NULL)                                                  \
    X(tn_metric *const *, metrics, NULL)                                      \
    X(tn_dtype, autocast, TN_DTYPE_NONE)                                      \
    X(bool, progress, true)
TN_OPTIONS_STRUCT(tn_evaluate, TN_EVALUATE_OPTIONS_LIST);
#define TN_EVALUATE_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_evaluate, TN_EVALUATE_OPTIONS_LIST)
/* Evaluates module on one epoch of loader, in eval mode and without gradients.
 * The options are those of tn_train; loss may be NULL if there are metrics.
 * Resets the metrics and updates them with all batches. Returns the mean loss
 * per sample, or, without a loss, the value of the first metric. Afterwards
 * each layer is in the mode in which it was. Returns NAN with an error on
 * failure. */
TN_API double tn_evaluate_with(tn_module *module, tn_loader *loader,
                               const tn_evaluate_options *options);

#ifndef __cplusplus
#define tn_train(...) TN_CALL_3(tn_train, __VA_ARGS__, )
#define tn_evaluate(...) TN_CALL_2(tn_evaluate, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(tn_status, tn_train, tn_module *, tn_optim *, tn_loader *)
TN_OVERLOAD_2(double, tn_evaluate, tn_module *, tn_loader *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
