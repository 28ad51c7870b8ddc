/* plugin_errors.c: records an error when a plugin's call fails, and logs when a
 * plugin declines optional work. */
#include <device/registry.h>

tn_status tn__device_fail(tn_device *device, const char *what, tn_status status,
                          bool was_pending)
{
    if (was_pending)
        return status;
    tn__error error;
    tn__error_take(&error);
    if (error.code)
        return tn__fail(status, "%s: %s: %s", what, device->name, error.text);
    return tn__fail(status, "%s: %s failed with %s, and its plugin gave no "
                            "reason: report this to its author", what,
                    device->name, tn_status_name(status));
}

tn_status tn__extension_declined(tn_device *device, const char *what,
                                 bool was_pending)
{
    tn__error error;
    if (was_pending)
        return TN_ERR_UNSUPPORTED;
    tn__error_take(&error);
    if (tn__log_enabled(3))
        tn__log(3, "%s: %s declines: %s", what, device->name, error.text);
    return TN_ERR_UNSUPPORTED;
}
