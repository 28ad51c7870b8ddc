/* ptx_run.c: the threads of a launch, one after the other: a thread runs until
 * it waits at a barrier or ends. Every access to memory is checked. With
 * TENON_SIM_SEED groups, and threads between barriers, come in another order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/kernel/halves.h"
#include "ptx.h"

/* ---- what rows of the table use ----------------------------------------- */

__extension__ typedef unsigned __int128 ptx_u128;
__extension__ typedef __int128 ptx_s128;

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

/* One NaN: the other; -0 is less than +0. */
#define LEAST(t, T)                                                           \
    static T ptx_min_##t(T x, T y)                                            \
    {                                                                         \
        if (x != x || y != y)                                                 \
            return x != x ? y : x;                                            \
        return x < y || (x == y && signbit(x)) ? x : y;                       \
    }                                                                         \
    static T ptx_max_##t(T x, T y)                                            \
    {                                                                         \
        if (x != x || y != y)                                                 \
            return x != x ? y : x;                                            \
        return x > y || (x == y && !signbit(x)) ? x : y;                      \
    }
LEAST(f32, float)
LEAST(f64, double)

static int32_t ptx_to_s32(double x)
{
    if (x != x)
        return 0;
    return x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x;
}

static int64_t ptx_to_s64(double x)
{
    if (x != x)
        return INT64_MIN;
    return x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

static uint32_t ptx_halves(tn_dtype dtype, float high, float low)
{
    return tn__narrow_encode(dtype, high) << 16 |
           tn__narrow_encode(dtype, low);
}

int ptx_row(const char *name)
{
    static const char *const names[] = {
#define PTX(name, does) name,
#include "ptx.def"
    };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(names[i], name) == 0)
            return PTX_TABLE + i;
    return -1;
}

/* ---- threads ------------------------------------------------------------ */

/* MEETS: stands at an instruction of its whole warp. */
enum { RUNS, WAITS, MEETS, ENDED, FAILED };
enum { WARP = 32, MOST_COPIES = 64 };

/* A cp.async, in the group of so many commits before it. */
typedef struct copy {
    uint64_t from, to;
    uint32_t bytes, group;
    const ptx_ins *ins;
} copy;

typedef struct thread {
    ptx_slot *slot;
    unsigned char *local;
    unsigned char *local_written; /* 1: that byte */
    int32_t at;       /* the next instruction */
    int state;
    uint32_t copy_count, commits;
    copy *copy; /* under way; room for MOST_COPIES where the kernel has any */
} thread;

/* Who reached a byte of shared memory last, and in which epoch: a barrier
 * begins a new one. A thread is its number + 1. */
typedef struct touch {
    uint32_t wrote_in, read_in;
    uint16_t writer, reader;
} touch;
enum { BY_SEVERAL = 0xfffe, BY_ATOMS = 0xffff };

typedef struct group {
    const ptx_launch *launch;
    const sim_actor *actor;
    unsigned number;
    thread *thread; /* launch->block of them */
    unsigned char *shared;
    touch *touched;          /* of each byte of it */
    uint32_t epoch, first_epoch; /* now; when the group began */
    tn_cu_result error;
} group;

static void where(const group *g, const thread *t, const ptx_ins *i)
{
    sim_say("  in %s, line %d of its PTX, thread %u of group %u",
            g->launch->kernel->name, i->line, (unsigned)(t - g->thread),
            g->number);
}

/* False, said: two threads without a barrier between them, one of which
 * writes; or a read of what none has written. */
static bool touch_shared(group *g, const thread *t, const ptx_ins *i,
                         uint64_t at)
{
    const uint16_t who = i->op == PTX_ATOM
                             ? BY_ATOMS
                             : (uint16_t)(t - g->thread + 1);
    for (uint64_t b = at; b < at + i->bytes; b++) {
        touch *s = &g->touched[b];
        const bool written = s->wrote_in >= g->first_epoch;
        const bool after_write = s->wrote_in == g->epoch && s->writer != who;
        const bool after_read = s->read_in == g->epoch && s->reader != who;
        if (after_write || (after_read && i->op != PTX_LD)) {
            sim_say("a race: two threads reach byte %llu of shared memory, one "
                    "to write, with no barrier between",
                    (unsigned long long)b);
            return false;
        }
        if (i->op == PTX_COPY) { /* it is written when it is waited for */
            s->wrote_in = 0;
            continue;
        }
        if (i->op != PTX_ST && !written) {
            sim_say("a read of byte %llu of shared memory, which nothing has "
                    "written", (unsigned long long)b);
            return false;
        }
        if (i->op != PTX_LD) {
            s->wrote_in = g->epoch;
            s->writer = who;
        }
        if (i->op != PTX_ST) {
            s->reader = after_read ? BY_SEVERAL : who;
            s->read_in = g->epoch;
        }
    }
    return true;
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

/* Where an access reaches; NULL if it may not. */
static void *reach(group *g, const thread *t, const ptx_ins *i, uint64_t at)
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
    if (at % i->align) {
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
        where(g, t, i);
    return found;
}

static void load(ptx_slot *d, const void *from, const ptx_ins *i)
{
    uint64_t raw = 0;
    memcpy(&raw, from, i->bytes);
    if (i->is_signed && raw >> (8 * i->bytes - 1) & 1 && i->bytes < 8)
        raw |= ~0ull << 8 * i->bytes;
    d->u64 = raw;
}

static void atomic(ptx_slot *r, void *at, const ptx_ins *i)
{
    uint64_t old = 0, new = 0;
    memcpy(&old, at, i->bytes);
    uint64_t mask = i->bytes == 8 ? ~0ull : 0xffffffffull;
    switch (i->kind) {
    case PTX_ATOM_ADD:
        new = old + r[i->b].u64;
        break;
    case PTX_ATOM_CAS:
        new = old == (r[i->b].u64 & mask) ? r[i->c].u64 : old;
        break;
    default:
        new = r[i->b].u64;
        break;
    }
    memcpy(at, &new, i->bytes);
    r[i->d].u64 = old;
}

/* ---- copies that are waited for ------------------------------------------ */

static bool copy_begin(group *g, thread *t, const ptx_ins *i)
{
    const ptx_slot *r = t->slot;
    if (t->copy_count == MOST_COPIES) {
        sim_say("more copies under way than the simulator knows");
        g->error = TN_CU_LAUNCH_FAILED;
        return false;
    }
    t->copy[t->copy_count++] = (copy){r[i->b].u64, r[i->a].u32, r[i->c].u32,
                                      t->commits, i};
    return reach(g, t, i, r[i->a].u32) != NULL;
}

/* All that were committed but for the last `left` groups. */
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
        const void *from = c->bytes ? reach(g, t, &load, c->from) : NULL;
        void *to = c->bytes && !from ? NULL : reach(g, t, &store, c->to);
        if (!to)
            return false;
        memset(to, 0, c->ins->bytes);
        if (from)
            memcpy(to, from, c->bytes);
    }
    t->copy_count = kept;
    return true;
}

/* ---- instructions of a warp --------------------------------------------- */

static float half_of(const ptx_ins *i, uint32_t code)
{
    return tn__narrow_decode(i->kind ? TN_BF16 : TN_F16, code & 0xffff);
}

/* Which lane has what: PTX ISA, "Matrix Fragments for mma.m16n8k16 with
 * floating point type". Sums are taken in rising k. */
static void mma(thread *warp, const ptx_ins *i)
{
    float a[16][16], b[16][8], c[16][8];
    const int32_t of_a[] = {i[1].d, i[1].a, i[1].b, i[1].c};
    const int32_t of_b[] = {i[2].d, i[2].a};
    const int32_t of_c[] = {i[3].d, i[3].a, i[3].b, i[3].c};
    const int32_t of_d[] = {i->d, i->a, i->b, i->c};
    for (int lane = 0; lane < WARP; lane++) {
        const ptx_slot *r = warp[lane].slot;
        const int row = lane / 4, column = lane % 4 * 2;
        for (int n = 0; n < 8; n++)
            a[row + n / 2 % 2 * 8][column + n / 4 * 8 + n % 2] =
                half_of(i, r[of_a[n / 2]].u32 >> n % 2 * 16);
        for (int n = 0; n < 4; n++) {
            b[column + n / 2 * 8 + n % 2][row] =
                half_of(i, r[of_b[n / 2]].u32 >> n % 2 * 16);
            c[row + n / 2 * 8][column + n % 2] = r[of_c[n]].f32;
        }
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int n = 0; n < 4; n++) {
            const int row = lane / 4 + n / 2 * 8;
            const int column = lane % 4 * 2 + n % 2;
            float sum = c[row][column];
            for (int k = 0; k < 16; k++)
                sum = fmaf(a[row][k], b[k][column], sum);
            warp[lane].slot[of_d[n]].f32 = sum;
        }
}

/* Each lane says where one row of one of four 8 x 8 matrices lies. */
static bool ldmatrix(group *g, thread *warp, const ptx_ins *i)
{
    uint16_t half[WARP][8];
    const int32_t of_d[] = {i->d, i->b, i->c, i->e};
    ptx_ins load = *i;
    load.op = PTX_LD;
    for (int lane = 0; lane < WARP; lane++) {
        const void *at = reach(g, &warp[lane], &load,
                               warp[lane].slot[i->a].u32 + (uint64_t)i->imm);
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
            warp[lane].slot[of_d[m]].u32 = high << 16 | low;
        }
    return true;
}

static void shuffle(thread *warp, const ptx_ins *i)
{
    uint32_t value[WARP];
    for (int lane = 0; lane < WARP; lane++)
        value[lane] = warp[lane].slot[i->b].u32;
    for (int lane = 0; lane < WARP; lane++) {
        ptx_slot *r = warp[lane].slot;
        r[i->d].u32 = value[lane ^ (r[i->c].u32 & 31)];
    }
}

/* What all of a warp's threads stand at; true: they go on. */
static bool warp_meets(group *g, thread *warp, unsigned count)
{
    const thread *meets = NULL, *other = NULL;
    for (unsigned n = 0; n < count; n++)
        if (warp[n].state == MEETS)
            meets = &warp[n];
    if (!meets || g->error)
        return false;
    for (unsigned n = 0; n < count; n++)
        if (warp[n].state != MEETS || warp[n].at != meets->at)
            other = &warp[n];
    const ptx_ins *i = &g->launch->kernel->ins[meets->at];
    if (other || count != WARP) {
        sim_say("an instruction of a warp that not all its threads reach");
        where(g, meets, i);
        g->error = TN_CU_LAUNCH_FAILED;
        return false;
    }
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

/* Runs until the thread waits, ends or fails. */
static void run_thread(group *g, thread *t)
{
    const ptx_ins *ins = g->launch->kernel->ins;
    ptx_slot *r = t->slot;
    for (;;) {
        const ptx_ins *i = &ins[t->at++];
        void *at;
        if (i->guard >= 0 && (r[i->guard].pred != 0) == i->unless)
            continue;
        switch (i->op) {
        case PTX_BRA:
            t->at = i->target;
            break;
        case PTX_BAR:
            t->state = WAITS;
            return;
        case PTX_RET:
            t->state = ENDED;
            if (t->copy_count) {
                sim_say("a copy that nothing waits for");
                where(g, t, t->copy[0].ins);
                g->error = SIM_FOUND;
            }
            return;
        case PTX_MMA:
        case PTX_LDMATRIX:
        case PTX_SHUFFLE:
            t->at--; /* until it is done for all */
            t->state = MEETS;
            return;
        case PTX_COPY:
        case PTX_WAIT:
            if (i->op == PTX_COPY ? copy_begin(g, t, i)
                                  : copies_end(g, t, r[i->a].u32))
                break;
            t->state = FAILED;
            return;
        case PTX_COMMIT:
            t->commits++;
            break;
        case PTX_LD:
        case PTX_ST:
        case PTX_ATOM:
            if (!(at = reach(g, t, i,
                             r[i->a].u64 + (uint64_t)i->imm))) {
                t->state = FAILED;
                return;
            }
            if (i->op == PTX_LD)
                load(&r[i->d], at, i);
            else if (i->op == PTX_ST)
                memcpy(at, &r[i->d].u64, i->bytes);
            else
                atomic(r, at, i);
            break;
        case PTX_PACK:
            r[i->d].u64 = (r[i->a].u64 & ((1ull << i->imm) - 1)) |
                          r[i->b].u64 << i->imm;
            break;
        case PTX_UNPACK:
            r[i->d].u64 = r[i->a].u64 >> i->imm &
                          (~0ull >> (64 - 8 * i->bytes));
            break;
/* The cases follow in the order of the table. */
#define D r[i->d]
#define A r[i->a]
#define B r[i->b]
#define C r[i->c]
#define E r[i->e]
            enum { BEFORE = __COUNTER__ };
#define PTX(name, does)                                                       \
        case PTX_TABLE + (__COUNTER__ - BEFORE - 1):                          \
            does;                                                             \
            break;
#include "ptx.def"
        }
    }
}

/* ---- groups ------------------------------------------------------------- */

/* All threads stand at one barrier, or have ended. */
static bool barrier_is_whole(group *g)
{
    const thread *waits = NULL, *other = NULL;
    for (unsigned i = 0; i < g->launch->block; i++) {
        const thread *t = &g->thread[i];
        if (t->state == WAITS && !waits)
            waits = t;
    }
    for (unsigned i = 0; waits && i < g->launch->block; i++) {
        const thread *t = &g->thread[i];
        if (t->state != WAITS || t->at != waits->at)
            other = t;
    }
    if (!other)
        return true;
    sim_say("a barrier that not all threads of a group reach");
    where(g, waits, &g->launch->kernel->ins[waits->at - 1]);
    where(g, other, &g->launch->kernel->ins[other->at - 1]);
    g->error = TN_CU_LAUNCH_FAILED;
    return false;
}

static void thread_begin(const group *g, thread *t)
{
    const ptx_kernel *k = g->launch->kernel;
    unsigned tid = (unsigned)(t - g->thread);
    t->at = 0;
    t->state = RUNS;
    t->copy_count = t->commits = 0;
    memset(t->slot, 0xa5, (size_t)k->slot_count * sizeof *t->slot);
    memset(t->local, 0xa5, k->local_bytes);
    memset(t->local_written, 0, k->local_bytes);
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
        t->slot[f->slot].u64 = special[f->what];
    }
}

/* The threads of a warp, from one of them on, until each waits or has ended;
 * how many wait. */
static unsigned run_warp(group *g, thread *warp, unsigned count, unsigned from)
{
    unsigned live = 0;
    for (unsigned n = 0; n < count; n++)
        if (warp[n].state != ENDED)
            warp[n].state = RUNS;
    do {
        for (unsigned n = 0; n < count && !g->error; n++) {
            thread *t = &warp[(from + n) % count];
            if (t->state == RUNS)
                run_thread(g, t);
        }
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
    g->first_epoch = ++g->epoch;
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
        g->epoch++;
    }
}

tn_cu_result ptx_run(const ptx_launch *launch, const sim_actor *actor)
{
    const ptx_kernel *k = launch->kernel;
    const size_t slots = (size_t)k->slot_count, threads = launch->block;
    const unsigned from = sim_random(launch->grid);
    group g = {.launch = launch, .actor = actor};
    ptx_slot *slot = malloc((threads * slots + 1) * sizeof *slot);
    unsigned char *local = malloc(2 * threads * k->local_bytes + 1);
    g.thread = calloc(threads, sizeof *g.thread);
    g.shared = malloc(k->shared_bytes + 1);
    g.touched = calloc(k->shared_bytes + 1, sizeof *g.touched);
    copy *copies =
        malloc((k->copies ? threads * MOST_COPIES : 1) * sizeof *copies);
    if (!slot || !local || !g.thread || !g.shared || !g.touched || !copies)
        g.error = TN_CU_OUT_OF_MEMORY;
    for (size_t i = 0; i < threads && !g.error; i++) {
        g.thread[i].slot = slot + i * slots;
        g.thread[i].copy = copies + (k->copies ? i * MOST_COPIES : 0);
        g.thread[i].local = local + 2 * i * k->local_bytes;
        g.thread[i].local_written = g.thread[i].local + k->local_bytes;
    }
    for (unsigned i = 0; i < launch->grid && !g.error; i++) {
        g.number = (from + i) % launch->grid;
        run_group(&g);
    }
    free(slot);
    free(local);
    free(g.thread);
    free(g.shared);
    free(g.touched);
    free(copies);
    return g.error;
}
