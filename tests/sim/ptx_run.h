/* ptx_run.h: the threads of a launch, shared by ptx_run.c, which runs them, and
 * ptx_reach.c, which checks and makes their memory accesses. */
#ifndef TN_SIM_PTX_RUN_H
#define TN_SIM_PTX_RUN_H

#include "ptx.h"

/* MEETS: waits at an instruction of the whole warp. */
enum { RUNS, WAITS, MEETS, ENDED, FAILED };
enum { WARP = 32, MOST_COPIES = 64 };

/* A cp.async, in the group of so many commits before it. */
typedef struct copy {
    uint64_t from, to;
    uint32_t bytes, group;
    const ptx_ins *ins;
} copy;

typedef struct thread {
    ptx_slot *slot; /* each WARP apart: between them stand the neighbours' */
    unsigned char *local;
    unsigned char *local_written; /* 1: that byte */
    int32_t at;       /* the next instruction */
    int state;
    uint32_t copy_count, commits;
    copy *copy; /* under way; room for MOST_COPIES where the kernel has any */
} thread;

/* The last access to a granule of shared memory, for writes and for reads: an
 * epoch, which a barrier ends, and in the lower 16 bits the thread's number
 * + 1. */
typedef struct touch {
    uint64_t wrote, read;
} touch;
enum { BY_SEVERAL = 0xfffe, BY_ATOMS = 0xffff, EPOCH = 0x10000 };

/* Threads of a warp that run together. */
typedef struct lanes {
    unsigned count;
    uint8_t lane[WARP]; /* in rising order */
} lanes;

typedef struct group {
    const ptx_launch *launch;
    const sim_actor *actor;
    unsigned number;
    thread *thread; /* launch->block of them */
    unsigned char *shared;
    touch *touched;          /* of each grain of it */
    uint64_t epoch, first_epoch; /* now; when the group began */
    uint64_t steps;              /* instructions that warps have run */
    tn_cu_result error;
} group;

static inline ptx_slot *slot_of(const thread *t, int32_t slot)
{
    return t->slot + (ptrdiff_t)slot * WARP;
}

/* Copies a slot of each lane from other memory. A whole warp's are copied by
 * vectors; memcpy would be `rep movs` here. */
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
/* Reports an error with its position and sets the group's error. Returns false.
 */
bool ptx_refuse(group *g, const thread *t, const ptx_ins *i, const char *what);
/* The memory of a thread's access. If the access is not allowed: NULL, with a
 * report and the group's error set. */
void *ptx_reach(group *g, const thread *t, const ptx_ins *i, uint64_t at);
/* An LD, ST or ATOM of some of a warp's threads; false: one of them may not. */
bool ptx_access(group *g, thread *warp, const ptx_ins *i, const lanes *who);

#endif
