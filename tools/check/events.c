/* events.c: checks the events by which one queue waits for work of another.
 *
 * An asynchronous device is kept busy with copies of a large buffer, so that
 * work submitted after them stays pending for some time. Then the check looks
 * at the memory that this work writes, to see whether it was done too early. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "process.h"

/* ---- work that takes a while -------------------------------------------- */

enum { LARGE = 8 << 20, LEAST_MS = 50 };

typedef struct busy {
    by_hand h;
    tn_queue *second;
    tn_buffer *large, *small;
    unsigned char *host; /* owned array of LARGE equal bytes, the source of
                            copies */
    unsigned char *back; /* owned array of LARGE bytes, the destination of
                            copies to the host */
    int times;           /* number of copies that together take LEAST_MS */
} busy;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static tn_status put(const busy *b, tn_queue *queue, tn_buffer *to,
                     unsigned char *from, size_t bytes)
{
    const tn_copy_args copy = {.size = sizeof copy,
                               .direction = TN_COPY_TO_DEVICE,
                               .dst = to,
                               .host = from,
                               .bytes = bytes,
                               .rows = 1};
    return b->h.plugin->copy(queue, &copy);
}

static tn_status get(const busy *b, tn_queue *queue, unsigned char *to,
                     tn_buffer *from, size_t bytes)
{
    const tn_copy_args copy = {.size = sizeof copy,
                               .direction = TN_COPY_TO_HOST,
                               .src = from,
                               .host = to,
                               .bytes = bytes,
                               .rows = 1};
    return b->h.plugin->copy(queue, &copy);
}

static bool finish(const busy *b, tn_queue *queue)
{
    tn_fault fault = {.size = sizeof fault};
    tn_status status = b->h.plugin->queue_sync(queue, &fault);
    return expect(status == TN_OK, "queue_sync returns %d: %s", status,
                  by_hand_failure());
}

static bool well(tn_status status, const char *what)
{
    return expect(status == TN_OK, "%s returns %d: %s", what, status,
                  by_hand_failure());
}

/* Submits copies to the queue that take LEAST_MS milliseconds. */
static bool keep_busy(const busy *b, tn_queue *queue)
{
    for (int i = 0; i < b->times; i++)
        if (!well(put(b, queue, b->large, b->host, LARGE), "copy"))
            return false;
    return true;
}

/* Opens the device and measures how many copies take LEAST_MS. Returns false if
 * the check has failed, or is skipped because the device has no events. */
static bool begin(busy *b)
{
    *b = (busy){.times = 1};
    if (!open_device(&b->h))
        return false;
    const tn_plugin *p = b->h.plugin;
    if (!p->event_open || !p->event_close || !p->event_record ||
        !p->event_query || !p->queue_wait) {
        leave_out("the plugin has no events");
        by_hand_close(&b->h);
        return false;
    }
    b->host = malloc(LARGE);
    b->back = malloc(LARGE);
    if (!expect(b->host && b->back, "tenon-plugin-check itself ran out of "
                                    "memory"))
        return false;
    memset(b->host, 1, LARGE);
    if (!well(p->queue_open(b->h.device, &b->second), "queue_open") ||
        !well(p->buffer_alloc(b->h.device, LARGE, &b->large),
              "buffer_alloc") ||
        !well(p->buffer_alloc(b->h.device, 64, &b->small), "buffer_alloc") ||
        !keep_busy(b, b->h.queue) || !finish(b, b->h.queue))
        return false;
    if (!(b->h.info.caps & TN_CAP_ASYNC))
        return true; /* a synchronous device needs no measurement */
    double from = now_ms();
    if (!keep_busy(b, b->h.queue) || !finish(b, b->h.queue))
        return false;
    double once = now_ms() - from;
    b->times = once > 0.1 ? 1 + (int)(LEAST_MS / once) : 250;
    return true;
}

static void end(busy *b)
{
    const tn_plugin *p = b->h.plugin;
    p->queue_close(b->second);
    p->buffer_free(b->h.device, b->large);
    p->buffer_free(b->h.device, b->small);
    by_hand_close(&b->h);
    free(b->host);
    free(b->back);
}

static tn_event *open_event(const busy *b)
{
    tn_event *event = NULL;
    tn_status status = b->h.plugin->event_open(b->h.device, &event);
    expect(status == TN_OK && event, "event_open returns %d: %s", status,
           by_hand_failure());
    return has_failed() ? NULL : event;
}

static bool record(const busy *b, tn_queue *queue, tn_event *event)
{
    return well(b->h.plugin->event_record(queue, event), "event_record");
}

static bool is_done(const busy *b, tn_event *event)
{
    uint32_t done = 77;
    tn_status status = b->h.plugin->event_query(event, &done);
    expect(status == TN_OK && done <= 1, "event_query returns %d and sets done "
                                         "to %u: %s",
           status, done, by_hand_failure());
    return done == 1;
}

/* ---- queue_wait --------------------------------------------------------- */

static void waits(int argument)
{
    (void)argument;
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *event = open_event(&b);
    unsigned char marker[64], back[64];
    for (int round = 1; event && round <= 3 && !has_failed(); round++) {
        trying("round %d: one queue copies, event_record; another has "
               "queue_wait, then copies back", round);
        memset(marker, 16 + round, sizeof marker);
        memset(back, 0, sizeof back);
        if (!keep_busy(&b, b.h.queue) ||
            !well(put(&b, b.h.queue, b.small, marker, sizeof marker),
                  "copy") ||
            !record(&b, b.h.queue, event) ||
            !well(p->queue_wait(b.second, event), "queue_wait") ||
            !well(get(&b, b.second, back, b.small, sizeof back), "copy") ||
            !finish(&b, b.second))
            return;
        expect(memcmp(marker, back, sizeof back) == 0,
               "the second queue did not wait for the event: got %u, want %u",
               back[0], marker[0]);
        finish(&b, b.h.queue);
        expect(is_done(&b, event),
               "an event is not complete after queue_sync of its queue");
    }
    if (event)
        p->event_close(event);
    end(&b);
}

/* Checks that queue_wait waits for the last record of the event that was made
 * before queue_wait. After queue_wait the event is recorded again, at a point
 * that is reached only when the wait has ended. So a queue that waits for this
 * second record hangs. */
static void captures(int argument)
{
    (void)argument;
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *event = open_event(&b), *other = open_event(&b);
    trying("event e recorded on A, B waits for e and records f, A waits for f "
           "and records e again; queue_sync of B");
    if (has_failed() || !keep_busy(&b, b.h.queue) ||
        !record(&b, b.h.queue, event) ||
        !well(p->queue_wait(b.second, event), "queue_wait") ||
        !record(&b, b.second, other) ||
        !well(p->queue_wait(b.h.queue, other), "queue_wait") ||
        !record(&b, b.h.queue, event) || !finish(&b, b.second) ||
        !finish(&b, b.h.queue))
        return;
    p->event_close(event);
    p->event_close(other);
    end(&b);
}

/* ---- event_query -------------------------------------------------------- */

/* Records the event after a large copy to the host and calls event_query until
 * it reports that the event is complete. Then the last byte of the copy must
 * have arrived. */
static void ask(const busy *b, tn_event *event)
{
    memset(b->back, 0, LARGE);
    if (!keep_busy(b, b->h.queue) ||
        !well(get(b, b->h.queue, b->back, b->large, LARGE), "copy") ||
        !record(b, b->h.queue, event))
        return;
    double from = now_ms();
    while (!is_done(b, event) && !has_failed() && now_ms() - from < 5000)
        ;
    const unsigned char last = *(volatile unsigned char *)&b->back[LARGE - 1];
    expect(last == 1, "event_query reports the event as complete while the "
                      "work before event_record is pending");
    expect(now_ms() - from < 5000,
           "event_query does not report the event as complete within 5 s, "
           "without a queue_sync");
    finish(b, b->h.queue);
}

static void queries(int argument)
{
    (void)argument;
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *event = open_event(&b);
    if (!event)
        return;
    trying("event_query of an event that was never recorded");
    expect(is_done(&b, event), "event_query reports it as not complete");
    trying("queue_wait for an event that was never recorded");
    if (!well(p->queue_wait(b.second, event), "queue_wait") ||
        !finish(&b, b.second))
        return;
    for (int round = 1; round <= 3 && !has_failed(); round++) {
        trying("copy to the host, record %d of an event, event_query", round);
        ask(&b, event);
    }
    p->event_close(event);
    end(&b);
}

/* Checks that recording an event again replaces its first record. The event is
 * recorded after long work and then on an idle queue. It must be complete
 * while the work is pending. A second event, recorded after the same work,
 * shows whether it is still pending. A round proves nothing if the work ended
 * too early, as on a loaded machine, or if the device's queues wait for each
 * other. */
static void rerecords(int argument)
{
    (void)argument;
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *event = open_event(&b), *first = open_event(&b);
    int shown = 0;
    for (int round = 1; round <= 20 && shown < 3 && !has_failed(); round++) {
        trying("round %d: event_record after long work, event_record on an "
               "idle queue, queue_sync of that, event_query", round);
        if (!keep_busy(&b, b.h.queue) || !record(&b, b.h.queue, event) ||
            !record(&b, b.h.queue, first) || !record(&b, b.second, event) ||
            !finish(&b, b.second))
            return;
        bool done = is_done(&b, event), early = is_done(&b, first);
        expect(done || early,
               "event_query reports the event as not complete: it reports the "
               "record before the last");
        shown += !early;
        finish(&b, b.h.queue);
        expect(is_done(&b, event), "event_query reports the event as not "
                                   "complete although all work is complete");
    }
    if (event)
        p->event_close(event);
    if (first)
        p->event_close(first);
    end(&b);
}

/* ---- the end of an event ------------------------------------------------ */

/* Closes an event while its record, and another queue's wait for it, are
 * pending after long work. New events, which may reuse its memory, must not
 * disturb that wait. */
static void closes(int argument)
{
    (void)argument;
    enum { OTHERS = 8 };
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *other[OTHERS] = {NULL};
    unsigned char marker[64], back[64] = {0};
    memset(marker, 9, sizeof marker);
    trying("event_record after long work, queue_wait on another queue, "
           "event_close, event_open of others, queue_sync of both");
    tn_event *event = open_event(&b);
    if (!event)
        return;
    process_watch_freed(true);
    if (!keep_busy(&b, b.h.queue) ||
        !well(put(&b, b.h.queue, b.small, marker, sizeof marker), "copy") ||
        !record(&b, b.h.queue, event) ||
        !well(p->queue_wait(b.second, event), "queue_wait") ||
        !well(get(&b, b.second, back, b.small, sizeof back), "copy"))
        return;
    p->event_close(event);
    for (int i = 0; i < OTHERS; i++)
        other[i] = open_event(&b);
    finish(&b, b.second);
    finish(&b, b.h.queue);
    expect(memcmp(marker, back, sizeof back) == 0,
           "the second queue did not wait for the event that was closed: got "
           "%u, want %u", back[0], marker[0]);
    for (int i = 0; i < OTHERS; i++)
        if (other[i])
            p->event_close(other[i]);
    end(&b);
    long written = process_watch_freed(false);
    expect(written == 0, "writes to memory that it has freed (%ld blocks)",
           written);
}

/* ---- timed events -------------------------------------------------------- */

/* Records two timed events with a copy between them and checks the time between
 * them. */
static void timed(int argument)
{
    (void)argument;
    busy b;
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    tn_event *from = NULL, *to = NULL;
    double ns = -1, none = -1, back = -1;
    if (!p->event_open_timed || !p->event_elapsed) {
        leave_out("the plugin has no timed events");
        end(&b);
        return;
    }
    trying("event_open_timed, event_record, copy, event_record, "
           "event_elapsed");
    expect(p->event_open_timed(b.h.device, &from) == TN_OK &&
               p->event_open_timed(b.h.device, &to) == TN_OK &&
               record(&b, b.h.queue, from) && keep_busy(&b, b.h.queue) &&
               record(&b, b.h.queue, to) && finish(&b, b.h.queue) &&
               p->event_elapsed(from, to, &ns) == TN_OK &&
               p->event_elapsed(to, from, &back) == TN_OK &&
               p->event_elapsed(from, from, &none) == TN_OK,
           "a call fails: %s", by_hand_failure());
    expect(ns >= 0 && none == 0 && back <= 0 && ns < 60e9,
           "event_elapsed returns %g ns from an event to a later one, %g ns in "
           "reverse, and %g ns from an event to itself",
           ns, back, none);
    if (from)
        p->event_close(from);
    if (to)
        p->event_close(to);
    end(&b);
}

/* ---- memory ------------------------------------------------------------- */

/* Frees a buffer while work that uses it is pending, and allocates buffers that
 * may reuse its memory. The pending work must not fail and must not write to
 * the new buffers. */
static void frees(int argument)
{
    (void)argument;
    enum { OTHERS = 4, BYTES = 1 << 20 };
    busy b;
    tn_buffer *other[OTHERS];
    if (!begin(&b))
        return;
    const tn_plugin *p = b.h.plugin;
    trying("a copy to a buffer after other work, buffer_free, buffer_alloc of "
           "other buffers of this size, queue_sync");
    tn_buffer *buffer = NULL;
    if (!well(p->buffer_alloc(b.h.device, BYTES, &buffer), "buffer_alloc") ||
        !keep_busy(&b, b.h.queue) ||
        !well(put(&b, b.h.queue, buffer, b.host, BYTES), "copy"))
        return;
    process_watch_freed(true);
    p->buffer_free(b.h.device, buffer);
    memset(b.back, 3, BYTES);
    for (int i = 0; i < OTHERS; i++)
        if (!well(p->buffer_alloc(b.h.device, BYTES, &other[i]),
                  "buffer_alloc") ||
            !well(put(&b, b.second, other[i], b.back, BYTES), "copy"))
            return;
    finish(&b, b.second);
    finish(&b, b.h.queue);
    for (int i = 0; i < OTHERS && !has_failed(); i++) {
        memset(b.back, 0, BYTES);
        by_hand_copy(&b.h, other[i], 0, b.back, BYTES, false);
        for (int k = 0; k < BYTES; k++)
            if (!expect(b.back[k] == 3,
                        "byte %d of a buffer is %u, not 3: work on a freed "
                        "buffer writes to it", k, b.back[k]))
                break;
        p->buffer_free(b.h.device, other[i]);
    }
    end(&b);
    long written = process_watch_freed(false);
    expect(written == 0, "writes to memory that it has freed (%ld blocks)",
           written);
}

static const check of_events[] = {
    {1, "waits",
     "work that follows queue_wait on a queue begins after all work before the "
     "event's record is complete",
     .body = waits},
    {1, "waits with later records",
     "queue_wait waits for the event's last record before the call, even if "
     "the event is recorded again later",
     .body = captures},
    {1, "event queries",
     "event_query reports an event as complete when all work before its last "
     "record is complete, and an event that was never recorded as complete",
     .body = queries},
    {1, "events recorded again",
     "event_query reports only the event's last record, on any queue",
     .body = rerecords},
    {1, "events closed while pending",
     "an event may be closed while it is pending: the recorded work and the "
     "waits for it continue",
     .body = closes},
    {1, "timed events",
     "event_elapsed returns the device's time from one complete event to "
     "another, in nanoseconds",
     .body = timed},
    {1, "buffers freed in use",
     "buffer_free: pending work on the buffer continues until it is complete",
     .body = frees},
};

int event_checks(check *list, int count)
{
    return check_add_all(list, count, of_events,
                         sizeof of_events / sizeof *of_events);
}
