/* <tenon/checkpoint.h>: a training run in one file, to go on from.
 *
 * A run that is killed at any moment and started again ends with the bits of
 * one that was not:
 *
 *     tn_checkpoint all = {sizeof all, .module = net, .optim = opt,
 *                          .loader = loader};
 *     if (access("run.ckpt", R_OK) == 0)
 *         tn_checkpoint_load("run.ckpt", &all);
 *     while (tn_loader_snapshot(loader).epoch < 10 && !tn_error())
 *         TN_EACH_BATCH(batch, loader) {
 *             ... a step ...
 *             if (++all.step % 100 == 0)
 *                 tn_checkpoint_save("run.ckpt", &all);
 *         }
 *
 * The file is a safetensors file: weights under "module.", the optimizer's
 * tensors under "optim.", averages under "average.", numbers as texts in the
 * metadata.
 *
 * Threads: All that a checkpoint names belongs to the calling thread
 * meanwhile; others may go on with what it does not name.
 */
#ifndef TENON_CHECKPOINT_H
#define TENON_CHECKPOINT_H

#include <tenon/average.h>
#include <tenon/data.h>
#include <tenon/grad_scaler.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run is made of; what is NULL is left out. The calling thread's random
 * numbers are always part of it. */
typedef struct tn_checkpoint {
    size_t size;           /* of this struct */
    tn_module *module;     /* parameters and buffers */
    tn_optim *optim;       /* its state and learning rates */
    tn_loader *loader;     /* where it stands */
    tn_schedule *schedule; /* its steps */
    int64_t step;          /* a number of yours */
    tn_grad_scaler *scaler;/* its scale */
    tn_average *average;   /* averages and their count; not while swapped */
} tn_checkpoint;

/* Writes it. Atomic: whoever reads path finds the old file or the new one,
 * whole; <tenon/io.h> says how, and what comes of links and modes. Refused
 * while an error is pending. */
TN_API tn_status tn_checkpoint_save(const char *path,
                                    const tn_checkpoint *checkpoint);

/* Brings all of it back, in place, and sets step. The file must have what
 * checkpoint has and nothing else, with the same names, shapes and dtypes; on
 * failure nothing is changed, unless the device itself fails while weights are
 * copied: the weights are read to host memory first, which has to hold them
 * once more. TN_ERR_IO, TN_ERR_FORMAT, TN_ERR_ARGUMENT and TN_ERR_SHAPE (what
 * differs), TN_ERR_MEMORY. Not in the body of a loop over the loader. */
TN_API tn_status tn_checkpoint_load(const char *path,
                                    tn_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
