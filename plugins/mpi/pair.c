/* pair.c: send and recv. The first message has the check, and a small send's
 * data; those of a large one follow in pieces. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const tn_comm_request *r)
{
    return r->args.count * local_dtype_bytes(r->args.dtype);
}

static bool is_send(const tn_comm_request *r)
{
    return r->args.kind == TN_COMM_SEND;
}

static uint64_t part(const tn_comm_request *r, uint64_t left)
{
    const uint64_t room = ENGINE_PIECE / local_dtype_bytes(r->args.dtype);
    return left < room ? left : room;
}

static void post(tn_comm_request *r, engine_lane *lane, int index)
{
    const size_t width = local_dtype_bytes(r->args.dtype);
    const int tag = ENGINE_TAG_PAIR_PIECE + index;
    if (is_send(r))
        engine_send(r->comm, &lane->flight, r->args.root, tag,
                    (const unsigned char *)r->args.send + lane->offset * width,
                    lane->part * width);
    else
        engine_receive(r->comm, &lane->flight, r->args.root, tag,
                       (unsigned char *)r->args.recv + lane->offset * width,
                       lane->part * width);
}

static bool land(tn_comm_request *r, engine_lane *lane, int index)
{
    (void)r;
    (void)lane;
    (void)index;
    return false;
}

static const engine_route route = {part, post, land};

static void begin(tn_comm_request *r)
{
    const bool small = bytes_of(r) <= ENGINE_SMALL;
    r->began = true;
    r->began_ns = engine_now();
    r->box = malloc(sizeof(engine_head) + (small ? bytes_of(r) : 0));
    if (!r->box) {
        engine_fail(r->comm, "malloc", MPI_ERR_NO_MEM);
        return;
    }
    const size_t bytes = sizeof(engine_head) + (small ? bytes_of(r) : 0);
    if (!is_send(r)) {
        engine_receive(r->comm, &r->meet, r->args.root, ENGINE_TAG_PAIR, r->box,
                       bytes);
        return;
    }
    engine_head head = {.low = r->args.check, .high = r->args.check};
    memcpy(r->box, &head, sizeof head);
    if (small && bytes_of(r))
        memcpy(r->box + sizeof head, r->args.send, bytes_of(r));
    engine_send(r->comm, &r->meet, r->args.root, ENGINE_TAG_PAIR, r->box, bytes);
}

void engine_pair_go(tn_comm_request *r)
{
    if (!r->began)
        begin(r);
    if (!engine_landed(r->comm, &r->meet))
        return;
    if (!r->met && !is_send(r)) {
        engine_head head;
        memcpy(&head, r->box, sizeof head);
        if (head.low != r->args.check) {
            engine_suspect(r->comm, TN_COMM_MISMATCH, r->args.root);
            return;
        }
        if (bytes_of(r) && bytes_of(r) <= ENGINE_SMALL)
            memcpy(r->args.recv, r->box + sizeof head, bytes_of(r));
    }
    r->met = true;
    if (bytes_of(r) <= ENGINE_SMALL)
        r->done = true;
    else
        engine_fly(r, &route);
}
