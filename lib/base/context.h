/* context.h: the per-thread state of the library.
 *
 * It is one struct, so that it can be inspected, saved and passed on as a
 * whole. It is in static thread-local storage, which is scarce for a library
 * opened by dlopen. Large parts are therefore behind pointers: NULL until first
 * use, freed when the thread ends. */
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
    bool not_recording; /* tn_grad_mode_set(false) */
    bool anomaly; /* tn_anomaly_set(true): backward checks gradients for NaN */
    bool watched; /* forward checks the outputs of each operator */
    uint8_t autocast;   /* the dtype; 0: off */
} tn__modes;

typedef struct tn__context {
    tn__modes modes;
    struct tn__location location; /* running operator and module */
    struct tn_device *device; /* the current one; NULL: not chosen yet */

    tn_status pending;               /* the pending error; TN_OK: none */
    struct tn__error_storage *error; /* owned: its text and facts (error.c) */

    int handler_muted; /* above 0: the error handler is not called (error.h) */
    int lock_count;    /* lock.c: locks that the thread holds, */
    int cancel_holds;  /*   reasons for which it cannot be cancelled now, */
    int cancel_state;  /*   and its cancel state before the first of them */
    struct tn__state *state; /* owned: scopes, free lists (state.h) */
    /* object.c: objects to destroy after the one being destroyed. */
    struct tn__object *waiting;
    bool destroying;
    bool in_job;      /* runs a part of a tn__parallel_for */
    bool typing;      /* kernel/math/math_functions.c: this thread holds the lock */
    bool captures;    /* autograd/backward_walk.c: the walk keeps its values */
    int native_depth; /* ops/engine/call.c: native rows that are running */
    int hooks_running;
    int range_depth;  /* trace.c: open ranges, */
    struct tn__ranges *ranges; /* owned: those that a trace shows */
    struct {          /* lifetime.c: what frees objects now */
        int cause;
        uint64_t scope;
        const void *opener;
        const tn_path *opened_in;
    } release;
    int timeline_number; /* of this thread in a trace; 0: none yet */
    tn__tally tally;     /* its device work while a trace ran */

    struct {             /* ops/random/random.c */
        uint64_t seed, call;
        bool started;
    } random;
    struct tn__record *recording;         /* device/recorder.c */
    struct tn__small_caches *small;       /* device/memory/small.c */
    struct tn__run *recompute;            /* autograd/recompute.c */
    const struct tn__node_set *walk_asked; /* autograd/walk.c */
} tn__context;

extern TN__HOT_TLS tn__context tn__me;

/* Allocates zeroed memory for this thread and stores its address in *slot. The
 * memory is freed, and *slot set to NULL, when the thread ends. NULL, with no
 * error recorded, if memory runs out. */
void *tn__context_alloc(void *slot, size_t bytes);

#endif
