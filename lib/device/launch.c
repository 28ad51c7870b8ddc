/* launch.c: submits work to a device. These wrappers of the plugin's functions
 * add order, tags and error messages.
 *
 * Calls of a synchronous device need no lock and no tag. For an asynchronous
 * device, the queue's lock makes the order. A tag (a number) identifies the
 * operator of a failure that the device reports later. */
#include <device/lane.h>
#include <device/recorder.h>
#include <device/registry.h>

#include <base/context.h>
#include <base/guard.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/timeline.h>
#include <device/tally.h>
#include <device/work.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A failure reported later can be named if at most NAMES launches were
 * submitted since, and described in full if at most DEFERRED launches were
 * submitted that can have index faults. */
#define NAMES 4096
#define DEFERRED 256

struct tn__work {
    /* The queue's lock guards these fields. */
    uint64_t next_tag;
    const char *name[NAMES]; /* name[tag % NAMES]: operator of the launch, of
                              * static lifetime */
    uint64_t deferred_count;
    tn__deferred_error deferred[DEFERRED]; /* ring buffer of the last launches
                                            * that can fault */
    tn_status held; /* a failure that was not reported yet, with its fault and
                     * the plugin's error */
    tn_fault held_fault;
    tn__error held_error;
    tn__lane *lane;       /* owned; NULL if no trace has run */
};

struct tn__work *tn__work_make(void)
{
    return tn__calloc(1, sizeof(struct tn__work));
}

/* ---- order and tags ----------------------------------------------------- */

/* Begins a call of the plugin. For an asynchronous device, takes the queue's
 * lock and returns a new tag for the work. */
static uint64_t enter(tn_device *device, const char *what)
{
    if (TN__LIKELY(device->synchronous))
        return 0;
    tn__lock_take(&device->queue_lock);
    struct tn__work *work = device->work;
    uint64_t tag = ++work->next_tag;
    /* An error names the outermost operator, which the program called. */
    const char *called = tn__outermost_op();
    work->name[tag % NAMES] = called ? called : what;
    return tag;
}

static void drain_all(void)
{
    tn__lanes_each(tn__work_drain);
}

static uint64_t begin_queued(tn_device *device, const char *what)
{
    struct tn__work *work = device->work;
    uint64_t tag = enter(device, what);
    if (tn__timeline_is_live()) {
        if (!work->lane)
            tn__timeline_before_stop(drain_all);
        tn__lane_begin(&work->lane, device, work->name[tag % NAMES]);
    }
    return tag;
}

/* Begins a call that submits work, whose time a trace may record. */
static inline uint64_t begin(tn_device *device, const char *what)
{
    return TN__LIKELY(device->synchronous) ? 0 : begin_queued(device, what);
}

static void leave(tn_device *device)
{
    if (!device->synchronous)
        tn__lock_give(&device->queue_lock);
}

static const char *name_of(tn_device *device, uint64_t tag)
{
    const struct tn__work *work = device->work;
    if (!tag || tag > work->next_tag || work->next_tag - tag >= NAMES)
        return NULL;
    return work->name[tag % NAMES];
}

/* Stores the data for an error that the device reports later. Called between
 * enter and leave. */
static void remember(tn_device *device, uint64_t tag,
                     const tn__deferred_error *deferred)
{
    struct tn__work *work = device->work;
    if (TN__LIKELY(!deferred || !tag))
        return;
    tn__deferred_error *slot =
        &work->deferred[work->deferred_count++ % DEFERRED];
    *slot = *deferred;
    slot->tag = tag;
    slot->path = tn__me.location.path;
}

static const tn__deferred_error *deferred_of(tn_device *device, uint64_t tag)
{
    const struct tn__work *work = device->work;
    for (int i = 0; tag && i < DEFERRED; i++)
        if (work->deferred[i].tag == tag)
            return &work->deferred[i];
    return NULL;
}

/* Calls the plugin's queue_sync and writes the finished work into the trace. */
static tn_status sync_plugin(tn_device *device, tn_fault *fault)
{
    tn__lane *lane = device->work->lane;
    tn__lane_mark(lane);
    tn_status status = device->plugin->queue_sync(device->queue, fault);
    tn__lane_write(lane);
    return status;
}

/* Calls queue_sync. Returns the failure that an earlier tn__work_drain stored,
 * if there is one. */
static tn_status sync_queue(tn_device *device, tn_fault *fault,
                            bool was_pending)
{
    struct tn__work *work = device->work;
    tn_status status = sync_plugin(device, fault);
    if (TN__LIKELY(device->synchronous || !work->held))
        return status;
    status = work->held;
    *fault = work->held_fault;
    if (!was_pending)
        tn__error_put(&work->held_error);
    work->held = TN_OK;
    return status;
}

/* Names the operator `name` in the pending error. That operator has ended, so
 * the operators that run now must not add their details. */
static tn_status attribute_to(const char *name, tn_status status)
{
    static const tn__running_op over = {NULL, NULL};
    tn__error_facts *facts = tn__error_within(tn__me.location.running);
    if (facts && name) {
        facts->called = facts->op = name;
        facts->running = &over;
    }
    return status;
}

/* Waits for the device and reports a failure. Called between enter and leave.
 * The failure may be that of work submitted long ago; the message then has that
 * work's name. */
static tn_status wait_reporting(tn_device *device, const char *what)
{
    tn_fault fault = {.size = sizeof fault};
    bool was_pending = tn__error_pending();
    tn_status status = sync_queue(device, &fault, was_pending);
    if (TN__LIKELY(!status))
        return TN_OK;
    const char *name = name_of(device, fault.tag);
    const tn__deferred_error *deferred = deferred_of(device, fault.tag);
    if (status == TN_ERR_INDEX && fault.code == TN_ERR_INDEX && !was_pending) {
        tn_error_clear();
        if (deferred) {
            char suffix[160];
            snprintf(suffix, sizeof suffix,
                     " (reported by %s when it waited for %s)",
                     what, device->name);
            const tn_path *here = tn_path_enter(deferred->path);
            deferred->report(deferred, &fault, name ? name : what, suffix);
            tn_path_enter(here);
            return attribute_to(name, tn_error_code());
        }
        if (fault.extent == TN__GUARD_EXTENT)
            return attribute_to(
                name, tn__fail(TN_ERR_ARGUMENT,
                               "%s: %s at element %" PRId64 " of a launch "
                               "(reported by %s when it waited for %s)",
                               name ? name : what,
                               fault.index == TN__GUARD_ZERO
                                   ? "division by zero"
                               : fault.index == TN__GUARD_NEGATIVE
                                   ? "a negative number"
                                   : "a number outside [0, 1]",
                               fault.position, what, device->name));
        /* Only the element's row-major index is known, not its coordinates. */
        tn__fail_outside(
            TN_ERR_INDEX,
            (tn__error_index){
                true, fault.index, 0, fault.extent, 1, {fault.position}},
            "%s: index %" PRId64 " is outside of [0, %" PRId64
            ") (reported by %s when it waited for %s)",
            name ? name : what, fault.index, fault.extent, what, device->name);
        return attribute_to(name, TN_ERR_INDEX);
    }
    return tn__device_fail(device, name ? name : what, status, was_pending);
}

void tn__work_drain(tn_device *device)
{
    if (device->synchronous)
        return;
    struct tn__work *work = device->work;
    tn__lock_take(&device->queue_lock);
    tn_fault fault = {.size = sizeof fault};
    tn__error before;
    tn__error_hide(&before);
    tn_status status = sync_plugin(device, &fault);
    if (status && !work->held) {
        work->held = status;
        work->held_fault = fault;
        tn__error_take(&work->held_error);
    }
    tn__error_restore(&before);
    tn__lock_give(&device->queue_lock);
}

/* Ends a call. While a trace runs, the time of asynchronous work comes from
 * events. If the device has none, this waits for the device, so that the time
 * is in the span of the caller. */
static tn_status leave_after(tn_device *device, const char *what,
                             tn_status status)
{
    if (tn__timeline_is_live() && !device->synchronous && !status &&
        !tn__lane_end(device->work->lane))
        status = wait_reporting(device, what);
    leave(device);
    return status;
}

/* Waits for the submitted work, then ends the call. */
static tn_status leave_waited(tn_device *device, const char *what)
{
    if (tn__timeline_is_live())
        tn__lane_end(device->work->lane);
    tn_status status = wait_reporting(device, what);
    leave(device);
    return status;
}

/* Handles the plugin's status. An index fault is passed to the caller without
 * the plugin's error; other failures are recorded as errors. */
static tn_status finish(tn_device *device, const char *what, tn_status status,
                        bool was_pending, tn_fault *fault)
{
    if (TN__LIKELY(!status))
        return TN_OK;
    if (status != TN_ERR_INDEX || !fault)
        return tn__device_fail(device, what, status, was_pending);
    *fault = (tn_fault){.size = sizeof *fault};
    sync_queue(device, fault, was_pending);
    if (fault->code != TN_ERR_INDEX) {
        fault->code = TN_ERR_INDEX;
        fault->operand = TN_NONE;
    }
    if (!was_pending)
        tn_error_clear();
    return TN_ERR_INDEX;
}

/* Adds work that was submitted to this thread's recording, if there is one.
 * Returns the status. */
static tn_status recorded(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what, tn_status status)
{
    return TN__LIKELY(!tn__me.recording) || status
               ? status
               : tn__record_work(device, kind, args, bytes, what);
}

tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what,
                            const tn__deferred_error *deferred,
                            tn_fault *fault)
{
    bool was_pending = tn__error_pending();
    launch->tag = begin(device, what);
    remember(device, launch->tag, deferred);
    tn_status status = device->plugin->launch(device->queue, built, launch);
    status = finish(device, what, status, was_pending, fault);
    if (tn__timeline_is_live())
        tn__tally_launch(device, program, launch);
    status = leave_after(device, what, status);
    return TN__LIKELY(!tn__me.recording) || status
               ? status
               : tn__record_launch(device, program, built, launch, what);
}

tn_status tn__device_work(tn_device *device, int kind, void *args,
                          const char *what, const tn__deferred_error *deferred,
                          tn_fault *fault)
{
    const tn__work_kind *work = &tn__work_kinds[kind];
    const void *found = work->find(device);
    if (!found)
        return work->declines
                   ? TN_ERR_UNSUPPORTED
                   : tn__fail(TN_ERR_UNSUPPORTED,
                              "%s: %s does not have the extension %s (any "
                              "more)",
                              what, device->name, work->extension);
    bool was_pending = tn__error_pending();
    const uint64_t tag = begin(device, what);
    memcpy((char *)args + work->tag, &tag, sizeof tag);
    remember(device, tag, deferred);
    tn_status status = work->run(device, found, args);
    const bool declined = status == TN_ERR_UNSUPPORTED && work->declines;
    if (tn__timeline_is_live() && !declined)
        work->tally(device, args);
    status = declined ? tn__extension_declined(device, what, was_pending)
                      : finish(device, what, status, was_pending, fault);
    status = leave_after(device, what, status);
    return recorded(device, kind, args, work->bytes, what, status);
}

tn_status tn__work_wait(tn_device *device, const char *what)
{
    enter(device, what);
    tn_status status = wait_reporting(device, what);
    leave(device);
    return status;
}

tn_status tn__device_copy_now(tn_device *device, tn_copy_args *copy,
                          const char *what)
{
    copy->size = sizeof *copy;
    copy->rows = 1;
    if (!copy->bytes)
        return TN_OK;
    bool was_pending = tn__error_pending();
    copy->tag = begin(device, what);
    tn_status status = device->plugin->copy(device->queue, copy);
    if (tn__timeline_is_live())
        tn__tally_copy(device, copy);
    if (status)
        tn__device_fail(device, what, status, was_pending);
    else if (!device->synchronous && copy->host)
        return leave_waited(device, what);
    return leave_after(device, what, status);
}

tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what)
{
    tn_status status = tn__device_copy_now(device, copy, what);
    return recorded(device, TN__WORK_COPY, copy, sizeof *copy, what, status);
}

tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *work)
{
    static const char what[] = "graph_replay";
    bool was_pending = tn__error_pending();
    uint64_t tag = begin(device, what);
    tn_status status = extension->run(device->queue, work, tag);
    /* A device that waits for each launch has not reported yet which launch
     * faulted. */
    status = status == TN_ERR_INDEX
                 ? wait_reporting(device, what)
                 : finish(device, what, status, was_pending, NULL);
    return leave_after(device, what, status);
}
