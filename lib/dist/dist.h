/* dist.h: what the files of this room share. */
#ifndef TN_LIB_DIST_DIST_H
#define TN_LIB_DIST_DIST_H

#include <dist/control.h>

#include <tenon/comm_plugin.h>
#include <tenon/dist.h>

/* ---- place.c: which process this is --------------------------------------- */

typedef struct tn__dist_place {
    int32_t rank, count;
    int32_t local_count;    /* 0 if not known */
    char job[64];
    char address[256];
    uint32_t port;
    char source[32];        /* what said so: "TENON_RANK", "options" */
    const char *engine;     /* NULL: chosen */
    const char *token;      /* of the control plane; NULL: none was given */
    double timeout;         /* seconds */
} tn__dist_place;

/* Reads options and environment. */
tn_status tn__dist_place_find(const tn_dist_init_options *options,
                              tn__dist_place *out);

/* ---- engine.c: plugins ---------------------------------------------------- */

/* Opens the engine of that name, or the first that can serve the place if name
 * is NULL. Returns its table, which is valid until the process ends. */
const tn_comm_plugin *tn__dist_engine_find(const char *name,
                                           const tn_comm_place *place);
/* The message of the engine's last failure in this thread. Lent until the next
 * one. */
const char *tn__dist_engine_reason(void);

/* ---- records ---------------------------------------------------------------- */

/* What ranks compare, and what messages say. Compared as bytes. */
typedef struct tn__dist_record {
    uint64_t sequence; /* of the group; 0 for send and recv */
    uint64_t count;
    int32_t root;      /* of a broadcast; else -1 */
    uint32_t kind, dtype, reduce;
    uint32_t mean;
    uint32_t split;    /* 1: a tn_group_split */
    char group[32], path[88], label[64];
} tn__dist_record;
_Static_assert(sizeof(tn__dist_record) <= TN_COMM_RECORD - 8, "");

/* Where a process is, for others. */
typedef struct tn__dist_position {
    uint32_t waits; /* 1: in the collective; 0: it was the last one */
    uint32_t any;   /* 0: there was no collective yet */
    tn__dist_record record;
    char phase[24]; /* tn_dist_set_phase */
} tn__dist_position;
_Static_assert(sizeof(tn__dist_position) <= TN_COMM_RECORD, "");

/* ---- job.c, group.c ------------------------------------------------------- */

typedef struct tn__dist_job {
    const tn_comm_plugin *engine; /* NULL: one rank */
    tn__dist_place place;
    uint64_t timeout_ns;
    int64_t staged;
    uint64_t generation;          /* counts tn_dist_init */
    tn_group *world;              /* kept */
    tn_group *first;              /* list of the groups that have a comm */
    tn__control *control;         /* owned; NULL: the engine has a board */
    tn__dist_position position;   /* of this process */
} tn__dist_job;

struct tn_group {
    tn_object object;
    tn_comm *comm;        /* NULL: one rank, or the job was closed */
    bool open;
    int32_t rank, count;
    int32_t *world;       /* owned: ranks in the job */
    uint64_t sequence;    /* collectives begun */
    char name[32];
    tn_group *next;       /* in the job's list */
    tn__control_group control;  /* used if the job has a control plane */
    tn_work *first, **end;      /* then: works that are not done, in order */
};

/* The job, or NULL. Calls below and reads of the job are made with the lock. */
extern tn__dist_job *tn__dist_job_open;
void tn__dist_lock(void);
void tn__dist_unlock(void);
uint64_t tn__dist_now(void);

/* Makes a group with these ranks; takes over comm and world, also on failure. id
 * is the same on all of them, and of no other group. */
tn_group *tn__dist_group_make(tn_comm *comm, int32_t rank, int32_t count,
                              int32_t *world, const char *name, uint64_t id);
void tn__dist_group_shut(tn_group *group);
/* Returns whether group can be used; else records the error of call. */
bool tn__dist_group_check(const tn_group *group, const char *call);

/* ---- work.c: one collective ----------------------------------------------- */

typedef struct tn__dist_call {
    const char *call;     /* "dist_all_reduce", for errors */
    uint32_t kind, reduce;
    bool mean;
    int32_t root;
    uint64_t count;       /* as in tn_comm_args */
    tn_tensor *in, *out;  /* NULL if the kind has none; may be the same */
    bool staging;
    const char *label;
    bool split;
} tn__dist_call;

/* Begins the collective. Owned by the open scope. */
tn_work *tn__dist_work_begin(tn_group *group, const tn__dist_call *call);

struct tn_work {
    tn_object object;
    tn_group *group;       /* kept */
    tn_comm_request *request; /* NULL: done, or failed */
    tn_tensor *in, *out;   /* kept; NULL after the end */
    void *host_in, *host_out; /* owned: staging copies */
    size_t out_bytes;
    const char *call;
    tn__dist_record record;
    int32_t peer;          /* of send and recv */
    uint64_t since_ns;
    uint64_t generation;
    bool ended;
    tn_status status;      /* of the end */
    double scale;          /* multiplies the result at the end; 1: nothing */

    /* With a control plane: gate.c. */
    tn_work *next;         /* in the group's list */
    bool listed;
    uint32_t phase;
    tn_comm_args args;
    tn_comm_request *head_request; /* of a message */
    uint64_t head, check;
    bool done, odd;
    tn_status failure;     /* of the engine's start */
};

/* ---- gate.c: works of engines that do not compare calls -------------------- */

/* Appends the work, with its args, and begins it as soon as it may. */
void tn__dist_gate_add(tn_work *work);
/* As the engine's wait (timeout_ns 0: test). */
tn_status tn__dist_gate_wait(tn_work *work, uint64_t timeout_ns, uint32_t *done);
/* Closes the work's requests. */
void tn__dist_gate_remove(tn_work *work);

/* ---- board.c: the engine's board, or that of the control plane ------------- */

/* What broke the work, or, if it is NULL, the group. */
void tn__board_state(const tn_group *group, const tn_work *work,
                     tn_comm_state *out);
/* Fills a row for each rank of the group. */
void tn__board_look(tn_group *group, tn_comm_peer *out);
void tn__board_abort(tn_group *group, tn_status code, const char *text);
/* Where this process is: at a work, or outside of works (tn_dist_set_phase). */
void tn__board_publish(const tn_work *work, bool waits);
void tn__board_publish_phase(const tn_group *group, const char *phase);

/* ---- version.c: whether all ranks run the same ----------------------------- */

/* Gives every rank the bytes of all, through the engine. */
tn_status tn__dist_gather(tn__dist_job *job, tn_comm *comm, const void *mine,
                          size_t bytes, void *all, uint64_t deadline);
/* Compares library and program, and finds whether the ranks are on several
 * machines. Fails on all ranks with one message. */
tn_status tn__dist_compare(tn__dist_job *job, tn_comm *comm, uint64_t deadline,
                           bool *several);

/* ---- report.c: who is where ----------------------------------------------- */

/* Ends the job with a message about `work`, which has failed or takes too long,
 * and records the message that all ranks get as an error. Returns its code. */
tn_status tn__dist_report(tn_work *work, bool late);
/* An error is pending in this thread, so that its data are not to be trusted:
 * ends the job with that error's text. Returns TN_ERR_STATE. */
tn_status tn__dist_give_up(tn_group *group, const char *call);
/* Records the message of a job that is over already. */
tn_status tn__dist_report_end(const tn_group *group, const char *call);

#endif
