/* flight.c: messages under way, and the pieces of a large request.
 *
 * Tags. The messages of a comm from one rank to another have one of
 * ENGINE_TAGS tags: of meetings, of the first message of a send, and two for
 * each lane of collectives and of pairs. Messages with one tag keep their order,
 * and both sides begin them in the same order, because the requests of a comm
 * (of a pair) run one after the other, and so do the pieces of a lane. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static int tag_of(const tn_comm *comm, int tag)
{
    return (int)(comm->number * ENGINE_TAGS) + tag;
}

static bool make_room(tn_comm *comm, engine_flight *f)
{
    if (f->open == 0)
        f->count = f->receives = 0;
    if (f->count < f->room)
        return true;
    const int room = f->room ? 2 * f->room : 8;
    MPI_Request *request = realloc(f->request, (size_t)room * sizeof *request);
    if (request)
        f->request = request;
    int32_t *peer = realloc(f->peer, (size_t)room * sizeof *peer);
    if (peer)
        f->peer = peer;
    int *landed = realloc(f->landed, (size_t)room * sizeof *landed);
    if (landed)
        f->landed = landed;
    MPI_Status *status = realloc(f->status, (size_t)room * sizeof *status);
    if (status)
        f->status = status;
    if (request && peer && landed && status) {
        f->room = room;
        return true;
    }
    engine_fail(comm, "malloc", MPI_ERR_NO_MEM);
    return false;
}

bool engine_receive(tn_comm *comm, engine_flight *f, int32_t rank, int tag,
                    void *data, size_t bytes)
{
    if (comm->reason || !make_room(comm, f))
        return false;
    int error = MPI_Irecv(data, (int)bytes, MPI_BYTE, comm->member[rank],
                          tag_of(comm, tag), comm->job->data,
                          &f->request[f->count]);
    if (error) {
        engine_fail(comm, "MPI_Irecv", error);
        return false;
    }
    f->peer[f->count++] = comm->member[rank];
    f->receives = f->count;
    f->open++;
    return true;
}

bool engine_send(tn_comm *comm, engine_flight *f, int32_t rank, int tag,
                 const void *data, size_t bytes)
{
    if (comm->reason || !make_room(comm, f))
        return false;
    int error = MPI_Isend(data, (int)bytes, MPI_BYTE, comm->member[rank],
                          tag_of(comm, tag), comm->job->data,
                          &f->request[f->count]);
    if (error) {
        engine_fail(comm, "MPI_Isend", error);
        return false;
    }
    f->peer[f->count++] = comm->member[rank];
    f->open++;
    return true;
}

bool engine_landed(tn_comm *comm, engine_flight *f)
{
    f->landed_count = 0;
    if (comm->reason)
        return false;
    if (!f->open)
        return true;
    int done = 0;
    int error = MPI_Testsome(f->count, f->request, &done, f->landed,
                             f->status);
    for (int i = 0; error == MPI_ERR_IN_STATUS && i < done; i++)
        if (f->status[i].MPI_ERROR)
            error = f->status[i].MPI_ERROR;
    if (error) {
        engine_fail(comm, "MPI_Testsome", error);
        return false;
    }
    if (done == MPI_UNDEFINED)
        done = f->open;
    f->landed_count = done;
    f->open -= done;
    return f->open == 0;
}

int32_t engine_stranded(const engine_job *job, const engine_flight *f,
                        uint32_t *reason)
{
    const uint32_t *life = job->life;
    for (int i = 0; f->open && i < f->count; i++) {
        if (f->request[i] == MPI_REQUEST_NULL ||
            life[f->peer[i]] == TN_COMM_ALIVE)
            continue;
        *reason = life[f->peer[i]] == TN_COMM_GONE ? TN_COMM_LOST : TN_COMM_LEFT;
        return f->peer[i];
    }
    return -1;
}

/* A receive that has begun to arrive cannot be cancelled. MPI would write the
 * rest into memory that its owner frees: so MPI is not called again. What was
 * sent from such memory may reach the other rank with other contents, but the
 * job is over there, too. */
void engine_ground(engine_job *job, engine_flight *f)
{
    const uint64_t end = engine_now() + 20000000u;
    for (int i = 0; f->open && i < f->receives && !job->mute; i++) {
        int done = f->request[i] == MPI_REQUEST_NULL;
        if (!done && MPI_Cancel(&f->request[i]))
            job->mute = true;
        while (!done && !job->mute)
            if (MPI_Test(&f->request[i], &done, MPI_STATUS_IGNORE) ||
                (!done && engine_now() > end))
                job->mute = true;
    }
    free(f->request);
    free(f->peer);
    free(f->landed);
    free(f->status);
    memset(f, 0, sizeof *f);
}

/* ---- pieces ---------------------------------------------------------------- */

static bool step(tn_comm_request *r, engine_lane *lane, int index,
                 const engine_route *route)
{
    if (!lane->stage) {
        const uint64_t left = r->args.count - r->given;
        if (!left)
            return false;
        lane->offset = r->given;
        lane->part = route->part(r, left);
        r->given += lane->part;
        lane->stage = 1;
        route->post(r, lane, index);
    }
    if (!engine_landed(r->comm, &lane->flight))
        return false;
    if (route->land(r, lane, index)) {
        lane->stage++;
        route->post(r, lane, index);
        return true;
    }
    r->finished += lane->part;
    r->comm->landed_ns = engine_now();
    lane->stage = 0;
    return true;
}

void engine_fly(tn_comm_request *r, const engine_route *route)
{
    bool moved = true;
    while (moved && !r->comm->reason) {
        moved = false;
        for (int i = 0; i < ENGINE_LANES; i++)
            moved = step(r, &r->lane[i], i, route) || moved;
    }
    r->done = !r->comm->reason && r->finished == r->args.count;
    r->comm->moving = r->comm->moving || !r->done;
}
