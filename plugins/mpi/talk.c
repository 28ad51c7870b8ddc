/* talk.c: notes between ranks: who is where, and why the job ends.
 *
 * A rank that waits long, or that sees a failure, sends all ranks of the comm
 * what it is doing, and they answer the same: from a call of the engine, or from
 * their heart. Verdicts and departures go to the ranks of other machines; those
 * of this one see them on the board. */
#include "engine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK = 1, ANSWER, LEFT, VERDICT };

typedef struct note {
    uint32_t kind;     /* ASK ... */
    tn_status code;    /* VERDICT */
    uint32_t comm;     /* ASK, ANSWER: its number, and the sender's rank */
    int32_t rank;
    uint32_t life;
    uint32_t record_bytes, position_bytes, unused;
    uint64_t asked_ns; /* ASK: by the sender's clock; ANSWER: of what it answers */
    int64_t process;
    uint64_t sequence, check;
    unsigned char record[TN_COMM_RECORD], position[TN_COMM_RECORD];
    char machine[64];
    char text[TN_COMM_TEXT]; /* VERDICT; others end before it */
} note;

struct engine_outgoing {
    engine_outgoing *next;
    MPI_Request request;
    note note;
};

/* Sends a note to a rank of the job. Without memory or with an error of MPI
 * nothing is sent: the other rank then knows less. */
static void post(engine_job *job, int32_t rank, const note *text)
{
    const size_t bytes =
        text->kind == VERDICT ? sizeof *text : offsetof(note, text);
    engine_outgoing *out =
        job->mute ? NULL : malloc(offsetof(engine_outgoing, note) + bytes);
    if (!out)
        return;
    memcpy(&out->note, text, bytes);
    if (MPI_Isend(&out->note, (int)bytes, MPI_BYTE, rank, 0, job->notes,
                  &out->request)) {
        free(out);
        return;
    }
    job->sent[rank]++;
    out->next = job->outgoing;
    job->outgoing = out;
}

/* Frees what was sent. Returns whether all was. */
static bool flush(engine_job *job)
{
    for (engine_outgoing **at = &job->outgoing; *at && !job->mute;) {
        engine_outgoing *out = *at;
        int done = 0;
        if (MPI_Test(&out->request, &done, MPI_STATUS_IGNORE) || done) {
            *at = out->next;
            free(out);
        } else {
            at = &out->next;
        }
    }
    return !job->outgoing || job->mute;
}

void engine_listen(engine_job *job)
{
    if (MPI_Irecv(job->note, sizeof(note), MPI_BYTE, MPI_ANY_SOURCE, 0, job->notes,
                  &job->incoming))
        job->incoming = MPI_REQUEST_NULL;
}

bool engine_listen_room(engine_job *job)
{
    job->incoming = MPI_REQUEST_NULL;
    job->note = calloc(1, sizeof(note));
    return job->note != NULL;
}

/* ---- what ranks do ---------------------------------------------------------- */

static void describe(const engine_job *job, const tn_comm *comm, note *out)
{
    const tn_comm_peer *own = &comm->known[comm->rank];
    const engine_slot *slot = &job->board->slot[job->seat[job->rank]];
    out->life = TN_COMM_ALIVE;
    out->comm = comm->number;
    out->rank = comm->rank;
    out->sequence = own->sequence;
    out->check = own->check;
    out->record_bytes = own->record_bytes;
    memcpy(out->record, own->record, sizeof out->record);
    /* Only this process writes its position, with the lock. */
    out->position_bytes = slot->position_bytes;
    memcpy(out->position, slot->position, sizeof out->position);
    memcpy(out->machine, job->machine, sizeof out->machine);
    out->process = getpid();
}

void engine_ask(tn_comm *comm)
{
    note own = {.kind = ASK, .asked_ns = engine_now()};
    describe(comm->job, comm, &own);
    comm->asked_ns = own.asked_ns;
    for (int32_t r = 0; r < comm->count; r++)
        if (r != comm->rank && engine_life(comm->job, comm->member[r]) ==
                                   TN_COMM_ALIVE)
            post(comm->job, comm->member[r], &own);
}

static tn_comm *find(engine_job *job, uint32_t number)
{
    tn_comm *comm = job->first;
    while (comm && comm->number != number)
        comm = comm->next;
    return comm;
}

/* This rank is in the same collective of the comm as another one, which means
 * something else. */
static void compare(tn_comm *comm, int32_t rank)
{
    const tn_comm_peer *own = &comm->known[comm->rank], *other = &comm->known[rank];
    tn_comm_request *r = comm->first;
    while (r && (!r->began || r->met || r->args.kind == TN_COMM_SEND ||
                 r->args.kind == TN_COMM_RECV))
        r = r->next;
    if (!r || other->sequence != own->sequence || other->check == own->check ||
        r->odd_since_ns)
        return;
    r->odd = rank;
    r->odd_since_ns = engine_now();
}

static void answer(engine_job *job, int32_t source, const note *asked)
{
    note own = {.kind = ANSWER, .comm = asked->comm, .rank = -1,
                .life = TN_COMM_ALIVE, .asked_ns = asked->asked_ns};
    tn_comm *comm = find(job, asked->comm);
    if (comm)
        describe(job, comm, &own);
    else if (asked->comm < job->next_comm)
        own.life = TN_COMM_CLOSED;
    post(job, source, &own);
}

static void take_in(engine_job *job, int32_t source, const note *said)
{
    tn_comm *comm = find(job, said->comm);
    int32_t rank = said->rank;
    for (int32_t r = 0; comm && rank < 0 && r < comm->count; r++)
        if (comm->member[r] == source)
            rank = r;
    if (!comm || rank < 0 || rank >= comm->count || comm->member[rank] != source)
        return;
    tn_comm_peer *peer = &comm->known[rank];
    comm->heard_ns[rank] = engine_now();
    if (said->kind == ANSWER)
        comm->answered_ns[rank] = said->asked_ns;
    peer->life = said->life;
    /* A note may arrive after the head of a later collective. */
    if (said->rank < 0 || said->sequence < peer->sequence)
        return;
    peer->process = said->process;
    peer->sequence = said->sequence;
    peer->check = said->check;
    peer->record_bytes = said->record_bytes;
    memcpy(peer->record, said->record, sizeof peer->record);
    peer->position_bytes = said->position_bytes;
    memcpy(peer->position, said->position, sizeof peer->position);
    memcpy(peer->host, said->machine, sizeof peer->host);
    compare(comm, rank);
}

void engine_note_head(tn_comm *comm, int32_t rank, const engine_head *head)
{
    tn_comm_peer *peer = &comm->known[rank];
    comm->heard_ns[rank] = engine_now();
    peer->sequence = head->sequence;
    peer->check = head->low;
    peer->record_bytes = head->record_bytes;
    memcpy(peer->record, head->record, sizeof peer->record);
}

static void hear(engine_job *job, int32_t source, const note *said)
{
    switch (said->kind) {
    case ASK:
        take_in(job, source, said);
        answer(job, source, said);
        break;
    case ANSWER:
        take_in(job, source, said);
        break;
    case LEFT:
        atomic_store(&job->left[source], 1);
        break;
    case VERDICT:
        engine_judge(job, said->code, said->text);
        break;
    default:
        break;
    }
}

void engine_hear(engine_job *job)
{
    job->polled_ns = engine_now();
    for (int i = 0; i < 64 && !job->mute; i++) {
        MPI_Status status;
        int done = 0;
        if (job->incoming == MPI_REQUEST_NULL ||
            MPI_Test(&job->incoming, &done, &status) || !done)
            break;
        job->sent[job->count + status.MPI_SOURCE]++;
        hear(job, status.MPI_SOURCE, job->note);
        engine_listen(job);
    }
    flush(job);
}

void engine_drain(engine_job *job)
{
    note *lost = job->note;
    int *got = job->sent + job->count, *want = got + job->count;
    if (MPI_Alltoall(job->sent, 1, MPI_INT, want, 1, MPI_INT, job->notes))
        return;
    for (int32_t r = 0; r < job->count; r++)
        for (; got[r] < want[r]; got[r]++)
            if (MPI_Recv(lost, sizeof *lost, MPI_BYTE, r, 0, job->notes,
                         MPI_STATUS_IGNORE))
                return;
    flush(job);
}

/* ---- the end ---------------------------------------------------------------- */

static void tell(engine_job *job, const note *text)
{
    enum { FLUSH_NS = 100000000 };
    if (!job->several)
        return;
    for (int32_t r = 0; r < job->count; r++)
        if (job->seat[r] < 0)
            post(job, r, text);
    const uint64_t end = engine_now() + FLUSH_NS;
    while (!flush(job) && engine_now() < end)
        ;
}

void engine_tell_verdict(engine_job *job, tn_status code, const char *text)
{
    note own = {.kind = VERDICT, .code = code};
    snprintf(own.text, sizeof own.text, "%s", text);
    tell(job, &own);
}

void engine_tell_left(engine_job *job)
{
    const note own = {.kind = LEFT};
    tell(job, &own);
}

void engine_suspect(tn_comm *comm, uint32_t reason, int32_t rank)
{
    if (comm->reason || comm->suspicion)
        return;
    comm->suspicion = reason;
    comm->peer = rank;
    comm->suspected_ns = engine_now();
    engine_ask(comm);
}

void engine_fail(tn_comm *comm, const char *call, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(error, text, &length);
    if (comm->reason)
        return;
    comm->reason = TN_COMM_FAILED;
    comm->peer = -1;
    snprintf(comm->why, sizeof comm->why, "%s: %.200s", call, text);
}
