/* lane.h: the times at which a device executed its work, for a trace. Each
 * piece of work gets a timed event before and one after it. The trace does not
 * wait for the device: the events are read at the next synchronisation and
 * shown in a lane of the device.
 *
 * All calls are made under the queue's lock. Without a trace the cost is one
 * test of a pointer at synchronisation. */
#ifndef TN_LIB_DEVICE_LANE_H
#define TN_LIB_DEVICE_LANE_H

#include <device/device.h>

typedef struct tn__lane tn__lane;

/* Before work is submitted. name: its operator, of static lifetime. *lane is
 * made if it is NULL. */
void tn__lane_begin(tn__lane **lane, tn_device *device, const char *name);
/* After work was submitted. False: the caller has to wait for the device,
 * because it has no timed events, or because no more can be stored. */
bool tn__lane_end(tn__lane *lane);

/* Before and after a synchronisation of the queue. */
void tn__lane_mark(tn__lane *lane);
void tn__lane_write(tn__lane *lane);

/* Calls visit for each device that has a lane. Without the queue's lock. */
void tn__lanes_each(void (*visit)(tn_device *device));

#endif
