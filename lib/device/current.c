/* current.c: the current device of each thread (as torch.cuda.set_device), and
 * opening a device by its specification ("cuda:0"). */
#include <device/registry.h>

#include <base/context.h>
#include <base/lock.h>
#include <base/platform.h>

#include <stdio.h>

static _Atomic(tn_device *) default_device;

/* Opens the device of a specification. If that fails, the error message begins
 * with `what`, for example "TENON_DEVICE=cuda". */
static tn_device *open_or_fail(const char *specification, const char *what)
{
    tn__text reasons = {0};
    tn__lock_take(&tn__registry_lock);
    tn__device_no_memory = false;
    tn_device *device = tn__spec_open(specification, &reasons);
    const bool lacks = tn__device_no_memory || reasons.failed;
    tn__lock_give(&tn__registry_lock);
    if (!device)
        tn__fail(lacks ? TN_ERR_MEMORY : TN_ERR_NO_DEVICE, "%s: %s", what,
                 reasons.data && !reasons.failed ? reasons.data
                                                 : "memory ran out");
    tn__text_release(&reasons);
    return device;
}

tn_device *tn_device_open(const char *specification)
{
    if (!specification)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "device_open: specification is NULL; give a "
                             "name such as \"cpu\", or \"auto\"");
    return open_or_fail(specification, "device_open");
}

bool tn_device_is_available(const char *specification)
{
    if (!specification)
        return false;
    tn__error before;
    tn__error_hide(&before);
    bool available = tn_device_open(specification) != NULL;
    tn__error_restore(&before);
    return available;
}

/* Opens the device that TENON_DEVICE names. The variable is read once, and the
 * device is the default of all threads. */
static tn_device *default_open(void)
{
    const char *text = tn__env("TENON_DEVICE");
    char what[256];
    snprintf(what, sizeof what, "%s%s",
             text ? "TENON_DEVICE=" : "TENON_DEVICE is not set, so auto",
             text ? text : "");
    tn_device *device = open_or_fail(text ? text : "auto", what);
    tn_device *none = NULL;
    if (device &&
        atomic_compare_exchange_strong(&default_device, &none, device))
        tn__log(2, "default device: %s (%s)", device->name, what);
    return device;
}

tn_device *tn_device_current(void)
{
    if (TN__LIKELY(tn__me.device != NULL))
        return tn__me.device;
    tn_device *device =
        atomic_load_explicit(&default_device, memory_order_acquire);
    return TN__LIKELY(device != NULL) ? device : default_open();
}

tn_status tn_device_set(tn_device *device)
{
    /* NULL restores the default device. But if an error is pending, the NULL is
     * probably the result of a failed tn_device_open, so the call is
     * rejected. */
    if (!device && tn__error_pending())
        return TN_ERR_STATE;
    tn__me.device = device;
    return TN_OK;
}

tn_status tn_device_synchronize(tn_device *device)
{
    if (!device)
        device = tn_device_current();
    return device ? tn__work_wait(device, "device_synchronize")
                  : tn_error_code();
}

bool tn_device_has_extension(const tn_device *device, const char *name)
{
    return tn__device_has_extension(device ? device : tn_device_current(),
                                    name);
}

tn_status tn_device_mask(tn_device *device, const char *names)
{
    if (!device)
        device = tn_device_current();
    return device ? tn__device_mask(device, names) : tn_error_code();
}
