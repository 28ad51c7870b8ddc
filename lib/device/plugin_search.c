/* plugin_search.c: finds plugins, without opening them.
 *
 * Plugins are searched in these folders, in this order: the folders of
 * TENON_PLUGIN_PATH; tenon-1/ beside the library (for a build tree or an
 * installation that was moved); the plugin folder that configure set. The
 * current folder is never searched. Only file names and manifests are read. */
#include <device/registry.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool searched;
static char folders_text[2048];

const char *tn__registry_folders(void)
{
    return folders_text;
}

static void refuse(tn__plugin *plugin, const char *remedy)
{
    plugin->state = TN__PLUGIN_REFUSED;
    snprintf(plugin->remedy, sizeof plugin->remedy, "%s", remedy);
}

/* Writes the plugin's name, taken from its file name, to `out`: "cpu" for
 * ".../tn_cpu.so". Returns false if the file name does not have that form. */
static bool name_of_file(const char *file, char *out, size_t room)
{
    const char *slash = strrchr(file, '/');
    if (slash)
        file = slash + 1;
    size_t length = strlen(file);
    if (length < 7 || strncmp(file, "tn_", 3) ||
        strcmp(file + length - 3, ".so") || length - 6 >= room)
        return false;
    memcpy(out, file + 3, length - 6);
    out[length - 6] = 0;
    return true;
}

static void read_manifest(tn__plugin *plugin)
{
    char path[PATH_MAX];
    size_t stem = strlen(plugin->path);
    if (stem < 3 || strcmp(plugin->path + stem - 3, ".so") ||
        stem + 3 > sizeof path)
        return;
    memcpy(path, plugin->path, stem - 3);
    memcpy(path + stem - 3, ".conf", 6);
    if (!tn__manifest_read(path, &plugin->manifest, plugin->reason,
                           sizeof plugin->reason))
        refuse(plugin, "correct or remove that line");
    if (plugin->manifest.name[0])
        memcpy(plugin->name, plugin->manifest.name, sizeof plugin->name);
}

/* Appends a plugin file to the list. Returns NULL with the error recorded on
 * failure. */
static tn__plugin *append(const char *path)
{
    if (tn__registry_count() == TN__MAX_PLUGINS)
        return tn__fail_null(TN_ERR_PLUGIN,
                             "%s: there are %d plugins already, the maximum",
                             path, TN__MAX_PLUGINS);
    tn__plugin *plugin = tn__calloc(1, sizeof *plugin);
    char *copy = tn__strdup(path);
    if (!plugin || !copy) {
        tn__free(plugin);
        tn__free(copy);
        return NULL;
    }
    plugin->path = copy;
    plugin->manifest.kind = -1;
    if (!name_of_file(path, plugin->name, sizeof plugin->name)) {
        plugin->name_is_guess = true;
        snprintf(plugin->name, sizeof plugin->name, "?");
    }
    read_manifest(plugin);
    tn__plugin *first = tn__registry_find(plugin->name);
    if (first) {
        plugin->shadowed = true;
        snprintf(plugin->reason, sizeof plugin->reason,
                 "not used: %s has the same name and was found first",
                 first->path);
        refuse(plugin, "remove one of them, or give its path as the device");
    }
    tn__host_fill(plugin, tn__registry_count());
    tn__registry_append(plugin);
    return plugin;
}

tn__plugin *tn__registry_add_file(const char *path)
{
    tn__plugin *plugin = tn__registry_find_path(path);
    if (!plugin) {
        struct stat status;
        if (stat(path, &status))
            return tn__fail_null(TN_ERR_NO_DEVICE, "%s: %s", path,
                                 strerror(errno));
        plugin = append(path);
    }
    /* Normally the first plugin with a name hides later ones. A plugin that is
     * given by its path is used nevertheless. */
    if (plugin && plugin->shadowed) {
        plugin->shadowed = false;
        plugin->state = TN__PLUGIN_FOUND;
        plugin->reason[0] = plugin->remedy[0] = 0;
    }
    return plugin;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_plugin_name(const struct dirent *entry)
{
    char name[TN__NAME_BYTES];
    return name_of_file(entry->d_name, name, sizeof name);
}

/* Adds the plugins of a folder to the list. Returns false if memory runs out.
 * Then the caller must stop: a plugin missed in this folder would otherwise be
 * replaced by one of the same name from a later folder. */
static bool search_folder(const char *folder)
{
    char real[PATH_MAX], path[PATH_MAX + 256 + 2];
    if (*folder != '/' || !realpath(folder, real))
        snprintf(real, sizeof real, "%s", folder);
    size_t used = strlen(folders_text);
    snprintf(folders_text + used, sizeof folders_text - used, "%s%s",
             used ? ", " : "", folder);
    if (*folder != '/') {
        tn__log(1, "plugins are not searched in %s: not an absolute path",
                folder);
        return true;
    }
    struct dirent **entry;
    int count = scandir(real, &entry, is_plugin_name, by_name);
    bool good = count >= 0 || errno != ENOMEM;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", real, entry[i]->d_name);
        /* The list of folders may name a folder twice. */
        if (good && strlen(path) < PATH_MAX && !tn__registry_find_path(path))
            good = append(path) || tn_error_code() != TN_ERR_MEMORY;
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
    return good;
}

static bool search_all(void)
{
    bool good = true;
    const char *text = tn__env("TENON_PLUGIN_PATH");
    char folder[PATH_MAX] = "";
    folders_text[0] = '\0';
    while (good && text && *text) {
        size_t length = strcspn(text, ":");
        if (length && length < sizeof folder) {
            memcpy(folder, text, length);
            folder[length] = 0;
            good = search_folder(folder);
        }
        text += length + (text[length] == ':');
    }
    char beside[PATH_MAX - 16];
    if (good && tn__library_folder(beside, sizeof beside)) {
        snprintf(folder, sizeof folder, "%s/tenon-1", beside);
        good = search_folder(folder);
    }
#ifdef TENON_PLUGIN_DIR
    if (good && strcmp(folder, TENON_PLUGIN_DIR))
        good = search_folder(TENON_PLUGIN_DIR);
#endif
    return good;
}

tn_status tn__registry_search(void)
{
    if (!searched)
        searched = search_all();
    return searched ? TN_OK
                    : tn__fail(TN_ERR_MEMORY,
                               "out of memory while searching for plugins");
}
