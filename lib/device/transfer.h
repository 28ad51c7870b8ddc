/* transfer.h: copies from the host that overlap the device's other work (as
 * PyTorch's non_blocking copies from pinned memory). The copies have a separate
 * queue. They use pinned memory if the device has it, else ordinary memory. */
#ifndef TN_LIB_DEVICE_TRANSFER_H
#define TN_LIB_DEVICE_TRANSFER_H

#include <device/device.h>

typedef struct tn__transfer tn__transfer;

/* Opens a transfer. Returns NULL with no error recorded if the device is
 * synchronous or has no events. */
tn__transfer *tn__transfer_open(tn_device *device);
/* Waits for the transfer's copies and closes it. transfer may be NULL. */
void tn__transfer_close(tn__transfer *transfer);

/* Allocates host memory to copy from; NULL with the error recorded on
 * failure. */
void *tn__transfer_memory(tn__transfer *transfer, uint64_t bytes);
void tn__transfer_memory_free(tn__transfer *transfer, void *memory);

tn_event *tn__transfer_event(tn__transfer *transfer);
void tn__transfer_event_close(tn__transfer *transfer, tn_event *event);

/* Submits copies that begin after event `after`, or at once if `after` is NULL.
 * Event `done` is recorded after the copies; the memory must stay unchanged
 * until then. */
typedef struct tn__upload_copy {
    tn__block *block;
    uint64_t offset, bytes;
    void *memory; /* host memory that tn__transfer_memory returned */
} tn__upload_copy;
tn_status tn__transfer_copy(tn__transfer *transfer,
                            const tn__upload_copy *copy, int count,
                            tn_event *after, tn_event *done);
/* Waits for all copies. */
tn_status tn__transfer_sync(tn__transfer *transfer);

/* On the device's own queue, tn__transfer_mark records an event and
 * tn__transfer_await waits for an event. */
tn_status tn__transfer_mark(tn__transfer *transfer, tn_event *event);
tn_status tn__transfer_await(tn__transfer *transfer, tn_event *event);

#endif
