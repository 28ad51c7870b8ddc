/* queue.c: streams, what fails on them, and events. */
#include <stdlib.h>

#include "cuda.h"

/* Scratch memory up to this size is kept from one sync to the next. */
#define SCRATCH_KEPT (32u << 20)

/* ---- failures ----------------------------------------------------------- */

/* A fault of a kernel spoils the context: every later call returns it. */
static tn_status status_of(tn_cu_result error)
{
    if (error == TN_CU_OUT_OF_MEMORY)
        return TN_ERR_MEMORY;
    if (error == TN_CU_DEINITIALIZED || error == TN_CU_INVALID_CONTEXT ||
        error >= TN_CU_ILLEGAL_ADDRESS)
        return TN_ERR_DEVICE_LOST;
    return TN_ERR_INTERNAL;
}

tn_status tn__cuda_told(const tn_plugin_device *device, const char *what,
                        tn_cu_result error)
{
    if (!error)
        return TN_OK;
    tn_status status = status_of(error);
    return tn__cuda_host->fail(
        status, "%s: %s: %s%s", device->listed->info.name, what,
        tn__cuda_error_name(error),
        status == TN_ERR_DEVICE_LOST ? "; the device is lost to this process"
                                     : "");
}

/* Work that was accepted has failed. Its tag is known where there was one
 * piece of it. */
static tn_status fail_late(tn_queue *queue, tn_cu_result error,
                           tn_fault *fault)
{
    tn_status status = status_of(error);
    const tn_fault own = {.size = sizeof own,
                          .code = status,
                          .tag = queue->unsynced == 1 ? queue->last_tag : 0};
    if (fault)
        tn_struct_copy(fault, &own);
    return tn__cuda_host->fail(
        status, "%s: cuStreamSynchronize: %s%s%s",
        queue->device->listed->info.name, tn__cuda_error_name(error),
        status == TN_ERR_DEVICE_LOST ? "; the device is lost to this process"
                                     : "",
        queue->unsynced > 1
            ? "; with TENON_CUDA_BLOCKING=1 the operator that did it is named"
            : "");
}

/* ---- queues ------------------------------------------------------------- */

tn_status tn__cuda_queue_open(tn_plugin_device *device, tn_queue **out)
{
    tn_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return tn__cuda_host->fail(TN_ERR_MEMORY, "no memory for a queue");
    queue->device = device;
    tn_cu_result error = tn__cuda_enter(device);
    if (!error)
        error = tn__cu.stream_create(&queue->stream, TN_CU_NON_BLOCKING);
    if (error) {
        free(queue);
        return tn__cuda_told(device, "cuStreamCreate", error);
    }
    *out = queue;
    return TN_OK;
}

static void release(tn_cu_pointer *pointer)
{
    if (*pointer)
        tn__cu.free(*pointer);
    *pointer = 0;
}

void tn__cuda_queue_close(tn_queue *queue)
{
    if (!tn__cuda_enter(queue->device)) {
        tn__cu.stream_sync(queue->stream);
        release(&queue->faults);
        release(&queue->scratch);
        release(&queue->words);
        tn__cuda_choices_free(queue->choices);
        tn__cuda_plans_free(queue->plans);
        tn__cu.stream_destroy(queue->stream);
    }
    free(queue);
}

/* Does the list of faults hold anything? Waits. */
static tn_status faults_look(tn_queue *queue, uint32_t *any)
{
    *any = 0;
    if (!queue->checked)
        return TN_OK;
    tn_cu_result error =
        tn__cu.to_host(any, queue->faults, sizeof *any, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    return tn__cuda_told(queue->device, "reading faults", error);
}

/* The first index fault, if there is one; the list is empty after it. */
static tn_status faults_take(tn_queue *queue, tn_fault *fault)
{
    const size_t bytes = TN_FAULT_BYTES(TN_CUDA_FAULTS);
    uint32_t any;
    tn_status status = faults_look(queue, &any);
    queue->checked = false;
    if (status || !any)
        return status;
    void *records = malloc(bytes);
    if (!records)
        return tn__cuda_host->fail(TN_ERR_MEMORY, "no memory for faults");
    tn_cu_result error =
        tn__cu.to_host(records, queue->faults, bytes, queue->stream);
    if (!error)
        error = tn__cu.fill(queue->faults, 0, bytes, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    tn_fault unused = {.size = sizeof unused};
    status = error ? tn__cuda_told(queue->device, "reading faults", error)
                   : tn__cuda_host->fault_read(records, TN_CUDA_FAULTS,
                                               fault ? fault : &unused);
    free(records);
    return status;
}

tn_status tn__cuda_queue_given(tn_queue *queue, uint64_t tag)
{
    uint32_t any;
    if (queue->capture)
        return TN_OK; /* it has not run */
    queue->last_tag = tag;
    queue->unsynced++;
    if (!queue->device->blocking)
        return TN_OK;
    tn_cu_result error = tn__cu.stream_sync(queue->stream);
    if (error)
        return fail_late(queue, error, NULL);
    tn_status status = faults_look(queue, &any);
    return status || !any ? status : TN_ERR_INDEX; /* told at the sync */
}

tn_status tn__cuda_queue_sync(tn_queue *queue, tn_fault *fault)
{
    tn_cu_result error = tn__cuda_enter(queue->device);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    if (error)
        return fail_late(queue, error, fault);
    queue->unsynced = 0;
    if (queue->scratch_bytes > SCRATCH_KEPT) {
        release(&queue->scratch);
        queue->scratch_bytes = 0;
    }
    return faults_take(queue, fault);
}

/* ---- events ------------------------------------------------------------- */

static tn_status event_make(tn_plugin_device *device, unsigned flags,
                            tn_event **out)
{
    tn_event *event = calloc(1, sizeof *event);
    if (!event)
        return tn__cuda_host->fail(TN_ERR_MEMORY, "no memory for an event");
    event->device = device;
    tn_cu_result error = tn__cuda_enter(device);
    if (!error)
        error = tn__cu.event_create(&event->event, flags);
    if (error) {
        free(event);
        return tn__cuda_told(device, "cuEventCreate", error);
    }
    *out = event;
    return TN_OK;
}

tn_status tn__cuda_event_open(tn_plugin_device *device, tn_event **out)
{
    return event_make(device, TN_CU_NO_TIMING, out);
}

tn_status tn__cuda_event_open_timed(tn_plugin_device *device, tn_event **out)
{
    return event_make(device, 0, out);
}

void tn__cuda_event_close(tn_event *event)
{
    if (event && !tn__cuda_enter(event->device))
        tn__cu.event_destroy(event->event);
    free(event);
}

tn_status tn__cuda_event_record(tn_queue *queue, tn_event *event)
{
    tn_cu_result error = tn__cuda_enter(queue->device);
    if (!error)
        error = tn__cu.event_record(event->event, queue->stream);
    return tn__cuda_told(queue->device, "cuEventRecord", error);
}

/* An event that was never recorded is done: so the driver has it. */
tn_status tn__cuda_event_query(tn_event *event, uint32_t *done)
{
    tn_cu_result error = tn__cuda_enter(event->device);
    if (!error)
        error = tn__cu.event_query(event->event);
    *done = error != TN_CU_NOT_READY;
    return error && error != TN_CU_NOT_READY
               ? tn__cuda_told(event->device, "cuEventQuery", error)
               : TN_OK;
}

tn_status tn__cuda_queue_wait(tn_queue *queue, tn_event *event)
{
    tn_cu_result error = tn__cuda_enter(queue->device);
    if (!error)
        error = tn__cu.stream_wait(queue->stream, event->event, 0);
    return tn__cuda_told(queue->device, "cuStreamWaitEvent", error);
}

tn_status tn__cuda_event_elapsed(tn_event *from, tn_event *to, double *ns)
{
    float milliseconds;
    tn_cu_result error = tn__cuda_enter(to->device);
    if (!error)
        error = tn__cu.event_elapsed(&milliseconds, from->event, to->event);
    if (!error)
        *ns = 1e6 * (double)milliseconds;
    return tn__cuda_told(to->device, "cuEventElapsedTime", error);
}
