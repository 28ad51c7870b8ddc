/* lane.h: when a device did what it was given, for a trace. A device whose events
 * tell the time gets one before and one behind each piece of work, and is not
 * waited for: what they say is read when it is, and shown in a lane of its own.
 *
 * All of it within the queue's lock. Without a trace none of it is called, but
 * for a look at a pointer by who waits. */
#ifndef TN_LIB_DEVICE_LANE_H
#define TN_LIB_DEVICE_LANE_H

#include <device/device.h>

typedef struct tn__lane tn__lane;

/* Work is about to be given, by the operator of that name, which lives for
 * ever. *lane is made where it is NULL. */
void tn__lane_begin(tn__lane **lane, tn_device *device, const char *name);
/* It was given. False: the device has to be waited for, because it does not tell
 * the time, or because there is no more to be kept. */
bool tn__lane_end(tn__lane *lane);

/* Before the queue is waited for, and after that. */
void tn__lane_mark(tn__lane *lane);
void tn__lane_write(tn__lane *lane);

/* Calls visit for each device that has a lane. Outside of the locks. */
void tn__lanes_each(void (*visit)(tn_device *device));

#endif
