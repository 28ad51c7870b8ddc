/* arena.h: memory that is freed all at once. Syntax trees and definitions are
 * allocated in arenas. A single allocation in an arena cannot be freed. */
#ifndef TN_LIB_KERNEL_ARENA_H
#define TN_LIB_KERNEL_ARENA_H

#include <stddef.h>

typedef struct tn__arena {
    struct tn__arena_block *blocks; /* list of blocks, owned, the newest
                                     * first */
    size_t used; /* number of bytes that are in use in the newest block */
} tn__arena;

/* Allocates zeroed memory, aligned for any type. If memory runs out, records
 * TN_ERR_MEMORY and returns NULL. */
void *tn__arena_take(tn__arena *arena, size_t bytes);
/* Returns a NUL-terminated copy of the first `length` bytes of text. */
char *tn__arena_text(tn__arena *arena, const char *text, size_t length);
void tn__arena_release(tn__arena *arena);

#endif
