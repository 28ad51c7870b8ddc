/* state.h: the state of a thread: its scopes, its free lists, and its
 * quarantines, which are queues of freed objects (object.h). Only the files of
 * this folder include it. */
#ifndef TN_LIB_BASE_STATE_H
#define TN_LIB_BASE_STATE_H

#include <base/context.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/platform.h>

#include <stdlib.h>

/* Largest number of pools that have free lists. Blocks of further pools are
 * allocated by malloc. */
#define TN__MAX_POOLS 64

typedef struct tn__free_list {
    void *head; /* first free block; each free block begins with the address of
                 * the next one */
    int64_t count;
} tn__free_list;

/* A queue of freed objects, the oldest first. */
typedef struct tn__quarantine {
    tn__object *head, *tail;
    int64_t count;
} tn__quarantine;

/* The queue of freed objects of one class, for objects that malloc allocated.
 * `kind` is the tn__class, or the tn_object_class for objects of a user's
 * class. */
typedef struct tn__class_quarantine {
    const void *kind;
    tn__quarantine dead;
} tn__class_quarantine;

/* An open scope. It owns the objects in tn__state.item from index `first` up to
 * the `first` of the next frame. */
typedef struct tn__frame {
    uint64_t handle; /* the tn_scope * that the program has, as a number; 0 for
                      * the root scope */
    size_t first;
    size_t hole_count;   /* number of objects that were removed from this scope;
                          * their items are NULL */
    const void *opener;  /* code address of the call that opened the scope, for
                          * messages */
    const tn_path *path; /* module that was running when the scope was opened */
} tn__frame;

typedef struct tn__state {
    tn__free_list pool[TN__MAX_POOLS];
    /* queues of freed objects, one for each pool */
    tn__quarantine by_pool[TN__MAX_POOLS];
    tn__class_quarantine *by_class; /* owned array of queues, one for each
                                     * class */
    size_t class_count, class_room;
    /* Numbers of blocks that this thread has taken from pools and given back.
     * Only this thread writes them; the statistics read them. */
    _Atomic int64_t taken, given;

    tn__object **item; /* owned array of the objects of all open scopes; NULL
                        * where an object was removed */
    size_t item_count, item_room;
    tn__frame *frame; /* owned array of the open scopes; frame[0] is the root
                       * scope */
    size_t frame_count, frame_room;
    uint64_t next_handle, last_handle; /* the scope handles that this thread has
                                        * reserved but not used */
    /* Objects that tn_scope_carry moved to the enclosing scope, which owns
     * them. Each record has a reference of its own. */
    struct tn__carried {
        const void *where; /* the caller's variable */
        tn__object *object;
        uint64_t frame;    /* handle of the scope that owns it */
    } *carried;            /* owned array */
    size_t carried_count, carried_room;
    bool root_logged; /* true if the log has warned that the root scope has too
                       * many objects */

    struct tn__state *next, *previous; /* list of the states of all threads */
} tn__state;

/* Makes this thread's state, which is freed when the thread ends. If memory
 * runs out, records TN_ERR_MEMORY and returns NULL. */
tn__state *tn__state_make(void);
static inline tn__state *tn__state_get(void)
{
    tn__state *state = tn__me.state;
    return TN__LIKELY(state != NULL) ? state : tn__state_make();
}

/* Adds to the numbers of blocks taken from and given back to pools, for a
 * thread that has no state. */
void tn__state_pool_count(int64_t taken, int64_t given);

/* Defined in raw_memory.c. tn__memory_countdown is the number of allocations
 * until one has to fail (tn__memory_fail_at); 0 if none has to.
 * tn__memory_fails returns whether this allocation has to fail. tn__memory_take
 * allocates memory that leak tests do not count. */
extern _Atomic int64_t tn__memory_countdown;
bool tn__memory_fails(void);
void *tn__memory_take(size_t bytes, bool zeroed);

/* Defined in memory.c. Sets how many blocks were allocated since the start, and
 * how many of them were not freed yet. Blocks of pools are not included. */
void tn__memory_block_counts(int64_t *made, int64_t *live);

/* Removes a block from the count of live blocks. The caller passes the block to
 * free() later. */
void tn__memory_uncount(void);

/* Free what a thread has when the thread ends (scope.c, object_pool.c,
 * quarantine.c). */
void tn__scope_release_all(tn__state *state);
void tn__pool_release_all(tn__state *state);
void tn__quarantine_release_all(tn__state *state);

/* Reads the environment variable TENON_DEBUG on the first call (lifetime.c). */
void tn__debug_read(void);

/* The functions of lifetime.c, which record where objects were made and why
 * they were freed, for errors about use after free. They are called only if
 * tn__lifetimes_are_traced(). */
typedef enum tn__release_cause {
    /* The last object that referred to this object was freed. */
    TN__RELEASED_BY_HOLDER,
    TN__RELEASED_BY_SCOPE,
    TN__RELEASED_BY_DROP
} tn__release_cause;
/* Records the running operator and module as the origin of an object. Called
 * when the object gets its first owner. */
void tn__lifetime_begin(const tn__object *object);
/* Records the operator that made an object. `name` must have static
 * lifetime. */
void tn__lifetime_made_by(const tn__object *object, const char *name);
/* Sets the cause that is recorded for objects that this thread frees until
 * tn__release_end. If a cause is already set, does nothing and returns false:
 * an object that is freed along with another one has the cause of that one. */
bool tn__release_begin(tn__release_cause cause, const tn__frame *frame);
void tn__release_end(void);
/* Records that an object was freed, and takes over its memory. The memory is
 * released when too many freed objects are recorded. */
void tn__lifetime_end(tn__object *object);
/* Describes in `text` where a freed object was made and why it was freed.
 * Writes "" if that is not known. */
void tn__lifetime_describe(const tn__object *object, char *text, size_t room);
/* Releases the memory block of a freed object. */
static inline void tn__quarantine_free(tn__object *object)
{
    free((char *)object - object->was->front);
}
/* Puts a freed object into the queue that threads without queues share. */
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
