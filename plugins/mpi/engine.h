/* engine.h: what the files of this engine share.
 *
 * All data go by MPI's messages between two processes: nonblocking, so that no
 * call waits, and summed here, so that the order of sums is fixed. A collective
 * begins with a meeting, in which ranks compare what they call. A small one is
 * complete then, because the messages of the meeting carry its data. A large one
 * is moved afterwards in pieces, two of which are under way at a time.
 *
 * Two communicators of MPI serve the whole job, one for data and one for notes
 * (who is where, why the job ends). A comm is a list of ranks and a number, which
 * is part of its tags. So split needs no collective of MPI, which could not be
 * given up if a rank does not come.
 *
 * The processes of one machine also share a board, which shows who lives. */
#ifndef TN_PLUGINS_MPI_ENGINE_H
#define TN_PLUGINS_MPI_ENGINE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/comm_plugin.h>
#include <tenon/plugin.h> /* TN_HAS */

#include "../local/sum.h"

#ifdef OPEN_MPI
#define ENGINE_NAME "openmpi"
#else
#define ENGINE_NAME "mpich"
#endif

extern const tn_comm_host *engine_host;

enum {
    ENGINE_DIRECT = 8,        /* comms of at most so many ranks meet by a message
                                 from each to each */
    ENGINE_SMALL = 16384,     /* bytes for each rank that such a message carries */
    ENGINE_PIECE = 4 << 20,   /* bytes of a piece */
    ENGINE_LANES = 2,         /* pieces under way */
    ENGINE_BEAT_MS = 100,
    ENGINE_LOOK_MS = 10,      /* between two looks at who lives */
    ENGINE_STRANDED_MS = 50,  /* what a rank sent before it ended may arrive */
    ENGINE_STRANDED_STEPS = 50, /* later than we see its end */
    ENGINE_ASK_MS = 300,      /* a request that waits so long asks others */
    ENGINE_ASK_AGAIN_MS = 1000,
    ENGINE_GRACE_MS = 300,    /* a failure waits so long for answers, and a
                                 mismatch for ranks on their way, to name them */
    ENGINE_TAGS = 8           /* tags of a comm: see flight.c */
};

/* ---- board.c: the processes of this machine -------------------------------- */

typedef struct engine_slot {
    pthread_mutex_t life; /* robust; held by a thread of the process while the
                             process lives: the kernel marks it when that ends,
                             also by a signal */
    _Atomic int64_t process;
    _Atomic uint32_t closed, gone;
    _Atomic uint64_t beat_ns;
    _Atomic uint32_t position_version; /* odd while it is written */
    uint32_t position_bytes;
    unsigned char position[TN_COMM_RECORD];
} engine_slot;

enum { ENGINE_NO_VERDICT, ENGINE_VERDICT_WRITTEN, ENGINE_VERDICT };

typedef struct engine_board {
    _Atomic uint32_t verdict; /* ENGINE_NO_VERDICT ... */
    tn_status verdict_code;
    char verdict_text[TN_COMM_TEXT];
    engine_slot slot[];
} engine_board;

typedef struct engine_outgoing engine_outgoing; /* talk.c */

/* What a process has of its job. */
typedef struct engine_job {
    int32_t rank, count;
    uint64_t timeout_ns;
    MPI_Comm data, notes, host;
    MPI_Win window;
    engine_board *board;
    int32_t *seat;         /* owned: index of a rank's slot in the board; -1 if it
                              is on another machine */
    int32_t seats;         /* ranks of this machine */
    bool several;          /* several machines */
    _Atomic uint32_t *left;/* owned: by rank: a note said that it left */
    uint32_t *life;        /* owned: by rank, as seen at the last look */
    char machine[64];
    uint32_t next_comm;    /* number of the next comm */
    uint32_t comms_end;    /* numbers from here on have no tags */
    tn_comm *first;        /* comms of this process */
    engine_outgoing *outgoing;
    int *sent;             /* owned: notes sent to each rank, then the number of
                              those received from each, then what they sent */
    MPI_Request incoming;  /* of a note */
    void *note;            /* owned: its memory */
    uint64_t polled_ns;    /* notes, the last time */
    bool mute;             /* MPI is not called any more: see flight.c */
    bool crowded;          /* more ranks than processors */
    /* The heart. */
    pthread_t heart;
    bool beats;
    void (*serve)(struct engine_job *); /* answers notes; NULL: the heart does
                                           not call MPI */
    _Atomic uint32_t stop, started;
} engine_job;

/* Held during all calls of the engine that use MPI: MPI_THREAD_SERIALIZED. */
extern pthread_mutex_t engine_lock;

uint64_t engine_now(void);
size_t engine_board_bytes(int32_t seats);
bool engine_board_init(engine_board *board, int32_t seats);
/* Begins to show that this process lives. */
bool engine_heart_start(engine_job *job);
void engine_heart_stop(engine_job *job);
/* Returns TN_COMM_ALIVE, TN_COMM_GONE or TN_COMM_CLOSED for a process of this
 * machine, or for a rank of the job. own: it is this process. */
uint32_t engine_slot_life(engine_slot *slot, bool own);
uint32_t engine_life(engine_job *job, int32_t rank);
bool engine_has_verdict(const engine_job *job);
/* Returns whether this was the first verdict of this machine. */
bool engine_judge(engine_job *job, tn_status code, const char *text);

/* ---- flight.c: messages under way ------------------------------------------ */

typedef struct engine_flight {
    MPI_Request *request;  /* owned */
    int32_t *peer;         /* owned: the other rank of the job */
    int count, room, open; /* open: not complete */
    int receives;          /* of request[0 .. receives), then sends */
    int *landed;           /* owned: indices, of the last look */
    MPI_Status *status;    /* owned */
    int landed_count;
} engine_flight;

enum {
    ENGINE_TAG_MEET,
    ENGINE_TAG_PAIR,
    ENGINE_TAG_PIECE, /* two stages of each lane */
    ENGINE_TAG_PAIR_PIECE = ENGINE_TAG_PIECE + 2 * ENGINE_LANES
};

/* ---- comms and requests ----------------------------------------------------- */

/* The head of a message of a meeting, and the first one of a pair. */
typedef struct engine_head {
    uint64_t low, high;    /* the least and the largest check of the ranks whose
                              heads this one contains */
    uint64_t sequence;
    uint32_t record_bytes, unused;
    unsigned char record[TN_COMM_RECORD];
} engine_head;
enum { ENGINE_BOX = sizeof(engine_head) + ENGINE_SMALL };

struct tn_comm {
    engine_job *job;
    tn_comm *next;             /* in the job's list */
    bool whole;                /* the comm of the job: closed last */
    uint32_t number;
    int32_t rank, count;
    int32_t *member;           /* owned: ranks in the job */
    tn_comm_request *first, **end; /* pending, in order of start; not owned */
    tn_comm_peer *known;       /* owned: of each rank, by what it said last */
    uint64_t *heard_ns;        /* owned: when */
    uint64_t *answered_ns;     /* owned: when the last question was asked that
                                  it has answered */
    unsigned char *box_in, *box_out; /* owned: for each rank of a small comm */
    unsigned char *scratch[ENGINE_LANES]; /* owned; NULL until needed */
    engine_head head[2];       /* of meetings of many ranks */
    /* What broke it, or is about to. */
    uint32_t reason, suspicion;
    int32_t peer;
    uint64_t suspected_ns;
    char why[256];             /* of TN_COMM_FAILED */
    uint64_t looked_ns, asked_ns;
    uint64_t landed_ns;        /* when a piece arrived */
    bool moving;               /* pieces are under way */
    uint64_t stranded_ns;      /* since when a rank that is needed does not live */
    uint32_t stranded_steps;   /* steps since then */
};

typedef struct engine_lane {
    engine_flight flight;
    uint64_t offset, part;     /* elements */
    int stage;                 /* 0: none, 1, 2 */
} engine_lane;

struct tn_comm_request {
    tn_comm *comm;
    tn_comm_request *next;
    tn_comm_args args;
    unsigned char record[TN_COMM_RECORD];
    bool pending, done, began, met;
    uint64_t started_ns, began_ns;
    uint64_t given, finished;  /* elements that lanes took, and completed */
    int32_t distance;          /* of a meeting of many ranks */
    int32_t odd;               /* a rank whose check differs, or -1 */
    uint64_t odd_since_ns;
    unsigned char *box;        /* owned: of a pair */
    engine_flight meet;
    engine_lane lane[ENGINE_LANES];
};

/* flight.c. Ranks are those of the comm. receive before send. */
bool engine_receive(tn_comm *comm, engine_flight *flight, int32_t rank, int tag,
                    void *data, size_t bytes);
bool engine_send(tn_comm *comm, engine_flight *flight, int32_t rank, int tag,
                 const void *data, size_t bytes);
/* Makes progress. Returns whether all messages are complete. */
bool engine_landed(tn_comm *comm, engine_flight *flight);
/* A rank of the job that an incomplete message needs and that does not live; its
 * reason is stored. -1 if there is none. */
int32_t engine_stranded(const engine_job *job, const engine_flight *flight,
                        uint32_t *reason);
/* Gives the messages up. */
void engine_ground(engine_job *job, engine_flight *flight);
/* Takes the steps that can be taken with the pieces of a request. post begins the
 * messages of a stage of a lane; land is called when they are complete, and
 * returns whether another stage follows. */
typedef struct engine_route {
    uint64_t (*part)(const tn_comm_request *r, uint64_t left);
    void (*post)(tn_comm_request *r, engine_lane *lane, int index);
    bool (*land)(tn_comm_request *r, engine_lane *lane, int index);
} engine_route;
void engine_fly(tn_comm_request *r, const engine_route *route);

/* talk.c: notes */
/* Makes room for a note. Returns false without memory. */
bool engine_listen_room(engine_job *job);
/* Starts to receive notes. */
void engine_listen(engine_job *job);
/* Answers notes, and takes in what they say. */
void engine_hear(engine_job *job);
/* Receives the notes that nobody needs any more. A collective. */
void engine_drain(engine_job *job);
/* Tells all ranks of the comm where this one is, and asks them the same. */
void engine_ask(tn_comm *comm);
/* Stores that a rank of the comm has begun a collective. */
void engine_note_head(tn_comm *comm, int32_t rank, const engine_head *head);
/* Tells the ranks of other machines. */
void engine_tell_verdict(engine_job *job, tn_status code, const char *text);
void engine_tell_left(engine_job *job);
/* Suspects that a rank of the comm breaks it. */
void engine_suspect(tn_comm *comm, uint32_t reason, int32_t rank);
/* An error of MPI breaks the comm. */
void engine_fail(tn_comm *comm, const char *call, int error);

/* collective.c, pair.c: the steps of a request that can be taken. Sets
 * request->done at the end. */
void engine_collective_go(tn_comm_request *request);
void engine_pair_go(tn_comm_request *request);

/* join.c: MPI, the communicators and the board */
tn_status engine_probe(const tn_comm_place *place);
engine_job *engine_join(const tn_comm_place *place);
void engine_leave(engine_job *job);

#endif
