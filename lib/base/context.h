/* context.h: what the library knows of each thread.
 *
 * All of it is one struct, so that there is one thing to look at, to set aside
 * and to hand on. It lies in static thread-local memory, of which a library that
 * is opened by dlopen gets little: large things stand behind pointers, which are
 * NULL until something needed them and freed when the thread ends. */
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

/* How operators work here. A thread that does a part of another one's work does it
 * under that one's modes. */
typedef struct tn__modes {
    bool not_recording; /* tn_grad_mode_set(false) */
    bool anomaly;       /* tn_anomaly_set(true): backward looks for NaN, and */
    bool watched;       /*   forward at what each operator makes */
    uint8_t autocast;   /* the dtype; 0: off */
} tn__modes;

typedef struct tn__context {
    tn__modes modes;
    struct tn__location location; /* what is done, and in which module */
    struct tn_device *device; /* the current one; NULL: not chosen yet */

    tn_status pending;           /* the error; TN_OK: none */
    struct tn__error_storage *error; /* owned: its words (error.c) */

    int handler_muted; /* errors are not told of to the handler: see error.h */
    int lock_count;   /* lock.c: locks that it holds; */
    int cancel_holds; /*   why it cannot be cancelled, */
    int cancel_state; /*   and whether it could before */
    struct tn__state *state; /* owned: scopes, free lists (state.h) */
    /* object.c: a death causes others, which wait for it. */
    struct tn__object *waiting;
    bool destroying;
    bool in_job;      /* of tn__parallel_for */
    bool typing;      /* kernel/math.c: this thread holds the lock */
    bool captures;    /* autograd/backward.c: the walk keeps its values */
    int native_depth; /* ops/engine/call.c: native rows that run */
    int hooks_running;
    int range_depth;  /* trace.c: ranges that are open, */
    struct tn__ranges *ranges; /* owned: and those that a trace shows */
    struct {          /* lifetime.c: what dies now goes by this */
        int cause;
        uint64_t scope;
        const void *opener;
        const tn_path *opened_in;
    } release;
    int timeline_number; /* of this thread; 0: none yet */
    tn__tally tally;     /* what it gave to devices while a trace ran */

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

/* Memory for something large of this thread, zeroed; NULL if there is none, with no
 * error recorded. It goes when the thread ends: *slot is set to it, and to NULL
 * then. */
void *tn__context_alloc(void *slot, size_t bytes);

#endif
