/* vector_ops.h: what plain loops over vectors cannot say: a comparison that is
 * one instruction, a store that passes the caches by. */
#ifndef TN_CPU_VECTOR_OPS_H
#define TN_CPU_VECTOR_OPS_H

#include <stdint.h>

#include "vector.h"

typedef int32_t vec_i32 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef int64_t vec_i64 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef uint32_t vec_u32 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef uint64_t vec_u64 __attribute__((vector_size(TN_CPU_VECTOR)));

/* greater: x > y ? x : y; lesser: x < y ? x : y. An unordered pair gives y. */
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

/* What has been NaN among the elements of vectors seen so far. */
#if defined(__AVX512F__)
typedef uint32_t seen_f32;
typedef uint32_t seen_f64;
static inline seen_f32 see_nan_f32(seen_f32 seen, vec_f32 x)
{
    return seen | _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
}
static inline seen_f64 see_nan_f64(seen_f64 seen, vec_f64 x)
{
    return seen | _mm512_cmp_pd_mask((__m512d)x, (__m512d)x, _CMP_UNORD_Q);
}
#else
typedef vec_i32 seen_f32;
typedef vec_i64 seen_f64;
static inline seen_f32 see_nan_f32(seen_f32 seen, vec_f32 x)
{
    return seen | (x != x);
}
static inline seen_f64 see_nan_f64(seen_f64 seen, vec_f64 x)
{
    return seen | (x != x);
}
#endif

/* A store of one vector, to memory aligned to it, that does not read the line
 * first and leaves the cache to others. */
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
