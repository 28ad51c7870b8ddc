/* by_name.h: opens a plugin of the build tree directly, without libtenon's
 * loader. */
#ifndef TN_TESTS_BY_NAME_H
#define TN_TESTS_BY_NAME_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/check/by_hand.h"

static const char *by_name_isa, *by_name_stream;
static uint32_t by_name_group; /* copied to by_hand_how.group */
static char by_name_plugin[32]; /* the name of the open plugin */

static inline const char *by_name_option(const char *key)
{
    char name[64];
    if (strcmp(key, "isa") == 0)
        return by_name_isa;
    if (strcmp(key, "stream") == 0)
        return by_name_stream;
    snprintf(name, sizeof name, "TENON_%s_%.20s", by_name_plugin, key);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return getenv(name);
}

/* Opens a device of tn_<name>.so in TENON_PLUGIN_PATH; name is for example
 * "cpu" or "opencl:1". The plugin's option("isa") returns isa if it is not
 * NULL, and option("stream") returns by_name_stream; other options are read
 * from TENON_<NAME>_<KEY>. Only the plugin named reference may call the
 * interpreter. Returns false and sets by_hand_failure() if it fails. */
static inline bool by_name_open(by_hand *h, const char *name, const char *isa)
{
    static char path[4096];
    const char *folder = getenv("TENON_PLUGIN_PATH");
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    snprintf(path, sizeof path, "%s/tn_%.*s.so", folder ? folder : ".",
             (int)length, name);
    by_name_isa = isa;
    snprintf(by_name_plugin, sizeof by_name_plugin, "%.*s", (int)length, name);
    return by_hand_open(
        h, &(by_hand_how){.path = path,
                          .option = by_name_option,
                          .group = by_name_group,
                          .device = colon ? (uint32_t)atoi(colon + 1) : 0,
                          .no_interpreter = strcmp(name, "reference") != 0});
}

#endif
