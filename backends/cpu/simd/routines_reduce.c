/* routines_reduce.c: reductions (sum, product, minimum, maximum, argmin,
 * argmax) of contiguous rows and of columns. There are TN_LANES partial
 * results, called lanes, combined in the order of plugin_program.h. Columns are
 * adjacent rows whose elements of equal index are contiguous. For columns, lane
 * l of all rows is an array. */
#include <stdbool.h>
#include <string.h>

#include "routines.h"
#include "scalar.h"
#include "vector_ops.h"

/* Integer maximum and minimum in one instruction. For x > y ? x : y, a compiler
 * generates a comparison and a select, several cycles each. */
#if defined(__AVX512F__)
#define INT_MINMAX(name, V, op, instruction)                                  \
    static inline V name(V x, V y)                                            \
    {                                                                         \
        return (V)_mm512_##instruction((__m512i)x, (__m512i)y);               \
    }
#else
#define INT_MINMAX(name, V, op, instruction)                                  \
    static inline V name(V x, V y)                                            \
    {                                                                         \
        V first = (V)(x op y);                                                \
        return (first & x) | (~first & y);                                    \
    }
#endif
INT_MINMAX(max_vec_i32, vec_i32, >, max_epi32)
INT_MINMAX(min_vec_i32, vec_i32, <, min_epi32)
INT_MINMAX(max_vec_i64, vec_i64, >, max_epi64)
INT_MINMAX(min_vec_i64, vec_i64, <, min_epi64)

#define PLUS(x, y) ((x) + (y))
#define TIMES(x, y) ((x) * (y))

/* FOLD defines the reduction of rows. A vector V has PER elements of T. The
 * first vectors are loaded one by one, because a copy in other pieces would
 * wait for its own stores. `many` combines two vectors, `single` two elements.
 * `none` is the neutral element, for lanes beyond the end of a row. Rows are
 * read one after the other, with prefetches, which is faster than reading two
 * rows at once. */
#ifdef TN_CPU_PLAIN
enum { ROUNDS = 1 };
#else
/* Three rounds of TN_LANES elements are unrolled. After its first round, a
 * chunk has 63 rounds, a multiple of three. */
enum { ROUNDS = 3 };
#endif
#define FOLD(name, T, V, bits, many, single, none)                            \
    static inline __attribute__((always_inline)) void name##_lanes(           \
        T *out, V sum[TN_LANES * sizeof(T) / TN_CPU_VECTOR])                  \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), COUNT = TN_LANES / PER };     \
        _Pragma("GCC unroll 4") for (int h = COUNT / 2; h > 0; h /= 2)        \
            _Pragma("GCC unroll 4") for (int i = 0; i < h; i++)               \
                sum[i] = many(sum[i], sum[i + h]);                            \
        if (PER > 8)                                                          \
            sum[0] = many(sum[0], ROTATE_##bits(V, sum[0], 8));               \
        if (PER > 4)                                                          \
            sum[0] = many(sum[0], ROTATE_##bits(V, sum[0], 4));               \
        if (PER > 2)                                                          \
            sum[0] = many(sum[0], ROTATE_##bits(V, sum[0], 2));               \
        sum[0] = many(sum[0], ROTATE_##bits(V, sum[0], 1));                   \
        memcpy(out, sum, sizeof *out);                                        \
    }                                                                         \
    static inline __attribute__((always_inline)) void name##_round(           \
        V sum[TN_LANES * sizeof(T) / TN_CPU_VECTOR], const T *m,              \
        int64_t ahead)                                                        \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), COUNT = TN_LANES / PER };     \
        enum { LINE = 64 / sizeof(T) };                                       \
        V next;                                                               \
        _Pragma("GCC unroll 2") for (int i = 0; i < TN_LANES; i += LINE)      \
            __builtin_prefetch((const char *)(m + i) + ahead, 0, 3);          \
        _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++)          \
        {                                                                     \
            memcpy(&next, m + v * (int)PER, sizeof next);                     \
            sum[v] = many(sum[v], next);                                      \
        }                                                                     \
    }                                                                         \
    static inline __attribute__((always_inline)) void name##_one(             \
        T *out, const T *m, int64_t n, int64_t ahead)                         \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), COUNT = TN_LANES / PER };     \
        V sum[COUNT];                                                         \
        int64_t k = TN_LANES;                                                 \
        _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++)          \
        {                                                                     \
            memcpy(&sum[v], m + v * (int)PER, sizeof sum[v]);                 \
        }                                                                     \
        for (; k + ROUNDS * TN_LANES <= n; k += ROUNDS * TN_LANES) {          \
            _Pragma("GCC unroll 3") for (int r = 0; r < ROUNDS; r++)          \
                name##_round(sum, m + k + r * TN_LANES, ahead);               \
        }                                                                     \
        for (; k + TN_LANES <= n; k += TN_LANES)                              \
            name##_round(sum, m + k, ahead);                                  \
        _Pragma("GCC unroll 4") for (int v = 0; v < (int)COUNT; v++, k += PER)\
        {                                                                     \
            if (k >= n)                                                       \
                break;                                                        \
            int64_t left = n - k < (int)PER ? n - k : (int)PER;               \
            V some = (V)load_part_##bits(m + k, left);                        \
            sum[v] = many(sum[v], KEEP_PART(V, bits, some, left, none));      \
        }                                                                     \
        name##_lanes(out, sum);                                               \
    }                                                                         \
    static void name##_short(T *out, const T *m, int64_t n)                   \
    {                                                                         \
        T lane[TN_LANES];                                                     \
        memcpy(lane, m, (size_t)n * sizeof(T));                               \
        _Pragma("GCC unroll 1") for (int half = TN_LANES / 2; half > 0;       \
                                     half /= 2)                               \
            for (int i = 0; i < half && i + half < n; i++)                    \
                lane[i] = single(lane[i], lane[i + half]);                    \
        *out = lane[0];                                                       \
    }                                                                         \
    static void name(void *out, const void *memory, int64_t n, int64_t count, \
                     int64_t stride, int64_t ahead)                           \
    {                                                                         \
        const T *m = memory;                                                  \
        T *o = out;                                                           \
        int64_t i = 0;                                                        \
        for (; n >= TN_LANES && i < count; i++)                               \
            name##_one(o + i, m + i * stride, n, ahead);                      \
        for (; i < count; i++)                                                \
            name##_short(o + i, m + i * stride, n);                           \
    }

/* Minimum and maximum do not depend on the order. Therefore the loops for
 * floats use more accumulators, and a faster comparison that ignores NaN and
 * the sign of 0. If there was a NaN, the row is read again to find the first
 * NaN. If the result is 0, the row is read again to find whether it is -0 or
 * +0. */
#define FLOAT_MINMAX(name, suffix, T, many, op, single, zero)                 \
    static T name##_one(const T *m, int64_t n, int64_t ahead)                 \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), WIDE = 4 * PER };             \
        enum { LINE = 64 / sizeof(T) };                                       \
        T best = m[0];                                                        \
        int64_t k = 1;                                                        \
        bool nan = best != best;                                              \
        if (n >= WIDE) {                                                      \
            vec_##suffix most[4], x, y;                                       \
            seen_##suffix seen = {0};                                         \
            T each[PER];                                                      \
            memcpy(most, m, sizeof most);                                     \
            for (k = 0; k + WIDE <= n; k += WIDE) {                           \
                _Pragma("GCC unroll 4")                                       \
                for (int i = 0; ahead && i < WIDE; i += LINE)                 \
                    __builtin_prefetch((const char *)(m + k + i) + ahead, 0,  \
                                       3);                                    \
                _Pragma("GCC unroll 2") for (int v = 0; v < 4; v += 2)        \
                {                                                             \
                    memcpy(&x, m + k + v * (int)PER, sizeof x);               \
                    memcpy(&y, m + k + (v + 1) * (int)PER, sizeof y);         \
                    most[v] = many(x, most[v]);                               \
                    most[v + 1] = many(y, most[v + 1]);                       \
                    seen = see_nan_##suffix(seen, x, y);                      \
                }                                                             \
            }                                                                 \
            seen_##suffix none = {0};                                         \
            nan = memcmp(&seen, &none, sizeof seen) != 0;                     \
            most[0] = many(most[0], most[1]);                                 \
            most[2] = many(most[2], most[3]);                                 \
            most[0] = many(most[0], most[2]);                                 \
            memcpy(each, most, sizeof each);                                  \
            for (int half = PER / 2; half > 0; half /= 2)                     \
                for (int i = 0; i < half; i++)                                \
                    each[i] = each[i + half] op each[i] ? each[i + half]      \
                                                        : each[i];            \
            best = each[0];                                                   \
        }                                                                     \
        for (; k < n; k++)                                                    \
            best = single(best, m[k]);                                        \
        if (nan)                                                              \
            for (k = 0; best == best; k++)                                    \
                best = m[k] != m[k] ? m[k] : best;                            \
        if (best == 0) {                                                      \
            unsigned same = 0;                                                \
            EACH(i, n) same |= bits_##suffix(m[i]) == bits_##suffix(zero);    \
            best = same ? zero : -(zero);                                     \
        }                                                                     \
        return best;                                                          \
    }                                                                         \
    static void name(void *out, const void *memory, int64_t n, int64_t count, \
                     int64_t stride, int64_t ahead)                           \
    {                                                                         \
        T *o = out;                                                           \
        for (int64_t i = 0; i < count; i++)                                   \
            o[i] = name##_one((const T *)memory + i * stride, n, ahead);      \
    }
FLOAT_MINMAX(fold_max_f32, f32, float, greater_vec_f32, >, max_f32, 0.0f)
FLOAT_MINMAX(fold_min_f32, f32, float, lesser_vec_f32, <, min_f32, -0.0f)
FLOAT_MINMAX(fold_max_f64, f64, double, greater_vec_f64, >, max_f64, 0.0)
FLOAT_MINMAX(fold_min_f64, f64, double, lesser_vec_f64, <, min_f64, -0.0)

#define INT_FOLDS(suffix, T, bits)                                            \
    FOLD(fold_max_##suffix, T, vec_##suffix, bits, max_vec_##suffix,          \
         max_##suffix, INT##bits##_MIN)                                       \
    FOLD(fold_min_##suffix, T, vec_##suffix, bits, min_vec_##suffix,          \
         min_##suffix, INT##bits##_MAX)
FOLD(fold_sum_f32, float, vec_f32, 32, PLUS, PLUS, -0.0f)
FOLD(fold_sum_f64, double, vec_f64, 64, PLUS, PLUS, -0.0)
FOLD(fold_sum_i32, uint32_t, vec_u32, 32, PLUS, PLUS, 0)
FOLD(fold_sum_i64, uint64_t, vec_u64, 64, PLUS, PLUS, 0)
FOLD(fold_prod_f32, float, vec_f32, 32, TIMES, TIMES, 1)
FOLD(fold_prod_f64, double, vec_f64, 64, TIMES, TIMES, 1)
FOLD(fold_prod_i32, uint32_t, vec_u32, 32, TIMES, TIMES, 1)
FOLD(fold_prod_i64, uint64_t, vec_u64, 64, TIMES, TIMES, 1)
INT_FOLDS(i32, int32_t, 32)
INT_FOLDS(i64, int64_t, 64)

/* Defines dot products: out[i] = sum over k of (x[k] - p) * (y[k] - q) of row
 * i, where each product is rounded. Several rows are summed at once, which
 * hides the latency of the additions. If a factor has no center, p or q is 0,
 * which leaves the result unchanged. */
#define FOLD_PRODUCTS(name, T, V, bits, sum)                                  \
    static __attribute__((noinline)) void name##_end(                         \
        T *out, const void *lanes, const T *x, T p, const T *y, T q,          \
        int64_t n)                                                            \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), COUNT = TN_LANES / PER };     \
        V fold[COUNT];                                                        \
        memcpy(fold, lanes, sizeof fold);                                     \
        int64_t e = 0;                                                        \
        _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++, e += PER)\
        {                                                                     \
            if (e >= n)                                                       \
                break;                                                        \
            int64_t left = n - e < (int)PER ? n - e : (int)PER;               \
            V a = (V)load_part_##bits(x + e, left) - p;                       \
            a = a * ((V)load_part_##bits(y + e, left) - q);                   \
            fold[v] += KEEP_PART(V, bits, a, left, (T)-0.0);                  \
        }                                                                     \
        sum##_lanes(out, fold);                                               \
    }                                                                         \
    static inline __attribute__((always_inline)) void name##_some(            \
        T *out, const T *x, int64_t x_step, const T *p, int64_t p_step,       \
        const T *y, int64_t y_step, const T *q, int64_t q_step, int64_t n,    \
        const int some, const bool centered)                                  \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), COUNT = TN_LANES / PER };     \
        V fold[4][COUNT], a, b;                                               \
        int64_t k = 0;                                                        \
        _Pragma("GCC unroll 4") for (int i = 0; i < some; i++)                \
            _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++)      \
                fold[i][v] = -(V){0};                                         \
        for (; k + TN_LANES <= n; k += TN_LANES)                              \
            _Pragma("GCC unroll 4") for (int i = 0; i < some; i++)            \
                _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++)  \
                {                                                             \
                    memcpy(&a, x + i * x_step + k + v * (int)PER, sizeof a);  \
                    memcpy(&b, y + i * y_step + k + v * (int)PER, sizeof b);  \
                    if (centered)                                             \
                        a = (a - p[i * p_step]) * (b - q[i * q_step]);        \
                    else                                                      \
                        a = a * b;                                            \
                    fold[i][v] += a;                                          \
                }                                                             \
        _Pragma("GCC unroll 4") for (int i = 0; i < some; i++)                \
        {                                                                     \
            V lanes[COUNT];                                                   \
            if (k == n) {                                                     \
                sum##_lanes(out + i, fold[i]);                                \
                continue;                                                     \
            }                                                                 \
            _Pragma("GCC unroll 8") for (int v = 0; v < (int)COUNT; v++)      \
                lanes[v] = fold[i][v];                                        \
            name##_end(out + i, lanes, x + i * x_step + k, p[i * p_step],     \
                       y + i * y_step + k, q[i * q_step], n - k);             \
        }                                                                     \
    }                                                                         \
    static void name(void *sums, const tn_cpu_factor *factor, int64_t n,      \
                     int64_t count)                                           \
    {                                                                         \
        enum { COUNT = TN_LANES * sizeof(T) / TN_CPU_VECTOR };                \
        enum { SOME = COUNT > 4 ? 1 : COUNT > 1 ? 2 : 4 };                    \
        static const T zero;                                                  \
        T *out = sums;                                                        \
        const T *at[2], *center[2];                                           \
        int64_t step[2], center_step[2];                                      \
        for (int f = 0; f < 2; f++) {                                         \
            at[f] = factor[f].at;                                             \
            step[f] = factor[f].step;                                         \
            center[f] = factor[f].center ? factor[f].center : &zero;          \
            center_step[f] = factor[f].center ? factor[f].center_step : 0;    \
        }                                                                     \
        bool centered = factor[0].center || factor[1].center;                 \
        for (int64_t i = 0, done; i < count; i += done) {                     \
            const T *x = at[0] + i * step[0], *y = at[1] + i * step[1];       \
            const T *p = center[0] + i * center_step[0];                      \
            const T *q = center[1] + i * center_step[1];                      \
            done = i + SOME <= count ? SOME : 1;                              \
            if (SOME == 1 || done == 1)                                       \
                name##_some(out + i, x, 0, p, 0, y, 0, q, 0, n, 1, true);     \
            else if (centered)                                                \
                name##_some(out + i, x, step[0], p, center_step[0], y,        \
                            step[1], q, center_step[1], n, SOME, true);       \
            else                                                              \
                name##_some(out + i, x, step[0], p, 0, y, step[1], q, 0, n,   \
                            SOME, false);                                     \
        }                                                                     \
    }
FOLD_PRODUCTS(fold_products_f32, float, vec_f32, 32, fold_sum_f32)
FOLD_PRODUCTS(fold_products_f64, double, vec_f64, 64, fold_sum_f64)

#define FOLD_BOOL(name, first, op)                                            \
    static void name(void *out, const void *memory, int64_t n, int64_t count, \
                     int64_t stride, int64_t ahead)                           \
    {                                                                         \
        const uint8_t *m = memory;                                            \
        uint8_t *o = out;                                                     \
        (void)ahead;                                                          \
        for (int64_t i = 0; i < count; i++, m += stride) {                    \
            uint8_t fold = first;                                             \
            for (int64_t k = 0; k < n; k++)                                   \
                fold op m[k];                                                 \
            o[i] = fold;                                                      \
        }                                                                     \
    }
FOLD_BOOL(fold_any, 0, |=)
FOLD_BOOL(fold_all, 1, &=)

/* ---- columns ------------------------------------------------------------- */

/* COLUMNS defines the reduction of columns. It adds elements, beginning with
 * element `open`, to the lanes (partial results) of all rows. Four rounds of
 * TN_LANES elements are added at a time, because the lanes of many rows are in
 * L2. These are four input streams of `rows` elements, which is too short for
 * the hardware prefetcher. If the processor family benefits (family.c), the
 * next four streams are prefetched, STRIP elements at a time. */

/* whether to prefetch; the value of family.c,
 * copied when the table is filled */
static bool prefetches_columns;
#ifdef TN_CPU_PLAIN
enum { PREFETCH_STRIP = 0 };
#else
enum { PREFETCH_STRIP = 64 };
#endif
#define COLUMNS(name, T, single, STRIP)                                       \
    static void name(void *lanes, const void *memory, int64_t step,           \
                     int64_t open, int64_t n, int64_t rows)                   \
    {                                                                         \
        enum { ROUND = TN_LANES, LINE = 64 / sizeof(T) };                     \
        const T *m = memory;                                                  \
        if (open == 0) {                                                      \
            open = n < ROUND ? n : ROUND;                                     \
            for (int64_t i = 0; i < open; i++)                                \
                memcpy((T *)lanes + i * rows, m + i * step,                   \
                       (size_t)rows * sizeof(T));                             \
            m += open * step;                                                 \
            n -= open;                                                        \
        }                                                                     \
        for (; n >= 4 * ROUND; n -= 4 * ROUND, m += 4 * ROUND * step)         \
            for (int64_t i = 0; i < ROUND; i++) {                             \
                T *lane = (T *)lanes + i * rows;                              \
                const T *p = m + i * step, *q = p + ROUND * step;             \
                const T *r = q + ROUND * step, *s = r + ROUND * step;         \
                const T *next = i + 1 < ROUND ? p + step : s + step;          \
                int64_t from = 0;                                             \
                for (; STRIP > 0 && prefetches_columns && from + STRIP <= rows;\
                     from += STRIP) {                                         \
                    for (int64_t k = 0; k < STRIP; k += LINE)                 \
                        for (int j = 0; j < 4; j++)                           \
                            __builtin_prefetch(next + j * ROUND * step +      \
                                                   from + k, 0, 3);           \
                    EACH(d, STRIP)                                            \
                    {                                                         \
                        const int64_t c = from + d;                           \
                        T two = single(single(lane[c], p[c]), q[c]);          \
                        lane[c] = single(single(two, r[c]), s[c]);            \
                    }                                                         \
                }                                                             \
                EACH(d, rows - from)                                          \
                {                                                             \
                    const int64_t c = from + d;                               \
                    T two = single(single(lane[c], p[c]), q[c]);              \
                    lane[c] = single(single(two, r[c]), s[c]);                \
                }                                                             \
            }                                                                 \
        for (int64_t i = 0; i < n; i++, m += step) {                          \
            T *lane = (T *)lanes + i % ROUND * rows;                          \
            EACH(c, rows) lane[c] = single(lane[c], m[c]);                    \
        }                                                                     \
    }
#define AND(x, y) ((x) & (y))
#define OR(x, y) ((x) | (y))
COLUMNS(columns_sum_f32, float, PLUS, PREFETCH_STRIP)
COLUMNS(columns_sum_f64, double, PLUS, 0)
COLUMNS(columns_sum_i32, uint32_t, PLUS, 0)
COLUMNS(columns_sum_i64, uint64_t, PLUS, 0)
COLUMNS(columns_prod_f32, float, TIMES, 0)
COLUMNS(columns_prod_f64, double, TIMES, 0)
COLUMNS(columns_prod_i32, uint32_t, TIMES, 0)
COLUMNS(columns_prod_i64, uint64_t, TIMES, 0)
COLUMNS(columns_max_f32, float, max_f32, PREFETCH_STRIP)
COLUMNS(columns_max_f64, double, max_f64, 0)
COLUMNS(columns_max_i32, int32_t, max_i32, 0)
COLUMNS(columns_max_i64, int64_t, max_i64, 0)
COLUMNS(columns_min_f32, float, min_f32, PREFETCH_STRIP)
COLUMNS(columns_min_f64, double, min_f64, 0)
COLUMNS(columns_min_i32, int32_t, min_i32, 0)
COLUMNS(columns_min_i64, int64_t, min_i64, 0)
COLUMNS(columns_any, uint8_t, OR, 0)
COLUMNS(columns_all, uint8_t, AND, 0)

/* Adds products to the partial sums of their columns (tn_cpu_columns_products).
 * Each product is rounded before it is added. */
static void columns_products(void *lanes, const tn_cpu_column_products *lines,
                             int64_t open, int64_t n, int64_t rows)
{
    const float *x = lines->x, *y = lines->y;
    const float *center = lines->center, *scale = lines->scale;
    for (int64_t i = 0; i < n; i++, open++) {
        float *lane = (float *)lanes + open % TN_LANES * rows;
        float m = *center, r = *scale;
        if (open < TN_LANES)
            EACH(c, rows) lane[c] = (x[c] - m) * y[c] * r;
        else
            EACH(c, rows) lane[c] += (x[c] - m) * y[c] * r;
        x += lines->x_step;
        y += lines->y_step;
        center += lines->center_step;
        scale += lines->scale_step;
    }
}

/* ---- argmax and argmin --------------------------------------------------- */

/* Whether x replaces best: x is larger or smaller (according to op), or x is
 * the first NaN. */
#define BETTER(x, best, op) ((x)op(best) || ((x) != (x) && (best) == (best)))

/* ARG defines argmax or argmin. A fast reduction finds the best value of the
 * elements. If it is better than the best value so far, a search finds its
 * first position. -0 and +0 are equal here. */
#define ARG(name, T, op, fold)                                                \
    static void name(void *best, int64_t *place, const void *memory,          \
                     int64_t n, int64_t k, int fresh)                         \
    {                                                                         \
        const T *m = memory;                                                  \
        T *b = best, found;                                                   \
        fold(&found, memory, n, 1, 0, 0);                                     \
        if (!fresh && !BETTER(found, *b, op))                                 \
            return;                                                           \
        int64_t i = 0;                                                        \
        if (found != found)                                                   \
            while (m[i] == m[i])                                              \
                i++;                                                          \
        else                                                                  \
            while (m[i] != found)                                             \
                i++;                                                          \
        *b = m[i];                                                            \
        *place = k + i;                                                       \
    }                                                                         \
    static void name##_columns(void *best, int64_t *place,                    \
                               const void *memory, int64_t n, int64_t k,      \
                               int fresh)                                     \
    {                                                                         \
        const T *m = memory;                                                  \
        T *b = best;                                                          \
        if (fresh) {                                                          \
            EACH(i, n)                                                        \
            {                                                                 \
                b[i] = m[i];                                                  \
                place[i] = k;                                                 \
            }                                                                 \
            return;                                                           \
        }                                                                     \
        EACH(i, n)                                                            \
        {                                                                     \
            int better = BETTER(m[i], b[i], op);                              \
            b[i] = better ? m[i] : b[i];                                      \
            place[i] = better ? k : place[i];                                 \
        }                                                                     \
    }
#define ARGS(suffix, T)                                                       \
    ARG(arg_max_##suffix, T, >, fold_max_##suffix)                            \
    ARG(arg_min_##suffix, T, <, fold_min_##suffix)
ARGS(f32, float)
ARGS(f64, double)
ARGS(i32, int32_t)
ARGS(i64, int64_t)
ARG(arg_max_bool, uint8_t, >, fold_any)
ARG(arg_min_bool, uint8_t, <, fold_all)

void TN_CPU_NAME(tn__cpu_reduce)(tn_cpu_routines *table)
{
#define SET(T, row, ...) FILL_ROW(tn_cpu_##T, table->row, __VA_ARGS__)
    SET(fold, fold[TN_REDUCE_SUM],
        fold_sum_f32, fold_sum_f64, RARE(fold_sum_i32), fold_sum_i64, fold_any)
    SET(fold, fold[TN_REDUCE_PROD],
        fold_prod_f32, RARE(fold_prod_f64), RARE(fold_prod_i32),
        RARE(fold_prod_i64), fold_all)
    SET(fold, fold[TN_REDUCE_MAX],
        fold_max_f32, RARE(fold_max_f64), RARE(fold_max_i32), fold_max_i64,
        fold_any)
    SET(fold, fold[TN_REDUCE_MIN],
        fold_min_f32, RARE(fold_min_f64), RARE(fold_min_i32), fold_min_i64,
        fold_all)
    SET(arg, arg[TN_REDUCE_ARGMAX],
        arg_max_f32, RARE(arg_max_f64), RARE(arg_max_i32), arg_max_i64,
        RARE(arg_max_bool))
    SET(arg, arg[TN_REDUCE_ARGMIN],
        arg_min_f32, RARE(arg_min_f64), RARE(arg_min_i32), RARE(arg_min_i64),
        RARE(arg_min_bool))
    SET(columns, columns[TN_REDUCE_SUM],
        columns_sum_f32, columns_sum_f64, RARE(columns_sum_i32),
        columns_sum_i64, RARE(columns_any))
    SET(columns, columns[TN_REDUCE_PROD],
        columns_prod_f32, RARE(columns_prod_f64), RARE(columns_prod_i32),
        RARE(columns_prod_i64), RARE(columns_all))
    SET(columns, columns[TN_REDUCE_MAX],
        columns_max_f32, RARE(columns_max_f64), RARE(columns_max_i32),
        RARE(columns_max_i64), RARE(columns_any))
    SET(columns, columns[TN_REDUCE_MIN],
        columns_min_f32, RARE(columns_min_f64), RARE(columns_min_i32),
        RARE(columns_min_i64), RARE(columns_all))
    SET(arg_columns, arg_columns[TN_REDUCE_ARGMAX],
        arg_max_f32_columns, RARE(arg_max_f64_columns),
        RARE(arg_max_i32_columns), RARE(arg_max_i64_columns),
        RARE(arg_max_bool_columns))
    SET(arg_columns, arg_columns[TN_REDUCE_ARGMIN],
        RARE(arg_min_f32_columns), RARE(arg_min_f64_columns),
        RARE(arg_min_i32_columns), RARE(arg_min_i64_columns),
        RARE(arg_min_bool_columns))
    SET(fold_products, fold_products,
        RARE(fold_products_f32), RARE(fold_products_f64))
#undef SET
    table->columns_products = columns_products;
    prefetches_columns = table->family->prefetches_columns;
}
