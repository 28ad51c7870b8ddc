/* <tenon/parallel.h>: data parallel training in many processes, and optimizers
 * whose state is divided among them; models on several devices of one process.
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
#include <tenon/optim.h>

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
 *                 device whose memory the engine cannot use
 *   reduce_dtype  dtype in which gradients travel: TN_BF16 or TN_F16 halve what
 *                 float32 sends. A rank adds its shards in float32 and rounds the
 *                 sum; the ranks' values are added in float32, and the result is
 *                 rounded. So the bits then depend on the number of ranks. None:
 *                 the dtype of the sums, float32 or float64
 *   buffers       what a step makes of the buffers of floating-point dtypes:
 *                 "mean": the mean over the shards; "first": the values of shard
 *                 0 for all ranks, as PyTorch's DDP takes those of rank 0 */
#define TN_DDP_NEW_OPTIONS_LIST(X)                                            \
    X(int64_t, shards, 0)                                                     \
    X(int64_t, bucket_bytes, 4194304)                                         \
    X(bool, staging, false)                                                   \
    X(tn_dtype, reduce_dtype, TN_DTYPE_NONE)                                  \
    X(const char *, buffers, "mean")
TN_OPTIONS_STRUCT(tn_ddp_new, TN_DDP_NEW_OPTIONS_LIST);
#define TN_DDP_NEW_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_ddp_new, TN_DDP_NEW_OPTIONS_LIST)

/* Gives all ranks of group the parameters and buffers of its rank 0, and
 * prepares the averaging of the gradients of the parameters that require one.
 * All ranks call it with models of the same structure, in which the same parameters
 * require a gradient, and with the same options. Another structure is an error that
 * names the parameter. The open scope owns the result, which holds
 * references to net and group. Parameters must not be replaced, nor
 * requires_grad changed, while it lives.
 *
 * Buckets are filled in the order in which gradients arrived in the first step of
 * rank 0; in the first step itself, from the last parameter to the first.
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
 * fails (TN_ERR_STATE), since the first may have been sent. Gradients are there
 * after the last shard: call tn_optim_step after the loop, not in it.
 *
 * Returns false with an error if a call has failed, in this or in another
 * process. The gradients are then not to be used; tn_optim_step refuses to run
 * while the error is pending. */
TN_API bool tn_ddp_next(tn_ddp *ddp);

/* Sets how much the current shard counts, before its backward pass: the number of
 * its samples or tokens, if shards differ in it. Gradients, buffers and loss are
 * then sum(weight * value) / sum(weight) over all shards of all ranks. A shard
 * counts 1 if the call is left out. A shard with weight 0 counts nothing, as one
 * without data; if all do, there are no gradients, tn_optim_step changes nothing,
 * and the loss is NAN.
 * Fails with TN_ERR_ARGUMENT if weight is negative or not finite, TN_ERR_STATE
 * outside of a shard, and after a gradient of the shard. */
TN_API tn_status tn_ddp_weigh(tn_ddp *ddp, double weight);

/* Lets ranks have different numbers of batches. Each rank says whether it has a
 * batch for the next step; the call returns whether any rank has:
 *
 *     batch *next = first_batch();
 *     while (tn_ddp_join(ddp, next != NULL)) {
 *         while (tn_ddp_next(ddp)) {
 *             tn_ddp_weigh(ddp, next ? next->count : 0);
 *             if (next)
 *                 tn_backward(loss_of(net, next));
 *         }
 *         tn_optim_step(opt);
 *         next = next_batch();
 *     }
 *
 * A rank that has none left does its shards without data. With weights as above
 * the mean is over the ranks that have a batch. Without tn_ddp_weigh it is over
 * all ranks, as PyTorch's join does by default.
 * A collective. False with an error on failure, or within a step (TN_ERR_STATE).
 * Source: torch.nn.parallel.DistributedDataParallel.join. */
TN_API bool tn_ddp_join(tn_ddp *ddp, bool has_batch);

/* Return the number of the current shard, 0 <= shard < shards, and the number
 * of shards of a batch. -1 and 0 for NULL. Cannot fail. */
TN_API int64_t tn_ddp_shard(const tn_ddp *ddp);
TN_API int64_t tn_ddp_shards(const tn_ddp *ddp);

/* Adds the loss of the current shard, a tensor of one element, to the mean that
 * tn_ddp_loss returns. Reads the value, so it waits for the device. The loss of a
 * shard with a weight (tn_ddp_weigh) is its mean over samples or tokens. */
TN_API tn_status tn_ddp_note(tn_ddp *ddp, tn_tensor *loss);
/* Returns the mean over all shards of the last step of what tn_ddp_note got; NAN
 * before the first step and for NULL. Cannot fail. */
TN_API double tn_ddp_loss(const tn_ddp *ddp);

/* ---- optimizers whose state is divided ----------------------------------- */

/* Options of tn_optim_sharded:
 *   bucket_bytes  a step gathers the parameters in rounds of about this size, for
 *                 which it needs memory
 *   staging       as in tn_ddp_new */
#define TN_OPTIM_SHARDED_OPTIONS_LIST(X)                                      \
    X(int64_t, bucket_bytes, 1048576)                                         \
    X(bool, staging, false)
TN_OPTIONS_STRUCT(tn_optim_sharded, TN_OPTIM_SHARDED_OPTIONS_LIST);
#define TN_OPTIM_SHARDED_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_optim_sharded, TN_OPTIM_SHARDED_OPTIONS_LIST)

/* Divides the state of an optimizer among the ranks of group, and returns optim:
 *
 *     tn_optim *opt = tn_optim_sharded(
 *         tn_optim_adamw(tn_parameters(net), .lr = 1e-3), tn_dist_world());
 *
 * tn_optim_step then updates a part of the parameters on each rank, and gives all
 * ranks the result: in every bit that of the optimizer on one rank. All ranks call
 * it, with the same options and the same gradients (tn_ddp). Schedules, gradient scalers and clipping
 * work as before.
 *
 * Memory: with P elements of w bytes, gradients of g, and state of s bytes for an
 * element, a rank has P (w + g) + P s / ranks, and bucket_bytes in a step. Adam
 * with float32 needs 8 + 8 / ranks bytes for an element instead of 16.
 *
 * The elements of all parameters are cut into equal parts. Muon, Adafactor, LARS
 * and LAMB need whole parameters: each rank has some, of about the same size. The
 * state is saved in pieces: tn_optim_sharded_state (sharded.h). One that was saved
 * whole (tn_optim_save), or in pieces of any number of ranks, can be loaded.
 *
 * Call it when the optimizer has all its groups, before its first step. A group of
 * one rank leaves optim as it is. On failure returns NULL and leaves optim as it
 * was: TN_ERR_UNSUPPORTED for L-BFGS, TN_ERR_STATE after a step, TN_ERR_ARGUMENT
 * if a parameter is not contiguous; otherwise as a collective.
 * Source: ZeRO stage 1, arXiv:1910.02054;
 * torch.distributed.optim.ZeroRedundancyOptimizer. */
TN_API tn_optim *tn_optim_sharded_with(tn_optim *optim, tn_group *group,
                                       const tn_optim_sharded_options *options);

/* ---- several devices of one process -------------------------------------- */

/* Returns a module that runs net on several devices at once:
 *
 *     tn_device *gpus[] = {tn_device_open("cuda:0"), tn_device_open("cuda:1")};
 *     tn_module *both = tn_data_parallel(net, gpus, 2);
 *     tn_tensor *loss = tn_cross_entropy(tn_forward(both, x), y);
 *     tn_backward(loss);                      // gradients of net's parameters
 *
 * Its forward cuts each input along dimension 0 into count parts, whose sizes
 * differ by at most 1, the first ones larger; copies net's parameters and buffers
 * to the other devices; runs the parts in parallel, a thread for each further
 * device; and concatenates each output along dimension 0 on devices[0].
 * Gradients are added to those of net's parameters in a fixed order. With fewer
 * rows than devices the last devices do nothing.
 *
 *   net      on devices[0]: parameters, buffers
 *   devices  count different devices, or the same one several times
 *   inputs   as net's, with a dimension 0 of the same size, on any device
 *   returns  a module with the signature of net, owned by the open scope; its
 *            child "module" is net
 *
 * What forward changes in buffers stays for the part of devices[0], and is lost for
 * the others. Each part has random numbers of its own, from the caller's
 * generator. Modules of your own must allow that copies of them run in several
 * threads. Processes are faster (tn_ddp): here each forward copies the model.
 * NULL with TN_ERR_ARGUMENT if a device is NULL, or count is not 1 to 64, and
 * TN_ERR_DEVICE if a parameter of net is not on devices[0].
 * Source: torch.nn.DataParallel. */
TN_API tn_module *tn_data_parallel(tn_module *net, tn_device *const *devices,
                                   int count);

#ifndef __cplusplus
#define tn_ddp_new(...) TN_CALL_2(tn_ddp_new, __VA_ARGS__, )
#define tn_optim_sharded(...) TN_CALL_2(tn_optim_sharded, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_ddp *, tn_ddp_new, tn_module *, tn_group *)
TN_OVERLOAD_2(tn_optim *, tn_optim_sharded, tn_optim *, tn_group *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
