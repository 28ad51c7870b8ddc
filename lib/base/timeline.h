/* timeline.h: measures spans of time for a trace (<tenon/trace.h>, as
 * torch.profiler). While no trace runs, a span costs the load of one flag.
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

/* WANTED means that TENON_TRACE is set and the first span starts the trace. */
enum { TN__TIMELINE_OFF, TN__TIMELINE_WANTED, TN__TIMELINE_ON };
extern _Atomic uint8_t tn__timeline_state;
static inline bool tn__timeline_is_live(void)
{
    return TN__UNLIKELY(atomic_load_explicit(&tn__timeline_state,
                                             memory_order_relaxed) !=
                        TN__TIMELINE_OFF);
}

/* Device work that a thread submitted. */
typedef struct tn__tally {
    /* as device/tally.c counts them */
    double bytes, operations, instructions, multiplies;
    int64_t calls;   /* number of calls of plugins: launches, copies, matrix
                      * products ... */
    int64_t foreign; /* number of calls on a device other than that of
                      * tn__limits */
    int64_t queued;  /* number of calls whose time becomes known later */
} tn__tally;

typedef struct tn__span {
    uint64_t trace; /* number of the trace; 0 if none ran */
    double begin;   /* begin of the span in microseconds */
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
/* Ends a span. `shapes` is "(2, 3) float32, ..." or NULL. The span gets the
 * path of the module that runs now. */
static inline void tn__span_end(const tn__span *span, const char *category,
                                const char *name, const char *shapes)
{
    if (TN__UNLIKELY(span->trace != 0))
        tn__span_close(span, category, name, shapes);
}

/* Counts work that the calling thread did on a device or submitted to it.
 * `device` is only compared with that of tn__limits. */
void tn__timeline_count(const void *device, double bytes, double operations);
/* Adds the number of instructions of the work counted last, and how many of
 * them are multiplications. */
void tn__timeline_count_instructions(double instructions, double multiplies);

/* Work submitted to a device that reports its time later. */
typedef struct tn__async_span {
    tn__span host; /* begins when the work is submitted to the device */
    const char *name, *path; /* static lifetime; path is NULL outside modules */
    int thread;
    tn__tally did;
} tn__async_span;

/* Call these before and after submitting the work. If no trace runs, host.trace
 * is 0; a wanted trace is not started. */
void tn__async_span_begin(tn__async_span *span, const char *name);
void tn__async_span_end(tn__async_span *span);
/* Writes the work into a lane of the trace (a row of the viewer), if the trace
 * still runs. The lane has number id and name `lane`. `begin` is the start of
 * the work by tn__timeline_now, and `took` the duration, in microseconds. */
void tn__async_span_write(const tn__async_span *span, int id, const char *lane,
                     double begin, double took);

/* Returns the time by the clock of traces, in microseconds. */
double tn__timeline_now(void);

/* Sets a function that is called before a trace ends, and that writes the spans
 * not yet written. */
void tn__timeline_before_stop(void (*write)(void));

/* The peak rates of a device, with which a trace compares the device work of
 * its spans. */
typedef struct tn__limits {
    const void *device;      /* NULL if not known */
    const char *device_name; /* valid only during the call */
    double bytes, operations; /* peak bytes and operations per second */
} tn__limits;

/* Starts and stops a trace. tn__timeline_start returns TN_ERR_STATE if a trace
 * is running, and TN_ERR_IO if the file cannot be opened. tn__timeline_stop
 * returns TN_ERR_IO if writing failed. */
tn_status tn__timeline_start(const char *path, const tn__limits *limits);
tn_status tn__timeline_stop(void);

/* For TENON_TRACE: `start` is called once, by the thread that opens the first
 * span. */
void tn__timeline_want(void (*start)(void));

#endif
