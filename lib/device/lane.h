/* lane.h: records when a device executed its work, for a trace. Each piece of
 * work gets a timed event before it and one after it. The trace does not wait
 * for the device. Instead the events are read at the next synchronisation and
 * are shown in a lane (a row of the trace) of the device.
 *
 * All calls are made under the queue's lock. Without a trace the cost is one
 * test of a pointer at synchronisation. */
#ifndef TN_LIB_DEVICE_LANE_H
#define TN_LIB_DEVICE_LANE_H

#include <device/device.h>

typedef struct tn__lane tn__lane;

/* Call this before submitting work. `name` is the work's operator and has
 * static lifetime. *lane is made if it is NULL. */
void tn__lane_begin(tn__lane **lane, tn_device *device, const char *name);
/* Call this after submitting work. Returns false if the caller has to wait for
 * the device, because it has no timed events or no more work can be stored. */
bool tn__lane_end(tn__lane *lane);

/* Call tn__lane_mark before a synchronisation of the queue, and tn__lane_write
 * after it. */
void tn__lane_mark(tn__lane *lane);
void tn__lane_write(tn__lane *lane);

/* Calls `visit` for each device that has a lane. The caller does not hold the
 * queue's lock. */
void tn__lanes_each(void (*visit)(tn_device *device));

#endif
