/* rerun.h: a call of tn_recompute (torch.utils.checkpoint in PyTorch) and the
 * values that its nodes save, for saved_value.c and recompute.c.
 *
 * The first run is the forward call. It gives an index to each value that a
 * node would save, instead of storing it. The second run is made during
 * backward. It stores the values under the same indices. */
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
    /* Repeats the function: the second run, which stores the saved values in
     * entry[] (recompute.c). */
    tn_status (*run_again)(tn__rerun *rerun);
    tn_recompute_fn run;
    void *context;
    void (*release)(void *context);
    bool preserve_rng;
    tn_rng_state rng;
    tn_dtype autocast; /* the thread's autocast dtype in the first run */
    int input_count, out_count;
    struct tn__rerun_input *input;
    bool complete;   /* the first run has ended */
    tn__lock lock;   /* guards the fields below once the first run has ended */
    bool recomputed; /* the second run has succeeded */
    uint32_t count;  /* number of values saved by the first run */
    size_t room;
    struct tn__rerun_entry {   /* entry[number] is one saved value */
        tn__saved_value saved; /* the value, stored by the second run */
        bool wanted;           /* a node still refers to the value */
        tn_dtype dtype;        /* dtype, device and shape in the first run */
        const tn_device *device;
        tn__shape shape;
    } *entry;
};

/* The innermost first or second run that is in progress in this thread. */
struct tn__run {
    tn__rerun *rerun;
    bool again;    /* this is the second run */
    uint32_t next; /* in the second run, the index of the next saved value */
    bool failed;   /* memory ran out for a value */
    bool differs;  /* a value has another shape, dtype or device than in the
                      first run; an error is recorded */
};

#endif
