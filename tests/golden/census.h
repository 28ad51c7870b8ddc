/* census.h: how many kernels would a device have to compile that gets source?
 * Stands between the core and a plugin, plans each launch as for an OpenCL
 * device on a CPU, and counts the texts that differ, and why they do. One
 * device at a time. */
#ifndef TN_TESTS_GOLDEN_CENSUS_H
#define TN_TESTS_GOLDEN_CENSUS_H

#include <tenon/device.h>

void census_watch(tn_device *device);
/* Prints lines that begin with "# ". */
void census_print(void);
void census_leave(void);

#endif
