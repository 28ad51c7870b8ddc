/* mark.c: marks in a device's work, and the time between two marks (as
 * torch.cuda.Event). On an asynchronous device with timed events, a mark is an
 * event. On other devices, making a mark waits for all submitted work and reads
 * the host's clock. */
#include <device/recorder.h>

#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/timeline.h>

struct tn_mark {
    tn__object object;
    tn_device *device;
    tn_event *event; /* the device's event, owned; NULL if the host's clock was
                      * read instead */
    double at;       /* time of the host's clock (tn__timeline_now), if `event`
                      * is NULL */
};

static void destroy(tn__object *object)
{
    tn_mark *mark = (tn_mark *)object;
    if (mark->event)
        mark->device->plugin->event_close(mark->event);
    tn__object_free(mark, sizeof *mark);
}

static const tn__class mark_class = {.name = "mark",
                                     .destroy = destroy};

/* Turns the failed status of a plugin's call into an error. Does nothing if the
 * status is TN_OK. */
static tn_status fail_with(const char *what, const tn_device *device,
                           tn_status status)
{
    tn__error error;
    if (!status)
        return TN_OK;
    tn__error_take(&error);
    return tn__fail(status, "%s: %s: %s", what, device->name,
                    error.code ? error.text : tn_status_name(status));
}

static tn_status set(tn_mark *mark)
{
    tn_device *device = mark->device;
    const tn_plugin *plugin = device->plugin;
    if (device->synchronous || !plugin->event_open_timed ||
        !plugin->event_elapsed || !plugin->event_record ||
        !plugin->event_query || !plugin->event_close) {
        tn_status status = device->synchronous
                               ? TN_OK
                               : tn_device_synchronize(device);
        mark->at = tn__timeline_now();
        return status;
    }
    tn__lock_take(&device->queue_lock);
    tn_status status = plugin->event_open_timed(device->handle, &mark->event);
    if (!status)
        status = plugin->event_record(device->queue, mark->event);
    tn__lock_give(&device->queue_lock);
    return fail_with("mark_set", device, status);
}

tn_mark *tn_mark_set(tn_device *device)
{
    if (tn__error_pending())
        return NULL;
    if (!device)
        device = tn_device_current();
    if (!device)
        return NULL;
    if (tn__me.recording)
        return tn__fail_null(TN_ERR_STATE, "mark_set: work is being recorded (%s); a "
                             "replay would not reach the mark",
                             tn__me.recording->recorder);
    tn_mark *mark = tn__calloc(1, sizeof *mark);
    if (!mark)
        return NULL;
    tn__object_init(&mark->object, &mark_class);
    mark->device = device;
    if (set(mark)) {
        tn__unref(mark);
        return NULL;
    }
    return tn__scope_own(mark);
}

/* Waits until the device has reached the mark. */
static tn_status reach(tn_device *device, const tn_mark *mark)
{
    uint32_t done = 0;
    tn_status status = device->plugin->event_query(mark->event, &done);
    return status || done ? fail_with("mark_elapsed", device, status)
                          : tn_device_synchronize(device);
}

tn_status tn_mark_elapsed(tn_mark *from, tn_mark *to, double *out_seconds)
{
    double ns;
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(from, &mark_class, "mark_elapsed", "from") ||
        !tn__object_check(to, &mark_class, "mark_elapsed", "to"))
        return tn_error_code();
    if (!out_seconds)
        return tn__fail(TN_ERR_ARGUMENT, "mark_elapsed: out_seconds is NULL");
    tn_device *device = from->device;
    if (device != to->device)
        return tn__fail(TN_ERR_DEVICE, "mark_elapsed: the marks are of %s "
                        "and %s; expected two of one device",
                        device->name, to->device->name);
    if (!from->event || !to->event) {
        *out_seconds = (to->at - from->at) * 1e-6;
        return TN_OK;
    }
    tn_status status = reach(device, from);
    if (!status)
        status = reach(device, to);
    if (!status)
        status = fail_with("mark_elapsed", device,
                      device->plugin->event_elapsed(from->event, to->event,
                                                    &ns));
    if (!status)
        *out_seconds = ns * 1e-9;
    return status;
}
