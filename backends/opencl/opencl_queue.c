/* opencl_queue.c: opens and waits for in-order queues, reports the errors of
 * submitted work, and records events. */
#include <stdlib.h>

#include "opencl.h"

/* A queue is flushed after this many pieces of work. Drivers may collect work
 * until a flush, so without flushes the device would be idle until the host
 * waits for a result. A flush for this many pieces of work takes no noticeable
 * time. */
#define FLUSH_EVERY 16

/* When the host waits for the queue, scratch memory is freed if it has more
 * bytes than this. */
#define SCRATCH_CACHED (16u << 20)

/* ---- errors -------------------------------------------------------------- */

static tn_status status_of(cl_int error)
{
    switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
        return TN_ERR_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
        return TN_ERR_DEVICE_LOST;
    default:
        return TN_ERR_INTERNAL;
    }
}

tn_status tn__opencl_fail(const tn_plugin_device *device, const char *what,
                          cl_int error)
{
    tn_status status = status_of(error);
    return tn__host->fail(status, "%s: %s: %s%s", device->listed->info.name,
                          what, tn__opencl_error_name(error),
                          status == TN_ERR_DEVICE_LOST
                              ? "; the device is lost to this process"
                              : "");
}

/* Records a failure of work that was submitted earlier, and sets *fault. The
 * driver does not say which work failed, and the context cannot be used any
 * more. The message names the operator only if exactly one piece of work was
 * pending. */
static tn_status fail_deferred(tn_queue *queue, cl_int error, tn_fault *fault)
{
    const tn_plugin_device *device = queue->device;
    tn__pending_fault(&queue->pending, TN_ERR_DEVICE_LOST, fault);
    return tn__host->fail(
        TN_ERR_DEVICE_LOST,
        "%s: clFinish: %s; the device is lost to this process%s",
        device->listed->info.name, tn__opencl_error_name(error),
        queue->pending.count > 1
            ? "; TENON_OPENCL_BLOCKING=1 names the operator that failed"
            : "");
}

/* ---- queues -------------------------------------------------------------- */

tn_status tn__opencl_queue_open(tn_plugin_device *device, tn_queue **out)
{
    cl_int error;
    tn_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a queue");
    queue->device = device;
    queue->queue = cl.CreateCommandQueue(device->context,
                                         device->listed->device, 0, &error);
    if (error) {
        free(queue);
        return tn__opencl_fail(device, "clCreateCommandQueue", error);
    }
    *out = queue;
    return TN_OK;
}

void tn__opencl_queue_close(tn_queue *queue)
{
    cl.Finish(queue->queue);
    if (queue->faults)
        cl.ReleaseMemObject(queue->faults);
    if (queue->scratch)
        cl.ReleaseMemObject(queue->scratch);
    cl.ReleaseCommandQueue(queue->queue);
    free(queue);
}

/* ---- the fault buffer ---------------------------------------------------- */

static int faults_alloc(tn_queue *queue)
{
    cl_int error = CL_SUCCESS;
    if (!queue->faults)
        queue->faults =
            cl.CreateBuffer(queue->device->context, CL_MEM_READ_WRITE,
                            TN_FAULT_BYTES(TN_OPENCL_FAULTS), NULL, &error);
    return error;
}

static int faults_clear(tn_queue *queue)
{
    const cl_uint zero = 0;
    return cl.EnqueueFillBuffer(queue->queue, queue->faults, &zero, sizeof zero,
                                0, TN_FAULT_BYTES(TN_OPENCL_FAULTS), 0, NULL,
                                NULL);
}

static tn_status faults_copy(tn_queue *queue, void *to, size_t bytes)
{
    cl_int error = cl.EnqueueReadBuffer(queue->queue, queue->faults, CL_TRUE, 0,
                                        bytes, to, 0, NULL, NULL);
    return error ? tn__opencl_fail(queue->device, "reading faults", error)
                 : TN_OK;
}

const tn_fault_buffer tn__opencl_faults = {.records = TN_OPENCL_FAULTS,
                                           .alloc = faults_alloc,
                                           .clear = faults_clear,
                                           .read = faults_copy};

/* ---- submission and sync ------------------------------------------------- */

tn_status tn__opencl_queue_submitted(tn_queue *queue, uint64_t tag)
{
    cl_int error = CL_SUCCESS;
    tn__pending_add(&queue->pending, tag);
    if (queue->device->blocking) {
        if ((error = cl.Finish(queue->queue)))
            return fail_deferred(queue, error, NULL);
        return tn__faults_check(&tn__opencl_faults, queue, &queue->pending);
    }
    if (++queue->unflushed >= FLUSH_EVERY) {
        queue->unflushed = 0;
        error = cl.Flush(queue->queue);
    }
    return error ? tn__opencl_fail(queue->device, "clFlush", error) : TN_OK;
}

tn_status tn__opencl_queue_sync(tn_queue *queue, tn_fault *fault)
{
    cl_int error = cl.Finish(queue->queue);
    if (error)
        return fail_deferred(queue, error, fault);
    queue->unflushed = 0;
    queue->pending.count = 0;
    if (queue->scratch_bytes > SCRATCH_CACHED) {
        cl.ReleaseMemObject(queue->scratch);
        queue->scratch = NULL;
        queue->scratch_bytes = 0;
    }
    return tn__faults_read(&tn__opencl_faults, queue, &queue->pending, fault);
}

/* ---- events -------------------------------------------------------------- */

tn_status tn__opencl_event_open(tn_plugin_device *device, tn_event **event)
{
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? TN_OK
                  : tn__host->fail(TN_ERR_MEMORY,
                                   "out of host memory for an event");
}

void tn__opencl_event_close(tn_event *event)
{
    if (event && event->event)
        cl.ReleaseEvent(event->event);
    free(event);
}

tn_status tn__opencl_event_record(tn_queue *queue, tn_event *event)
{
    cl_event recorded;
    cl_int error =
        cl.EnqueueMarkerWithWaitList(queue->queue, 0, NULL, &recorded);
    if (!error) {
        if (event->event)
            cl.ReleaseEvent(event->event);
        event->event = recorded;
        /* Another queue may wait for the event. Therefore the work before it
         * must not stay unsubmitted in the driver. */
        error = cl.Flush(queue->queue);
        queue->unflushed = 0;
    }
    return error ? tn__opencl_fail(queue->device, "recording an event", error)
                 : TN_OK;
}

/* Sets *done to 1 if the work before the event is complete, otherwise to 0. An
 * event that was never recorded counts as complete, as in CUDA. */
tn_status tn__opencl_event_query(tn_event *event, uint32_t *done)
{
    cl_int state = CL_COMPLETE;
    if (event->event) {
        cl_int error =
            cl.GetEventInfo(event->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                            sizeof state, &state, NULL);
        if (error || state < 0)
            return tn__host->fail(TN_ERR_DEVICE_LOST, "an event failed: %s",
                                  tn__opencl_error_name(error ? error : state));
    }
    *done = state == CL_COMPLETE;
    return TN_OK;
}

tn_status tn__opencl_queue_wait(tn_queue *queue, tn_event *event)
{
    if (!event->event)
        return TN_OK;
    cl_int error = cl.EnqueueBarrierWithWaitList(queue->queue, 1,
                                                 &event->event, NULL);
    return error ? tn__opencl_fail(queue->device, "waiting for an event",
                                   error)
                 : TN_OK;
}
