/* timeline.c: writes a trace in Chrome's trace format (as torch.profiler's
 * export_chrome_trace): a JSON array of events, one on each line. Threads
 * format events and append them to one buffer under a lock. The closing bracket
 * of the array is written only at the end. Viewers accept a file without it, so
 * the file is readable even after a crash. */
#include <base/timeline.h>

#include <base/error.h>
#include <base/context.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/plain.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, EVENT = 2048, NAME = 256, SHAPES = 512 };

_Atomic uint8_t tn__timeline_state;

static tn__lock lock = TN__LOCK_INIT;
/* `lock` guards the variables from here to `named`. */
static char buffer[BUFFER];
static size_t used;
static double flushed; /* time at which the buffer was last written to the file,
                        * in microseconds */
static int file = -1;
static int failed; /* errno of the first write that failed; 0 if none failed */
static tn__limits limits;
static void (*starter)(void);
static _Atomic(void (*)(void)) before_stop;
static uint64_t named; /* bit i is set if the name of lane i (the row of a
                        * device) was written to the file */

static _Atomic uint64_t trace_number; /* number of the trace that is running; 0
                                       * if none is */
static _Atomic uint64_t trace_count;
static _Atomic int thread_count;

double tn__timeline_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- writing the file ---------------------------------------------------- */

static void flush(void)
{
    for (size_t done = 0; done < used && !failed;) {
        ssize_t n = write(file, buffer + done, used - done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EINTR)
            failed = errno;
    }
    used = 0;
}

static void put(const char *text, size_t length)
{
    if (used + length > BUFFER)
        flush();
    memcpy(buffer + used, text, length);
    used += length;
}

/* Returns the number of bytes of the UTF-8 character at c; 0 if it is
 * invalid. */
static int character(const unsigned char *c)
{
    static const struct {
        /* valid ranges of the first and of the second byte */
        unsigned char first, last, low, high;
        int bytes;
    } form[] = {{0x01, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
                {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t f = 0; f < sizeof form / sizeof *form; f++) {
        if (*c < form[f].first || *c > form[f].last)
            continue;
        if (form[f].bytes > 1 && (c[1] < form[f].low || c[1] > form[f].high))
            return 0;
        for (int i = 2; i < form[f].bytes; i++)
            if ((c[i] & 0xc0) != 0x80)
                return 0;
        return form[f].bytes;
    }
    return 0;
}

/* Writes text as the contents of a JSON string, cut off after `room` bytes.
 * Replaces invalid UTF-8 by '?'. */
static void escape(char *out, size_t room, const char *text)
{
    size_t n = 0;
    const unsigned char *c = (const unsigned char *)text;
    while (*c && n + 7 < room) {
        int bytes = character(c);
        if (*c == '"' || *c == '\\')
            out[n++] = '\\';
        if (*c < 0x20)
            n += (size_t)snprintf(out + n, room - n, "\\u%04x", *c);
        else if (bytes == 0)
            out[n++] = '?';
        else
            memcpy(out + n, c, (size_t)bytes);
        n += *c < 0x20 || bytes == 0 ? 0 : (size_t)bytes;
        c += bytes ? bytes : 1;
    }
    out[n] = 0;
}

/* An event of the trace as JSON, which is built by appending to it. */
typedef struct event {
    char text[EVENT];
    size_t length;
} event;

static void add(event *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add(event *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = tn__plain_vprint(e->text + e->length, EVENT - e->length, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < EVENT - e->length)
        e->length += (size_t)n;
}

static void add_text(event *e, const char *name, const char *text)
{
    char inside[SHAPES];
    escape(inside, sizeof inside, text);
    add(e, "%s\"%s\":\"%s\"", e->text[e->length - 1] == '{' ? "" : ",", name,
        inside);
}

/* Appends "name":x, with x as an integer. */
static void add_number(event *e, const char *name, double x)
{
    add(e, "%s\"%s\":%lld", e->text[e->length - 1] == '{' ? "" : ",", name,
        (long long)x);
}

/* Appends "name":x, with three decimals. */
static void add_decimal(event *e, const char *name, double x)
{
    long long thousandths = (long long)(x * 1000);
    add(e, "%s\"%s\":%lld.%03lld",
        e->text[e->length - 1] == '{' ? "" : ",", name, thousandths / 1000,
        thousandths % 1000);
}

/* ---- spans --------------------------------------------------------------- */

void tn__span_open(tn__span *span)
{
    uint8_t wanted = TN__TIMELINE_WANTED;
    if (atomic_compare_exchange_strong(&tn__timeline_state, &wanted,
                                       TN__TIMELINE_OFF))
        starter();
    if (!tn__timeline_is_live())
        return;
    if (!tn__me.timeline_number)
        tn__me.timeline_number = ++thread_count;
    span->trace = atomic_load(&trace_number);
    span->before = tn__me.tally;
    span->begin = tn__timeline_now();
}

static void add_head(event *e, const char *name, const char *category,
                     int thread, double begin, double took)
{
    char inside[NAME];
    escape(inside, sizeof inside, name);
    add(e,
        ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%ld,"
        "\"tid\":%d", inside, category, (long)getpid(), thread);
    add_decimal(e, "ts", begin);
    add_decimal(e, "dur", took);
    add(e, ",\"args\":{");
}

/* Returns the device work that this thread has submitted since its tally was
 * `before`. */
static tn__tally since(const tn__tally *before)
{
    return (tn__tally){.bytes = tn__me.tally.bytes - before->bytes,
                       .operations = tn__me.tally.operations - before->operations,
                       .instructions =
                           tn__me.tally.instructions - before->instructions,
                       .multiplies = tn__me.tally.multiplies - before->multiplies,
                       .calls = tn__me.tally.calls - before->calls,
                       .foreign = tn__me.tally.foreign - before->foreign,
                       .queued = tn__me.tally.queued - before->queued};
}

static void add_done(event *e, const tn__tally *did)
{
    if (!did->calls)
        return;
    add_number(e, "calls", (double)did->calls);
    add_number(e, "bytes", did->bytes);
    add_number(e, "operations", did->operations);
    if (did->instructions > 0) {
        add_number(e, "instructions", did->instructions);
        add_number(e, "multiplies", did->multiplies);
    }
}

/* Appends "of_limit": the time that the work would take at the device's peak
 * rates, divided by the time that it took. The caller holds the lock. */
static void add_of_limit(event *e, const tn__tally *did, double took)
{
    if (!did->calls || !limits.device || did->foreign || took <= 0)
        return;
    double least = did->bytes / limits.bytes;
    if (did->operations / limits.operations > least)
        least = did->operations / limits.operations;
    add_decimal(e, "of_limit", least * 1e6 / took);
}

/* Writes the buffer to the file every 100 ms, so that little is lost in a
 * crash. `end` is the current time in microseconds. The caller holds the
 * lock. */
static void flush_by(double end)
{
    if (end > flushed + 1e5) {
        flushed = end;
        flush();
    }
}

void tn__span_close(const tn__span *span, const char *category,
                    const char *name, const char *shapes)
{
    double took = tn__timeline_now() - span->begin;
    if (span->trace != atomic_load(&trace_number))
        return;
    event e = {.length = 0};
    add_head(&e, name, category, tn__me.timeline_number, span->begin, took);
    if (shapes && *shapes)
        add_text(&e, "shapes", shapes);
    if (tn__me.location.path)
        add_text(&e, "module", tn_path_text(tn__me.location.path));
    const tn__tally did = since(&span->before);
    add_done(&e, &did);
    tn__lock_take(&lock);
    if (file >= 0 && span->trace == atomic_load(&trace_number)) {
        if (!did.queued)
            add_of_limit(&e, &did, took);
        add(&e, "}}");
        put(e.text, e.length);
        flush_by(span->begin + took);
    }
    tn__lock_give(&lock);
}

void tn__timeline_count(const void *device, double bytes, double operations)
{
    tn__me.tally.calls++;
    tn__me.tally.bytes += bytes;
    tn__me.tally.operations += operations;
    tn__me.tally.foreign += device != limits.device;
}

void tn__timeline_count_instructions(double instructions, double multiplies)
{
    tn__me.tally.instructions += instructions;
    tn__me.tally.multiplies += multiplies;
}

/* ---- spans of work on an asynchronous device ----------------------------- */

void tn__async_span_begin(tn__async_span *span, const char *name)
{
    span->name = name;
    span->host.trace = 0;
    if (atomic_load(&tn__timeline_state) == TN__TIMELINE_ON)
        tn__span_open(&span->host);
}

void tn__async_span_end(tn__async_span *span)
{
    span->thread = tn__me.timeline_number;
    span->path = tn__me.location.path ? tn_path_text(tn__me.location.path)
                                      : NULL;
    span->did = since(&span->host.before);
    tn__me.tally.queued++;
}

/* The thread id of lane 0 in the file. A lane shows the work of one device.
 * Viewers show it as a thread, so its id must differ from the ids of real
 * threads. */
enum { LANE = 10000 };

static void put_lane(int id, const char *name)
{
    event e = {.length = 0};
    if (named >> id & 1)
        return;
    named |= 1ull << id;
    add(&e, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%ld,"
            "\"tid\":%d,\"args\":{", (long)getpid(), LANE + id);
    add_text(&e, "name", name);
    add(&e, "}}");
    put(e.text, e.length);
}

/* Appends one end of an arrow that viewers draw from the call that submitted
 * work to the work itself. `end` is "s" (start) where the work was submitted,
 * or "f" (finish) where it ran. */
static void add_arrow(event *e, const char *end, uint64_t id, int thread,
                      double at)
{
    add(e,
        ",\n{\"name\":\"given\",\"cat\":\"given\",\"ph\":\"%s\","
        "\"bp\":\"e\",\"id\":%llu,\"pid\":%ld,\"tid\":%d",
        end, (unsigned long long)id, (long)getpid(), thread);
    add_decimal(e, "ts", at);
    add(e, "}");
}

void tn__async_span_write(const tn__async_span *span, int id, const char *lane,
                     double begin, double took)
{
    static uint64_t arrows; /* number of arrows so far; `lock` guards it */
    event e = {.length = 0};
    add_head(&e, span->name, "device", LANE + id, begin, took);
    if (span->path)
        add_text(&e, "module", span->path);
    add_done(&e, &span->did);
    add_decimal(&e, "given", span->host.begin);
    add_number(&e, "thread", span->thread);
    tn__lock_take(&lock);
    if (file >= 0 && span->host.trace == atomic_load(&trace_number)) {
        put_lane(id, lane);
        add_of_limit(&e, &span->did, took);
        add(&e, "}}");
        add_arrow(&e, "s", ++arrows, span->thread, span->host.begin);
        add_arrow(&e, "f", arrows, LANE + id, begin);
        put(e.text, e.length);
        flush_by(begin + took);
    }
    tn__lock_give(&lock);
}

/* ---- starting and stopping a trace --------------------------------------- */

static void stop_at_exit(void)
{
    if (atomic_load(&tn__timeline_state) == TN__TIMELINE_ON)
        tn__timeline_stop();
}

/* Sets a function that is called before a trace ends, and makes sure that a
 * trace is stopped at exit. The caller has just opened a device, whose driver
 * may shut down in an atexit handler. Handlers run in reverse order of
 * registration. So the handler registered here stops the trace before the
 * driver shuts down. */
void tn__timeline_before_stop(void (*write)(void))
{
    atomic_store(&before_stop, write);
    atexit(stop_at_exit);
}

/* Closes the trace file in the child of a fork, which must not write to the
 * file of its parent. */
static void after_fork(void)
{
    if (file >= 0)
        close(file);
    file = -1;
    atomic_store(&trace_number, 0);
    atomic_store(&tn__timeline_state, TN__TIMELINE_OFF);
}

static pthread_once_t ends_once = PTHREAD_ONCE_INIT;

static void register_ends(void)
{
    pthread_atfork(NULL, NULL, after_fork);
    atexit(stop_at_exit);
}

tn_status tn__timeline_start(const char *path, const tn__limits *against)
{
    pthread_once(&ends_once, register_ends);
    tn__lock_take(&lock);
    tn_status status = TN_OK;
    if (file >= 0) {
        status = tn__fail(TN_ERR_STATE, "trace_start: a trace is running; "
                                        "tn_trace_stop ends it");
    } else {
        /* O_NONBLOCK: a FIFO that nobody reads is an error. Without it, open
         * would wait, and every thread that records an event with it. */
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK,
                    0666);
        if (file < 0)
            status = tn__fail(TN_ERR_IO, "trace_start: %s: %s", path,
                              strerror(errno));
    }
    if (!status) {
        fcntl(file, F_SETFL, 0); /* a FIFO with a slow reader loses nothing */
        used = 0;
        failed = 0;
        flushed = 0;
        named = 0;
        limits = *against;
        event e = {.length = 0};
        add(&e, "[{\"name\":\"tenon\",\"ph\":\"M\",\"pid\":%ld,\"tid\":0,"
                "\"args\":{", (long)getpid());
        if (limits.device) {
            add_text(&e, "device", limits.device_name);
            add_number(&e, "bytes_per_second", limits.bytes);
            add_number(&e, "operations_per_second", limits.operations);
        }
        add(&e, "}}");
        put(e.text, e.length);
        atomic_store(&trace_number, ++trace_count);
        atomic_store(&tn__timeline_state, TN__TIMELINE_ON);
    }
    tn__lock_give(&lock);
    return status;
}

tn_status tn__timeline_stop(void)
{
    void (*write)(void) = atomic_load(&before_stop);
    if (write && atomic_load(&tn__timeline_state) == TN__TIMELINE_ON)
        write();
    tn__lock_take(&lock);
    tn_status status = TN_OK;
    if (file < 0) {
        status = tn__fail(TN_ERR_STATE, "trace_stop: no trace is running; "
                                        "tn_trace_start begins one");
    } else {
        put("]\n", 2);
        flush();
        if (close(file) < 0 && !failed)
            failed = errno;
        if (failed)
            status = tn__fail(TN_ERR_IO, "trace_stop: the trace is incomplete: "
                                         "%s", strerror(failed));
    }
    file = -1;
    atomic_store(&trace_number, 0);
    atomic_store(&tn__timeline_state, TN__TIMELINE_OFF);
    tn__lock_give(&lock);
    return status;
}

void tn__timeline_want(void (*start)(void))
{
    starter = start;
    atomic_store(&tn__timeline_state, TN__TIMELINE_WANTED);
}
