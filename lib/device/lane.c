/* lane.c: measures when a device executed its work, for a trace. Each piece of
 * work has an event before and after it (as torch.cuda.Event).
 *
 * The device reports only times between two of its events, so they are
 * converted to the host's clock. For that, one more event is recorded just
 * before a synchronisation. It has been reached when the synchronisation
 * returns, so its time is taken to be the host's time then. */
#include <device/lane.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/timeline.h>
#include <device/registry.h>

/* MAX_WORK is the largest number of pieces of work that wait to be written to
 * the trace. LONGEST is the longest time that a piece of work may wait, in
 * microseconds. Devices report the time between events in milliseconds as
 * float32, whose resolution at 100 ms is 0.01 us. */
enum { MAX_WORK = 512 };
#define LONGEST 1e5

typedef struct timed_work {
    tn__async_span span;
    tn_event *from, *to; /* events before and after the work, owned and reused;
                          * NULL until first used */
} timed_work;

struct tn__lane {
    tn__lane *next; /* next in the list of the lanes (rows of the trace) of all
                     * devices */
    tn_device *device;
    uint64_t trace; /* number of the trace in which work of the device was last
                     * recorded */
    bool refuses; /* true if the device has no timed events, or an event failed
                   * in that trace */
    bool begun;   /* true if the event before work[count] was recorded */
    bool marked;  /* true if the event `now` was recorded */
    size_t count;
    tn_event *now; /* the event before a synchronisation, owned */
    timed_work work[MAX_WORK];
};

static _Atomic(tn__lane *) lanes; /* list of the lanes (rows of the trace) of
                                   * all devices; never freed, as devices are
                                   * not */

void tn__lanes_each(void (*visit)(tn_device *device))
{
    for (tn__lane *l = atomic_load(&lanes); l; l = l->next)
        visit(l->device);
}

static tn__lane *lane_make(tn_device *device)
{
    tn__lane *lane = tn__calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->device = device;
    lane->next = atomic_load(&lanes);
    while (!atomic_compare_exchange_weak(&lanes, &lane->next, lane))
        ;
    return lane;
}

/* Records an event in the device's queue, and makes the event first if
 * necessary. Returns false with no error recorded if that fails; the caller
 * then waits for the device instead. */
static bool record(tn__lane *lane, tn_event **event)
{
    tn_device *device = lane->device;
    tn_status status = TN_OK;
    tn__error before;
    if (lane->refuses)
        return false;
    tn__error_hide(&before);
    if (!*event)
        status = device->plugin->event_open_timed(device->handle, event);
    if (!status)
        status = device->plugin->event_record(device->queue, *event);
    tn_error_clear();
    tn__error_restore(&before);
    lane->refuses = status != TN_OK;
    return !status;
}

void tn__lane_begin(tn__lane **out, tn_device *device, const char *name)
{
    tn__lane *lane = *out;
    if (!lane)
        lane = *out = lane_make(device);
    if (!lane)
        return;
    timed_work *w = &lane->work[lane->count];
    tn__async_span_begin(&w->span, name);
    if (lane->trace != w->span.host.trace) {
        const tn_plugin *plugin = device->plugin;
        lane->trace = w->span.host.trace;
        lane->refuses = !plugin->event_open_timed || !plugin->event_elapsed ||
                        !plugin->event_record;
    }
    lane->begun = w->span.host.trace && record(lane, &w->from);
}

bool tn__lane_end(tn__lane *lane)
{
    if (!lane || !lane->begun)
        return false;
    timed_work *w = &lane->work[lane->count];
    lane->begun = false;
    if (!record(lane, &w->to))
        return false;
    tn__async_span_end(&w->span);
    lane->count++;
    return lane->count < MAX_WORK &&
           tn__timeline_now() - lane->work[0].span.host.begin < LONGEST;
}

void tn__lane_mark(tn__lane *lane)
{
    if (lane && lane->count)
        lane->marked = record(lane, &lane->now);
}

void tn__lane_write(tn__lane *lane)
{
    if (!lane || !lane->count)
        return;
    const double now = tn__timeline_now();
    tn_device *device = lane->device;
    const tn_plugin *plugin = device->plugin;
    double ago, took;
    tn__error before;
    tn__error_hide(&before);
    for (size_t i = 0; i < lane->count && lane->marked; i++) {
        const timed_work *w = &lane->work[i];
        if (!plugin->event_elapsed(w->from, lane->now, &ago) &&
            !plugin->event_elapsed(w->from, w->to, &took))
            tn__async_span_write(&w->span, device->id, device->name,
                                 now - ago * 1e-3, took * 1e-3);
    }
    tn_error_clear();
    tn__error_restore(&before);
    lane->count = 0;
    lane->marked = false;
}
