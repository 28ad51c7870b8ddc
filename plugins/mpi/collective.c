/* collective.c: the meeting of a collective, and the routes of large ones. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static size_t width_of(const tn_comm_request *r)
{
    return local_dtype_bytes(r->args.dtype);
}

static bool is_direct(const tn_comm *comm)
{
    return comm->count <= ENGINE_DIRECT;
}

/* Whether the messages of the meeting carry the data. */
static bool is_small(const tn_comm_request *r)
{
    return is_direct(r->comm) && r->args.count <= ENGINE_SMALL / width_of(r);
}

static uint64_t slice_begin(const tn_comm_request *r, uint64_t part, int32_t rank)
{
    return part * (uint64_t)rank / (uint64_t)r->comm->count;
}

static const unsigned char *sent(const tn_comm_request *r, uint64_t element)
{
    return (const unsigned char *)r->args.send + element * width_of(r);
}

static unsigned char *received(const tn_comm_request *r, uint64_t element)
{
    return (unsigned char *)r->args.recv + element * width_of(r);
}

/* ---- the meeting ----------------------------------------------------------- */

static void fill_head(const tn_comm_request *r, engine_head *head)
{
    const tn_comm_peer *own = &r->comm->known[r->comm->rank];
    head->low = head->high = r->args.check;
    head->sequence = own->sequence;
    head->record_bytes = r->args.record_bytes;
    memcpy(head->record, r->record, r->args.record_bytes);
}

static unsigned char *box(unsigned char *boxes, int32_t rank)
{
    return boxes + (size_t)rank * ENGINE_BOX;
}

/* Copies what a small collective sends to rank q behind the head. */
static size_t fill_box(const tn_comm_request *r, unsigned char *to, int32_t q)
{
    const tn_comm_args *args = &r->args;
    const size_t bytes = args->count * width_of(r);
    switch (args->kind) {
    case TN_COMM_BROADCAST:
        if (args->root != r->comm->rank)
            return 0;
        /* fall through */
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_ALL_GATHER:
        if (bytes)
            memcpy(to, args->send, bytes);
        return bytes;
    case TN_COMM_REDUCE_SCATTER:
    case TN_COMM_ALL_TO_ALL:
        if (bytes)
            memcpy(to, sent(r, (uint64_t)q * args->count), bytes);
        return bytes;
    default:
        return 0;
    }
}

static void meet_round(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const int32_t d = r->distance, n = comm->count;
    engine_receive(comm, &r->meet, (comm->rank + n - d) % n, ENGINE_TAG_MEET,
                   &comm->head[1], sizeof comm->head[1]);
    engine_send(comm, &r->meet, (comm->rank + d) % n, ENGINE_TAG_MEET,
                &comm->head[0], sizeof comm->head[0]);
}

static void meet_begin(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    tn_comm_peer *own = &comm->known[comm->rank];
    own->sequence++;
    own->check = r->args.check;
    own->record_bytes = r->args.record_bytes;
    memcpy(own->record, r->record, sizeof own->record);
    r->began = true;
    r->began_ns = engine_now();
    if (!is_direct(comm)) {
        r->distance = 1;
        memset(comm->head, 0, sizeof comm->head);
        fill_head(r, &comm->head[0]);
        meet_round(r);
        return;
    }
    const bool small = is_small(r), alike = r->args.kind != TN_COMM_ALL_TO_ALL &&
                                    r->args.kind != TN_COMM_REDUCE_SCATTER;
    for (int32_t q = 0; q < comm->count; q++)
        if (q != comm->rank)
            engine_receive(comm, &r->meet, q, ENGINE_TAG_MEET,
                           box(comm->box_in, q), ENGINE_BOX);
    unsigned char *out = NULL;
    size_t bytes = 0;
    for (int32_t q = 0; q < comm->count; q++) {
        if (q == comm->rank)
            continue;
        if (!out || (small && !alike)) {
            out = box(comm->box_out, q);
            fill_head(r, (engine_head *)(void *)out);
            bytes = small ? fill_box(r, out + sizeof(engine_head), q) : 0;
        }
        engine_send(comm, &r->meet, q, ENGINE_TAG_MEET, out,
                    sizeof(engine_head) + bytes);
    }
}

static void compare(tn_comm_request *r, int32_t rank, const engine_head *head)
{
    if ((head->low == r->args.check && head->high == r->args.check) ||
        r->odd_since_ns)
        return;
    r->odd = rank;
    r->odd_since_ns = engine_now();
}

/* The ranks that others than neighbours have met are known by the least and the
 * largest check only. */
static bool meet_many(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    engine_head *own = &comm->head[0], *other = &comm->head[1];
    while (engine_landed(comm, &r->meet)) {
        if (r->distance >= comm->count)
            return true;
        const int32_t from = (comm->rank + comm->count - r->distance) % comm->count;
        if (other->sequence == own->sequence && r->distance == 1)
            engine_note_head(comm, from, other);
        compare(r, from, other);
        own->low = other->low < own->low ? other->low : own->low;
        own->high = other->high > own->high ? other->high : own->high;
        r->distance *= 2;
        if (r->distance >= comm->count)
            return true;
        meet_round(r);
    }
    return false;
}

static bool meet_all(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const bool all = engine_landed(comm, &r->meet);
    for (int i = 0; i < r->meet.landed_count; i++) {
        const int at = r->meet.landed[i];
        if (at >= r->meet.receives)
            continue;
        const int32_t q = at + (at >= comm->rank);
        const engine_head *head = (engine_head *)(void *)box(comm->box_in, q);
        engine_note_head(comm, q, head);
        compare(r, q, head);
    }
    return all;
}

/* Returns whether all ranks have met and mean the same. */
static bool meet(tn_comm_request *r)
{
    const bool all = is_direct(r->comm) ? meet_all(r) : meet_many(r);
    if (r->odd_since_ns &&
        (all || engine_now() - r->odd_since_ns > ENGINE_GRACE_MS * 1000000u))
        engine_suspect(r->comm, TN_COMM_MISMATCH, r->odd);
    return all && !r->odd_since_ns;
}

/* ---- small collectives ------------------------------------------------------ */

/* Reads the result from the boxes. */
static void drain(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const size_t bytes = args->count * width_of(r);
    const void *source[ENGINE_DIRECT];
    if (!bytes || args->kind == TN_COMM_BARRIER)
        return;
    for (int32_t q = 0; q < comm->count; q++)
        source[q] = box(comm->box_in, q) + sizeof(engine_head);
    const bool slices = args->kind == TN_COMM_REDUCE_SCATTER ||
                        args->kind == TN_COMM_ALL_TO_ALL;
    source[comm->rank] =
        sent(r, slices ? (uint64_t)comm->rank * args->count : 0);
    switch (args->kind) {
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_REDUCE_SCATTER:
        local_reduce(args->dtype, args->reduce, args->scale, source, comm->count,
                     &r->args.recv, 1, (size_t)args->count);
        break;
    case TN_COMM_BROADCAST:
        if (args->recv && args->recv != source[args->root])
            memcpy(args->recv, source[args->root], bytes);
        break;
    default:
        for (int32_t q = 0; q < comm->count; q++)
            memcpy(received(r, (uint64_t)q * args->count), source[q], bytes);
        break;
    }
}

/* ---- large collectives ------------------------------------------------------ */

/* All ranks send their slices of a piece to those that reduce them, and these
 * send the sums: each byte leaves a rank twice. Two ranks send each other the
 * whole piece instead, which is as much, and takes one exchange. A broadcast is
 * an exchange of slices, too, so that root does not send all to each. */
static bool is_pairwise(const tn_comm_request *r)
{
    return r->comm->count == 2;
}

static uint64_t part(const tn_comm_request *r, uint64_t left)
{
    uint64_t room = ENGINE_PIECE / width_of(r);
    if (r->args.kind == TN_COMM_REDUCE_SCATTER)
        room /= (uint64_t)r->comm->count;
    return left < room ? left : room;
}

static unsigned char *scratch(tn_comm *comm, int index)
{
    if (!comm->scratch[index]) {
        /* Slices have a rounded size, and so may be a little more in all. */
        const size_t bytes = ENGINE_PIECE + (size_t)comm->count * 16;
        comm->scratch[index] = malloc(bytes);
        if (!comm->scratch[index])
            engine_fail(comm, "malloc", MPI_ERR_NO_MEM);
    }
    return comm->scratch[index];
}

/* The slice of a piece that a rank reduces. */
typedef struct span {
    uint64_t begin, count;
} span;

static span slice(const tn_comm_request *r, const engine_lane *lane, int32_t q)
{
    const uint64_t begin = slice_begin(r, lane->part, q);
    return (span){begin, slice_begin(r, lane->part, q + 1) - begin};
}

static void take(tn_comm_request *r, engine_lane *lane, int32_t q, int tag,
                 void *to, uint64_t count)
{
    if (count)
        engine_receive(r->comm, &lane->flight, q, tag, to, count * width_of(r));
}

static void give(tn_comm_request *r, engine_lane *lane, int32_t q, int tag,
                 const void *from, uint64_t count)
{
    if (count)
        engine_send(r->comm, &lane->flight, q, tag, from, count * width_of(r));
}

/* Elements that the contribution of each other rank takes in the scratch
 * memory. */
static uint64_t stride(const tn_comm_request *r, const engine_lane *lane)
{
    if (r->args.kind == TN_COMM_REDUCE_SCATTER || is_pairwise(r))
        return lane->part;
    return slice(r, lane, r->comm->rank).count;
}

static unsigned char *place(const tn_comm_request *r, const engine_lane *lane,
                            unsigned char *area, int32_t q)
{
    const uint64_t slot = is_pairwise(r) ? 0 : (uint64_t)q;
    return area + slot * stride(r, lane) * width_of(r);
}

static void post_first(tn_comm_request *r, engine_lane *lane, int32_t q, int tag,
                       unsigned char *area, bool takes)
{
    const tn_comm_args *args = &r->args;
    const uint64_t n = args->count, part_ = lane->part, at = lane->offset;
    const uint64_t own = (uint64_t)r->comm->rank;
    span s;
    switch (args->kind) {
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_REDUCE_SCATTER:
        if (takes) {
            take(r, lane, q, tag, place(r, lane, area, q), stride(r, lane));
            break;
        }
        s = args->kind == TN_COMM_REDUCE_SCATTER
                ? (span){(uint64_t)q * n, part_}
            : is_pairwise(r) ? (span){0, part_}
                             : slice(r, lane, q);
        give(r, lane, q, tag, sent(r, at + s.begin), s.count);
        break;
    case TN_COMM_ALL_GATHER:
        if (takes)
            take(r, lane, q, tag, received(r, (uint64_t)q * n + at), part_);
        else
            give(r, lane, q, tag, sent(r, at), part_);
        break;
    case TN_COMM_ALL_TO_ALL:
        if (takes)
            take(r, lane, q, tag, received(r, (uint64_t)q * n + at), part_);
        else
            give(r, lane, q, tag, sent(r, (uint64_t)q * n + at), part_);
        break;
    case TN_COMM_BROADCAST:
        s = slice(r, lane, takes ? (int32_t)own : q);
        if (takes && q == args->root)
            take(r, lane, q, tag, received(r, at + s.begin), s.count);
        else if (!takes && (int32_t)own == args->root)
            give(r, lane, q, tag, sent(r, at + s.begin), s.count);
        break;
    default:
        break;
    }
}

static void post_second(tn_comm_request *r, engine_lane *lane, int32_t q, int tag,
                        bool takes)
{
    const bool casts = r->args.kind == TN_COMM_BROADCAST;
    const int32_t own = r->comm->rank, to = takes ? own : q;
    if (casts && to == r->args.root)
        return; /* root has all */
    span s = slice(r, lane, takes ? q : own);
    if (takes)
        take(r, lane, q, tag, received(r, lane->offset + s.begin), s.count);
    else if (casts && own == r->args.root)
        give(r, lane, q, tag, sent(r, lane->offset + s.begin), s.count);
    else
        give(r, lane, q, tag, received(r, lane->offset + s.begin), s.count);
}

static void post(tn_comm_request *r, engine_lane *lane, int index)
{
    tn_comm *comm = r->comm;
    const int tag = ENGINE_TAG_PIECE + 2 * index + lane->stage - 1;
    unsigned char *area = NULL;
    if (r->args.reduce && lane->stage == 1 && !(area = scratch(comm, index)))
        return;
    for (int takes = 1; takes >= 0; takes--)
        for (int32_t i = 1; i < comm->count; i++) {
            /* Each rank begins with another one. */
            const int32_t q = takes ? (comm->rank + comm->count - i) % comm->count
                                    : (comm->rank + i) % comm->count;
            if (lane->stage == 1)
                post_first(r, lane, q, tag, area, takes);
            else
                post_second(r, lane, q, tag, takes);
        }
}

static void reduce(tn_comm_request *r, engine_lane *lane, int index)
{
    tn_comm *comm = r->comm;
    const tn_comm_args *args = &r->args;
    const void *few[64], **source = few;
    if (comm->count > 64 &&
        !(source = malloc((size_t)comm->count * sizeof *source))) {
        engine_fail(comm, "malloc", MPI_ERR_NO_MEM);
        return;
    }
    const uint64_t count = stride(r, lane);
    uint64_t from = lane->offset, to = lane->offset;
    if (args->kind == TN_COMM_REDUCE_SCATTER)
        from += (uint64_t)comm->rank * args->count;
    else if (!is_pairwise(r))
        from = to = lane->offset + slice(r, lane, comm->rank).begin;
    for (int32_t q = 0; q < comm->count; q++)
        source[q] = q == comm->rank
                        ? sent(r, from)
                        : place(r, lane, comm->scratch[index], q);
    void *out = received(r, to);
    local_reduce(args->dtype, args->reduce, args->scale, source, comm->count, &out,
                 1, (size_t)count);
    if (source != few)
        free(source);
}

/* Copies this rank's own part. */
static void keep(tn_comm_request *r, const engine_lane *lane)
{
    const tn_comm_args *args = &r->args;
    const uint64_t own = (uint64_t)r->comm->rank * args->count;
    const void *from = sent(r, lane->offset);
    void *to = received(r, own + lane->offset);
    if (args->kind == TN_COMM_ALL_TO_ALL)
        from = sent(r, own + lane->offset);
    if (args->kind == TN_COMM_BROADCAST) {
        if (r->comm->rank != args->root || !args->recv || args->recv == args->send)
            return;
        to = received(r, lane->offset);
    }
    memcpy(to, from, lane->part * width_of(r));
}

static bool land(tn_comm_request *r, engine_lane *lane, int index)
{
    const tn_comm_args *args = &r->args;
    if (lane->stage == 2)
        return false;
    if (args->reduce) {
        reduce(r, lane, index);
        return args->kind == TN_COMM_ALL_REDUCE && !is_pairwise(r);
    }
    keep(r, lane);
    return args->kind == TN_COMM_BROADCAST;
}

static const engine_route route = {part, post, land};

void engine_collective_go(tn_comm_request *r)
{
    if (!r->began)
        meet_begin(r);
    if (!r->met && !meet(r))
        return;
    r->met = true;
    if (is_small(r)) {
        drain(r);
        r->done = true;
    } else {
        engine_fly(r, &route);
    }
}
