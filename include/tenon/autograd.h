/* <tenon/autograd.h>: automatic differentiation, define-by-run as in PyTorch.
 *
 * An operator with an input that requires a gradient records itself in a
 * graph. The backward pass then runs ordinary operators, so it works on every
 * device and can itself be differentiated.
 *
 *     tn_tensor *w = tn_requires_grad(tn_randn(tn_dims(3, 3)));
 *     tn_tensor *loss = tn_sum(tn_square(tn_matmul(w, x)));
 *     tn_backward(loss);
 *     tn_print(tn_tensor_grad(w));
 *
 * Changes in place are recorded, too, and apply to all views of the memory:
 *
 *     tn_add_scalar_(tn_select(y, 0, 0), 1);     // y[0] += 1
 *     tn_copy_(tn_select(rows, 0, i), h);        // rows[i] = h
 *
 * While recording, two kinds of changes in place are rejected, because
 * gradients would be wrong. Changing a leaf that requires a gradient, or a view
 * of it, fails with TN_ERR_STATE. Changing memory shared with a detached
 * tensor, or with a view made while nothing was recorded, fails with
 * TN_ERR_UNSUPPORTED. If a value that a gradient needs was changed in place,
 * the backward pass fails (TN_ERR_STATE).
 *
 * Threads: Recording mode, anomaly mode and the backward pass belong to the
 * calling thread. Several threads may record from the same tensors and run
 * backward from different roots at once. Their contributions to the gradient
 * of one leaf are added in no fixed order. During a backward pass no other
 * thread may change its leaves or remove their gradients. One thread at a time
 * may run a backward pass through a graph.
 */
#ifndef TENON_AUTOGRAD_H
#define TENON_AUTOGRAD_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a leaf with a floating-point dtype as requiring a gradient, and returns
 * it. Returns NULL with TN_ERR_DTYPE if x has an integer dtype, or with
 * TN_ERR_STATE if x is the result of an operator. */
TN_API tn_tensor *tn_requires_grad(tn_tensor *x);
/* Sets whether a leaf requires a gradient. Fails as tn_requires_grad does. */
TN_API tn_status tn_tensor_set_requires_grad(tn_tensor *x, bool on);
/* Returns whether x requires a gradient: it is a leaf that was marked, or the
 * result of a recorded operator with an input that requires a gradient. False
 * for NULL. Cannot fail. */
TN_API bool tn_tensor_requires_grad(const tn_tensor *x);
/* Returns whether x is a leaf: no recorded operator made it. Cannot fail. */
TN_API bool tn_tensor_is_leaf(const tn_tensor *x);

/* Returns the accumulated gradient of a leaf, or of a tensor marked by
 * tn_tensor_retain_grad (hook.h), or NULL if there is none. The gradient is
 * lent: valid while x lives, until the next backward pass or zeroing. */
TN_API tn_tensor *tn_tensor_grad(const tn_tensor *x);
/* Sets the gradient of x to grad, and x then holds a reference to grad. NULL
 * removes the gradient. grad must have the shape, dtype and device of x. Fails
 * with TN_ERR_STATE if grad is x, or if the graph of grad refers to x: such a
 * cycle would never be freed. */
TN_API tn_status tn_tensor_set_grad(tn_tensor *x, tn_tensor *grad);

/* Makes the leaf x a view of data's storage, with data's shape, dtype and
 * device, while x stays the same object (PyTorch's x.data = data). Removes the
 * gradient of x. Fails with TN_ERR_STATE if x is the result of an operator. */
TN_API tn_status tn_tensor_set_data(tn_tensor *x, tn_tensor *data);

/* Options of tn_backward:
 *   gradient       the gradient of root, with the shape of root; optional if
 *                  root has one element, for which it is then 1
 *   retain_graph   keeps the graph for a second backward pass
 *   create_graph   records the backward pass, for higher derivatives */
#define TN_BACKWARD_OPTIONS_LIST(X)                                           \
    X(tn_tensor *, gradient, NULL)                                            \
    X(bool, retain_graph, false)                                              \
    X(bool, create_graph, false)
TN_OPTIONS_STRUCT(tn_backward, TN_BACKWARD_OPTIONS_LIST);
#define TN_BACKWARD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_backward, TN_BACKWARD_OPTIONS_LIST)

/* Adds the derivative of root to the gradient of every leaf that requires one.
 * Fails with TN_ERR_SHAPE if root has more than one element and no gradient is
 * given. Fails with TN_ERR_STATE if root does not require a gradient, the graph
 * was freed by an earlier backward pass, or a value that the pass needs was
 * changed in place. After a failure all gradients are as before, except those
 * of leaves whose post-accumulate hooks have run (hook.h), and the graph may
 * have been freed. With create_graph, the gradient of a leaf has a graph, which
 * lives until the gradient is removed or the leaf is freed. */
TN_API tn_status tn_backward_with(tn_tensor *root,
                                  const tn_backward_options *options);

/* Stores the gradients of root with respect to inputs[0 .. count) in out[]. The
 * open scope owns them. The gradients of leaves do not change. If root does not
 * depend on inputs[i], the call fails, or, with allow_unused, sets out[i] to
 * NULL. */
#define TN_GRAD_OPTIONS_LIST(X)                                               \
    X(tn_tensor *, gradient, NULL)                                            \
    X(bool, retain_graph, false)                                              \
    X(bool, create_graph, false)                                              \
    X(bool, allow_unused, false)
TN_OPTIONS_STRUCT(tn_grad, TN_GRAD_OPTIONS_LIST);
#define TN_GRAD_OPTIONS                                                       \
    TN_OPTIONS_DEFAULTS(tn_grad, TN_GRAD_OPTIONS_LIST)
TN_API tn_status tn_grad_with(tn_tensor *root, tn_tensor *const *inputs,
                              int count, tn_tensor **out,
                              const tn_grad_options *options);

#ifndef __cplusplus
#define tn_backward(...) TN_CALL_1(tn_backward, __VA_ARGS__, )
#define tn_grad(...) TN_CALL_4(tn_grad, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_status, tn_backward, tn_tensor *)
TN_OVERLOAD_4(tn_status, tn_grad,
              tn_tensor *, tn_tensor *const *, int, tn_tensor **)
extern "C" {
#endif

/* Returns whether gradients are recorded in this thread. True at first. Cannot
 * fail. */
TN_API bool tn_grad_mode(void);
/* Switches recording on or off, and returns the previous mode. Cannot fail. */
TN_API bool tn_grad_mode_set(bool on);
/* A region without recording (base.h):
 *
 *     TN_NO_GRAD {                   // the statement that follows
 *         accuracy = test(net);
 *     }
 *     TN_NO_GRAD_HERE;               // the rest of the block
 */
#ifndef __cplusplus
static inline tn_region tn_no_grad_begin(void)
{
    tn_region region = {tn_grad_mode_set(false), true};
    return region;
}
static inline void tn_no_grad_end(tn_region *region)
{
    tn_grad_mode_set(region->was != 0);
}
#define TN_NO_GRAD TN__REGION(tn_no_grad_, tn_no_grad_begin(), tn_no_grad_end)
#define TN_NO_GRAD_HERE                                                       \
    TN__REGION_HERE(tn_no_grad_, tn_no_grad_begin(), tn_no_grad_end)
#else
typedef tn_region_of<bool, tn_grad_mode_set> tn_no_grad;
#define TN_NO_GRAD TN__REGION(tn_no_grad_, tn_no_grad, false)
#define TN_NO_GRAD_HERE TN__REGION_HERE(tn_no_grad_, tn_no_grad, false)
#endif

/* Returns whether anomaly mode is on in this thread. False at first. In this
 * mode an operator or a backward pass fails with TN_ERR_NAN if its result
 * contains a NaN. The message names the operator, its module, the position in
 * the result, and whether the NaN came from an argument. In a backward pass it
 * names the operator whose gradient has the NaN. The mode is slow, because each
 * result is read back. Operators that make a tensor from numbers (tn_full) are
 * not checked. A NaN that is given as a number is not an error. Source:
 * torch.autograd.set_detect_anomaly. */
TN_API bool tn_anomaly_mode(void);
/* Switches anomaly mode on or off, and returns the previous mode. Cannot
 * fail. */
TN_API bool tn_anomaly_mode_set(bool on);
/* A region in anomaly mode (base.h):
 *
 *     TN_DETECT_ANOMALY {            // the statement that follows
 *         tn_backward(tn_sum(tn_forward(net, x)));
 *     }
 *     TN_DETECT_ANOMALY_HERE;        // the rest of the block
 */
#ifndef __cplusplus
static inline tn_region tn_detect_anomaly_begin(void)
{
    tn_region region = {tn_anomaly_mode_set(true), true};
    return region;
}
static inline void tn_detect_anomaly_end(tn_region *region)
{
    tn_anomaly_mode_set(region->was != 0);
}
#define TN_DETECT_ANOMALY                                                     \
    TN__REGION(tn_detect_anomaly_, tn_detect_anomaly_begin(),                 \
               tn_detect_anomaly_end)
#define TN_DETECT_ANOMALY_HERE                                                \
    TN__REGION_HERE(tn_detect_anomaly_, tn_detect_anomaly_begin(),            \
                    tn_detect_anomaly_end)
#else
typedef tn_region_of<bool, tn_anomaly_mode_set> tn_detect_anomaly;
#define TN_DETECT_ANOMALY                                                     \
    TN__REGION(tn_detect_anomaly_, tn_detect_anomaly, true)
#define TN_DETECT_ANOMALY_HERE                                                \
    TN__REGION_HERE(tn_detect_anomaly_, tn_detect_anomaly, true)
#endif

/* Compares the gradients of fn(inputs) with central differences. inputs are
 * float64 leaves. fn returns one tensor of any shape. Returns TN_OK if they
 * agree. Otherwise returns TN_ERR_INTERNAL; the message reports the input, the
 * element and both values. */
typedef tn_tensor *(*tn_gradcheck_fn)(tn_tensor *const *inputs, int count,
                                      void *context);
TN_API tn_status tn_gradcheck(tn_gradcheck_fn fn, tn_tensor *const *inputs,
                              int count, void *context);
/* Compares the second derivatives of fn(inputs) in the same way. */
TN_API tn_status tn_gradgradcheck(tn_gradcheck_fn fn,
                                  tn_tensor *const *inputs, int count,
                                  void *context);

/* ---- tensors that a loop passes from step to step ------------------------ */

/* Passes the tensors that the variables point to, such as the state of a
 * recurrent layer, from one step of a loop to the next.
 *
 *     tn_tensor *h = NULL, *c = NULL;
 *     TN_EACH_BATCH(batch, loader) {
 *         tn_tensor *out = tn_nn_lstm_forward(lstm, batch.x, h, c, &h, &c);
 *         ... backward, step ...
 *         tn_scope_carry(batch.scope, &h, &c);
 *     }
 *
 * Each tensor that scope owns moves to the scope around it. If it requires a
 * gradient, the variable is first set to a detached tensor that shares its
 * memory, so a backward pass ends there (truncated backpropagation through
 * time) and the graph of the step is freed. The tensor that the same variable
 * carried before is dropped. A tensor of an outer scope that requires no
 * gradient stays as it is, and so does a variable that is NULL. The tensors are
 * owned by the scope around `scope`. A variable is identified by its address,
 * which must be the same in each step.
 *
 * Fails with TN_ERR_STATE if scope is not the innermost open scope of the
 * thread, or an error is pending; TN_ERR_ARGUMENT if scope or the address of a
 * variable is NULL; TN_ERR_MEMORY. */
TN_API tn_status tn_scope_carry_tensors(tn_scope *scope,
                                        tn_tensor **const *variables,
                                        int count);
#ifndef __cplusplus
#define tn_scope_carry(scope, ...)                                            \
    tn_scope_carry_tensors(scope, (tn_tensor **const[]){__VA_ARGS__},         \
                           (int)(sizeof((tn_tensor **const[]){__VA_ARGS__}) / \
                                 sizeof(tn_tensor **)))
#else
} /* extern "C" */
template <typename... Variables>
inline tn_status tn_scope_carry(tn_scope *scope, Variables... variables)
{
    tn_tensor **const list[] = {variables...};
    return tn_scope_carry_tensors(scope, list, (int)sizeof...(variables));
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
