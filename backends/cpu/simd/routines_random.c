/* routines_random.c: the random generator PHILOX over blocks: Philox4x32-10
 * (Salmon et al., SC 2011, doi:10.1145/2063384.2063405). Each counter gives
 * four random words. Element i is word a[i] % 4 of counter a[i] / 4. A run is a
 * sequence of consecutive indices a, or of every second index. Its words come
 * from consecutive counters, of which a vector is processed at once. */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector_ops.h"

enum { LANES = TN_CPU_VECTOR / 8 };
#define LOW UINT64_C(0xffffffff)

/* Returns the 64-bit products of the low halves of x with y. This is one
 * instruction, while a product of 64-bit factors takes three. */
static inline vec_u64 times(vec_u64 x, uint32_t y)
{
#if defined(__AVX512F__)
    return (vec_u64)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(y));
#elif defined(__AVX2__)
    return (vec_u64)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(y));
#elif defined(__x86_64__)
    return (vec_u64)_mm_mul_epu32((__m128i)x, _mm_set1_epi64x(y));
#elif defined(__aarch64__)
    return (vec_u64)vmull_n_u32(vmovn_u64((uint64x2_t)x), y);
#else
    return (x & LOW) * y;
#endif
}

/* The keys of the ten rounds. */
typedef struct keys {
    uint64_t low[10], high[10];
} keys;

static inline void keys_of(uint64_t key, keys *out)
{
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        out->low[round] = low;
        out->high[round] = high;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
}

/* Computes the four words of each counter. They are in the low halves of the
 * lanes. The high halves are undefined. Two vectors at once hide the latency of
 * the multiplications. */
static inline __attribute__((always_inline)) void
words(const vec_u64 *counter, const int vectors, const keys *key,
      uint64_t call, vec_u64 (*word)[4])
{
    vec_u64 none = {0};
    for (int v = 0; v < vectors; v++) {
        word[v][0] = counter[v];
        word[v][1] = counter[v] >> 32;
        word[v][2] = none + call;
        word[v][3] = none + (call >> 32);
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            vec_u64 *x = word[v];
            vec_u64 p = times(x[0], 0xD2511F53u), q = times(x[2], 0xCD9E8D57u);
            x[0] = (q >> 32) ^ x[1] ^ key->low[round];
            x[1] = q;
            x[2] = (p >> 32) ^ x[3] ^ key->high[round];
            x[3] = p;
        }
    }
}

/* Joins two 32-bit words in memory order. */
static inline vec_u64 join(vec_u64 first, vec_u64 second)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return first << 32 | (second & LOW);
#else
    return (first & LOW) | second << 32;
#endif
}

#if TN_CPU_VECTOR == 64
#define FIRST_LANES {0, 1, 2, 3, 4, 5, 6, 7}
#define INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif TN_CPU_VECTOR == 32
#define FIRST_LANES {0, 1, 2, 3}
#define INTERLEAVE_LOW 0, 4, 1, 5
#define INTERLEAVE_HIGH 2, 6, 3, 7
#else
#define FIRST_LANES {0, 1}
#define INTERLEAVE_LOW 0, 2
#define INTERLEAVE_HIGH 1, 3
#endif

/* Sets two vectors to the counters of the indices a, a + 4, a + 8 and so on. */
static inline void counters_from(uint64_t a, vec_u64 counter[2])
{
    const vec_u64 lane = FIRST_LANES;
    counter[0] = (a + 4 * lane) >> 2;
    counter[1] = (a + 4 * LANES + 4 * lane) >> 2;
}

/* Returns how many of the next indices, at most n, form a run with the given
 * step. 0 or 1 means that there is no run. A run begins with one of the first
 * `step` words of a counter. */
static int64_t run_length(const uint64_t *a, uint64_t step, int64_t n)
{
    const vec_u64 lane = FIRST_LANES;
    vec_u64 next = a[0] + lane * step, gaps = {0};
    uint64_t any = 0;
    int64_t k = 0;
    if ((a[0] & 3) >= step)
        return 0;
    for (; k + LANES <= n; k += LANES, next += LANES * step) {
        vec_u64 x;
        memcpy(&x, a + k, sizeof x);
        gaps |= x ^ next;
    }
    for (int i = 0; i < LANES; i++)
        any |= gaps[i];
    for (k = any ? 0 : k; k < n && a[k] - a[0] == (uint64_t)k * step; k++)
        ;
    return k;
}

/* Computes the n words of a run that begins at index a, with step 1 or 2.
 * Unless o1 is NULL, o1[i] is set to the word after o[i] in the same
 * counter. */
static void philox_run(int32_t *o, int32_t *o1, uint64_t a, uint64_t step,
                       int64_t n, uint64_t key, uint64_t call)
{
    enum { MOST = 8 * LANES };
    vec_u64 counter[2], word[2][4];
    int32_t end[MOST], end1[MOST / 2];
    keys round;
    keys_of(key, &round);
    for (int64_t m = MOST / (int64_t)step; n > 0; n -= m, a += MOST) {
        int32_t *to = n < m ? end : o, *to1 = n < m ? end1 : o1;
        counters_from(a, counter);
        words(counter, 2, &round, call, word);
        for (int v = 0; v < 2; v++) {
            vec_u64 *w = word[v], even = join(w[0], w[2]),
                    odd = join(w[1], w[3]);
            vec_u64 first = join(w[0], w[1]), second = join(w[2], w[3]);
            vec_u64 both[2] = {
                SHUFFLE(vec_u64, vec_u64, first, second, INTERLEAVE_LOW),
                SHUFFLE(vec_u64, vec_u64, first, second, INTERLEAVE_HIGH)};
            if (step == 1)
                memcpy(to + v * 4 * LANES, both, sizeof both);
            else
                memcpy(to + v * 2 * LANES, a & 1 ? &odd : &even, sizeof odd);
            if (o1)
                memcpy(to1 + v * 2 * LANES, &odd, sizeof odd);
        }
        if (n < m) {
            memcpy(o, end, (size_t)n * sizeof *o);
            if (o1)
                memcpy(o1, end1, (size_t)n * sizeof *o);
        }
        o += m;
        o1 = o1 ? o1 + m : NULL;
    }
}

/* Computes the random words for `count` indices, which need not be consecutive.
 * count is at most LANES. */
static __attribute__((noinline)) void
philox_any(int32_t *out, const uint64_t *a, uint64_t key, uint64_t call,
           int64_t count)
{
    vec_u64 number = {0}, counter, word[1][4];
    memcpy(&number, a, (size_t)count * sizeof *a);
    counter = number >> 2;
    keys round;
    keys_of(key, &round);
    words(&counter, 1, &round, call, word);
    vec_u64 odd = -(number & 1), high = -(number >> 1 & 1);
    vec_u64 first = (word[0][0] & ~odd) | (word[0][1] & odd);
    vec_u64 second = (word[0][2] & ~odd) | (word[0][3] & odd);
    vec_u64 chosen = (first & ~high) | (second & high);
    for (int k = 0; k < count; k++)
        out[k] = (int32_t)chosen[k];
}

/* Returns how many indices philox_any processes next: 1 if a run (consecutive
 * indices, which are faster) may begin at the second index, otherwise at most
 * LANES. */
static int64_t unordered_count(const uint64_t *a, int64_t n)
{
    return n < LANES ? n : a[1] - a[0] - 1 < 2 ? 1 : LANES;
}

static void philox(void *out, const void *pa, const void *pb, const void *pc,
                   int64_t n, unsigned scalar)
{
    const uint64_t *a = pa, *b = pb, *c = pc;
    int32_t *o = out;
    for (int64_t i = 0, count; i < n; i += count) {
        uint64_t key = b[scalar & 2 ? 0 : i], call = c[scalar & 4 ? 0 : i];
        uint64_t step = 1;
        count = scalar == 6 ? run_length(a + i, 1, n - i) : 0;
        if (scalar == 6 && count < 2)
            count = run_length(a + i, step = 2, n - i);
        if (count > 1) {
            philox_run(o + i, NULL, a[i], step, count, key, call);
            continue;
        }
        count = scalar == 6 ? unordered_count(a + i, n - i) : 1;
        philox_any(o + i, a + i, key, call, count);
    }
}

/* Computes the words of the indices a[i] and a[i] + 1 (PHILOX twice). Usually
 * both are in the same counter. */
static void philox_pair(void *out, void *next, const void *pa, const void *pb,
                        const void *pc, int64_t n)
{
    const uint64_t *a = pa, key = *(const uint64_t *)pb;
    const uint64_t call = *(const uint64_t *)pc;
    int32_t *o = out, *o1 = next;
    for (int64_t i = 0, count; i < n; i += count) {
        uint64_t after[LANES];
        count = a[i] & 1 ? 0 : run_length(a + i, 2, n - i);
        if (count > 1) {
            philox_run(o + i, o1 + i, a[i], 2, count, key, call);
            continue;
        }
        count = unordered_count(a + i, n - i);
        for (int64_t k = 0; k < count; k++)
            after[k] = a[i + k] + 1;
        philox_any(o + i, a + i, key, call, count);
        philox_any(o1 + i, after, key, call, count);
    }
}

void TN_CPU_NAME(tn__cpu_random)(tn_cpu_routines *table)
{
    table->op[TN_K_PHILOX][CPU_I64] = philox;
    table->philox_pair = philox_pair;
}
