/* hall.c: a comm: its shared memory, and who is there. */
#include "local.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A piece of a mailbox. There are count * count mailboxes, so that those of
 * many ranks are small. */
static size_t mail_bytes(int32_t count)
{
    return count <= 8 ? 32768 : 4096;
}

static size_t seats_bytes(int32_t count)
{
    size_t bytes = sizeof(local_hall) + (size_t)count * sizeof(local_seat);
    return (bytes + 4095) / 4096 * 4096;
}

size_t local_hall_chunk(int32_t count)
{
    const size_t part = LOCAL_CHUNKS / (size_t)count;
    return part > LOCAL_CHUNK ? LOCAL_CHUNK
           : part < LOCAL_LEAST_CHUNK ? LOCAL_LEAST_CHUNK
                                      : part / LOCAL_LINE * LOCAL_LINE;
}

static size_t areas_bytes(int32_t count)
{
    return (size_t)count * 2 * local_hall_chunk(count);
}

static size_t box_bytes(int32_t count)
{
    return sizeof(local_mail) + 2 * mail_bytes(count);
}

static size_t hall_bytes(int32_t count)
{
    return seats_bytes(count) + areas_bytes(count) +
           (size_t)count * (size_t)count * box_bytes(count);
}

unsigned char *local_hall_area(const tn_comm *comm, int32_t rank, uint64_t round)
{
    return (unsigned char *)comm->hall + seats_bytes(comm->count) +
           ((size_t)rank * 2 + (round & 1)) * local_hall_chunk(comm->count);
}

local_mail *local_hall_mail(const tn_comm *comm, int32_t from, int32_t to)
{
    unsigned char *boxes = (unsigned char *)comm->hall +
                           seats_bytes(comm->count) + areas_bytes(comm->count);
    size_t box = (size_t)from * (size_t)comm->count + (size_t)to;
    return (local_mail *)(void *)(boxes + box * box_bytes(comm->count));
}

unsigned char *local_hall_piece(const tn_comm *comm, local_mail *mail,
                                uint64_t number)
{
    return (unsigned char *)(mail + 1) + (number & 1) * comm->hall->mail_bytes;
}

void local_hall_tell(tn_comm *comm)
{
    local_hall *hall = comm->hall;
    atomic_fetch_add(&hall->event, 1);
    if (atomic_load(&hall->sleepers))
        syscall(SYS_futex, &hall->event, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void local_hall_sleep(tn_comm *comm, uint32_t event, uint64_t timeout_ns)
{
    local_hall *hall = comm->hall;
    struct timespec wait = {.tv_nsec = (long)timeout_ns};
    atomic_fetch_add(&hall->sleepers, 1);
    syscall(SYS_futex, &hall->event, FUTEX_WAIT, event, &wait, NULL, 0);
    atomic_fetch_sub(&hall->sleepers, 1);
}

/* ---- what broke it -------------------------------------------------------- */

tn_status local_hall_broken(tn_comm *comm)
{
    static const char *const why[] = {
        [TN_COMM_MISMATCH] = "has begun another collective",
        [TN_COMM_LOST] = "has ended",
        [TN_COMM_LEFT] = "has left",
    };
    if (comm->reason == TN_COMM_ABORTED)
        return local_host->fail(TN_ERR_STATE, "local: the job was aborted");
    return local_host->fail(TN_ERR_STATE, "local: rank %d %s",
                            (int)comm->member[comm->peer], why[comm->reason]);
}

tn_status local_hall_break(tn_comm *comm, uint32_t reason, int32_t peer)
{
    comm->reason = reason;
    comm->peer = peer;
    return local_hall_broken(comm);
}

uint32_t local_hall_life(tn_comm *comm, int32_t rank)
{
    if (atomic_load(&comm->hall->seat[rank].closed))
        return TN_COMM_LEFT;
    uint32_t life = local_job_life(comm->job, comm->member[rank]);
    return life == TN_COMM_ALIVE  ? TN_COMM_WORKS
           : life == TN_COMM_GONE ? TN_COMM_LOST
                                  : TN_COMM_LEFT;
}

/* ---- entering and leaving ------------------------------------------------- */

static local_hall *hall_make(const char *name, int32_t count, size_t *bytes)
{
    *bytes = hall_bytes(count);
    local_hall *hall = local_segment_make(name, *bytes);
    if (!hall)
        return NULL;
    hall->count = count;
    hall->mail_bytes = mail_bytes(count);
    atomic_store(&hall->ready, LOCAL_READY);
    return hall;
}

tn_comm *local_hall_enter(local_job *job, const int32_t *member, int32_t count,
                          int32_t rank, const char *name)
{
    const uint64_t deadline = local_now() + job->timeout_ns;
    tn_comm *comm = calloc(1, sizeof *comm);
    int32_t *own = comm ? malloc((size_t)count * sizeof *own) : NULL;
    if (!own) {
        free(comm);
        local_host->fail(TN_ERR_MEMORY, "local: no memory");
        return NULL;
    }
    memcpy(own, member, (size_t)count * sizeof *own);
    comm->job = job;
    job->references++;
    comm->member = own;
    comm->rank = rank;
    comm->count = count;
    comm->end = &comm->first;
    cpu_set_t processors;
    if (!sched_getaffinity(0, sizeof processors, &processors) &&
        CPU_COUNT(&processors) >= job->count)
        comm->spin_ns = LOCAL_SPIN_NS;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    if (rank == 0)
        comm->hall = hall_make(name, count, &comm->hall_bytes);
    bool waits = rank != 0 || comm->hall;
    while (waits && !comm->hall) {
        comm->hall = local_segment_try(name, &comm->hall_bytes);
        waits = comm->hall || local_job_patience(job, member, count, deadline,
                                                 "joining a group");
    }
    if (waits)
        atomic_fetch_add(&comm->hall->joined, 1);
    while (waits && atomic_load(&comm->hall->joined) < count)
        waits = local_job_patience(job, member, count, deadline,
                                   "joining a group");
    if (rank == 0)
        local_segment_remove(name);
    if (waits)
        return comm;
    local_hall_leave(comm);
    return NULL;
}

void local_hall_leave(tn_comm *comm)
{
    if (comm->hall) {
        atomic_store(&comm->hall->seat[comm->rank].closed, 1);
        local_hall_tell(comm);
        local_segment_unmap(comm->hall, comm->hall_bytes);
    }
    local_job_drop(comm->job);
    free(comm->member);
    free(comm);
}
