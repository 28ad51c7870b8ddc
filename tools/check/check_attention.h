/* check_attention.h: the extension "attention" by its definition, in double. */
#ifndef TN_CHECK_ATTENTION_H
#define TN_CHECK_ATTENTION_H

#include "operand.h"

enum {
    ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK, ATTENTION_OUT,
    ATTENTION_LSE, ATTENTION_G, ATTENTION_DQ, ATTENTION_DK, ATTENTION_DV,
    ATTENTION_OPERANDS
};

/* What FORWARD writes, as it should come back. */
void attention_forward(const tn_attention_args *args, operand *const *o);
/* What BACKWARD writes, of the out and the lse that are there. */
void attention_backward(const tn_attention_args *args, operand *const *o);

#endif
