/* report.c: lists all plugins for the user: which files were found, which
 * plugins can be used, and how to make the other plugins usable. */
#include <device/registry.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_device(tn__text *text, const tn__plugin *plugin, uint32_t i,
                       const tn_device_info *info)
{
    tn__text_add(text, "  %s:%" PRIu32 ": %s (%s", plugin->name, i, info->name,
                 tn__kind_name((int32_t)info->kind));
    if (info->memory_total)
        tn__text_add(text, ", %" PRIu64 " MiB",
                     info->memory_total / (1024 * 1024));
    bool exact = info->caps & TN_CAP_BIT_EXACT;
    tn__text_add(text, ", bit-exact: %s", exact ? "yes" : "no");
    if (info->note[0])
        tn__text_add(text, "; %s", info->note);
    tn__text_add(text, ")\n");
}

static void add_plugin(tn__text *text, tn__plugin *plugin, tn__probe *probe)
{
    tn__plugin_probe(plugin, probe);
    tn__text_add(text, "%s: %s: ", plugin->name, plugin->path);
    if (!probe->usable) {
        tn__text_add(text, "%s", probe->reason);
        if (*probe->remedy)
            tn__text_add(text, "; remedy: %s", probe->remedy);
    } else if (!probe->count) {
        tn__text_add(text, "no device%s%s", *probe->reason ? ": " : "",
                     probe->reason);
    } else {
        tn__text_add(text, "%" PRIu32 " device%s", probe->count,
                     probe->count == 1 ? "" : "s");
        if (plugin->manifest.priority <= 0)
            tn__text_add(text, ", only by name");
    }
    tn__text_add(text, "\n");
    uint32_t room = sizeof probe->info / sizeof *probe->info;
    for (uint32_t i = 0; probe->usable && i < probe->count && i < room; i++)
        add_device(text, plugin, i, &probe->info[i]);
}

const char *tn_plugin_folders(void)
{
    tn__lock_take(&tn__registry_lock);
    const tn_status status = tn__registry_search();
    tn__lock_give(&tn__registry_lock);
    return status < 0 ? NULL : tn__registry_folders();
}

/* The last report of each thread. It is freed when the thread ends. */
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void key_make(void)
{
    key_made = !pthread_key_create(&key, tn__free);
}

const char *tn_load_report(void)
{
    pthread_once(&key_once, key_make);
    if (!key_made)
        return tn__fail_null(TN_ERR_MEMORY, "out of memory for a report");
    tn__probe *probe = tn__alloc(sizeof *probe);
    if (!probe)
        return NULL;
    tn__text text = {0};
    tn__lock_take(&tn__registry_lock);
    const tn_status status = tn__registry_search();
    tn__text_add(&text, "looked in: %s\n",
                 *tn__registry_folders() ? tn__registry_folders()
                                         : "no folder");
    for (int i = 0; status == TN_OK && i < tn__registry_count(); i++)
        add_plugin(&text, tn__registry_at(i), probe);
    tn__lock_give(&tn__registry_lock);
    tn__free(probe);
    char *report = tn__text_finish(&text);
    if (!report || status < 0) {
        tn__free(report);
        return NULL;
    }
    tn__free(pthread_getspecific(key));
    if (pthread_setspecific(key, report)) {
        tn__free(report);
        pthread_setspecific(key, NULL);
        return tn__fail_null(TN_ERR_MEMORY, "out of memory for a report");
    }
    return report;
}

int tn_device_count(const char *name)
{
    /* A tn__probe is too large for the stack of some threads, so it is
     * allocated. */
    tn__error before;
    tn__error_hide(&before);
    tn__probe *probe = tn__alloc(sizeof *probe);
    int count = 0;
    tn__lock_take(&tn__registry_lock);
    (void)tn__registry_search(); /* if this fails, the plugins found so far are
                                  * used */
    if (probe && name) {
        tn__plugin *plugin = *name == '/' ? tn__registry_add_file(name)
                                          : tn__registry_find(name);
        uint32_t n;
        if (plugin && tn__plugin_load(plugin) &&
            tn__plugin_count(plugin, &n, probe->reason, sizeof probe->reason))
            count = (int)n;
    }
    for (int i = 0; probe && !name && i < tn__registry_count(); i++) {
        tn__plugin_probe(tn__registry_at(i), probe);
        if (probe->usable)
            count += (int)probe->count;
    }
    tn__lock_give(&tn__registry_lock);
    tn__free(probe);
    tn__error_restore(&before);
    return count;
}
