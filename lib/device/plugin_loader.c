/* plugin_loader.c: opens a plugin and checks its function table.
 *
 * A problem makes only this plugin unusable; it is reported in one sentence,
 * with a remedy. A plugin that was opened is never closed, because the
 * libraries that it loads may have started threads and registered exit
 * handlers. */
#include <base/plain.h>
#include <device/registry.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

bool tn__device_no_memory;

/* The functions that every plugin must have. */
#define REQUIRED_MAP(X)                                                       \
    X(device_count) X(device_info) X(device_open) X(device_close)             \
    X(buffer_alloc) X(buffer_free) X(queue_open) X(queue_close)               \
    X(queue_sync) X(copy) X(program_build) X(program_free) X(launch)          \
    X(matmul) X(scatter) X(scan) X(sort)

#define REBUILD "build it again with this version's <tenon/plugin.h>"

__attribute__((format(printf, 3, 4))) static bool
refuse(tn__plugin *plugin, const char *remedy, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tn__plain_vprint(plugin->reason, sizeof plugin->reason, format, args);
    va_end(args);
    snprintf(plugin->remedy, sizeof plugin->remedy, "%s", remedy);
    plugin->state = TN__PLUGIN_REFUSED;
    tn__log(2, "plugin %s: %s: %s", plugin->name, plugin->path,
            plugin->reason);
    return false;
}

static void *open_library(const char *path, int mode)
{
    errno = 0;
    void *library = dlopen(path, mode);
    tn__device_no_memory |= !library && errno == ENOMEM;
    return library;
}

/* Returns whether the libraries that the manifest lists under `needs` can be
 * opened. They are tried before the plugin is opened. */
static bool needs_met(tn__plugin *plugin)
{
    const char *at = plugin->manifest.needs;
    while (*at) {
        char library[256];
        at += strspn(at, ", \t");
        size_t length = strcspn(at, ", \t");
        memcpy(library, at, length);
        library[length] = 0;
        at += length;
        if (length && !open_library(library, RTLD_LAZY | RTLD_LOCAL)) {
            char remedy[TN__REASON_BYTES];
            if (plugin->manifest.remedy[0])
                snprintf(remedy, sizeof remedy, "%s", plugin->manifest.remedy);
            else
                snprintf(remedy, sizeof remedy,
                         "install what provides %s, or add its folder to "
                         "LD_LIBRARY_PATH",
                         library);
            return refuse(plugin, remedy, "requires %s, which was not found",
                          library);
        }
    }
    return true;
}

/* Groups of optional functions that belong together. A plugin must have either
 * all functions of a group or none. */
typedef struct slot {
    const char *name; /* name of the function; NULL ends the group */
    size_t at;
} slot;
#define SLOT(name) {#name, offsetof(tn_plugin, name)}
static const slot sets[][6] = {
    {SLOT(event_open), SLOT(event_close), SLOT(event_record),
     SLOT(event_query), SLOT(queue_wait)},
    {SLOT(host_alloc), SLOT(host_free)},
    {SLOT(event_open_timed), SLOT(event_elapsed)},
};

static bool is_filled(const tn_plugin *table, size_t at)
{
    void (*function)(void);
    memcpy(&function, (const char *)table + at, sizeof function);
    return function != NULL;
}

static bool sets_whole(tn__plugin *plugin)
{
    const tn_plugin *table = &plugin->table;
    const char *has = NULL, *lacks = NULL;
    for (size_t i = 0; i < sizeof sets / sizeof *sets && !(has && lacks); i++) {
        has = lacks = NULL;
        for (const slot *s = sets[i]; s->name; s++)
            *(is_filled(table, s->at) ? &has : &lacks) = s->name;
    }
    if (table->event_open_timed && !table->event_open) {
        has = "event_open_timed";
        lacks = "event_open";
    }
    return !(has && lacks)
               ? true
               : refuse(plugin, "ask its author for a complete one",
                        "has the function %s without %s, which it requires",
                        has, lacks);
}

static bool table_checked(tn__plugin *plugin, const tn_plugin *table)
{
    if (!TN_HAS(tn_plugin, table, abi_major) ||
        table->abi_major != TN_ABI_MAJOR)
        return refuse(plugin, REBUILD,
                      "has version %u of the plugin ABI; expected version %u",
                      TN_HAS(tn_plugin, table, abi_major) ? table->abi_major
                                                          : 0u,
                      TN_ABI_MAJOR);
    if (table->size < TN_PLUGIN_SIZE_1_0)
        return refuse(plugin, REBUILD,
                      "its table has %u bytes; expected at least %u",
                      table->size, TN_PLUGIN_SIZE_1_0);
    size_t known = sizeof plugin->table;
    memcpy(&plugin->table, table, table->size < known ? table->size : known);
#define CHECK(slot)                                                           \
    if (!plugin->table.slot)                                                  \
        return refuse(plugin, "ask its author for a complete one",              \
                      "required function " #slot " is missing");
    REQUIRED_MAP(CHECK)
#undef CHECK
    if (!sets_whole(plugin))
        return false;
    const char *name = plugin->table.name;
    if (!name || !*name || strlen(name) >= sizeof plugin->name)
        return refuse(plugin, "ask its author for a complete one",
                      "its table has no name");
    if (plugin->name_is_guess && !plugin->manifest.name[0])
        snprintf(plugin->name, sizeof plugin->name, "%s", name);
    else if (strcmp(plugin->name, name))
        return refuse(plugin, "rename the file, or correct its manifest",
                      "its table has the name %s, its file or manifest %s",
                      name, plugin->name);
    return true;
}

/* Opens the plugin and checks its function table. The caller has saved and
 * cleared any pending error, so an error found here comes from the plugin. */
static bool load(tn__plugin *plugin)
{
    if (!needs_met(plugin))
        return false;
    void *library = open_library(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        return refuse(plugin,
                      "install what it requires, or build it for this machine",
                      "cannot be opened: %s", text ? text : "no reason given");
    }
    const tn_plugin *(*entry)(const tn_host *host);
    void *symbol = dlsym(library, "tenon_plugin_v1");
    if (!symbol)
        return refuse(plugin, "remove it from the folder of plugins",
                      "has no symbol tenon_plugin_v1: it is not a plugin, or "
                      "its ABI has another major version");
    /* ISO C does not allow an object pointer to be converted to a function
     * pointer; POSIX does. */
    memcpy(&entry, &symbol, sizeof entry);
    const tn_plugin *table = entry(&plugin->host);
    tn__device_no_memory |= !table && tn_error_code() == TN_ERR_MEMORY;
    if (!table)
        return refuse(plugin, "", "%s",
                      tn_error() ? tn_error()
                                 : "declined to load, without a reason");
    return table_checked(plugin, table);
}

bool tn__plugin_load(tn__plugin *plugin)
{
    if (plugin->state == TN__PLUGIN_LOADED)
        return true;
    if (plugin->state == TN__PLUGIN_REFUSED)
        return false;
    tn__error before;
    tn__error_hide(&before);
    const int found = plugin->state;
    bool loaded = load(plugin);
    tn__error_restore(&before);
    if (!loaded && tn__device_no_memory)
        plugin->state = found; /* a later attempt may succeed */
    if (loaded) {
        plugin->state = TN__PLUGIN_LOADED;
        tn__log(3, "plugin %s: loaded from %s", plugin->name, plugin->path);
    }
    return loaded;
}

/* Writes the plugin's error message to `reason`. If the plugin gave none,
 * writes `otherwise`. */
static void reason_take(char *reason, size_t room, const char *otherwise)
{
    snprintf(reason, room, "%s", tn_error() ? tn_error() : otherwise);
}

bool tn__plugin_count(tn__plugin *plugin, uint32_t *count, char *reason,
                      size_t room)
{
    tn__error before;
    tn__error_hide(&before);
    *count = 0;
    tn_status status = plugin->table.device_count(count);
    reason_take(reason, room,
                status ? "cannot count its devices, without a reason" : "");
    tn__error_restore(&before);
    if (status)
        *count = 0;
    return status == TN_OK;
}

bool tn__plugin_info(tn__plugin *plugin, uint32_t i, tn_device_info *info,
                     char *reason, size_t room)
{
    tn__error before;
    tn__error_hide(&before);
    *info = (tn_device_info){.size = sizeof *info};
    tn_status status = plugin->table.device_info(i, info);
    reason_take(reason, room, "cannot describe the device");
    tn__error_restore(&before);
    info->name[sizeof info->name - 1] = 0;
    info->uid[sizeof info->uid - 1] = 0;
    info->note[sizeof info->note - 1] = 0;
    return status == TN_OK;
}
