/* by_name.h: a plugin of the build tree, opened by hand. */
#ifndef TN_TESTS_BY_NAME_H
#define TN_TESTS_BY_NAME_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/check/by_hand.h"

static const char *by_name_isa, *by_name_stream;

static inline const char *by_name_option(const char *key)
{
    char name[64] = "TENON_OPENCL_";
    size_t at = strlen(name);
    if (strcmp(key, "isa") == 0)
        return by_name_isa;
    if (strcmp(key, "stream") == 0)
        return by_name_stream;
    for (; *key && at + 1 < sizeof name; key++)
        name[at++] = (char)toupper((unsigned char)*key);
    name[at] = 0;
    return getenv(name);
}

/* Opens a device of tn_<name>.so in TENON_PLUGIN_PATH: "cpu", or "opencl:1".
 * option("isa") tells isa, unless NULL; option("stream") tells by_name_stream;
 * TENON_OPENCL_<KEY> are the opencl plugin's. Only the plugin named reference
 * may call the interpreter.
 * False with by_hand_failure() set. */
static inline bool by_name_open(by_hand *h, const char *name, const char *isa)
{
    static char path[4096];
    const char *folder = getenv("TENON_PLUGIN_PATH");
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    snprintf(path, sizeof path, "%s/tn_%.*s.so", folder ? folder : ".",
             (int)length, name);
    by_name_isa = isa;
    return by_hand_open(
        h, &(by_hand_how){.path = path,
                          .option = by_name_option,
                          .device = colon ? (uint32_t)atoi(colon + 1) : 0,
                          .no_interpreter = strcmp(name, "reference") != 0});
}

#endif
