/* <tenon/graph.h>: records the work of a step, and replays it without calling
 * the operators again.
 *
 *     static tn_status step(void *context)
 *     {
 *         job *j = context;
 *         tn_optim_zero_grad(j->opt);
 *         j->loss = tn_keep(tn_cross_entropy(tn_forward(j->net, j->x), j->y));
 *         tn_backward(j->loss);
 *         return tn_optim_step(j->opt);
 *     }
 *
 *     tn_graph *graph = tn_graph_record(step, &j);     // the first step
 *     TN_EACH_BATCH(batch, loader) {
 *         tn_copy_(j.x, tn_to(batch.x, device));       // into the same memory
 *         tn_copy_(j.y, tn_to(batch.y, device));
 *         tn_graph_replay(graph);                      // a step, and j.loss
 *     }
 *
 * The results of a replay are bit-identical to those of the step itself. Each
 * replay draws new random numbers from the calling thread's generator. On a
 * device with CUDA graphs a replay is one launch of a graph, whose kernels get
 * new random seeds first. On other devices it saves the operators' overhead
 * on the CPU, which matters for small tensors.
 *
 * A graph belongs to one device. Its work must not depend on values that the
 * host computes: the step must not read numbers (tn_item, sizes that depend on
 * values) or copy arrays in. Otherwise tn_graph_record fails. Shapes, and numbers
 * given to operators, are fixed by the recording, except for the numbers of
 * tn_optim_step and those of tn_late_number.
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

/* Returns whether the calling thread is recording a graph or a call of a
 * compiled function. Cannot fail. */
TN_API bool tn_graph_is_recording(void);

/* ---- what the host does at each replay -----------------------------------
 * For objects whose device work uses numbers that the host computes, such as an
 * optimizer, which counts its steps. The numbers are given to operators as
 * tn_late_number (compile.h).
 *
 *     static tn_status advance(void *object)
 *     {
 *         my_optimizer *o = object;
 *         o->rate = o->lr / sqrt(++o->steps);
 *         return TN_OK;
 *     }
 *     static const tn_graph_host host = {sizeof host, .advance = advance};
 *
 *     if (tn_graph_is_recording() && tn_graph_on_replay(o, &host) < 0)
 *         return tn_error_code();
 *     tn_sub_(p, tn_mul(g, tn_late_number(&o->rate)));
 *
 * Open: members are appended. */
typedef struct tn_graph_host {
    size_t size; /* sizeof(tn_graph_host) */
    /* Returns a number that changes when the recorded work is no longer the work
     * that the object would submit, as after tn_optim_load. Then tn_graph_replay
     * fails with TN_ERR_STATE, and a compiled function is captured again. NULL:
     * the work never changes. */
    int64_t (*version)(const void *object);
    /* Computes the numbers for the next run of the recorded work. It may read
     * tensors. On failure, with the error set, the replay fails. */
    tn_status (*advance)(void *object);
    /* Undoes the last advance, if the function itself is to be called beside its
     * replay (tn_compile's check_every). May be NULL. */
    void (*take_back)(void *object);
    /* True if `version` may return again what it returned in a recording, as when
     * parameters are frozen and later trained again. A compiled function then keeps
     * the program for that time. */
    bool returns;
} tn_graph_host;

/* To be called while the calling thread records. Calls host->advance(object) now,
 * outside of the recording, and lets each replay call it again, before the
 * replay's device work. The recording holds a reference to the object, which
 * tn_object_new has made. `host` must stay valid. Returns 0; 1, without
 * a call, if the object was given in this recording before; or a negative status:
 * that of advance, TN_ERR_STATE if nothing is recorded or an error is pending, or
 * TN_ERR_ARGUMENT for bad arguments. */
TN_API int tn_graph_on_replay(void *object, const tn_graph_host *host);

#ifdef __cplusplus
}
#endif
#endif
