/* train_batch.h: what a step of training and of evaluation do with one batch. */
#ifndef TN_TRAIN_TRAIN_BATCH_H
#define TN_TRAIN_TRAIN_BATCH_H

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

/* Returns the dtype of autocast: wanted, or the caller's if that is 0. */
tn_dtype tn__train_cast(tn_dtype wanted);

#endif
