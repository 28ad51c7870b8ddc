/* register.h: operators that the program registers in C, for autograd. */
#ifndef TN_LIB_OPS_REGISTER_H
#define TN_LIB_OPS_REGISTER_H

#include <ops/engine/ops.h>
#include <tenon/op_register.h>

/* The rule's `bytes` follow the struct. */
struct tn_op_context {
    tn__object object;
    const tn_op *op;
    const tn__call *call;  /* while forward runs */
    const void *node;      /* autograd's, which holds this; NULL: none yet */
    /* its argument i; tensors excepted */
    tn_value (*node_value)(const void *node, int i);
    tn_tensor **save;      /* counted each, until a node takes them over */
    int save_count;
    size_t save_room;
};

/* Is it a live context? NULL is not one, but no error. */
bool tn__op_context_is(const tn_op_context *context, const char *call);

/* NULL for an operator that was not registered. */
static inline const tn_op_rule *tn__op_rule(const tn_op *op)
{
    return op->rule;
}

#endif
