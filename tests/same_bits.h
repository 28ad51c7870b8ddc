/* same_bits.h: compares the bits of two tensors. All NaNs are equal, since a
 * device may choose which NaN an operation returns. */
#ifndef TN_TESTS_SAME_BITS_H
#define TN_TESTS_SAME_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>

/* Returns the bits of the dtype's infinity; without the sign bit, NaNs are
 * greater. */
static inline uint64_t same_bits_infinity(tn_dtype dtype)
{
    switch (dtype) {
    case TN_F64:
        return 0x7ff0000000000000u;
    case TN_F32:
        return 0x7f800000u;
    case TN_BF16:
        return 0x7f80u;
    case TN_F16:
        return 0x7c00u;
    case TN_F8E5M2:
        return 0x7cu;
    case TN_F8E4M3:
        return 0x7eu; /* code of the largest number, since this dtype has no
                       * infinity */
    default:
        return UINT64_MAX;
    }
}

/* On a little-endian machine the element is in the first bytes of x. */
static inline bool same_bits_of(const char *a, const char *b, size_t size,
                                uint64_t infinity)
{
    uint64_t x = 0, y = 0;
    const uint64_t sign = (uint64_t)1 << (8 * size - 1);
    memcpy(&x, a, size);
    memcpy(&y, b, size);
    return x == y || (infinity != UINT64_MAX && (x & ~sign) > infinity &&
                      (y & ~sign) > infinity);
}

static inline bool same_bits(tn_tensor *a, tn_tensor *b)
{
    if (!a || !b || tn_tensor_dtype(a) != tn_tensor_dtype(b) ||
        tn_tensor_ndim(a) != tn_tensor_ndim(b))
        return false;
    for (int d = 0; d < tn_tensor_ndim(a); d++)
        if (tn_tensor_size(a, d) != tn_tensor_size(b, d))
            return false;
    const size_t size = tn_dtype_bytes(tn_tensor_dtype(a));
    const size_t bytes = (size_t)tn_tensor_numel(a) * size;
    const uint64_t infinity = same_bits_infinity(tn_tensor_dtype(a));
    char *x = malloc(2 * bytes + 1), *y = x ? x + bytes : NULL;
    bool same = x && tn_tensor_to_array(a, x, bytes) >= 0 &&
                tn_tensor_to_array(b, y, bytes) >= 0;
    for (size_t i = 0; same && i < bytes; i += size)
        same = same_bits_of(x + i, y + i, size, infinity);
    free(x);
    return same;
}

#endif
