/* transfer.h: copies from the host to a device that overlap the device's other
 * work (as PyTorch's non_blocking copies from pinned memory). The copies run on
 * a queue of their own, like a second CUDA stream. They use pinned memory if
 * the device has it, else ordinary memory. */
#ifndef TN_LIB_DEVICE_TRANSFER_H
#define TN_LIB_DEVICE_TRANSFER_H

#include <device/device.h>

typedef struct tn__transfer tn__transfer;

/* Opens a queue for copies to the device. Returns NULL, with no error recorded,
 * if the device is synchronous or has no events. */
tn__transfer *tn__transfer_open(tn_device *device);
/* Waits for the copies and closes the queue. `transfer` may be NULL. */
void tn__transfer_close(tn__transfer *transfer);

/* Allocates host memory to copy from. Returns NULL with the error recorded on
 * failure. */
void *tn__transfer_memory(tn__transfer *transfer, uint64_t bytes);
void tn__transfer_memory_free(tn__transfer *transfer, void *memory);

tn_event *tn__transfer_event(tn__transfer *transfer);
void tn__transfer_event_close(tn__transfer *transfer, tn_event *event);

/* One copy from `memory`, which tn__transfer_memory returned, to a block on the
 * device. tn__transfer_copy submits several copies. The copies begin after the
 * event `after`, or at once if `after` is NULL. The event `done` is recorded
 * after them; `memory` must stay unchanged until `done` is reached. */
typedef struct tn__upload_copy {
    tn__block *block;
    uint64_t offset, bytes;
    void *memory;
} tn__upload_copy;
tn_status tn__transfer_copy(tn__transfer *transfer,
                            const tn__upload_copy *copy, int count,
                            tn_event *after, tn_event *done);
/* Waits until all submitted copies are complete. */
tn_status tn__transfer_sync(tn__transfer *transfer);

/* Record an event on the device's main queue, and make that queue wait for an
 * event. */
tn_status tn__transfer_mark(tn__transfer *transfer, tn_event *event);
tn_status tn__transfer_await(tn__transfer *transfer, tn_event *event);

#endif
