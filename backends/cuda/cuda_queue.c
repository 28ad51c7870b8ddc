/* cuda_queue.c: opens, closes and waits for queues, which are CUDA streams, and
 * records events. */
#include <stdlib.h>

#include "cuda.h"

/* ---- queues -------------------------------------------------------------- */

tn_status tn__cuda_queue_open(tn_plugin_device *device, tn_queue **out)
{
    tn_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a queue");
    queue->device = device;
    TN_CUDA_ENTER(device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.stream_create(&queue->stream, TN_CU_NON_BLOCKING);
    if (error) {
        free(queue);
        return tn__cuda_check(device, "cuStreamCreate", error);
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
    TN_CUDA_ENTER(queue->device);
    if (!entered.error) {
        tn__cu.stream_sync(queue->stream);
        release(&queue->faults);
        release(&queue->scratch);
        release(&queue->words);
        tn__cuda_choices_free(queue->choices);
        tn__cuda_plans_free(queue->plans);
        tn__cu.stream_destroy(queue->stream);
    }
    tn__cuda_checks_free(queue->checks);
    free(queue);
}

tn_status tn__cuda_queue_sync(tn_queue *queue, tn_fault *fault)
{
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    if (error)
        return tn__cuda_fail_deferred(queue, error, fault);
    queue->pending.count = 0;
    /* An allocation of a buffer has failed, so scratch memory is freed. The
     * core calls sync before it tries the allocation again. */
    if (queue->scratch &&
        atomic_exchange(&queue->device->short_of_memory, false)) {
        release(&queue->scratch);
        queue->scratch_bytes = 0;
    }
    return tn__faults_read(&tn__cuda_faults, queue, &queue->pending, fault);
}

/* ---- events -------------------------------------------------------------- */

static tn_status event_make(tn_plugin_device *device, unsigned flags,
                            tn_event **out)
{
    tn_event *event = calloc(1, sizeof *event);
    if (!event)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for an event");
    event->device = device;
    TN_CUDA_ENTER(device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.event_create(&event->event, flags);
    if (error) {
        free(event);
        return tn__cuda_check(device, "cuEventCreate", error);
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
    if (!event)
        return;
    TN_CUDA_ENTER(event->device);
    if (!entered.error)
        tn__cu.event_destroy(event->event);
    free(event);
}

tn_status tn__cuda_event_record(tn_queue *queue, tn_event *event)
{
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.event_record(event->event, queue->stream);
    return tn__cuda_check(queue->device, "cuEventRecord", error);
}

/* Sets *done to 1 if the work before the event is complete, otherwise to 0. An
 * event that was never recorded counts as complete, as the driver defines. */
tn_status tn__cuda_event_query(tn_event *event, uint32_t *done)
{
    TN_CUDA_ENTER(event->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.event_query(event->event);
    *done = error != TN_CU_NOT_READY;
    return error && error != TN_CU_NOT_READY
               ? tn__cuda_check(event->device, "cuEventQuery", error)
               : TN_OK;
}

tn_status tn__cuda_queue_wait(tn_queue *queue, tn_event *event)
{
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.stream_wait(queue->stream, event->event, 0);
    return tn__cuda_check(queue->device, "cuStreamWaitEvent", error);
}

tn_status tn__cuda_event_elapsed(tn_event *from, tn_event *to, double *ns)
{
    float milliseconds;
    TN_CUDA_ENTER(to->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.event_elapsed(&milliseconds, from->event, to->event);
    if (!error)
        *ns = 1e6 * (double)milliseconds;
    return tn__cuda_check(to->device, "cuEventElapsedTime", error);
}
