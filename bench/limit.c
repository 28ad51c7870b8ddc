/* limit.c: measures how fast this machine can do a workload's minimum work.
 * Loops read, write or copy arrays, add two arrays, multiply and add in
 * registers, or run instructions of any kind in registers, on as many threads
 * as Tenon has. They are measured between the rounds of the workload. A
 * candidate is one implementation of these loops: with vectors of one width,
 * with or without prefetching, with or without non-temporal stores, with C's
 * memset and memcpy, or with the processor's string instructions. Each kind of
 * loop uses its fastest candidate. A thread does not wait for the others after
 * its share, so the limit is hard to reach. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

typedef void kernel(float *out, const float *a, const float *b, int64_t count);
typedef enum limit_kind {
    READ,
    WRITE,
    COPY,
    TRIAD,
    UPDATE, /* like COPY, but in place */
    UPDATE_TRIAD,
    FLOPS, /* FLOPS and ANY compute in registers only */
    ANY,
    KINDS
} limit_kind;

#if defined __x86_64__
#include <immintrin.h>

#define NAME(x) x##_v4
#define TARGET __attribute__((target("avx512f")))
#define WIDTH 64
#define FMA(a, b, c) ((VEC)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define STORE(p, v) _mm512_stream_ps(p, (__m512)(v))
#include "limit_kernels.inc"

#define NAME(x) x##_v3
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 32
#define FMA(a, b, c) ((VEC)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define STORE(p, v) _mm256_stream_ps(p, (__m256)(v))
#include "limit_kernels.inc"

#define STORE(p, v) _mm_stream_ps(p, (__m128)(v))
#elif defined __aarch64__
#include <arm_neon.h>
#define FMA(a, b, c) ((VEC)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#endif
#ifndef FMA
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

#define NAME(x) x##_plain
#define TARGET
#define WIDTH 16
#include "limit_kernels.inc"

/* The following kernels use C's memset and memcpy, or string instructions. The
 * fill value is not 0, because processors may treat zero specially. */
static void write_c(float *out, const float *a, const float *b, int64_t count)
{
    (void)a;
    (void)b;
    memset(out, 1, (size_t)count * sizeof *out);
}

static void copy_c(float *out, const float *a, const float *b, int64_t count)
{
    (void)b;
    memcpy(out, a, (size_t)count * sizeof *out);
}

static kernel *const kernels_c[][KINDS] = {
    {[WRITE] = write_c, [COPY] = copy_c},
};

#if defined __x86_64__
static void write_string(float *out, const float *a, const float *b,
                         int64_t count)
{
    size_t bytes = (size_t)count * sizeof *out;
    (void)a;
    (void)b;
    __asm__ volatile("rep stosb" : "+D"(out), "+c"(bytes) : "a"(1) : "memory");
}

static void copy_string(float *out, const float *a, const float *b,
                        int64_t count)
{
    size_t bytes = (size_t)count * sizeof *out;
    (void)b;
    __asm__ volatile("rep movsb" : "+D"(out), "+S"(a), "+c"(bytes) : : "memory");
}

static kernel *const kernels_string[][KINDS] = {
    {[WRITE] = write_string, [COPY] = copy_string},
};
#endif

enum { CANDIDATES = 18, UNIT = 384, MAX_THREADS = 256 };

/* A part of a thread's work in one pass, of one kind. Each part has its own
 * memory, so that the loops find no more data in the caches than the workload
 * does. */
typedef struct part {
    limit_kind kind;
    int64_t count;            /* number of elements, or of operations */
    int64_t out_from, a_from; /* offsets in the thread's share of out, and of a
                                 and b */
    double ns[CANDIDATES];    /* time of each candidate's fastest pass so far; 0
                               * if it was not tried */
    int best;                 /* index of the fastest candidate */
} part;

struct bench_limit {
    kernel *candidate[CANDIDATES][KINDS]; /* NULL if the candidate does not have
                                           * this kind */
    int candidate_count;
    part part[KINDS];
    int part_count, memory_parts; /* parts that access memory come first */
    float *memory; /* owned: out, a, b, and UNIT floats for each thread */
    int64_t out_count, a_count, b_count; /* number of elements for one thread */
    int threads;
    pthread_t thread[MAX_THREADS]; /* thread[0] is unused, because the calling
                                    * thread does that share */
    pthread_barrier_t gate;
    kernel *run[KINDS]; /* run[kind]: the function of the selected candidate */
    bool leave;
    int first, end; /* the parts that are measured: [first, end) */
    int64_t calls;
};

typedef struct worker {
    bench_limit *limit;
    int number;
} worker;

/* Runs the share of the thread with index `number`. If took is not NULL, adds
 * the nanoseconds of each part to took[part]. */
static void run_share(const bench_limit *l, int number, double *took)
{
    float *out = l->memory + l->out_count * number;
    float *a = l->memory + l->out_count * l->threads + l->a_count * number;
    float *b = l->memory + (l->out_count + l->a_count) * l->threads +
               l->b_count * number;
    float *few = l->memory +
                 (l->out_count + l->a_count + l->b_count) * l->threads +
                 UNIT * number;
    for (int64_t i = 0; i < l->calls; i++)
        for (int p = l->first; p < l->end; p++) {
            const part *of = &l->part[p];
            kernel *run = l->run[of->kind];
            double begin = took ? bench_now_ns() : 0;
            if (of->kind >= FLOPS)
                run(few, few + UNIT / 4, few + UNIT / 2, of->count);
            else if (of->kind == READ)
                run(few, a + of->a_from, NULL, of->count);
            else if (of->kind >= UPDATE)
                run(a + of->a_from, a + of->a_from, b, of->count);
            else
                run(out + of->out_from, a + of->a_from, b, of->count);
            if (took)
                took[p] += bench_now_ns() - begin;
        }
}

static void *work(void *argument)
{
    worker *self = argument;
    bench_limit *l = self->limit;
    for (;;) {
        pthread_barrier_wait(&l->gate);
        if (l->leave)
            break;
        run_share(l, self->number, NULL);
        pthread_barrier_wait(&l->gate);
    }
    free(self);
    return NULL;
}

#define ADD_CANDIDATES(l, of) add_candidates(l, of, sizeof of / sizeof *of)
static void add_candidates(bench_limit *l, kernel *const of[][KINDS],
                           size_t count)
{
    memcpy(l->candidate[l->candidate_count], of, count * sizeof *of);
    l->candidate_count += (int)count;
}

/* Adds a part of this kind: one thread's share of `count` elements or
 * operations, rounded up to whole units. */
static void add_part(bench_limit *l, limit_kind kind, double count)
{
    int64_t share = (int64_t)(count / l->threads);
    share = (share + UNIT - 1) / UNIT * UNIT;
    if (share == 0)
        return;
    l->part[l->part_count++] =
        (part){.kind = kind,
               .count = share,
               .out_from = l->out_count,
               .a_from = l->a_count};
    if (kind >= FLOPS)
        return;
    l->memory_parts++;
    l->out_count += kind == READ || kind >= UPDATE ? 0 : share;
    l->a_count += kind == WRITE ? 0 : share;
    l->b_count += kind == TRIAD || kind == UPDATE_TRIAD ? share : 0;
}

/* Divides the work into parts. As many elements as possible are read from two
 * arrays and written to a third, then as many as possible are copied. The rest
 * is only read or only written. */
static void cut(bench_limit *l, const bench_least *least)
{
    double reads = least->reads, writes = least->writes;
    double triad = reads - writes < writes ? reads - writes : writes;
    if (triad > 0) {
        add_part(l, least->in_place ? UPDATE_TRIAD : TRIAD, triad);
        reads -= 2 * triad;
        writes -= triad;
    }
    double copy = reads < writes ? reads : writes;
    add_part(l, least->in_place ? UPDATE : COPY, copy);
    add_part(l, READ, reads - copy);
    add_part(l, WRITE, writes - copy);
    add_part(l, FLOPS, least->flops);
    add_part(l, ANY, least->instructions);
}

static bool start_threads(bench_limit *l)
{
    pthread_barrier_init(&l->gate, NULL, (unsigned)l->threads);
    for (int i = 1; i < l->threads; i++) {
        worker *self = malloc(sizeof *self);
        if (!self)
            return false;
        *self = (worker){l, i};
        if (pthread_create(&l->thread[i], NULL, work, self) != 0) {
            free(self);
            return false;
        }
    }
    return true;
}

bench_limit *bench_limit_open(const bench_least *least, int threads)
{
    bench_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    cut(l, least);
    size_t count = (size_t)(l->out_count + l->a_count + l->b_count + UNIT) *
                   (size_t)l->threads;
    if (l->part_count == 0 || posix_memalign((void **)&l->memory, 2u << 20,
                                             count * sizeof(float)) != 0) {
        free(l);
        return NULL;
    }
    madvise(l->memory, count * sizeof(float), MADV_HUGEPAGE);
    /* Fills the memory with numbers that are not 0. On Zen 5 a non-temporal
     * store of a cache line of zeros takes less than half the time of another
     * one, and few results of a workload are zeros. */
    const size_t moved = count - (size_t)UNIT * (size_t)l->threads;
    for (size_t i = 0; i < moved; i++)
        l->memory[i] = 1.f + 0x1p-23f * (float)(i % 65536);
    memset(l->memory + moved, 0, (count - moved) * sizeof(float));
    ADD_CANDIDATES(l, kernels_plain); /* the plain candidate comes first,
                                       * because it has all kinds */
    ADD_CANDIDATES(l, kernels_c);
#if defined __x86_64__
    ADD_CANDIDATES(l, kernels_string);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        ADD_CANDIDATES(l, kernels_v3);
    if (__builtin_cpu_supports("avx512f"))
        ADD_CANDIDATES(l, kernels_v4);
#endif
    if (!start_threads(l)) {
        /* The threads that have been started wait at the barrier forever, so
         * their memory must not be freed. */
        return NULL;
    }
    return l;
}

/* Returns the nanoseconds per pass over parts `first` to `end`, with the
 * candidates in l->run. */
static double sample(bench_limit *l, int64_t calls, double *took)
{
    l->calls = calls;
    double begin = bench_now_ns();
    pthread_barrier_wait(&l->gate);
    run_share(l, 0, took);
    pthread_barrier_wait(&l->gate);
    return (bench_now_ns() - begin) / (double)calls;
}

/* Runs one pass without measuring it. Non-temporal stores leave the caches
 * without data, other work leaves them full, so the first pass is not typical.
 * There is no warm-up if only one pass is measured, because it would take as
 * long as the measurement. */
static void warm(bench_limit *l, int64_t calls)
{
    if (calls > 1)
        sample(l, 1, NULL);
}

/* Returns whether a candidate should be measured again. A candidate that was
 * more than 1.3 times as slow as the best one in an earlier round is not. */
static bool may_be_best(const bench_limit *l, const part *of, int candidate)
{
    return l->candidate[candidate][of->kind] &&
           of->ns[candidate] <= 1.3 * of->ns[of->best];
}

/* Measures a candidate in some passes over all parts. All parts run in each
 * pass, because they share the caches. Parts for which the candidate should not
 * be measured use their fastest candidate. */
static void try_candidate(bench_limit *l, int candidate, int64_t calls)
{
    double took[KINDS] = {0};
    bool tries[KINDS], any = false;
    for (int p = l->first; p < l->end; p++) {
        const part *of = &l->part[p];
        tries[p] = may_be_best(l, of, candidate);
        any = any || tries[p];
        l->run[of->kind] =
            l->candidate[tries[p] ? candidate : of->best][of->kind];
    }
    if (!any)
        return;
    warm(l, calls);
    sample(l, calls, took);
    for (int p = l->first; p < l->end; p++) {
        part *of = &l->part[p];
        double ns = took[p] / (double)calls;
        if (!tries[p])
            continue;
        if (of->ns[candidate] == 0 || ns < of->ns[candidate])
            of->ns[candidate] = ns;
        if (of->ns[candidate] < of->ns[of->best])
            of->best = candidate;
    }
}

static void run_best(bench_limit *l)
{
    for (int p = l->first; p < l->end; p++) {
        const part *of = &l->part[p];
        l->run[of->kind] = l->candidate[of->best][of->kind];
    }
}

/* Measures all candidates, then runs each part with the fastest candidate of
 * this and earlier rounds. Returns the nanoseconds for each pass. For a single
 * pass, a faster measurement of the candidates is used instead. */
static double best_of(bench_limit *l, int first, int end, int64_t calls)
{
    l->first = first;
    l->end = end;
    if (first == end)
        return 0;
    for (int i = 0; i < l->candidate_count; i++)
        try_candidate(l, i, calls / 8 + 1);
    run_best(l);
    warm(l, calls);
    double ns = sample(l, calls, NULL), tried = 0;
    for (int p = first; p < end; p++)
        tried += l->part[p].ns[l->part[p].best];
    return calls == 1 && l->threads == 1 && tried < ns ? tried : ns;
}

/* Measures separately the time of memory accesses, of multiply-adds, and of
 * instructions of any kind. The longest time is the limit. */
bench_bound bench_limit_sample(bench_limit *l, int64_t calls)
{
    int at = l->memory_parts;
    bench_bound bound = {best_of(l, 0, at, calls), 0, 0};
    for (; at < l->part_count; at++) {
        double ns = best_of(l, at, at + 1, calls);
        if (l->part[at].kind == FLOPS)
            bound.multiply_ns = ns;
        else
            bound.any_ns = ns;
    }
    return bound;
}

double bench_bound_ns(bench_bound bound)
{
    double ns = bound.memory_ns;
    ns = bound.multiply_ns > ns ? bound.multiply_ns : ns;
    return bound.any_ns > ns ? bound.any_ns : ns;
}

const char *bench_bound_name(bench_bound bound)
{
    double ns = bench_bound_ns(bound);
    return bound.memory_ns == ns ? "memory"
           : bound.any_ns == ns  ? "any"
                                 : "fma";
}

void bench_limit_close(bench_limit *l)
{
    if (!l)
        return;
    l->leave = true;
    pthread_barrier_wait(&l->gate);
    for (int i = 1; i < l->threads; i++)
        pthread_join(l->thread[i], NULL);
    pthread_barrier_destroy(&l->gate);
    free(l->memory);
    free(l);
}
