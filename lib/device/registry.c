/* registry.c: keeps the list of the plugins that were found. */
#include <device/registry.h>

#include <base/lock.h>

#include <string.h>

tn__lock tn__registry_lock = TN__LOCK_INIT;

/* list of plugins, owned and never freed */
static tn__plugin *plugins[TN__MAX_PLUGINS];
static int plugin_count;

int tn__registry_count(void)
{
    return plugin_count;
}

tn__plugin *tn__registry_at(int i)
{
    return plugins[i];
}

tn__plugin *tn__registry_find(const char *name)
{
    for (int i = 0; i < plugin_count; i++)
        if (!plugins[i]->shadowed && !strcmp(plugins[i]->name, name))
            return plugins[i];
    return NULL;
}

tn__plugin *tn__registry_find_path(const char *path)
{
    for (int i = 0; i < plugin_count; i++)
        if (!strcmp(plugins[i]->path, path))
            return plugins[i];
    return NULL;
}

void tn__registry_append(tn__plugin *plugin)
{
    plugins[plugin_count++] = plugin;
}
