/* <tenon/parallel.h>: data parallel training in many processes.
 *
 * Each process has the whole model and trains it on its part of a batch. The
 * gradients are averaged over all parts, while the backward pass still runs:
 *
 *     tn_dist_init();
 *     tn_ddp *ddp = tn_ddp_new(net, tn_dist_world());
 *     for (int64_t step = 0; step < steps; step++) {
 *         while (tn_ddp_next(ddp)) {
 *             tn_tensor *x = part_of_batch(step, tn_ddp_shard(ddp),
 *                                          tn_ddp_shards(ddp));
 *             tn_tensor *loss = loss_of(net, x);
 *             tn_backward(loss);
 *             tn_ddp_note(ddp, loss);
 *         }
 *         tn_optim_step(opt);                  // the same on all ranks
 *         printf("%g\n", tn_ddp_loss(ddp));    // the mean over all shards
 *     }
 *
 * A batch is cut into shards. A shard is the unit of arithmetic: it has a
 * forward and backward pass of its own, random numbers of its own (from the
 * seed, the step and its number), and batch statistics of its own. Gradients,
 * losses and statistics of the shards are added in a fixed order, a tree over
 * their numbers. So the results do not depend, in any bit, on the number of
 * ranks: with .shards = 8 they are the same for 1, 2, 4 and 8 ranks, and for
 * .shards = 6 for 1, 2, 3 and 6. A rank computes shards / ranks of them, one
 * after the other, and synchronises only after the last: that is gradient
 * accumulation.
 *
 * Link with `pkg-config --libs tenon-parallel`.
 *
 * Threads: A tn_ddp, its model and their gradients belong to one thread at a
 * time.
 */
#ifndef TENON_PARALLEL_H
#define TENON_PARALLEL_H

#include <tenon/dist.h>
#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_ddp tn_ddp;

/* Options of tn_ddp_new:
 *   shards        parts of a batch, a multiple of the number of ranks; 0: one
 *                 for each rank
 *   bucket_bytes  gradients are sent in pieces of about this size, once all of
 *                 a piece are there. Results do not depend on it
 *   staging       allows copies through host memory (dist.h), for models on a
 *                 device whose memory the engine cannot use */
#define TN_DDP_NEW_OPTIONS_LIST(X)                                            \
    X(int64_t, shards, 0)                                                     \
    X(int64_t, bucket_bytes, 4194304)                                         \
    X(bool, staging, false)
TN_OPTIONS_STRUCT(tn_ddp_new, TN_DDP_NEW_OPTIONS_LIST);
#define TN_DDP_NEW_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_ddp_new, TN_DDP_NEW_OPTIONS_LIST)

/* Gives all ranks of group the parameters and buffers of its rank 0, and
 * prepares the averaging of the gradients of the parameters that require one.
 * All ranks call it with models of the same structure; another structure is an
 * error that names the parameter. The open scope owns the result, which holds
 * references to net and group. Parameters must not be replaced, nor
 * requires_grad changed, while it lives.
 * NULL: TN_ERR_ARGUMENT if shards is not a multiple of the number of ranks or
 * no parameter requires a gradient; otherwise as a collective.
 * Source: torch.nn.parallel.DistributedDataParallel. */
TN_API tn_ddp *tn_ddp_new_with(tn_module *net, tn_group *group,
                               const tn_ddp_new_options *options);

/* Begins the next shard of this rank, and returns true; or ends the step, and
 * returns false. The first call of a step removes the gradients of the model.
 * After the last shard the gradient of each parameter is the mean over all
 * shards of all ranks, a shard that does not use the parameter counting as 0; a
 * parameter that no shard uses has no gradient. Buffers that a shard changed
 * (batch statistics) are the mean of what the shards made of them; those of
 * integer dtypes are the last shard's. The generator of random numbers is as
 * before the step.
 *
 * In a shard, call tn_backward once: a second gradient of the same parameter
 * fails (TN_ERR_STATE), since the first may have been sent.
 *
 * Returns false with an error if a call has failed, in this or in another
 * process. The gradients are then not to be used; tn_optim_step refuses to run
 * while the error is pending. */
TN_API bool tn_ddp_next(tn_ddp *ddp);

/* Return the number of the current shard, 0 <= shard < shards, and the number
 * of shards of a batch. -1 and 0 for NULL. Cannot fail. */
TN_API int64_t tn_ddp_shard(const tn_ddp *ddp);
TN_API int64_t tn_ddp_shards(const tn_ddp *ddp);

/* Adds the loss of the current shard, a tensor of one element, to the mean that
 * tn_ddp_loss returns. Reads the value, so it waits for the device. */
TN_API tn_status tn_ddp_note(tn_ddp *ddp, tn_tensor *loss);
/* Returns the mean over all shards of the last step of what tn_ddp_note got; NAN
 * before the first step and for NULL. Cannot fail. */
TN_API double tn_ddp_loss(const tn_ddp *ddp);

#ifndef __cplusplus
#define tn_ddp_new(...) TN_CALL_2(tn_ddp_new, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_ddp *, tn_ddp_new, tn_module *, tn_group *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
