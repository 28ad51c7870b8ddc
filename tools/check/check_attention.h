/* check_attention.h: computes attention and its gradient in double precision,
 * as reference for the extension "attention". */
#ifndef TN_CHECK_ATTENTION_H
#define TN_CHECK_ATTENTION_H

#include "operand.h"

enum {
    ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK, ATTENTION_OUT,
    ATTENTION_LSE, ATTENTION_G, ATTENTION_DQ, ATTENTION_DK, ATTENTION_DV,
    ATTENTION_OPERANDS
};

/* Computes the expected outputs of TN_ATTENTION_FORWARD. */
void attention_forward(const tn_attention_args *args, operand *const *o);
/* Computes the expected gradients of TN_ATTENTION_BACKWARD from the operands,
 * which include out and lse of the forward call. */
void attention_backward(const tn_attention_args *args, operand *const *o);

#endif
