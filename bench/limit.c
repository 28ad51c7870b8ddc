/* limit.c: how fast could this machine do it? Loops that do nothing but read,
 * write, copy, add two arrays, or multiply and add in registers, on as many threads
 * as Tenon has, measured between the rounds of the workload they stand for. A
 * pass of a thread over its share ends without waiting for the others: a
 * limit is meant to be hard to reach. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

typedef void kernel(float *out, const float *a, const float *b, int64_t count);
typedef enum limit_kind { READ, WRITE, COPY, TRIAD, FLOPS, KINDS } limit_kind;

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

enum { WIDTHS = 3, CANDIDATES = 2 * WIDTHS, UNIT = 384, MAX_THREADS = 256 };

/* What a thread does in a pass, each to memory of its own, so that caches have
 * no more of it than of the workload's. */
typedef struct part {
    limit_kind kind;
    int64_t count;            /* elements, operations */
    int64_t out_from, a_from; /* in the thread's share of both, and of b */
} part;

struct bench_limit {
    kernel *candidate[CANDIDATES][KINDS]; /* of every width that runs */
    int candidate_count;
    part part[KINDS];
    int part_count, memory_parts; /* those that move come first */
    float *memory; /* owned: out, a, b, and UNIT floats for each thread */
    int64_t out_count, a_count, b_count; /* a thread's */
    int threads;
    pthread_t thread[MAX_THREADS]; /* from 1 on: 0 is the caller */
    pthread_barrier_t gate;
    kernel *const *run; /* by kind; NULL: leave */
    int first, end;     /* parts */
    int64_t calls;
};

typedef struct worker {
    bench_limit *limit;
    int number;
} worker;

static void run_share(const bench_limit *l, int number)
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
            if (of->kind == FLOPS)
                run(few, few + UNIT / 4, few + UNIT / 2, of->count);
            else if (of->kind == READ)
                run(few, a + of->a_from, NULL, of->count);
            else
                run(out + of->out_from, a + of->a_from, b, of->count);
        }
}

static void *work(void *argument)
{
    worker *self = argument;
    bench_limit *l = self->limit;
    for (;;) {
        pthread_barrier_wait(&l->gate);
        if (!l->run)
            break;
        run_share(l, self->number);
        pthread_barrier_wait(&l->gate);
    }
    free(self);
    return NULL;
}

/* Those of a width: with ordinary stores, and past the caches. */
static void add_candidates(bench_limit *l, kernel *const of[2][KINDS])
{
    for (int i = 0; i < 2; i++)
        if (of[i][COPY])
            memcpy(l->candidate[l->candidate_count++], of[i], sizeof of[i]);
}

/* A thread's part of `count`, of whole units. */
static void add_part(bench_limit *l, limit_kind kind, double count)
{
    int64_t share = (int64_t)(count / l->threads);
    share = (share + UNIT - 1) / UNIT * UNIT;
    if (share == 0)
        return;
    l->part[l->part_count++] =
        (part){kind, share, l->out_count, l->a_count};
    if (kind == FLOPS)
        return;
    l->memory_parts++;
    l->out_count += kind == READ ? 0 : share;
    l->a_count += kind == WRITE ? 0 : share;
    l->b_count += kind == TRIAD ? share : 0;
}

/* As much as can be by reading two for each that is written, then one; what is
 * left is only read, or only written. */
static void cut(bench_limit *l, const bench_least *least)
{
    double reads = least->reads, writes = least->writes;
    double triad = reads - writes < writes ? reads - writes : writes;
    if (triad > 0) {
        add_part(l, TRIAD, triad);
        reads -= 2 * triad;
        writes -= triad;
    }
    double copy = reads < writes ? reads : writes;
    add_part(l, COPY, copy);
    add_part(l, READ, reads - copy);
    add_part(l, WRITE, writes - copy);
    add_part(l, FLOPS, least->flops);
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
    memset(l->memory, 0, count * sizeof(float));
    add_candidates(l, kernels_plain);
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        add_candidates(l, kernels_v3);
    if (__builtin_cpu_supports("avx512f"))
        add_candidates(l, kernels_v4);
#endif
    if (!start_threads(l)) {
        /* Threads wait at a gate that will not open: their memory is left. */
        return NULL;
    }
    return l;
}

/* Nanoseconds for some of the parts by one candidate. */
static double sample(bench_limit *l, int candidate, int64_t calls)
{
    l->run = l->candidate[candidate];
    l->calls = calls;
    double begin = bench_now_ns();
    pthread_barrier_wait(&l->gate);
    run_share(l, 0);
    pthread_barrier_wait(&l->gate);
    return (bench_now_ns() - begin) / (double)calls;
}

/* By the one that is fastest now: some calls of each tell, as they warm the
 * caches; all are its. */
static double best_of(bench_limit *l, int first, int end, int64_t calls)
{
    int best = 0;
    double least = 0;
    l->first = first;
    l->end = end;
    if (first == end)
        return 0;
    for (int i = 0; i < l->candidate_count; i++) {
        double took = sample(l, i, calls / 4 + 1);
        if (i == 0 || took < least) {
            least = took;
            best = i;
        }
    }
    return sample(l, best, calls);
}

double bench_limit_sample(bench_limit *l, int64_t calls)
{
    double moved = best_of(l, 0, l->memory_parts, calls);
    double computed = best_of(l, l->memory_parts, l->part_count, calls);
    return moved > computed ? moved : computed;
}

void bench_limit_close(bench_limit *l)
{
    if (!l)
        return;
    l->run = NULL;
    pthread_barrier_wait(&l->gate);
    for (int i = 1; i < l->threads; i++)
        pthread_join(l->thread[i], NULL);
    pthread_barrier_destroy(&l->gate);
    free(l->memory);
    free(l);
}
