/* timeline.h: what ran when, for <tenon/trace.h>. While no trace runs a span
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

/* WANTED: TENON_TRACE asks for one; the first span starts it. */
enum { TN__TIMELINE_OFF, TN__TIMELINE_WANTED, TN__TIMELINE_ON };
extern _Atomic uint8_t tn__timeline_state;
static inline bool tn__timeline_is_live(void)
{
    return TN__UNLIKELY(atomic_load_explicit(&tn__timeline_state,
                                             memory_order_relaxed) !=
                        TN__TIMELINE_OFF);
}

/* What devices did for a thread. */
typedef struct tn__tally {
    double bytes, operations, instructions, multiplies; /* device/tally.c */
    int64_t calls;   /* of plugins: launches, copies, matrix products ... */
    int64_t foreign; /* those of them on a device that has no limit here */
    int64_t queued;  /* those of them whose time is told later */
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
/* shapes: "(2, 3) float32, ..." or NULL. The module's path is that of now. */
static inline void tn__span_end(const tn__span *span, const char *category,
                                const char *name, const char *shapes)
{
    if (TN__UNLIKELY(span->trace != 0))
        tn__span_close(span, category, name, shapes);
}

/* A device has done, or been given, this much for the calling thread. device
 * is only compared with that of the limits. */
void tn__timeline_count(const void *device, double bytes, double operations);
/* The work counted last has so many instructions; so many of them multiply. */
void tn__timeline_count_instructions(double instructions, double multiplies);

/* Work that was given to a device which tells later how long it took. */
typedef struct tn__async_span {
    tn__span host; /* from when it was about to be given */
    const char *name, *path; /* live for ever; NULL: of no module */
    int thread;
    tn__tally did;
} tn__async_span;

/* Before it is given, and after. span.trace is 0 if no trace runs; none is
 * started. */
void tn__async_span_begin(tn__async_span *span, const char *name);
void tn__async_span_end(tn__async_span *span);
/* It took so many microseconds of the device's time, from `begin` of
 * tn__timeline_now on. Written into lane number id, of that name, if the trace
 * still runs. */
void tn__async_span_write(const tn__async_span *span, int id, const char *lane,
                     double begin, double took);

/* Microseconds of the clock that traces have. */
double tn__timeline_now(void);

/* What is called before a trace ends: it writes what is still to be told. */
void tn__timeline_before_stop(void (*write)(void));

/* What a trace's numbers are held against. */
typedef struct tn__limits {
    const void *device;      /* NULL: not known */
    const char *device_name; /* lent for the call */
    double bytes, operations; /* a second */
} tn__limits;

/* TN_ERR_STATE if one is open; TN_ERR_IO. */
tn_status tn__timeline_start(const char *path, const tn__limits *limits);
tn_status tn__timeline_stop(void);

/* TENON_TRACE: start is called once, by the thread whose span comes first. */
void tn__timeline_want(void (*start)(void));

#endif
