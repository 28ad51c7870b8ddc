/* rerun.h: a call of tn_recompute and its saved values, for saved_value.c and
 * recompute.c. */
#ifndef TN_LIB_AUTOGRAD_RERUN_H
#define TN_LIB_AUTOGRAD_RERUN_H

#include <base/lock.h>
#include <tenon/random.h>
#include <tenon/recompute.h>

#include <autograd/node.h>

struct tn__rerun_input {
    tn__saved_value saved;
    bool requires_grad;
};

struct tn__rerun {
    tn__object object;
    /* Runs the function again to fill the entries (recompute.c). */
    tn_status (*run_again)(tn__rerun *rerun);
    tn_recompute_fn run;
    void *context;
    void (*release)(void *context);
    bool preserve_rng;
    tn_rng_state rng;
    tn_dtype autocast; /* of the first run */
    int input_count, out_count;
    struct tn__rerun_input *input;
    bool complete;   /* the first run has ended */
    tn__lock lock;   /* guards the fields below, after the first run */
    bool recomputed; /* the second run has succeeded */
    uint32_t count;  /* number of values saved by the first run */
    size_t room;
    struct tn__rerun_entry {
        tn__saved_value saved; /* set by the second run */
        bool wanted;           /* a node still refers to it */
        tn_dtype dtype;        /* dtype, device and shape in the first run */
        const tn_device *device;
        tn__shape shape;
    } *entry;
};

/* The innermost such function that this thread runs. */
struct tn__run {
    tn__rerun *rerun;
    bool again;
    uint32_t next; /* in the second run: number of the next value */
    bool failed;   /* memory ran out for a value */
    bool differs;  /* a value differs from the first run's; the error is
                      recorded */
};

#endif
