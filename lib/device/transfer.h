/* transfer.h: copies from the host that overlap the device's other work. They
 * have a separate queue and use pinned memory if the device has it, else
 * ordinary memory. */
#ifndef TN_LIB_DEVICE_TRANSFER_H
#define TN_LIB_DEVICE_TRANSFER_H

#include <device/device.h>

typedef struct tn__transfer tn__transfer;

/* NULL, with no error recorded, if the device is synchronous or has no
 * events. */
tn__transfer *tn__transfer_open(tn_device *device);
/* Waits for its copies. NULL is allowed. */
void tn__transfer_close(tn__transfer *transfer);

/* Host memory to copy from; NULL with the error recorded. */
void *tn__transfer_memory(tn__transfer *transfer, uint64_t bytes);
void tn__transfer_memory_free(tn__transfer *transfer, void *memory);

tn_event *tn__transfer_event(tn__transfer *transfer);
void tn__transfer_event_close(tn__transfer *transfer, tn_event *event);

/* Copies that begin after event `after` (NULL: at once); event `done` is
 * recorded after them. The memory must stay unchanged until then. */
typedef struct tn__upload_copy {
    tn__block *block;
    uint64_t offset, bytes;
    void *memory; /* from tn__transfer_memory */
} tn__upload_copy;
tn_status tn__transfer_copy(tn__transfer *transfer,
                            const tn__upload_copy *copy, int count,
                            tn_event *after, tn_event *done);
/* Waits for all copies. */
tn_status tn__transfer_sync(tn__transfer *transfer);

/* On the device's own queue: records an event; waits for an event. */
tn_status tn__transfer_mark(tn__transfer *transfer, tn_event *event);
tn_status tn__transfer_await(tn__transfer *transfer, tn_event *event);

#endif
