/* memory.c: allocates memory, counts the live blocks, and records an error if
 * memory runs out.
 *
 * Objects taken from a pool (object_pool.c) are counted as allocations too,
 * even if they come from a free list. Otherwise tests that make the n-th
 * allocation fail would depend on what is in the free lists. */
#include <base/memory.h>
#include <base/error.h>
#include <base/state.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t alloc_count, live_count;
static _Atomic size_t largest;

static void *out_of_memory(size_t bytes)
{
    if (bytes > PTRDIFF_MAX)
        return tn__fail_null(TN_ERR_MEMORY,
                             "out of memory: the requested bytes exceed the "
                             "address space");
    return tn__fail_null(TN_ERR_MEMORY,
                         "out of memory: %zu bytes of host memory requested",
                         bytes);
}

static void *counted(void *block, size_t bytes)
{
    if (bytes > atomic_load_explicit(&largest, memory_order_relaxed))
        atomic_store_explicit(&largest, bytes, memory_order_relaxed);
    if (!block)
        return out_of_memory(bytes);
    atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return block;
}

void *tn__alloc(size_t bytes)
{
    return counted(tn__memory_take(bytes, false), bytes);
}

void *tn__calloc(size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all))
        return out_of_memory(SIZE_MAX);
    return counted(tn__memory_take(all, true), all);
}

void *tn__alloc_many(int64_t count, size_t each)
{
    return tn__alloc(tn__size_bytes(count, each));
}

void *tn__realloc(void *old, size_t bytes)
{
    if (!old)
        return tn__alloc(bytes);
    void *block = NULL;
    if (!tn__memory_fails())
        block = realloc(old, bytes ? bytes : 1);
    if (!block)
        return out_of_memory(bytes);
    if (bytes > atomic_load_explicit(&largest, memory_order_relaxed))
        atomic_store_explicit(&largest, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    return block;
}

char *tn__strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = tn__alloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void tn__free(void *pointer)
{
    if (!pointer)
        return;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    free(pointer);
}

void tn__memory_uncount(void)
{
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}

bool tn__grow(void *items_pointer, size_t *room, size_t count,
              size_t item_bytes)
{
    if (count < *room)
        return true;
    size_t wanted = count < 4 ? 8 : count * 2, bytes;
    void *items;
    /* items_pointer is the address of a pointer of any type, not of a void *.
     * So the pointer is copied as bytes. */
    memcpy(&items, items_pointer, sizeof items);
    if (__builtin_mul_overflow(wanted, item_bytes, &bytes)) {
        out_of_memory(SIZE_MAX);
        return false;
    }
    items = tn__realloc(items, bytes);
    if (!items)
        return false;
    memcpy(items_pointer, &items, sizeof items);
    *room = wanted;
    return true;
}

void tn__memory_block_counts(int64_t *made, int64_t *live)
{
    *made = atomic_load(&alloc_count);
    *live = atomic_load(&live_count);
}

size_t tn__memory_largest(bool reset)
{
    return reset ? atomic_exchange(&largest, 0) : atomic_load(&largest);
}
