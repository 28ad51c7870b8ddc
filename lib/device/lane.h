/* lane.h: records when a device executed its work, for a trace (as PyTorch's
 * profiler does for CUDA kernels). Each piece of work gets a timed event before
 * it and one after it. Submitting work does not wait for the device. The events
 * are read at the next synchronisation, and the trace shows them in a lane,
 * which is one row of the timeline.
 *
 * The caller holds the lock of the device's queue. Without a trace, the only
 * cost is the test of a pointer at each synchronisation. */
#ifndef TN_LIB_DEVICE_LANE_H
#define TN_LIB_DEVICE_LANE_H

#include <device/device.h>

typedef struct tn__lane tn__lane;

/* Records the event before a piece of work. `name` is the work's operator and
 * has static lifetime. If *lane is NULL, the lane is made. */
void tn__lane_begin(tn__lane **lane, tn_device *device, const char *name);
/* Records the event after a piece of work. Returns false if the caller has to
 * wait for the device, because the device has no timed events or no more work
 * can be stored. */
bool tn__lane_end(tn__lane *lane);

/* tn__lane_mark is called before a synchronisation of the queue and records the
 * event that aligns the clocks. tn__lane_write is called after it and writes
 * the finished work to the trace. */
void tn__lane_mark(tn__lane *lane);
void tn__lane_write(tn__lane *lane);

/* Calls `visit` for each device that has a lane. The caller does not hold the
 * lock of any queue. */
void tn__lanes_each(void (*visit)(tn_device *device));

#endif
