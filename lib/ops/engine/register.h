/* register.h: what autograd needs to know about operators that a program
 * registers in C (tn_op_register, PyTorch's torch.autograd.Function). */
#ifndef TN_LIB_OPS_REGISTER_H
#define TN_LIB_OPS_REGISTER_H

#include <ops/engine/ops.h>
#include <tenon/op_register.h>

/* What the forward and the backward function of one call share. The data of the
 * program, rule->bytes bytes, follow the struct in memory. */
struct tn_op_context {
    tn__object object;
    const tn_op *op;
    const tn__call *call;  /* the call while forward runs, then NULL */
    const void *node;      /* the autograd node that holds this context. NULL if
                              the call has not been recorded. */
    /* Returns the value of argument i that the node keeps. Tensor arguments are
     * not kept. */
    tn_value (*node_value)(const void *node, int i);
    tn_tensor **save;      /* the saved tensors, each counted. They move to the
                              node when there is one. */
    int save_count;
    size_t save_room;      /* the number of elements allocated for `save` */
};

/* Returns whether context is live, and records an error if it is not. NULL
 * returns false without an error. `call` is the function that the error
 * names. */
bool tn__op_context_is(const tn_op_context *context, const char *call);

/* Returns the rule of an operator that was registered in C, else NULL. */
static inline const tn_op_rule *tn__op_rule(const tn_op *op)
{
    return op->rule;
}

#endif
