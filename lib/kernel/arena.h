/* arena.h: memory that is freed all at once. Syntax trees and definitions are
 * allocated in arenas; nothing in an arena is freed separately. */
#ifndef TN_LIB_KERNEL_ARENA_H
#define TN_LIB_KERNEL_ARENA_H

#include <stddef.h>

typedef struct tn__arena {
    struct tn__arena_block *blocks; /* owned list, newest first */
    size_t used;                    /* bytes used of the newest block */
} tn__arena;

/* Returns zeroed memory, aligned for any type; NULL with TN_ERR_MEMORY recorded
 * if there is none. */
void *tn__arena_take(tn__arena *arena, size_t bytes);
/* Returns a NUL-terminated copy of the first `length` bytes of text. */
char *tn__arena_text(tn__arena *arena, const char *text, size_t length);
void tn__arena_release(tn__arena *arena);

#endif
