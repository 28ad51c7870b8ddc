/* ptx_run.c: runs the warps of a launch, one after another. A warp runs until
 * all of its threads wait at a barrier or have ended. Threads at the same
 * instruction run together, the threads with the smallest instruction index
 * first. So threads converge after a branch, an instruction is decoded once for
 * 32 threads, and accesses of adjacent threads are checked together. With
 * TENON_SIM_SEED, blocks, warps and threads run in a random order, and in some
 * warps one thread at a time runs to the next barrier. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/kernel/narrow_float.h"
#include "ptx_run.h"

/* ---- functions that the instruction table uses --------------------------- */

__extension__ typedef unsigned __int128 ptx_u128;
__extension__ typedef __int128 ptx_s128;

/* Reads a slot's value as each type. The upper bytes of a narrow value are
 * undefined. No result is a byte. */
#define BYTE(kind, type)                                                      \
    typedef type ptx_##kind;                                                  \
    static inline type get_##kind(uint64_t raw) { return (type)raw; }
#define WHOLE(kind, type, bits)                                               \
    BYTE(kind, type)                                                          \
    static inline uint64_t put_##kind(type x) { return (bits)x; }
#define REAL(kind, type, bits)                                                \
    typedef type ptx_##kind;                                                  \
    static inline type get_##kind(uint64_t raw)                               \
    {                                                                         \
        return (ptx_slot){.bits = (ptx_##bits)raw}.kind;                      \
    }                                                                         \
    static inline uint64_t put_##kind(type x)                                 \
    {                                                                         \
        return (ptx_slot){.kind = x}.bits;                                    \
    }
BYTE(u8, uint8_t)
BYTE(s8, int8_t)
WHOLE(pred, uint8_t, uint8_t)
WHOLE(u16, uint16_t, uint16_t)
WHOLE(s16, int16_t, uint16_t)
WHOLE(u32, uint32_t, uint32_t)
WHOLE(s32, int32_t, uint32_t)
WHOLE(u64, uint64_t, uint64_t)
WHOLE(s64, int64_t, uint64_t)
REAL(f32, float, u32)
REAL(f64, double, u64)

/* Computes an instruction without side effects for each lane. The results of a
 * whole warp are first stored in a local array, so that the compiler can assume
 * that operands do not change, and vectorizes over lanes. */
#define A(kind) get_##kind(a[n].u64)
#define B(kind) get_##kind(b[n].u64)
#define C(kind) get_##kind(c[n].u64)
#define E(kind) get_##kind(e[n].u64)
#define EACH(kind, value)                                                     \
    if (who->count == WARP) {                                                 \
        uint64_t all_of[WARP];                                                \
        for (unsigned n = 0; n < WARP; n++)                                   \
            all_of[n] = put_##kind((ptx_##kind)(value));                      \
        lanes_put(d, who, all_of);                                            \
    } else {                                                                  \
        for (unsigned k = 0; k < who->count; k++) {                           \
            const unsigned n = who->lane[k];                                  \
            d[n].u64 = put_##kind((ptx_##kind)(value));                       \
        }                                                                     \
    }

static uint32_t ptx_field(uint32_t x, uint32_t at, uint32_t length)
{
    uint64_t field = at > 31 ? 0 : x >> at;
    return (uint32_t)(length > 31 ? field : field & ((1ull << length) - 1));
}

static uint32_t ptx_insert(uint32_t field, uint32_t into, uint32_t at,
                           uint32_t length)
{
    uint64_t mask = at > 31 ? 0 : ((1ull << (length > 32 ? 32 : length)) - 1)
                                      << at;
    return (uint32_t)((into & ~mask) | ((uint64_t)field << (at & 31) & mask));
}

static uint32_t ptx_permute(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t which = selector >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (which & 7)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * i;
    }
    return out;
}

/* Returns sum plus the products of the four signed bytes of a and b. */
static uint32_t ptx_dot4(uint32_t a, uint32_t b, uint32_t sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i));
    return sum;
}

/* Returns the minimum. If one operand is NaN, returns the other; -0 is less
 * than +0. The maximum is the negated minimum of the negated operands. */
#define LEAST(t, T)                                                           \
    static T ptx_min_##t(T x, T y)                                            \
    {                                                                         \
        if (x != x || y != y)                                                 \
            return x != x ? y : x;                                            \
        return x < y || (x == y && signbit(x)) ? x : y;                       \
    }
LEAST(f32, float)
LEAST(f64, double)

#define SATURATE(name, T, edge, most, least, of_nan)                          \
    static T name(double x)                                                   \
    {                                                                         \
        return x != x ? of_nan : x >= edge ? most : x <= -edge ? least : (T)x; \
    }
SATURATE(ptx_to_s32, int32_t, 0x1p31, INT32_MAX, INT32_MIN, 0)
SATURATE(ptx_to_s64, int64_t, 0x1p63, INT64_MAX, INT64_MIN, INT64_MIN)

/* Converts to half precision; every NaN becomes the GPU's canonical NaN. */
static uint16_t ptx_to_half(float x)
{
    return (uint16_t)(x != x ? 0x7fff : tn__narrow_encode(TN_F16, x));
}

static float ptx_of_half(uint16_t code)
{
    const uint32_t nan = 0x7fffffff;
    float x = tn__narrow_decode(TN_F16, code);
    if (x != x)
        memcpy(&x, &nan, sizeof x);
    return x;
}

static uint32_t ptx_halves(tn_dtype dtype, float high, float low)
{
    return tn__narrow_encode(dtype, high) << 16 |
           tn__narrow_encode(dtype, low);
}

int ptx_row(const char *name)
{
    static const char *const names[] = {
#define PTX(name, kind, value) name,
#include "ptx.def"
    };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(names[i], name) == 0)
            return PTX_TABLE + i;
    return -1;
}

/* ---- asynchronous copies ------------------------------------------------- */

static bool copy_begin(group *g, thread *t, const ptx_ins *i)
{
    const uint64_t to = slot_of(t, i->a)->u32;
    if (t->copy_count == MOST_COPIES)
        return ptx_refuse(
            g, t, i, "more copies under way than the simulator knows");
    t->copy[t->copy_count++] = (copy){slot_of(t, i->b)->u64, to,
                                      slot_of(t, i->c)->u32, t->commits, i};
    return ptx_reach(g, t, i, to) != NULL;
}

/* Completes all committed groups of copies except the last `left`. */
static bool copies_end(group *g, thread *t, uint32_t left)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < t->copy_count; n++) {
        const copy *c = &t->copy[n];
        if (c->group + left >= t->commits) {
            t->copy[kept++] = *c;
            continue;
        }
        ptx_ins store = *c->ins, load = store;
        store.op = PTX_ST;
        load.op = PTX_LD;
        load.space = PTX_GLOBAL;
        load.bytes = (uint8_t)c->bytes;
        const void *from = c->bytes ? ptx_reach(g, t, &load, c->from) : NULL;
        void *to = c->bytes && !from ? NULL : ptx_reach(g, t, &store, c->to);
        if (!to)
            return false;
        memset(to, 0, c->ins->bytes);
        if (from)
            memcpy(to, from, c->bytes);
    }
    t->copy_count = kept;
    return true;
}

/* ---- warp-level instructions --------------------------------------------- */

static float half_of(const ptx_ins *i, uint32_t code)
{
    return tn__narrow_decode(i->kind ? TN_BF16 : TN_F16, code & 0xffff);
}

/* Runs mma.sync. The layout of the operands in the lanes is defined in PTX ISA,
 * "Matrix Fragments for mma.m16n8k16 with floating point type". Products are
 * added in the order of increasing k. */
static void mma(thread *warp, const ptx_ins *i)
{
    float a[16][16], b[16][8], c[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        const thread *t = &warp[lane];
        const int row = lane / 4, column = lane % 4 * 2;
        for (int n = 0; n < 8; n++)
            a[row + n / 2 % 2 * 8][column + n / 4 * 8 + n % 2] =
                half_of(i, slot_of(t, i[1].slot[n / 2])->u32 >> n % 2 * 16);
        for (int n = 0; n < 4; n++) {
            b[column + n / 2 * 8 + n % 2][row] =
                half_of(i, slot_of(t, i[2].slot[n / 2])->u32 >> n % 2 * 16);
            c[row + n / 2 * 8][column + n % 2] = slot_of(t, i[3].slot[n])->f32;
        }
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int n = 0; n < 4; n++) {
            const int row = lane / 4 + n / 2 * 8;
            const int column = lane % 4 * 2 + n % 2;
            float sum = c[row][column];
            for (int k = 0; k < 16; k++)
                sum = fmaf(a[row][k], b[k][column], sum);
            slot_of(&warp[lane], i->slot[n])->f32 = sum;
        }
}

/* Runs ldmatrix: each lane has the address of one row of one of four 8 x 8
 * matrices. */
static bool ldmatrix(group *g, thread *warp, const ptx_ins *i)
{
    uint16_t half[WARP][8];
    ptx_ins load = *i;
    load.op = PTX_LD;
    for (int lane = 0; lane < WARP; lane++) {
        const thread *t = &warp[lane];
        const void *at = ptx_reach(g, t, &load,
                               slot_of(t, i->a)->u32 + (uint64_t)i->imm);
        if (!at)
            return false;
        memcpy(half[lane], at, sizeof half[lane]);
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int m = 0; m < 4; m++) {
            const int row = lane / 4, pair = lane % 4 * 2;
            const uint32_t low = i->kind ? half[8 * m + pair][row]
                                         : half[8 * m + row][pair];
            const uint32_t high = i->kind ? half[8 * m + pair + 1][row]
                                          : half[8 * m + row][pair + 1];
            slot_of(&warp[lane], i->slot[m])->u32 = high << 16 | low;
        }
    return true;
}

static void shuffle(thread *warp, const ptx_ins *i)
{
    uint32_t value[WARP];
    for (int lane = 0; lane < WARP; lane++)
        value[lane] = slot_of(&warp[lane], i->b)->u32;
    for (uint32_t lane = 0; lane < WARP; lane++) {
        const thread *t = &warp[lane];
        slot_of(t, i->d)->u32 = value[lane ^ (slot_of(t, i->c)->u32 & 31)];
    }
}

/* Returns the last thread that does not wait at the barrier at which the thread
 * `one` waits. */
static const thread *elsewhere(const thread *all, unsigned count,
                               const thread *one)
{
    while (count--)
        if (all[count].state != one->state || all[count].at != one->at)
            return &all[count];
    return NULL;
}

/* Runs the instruction at which all of a warp's threads wait. Returns whether
 * they continue. */
static bool warp_meets(group *g, thread *warp, unsigned count)
{
    const thread *meets = NULL;
    for (unsigned n = 0; n < count; n++)
        if (warp[n].state == MEETS)
            meets = &warp[n];
    if (!meets || g->error)
        return false;
    const ptx_ins *i = &g->launch->kernel->ins[meets->at];
    if (count != WARP || elsewhere(warp, count, meets))
        return ptx_refuse(
            g, meets, i,
            "an instruction of a warp that not all its threads reach");
    if (i->op == PTX_MMA)
        mma(warp, i);
    else if (i->op == PTX_SHUFFLE)
        shuffle(warp, i);
    else if (!ldmatrix(g, warp, i))
        return false;
    for (unsigned n = 0; n < count; n++) {
        warp[n].at += i->op == PTX_MMA ? 4 : 1;
        warp[n].state = RUNS;
    }
    return true;
}

/* ---- instructions of single threads -------------------------------------- */

static void stand(thread *warp, const lanes *who, int32_t at, int state)
{
    for (unsigned n = 0; n < who->count; n++) {
        warp[who->lane[n]].at = at;
        warp[who->lane[n]].state = state;
    }
}

static bool end(group *g, thread *t)
{
    t->state = ENDED;
    if (!t->copy_count)
        return true;
    return ptx_refuse(g, t, t->copy[0].ins, "a copy that nothing waits for");
}

/* Stores the lanes for which the guard predicate is true. */
static void guarded(const thread *warp, const ptx_ins *i, const lanes *all,
                    lanes *some)
{
    const ptx_slot *guard = slot_of(warp, i->guard);
    unsigned count = 0;
    for (unsigned n = 0; n < all->count; n++) {
        some->lane[count] = all->lane[n];
        count += guard[all->lane[n]].pred != i->unless;
    }
    some->count = count;
}

/* Runs lanes that are at the same instruction, until they diverge, reach
 * instruction `others`, where other threads are, wait, end or fail. */
static void run_lanes(group *g, thread *warp, const lanes *all, int32_t others)
{
    int32_t at = warp[all->lane[0]].at;
    bool goes_on = true;
    do {
        const ptx_ins *const i = &g->launch->kernel->ins[at++];
        g->steps++;
        lanes some;
        const lanes *who = all;
        if (i->guard >= 0) {
            guarded(warp, i, all, &some);
            who = &some;
            if (!some.count)
                continue;
        }
        ptx_slot *const d = slot_of(warp, i->d);
        const ptx_slot *const a = slot_of(warp, i->a);
        const ptx_slot *const b = slot_of(warp, i->b);
        const ptx_slot *const c = slot_of(warp, i->c);
        const ptx_slot *const e = slot_of(warp, i->e);
        switch (i->op) {
        case PTX_BRA:
            if (who->count == all->count) {
                at = i->target;
                break;
            }
            stand(warp, all, at, RUNS);
            stand(warp, who, i->target, RUNS);
            return;
        case PTX_BAR:
            stand(warp, all, at, RUNS);
            stand(warp, who, at, WAITS);
            return;
        case PTX_RET:
            stand(warp, all, at, RUNS);
            for (unsigned n = 0; n < who->count; n++)
                if (!end(g, &warp[who->lane[n]]))
                    return;
            return;
        case PTX_MMA:
        case PTX_LDMATRIX:
        case PTX_SHUFFLE:
            stand(warp, all, at, RUNS);
            stand(warp, who, at - 1, MEETS); /* waits until the warp has run the
                                              * instruction */
            return;
        case PTX_COPY:
        case PTX_WAIT:
            for (unsigned n = 0; n < who->count && goes_on; n++) {
                thread *t = &warp[who->lane[n]];
                goes_on = i->op == PTX_COPY
                              ? copy_begin(g, t, i)
                              : copies_end(g, t, slot_of(t, i->a)->u32);
            }
            break;
        case PTX_COMMIT:
            for (unsigned n = 0; n < who->count; n++)
                warp[who->lane[n]].commits++;
            break;
        case PTX_LD:
        case PTX_ST:
        case PTX_ATOM:
            goes_on = ptx_access(g, warp, i, who);
            break;
        case PTX_PACK:
            EACH(u64, (A(u64) & ((1ull << i->imm) - 1)) | B(u64) << i->imm)
            break;
        case PTX_UNPACK:
            EACH(u64, A(u64) >> i->imm & (~0ull >> (64 - 8 * i->bytes)))
            break;
            /* Numbers the cases in the order of the table. */
            enum { BEFORE = __COUNTER__ };
#define PTX(name, kind, value)                                                \
        case PTX_TABLE + (__COUNTER__ - BEFORE - 1):                          \
            EACH(kind, value)                                                 \
            break;
#include "ptx.def"
        }
    } while (goes_on && at < others);
    stand(warp, all, at, goes_on ? RUNS : FAILED);
}

/* ---- thread blocks ------------------------------------------------------- */

/* Returns whether all threads wait at one barrier or have ended. */
static bool barrier_is_whole(group *g)
{
    const ptx_ins *const ins = g->launch->kernel->ins;
    const thread *waits = g->thread, *const end = waits + g->launch->block;
    while (waits < end && waits->state != WAITS)
        waits++;
    const thread *const other =
        waits < end ? elsewhere(g->thread, g->launch->block, waits) : NULL;
    if (!other)
        return true;
    ptx_refuse(g, waits, &ins[waits->at - 1],
               "a barrier that not all threads of a group reach");
    ptx_where(g, other, &ins[other->at - 1]);
    return false;
}

/* Sets constants and special registers; for later blocks of a launch only the
 * block's index. */
static void first_slots(const group *g, const thread *t, bool of_launch)
{
    const ptx_kernel *k = g->launch->kernel;
    const unsigned tid = (unsigned)(t - g->thread);
    for (int32_t i = 0; i < k->first_count; i++) {
        const ptx_first *f = &k->first[i];
        const uint64_t special[] = {
            [PTX_TID] = tid,
            [PTX_NTID] = g->launch->block,
            [PTX_CTAID] = g->number,
            [PTX_NCTAID] = g->launch->grid,
            [PTX_LANE] = tid % 32,
            [PTX_CONSTANT] = f->value,
        };
        if (of_launch || f->what == PTX_CTAID)
            slot_of(t, f->slot)->u64 = special[f->what];
    }
}

static void thread_begin(const group *g, thread *t)
{
    const ptx_kernel *k = g->launch->kernel;
    t->at = 0;
    t->state = RUNS;
    t->copy_count = t->commits = 0;
    memset(t->local, 0xa5, k->local_bytes);
    memset(t->local_written, 0, k->local_bytes);
    first_slots(g, t, false);
}

/* Selects the running threads of a warp that have the smallest instruction
 * index. Returns the next smallest index (INT32_MAX if there is none).
 * one_by_one: selects only the first running thread, counted from `from`. */
static int32_t next_lanes(const thread *warp, unsigned count, unsigned from,
                          bool one_by_one, lanes *who)
{
    int32_t at = INT32_MAX, others = INT32_MAX;
    who->count = 0;
    for (unsigned n = 0; n < count && one_by_one; n++) {
        const unsigned lane = (from + n) % count;
        if (warp[lane].state == RUNS) {
            who->lane[who->count++] = (uint8_t)lane;
            return others;
        }
    }
    for (unsigned n = 0; n < count; n++) {
        if (warp[n].state != RUNS)
            continue;
        if (warp[n].at < at) {
            others = at;
            at = warp[n].at;
            who->count = 0;
        }
        if (warp[n].at == at)
            who->lane[who->count++] = (uint8_t)n;
        else if (warp[n].at < others)
            others = warp[n].at;
    }
    return others;
}

/* Runs the threads of a warp until each waits or has ended. Returns how many
 * wait. */
static unsigned run_warp(group *g, thread *warp, unsigned count, unsigned from)
{
    const bool one_by_one = sim_random(2);
    unsigned live = 0;
    lanes who;
    for (unsigned n = 0; n < count; n++)
        if (warp[n].state != ENDED)
            warp[n].state = RUNS;
    do {
        int32_t others;
        while (!g->error && (others = next_lanes(warp, count, from, one_by_one,
                                                 &who), who.count))
            run_lanes(g, warp, &who, others);
    } while (warp_meets(g, warp, count));
    for (unsigned n = 0; n < count; n++)
        live += warp[n].state == WAITS;
    return live;
}

static void run_group(group *g)
{
    const unsigned count = g->launch->block;
    unsigned live = count;
    memset(g->shared, 0xa5, g->launch->kernel->shared_bytes);
    g->first_epoch = g->epoch += EPOCH;
    for (unsigned i = 0; i < count; i++)
        thread_begin(g, &g->thread[i]);
    while (live && !g->error) {
        const unsigned from = sim_random(count), warps = (count + 31) / WARP;
        live = 0;
        for (unsigned i = 0; i < warps && !g->error; i++) {
            const unsigned at = (from / WARP + i) % warps * WARP;
            const unsigned size = count - at < WARP ? count - at : WARP;
            live += run_warp(g, &g->thread[at], size, from % size);
        }
        if (!g->error && live && !barrier_is_whole(g))
            return;
        g->epoch += EPOCH;
    }
}

tn_cu_result ptx_run(const ptx_launch *launch, const sim_actor *actor)
{
    const ptx_kernel *k = launch->kernel;
    const size_t slots = (size_t)k->slot_count, threads = launch->block;
    const size_t bytes = (threads + WARP - 1) / WARP * WARP * slots *
                         sizeof(ptx_slot);
    const unsigned from = sim_random(launch->grid);
    group g = {.launch = launch, .actor = actor};
    ptx_slot *slot = malloc(bytes + 1);
    unsigned char *local = malloc(2 * threads * k->local_bytes + 1);
    g.thread = calloc(threads, sizeof *g.thread);
    g.shared = malloc(k->shared_bytes + 1);
    g.touched = calloc(k->shared_bytes + 1, sizeof *g.touched);
    copy *copies =
        malloc((k->copies ? threads * MOST_COPIES : 1) * sizeof *copies);
    if (!slot || !local || !g.thread || !g.shared || !g.touched || !copies)
        g.error = TN_CU_OUT_OF_MEMORY;
    else
        memset(slot, 0xa5, bytes);
    for (size_t i = 0; i < threads && !g.error; i++) {
        g.thread[i].slot = slot + i / WARP * WARP * slots + i % WARP;
        g.thread[i].copy = copies + (k->copies ? i * MOST_COPIES : 0);
        g.thread[i].local = local + 2 * i * k->local_bytes;
        g.thread[i].local_written = g.thread[i].local + k->local_bytes;
        first_slots(&g, &g.thread[i], true);
    }
    const unsigned groups = launch->sample && launch->sample < launch->grid
                                ? launch->sample
                                : launch->grid;
    for (unsigned i = 0; i < groups && !g.error; i++) {
        const uint64_t spaced = (uint64_t)i * launch->grid / groups;
        g.number = (unsigned)((from + spaced) % launch->grid);
        run_group(&g);
    }
    if (launch->steps)
        *launch->steps += g.steps;
    free(slot);
    free(local);
    free(g.thread);
    free(g.shared);
    free(g.touched);
    free(copies);
    return g.error;
}
