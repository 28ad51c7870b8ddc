/* pending.c: reports failures of work that was submitted earlier. There are two
 * kinds: indices out of range, which kernels record in the queue's fault
 * buffer, and errors that the driver returns when the host waits for the
 * queue. */
#include "shared.h"

#include <stdlib.h>

tn_status tn__faults_check(const tn_fault_buffer *buffer, tn_queue *queue,
                           const tn_pending *pending)
{
    uint32_t any = 0;
    tn_status status = TN_OK;
    if (pending->may_fault)
        status = buffer->read(queue, &any, sizeof any);
    return status || !any ? status : TN_ERR_INDEX;
}

tn_status tn__faults_read(const tn_fault_buffer *buffer, tn_queue *queue,
                          tn_pending *pending, tn_fault *fault)
{
    const size_t bytes = (size_t)TN_FAULT_BYTES(buffer->records);
    tn_status status = tn__faults_check(buffer, queue, pending);
    pending->may_fault = false;
    if (status != TN_ERR_INDEX)
        return status;
    /* If clearing the buffer fails below, this makes the next launch clear
     * it. */
    pending->faults_empty = false;
    void *records = malloc(bytes);
    if (!records)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for reports "
                              "of indices out of range");
    tn_fault unused = {.size = sizeof unused};
    status = buffer->read(queue, records, bytes);
    if (!status) {
        pending->faults_empty = !buffer->clear(queue);
        status = tn__host->fault_read(records, buffer->records,
                                      fault ? fault : &unused);
    }
    free(records);
    return status;
}

void tn__pending_fault(const tn_pending *pending, tn_status code,
                       tn_fault *fault)
{
    const tn_fault own = {.size = sizeof own,
                          .code = code,
                          .tag = pending->count == 1 ? pending->last_tag : 0};
    if (fault)
        tn_struct_copy(fault, &own);
}
