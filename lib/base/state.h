/* state.h: the scopes and free lists of a thread. Used by the files of base
 * only. */
#ifndef TN_LIB_BASE_STATE_H
#define TN_LIB_BASE_STATE_H

#include <base/context.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/platform.h>

#include <stdlib.h>

/* Most pools that have free lists; further ones use malloc. */
#define TN__MAX_POOLS 64

typedef struct tn__free_list {
    void *head; /* each free block begins with the address of the next */
    int64_t count;
} tn__free_list;

/* Dead objects, the oldest first. */
typedef struct tn__quarantine {
    tn__object *head, *tail;
    int64_t count;
} tn__quarantine;

/* The quarantine of one class of objects that malloc allocated. kind: the
 * tn__class, or the tn_object_class of a user's object. */
typedef struct tn__class_quarantine {
    const void *kind;
    tn__quarantine dead;
} tn__class_quarantine;

/* An open scope: the items from `first` up to the first of the next frame. */
typedef struct tn__frame {
    uint64_t handle; /* the tn_scope * of the program; 0: the root scope */
    size_t first;
    size_t hole_count;   /* items that were removed */
    const void *opener;  /* for messages: address of the call that opened it, */
    const tn_path *path; /*   and the module */
} tn__frame;

typedef struct tn__state {
    tn__free_list pool[TN__MAX_POOLS];
    tn__quarantine by_pool[TN__MAX_POOLS]; /* for pools of objects */
    tn__class_quarantine *by_class; /* owned */
    size_t class_count, class_room;
    /* Blocks taken from and given to pools: written by this thread only, read
     * by the statistics. */
    _Atomic int64_t taken, given;

    tn__object **item; /* owned; a NULL item is a hole */
    size_t item_count, item_room;
    tn__frame *frame; /* owned; frame[0] is the root scope */
    size_t frame_count, frame_room;
    uint64_t next_handle, last_handle; /* range of handles of this thread */
    bool root_logged; /* the growth of the root scope was logged */

    struct tn__state *next, *previous; /* list of all threads' */
} tn__state;

/* Made on first use; NULL with TN_ERR_MEMORY. Freed when the thread ends. */
tn__state *tn__state_make(void);
static inline tn__state *tn__state_get(void)
{
    tn__state *state = tn__me.state;
    return TN__LIKELY(state != NULL) ? state : tn__state_make();
}

/* Counts pooled objects for a thread that has no state. */
void tn__state_pool_count(int64_t taken, int64_t given);

/* raw_memory.c: the countdown of tn__memory_fail_at (0: none); whether this
 * allocation has to fail; allocation that is not counted as live. */
extern _Atomic int64_t tn__memory_countdown;
bool tn__memory_fails(void);
void *tn__memory_take(size_t bytes, bool zeroed);

/* memory.c: blocks allocated since start, and live blocks, without those of
 * pools. */
void tn__memory_block_counts(int64_t *made, int64_t *live);

/* Stops counting a block as live that free() will get later. */
void tn__memory_uncount(void);

/* scope.c, object_pool.c, quarantine.c: for the end of a thread. */
void tn__scope_release_all(tn__state *state);
void tn__pool_release_all(tn__state *state);
void tn__quarantine_release_all(tn__state *state);

/* lifetime.c: reads TENON_DEBUG, once. */
void tn__debug_read(void);

/* lifetime.c: records of objects, for errors about use after free. Called only
 * if tn__lifetimes_are_traced. */
typedef enum tn__release_cause {
    TN__RELEASED_BY_HOLDER, /* the last object that held it was freed */
    TN__RELEASED_BY_SCOPE,
    TN__RELEASED_BY_DROP
} tn__release_cause;
/* Records the running operator and module as the origin of an object that gets
 * its first owner. */
void tn__lifetime_begin(const tn__object *object);
/* name has static lifetime. */
void tn__lifetime_made_by(const tn__object *object, const char *name);
/* Objects that this thread frees before tn__release_end are recorded with this
 * cause. False, with no effect, within another release: objects freed along
 * with a dying object have its cause. */
bool tn__release_begin(tn__release_cause cause, const tn__frame *frame);
void tn__release_end(void);
/* Records the end of an object and takes over its memory, which is freed once
 * there are too many dead objects. */
void tn__lifetime_end(tn__object *object);
/* Origin and end of a dead object as text; "" if not known. */
void tn__lifetime_describe(const tn__object *object, char *text, size_t room);
/* Frees the block of a dead object. */
static inline void tn__quarantine_free(tn__object *object)
{
    free((char *)object - object->was->front);
}
/* Puts a dead object into the quarantine of the process, for threads without
 * their own. */
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

/* NULL if the queue is empty. */
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
