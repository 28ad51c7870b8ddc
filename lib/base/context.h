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

/* Modes that affect operator calls. A worker thread takes over the modes of the
 * thread for which it works. */
typedef struct tn__modes {
    bool not_recording; /* true after tn_grad_mode_set(false), as in
                         * torch.no_grad */
    bool anomaly; /* true after tn_anomaly_set(true): the backward pass checks
                   * gradients for NaN */
    bool watched; /* true if the outputs of each operator are checked for NaN in
                   * the forward pass */
    uint8_t autocast;   /* dtype of autocast; 0 if autocast is off */
    bool relaxed;       /* true after tn_relaxed_set(true) */
    uint8_t dtype;      /* dtype that tn_default_dtype_set set; 0: float32 */
} tn__modes;

typedef struct tn__context {
    tn__modes modes;
    struct tn__location location; /* operator and module that are running */
    struct tn_device *device; /* current device; NULL if none was chosen yet */

    tn_status pending; /* code of the pending error; TN_OK if no error is
                        * pending */
    struct tn__error_storage *error; /* message and data of the pending error,
                                      * owned; NULL until the first error */

    int handler_muted; /* while above 0, the error handler is not called
                        * (error.h) */
    int lock_count;    /* number of locks that the thread holds (lock.c) */
    int cancel_holds;  /* number of open calls of tn__cancel_hold; while above
                        * 0, the thread cannot be cancelled */
    int cancel_state;  /* the thread's cancel state before the first
                        * tn__cancel_hold */
    struct tn__state *state; /* scopes and free lists of the thread, owned
                              * (state.h) */
    /* List of objects that will be destroyed when the destructor that is
     * running now has returned (object.c). */
    struct tn__object *waiting;
    bool destroying;
    bool in_job;      /* true while the thread runs an iteration of a
                       * tn__parallel_for */
    bool typing;      /* true if this thread holds the lock of
                       * kernel/math/math_functions.c */
    bool captures;    /* true while a backward pass returns the gradients of
                       * given tensors instead of accumulating them
                       * (autograd/backward_walk.c) */
    int native_depth; /* number of nested calls of operators written in C in
                       * this thread (ops/engine/call.c) */
    int hooks_running;
    int range_depth;  /* number of ranges that the program has opened
                       * (trace.c) */
    struct tn__ranges *ranges; /* the open ranges that a trace shows, owned */
    /* Why objects that this thread frees now are freed (lifetime.c). */
    struct {
        int cause;
        uint64_t scope;
        const void *opener;
        const tn_path *opened_in;
    } release;
    int timeline_number; /* id of this thread in the trace; 0 if it has none
                          * yet */
    tn__tally tally;     /* device work that this thread submitted while a trace
                          * ran */

    /* State of the random number generator (ops/random/random.c). */
    struct {
        uint64_t seed, call;
        bool started;
    } random;
    struct tn__record *recording; /* recording that this thread is making
                                   * (device/recorder.c) */
    struct tn__small_caches *small; /* caches of small memory blocks, owned
                                     * (device/memory/small.c) */
    struct tn__run *recompute; /* checkpointed call whose forward pass is being
                                * repeated (autograd/recompute.c) */
    /* The nodes through which the running backward pass reaches the tensors
     * whose gradients tn_grad computes; NULL if it computes all gradients
     * (autograd/backward_walk.c). */
    const struct tn__node_set *walk_asked;
} tn__context;

extern TN__HOT_TLS tn__context tn__me;

/* Allocates zeroed memory that belongs to this thread and stores its address in
 * *slot, which is a pointer in tn__me. When the thread ends, the memory is
 * freed and the pointer is set to NULL. Returns NULL with no error recorded if
 * memory runs out. */
void *tn__context_alloc(void *slot, size_t bytes);

#endif
