/* collective.c: the rounds of a collective: see local.h.
 *
 * The phases of a round: FILL copies into the own area; MEET waits for all, and
 * then either reads the result, or reduces this rank's slice of it into the own
 * area; MEET_AGAIN waits for the slices of the others. */
#include "local.h"

#include <string.h>

enum { FILL, MEET, MEET_AGAIN };

/* The elements of a slice that one round moves. A function of the arguments
 * that all ranks have in common. */
static uint64_t part_of(const tn_comm_request *r)
{
    const tn_comm_args *args = &r->args;
    uint64_t room = LOCAL_CHUNK / local_dtype_bytes(args->dtype);
    if (args->kind == TN_COMM_REDUCE_SCATTER || args->kind == TN_COMM_ALL_TO_ALL)
        room /= (uint64_t)r->comm->count;
    uint64_t left = args->count - r->offset;
    return left < room ? left : room;
}

static bool is_sliced(const tn_comm_request *r)
{
    return r->args.kind == TN_COMM_ALL_REDUCE &&
           r->part * local_dtype_bytes(r->args.dtype) > LOCAL_DIRECT;
}

static void fill(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const size_t width = local_dtype_bytes(args->dtype);
    const unsigned char *send = args->send;
    unsigned char *area = local_hall_area(comm, comm->rank, comm->round);
    switch (args->kind) {
    case TN_COMM_BROADCAST:
        if (comm->rank != args->root)
            break;
        /* fall through */
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_ALL_GATHER:
        memcpy(area, send + r->offset * width, r->part * width);
        break;
    case TN_COMM_REDUCE_SCATTER:
    case TN_COMM_ALL_TO_ALL:
        for (int32_t q = 0; q < comm->count; q++)
            memcpy(area + (size_t)q * r->part * width,
                   send + ((uint64_t)q * args->count + r->offset) * width,
                   r->part * width);
        break;
    default:
        break;
    }
}

/* Reduces elements from .. to of all areas, as offsets into them, to out. */
static void reduce(tn_comm_request *r, uint64_t from, uint64_t count,
                   unsigned char *out)
{
    tn_comm *comm = r->comm;
    const size_t width = local_dtype_bytes(r->args.dtype);
    const void *source[LOCAL_MAX_RANKS];
    for (int32_t q = 0; q < comm->count; q++)
        source[q] = local_hall_area(comm, q, comm->round) + from * width;
    local_reduce(r->args.dtype, r->args.reduce, r->args.scale, source,
                 comm->count, out, (size_t)count);
}

static uint64_t slice_begin(const tn_comm_request *r, int32_t rank)
{
    return r->part * (uint64_t)rank / (uint64_t)r->comm->count;
}

/* Reads the result of a round from the areas. */
static void drain(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const size_t width = local_dtype_bytes(args->dtype);
    unsigned char *recv = args->recv;
    const size_t bytes = r->part * width;
    switch (args->kind) {
    case TN_COMM_ALL_REDUCE:
        recv += r->offset * width;
        if (!is_sliced(r)) {
            reduce(r, 0, r->part, recv);
            break;
        }
        for (int32_t q = 0; q < comm->count; q++) {
            uint64_t from = slice_begin(r, q), to = slice_begin(r, q + 1);
            memcpy(recv + from * width,
                   local_hall_area(comm, q, comm->round) + from * width,
                   (to - from) * width);
        }
        break;
    case TN_COMM_REDUCE_SCATTER:
        reduce(r, (uint64_t)comm->rank * r->part, r->part,
               recv + r->offset * width);
        break;
    case TN_COMM_BROADCAST:
        if (comm->rank != args->root)
            memcpy(recv + r->offset * width,
                   local_hall_area(comm, args->root, comm->round), bytes);
        else if (recv && recv != args->send)
            memcpy(recv + r->offset * width,
                   (const unsigned char *)args->send + r->offset * width, bytes);
        break;
    case TN_COMM_ALL_GATHER:
    case TN_COMM_ALL_TO_ALL:
        for (int32_t q = 0; q < comm->count; q++) {
            size_t at = args->kind == TN_COMM_ALL_TO_ALL
                            ? (size_t)comm->rank * bytes : 0;
            memcpy(recv + ((uint64_t)q * args->count + r->offset) * width,
                   local_hall_area(comm, q, comm->round) + at, bytes);
        }
        break;
    default:
        break;
    }
}

static void step(tn_comm_request *r)
{
    local_seat *seat = &r->comm->hall->seat[r->comm->rank];
    r->target = atomic_fetch_add(&seat->step, 1) + 1;
    local_hall_tell(r->comm);
}

static void publish_check(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    local_seat *seat = &comm->hall->seat[comm->rank];
    uint32_t at = comm->round & 1;
    seat->check[at] = r->args.check;
    seat->record_bytes[at] = r->args.record_bytes;
    memcpy(seat->record[at], r->record, r->args.record_bytes);
    atomic_store(&seat->last, at);
    atomic_fetch_add(&seat->sequence, 1);
}

/* Returns whether all ranks have reached the step. In the first round it
 * compares the checks of those that have. */
static bool all_here(tn_comm_request *r, tn_status *status)
{
    tn_comm *comm = r->comm;
    const bool first = r->offset == 0 && r->phase == MEET;
    int32_t missing = -1;
    for (int32_t q = 0; q < comm->count; q++) {
        local_seat *seat = &comm->hall->seat[q];
        if (atomic_load_explicit(&seat->step, memory_order_acquire) < r->target)
            missing = q;
        else if (first && seat->check[comm->round & 1] != r->args.check &&
                 !r->odd_since_ns) {
            r->odd = q;
            r->odd_since_ns = local_now();
        }
    }
    if (r->odd_since_ns &&
        (missing < 0 ||
         local_now() - r->odd_since_ns > LOCAL_GRACE_MS * 1000000u)) {
        *status = local_hall_break(comm, TN_COMM_MISMATCH, r->odd);
        return false;
    }
    if (missing < 0)
        return true;
    uint64_t now = local_now();
    if (now - comm->looked_ns > LOCAL_LOOK_MS * 1000000u) {
        comm->looked_ns = now;
        for (int32_t q = 0; q < comm->count && *status == TN_OK; q++) {
            uint32_t life = local_hall_life(comm, q);
            if (life && atomic_load(&comm->hall->seat[q].step) < r->target)
                *status = local_hall_break(comm, life, q);
        }
    }
    return false;
}

tn_status local_collective_go(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    tn_status status = TN_OK;
    for (;;) {
        if (r->phase == FILL) {
            r->part = part_of(r);
            fill(r);
            if (!r->began)
                publish_check(r);
            r->began = true;
            r->phase = MEET;
            step(r);
        }
        if (!all_here(r, &status))
            return status;
        if (r->phase == MEET && is_sliced(r)) {
            uint64_t from = slice_begin(r, comm->rank);
            reduce(r, from, slice_begin(r, comm->rank + 1) - from,
                   local_hall_area(comm, comm->rank, comm->round) +
                       from * local_dtype_bytes(r->args.dtype));
            r->phase = MEET_AGAIN;
            step(r);
            continue;
        }
        drain(r);
        comm->round++;
        r->offset += r->part;
        r->phase = FILL;
        if (r->offset == r->args.count) {
            r->done = true;
            return TN_OK;
        }
    }
}
