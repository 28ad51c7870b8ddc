/* context.h: the per-thread state of the library.
 *
 * The state is one struct, so that it can be inspected, saved and passed on as
 * a whole. The struct is in static thread-local storage, which is scarce for a
 * library opened by dlopen. Large members are therefore pointers, which are
 * NULL until first use; their memory is freed when the thread ends. */
#ifndef TN_LIB_BASE_CONTEXT_H
#define TN_LIB_BASE_CONTEXT_H

#include <base/location.h>
#include <base/platform.h>
#include <base/timeline.h>

struct tn_device;
struct tn__node_set;
struct tn__object;
struct tn__record;
struct tn__run;
struct tn__small_caches;
struct tn__error_storage;
struct tn__ranges;
struct tn__state;

/* Modes of operator calls. A worker thread uses the modes of the thread for
 * which it works. */
typedef struct tn__modes {
    bool not_recording; /* set by tn_grad_mode_set(false) */
    bool anomaly; /* set by tn_anomaly_set(true): backward checks gradients for
                   * NaN */
    bool watched; /* forward checks the outputs of each operator */
    uint8_t autocast;   /* dtype of autocast; 0 if off */
    uint8_t dtype;      /* set by tn_default_dtype_set; 0: float32 */
} tn__modes;

typedef struct tn__context {
    tn__modes modes;
    struct tn__location location; /* operator and module that run now */
    struct tn_device *device; /* current device; NULL if not chosen yet */

    tn_status pending;               /* code of the pending error; TN_OK if
                                      * none */
    struct tn__error_storage *error; /* owned; text and facts of the pending
                                      * error */

    int handler_muted; /* if above 0, the error handler is not called
                        * (error.h) */
    int lock_count;    /* number of locks that the thread holds (lock.c) */
    int cancel_holds;  /* number of reasons for which the thread cannot be
                        * cancelled */
    int cancel_state;  /* cancel state before the first of these reasons */
    struct tn__state *state; /* owned; scopes and free lists (state.h) */
    /* Objects to destroy after the object that is being destroyed
     * (object.c). */
    struct tn__object *waiting;
    bool destroying;
    bool in_job;      /* true while the thread runs a part of a
                       * tn__parallel_for */
    bool typing;      /* this thread holds the lock of
                       * kernel/math/math_functions.c */
    bool captures;    /* a backward pass returns the gradients of given tensors
                       * (autograd/backward_walk.c) */
    int native_depth; /* number of C operators that are running
                       * (ops/engine/call.c) */
    int hooks_running;
    int range_depth;  /* number of open ranges (trace.c) */
    struct tn__ranges *ranges; /* owned; the open ranges that a trace shows */
    struct {          /* the cause recorded for objects freed now
                       * (lifetime.c) */
        int cause;
        uint64_t scope;
        const void *opener;
        const tn_path *opened_in;
    } release;
    int timeline_number; /* number of this thread in a trace; 0 if none yet */
    tn__tally tally;     /* device work of this thread while a trace ran */

    struct {             /* state of the random generator
                          * (ops/random/random.c) */
        uint64_t seed, call;
        bool started;
    } random;
    struct tn__record *recording;         /* recording that this thread makes
                                           * (device/recorder.c) */
    struct tn__small_caches *small;       /* owned; caches of small blocks
                                           * (device/memory/small.c) */
    struct tn__run *recompute;            /* the checkpointed call being
                                           * recomputed
                                           * (autograd/recompute.c) */
    const struct tn__node_set *walk_asked; /* autograd/walk.c */
} tn__context;

extern TN__HOT_TLS tn__context tn__me;

/* Allocates zeroed memory for this thread and stores its address in *slot. When
 * the thread ends, the memory is freed and *slot set to NULL. Returns NULL with
 * no error recorded if memory runs out. */
void *tn__context_alloc(void *slot, size_t bytes);

#endif
