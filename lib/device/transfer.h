/* transfer.h: copies from the host beside the device's other work: a queue of
 * their own, from memory that the device's copy engine reads itself, where the
 * device has such memory, else from ordinary memory. */
#ifndef TN_LIB_DEVICE_TRANSFER_H
#define TN_LIB_DEVICE_TRANSFER_H

#include <device/device.h>

typedef struct tn__transfer tn__transfer;

/* NULL: the device cannot (it is synchronous or has no events); nothing is
 * recorded then. */
tn__transfer *tn__transfer_open(tn_device *device);
/* Waits for its copies. NULL is welcome. */
void tn__transfer_close(tn__transfer *transfer);

/* Memory of the host to copy from; NULL with the error recorded. */
void *tn__transfer_memory(tn__transfer *transfer, uint64_t bytes);
void tn__transfer_memory_free(tn__transfer *transfer, void *memory);

tn_event *tn__transfer_event(tn__transfer *transfer);
void tn__transfer_event_close(tn__transfer *transfer, tn_event *event);

/* Copies, which begin when `after` (NULL: nothing) is reached, and whose end
 * `done` marks. The memory must stay as it is until then. */
typedef struct tn__upload_copy {
    tn__block *block;
    uint64_t offset, bytes;
    void *memory; /* of tn__transfer_memory */
} tn__upload_copy;
tn_status tn__transfer_copy(tn__transfer *transfer,
                            const tn__upload_copy *copy, int count,
                            tn_event *after, tn_event *done);
/* Waits for all copies. */
tn_status tn__transfer_sync(tn__transfer *transfer);

/* The device's own queue: marks how far it is; goes on when another mark is
 * reached. */
tn_status tn__transfer_mark(tn__transfer *transfer, tn_event *event);
tn_status tn__transfer_await(tn__transfer *transfer, tn_event *event);

#endif
