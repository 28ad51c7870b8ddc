/* local.c: the table of the engine "local": processes of one machine over
 * shared memory. It is the plainest engine, with which others are compared. */
#include "local.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(TN_END(tn_comm_place, context) == TN_COMM_PLACE_SIZE_1_0, "");
_Static_assert(TN_END(tn_comm_args, queue) == TN_COMM_ARGS_SIZE_1_0, "");
_Static_assert(TN_END(tn_comm_plugin, close) == TN_COMM_PLUGIN_SIZE_1_0, "");

static bool is_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return length && length < 64 && !text[length];
}

static tn_status probe(const tn_comm_place *place)
{
    if (place->local_count && place->local_count < place->count)
        return local_host->fail(
            TN_ERR_UNSUPPORTED, "local: joins processes of one machine; %d of "
            "%d ranks are on this one: use an engine for several machines (mpi)",
            (int)place->local_count, (int)place->count);
    if (place->count > LOCAL_MAX_RANKS)
        return local_host->fail(TN_ERR_UNSUPPORTED,
                                "local: %d ranks: expected at most %d",
                                (int)place->count, (int)LOCAL_MAX_RANKS);
    if (place->device[0])
        return local_host->fail(TN_ERR_UNSUPPORTED, "local: moves host memory, "
                                "not that of %s", place->device);
    return is_word(place->job)
               ? TN_OK
               : local_host->fail(TN_ERR_ARGUMENT, "local: the job's name \"%s\" "
                                  "is not 1 to 63 letters, digits, - and _",
                                  place->job);
}

static tn_status open_job(const tn_comm_place *place, tn_comm **out)
{
    tn_status status = probe(place);
    if (status != TN_OK)
        return status;
    local_job *job = local_job_open(place);
    if (!job)
        return TN_ERR_STATE;
    int32_t member[LOCAL_MAX_RANKS];
    for (int32_t r = 0; r < place->count; r++)
        member[r] = r;
    char name[LOCAL_NAME + 16];
    snprintf(name, sizeof name, "%s.0", job->name);
    *out = local_hall_enter(job, member, place->count, place->rank, name);
    local_job_drop(job);
    return *out ? TN_OK : TN_ERR_STATE;
}

/* ---- requests ------------------------------------------------------------- */

static bool is_pair(const tn_comm_args *args)
{
    return args->kind == TN_COMM_SEND || args->kind == TN_COMM_RECV;
}

static tn_status refuse(const char *what, uint32_t value)
{
    return local_host->fail(TN_ERR_UNSUPPORTED, "local: unknown %s %u", what,
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
        return local_host->fail(TN_ERR_DTYPE, "local: float8 is not reduced; "
                                "convert it to float32");
    bool has_root = is_pair(args) || args->kind == TN_COMM_BROADCAST;
    if (has_root && (args->root < 0 || args->root >= comm->count))
        return refuse("rank", (uint32_t)args->root);
    if (is_pair(args) && args->root == comm->rank)
        return local_host->fail(TN_ERR_ARGUMENT, "local: rank %d is this one",
                                (int)args->root);
    return args->record_bytes <= TN_COMM_RECORD
               ? TN_OK
               : refuse("size of a record", args->record_bytes);
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

/* Takes all steps that can be taken now. */
static tn_status progress(tn_comm *comm)
{
    if (comm->reason)
        return local_hall_broken(comm);
    if (local_job_has_verdict(comm->job))
        return local_hall_break(comm, TN_COMM_ABORTED, 0);
    for (tn_comm_request *r = comm->first, *next; r; r = next) {
        next = r->next;
        bool waits = false;
        for (tn_comm_request *a = comm->first; a != r && !waits; a = a->next)
            waits = is_behind(a, r);
        if (waits)
            continue;
        tn_status status = is_pair(&r->args) ? local_pair_go(r)
                                             : local_collective_go(r);
        if (status != TN_OK)
            return status;
        if (r->done)
            unlink_request(r);
    }
    return TN_OK;
}

static tn_status start(tn_comm *comm, const tn_comm_args *args,
                       tn_comm_request **out)
{
    tn_status status = check_args(comm, args);
    if (status == TN_OK && comm->reason)
        status = local_hall_broken(comm);
    if (status != TN_OK)
        return status;
    tn_comm_request *request = calloc(1, sizeof *request);
    if (!request)
        return local_host->fail(TN_ERR_MEMORY, "local: no memory");
    request->comm = comm;
    request->args = (tn_comm_args){.size = sizeof request->args};
    tn_struct_copy(&request->args, args);
    if (args->kind == TN_COMM_BARRIER)
        request->args.count = 0;
    if (args->record_bytes)
        memcpy(request->record, args->record, args->record_bytes);
    request->pending = true;
    *comm->end = request;
    comm->end = &request->next;
    *out = request;
    /* What fails here is reported by test. */
    if (!comm->reason)
        progress(comm);
    return TN_OK;
}

static tn_status test(tn_comm_request *request, uint32_t *done)
{
    if (!request->done) {
        tn_status status = progress(request->comm);
        if (status != TN_OK)
            return status;
    }
    *done = request->done;
    return TN_OK;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins, then yields, then sleeps: to sleep and to be woken takes longer than most
 * meetings, but a rank that waits long must not take the processor from one that
 * computes. Begins again whenever something has happened: a collective of many
 * rounds meets often. */
static tn_status wait_done(tn_comm_request *request, uint64_t timeout_ns,
                           uint32_t *done)
{
    enum { SLEEP_NS = 5000000 };
    tn_comm *comm = request->comm;
    uint64_t since = local_now();
    const uint64_t end = since + timeout_ns;
    uint32_t seen = atomic_load(&comm->hall->event);
    for (;;) {
        const uint32_t event = atomic_load(&comm->hall->event);
        tn_status status = test(request, done);
        if (status != TN_OK || *done)
            return status;
        const uint64_t now = local_now();
        if (event != seen)
            since = now;
        seen = event;
        if (now >= end)
            return TN_OK;
        if (now - since < comm->spin_ns)
            pause_cpu();
        else
            local_hall_sleep(comm, event,
                             end - now < SLEEP_NS ? end - now : SLEEP_NS);
    }
}

static void request_close(tn_comm_request *request)
{
    if (request && request->pending)
        unlink_request(request);
    free(request);
}

/* ---- split ---------------------------------------------------------------- */

/* The core has made sure that all ranks are here, so a plain wait is enough. */
static tn_status gather(tn_comm *comm, const void *mine, uint64_t bytes,
                        void *all, uint64_t check)
{
    tn_comm_args args = {.size = sizeof args, .kind = TN_COMM_ALL_GATHER,
                         .dtype = TN_U8, .root = -1, .count = bytes,
                         .send = mine, .recv = all, .scale = 1,
                         .check = check};
    tn_comm_request *request;
    tn_status status = start(comm, &args, &request);
    if (status != TN_OK)
        return status;
    uint32_t done = 0;
    status = wait_done(request, comm->job->timeout_ns, &done);
    request_close(request);
    if (status == TN_OK && !done)
        status = local_host->fail(TN_ERR_STATE, "local: waited %.1f s for the "
                                  "other ranks",
                                  (double)comm->job->timeout_ns * 1e-9);
    return status;
}

static tn_status memory_alloc(tn_comm *comm, uint64_t bytes, void **out_data,
                              tn_comm_memory **out)
{
    return local_memory_alloc(comm, gather, bytes, out_data, out);
}

typedef struct choice {
    int32_t color, key, rank;
    uint32_t serial; /* of the hall that this rank would make */
} choice;

static int by_key(const void *left, const void *right)
{
    const choice *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static tn_status split(tn_comm *parent, int32_t color, int32_t key, tn_comm **out)
{
    choice all[LOCAL_MAX_RANKS];
    const choice mine = {color, key, parent->rank, ++parent->job->halls};
    tn_status status = gather(parent, &mine, sizeof mine, all,
                                    0x73706c6974 /* split */);
    *out = NULL;
    if (status != TN_OK || color < 0)
        return status;
    int32_t count = 0, rank = 0, member[LOCAL_MAX_RANKS];
    for (int32_t r = 0; r < parent->count; r++)
        if (all[r].color == color)
            all[count++] = all[r];
    qsort(all, (size_t)count, sizeof *all, by_key);
    for (int32_t r = 0; r < count; r++) {
        member[r] = parent->member[all[r].rank];
        if (all[r].rank == parent->rank)
            rank = r;
    }
    char name[LOCAL_NAME + 32];
    snprintf(name, sizeof name, "%s.%d.%u", parent->job->name, (int)member[0],
             (unsigned)all[0].serial);
    *out = local_hall_enter(parent->job, member, count, rank, name);
    return *out ? TN_OK : TN_ERR_STATE;
}

/* ---- states --------------------------------------------------------------- */

static tn_status state(tn_comm *comm, tn_comm_state *out)
{
    local_board *board = comm->job->board;
    /* A process may have ended while it wrote the verdict. */
    for (int i = 0; atomic_load(&board->verdict) == LOCAL_VERDICT_WRITTEN &&
                    i < 200; i++)
        usleep(1000);
    tn_comm_state own = {.size = sizeof own, .reason = comm->reason,
                         .peer = comm->reason ? comm->peer : -1};
    if (atomic_load(&board->verdict) == LOCAL_VERDICT) {
        own.reason = TN_COMM_ABORTED;
        own.code = board->verdict_code;
        memcpy(own.text, board->verdict_text, sizeof own.text);
    }
    tn_struct_copy(out, &own);
    return TN_OK;
}

static void abort_job(tn_comm *comm, tn_status code, const char *text)
{
    local_job_judge(comm->job, code, text);
    local_hall_tell(comm);
}

static tn_status peer(tn_comm *comm, int32_t rank, tn_comm_peer *out)
{
    if (rank < 0 || rank >= comm->count)
        return refuse("rank", (uint32_t)rank);
    local_job *job = comm->job;
    const local_seat *seat = &comm->hall->seat[rank];
    const local_slot *slot = &job->board->slot[comm->member[rank]];
    const uint32_t last = atomic_load(&seat->last);
    const uint64_t beat = atomic_load(&slot->beat_ns), now = local_now();
    tn_comm_peer own = {
        .size = sizeof own,
        .life = local_job_life(job, comm->member[rank]),
        .process = atomic_load(&slot->process),
        .silent_ns = now > beat ? now - beat : 0,
        .sequence = atomic_load(&seat->sequence),
        .check = seat->check[last],
    };
    if (own.life == TN_COMM_ALIVE && atomic_load(&seat->closed))
        own.life = TN_COMM_CLOSED;
    if (own.sequence) {
        own.record_bytes = seat->record_bytes[last];
        memcpy(own.record, seat->record[last], sizeof own.record);
    }
    for (int tries = 0; tries < 100; tries++) {
        uint32_t version = atomic_load(&slot->position_version);
        own.position_bytes = slot->position_bytes;
        memcpy(own.position, slot->position, sizeof own.position);
        if (!(version & 1) && atomic_load(&slot->position_version) == version)
            break;
        own.position_bytes = 0;
    }
    memcpy(own.host, job->board->host, sizeof own.host);
    tn_struct_copy(out, &own);
    return TN_OK;
}

static tn_status publish(tn_comm *comm, const void *record, uint32_t bytes)
{
    local_slot *slot = &comm->job->board->slot[comm->job->rank];
    if (bytes > TN_COMM_RECORD)
        return refuse("size of a record", bytes);
    atomic_fetch_add(&slot->position_version, 1);
    memcpy(slot->position, record, bytes);
    slot->position_bytes = bytes;
    atomic_fetch_add(&slot->position_version, 1);
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
        .name = "local",
        .caps = TN_COMM_CAP_FIXED_ORDER | TN_COMM_CAP_POINT_TO_POINT |
                TN_COMM_CAP_CHECKS | TN_COMM_CAP_BOARD |
                TN_COMM_CAP_HOST_MEMORY | TN_COMM_CAP_SCALE,
        .probe = probe,
        .open = open_job,
        .split = split,
        .start = start,
        .test = test,
        .request_close = request_close,
        .state = state,
        .abort = abort_job,
        .close = local_hall_leave,
        .wait = wait_done,
        .group_begin = group,
        .group_end = group,
        .memory_alloc = memory_alloc,
        .memory_close = local_memory_close,
        .peer = peer,
        .publish = publish,
    };
    if (host->abi_major != TN_COMM_ABI_MAJOR) {
        host->fail(TN_ERR_PLUGIN, "local: has version %u of the communication "
                   "ABI, the library version %u", TN_COMM_ABI_MAJOR,
                   host->abi_major);
        return NULL;
    }
    local_host = host;
    return &table;
}
