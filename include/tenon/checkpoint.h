/* <tenon/checkpoint.h>: saves and restores a training run in one file.
 *
 * A run that is killed at any moment and restarted gives results that are
 * bit-identical to those of a run without interruption:
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
 * The file is a safetensors file. It holds the weights under "module.", the
 * optimizer's tensors under "optim.", averages under "average.", and numbers as
 * strings in the metadata.
 *
 * Threads: During a call the objects in a checkpoint belong to the calling
 * thread.
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

/* The objects of a training run that a checkpoint saves. Objects that are NULL
 * are left out. The calling thread's random generator is always included. */
typedef struct tn_checkpoint {
    size_t size;           /* sizeof(tn_checkpoint) */
    tn_module *module;     /* the module's parameters and buffers are saved */
    tn_optim *optim;       /* the optimizer's state and learning rates are
                            * saved */
    tn_loader *loader;     /* the loader's position is saved */
    tn_schedule *schedule; /* the schedule's state is saved */
    int64_t step;          /* a number for your use */
    tn_grad_scaler *scaler;/* the scaler's scale is saved */
    tn_average *average;   /* the averages and their count are saved; they must
                              not be swapped in */
    double *values;        /* numbers for your use, saved bit for bit */
    int64_t value_count;   /* 0 to 6; loading requires the saved count */
} tn_checkpoint;

/* Writes the file atomically: a reader finds the complete old or the complete
 * new file. <tenon/io.h> describes how, and what happens to links and file
 * modes. Fails with TN_ERR_IO if the file cannot be written, TN_ERR_MEMORY if
 * memory runs out, or TN_ERR_STATE while an error is pending. */
TN_API tn_status tn_checkpoint_save(const char *path,
                                    const tn_checkpoint *checkpoint);

/* Restores all parts in place, and sets step. The file must contain exactly the
 * parts of checkpoint, with the same names, shapes and dtypes. Fails with
 * TN_ERR_IO if the file cannot be read, TN_ERR_FORMAT if it is not a valid
 * checkpoint, TN_ERR_ARGUMENT or TN_ERR_SHAPE if it does not fit the parts (the
 * message says what differs), or TN_ERR_MEMORY. After a failure nothing is
 * changed. If a device fails while weights are copied to it, the old weights
 * are copied back; should that fail, too, the message says that they are lost.
 * All weights are read into host memory first. It must have space for a second
 * copy of all weights, and a third copy of the largest weight. Do not call it
 * in a loop over the loader. */
TN_API tn_status tn_checkpoint_load(const char *path,
                                    tn_checkpoint *checkpoint);

/* ---- in files of another form --------------------------------------------
 * <tenon/sharded.h> writes checkpoints of many processes with these two. */

/* Calls write once with what tn_checkpoint_save would store, and returns its
 * status. All pointers are lent for the call. Fails as tn_checkpoint_save does
 * before it writes. */
typedef tn_status (*tn_checkpoint_writer)(void *context,
                                          const char *const *names,
                                          tn_tensor *const *tensors, int count,
                                          const char *const (*metadata)[2],
                                          int metadata_count);
TN_API tn_status tn_checkpoint_write(const tn_checkpoint *checkpoint,
                                     tn_checkpoint_writer write,
                                     void *context);
/* Does what tn_checkpoint_load does, from an open file (tn_safetensors_open,
 * tn_safetensors_new) or a part of one. Metadata and tensors of other names are
 * ignored. */
struct tn_safetensors;
TN_API tn_status tn_checkpoint_load_part(struct tn_safetensors *part,
                                         tn_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
