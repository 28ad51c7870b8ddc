/* state.h: a thread's scopes, free lists and quarantines. Only the files of
 * this folder include it. */
#ifndef TN_LIB_BASE_STATE_H
#define TN_LIB_BASE_STATE_H

#include <base/context.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/platform.h>

#include <stdlib.h>

/* Most pools that have free lists. Further pools use malloc. */
#define TN__MAX_POOLS 64

typedef struct tn__free_list {
    void *head; /* first free block; a free block begins with the address of the
                 * next */
    int64_t count;
} tn__free_list;

/* A queue of dead objects, the oldest first. */
typedef struct tn__quarantine {
    tn__object *head, *tail;
    int64_t count;
} tn__quarantine;

/* The quarantine of one class of objects that malloc allocated. `kind` is the
 * tn__class, or the tn_object_class of a user's object. */
typedef struct tn__class_quarantine {
    const void *kind;
    tn__quarantine dead;
} tn__class_quarantine;

/* An open scope. It has the items of tn__state.item from `first` up to the
 * `first` of the next frame. */
typedef struct tn__frame {
    uint64_t handle; /* the program's tn_scope *, as a number; 0 for the root
                      * scope */
    size_t first;
    size_t hole_count;   /* number of items that were removed */
    const void *opener;  /* code address of the call that opened the scope, for
                          * messages */
    const tn_path *path; /* module in which the scope was opened */
} tn__frame;

typedef struct tn__state {
    tn__free_list pool[TN__MAX_POOLS];
    tn__quarantine by_pool[TN__MAX_POOLS]; /* quarantines of pools of objects */
    tn__class_quarantine *by_class; /* owned array */
    size_t class_count, class_room;
    /* Number of blocks taken from pools and given back. Only this thread writes
     * the numbers; the statistics read them. */
    _Atomic int64_t taken, given;

    tn__object **item; /* owned array of objects; a NULL item is a hole (a
                        * removed object) */
    size_t item_count, item_room;
    tn__frame *frame; /* owned array of open scopes; frame[0] is the root
                       * scope */
    size_t frame_count, frame_room;
    uint64_t next_handle, last_handle; /* handles that this thread may still
                                        * give to scopes */
    /* Objects that tn_scope_carry moved to the enclosing scope, which owns
     * them. Each record has a reference of its own. */
    struct tn__carried {
        const void *where; /* the caller's variable */
        tn__object *object;
        uint64_t frame;    /* handle of the scope that owns it */
    } *carried;            /* owned array */
    size_t carried_count, carried_room;
    bool root_logged; /* true if the log was told that the root scope grows */

    struct tn__state *next, *previous; /* list of all threads' states */
} tn__state;

/* Makes this thread's state; NULL with TN_ERR_MEMORY recorded on failure. The
 * state is freed when the thread ends. */
tn__state *tn__state_make(void);
static inline tn__state *tn__state_get(void)
{
    tn__state *state = tn__me.state;
    return TN__LIKELY(state != NULL) ? state : tn__state_make();
}

/* Counts blocks taken from and given to pools by a thread that has no state. */
void tn__state_pool_count(int64_t taken, int64_t given);

/* raw_memory.c: tn__memory_countdown is the countdown of tn__memory_fail_at; 0
 * if none is set. tn__memory_fails returns whether this allocation has to fail.
 * tn__memory_take allocates memory that is not counted as live. */
extern _Atomic int64_t tn__memory_countdown;
bool tn__memory_fails(void);
void *tn__memory_take(size_t bytes, bool zeroed);

/* memory.c: returns how many blocks were allocated since the start, and how
 * many are live, without the blocks of pools. */
void tn__memory_block_counts(int64_t *made, int64_t *live);

/* Stops counting as live a block that free() will get later. */
void tn__memory_uncount(void);

/* These functions free what a thread has when it ends (scope.c, object_pool.c,
 * quarantine.c). */
void tn__scope_release_all(tn__state *state);
void tn__pool_release_all(tn__state *state);
void tn__quarantine_release_all(tn__state *state);

/* Reads TENON_DEBUG once (lifetime.c). */
void tn__debug_read(void);

/* lifetime.c keeps records of objects, for errors about use after free. These
 * functions are called only if tn__lifetimes_are_traced. */
typedef enum tn__release_cause {
    TN__RELEASED_BY_HOLDER, /* the last object that held a reference was
                             * freed */
    TN__RELEASED_BY_SCOPE,
    TN__RELEASED_BY_DROP
} tn__release_cause;
/* Records the running operator and module as the origin of an object that gets
 * its first owner. */
void tn__lifetime_begin(const tn__object *object);
/* Records the operator that made an object. `name` has static lifetime. */
void tn__lifetime_made_by(const tn__object *object, const char *name);
/* Sets the cause that is recorded for objects that this thread frees before
 * tn__release_end. Returns false with no effect within another release, since
 * objects freed along with a dying object have the cause of that object. */
bool tn__release_begin(tn__release_cause cause, const tn__frame *frame);
void tn__release_end(void);
/* Records the end of an object and takes over its memory, which is freed once
 * there are too many dead objects. */
void tn__lifetime_end(tn__object *object);
/* Describes the origin and end of a dead object as text; "" if not known. */
void tn__lifetime_describe(const tn__object *object, char *text, size_t room);
/* Frees the block of a dead object. */
static inline void tn__quarantine_free(tn__object *object)
{
    free((char *)object - object->was->front);
}
/* Puts a dead object into the quarantine of the process, for threads that have
 * no quarantine. */
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

/* Removes the oldest object from a queue; NULL if the queue is empty. */
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
