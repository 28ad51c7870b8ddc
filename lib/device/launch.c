/* launch.c: submits work to a device. The functions of this file call the
 * plugin's, and add locking, tags and error messages.
 *
 * A synchronous device (cpu) needs neither lock nor tag. For an asynchronous
 * device, the lock of its queue puts the submissions of all threads in one
 * order. A tag is the sequence number of a submission. If the device reports a
 * failure later, the tag identifies the operator that failed. */
#include <device/command.h>
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

/* How far back launches are remembered. The message of a deferred failure can
 * name the operator if at most NAMES launches were submitted since, and can
 * give all details if at most DEFERRED launches that can have index faults were
 * submitted since. */
#define NAMES 4096
#define DEFERRED 256

struct tn__work {
    /* The queue's lock guards all fields. */
    uint64_t next_tag;
    const char *name[NAMES]; /* name[tag % NAMES] is the operator of the launch,
                              * of static lifetime */
    uint64_t deferred_count;
    /* ring buffer with the data of the last launches that can have index
     * faults */
    tn__deferred_error deferred[DEFERRED];
    /* A failure that was not reported to the program yet, with its fault and
     * the plugin's error. */
    tn_status held;
    tn_fault held_fault;
    tn__error held_error;
    tn__lane *lane;       /* lane of the device in the trace, owned; NULL if no
                           * trace has run */
};

struct tn__work *tn__work_make(void)
{
    return tn__calloc(1, sizeof(struct tn__work));
}

/* ---- order and tags ----------------------------------------------------- */

/* Begins a call of the plugin. If the device is asynchronous, takes the queue's
 * lock and returns the tag of the new work; else returns 0. */
static uint64_t enter(tn_device *device, const char *what)
{
    if (TN__LIKELY(device->synchronous))
        return 0;
    tn__lock_take(&device->queue_lock);
    struct tn__work *work = device->work;
    uint64_t tag = ++work->next_tag;
    /* An error names the outermost operator, because that is the one the
     * program called. */
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

/* Begins a call that submits work. If a trace is running, the time of the work
 * will be recorded. */
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

/* Stores the data for an error that the device may report later. Must be called
 * between enter() and leave(). */
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

/* Calls the plugin's queue_sync and writes the work that has finished into the
 * trace. */
static tn_status sync_plugin(tn_device *device, tn_fault *fault)
{
    tn__lane *lane = device->work->lane;
    tn__lane_mark(lane);
    tn_status status = device->plugin->queue_sync(device->queue, fault);
    tn__lane_write(lane);
    return status;
}

/* Waits for the queue. If an earlier tn__work_drain stored a failure, returns
 * that failure instead of the result of the wait. */
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

/* Makes the pending error name the operator `name`. That operator has ended, so
 * the operators that are running now must not add their details to the
 * error. */
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

/* Waits for the device and records an error if it failed. Work submitted long
 * ago may have failed; the message then names that work's operator. Must be
 * called between enter() and leave(). */
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
        /* The device reports the element's row-major index, but not its
         * coordinates. */
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

/* Ends a call that submitted work. While a trace runs, events measure the time
 * of asynchronous work. If the device has no events, this function waits for
 * the device, so that the caller's span in the trace includes the work. */
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

/* Handles the status that the plugin returned. For an index fault, drops the
 * plugin's error, because the caller writes the message. Records any other
 * failure as an error. */
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

/* If this thread is recording a graph, adds work that was submitted
 * successfully to the recording. Returns the status. */
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

tn_status tn__device_launch_list(tn_device *device,
                                 const tn_launch_list_extension *extension,
                                 tn__command *command, tn_fault *fault)
{
    bool was_pending = tn__error_pending();
    const uint64_t tag = begin(device, command->what);
    tn_status status = extension->run(device->queue, command->prepared, tag);
    status = finish(device, command->what, status, was_pending, fault);
    if (tn__timeline_is_live())
        for (const tn__command *c = command; c; c = c->with)
            tn__tally_launch(device, c->program, &c->args.launch);
    return leave_after(device, command->what, status);
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
                              "%s: %s does not have the extension %s, or "
                              "TENON_MASK hides it",
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
                            tn_recorded *work, const char *what)
{
    bool was_pending = tn__error_pending();
    uint64_t tag = begin(device, what);
    tn_status status = extension->run(device->queue, work, tag);
    /* With TN_ERR_INDEX, the device has waited for a launch of the replay that
     * read an index out of range. The call below finds out which launch it
     * was. */
    status = status == TN_ERR_INDEX
                 ? wait_reporting(device, what)
                 : finish(device, what, status, was_pending, NULL);
    return leave_after(device, what, status);
}
