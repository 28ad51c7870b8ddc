/* late.h: what late.c stores about work that is submitted to an asynchronous
 * device. */
#ifndef TN_LIB_OPS_LATE_H
#define TN_LIB_OPS_LATE_H

#include <device/deferred_error.h>
#include <ops/engine/ops.h>

/* Fills late and returns it. NULL for a kernel that cannot report an error. */
const tn__deferred_error *tn__late_of_kernel(tn__deferred_error *late, const tn__kernel *kernel,
                                   const tn__space *space);
/* The same for a scatter by index, over index's own space. */
const tn__deferred_error *tn__late_of_index(tn__deferred_error *late,
                                            const tn_tensor *index);

#endif
