/* arena.h: places temporary values in one block of memory. */
#ifndef TN_LIB_COMPILE_ARENA_H
#define TN_LIB_COMPILE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value with its lifetime: it is used by the steps first to last, at most. */
typedef struct tn__lifetime {
    uint64_t bytes; /* 0: the value is not used, and gets place 0 */
    size_t first, last;
    uint64_t place; /* result: its offset in the arena */
} tn__lifetime;

/* Gives each value a place that is a multiple of `align` bytes, so that no two
 * values that live in the same step overlap. Sets *arena to the arena's size and
 * *bound to the largest total size of values that live in one step. Records an
 * error and returns false if memory runs out. */
bool tn__arena_plan(tn__lifetime *value, size_t count, uint64_t align,
                    uint64_t *arena, uint64_t *bound);

/* Returns whether two values that live in the same step overlap: a check of
 * tn__arena_plan for tests. */
bool tn__arena_overlaps(const tn__lifetime *value, size_t count);

#endif
