/* late.h: stores, when work is submitted to an asynchronous device, what the
 * message of an index error needs if the device reports one later. */
#ifndef TN_LIB_OPS_LATE_H
#define TN_LIB_OPS_LATE_H

#include <device/deferred_error.h>
#include <ops/engine/ops.h>

/* Describes the launch of kernel over space in *late and returns late. Returns
 * NULL if the kernel cannot report an error, because it uses no index. */
const tn__deferred_error *tn__late_of_kernel(tn__deferred_error *late, const tn__kernel *kernel,
                                   const tn__space *space);
/* Describes a scatter in *late and returns late. A fault's position is then a
 * position in `index`. */
const tn__deferred_error *tn__late_of_index(tn__deferred_error *late,
                                            const tn_tensor *index);

#endif
