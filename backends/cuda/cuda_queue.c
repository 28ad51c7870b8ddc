/* cuda_queue.c: streams, what fails on them, and events. */
#include <stdlib.h>

#include "cuda.h"

/* ---- failures ----------------------------------------------------------- */

/* The device is lost to the process after these: "any further CUDA work will
 * return the same error" (cuda.h of CUDA 13.0), but where another reason is
 * given. All other errors are those of one call: the next one may work. */
static const tn_cu_result losses[] = {
    TN_CU_FORKED,
    TN_CU_DEINITIALIZED,        /* the driver is shutting down */
    TN_CU_INVALID_CONTEXT,      /* somebody destroyed the device's context */
    TN_CU_CONTEXT_IS_DESTROYED, /* likewise, by cuDevicePrimaryCtxReset */
    TN_CU_ECC_UNCORRECTABLE,    /* what memory holds is wrong from then on */
    TN_CU_NVLINK_UNCORRECTABLE, /* so is what came from another GPU */
    TN_CU_CONTAINED,            /* of either, known to be this process's */
    TN_CU_ILLEGAL_ADDRESS,      /* faults of a kernel, to INVALID_PC */
    TN_CU_LAUNCH_TIMEOUT,
    TN_CU_ASSERT, /* "the context cannot be used anymore" */
    TN_CU_HARDWARE_STACK_ERROR,
    TN_CU_ILLEGAL_INSTRUCTION,
    TN_CU_MISALIGNED_ADDRESS,
    TN_CU_INVALID_ADDRESS_SPACE,
    TN_CU_INVALID_PC,
    TN_CU_LAUNCH_FAILED,         /* a fault that has no code of its own */
    TN_CU_TENSOR_MEMORY_LEAK,    /* a kernel of sm_100 ended with some */
    TN_CU_MPS_CLIENT_TERMINATED, /* by its server */
    TN_CU_EXTERNAL_DEVICE,       /* one that shares memory or semaphores */
};

static tn_status status_of(tn_cu_result error)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i] == error)
            return TN_ERR_DEVICE_LOST;
    return error == TN_CU_OUT_OF_MEMORY ? TN_ERR_MEMORY : TN_ERR_INTERNAL;
}

static tn_status report(const tn_plugin_device *device, const char *what,
                        tn_cu_result error, const char *remedy)
{
    tn_status status = status_of(error);
    if (error == TN_CU_FORKED)
        return tn__cuda_host->fail(status, "%s: " TN_CUDA_FORKED,
                                   device->listed->info.name);
    return tn__cuda_host->fail(
        status, "%s: %s: %s%s%s", device->listed->info.name, what,
        tn__cuda_error_name(error),
        status == TN_ERR_DEVICE_LOST ? "; the device is lost to this process"
                                     : "",
        remedy);
}

tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                         tn_cu_result error)
{
    return error ? report(device, what, error, "") : TN_OK;
}

/* Work that was accepted has failed. Its tag is known where there was one
 * piece of it. */
static tn_status fail_deferred(tn_queue *queue, tn_cu_result error,
                               tn_fault *fault)
{
    const tn_fault own = {.size = sizeof own,
                          .code = status_of(error),
                          .tag = queue->unsynced == 1 ? queue->last_tag : 0};
    if (fault)
        tn_struct_copy(fault, &own);
    return report(
        queue->device, "cuStreamSynchronize", error,
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

/* Does the list of faults hold anything? Waits. */
static tn_status faults_any(tn_queue *queue, uint32_t *any)
{
    *any = 0;
    if (!queue->checked)
        return TN_OK;
    tn_cu_result error =
        tn__cu.to_host(any, queue->faults, sizeof *any, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    return tn__cuda_check(queue->device, "reading faults", error);
}

/* The first index fault, if there is one. The list is empty after it; where it
 * cannot be emptied, the next launch that needs it tries again. */
static tn_status faults_read(tn_queue *queue, tn_fault *fault)
{
    const size_t bytes = TN_FAULT_BYTES(TN_CUDA_FAULTS);
    uint32_t any;
    tn_status status = faults_any(queue, &any);
    queue->checked = false;
    if (status || !any)
        return status;
    queue->clean = false;
    void *records = malloc(bytes);
    if (!records)
        return tn__cuda_host->fail(TN_ERR_MEMORY, "no memory for faults");
    tn_cu_result error =
        tn__cu.to_host(records, queue->faults, bytes, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    if (!error)
        queue->clean = !tn__cu.fill(queue->faults, 0, bytes, queue->stream);
    tn_fault unused = {.size = sizeof unused};
    status = error ? tn__cuda_check(queue->device, "reading faults", error)
                   : tn__cuda_host->fault_read(records, TN_CUDA_FAULTS,
                                               fault ? fault : &unused);
    free(records);
    return status;
}

tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag)
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
        return fail_deferred(queue, error, NULL);
    tn_status status = faults_any(queue, &any);
    return status || !any ? status : TN_ERR_INDEX; /* told at the sync */
}

tn_status tn__cuda_queue_sync(tn_queue *queue, tn_fault *fault)
{
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    if (error)
        return fail_deferred(queue, error, fault);
    queue->unsynced = 0;
    /* The core waits, and asks once more, where it got no memory. */
    if (queue->scratch &&
        atomic_exchange(&queue->device->short_of_memory, false)) {
        release(&queue->scratch);
        queue->scratch_bytes = 0;
    }
    return faults_read(queue, fault);
}

/* ---- events ------------------------------------------------------------- */

static tn_status event_make(tn_plugin_device *device, unsigned flags,
                            tn_event **out)
{
    tn_event *event = calloc(1, sizeof *event);
    if (!event)
        return tn__cuda_host->fail(TN_ERR_MEMORY, "no memory for an event");
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

/* An event that was never recorded is done: so the driver has it. */
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
