/* memory.c: an arena. Small allocations share blocks of 64 KB; a larger one
 * gets its own block. */
#include <lm/tokenizer/memory.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/error.h>

enum { BLOCK_BYTES = 65536, ALIGNMENT = 16, HUGE_PAGE = 1 << 21 };

typedef struct tn__own_block {
    struct tn__own_block *next;
    size_t used, room;
    _Alignas(ALIGNMENT) unsigned char data[];
} tn__own_block;

static void *out_of_memory(size_t bytes)
{
    tn_error_set(TN_ERR_MEMORY, "tokenizer: %zu bytes of memory are not "
                 "available", bytes);
    return NULL;
}

void *tn__take_large(size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    if (bytes >= HUGE_PAGE && bytes <= SIZE_MAX / 2) {
        const size_t all = (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
        void *memory = aligned_alloc(HUGE_PAGE, all);
        if (memory)
            madvise(memory, all, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return malloc(bytes);
}

void *tn__own_take(tn__own *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return out_of_memory(bytes);
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    tn__own_block *block = arena->blocks;
    if (!block || block->room - block->used < bytes) {
        const bool large = bytes > BLOCK_BYTES / 4;
        const size_t room = large ? bytes : BLOCK_BYTES;
        tn__own_block *fresh = tn__take_large(sizeof *fresh + room);
        if (!fresh)
            return out_of_memory(bytes);
        memset(fresh, 0, sizeof *fresh + room);
        fresh->room = room;
        if (large && block) { /* small allocations continue to use the current
                                 block */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    void *piece = block->data + block->used;
    block->used += bytes;
    return piece;
}

void *tn__own_array(tn__own *arena, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all))
        return out_of_memory(SIZE_MAX);
    return tn__own_take(arena, all);
}

char *tn__own_text(tn__own *arena, const char *text, size_t bytes)
{
    char *copy = tn__own_take(arena, bytes + 1);
    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}

void tn__own_free(tn__own *arena)
{
    while (arena->blocks) {
        tn__own_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

bool tn__array_grow(void *array, size_t *room, size_t need, size_t bytes)
{
    if (need <= *room)
        return true;
    void **at = array;
    size_t more = *room + *room / 2 + 16, all;
    if (more < need)
        more = need;
    void *grown = __builtin_mul_overflow(more, bytes, &all)
                      ? NULL
                      : realloc(*at, all);
    if (!grown) {
        out_of_memory(need);
        return false;
    }
    *at = grown;
    *room = more;
    return true;
}
