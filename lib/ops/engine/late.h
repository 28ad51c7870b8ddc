/* late.h: stores the data for the message of an index error when work is
 * submitted to an asynchronous device, since the device may report the error
 * later. */
#ifndef TN_LIB_OPS_LATE_H
#define TN_LIB_OPS_LATE_H

#include <device/deferred_error.h>
#include <ops/engine/ops.h>

/* Stores in *late a description of the launch of kernel over space, and returns
 * late. Returns NULL if the kernel reads nothing by index and therefore cannot
 * report an error. */
const tn__deferred_error *tn__late_of_kernel(tn__deferred_error *late, const tn__kernel *kernel,
                                   const tn__space *space);
/* Stores in *late a description of a scatter by the tensor `index`, and returns
 * late. If the device reports a fault, the fault's position is the row-major
 * index of an element of `index`. */
const tn__deferred_error *tn__late_of_index(tn__deferred_error *late,
                                            const tn_tensor *index);

#endif
