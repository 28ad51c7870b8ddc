/* math_ops.h: the functions and macros that the generated mathematical
 * functions (math_routines.inc) call. They are the instructions of
 * TN_KERNEL_MAP that have no operator in C, or whose operator in C is undefined
 * for some values. */
#ifndef TN_CPU_MATH_OPS_H
#define TN_CPU_MATH_OPS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "scalar.h"

/* Functions are always inlined: a call would prevent vectorisation of the loop
 * around it. */
#define FN static inline __attribute__((always_inline, unused))
/* Defines the loop of a mathematical function. It is marked as unused, because
 * the table of an instruction set may omit it. */
#define RUN static __attribute__((unused))

/* Returns the bits of a value as an integer. Every NaN gives the bits of the
 * positive quiet NaN. */
FN int32_t bitcast_i32(float x)
{
    return x != x ? 0x7fc00000 : (int32_t)bits_f32(x);
}

FN int64_t bitcast_i64(double x)
{
    return x != x ? INT64_C(0x7ff8000000000000) : (int64_t)bits_f64(x);
}

FN float bitcast_f32(int32_t i)
{
    return float_of((uint32_t)i);
}

FN double bitcast_f64(int64_t i)
{
    return double_of((uint64_t)i);
}

/* Casts of floats to integers saturate, and NaN becomes 0. x is compared with
 * 2^31 or 2^63, which are exact as floats. */
#define TN_CPU_SATURATE(R, T, suffix, from, low, high, two_to)                \
    FN R suffix##_of_##from(T x)                                              \
    {                                                                         \
        R r = x >= two_to ? high : x < -(two_to) ? low : (R)x;                \
        return x != x ? 0 : r;                                                \
    }
TN_CPU_SATURATE(int32_t, float, i32, f32, INT32_MIN, INT32_MAX, 0x1p31f)
TN_CPU_SATURATE(int32_t, double, i32, f64, INT32_MIN, INT32_MAX, 0x1p31)
TN_CPU_SATURATE(int64_t, float, i64, f32, INT64_MIN, INT64_MAX, 0x1p63f)
TN_CPU_SATURATE(int64_t, double, i64, f64, INT64_MIN, INT64_MAX, 0x1p63)

#define TN_CPU_INTEGER_OPS(suffix, T, U, width)                               \
    FN T neg_##suffix(T x)                                                    \
    {                                                                         \
        return (T)(0 - (U)x);                                                 \
    }                                                                         \
    FN T abs_##suffix(T x)                                                    \
    {                                                                         \
        return x < 0 ? (T)(0 - (U)x) : x;                                     \
    }                                                                         \
    FN T div_##suffix(T x, T y)                                               \
    {                                                                         \
        T safe = y == 0 || y == -1 ? 1 : y;                                   \
        return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / safe;               \
    }                                                                         \
    FN T rem_##suffix(T x, T y)                                               \
    {                                                                         \
        return x % (y == 0 || y == -1 ? 1 : y);                               \
    }                                                                         \
    FN T shl_##suffix(T x, T y)                                               \
    {                                                                         \
        return (U)y < width ? (T)((U)x << ((U)y & (width - 1))) : 0;          \
    }                                                                         \
    FN T shr_##suffix(T x, T y)                                               \
    {                                                                         \
        return x >> ((U)y < width ? y : width - 1);                           \
    }                                                                         \
    FN T shrl_##suffix(T x, T y)                                              \
    {                                                                         \
        return (U)y < width ? (T)((U)x >> ((U)y & (width - 1))) : 0;          \
    }
TN_CPU_INTEGER_OPS(i32, int32_t, uint32_t, 32)
TN_CPU_INTEGER_OPS(i64, int64_t, uint64_t, 64)

FN int32_t mulhi_i32(int32_t x, int32_t y)
{
    return (int32_t)((uint64_t)(uint32_t)x * (uint32_t)y >> 32);
}

#endif
