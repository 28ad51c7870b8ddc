/* <tenon/hook.h>: functions of yours that run when a gradient passes.
 *
 *     static tn_tensor *halve(tn_tensor *grad, void *context)
 *     {
 *         return tn_mul_scalar(grad, 0.5);
 *     }
 *
 *     tn_tensor *h = tn_relu(tn_forward(net, x));
 *     tn_hook *hook = tn_tensor_register_hook(h, halve, NULL);
 *     tn_backward(tn_sum(h));                // what lies below h gets half
 *     tn_hook_remove(hook);
 *
 * A hook stays until it is removed or the tensor's graph is gone; the handle
 * that registering gives belongs to the open scope, and when it goes, the hook
 * stays (keep the handle with tn_keep to remove it later). A context is lent:
 * it must be good as long as the hook. Hooks run in the thread that walks the
 * graph, those of one tensor in the order in which they were registered; while
 * one thread walks, no other may register hooks on that graph.
 *
 * Hooks around a module's forward and backward are in nn.h.
 *
 * Threads: Registering and removing belong to the thread that uses the graph
 * or the module; tn_hook_remove may be called by any.
 */
#ifndef TENON_HOOK_H
#define TENON_HOOK_H

#include <tenon/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A hook that was registered, on a tensor or on a module. Closed. */
typedef struct tn_hook {
    tn_object object;
    bool removed; /* the library's: use tn_hook_remove */
} tn_hook;

/* The hook runs no more. Twice is fine, and so is NULL. Cannot fail. */
TN_API void tn_hook_remove(tn_hook *hook);

/* Called with the whole gradient of a tensor, lent, before it goes on to what
 * the tensor was made of (or into a leaf). Returns another of the same shape,
 * dtype and device to go on in its place, or NULL to leave it; an error
 * recorded meanwhile (tn_error_set) ends the walk. Recording is off but under
 * create_graph. */
typedef tn_tensor *(*tn_grad_hook)(tn_tensor *grad, void *context);

/* release is called once, when the hook is gone for good or could not be
 * registered. */
#define TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST(X)                               \
    X(tn_release_fn, release, NULL)
TN_OPTIONS_STRUCT(tn_tensor_register_hook,
                  TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST);
#define TN_TENSOR_REGISTER_HOOK_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_tensor_register_hook,                              \
                        TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST)

/* Runs hook in tn_backward and tn_grad. A tensor that is changed in place later
 * is a new one in this respect: the hook gets the gradient of what it was.
 * NULL (TN_ERR_STATE) if x does not require a gradient.
 * Source: torch.Tensor.register_hook. */
TN_API tn_hook *tn_tensor_register_hook_with(
    tn_tensor *x, tn_grad_hook hook, void *context,
    const tn_tensor_register_hook_options *options);

/* Called with a leaf whose gradient (tn_tensor_grad) is whole, in a scope of
 * its own. */
typedef tn_status (*tn_accumulated_hook)(tn_tensor *x, void *context);

/* Runs hook in each tn_backward that adds to the gradient of x, once, as soon
 * as the last operator that uses x has added its part, and before the walk goes
 * on to what lies below: an optimizer may step x there and forget the gradient
 * (tn_tensor_set_grad), so that those of all leaves never exist at once.
 *
 *     static tn_status descend(tn_tensor *x, void *rate)
 *     {
 *         tn_sub_(x, tn_mul_scalar(tn_tensor_grad(x), *(double *)rate));
 *         return tn_tensor_set_grad(x, NULL);
 *     }
 *
 * A negative status ends the walk. When that, or something later, fails, leaves
 * whose hooks have run keep what they got; the gradients of all leaves without
 * such hooks are as they were. NULL (TN_ERR_STATE) if x is no leaf that
 * requires a gradient.
 * Source: torch.Tensor.register_post_accumulate_grad_hook. */
TN_API tn_hook *
tn_tensor_register_post_accumulate_grad_hook(tn_tensor *x,
                                             tn_accumulated_hook hook,
                                             void *context);

/* Lets x, which is no leaf, keep its gradient as leaves do: tn_tensor_grad
 * gives it, later walks add to it. It is the one that x's hooks leave. Nothing
 * happens to a leaf. TN_ERR_STATE if x does not require a gradient.
 * Source: torch.Tensor.retain_grad. */
TN_API tn_status tn_tensor_retain_grad(tn_tensor *x);
TN_API bool tn_tensor_retains_grad(const tn_tensor *x);

#ifndef __cplusplus
#define tn_tensor_register_hook(...)                                          \
    TN_CALL_3(tn_tensor_register_hook, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(tn_hook *, tn_tensor_register_hook,
              tn_tensor *, tn_grad_hook, void *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
