/* collective.c: the rounds of a collective: see local.h.
 *
 * The phases of a round: FILL copies into the own area what others will read;
 * MEET waits for all. Then the result is read from the areas, or, of a larger
 * all_reduce, each rank reduces its slice of it, and MEET_AGAIN waits for the
 * slices of the others.
 *
 * Of a request whose data are in shared memory, FILL copies nothing. If those of
 * all ranks are, which MEET shows, the round is direct: it moves everything, from
 * where it is to where it belongs, and MEET_AGAIN waits until the others have
 * taken theirs. Otherwise the ranks begin again, with areas. */
#include "local.h"

#include <string.h>

enum { FILL, MEET, MEET_AGAIN };

/* The elements of a slice that one round moves. A function of the arguments
 * that all ranks have in common. */
static uint64_t part_of(const tn_comm_request *r)
{
    const tn_comm_args *args = &r->args;
    uint64_t room = local_hall_chunk(r->comm->count) /
                    local_dtype_bytes(args->dtype);
    if (args->kind == TN_COMM_REDUCE_SCATTER || args->kind == TN_COMM_ALL_TO_ALL)
        room /= (uint64_t)r->comm->count;
    uint64_t left = args->count - r->offset;
    return left < room ? left : room;
}

static bool is_sliced(const tn_comm_request *r)
{
    return r->args.kind == TN_COMM_ALL_REDUCE &&
           r->part * local_dtype_bytes(r->args.dtype) > LOCAL_SMALL;
}

/* The first element of a rank's slice. */
static uint64_t slice_begin(const tn_comm_request *r, int32_t rank)
{
    const uint64_t line = LOCAL_LINE / local_dtype_bytes(r->args.dtype);
    const uint64_t at = r->part * (uint64_t)rank / (uint64_t)r->comm->count;
    return rank == r->comm->count ? at : at - at % line;
}

/* Where the ranks find what rank q sends in this round. */
static unsigned char *area(const tn_comm_request *r, int32_t q)
{
    const tn_comm *comm = r->comm;
    return r->direct ? local_memory_at(r->memory, q,
                                       comm->hall->seat[q].place[comm->round & 1])
                     : local_hall_area(comm, q, comm->round);
}

/* The slices of the other ranks. */
static void fill_slices(const tn_comm_request *r, const unsigned char *send,
                        unsigned char *to)
{
    const int32_t rank = r->comm->rank;
    const size_t width = local_dtype_bytes(r->args.dtype);
    const uint64_t begin = slice_begin(r, rank), end = slice_begin(r, rank + 1);
    memcpy(to, send, begin * width);
    memcpy(to + end * width, send + end * width, (r->part - end) * width);
}

static void fill(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const size_t width = local_dtype_bytes(args->dtype);
    const unsigned char *send = args->send;
    unsigned char *to = local_hall_area(comm, comm->rank, comm->round);
    if (!r->part)
        return; /* send may be NULL */
    if (is_sliced(r)) {
        fill_slices(r, send + r->offset * width, to);
        return;
    }
    switch (args->kind) {
    case TN_COMM_BROADCAST:
        if (comm->rank != args->root)
            break;
        /* fall through */
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_ALL_GATHER:
        memcpy(to, send + r->offset * width, r->part * width);
        break;
    case TN_COMM_REDUCE_SCATTER:
    case TN_COMM_ALL_TO_ALL:
        for (int32_t q = 0; q < comm->count; q++)
            memcpy(to + (size_t)q * r->part * width,
                   send + ((uint64_t)q * args->count + r->offset) * width,
                   r->part * width);
        break;
    default:
        break;
    }
}

/* Reduces the areas' elements from .. from + count to out[0 .. outs). */
static void reduce(tn_comm_request *r, uint64_t from, uint64_t count,
                   void *const *out, int outs)
{
    const size_t width = local_dtype_bytes(r->args.dtype);
    const void *source[LOCAL_MAX_RANKS];
    for (int32_t q = 0; q < r->comm->count; q++)
        source[q] = area(r, q) + from * width;
    if (is_sliced(r) && !r->direct) /* FILL has left it where it was */
        source[r->comm->rank] = (const unsigned char *)r->args.send +
                                (r->offset + from) * width;
    local_reduce(r->args.dtype, r->args.reduce, r->args.scale, source,
                 r->comm->count, out, outs, (size_t)count);
}

/* Reduces this rank's slice: to recv, and to where the others look for it. */
static void reduce_slice(tn_comm_request *r)
{
    const tn_comm *comm = r->comm;
    const size_t width = local_dtype_bytes(r->args.dtype);
    const uint64_t from = slice_begin(r, comm->rank);
    void *out[LOCAL_MAX_RANKS];
    int outs = 0;
    for (int32_t q = 0; q < comm->count; q++)
        if (r->direct || q == comm->rank)
            out[outs++] = area(r, q) + from * width;
    if (!r->direct)
        out[outs++] = (unsigned char *)r->args.recv + (r->offset + from) * width;
    reduce(r, from, slice_begin(r, comm->rank + 1) - from, out, outs);
}

/* The slices that the other ranks have reduced. */
static void drain_slices(tn_comm_request *r, unsigned char *recv)
{
    const size_t width = local_dtype_bytes(r->args.dtype);
    for (int32_t q = 0; q < r->comm->count; q++) {
        const uint64_t from = slice_begin(r, q), to = slice_begin(r, q + 1);
        if (q != r->comm->rank)
            memcpy(recv + from * width, area(r, q) + from * width,
                   (to - from) * width);
    }
}

/* Reads the result of a round from the areas. */
static void drain(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const size_t width = local_dtype_bytes(args->dtype);
    const size_t bytes = r->part * width;
    if (!r->part)
        return;
    unsigned char *recv = args->recv;
    void *out = recv ? recv + r->offset * width : NULL;
    switch (args->kind) {
    case TN_COMM_ALL_REDUCE:
        if (is_sliced(r))
            drain_slices(r, out);
        else
            reduce(r, 0, r->part, &out, 1);
        break;
    case TN_COMM_REDUCE_SCATTER:
        reduce(r, (uint64_t)comm->rank * r->part, r->part, &out, 1);
        break;
    case TN_COMM_BROADCAST:
        if (comm->rank != args->root)
            memcpy(out, area(r, args->root), bytes);
        else if (recv && recv != args->send)
            memcpy(out, (const unsigned char *)args->send + r->offset * width,
                   bytes);
        break;
    case TN_COMM_ALL_GATHER:
    case TN_COMM_ALL_TO_ALL:
        for (int32_t q = 0; q < comm->count; q++) {
            size_t at = args->kind == TN_COMM_ALL_TO_ALL
                            ? (size_t)comm->rank * bytes : 0;
            memcpy(recv + ((uint64_t)q * args->count + r->offset) * width,
                   area(r, q) + at, bytes);
        }
        break;
    default:
        break;
    }
}

/* ---- meetings ------------------------------------------------------------- */

static void step(tn_comm_request *r)
{
    local_seat *seat = &r->comm->hall->seat[r->comm->rank];
    r->target = atomic_fetch_add(&seat->step, 1) + 1;
    local_hall_tell(r->comm);
}

/* Whether the data are in shared memory. A small all_reduce is faster without:
 * its ranks meet once. */
static void find_memory(tn_comm_request *r)
{
    const tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const bool many = args->kind == TN_COMM_REDUCE_SCATTER ||
                      args->kind == TN_COMM_ALL_TO_ALL;
    const size_t bytes = args->count * local_dtype_bytes(args->dtype) *
                         (many ? (size_t)comm->count : 1);
    const bool whole = args->kind == TN_COMM_ALL_REDUCE;
    const void *data = args->kind == TN_COMM_BROADCAST && comm->rank != args->root
                           ? args->recv : args->send;
    if (bytes > LOCAL_SMALL && !(whole && args->send != args->recv))
        r->memory = local_memory_find(comm, data, bytes, &r->place);
}

/* Whether the data of all ranks are in the same shared memory. All ranks find the
 * same. */
static bool is_direct(const tn_comm_request *r)
{
    const tn_comm *comm = r->comm;
    for (int32_t q = 0; q < comm->count; q++)
        if (!r->memory || comm->hall->seat[q].memory[comm->round & 1] !=
                              local_memory_number(r->memory))
            return false;
    return true;
}

/* Whether one has shared memory, and waits for what the others have. */
static bool is_mixed(const tn_comm_request *r)
{
    const tn_comm *comm = r->comm;
    for (int32_t q = 0; q < comm->count; q++)
        if (comm->hall->seat[q].memory[comm->round & 1])
            return true;
    return false;
}

static void publish_check(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    local_seat *seat = &comm->hall->seat[comm->rank];
    uint32_t at = comm->round & 1;
    seat->check[at] = r->args.check;
    seat->record_bytes[at] = r->args.record_bytes;
    memcpy(seat->record[at], r->record, r->args.record_bytes);
    seat->memory[at] = local_memory_number(r->memory);
    seat->place[at] = r->place;
    atomic_store(&seat->last, at);
    atomic_fetch_add(&seat->sequence, 1);
}

/* Returns whether all ranks have reached the step. In the first round it
 * compares the checks of those that have. */
static bool all_here(tn_comm_request *r, tn_status *status)
{
    tn_comm *comm = r->comm;
    const bool first = !r->met;
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

/* After the first meeting of a request. Returns false if the ranks have to begin
 * again. */
static bool choose_way(tn_comm_request *r)
{
    r->met = true;
    r->direct = is_direct(r);
    const bool again = !r->direct && is_mixed(r);
    if (r->direct)
        r->part = r->args.count;
    if (again) {
        r->memory = NULL;
        r->phase = FILL;
        r->comm->round++;
    }
    return !again;
}

tn_status local_collective_go(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    tn_status status = TN_OK;
    for (;;) {
        if (r->phase == FILL) {
            r->part = part_of(r);
            if (!r->began) {
                find_memory(r);
                publish_check(r);
            }
            if (!r->memory)
                fill(r);
            r->began = true;
            r->phase = MEET;
            step(r);
        }
        if (!all_here(r, &status))
            return status;
        if (!r->met && !choose_way(r))
            continue;
        if (r->phase == MEET && (r->direct || is_sliced(r))) {
            if (r->args.kind == TN_COMM_ALL_REDUCE)
                reduce_slice(r);
            else
                drain(r);
            r->phase = MEET_AGAIN;
            step(r);
            continue;
        }
        if (!r->direct)
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
