/* cuda_vary.c: launches of a captured graph that change from run to run: their
 * buffers, offsets, seeds and other numbers.
 *
 * While work that varies is captured, the node of each launch is stored. To
 * change the work, the core makes the same calls again. cuda_launch.c plans each
 * launch as always, but passes its arguments to the node instead of launching
 * the kernel. This takes about as long as a launch, but the graph stays one
 * launch. Nodes that a library of NVIDIA captured cannot be changed in this
 * way, nor can copies. */
#include <stdlib.h>

#include "cuda.h"

/* Returns the last captured node, or NULL if there is none. */
static tn_cu_result last_node(const tn_queue *queue, tn_cu_graph_node *last)
{
    int status;
    unsigned long long id;
    tn_cu_graph graph;
    const tn_cu_graph_node *nodes = NULL;
    size_t count = 0;
    tn_cu_result error = tn__cu.capture_info(queue->stream, &status, &id,
                                             &graph, &nodes, &count);
    *last = !error && count == 1 ? nodes[0] : NULL;
    return error;
}

tn_status tn__cuda_vary(tn_queue *queue, uint32_t varies)
{
    tn_recorded *r = queue->capture;
    tn_cu_graph_node last;
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error)
        error = last_node(queue, &last);
    if (error)
        return tn__cuda_check(queue->device, "cuStreamGetCaptureInfo", error);
    queue->varies = varies;
    if (varies)
        r->last = last;
    else
        r->can_vary = r->can_vary && r->last == last;
    return r->can_vary ? TN_OK
                       : tn__host->fail(TN_ERR_UNSUPPORTED,
                                        "cuda: a graph cannot change work that "
                                        "is no launch of Tenon's own kernels");
}

tn_cu_result tn__cuda_varying_add(tn_queue *queue, tn_cu_pointer scratch,
                                  tn_cu_pointer words)
{
    tn_recorded *r = queue->capture;
    tn_cu_graph_node node;
    tn_cu_result error = last_node(queue, &node);
    if (error)
        return error;
    if (r->varying_count == r->varying_room) {
        const size_t room = r->varying_room ? 2 * r->varying_room : 16;
        tn_cuda_varying *more = realloc(r->varying, room * sizeof *more);
        if (!more)
            return TN_CU_OUT_OF_MEMORY;
        r->varying = more;
        r->varying_room = room;
    }
    r->varying[r->varying_count++] = (tn_cuda_varying){
        node, scratch, words, scratch ? queue->scratch_bytes : 0};
    r->last = node;
    return 0;
}

const tn_cuda_varying *tn__cuda_varying_next(tn_queue *queue)
{
    tn_recorded *r = queue->changes;
    if (r->at < r->varying_count)
        return &r->varying[r->at++];
    r->can_vary = false;
    return NULL;
}

tn_status tn__cuda_change(tn_queue *queue, tn_recorded *recorded)
{
    recorded->at = 0;
    queue->changes = recorded;
    return TN_OK;
}

tn_status tn__cuda_changed(tn_queue *queue, tn_recorded *recorded)
{
    queue->changes = NULL;
    if (recorded->can_vary && recorded->at == recorded->varying_count)
        return TN_OK;
    recorded->can_vary = false;
    return tn__host->fail(TN_ERR_STATE,
                          "cuda: %zu of %zu launches of a graph were changed",
                          recorded->at, recorded->varying_count);
}
