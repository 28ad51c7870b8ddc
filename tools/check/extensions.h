/* extensions.h: checks a plugin's extensions on random shapes and strides,
 * against their definitions in plugin_extensions.h as plain loops. */
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

/* The plugin's table, NULL if it has none. */
const void *extension_table(const by_hand *h, int extension);

/* Runs the case that the seed determines, with that table. why (of room bytes)
 * becomes what was wrong, or why it was declined. Call from one thread. */
enum { EXTENSION_RIGHT, EXTENSION_WRONG, EXTENSION_DECLINED };
int extension_case(const by_hand *h, int extension, const void *table,
                   uint64_t seed, char *why, size_t room);

#endif
