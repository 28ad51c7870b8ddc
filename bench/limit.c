/* limit.c: how fast could this machine do it? Loops that do nothing but read,
 * copy, add two arrays, or multiply and add in registers, on as many threads
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

enum { WIDTHS = 3, CANDIDATES = 2 * WIDTHS, UNIT = 256, MAX_THREADS = 256 };

struct bench_limit {
    kernel *candidate[CANDIDATES]; /* of the bound, of every width that runs */
    int candidate_count;
    float *memory; /* owned: out, a, b */
    size_t bytes, stride; /* of memory; floats from one array to the next */
    int64_t count; /* elements or operations of a thread */
    bool in_registers;
    int threads;
    pthread_t thread[MAX_THREADS]; /* from 1 on: 0 is the caller */
    pthread_barrier_t gate;
    kernel *run; /* NULL: leave */
    int64_t calls;
};

typedef struct worker {
    bench_limit *limit;
    int number;
} worker;

static void run_share(const bench_limit *l, int number)
{
    /* in registers, arrays serve as a few numbers to begin with */
    size_t first = l->in_registers ? (size_t)number * UNIT
                                   : (size_t)l->count * (size_t)number;
    /* a sum needs no room of its size, but a place of its own */
    float *out = l->memory + first, *a = out + l->stride, *b = a + l->stride;
    for (int64_t i = 0; i < l->calls; i++)
        l->run(out, a, b, l->count);
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

static void add_candidates(bench_limit *l, kernel *const pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i])
            l->candidate[l->candidate_count++] = pair[i];
}

static bool start_threads(bench_limit *l, int threads)
{
    pthread_barrier_init(&l->gate, NULL, (unsigned)threads);
    for (l->threads = 1; l->threads < threads; l->threads++) {
        worker *self = malloc(sizeof *self);
        if (!self)
            return false;
        *self = (worker){l, l->threads};
        if (pthread_create(&l->thread[l->threads], NULL, work, self) != 0) {
            free(self);
            return false;
        }
    }
    return true;
}

bench_limit *bench_limit_open(bench_bound bound, double amount, int threads)
{
    bench_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    l->in_registers = bound == BENCH_FLOPS;
    l->count = (int64_t)(amount / threads);
    l->count = (l->count + UNIT - 1) / UNIT * UNIT;
    l->stride = (size_t)threads * (l->in_registers ? UNIT : (size_t)l->count);
    l->bytes = 3 * l->stride * sizeof(float);
    if (posix_memalign((void **)&l->memory, 2u << 20, l->bytes) != 0) {
        free(l);
        return NULL;
    }
    madvise(l->memory, l->bytes, MADV_HUGEPAGE);
    memset(l->memory, 0, l->bytes);
    add_candidates(l, kernels_plain[bound]);
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        add_candidates(l, kernels_v3[bound]);
    if (__builtin_cpu_supports("avx512f"))
        add_candidates(l, kernels_v4[bound]);
#endif
    if (!start_threads(l, threads)) {
        /* Threads wait at a gate that will not open: their memory is left. */
        return NULL;
    }
    return l;
}

double bench_limit_sample(bench_limit *l, int64_t calls)
{
    double best = 0;
    l->calls = calls;
    for (int i = 0; i < l->candidate_count; i++) {
        l->run = l->candidate[i];
        double begin = bench_now_ns();
        pthread_barrier_wait(&l->gate);
        run_share(l, 0);
        pthread_barrier_wait(&l->gate);
        double took = (bench_now_ns() - begin) / (double)calls;
        if (i == 0 || took < best)
            best = took;
    }
    return best;
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
