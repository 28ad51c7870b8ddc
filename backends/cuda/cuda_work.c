/* cuda_work.c: the memory that a queue provides for a piece of work: the fault
 * buffer, scratch memory, and memory for long kernel arguments. Also the
 * function that is called after work was submitted. */
#include <stdlib.h>

#include "cuda.h"

/* ---- index faults -------------------------------------------------------- */

static int faults_alloc(tn_queue *queue)
{
    return queue->faults
               ? 0
               : tn__cu.alloc(&queue->faults, TN_FAULT_BYTES(TN_CUDA_FAULTS));
}

static int faults_clear(tn_queue *queue)
{
    return tn__cu.fill(queue->faults, 0, TN_FAULT_BYTES(TN_CUDA_FAULTS),
                       queue->stream);
}

static tn_status faults_copy(tn_queue *queue, void *to, size_t bytes)
{
    tn_cu_result error =
        tn__cu.to_host(to, queue->faults, bytes, queue->stream);
    if (!error)
        error = tn__cu.stream_sync(queue->stream);
    return tn__cuda_check(queue->device, "reading faults", error);
}

const tn_fault_buffer tn__cuda_faults = {.records = TN_CUDA_FAULTS,
                                         .alloc = faults_alloc,
                                         .clear = faults_clear,
                                         .read = faults_copy};

/* ---- memory owned by a captured graph ------------------------------------ */

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

/* Copies long kernel arguments to memory that the captured graph owns. The copy
 * is on a stream that is not captured, so it is executed now, before the graph
 * runs. */
static tn_cu_result capture_words(tn_queue *queue, const void *words,
                                  uint64_t bytes, tn_cu_pointer *out)
{
    tn_cu_stream copy_stream = queue->capture->copy_stream;
    tn_cu_result error = capture_memory(queue, bytes, out);
    if (!error)
        error = tn__cu.to_device(*out, words, (size_t)bytes, copy_stream);
    return error ? error : tn__cu.stream_sync(copy_stream);
}

/* ---- scratch memory, argument words -------------------------------------- */

/* Makes at least `bytes` bytes of scratch memory available. The work of a
 * stream runs in order, so all of it can use the same scratch buffer. The
 * buffer grows to the largest request. It is freed when memory is short
 * (cuda_queue.c). cuMemFree waits for the work that uses the old buffer. */
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

/* Copies kernel arguments that are too long for a launch to the device, as work
 * on the stream. The arguments are in pageable memory. The driver reads them
 * before the call returns, so the caller may then change them. */
tn_cu_result tn__cuda_words_ready(tn_queue *queue, const tn_plan *plan,
                                  tn_cu_pointer *out)
{
    if (*out) /* the memory of a captured launch; earlier runs of the graph come
               * before this copy on the stream */
        return tn__cu.to_device(*out, plan->argument, plan->argument_bytes,
                                queue->stream);
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

/* ---- after a submission -------------------------------------------------- */

tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag)
{
    if (queue->capture || queue->changes)
        return TN_OK; /* the work was captured, not submitted */
    tn__pending_add(&queue->pending, tag);
    if (!queue->device->blocking)
        return TN_OK;
    tn_cu_result error = tn__cu.stream_sync(queue->stream);
    if (error)
        return tn__cuda_fail_deferred(queue, error, NULL);
    return tn__faults_check(&tn__cuda_faults, queue, &queue->pending);
}
