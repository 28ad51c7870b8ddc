/* graph.c: records the device work of a step, such as a training step, and
 * replays it, as CUDA graphs do in PyTorch. */
#include <base/context.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <device/recorder.h>
#include <ops/random/random.h>
#include <tenon/base.h>
#include <tenon/graph.h>
#include <tensor/tensor.h>

struct tn_graph {
    tn__object object;
    tn__record *record; /* owned */
};

static void destroy(tn__object *object)
{
    tn_graph *graph = (tn_graph *)object;
    tn__record_free(graph->record);
    tn__object_free(graph, sizeof *graph);
}

static const tn__class graph_class = {.name = "graph",
                                      .destroy = destroy};

/* Runs the program's function `step` in a new scope. If it fails without
 * recording an error, records one that begins with `what`, the name of the
 * public function. */
static tn_status run_step(const char *what, tn_graph_fn step, void *context)
{
    tn_scope *scope = tn_scope_open();
    tn_status status = scope ? step(context) : TN_ERR_MEMORY;
    tn_scope_close(scope);
    if (status < 0 && !tn__error_pending())
        return tn__fail(status, "%s: the step failed without a reason", what);
    return tn__error_pending() ? tn_error_code() : TN_OK;
}

/* Runs a step and records the work that it submits to the current device.
 * Records an error and returns NULL on failure. */
static tn__record *record_step(const char *what, tn_graph_fn step,
                               void *context)
{
    if (!step)
        return tn__fail_null(TN_ERR_ARGUMENT, "%s: step is NULL", what);
    tn_device *device = tn_device_current();
    tn__record *record =
        device ? tn__record_begin(device, "graph_record", "graph_replay",
                                  tn__tensor_recorded_drop) : NULL;
    if (!record)
        return NULL;
    tn_status status = run_step(what, step, context);
    tn__record_end(record);
    if (status < 0) {
        tn__record_free(record);
        return NULL;
    }
    return record;
}

tn_graph *tn_graph_record(tn_graph_fn step, void *context)
{
    if (tn__error_pending())
        return NULL;
    tn_graph *graph = tn__calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    tn__object_init(&graph->object, &graph_class);
    graph->record = record_step("graph_record", step, context);
    if (!graph->record) {
        tn__unref(graph);
        return NULL;
    }
    tn__record_instantiate(graph->record, NULL);
    return tn__scope_own(graph);
}

tn_status tn_graph_update(tn_graph *graph, tn_graph_fn step, void *context)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(graph, &graph_class, "graph_update", "graph"))
        return tn_error_code();
    tn__record *record = record_step("graph_update", step, context);
    if (!record)
        return tn_error_code();
    tn__record_instantiate(record, graph->record);
    tn__record_free(graph->record);
    graph->record = record;
    return TN_OK;
}

static void draw(uint64_t *seed, uint64_t *call)
{
    tn_rng_state drawn = tn__random_draw();
    *seed = drawn.seed;
    *call = drawn.call;
}

tn_status tn_graph_replay(tn_graph *graph)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(graph, &graph_class, "graph_replay", "graph"))
        return tn_error_code();
    if (tn__me.recording)
        return tn__fail(TN_ERR_STATE, "graph_replay: a graph is being "
                        "recorded: replay it after tn_graph_record");
    if (!tn__record_is_current(graph->record))
        return tn__fail(TN_ERR_STATE, "graph_replay: an object whose step is "
                        "recorded, such as an optimizer, has changed since: "
                        "call tn_graph_update");
    return tn__record_run(graph->record, draw);
}

int64_t tn_graph_count(const tn_graph *graph)
{
    return tn__object_has(graph, &graph_class, "graph_count", "graph")
               ? graph->record->count
               : 0;
}

int64_t tn_graph_calls(const tn_graph *graph)
{
    return tn__object_has(graph, &graph_class, "graph_calls", "graph")
               ? tn__record_calls(graph->record)
               : 0;
}

bool tn_graph_is_recording(void)
{
    return tn__me.recording != NULL;
}

static bool is_host(const tn_graph_host *host)
{
    return host && host->size >= offsetof(tn_graph_host, take_back) &&
           host->advance;
}

/* Calls advance outside of the recording. */
static tn_status advance_now(void *object, const tn_graph_host *host)
{
    tn__record *record = tn__me.recording;
    tn__me.recording = NULL;
    const tn_status status = host->advance(object);
    tn__me.recording = record;
    if (status < 0 && !tn__error_pending())
        return tn__fail(status, "graph_on_replay: advance failed without a "
                        "reason");
    return status < 0 ? status : TN_OK;
}

int tn_graph_on_replay(void *object, const tn_graph_host *host)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!host)
        return tn__fail(TN_ERR_ARGUMENT, "graph_on_replay: {host} is NULL");
    if (!is_host(host))
        return tn__fail(TN_ERR_ARGUMENT,
                        "graph_on_replay: {host}->size is %zu; expected "
                        "sizeof(tn_graph_host), and advance that is not NULL",
                        (size_t)host->size);
    if (!object)
        return tn__fail(TN_ERR_ARGUMENT, "graph_on_replay: {object} is NULL");
    if (!tn_keep(object)) {
        tn_error_rename("keep", "graph_on_replay", "object");
        return tn_error_code();
    }
    const tn__host_calls call = {
        host->version, host->advance,
        TN_HAS(tn_graph_host, host, take_back) ? host->take_back : NULL,
        TN_HAS(tn_graph_host, host, returns) && host->returns};
    const int given =
        tn__me.recording
            ? tn__record_host(object, &call)
            : tn__fail(TN_ERR_STATE, "graph_on_replay: nothing is being "
                       "recorded: call it while tn_graph_is_recording()");
    tn_drop(object); /* the recording has a reference */
    return given ? given : advance_now(object, host);
}
