/* cuda_graph.c: the extension "graph-replay": records the work of a queue as a
 * CUDA graph, which can be run again. Work that is submitted to a stream in
 * capture mode is not executed but becomes the nodes of a graph.
 *
 * The kernels of a graph always use the addresses that were passed when they
 * were captured. The queue's own scratch memory may be reallocated later.
 * Therefore memory for temporary data and long kernel arguments is allocated
 * separately during a capture, and the graph owns it. */
#include <stdlib.h>

#include "cuda.h"

/* In this mode the driver allows calls such as cuMemAlloc during a capture, and
 * does not capture them. */
#define RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */

static void recorded_free(tn_recorded *r)
{
    if (r->exec)
        tn__cu.graph_exec_destroy(r->exec);
    if (r->graph)
        tn__cu.graph_destroy(r->graph);
    free(r->varying);
    for (tn_cuda_memory *m = r->memory, *next; m; m = next) {
        next = m->next;
        tn__cu.free(m->pointer);
        free(m);
    }
    free(r);
}

static tn_status begin(tn_queue *queue)
{
    tn_recorded *r = calloc(1, sizeof *r);
    if (!r)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a graph");
    /* Clearing the fault buffer is work on the stream, so it must be done
     * before the capture begins. */
    r->queue_may_fault = queue->pending.may_fault;
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cuda_faults_ready(queue);
    queue->pending.may_fault = r->queue_may_fault;
    if (!error)
        error = tn__cu.stream_create(&r->copy_stream, TN_CU_NON_BLOCKING);
    if (!error) {
        error = tn__cu.capture_begin(queue->stream, RELAXED);
        if (error)
            tn__cu.stream_destroy(r->copy_stream);
    }
    if (error) {
        free(r);
        return tn__cuda_check(queue->device, "cuStreamBeginCapture", error);
    }
    r->scratch = queue->scratch;
    r->scratch_bytes = queue->scratch_bytes;
    queue->scratch = 0;
    queue->scratch_bytes = 0;
    queue->pending.may_fault = false;
    r->can_vary = true;
    queue->capture = r;
    queue->varies = false;
    return TN_OK;
}

/* Ends a capture. If `into` is not NULL, updates that graph. Otherwise sets
 * *out to a new graph. */
static tn_status end_in(tn_queue *queue, tn_recorded *into, tn_recorded **out)
{
    tn_recorded *r = queue->capture;
    tn_cu_graph graph = NULL;
    const char *what = "cuStreamEndCapture";
    void *node;
    int result;
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.capture_end(queue->stream, &graph);
    r->may_fault = queue->pending.may_fault;
    queue->pending.may_fault = r->queue_may_fault;
    queue->scratch = r->scratch;
    queue->scratch_bytes = r->scratch_bytes;
    queue->capture = NULL;
    tn__cu.stream_destroy(r->copy_stream);
    if (!error) {
        what = "cuGraphInstantiate";
        /* If the driver cannot update the graph, for example because the number
         * of kernels differs, a new graph is instantiated. So is one whose
         * launches change, because they are nodes of the graph from which it
         * was instantiated. */
        if (into && !r->varying_count &&
            !tn__cu.graph_update(into->exec, graph, &node, &result)) {
            r->exec = into->exec;
            into->exec = NULL;
        } else {
            error = tn__cu.graph_instantiate(&r->exec, graph, 0);
        }
    }
    if (r->varying_count)
        r->graph = graph;
    else if (graph)
        tn__cu.graph_destroy(graph);
    if (error) {
        recorded_free(r);
        return tn__cuda_check(queue->device, what, error);
    }
    /* The updated graph uses the memory of the new capture. The memory of the
     * previous capture is freed. */
    if (into) {
        const tn_recorded old = *into;
        *into = *r;
        *r = old;
        recorded_free(r);
    } else {
        *out = r;
    }
    return TN_OK;
}

static tn_status end(tn_queue *queue, tn_recorded **out)
{
    return end_in(queue, NULL, out);
}

static tn_status end_into(tn_queue *queue, tn_recorded *recorded)
{
    return end_in(queue, recorded, NULL);
}

static tn_status run(tn_queue *queue, tn_recorded *recorded, uint64_t tag)
{
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error && recorded->may_fault)
        error = tn__cuda_faults_ready(queue);
    if (!error)
        error = tn__cu.graph_launch(recorded->exec, queue->stream);
    if (error)
        return tn__cuda_check(queue->device, "cuGraphLaunch", error);
    return tn__cuda_queue_submitted(queue, tag);
}

static void release(tn_plugin_device *device, tn_recorded *recorded)
{
    TN_CUDA_ENTER(device);
    if (!entered.error)
        recorded_free(recorded);
}

const tn_graph_replay_extension tn__cuda_graph_replay = {
    .size = sizeof tn__cuda_graph_replay,
    .begin = begin,
    .end = end,
    .run = run,
    .release = release,
    .end_into = end_into,
    .vary = tn__cuda_vary,
    .change = tn__cuda_change,
    .changed = tn__cuda_changed,
};
