/* state.h: what base keeps for each thread: its scopes and its free lists.
 * Serves the files of base alone. */
#ifndef TN_LIB_BASE_STATE_H
#define TN_LIB_BASE_STATE_H

#include <base/context.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/platform.h>

#include <stdlib.h>

/* Sorts of small objects; a later one is served by malloc. */
#define TN__MAX_POOLS 64

typedef struct tn__free_list {
    void *head; /* a free block begins with the address of the next */
    int64_t count;
} tn__free_list;

/* Dead objects, the oldest first. */
typedef struct tn__quarantine {
    tn__object *head, *tail;
    int64_t count;
} tn__quarantine;

/* Those of one kind whose memory malloc gave: a tn__class, of objects of the
 * user's making their tn_object_class. */
typedef struct tn__class_quarantine {
    const void *kind;
    tn__quarantine dead;
} tn__class_quarantine;

/* One open scope: the items from `first` to where the next one begins. */
typedef struct tn__frame {
    uint64_t handle; /* what the user holds; 0: the root scope */
    size_t first;
    size_t hole_count; /* items that left early */
    const void *opener; /* the address of the call that opened it, and the */
    const tn_path *path;/*   module in which: for messages */
} tn__frame;

typedef struct tn__state {
    tn__free_list pool[TN__MAX_POOLS];
    tn__quarantine by_pool[TN__MAX_POOLS]; /* of pools of objects */
    tn__class_quarantine *by_class; /* owned */
    size_t class_count, class_room;
    /* Written by its thread alone, read by the statistics. */
    _Atomic int64_t taken, given;

    tn__object **item; /* owned; NULL: a hole */
    size_t item_count, item_room;
    tn__frame *frame; /* owned; frame[0] is the root scope */
    size_t frame_count, frame_room;
    uint64_t next_handle, last_handle; /* a range that is this thread's */
    bool root_logged; /* the log has been told that the root scope grows */

    struct tn__state *next, *previous; /* all threads */
} tn__state;

/* Made on first need; NULL with TN_ERR_MEMORY. Freed at the thread's end. */
tn__state *tn__state_make(void);
static inline tn__state *tn__state_get(void)
{
    tn__state *state = tn__me.state;
    return TN__LIKELY(state != NULL) ? state : tn__state_make();
}

/* Counts objects taken from and given to pools where no state can. */
void tn__state_pool_count(int64_t taken, int64_t given);

/* raw_memory.c: the countdown of tn__memory_fail_at (0: none); does this
 * allocation fail; memory that is not counted as live. */
extern _Atomic int64_t tn__memory_countdown;
bool tn__memory_fails(void);
void *tn__memory_take(size_t bytes, bool zeroed);

/* memory.c: blocks that were allocated since start, and that are live, without
 * those of pools. */
void tn__memory_block_counts(int64_t *made, int64_t *live);

/* A block that malloc will free later counts as live no more. */
void tn__memory_uncount(void);

/* scope.c, object_pool.c, quarantine.c: what a thread leaves behind. */
void tn__scope_release_all(tn__state *state);
void tn__pool_release_all(tn__state *state);
void tn__quarantine_release_all(tn__state *state);

/* lifetime.c: reads TENON_DEBUG, once. */
void tn__debug_read(void);

/* lifetime.c: what became of an object, for messages about a use after its end.
 * Called where tn__lifetimes_are_traced. */
typedef enum tn__release_cause {
    TN__RELEASED_BY_HOLDER, /* the last object that held it went */
    TN__RELEASED_BY_SCOPE,
    TN__RELEASED_BY_DROP
} tn__release_cause;
/* An object got an owner: what it was made by is what is being done now. */
void tn__lifetime_begin(const tn__object *object);
/* name lives for ever. */
void tn__lifetime_made_by(const tn__object *object, const char *name);
/* What dies in this thread until tn__release_end goes by this. False, and
 * nothing is changed, inside another one's: what a dying object drops goes with
 * it. */
bool tn__release_begin(tn__release_cause cause, const tn__frame *frame);
void tn__release_end(void);
/* Takes over the memory of a dead object, to be freed when there are too many
 * of these. */
void tn__lifetime_end(tn__object *object);
/* The story of a dead object; "" where none is known. */
void tn__lifetime_describe(const tn__object *object, char *text, size_t room);
/* The block of a dead object goes back to malloc. */
static inline void tn__quarantine_free(tn__object *object)
{
    free((char *)object - object->was->front);
}
/* Keeps a dead object that no queue of this thread may hold. */
void tn__quarantine_orphan(tn__object *object);

static inline int64_t tn__quarantine_push(tn__quarantine *queue,
                                          tn__object *object)
{
    object->next_dead = NULL;
    if (queue->count)
        queue->tail->next_dead = object;
    else
        queue->head = object;
    queue->tail = object;
    return ++queue->count;
}

/* NULL where it is empty. */
static inline tn__object *tn__quarantine_pop(tn__quarantine *queue)
{
    tn__object *object = queue->count ? queue->head : NULL;
    if (object) {
        queue->head = object->next_dead;
        queue->count--;
    }
    return object;
}

#endif
