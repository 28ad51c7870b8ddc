/* copy.c: defines the simulated driver's functions for memory and copies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- memory ------------------------------------------------------------- */

tn_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER(true);
    sim_memory_info(sim_current()->device, left, total);
    return 0;
}

tn_cu_result cuMemAlloc_v2(tn_cu_pointer *pointer, size_t bytes)
{
    ENTER(true);
    return sim_memory_alloc(sim_current()->device, bytes, pointer);
}

/* Waits for all work, like the real function. */
tn_cu_result cuMemFree_v2(tn_cu_pointer pointer)
{
    ENTER(true);
    sim_finish(sim_current());
    return pointer ? sim_memory_free(pointer) : 0;
}

/* ---- page-locked memory ------------------------------------------------- */

typedef struct locked {
    struct locked *next;
    unsigned char *at; /* host memory, owned */
    size_t bytes;
} locked;
static locked *locked_blocks;

tn_cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTER(true);
    locked *l = calloc(1, sizeof *l);
    if (l)
        l->at = malloc(bytes + 1);
    if (!l || !l->at) {
        free(l);
        return TN_CU_OUT_OF_MEMORY;
    }
    l->bytes = bytes;
    l->next = locked_blocks;
    locked_blocks = l;
    *out = l->at;
    return 0;
}

tn_cu_result cuMemFreeHost(void *pointer)
{
    ENTER(true);
    locked **l = &locked_blocks;
    while (*l && (*l)->at != pointer)
        l = &(*l)->next;
    locked *gone = *l;
    if (!gone || sim_is_used(gone))
        return sim_refuse(TN_CU_INVALID_VALUE,
                          gone ? "page-locked memory is freed, of which a copy "
                                 "waits"
                               : "cuMemFreeHost of what is no page-locked "
                                 "memory");
    *l = gone->next;
    free(gone->at);
    free(gone);
    return 0;
}

static locked *locked_of(const void *host, size_t bytes)
{
    const unsigned char *at = host;
    for (locked *l = locked_blocks; l; l = l->next)
        if (at >= l->at && at + bytes <= l->at + l->bytes)
            return l;
    return NULL;
}

/* ---- copies ------------------------------------------------------------- */

typedef struct copy {
    sim_work work;          /* must be the first field; owns the host data if
                             * that is a copy */
    tn_cu_pointer dst, src; /* device addresses; 0: host memory */
    unsigned char *host;
    size_t bytes;
    uint64_t sum; /* hash of the host memory when the copy was submitted, to
                   * detect changes */
    unsigned char value; /* value of a fill, which has no source */
} copy;

static uint64_t sum_of(const unsigned char *at, size_t bytes)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

static tn_cu_result run_copy(sim_work *work, const sim_actor *actor)
{
    const copy *c = (const copy *)work;
    tn_cu_result error = 0;
    unsigned char *dst = c->host, *src = c->host;
    if (c->src)
        src = sim_memory_at(actor, SIM_CARRY, "a copy's read", c->src,
                            c->bytes, &error);
    if (c->dst && !error)
        dst = sim_memory_at(actor, SIM_PUT,
                            src ? "a copy's write" : "a fill", c->dst,
                            c->bytes, &error);
    if (error)
        return error;
    if (!src)
        memset(dst, c->value, c->bytes);
    else
        memmove(dst, src, c->bytes);
    if (c->src && c->dst)
        sim_memory_carry(c->dst, c->src, c->bytes);
    if (!c->src && src && !work->owned && sum_of(src, c->bytes) != c->sum)
        return sim_refuse(
            SIM_FOUND, "the host has changed %zu bytes of a copy before it ran",
            c->bytes);
    return 0;
}

/* Submits a copy. The driver has read pageable host memory when the call
 * returns, so its bytes are copied here. */
static tn_cu_result give(tn_cu_stream stream, tn_cu_pointer dst,
                         tn_cu_pointer src, const void *host, size_t bytes,
                         unsigned char value)
{
    const locked *pinned = host ? locked_of(host, bytes) : NULL;
    if (host && sim_captures(stream))
        return sim_refuse(SIM_CAPTURE_UNSUPPORTED,
                          "a copy from or to the host is captured");
    copy c = {.work = {.run = run_copy, .uses = pinned,
                       .kind = (dst != 0) | (src != 0) << 1 |
                               (host != NULL) << 2},
              .dst = dst, .src = src, .host = (unsigned char *)(uintptr_t)host,
              .bytes = bytes, .value = value};
    if (host && !src && !pinned) {
        c.host = c.work.owned = malloc(bytes + 1);
        if (!c.host)
            return TN_CU_OUT_OF_MEMORY;
        memcpy(c.host, host, bytes);
    }
    if (pinned && !src)
        c.sum = sum_of(host, bytes);
    return sim_give(stream, &c, sizeof c);
}

/* Checks that the device address of a copy is device memory and the host
 * address is not. */
static tn_cu_result sides_check(tn_cu_pointer device, const void *host,
                                bool has_host)
{
    if (has_host && (!host || sim_memory_device((uintptr_t)host) >= 0))
        return sim_refuse(TN_CU_INVALID_VALUE, "a copy's host side at %p is %s",
                          host, host ? "device memory" : "nothing");
    if (sim_memory_device(device) < 0)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "a copy's device side at %#llx is no device memory",
                          device);
    return 0;
}

tn_cu_result cuMemcpyHtoDAsync_v2(tn_cu_pointer dst, const void *src,
                                  size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    TRY(sides_check(dst, src, true));
    return give(stream, dst, 0, src, bytes, 0);
}

tn_cu_result cuMemcpyDtoHAsync_v2(void *dst, tn_cu_pointer src, size_t bytes,
                                  tn_cu_stream stream)
{
    ENTER(true);
    TRY(sides_check(src, dst, true));
    return give(stream, 0, src, dst, bytes, 0);
}

tn_cu_result cuMemcpyDtoDAsync_v2(tn_cu_pointer dst, tn_cu_pointer src,
                                  size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    TRY(sides_check(dst, NULL, false));
    TRY(sides_check(src, NULL, false));
    if (sim_memory_device(dst) != sim_memory_device(src))
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "a copy within a device from device %d to device %d",
                          sim_memory_device(src), sim_memory_device(dst));
    return give(stream, dst, src, NULL, bytes, 0);
}

tn_cu_result cuCtxEnablePeerAccess(tn_cu_context peer, unsigned flags)
{
    ENTER(true);
    return peer == sim_current() || flags ? TN_CU_INVALID_VALUE : 0;
}

tn_cu_result cuMemcpyPeerAsync(tn_cu_pointer dst, tn_cu_context to,
                               tn_cu_pointer src, tn_cu_context from,
                               size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    if (sim_memory_device(dst) != to->device ||
        sim_memory_device(src) != from->device)
        return sim_refuse(
            TN_CU_INVALID_VALUE,
            "a copy from device %d to device %d of memory of %d and %d",
            from->device, to->device, sim_memory_device(src),
            sim_memory_device(dst));
    return give(stream, dst, src, NULL, bytes, 0);
}

tn_cu_result cuMemcpy2DAsync_v2(const tn_cu_rectangle *r, tn_cu_stream stream)
{
    bool from_host = r->src_type == TN_CU_HOST;
    bool to_host = r->dst_type == TN_CU_HOST;
    ENTER(true);
    if (r->src_pitch < r->width || r->dst_pitch < r->width)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "rows of %zu bytes every %zu and %zu bytes",
                          r->width, r->src_pitch, r->dst_pitch);
    if (!to_host)
        TRY(sides_check(r->dst_device, r->src_host, from_host));
    if (!from_host)
        TRY(sides_check(r->src_device, r->dst_host, to_host));
    for (size_t row = 0; row < r->height; row++) {
        const size_t to = row * r->dst_pitch, from = row * r->src_pitch;
        TRY(give(stream, to_host ? 0 : r->dst_device + to,
                 from_host ? 0 : r->src_device + from,
                 from_host ? (const char *)r->src_host + from
                 : to_host ? (char *)r->dst_host + to
                           : NULL,
                 r->width, 0));
    }
    return 0;
}

tn_cu_result cuMemsetD8Async(tn_cu_pointer pointer, unsigned char value,
                             size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    TRY(sides_check(pointer, NULL, false));
    return give(stream, pointer, 0, NULL, bytes, value);
}
