/* table.c: the table of the engine, its requests, split, states. */
#include "engine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(TN_END(tn_comm_place, context) == TN_COMM_PLACE_SIZE_1_0, "");
_Static_assert(TN_END(tn_comm_args, queue) == TN_COMM_ARGS_SIZE_1_0, "");
_Static_assert(TN_END(tn_comm_plugin, close) == TN_COMM_PLUGIN_SIZE_1_0, "");

/* ---- comms ------------------------------------------------------------------ */

static void comm_free(tn_comm *comm)
{
    for (int i = 0; i < ENGINE_LANES; i++)
        free(comm->scratch[i]);
    free(comm->box_in);
    free(comm->box_out);
    free(comm->known);
    free(comm->heard_ns);
    free(comm->answered_ns);
    free(comm->member);
    free(comm);
}

/* Takes over member. */
static tn_comm *comm_new(engine_job *job, int32_t *member, int32_t count,
                         int32_t rank, uint32_t number)
{
    tn_comm *comm = member ? calloc(1, sizeof *comm) : NULL;
    if (comm) {
        const size_t n = (size_t)count;
        const size_t boxes = count <= ENGINE_DIRECT ? n * ENGINE_BOX : 1;
        comm->job = job;
        comm->member = member;
        comm->count = count;
        comm->rank = rank;
        comm->number = number;
        comm->end = &comm->first;
        comm->known = calloc(n, sizeof *comm->known);
        comm->heard_ns = calloc(n, sizeof *comm->heard_ns);
        comm->answered_ns = calloc(n, sizeof *comm->answered_ns);
        comm->box_in = malloc(boxes);
        comm->box_out = malloc(boxes);
        if (comm->known && comm->heard_ns && comm->answered_ns && comm->box_in &&
            comm->box_out) {
            for (int32_t r = 0; r < count; r++)
                comm->known[r].life = TN_COMM_ALIVE;
            comm->next = job->first;
            job->first = comm;
            return comm;
        }
        comm_free(comm);
    } else {
        free(member);
    }
    engine_host->fail(TN_ERR_MEMORY, "mpi: no memory");
    return NULL;
}

static tn_status open_job(const tn_comm_place *place, tn_comm **out)
{
    tn_status status = engine_probe(place);
    if (status != TN_OK)
        return status;
    engine_job *job = engine_join(place);
    if (!job)
        return TN_ERR_STATE;
    pthread_mutex_lock(&engine_lock);
    int32_t *member = malloc((size_t)place->count * sizeof *member);
    for (int32_t r = 0; member && r < place->count; r++)
        member[r] = r;
    *out = comm_new(job, member, place->count, place->rank, job->next_comm++);
    if (*out)
        (*out)->whole = true;
    pthread_mutex_unlock(&engine_lock);
    if (!*out)
        engine_leave(job);
    return *out ? TN_OK : TN_ERR_MEMORY;
}

static void close_comm(tn_comm *comm)
{
    engine_job *job = comm->job;
    const bool whole = comm->whole;
    pthread_mutex_lock(&engine_lock);
    for (tn_comm **at = &job->first; *at; at = &(*at)->next)
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    comm_free(comm);
    pthread_mutex_unlock(&engine_lock);
    if (whole)
        engine_leave(job);
}

/* ---- requests --------------------------------------------------------------- */

static bool is_pair(const tn_comm_args *args)
{
    return args->kind == TN_COMM_SEND || args->kind == TN_COMM_RECV;
}

static tn_status refuse(const char *what, uint32_t value)
{
    return engine_host->fail(TN_ERR_UNSUPPORTED, "mpi: unknown %s %u", what,
                             (unsigned)value);
}

static tn_status check_args(const tn_comm *comm, const tn_comm_args *args)
{
    if (args->size < TN_COMM_ARGS_SIZE_1_0)
        return refuse("size of arguments", args->size);
    if (args->kind == 0 || args->kind >= TN_COMM_KIND_END)
        return refuse("kind", args->kind);
    if (args->flags)
        return refuse("flag", args->flags);
    if (!local_dtype_bytes(args->dtype))
        return refuse("dtype", args->dtype);
    if (args->reduce >= TN_COMM_REDUCTION_END)
        return refuse("reduction", args->reduce);
    if (args->reduce && !local_reduces(args->dtype))
        return engine_host->fail(TN_ERR_DTYPE, "mpi: float8 is not reduced; "
                                 "convert it to float32");
    if (args->queue)
        return engine_host->fail(TN_ERR_UNSUPPORTED, "mpi: moves host memory: "
                                 "move tensors by tn_to, or give .staging = true");
    bool has_root = is_pair(args) || args->kind == TN_COMM_BROADCAST;
    if (has_root && (args->root < 0 || args->root >= comm->count))
        return refuse("rank", (uint32_t)args->root);
    if (is_pair(args) && args->root == comm->rank)
        return engine_host->fail(TN_ERR_ARGUMENT, "mpi: rank %d is this one",
                                 (int)args->root);
    return args->record_bytes <= TN_COMM_RECORD
               ? TN_OK
               : refuse("size of a record", args->record_bytes);
}

static tn_status broken(const tn_comm *comm)
{
    static const char *const why[] = {
        [TN_COMM_MISMATCH] = "has begun another collective",
        [TN_COMM_LOST] = "has ended",
        [TN_COMM_LEFT] = "has left",
    };
    if (comm->reason == TN_COMM_ABORTED)
        return engine_host->fail(TN_ERR_STATE, "mpi: the job was aborted");
    if (comm->reason == TN_COMM_FAILED)
        return engine_host->fail(TN_ERR_STATE, "mpi: %s", comm->why);
    return engine_host->fail(TN_ERR_STATE, "mpi: rank %d %s",
                             (int)comm->member[comm->peer], why[comm->reason]);
}

/* Whether b, started after a, has to wait for it: collectives run in order, and
 * so do the messages from and to one rank. */
static bool is_behind(const tn_comm_request *a, const tn_comm_request *b)
{
    bool pair = is_pair(&a->args);
    if (pair != is_pair(&b->args))
        return false;
    return !pair || (a->args.kind == b->args.kind && a->args.root == b->args.root);
}

static void unlink_request(tn_comm_request *request)
{
    tn_comm *comm = request->comm;
    for (tn_comm_request **at = &comm->first; *at; at = &(*at)->next)
        if (*at == request) {
            *at = request->next;
            if (comm->end == &request->next)
                comm->end = at;
            break;
        }
    request->pending = false;
}

/* Returns a rank of the comm that an incomplete message needs and that does not
 * live, or has closed this comm, and why; -1 if there is none. */
static int32_t stranded(tn_comm *comm, uint32_t *reason)
{
    engine_job *job = comm->job;
    int32_t rank = -1;
    for (int32_t r = 0; r < comm->count; r++)
        job->life[comm->member[r]] = comm->known[r].life == TN_COMM_CLOSED
                                         ? TN_COMM_CLOSED
                                         : engine_life(job, comm->member[r]);
    for (tn_comm_request *r = comm->first; r && rank < 0; r = r->next) {
        rank = engine_stranded(job, &r->meet, reason);
        for (int i = 0; i < ENGINE_LANES && rank < 0; i++)
            rank = engine_stranded(job, &r->lane[i].flight, reason);
    }
    for (int32_t r = 0; rank >= 0 && r < comm->count; r++)
        if (comm->member[r] == rank)
            return r;
    return -1;
}

static void look(tn_comm *comm, uint64_t now)
{
    uint32_t reason = 0;
    comm->looked_ns = now;
    const int32_t rank = stranded(comm, &reason);
    if (rank < 0) {
        comm->stranded_ns = 0;
    } else if (!comm->stranded_ns) {
        comm->stranded_ns = now;
        comm->stranded_steps = 0;
    } else if (now - comm->stranded_ns > ENGINE_STRANDED_MS * 1000000u &&
               comm->stranded_steps > ENGINE_STRANDED_STEPS) {
        engine_suspect(comm, reason, rank);
    }
}

/* A failure waits for the answers of the other ranks, so that the message can say
 * where they are. On several machines a mismatch is reported by rank 0, unless
 * that is late: the machines would have different messages. */
static void conclude(tn_comm *comm, uint64_t now)
{
    const uint64_t waited = now - comm->suspected_ns,
                   grace = ENGINE_GRACE_MS * 1000000u;
    bool all = true;
    for (int32_t r = 0; r < comm->count && all; r++)
        all = r == comm->rank || comm->answered_ns[r] >= comm->suspected_ns ||
              engine_life(comm->job, comm->member[r]) != TN_COMM_ALIVE;
    if (!all && waited < grace)
        return;
    if (comm->job->several && comm->rank != 0 && waited < 2 * grace)
        return;
    comm->reason = comm->suspicion;
}

static void ask_when_late(tn_comm *comm, uint64_t now)
{
    const tn_comm_request *r = comm->first;
    while (r && !r->began)
        r = r->next;
    if (r && now - r->began_ns > ENGINE_ASK_MS * 1000000u &&
        (comm->asked_ns < r->began_ns ||
         now - comm->asked_ns > ENGINE_ASK_AGAIN_MS * 1000000u))
        engine_ask(comm);
}

/* Takes all steps that can be taken now. */
static tn_status progress(tn_comm *comm)
{
    engine_job *job = comm->job;
    if (!comm->reason && engine_has_verdict(job))
        comm->reason = TN_COMM_ABORTED;
    if (!comm->reason && job->mute) {
        comm->reason = TN_COMM_FAILED;
        snprintf(comm->why, sizeof comm->why,
                 "another group of the job has failed");
    }
    if (comm->reason)
        return broken(comm);
    const uint64_t now = engine_now();
    comm->stranded_steps++;
    comm->moving = false;
    for (tn_comm_request *r = comm->first, *next;
         r && !comm->suspicion && !comm->reason; r = next) {
        next = r->next;
        bool waits = false;
        for (tn_comm_request *a = comm->first; a != r && !waits; a = a->next)
            waits = is_behind(a, r);
        if (waits)
            continue;
        if (is_pair(&r->args))
            engine_pair_go(r);
        else
            engine_collective_go(r);
        if (r->done)
            unlink_request(r);
    }
    if (comm->first && now - job->polled_ns > 1000000u) {
        engine_hear(job);
        ask_when_late(comm, now);
    }
    if (!comm->suspicion && !comm->reason &&
        now - comm->looked_ns > ENGINE_LOOK_MS * 1000000u)
        look(comm, now);
    if (comm->suspicion && !comm->reason)
        conclude(comm, now);
    return comm->reason ? broken(comm) : TN_OK;
}

static tn_status start_locked(tn_comm *comm, const tn_comm_args *args,
                              tn_comm_request **out)
{
    tn_status status = check_args(comm, args);
    if (status == TN_OK && comm->reason)
        status = broken(comm);
    if (status != TN_OK)
        return status;
    tn_comm_request *request = calloc(1, sizeof *request);
    if (!request)
        return engine_host->fail(TN_ERR_MEMORY, "mpi: no memory");
    request->comm = comm;
    request->args = (tn_comm_args){.size = sizeof request->args};
    tn_struct_copy(&request->args, args);
    if (args->kind == TN_COMM_BARRIER)
        request->args.count = 0;
    if (args->record_bytes)
        memcpy(request->record, args->record, args->record_bytes);
    request->started_ns = engine_now();
    request->pending = true;
    *comm->end = request;
    comm->end = &request->next;
    *out = request;
    /* What fails here is reported by test. */
    progress(comm);
    return TN_OK;
}

static tn_status start(tn_comm *comm, const tn_comm_args *args,
                       tn_comm_request **out)
{
    pthread_mutex_lock(&engine_lock);
    tn_status status = start_locked(comm, args, out);
    pthread_mutex_unlock(&engine_lock);
    return status;
}

static tn_status test(tn_comm_request *request, uint32_t *done)
{
    tn_status status = TN_OK;
    if (!request->done) {
        pthread_mutex_lock(&engine_lock);
        status = progress(request->comm);
        pthread_mutex_unlock(&engine_lock);
    }
    if (status == TN_OK)
        *done = request->done;
    return status;
}

/* Spins, then yields, then, while it waits for another rank, sleeps for a
 * twentieth of the time that it has waited: MPI cannot wake a thread. While data
 * are on their way it does not sleep, because MPI moves them only when it is
 * called. */
static tn_status wait_done(tn_comm_request *request, uint64_t timeout_ns,
                           uint32_t *done)
{
    enum { SPIN_NS = 20000, YIELD_NS = 2000000, MOST_NS = 1000000 };
    const uint64_t stalled = 500000000;
    const tn_comm *comm = request->comm;
    const uint64_t end = engine_now() + timeout_ns;
    for (;;) {
        tn_status status = test(request, done);
        if (status != TN_OK || *done)
            return status;
        const uint64_t now = engine_now(),
                       from = request->started_ns > comm->landed_ns
                                  ? request->started_ns : comm->landed_ns,
                       waited = now > from ? now - from : 0;
        if (now >= end)
            return TN_OK;
        if (waited < SPIN_NS && !comm->job->crowded)
            continue;
        if (waited < (comm->moving ? stalled : YIELD_NS)) {
            sched_yield();
            continue;
        }
        uint64_t sleep = waited / 20 < MOST_NS ? waited / 20 : MOST_NS;
        sleep = sleep < end - now ? sleep : end - now;
        nanosleep(&(struct timespec){.tv_nsec = (long)sleep}, NULL);
    }
}

static void request_close(tn_comm_request *request)
{
    if (!request)
        return;
    pthread_mutex_lock(&engine_lock);
    if (request->pending)
        unlink_request(request);
    engine_ground(request->comm->job, &request->meet);
    for (int i = 0; i < ENGINE_LANES; i++)
        engine_ground(request->comm->job, &request->lane[i].flight);
    if (!request->comm->job->mute) /* MPI may still read it */
        free(request->box);
    pthread_mutex_unlock(&engine_lock);
    free(request);
}

/* ---- split ------------------------------------------------------------------ */

typedef struct choice {
    int32_t color, key, rank;
    uint32_t next; /* the first number that the rank has not seen */
} choice;

static int by_key(const void *left, const void *right)
{
    const choice *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static tn_status gather(tn_comm *comm, const void *mine, uint64_t bytes, void *all)
{
    tn_comm_args args = {.size = sizeof args, .kind = TN_COMM_ALL_GATHER,
                         .dtype = TN_U8, .root = -1, .count = bytes,
                         .send = mine, .recv = all, .scale = 1,
                         .check = 0x73706c6974 /* split */};
    tn_comm_request *request;
    tn_status status = start(comm, &args, &request);
    if (status != TN_OK)
        return status;
    uint32_t done = 0;
    status = wait_done(request, comm->job->timeout_ns, &done);
    request_close(request);
    if (status == TN_OK && !done)
        status = engine_host->fail(TN_ERR_STATE, "mpi: split: waited %.1f s for "
                                   "the other ranks",
                                   (double)comm->job->timeout_ns * 1e-9);
    return status;
}

static tn_status split_by(tn_comm *parent, int32_t color, choice *all,
                          int32_t *member, tn_comm **out)
{
    engine_job *job = parent->job;
    uint32_t number = 0;
    int32_t count = 0, rank = 0;
    for (int32_t r = 0; r < parent->count; r++)
        number = all[r].next > number ? all[r].next : number;
    /* Comms of different colors have the same number and no common rank. */
    if (number >= job->comms_end) {
        free(member);
        return engine_host->fail(TN_ERR_UNSUPPORTED, "mpi: %u groups were made: "
                                 "this MPI has no tags for more",
                                 (unsigned)number);
    }
    job->next_comm = number + 1;
    if (color < 0) {
        free(member);
        return TN_OK;
    }
    for (int32_t r = 0; r < parent->count; r++)
        if (all[r].color == color)
            all[count++] = all[r];
    qsort(all, (size_t)count, sizeof *all, by_key);
    for (int32_t r = 0; r < count; r++) {
        member[r] = parent->member[all[r].rank];
        if (all[r].rank == parent->rank)
            rank = r;
    }
    *out = comm_new(job, member, count, rank, number);
    return *out ? TN_OK : TN_ERR_MEMORY;
}

static tn_status split(tn_comm *parent, int32_t color, int32_t key, tn_comm **out)
{
    *out = NULL;
    const size_t n = (size_t)parent->count;
    choice *all = malloc(n * sizeof *all);
    int32_t *member = malloc(n * sizeof *member);
    tn_status status = TN_OK;
    if (!all || !member)
        status = engine_host->fail(TN_ERR_MEMORY, "mpi: no memory");
    const choice mine = {color, key, parent->rank, parent->job->next_comm};
    if (status == TN_OK)
        status = gather(parent, &mine, sizeof mine, all);
    if (status == TN_OK) {
        pthread_mutex_lock(&engine_lock);
        status = split_by(parent, color, all, member, out);
        pthread_mutex_unlock(&engine_lock);
    } else {
        free(member);
    }
    free(all);
    return status;
}

/* ---- states ----------------------------------------------------------------- */

static tn_status state(tn_comm *comm, tn_comm_state *out)
{
    engine_board *board = comm->job->board;
    /* A process may have ended while it wrote the verdict. */
    for (int i = 0; atomic_load(&board->verdict) == ENGINE_VERDICT_WRITTEN &&
                    i < 200; i++)
        usleep(1000);
    tn_comm_state own = {.size = sizeof own, .reason = comm->reason,
                         .peer = comm->reason ? comm->peer : -1};
    if (atomic_load(&board->verdict) == ENGINE_VERDICT) {
        own.reason = TN_COMM_ABORTED;
        own.code = board->verdict_code;
        memcpy(own.text, board->verdict_text, sizeof own.text);
    }
    tn_struct_copy(out, &own);
    return TN_OK;
}

static void abort_job(tn_comm *comm, tn_status code, const char *text)
{
    pthread_mutex_lock(&engine_lock);
    if (engine_judge(comm->job, code, text))
        engine_tell_verdict(comm->job, code, text);
    pthread_mutex_unlock(&engine_lock);
}

static void read_slot(const engine_slot *slot, uint64_t now, tn_comm_peer *out)
{
    const uint64_t beat = atomic_load(&slot->beat_ns);
    out->process = atomic_load(&slot->process);
    out->silent_ns = now > beat ? now - beat : 0;
    for (int tries = 0; tries < 100; tries++) {
        uint32_t version = atomic_load(&slot->position_version);
        out->position_bytes = slot->position_bytes;
        memcpy(out->position, slot->position, sizeof out->position);
        if (!(version & 1) && atomic_load(&slot->position_version) == version)
            return;
        out->position_bytes = 0;
    }
}

/* What the rank said last; for ranks of this machine also what the board shows. */
static tn_status peer(tn_comm *comm, int32_t rank, tn_comm_peer *out)
{
    if (rank < 0 || rank >= comm->count)
        return refuse("rank", (uint32_t)rank);
    engine_job *job = comm->job;
    const int32_t member = comm->member[rank];
    const uint64_t now = engine_now();
    pthread_mutex_lock(&engine_lock);
    tn_comm_peer own = comm->known[rank];
    own.size = sizeof own;
    const uint64_t heard = comm->heard_ns[rank];
    pthread_mutex_unlock(&engine_lock);
    if (own.life == TN_COMM_ALIVE)
        own.life = engine_life(job, member);
    if (job->seat[member] >= 0) {
        memcpy(own.host, job->machine, sizeof own.host);
        read_slot(&job->board->slot[job->seat[member]], now, &own);
    } else if (comm->asked_ns) {
        /* It answers within a heartbeat. */
        const uint64_t from = heard > comm->asked_ns ? now : heard;
        own.silent_ns = now - from;
        if (!heard)
            own.silent_ns = now - comm->asked_ns;
    }
    tn_struct_copy(out, &own);
    return TN_OK;
}

static tn_status publish(tn_comm *comm, const void *record, uint32_t bytes)
{
    engine_job *job = comm->job;
    if (bytes > TN_COMM_RECORD)
        return refuse("size of a record", bytes);
    pthread_mutex_lock(&engine_lock);
    engine_slot *slot = &job->board->slot[job->seat[job->rank]];
    atomic_fetch_add(&slot->position_version, 1);
    memcpy(slot->position, record, bytes);
    slot->position_bytes = bytes;
    atomic_fetch_add(&slot->position_version, 1);
    pthread_mutex_unlock(&engine_lock);
    return TN_OK;
}

/* start never waits for a later request, so a group needs nothing. */
static tn_status group(tn_comm *comm)
{
    (void)comm;
    return TN_OK;
}

const tn_comm_plugin *tenon_comm_v1(const tn_comm_host *host)
{
    static const tn_comm_plugin table = {
        .size = sizeof table,
        .abi_major = TN_COMM_ABI_MAJOR,
        .abi_minor = TN_COMM_ABI_MINOR,
        .name = ENGINE_NAME,
        .caps = TN_COMM_CAP_FIXED_ORDER | TN_COMM_CAP_POINT_TO_POINT |
                TN_COMM_CAP_CHECKS | TN_COMM_CAP_BOARD |
                TN_COMM_CAP_HOST_MEMORY | TN_COMM_CAP_SCALE,
        .probe = engine_probe,
        .open = open_job,
        .split = split,
        .start = start,
        .test = test,
        .request_close = request_close,
        .state = state,
        .abort = abort_job,
        .close = close_comm,
        .wait = wait_done,
        .group_begin = group,
        .group_end = group,
        .peer = peer,
        .publish = publish,
    };
    if (host->abi_major != TN_COMM_ABI_MAJOR) {
        host->fail(TN_ERR_PLUGIN, "mpi: has version %u of the communication ABI, "
                   "the library version %u", TN_COMM_ABI_MAJOR, host->abi_major);
        return NULL;
    }
    engine_host = host;
    return &table;
}
