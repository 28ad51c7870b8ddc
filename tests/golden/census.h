/* census.h: counts the kernels that a device which compiles source would
 * compile. It wraps a plugin, plans each launch as for an OpenCL device on a
 * CPU, and counts the different texts and the reasons of differences. One
 * device at a time. */
#ifndef TN_TESTS_GOLDEN_CENSUS_H
#define TN_TESTS_GOLDEN_CENSUS_H

#include <tenon/device.h>

void census_watch(tn_device *device);
/* Prints lines that begin with "# ". */
void census_print(void);
void census_leave(void);

#endif
