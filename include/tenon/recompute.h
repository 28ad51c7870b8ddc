/* <tenon/recompute.h>: activation checkpointing: recompute activations instead
 * of storing them.
 *
 * The values that a long function saves for its gradient may exceed the memory.
 * If tn_recompute runs the function, only the function's inputs are saved. The
 * function runs again when the backward pass first needs one of its values.
 * Gradients are bit-identical to those without tn_recompute, because the second
 * run draws the same random numbers.
 *
 *     static tn_status block(tn_tensor *const *in, int count, tn_tensor **out,
 *                            int out_count, void *net)
 *     {
 *         out[0] = tn_forward(net, in[0]);
 *         return out[0] ? TN_OK : tn_error_code();
 *     }
 *
 *     tn_tensor *y;
 *     tn_recompute(block, net, &x, 1, &y, 1);
 *     tn_backward(tn_sum(y));                    // runs block again
 *
 * tn_module_set_recompute (nn.h) does this for a module.
 *
 * Threads: The function runs in the calling thread, and again in the thread of
 * the backward pass. The program must protect its context.
 */
#ifndef TENON_RECOMPUTE_H
#define TENON_RECOMPUTE_H

#include <tenon/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that computes outputs from inputs. Each run must call the same
 * operators in the same order, on the same values. It may call tn_recompute
 * itself. */
typedef tn_status (*tn_recompute_fn)(tn_tensor *const *inputs, int count,
                                     tn_tensor **outputs, int out_count,
                                     void *context);

/* Options of tn_recompute:
 *   preserve_rng   the second run draws the same random numbers; false saves a
 *                  little time if the function draws none
 *   release        called once with context, when function and context are no
 *                  longer needed */
#define TN_RECOMPUTE_OPTIONS_LIST(X)                                          \
    X(bool, preserve_rng, true)                                               \
    X(tn_release_fn, release, NULL)
TN_OPTIONS_STRUCT(tn_recompute, TN_RECOMPUTE_OPTIONS_LIST);
#define TN_RECOMPUTE_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_recompute, TN_RECOMPUTE_OPTIONS_LIST)

/* Calls fn(inputs) and sets outputs[], which the open scope owns. Parameters
 * that fn uses besides its inputs get gradients, too. If recording is off,
 * tn_recompute only calls fn. inputs[] is read during the call only. context
 * must be valid until the graph is freed (see release). If an input is changed
 * in place later, tn_backward fails. It also fails (TN_ERR_STATE) if the second
 * run saves other values than the first; the message includes the error of fn,
 * if any. fn must not run a backward pass through tensors that it has made
 * itself. Source: torch.utils.checkpoint.checkpoint(use_reentrant=False). */
TN_API tn_status tn_recompute_with(tn_recompute_fn fn, void *context,
                                   tn_tensor *const *inputs, int count,
                                   tn_tensor **outputs, int out_count,
                                   const tn_recompute_options *options);

#ifndef __cplusplus
#define tn_recompute(...) TN_CALL_6(tn_recompute, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_6(tn_status, tn_recompute,
              tn_recompute_fn, void *, tn_tensor *const *, int, tn_tensor **, int)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
