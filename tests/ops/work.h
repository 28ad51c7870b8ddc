/* work.h: counts the work that calls give a device. Unlike time, the number
 * does not depend on the machine's load. */
#ifndef TN_TESTS_OPS_WORK_H
#define TN_TESTS_OPS_WORK_H

#include <tenon/device.h>

/* The work since the last call, over all watched devices: elements that
 * kernels, scans, scatters and copies processed; for windows, the elements in
 * them; for sorts, elements times passes; for products, sixteen terms count as
 * one. */
double work_take(void);

/* Counts the device's work from now on, until the program ends. */
void work_watch(tn_device *device);

#endif
