/* tally.h: computes, for a trace, how many bytes a call of a plugin moves and
 * how many operations it executes (base/timeline.h). Both numbers are computed
 * from the call's arguments. Each element of an operand counts once, even if
 * the device reads it several times. */
#ifndef TN_LIB_DEVICE_TALLY_H
#define TN_LIB_DEVICE_TALLY_H

#include <device/device.h>

void tn__tally_launch(tn_device *device, const tn_program *program,
                      const tn_launch *launch);
/* `given` is the argument struct of the call, such as tn_product_args. */
void tn__tally_quantised_product(tn_device *device, const void *given);
void tn__tally_product(tn_device *device, const void *given);
void tn__tally_matmul(tn_device *device, const void *given);
void tn__tally_scatter(tn_device *device, const void *given);
void tn__tally_scan(tn_device *device, const void *given);
void tn__tally_sort(tn_device *device, const void *given);
void tn__tally_copy(tn_device *device, const void *given);
void tn__tally_conv(tn_device *device, const void *given);
void tn__tally_pool(tn_device *device, const void *given);
void tn__tally_attention(tn_device *device, const void *given);
void tn__tally_lapack(tn_device *device, const void *given);

#endif
