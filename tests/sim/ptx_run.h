/* ptx_run.h: the threads of a launch, between ptx_run.c, which runs them, and
 * ptx_reach.c, which says what memory they reach. */
#ifndef TN_SIM_PTX_RUN_H
#define TN_SIM_PTX_RUN_H

#include "ptx.h"

/* MEETS: stands at an instruction of its whole warp. */
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

/* Who reached a grain of shared memory last, and in which epoch: a barrier
 * begins a new one. A thread is its number + 1. */
typedef struct touch {
    uint32_t wrote_in, read_in;
    uint16_t writer, reader;
} touch;
enum { BY_SEVERAL = 0xfffe, BY_ATOMS = 0xffff };

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
    uint32_t epoch, first_epoch; /* now; when the group began */
    tn_cu_result error;
} group;

static inline ptx_slot *slot_of(const thread *t, int32_t slot)
{
    return t->slot + (ptrdiff_t)slot * WARP;
}

/* Says where a thread stands. */
void ptx_where(const group *g, const thread *t, const ptx_ins *i);
/* Where an access of a thread reaches. NULL, said, with the group's error, if
 * it may not. */
void *ptx_reach(group *g, const thread *t, const ptx_ins *i, uint64_t at);
/* An LD, ST or ATOM of some of a warp's threads; false: one of them may not. */
bool ptx_access(group *g, thread *warp, const ptx_ins *i, const lanes *who);

#endif
