/* ptx_reach.c: memory accesses of the threads of a launch. For each access it
 * checks the address, the alignment, whether memory that is read was written
 * before, and in shared memory whether a barrier separates the access from
 * another thread's. */
#include <string.h>

#include "ptx_run.h"

void ptx_where(const group *g, const thread *t, const ptx_ins *i)
{
    sim_report("  in %s, line %d of its PTX, thread %u of group %u",
               g->launch->kernel->name, i->line, (unsigned)(t - g->thread),
               g->number);
}

bool ptx_refuse(group *g, const thread *t, const ptx_ins *i, const char *what)
{
    sim_report("%s", what);
    ptx_where(g, t, i);
    g->error = SIM_FOUND;
    return false;
}

/* Kinds of accesses to shared memory. */
enum { READS = 1, WRITES = 2 };

/* Records an access to a granule of shared memory. Returns false for a race
 * (accesses of two threads, one of which writes, without a barrier between
 * them) or a read of uninitialized memory. The kind is a compile-time constant,
 * since many launches spend much of their time here. */
static inline bool touch_grain(const group *g, touch *s, uint64_t who, int does)
{
    const uint64_t now = g->epoch, own = now | who;
    if (g->launch->sample)
        return true;
    const bool after_read = s->read >= now && s->read != own;
    if ((s->wrote >= now && s->wrote != own) ||
        ((does & WRITES) && after_read) ||
        ((does & READS) && s->wrote < g->first_epoch))
        return false;
    if (does & WRITES)
        s->wrote = own;
    if (does & READS)
        s->read = after_read ? now | BY_SEVERAL : own;
    return true;
}

/* Reports why touch_grain returned false. */
static bool touch_refused(const group *g, const touch *s, bool only_reads)
{
    const bool unwritten = s->wrote < g->first_epoch &&
                           (only_reads || s->read < g->epoch);
    sim_report(unwritten
                   ? "a read of byte %llu of shared memory, which nothing "
                     "has written"
                   : "a race: two threads reach byte %llu of shared memory, "
                     "one to write, with no barrier between",
               (unsigned long long)(s - g->touched)
                   << g->launch->kernel->shared_shift);
    return false;
}

static bool touch_shared(const group *g, const thread *t, const ptx_ins *i,
                         uint64_t at)
{
    const unsigned shift = g->launch->kernel->shared_shift;
    touch *const end = &g->touched[(at + i->bytes) >> shift];
    const bool atom = i->op == PTX_ATOM;
    const uint64_t who = atom ? BY_ATOMS : (uint64_t)(t - g->thread + 1);
    const int does = i->op == PTX_LD ? READS : atom ? READS | WRITES : WRITES;
    for (touch *s = &g->touched[at >> shift]; s < end; s++) {
        if (!touch_grain(g, s, who, does))
            return touch_refused(g, s, i->op == PTX_LD);
        if (i->op == PTX_COPY) /* the copy writes only when it is waited for */
            s->wrote = 0;
    }
    return true;
}

/* Checks an access to local memory. Returns false, with a report, if the thread
 * reads memory that it has not written. */
static bool touch_local(const thread *t, const ptx_ins *i, uint64_t at)
{
    if (i->op == PTX_ST)
        memset(t->local_written + at, 1, i->bytes);
    else if (memchr(t->local_written + at, 0, i->bytes)) {
        sim_report("a read of local memory that nothing has written");
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
        sim_report("%s of %d bytes at %#llx is misaligned", what, i->align,
                   (unsigned long long)at);
        g->error = TN_CU_MISALIGNED_ADDRESS;
    } else if (i->space == PTX_GLOBAL) {
        found = reach_global(g, i, at);
    } else if (at > size[i->space] || i->bytes > size[i->space] - at) {
        sim_report("%s of %d bytes at %llu of %zu bytes of %s memory", what,
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

static void atomic(const thread *t, unsigned char *at, const ptx_ins *i)
{
    uint64_t old = 0, new = slot_of(t, i->b)->u64;
    memcpy(&old, at, i->bytes);
    if (i->kind == PTX_ATOM_ADD)
        new += old;
    else if (i->kind == PTX_ATOM_MIN) /* an unsigned 32-bit minimum */
        new = (uint32_t)new < old ? (uint32_t)new : old;
    else if (i->kind == PTX_ATOM_CAS) /* 32 or 64 bits */
        new = memcmp(&new, &old, i->bytes) ? old : slot_of(t, i->c)->u64;
    memcpy(at, &new, i->bytes);
    slot_of(t, i->d)->u64 = old;
}

/* ---- accesses of a whole warp -------------------------------------------- */

/* Checks aligned accesses to shared memory of one granule each. If adjacent
 * threads read the same address, recording only the first and the last of them
 * has the same effect. */
static inline void reach_grains(const group *g, const ptx_ins *i,
                                const lanes *who, unsigned first,
                                const uint64_t *at, unsigned char **to,
                                int does)
{
    const ptx_kernel *k = g->launch->kernel;
    bool begins = true, may = false;
    for (unsigned n = 0; n < who->count; n++) {
        const bool ends = n + 1 == who->count || at[n] != at[n + 1];
        if (begins || ends || does != READS)
            may = at[n] < k->shared_bytes && !(at[n] & (i->align - 1u)) &&
                  touch_grain(g, &g->touched[at[n] >> k->shared_shift],
                              first + who->lane[n] + 1u, does);
        to[n] = may ? g->shared + at[n] : NULL;
        begins = ends;
    }
}

/* Checks several threads' accesses at once where possible. If an address
 * remains NULL, its access is checked separately, which reports the error. */
static void reach_together(group *g, const thread *warp, const ptx_ins *i,
                           const lanes *who, const uint64_t *at,
                           unsigned char **to)
{
    const unsigned first = (unsigned)(warp - g->thread);
    if (i->space == PTX_SHARED && i->op != PTX_ATOM &&
        i->bytes == 1u << g->launch->kernel->shared_shift) {
        if (i->op == PTX_LD)
            reach_grains(g, i, who, first, at, to, READS);
        else
            reach_grains(g, i, who, first, at, to, WRITES);
        return;
    }
    uint64_t low = 0, apart = 0;
    for (unsigned n = 0; n < who->count; n++) {
        low |= at[n];
        apart |= at[n] ^ at[0];
    }
    unsigned char *const one =
        i->space == PTX_PARAM && !apart
            ? ptx_reach(g, &warp[who->lane[0]], i, at[0])
            : NULL;
    for (unsigned n = 0; n < who->count; n++)
        to[n] = one;
    if (i->space == PTX_GLOBAL && i->op != PTX_ATOM && !(low & (i->align - 1u)))
        sim_memory_lanes(g->actor, i->op == PTX_ST, at, who->count, i->bytes,
                         to);
}

/* Reads a slot of each lane; for a whole warp with vector instructions. */
static inline void lanes_get(const ptx_slot *slots, const lanes *who,
                             uint64_t *restrict out)
{
    for (unsigned n = 0; n < WARP && who->count == WARP; n++)
        out[n] = slots[n].u64;
    for (unsigned n = 0; n < who->count && who->count < WARP; n++)
        out[n] = slots[who->lane[n]].u64;
}

/* Loads one slot of each thread. */
static void load(ptx_slot *slots, unsigned char *const *to, unsigned from,
                 const ptx_ins *i, const lanes *who)
{
    uint64_t value[WARP];
#define LOAD(type)                                                            \
    for (unsigned n = 0; n < who->count; n++) {                               \
        type x;                                                               \
        memcpy(&x, to[n] + from, sizeof x);                                   \
        value[n] = (uint64_t)x;                                               \
    }                                                                         \
    break
    switch (i->part * 2 + i->is_signed) {
    case 2: LOAD(uint8_t);
    case 3: LOAD(int8_t);
    case 4: LOAD(uint16_t);
    case 5: LOAD(int16_t);
    case 8: LOAD(uint32_t);
    case 9: LOAD(int32_t);
    default: LOAD(uint64_t);
    }
    lanes_put(slots, who, value);
}

static void store(const ptx_slot *slots, unsigned char *const *to,
                  unsigned from, const ptx_ins *i, const lanes *who)
{
    uint64_t value[WARP];
    lanes_get(slots, who, value);
#define STORE(bytes)                                                          \
    for (unsigned n = 0; n < who->count; n++)                                 \
        memcpy(to[n] + from, &value[n], bytes);                               \
    break
    switch (i->part) {
    case 1: STORE(1);
    case 2: STORE(2);
    case 4: STORE(4);
    default: STORE(8);
    }
}

bool ptx_access(group *g, thread *warp, const ptx_ins *i, const lanes *who)
{
    uint64_t at[WARP];
    unsigned char *to[WARP];
    lanes_get(slot_of(warp, i->a), who, at);
    for (unsigned n = 0; n < who->count; n++)
        at[n] += (uint64_t)i->imm;
    reach_together(g, warp, i, who, at, to);
    for (unsigned n = 0; n < who->count; n++) {
        const thread *t = &warp[who->lane[n]];
        if (!to[n] && !(to[n] = ptx_reach(g, t, i, at[n])))
            return false;
        if (i->op == PTX_ATOM)
            atomic(t, to[n], i);
    }
    for (unsigned v = 0; i->op != PTX_ATOM && v * i->part < i->bytes; v++)
        if (i->op == PTX_ST)
            store(slot_of(warp, i->slot[v]), to, v * i->part, i, who);
        else if (i->slot[v] >= 0)
            load(slot_of(warp, i->slot[v]), to, v * i->part, i, who);
    return true;
}
