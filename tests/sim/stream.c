/* stream.c: streams, events, and the order of their work. Work is deferred
 * until it must run: at a sync, a wait for an event, or a free. So a program
 * that forgets to wait always sees old data. With TENON_SIM_SEED some of the
 * work runs earlier, at random.
 *
 * A vector clock contains, for each stream, how much of its work is known to be
 * done. Events carry it from one stream to another, and a sync carries it to
 * the host (C. Fidge, "Timestamps in message-passing systems that preserve the
 * partial ordering", 1988). memory.c uses it to decide whether two accesses of
 * different streams are ordered. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

struct CUstream_st {
    sim_handle handle;
    sim_queue work;
    struct CUstream_st *next;
    unsigned number;
    uint32_t count;  /* number of pieces of work that have run */
    sim_clock clock; /* clock of the last piece of work that ran */
    struct CUgraph_st *capture; /* owned; NULL: the stream is not capturing */
};
struct CUevent_st {
    sim_handle handle;
    struct CUstream_st *stream; /* stream of the last record; NULL: never
                                 * recorded */
    uint64_t recorded, done;
    unsigned flags;
    sim_clock clock; /* clock of the last record that has run */
    struct timespec when; /* time of the last record that has run */
};

static struct CUstream_st *streams;
static unsigned stream_count;  /* number of streams that were ever created */
static sim_clock host_clock;
static uint32_t counts[SIM_CLOCKS]; /* pieces of work that have run, by stream
                                     * number */

static void know(sim_clock *clock, const sim_clock *more)
{
    for (int i = 0; i < SIM_CLOCKS; i++)
        if (clock->done[i] < more->done[i])
            clock->done[i] = more->done[i];
}

/* ---- work --------------------------------------------------------------- */

static void release(sim_work *w)
{
    if (w->release)
        w->release(w);
    free(w->owned);
}

static sim_work *take(sim_queue *q)
{
    sim_work *w = q->first;
    q->first = w->next;
    if (!q->first)
        q->last = &q->first;
    return w;
}

void sim_queue_drop(sim_queue *q)
{
    while (q->first) {
        sim_work *w = take(q);
        release(w);
        free(w);
    }
}

bool sim_queue_uses(const sim_queue *q, const void *uses)
{
    const sim_work *w = q->first;
    while (w && w->uses != uses)
        w = w->next;
    return w;
}

/* A device's rounding mode does not depend on that of the calling thread. */
static void run_one(struct CUstream_st *s)
{
    fenv_t callers;
    struct CUctx_st *context = s->handle.context;
    sim_work *w = take(&s->work);
    know(&s->clock, &w->given);
    s->clock.done[s->number] = ++counts[s->number];
    const sim_actor actor = {.context = context,
                             .stream = s->number,
                             .work = counts[s->number],
                             .clock = s->clock};
    feholdexcept(&callers);
    fesetenv(FE_DFL_ENV);
    tn_cu_result error = w->run(w, &actor);
    fesetenv(&callers);
    if (error && !context->sticky)
        context->sticky = error;
    release(w);
    free(w);
}

/* Runs all work of a stream, or all up to an event. */
static void run_stream(struct CUstream_st *s, const struct CUevent_st *to,
                       uint64_t mark)
{
    while (s && s->work.first && !s->handle.context->sticky &&
           (!to || to->done < mark))
        run_one(s);
}

tn_cu_result sim_give(tn_cu_stream stream, void *work, size_t bytes)
{
    if (!stream)
        sim_report("work for the default stream, which waits for all others");
    tn_cu_result error = sim_handle_check(stream, "stream", false);
    sim_work *w = error ? NULL : malloc(bytes);
    if (!w) {
        release(work);
        return error ? error : TN_CU_OUT_OF_MEMORY;
    }
    memcpy(w, work, bytes);
    w->given = host_clock;
    sim_queue *q = stream->capture ? &stream->capture->work : &stream->work;
    *q->last = w;
    q->last = &w->next;
    return 0;
}

void sim_finish(const struct CUctx_st *context)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->handle.context == context) {
            run_stream(s, NULL, 0);
            know(&host_clock, &s->clock);
        }
}

void sim_drop(const struct CUctx_st *context)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->handle.context == context)
            sim_queue_drop(&s->work);
}

bool sim_is_used(const void *uses)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (sim_queue_uses(&s->work, uses))
            return true;
    return sim_graph_uses(uses);
}

void sim_stir(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        while (s->work.first && !s->handle.context->sticky &&
               sim_random(3) == 1)
            run_one(s);
}

/* ---- streams ------------------------------------------------------------ */

tn_cu_result cuStreamCreate(tn_cu_stream *out, unsigned flags)
{
    ENTER(true);
    if (flags != TN_CU_NON_BLOCKING)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "a stream that waits for the default stream");
    struct CUstream_st *s = sim_handle_make("stream", sizeof *s);
    if (!s)
        return TN_CU_OUT_OF_MEMORY;
    s->work.last = &s->work.first;
    s->number = stream_count++ % SIM_CLOCKS;
    s->next = streams;
    streams = s;
    *out = s;
    return 0;
}

/* A real driver finishes the work later; this one finishes it now. */
tn_cu_result cuStreamDestroy_v2(tn_cu_stream stream)
{
    ENTER_WITH(stream, "stream", false);
    run_stream(stream, NULL, 0);
    sim_queue_drop(&stream->work);
    for (struct CUstream_st **s = &streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next;
            break;
        }
    stream->handle.live = false;
    return 0;
}

tn_cu_result cuStreamSynchronize(tn_cu_stream stream)
{
    ENTER_WITH(stream, "stream", false);
    if (stream->capture)
        return sim_refuse(SIM_CAPTURE_UNSUPPORTED,
                          "a stream that captures is waited for");
    run_stream(stream, NULL, 0);
    know(&host_clock, &stream->clock);
    return stream->handle.context->sticky;
}

/* ---- captures ------------------------------------------------------------ */

bool sim_captures(tn_cu_stream stream)
{
    return stream && stream->capture;
}

tn_cu_result cuStreamBeginCapture_v2(tn_cu_stream stream, int mode)
{
    ENTER_WITH(stream, "stream", true);
    /* Modes 0 and 1 would forbid cuMemAlloc and other calls during the
     * capture. */
    if (stream->capture || mode != 2)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          stream->capture ? "a stream captures already"
                                          : "a capture that is not relaxed");
    struct CUgraph_st *graph = sim_handle_make("graph", sizeof *graph);
    if (!graph)
        return TN_CU_OUT_OF_MEMORY;
    graph->work.last = &graph->work.first;
    graph->holders = 1;
    stream->capture = graph;
    return 0;
}

tn_cu_result cuStreamEndCapture(tn_cu_stream stream, tn_cu_graph *out)
{
    ENTER_WITH(stream, "stream", true);
    if (!stream->capture)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "the end of a capture that never began");
    *out = stream->capture;
    stream->capture = NULL;
    return 0;
}

/* ---- events ------------------------------------------------------------- */

typedef struct event_work {
    sim_work work;
    struct CUstream_st *stream; /* stream in which the event was recorded */
    struct CUevent_st *event;
    uint64_t mark; /* index of the event's record that this work makes or waits
                    * for */
} event_work;

static tn_cu_result run_record(sim_work *work, const sim_actor *actor)
{
    event_work *w = (event_work *)work;
    if (w->event->done < w->mark) {
        w->event->done = w->mark;
        w->event->clock = actor->clock;
        clock_gettime(CLOCK_MONOTONIC, &w->event->when);
    }
    return 0;
}

static tn_cu_result run_wait(sim_work *work, const sim_actor *actor)
{
    event_work *w = (event_work *)work;
    struct CUevent_st *event = w->event;
    (void)actor;
    if (event->done < w->mark)
        run_stream(event->stream, event, w->mark);
    know(&w->stream->clock, &event->clock);
    return event->stream ? event->stream->handle.context->sticky : 0;
}

static tn_cu_result give_event(tn_cu_stream stream, tn_cu_event event,
                               tn_cu_result (*run)(sim_work *,
                                                   const sim_actor *))
{
    if (sim_captures(stream))
        return sim_refuse(SIM_CAPTURE_UNSUPPORTED,
                          "an event on a stream that captures");
    event_work w = {.work = {.run = run}, .stream = stream, .event = event,
                    .mark = event->recorded};
    return sim_give(stream, &w, sizeof w);
}

tn_cu_result cuEventCreate(tn_cu_event *event, unsigned flags)
{
    ENTER(true);
    *event = sim_handle_make("event", sizeof **event);
    if (*event)
        (*event)->flags = flags;
    return *event ? 0 : TN_CU_OUT_OF_MEMORY;
}

tn_cu_result cuEventDestroy_v2(tn_cu_event event)
{
    ENTER_WITH(event, "event", false);
    event->handle.live = false; /* work that already waits for the event
                                 * continues to wait */
    return 0;
}

tn_cu_result cuEventRecord(tn_cu_event event, tn_cu_stream stream)
{
    ENTER_WITH(event, "event", false);
    TRY(sim_handle_check(stream, "stream", false));
    if (event->handle.context != stream->handle.context)
        return sim_refuse(
            SIM_INVALID_HANDLE,
            "an event of device %d recorded on a stream of device %d",
            event->handle.context->device, stream->handle.context->device);
    event->stream = stream;
    event->recorded++;
    return give_event(stream, event, run_record);
}

/* Runs pending work, so that repeated queries succeed eventually, as on a real
 * device. */
tn_cu_result cuEventQuery(tn_cu_event event)
{
    ENTER_WITH(event, "event", false);
    struct CUctx_st *context = event->handle.context;
    bool done = event->done >= event->recorded;
    if (!done && event->stream->work.first && !context->sticky)
        run_one(event->stream);
    if (done)
        know(&host_clock, &event->clock);
    return context->sticky ? context->sticky
           : done          ? 0
                           : TN_CU_NOT_READY;
}

tn_cu_result cuEventElapsedTime(float *milliseconds, tn_cu_event from,
                                tn_cu_event to)
{
    ENTER_WITH(from, "event", true);
    TRY(sim_handle_check(to, "event", true));
    if ((from->flags | to->flags) & TN_CU_NO_TIMING || !from->recorded ||
        !to->recorded)
        return sim_refuse(SIM_INVALID_HANDLE, "the time of an event that %s",
                          from->recorded && to->recorded
                              ? "was made to have none"
                              : "was never recorded");
    if (from->done < from->recorded || to->done < to->recorded)
        return TN_CU_NOT_READY;
    *milliseconds =
        (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 +
                (double)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6);
    return from->handle.context->sticky;
}

tn_cu_result cuStreamWaitEvent(tn_cu_stream stream, tn_cu_event event,
                               unsigned flags)
{
    (void)flags;
    ENTER_WITH(event, "event", false);
    return give_event(stream, event, run_wait);
}

/* ---- for the simulated libraries ---------------------------------------- */

typedef struct call_work {
    sim_work work; /* first; it owns the call's context */
    sim_function *call;
} call_work;

static tn_cu_result run_call(sim_work *work, const sim_actor *actor)
{
    return ((call_work *)work)->call(work->owned, actor);
}

tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                      const void *context, size_t bytes)
{
    ENTER(true);
    call_work w = {.work = {.run = run_call, .owned = malloc(bytes)},
                   .call = call};
    if (!w.work.owned)
        return TN_CU_OUT_OF_MEMORY;
    memcpy(w.work.owned, context, bytes);
    return sim_give(stream, &w, sizeof w);
}

void *sim_reach(const sim_actor *actor, int how, const char *what,
                tn_cu_pointer at, size_t bytes, tn_cu_result *error)
{
    return sim_memory_at(actor, how, what, at, bytes, error);
}
