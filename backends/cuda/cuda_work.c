/* cuda_work.c: what a piece of work needs of its queue beside its buffers: a list
 * of index faults, scratch memory, memory for long argument words; and what follows
 * once it is submitted. */
#include <stdlib.h>

#include "cuda.h"

/* ---- index faults ------------------------------------------------------- */

/* A queue's list of faults, for a launch that may have one. It is emptied here
 * where that has failed before: a launch never finds the faults of another. */
tn_cu_result tn__cuda_faults_ready(tn_queue *queue)
{
    tn_cu_result error = 0;
    if (!queue->faults)
        error = tn__cu.alloc(&queue->faults, TN_FAULT_BYTES(TN_CUDA_FAULTS));
    if (!error && !queue->clean)
        error = tn__cu.fill(queue->faults, 0, TN_FAULT_BYTES(TN_CUDA_FAULTS),
                            queue->stream);
    queue->clean = !error;
    queue->checked |= !error;
    return error;
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
tn_status tn__cuda_faults_read(tn_queue *queue, tn_fault *fault)
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
        return tn__host->fail(TN_ERR_MEMORY, "no memory for faults");
    tn_cu_result error =
        tn__cu.to_host(records, queue->faults, bytes, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    if (!error)
        queue->clean = !tn__cu.fill(queue->faults, 0, bytes, queue->stream);
    tn_fault unused = {.size = sizeof unused};
    status = error ? tn__cuda_check(queue->device, "reading faults", error)
                   : tn__host->fault_read(records, TN_CUDA_FAULTS,
                                          fault ? fault : &unused);
    free(records);
    return status;
}

/* ---- memory for the length of a capture --------------------------------- */

static tn_cu_result capture_memory(tn_queue *queue, uint64_t bytes,
                                   tn_cu_pointer *out)
{
    tn_cuda_memory *m = calloc(1, sizeof *m);
    if (!m)
        return TN_CU_OUT_OF_MEMORY;
    tn_cu_result error = tn__cu.alloc(&m->pointer, (size_t)bytes);
    if (error) {
        free(m);
        return error;
    }
    m->next = queue->capture->memory;
    queue->capture->memory = m;
    *out = m->pointer;
    return 0;
}

/* The words lie there before the graph runs: they are copied at once. */
static tn_cu_result capture_words(tn_queue *queue, const void *words,
                                  uint64_t bytes, tn_cu_pointer *out)
{
    tn_cu_stream aside = queue->capture->aside;
    tn_cu_result error = capture_memory(queue, bytes, out);
    if (!error)
        error = tn__cu.to_device(*out, words, (size_t)bytes, aside);
    return error ? error : tn__cu.stream_sync(aside);
}

/* ---- scratch memory, argument words ------------------------------------- */

/* Work of a stream is in order, so one scratch serves all of it: as much as was
 * ever needed, until memory is short (cuda_queue.c). cuMemFree waits for the work that
 * uses the smaller one. */
tn_cu_result tn__cuda_scratch_ready(tn_queue *queue, uint64_t bytes)
{
    if (queue->scratch_bytes >= bytes)
        return 0;
    if (queue->scratch && !queue->capture)
        tn__cu.free(queue->scratch);
    queue->scratch = 0;
    queue->scratch_bytes = 0;
    tn_cu_result error = queue->capture
                             ? capture_memory(queue, bytes, &queue->scratch)
                             : tn__cu.alloc(&queue->scratch, (size_t)bytes);
    if (!error)
        queue->scratch_bytes = bytes;
    return error;
}

/* Words that are too long for a launch lie on the device. The copy is in the
 * stream's order, and it is from pageable memory: the driver has taken them
 * when it returns. */
tn_cu_result tn__cuda_words_ready(tn_queue *queue, const tn_plan *plan,
                                  tn_cu_pointer *out)
{
    if (queue->capture)
        return capture_words(queue, plan->argument, plan->argument_bytes, out);
    tn_cu_result error =
        queue->words ? 0
                     : tn__cu.alloc(&queue->words,
                                    TN_PLAN_WORDS * sizeof *plan->argument);
    *out = queue->words;
    return error ? error
                 : tn__cu.to_device(queue->words, plan->argument,
                                    plan->argument_bytes, queue->stream);
}

/* ---- after a submission ------------------------------------------------- */

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
        return tn__cuda_fail_deferred(queue, error, NULL);
    tn_status status = faults_any(queue, &any);
    return status || !any ? status : TN_ERR_INDEX; /* told at the sync */
}
