/* manifest.c: reads the manifest of a plugin, which describes it without
 * opening it.
 *
 *     name=cuda
 *     kind=gpu
 *     priority=100
 *     needs=libcuda.so.1
 *     remedy=install the NVIDIA driver
 */
#include <device/registry.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [TN_KIND_CPU] = "cpu",
    [TN_KIND_GPU] = "gpu",
    [TN_KIND_ACCELERATOR] = "accelerator",
    [TN_KIND_SIMULATED] = "simulated",
};
#define KIND_COUNT ((int32_t)(sizeof kind_names / sizeof *kind_names))

const char *tn__kind_name(int32_t kind)
{
    return kind >= 0 && kind < KIND_COUNT ? kind_names[kind] : "unknown kind";
}

/* Removes blanks at both ends and replaces control characters by blanks,
 * because messages that quote the text must be one line. */
static char *trimmed(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        text[--length] = 0;
    return text;
}

static bool copy_value(char *out, size_t room, const char *value)
{
    size_t length = strlen(value);
    if (!length || length >= room)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

static bool set_key(tn__manifest *m, const char *key, const char *value)
{
    if (!strcmp(key, "name"))
        return copy_value(m->name, sizeof m->name, value) &&
               !strpbrk(value, ":;,/= \t");
    if (!strcmp(key, "needs"))
        return copy_value(m->needs, sizeof m->needs, value);
    if (!strcmp(key, "remedy"))
        return copy_value(m->remedy, sizeof m->remedy, value);
    if (!strcmp(key, "kind")) {
        m->kind = -1;
        for (int32_t i = 0; i < KIND_COUNT; i++)
            if (!strcmp(value, kind_names[i]))
                m->kind = i;
        return m->kind >= 0;
    }
    if (!strcmp(key, "priority")) {
        char *end;
        long number = strtol(value, &end, 10);
        m->priority = (int32_t)number;
        return end != value && !*end && number >= -1000000 &&
               number <= 1000000;
    }
    return true;
}

bool tn__manifest_read(const char *path, tn__manifest *out, char *reason,
                       size_t reason_room)
{
    *out = (tn__manifest){.kind = -1};
    FILE *file = fopen(path, "re");
    if (!file) {
        if (errno == ENOENT)
            return true;
        snprintf(reason, reason_room, "its manifest %s cannot be read: %s",
                 path, strerror(errno));
        return false;
    }
    char line[512];
    int number = 0;
    bool good = true;
    while (good && fgets(line, sizeof line, file)) {
        number++;
        /* A line that is too long or has a NUL byte is an error. Otherwise the
         * rest of the line would be read as another line. */
        if (!strchr(line, '\n') && !feof(file)) {
            snprintf(reason, reason_room,
                     "its manifest %s, line %d is longer than %zu bytes or "
                     "holds a byte of 0",
                     path, number, sizeof line - 2);
            good = false;
            break;
        }
        char *text = trimmed(line);
        if (!*text || *text == '#')
            continue;
        char *equals = strchr(text, '=');
        if (equals)
            *equals = 0;
        if (!equals || !set_key(out, trimmed(text), trimmed(equals + 1))) {
            snprintf(reason, reason_room,
                     "its manifest %s, line %d: %s%s%s is no key=value that "
                     "can be used",
                     path, number, text, equals ? "=" : "",
                     equals ? trimmed(equals + 1) : "");
            good = false;
        }
    }
    if (good && ferror(file)) {
        snprintf(reason, reason_room, "its manifest %s cannot be read: %s",
                 path, strerror(errno));
        good = false;
    }
    fclose(file);
    out->present = good;
    return good;
}
