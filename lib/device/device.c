/* device.c: opens devices, and keeps the list of open devices. */
#include <device/registry.h>

#include <base/lock.h>
#include <base/memory.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* list of open devices, owned and never freed */
static tn_device *devices[TN__MAX_DEVICES];
static int device_count;

tn_device *tn__device_find(const tn__plugin *plugin, uint32_t index)
{
    for (int i = 0; i < device_count; i++)
        if (devices[i]->plugin == &plugin->table && devices[i]->index == index)
            return devices[i];
    return NULL;
}

/* Writes the error message of the plugin's last call to `reason`, or the status
 * if the plugin gave no message. */
static void reason_of(char *reason, size_t room, const char *call,
                      tn_status status)
{
    if (tn_error())
        snprintf(reason, room, "%s", tn_error());
    else
        snprintf(reason, room, "%s returned %s without a reason", call,
                 tn_status_name(status));
}

static bool open_handles(tn_device *device, char *reason, size_t room)
{
    const tn_plugin *plugin = device->plugin;
    tn_status status = plugin->device_open(device->index, &device->handle);
    if (status) {
        reason_of(reason, room, "device_open", status);
        return false;
    }
    status = plugin->queue_open(device->handle, &device->queue);
    if (status) {
        reason_of(reason, room, "queue_open", status);
        plugin->device_close(device->handle);
        return false;
    }
    device->allocator = tn__allocator_make(device);
    device->builds = tn__builds_make();
    device->work = tn__work_make();
    status = device->allocator && device->builds && device->work ? tn__extensions_open(device)
                                               : TN_ERR_MEMORY;
    if (!status)
        return true;
    reason_of(reason, room, "memory", status);
    tn__free(device->allocator);
    tn__free(device->work);
    tn__free(device->builds);
    plugin->queue_close(device->queue);
    plugin->device_close(device->handle);
    return false;
}

/* Returns whether an alignment that a device reports is a power of two up to
 * 65536. The allocator starts every block of the device's memory at a multiple
 * of it. */
static bool align_ok(uint32_t align)
{
    return align <= 65536 && !(align & (align - 1));
}

static tn_device *device_open(tn__plugin *plugin, uint32_t index,
                              char *reason, size_t room)
{
    uint32_t count;
    if (!tn__plugin_count(plugin, &count, reason, room))
        return NULL;
    if (!count) {
        if (!*reason)
            snprintf(reason, room, "it has no device");
        return NULL;
    }
    if (index >= count) {
        snprintf(reason, room,
                 "there is no device %" PRIu32 ": the plugin has %" PRIu32
                 ", numbered from 0",
                 index, count);
        return NULL;
    }
    if (device_count == TN__MAX_DEVICES) {
        snprintf(reason, room, "%d devices are open already, the maximum",
                 TN__MAX_DEVICES);
        return NULL;
    }
    tn_device_info info;
    if (!tn__plugin_info(plugin, index, &info, reason, room))
        return NULL;
    if (!align_ok(info.align)) {
        snprintf(reason, room, "it asks for buffers aligned to %" PRIu32
                               " bytes: not a power of two up to 65536",
                 info.align);
        return NULL;
    }
    if (!tn__dtypes_check(&info, reason, room))
        return NULL;
    tn_device *device = tn__calloc(1, sizeof *device);
    if (!device) {
        snprintf(reason, room, "memory ran out");
        return NULL;
    }
    device->plugin = &plugin->table;
    device->index = index;
    device->id = device_count;
    device->info = info;
    device->synchronous = !(info.caps & TN_CAP_ASYNC);
    device->host_visible =
        (info.caps & TN_CAP_HOST_VISIBLE) && plugin->table.buffer_map;
    device->align = info.align ? info.align : 1;
    device->storage_types = info.storage_types;
    snprintf(device->name, sizeof device->name, "%s:%" PRIu32, plugin->name,
             index);
    tn__lock_init(&device->queue_lock);
    if (!open_handles(device, reason, room)) {
        tn__lock_destroy(&device->queue_lock);
        tn__free(device);
        return NULL;
    }
    devices[device_count++] = device;
    tn__log(2, "device %s: %s", device->name, device->info.name);
    return device;
}

tn_device *tn__device_get(tn__plugin *plugin, uint32_t index, char *reason,
                          size_t room)
{
    tn_device *device = tn__device_find(plugin, index);
    if (device)
        return device;
    tn__error before;
    tn__error_hide(&before);
    device = device_open(plugin, index, reason, room);
    tn__device_no_memory |= !device && tn_error_code() == TN_ERR_MEMORY;
    tn__error_restore(&before);
    return device;
}

const char *tn_device_name(const tn_device *device)
{
    return device ? device->name : NULL;
}

const char *tn_device_description(const tn_device *device)
{
    return device ? device->info.name : NULL;
}

bool tn_device_is_bit_exact(const tn_device *device)
{
    return device && (device->info.caps & TN_CAP_BIT_EXACT);
}
