/* train_batch.h: what a step of training and of evaluation do with one batch. */
#ifndef TN_TRAIN_TRAIN_BATCH_H
#define TN_TRAIN_TRAIN_BATCH_H

#include <tenon/data.h>
#include <tenon/train.h>

/* Returns the model's output for a batch, computed by forward(module, batch,
 * context) if `forward` is not NULL. Returns NULL with an error recorded on
 * failure. */
tn_tensor *tn__train_output(tn_module *module, const tn_batch *batch,
                            tn_train_forward forward, void *context);

/* Returns loss(out, batch, context), which must have one element. Returns NULL
 * with an error recorded on failure. */
tn_tensor *tn__train_loss(tn_tensor *out, const tn_batch *batch,
                          tn_train_loss loss, void *context);

/* Adds a batch's loss to a mean, weighted by its number of samples. */
void tn__train_add_loss(tn_metric *mean, tn_tensor *loss,
                        const tn_batch *batch);

/* Adds a batch to metrics, a list that NULL ends, and empties them. The list
 * may be NULL. */
void tn__train_update(tn_metric *const *metrics, tn_tensor *out,
                      const tn_batch *batch);
void tn__train_reset(tn_metric *const *metrics);

/* Returns the time in seconds since some moment in the past. */
double tn__train_now_s(void);

/* A progress bar with a loss. */
typedef struct tn__train_bar {
    bool shown; /* if not, nothing is written */
    tn_progress bar;
    double read_s; /* when the loss was last read */
    char note[32]; /* "loss 0.41", or "" */
} tn__train_bar;

/* Begins a bar on stderr, if it is a terminal and wanted is set, for one epoch
 * of loader. */
void tn__train_bar_begin(tn__train_bar *bar, bool wanted, tn_loader *loader,
                         const char *label);
/* Counts a batch. Its loss, which may be NULL, is read a few times a second,
 * since that waits for the device. */
void tn__train_bar_step(tn__train_bar *bar, tn_tensor *loss);

/* Does the work of tn_evaluate, and counts its batches in bar, which may be
 * NULL. Returns the mean loss, or 0 without a loss; NAN on failure. */
double tn__train_evaluate(tn_module *module, tn_loader *loader,
                          const tn_evaluate_options *o, tn__train_bar *bar);

/* Returns the dtype of autocast: wanted, or the caller's if that is 0. */
tn_dtype tn__train_cast(tn_dtype wanted);

#endif
