/* routines_order.c: keys of 32 bits, signed numbers in the order asked for, and
 * which of a line may be among its first. */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector_ops.h"

enum { LANES = TN_CPU_VECTOR / 4, PARTS = TN_CPU_PARTS / LANES };
typedef float vec_f32 __attribute__((vector_size(TN_CPU_VECTOR)));

static inline vec_i32 chosen(vec_i32 mask, vec_i32 x, vec_i32 y)
{
    return (x & mask) | (y & ~mask);
}

/* -0 as +0, NaN greatest. */
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
            u = chosen(number, u, (vec_i32){0} + INT32_MAX);
        }
        u ^= flip;
        memcpy(key + k, &u, sizeof u);
    }
}

/* Bit i: is x[i] at most bound? */
static inline unsigned up_to(vec_i32 x, int32_t bound)
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

/* The least of each part, an element in TN_CPU_PARTS: so many of them as are
 * wanted bound the first ones from above. */
static int32_t bound_of(const int32_t *key, int64_t n, int32_t wanted)
{
    vec_i32 part[PARTS], rank[PARTS] = {{0}}, most = (vec_i32){0} + INT32_MIN;
    int32_t least[TN_CPU_PARTS], bound = INT32_MIN;
    memcpy(part, key, sizeof part);
    for (int64_t k = TN_CPU_PARTS; k < n; k += TN_CPU_PARTS)
        for (int v = 0; v < PARTS; v++) {
            vec_i32 x;
            memcpy(&x, key + k + v * LANES, sizeof x);
            part[v] = chosen(x < part[v], x, part[v]);
        }
    memcpy(least, part, sizeof least);
    for (int i = 0; i < TN_CPU_PARTS; i++)
        for (int v = 0; v < PARTS; v++)
            rank[v] -= least[i] < part[v];
    for (int v = 0; v < PARTS; v++) {
        vec_i32 x = chosen(rank[v] < wanted, part[v], most);
        most = chosen(x > most, x, most);
    }
    for (int i = 0; i < LANES; i++)
        bound = most[i] > bound ? most[i] : bound;
    return bound;
}

static int64_t firsts(uint64_t *items, const int32_t *key, int64_t n,
                      int32_t wanted)
{
    const int32_t bound = bound_of(key, n, wanted);
    int64_t have = 0;
    for (int64_t k = 0; k < n; k += LANES) {
        vec_i32 x;
        memcpy(&x, key + k, sizeof x);
        for (unsigned bits = up_to(x, bound); bits; bits &= bits - 1) {
            int64_t i = k + __builtin_ctz(bits);
            items[have++] = (uint64_t)((uint32_t)key[i] ^ 0x80000000u) << 32 |
                            (uint64_t)i;
        }
    }
    return have;
}

void TN_CPU_NAME(tn__cpu_order)(tn_cpu_routines *table)
{
    table->keys = keys;
    table->firsts = firsts;
}
