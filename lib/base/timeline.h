/* timeline.h: spans of time for <tenon/trace.h>. While no trace runs, a span
 * costs the load of one flag.
 *
 *     tn__span span;
 *     tn__span_begin(&span);
 *     ...
 *     tn__span_end(&span, "optim", "adam", NULL);
 */
#ifndef TN_LIB_BASE_TIMELINE_H
#define TN_LIB_BASE_TIMELINE_H

#include <base/platform.h>

#include <stdatomic.h>
#include <stdint.h>
#include <tenon/error.h>

/* WANTED: TENON_TRACE is set; the first span starts the trace. */
enum { TN__TIMELINE_OFF, TN__TIMELINE_WANTED, TN__TIMELINE_ON };
extern _Atomic uint8_t tn__timeline_state;
static inline bool tn__timeline_is_live(void)
{
    return TN__UNLIKELY(atomic_load_explicit(&tn__timeline_state,
                                             memory_order_relaxed) !=
                        TN__TIMELINE_OFF);
}

/* Device work of a thread. */
typedef struct tn__tally {
    double bytes, operations, instructions, multiplies; /* device/tally.c */
    int64_t calls;   /* of plugins: launches, copies, matrix products ... */
    int64_t foreign; /* those on a device other than that of the limits */
    int64_t queued;  /* those whose time becomes known later */
} tn__tally;

typedef struct tn__span {
    uint64_t trace; /* the number of the trace; 0: none ran */
    double begin;   /* microseconds */
    tn__tally before;
} tn__span;

void tn__span_open(tn__span *span);
void tn__span_close(const tn__span *span, const char *category,
                    const char *name, const char *shapes);

static inline void tn__span_begin(tn__span *span)
{
    span->trace = 0;
    if (tn__timeline_is_live())
        tn__span_open(span);
}
/* shapes: "(2, 3) float32, ..." or NULL. The module's path is the current
 * one. */
static inline void tn__span_end(const tn__span *span, const char *category,
                                const char *name, const char *shapes)
{
    if (TN__UNLIKELY(span->trace != 0))
        tn__span_close(span, category, name, shapes);
}

/* Counts work that a device did, or was given, by the calling thread. device is
 * only compared with that of the limits. */
void tn__timeline_count(const void *device, double bytes, double operations);
/* Adds the instructions of the work counted last, and those of them that
 * multiply. */
void tn__timeline_count_instructions(double instructions, double multiplies);

/* Work submitted to a device that reports its time later. */
typedef struct tn__async_span {
    tn__span host; /* begins when the work is submitted */
    const char *name, *path; /* static lifetime; path NULL: of no module */
    int thread;
    tn__tally did;
} tn__async_span;

/* Called before and after the work is submitted. host.trace is 0 if no trace
 * runs; none is started. */
void tn__async_span_begin(tn__async_span *span, const char *name);
void tn__async_span_end(tn__async_span *span);
/* Writes the work into lane number id, named `lane`, if the trace still runs.
 * begin: its start in microseconds of tn__timeline_now; took: its duration in
 * microseconds. */
void tn__async_span_write(const tn__async_span *span, int id, const char *lane,
                     double begin, double took);

/* The clock of traces, in microseconds. */
double tn__timeline_now(void);

/* Sets the function that is called before a trace ends, to write pending
 * spans. */
void tn__timeline_before_stop(void (*write)(void));

/* The peak rates of a device, with which a trace compares its spans. */
typedef struct tn__limits {
    const void *device;      /* NULL: not known */
    const char *device_name; /* lent for the call */
    double bytes, operations; /* per second */
} tn__limits;

/* TN_ERR_STATE if a trace is running; TN_ERR_IO. */
tn_status tn__timeline_start(const char *path, const tn__limits *limits);
tn_status tn__timeline_stop(void);

/* TENON_TRACE: start is called once, by the thread that opens the first
 * span. */
void tn__timeline_want(void (*start)(void));

#endif
