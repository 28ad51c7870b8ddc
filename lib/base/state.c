/* state.c: makes and frees the state of a thread (state.h): its scopes, free
 * lists and quarantines. */
#include <base/context.h>
#include <base/state.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>

#include <pthread.h>
#include <stdlib.h>

static tn__lock all_lock = TN__LOCK_INIT;
static tn__state *all;
/* Sums of tn__state.taken and tn__state.given over threads that have ended. */
static _Atomic int64_t ended_taken, ended_given;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* Frees the state when the thread ends. Destructors of objects may use the
 * state, so it is freed last. If a later destructor of thread-specific data
 * needs a state, a new one is made, and pthreads calls this function again for
 * it. */
static void state_free(void *pointer)
{
    tn__state *state = pointer;
    tn__me.state = state;
    tn__scope_release_all(state);
    tn__pool_release_all(state);
    tn__quarantine_release_all(state);
    tn__me.state = NULL;
    tn__state_pool_count(state->taken, state->given);
    tn__lock_take(&all_lock);
    if (state->previous)
        state->previous->next = state->next;
    else
        all = state->next;
    if (state->next)
        state->next->previous = state->previous;
    tn__lock_give(&all_lock);
    free(state->item);
    free(state->frame);
    free(state);
}

static void key_make(void)
{
    key_made = !pthread_key_create(&key, state_free);
}

tn__state *tn__state_make(void)
{
    if (tn__me.state)
        return tn__me.state;
    pthread_once(&key_once, key_make);
    tn__state *state = tn__memory_take(sizeof *state, true);
    if (!state || !key_made || pthread_setspecific(key, state)) {
        free(state);
        return tn__fail_null(TN_ERR_MEMORY,
                             "out of memory for the state of a thread");
    }
    tn__lock_take(&all_lock);
    state->next = all;
    if (all)
        all->previous = state;
    all = state;
    tn__lock_give(&all_lock);
    tn__me.state = state;
    tn__debug_read();
    return state;
}

void tn__state_end(void)
{
    tn__state *state = tn__me.state;
    if (!state)
        return;
    pthread_setspecific(key, NULL);
    state_free(state);
}

/* Returns how many blocks all threads have taken from pools and given back
 * since the start. */
static void pool_totals(int64_t *taken, int64_t *given)
{
    tn__lock_take(&all_lock);
    *taken = atomic_load(&ended_taken);
    *given = atomic_load(&ended_given);
    for (tn__state *s = all; s; s = s->next) {
        *taken += atomic_load_explicit(&s->taken, memory_order_relaxed);
        *given += atomic_load_explicit(&s->given, memory_order_relaxed);
    }
    tn__lock_give(&all_lock);
}

void tn__state_pool_count(int64_t taken, int64_t given)
{
    atomic_fetch_add(&ended_taken, taken);
    atomic_fetch_add(&ended_given, given);
}

int64_t tn__memory_count(void)
{
    int64_t taken, given, made, live;
    pool_totals(&taken, &given);
    tn__memory_block_counts(&made, &live);
    return made + taken;
}

int64_t tn__memory_live(void)
{
    int64_t taken, given, made, live;
    pool_totals(&taken, &given);
    tn__memory_block_counts(&made, &live);
    return live + taken - given;
}
