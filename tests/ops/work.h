/* work.h: what calls make a device do, counted: the same number on a machine
 * that is idle and on one that is not. */
#ifndef TN_TESTS_OPS_WORK_H
#define TN_TESTS_OPS_WORK_H

#include <tenon/device.h>

/* Since the last look, over all devices that are watched: elements that kernels,
 * folds, scatters and copies went over; of windows, elements that they show; of
 * sorts, elements times the passes over them; of products, every sixteen terms
 * count as one. */
double work_take(void);

/* From now on what the device does is counted, until the program ends. */
void work_watch(tn_device *device);

#endif
