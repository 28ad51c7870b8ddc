/* transfer.c: copies from the host to a device that overlap the device's other
 * work. */
#include <device/transfer.h>

#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>

struct tn__transfer {
    tn_device *device;
    tn_queue *queue;      /* separate queue for the copies, owned; `lock` guards
                           * it */
    tn__lock lock;
};

tn__transfer *tn__transfer_open(tn_device *device)
{
    const tn_plugin *plugin = device->plugin;
    if (device->synchronous || !plugin->event_open)
        /* A plugin has either all functions for events or none, so testing one
         * is enough. */
        return NULL;
    tn__transfer *transfer = tn__calloc(1, sizeof *transfer);
    tn__error before;
    tn__error_hide(&before);
    if (transfer && plugin->queue_open(device->handle, &transfer->queue)) {
        tn__free(transfer);
        transfer = NULL;
    }
    tn_error_clear();
    tn__error_restore(&before);
    if (!transfer)
        return NULL;
    transfer->device = device;
    tn__lock_init(&transfer->lock);
    return transfer;
}

/* Turns the failed status of a plugin's call into an error. Does nothing if the
 * status is TN_OK. */
static tn_status status_of(const tn__transfer *transfer, tn_status status)
{
    tn__error error;
    if (!status)
        return TN_OK;
    tn__error_take(&error);
    return tn__fail(status, "batch_next: %s: %s", transfer->device->name,
                    error.code ? error.text : tn_status_name(status));
}

tn_status tn__transfer_sync(tn__transfer *transfer)
{
    tn_fault fault = {.size = sizeof fault};
    tn__lock_take(&transfer->lock);
    tn_status status =
        transfer->device->plugin->queue_sync(transfer->queue, &fault);
    tn__lock_give(&transfer->lock);
    return status_of(transfer, status);
}

void tn__transfer_close(tn__transfer *transfer)
{
    if (!transfer)
        return;
    transfer->device->plugin->queue_close(transfer->queue);
    tn__lock_destroy(&transfer->lock);
    tn__free(transfer);
}

void *tn__transfer_memory(tn__transfer *transfer, uint64_t bytes)
{
    void *memory = NULL;
    tn_device *device = transfer->device;
    if (!device->plugin->host_alloc)
        return tn__alloc((size_t)bytes);
    tn_status status =
        device->plugin->host_alloc(device->handle, bytes, &memory);
    return status_of(transfer, status) ? NULL : memory;
}

void tn__transfer_memory_free(tn__transfer *transfer, void *memory)
{
    tn_device *device = transfer->device;
    if (memory && device->plugin->host_free)
        device->plugin->host_free(device->handle, memory);
    else
        tn__free(memory);
}

tn_event *tn__transfer_event(tn__transfer *transfer)
{
    tn_event *event = NULL;
    tn_device *device = transfer->device;
    tn_status status = device->plugin->event_open(device->handle, &event);
    return status_of(transfer, status) ? NULL : event;
}

void tn__transfer_event_close(tn__transfer *transfer, tn_event *event)
{
    if (event)
        transfer->device->plugin->event_close(event);
}

tn_status tn__transfer_copy(tn__transfer *transfer,
                            const tn__upload_copy *copy, int count,
                            tn_event *after, tn_event *done)
{
    const tn_plugin *plugin = transfer->device->plugin;
    tn__lock_take(&transfer->lock);
    tn_status status =
        after ? plugin->queue_wait(transfer->queue, after) : TN_OK;
    for (int i = 0; i < count && !status; i++) {
        const tn_copy_args args = {
            .size = sizeof args,
            .direction = TN_COPY_TO_DEVICE,
            .dst = copy[i].block->buffer,
            .host = copy[i].memory,
            .dst_offset = copy[i].block->offset + copy[i].offset,
            .bytes = copy[i].bytes,
            .rows = 1,
        };
        if (args.bytes)
            status = plugin->copy(transfer->queue, &args);
    }
    if (!status)
        status = plugin->event_record(transfer->queue, done);
    tn__lock_give(&transfer->lock);
    return status_of(transfer, status);
}

tn_status tn__transfer_mark(tn__transfer *transfer, tn_event *event)
{
    tn_device *device = transfer->device;
    tn__lock_take(&device->queue_lock);
    tn_status status = device->plugin->event_record(device->queue, event);
    tn__lock_give(&device->queue_lock);
    return status_of(transfer, status);
}

tn_status tn__transfer_await(tn__transfer *transfer, tn_event *event)
{
    tn_device *device = transfer->device;
    tn__lock_take(&device->queue_lock);
    tn_status status = device->plugin->queue_wait(device->queue, event);
    tn__lock_give(&device->queue_lock);
    return status_of(transfer, status);
}
