/* local.h: what the files of this engine share.
 *
 * Two kinds of shared memory. The board of a job has a slot for each process:
 * whether it lives, its last heartbeat, where it is. A hall belongs to a comm
 * and has a slot for each of its ranks, with two staging areas, and a mailbox
 * for each ordered pair of ranks.
 *
 * A collective runs in rounds. In a round each rank copies a part of its data
 * into its own staging area, increments its step, waits until the steps of all
 * others have caught up, and reads theirs. Rounds alternate between the two
 * staging areas: a rank that writes the other one has seen all ranks begin this
 * round, so all have finished reading the round before it.
 *
 * If all ranks' data are in the same shared memory (memory.c), a collective is one
 * round: the ranks read each other's data where they are, and nothing is copied
 * into an area. README.md has the cost of both ways. */
#ifndef TN_PLUGINS_LOCAL_H
#define TN_PLUGINS_LOCAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <tenon/comm_plugin.h>
#include <tenon/plugin.h> /* TN_HAS */

#include "sum.h"

extern const tn_comm_host *local_host;

enum {
    LOCAL_MAX_RANKS = 256,
    LOCAL_NAME = 128,          /* of shared memory */
    LOCAL_CHUNK = 1024 * 1024, /* bytes of a staging area, of at most 4 ranks: with
                                  256 KB, which would stay in the L2 cache,
                                  meetings take longer than that saves */
    LOCAL_CHUNKS = 4 * LOCAL_CHUNK, /* of the areas of more ranks together */
    LOCAL_LEAST_CHUNK = 64 * 1024,
    LOCAL_SMALL = 8192,        /* an all_reduce of at most so many bytes is
                                  summed by every rank for itself, which saves
                                  one of two meetings */
    LOCAL_LINE = 64,           /* of a cache: slices begin at one, so that no
                                  line is written by two ranks */
    LOCAL_SPIN_NS = 4000,      /* if each rank can have a processor */
    LOCAL_BEAT_MS = 100,
    LOCAL_LOOK_MS = 10,        /* between two looks at who is alive */
    LOCAL_GRACE_MS = 300       /* a mismatch waits so long for the ranks that
                                  are still on their way, to name them, too */
};

/* ---- the board of a job --------------------------------------------------- */

typedef struct local_slot {
    pthread_mutex_t life; /* robust; held by a thread of the process while the
                             process lives: the kernel marks it when that ends,
                             also by a signal, and before its parent waits */
    _Atomic int64_t process; /* 0 until it has joined */
    _Atomic uint32_t closed;
    _Atomic uint32_t gone; /* it ended without closing: once set, it stays */
    _Atomic uint64_t beat_ns; /* CLOCK_MONOTONIC of the last heartbeat */
    _Atomic uint32_t position_version; /* odd while it is written */
    uint32_t position_bytes;
    unsigned char position[TN_COMM_RECORD];
} local_slot;

enum { LOCAL_NO_VERDICT, LOCAL_VERDICT_WRITTEN, LOCAL_VERDICT };

typedef struct local_board {
    _Atomic uint64_t ready; /* LOCAL_READY when the rest is initialised */
    int32_t count;
    _Atomic int32_t joined;
    _Atomic uint32_t verdict; /* LOCAL_NO_VERDICT ... */
    tn_status verdict_code;
    char verdict_text[TN_COMM_TEXT];
    char host[64];
    local_slot slot[];
} local_board;
#define LOCAL_READY 0x314c4143304c4e54u

/* What a process has of its job. */
typedef struct local_job {
    local_board *board;
    size_t bytes;
    char name[LOCAL_NAME]; /* of the board; halls add to it */
    int32_t rank, count;
    uint64_t timeout_ns;
    uint32_t halls;        /* made by this process */
    int references;        /* comms */
    pthread_t heart;
    bool beats;
    _Atomic uint32_t stop; /* tells the heart to end */
    _Atomic uint32_t started;
} local_job;

/* ---- the hall of a comm --------------------------------------------------- */

typedef struct local_seat {
    _Alignas(64) _Atomic uint64_t step;
    _Atomic uint64_t sequence; /* collectives begun */
    _Atomic uint32_t closed;
    _Atomic uint32_t last;     /* index of the newest of check[] */
    uint64_t check[2];         /* of the collectives whose first round used
                                  staging area 0, 1 */
    uint32_t record_bytes[2];
    unsigned char record[2][TN_COMM_RECORD];
    uint32_t memory[2];        /* number of the shared memory that has the data of
                                  that collective; 0: none */
    uint64_t place[2];         /* of the data in this rank's part of it, bytes */
} local_seat;

typedef struct local_mail {
    _Alignas(64) _Atomic uint64_t written; /* pieces, by the sender */
    _Alignas(64) _Atomic uint64_t read;    /* pieces, by the receiver */
    uint64_t check[2];         /* of a message whose first piece is in slot 0, 1 */
} local_mail;

typedef struct local_hall {
    _Atomic uint64_t ready;
    int32_t count;
    _Atomic int32_t joined;
    uint64_t mail_bytes;       /* of one piece of a mailbox, which has two */
    _Atomic uint32_t event;    /* incremented when anything changes: a futex */
    _Atomic uint32_t sleepers;
    local_seat seat[];
} local_hall;

struct tn_comm {
    local_job *job;            /* counted */
    local_hall *hall;
    size_t hall_bytes;
    int32_t rank, count;
    int32_t *member;           /* owned: ranks in the job */
    char name[LOCAL_NAME + 32]; /* of the hall */
    tn_comm_memory *memory;    /* list of those that are open */
    uint32_t memories;         /* made so far */
    uint64_t round;            /* of collectives; its parity is the area used */
    tn_comm_request *first, **end; /* pending, in order of start; not owned */
    uint32_t reason;           /* TN_COMM_WORKS ... */
    int32_t peer;
    uint64_t looked_ns;
    uint64_t spin_ns;          /* a wait spins so long before it yields */
};

struct tn_comm_request {
    tn_comm *comm;
    tn_comm_request *next;
    tn_comm_args args;
    unsigned char record[TN_COMM_RECORD];
    bool pending;              /* in the comm's list */
    bool done;
    int phase;
    bool began;                /* its check was published */
    bool met;                  /* all ranks have begun it */
    bool direct;               /* reads the data of the others where they are */
    const tn_comm_memory *memory; /* that has this rank's data; NULL: none */
    uint64_t place;            /* of the data in its part */
    uint64_t offset, part;     /* elements done, elements of this round */
    uint64_t target;           /* the step that all ranks must reach */
    uint64_t odd_since_ns;     /* when a mismatch was seen; 0: none */
    int32_t odd;
};

/* ---- calls between the files ---------------------------------------------- */

uint64_t local_now(void);
/* segment.c: shared memory by name */
void *local_segment_make(const char *name, size_t bytes);
/* Waits until the owner has made it and set its first word to LOCAL_READY.
 * Returns NULL without an error if it is not there yet. */
void *local_segment_try(const char *name, size_t *bytes);
void local_segment_remove(const char *name);
void local_segment_unmap(void *memory, size_t bytes);

/* board.c: the processes of a job */
local_job *local_job_open(const tn_comm_place *place);
void local_job_drop(local_job *job);
/* Returns TN_COMM_ALIVE, TN_COMM_GONE or TN_COMM_CLOSED. */
uint32_t local_job_life(local_job *job, int32_t rank);
bool local_job_has_verdict(const local_job *job);
void local_job_judge(local_job *job, tn_status code, const char *text);
/* Called in loops that wait for ranks member[0 .. count), or 0 .. count if it is
 * NULL: sleeps a little. Returns false and fails if `deadline` is over, a verdict
 * was given or one of them has ended; it then ends the job. */
bool local_job_patience(local_job *job, const int32_t *member, int32_t count,
                        uint64_t deadline, const char *what);

/* hall.c: comms and their seats */
tn_comm *local_hall_enter(local_job *job, const int32_t *member, int32_t count,
                          int32_t rank, const char *name);
void local_hall_leave(tn_comm *comm);
/* The bytes of a staging area. */
size_t local_hall_chunk(int32_t count);
unsigned char *local_hall_area(const tn_comm *comm, int32_t rank, uint64_t round);
local_mail *local_hall_mail(const tn_comm *comm, int32_t from, int32_t to);
unsigned char *local_hall_piece(const tn_comm *comm, local_mail *mail,
                                uint64_t number);
void local_hall_tell(tn_comm *comm);
/* Sleeps until something changes after `event` was read, or timeout_ns. */
void local_hall_sleep(tn_comm *comm, uint32_t event, uint64_t timeout_ns);
/* Marks the comm as broken and fails. */
tn_status local_hall_break(tn_comm *comm, uint32_t reason, int32_t peer);
tn_status local_hall_broken(tn_comm *comm);
/* Returns TN_COMM_LOST or TN_COMM_LEFT if the process of a rank has ended or
 * left, else TN_COMM_WORKS. What the rank did before must be read afterwards. */
uint32_t local_hall_life(tn_comm *comm, int32_t rank);

/* Gives all ranks a few bytes of each rank, and waits for them. check says what
 * for. */
typedef tn_status local_gathering(tn_comm *comm, const void *mine,
                                  uint64_t bytes, void *all, uint64_t check);
/* memory.c: memory for tensors */
tn_status local_memory_alloc(tn_comm *comm, local_gathering *gather,
                             uint64_t bytes, void **out_data,
                             tn_comm_memory **out);
void local_memory_close(tn_comm *comm, tn_comm_memory *memory);
/* Returns the memory in which this rank's data are, and their place in its part;
 * NULL if there is none. */
const tn_comm_memory *local_memory_find(const tn_comm *comm, const void *data,
                                        size_t bytes, uint64_t *place);
/* Returns its number, or 0 for NULL. */
uint32_t local_memory_number(const tn_comm_memory *memory);
unsigned char *local_memory_at(const tn_comm_memory *memory, int32_t rank,
                               uint64_t place);

/* collective.c, pair.c: one step of a request, if it can be taken. Sets
 * request->done at the end. Returns TN_OK also if nothing could be done. */
tn_status local_collective_go(tn_comm_request *request);
tn_status local_pair_go(tn_comm_request *request);

#endif
