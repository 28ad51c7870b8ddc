/* ptx_reach.c: what the threads of a launch read and write. Every access is
 * checked: its place, its alignment, whether what it reads was written, and in
 * shared memory whether a barrier lies between it and another thread's. */
#include <string.h>

#include "ptx_run.h"

void ptx_where(const group *g, const thread *t, const ptx_ins *i)
{
    sim_say("  in %s, line %d of its PTX, thread %u of group %u",
            g->launch->kernel->name, i->line, (unsigned)(t - g->thread),
            g->number);
}

/* False, said: two threads without a barrier between them, one of which
 * writes; or a read of what none has written. What is done is known where this
 * is compiled: most of the time of many a launch goes here. */
static inline bool touch_grains(const group *g, uint16_t who, uint64_t from,
                                uint64_t to, bool reads, bool writes)
{
    for (uint64_t n = from; n < to; n++) {
        touch *s = &g->touched[n];
        const bool after_write = s->wrote_in == g->epoch && s->writer != who;
        const bool after_read = s->read_in == g->epoch && s->reader != who;
        if (after_write || (after_read && writes)) {
            sim_say("a race: two threads reach byte %llu of shared memory, one "
                    "to write, with no barrier between",
                    (unsigned long long)n << g->launch->kernel->shared_shift);
            return false;
        }
        if (reads && s->wrote_in < g->first_epoch) {
            sim_say("a read of byte %llu of shared memory, which nothing has "
                    "written",
                    (unsigned long long)n << g->launch->kernel->shared_shift);
            return false;
        }
        if (writes) {
            s->wrote_in = g->epoch;
            s->writer = who;
        }
        if (reads) {
            s->reader = after_read ? BY_SEVERAL : who;
            s->read_in = g->epoch;
        }
    }
    return true;
}

static bool touch_shared(const group *g, const thread *t, const ptx_ins *i,
                         uint64_t at)
{
    const unsigned shift = g->launch->kernel->shared_shift;
    const uint64_t from = at >> shift, to = (at + i->bytes) >> shift;
    const uint16_t who = (uint16_t)(t - g->thread + 1);
    switch (i->op) {
    case PTX_LD:
        return touch_grains(g, who, from, to, true, false);
    case PTX_ST:
        return touch_grains(g, who, from, to, false, true);
    case PTX_ATOM:
        return touch_grains(g, BY_ATOMS, from, to, true, true);
    default: /* a copy: it is written when it is waited for */
        if (!touch_grains(g, who, from, to, false, true))
            return false;
        for (uint64_t n = from; n < to; n++)
            g->touched[n].wrote_in = 0;
        return true;
    }
}

/* False, said: a read of what the thread has not written. */
static bool touch_local(const thread *t, const ptx_ins *i, uint64_t at)
{
    if (i->op == PTX_ST)
        memset(t->local_written + at, 1, i->bytes);
    else if (memchr(t->local_written + at, 0, i->bytes)) {
        sim_say("a read of local memory that nothing has written");
        return false;
    }
    return true;
}

static void *reach_global(group *g, const ptx_ins *i, uint64_t at)
{
    tn_cu_result error = 0;
    void *found = NULL;
    if (i->op != PTX_ST)
        found = sim_memory_at(g->actor, SIM_READ, "a read", at, i->bytes,
                              &error);
    if (i->op != PTX_LD && !error)
        found = sim_memory_at(g->actor, SIM_WRITE, "a write", at, i->bytes,
                              &error);
    g->error = error;
    return found;
}

void *ptx_reach(group *g, const thread *t, const ptx_ins *i, uint64_t at)
{
    const ptx_kernel *k = g->launch->kernel;
    const char *what =
        i->op == PTX_ST || i->op == PTX_COPY ? "a write" : "a read";
    static const char *const name[] = {"", "shared", "local", "parameter"};
    const size_t size[] = {0, k->shared_bytes, k->local_bytes,
                           k->parameter_bytes};
    unsigned char *const base[] = {NULL, g->shared, t->local,
                                   g->launch->parameters};
    void *found = NULL;
    if (at & (i->align - 1u)) {
        sim_say("%s of %d bytes at %#llx is misaligned", what, i->align,
                (unsigned long long)at);
        g->error = TN_CU_MISALIGNED_ADDRESS;
    } else if (i->space == PTX_GLOBAL) {
        found = reach_global(g, i, at);
    } else if (at > size[i->space] || i->bytes > size[i->space] - at) {
        sim_say("%s of %d bytes at %llu of %zu bytes of %s memory", what,
                i->bytes, (unsigned long long)at, size[i->space],
                name[i->space]);
        g->error = TN_CU_ILLEGAL_ADDRESS;
    } else if ((i->space == PTX_SHARED && !touch_shared(g, t, i, at)) ||
               (i->space == PTX_LOCAL && !touch_local(t, i, at))) {
        g->error = SIM_FOUND;
    } else {
        found = base[i->space] + at;
    }
    if (!found)
        ptx_where(g, t, i);
    return found;
}

/* Slots of the access's vector, one behind the other in memory. */
static void load(const thread *t, const unsigned char *from, const ptx_ins *i)
{
    const int32_t to[] = {i->d, i->b, i->c, i->e};
    for (int n = 0; n * i->part < i->bytes; n++, from += i->part) {
        ptx_slot raw = {0};
        switch (i->part) {
        case 1:
            raw.u64 = *from;
            break;
        case 2:
            memcpy(&raw, from, 2);
            break;
        case 4:
            memcpy(&raw, from, 4);
            break;
        default:
            memcpy(&raw, from, 8);
        }
        if (i->is_signed && raw.u64 >> (8 * i->part - 1) & 1 && i->part < 8)
            raw.u64 |= ~0ull << 8 * i->part;
        if (to[n] >= 0)
            *slot_of(t, to[n]) = raw;
    }
}

static void store(const thread *t, unsigned char *to, const ptx_ins *i)
{
    const int32_t from[] = {i->d, i->b, i->c, i->e};
    for (int n = 0; n * i->part < i->bytes; n++, to += i->part) {
        const ptx_slot *slot = slot_of(t, from[n]);
        switch (i->part) {
        case 1:
            *to = (unsigned char)slot->u16;
            break;
        case 2:
            memcpy(to, slot, 2);
            break;
        case 4:
            memcpy(to, slot, 4);
            break;
        default:
            memcpy(to, slot, 8);
        }
    }
}

static void atomic(const thread *t, unsigned char *at, const ptx_ins *i)
{
    uint64_t old = 0, new = 0;
    memcpy(&old, at, i->bytes);
    const uint64_t mask = i->bytes == 8 ? ~0ull : 0xffffffffull;
    const uint64_t b = slot_of(t, i->b)->u64;
    switch (i->kind) {
    case PTX_ATOM_ADD:
        new = old + b;
        break;
    case PTX_ATOM_CAS:
        new = old == (b & mask) ? slot_of(t, i->c)->u64 : old;
        break;
    default:
        new = b;
        break;
    }
    memcpy(at, &new, i->bytes);
    slot_of(t, i->d)->u64 = old;
}

static uint64_t address(const thread *t, const ptx_ins *i)
{
    return slot_of(t, i->a)->u64 + (uint64_t)i->imm;
}

/* Where the first of neighbours in global memory reaches, whose places stand
 * one behind the other; NULL if they do not, or may not: then each is looked
 * at. */
static unsigned char *reach_in_row(group *g, const thread *warp,
                                   const ptx_ins *i, const lanes *who)
{
    tn_cu_result error;
    const uint64_t first = address(&warp[who->lane[0]], i);
    if (i->space != PTX_GLOBAL || i->op == PTX_ATOM || first % i->align)
        return NULL;
    for (unsigned n = 1; n < who->count; n++)
        if (address(&warp[who->lane[n]], i) != first + n * i->bytes)
            return NULL;
    return sim_memory_at(g->actor, i->op == PTX_LD ? SIM_READ : SIM_WRITE, NULL,
                         first, (size_t)who->count * i->bytes, &error);
}

bool ptx_access(group *g, thread *warp, const ptx_ins *i, const lanes *who)
{
    unsigned char *const row = reach_in_row(g, warp, i, who);
    for (unsigned n = 0; n < who->count; n++) {
        thread *t = &warp[who->lane[n]];
        unsigned char *at =
            row ? row + n * i->bytes : ptx_reach(g, t, i, address(t, i));
        if (!at)
            return false;
        if (i->op == PTX_LD)
            load(t, at, i);
        else if (i->op == PTX_ST)
            store(t, at, i);
        else
            atomic(t, at, i);
    }
    return true;
}
