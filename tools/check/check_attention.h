/* check_attention.h: the definition of the extension "attention", in double. */
#ifndef TN_CHECK_ATTENTION_H
#define TN_CHECK_ATTENTION_H

#include "operand.h"

enum {
    ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK, ATTENTION_OUT,
    ATTENTION_LSE, ATTENTION_G, ATTENTION_DQ, ATTENTION_DK, ATTENTION_DV,
    ATTENTION_OPERANDS
};

/* Sets the expected results of FORWARD. */
void attention_forward(const tn_attention_args *args, operand *const *o);
/* Sets the expected results of BACKWARD, from the given out and lse. */
void attention_backward(const tn_attention_args *args, operand *const *o);

#endif
