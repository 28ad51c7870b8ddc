/* windows.h: computes convolution and pooling by plain loops, as reference for
 * the extensions "conv" and "pool". Each function sets the expected values in
 * value[] and tolerance[] of the operands that the extension writes. */
#ifndef TN_CHECK_WINDOWS_H
#define TN_CHECK_WINDOWS_H

#include "operand.h"

/* bias may be NULL. */
void windows_conv(const tn_conv_args *args, operand *in, operand *weight,
                  operand *out, const operand *bias);
void windows_pool(const tn_pool_args *args, operand *in, operand *out,
                  operand *index);

#endif
