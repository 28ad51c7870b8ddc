/* state.h: what base keeps for each thread: its scopes and its free lists.
 * Serves the files of base alone. */
#ifndef TN_LIB_BASE_STATE_H
#define TN_LIB_BASE_STATE_H

#include <base/object.h>
#include <base/platform.h>

/* Sorts of small objects; a later one is served by malloc. */
#define TN__MAX_POOLS 64

typedef struct tn__free_list {
    void *head; /* a free block begins with the address of the next */
    int64_t count;
} tn__free_list;

/* One open scope: the items from `first` to where the next one begins. */
typedef struct tn__frame {
    uint64_t handle; /* what the user holds; 0: the root scope */
    size_t first;
    size_t hole_count; /* items that left early */
} tn__frame;

typedef struct tn__state {
    tn__free_list pool[TN__MAX_POOLS];
    /* Written by its thread alone, read by the statistics. */
    _Atomic int64_t taken, given;

    tn__object **item; /* owned; NULL: a hole */
    size_t item_count, item_room;
    tn__frame *frame; /* owned; frame[0] is the root scope */
    size_t frame_count, frame_room;
    uint64_t next_handle, last_handle; /* a range that is this thread's */
    bool root_told; /* the log has been told that the root scope grows */

    struct tn__state *next, *previous; /* all threads */
} tn__state;

/* The calling thread's; NULL until something needed it. */
extern TN__HOT_TLS tn__state *tn__state_here;

/* Made on first need; NULL with TN_ERR_MEMORY. Freed at the thread's end. */
tn__state *tn__state_make(void);
static inline tn__state *tn__state_get(void)
{
    tn__state *state = tn__state_here;
    return TN__LIKELY(state != NULL) ? state : tn__state_make();
}

/* Objects taken from and given to pools since start, in all threads. */
void tn__state_pool_totals(int64_t *taken, int64_t *given);
/* The same for a block that no thread's state could count. */
void tn__state_pool_count(int64_t taken, int64_t given);

/* memory.c: the countdown of tn__memory_fail_at (0: none); does this
 * allocation fail; memory that is not counted as live. */
extern _Atomic int64_t tn__memory_countdown;
void *tn__memory_take(size_t bytes, bool zeroed);

/* scope.c, pool.c: what a thread leaves behind. */
void tn__scope_release_all(tn__state *state);
void tn__pool_release_all(tn__state *state);

#endif
