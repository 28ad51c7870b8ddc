/* control.h: what the files of the control plane share.
 *
 * An engine without a board (TN_COMM_CAP_BOARD) moves data and knows nothing
 * else: MPI waits for ever for a rank that was killed, and adds float32 to int32.
 * For such an engine, and between machines for each, the ranks have connections
 * of their own: a tree over TCP, with rank 0 as its root. A thread of each process sleeps in poll. It sends a
 * heartbeat with the process's position, answers questions about it, and learns
 * that ranks have ended and that the job is over. The work of the job needs it
 * only while the step does not repeat:
 *
 * A collective begins in one of two ways. A rank that expects it (predict.c),
 * because it has made the same calls in the same order twice, begins at once:
 * all ranks have agreed on those calls, so all expect the same one. Any other
 * call is announced to rank 0, which lets the ranks begin when all have
 * announced the same. A rank whose call is not the expected one announces it
 * with a flag; rank 0 then recalls the others: those that have begun by
 * expectation answer with what they have begun. So no data moves between ranks
 * that mean different calls, and a step that repeats costs one comparison for
 * each call. */
#ifndef TN_LIB_DIST_CONTROL_H
#define TN_LIB_DIST_CONTROL_H

#include <dist/control_wire.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- predict.c ------------------------------------------------------------ */

enum { TN__EXPECTED, TN__UNKNOWN, TN__SURPRISE };

/* The calls of a group that all ranks agreed on. */
typedef struct tn__predictor {
    uint64_t *seen;      /* owned: checks, in order */
    size_t count, room;
    size_t period;       /* calls of a step; 0: it does not repeat yet */
    size_t at;           /* in the step: the next one */
    size_t surprise;     /* 1 + index in seen of the last one; 0: none */
    uint64_t first;      /* sequence of the first expected call */
} tn__predictor;

void tn__predictor_fini(tn__predictor *p);
/* Takes the call `sequence`. Returns TN__EXPECTED if it is the one that the step
 * has next, TN__SURPRISE if it is not, TN__UNKNOWN while no step is known. */
int tn__predictor_take(tn__predictor *p, uint64_t sequence, uint64_t check);
/* The check of an expected call that was taken. */
uint64_t tn__predictor_check(const tn__predictor *p, uint64_t sequence);

/* ---- the node of this process --------------------------------------------- */

/* What the control plane knows of a group; lies inside tn_group. */
typedef struct tn__control_group {
    struct tn__control_group *next;
    uint64_t id;
    int32_t size;
    tn__predictor predictor;
    uint64_t begun;      /* collectives that were called, and let begin or
                            announced */
    uint64_t recalled;   /* this and the later ones are announced: sequence + 1;
                            0: none */
    uint64_t let;        /* collectives that may begin */
    uint64_t differs;    /* sequence + 1 of one on which ranks differ; 0: none */
    /* The oldest one that is not done, or the last one: for others. */
    uint64_t sequence, check;
    uint32_t record_bytes;
    unsigned char record[TN_COMM_RECORD];
} tn__control_group;

/* A connection. */
typedef struct tn__link {
    int fd;
    int32_t rank;        /* at the other end; -1: has not said so yet */
    uint64_t since_ns, heard_ns;
    bool bye;
    unsigned char *out;  /* owned: not sent yet */
    size_t out_bytes, out_room;
    size_t in_bytes;
    unsigned char in[TN__WIRE_MOST];
} tn__link;

/* A group that a rank has closed. */
typedef struct tn__leave {
    int32_t rank;
    uint64_t group, sequence;
} tn__leave;

typedef struct tn__root tn__root;

/* What all processes know of each other from the start. */
typedef struct tn__address {
    uint64_t machine;    /* the same for processes that share a loopback */
    int64_t process;
    uint32_t ip[4];      /* network order; 0: none */
    uint32_t port;       /* 0: does not listen */
    char host[64];
    unsigned char token[TN__TOKEN]; /* of rank 0's entry: the job's */
} tn__address;

typedef struct tn__control tn__control;
struct tn__control {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool runs;           /* the thread */
    bool stops;
    bool headless;       /* the parent is gone */
    int wake, listener;
    int32_t rank, count;
    tn__address *address; /* owned: of all ranks */
    bool several;        /* machines */
    tn__link **link;     /* owned */
    int links;
    tn__control_group *first;
    tn__control_group *shown; /* the one that was used last, or NULL */
    unsigned char *life; /* owned: of all ranks, TN_COMM_ALIVE ... */
    tn__leave *leave;    /* owned */
    int leaves, leave_room;
    unsigned char position[TN_COMM_RECORD];
    uint32_t position_bytes;
    uint64_t beat_ns;    /* when it was sent */
    tn_status code;      /* of the verdict */
    char *verdict;       /* owned; NULL: the job goes on */
    uint64_t life_ns;    /* when one of life has changed */
    _Atomic uint32_t alarm; /* there is a verdict, or ranks differ, have ended or
                               have left: look closer */
    tn_comm_peer *row;   /* lent by the call that looks; of all ranks */
    uint64_t *row_group; /* lent: the group of each row */
    bool looked;
    tn__root *root;      /* owned; NULL: not rank 0 */
    /* What messages that go down and up lead to: those who handle them pass on
     * others. */
    void (*take)(tn__control *, const tn__wire *);
    void (*root_take)(tn__control *, const tn__wire *);
};

/* The ranks of the tree: star up to TN__STAR ranks. */
enum { TN__STAR = 64, TN__FAN = 32, TN__BEAT_MS = 250 };
int32_t tn__control_parent(int32_t rank, int32_t count);
/* The child of `node` in whose branch rank is, or -1. */
int32_t tn__control_branch(int32_t node, int32_t rank, int32_t count);

/* Makes the node of this process, and fills *out with where it listens: at the
 * loopback only, unless `wide`. machine is this process's. NULL with an error. */
tn__control *tn__control_make(int32_t rank, int32_t count, bool wide,
                              tn__address *out);
uint64_t tn__control_machine(void);
/* The token of the job: the launcher's text, or if it is NULL at rank 0 a new
 * one, and at the others zeros. */
tn_status tn__control_token(int32_t rank, const char *text,
                            unsigned char out[TN__TOKEN]);
/* Connects it. Takes over address, also on failure. deadline: see
 * tn__dist_now. */
tn_status tn__control_join(tn__control *control, tn__address *address,
                           uint64_t deadline);
/* Tells the others that this process leaves the job. */
void tn__control_bye(tn__control *control);
/* Waits a little for what others still ask, and frees it. NULL is allowed. */
void tn__control_close(tn__control *control);

void tn__control_enter(tn__control *control, tn__control_group *group,
                       uint64_t id, int32_t size);
void tn__control_leave(tn__control *control, tn__control_group *group);

/* The rank calls a collective of the group. Returns whether it may begin;
 * otherwise see tn__control_may. */
bool tn__control_begin(tn__control *control, tn__control_group *group,
                       uint64_t sequence, uint64_t check);
bool tn__control_may(tn__control *control, tn__control_group *group,
                     uint64_t sequence);
/* The collective that others see as the current one. */
void tn__control_show(tn__control *control, tn__control_group *group,
                      uint64_t sequence, uint64_t check, const void *record,
                      uint32_t bytes);
void tn__control_publish(tn__control *control, const void *position,
                         uint32_t bytes);
/* Waits until something changes, at most timeout_ns. */
void tn__control_wait(tn__control *control, uint64_t timeout_ns);

/* Whether the three functions below have something to say. */
static inline bool tn__control_is_quiet(tn__control *control)
{
    return !atomic_load_explicit(&control->alarm, memory_order_acquire);
}
/* What breaks the call `sequence` of the group, or, if peer >= 0, a message with
 * that rank of the group: sets *state as the engine's function does; peer is -1
 * if it is a rank of the tree that is not in the group. world: the ranks of the
 * group in the job. */
void tn__control_state(tn__control *control, const tn__control_group *group,
                       const int32_t *world, uint64_t sequence, int32_t peer,
                       tn_comm_state *state);
/* Fills the rows of the ranks of the group. Waits for them, less than a second.
 * silent_ns is UINT64_MAX for a rank of which nothing is known. */
void tn__control_look(tn__control *control, tn__control_group *group,
                      const int32_t *world, tn_comm_peer *out);
/* Ends the job, and waits until rank 0 has said with which message: less than a
 * second, after which it is this one. */
void tn__control_abort(tn__control *control, tn_status code, const char *text);

/* ---- between the files of the control plane. With the lock. ---------------- */

void tn__control_up(tn__control *control, tn__wire *message);
void tn__control_down(tn__control *control, const tn__wire *message);
/* Handles a message that goes down, at this node. */
void tn__control_take(tn__control *control, const tn__wire *message);
void tn__control_wake(tn__control *control);
/* What this process tells of itself; of a group if it is not NULL. */
void tn__control_row(tn__control *control, const tn__control_group *group,
                     tn__wire *out);

/* control_link.c */
/* The connection to a rank, or NULL. */
tn__link *tn__link_to(tn__control *control, int32_t rank);
tn__link *tn__link_add(tn__control *control, int fd, int32_t rank);
void tn__link_remove(tn__control *control, int index);
/* Sends, or stores what cannot be sent now. */
void tn__link_send(tn__control *control, tn__link *link, const tn__wire *message);
/* Sends what was stored. Returns false if the connection is lost. */
bool tn__link_flush(tn__link *link);
/* Opens a socket that listens. */
tn_status tn__link_listen(tn__control *control, bool wide, tn__address *out);
/* Connects to the parent, and says hello. */
tn_status tn__link_connect(tn__control *control, uint64_t deadline);

/* control_root.c: rank 0 */
tn__root *tn__root_new(int32_t count);
void tn__root_free(tn__root *root);
/* Takes a message that has come up. */
void tn__root_take(tn__control *control, const tn__wire *message);
/* Does what is due. Returns when it wants to be called again, or UINT64_MAX. */
uint64_t tn__root_tick(tn__control *control);

#endif
