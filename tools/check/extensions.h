/* extensions.h: checks a plugin's extensions on operands with random shapes and
 * strides. The results are compared with the results of plain loops, which
 * follow the definitions in plugin_extensions.h. */
#ifndef TN_CHECK_EXTENSIONS_H
#define TN_CHECK_EXTENSIONS_H

#include "by_hand.h"

enum {
#define EXTENSION_ENUM(id, text) EXTENSION_##id,
    TN_EXTENSION_MAP(EXTENSION_ENUM)
#undef EXTENSION_ENUM
        EXTENSION_COUNT
};
extern const char *const extension_names[EXTENSION_COUNT];

/* Returns the plugin's function table of an extension, or NULL if the plugin
 * does not have the extension. */
const void *extension_table(const by_hand *h, int extension);

/* Runs the random case that the seed determines. Returns whether the results
 * were right, wrong, or the plugin declined the call. Writes what was wrong, or
 * the reason of the plugin, to why, which has `room` bytes. Must not be called
 * from several threads at the same time. */
enum { EXTENSION_RIGHT, EXTENSION_WRONG, EXTENSION_DECLINED };
int extension_case(const by_hand *h, int extension, const void *table,
                   uint64_t seed, char *why, size_t room);

#endif
