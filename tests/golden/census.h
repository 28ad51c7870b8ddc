/* census.h: counts the kernels that a device which compiles kernel source would
 * compile. It wraps a plugin's functions, plans each launch as for an OpenCL
 * device on a CPU, and counts the different sources and the reasons why they
 * differ. One device at a time. */
#ifndef TN_TESTS_GOLDEN_CENSUS_H
#define TN_TESTS_GOLDEN_CENSUS_H

#include <tenon/device.h>

void census_watch(tn_device *device);
/* Prints the counts on lines that begin with "# ". */
void census_print(void);
void census_leave(void);

#endif
