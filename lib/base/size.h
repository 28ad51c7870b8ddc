/* size.h: saturating arithmetic on sizes.
 *
 * Sizes come from the program, and a view with strides of 0 may have more
 * elements than fit in memory. So all sums and products of sizes use these
 * functions. If the result overflows, it is INT64_MAX (or INT64_MIN). No tensor
 * and no allocation can have this size, so an attempt to allocate it fails with
 * an error that names the operator. */
#ifndef TN_LIB_BASE_SIZE_H
#define TN_LIB_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t tn__size_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? b < 0 ? INT64_MIN : INT64_MAX
                                              : sum;
}

static inline int64_t tn__size_sub(int64_t a, int64_t b)
{
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference)
               ? b < 0 ? INT64_MAX : INT64_MIN
               : difference;
}

static inline int64_t tn__size_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product)
               ? (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX
               : product;
}

/* Returns the size in bytes of `count` elements of `each` bytes. If the product
 * overflows or count is negative, returns SIZE_MAX, which no allocation can
 * have. */
static inline size_t tn__size_bytes(int64_t count, size_t each)
{
    size_t bytes;
    return count < 0 || __builtin_mul_overflow((size_t)count, each, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* The largest number of elements that an operator processes; 2^56 elements
 * would take years. Sizes that are computed from it, such as bytes and ends of
 * tiles, still fit in 64 bits. Only views with strides of 0 can have more
 * elements. */
#define TN__SIZE_SPAN (INT64_C(1) << 56)

/* Converts x to int64_t. Values out of range become the nearest int64_t; NaN
 * becomes 0. */
static inline int64_t tn__size_from_double(double x)
{
    return x != x         ? 0
           : x >= 0x1p63  ? INT64_MAX
           : x <= -0x1p63 ? INT64_MIN
                          : (int64_t)x;
}

#endif
