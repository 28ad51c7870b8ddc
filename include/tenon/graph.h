/* <tenon/graph.h>: a step of a fixed shape that is run again without calling
 * its operators: what they gave to the device is kept, and given once more.
 *
 *     static tn_status step(void *context)
 *     {
 *         job *j = context;
 *         tn_optim_zero_grad(j->opt);
 *         j->loss = tn_keep(tn_cross_entropy(tn_forward(j->net, j->x), j->y));
 *         return tn_backward(j->loss);
 *     }
 *
 *     tn_graph *graph = tn_graph_record(step, &j);     // the first step
 *     tn_optim_step(j.opt);
 *     TN_EACH_BATCH(batch, loader) {
 *         tn_copy_(j.x, tn_to(batch.x, device));       // into the same memory
 *         tn_copy_(j.y, tn_to(batch.y, device));
 *         tn_graph_replay(graph);                      // j.loss, gradients
 *         tn_optim_step(j.opt);
 *     }
 *
 * Bits are those of the step itself, random numbers included: each replay
 * draws its own from the calling thread's generator. On a device with CUDA
 * graphs a replay is one call of the driver (a few, where random numbers are
 * drawn); on the others it saves the operators' own cost, which is worth it for
 * small tensors.
 *
 * A graph is one device's, and what it does depends on nothing that the host
 * computes: no number is read in the step (tn_item, sizes that depend on
 * values), none copied in, and tn_optim_step is outside of it. What tries is an
 * error. Shapes are those of the recording. Numbers given to operators are
 * those of the recording, too; autocast regions and no_grad begin and end
 * inside.
 *
 * Threads: A graph holds the work of the thread that records it; what others
 * give to the device meanwhile is no part of it. A graph is updated and
 * replayed by one thread at a time.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;

/* A step; negative: it failed, and the error is set. */
typedef tn_status (*tn_graph_fn)(void *context);

/* Runs step(context) once in a scope of its own, and keeps the work that it
 * gives to the calling thread's device. What it makes goes with that scope but
 * for what it keeps: those tensors, and all that existed before and is written
 * in place (parameters, gradients), have new values after each replay. All
 * memory that the step uses is kept until the graph goes. NULL: what step
 * failed with; TN_ERR_STATE where it did what cannot be replayed, records a
 * graph itself, or an error is pending; TN_ERR_ARGUMENT for NULL;
 * TN_ERR_MEMORY. */
TN_API tn_graph *tn_graph_record(tn_graph_fn step, void *context);

/* Records step in the place of what graph holds: shapes, memory and numbers are
 * those of now. A device with CUDA graphs changes its own where it stands,
 * which costs less than a new one, if it is given as many pieces of the same
 * kinds. After a failure, which are those of tn_graph_record, graph is as it
 * was. */
TN_API tn_status tn_graph_update(tn_graph *graph, tn_graph_fn step,
                                 void *context);

/* The same work once more. One thread at a time. Changes in place that it
 * makes are not told to autograd: no gradient should still wait for values that
 * it overwrites. TN_ERR_STATE while an error is pending or a graph is recorded;
 * the errors of the operators, where they depend on values (TN_ERR_INDEX). */
TN_API tn_status tn_graph_replay(tn_graph *graph);

/* Pieces of work in it. 0 for NULL. Cannot fail. */
TN_API int64_t tn_graph_count(const tn_graph *graph);
/* Calls of the device's plugin that a replay makes: as many, or fewer where the
 * plugin records work itself. 0 for NULL. Cannot fail. */
TN_API int64_t tn_graph_calls(const tn_graph *graph);

/* Does the calling thread record a graph? Cannot fail. */
TN_API bool tn_graph_is_recording(void);

#ifdef __cplusplus
}
#endif
#endif
