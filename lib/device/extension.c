/* extension.c: what a plugin may do beside the primitives, and the mask that
 * hides it: with an extension masked, the same work goes through primitives,
 * for comparison and for tests. */
#include "device/registry.h"

#include "base/platform.h"

#include <string.h>

/* The extensions that the core knows: the name, and its place in tn_device. */
static const struct {
    const char *name;
    size_t table;
} known[] = {
#define KNOWN_ROW(id, text) {text, offsetof(tn_device, id)},
    TN_EXTENSION_MAP(KNOWN_ROW)
#undef KNOWN_ROW
};
enum { KNOWN = sizeof known / sizeof *known };

static bool is_named(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; at && *at;) {
        size_t part = strcspn(at, ",");
        if (part == length && memcmp(at, name, part) == 0)
            return true;
        at += part + (at[part] == ',');
    }
    return false;
}

static tn_status check_names(const char *function, const char *names)
{
    for (const char *at = names; *at;) {
        size_t part = strcspn(at, ",");
        bool found = false;
        for (int i = 0; i < KNOWN; i++)
            found = found || (strlen(known[i].name) == part &&
                              memcmp(at, known[i].name, part) == 0);
        if (!found)
            return tn__fail(TN_ERR_ARGUMENT,
                            "%s: \"%.*s\" is no extension; there are:"
#define LISTED(id, text) " " text
                            TN_EXTENSION_MAP(LISTED),
#undef LISTED
                            function, (int)part, at);
        at += part + (at[part] == ',');
    }
    return TN_OK;
}

static void look_up(tn_device *device, const char *mask)
{
    bool all = mask && strcmp(mask, "all") == 0;
    for (int i = 0; i < KNOWN; i++) {
        const void *table = NULL;
        if (device->plugin->extension && !all &&
            !is_named(mask, known[i].name))
            table = device->plugin->extension(known[i].name, 1);
        atomic_store((_Atomic(const void *) *)((char *)device +
                                               known[i].table),
                     table);
    }
}

tn_status tn__extensions_open(tn_device *device)
{
    const char *mask = tn__env("TENON_MASK");
    tn_status status =
        mask && strcmp(mask, "all") != 0 ? check_names("TENON_MASK", mask)
                                         : TN_OK;
    if (!status)
        look_up(device, mask);
    return status;
}

bool tn_device_has_extension(const tn_device *device, const char *name)
{
    if (!device)
        device = tn_device_current();
    for (int i = 0; device && name && i < KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return atomic_load((const _Atomic(const void *) *)(const void *)(
                       (const char *)device + known[i].table)) != NULL;
    if (device && !name)
        tn__fail(TN_ERR_ARGUMENT, "device_has_extension: name is NULL");
    else if (device)
        check_names("device_has_extension", *name ? name : "(none)");
    return false;
}

tn_status tn_device_mask(tn_device *device, const char *names)
{
    if (!device)
        device = tn_device_current();
    if (!device)
        return tn_error_code();
    tn_status status =
        names && strcmp(names, "all") != 0 ? check_names("device_mask", names)
                                           : TN_OK;
    if (!status)
        look_up(device, names);
    return status;
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
