/* memory.c: memory that the ranks of a comm share, for tensors: see
 * memory_alloc in comm_plugin.h. One piece of shared memory has a part for each
 * rank, and every rank maps all of it. */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 64 /* holds LOCAL_READY */, PAGE = 4096 };

struct tn_comm_memory {
    tn_comm_memory *next;      /* of the comm */
    uint32_t number;           /* counts those of the comm: equal on all ranks */
    int32_t rank;
    unsigned char *base;       /* owned: the mapping */
    size_t mapped;
    size_t size, stride;       /* of a rank's part; from one to the next */
};

/* Learns whether all ranks have succeeded. */
static tn_status agree(tn_comm *comm, local_gathering *gather, bool good)
{
    uint8_t mine = good, all[LOCAL_MAX_RANKS];
    tn_status status = gather(comm, &mine, 1, all, 0x6d656d6f7279);
    for (int32_t r = 0; r < comm->count && status == TN_OK; r++)
        if (!all[r] && r != comm->rank)
            status = local_host->fail(TN_ERR_MEMORY, "local: rank %d has no room "
                                      "for shared memory", (int)r);
    return status != TN_OK ? status : good ? TN_OK : TN_ERR_MEMORY;
}

tn_status local_memory_alloc(tn_comm *comm, local_gathering *gather,
                             uint64_t bytes, void **out_data,
                             tn_comm_memory **out)
{
    char name[LOCAL_NAME + 64];
    tn_comm_memory *memory = calloc(1, sizeof *memory);
    const uint32_t number = ++comm->memories;
    const bool fits = bytes <= PTRDIFF_MAX / 2 / (uint64_t)comm->count;
    snprintf(name, sizeof name, "%s.m%u", comm->name, (unsigned)number);
    if (!memory || !fits)
        local_host->fail(TN_ERR_MEMORY, "local: no memory");
    else
        *memory = (tn_comm_memory){.number = number, .rank = comm->rank,
                                   .size = (size_t)bytes,
                                   .stride = ((size_t)bytes + PAGE - 1) / PAGE * PAGE};
    if (memory && fits && comm->rank == 0) {
        memory->mapped = HEAD + memory->stride * (size_t)comm->count;
        memory->base = local_segment_make(name, memory->mapped);
        if (memory->base)
            atomic_store((_Atomic uint64_t *)(void *)memory->base, LOCAL_READY);
    }
    tn_status status = agree(comm, gather, memory && fits &&
                                       (comm->rank || memory->base));
    if (status == TN_OK && comm->rank) {
        memory->base = local_segment_try(name, &memory->mapped);
        if (!memory->base)
            local_host->fail(TN_ERR_MEMORY, "local: cannot map shared memory");
    }
    if (status == TN_OK)
        status = agree(comm, gather, memory->base != NULL);
    if (comm->rank == 0)
        local_segment_remove(name);
    if (status != TN_OK) {
        local_memory_close(NULL, memory);
        return status;
    }
    memory->next = comm->memory;
    comm->memory = memory;
    *out = memory;
    *out_data = local_memory_at(memory, comm->rank, 0);
    return TN_OK;
}

void local_memory_close(tn_comm *comm, tn_comm_memory *memory)
{
    for (tn_comm_memory **at = comm ? &comm->memory : NULL; at && *at;
         at = &(*at)->next)
        if (*at == memory) {
            *at = memory->next;
            break;
        }
    if (memory && memory->base)
        local_segment_unmap(memory->base, memory->mapped);
    free(memory);
}

const tn_comm_memory *local_memory_find(const tn_comm *comm, const void *data,
                                        size_t bytes, uint64_t *place)
{
    const uintptr_t at = (uintptr_t)data;
    for (const tn_comm_memory *m = comm->memory; m; m = m->next) {
        const uintptr_t begin = (uintptr_t)local_memory_at(m, m->rank, 0);
        if (at < begin || at - begin > m->size || bytes > m->size - (at - begin))
            continue;
        *place = at - begin;
        return m;
    }
    return NULL;
}

uint32_t local_memory_number(const tn_comm_memory *memory)
{
    return memory ? memory->number : 0;
}

unsigned char *local_memory_at(const tn_comm_memory *memory, int32_t rank,
                               uint64_t place)
{
    return memory->base + HEAD + (size_t)rank * memory->stride + (size_t)place;
}
