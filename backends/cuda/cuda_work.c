/* cuda_work.c: what a piece of work needs of its queue beside its buffers: a list
 * of index faults, scratch memory, memory for long argument words; and what follows
 * once it is submitted. */
#include <stdlib.h>

#include "cuda.h"

/* ---- index faults ------------------------------------------------------- */

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
    if (queue->capture)
        return TN_OK; /* it has not run */
    tn__pending_add(&queue->pending, tag);
    if (!queue->device->blocking)
        return TN_OK;
    tn_cu_result error = tn__cu.stream_sync(queue->stream);
    if (error)
        return tn__cuda_fail_deferred(queue, error, NULL);
    return tn__faults_check(&tn__cuda_faults, queue, &queue->pending);
}
