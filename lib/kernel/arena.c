/* arena.c: memory that is freed all at once. An arena is a list of blocks;
 * allocations are taken from the newest block, from its start to its end. */
#include <kernel/arena.h>

#include <string.h>

#include <base/memory.h>

#define ALIGN sizeof(max_align_t)
#define BLOCK_BYTES 4000

struct tn__arena_block {
    struct tn__arena_block *next;
    size_t room;
    max_align_t data[];
};

void *tn__arena_take(tn__arena *arena, size_t bytes)
{
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!arena->blocks || arena->blocks->room - arena->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct tn__arena_block *block = tn__calloc(1, sizeof *block + room);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        block->room = room;
        arena->blocks = block;
        arena->used = 0;
    }
    void *taken = (char *)arena->blocks->data + arena->used;
    arena->used += bytes;
    return taken;
}

char *tn__arena_text(tn__arena *arena, const char *text, size_t length)
{
    char *copy = tn__arena_take(arena, length + 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

void tn__arena_release(tn__arena *arena)
{
    while (arena->blocks) {
        struct tn__arena_block *block = arena->blocks;
        arena->blocks = block->next;
        tn__free(block);
    }
    arena->used = 0;
}
