/* quarantine.c: withholds the memory of dead objects from reuse (object.h).
 *
 * A program may keep a pointer to an object whose scope was closed. That
 * pointer must not come to point to a new object at once, so the memory, with
 * its header, is withheld for some time. Pools have their own queues of dead
 * objects (object_pool.c). This file has the queues of objects allocated by
 * malloc, and the queue of threads that have ended. */
#include <base/context.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/state.h>

#include <stdlib.h>
#include <string.h>

/* Most dead objects in the queue of threads that have ended or have no
 * queue. */
#define ORPHANS_MAX 4096
/* If a block is larger, its body is returned to the system at once; the header
 * stays. */
#define LARGE_BYTES 65536

const tn__class tn__class_dead = {.name = "nothing"};

static tn__lock lock = TN__LOCK_INIT;
static tn__quarantine orphans;

void tn__quarantine_orphan(tn__object *object)
{
    if (tn__lifetimes_are_traced()) {
        tn__lifetime_end(object);
        return;
    }
    tn__lock_take(&lock);
    tn__object *oldest = NULL;
    if (tn__quarantine_push(&orphans, object) > ORPHANS_MAX)
        oldest = tn__quarantine_pop(&orphans);
    tn__lock_give(&lock);
    if (oldest)
        tn__quarantine_free(oldest);
}

/* Returns this thread's queue of a kind of object, which is made if there is
 * none; NULL if memory runs out. There are few kinds. */
static tn__quarantine *queue_of(tn__state *state, const void *kind)
{
    for (size_t i = 0; i < state->class_count; i++)
        if (state->by_class[i].kind == kind)
            return &state->by_class[i].dead;
    if (state->class_count == state->class_room) {
        /* This is not tn__alloc, since tests that make the n-th allocation fail
         * must not depend on this allocation. */
        size_t room = state->class_room ? state->class_room * 2 : 16;
        tn__class_quarantine *by_class =
            realloc(state->by_class, room * sizeof *by_class);
        if (!by_class)
            return NULL;
        state->by_class = by_class;
        state->class_room = room;
    }
    tn__class_quarantine *new = &state->by_class[state->class_count++];
    *new = (tn__class_quarantine){.kind = kind};
    return &new->dead;
}

void tn__object_free(void *pointer, size_t bytes)
{
    tn__object *object = pointer;
    tn__state *state = tn__me.state;
    const void *kind = object->type;
    /* The block of a user's object begins with its class (user_object.c). */
    if (object->type->front)
        memcpy(&kind, (char *)object - object->type->front, sizeof kind);
    object->was = object->type;
    object->type = &tn__class_dead;
    tn__memory_uncount();
    size_t body = bytes - object->was->front - sizeof *object;
    if (body > LARGE_BYTES)
        tn__memory_discard(object + 1, body);
    tn__quarantine *queue = state && !tn__lifetimes_are_traced()
                                ? queue_of(state, kind)
                                : NULL;
    if (!queue)
        tn__quarantine_orphan(object);
    TN__HIDE(object + 1, body);
    if (queue && tn__quarantine_push(queue, object) > TN__QUARANTINE_LEAST)
        tn__quarantine_free(tn__quarantine_pop(queue));
}

static void orphan_all(tn__quarantine *queue)
{
    for (tn__object *object; (object = tn__quarantine_pop(queue));)
        tn__quarantine_orphan(object);
}

void tn__quarantine_release_all(tn__state *state)
{
    for (int i = 0; i < TN__MAX_POOLS; i++)
        orphan_all(&state->by_pool[i]);
    for (size_t i = 0; i < state->class_count; i++)
        orphan_all(&state->by_class[i].dead);
    free(state->by_class);
    state->by_class = NULL;
    state->class_count = state->class_room = 0;
}
