/* work.h: counts the work that operators submit to a device. Unlike time, it
 * does not depend on the machine's load. */
#ifndef TN_TESTS_OPS_WORK_H
#define TN_TESTS_OPS_WORK_H

#include <tenon/device.h>

/* Returns the work since the last call, on all watched devices. A unit is one
 * element that a kernel, scan, scatter or copy processes. Windows count each of
 * their elements, sorts each element once for every pass, and products one unit
 * for sixteen terms. */
double work_take(void);

/* Counts the device's work until the program ends. */
void work_watch(tn_device *device);

#endif
