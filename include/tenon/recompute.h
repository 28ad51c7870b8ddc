/* <tenon/recompute.h>: activations that are made again instead of kept.
 *
 * What a long function saves for its gradient can be more than fits. Run by
 * tn_recompute, it keeps its inputs alone; when a gradient first asks for one
 * of its values, the function runs again. Gradients have the same bits as
 * without: random numbers are drawn again from where they stood.
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
 * tn_module_set_recompute (nn.h) does that for a module.
 *
 * Threads: The function runs in the calling thread, and again in the thread
 * that walks back; its context is the program's to protect.
 */
#ifndef TENON_RECOMPUTE_H
#define TENON_RECOMPUTE_H

#include <tenon/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes outputs of inputs. It must do the same each time: the same operators,
 * in the same order, on values that have not changed meanwhile but for the
 * inputs that it is given. It may call tn_recompute itself. */
typedef tn_status (*tn_recompute_fn)(tn_tensor *const *inputs, int count,
                                     tn_tensor **outputs, int out_count,
                                     void *context);

/*   preserve_rng   the second run draws the same random numbers; a little
 *                  cheaper without where there are none
 *   release        called once, when function and context are no longer
 *                  needed */
#define TN_RECOMPUTE_OPTIONS_LIST(X)                                          \
    X(bool, preserve_rng, true)                                               \
    X(tn_release_fn, release, NULL)
TN_OPTIONS_STRUCT(tn_recompute, TN_RECOMPUTE_OPTIONS_LIST);
#define TN_RECOMPUTE_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_recompute, TN_RECOMPUTE_OPTIONS_LIST)

/* Calls fn(inputs) and sets outputs[], owned by the open scope. Parameters that
 * fn uses besides its inputs get their gradients too. Where recording is off it
 * is a mere call. inputs[] need not stay, context must until the graph goes
 * (see release). Recording, an input that is changed in place afterwards is
 * noticed by the gradient. TN_ERR_STATE (from tn_backward) if the second run
 * saved other values than the first; an error that fn meets then is told with
 * that. A gradient cannot be taken inside fn of what fn itself has made.
 * Source: torch.utils.checkpoint.checkpoint(use_reentrant=False). */
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
