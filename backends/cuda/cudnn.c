/* cudnn.c: builds graphs of cuDNN's operations, and makes and caches the plans
 * that compute them.
 *
 * An engine is cuDNN's implementation of a kind of graph. cuDNN's heuristics
 * recommend engines for a graph. A plan is an engine that is prepared for one
 * graph. Each queue has its own cache of plans. If cuDNN is not installed or
 * has no engine for a graph, callers use Tenon's own kernels. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "cudnn.h"

#define PLANS 256               /* number of cached plans; a power of two */
#define CONFIGS 16              /* maximum number of engines that are tried from
                                   each heuristic */

struct tn_dnn_plan {
    tn_dnn_problem problem; /* its key points to the array key[] below */
    bool usable;       /* false if cuDNN has no engine for this computation */
    tn_dnn_graph graph;
    /* owned descriptors: the finished graph, the chosen configuration of an
     * engine, and the plan */
    tn_dnn_descriptor whole, config, plan;
    /* size of the workspace, and index of the engine for the log */
    int64_t workspace_bytes, engine;
    unsigned notes;                  /* the engine's notes, as a mask of
                                        1 << note */
    uint64_t key[];
};

struct tn_cuda_plans {
    tn_dnn_handle handle;     /* owned */
    tn_dnn_plan *slot[PLANS]; /* owned: a hash table with the latest plan for
                                 each hash value */
};

/* ---- descriptors --------------------------------------------------------- */

static void drop(tn_dnn_descriptor *descriptor)
{
    if (*descriptor)
        tn__dnn.destroy(*descriptor);
    *descriptor = NULL;
}

/* Sets an attribute of a descriptor, unless *e already holds an error. */
static void set(tn_dnn_status *e, tn_dnn_descriptor descriptor, int name,
                int type, int64_t count, const void *elements)
{
    if (!*e)
        *e = tn__dnn.set(descriptor, name, type, count, elements);
}

static void create(tn_dnn_status *e, int type, tn_dnn_descriptor *out)
{
    if (!*e)
        *e = tn__dnn.create(type, out);
}

static void finalize(tn_dnn_status *e, tn_dnn_descriptor descriptor)
{
    if (!*e)
        *e = tn__dnn.finalize(descriptor);
}

tn_dnn_descriptor tn__dnn_begin(tn_dnn_graph *graph, int type)
{
    tn_dnn_descriptor *made = &graph->descriptors[graph->descriptor_count++];
    create(&graph->status, type, made);
    return *made;
}

void tn__dnn_set(tn_dnn_graph *graph, tn_dnn_descriptor descriptor, int name,
                 int type, int64_t count, const void *elements)
{
    set(&graph->status, descriptor, name, type, count, elements);
}

void tn__dnn_set_int(tn_dnn_graph *graph, tn_dnn_descriptor descriptor,
                     int name, int type, int value)
{
    set(&graph->status, descriptor, name, type, 1, &value);
}

void tn__dnn_set_descriptor(tn_dnn_graph *graph, tn_dnn_descriptor descriptor,
                            int name, tn_dnn_descriptor other)
{
    set(&graph->status, descriptor, name, TN_DNN_IS_DESCRIPTOR, 1, &other);
}

void tn__dnn_end(tn_dnn_graph *graph, tn_dnn_descriptor descriptor)
{
    finalize(&graph->status, descriptor);
}

void tn__dnn_end_op(tn_dnn_graph *graph, tn_dnn_descriptor op)
{
    tn__dnn_end(graph, op);
    graph->op[graph->op_count++] = op;
}

tn_dnn_descriptor tn__dnn_tensor(tn_dnn_graph *graph, int type,
                                 const int64_t *size, const int64_t *stride,
                                 int64_t id, int64_t align,
                                 tn_dnn_storage place)
{
    const bool yes = true;
    tn_dnn_descriptor x = tn__dnn_begin(graph, TN_DNN_TENSOR);
    tn__dnn_set_int(graph, x, TN_DNN_TENSOR_DTYPE, TN_DNN_IS_DATA_TYPE, type);
    tn__dnn_set(graph, x, TN_DNN_TENSOR_SIZES, TN_DNN_IS_INT64, 4, size);
    tn__dnn_set(graph, x, TN_DNN_TENSOR_STRIDES, TN_DNN_IS_INT64, 4, stride);
    tn__dnn_set(graph, x, TN_DNN_TENSOR_ID, TN_DNN_IS_INT64, 1, &id);
    tn__dnn_set(graph, x, TN_DNN_TENSOR_ALIGN, TN_DNN_IS_INT64, 1, &align);
    if (place != TN_DNN_STORED)
        tn__dnn_set(graph, x, (int)place, TN_DNN_IS_BOOL, 1, &yes);
    tn__dnn_end(graph, x);
    return x;
}

/* ---- engines ------------------------------------------------------------- */

/* Returns whether an engine has none of the notes that the problem rejects.
 * Notes are numerical properties of an engine. */
static bool notes_allow(tn_dnn_plan *p, tn_dnn_descriptor config)
{
    int note[TN_DNN_NOTES];
    int64_t count = 0;
    tn_dnn_descriptor engine = NULL;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_ENGINE, &engine);
    if (!e)
        e = tn__dnn.get(config, TN_DNN_CONFIG_ENGINE, TN_DNN_IS_DESCRIPTOR, 1,
                        &count, &engine);
    if (!e)
        e = tn__dnn.get(engine, TN_DNN_ENGINE_NOTES, TN_DNN_IS_NOTE,
                        TN_DNN_NOTES, &count, note);
    p->notes = 0;
    for (int64_t i = 0; i < count && i < TN_DNN_NOTES && !e; i++)
        p->notes |= note[i] >= 0 && note[i] < 32 ? 1u << note[i] : 0;
    if (!e)
        e = tn__dnn.get(engine, TN_DNN_ENGINE_INDEX, TN_DNN_IS_INT64, 1,
                        &count, &p->engine);
    drop(&engine);
    return !e && !(p->notes & p->problem.refused_notes);
}

/* Makes the plan for one engine configuration. Returns false if the engine
 * cannot be used or has a rejected note. */
static bool plan_try(tn_dnn_plan *p, tn_dnn_handle handle,
                     tn_dnn_descriptor config)
{
    int64_t count = 0;
    tn_dnn_status e = 0;
    if (!notes_allow(p, config))
        return false;
    create(&e, TN_DNN_PLAN, &p->plan);
    set(&e, p->plan, TN_DNN_PLAN_HANDLE, TN_DNN_IS_HANDLE, 1, &handle);
    set(&e, p->plan, TN_DNN_PLAN_CONFIG, TN_DNN_IS_DESCRIPTOR, 1, &config);
    finalize(&e, p->plan);
    if (!e)
        e = tn__dnn.get(p->plan, TN_DNN_PLAN_WORKSPACE, TN_DNN_IS_INT64, 1,
                        &count, &p->workspace_bytes);
    if (!e && (uint64_t)p->workspace_bytes <= p->problem.workspace_limit)
        return true;
    drop(&p->plan);
    return false;
}

/* Makes the plan with the first usable engine that a heuristic recommends.
 * Returns false if there is none. */
static bool choose(tn_dnn_plan *p, tn_dnn_handle handle, int mode)
{
    tn_dnn_descriptor heuristic = NULL, config[CONFIGS] = {NULL};
    int64_t count = 0;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_HEUR, &heuristic);
    set(&e, heuristic, TN_DNN_HEUR_GRAPH, TN_DNN_IS_DESCRIPTOR, 1, &p->whole);
    set(&e, heuristic, TN_DNN_HEUR_MODE, TN_DNN_IS_HEUR_MODE, 1, &mode);
    finalize(&e, heuristic);
    for (int i = 0; i < CONFIGS; i++)
        create(&e, TN_DNN_CONFIG, &config[i]);
    if (!e)
        e = tn__dnn.get(heuristic, TN_DNN_HEUR_RESULTS, TN_DNN_IS_DESCRIPTOR,
                        CONFIGS, &count, config);
    for (int64_t i = 0; i < count && i < CONFIGS && !e && !p->config; i++)
        if (plan_try(p, handle, config[i])) {
            p->config = config[i];
            config[i] = NULL;
        }
    for (int i = 0; i < CONFIGS; i++)
        drop(&config[i]);
    drop(&heuristic);
    return p->config != NULL;
}

/* ---- the cache of plans -------------------------------------------------- */

static void plan_free(tn_dnn_plan *p)
{
    if (!p)
        return;
    drop(&p->plan);
    drop(&p->config);
    drop(&p->whole);
    while (p->graph.descriptor_count > 0)
        drop(&p->graph.descriptors[--p->graph.descriptor_count]);
    free(p);
}

/* Makes the plan for a problem and sets `usable`. Returns NULL if out of
 * memory. */
static tn_dnn_plan *plan_make(tn_dnn_handle handle, const tn_dnn_problem *of)
{
    tn_dnn_plan *p = calloc(1, sizeof *p + of->bytes);
    if (!p)
        return NULL;
    tn_dnn_graph *graph = &p->graph;
    tn_dnn_status *e = &graph->status;
    p->problem = *of;
    p->problem.key = memcpy(p->key, of->key, of->bytes);
    of->describe(graph, of->key);
    create(e, TN_DNN_GRAPH, &p->whole);
    set(e, p->whole, TN_DNN_GRAPH_HANDLE, TN_DNN_IS_HANDLE, 1, &handle);
    set(e, p->whole, TN_DNN_GRAPH_OPS, TN_DNN_IS_DESCRIPTOR, graph->op_count,
        graph->op);
    finalize(e, p->whole);
    p->usable = !*e && tn__dnn.version() >= of->min_version &&
                (choose(p, handle, TN_DNN_HEUR_A) ||
                 choose(p, handle, TN_DNN_HEUR_FALLBACK));
    tn__host->log(3,
                  "cuda: cuDNN %s the %s of %lld x %lld x %lld x %lld "
                  "(status %d, %d operations, engine %lld, notes %#x, "
                  "%lld MiB of workspace)",
                  p->usable ? "computes" : "declines", of->name,
                  (long long)of->size[0], (long long)of->size[1],
                  (long long)of->size[2], (long long)of->size[3], *e,
                  graph->op_count, (long long)p->engine, p->notes,
                  (long long)p->workspace_bytes >> 20);
    return p;
}

void tn__cuda_plans_free(tn_cuda_plans *plans)
{
    for (size_t i = 0; plans && i < PLANS; i++)
        plan_free(plans->slot[i]);
    if (plans && plans->handle)
        tn__dnn.handle_destroy(plans->handle);
    free(plans);
}

/* Returns the queue's cache of plans. At the first call, creates the cache and
 * a cuDNN handle for the queue's stream. On failure sets *why to the reason and
 * returns NULL. */
static tn_cuda_plans *plans_of(tn_queue *queue, const char **why)
{
    if (queue->plans || (*why = tn__cuda_open(TN_CUDA_DNN)))
        return queue->plans;
    *why = "out of memory for cuDNN's plans";
    tn_cuda_plans *plans = calloc(1, sizeof *plans);
    if (!plans)
        return NULL;
    tn_dnn_status e = tn__dnn.handle_create(&plans->handle);
    if (e)
        plans->handle = NULL;
    else
        e = tn__dnn.stream_set(plans->handle, queue->stream);
    if (e) {
        *why = "cudnnCreate failed; the driver may be older than the library";
        tn__cuda_plans_free(plans);
        return NULL;
    }
    return queue->plans = plans;
}

const tn_dnn_plan *tn__dnn_plan(tn_queue *queue, const tn_dnn_problem *problem,
                                const char **why)
{
    *why = "a captured launch is changed"; /* cuda_vary.c */
    if (queue->changes)
        return NULL;
    *why = "cuDNN made no plan for this computation before the capture";
    tn_cuda_plans *plans =
        queue->capture ? queue->plans : plans_of(queue, why);
    if (!plans)
        return NULL;
    tn_dnn_plan **slot = &plans->slot[tn__cuda_hash(problem->key,
                                                    problem->bytes) &
                                      (PLANS - 1)];
    if (!*slot || (*slot)->problem.describe != problem->describe ||
        (*slot)->problem.bytes != problem->bytes ||
        memcmp((*slot)->key, problem->key, problem->bytes) != 0) {
        if (queue->capture)
            return NULL;
        plan_free(*slot);
        *slot = plan_make(plans->handle, problem);
    }
    const tn_dnn_plan *p = *slot;
    *why = "cuDNN has no engine for this computation";
    if (!p || !p->usable)
        return NULL;
    *why = "out of memory for the workspace of cuDNN";
    return tn__cuda_scratch_ready(queue, problem->scratch_bytes +
                                             (uint64_t)p->workspace_bytes)
               ? NULL
               : p;
}

tn_dnn_status tn__dnn_plan_run(tn_queue *queue, const tn_dnn_plan *plan,
                               int64_t count, const int64_t *ids,
                               void *const *pointers)
{
    void *const workspace =
        (void *)(uintptr_t)(queue->scratch + plan->problem.scratch_bytes);
    tn_dnn_descriptor pack = NULL;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_PACK, &pack);
    set(&e, pack, TN_DNN_PACK_IDS, TN_DNN_IS_INT64, count, ids);
    set(&e, pack, TN_DNN_PACK_POINTERS, TN_DNN_IS_POINTER, count, pointers);
    set(&e, pack, TN_DNN_PACK_WORKSPACE, TN_DNN_IS_POINTER, 1, &workspace);
    finalize(&e, pack);
    if (!e)
        e = tn__dnn.execute(queue->plans->handle, plan->plan, pack);
    drop(&pack);
    return e;
}

tn_status tn__dnn_failed(const tn_queue *queue, tn_dnn_status status)
{
    return tn__host->fail(TN_ERR_INTERNAL, "%s: cudnnBackendExecute failed "
                                           "with status %d",
                          queue->device->listed->info.name, status);
}
