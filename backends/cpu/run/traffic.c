/* traffic.c: overlaps memory accesses with computation. Between the operations
 * on a block, a part of the next block's input is prefetched, and some of the
 * deferred non-temporal stores are issued. */
#include "plan.h"

void tn__cpu_prefetch_next_block(cpu_task *t, const cpu_op *op,
                                 const char *flat, int64_t bytes,
                                 int64_t distance)
{
    if (!t->plan->traffic.ahead)
        return;
    cpu_prefetch_range *ahead = &t->ahead[op->index % TN_CPU_PREFETCH_RANGES];
    if (ahead->end != flat + distance)
        ahead->at = flat + distance;
    ahead->end = flat + distance + bytes;
}

/* Prefetches up to `bytes` bytes of each operand's next block to L2. Without
 * prefetches each block would first wait for memory and then leave memory idle
 * while it computes. A whole block is not prefetched at once, because that
 * would fill the core's queue of cache misses and the operations would wait. */
static void prefetch_some(cpu_task *t, int64_t bytes)
{
    enum { LINE = 64 };
    for (int i = 0; i < TN_CPU_PREFETCH_RANGES; i++) {
        cpu_prefetch_range *ahead = &t->ahead[i];
        const char *end = ahead->end;
        if (end - ahead->at > bytes)
            end = ahead->at + bytes;
        for (; ahead->at < end; ahead->at += LINE)
            __builtin_prefetch(ahead->at, 0, 2);
    }
}

/* Issues up to `bytes` bytes of deferred stores. If a group's last stage stored
 * its results at once, the core would wait for memory during that stage, and
 * memory would idle during the others. */
static void stream_deferred(cpu_task *t, int64_t bytes)
{
    while (bytes > 0 && t->deferred.sent != t->deferred.made) {
        cpu_stream_block *later =
            &t->deferred.block[t->deferred.sent % t->plan->traffic.blocks];
        int64_t some = tn__cpu_min(bytes, later->end - later->at);
        t->routines->stream(later->to, later->at, some, 0);
        later->at += some;
        later->to += some;
        bytes -= some;
        if (later->at == later->end)
            t->deferred.sent++;
    }
}

bool tn__cpu_stream_defer(cpu_task *t, uint32_t slot, int64_t bytes)
{
    if (t->plan->traffic.blocks == 0 || t->deferred.slot != TN_CPU_NONE ||
        bytes > t->plan->traffic.block_bytes)
        return false;
    if (t->deferred.made - t->deferred.sent == t->plan->traffic.blocks) {
        const cpu_stream_block *first =
            &t->deferred.block[t->deferred.sent % t->plan->traffic.blocks];
        stream_deferred(t, first->end - first->at);
    }
    t->deferred.slot = slot;
    t->slot[slot] =
        t->deferred.block[t->deferred.made % t->plan->traffic.blocks].room;
    return true;
}

void tn__cpu_task_finish(cpu_task *task)
{
    if (!task->plan->traffic.stream)
        return;
    stream_deferred(task, INT64_MAX);
    task->routines->fence();
}

void tn__cpu_overlap_memory(cpu_task *t, int64_t bytes)
{
    if (t->plan->traffic.ahead)
        prefetch_some(t, bytes);
    if (t->deferred.sent != t->deferred.made)
        stream_deferred(t, bytes);
}
