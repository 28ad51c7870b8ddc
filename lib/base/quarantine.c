/* quarantine.c: keeps the memory of freed objects from being reused at once
 * (object.h).
 *
 * A program may have a pointer to an object whose scope was closed. If the
 * memory were reused at once, that pointer would point to a new object without
 * any error. So the memory, with the object's header, is put in a queue for
 * some time. Objects from pools have their own queues (object_pool.c). This
 * file has the queues for objects that malloc allocated, and one queue for
 * threads that have ended. */
#include <base/context.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/state.h>

#include <stdlib.h>
#include <string.h>

/* Largest number of freed objects in the queue for threads that have ended or
 * have no queue of their own. */
#define ORPHANS_MAX 4096
/* If a freed object is larger than this, its memory is returned to the system
 * at once, except for the header. */
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

/* Returns this thread's queue for freed objects of one kind, which is made if
 * there is none. Returns NULL if memory runs out. There are few kinds, so a
 * linear search is fast enough. */
static tn__quarantine *queue_of(tn__state *state, const void *kind)
{
    for (size_t i = 0; i < state->class_count; i++)
        if (state->by_class[i].kind == kind)
            return &state->by_class[i].dead;
    if (state->class_count == state->class_room) {
        /* Uses realloc, not tn__alloc, because tests that make the n-th
         * allocation fail must not depend on this allocation. */
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
    /* For an object of a user's class, the kind is that class, which is stored
     * at the start of the memory block (user_object.c). */
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
