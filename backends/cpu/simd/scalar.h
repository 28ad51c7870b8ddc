/* scalar.h: conversions between floats and their bits, and minimum and maximum
 * of two values, in forms that a compiler can vectorise. */
#ifndef TN_CPU_SCALAR_H
#define TN_CPU_SCALAR_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t bits_f64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Maximum and minimum, where -0 < +0. If x and y are equal, their bits are
 * equal, except for -0 and +0: the AND of their bits is +0, the OR is -0. If x
 * or y is NaN, the result is x + y, which is NaN. */
static inline float max_f32(float x, float y)
{
    float equal = float_of(bits_f32(x) & bits_f32(y));
    float other = x == y ? equal : x + y;
    other = y > x ? y : other;
    return x > y ? x : other;
}

static inline float min_f32(float x, float y)
{
    float equal = float_of(bits_f32(x) | bits_f32(y));
    float other = x == y ? equal : x + y;
    other = y < x ? y : other;
    return x < y ? x : other;
}

static inline double max_f64(double x, double y)
{
    double equal = double_of(bits_f64(x) & bits_f64(y));
    double other = x == y ? equal : x + y;
    other = y > x ? y : other;
    return x > y ? x : other;
}

static inline double min_f64(double x, double y)
{
    double equal = double_of(bits_f64(x) | bits_f64(y));
    double other = x == y ? equal : x + y;
    other = y < x ? y : other;
    return x < y ? x : other;
}

#define TN_CPU_INT_MINMAX(suffix, T)                                          \
    static inline T max_##suffix(T x, T y)                                    \
    {                                                                         \
        return x > y ? x : y;                                                 \
    }                                                                         \
    static inline T min_##suffix(T x, T y)                                    \
    {                                                                         \
        return x < y ? x : y;                                                 \
    }
TN_CPU_INT_MINMAX(i32, int32_t)
TN_CPU_INT_MINMAX(i64, int64_t)
TN_CPU_INT_MINMAX(bool, uint8_t)

#endif
