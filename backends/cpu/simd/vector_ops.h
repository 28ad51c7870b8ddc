/* vector_ops.h: vector operations that plain C cannot express: shuffles,
 * partial loads, comparisons in one instruction, and non-temporal stores. */
#ifndef TN_CPU_VECTOR_OPS_H
#define TN_CPU_VECTOR_OPS_H

#include <stdint.h>

#include "routines.h"
#include "vector.h"

typedef int32_t vec_i32 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef int64_t vec_i64 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef uint32_t vec_u32 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef uint64_t vec_u64 __attribute__((vector_size(TN_CPU_VECTOR)));

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(V, I, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(V, I, x, y, ...)                                              \
    __builtin_shuffle(x, y, (I){__VA_ARGS__})
#endif

/* Rotates a vector of 4-byte or 8-byte elements: element i of the result is
 * v[(i + h) % lanes]. */
#define ROTATE_2(V, I, v, h) SHUFFLE(V, I, v, v, (0 + h) % 2, (1 + h) % 2)
#define ROTATE_4(V, I, v, h)                                                  \
    SHUFFLE(V, I, v, v, (0 + h) % 4, (1 + h) % 4, (2 + h) % 4, (3 + h) % 4)
#define ROTATE_8(V, I, v, h)                                                  \
    SHUFFLE(V, I, v, v, (0 + h) % 8, (1 + h) % 8, (2 + h) % 8, (3 + h) % 8,   \
            (4 + h) % 8, (5 + h) % 8, (6 + h) % 8, (7 + h) % 8)
#define ROTATE_16(V, I, v, h)                                                 \
    SHUFFLE(V, I, v, v, (0 + h) % 16, (1 + h) % 16, (2 + h) % 16,             \
            (3 + h) % 16, (4 + h) % 16, (5 + h) % 16, (6 + h) % 16,           \
            (7 + h) % 16, (8 + h) % 16, (9 + h) % 16, (10 + h) % 16,          \
            (11 + h) % 16, (12 + h) % 16, (13 + h) % 16, (14 + h) % 16,       \
            (15 + h) % 16)
#if TN_CPU_VECTOR == 64
#define ROTATE_32(V, v, h) ROTATE_16(V, vec_i32, v, h)
#define ROTATE_64(V, v, h) ROTATE_8(V, vec_i64, v, h)
#elif TN_CPU_VECTOR == 32
#define ROTATE_32(V, v, h) ROTATE_8(V, vec_i32, v, h)
#define ROTATE_64(V, v, h) ROTATE_4(V, vec_i64, v, h)
#else
#define ROTATE_32(V, v, h) ROTATE_4(V, vec_i32, v, h)
#define ROTATE_64(V, v, h) ROTATE_2(V, vec_i64, v, h)
#endif

/* Loads the first n elements of a vector, 0 < n <= lanes. The other elements
 * are 0, and their memory is not accessed. Copying the n elements to a buffer
 * one by one would be slow, because the load from the buffer would wait for
 * these stores. */
#if defined(__AVX512F__)
static inline vec_i32 load_part_32(const void *memory, int64_t n)
{
    return (vec_i32)_mm512_maskz_loadu_epi32((__mmask16)(0xffff >> (16 - n)),
                                             memory);
}
static inline vec_i64 load_part_64(const void *memory, int64_t n)
{
    return (vec_i64)_mm512_maskz_loadu_epi64((__mmask8)(0xff >> (8 - n)),
                                             memory);
}
#elif defined(__AVX2__)
#define PART_LANES_32 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define PART_LANES_64 _mm256_setr_epi64x(0, 1, 2, 3)
static inline vec_i32 load_part_32(const void *memory, int64_t n)
{
    return (vec_i32)_mm256_maskload_epi32(
        memory,
        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), PART_LANES_32));
}
static inline vec_i64 load_part_64(const void *memory, int64_t n)
{
    return (vec_i64)_mm256_maskload_epi64(
        memory, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), PART_LANES_64));
}
#else
#define TN_CPU_LOAD_PART(bits)                                                \
    static inline vec_i##bits load_part_##bits(const void *memory, int64_t n) \
    {                                                                         \
        vec_i##bits x = {0};                                                  \
        __builtin_memcpy(&x, memory, (unsigned long)n * (bits / 8));          \
        return x;                                                             \
    }
TN_CPU_LOAD_PART(32)
TN_CPU_LOAD_PART(64)
#endif

/* load_bits() loads element i if bit i is set. The other elements are 0, and
 * their memory is not accessed. bits_of() returns x in the elements whose bit
 * is set, and 0 in the others. */
#if defined(__AVX512F__)
#define TN_CPU_LOADS_BITS 1
static inline vec_i32 load_bits(const void *memory, uint32_t bits)
{
    return (vec_i32)_mm512_maskz_loadu_epi32((__mmask16)bits, memory);
}
static inline vec_i32 bits_of(int32_t x, uint32_t bits)
{
    return (vec_i32)_mm512_maskz_set1_epi32((__mmask16)bits, x);
}
#endif

/* Gathers out[i] = memory[offset[i]] for `count` elements (TN_CPU_NEAR or 16)
 * as a permutation of two vectors. All offsets must be between the first and
 * the last offset, and these must be within two vectors. Otherwise returns 0
 * without gathering. Reads only memory between the first and the last
 * offset. */
#if defined(__AVX512F__)
#define TN_CPU_NEAR 8
static inline _Bool gather_near(void *out, const uint32_t *memory,
                                const int64_t *offset, int count)
{
    int64_t first = offset[0], last = offset[count - 1];
    int64_t low = first < last ? first : last;
    uint64_t most = (uint64_t)(first < last ? last : first) - (uint64_t)low;
    if (most >= 32 || low == TN_CPU_OUTSIDE)
        return 0;
    const __m512i from = _mm512_set1_epi64(low);
    const __m512i end = _mm512_set1_epi64((int64_t)most);
    __m512i a = _mm512_sub_epi64(_mm512_loadu_si512(offset), from), b = a;
    if (count == 16)
        b = _mm512_sub_epi64(_mm512_loadu_si512(offset + 8), from);
    if (_mm512_cmpgt_epu64_mask(a, end) | _mm512_cmpgt_epu64_mask(b, end))
        return 0;
    __m512i at = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(a));
    at = _mm512_inserti64x4(at, _mm512_cvtepi64_epi32(b), 1);
    uint32_t there = 0xffffffffu >> (31 - most);
    __m512i x = _mm512_permutex2var_epi32(
        _mm512_maskz_loadu_epi32((__mmask16)there, memory + low), at,
        _mm512_maskz_loadu_epi32((__mmask16)(there >> 16), memory + low + 16));
    _mm512_mask_storeu_epi32(out, (__mmask16)((1 << count) - 1), x);
    return 1;
}
/* Two adjacent vectors in registers. load_window_part() loads only the first
 * `there` elements of both. permute_window() returns x[at[i]] in each lane
 * i. */
typedef struct window_f32 {
    __m512 low, high;
} window_f32;
static inline window_f32 load_window(const float *memory)
{
    return (window_f32){_mm512_loadu_ps(memory), _mm512_loadu_ps(memory + 16)};
}
static inline window_f32 load_window_part(const float *memory, uint32_t there)
{
    uint32_t part = 0xffffffffu >> (32 - there);
    return (window_f32){
        _mm512_maskz_loadu_ps((__mmask16)part, memory),
        _mm512_maskz_loadu_ps((__mmask16)(part >> 16), memory + 16)};
}
static inline vec_f32 permute_window(window_f32 x, vec_i32 at)
{
    return (vec_f32)_mm512_permutex2var_ps(x.low, (__m512i)at, x.high);
}
static inline vec_i32 widen_places(const uint8_t *at)
{
    return (vec_i32)_mm512_cvtepu8_epi32(
        _mm_loadu_si128((const __m128i *)at));
}
/* nonzero_weights() returns a mask of the lanes whose weight is not 0.
 * multiply_masked() returns x * w in these lanes and 0 in the others, so an
 * infinity or NaN with weight 0 has no effect. */
typedef __mmask16 lane_mask_f32;
static inline lane_mask_f32 nonzero_weights(vec_f32 w)
{
    return _mm512_cmp_ps_mask((__m512)w, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}
static inline vec_f32 multiply_masked(vec_f32 x, vec_f32 w, lane_mask_f32 which)
{
    return (vec_f32)_mm512_maskz_mul_ps(which, (__m512)x, (__m512)w);
}
/* head_mask() returns a mask of the first n lanes of a vector. load_first() and
 * store_first() access the lanes of this mask. */
typedef __mmask16 head_mask_f32;
static inline head_mask_f32 head_mask(int64_t n)
{
    return n < 16 ? (head_mask_f32)((1u << n) - 1) : (head_mask_f32)0xffff;
}
static inline vec_f32 load_first(const float *memory, head_mask_f32 which)
{
    return (vec_f32)_mm512_maskz_loadu_ps(which, memory);
}
static inline void store_first(float *memory, vec_f32 x, head_mask_f32 which)
{
    _mm512_mask_storeu_ps(memory, which, (__m512)x);
}
#elif defined(__AVX2__)
#define TN_CPU_NEAR 8
static inline _Bool gather_near(void *out, const uint32_t *memory,
                                const int64_t *offset, int count)
{
    int64_t first = offset[0], last = offset[7];
    int64_t low = first < last ? first : last;
    uint64_t most = (uint64_t)(first < last ? last : first) - (uint64_t)low;
    if (count != 8 || most >= 16 || low == TN_CPU_OUTSIDE)
        return 0;
    const __m256i from = _mm256_set1_epi64x(low);
    const __m256i end = _mm256_set1_epi64x((int64_t)most);
    const __m256i *given = (const __m256i *)offset;
    __m256i a = _mm256_sub_epi64(_mm256_loadu_si256(given), from);
    __m256i b = _mm256_sub_epi64(_mm256_loadu_si256(given + 1), from);
    /* An element of `beyond` is negative if its offset is outside [low, low +
     * most]. Then this function does not load the elements. */
    __m256i beyond = _mm256_or_si256(
        _mm256_or_si256(_mm256_cmpgt_epi64(a, end), _mm256_cmpgt_epi64(b, end)),
        _mm256_or_si256(a, b));
    if (_mm256_movemask_pd(_mm256_castsi256_pd(beyond)))
        return 0;
    __m256i at = _mm256_permute4x64_epi64(
        _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a),
                                              _mm256_castsi256_ps(b), 0x88)),
        0xd8);
    __m256i x = _mm256_permutevar8x32_epi32(
        (__m256i)load_part_32(memory + low, most < 8 ? (int64_t)most + 1 : 8),
        at);
    if (most >= 8)
        x = _mm256_blendv_epi8(
            x,
            _mm256_permutevar8x32_epi32(
                (__m256i)load_part_32(memory + low + 8, (int64_t)most - 7),
                at),
            _mm256_cmpgt_epi32(at, _mm256_set1_epi32(7)));
    _mm256_storeu_si256((__m256i *)out, x);
    return 1;
}
typedef struct window_f32 {
    __m256 low, high;
} window_f32;
static inline window_f32 load_window(const float *memory)
{
    return (window_f32){_mm256_loadu_ps(memory), _mm256_loadu_ps(memory + 8)};
}
static inline window_f32 load_window_part(const float *memory, uint32_t there)
{
    const int64_t more = there > 8 ? (int64_t)there - 8 : 0;
    return (window_f32){(__m256)load_part_32(memory, there),
                        (__m256)load_part_32(memory + 8, more)};
}
static inline vec_f32 permute_window(window_f32 x, vec_i32 at)
{
    return (vec_f32)_mm256_blendv_ps(
        _mm256_permutevar8x32_ps(x.low, (__m256i)at),
        _mm256_permutevar8x32_ps(x.high, (__m256i)at),
        _mm256_castsi256_ps(
            _mm256_cmpgt_epi32((__m256i)at, _mm256_set1_epi32(7))));
}
static inline vec_i32 widen_places(const uint8_t *at)
{
    return (vec_i32)_mm256_cvtepu8_epi32(
        _mm_loadl_epi64((const __m128i *)at));
}
typedef vec_i32 lane_mask_f32;
static inline lane_mask_f32 nonzero_weights(vec_f32 w)
{
    return (vec_i32)_mm256_cmp_ps((__m256)w, _mm256_setzero_ps(),
                                  _CMP_NEQ_UQ);
}
static inline vec_f32 multiply_masked(vec_f32 x, vec_f32 w, lane_mask_f32 which)
{
    return (vec_f32)((vec_i32)(x * w) & which);
}
typedef __m256i head_mask_f32;
static inline head_mask_f32 head_mask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                              PART_LANES_32);
}
static inline vec_f32 load_first(const float *memory, head_mask_f32 which)
{
    return (vec_f32)_mm256_maskload_ps(memory, which);
}
/* A full vector is stored without a mask, because masked stores are slow on
 * AMD's processors. */
static inline void store_first(float *memory, vec_f32 x, head_mask_f32 which)
{
    if (_mm256_movemask_epi8(which) == -1)
        _mm256_storeu_ps(memory, (__m256)x);
    else
        _mm256_maskstore_ps(memory, which, (__m256)x);
}
#endif

/* KEEP_PART replaces the elements of x after the first n by those of `none`, a
 * neutral element. */
#define TN_CPU_PART_MASK(bits, ...)                                           \
    static inline vec_i##bits part_mask_##bits(int64_t n)                     \
    {                                                                         \
        static const int##bits##_t lane[] = {__VA_ARGS__};                    \
        vec_i##bits index;                                                    \
        __builtin_memcpy(&index, lane, sizeof index);                         \
        return (vec_i##bits)(index < (int##bits##_t)n);                       \
    }
TN_CPU_PART_MASK(32, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
TN_CPU_PART_MASK(64, 0, 1, 2, 3, 4, 5, 6, 7)
#define KEEP_PART(V, bits, x, n, none)                                        \
    (V)((part_mask_##bits(n) & (vec_i##bits)(x)) |                            \
        (~part_mask_##bits(n) & (vec_i##bits)((none) - (V){0})))

/* greater_vec_...() returns x > y ? x : y. lesser_vec_...() returns x < y ? x :
 * y. If x or y is NaN, both return y. */
#if defined(__AVX512F__)
#define TN_CPU_PICK(name, suffix, letter, op, N)                              \
    static inline vec_##suffix name##_vec_##suffix(vec_##suffix x,            \
                                                   vec_##suffix y)            \
    {                                                                         \
        return (vec_##suffix)_mm512_##op##_p##letter((N)x, (N)y);             \
    }
#define TN_CPU_NATIVE_F32 __m512
#define TN_CPU_NATIVE_F64 __m512d
#elif defined(__AVX__)
#define TN_CPU_PICK(name, suffix, letter, op, N)                              \
    static inline vec_##suffix name##_vec_##suffix(vec_##suffix x,            \
                                                   vec_##suffix y)            \
    {                                                                         \
        return (vec_##suffix)_mm256_##op##_p##letter((N)x, (N)y);             \
    }
#define TN_CPU_NATIVE_F32 __m256
#define TN_CPU_NATIVE_F64 __m256d
#elif defined(__x86_64__)
#define TN_CPU_PICK(name, suffix, letter, op, N)                              \
    static inline vec_##suffix name##_vec_##suffix(vec_##suffix x,            \
                                                   vec_##suffix y)            \
    {                                                                         \
        return (vec_##suffix)_mm_##op##_p##letter((N)x, (N)y);                \
    }
#define TN_CPU_NATIVE_F32 __m128
#define TN_CPU_NATIVE_F64 __m128d
#else
#define TN_CPU_max >
#define TN_CPU_min <
#define TN_CPU_PICK(name, suffix, letter, op, N)                              \
    static inline vec_##suffix name##_vec_##suffix(vec_##suffix x,            \
                                                   vec_##suffix y)            \
    {                                                                         \
        N first = (N)(x TN_CPU_##op y);                                       \
        return (vec_##suffix)((first & (N)x) | (~first & (N)y));              \
    }
#define TN_CPU_NATIVE_F32 vec_i32
#define TN_CPU_NATIVE_F64 vec_i64
#endif
TN_CPU_PICK(greater, f32, s, max, TN_CPU_NATIVE_F32)
TN_CPU_PICK(lesser, f32, s, min, TN_CPU_NATIVE_F32)
TN_CPU_PICK(greater, f64, d, max, TN_CPU_NATIVE_F64)
TN_CPU_PICK(lesser, f64, d, min, TN_CPU_NATIVE_F64)

/* see_nan_...() adds to `seen`, which says whether there was a NaN so far, two
 * vectors x and y. One comparison tests both: two values are unordered if
 * either is NaN. */
#if defined(__AVX512F__)
typedef __mmask16 seen_f32;
typedef __mmask8 seen_f64;
static inline seen_f32 see_nan_f32(seen_f32 seen, vec_f32 x, vec_f32 y)
{
    return _kor_mask16(seen, _mm512_cmp_ps_mask((__m512)x, (__m512)y,
                                                _CMP_UNORD_Q));
}
static inline seen_f64 see_nan_f64(seen_f64 seen, vec_f64 x, vec_f64 y)
{
    return _kor_mask8(seen, _mm512_cmp_pd_mask((__m512d)x, (__m512d)y,
                                               _CMP_UNORD_Q));
}
#else
typedef vec_i32 seen_f32;
typedef vec_i64 seen_f64;
#if defined(__AVX__)
static inline seen_f32 see_nan_f32(seen_f32 seen, vec_f32 x, vec_f32 y)
{
    return seen | (vec_i32)_mm256_cmp_ps((__m256)x, (__m256)y, _CMP_UNORD_Q);
}
static inline seen_f64 see_nan_f64(seen_f64 seen, vec_f64 x, vec_f64 y)
{
    return seen | (vec_i64)_mm256_cmp_pd((__m256d)x, (__m256d)y,
                                         _CMP_UNORD_Q);
}
#else
static inline seen_f32 see_nan_f32(seen_f32 seen, vec_f32 x, vec_f32 y)
{
    return seen | (x != x) | (y != y);
}
static inline seen_f64 see_nan_f64(seen_f64 seen, vec_f64 x, vec_f64 y)
{
    return seen | (x != x) | (y != y);
}
#endif
#endif

/* Stores one vector to aligned memory by a non-temporal store. */
#if defined(__AVX512F__)
#define TN_CPU_STREAMS 1
static inline void stream_vector(void *to, vec_i32 x)
{
    _mm512_stream_si512((__m512i *)to, (__m512i)x);
}
#elif defined(__AVX__)
#define TN_CPU_STREAMS 1
static inline void stream_vector(void *to, vec_i32 x)
{
    _mm256_stream_si256((__m256i *)to, (__m256i)x);
}
#elif defined(__x86_64__)
#define TN_CPU_STREAMS 1
static inline void stream_vector(void *to, vec_i32 x)
{
    _mm_stream_si128((__m128i *)to, (__m128i)x);
}
#endif

#endif
