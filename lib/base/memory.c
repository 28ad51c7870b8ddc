/* memory.c: malloc with a count, and with failures on demand.
 *
 * Pooled objects (object_pool.c) count as allocations too: a test that makes every
 * n-th of them fail must not depend on what the free lists hold. */
#include <base/memory.h>
#include <base/error.h>
#include <base/platform.h>
#include <base/state.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t alloc_count, live_count;
static _Atomic size_t largest;

_Atomic int64_t tn__memory_countdown;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static void env_read(void)
{
    const char *text = tn__env("TENON_TEST_FAIL_ALLOC");
    if (text)
        atomic_store(&tn__memory_countdown, strtoll(text, NULL, 10));
}

void tn__memory_fail_at(int64_t n)
{
    pthread_once(&env_once, env_read);
    atomic_store(&tn__memory_countdown, n < 0 ? 0 : n);
}

static bool fails_now(void)
{
    int64_t left = atomic_load(&tn__memory_countdown);
    while (left > 0)
        if (atomic_compare_exchange_weak(&tn__memory_countdown, &left,
                                         left - 1))
            return left == 1;
    return false;
}

void *tn__memory_take(size_t bytes, bool zeroed)
{
    pthread_once(&env_once, env_read);
    if (fails_now() || bytes > PTRDIFF_MAX)
        return NULL;
    return zeroed ? calloc(1, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}

static void *out_of_memory(size_t bytes)
{
    if (bytes > PTRDIFF_MAX)
        return tn__fail_null(TN_ERR_MEMORY,
                             "out of memory: more bytes of host memory asked "
                             "for than there are addresses");
    return tn__fail_null(TN_ERR_MEMORY,
                         "out of memory: %zu bytes of host memory asked for",
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
    if (!fails_now())
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
    /* items_pointer is a T **: read as bytes, for it is no void **. */
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

int64_t tn__memory_count(void)
{
    int64_t taken, given;
    tn__state_pool_totals(&taken, &given);
    return atomic_load(&alloc_count) + taken;
}

int64_t tn__memory_live(void)
{
    int64_t taken, given;
    tn__state_pool_totals(&taken, &given);
    return atomic_load(&live_count) + taken - given;
}

size_t tn__memory_largest(bool again)
{
    return again ? atomic_exchange(&largest, 0) : atomic_load(&largest);
}
