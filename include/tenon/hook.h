/* <tenon/hook.h>: functions of yours that are called during a backward pass.
 *
 *     static tn_tensor *halve(tn_tensor *grad, void *context)
 *     {
 *         return tn_mul_scalar(grad, 0.5);
 *     }
 *
 *     tn_tensor *h = tn_relu(tn_forward(net, x));
 *     tn_hook *hook = tn_tensor_register_hook(h, halve, NULL);
 *     tn_backward(tn_sum(h));                // layers below h get half
 *     tn_hook_remove(hook);
 *
 * A hook stays until it is removed or the tensor's graph is freed. The returned
 * handle belongs to the open scope. The hook stays when the handle is freed; to
 * remove the hook later, keep the handle (tn_keep). A context is lent: it must
 * be valid as long as the hook. Hooks run in the thread of the backward pass;
 * hooks of one tensor run in the order of registration. During a backward pass
 * no other thread may register hooks on that graph.
 *
 * Hooks around a module's forward and backward are in nn.h.
 *
 * Threads: Registering a hook belongs to the thread that uses the graph or the
 * module. Any thread may call tn_hook_remove.
 */
#ifndef TENON_HOOK_H
#define TENON_HOOK_H

#include <tenon/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A registered hook of a tensor or of a module. Closed: the struct never
 * changes. */
typedef struct tn_hook {
    tn_object object;
    bool removed; /* for the library's use */
} tn_hook;

/* Removes the hook. Does nothing for NULL or a removed hook. Cannot fail. */
TN_API void tn_hook_remove(tn_hook *hook);

/* A hook is called with the complete gradient of a tensor, which is lent,
 * before the gradient is passed to the operator that made the tensor, or added
 * to a leaf. It returns a replacement with the same shape, dtype and device, or
 * NULL to leave the gradient as it is. To fail, it records an error
 * (tn_error_set), which ends the backward pass. Recording is off except with
 * create_graph. */
typedef tn_tensor *(*tn_grad_hook)(tn_tensor *grad, void *context);

/* Option of tn_tensor_register_hook: release is called once with context, when
 * the hook is freed or could not be registered. */
#define TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST(X)                               \
    X(tn_release_fn, release, NULL)
TN_OPTIONS_STRUCT(tn_tensor_register_hook,
                  TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST);
#define TN_TENSOR_REGISTER_HOOK_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_tensor_register_hook,                              \
                        TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST)

/* Registers a hook that tn_backward and tn_grad call. If x is changed in place
 * later, the hook gets the gradient of the value before the change. The open
 * scope owns the handle. Returns NULL on failure (TN_ERR_STATE if x does not
 * require a gradient). Source: torch.Tensor.register_hook. */
TN_API tn_hook *tn_tensor_register_hook_with(
    tn_tensor *x, tn_grad_hook hook, void *context,
    const tn_tensor_register_hook_options *options);

/* A hook that is called with a leaf when its gradient (tn_tensor_grad) is
 * complete. The call runs in a scope of its own. */
typedef tn_status (*tn_accumulated_hook)(tn_tensor *x, void *context);

/* Registers a hook that is called once in each tn_backward that adds to the
 * gradient of x, as soon as that gradient is complete and before the pass
 * continues. The hook may update x and remove its gradient
 * (tn_tensor_set_grad), so that the gradients of all leaves never exist at the
 * same time:
 *
 *     static tn_status descend(tn_tensor *x, void *rate)
 *     {
 *         tn_sub_(x, tn_mul_scalar(tn_tensor_grad(x), *(double *)rate));
 *         return tn_tensor_set_grad(x, NULL);
 *     }
 *
 * A negative status of the hook ends the backward pass. If this hook or a later
 * part of the pass fails, leaves whose hooks have run stay changed; the
 * gradients of all other leaves are as before. Returns NULL on failure
 * (TN_ERR_STATE if x is not a leaf that requires a gradient).
 * Source: torch.Tensor.register_post_accumulate_grad_hook. */
TN_API tn_hook *
tn_tensor_register_post_accumulate_grad_hook(tn_tensor *x,
                                             tn_accumulated_hook hook,
                                             void *context);

/* Makes a tensor x that is not a leaf keep its gradient like a leaf:
 * tn_tensor_grad returns it, and later passes add to it. It is the gradient
 * after x's hooks. Does nothing for a leaf. Fails with TN_ERR_STATE if x does
 * not require a gradient. Source: torch.Tensor.retain_grad. */
TN_API tn_status tn_tensor_retain_grad(tn_tensor *x);
/* Returns whether tn_tensor_retain_grad was called for x. Cannot fail. */
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
