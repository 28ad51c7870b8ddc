/* windows.h: convolution and pooling as plugin_extensions.h defines them, as
 * plain loops over value[]. Each sets value[] and tolerance[] of the operands
 * that the extension writes. */
#ifndef TN_CHECK_WINDOWS_H
#define TN_CHECK_WINDOWS_H

#include "operand.h"

/* bias: NULL where there is none. */
void windows_conv(const tn_conv_args *args, operand *in, operand *weight,
                  operand *out, const operand *bias);
void windows_pool(const tn_pool_args *args, operand *in, operand *out,
                  operand *index);

#endif
