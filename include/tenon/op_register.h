/* <tenon/op_register.h>: operators of your own, written in C.
 *
 * What no line of the kernel language says (op.h: tn_op_define) can be a C
 * function of tensors, with another that is its gradient:
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
 * The gradient is made of operators, so it has a gradient itself.
 *
 * Threads: Any thread may register. forward and backward run in the thread
 * that calls the operator or walks its graph, perhaps in several at once; a
 * context belongs to the call that it is given to.
 */
#ifndef TENON_OP_REGISTER_H
#define TENON_OP_REGISTER_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call of such an operator: what forward is given and leaves for backward.
 * Lives as long as its gradient may be asked for. */
typedef struct tn_op_context tn_op_context;

typedef struct tn_op_rule {
    size_t size;
    /* As the operator reference writes it: arguments, options after a ';',
     * results. "crop(x, mask?, margin: int = 1; fill: float = 0) -> y, where".
     * Kinds: tensor (which need not be written), number, int, float, bool,
     * dims, string, dtype, device; '?': may be left out. Copied. */
    const char *signature;
    const char *doc; /* a sentence; may be NULL. Copied */
    /* Makes the results, out[0] .. out[results - 1], owned by the open scope.
     * Nothing is recorded in it. A negative status or NULL: it failed. A result
     * that is an argument, or a view on one, shares its memory: it is not to be
     * changed in place while gradients are recorded. */
    tn_status (*forward)(tn_op_context *call, tn_tensor **out);
    /* Sets out[i] for each argument i whose gradient is wanted (a tensor that
     * requires one) of grad[o], the gradients of the results, NULL where none
     * came. NULL stays for 0. One that broadcasts is summed. NULL: no gradient
     * flows through the operator. */
    tn_status (*backward)(tn_op_context *call, tn_tensor *const *grad,
                          tn_tensor **out);
    size_t bytes;                /* of data of your own, zeroed at each call */
    void (*release)(void *data); /* gives back what it holds; may be NULL */
} tn_op_rule;

/* Makes an operator that tn_op_find, tn_op_call, tn_call and tn_op_apply know.
 * Its name must be new. Alive as long as the process. NULL: TN_ERR_FORMAT if
 * the signature is malformed, TN_ERR_ARGUMENT if its name is taken.
 * Source: torch.autograd.Function, torch.library.custom_op. */
TN_API const tn_op *tn_op_register(const tn_op_rule *rule);

/* In forward: argument i, lent; NULL where it was left out, and in backward. */
TN_API tn_tensor *tn_op_context_tensor(const tn_op_context *call, int i);
/* In both: argument i; one that is a tensor is NULL in backward. Lists and
 * texts are lent. A NONE if there is no such argument. */
TN_API tn_value tn_op_context_value(const tn_op_context *call, int i);
/* In both: will the gradient of argument i be wanted? */
TN_API bool tn_op_context_needs_grad(const tn_op_context *call, int i);
/* In both: the rule's `bytes` of this call. */
TN_API void *tn_op_context_data(tn_op_context *call);

/* In forward: saves x for backward, as number 0, 1, ... in the order of the
 * calls: an argument, a result, or what was made on the way (through which no
 * second derivative flows). It is no copy: if x is changed in place later,
 * backward notices. NULL is saved as NULL. */
TN_API tn_status tn_op_context_save(tn_op_context *call, tn_tensor *x);
/* In backward: what was saved as number i, lent. NULL, with the error recorded
 * (TN_ERR_STATE), if it was changed since or the graph was freed. */
TN_API tn_tensor *tn_op_context_saved(const tn_op_context *call,
                                          int i);

#ifdef __cplusplus
}
#endif
#endif
