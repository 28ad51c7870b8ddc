/* routines_order.c: selection from a sequence of 32-bit keys, which are signed
 * integers in the requested order. Finds the keys that may be among the
 * smallest `wanted` ones (torch.topk), the key at a rank (torch.kthvalue,
 * torch.median), and the indices of bytes that are not 0 (torch.nonzero). */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector_ops.h"

enum { LANES = TN_CPU_VECTOR / 4, PARTS = TN_CPU_PARTS / LANES };
typedef float vec_f32 __attribute__((vector_size(TN_CPU_VECTOR)));

static inline vec_i32 select_by(vec_i32 mask, vec_i32 x, vec_i32 y)
{
    return (x & mask) | (y & ~mask);
}

/* Computes keys. They order -0 like +0, and NaN after all numbers. */
static void keys(int32_t *key, const void *block, int64_t n, int is_float,
                 int32_t flip)
{
    for (int64_t k = 0; k < n; k += LANES) {
        vec_i32 u;
        vec_f32 x;
        memcpy(&u, (const int32_t *)block + k, sizeof u);
        if (is_float) {
            memcpy(&x, &u, sizeof x);
            vec_i32 number = x == x;
            u &= x != 0;
            u ^= u >> 31 & INT32_MAX;
            u = select_by(number, u, (vec_i32){0} + INT32_MAX);
        }
        u ^= flip;
        memcpy(key + k, &u, sizeof u);
    }
}

/* Returns a mask: bit i is set if x[i] <= bound. */
static inline unsigned mask_at_most(vec_i32 x, int32_t bound)
{
#if defined(__AVX512F__)
    return _mm512_cmple_epi32_mask((__m512i)x, _mm512_set1_epi32(bound));
#elif defined(__AVX2__)
    return 0xff & ~(unsigned)_mm256_movemask_ps(
                      (__m256)_mm256_cmpgt_epi32((__m256i)x,
                                                 _mm256_set1_epi32(bound)));
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < LANES; i++)
        bits |= (unsigned)(x[i] <= bound) << i;
    return bits;
#endif
}

/* Returns a mask: bit i is set if x[i] == key. */
static inline unsigned mask_equal(vec_i32 x, int32_t key)
{
#if defined(__AVX512F__)
    return _mm512_cmpeq_epi32_mask((__m512i)x, _mm512_set1_epi32(key));
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)(x == key));
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < LANES; i++)
        bits |= (unsigned)(x[i] == key) << i;
    return bits;
#endif
}

/* An array of TN_CPU_PARTS keys, and for each key the number of smaller keys in
 * the array. */
typedef struct ranked {
    vec_i32 key[PARTS], less[PARTS];
} ranked;

static __attribute__((noinline)) void rank_all(ranked *r)
{
    int32_t each[TN_CPU_PARTS];
    memcpy(each, r->key, sizeof each);
    memset(r->less, 0, sizeof r->less);
    for (int i = 0; i < TN_CPU_PARTS; i++)
        for (int v = 0; v < PARTS; v++)
            r->less[v] -= each[i] < r->key[v];
}

/* Returns the largest key that has fewer than `wanted` smaller ones. */
static int32_t greatest_of(const ranked *r, int32_t wanted)
{
    vec_i32 most = (vec_i32){0} + INT32_MIN;
    int32_t bound = INT32_MIN;
    for (int v = 0; v < PARTS; v++) {
        vec_i32 x = select_by(r->less[v] < wanted, r->key[v], most);
        most = select_by(x > most, x, most);
    }
    for (int i = 0; i < LANES; i++)
        bound = most[i] > bound ? most[i] : bound;
    return bound;
}

/* Returns an upper bound of the `wanted` smallest keys. The keys are divided
 * into TN_CPU_PARTS interleaved parts, and each part has a minimum. The bound
 * is the `wanted`-th smallest of these minima. */
static int32_t bound_of(const int32_t *key, int64_t n, int32_t wanted)
{
    ranked part;
    memcpy(part.key, key, sizeof part.key);
    for (int64_t k = TN_CPU_PARTS; k < n; k += TN_CPU_PARTS)
        for (int v = 0; v < PARTS; v++) {
            vec_i32 x;
            memcpy(&x, key + k + v * LANES, sizeof x);
            part.key[v] = select_by(x < part.key[v], x, part.key[v]);
        }
    rank_all(&part);
    return greatest_of(&part, wanted);
}

static int64_t firsts(uint64_t *items, const int32_t *key, int64_t n,
                      int32_t wanted)
{
    const int32_t bound = bound_of(key, n, wanted);
    int64_t have = 0;
    for (int64_t k = 0; k < n; k += LANES) {
        vec_i32 x;
        memcpy(&x, key + k, sizeof x);
        for (unsigned bits = mask_at_most(x, bound); bits; bits &= bits - 1) {
            int64_t i = k + __builtin_ctz(bits);
            items[have++] = (uint64_t)((uint32_t)key[i] ^ 0x80000000u) << 32 |
                            (uint64_t)i;
        }
    }
    return have;
}

/* Copies the keys in [low, high], without changing their order. Returns their
 * number, and sets *less to the number of keys below low. */
static __attribute__((noinline)) int64_t
keep_between(int32_t *to, const int32_t *from, int64_t n,
             int32_t low, int32_t high, int64_t *less)
{
    int64_t have = 0, below = 0;
#if defined(__AVX512F__)
    const __m512i lows = _mm512_set1_epi32(low),
                  highs = _mm512_set1_epi32(high);
    for (int64_t k = 0; k < n; k += LANES) {
        const unsigned there = n - k < LANES ? (1u << (n - k)) - 1 : 0xffff;
        const __m512i x = _mm512_maskz_loadu_epi32((__mmask16)there, from + k);
        const __mmask16 under =
            _mm512_mask_cmplt_epi32_mask((__mmask16)there, x, lows);
        const __mmask16 kept = _mm512_mask_cmple_epi32_mask(
            (__mmask16)(there & ~(unsigned)under), x, highs);
        _mm512_storeu_si512(to + have, _mm512_maskz_compress_epi32(kept, x));
        have += __builtin_popcount(kept);
        below += __builtin_popcount(under);
    }
#else
    for (int64_t k = 0; k < n; k++) {
        const int32_t x = from[k];
        to[have] = x; /* `have` counts x only if it is in the range; otherwise
                       * the next key overwrites it */
        have += (x >= low) & (x <= high);
        below += x < low;
    }
#endif
    *less = below;
    return have;
}

/* Returns the key at a rank, and sets *less to the number of smaller keys. Two
 * keys of a sample become lower and upper bound, so that only few keys are
 * between them. The search continues with these keys, or outside the bounds if
 * the wanted key is there. If all keys are between the bounds, the range of the
 * bounds is halved. */
static int32_t key_at(const int32_t *key, int64_t n, int64_t rank,
                      int32_t *room, int64_t *less)
{
    /* The distance of the bounds from the wanted rank, in ranks of the sample.
     * It is 1.5 times the standard deviation of the rank of the median in 64
     * samples. */
    enum { MARGIN = 6 };
    int32_t *to = room, *other = room + n;
    ranked part;
    int32_t sample[TN_CPU_PARTS];
    *less = 0;
    while (n > TN_CPU_PARTS) {
        int32_t low = INT32_MIN, high = INT32_MAX;
        int64_t below, kept, at = (rank - *less) * TN_CPU_PARTS / n;
        for (int i = 0; i < TN_CPU_PARTS; i++)
            sample[i] = key[i * (n / TN_CPU_PARTS)];
        memcpy(part.key, sample, sizeof sample);
        rank_all(&part);
        if (at >= MARGIN)
            low = greatest_of(&part, (int32_t)at + 1 - MARGIN);
        if (at + MARGIN < TN_CPU_PARTS)
            high = greatest_of(&part, (int32_t)at + 1 + MARGIN);
        kept = keep_between(to, key, n, low, high, &below);
        while (rank - *less < below || rank - *less >= below + kept ||
               (kept == n && low < high)) {
            const int32_t middle = (int32_t)(((int64_t)low + high) >> 1);
            if (rank - *less < below)
                high = low - 1, low = INT32_MIN;
            else if (rank - *less >= below + kept)
                low = high + 1, high = INT32_MAX;
            else if (keep_between(to, key, n, low, middle, &below) >
                     rank - *less)
                high = middle;
            else
                low = middle + 1;
            kept = keep_between(to, key, n, low, high, &below);
        }
        *less += below;
        if (low == high)
            return low;
        n = kept;
        int32_t *here = to;
        key = here;
        to = other;
        other = here;
    }
    for (int64_t i = 0; i < TN_CPU_PARTS; i++)
        sample[i] = i < n ? key[i] : INT32_MAX;
    memcpy(part.key, sample, sizeof sample);
    rank_all(&part);
    const int32_t found = greatest_of(&part, (int32_t)(rank - *less) + 1);
    for (int64_t i = 0; i < TN_CPU_PARTS; i++)
        *less += sample[i] < found;
    return found;
}

static int64_t place_at(const int32_t *key, int64_t n, int64_t rank,
                        int32_t *room)
{
    int64_t less;
    const int32_t found = key_at(key, n, rank, room, &less);
    for (int64_t k = 0, left = rank - less;; k += LANES) {
        vec_i32 x;
        memcpy(&x, key + k, sizeof x);
        unsigned bits = mask_equal(x, found);
        const int64_t here = __builtin_popcount(bits);
        if (left >= here) {
            left -= here;
            continue;
        }
        for (; left > 0; left--)
            bits &= bits - 1;
        return k + __builtin_ctz(bits);
    }
}

static int64_t places(int64_t *out, int64_t room, const uint8_t *x, int64_t n,
                      int is_zero)
{
    enum { STEP = 64 };
    int64_t have = 0, k = 0;
    for (; k + STEP <= n && have + STEP <= room; k += STEP) {
#if defined(__AVX512BW__)
        const __m512i bytes = _mm512_loadu_si512(x + k);
        uint64_t bits = _mm512_test_epi8_mask(bytes, bytes);
        bits ^= is_zero ? UINT64_MAX : 0;
        __m512i number = _mm512_add_epi64(
            _mm512_set1_epi64(k), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        for (int i = 0; i < STEP; i += 8) {
            const __mmask8 here = (__mmask8)(bits >> i);
            _mm512_storeu_si512(out + have,
                                _mm512_maskz_compress_epi64(here, number));
            have += __builtin_popcount(here);
            number = _mm512_add_epi64(number, _mm512_set1_epi64(8));
        }
#else
        for (int64_t i = k; i < k + STEP; i++) {
            /* `have` counts i only if it is wanted; otherwise the next index
             * overwrites it */
            out[have] = i;
            have += (x[i] == 0) == is_zero;
        }
#endif
    }
    for (; k < n && have < room; k++) {
        out[have] = k;
        have += (x[k] == 0) == is_zero;
    }
    return have;
}

void TN_CPU_NAME(tn__cpu_order)(tn_cpu_routines *table)
{
    table->keys = keys;
    table->firsts = firsts;
    table->place_at = place_at;
    table->places = places;
}
