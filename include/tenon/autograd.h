/* <tenon/autograd.h>: derivatives, define-by-run as in PyTorch.
 *
 * Operators record what they did while an input requires a gradient; a
 * backward walk then runs ordinary operators, so it works on every device and
 * can itself be differentiated.
 *
 *     tn_tensor *w = tn_requires_grad(tn_randn(tn_dims(3, 3)));
 *     tn_tensor *loss = tn_sum(tn_square(tn_matmul(w, x)));
 *     tn_backward(loss);
 *     tn_print(tn_tensor_grad(w));
 *
 * Changes in place are recorded too, and seen by all tensors on the memory:
 *
 *     tn_add_scalar_(tn_select(y, 0, 0), 1);     // y[0] += 1
 *     tn_copy_(tn_select(rows, 0, i), h);        // rows[i] = h
 *
 * Refused while recording, because gradients would be wrong, is that of a leaf
 * that requires one or of a view on it (TN_ERR_STATE), and of memory shared
 * with what was detached from it or seen while nothing was recorded
 * (TN_ERR_UNSUPPORTED). A value that a gradient saved and that has changed
 * since is noticed by the walk.
 *
 * Threads: Recording, anomaly mode and the walk belong to the calling thread.
 * Several threads may record from the same tensors and walk back from roots of
 * their own at once: what they add to the gradient of one leaf is added up, in
 * no fixed order. While one walks, no other may change the same leaves or take
 * their gradients away; one graph is walked by one thread at a time.
 */
#ifndef TENON_AUTOGRAD_H
#define TENON_AUTOGRAD_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a floating leaf as one whose gradient is wanted; returns x. NULL
 * (TN_ERR_DTYPE) for integers, (TN_ERR_STATE) for what an operator made. */
TN_API tn_tensor *tn_requires_grad(tn_tensor *x);
TN_API tn_status tn_tensor_set_requires_grad(tn_tensor *x, bool on);
TN_API bool tn_tensor_requires_grad(const tn_tensor *x);
TN_API bool tn_tensor_is_leaf(const tn_tensor *x);

/* The gradient accumulated in a leaf, or in what tn_tensor_retain_grad
 * (hook.h) marked: lent, good while x lives and until the next backward or
 * zeroing; NULL where there is none. */
TN_API tn_tensor *tn_tensor_grad(const tn_tensor *x);
/* Sets (or with NULL forgets) it; kept by x. Shape, dtype, device of x.
 * TN_ERR_STATE if grad is x, or holds x by the gradients of what it was made
 * of: no scope could free either. */
TN_API tn_status tn_tensor_set_grad(tn_tensor *x, tn_tensor *grad);

/* Makes the leaf x a view on what data is a view on: storage, shape, dtype and
 * device become data's, while x stays the same object (PyTorch's x.data =).
 * Its gradient is forgotten. TN_ERR_STATE if an operator made x. */
TN_API tn_status tn_tensor_set_data(tn_tensor *x, tn_tensor *data);

/*   gradient       cotangent of root; may be left out for one element
 *   retain_graph   keep what a second backward needs
 *   create_graph   record the walk itself: higher derivatives */
#define TN_BACKWARD_OPTIONS_LIST(X)                                           \
    X(tn_tensor *, gradient, NULL)                                            \
    X(bool, retain_graph, false)                                              \
    X(bool, create_graph, false)
TN_OPTIONS_STRUCT(tn_backward, TN_BACKWARD_OPTIONS_LIST);
#define TN_BACKWARD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_backward, TN_BACKWARD_OPTIONS_LIST)

/* Adds d root / d leaf to the gradient of every leaf that requires one.
 * TN_ERR_SHAPE if root has more than one element and no gradient is given;
 * TN_ERR_STATE if no gradient flows to root, the graph was freed by an earlier
 * backward, or a value it needs was changed in place since. A failure leaves
 * all gradients as they were, but for leaves whose hooks have run
 * (tn_tensor_register_post_accumulate_grad_hook); the graph may be used up.
 * With create_graph a leaf's gradient has a graph that stays as long as the
 * gradient: until it is forgotten, or the leaf goes. */
TN_API tn_status tn_backward_with(tn_tensor *root,
                                  const tn_backward_options *options);

/* The gradients of root with respect to inputs[], without touching leaves:
 * out[i] (owned by the open scope) is NULL where none flows, which is an error
 * unless allow_unused. */
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

/* Is recording on in this thread? On at start. */
TN_API bool tn_grad_mode(void);
/* Switches it; returns what it was. */
TN_API bool tn_grad_mode_set(bool on);
/* A region with recording off (base.h): TN_NO_GRAD { accuracy = test(net); },
 * or TN_NO_GRAD_HERE; to the end of the block. */
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

/* Is this thread looking for the first NaN (off at the start)? While it is, an
 * operator whose result holds one fails with TN_ERR_NAN, and so does a backward
 * walk: the message tells the operator, its module, where in the result, and
 * whether it came in with an argument. In backward that is the operator whose
 * gradient it was. Each result is read back, so this is slow. Operators that
 * make a tensor of nothing (tn_full), and numbers that are NaN, are believed.
 * Source: torch.autograd.set_detect_anomaly. */
TN_API bool tn_anomaly_mode(void);
/* Switches it; returns what it was. */
TN_API bool tn_anomaly_mode_set(bool on);
/* A region in anomaly mode (base.h):
 * TN_DETECT_ANOMALY { tn_backward(tn_sum(tn_forward(net, x))); }, or
 * TN_DETECT_ANOMALY_HERE; to the end of the block. */
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

/* Compares gradients of fn(inputs) with central differences in float64.
 * fn gives one output of any shape. TN_OK, or TN_ERR_INTERNAL with the input,
 * the element, both values. Inputs are float64 leaves. */
typedef tn_tensor *(*tn_gradcheck_fn)(tn_tensor *const *inputs, int count,
                                      void *context);
TN_API tn_status tn_gradcheck(tn_gradcheck_fn fn, tn_tensor *const *inputs,
                              int count, void *context);
/* The same for the gradients' own gradients. */
TN_API tn_status tn_gradgradcheck(tn_gradcheck_fn fn,
                                  tn_tensor *const *inputs, int count,
                                  void *context);

#ifdef __cplusplus
}
#endif
#endif
