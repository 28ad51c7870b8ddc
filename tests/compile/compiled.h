/* compiled.h: what the tests of compiled functions share: comparisons by bytes, and
 * counts. */
#ifndef TN_TESTS_COMPILED_H
#define TN_TESTS_COMPILED_H

#include <tenon/tenon.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether two elements of this dtype are NaN. */
static inline bool compiled_are_nan(const char *a, const char *b,
                                    tn_dtype dtype)
{
    double p = 0, q = 0;
    if (dtype == TN_F64) {
        memcpy(&p, a, sizeof p);
        memcpy(&q, b, sizeof q);
        return isnan(p) && isnan(q);
    }
    uint32_t u = 0, v = 0;
    const size_t bytes = tn_dtype_bytes(dtype);
    memcpy(&u, a, bytes);
    memcpy(&v, b, bytes);
    /* Without the sign, a NaN is above infinity. */
    const uint32_t most = dtype == TN_F32    ? 0x7f800000
                          : dtype == TN_F16  ? 0x7c00
                          : dtype == TN_BF16 ? 0x7f80
                                             : UINT32_MAX;
    const uint32_t magnitude = bytes == 4 ? 0x7fffffff : 0x7fff;
    return most != UINT32_MAX && (u & magnitude) > most &&
           (v & magnitude) > most;
}

/* Returns whether two tensors have equal dtypes, shapes and bytes. If `any_nan` is
 * true, all NaNs count as equal. */
static inline bool compiled_same(tn_tensor *x, tn_tensor *y, bool any_nan)
{
    bool same = x && y && tn_tensor_dtype(x) == tn_tensor_dtype(y) &&
                tn_tensor_ndim(x) == tn_tensor_ndim(y);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_size(x, d) == tn_tensor_size(y, d);
    if (!same)
        return false;
    const tn_dtype dtype = tn_tensor_dtype(x);
    const size_t each = tn_dtype_bytes(dtype);
    const size_t bytes = (size_t)tn_tensor_numel(x) * each;
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    same = a && b && tn_tensor_to_array(x, a, bytes) >= 0 &&
           tn_tensor_to_array(y, b, bytes) >= 0;
    for (size_t i = 0; i < bytes && same; i += each)
        same = memcmp(a + i, b + i, each) == 0 ||
               (any_nan && compiled_are_nan(a + i, b + i, dtype));
    free(a);
    free(b);
    return same;
}

static inline bool same_bits(tn_tensor *x, tn_tensor *y)
{
    return compiled_same(x, y, false);
}

static inline tn_compiled_counts counts_of(const tn_compiled *c)
{
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    return counts;
}

#endif
