/* routines_pool.c: the loops of max and mean pooling (cpu_pool.c). Most of them
 * process one element of all windows of a plane at a time. max_windows()
 * processes whole windows, a vector of them at a time. */
#include <string.h>

#include "routines.h"
#include "scalar.h"
#include "vector_ops.h"

/* out[2 * j] = in[j]. The store is masked, because other tasks write the
 * elements in between. Storing one element at a time would take four times as
 * long. */
#if defined(__AVX512VL__)
#define HAS_STORE_EVENS 1
static void store_evens(void *out, const void *in, int64_t n)
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
#define HAS_STORE_EVENS 0
#define store_evens(out, in, n) (void)0
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

/* ---- wide windows -------------------------------------------------------- */

typedef int32_t loose_i32
    __attribute__((vector_size(TN_CPU_VECTOR), aligned(4), may_alias));
typedef struct running_max {
    vec_f32 most;
    vec_i32 of;
} running_max;

/* Updates maxima as pool_max_update does: the first NaN is selected, and of two
 * zeros +0. */
static inline running_max update_max(running_max w, vec_f32 x, vec_i32 number)
{
    vec_i32 better = ~(vec_i32)(x <= w.most) & (vec_i32)(w.most == w.most);
    vec_i32 kept =
        (vec_i32)w.most & ((vec_i32)x | (vec_i32)(x != w.most));
    return (running_max){(vec_f32)((better & (vec_i32)x) | (~better & kept)),
                         (better & number) | (~better & w.of)};
}

/* Computes the maxima of columns, two vectors at a time, which stay in
 * registers for all rows. They do not depend on each other, which hides the
 * latency of each maximum. If fewer columns remain, the last vectors overlap
 * the previous ones. */
static void max_columns(float *best, int32_t *at, const float *in,
                        int64_t in_row, int64_t lines, int32_t step, int64_t n)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    for (int64_t j = 0; j < n; j += 2 * L) {
        const int64_t i = j + L > n ? n - L : j;
        const int64_t next = j + 2 * L > n ? n - L : j + L;
        const float *line = in;
        vec_i32 number = {0};
        running_max a = {*(const loose_f32 *)(in + i), number};
        running_max b = {*(const loose_f32 *)(in + next), number};
        for (int64_t k = 1; k < lines; k++) {
            line += in_row;
            number += step;
            a = update_max(a, *(const loose_f32 *)(line + i), number);
            b = update_max(b, *(const loose_f32 *)(line + next), number);
        }
        *(loose_f32 *)(best + i) = a.most;
        *(loose_i32 *)(at + i) = a.of;
        *(loose_f32 *)(best + next) = b.most;
        *(loose_i32 *)(at + next) = b.of;
    }
}

/* Computes the sums of columns. Adds rows k, k + lanes, k + 2 * lanes and so on
 * to partial sum k. Then adds the second half of the partial sums to the first
 * half, until one is left. plugin_program.h defines this order of summation.
 * Prefetches the rows below, because the hardware prefetcher does not follow
 * the order of these loads. `lanes` is 1, 2 or 4, and at most `lines`. */
static inline __attribute__((always_inline)) void
sum_lanes(float *out, const float *in, int64_t in_row, int64_t lines,
          const int lanes, int64_t n)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    const int64_t next = lines * in_row;
    for (int64_t j = 0; j < n; j += L) {
        vec_f32 sum[TN_LANES / TN_CPU_WIDE];
        j = j + L > n ? n - L : j;
        const float *line = in + j;
        _Pragma("GCC unroll 4") for (int k = 0; k < lanes; k++) {
            __builtin_prefetch(line + next);
            sum[k] = *(const loose_f32 *)line;
            line += in_row;
        }
        for (int64_t i = lanes; i < lines; i += lanes) {
            _Pragma("GCC unroll 4") for (int k = 0; k < lanes; k++) {
                if (i + k >= lines)
                    break;
                __builtin_prefetch(line + next);
                sum[k] += *(const loose_f32 *)line;
                line += in_row;
            }
        }
        if (lanes == 4) {
            sum[0] += sum[2];
            sum[1] += sum[3];
        }
        if (lanes > 1)
            sum[0] += sum[1];
        *(loose_f32 *)(out + j) = sum[0];
    }
}

static void sum_columns(float *out, const float *in, int64_t in_row,
                        int64_t lines, int64_t lanes, int64_t n)
{
    if (lanes == 4)
        sum_lanes(out, in, in_row, lines, 4, n);
    else if (lanes == 2)
        sum_lanes(out, in, in_row, lines, 2, n);
    else
        sum_lanes(out, in, in_row, lines, 1, n);
}

static void merge_max(float *best, int32_t *at, const float *in,
                      const int32_t *place, int32_t first, int64_t n)
{
    EACH(j, n) {
        float x = in[j], b = best[j];
        int32_t of = place[j] + first;
        int32_t same = -(int32_t)((x == b) | ((x != x) & (b != b)));
        int32_t update_max = -(int32_t)(!(x <= b) & (b == b));
        update_max |= same & -(int32_t)(of < at[j]);
        at[j] = update_max ? of : at[j];
        best[j] = max_f32(b, x);
    }
}

/* ---- windows in registers ------------------------------------------------ */

#if defined(TN_CPU_EVENS) && defined(__AVX2__)
#if defined(__AVX512F__)
static inline vec_i32 number_if_greater(vec_i32 number, vec_i32 of, vec_f32 x,
                                        vec_f32 most)
{
    const __mmask16 greater =
        _mm512_cmp_ps_mask((__m512)x, (__m512)most, _CMP_GT_OQ);
    return (vec_i32)_mm512_mask_mov_epi32((__m512i)of, greater,
                                          (__m512i)number);
}
static inline vec_f32 least_unless(vec_i32 at, int32_t size, vec_f32 x)
{
    const __mmask16 within =
        _mm512_cmplt_epu32_mask((__m512i)at, _mm512_set1_epi32(size));
    return (vec_f32)_mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()),
                                       within, (__m512)x);
}
/* Returns whether a NaN has been seen, or one of the maxima x is -0. */
static inline int is_special(seen_f32 seen, vec_f32 x)
{
    return (seen | _mm512_cmpeq_epi32_mask((__m512i)x,
                                           _mm512_set1_epi32(INT32_MIN))) != 0;
}
#else
static inline vec_i32 number_if_greater(vec_i32 number, vec_i32 of, vec_f32 x,
                                        vec_f32 most)
{
    return (vec_i32)_mm256_blendv_epi8(
        (__m256i)of, (__m256i)number,
        (__m256i)_mm256_cmp_ps((__m256)x, (__m256)most, _CMP_GT_OQ));
}
static inline vec_f32 least_unless(vec_i32 at, int32_t size, vec_f32 x)
{
    const vec_i32 within = (vec_i32)(at >= 0) & (vec_i32)(at < size);
    return (vec_f32)_mm256_blendv_ps(_mm256_set1_ps(-__builtin_inff()),
                                     (__m256)x, (__m256)within);
}
static inline int is_special(seen_f32 seen, vec_f32 x)
{
    seen |= (vec_i32)((vec_i32)x == INT32_MIN);
    return _mm256_movemask_epi8((__m256i)seen) != 0;
}
#endif

/* Loads one element of each window of a vector of windows. Lanes whose element
 * may not be read are 0. */
static __attribute__((noinline)) vec_f32
load_within(const tn_cpu_pool_row *row, int64_t at)
{
    vec_f32 x = {0};
    for (unsigned i = 0; i < sizeof x / sizeof x[0]; i++, at += row->step)
        if (at >= row->low && at < row->there)
            x[i] = row->in[at];
    return x;
}

/* Computes the maxima of one vector of windows, beginning with window j. Before
 * the call, w->of has the indices of the windows' first elements. Columns
 * outside the image are -inf, which never becomes a maximum. Without `exact`,
 * returns 0 if there is a NaN or a maximum is -0. The caller then repeats the
 * call with `exact`. */
static inline __attribute__((always_inline)) int
vector_of_windows(const tn_cpu_pool_row *row, int64_t j, vec_i32 lane,
                  running_max *w, const int plain, const int indexed,
                  const int exact)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    const int64_t step = row->step, apart = row->apart;
    const int64_t column = row->column + j * step;
    const int64_t last = column + (L - 1) * step + (row->width - 1) * apart;
    const int edged = column < 0 || last >= row->size;
    const float *in = row->in + row->from + j * step;
    int32_t line = row->place + (int32_t)(j * step);
    seen_f32 seen = {0};
    w->most = -__builtin_inff() - (vec_f32){0};
    for (int64_t k = 0; k < row->lines; k++) {
        vec_i32 number = indexed ? lane + line : lane;
        for (int64_t l = 0; l < row->width; l++) {
            const float *from = in + l * apart;
            vec_f32 x;
            if (!plain)
                x = load_within(row, from - row->in);
            else if (step == 1)
                x = *(const loose_f32 *)from;
            else
                x = TN_CPU_EVENS_F32(*(const loose_f32 *)from,
                                     *(const loose_f32 *)(from + L - 1));
            if (edged)
                x = least_unless(lane + (int32_t)(column + l * apart),
                                 (int32_t)row->size, x);
            if (exact) {
                *w = update_max(*w, x, number);
            } else {
                if (indexed)
                    w->of = number_if_greater(number, w->of, x, w->most);
                w->most = greater_vec_f32(x, w->most);
                seen = see_nan_f32(seen, x, x);
            }
            number += (int32_t)apart;
        }
        line += (int32_t)row->line_places;
        in += row->in_row;
    }
    return !is_special(seen, w->most);
}

static __attribute__((noinline)) void exact_windows(const tn_cpu_pool_row *row,
                                                    int64_t j, vec_i32 lane,
                                                    running_max *w, int plain)
{
    vector_of_windows(row, j, lane, w, plain, 1, 1);
}

static inline __attribute__((always_inline)) void
pool_windows(float *out, int64_t *index, const tn_cpu_pool_row *row,
             const int indexed)
{
    enum { L = sizeof(vec_f32) / sizeof(float) };
    static const int32_t ramp[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                   8, 9, 10, 11, 12, 13, 14, 15};
    const int64_t n = row->n, step = row->step;
    const vec_i32 lane = *(const loose_i32 *)ramp * (int32_t)step;
    /* number of elements from the first to the last one that a vector of
     * windows reads */
    const int64_t reach = (row->lines - 1) * row->in_row +
                          (row->width - 1) * row->apart +
                          (step == 2 ? 2 * L - 1 : L);
    for (int64_t j = 0; j < n; j += L) {
        j = j + L > n && n >= L ? n - L : j;
        const int64_t some = n - j < L ? n - j : L;
        const int64_t from = row->from + j * step;
        running_max w, first = {{0}, {0}};
        if (indexed)
            first.of = load_part_32(row->first + j, some) + row->row;
        w = first;
        const int plain = from >= row->low && from + reach <= row->there;
        if (!plain || !vector_of_windows(row, j, lane, &w, 1, indexed, 0)) {
            w = first;
            exact_windows(row, j, lane, &w, plain);
        }
        if (some == L)
            *(loose_f32 *)(out + j) = w.most;
        else
            memcpy(out + j, &w.most, (size_t)some * sizeof *out);
        if (indexed && some == L) {
            EACH(i, L)
                index[j + i] = w.of[i];
        } else if (indexed) {
            for (int64_t i = 0; i < some; i++)
                index[j + i] = w.of[i];
        }
    }
}

static void max_windows(float *out, int64_t *index, const tn_cpu_pool_row *row)
{
    if (index)
        pool_windows(out, index, row, 1);
    else
        pool_windows(out, index, row, 0);
}
#else
#define max_windows NULL
#endif

void TN_CPU_NAME(tn__cpu_pool)(tn_cpu_routines *table)
{
    static const tn_cpu_pool_routines f32 = {
        pool_max_update_f32, pool_copy_f32,          pool_divide_f32,
        pool_mean_f32,       pool_mean_backward_f32, pool_scatter_f32};
    static const tn_cpu_pool_routines f64 = {
        pool_max_update_f64, pool_copy_f64,          pool_divide_f64,
        pool_mean_f64,       pool_mean_backward_f64, pool_scatter_f64};
    static const tn_cpu_window_routines wide = {max_windows, max_columns,
                                                merge_max, sum_columns};
    table->windows = &wide;
    table->pool[CPU_F32] = &f32;
    table->pool[CPU_F64] = &f64;
}
