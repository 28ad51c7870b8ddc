/* pair.c: send and recv: a mailbox with two pieces for each ordered pair of
 * ranks. A send is done when its last piece is in the mailbox. */
#include "local.h"

#include <string.h>

static uint64_t part_of(const tn_comm_request *r)
{
    uint64_t room = r->comm->hall->mail_bytes / local_dtype_bytes(r->args.dtype);
    uint64_t left = r->args.count - r->offset;
    return left < room ? left : room;
}

static bool go(tn_comm_request *r, local_mail *mail, bool sends)
{
    const size_t width = local_dtype_bytes(r->args.dtype);
    uint64_t written = atomic_load(&mail->written), read = atomic_load(&mail->read);
    if (sends ? written - read == 2 : written == read)
        return false;
    r->part = part_of(r);
    unsigned char *piece =
        local_hall_piece(r->comm, mail, sends ? written : read);
    if (sends) {
        if (!r->began)
            mail->check[written & 1] = r->args.check;
        memcpy(piece, (const unsigned char *)r->args.send + r->offset * width,
               r->part * width);
        atomic_store(&mail->written, written + 1);
    } else {
        memcpy((unsigned char *)r->args.recv + r->offset * width, piece,
               r->part * width);
        atomic_store(&mail->read, read + 1);
    }
    r->began = true;
    r->offset += r->part;
    local_hall_tell(r->comm);
    return true;
}

tn_status local_pair_go(tn_comm_request *r)
{
    tn_comm *comm = r->comm;
    const bool sends = r->args.kind == TN_COMM_SEND;
    local_mail *mail = sends ? local_hall_mail(comm, comm->rank, r->args.root)
                             : local_hall_mail(comm, r->args.root, comm->rank);
    uint32_t life = TN_COMM_WORKS;
    uint64_t now = local_now();
    if (now - comm->looked_ns > LOCAL_LOOK_MS * 1000000u) {
        comm->looked_ns = now;
        life = local_hall_life(comm, r->args.root);
    }
    while (!r->done) {
        if (!sends && !r->began) {
            uint64_t read = atomic_load(&mail->read);
            if (atomic_load(&mail->written) != read &&
                mail->check[read & 1] != r->args.check)
                return local_hall_break(comm, TN_COMM_MISMATCH, r->args.root);
        }
        if (!go(r, mail, sends))
            return life ? local_hall_break(comm, life, r->args.root) : TN_OK;
        r->done = r->offset == r->args.count;
    }
    return TN_OK;
}
