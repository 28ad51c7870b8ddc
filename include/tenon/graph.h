/* <tenon/graph.h>: records the work of a step, and replays it without calling
 * the operators again.
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
 * The results of a replay are bit-identical to those of the step itself. Each
 * replay draws new random numbers from the calling thread's generator. On a
 * device with CUDA graphs a replay is one call of the driver, or a few if
 * random numbers are drawn. On other devices it saves the operators' overhead
 * on the CPU, which matters for small tensors.
 *
 * A graph belongs to one device. Its work must not depend on values that the
 * host computes: the step must not read numbers (tn_item, sizes that depend on
 * values), copy arrays in, or call tn_optim_step. Otherwise tn_graph_record
 * fails. Shapes, and numbers given to operators, are fixed by the recording.
 * Autocast and no_grad regions must begin and end inside the step.
 *
 * Threads: A graph contains the work of the recording thread only. One thread
 * at a time may update or replay a graph.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;

/* A step of a program. A negative status, with the error set, means failure. */
typedef tn_status (*tn_graph_fn)(void *context);

/* Runs step(context) once in a scope of its own, and records the work that it
 * gives to the calling thread's device. Tensors that the step makes are freed
 * with its scope, unless the step keeps them. Kept tensors, and older tensors
 * that are written in place (parameters, gradients), get new values with each
 * replay. All memory that the step uses stays allocated until the graph is
 * freed. The open scope owns the graph. Returns NULL with the error of step if
 * step fails. Returns NULL with TN_ERR_STATE if the step makes a call that
 * cannot be replayed, if a graph is being recorded, or if an error is pending;
 * with TN_ERR_ARGUMENT if step is NULL; and with TN_ERR_MEMORY if memory runs
 * out. */
TN_API tn_graph *tn_graph_record(tn_graph_fn step, void *context);

/* Records step again and replaces the contents of graph, with new shapes,
 * memory and numbers. If the new recording has the same number of operations,
 * of the same kinds, a device with CUDA graphs updates its graph in place,
 * which costs less than a new one. Fails as tn_graph_record does, and then
 * leaves graph unchanged. */
TN_API tn_status tn_graph_update(tn_graph *graph, tn_graph_fn step,
                                 void *context);

/* Runs the recorded work again. Autograd does not notice the changes in place
 * that the replay makes, so no pending backward pass may need the overwritten
 * values. Fails with TN_ERR_STATE while an error is pending or a graph is
 * recorded. Also fails if an operator finds an invalid value, such as an index
 * out of range (TN_ERR_INDEX). */
TN_API tn_status tn_graph_replay(tn_graph *graph);

/* Returns the number of recorded operations, or 0 for NULL. Cannot fail. */
TN_API int64_t tn_graph_count(const tn_graph *graph);
/* Returns the number of calls of the device's plugin per replay: the number of
 * recorded operations, or less if the plugin can replay sequences itself. 0 for
 * NULL. Cannot fail. */
TN_API int64_t tn_graph_calls(const tn_graph *graph);

/* Returns whether the calling thread is recording a graph. Cannot fail. */
TN_API bool tn_graph_is_recording(void);

#ifdef __cplusplus
}
#endif
#endif
