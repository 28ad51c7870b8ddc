/* routines_convert.c: conversions between register types, loads and stores of
 * all storage types (narrow types are widened and narrowed), gathers, and short
 * weighted sums as in interpolation, whose terms are called taps. Conversions
 * are bit arithmetic without branches, which a compiler can vectorise. */
#include <math.h>
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "scalar.h"
#include "vector_ops.h"

/* ---- narrow floating types ----------------------------------------------- */

/* Converts float16 to float32. For normal numbers the exponent changes by the
 * difference of the biases. For subnormal numbers the value is the mantissa
 * times a power of two. */
static inline float f16_widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = h & 0x7fff;
    uint32_t normal = (u << 13) + (112u << 23);
    normal += u >= 0x7c00 ? 112u << 23 : 0;
    uint32_t small = bits_f32((float)(int32_t)u * 0x1p-24f);
    return float_of(sign | (u < 0x0400 ? small : normal));
}

/* Converts float32 to float16, rounded to nearest even. For normal results,
 * adds half of the last bit that is kept (a little less if that bit is 0) and
 * truncates. For subnormal results, adds 0.5: the last bit of the sum has the
 * weight of the last bit of the result, so the addition rounds. */
static inline uint16_t f16_narrow(float x)
{
    uint32_t b = bits_f32(x), sign = b >> 16 & 0x8000, u = b & 0x7fffffff;
    uint32_t normal = (u + 0xfff + (u >> 13 & 1)) >> 13;
    normal -= 112u << 10;
    normal = normal > 0x7c00 ? 0x7c00 : normal;
    uint32_t small = bits_f32(float_of(u) + 0.5f) - bits_f32(0.5f);
    uint32_t r = u < 0x38800000 ? small : normal;
    r = u >= 0x47800000 ? 0x7c00 : r;
    r = u > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(sign | r);
}

static inline float bf16_widen(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static inline uint16_t bf16_narrow(float x)
{
    uint32_t u = bits_f32(x);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t nan = (u >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : r);
}

static inline float f8e4m3_widen(uint8_t h)
{
    uint32_t sign = (uint32_t)(h & 0x80) << 24, u = h & 0x7f;
    uint32_t normal = (u << 20) + (120u << 23);
    normal = u == 0x7f ? 0x7fc00000 : normal;
    uint32_t small = bits_f32((float)(int32_t)u * 0x1p-9f);
    return float_of(sign | (u < 0x08 ? small : normal));
}

static inline uint8_t f8e4m3_narrow(float x)
{
    uint32_t b = bits_f32(x), sign = b >> 24 & 0x80, u = b & 0x7fffffff;
    uint32_t normal = ((u + 0x7ffff + (u >> 20 & 1)) >> 20) - (120u << 3);
    uint32_t small = bits_f32(float_of(u) + 0x1p14f) - bits_f32(0x1p14f);
    uint32_t r = u < 0x3c800000 ? small : normal;
    r = u >= 0x43e00000 ? 0x7e : r; /* saturates at 448 */
    r = u > 0x7f800000 ? 0x7f : r;
    return (uint8_t)(sign | r);
}

static inline float f8e5m2_widen(uint8_t h)
{
    return f16_widen((uint16_t)(h << 8));
}

static inline uint8_t f8e5m2_narrow(float x)
{
    uint32_t b = bits_f32(x), sign = b >> 24 & 0x80, u = b & 0x7fffffff;
    uint32_t normal = ((u + 0xfffff + (u >> 21 & 1)) >> 21) - (112u << 2);
    uint32_t small = bits_f32(float_of(u) + 0x1p7f) - bits_f32(0x1p7f);
    uint32_t r = u < 0x38800000 ? small : normal;
    r = u >= 0x47600000 ? 0x7b : r; /* saturates at 57344 */
    r = u == 0x7f800000 ? 0x7c : r;
    r = u > 0x7f800000 ? 0x7e : r;
    return (uint8_t)(sign | r);
}

/* ---- loads, stores, gathers, narrowing ----------------------------------- */

#define PLAIN(name, S, T)                                                     \
    static inline T name##_widen(S x)                                         \
    {                                                                         \
        return (T)x;                                                          \
    }                                                                         \
    static inline S name##_narrow(T x)                                        \
    {                                                                         \
        return (S)x;                                                          \
    }
PLAIN(w4, uint32_t, uint32_t) /* f32 and i32 are copied without conversion */
PLAIN(w8, uint64_t, uint64_t)
PLAIN(i16, int16_t, int32_t)
PLAIN(i8, int8_t, int32_t)
PLAIN(u8, uint8_t, int32_t)

/* Every byte except 0 is true, because a user's memory may hold any byte. */
static inline uint8_t bool_widen(uint8_t x)
{
    return x != 0;
}

static inline uint8_t bool_narrow(uint8_t x)
{
    return x;
}

/* Rounds values to a storage type by storing and loading PIECE elements at a
 * time, with the functions of that type. A loop for each type would add a
 * seventh to this file's code. */
#if defined(__clang__)
__attribute__((noinline))
#else
__attribute__((noipa))
#endif
static void round_trip(void *out, const void *in, size_t bytes, int64_t n,
                       tn_cpu_store *store, tn_cpu_load *load)
{
    enum { PIECE = 256 };
    uint64_t held[PIECE];
    char *to = out;
    const char *from = in;
    for (int64_t some; n > 0; n -= some) {
        some = n < PIECE ? n : PIECE;
        store(held, from, 1, some);
        load(to, held, 1, some);
        to += (size_t)some * bytes;
        from += (size_t)some * bytes;
    }
}

/* widen_halves() and narrow_halves() convert vectors of contiguous elements by
 * instructions of the processor, and return how many elements they converted.
 * The instructions handle NaN in another way, so vectors with NaN are converted
 * one element at a time. */
#if defined(__F16C__)
enum { HALVES = 8 };

static inline int has_nan(__m256 x)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

static int64_t widen_halves(float *out, const uint16_t *in, int64_t n)
{
    int64_t i = 0;
    for (; i + HALVES <= n; i += HALVES) {
        __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i)));
        _mm256_storeu_ps(out + i, x);
        for (int k = 0; has_nan(x) && k < HALVES; k++)
            out[i + k] = f16_widen(in[i + k]);
    }
    return i;
}

static int64_t narrow_halves(uint16_t *out, const float *in, int64_t n)
{
    int64_t i = 0;
    for (; i + HALVES <= n; i += HALVES) {
        __m256 x = _mm256_loadu_ps(in + i);
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(x, 0));
        for (int k = 0; has_nan(x) && k < HALVES; k++)
            out[i + k] = f16_narrow(in[i + k]);
    }
    return i;
}
#endif

/* Defines the load, store, gather and rounding functions of a storage type S
 * with register type T. For stride 1 there are separate loops, which are
 * vectorised. `wide` and `thin` convert the first vectors of contiguous
 * elements; they are NONE if there are no instructions for it. */
#define NONE(out, in, n) 0
#define STORAGE(name, S, T) STORAGE_BY(name, S, T, NONE, NONE)
#define STORAGE_BY(name, S, T, wide, thin)                                    \
    static void load_##name(void *out, const void *memory, int64_t stride,    \
                            int64_t n)                                        \
    {                                                                         \
        T *o = out;                                                           \
        const S *m = memory;                                                  \
        if (stride == 1) {                                                    \
            int64_t first = wide(o, m, n);                                    \
            o += first;                                                       \
            m += first;                                                       \
            EACH(i, n - first) o[i] = name##_widen(m[i]);                     \
        } else {                                                              \
            EACH(i, n) o[i] = name##_widen(m[i * stride]);                    \
        }                                                                     \
    }                                                                         \
    static void store_##name(void *memory, const void *in, int64_t stride,    \
                             int64_t n)                                       \
    {                                                                         \
        S *m = memory;                                                        \
        const T *p = in;                                                      \
        if (stride == 1) {                                                    \
            int64_t first = thin(m, p, n);                                    \
            m += first;                                                       \
            p += first;                                                       \
            EACH(i, n - first) m[i] = name##_narrow(p[i]);                    \
        } else {                                                              \
            for (int64_t i = 0; i < n; i++)                                   \
                m[i * stride] = name##_narrow(p[i]);                          \
        }                                                                     \
    }                                                                         \
    static void gather_each_##name(void *out, const void *memory,             \
                                   const int64_t *offset, int64_t n)          \
    {                                                                         \
        T *o = out;                                                           \
        const S *m = memory;                                                  \
        for (int64_t i = 0; i < n; i++)                                       \
            o[i] = offset[i] == TN_CPU_OUTSIDE ? (T)0                         \
                                               : name##_widen(m[offset[i]]);  \
    }                                                                         \
    static void narrow_##name(void *out, const void *pa, const void *pb,      \
                              const void *pc, int64_t n, unsigned scalar)     \
    {                                                                         \
        (void)pb, (void)pc, (void)scalar;                                     \
        round_trip(out, pa, sizeof(T), n, store_##name, load_##name);         \
    }
STORAGE(w4, uint32_t, uint32_t)
STORAGE(w8, uint64_t, uint64_t)
#if defined(__F16C__)
STORAGE_BY(f16, uint16_t, float, widen_halves, narrow_halves)
#else
STORAGE(f16, uint16_t, float)
#endif
STORAGE(bf16, uint16_t, float)
STORAGE(f8e4m3, uint8_t, float)
STORAGE(f8e5m2, uint8_t, float)
STORAGE(i16, int16_t, int32_t)
STORAGE(i8, int8_t, int32_t)
STORAGE(u8, uint8_t, int32_t)
STORAGE(bool, uint8_t, uint8_t)

/* Gathers RUN elements at a time. If their offsets are contiguous, they are
 * copied as a vector. */
#define RUN 16
#define GATHER_RUNS(name, T)                                                  \
    static void gather_##name(void *out, const void *memory,                  \
                              const int64_t *offset, int64_t n)               \
    {                                                                         \
        T *o = out;                                                           \
        for (; n >= RUN; n -= RUN, o += RUN, offset += RUN) {                 \
            uint64_t first = (uint64_t)offset[0], apart = 0;                  \
            EACH(i, RUN)                                                      \
                apart |= (uint64_t)offset[i] - first - (uint64_t)i;           \
            if (apart == 0)                                                   \
                memcpy(o, (const T *)memory + offset[0], RUN * sizeof *o);    \
            else                                                              \
                gather_each_##name(o, memory, offset, RUN);                   \
        }                                                                     \
        gather_each_##name(o, memory, offset, n);                             \
    }
#ifdef TN_CPU_NEAR
/* Gathers 4-byte elements. If the first and the last offset of some elements
 * are close, as in interpolation, the gather is a permutation of two vectors
 * (gather_near). Stops testing for that when about a third of the tests fail,
 * since each failure is a branch misprediction. */
static void gather_w4(void *out, const void *memory, const int64_t *offset,
                      int64_t n)
{
    enum { ENOUGH = 8 };
    uint32_t *o = out;
    int missed = 0;
    for (int64_t some; n >= TN_CPU_NEAR && missed < ENOUGH;
         n -= some, o += some, offset += some) {
        some = n >= RUN && gather_near(o, memory, offset, RUN) ? RUN
                                                               : TN_CPU_NEAR;
        if (some == TN_CPU_NEAR &&
            !gather_near(o, memory, offset, TN_CPU_NEAR)) {
            gather_each_w4(o, memory, offset, TN_CPU_NEAR);
            missed += 2;
        } else if (missed > 0) {
            missed--;
        }
    }
    gather_each_w4(o, memory, offset, n);
}

/* Adds value x as leaf `leaf` of a binary tree of additions, from left to
 * right. half[k] is the last complete subtree of 2^k leaves. Two subtrees of
 * the same size are added to one of twice the size. */
static inline __attribute__((always_inline)) void
add_leaf(vec_f32 *half, int leaf, vec_f32 x)
{
    int k = 0;
    for (; leaf >> k & 1; k++)
        x = half[k] + x;
    half[k] = x;
}

/* Computes weighted sums by trees of additions with 2^depth leaves. depth is a
 * constant where this function is inlined, so the values of small trees stay in
 * registers. If vectors have 64 bytes, there is a version for trees of 8
 * leaves. A missing leaf is -0, which adds nothing. A tap is one term of a sum.
 * The taps of an entry (a vector of adjacent sums, tap[entry]) are loaded once
 * for all rows. A store writes a whole vector. If the entry has fewer sums, the
 * store of the next entry overwrites the rest. */
enum { HAS_DEPTH_3 = TN_CPU_VECTOR == 64 };
#define HAS_LEAF(leaf) (whole || (leaves >> (leaf) & 1))
static inline __attribute__((always_inline)) void
sum_taps(const tn_cpu_tap_rows *rows, const tn_cpu_tap *tap, int64_t entries,
         const int depth, const uint32_t leaves, const int whole)
{
    enum { L = TN_CPU_VECTOR / sizeof(float) };
    const int64_t in_step = rows->in_step, out_step = rows->out_step;
    const int64_t line = 64 / sizeof(float);
    /* row and row_out are the numbers of elements of the next input and output
     * row to prefetch. share and share_out are the parts of these rows to
     * prefetch for each entry. */
    const int64_t row = rows->next ? rows->from : 0;
    const int64_t row_out = rows->next_out ? rows->n : 0;
    const int64_t share = (row / entries + line - 1) / line * line;
    const int64_t share_out = (row_out / entries + line - 1) / line * line;
    const vec_f32 none = -(vec_f32){0};
    for (int64_t e = 0, at = 0; e < entries; e++) {
        if (e == entries - 1)
            at = rows->n - tap->points;
        const head_mask_f32 room = head_mask(rows->n - at);
        const uint32_t there = tap->there;
        const float *in = rows->in + tap->low;
        const float *next = rows->next, *next_out = rows->next_out;
        const int64_t rest = row - e * share, ask = share < rest ? share : rest;
        const int64_t rest_out = row_out - e * share_out;
        const int64_t ask_out = share_out < rest_out ? share_out : rest_out;
        float *o = rows->out + at;
        vec_i32 place[1 << TN_CPU_TAP_DEPTH];
        vec_f32 weight[1 << TN_CPU_TAP_DEPTH];
        lane_mask_f32 which[1 << TN_CPU_TAP_DEPTH];
        at += tap->points;
        for (int l = 0; l < 1 << depth; l++)
            if (HAS_LEAF(l)) {
                place[l] = widen_places(tap->at);
                memcpy(&weight[l], tap->weight, sizeof weight[l]);
                which[l] = nonzero_weights(weight[l]);
                tap++;
            } else {
                which[l] = nonzero_weights(weight[l] = (vec_f32){0});
                place[l] = (vec_i32){0};
            }
        if (ask > 0)
            next += e * share;
        if (ask_out > 0)
            next_out += e * share_out;
        for (int64_t r = 0; r < rows->count; r++) {
            const window_f32 x = rows->end - in >= 2 * L
                                   ? load_window(in)
                                   : load_window_part(in, there);
            vec_f32 half[TN_CPU_TAP_DEPTH + 1];
#pragma GCC unroll 16
            for (int l = 0; l < 1 << depth; l++)
                add_leaf(half, l,
                         HAS_LEAF(l)
                             ? multiply_masked(permute_window(x, place[l]),
                                               weight[l], which[l])
                             : none);
            store_first(o, half[depth], room);
            for (int64_t k = 0; k < ask; k += line)
                __builtin_prefetch(next + k, 0, 3);
            for (int64_t k = 0; k < ask_out; k += line)
                __builtin_prefetch(next_out + k, 1, 3);
            if (ask > 0)
                next += in_step;
            if (ask_out > 0)
                next_out += out_step;
            in += in_step;
            o += out_step;
        }
    }
}

static void taps(const tn_cpu_tap_rows *rows, const tn_cpu_tap *tap,
                 int64_t entries, int depth, uint32_t leaves)
{
    if (leaves == 1)
        sum_taps(rows, tap, entries, 0, leaves, 1);
    else if (leaves == 3)
        sum_taps(rows, tap, entries, 1, leaves, 1);
    else if (leaves == 15)
        sum_taps(rows, tap, entries, 2, leaves, 1);
    else if (HAS_DEPTH_3 && depth <= 3)
        sum_taps(rows, tap, entries, 3, leaves, 0);
    else
        sum_taps(rows, tap, entries, TN_CPU_TAP_DEPTH, leaves, 0);
}

/* Computes weighted sums of whole rows. The last vector of a row overlaps the
 * previous vector. */
static inline __attribute__((always_inline)) void sum_rows_of_taps(
    const tn_cpu_tap_rows *rows, const int64_t *at, const float *weight,
    const int depth, const uint32_t leaves, const int whole)
{
    enum { L = TN_CPU_VECTOR / sizeof(float) };
    const vec_f32 none = -(vec_f32){0};
    const int64_t n = rows->n, step = n < L ? n : L;
    const head_mask_f32 room = head_mask(n);
    float *o = rows->out;
    for (int64_t r = 0; r < rows->count; r++, o += rows->out_step) {
        const float *in[1 << TN_CPU_TAP_DEPTH];
        vec_f32 w[1 << TN_CPU_TAP_DEPTH];
        lane_mask_f32 which[1 << TN_CPU_TAP_DEPTH];
        for (int l = 0; l < 1 << depth; l++)
            if (HAS_LEAF(l)) {
                in[l] = rows->in + *at++;
                w[l] = *weight++ - (vec_f32){0};
                which[l] = nonzero_weights(w[l]);
            } else {
                which[l] = nonzero_weights(w[l] = (vec_f32){0});
                in[l] = rows->in;
            }
        for (int64_t i = 0; i < n; i += step) {
            vec_f32 half[TN_CPU_TAP_DEPTH + 1];
            i = i + step > n ? n - step : i;
#pragma GCC unroll 16
            for (int l = 0; l < 1 << depth; l++) {
                vec_f32 x = none;
                if (HAS_LEAF(l))
                    x = multiply_masked(load_first(in[l] + i, room), w[l],
                                        which[l]);
                add_leaf(half, l, x);
            }
            store_first(o + i, half[depth], room);
        }
    }
}

static void tap_lines(const tn_cpu_tap_rows *rows, const int64_t *at,
                      const float *weight, int depth, uint32_t leaves)
{
    if (leaves == 1)
        sum_rows_of_taps(rows, at, weight, 0, leaves, 1);
    else if (leaves == 3)
        sum_rows_of_taps(rows, at, weight, 1, leaves, 1);
    else if (leaves == 15)
        sum_rows_of_taps(rows, at, weight, 2, leaves, 1);
    else if (HAS_DEPTH_3 && depth <= 3)
        sum_rows_of_taps(rows, at, weight, 3, leaves, 0);
    else
        sum_rows_of_taps(rows, at, weight, TN_CPU_TAP_DEPTH, leaves, 0);
}
#else
GATHER_RUNS(w4, uint32_t)
#endif
GATHER_RUNS(w8, uint64_t)

/* Loads a tile (a small matrix) eight columns at a time, so that reads and
 * writes access few cache lines at a time. */
#define TILE(name, S, T)                                                      \
    static void load_tile_##name(void *out, const void *memory, int64_t rows, \
                                 int64_t columns, int64_t row,                \
                                 int64_t column)                              \
    {                                                                         \
        T *o = out;                                                           \
        const S *m = memory;                                                  \
        int64_t j = 0;                                                        \
        for (; j + 8 <= columns; j += 8, m += 8 * column)                     \
            for (int64_t i = 0; i < rows; i++)                                \
                for (int q = 0; q < 8; q++)                                   \
                    o[i * columns + j + q] = m[i * row + q * column];         \
        for (; j < columns; j++, m += column)                                 \
            for (int64_t i = 0; i < rows; i++)                                \
                o[i * columns + j] = m[i * row];                              \
    }
TILE(w4, uint32_t, uint32_t)
TILE(w8, uint64_t, uint64_t)

/* Loads a tile of a half-precision type. Copies the bits of 32 x 8 elements,
 * then widens them together. */
static void load_tile_half(float *out, const uint16_t *memory, int64_t rows,
                           int64_t columns, int64_t row, int64_t column,
                           tn_cpu_load *widen)
{
    uint16_t bits[256];
    float wide[256];
    for (int64_t j = 0; j < columns; j += 8) {
        int64_t broad = columns - j < 8 ? columns - j : 8, at[8];
        /* If fewer than eight columns are left, repeats the last one. */
        for (int64_t q = 0; q < 8; q++)
            at[q] = (j + (q < broad ? q : broad - 1)) * column;
        for (int64_t i = 0; i < rows; i += 32) {
            int64_t high = rows - i < 32 ? rows - i : 32;
            for (int64_t k = 0; k < high; k++)
                for (int64_t q = 0; q < 8; q++)
                    bits[k * 8 + q] = memory[(i + k) * row + at[q]];
            widen(wide, bits, 1, high * 8);
            for (int64_t k = 0; k < high; k++)
                for (int64_t q = 0; q < broad; q++)
                    out[(i + k) * columns + j + q] = wide[k * 8 + q];
        }
    }
}

#define TILE_HALF(name)                                                       \
    static void load_tile_##name(void *out, const void *memory, int64_t rows, \
                                 int64_t columns, int64_t row,                \
                                 int64_t column)                              \
    {                                                                         \
        load_tile_half(out, memory, rows, columns, row, column, load_##name); \
    }
TILE_HALF(f16)
TILE_HALF(bf16)

/* ---- casts --------------------------------------------------------------- */

#define CAST(name, A, R, expression)                                          \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        R *o = out;                                                           \
        const A *a = pa;                                                      \
        (void)pb, (void)pc, (void)scalar;                                     \
        EACH(i, n)                                                            \
        {                                                                     \
            A x = a[i];                                                       \
            o[i] = (R)(expression);                                           \
        }                                                                     \
    }

/* Casts floats to integers: truncates, clamps to the range, and turns NaN into
 * 0. A value outside the range is replaced by 0 before the C conversion, which
 * would be undefined for it. limit is a power of two and therefore exact. */
#define SATURATE(name, A, R, limit, MIN, MAX)                                 \
    static inline R name(A x)                                                 \
    {                                                                         \
        A inside = x >= -limit && x < limit ? x : 0;                          \
        R r = (R)inside;                                                      \
        r = x >= limit ? MAX : r;                                             \
        return x < -limit ? MIN : r;                                          \
    }
SATURATE(i32_of_f32, float, int32_t, 0x1p31f, INT32_MIN, INT32_MAX)
SATURATE(i32_of_f64, double, int32_t, 0x1p31, INT32_MIN, INT32_MAX)
SATURATE(i64_of_f32, float, int64_t, 0x1p63f, INT64_MIN, INT64_MAX)
SATURATE(i64_of_f64, double, int64_t, 0x1p63, INT64_MIN, INT64_MAX)

CAST(f32_f32, uint32_t, uint32_t, x)
CAST(f32_f64, float, double, x)
CAST(f32_i32, float, int32_t, i32_of_f32(x))
CAST(f32_i64, float, int64_t, i64_of_f32(x))
CAST(f32_bool, float, uint8_t, x != 0)
CAST(f64_f32, double, float, x)
CAST(f64_f64, uint64_t, uint64_t, x)
CAST(f64_i32, double, int32_t, i32_of_f64(x))
CAST(f64_i64, double, int64_t, i64_of_f64(x))
CAST(f64_bool, double, uint8_t, x != 0)
CAST(i32_f32, int32_t, float, x)
CAST(i32_f64, int32_t, double, x)
CAST(i32_i64, int32_t, int64_t, x)
CAST(i32_bool, int32_t, uint8_t, x != 0)
CAST(i64_f32, int64_t, float, x)
CAST(i64_f64, int64_t, double, x)
CAST(i64_i32, int64_t, int32_t, (uint32_t)(uint64_t)x)
CAST(i64_bool, int64_t, uint8_t, x != 0)
CAST(bool_f32, uint8_t, float, x)
CAST(bool_f64, uint8_t, double, x)
CAST(bool_i32, uint8_t, int32_t, x)
CAST(bool_i64, uint8_t, int64_t, x)
CAST(bool_bool, uint8_t, uint8_t, x)

static int place(int64_t *where, const int64_t *index, int64_t stride,
                 int64_t extent, int64_t n)
{
    uint64_t any = 0;
    EACH(i, n)
    {
        uint64_t outside = (uint64_t)index[i] >= (uint64_t)extent;
        int64_t at = where[i] == TN_CPU_OUTSIDE
                         ? where[i]
                         : (int64_t)((uint64_t)where[i] +
                                     (uint64_t)index[i] * (uint64_t)stride);
        where[i] = outside ? TN_CPU_OUTSIDE : at;
        any |= outside;
    }
    return any != 0;
}

static int outside(const int64_t *index, int64_t extent, int64_t n)
{
    uint64_t any = 0;
    EACH(i, n)
        any |= (uint64_t)index[i] >= (uint64_t)extent;
    return any != 0;
}

void TN_CPU_NAME(tn__cpu_convert)(tn_cpu_routines *table)
{
    table->place = place;
#ifdef TN_CPU_NEAR
    table->taps = taps;
    table->tap_lines = tap_lines;
    table->tap_points = TN_CPU_VECTOR / sizeof(float);
#endif
    table->outside = outside;
#define SET(dtype, name)                                                      \
    table->load[TN_##dtype] = load_##name;                                    \
    table->store[TN_##dtype] = store_##name;                                  \
    table->gather[TN_##dtype] = gather_each_##name;                           \
    table->narrow[TN_##dtype] = narrow_##name;
    SET(F32, w4)
    SET(F64, w8)
    SET(F16, f16)
    SET(BF16, bf16)
    SET(I64, w8)
    SET(I32, w4)
    SET(U8, u8)
    SET(BOOL, bool)
    if (!TN_CPU_IS_SPARE) { /* for these rarely used types, the x86-64-v4 table
                             * keeps the loops of v3 */
        SET(F8E4M3, f8e4m3)
        SET(F8E5M2, f8e5m2)
        SET(I16, i16)
        SET(I8, i8)
    }
#undef SET
    table->gather[TN_F32] = table->gather[TN_I32] = gather_w4;
    table->gather[TN_F64] = table->gather[TN_I64] = gather_w8;
    table->load_tile[TN_F32] = table->load_tile[TN_I32] = load_tile_w4;
    table->load_tile[TN_F64] = table->load_tile[TN_I64] = load_tile_w8;
    table->load_tile[TN_F16] = load_tile_f16;
    table->load_tile[TN_BF16] = load_tile_bf16;
    tn_cpu_run *const cast[CPU_TYPE_COUNT][CPU_TYPE_COUNT] = {
        {f32_f32, f32_f64, f32_i32, f32_i64, f32_bool},
        {f64_f32, f64_f64, f64_i32, f64_i64, f64_bool},
        {i32_f32, i32_f64, f32_f32, i32_i64, i32_bool},
        {i64_f32, i64_f64, i64_i32, f64_f64, i64_bool},
        {bool_f32, bool_f64, bool_i32, bool_i64, bool_bool},
    };
    memcpy(table->cast, cast, sizeof cast);
}
