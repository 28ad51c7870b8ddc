/* graph.c: captured graphs and executable graphs. A launch of a graph repeats
 * the captured work as one piece of work of the stream. */
#include <stdlib.h>

#include "sim.h"

/* A launch that replaces the one of a node (cuGraphExecKernelNodeSetParams). The
 * newest replacement of a node counts. */
typedef struct change {
    const sim_work *node;
    sim_work *work; /* owned */
    struct change *older;
} change;

struct CUgraphExec_st {
    sim_handle handle;
    struct CUgraph_st *graph;
    change *changes; /* owned list, the newest first */
    int pending;     /* submitted launches, which may use changes */
    struct CUgraphExec_st *older;
};
static struct CUgraphExec_st *execs;

static void let_go(struct CUgraph_st *graph)
{
    if (--graph->holders == 0)
        sim_queue_drop(&graph->work);
}

bool sim_graph_uses(const void *uses)
{
    for (struct CUgraphExec_st *e = execs; e; e = e->older)
        if (e->handle.live && sim_queue_uses(&e->graph->work, uses))
            return true;
    return false;
}

tn_cu_result cuGraphInstantiateWithFlags(tn_cu_graph_exec *out,
                                         tn_cu_graph graph,
                                         unsigned long long flags)
{
    ENTER(true);
    if (flags)
        return TN_CU_INVALID_VALUE;
    TRY(sim_handle_check(graph, "graph", true));
    struct CUgraphExec_st *exec =
        sim_handle_make("executable graph", sizeof *exec);
    if (!exec)
        return TN_CU_OUT_OF_MEMORY;
    exec->graph = graph;
    graph->holders++;
    exec->older = execs;
    execs = exec;
    *out = exec;
    return 0;
}

/* An update requires the same number of nodes, of the same kinds, in the same
 * order. Launches that were submitted before keep the old nodes. */
tn_cu_result cuGraphExecUpdate(tn_cu_graph_exec exec, tn_cu_graph graph,
                               void **node, int *result)
{
    enum { ERROR = 1, TOPOLOGY_CHANGED, NODE_TYPE_CHANGED };
    ENTER(true);
    *node = NULL;
    *result = ERROR;
    TRY(sim_handle_check(exec, "executable graph", true));
    TRY(sim_handle_check(graph, "graph", true));
    sim_work *a = exec->graph->work.first, *b = graph->work.first;
    sim_work *other = NULL;
    for (; a && b; a = a->next, b = b->next)
        if (!other && (a->run != b->run || a->kind != b->kind))
            other = b;
    *result = a || b ? TOPOLOGY_CHANGED : other ? NODE_TYPE_CHANGED : 0;
    *node = a || b ? NULL : other;
    if (*result)
        return TN_CU_UPDATE_FAILURE;
    graph->holders++;
    let_go(exec->graph);
    exec->graph = graph;
    return 0;
}

tn_cu_result cuGraphDestroy(tn_cu_graph graph)
{
    ENTER_WITH(graph, "graph", true);
    graph->handle.live = false;
    let_go(graph);
    return 0;
}

/* Returns the last change of a node, or NULL. */
static change *find_change(change *from, const sim_work *node)
{
    while (from && from->node != node)
        from = from->older;
    return from;
}

/* A node belongs to the graph of which the executable was made. Launches that
 * were submitted before keep the old parameters. */
tn_cu_result cuGraphExecKernelNodeSetParams(tn_cu_graph_exec exec,
                                            tn_cu_graph_node node,
                                            const tn_cu_kernel_node *launch)
{
    sim_work *work, *at;
    ENTER_WITH(exec, "executable graph", true);
    TRY(sim_handle_check(exec->graph, "graph", true));
    for (at = exec->graph->work.first; at && (void *)at != (void *)node;)
        at = at->next;
    if (!at)
        return sim_refuse(TN_CU_INVALID_VALUE, "a node of another graph");
    TRY(sim_launch_make(launch, &work));
    if (work->run != at->run) {
        sim_work_free(work);
        return sim_refuse(TN_CU_INVALID_VALUE, "a node that is no kernel");
    }
    work->given = at->given;
    change *known = exec->pending ? NULL : find_change(exec->changes, at);
    if (known) {
        sim_work_free(known->work);
        known->work = work;
        return 0;
    }
    change *made = malloc(sizeof *made);
    if (!made) {
        sim_work_free(work);
        return TN_CU_OUT_OF_MEMORY;
    }
    *made = (change){at, work, exec->changes};
    exec->changes = made;
    return 0;
}

static void drop_changes(struct CUgraphExec_st *exec)
{
    while (!exec->pending && !exec->handle.live && exec->changes) {
        change *older = exec->changes->older;
        sim_work_free(exec->changes->work);
        free(exec->changes);
        exec->changes = older;
    }
}

typedef struct graph_work {
    sim_work work;
    struct CUgraph_st *graph;
    struct CUgraphExec_st *exec;
    change *changes; /* when the graph was submitted */
} graph_work;

static tn_cu_result run_graph(sim_work *work, const sim_actor *actor)
{
    const graph_work *g = (graph_work *)work;
    tn_cu_result error = 0;
    for (sim_work *w = g->graph->work.first; w && !error; w = w->next) {
        const change *c = find_change(g->changes, w);
        sim_work *run = c ? c->work : w;
        error = run->run(run, actor);
    }
    return error;
}

static void work_release(sim_work *work)
{
    graph_work *g = (graph_work *)work;
    let_go(g->graph);
    g->exec->pending--;
    drop_changes(g->exec);
}

tn_cu_result cuGraphLaunch(tn_cu_graph_exec exec, tn_cu_stream stream)
{
    ENTER_WITH(exec, "executable graph", true);
    graph_work w = {.work = {.run = run_graph, .release = work_release},
                    .graph = exec->graph,
                    .exec = exec,
                    .changes = exec->changes};
    exec->graph->holders++;
    exec->pending++;
    return sim_give(stream, &w, sizeof w);
}

/* Launches that were submitted before still run. */
tn_cu_result cuGraphExecDestroy(tn_cu_graph_exec exec)
{
    ENTER_WITH(exec, "executable graph", true);
    exec->handle.live = false;
    drop_changes(exec);
    let_go(exec->graph);
    return 0;
}
