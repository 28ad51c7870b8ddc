/* extension.c: finds the optional extensions of a plugin, such as convolutions.
 * TENON_MASK hides extensions by name. Other operators then do their work,
 * which is useful for tests and comparisons. */
#include <device/registry.h>

#include <base/platform.h>

#include <string.h>

/* The extensions that the core supports. An entry has the name, the offset in
 * tn_device of the pointer to the extension's function table, and the smallest
 * valid size of that table. */
#define LEAST_conv TN_CONV_EXTENSION_SIZE_1_0
#define LEAST_pool TN_POOL_EXTENSION_SIZE_1_0
#define LEAST_graph_replay TN_GRAPH_REPLAY_EXTENSION_SIZE_1_0
#define LEAST_attention TN_ATTENTION_EXTENSION_SIZE_1_0
#define LEAST_product TN_PRODUCT_EXTENSION_SIZE_1_0
#define LEAST_lapack TN_LAPACK_EXTENSION_SIZE_1_0
#define LEAST_quantised_product TN_QUANTISED_PRODUCT_EXTENSION_SIZE_1_0
#define LEAST_epilogue TN_EPILOGUE_EXTENSION_SIZE_1_0
#define LEAST_launch_list TN_LAUNCH_LIST_EXTENSION_SIZE_1_0
static const struct {
    const char *name;
    size_t table;
    uint32_t least;
} known[] = {
#define KNOWN_ROW(id, text) {text, offsetof(tn_device, id), LEAST_##id},
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
                            "%s: \"%.*s\" is not an extension; expected one of"
#define LISTED(id, text) " " text
                            TN_EXTENSION_MAP(LISTED),
#undef LISTED
                            function, (int)part, at);
        at += part + (at[part] == ',');
    }
    return TN_OK;
}

/* Checks that an extension's table is not too small. Every table begins with
 * two uint32_t, of which the first is its size; the functions follow. */
static tn_status check_table(const char *name, const void *table,
                             uint32_t least)
{
    uint32_t size;
    memcpy(&size, table, sizeof size);
    if (size < least)
        return tn__fail(TN_ERR_PLUGIN,
                        "its extension %s has a table of %u bytes; expected "
                        "at least %u",
                        name, size, least);
    for (uint32_t at = 2 * sizeof size; at < least; at += sizeof(void *)) {
        void (*function)(void);
        memcpy(&function, (const char *)table + at, sizeof function);
        if (!function)
            return tn__fail(TN_ERR_PLUGIN,
                            "its extension %s lacks a required function",
                            name);
    }
    return TN_OK;
}

static tn_status look_up(tn_device *device, const char *mask)
{
    bool all = mask && strcmp(mask, "all") == 0;
    for (int i = 0; i < KNOWN; i++) {
        const void *table = NULL;
        if (device->plugin->extension && !all &&
            !is_named(mask, known[i].name))
            table = device->plugin->extension(known[i].name, 1);
        tn_status status =
            table ? check_table(known[i].name, table, known[i].least) : TN_OK;
        if (status)
            return status;
        atomic_store((_Atomic(const void *) *)((char *)device +
                                               known[i].table),
                     table);
    }
    return TN_OK;
}

tn_status tn__extensions_open(tn_device *device)
{
    const char *mask = tn__env("TENON_MASK");
    tn_status status =
        mask && strcmp(mask, "all") != 0 ? check_names("TENON_MASK", mask)
                                         : TN_OK;
    return status ? status : look_up(device, mask);
}

bool tn__device_has_extension(const tn_device *device, const char *name)
{
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

tn_status tn__device_mask(tn_device *device, const char *names)
{
    tn_status status =
        names && strcmp(names, "all") != 0 ? check_names("device_mask", names)
                                           : TN_OK;
    return status ? status : look_up(device, names);
}

bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention)
{
    const tn_attention_extension *extension =
        atomic_load_explicit(&device->attention, memory_order_acquire);
    if (!extension)
        return false;
    bool was_pending = tn__error_pending();
    tn_status status = extension->fits(device->handle, attention);
    if (status)
        tn__extension_declined(device, "scaled_dot_product_attention",
                               was_pending);
    return !status;
}

bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows)
{
    const tn_lapack_extension *extension =
        atomic_load_explicit(&device->lapack, memory_order_acquire);
    if (!extension)
        return false;
    bool was_pending = tn__error_pending();
    *by_rows = extension->flags & TN_LAPACK_BY_ROWS;
    tn_status status = extension->fits(device->handle);
    if (!status && TN_HAS(tn_lapack_extension, extension, takes) &&
        extension->takes)
        status = extension->takes(device->handle, lapack);
    if (status)
        tn__extension_declined(device, what, was_pending);
    return !status;
}
