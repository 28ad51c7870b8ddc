/* ptx_run.h: the threads of a launch, shared by ptx_run.c, which runs them, and
 * ptx_reach.c, which checks their memory accesses. A group is a CUDA thread
 * block. */
#ifndef TN_SIM_PTX_RUN_H
#define TN_SIM_PTX_RUN_H

#include "ptx.h"

/* States of a thread. WAITS: at a barrier; MEETS: at a warp-level instruction,
 * until all threads of the warp reach it. */
enum { RUNS, WAITS, MEETS, ENDED, FAILED };
enum { WARP = 32, MOST_COPIES = 64 };

/* A pending cp.async. group: number of commits before it. */
typedef struct copy {
    uint64_t from, to;
    uint32_t bytes, group;
    const ptx_ins *ins;
} copy;

typedef struct thread {
    ptx_slot *slot; /* element 0 of the thread's slots; slot i is at slot[WARP *
                     * i], so that the slots of a warp's threads are adjacent */
    unsigned char *local;
    unsigned char *local_written; /* for each byte of local memory: 1 if it was
                                   * written */
    int32_t at;       /* index of the next instruction */
    int state;
    uint32_t copy_count, commits;
    copy *copy; /* pending copies; MOST_COPIES elements if the kernel has a
                 * cp.async */
} thread;

/* The last write of and the last read from a granule of shared memory. The
 * upper 48 bits are an epoch, which increases at each barrier; the lower 16
 * bits are the thread's index + 1. */
typedef struct touch {
    uint64_t wrote, read;
} touch;
enum { BY_SEVERAL = 0xfffe, BY_ATOMS = 0xffff, EPOCH = 0x10000 };

/* Threads of a warp that run together. */
typedef struct lanes {
    unsigned count;
    uint8_t lane[WARP]; /* in increasing order */
} lanes;

typedef struct group {
    const ptx_launch *launch;
    const sim_actor *actor;
    unsigned number;
    thread *thread; /* array of launch->block threads */
    unsigned char *shared;
    touch *touched;          /* for each granule of shared memory */
    uint64_t epoch, first_epoch; /* current epoch, and that at the start of the
                                  * block */
    uint64_t steps;              /* number of warp instructions that ran */
    tn_cu_result error;
} group;

static inline ptx_slot *slot_of(const thread *t, int32_t slot)
{
    return t->slot + (ptrdiff_t)slot * WARP;
}

/* Copies values into a slot of each lane. For a whole warp the loop is
 * vectorized; memcpy would become `rep movs` here. */
static inline void lanes_put(ptx_slot *restrict slots, const lanes *who,
                             const uint64_t *restrict value)
{
    if (who->count == WARP)
        for (unsigned n = 0; n < WARP; n++)
            slots[n].u64 = value[n];
    else
        for (unsigned n = 0; n < who->count; n++)
            slots[who->lane[n]].u64 = value[n];
}

/* Reports the position of a thread. */
void ptx_where(const group *g, const thread *t, const ptx_ins *i);
/* Reports an error with its position and sets the group's error. Returns
 * false. */
bool ptx_refuse(group *g, const thread *t, const ptx_ins *i, const char *what);
/* Returns the memory of a thread's access; NULL, with a report and the group's
 * error set, if the access is not allowed. */
void *ptx_reach(group *g, const thread *t, const ptx_ins *i, uint64_t at);
/* Runs an LD, ST or ATOM for some threads of a warp. Returns false if one of
 * the accesses is not allowed. */
bool ptx_access(group *g, thread *warp, const ptx_ins *i, const lanes *who);

#endif
