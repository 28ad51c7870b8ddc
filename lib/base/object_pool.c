/* object_pool.c: pools of small blocks of one size. Each thread has a free list
 * for each pool.
 *
 * malloc allocates each block separately, so a thread that ends can free the
 * blocks in its lists. If one thread takes blocks and another gives them back,
 * the second thread's list would grow without bound. So a list has a maximum
 * length.
 *
 * An ordinary block is reused last in, first out, while it is still in the
 * processor's cache. The memory of an object is reused first in, first out,
 * because the program may still have a pointer to the freed object. */
#include <base/context.h>
#include <base/memory.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/platform.h>
#include <base/state.h>

#include <stdlib.h>

#define LIST_MAX 4096 /* largest number of free blocks in a thread's list */

static tn__lock register_lock = TN__LOCK_INIT;
/* Index of the next pool. Indices begin at 1; a pool with index 0 was not used
 * yet. */
static int pool_count = 1;

static void pool_register(tn__pool *pool)
{
    tn__lock_take(&register_lock);
    if (!atomic_load_explicit(&pool->index, memory_order_relaxed) &&
        pool_count < TN__MAX_POOLS)
        atomic_store_explicit(&pool->index, pool_count++,
                              memory_order_relaxed);
    tn__lock_give(&register_lock);
}

static void count(_Atomic int64_t *counter)
{
    /* Only this thread writes the counter, so no atomic read-modify-write
     * instruction is needed. */
    int64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + 1, memory_order_relaxed);
}

static void *take_slowly(tn__pool *pool)
{
    tn__state *state = tn__state_get();
    if (!state)
        return NULL;
    if (!atomic_load_explicit(&pool->index, memory_order_relaxed))
        pool_register(pool);
    void *block = tn__memory_take(
        pool->bytes < sizeof(void *) ? sizeof(void *) : pool->bytes, false);
    if (!block)
        return tn__fail_null(TN_ERR_MEMORY,
                             "out of memory: %zu bytes for a %s", pool->bytes,
                             pool->name);
    count(&state->taken);
    return block;
}

/* ---- objects ------------------------------------------------------------ */

void *tn__pool_take_object(tn__pool *pool)
{
    tn__state *state = tn__me.state;
    int index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    if (TN__LIKELY(state && !atomic_load_explicit(&tn__memory_countdown,
                                                  memory_order_relaxed))) {
        tn__quarantine *dead = &state->by_pool[index];
        if (TN__LIKELY(dead->count > TN__QUARANTINE_LEAST)) {
            tn__object *object = dead->head;
            dead->head = object->next_dead;
            dead->count--;
            /* The object that will be taken next was freed at least 64 objects
             * ago, so it may no longer be in the processor's cache. Prefetch it
             * now. */
            __builtin_prefetch(dead->head, 1);
            __builtin_prefetch((char *)dead->head + 64, 1);
            __builtin_prefetch((char *)dead->head + 192, 1);
            count(&state->taken);
            TN__UNPOISON(object, pool->bytes);
            return object;
        }
    }
    return take_slowly(pool);
}

void tn__pool_give_object(tn__pool *pool, void *pointer)
{
    tn__object *object = pointer;
    tn__state *state = tn__me.state;
    int index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    object->was = object->type;
    object->type = &tn__class_dead;
    if (TN__UNLIKELY(!state || !index || tn__lifetimes_are_traced())) {
        /* A thread that has only freed blocks so far has no state. None is made
         * here, because that could fail. */
        tn__state_pool_count(0, 1);
        tn__quarantine_orphan(object);
        TN__HIDE(object + 1, pool->bytes - sizeof *object);
        return;
    }
    count(&state->given);
    TN__POISON(object + 1, pool->bytes - sizeof *object);
    if (TN__UNLIKELY(tn__quarantine_push(&state->by_pool[index], object) >
                     LIST_MAX))
        tn__quarantine_free(tn__quarantine_pop(&state->by_pool[index]));
}

/* ---- blocks that are not objects ----------------------------------------- */

#ifdef TN_PLAIN_ALLOC

void *tn__pool_take(tn__pool *pool)
{
    return tn__alloc(pool->bytes);
}

void tn__pool_give(tn__pool *pool, void *block)
{
    (void)pool;
    tn__free(block);
}

void tn__pool_release_all(tn__state *state)
{
    (void)state;
}

#else

void *tn__pool_take(tn__pool *pool)
{
    tn__state *state = tn__me.state;
    int index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    if (TN__LIKELY(state && !atomic_load_explicit(&tn__memory_countdown,
                                                  memory_order_relaxed))) {
        tn__free_list *list = &state->pool[index];
        void **block = list->head;
        if (TN__LIKELY(block != NULL)) {
            list->head = *block;
            list->count--;
            count(&state->taken);
            return block;
        }
    }
    return take_slowly(pool);
}

void tn__pool_give(tn__pool *pool, void *block)
{
    if (!block)
        return;
    tn__state *state = tn__me.state;
    if (TN__UNLIKELY(!state)) {
        /* A thread that has only freed blocks so far has no state. None is made
         * here, because that could fail. */
        tn__state_pool_count(0, 1);
        free(block);
        return;
    }
    count(&state->given);
    int index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    tn__free_list *list = &state->pool[index];
    if (!index || list->count >= LIST_MAX) {
        free(block);
        return;
    }
    *(void **)block = list->head;
    list->head = block;
    list->count++;
}

void tn__pool_release_all(tn__state *state)
{
    for (int i = 0; i < TN__MAX_POOLS; i++) {
        tn__free_list *list = &state->pool[i];
        while (list->head) {
            void *block = list->head;
            list->head = *(void **)block;
            free(block);
        }
        list->count = 0;
    }
}

#endif
