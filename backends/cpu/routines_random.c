/* routines_random.c: PHILOX over blocks, Philox4x32-10 (Salmon et al., SC 2011,
 * doi:10.1145/2063384.2063405). One counter has four words: those of four
 * neighbouring numbers a, or of two where every other is asked for. A run of
 * such numbers takes a vector of counters at a time. */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector_ops.h"

enum { LANES = TN_CPU_VECTOR / 8 };
#define LOW UINT64_C(0xffffffff)

/* The product of the low halves: a multiplication of 32 bits is one
 * instruction, of 64 three. */
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

/* The words of each counter, in the low halves; what is above them is of no
 * meaning. */
static inline void words(vec_u64 counter, uint64_t key, uint64_t call,
                         vec_u64 word[4])
{
    vec_u64 none = {0}, x0 = counter, x1 = counter >> 32;
    vec_u64 x2 = none + call, x3 = none + (call >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        vec_u64 p = times(x0, 0xD2511F53u), q = times(x2, 0xCD9E8D57u);
        x0 = (q >> 32) ^ x1 ^ k0;
        x1 = q;
        x2 = (p >> 32) ^ x3 ^ k1;
        x3 = p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = x0;
    word[1] = x1;
    word[2] = x2;
    word[3] = x3;
}

/* Two words as they lie in memory. */
static inline vec_u64 join(vec_u64 first, vec_u64 second)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return first << 32 | (second & LOW);
#else
    return (first & LOW) | second << 32;
#endif
}

/* Of a, a + 4, a + 8 and so on. */
static inline vec_u64 counters_from(uint64_t a)
{
    vec_u64 number = {0};
    for (int k = 0; k < LANES; k++)
        number[k] = a + 4 * (uint64_t)k;
    return number >> 2;
}

/* Does a run of count numbers begin here, so far from one to the next and in
 * the words that a vector of counters begins with? */
static int is_run(const uint64_t *a, uint64_t step, int64_t count, int64_t n)
{
    uint64_t gaps = 0;
    if (n < count || (a[0] & 3) >= step)
        return 0;
    EACH(k, count) gaps |= a[k] - a[0] - (uint64_t)k * step;
    return gaps == 0;
}

/* Any numbers, at most LANES of them. */
static void some(int32_t *out, const uint64_t *a, uint64_t key, uint64_t call,
                 int64_t count)
{
    vec_u64 number = {0}, word[4];
    memcpy(&number, a, (size_t)count * sizeof *a);
    words(number >> 2, key, call, word);
    vec_u64 odd = -(number & 1), high = -(number >> 1 & 1);
    vec_u64 first = (word[0] & ~odd) | (word[1] & odd);
    vec_u64 second = (word[2] & ~odd) | (word[3] & odd);
    vec_u64 chosen = (first & ~high) | (second & high);
    for (int k = 0; k < count; k++)
        out[k] = (int32_t)chosen[k];
}

/* How many go by some(): one, to meet the next counter, or what is no run. */
static int64_t apart(const uint64_t *a, int64_t n)
{
    return n < LANES ? n : a[1] - a[0] - 1 < 2 ? 1 : LANES;
}

static void philox(void *out, const void *pa, const void *pb, const void *pc,
                   int64_t n, unsigned scalar)
{
    const uint64_t *a = pa, *b = pb, *c = pc;
    int32_t *o = out;
    vec_u64 word[4];
    for (int64_t i = 0; i < n;) {
        uint64_t key = b[scalar & 2 ? 0 : i], call = c[scalar & 4 ? 0 : i];
        if (scalar == 6 && is_run(a + i, 1, 4 * LANES, n - i)) {
            words(counters_from(a[i]), key, call, word);
            vec_u64 first = join(word[0], word[1]);
            vec_u64 second = join(word[2], word[3]);
            for (int k = 0; k < LANES; k++) {
                uint64_t pair[2] = {first[k], second[k]};
                memcpy(o + i + 4 * k, pair, sizeof pair);
            }
            i += 4 * LANES;
        } else if (scalar == 6 && is_run(a + i, 2, 2 * LANES, n - i)) {
            words(counters_from(a[i]), key, call, word);
            vec_u64 both = a[i] & 1 ? join(word[1], word[3])
                                    : join(word[0], word[2]);
            memcpy(o + i, &both, sizeof both);
            i += 2 * LANES;
        } else {
            int64_t count = scalar == 6 ? apart(a + i, n - i) : 1;
            some(o + i, a + i, key, call, count);
            i += count;
        }
    }
}

/* Those of a and of a + 1: mostly the words of the same counters. */
static void philox_pair(void *out, void *next, const void *pa, const void *pb,
                        const void *pc, int64_t n)
{
    const uint64_t *a = pa, *key = pb, *call = pc;
    int32_t *o = out, *o1 = next;
    vec_u64 word[4];
    for (int64_t i = 0; i < n;) {
        if (!(a[i] & 1) && is_run(a + i, 2, 2 * LANES, n - i)) {
            words(counters_from(a[i]), *key, *call, word);
            vec_u64 even = join(word[0], word[2]);
            vec_u64 odd = join(word[1], word[3]);
            memcpy(o + i, &even, sizeof even);
            memcpy(o1 + i, &odd, sizeof odd);
            i += 2 * LANES;
        } else {
            uint64_t after[LANES];
            int64_t count = apart(a + i, n - i);
            for (int64_t k = 0; k < count; k++)
                after[k] = a[i + k] + 1;
            some(o + i, a + i, *key, *call, count);
            some(o1 + i, after, *key, *call, count);
            i += count;
        }
    }
}

void TN_CPU_NAME(tn__cpu_random)(tn_cpu_routines *table)
{
    table->op[TN_K_PHILOX][CPU_I64] = philox;
    table->philox_pair = philox_pair;
}
