/* routines_pool.c: the loops of pooling (pool.c): one element of all windows of
 * a plane at a time. */
#include <string.h>

#include "routines.h"
#include "scalar.h"
#include "vector_ops.h"

/* out[2 * j] = in[j]. The gaps are another task's, so nothing is written there:
 * one by one it takes four times as long. */
#if defined(__AVX512VL__)
#define PUT_APART 1
static void put_apart(void *out, const void *in, int64_t n)
{
    for (int64_t j = 0; j < n; j += 8) {
        const int some = n - j < 8 ? (int)(n - j) : 8;
        const __mmask8 lanes = (__mmask8)((1u << some) - 1);
        const __mmask16 evens = (__mmask16)(0x5555 & ((1u << 2 * some) - 1));
        __m256i x = _mm256_maskz_loadu_epi32(lanes, (const int32_t *)in + j);
        _mm512_mask_storeu_epi32((int32_t *)out + 2 * j, evens,
                                 _mm512_cvtepu32_epi64(x));
    }
}
#else
#define PUT_APART 0
#define put_apart(out, in, n) (void)0
#endif

#define T float
#define BITS int32_t
#define VEC vec_f32
#define LOOSE loose_f32
#define EVENS TN_CPU_EVENS_F32
#define HALF half_f32
#define HALF_EVENS TN_CPU_HALF_EVENS_F32
#define NAME(x) x##_f32
#include "pool_loops.inc"
#undef T
#undef BITS
#undef VEC
#undef LOOSE
#undef EVENS
#undef HALF
#undef HALF_EVENS
#undef NAME

#define T double
#define BITS int64_t
#define VEC vec_f64
#define LOOSE loose_f64
#define EVENS TN_CPU_EVENS_F64
#define HALF half_f64
#define HALF_EVENS TN_CPU_HALF_EVENS_F64
#define NAME(x) x##_f64
#include "pool_loops.inc"

/* ---- wide windows ------------------------------------------------------------- */

typedef int32_t loose_i32
    __attribute__((vector_size(TN_CPU_VECTOR), aligned(4), may_alias));
typedef struct found {
    vec_f32 most;
    vec_i32 of;
} found;

/* As pool_greater has it: the first NaN, +0 of equals. */
static inline found take(found w, vec_f32 x, vec_i32 number)
{
    vec_i32 better = ~(vec_i32)(x <= w.most) & (vec_i32)(w.most == w.most);
    vec_i32 kept =
        (vec_i32)w.most & ((vec_i32)x | (vec_i32)(x != w.most));
    return (found){(vec_f32)((better & (vec_i32)x) | (~better & kept)),
                   (better & number) | (~better & w.of)};
}

/* Two vectors of columns stay in registers for all lines: each number waits for
 * the one before. The last columns, if fewer, are begun before and made twice. */
static void wide_lines(float *best, int32_t *at, const float *in,
                       int64_t in_row, int64_t lines, int32_t step, int64_t n)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    for (int64_t j = 0; j < n; j += 2 * L) {
        const int64_t i = j + L > n ? n - L : j;
        const int64_t next = j + 2 * L > n ? n - L : j + L;
        const float *line = in;
        vec_i32 number = {0};
        found a = {*(const loose_f32 *)(in + i), number};
        found b = {*(const loose_f32 *)(in + next), number};
        for (int64_t k = 1; k < lines; k++) {
            line += in_row;
            number += step;
            a = take(a, *(const loose_f32 *)(line + i), number);
            b = take(b, *(const loose_f32 *)(line + next), number);
        }
        *(loose_f32 *)(best + i) = a.most;
        *(loose_i32 *)(at + i) = a.of;
        *(loose_f32 *)(best + next) = b.most;
        *(loose_i32 *)(at + next) = b.of;
    }
}

/* Lines k, k + lanes and so on are added one after the other, then those sums by
 * halves: what the fixed order has of a column. */
static void wide_sum(float *out, const float *in, int64_t in_row,
                     int64_t lines, int64_t lanes, int64_t n)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    for (int64_t j = 0; j < n; j += L) {
        vec_f32 sum[TN_LANES / TN_CPU_WIDE] = {{0}};
        j = j + L > n ? n - L : j;
        for (int64_t k = 0; k < lanes; k++) {
            const float *line = in + k * in_row + j;
            vec_f32 x = *(const loose_f32 *)line;
            for (int64_t i = k + lanes; i < lines; i += lanes) {
                line += lanes * in_row;
                x += *(const loose_f32 *)line;
            }
            sum[k] = x;
        }
        for (int64_t half = lanes / 2; half > 0; half /= 2)
            for (int64_t k = 0; k < half; k++)
                sum[k] += sum[k + half];
        *(loose_f32 *)(out + j) = sum[0];
    }
}

static void wide_merge(float *best, int32_t *at, const float *in,
                       const int32_t *place, int32_t first, int64_t n)
{
    EACH(j, n) {
        float x = in[j], b = best[j];
        int32_t of = place[j] + first;
        int32_t same = -(int32_t)((x == b) | ((x != x) & (b != b)));
        int32_t take = -(int32_t)(!(x <= b) & (b == b));
        take |= same & -(int32_t)(of < at[j]);
        at[j] = take ? of : at[j];
        best[j] = max_f32(b, x);
    }
}

void TN_CPU_NAME(tn__cpu_pool)(tn_cpu_routines *table)
{
    static const tn_cpu_pool_routines f32 = {pool_greater_f32, pool_copy_f32,
                                             pool_divide_f32,
                                             pool_mean_f32, pool_share_f32,
                                             pool_scatter_f32};
    static const tn_cpu_pool_routines f64 = {pool_greater_f64, pool_copy_f64,
                                             pool_divide_f64,
                                             pool_mean_f64, pool_share_f64,
                                             pool_scatter_f64};
    static const tn_cpu_wide_routines wide = {wide_lines, wide_merge, wide_sum};
    table->wide = &wide;
    table->pool[CPU_F32] = &f32;
    table->pool[CPU_F64] = &f64;
}
