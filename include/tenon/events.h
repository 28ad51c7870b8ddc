/* <tenon/events.h>: what a run measures, in event files that TensorBoard and
 * `tenon plot` read.
 *
 *     tn_events *events = tn_events_open("runs/first");
 *     for (int64_t step = 0; step < steps; step++) {
 *         ...
 *         tn_events_scalar(events, "loss/train", tn_item(loss), step);
 *     }
 *     tn_events_image(events, "mistakes", grid, step);
 *
 *     $ tenon plot runs -o curves.html     (or: tensorboard --logdir runs)
 *
 * With tn_train, call tn_events_epoch in on_epoch_end:
 *
 *     static void epoch_end(tn_train_state *state, void *context)
 *     {
 *         tn_events_epoch(context, state);
 *     }
 *
 * A value is in the file when its call returns, also if the process is killed
 * afterwards. If a write fails (the disk is full), the file is cut back to the
 * last complete value, so that later values can be read.
 *
 * A tag names a curve or a sequence of images: "loss/train". Tags with the same
 * part before the slash are shown together.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * This header belongs to libtenon-media (pkg-config tenon-media).
 *
 * Threads: A tn_events belongs to one thread at a time. */
#ifndef TENON_EVENTS_H
#define TENON_EVENTS_H

#include <tenon/options.h>
#include <tenon/tensor.h>
#include <tenon/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_events tn_events;

/* Makes a new event file in a folder, which is made if it is not there (its
 * parent must be). The file's name is
 * events.out.tfevents.<seconds>.<host>.<process>.<number>, so that runs of many
 * processes do not overwrite each other. The open scope owns the result; the
 * file is closed when it is freed. Returns NULL with TN_ERR_IO if the folder or
 * the file cannot be made, or with TN_ERR_MEMORY. Source:
 * torch.utils.tensorboard.SummaryWriter. */
TN_API tn_events *tn_events_open(const char *folder);
/* Returns the path of the file, valid while events lives. Returns NULL if
 * events is NULL. Cannot fail. */
TN_API const char *tn_events_path(const tn_events *events);

/* All functions below write one event with the current time. They fail with
 * TN_ERR_ARGUMENT if tag is empty, is not UTF-8 or has more than 1,000 bytes, or
 * if step is negative; with TN_ERR_IO if the file cannot be written; with
 * TN_ERR_STATE while an error is pending; or with TN_ERR_MEMORY. */

/* Writes a number. NAN and infinities are allowed. TensorBoard stores it as
 * float32. */
TN_API tn_status tn_events_scalar(tn_events *events, const char *tag,
                                  double value, int64_t step);

/* Writes the loss and, where they are not NAN, the validation loss and the
 * monitored value of an epoch of tn_train, and the learning rate of the first
 * parameter group, under the tags "loss/train", "loss/validation", "monitored"
 * and "lr". The step is the number of completed epochs, from 1. */
TN_API tn_status tn_events_epoch(tn_events *events,
                                 const tn_train_state *state);

/* Writes the distribution of the elements of values: any shape, a
 * floating-point or integer dtype, at least one element, all finite (else
 * TN_ERR_ARGUMENT). The bins are those of SummaryWriter.add_histogram: their
 * edges grow by 10 % from 1e-12 to 1e20, for each sign. */
TN_API tn_status tn_events_histogram(tn_events *events, const char *tag,
                                     tn_tensor *values, int64_t step);

/* Writes an image as PNG: shape (channels, height, width) with 1 (grey), 3 (RGB)
 * or 4 (RGBA) channels; dtype uint8, or a floating-point dtype. Floating-point
 * values are clamped to 0 .. 1; NAN is rejected. The image may be on any
 * device. Fails with TN_ERR_SHAPE or TN_ERR_DTYPE for other tensors, and with
 * TN_ERR_UNSUPPORTED without libpng. */
TN_API tn_status tn_events_image(tn_events *events, const char *tag,
                                 tn_tensor *image, int64_t step);

/* Writes a text in UTF-8 (else TN_ERR_ARGUMENT). TensorBoard shows it as
 * Markdown. */
TN_API tn_status tn_events_text(tn_events *events, const char *tag,
                                const char *text, int64_t step);

/* A hyperparameter: a number if text is NULL, else a string. Closed: the struct
 * never changes. */
typedef struct tn_hyperparameter {
    const char *name;
    double number;
    const char *text;
} tn_hyperparameter;

/* Writes the hyperparameters of the run, once, and the tags of the scalars by
 * which TensorBoard compares runs:
 *
 *     tn_events_hyperparameters(
 *         events, (tn_hyperparameter[]){{"lr", 0.1}, {"optim", .text = "sgd"}},
 *         2, (const char *[]){"loss/validation"}, 1);
 *
 * Fails with TN_ERR_ARGUMENT if a name is NULL or repeated. Source:
 * SummaryWriter.add_hparams. */
TN_API tn_status tn_events_hyperparameters(tn_events *events,
                                           const tn_hyperparameter *parameters,
                                           int count,
                                           const char *const *metrics,
                                           int metric_count);

#ifdef __cplusplus
}
#endif
#endif
