/* timeline.h: measures spans of time for a trace (<tenon/trace.h>, as
 * torch.profiler). A span is the time from tn__span_begin to tn__span_end.
 * While no trace runs, a span costs the load of one flag.
 *
 *     tn__span span;
 *     tn__span_begin(&span);
 *     ...
 *     tn__span_end(&span, "optim", "adam", NULL); */
#ifndef TN_LIB_BASE_TIMELINE_H
#define TN_LIB_BASE_TIMELINE_H

#include <base/platform.h>

#include <stdatomic.h>
#include <stdint.h>
#include <tenon/error.h>

/* States of tracing. WANTED means that TENON_TRACE is set, so the first span
 * starts the trace. */
enum { TN__TIMELINE_OFF, TN__TIMELINE_WANTED, TN__TIMELINE_ON };
extern _Atomic uint8_t tn__timeline_state;
static inline bool tn__timeline_is_live(void)
{
    return TN__UNLIKELY(atomic_load_explicit(&tn__timeline_state,
                                             memory_order_relaxed) !=
                        TN__TIMELINE_OFF);
}

/* Amounts of device work that a thread has submitted. */
typedef struct tn__tally {
    /* amounts of work, which device/tally.c computes */
    double bytes, operations, instructions, multiplies;
    int64_t calls;   /* number of calls of plugins (launches, copies, matrix
                      * products ...) */
    int64_t foreign; /* number of those calls on a device other than
                      * tn__limits.device */
    int64_t queued;  /* number of those calls whose duration becomes known
                      * later */
} tn__tally;

typedef struct tn__span {
    uint64_t trace; /* number of the trace; 0 if no trace was running at the
                     * start */
    double begin;   /* start of the span in microseconds */
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
/* Ends a span. `shapes` describes the arguments, as in "(2, 3) float32, ...",
 * or is NULL. The span is shown with the path of the module that is running. */
static inline void tn__span_end(const tn__span *span, const char *category,
                                const char *name, const char *shapes)
{
    if (TN__UNLIKELY(span->trace != 0))
        tn__span_close(span, category, name, shapes);
}

/* Adds to the counts of the calling thread the bytes and operations of work
 * that it submitted to a device. `device` is only compared with
 * tn__limits.device. */
void tn__timeline_count(const void *device, double bytes, double operations);
/* Adds the number of instructions of the work that was added last, and how many
 * of them are multiplications. */
void tn__timeline_count_instructions(double instructions, double multiplies);

/* A span of work on a device that reports later when it executed the work. */
typedef struct tn__async_span {
    tn__span host; /* begins when the work is submitted to the device */
    const char *name, *path; /* name of the operator and path of the module, of
                              * static lifetime; path is NULL outside modules */
    int thread;
    tn__tally did;
} tn__async_span;

/* A caller calls tn__async_span_begin before it submits work to a device and
 * tn__async_span_end afterwards. If no trace is running, they set host.trace to
 * 0. Unlike tn__span_begin, they do not start a trace if TENON_TRACE is set. */
void tn__async_span_begin(tn__async_span *span, const char *name);
void tn__async_span_end(tn__async_span *span);
/* Writes the span of executed work to the trace, if the trace is still running.
 * It appears in the lane (row of the timeline) with this id and the name
 * `lane`. `begin` is the start by the clock of tn__timeline_now and `took` the
 * duration, both in microseconds. */
void tn__async_span_write(const tn__async_span *span, int id, const char *lane,
                     double begin, double took);

/* Returns the current time by the clock of traces, in microseconds. */
double tn__timeline_now(void);

/* Sets a function that is called before a trace ends. It must write the spans
 * that were not written yet. */
void tn__timeline_before_stop(void (*write)(void));

/* The peak rates of a device. A trace compares the device work of its spans
 * with them. */
typedef struct tn__limits {
    const void *device;      /* the device; NULL if it is not known */
    const char *device_name; /* name of the device; valid only during the
                              * call */
    double bytes, operations; /* bytes and operations per second at the peak
                               * rate */
} tn__limits;

/* Start and stop a trace. tn__timeline_start returns TN_ERR_STATE if a trace is
 * already running, or TN_ERR_IO if the file cannot be opened. tn__timeline_stop
 * returns TN_ERR_IO if writing failed. */
tn_status tn__timeline_start(const char *path, const tn__limits *limits);
tn_status tn__timeline_stop(void);

/* Sets a function that starts a trace, for TENON_TRACE. The thread that opens
 * the first span calls it once. */
void tn__timeline_want(void (*start)(void));

#endif
