/* size.h: sums and products of sizes that do not overflow.
 *
 * Sizes come from callers, and views may show more elements than there is
 * memory (strides of 0): any sum or product of them is made here. What does not
 * fit is the greatest (least) number there is, a size that no tensor and no
 * allocation can have: so it is refused where the memory is asked for, or the
 * tensor is made, with the operator's name. */
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

/* The bytes of count elements, SIZE_MAX where there are not so many: no
 * allocation has that size, and no array that a caller gives. */
static inline size_t tn__size_bytes(int64_t count, size_t each)
{
    size_t bytes;
    return count < 0 || __builtin_mul_overflow((size_t)count, each, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* Over so many elements an operator goes at most: 2^56 of them last for years,
 * and what is made of their number (bytes, ends of tiles) still fits. Only
 * views of strides of 0 show more. */
#define TN__SIZE_SPAN (INT64_C(1) << 56)

/* A number of whatever size as an int64: what lies beyond is the last one, NaN
 * is 0. */
static inline int64_t tn__size_from_double(double x)
{
    return x != x         ? 0
           : x >= 0x1p63  ? INT64_MAX
           : x <= -0x1p63 ? INT64_MIN
                          : (int64_t)x;
}

#endif
