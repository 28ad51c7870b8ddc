/* routines_scan.c: prefix sums of floats (torch.cumsum) by blocks of TN_LANES,
 * in the order of plugin_primitives.h, of one sequence or of adjacent
 * sequences. Also a loop for running minima and maxima (torch.cummin,
 * torch.cummax), which processes elements that do not change them. */
#include <string.h>

#include "routines.h"
#include "vector_ops.h"

/* A prefix sum within a vector of P elements has steps h = 1, 2, 4 ... In each
 * step, the elements form groups of h, and the last element of each even group
 * is added to all elements of the next group. FROM(i, h, P) is the shuffle
 * index of the value that is added to element i: an element of x, or element i
 * of a vector that adds nothing. */
#define FROM(i, h, P) ((i) & (h) ? ((i) & ~(2 * (h) - 1)) + (h) - 1 : (P) + (i))
#define STEP_2(V, I, x, none, h)                                              \
    x = SHUFFLE(V, I, x, none, FROM(0, h, 2), FROM(1, h, 2)) + x
#define STEP_4(V, I, x, none, h)                                              \
    x = SHUFFLE(V, I, x, none, FROM(0, h, 4), FROM(1, h, 4), FROM(2, h, 4),   \
                FROM(3, h, 4)) + x
#define STEP_8(V, I, x, none, h)                                              \
    x = SHUFFLE(V, I, x, none, FROM(0, h, 8), FROM(1, h, 8), FROM(2, h, 8),   \
                FROM(3, h, 8), FROM(4, h, 8), FROM(5, h, 8), FROM(6, h, 8),   \
                FROM(7, h, 8)) + x
#define STEP_16(V, I, x, none, h)                                             \
    x = SHUFFLE(V, I, x, none, FROM(0, h, 16), FROM(1, h, 16),                \
                FROM(2, h, 16), FROM(3, h, 16), FROM(4, h, 16),               \
                FROM(5, h, 16), FROM(6, h, 16), FROM(7, h, 16),               \
                FROM(8, h, 16), FROM(9, h, 16), FROM(10, h, 16),              \
                FROM(11, h, 16), FROM(12, h, 16), FROM(13, h, 16),            \
                FROM(14, h, 16), FROM(15, h, 16)) + x
#define LAST_2(V, I, x) SHUFFLE(V, I, x, x, 1, 1)
#define LAST_4(V, I, x) SHUFFLE(V, I, x, x, 3, 3, 3, 3)
#define LAST_8(V, I, x) SHUFFLE(V, I, x, x, 7, 7, 7, 7, 7, 7, 7, 7)
#define LAST_16(V, I, x)                                                      \
    SHUFFLE(V, I, x, x, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,   \
            15, 15, 15)
#if TN_CPU_VECTOR == 64
/* Each macro is one step h of the prefix sum. It adds to the elements that the
 * mask selects, and leaves the others unchanged. */
#define OF(i, h) (((i) & ~(2 * (h) - 1)) + (h) - 1)
#define MASKED_16(V, x, h, mask)                                              \
    x = (V)_mm512_mask_add_ps(                                                \
        (__m512)x, mask, (__m512)x,                                           \
        (__m512)SHUFFLE(V, vec_i32, x, x, OF(0, h), OF(1, h), OF(2, h),       \
                        OF(3, h), OF(4, h), OF(5, h), OF(6, h), OF(7, h),     \
                        OF(8, h), OF(9, h), OF(10, h), OF(11, h), OF(12, h),  \
                        OF(13, h), OF(14, h), OF(15, h)))
#define MASKED_8(V, x, h, mask)                                               \
    x = (V)_mm512_mask_add_pd(                                                \
        (__m512d)x, mask, (__m512d)x,                                         \
        (__m512d)SHUFFLE(V, vec_i64, x, x, OF(0, h), OF(1, h), OF(2, h),      \
                         OF(3, h), OF(4, h), OF(5, h), OF(6, h), OF(7, h)))
#define STEPS_32(V, x, none)                                                  \
    MASKED_16(V, x, 1, 0xaaaa);                                               \
    MASKED_16(V, x, 2, 0xcccc);                                               \
    MASKED_16(V, x, 4, 0xf0f0);                                               \
    MASKED_16(V, x, 8, 0xff00)
#define STEPS_64(V, x, none)                                                  \
    MASKED_8(V, x, 1, 0xaa);                                                  \
    MASKED_8(V, x, 2, 0xcc);                                                  \
    MASKED_8(V, x, 4, 0xf0)
#define LAST_32(V, x) LAST_16(V, vec_i32, x)
#define LAST_64(V, x) LAST_8(V, vec_i64, x)
#elif TN_CPU_VECTOR == 32
#define STEPS_32(V, x, none)                                                  \
    STEP_8(V, vec_i32, x, none, 1);                                           \
    STEP_8(V, vec_i32, x, none, 2);                                           \
    STEP_8(V, vec_i32, x, none, 4)
#define STEPS_64(V, x, none)                                                  \
    STEP_4(V, vec_i64, x, none, 1);                                           \
    STEP_4(V, vec_i64, x, none, 2)
#define LAST_32(V, x) LAST_8(V, vec_i32, x)
#define LAST_64(V, x) LAST_4(V, vec_i64, x)
#else
#define STEPS_32(V, x, none)                                                  \
    STEP_4(V, vec_i32, x, none, 1);                                           \
    STEP_4(V, vec_i32, x, none, 2)
#define STEPS_64(V, x, none) STEP_2(V, vec_i64, x, none, 1)
#define LAST_32(V, x) LAST_4(V, vec_i32, x)
#define LAST_64(V, x) LAST_2(V, vec_i64, x)
#endif

/* SCAN defines the function for prefix sums of one sequence. Only the sums of
 * whole blocks depend on each other, with one addition per block. If `before`
 * is NULL, whole blocks need six additions instead of seven. The input is
 * prefetched. */
/* Prefetch distance in bytes. Sums of 16 MiB take 0.44 ms with this distance,
 * 0.47 ms with 4 KiB and 0.52 ms with 2 KiB (Zen 5, 2026-11). */
#define AHEAD 8192
#ifdef TN_CPU_STREAMS
#define STREAM(to, x) stream_vector(to, (vec_i32)(x))
#else
#define STREAM(to, x) memcpy(to, &(x), sizeof(x))
#endif
#define SCAN(name, T, V, bits)                                                \
    enum { name##_per = TN_CPU_VECTOR / sizeof(T),                            \
           name##_count = TN_LANES / name##_per };                            \
    static inline __attribute__((always_inline)) vec_##V name##_block(        \
        vec_##V x[name##_count], const T *p)                                  \
    {                                                                         \
        enum { PER = name##_per, COUNT = name##_count };                      \
        const vec_##V none = -(vec_##V){0};                                   \
        (void)none;                                                           \
        __builtin_prefetch(p + AHEAD / sizeof(T), 0, 3);                      \
        _Pragma("GCC unroll 8") for (int i = 0; i < (int)COUNT; i++)          \
        {                                                                     \
            x[i] = *(const loose_##V *)(p + i * (int)PER);                    \
            STEPS_##bits(vec_##V, x[i], none);                                \
        }                                                                     \
        _Pragma("GCC unroll 4") for (int h = 1; h < (int)COUNT; h *= 2)       \
            _Pragma("GCC unroll 8") for (int i = 0; i < (int)COUNT; i++)      \
                if (i & h)                                                    \
                    x[i] = LAST_##bits(vec_##V,                               \
                                       x[(i & ~(2 * h - 1)) + h - 1])         \
                           + x[i];                                            \
        return LAST_##bits(vec_##V, x[COUNT - 1]);                            \
    }                                                                         \
    static void name(void *out, const void *in, int64_t n,                    \
                     const void *before, void *total, int stream)             \
    {                                                                         \
        enum { PER = name##_per, COUNT = name##_count };                      \
        const vec_##V none = -(vec_##V){0}; /* adding -0 keeps every value, also
                                             * -0 */           \
        const T *from = in;                                                   \
        T *to = out, part[TN_LANES] = {0};                                    \
        stream = stream && (uintptr_t)out % TN_CPU_VECTOR == 0;               \
        vec_##V first = none, carry = none, x[COUNT];                         \
        int64_t k = 0;                                                        \
        if (before)                                                           \
            first = *(const T *)before - (vec_##V){0};                        \
        for (; TN_CPU_VECTOR == 64 && !before && k + TN_LANES <= n;           \
             k += TN_LANES) {                                                 \
            const vec_##V last = name##_block(x, from + k);                   \
            _Pragma("GCC unroll 8") for (int i = 0; i < (int)COUNT; i++)      \
            {                                                                 \
                const vec_##V sum = carry + x[i];                             \
                if (stream)                                                   \
                    STREAM(to + k + i * (int)PER, sum);                       \
                else                                                          \
                    *(loose_##V *)(to + k + i * (int)PER) = sum;              \
            }                                                                 \
            carry = carry + last;                                             \
        }                                                                     \
        for (; k < n; k += TN_LANES) {                                        \
            const int64_t left = n - k < TN_LANES ? n - k : TN_LANES;         \
            const T *p = from + k;                                            \
            T *q = to + k;                                                    \
            if (left < TN_LANES)                                              \
                p = q = memcpy(part, p, (size_t)left * sizeof(T));            \
            const vec_##V last = name##_block(x, p);                          \
            _Pragma("GCC unroll 8") for (int i = 0; i < (int)COUNT; i++)      \
            {                                                                 \
                const vec_##V sum = first + (carry + x[i]);                   \
                if (stream && left == TN_LANES)                               \
                    STREAM(q + i * (int)PER, sum);                            \
                else                                                          \
                    *(loose_##V *)(q + i * (int)PER) = sum;                   \
            }                                                                 \
            carry = carry + last;                                             \
            if (left < TN_LANES)                                              \
                memcpy(to + k, part, (size_t)left * sizeof(T));               \
        }                                                                     \
        memcpy(total, &carry, sizeof(T));                                     \
    }
SCAN(scan_f32, float, f32, 32)
SCAN(scan_f64, double, f64, 64)

/* ROWS defines the function for prefix sums of adjacent sequences, four rows at
 * a time (tn_cpu_scan_rows). More rows could evict each other from L1: rows
 * whose distance is a multiple of 4096 bytes map to the same cache set. The
 * next four rows are prefetched. */
#define PREFETCH_NEXT(at, next, writes)                                       \
    __builtin_prefetch((const char *)(at) + (next), writes, 3);
#define ROWS(name, T, B, V)                                                   \
    static void name(void *const *out, const void *const *in,                 \
                     const tn_cpu_scan_kept *kept, int64_t n)                 \
    {                                                                         \
        const T *x0 = in[0], *x1 = in[1], *x2 = in[2], *x3 = in[3];           \
        T *o0 = out[0], *o1 = out[1], *o2 = out[2], *o3 = out[3];             \
        const T *low = kept->low, *high = kept->high;                         \
        const T *carry = kept->carry, *first = kept->first;                   \
        T *keep = kept->keep;                                                 \
        const B whole = (B){0} - kept->whole; /* all bits or 0 */         \
        for (int64_t i = 0; i < n; i += (int64_t)(sizeof(V) / sizeof(T))) {   \
            PREFETCH_NEXT(x0 + i, kept->in_next, 0)                           \
            PREFETCH_NEXT(x1 + i, kept->in_next, 0)                           \
            PREFETCH_NEXT(x2 + i, kept->in_next, 0)                           \
            PREFETCH_NEXT(x3 + i, kept->in_next, 0)                           \
            PREFETCH_NEXT(o0 + i, kept->out_next, 1)                          \
            PREFETCH_NEXT(o1 + i, kept->out_next, 1)                          \
            PREFETCH_NEXT(o2 + i, kept->out_next, 1)                          \
            PREFETCH_NEXT(o3 + i, kept->out_next, 1)                          \
            const V a = *(const V *)(x0 + i), b = a + *(const V *)(x1 + i);   \
            const V c = *(const V *)(x2 + i), l = *(const V *)(low + i);      \
            const V d = l + (b + (c + *(const V *)(x3 + i)));                 \
            const V e = *(const V *)(carry + i), f = *(const V *)(first + i); \
            const V g = *(const V *)(high + i), last = e + (g + d);           \
            *(V *)(o0 + i) = f + (e + (g + (l + a)));                         \
            *(V *)(o1 + i) = f + (e + (g + (l + b)));                         \
            *(V *)(o2 + i) = f + (e + (g + (l + (b + c))));                   \
            *(V *)(o3 + i) = f + last;                                        \
            *(V *)(keep + i) = (V)((whole & (B)last) | (~whole & (B)d));      \
        }                                                                     \
    }
ROWS(rows_f32, float, vec_i32, loose_f32)
ROWS(rows_f64, double, vec_i64, loose_f64)

/* UNCHANGED defines a loop that returns how many elements do not change a
 * running minimum or maximum, one vector at a time. The loop ends at a vector
 * in which an element changes it or is NaN. */
#if TN_CPU_VECTOR == 64
#define ALL_f32(x, y, is)                                                     \
    (_mm512_cmp_ps_mask((__m512)(x), (__m512)(y), is) == 0xffff)
#define ALL_f64(x, y, is)                                                     \
    (_mm512_cmp_pd_mask((__m512d)(x), (__m512d)(y), is) == 0xff)
#elif TN_CPU_VECTOR == 32
#define ALL_f32(x, y, is)                                                     \
    (_mm256_movemask_ps(_mm256_cmp_ps((__m256)(x), (__m256)(y), is)) == 0xff)
#define ALL_f64(x, y, is)                                                     \
    (_mm256_movemask_pd(_mm256_cmp_pd((__m256d)(x), (__m256d)(y), is)) == 0xf)
#endif
#ifdef ALL_f32
#define UNCHANGED(name, T, V, is)                                             \
    static int64_t name(void *block, int64_t *place, int64_t n,               \
                        const void *limit, int64_t at)                        \
    {                                                                         \
        enum { PER = TN_CPU_VECTOR / sizeof(T), PLACES = TN_CPU_VECTOR / 8 }; \
        const vec_##V all = *(const T *)limit - (vec_##V){0};                 \
        const vec_i64 here = at - (vec_i64){0};                               \
        T *x = block;                                                         \
        int64_t i = 0;                                                        \
        for (; i + PER <= n; i += PER) {                                      \
            if (!ALL_##V(*(const loose_##V *)(x + i), all, is))               \
                break;                                                        \
            *(loose_##V *)(x + i) = all;                                      \
            _Pragma("GCC unroll 2") for (int j = 0; j < PER; j += PLACES)     \
                memcpy(place + i + j, &here, sizeof here);                    \
        }                                                                     \
        return i;                                                             \
    }
UNCHANGED(unchanged_max_f32, float, f32, _CMP_LT_OQ)
UNCHANGED(unchanged_min_f32, float, f32, _CMP_GT_OQ)
UNCHANGED(unchanged_max_f64, double, f64, _CMP_LT_OQ)
UNCHANGED(unchanged_min_f64, double, f64, _CMP_GT_OQ)
#endif

void TN_CPU_NAME(tn__cpu_scan)(tn_cpu_routines *table)
{
#ifdef ALL_f32
    table->unchanged[0][CPU_F32] = unchanged_max_f32;
    table->unchanged[0][CPU_F64] = unchanged_max_f64;
    table->unchanged[1][CPU_F32] = unchanged_min_f32;
    table->unchanged[1][CPU_F64] = unchanged_min_f64;
#endif
    table->scan[CPU_F32] = scan_f32;
    table->scan[CPU_F64] = scan_f64;
    table->scan_rows[CPU_F32] = rows_f32;
    table->scan_rows[CPU_F64] = rows_f64;
}
