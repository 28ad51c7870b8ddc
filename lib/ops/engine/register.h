/* register.h: the data of operators that autograd needs, for operators that a
 * program registers in C (tn_op_register, PyTorch's
 * torch.autograd.Function). */
#ifndef TN_LIB_OPS_REGISTER_H
#define TN_LIB_OPS_REGISTER_H

#include <ops/engine/ops.h>
#include <tenon/op_register.h>

/* The context of one call, which its forward and backward functions share
 * (PyTorch's ctx). rule->bytes bytes for data of the program follow the struct
 * in memory. */
struct tn_op_context {
    tn__object object;
    const tn_op *op;
    const tn__call *call;  /* the call while forward runs, then NULL */
    const void *node;      /* the autograd node that holds this context. NULL if
                              the call has not been recorded. */
    /* Returns the value of argument i that the autograd node has stored. Tensor
     * arguments are not stored. */
    tn_value (*node_value)(const void *node, int i);
    tn_tensor **save;      /* the tensors that forward saved, with one reference
                              to each. They move to the autograd node once the
                              call is recorded. */
    int save_count;
    size_t save_room;      /* the number of elements allocated for `save` */
};

/* Returns whether context is a context that has not been freed. Records an
 * error if it is not, unless it is NULL. `call` is the function that the error
 * names. */
bool tn__op_context_is(const tn_op_context *context, const char *call);

/* Returns the rule of an operator that was registered in C, else NULL. */
static inline const tn_op_rule *tn__op_rule(const tn_op *op)
{
    return op->rare->rule;
}

#endif
