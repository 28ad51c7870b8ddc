/* <tenon/op_register.h>: operators of your own, written in C.
 *
 * An operator that a line of the kernel language cannot express
 * (tn_op_define in op.h) can be a C function of tensors, with a second function
 * for its gradient:
 *
 *     // y = x^3, saving what its gradient 3 x^2 g needs
 *     static tn_status forward(tn_op_context *call, tn_tensor **out)
 *     {
 *         tn_tensor *x = tn_op_context_tensor(call, 0);
 *         tn_op_context_save(call, x);
 *         out[0] = tn_mul(tn_mul(x, x), x);
 *         return TN_OK;
 *     }
 *     static tn_status backward(tn_op_context *call, tn_tensor *const *grad,
 *                               tn_tensor **out)
 *     {
 *         tn_tensor *x = tn_op_context_saved(call, 0);
 *         out[0] = tn_mul(grad[0], tn_mul_scalar(tn_mul(x, x), 3));
 *         return TN_OK;
 *     }
 *
 *     tn_op_register(&(tn_op_rule){.size = sizeof(tn_op_rule),
 *                                  .signature = "cube(x)",
 *                                  .forward = forward, .backward = backward});
 *     tn_tensor *y = tn_call("cube", x);
 *
 * backward consists of operators, so it can be differentiated, too.
 *
 * Threads: Any thread may register an operator. forward and backward run in
 * the thread that calls the operator or runs the backward pass, perhaps in
 * several threads at once. A context belongs to its call.
 */
#ifndef TENON_OP_REGISTER_H
#define TENON_OP_REGISTER_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call of an operator that was defined by tn_op_register: its arguments,
 * and what forward saves for backward. It lives as long as the graph that may
 * call backward. */
typedef struct tn_op_context tn_op_context;

/* What tn_op_register registers. */
typedef struct tn_op_rule {
    size_t size; /* sizeof(tn_op_rule) */
    /* The name and arguments, written as in the operator reference: arguments,
     * options after a ';', results. "crop(x, mask?, margin: int = 1; fill:
     * float = 0) -> y, where". The kinds are tensor (the default), number, int,
     * float, bool, dims, string, dtype and device. '?' marks an optional
     * argument. The string is copied. */
    const char *signature;
    const char *doc; /* one sentence; may be NULL. The string is copied */
    /* Sets the results out[0] .. out[results - 1], which the open scope owns.
     * Autograd records nothing in forward. A negative status, or a result that
     * is NULL, means failure. A result that is an argument or a view of one
     * shares its memory, and must not be changed in place while gradients are
     * recorded. */
    tn_status (*forward)(tn_op_context *call, tn_tensor **out);
    /* Sets out[i] to the gradient of argument i, for each tensor argument that
     * requires a gradient. grad[o] is the gradient of result o, or NULL if
     * there is none. If out[i] stays NULL, the gradient is 0. A gradient with
     * broadcast dimensions is summed over them. If backward is NULL, there is
     * no gradient. */
    tn_status (*backward)(tn_op_context *call, tn_tensor *const *grad,
                          tn_tensor **out);
    size_t bytes;                /* size of your data per call, zeroed */
    void (*release)(void *data); /* frees what the data holds; may be NULL */
} tn_op_rule;

/* Registers an operator for tn_op_find, tn_op_call, tn_call and tn_op_apply.
 * Its name must be new. The operator is valid until the process ends. Returns
 * NULL with TN_ERR_FORMAT if the signature is malformed, or with
 * TN_ERR_ARGUMENT if the name exists. Source: torch.autograd.Function,
 * torch.library.custom_op. */
TN_API const tn_op *tn_op_register(const tn_op_rule *rule);

/* In forward: returns tensor argument i (lent), or NULL if it was left out. In
 * backward: returns NULL. */
TN_API tn_tensor *tn_op_context_tensor(const tn_op_context *call, int i);
/* In forward and backward: returns argument i, or TN_VALUE_NONE if there is no
 * such argument. A tensor argument is NULL in backward. Lists and strings are
 * lent. */
TN_API tn_value tn_op_context_value(const tn_op_context *call, int i);
/* In forward and backward: returns whether argument i needs a gradient. */
TN_API bool tn_op_context_needs_grad(const tn_op_context *call, int i);
/* In forward and backward: returns the rule's `bytes` bytes of data for this
 * call. */
TN_API void *tn_op_context_data(tn_op_context *call);

/* In forward: saves x for backward. The saved tensors have the indices 0, 1,
 * ... in the order of the calls. x may be an argument, a result, or an
 * intermediate tensor (through which there is no second derivative). x is not
 * copied: backward fails if it is changed in place later. NULL is saved as
 * NULL. */
TN_API tn_status tn_op_context_save(tn_op_context *call, tn_tensor *x);
/* In backward: returns saved tensor i (lent), or NULL (TN_ERR_STATE) if the
 * tensor was changed in place after it was saved, or the graph was freed. */
TN_API tn_tensor *tn_op_context_saved(const tn_op_context *call,
                                          int i);

#ifdef __cplusplus
}
#endif
#endif
