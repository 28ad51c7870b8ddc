/* spec.c: parses a device specification (TENON_DEVICE) and opens its device.
 *
 *     specification = item { ";" item }
 *     item          = "auto" | ( name | "/path/tn_x.so" )
 *                     [ ":" ( index | words ) ] { "," key "=" value }
 *
 * `words` selects the plugin's first device whose name or uid contains the
 * words, ignoring case: "opencl:geforce", "cuda:0000:65:00.0". A list of items
 * opens the first device that is available. `auto` tries the plugins whose
 * manifest has a priority above 0: first GPUs and accelerators, then CPUs. It
 * skips a device whose kind differs from the kind in the plugin's manifest,
 * such as an OpenCL device that is a CPU. */
#include <device/registry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wrong(char *reason, size_t room, const char *what,
                  const char *item, size_t length)
{
    snprintf(reason, room, "\"%.*s\": %s", (int)length, item, what);
    return false;
}

/* Returns the length of the plugin's name or path at the start of an item. A
 * path may contain colons and commas, but ends with ".so". */
static size_t name_length(const char *item, size_t length)
{
    if (*item == '/')
        for (size_t i = length; i >= 3; i--)
            if (!strncmp(item + i - 3, ".so", 3) &&
                (i == length || item[i] == ':' || item[i] == ','))
                return i;
    size_t i = 0;
    while (i < length && item[i] != ':' && item[i] != ',')
        i++;
    return i;
}

/* Parses what follows the colon: the index of a device, or words of its name.
 * Returns false if it is invalid. */
static bool which_parse(const char *text, size_t length, tn__spec *out)
{
    if (!length || length >= sizeof out->words)
        return false;
    memcpy(out->words, text, length);
    out->words[length] = 0;
    if (strspn(out->words, "0123456789") != length)
        return true;
    out->index = length < 6 ? atoi(out->words) : -1;
    out->words[0] = 0;
    return out->index >= 0;
}

static bool item_parse(const char *item, size_t length, tn__spec *out,
                       char *reason, size_t room)
{
    *out = (tn__spec){.index = -1};
    size_t name = name_length(item, length), at = name;
    if (!name)
        return wrong(reason, room, "the name of a device is missing: "
                                   "write cpu or cuda:0", item, length);
    if (name >= sizeof out->name)
        return wrong(reason, room, "the name is too long", item, length);
    memcpy(out->name, item, name);
    out->name[name] = 0;
    if (*item != '/' && memchr(item, '/', name))
        return wrong(reason, room, "a plugin's file is given by its absolute "
                                   "path", item, length);
    if (at < length && item[at] == ':') {
        size_t first = ++at;
        while (at < length && item[at] != ',')
            at++;
        if (!which_parse(item + first, at - first, out))
            return wrong(reason, room, "after the colon comes the number of "
                                       "a device, from 0 on, or a part of its "
                                       "name", item, length);
    }
    if (at < length) {
        at++;
        if (length - at >= sizeof out->options)
            return wrong(reason, room, "the options are too long", item,
                         length);
        memcpy(out->options, item + at, length - at);
        out->options[length - at] = 0;
    }
    if (!strcmp(out->name, "auto") &&
        (out->index >= 0 || out->words[0] || out->options[0]))
        return wrong(reason, room, "auto takes no number and no options",
                     item, length);
    return true;
}

bool tn__spec_next(const char **text, tn__spec *out, char *reason,
                   size_t room)
{
    const char *item = *text + strspn(*text, " \t");
    size_t length = strcspn(item, ";");
    *text = item + length + (item[length] == ';');
    while (length && (item[length - 1] == ' ' || item[length - 1] == '\t'))
        length--;
    return item_parse(item, length, out, reason, room);
}

/* Sets the options of an item for its plugin. A device reads options when it is
 * opened, so this fails if the device is open and an option would change. */
static bool options_apply(tn__plugin *plugin, const tn__spec *spec,
                          bool is_open, char *reason, size_t room)
{
    char text[sizeof spec->options];
    snprintf(text, sizeof text, "%s", spec->options);
    char *rest, *item = strtok_r(text, ",", &rest);
    for (; item; item = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(item, '=');
        if (!equals || equals == item) {
            snprintf(reason, room, "option \"%s\" is no key=value", item);
            return false;
        }
        *equals = 0;
        const char *old = tn__option_value(plugin, item);
        if (old && !strcmp(old, equals + 1))
            continue;
        if (is_open) {
            snprintf(reason, room,
                     "it is open already: its option %s cannot be set to %s",
                     item, equals + 1);
            return false;
        }
        if (!tn__option_set(plugin, item, equals + 1)) {
            snprintf(reason, room, "memory ran out");
            return false;
        }
    }
    return true;
}

static void names_list(tn__text *out)
{
    int listed = 0;
    for (int i = 0; i < tn__registry_count(); i++) {
        const tn__plugin *plugin = tn__registry_at(i);
        if (!plugin->shadowed && !plugin->name_is_guess)
            tn__text_add(out, "%s%s", listed++ ? ", " : "", plugin->name);
    }
    if (!listed)
        tn__text_add(out, "none in %s; TENON_PLUGIN_PATH adds folders",
                     *tn__registry_folders() ? tn__registry_folders()
                                             : "any folder");
}

/* Finds the plugin's first device whose name or uid contains the words. Returns
 * false if there is none, with a list of the devices in *reasons. */
static bool index_find(tn__plugin *plugin, const tn__spec *spec,
                       uint32_t *index, tn__text *reasons)
{
    uint32_t count;
    char reason[TN__REASON_BYTES] = "";
    tn_device_info info;
    if (!tn__plugin_count(plugin, &count, reason, sizeof reason) || !count) {
        tn__text_add(reasons, "%s: %s", spec->name,
                     *reason ? reason : "it has no device");
        return false;
    }
    for (*index = 0; *index < count; ++*index)
        if (tn__plugin_info(plugin, *index, &info, reason, sizeof reason) &&
            (strcasestr(info.name, spec->words) ||
             strcasestr(info.uid, spec->words)))
            return true;
    tn__text_add(reasons, "%s: no device is called \"%s\"; there are: ",
                 spec->name, spec->words);
    for (uint32_t i = 0; i < count; i++)
        if (tn__plugin_info(plugin, i, &info, reason, sizeof reason))
            tn__text_add(reasons, "%s%s:%u %s [%s]", i ? ", " : "", spec->name,
                         i, info.name, info.uid);
    return false;
}

static tn_device *open_named(const tn__spec *spec, tn__text *reasons)
{
    char reason[TN__REASON_BYTES] = "";
    tn__plugin *plugin;
    if (*spec->name == '/') {
        tn__error before, here;
        tn__error_hide(&before);
        plugin = tn__registry_add_file(spec->name);
        tn__error_take(&here);
        tn__error_restore(&before);
        if (!plugin) {
            tn__text_add(reasons, "%s", here.text);
            return NULL;
        }
    } else {
        plugin = tn__registry_find(spec->name);
        if (!plugin) {
            tn__text_add(reasons, "there is no plugin %s; there are: ",
                         spec->name);
            names_list(reasons);
            return NULL;
        }
    }
    if (!tn__plugin_load(plugin)) {
        tn__text_add(reasons, "%s: %s%s%s%s", spec->name, plugin->reason,
                     *plugin->remedy ? " (" : "", plugin->remedy,
                     *plugin->remedy ? ")" : "");
        return NULL;
    }
    uint32_t index = spec->index < 0 ? 0 : (uint32_t)spec->index;
    if (spec->words[0] && !index_find(plugin, spec, &index, reasons))
        return NULL;
    tn_device *device = NULL;
    if (options_apply(plugin, spec, tn__device_find(plugin, index) != NULL,
                      reason, sizeof reason))
        device = tn__device_get(plugin, index, reason, sizeof reason);
    if (!device)
        tn__text_add(reasons, "%s: %s", spec->name, reason);
    return device;
}

static bool is_fast(int32_t kind)
{
    return kind == TN_KIND_GPU || kind == TN_KIND_ACCELERATOR;
}

/* Compares two plugins for `auto`: GPUs and accelerators come before CPUs, then
 * higher priorities first, then by name. */
static int by_preference(const void *left, const void *right)
{
    const tn__plugin *a = *(tn__plugin *const *)left;
    const tn__plugin *b = *(tn__plugin *const *)right;
    bool fa = is_fast(a->manifest.kind), fb = is_fast(b->manifest.kind);
    if (fa != fb)
        return fa ? -1 : 1;
    if (a->manifest.priority != b->manifest.priority)
        return a->manifest.priority > b->manifest.priority ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Opens the plugin's first device that can be opened and is of the kind that
 * the manifest says. */
static tn_device *open_any(tn__plugin *plugin, char *reason, size_t room)
{
    uint32_t count;
    if (!tn__plugin_load(plugin)) {
        snprintf(reason, room, "%s", plugin->reason);
        return NULL;
    }
    if (!tn__plugin_count(plugin, &count, reason, room))
        return NULL;
    if (!count && !*reason)
        snprintf(reason, room, "has no device");
    for (uint32_t i = 0; i < count; i++) {
        tn_device_info info;
        if (!tn__plugin_info(plugin, i, &info, reason, room))
            continue;
        if (is_fast((int32_t)info.kind) != is_fast(plugin->manifest.kind) ||
            info.kind == TN_KIND_SIMULATED) {
            snprintf(reason, room, "%s:%u is of kind %s: opened only by "
                                   "name", plugin->name, i,
                     tn__kind_name((int32_t)info.kind));
            continue;
        }
        tn_device *device = tn__device_get(plugin, i, reason, room);
        if (device)
            return device;
    }
    return NULL;
}

static tn_device *open_auto(tn__text *reasons)
{
    tn__plugin *list[TN__MAX_PLUGINS];
    size_t count = 0;
    for (int i = 0; i < tn__registry_count(); i++) {
        tn__plugin *plugin = tn__registry_at(i);
        if (!plugin->shadowed && plugin->manifest.priority > 0 &&
            (is_fast(plugin->manifest.kind) ||
             plugin->manifest.kind == TN_KIND_CPU))
            list[count++] = plugin;
    }
    qsort(list, count, sizeof *list, by_preference);
    for (size_t i = 0; i < count; i++) {
        char reason[TN__REASON_BYTES] = "";
        tn_device *device = open_any(list[i], reason, sizeof reason);
        if (device)
            return device;
        tn__log(2, "auto skips %s: %s", list[i]->name, reason);
        tn__text_add(reasons, "%s%s: %s", i ? "; " : "", list[i]->name,
                     reason);
    }
    if (!count) {
        tn__text_add(reasons, "no plugin is available to auto; there are: ");
        names_list(reasons);
    }
    return NULL;
}

tn_device *tn__spec_open(const char *specification, tn__text *reasons)
{
    const char *text = specification;
    /* Parses the whole specification before opening anything, so that a typing
     * error in a later item is always reported. */
    do {
        tn__spec spec;
        char reason[TN__REASON_BYTES];
        if (!tn__spec_next(&text, &spec, reason, sizeof reason)) {
            tn__text_add(reasons, "%s", reason);
            return NULL;
        }
    } while (*text);
    text = specification;
    if (tn__registry_search() < 0)
        return NULL; /* the error is recorded */
    do {
        tn__spec spec;
        char reason[TN__REASON_BYTES];
        tn__spec_next(&text, &spec, reason, sizeof reason);
        tn_device *device = !strcmp(spec.name, "auto")
                                ? open_auto(reasons)
                                : open_named(&spec, reasons);
        if (device)
            return device;
        if (*text)
            tn__text_add(reasons, "; ");
    } while (*text);
    return NULL;
}
