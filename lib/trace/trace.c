/* trace.c: starts and stops a trace, which records timed events of a program
 * (as torch.profiler does), measures the peak rates of the device, and records
 * the ranges that a program marks by push and pop. */
#include <base/error.h>
#include <base/context.h>
#include <base/lock.h>
#include <base/timeline.h>
#include <tenon/autograd.h>
#include <tenon/device.h>
#include <tenon/ops.h>
#include <tenon/trace.h>

#include <time.h>

/* ---- limits -------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef tn_tensor *work_function(tn_tensor *x);

/* Runs work several times and returns the shortest time in seconds. The first
 * runs take longer, because they compile programs, allocate memory and raise
 * the processor's clock rate. Work that takes more than a second runs only
 * twice. */
static double best_of(work_function *work, tn_tensor *x, tn_device *device)
{
    enum { LONG = 1 };
    double best = 1e9;
    for (int i = 0; i < (best < LONG ? 6 : 2) && !tn__error_pending(); i++) {
        tn_scope *scope = tn_scope_open();
        double begin = now();
        work(x);
        tn_device_synchronize(device);
        double took = now() - begin;
        tn_scope_close(scope);
        if (took < best)
            best = took;
    }
    return best;
}

static tn_tensor *copy(tn_tensor *x)
{
    return tn_clone(x);
}

static tn_tensor *multiply(tn_tensor *x)
{
    return tn_matmul(x, x);
}

/* Returns the peak rates of the current device: bytes and operations per
 * second. They are measured once. If the measurement fails, for example because
 * memory runs out, the trace does not contain them. In the trace, the measuring
 * calls do not count for the operator or module that the thread is running. */
static tn__limits measure(void)
{
    enum { ELEMENTS = 1 << 24, SIDE = 1024 };
    const double flops = 2.0 * SIDE * SIDE * SIDE;
    static tn__lock lock = TN__LOCK_INIT;
    static tn__limits known;
    tn__lock_take(&lock);
    const tn__limits before = known;
    tn__lock_give(&lock);
    if (before.device && before.device == tn_device_current())
        return before;
    struct tn__location location = tn__me.location;
    tn__handler_mute();
    tn__me.location = (struct tn__location){.running = NULL};
    tn__limits limits = {.device = NULL};
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        tn_tensor *flat = tn_zeros(tn_dims(ELEMENTS));
        double bytes = 2.0 * 4 * ELEMENTS / best_of(copy, flat, device);
        tn_tensor *square = tn_zeros(tn_dims(SIDE, SIDE));
        double operations = flops / best_of(multiply, square, device);
        if (!tn__error_pending())
            limits = (tn__limits){device, tn_device_name(device), bytes,
                                  operations};
    }
    tn_scope_close(scope);
    tn_error_clear();
    tn__handler_unmute();
    tn__me.location = location;
    tn__lock_take(&lock);
    known = limits;
    tn__lock_give(&lock);
    return limits;
}

/* ---- start and end ------------------------------------------------------- */

tn_status tn_trace_start(const char *path)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!path)
        return tn__fail(TN_ERR_ARGUMENT, "trace_start: path is NULL");
    tn__limits limits = {.device = NULL};
    if (!tn__timeline_is_live())
        limits = measure();
    return tn__timeline_start(path, &limits);
}

tn_status tn_trace_stop(void)
{
    return tn__timeline_stop();
}

/* Starts the trace that the environment variable TENON_TRACE requests. Is
 * called at the first operator. If the file cannot be written, this is logged,
 * but the operator does not fail. */
static void start_wanted(void)
{
    tn__error before;
    tn__error_hide(&before);
    if (tn_trace_start(tn__env("TENON_TRACE")) < 0)
        tn__log(1, "TENON_TRACE: %s", tn_error());
    tn_error_clear();
    tn__error_restore(&before);
}

__attribute__((constructor)) static void look_at_environment(void)
{
    if (tn__env("TENON_TRACE"))
        tn__timeline_want(start_wanted);
}

/* ---- ranges -------------------------------------------------------------- */

enum { DEPTH = 64 };
struct tn__ranges {
    struct {
        const char *name;
        tn__span span;
    } open[DEPTH];
};

void tn_trace_push(const char *name)
{
    const int depth = tn__me.range_depth++;
    struct tn__ranges *ranges = tn__me.ranges;
    if (depth >= DEPTH)
        return;
    /* Ranges are counted even if no trace is running, because a trace may start
     * or end between push and pop. */
    if (ranges)
        ranges->open[depth].span.trace = 0;
    if (!tn__timeline_is_live())
        return;
    if (!ranges)
        ranges = tn__context_alloc(&tn__me.ranges, sizeof *ranges);
    if (ranges) { /* if memory ran out, the trace does not show the range */
        ranges->open[depth].name = name ? name : "";
        tn__span_open(&ranges->open[depth].span);
    }
}

void tn_trace_pop(void)
{
    if (tn__me.range_depth == 0)
        return;
    const int depth = --tn__me.range_depth;
    struct tn__ranges *ranges = tn__me.ranges;
    if (depth < DEPTH && ranges)
        tn__span_end(&ranges->open[depth].span, "range",
                     ranges->open[depth].name, NULL);
}
