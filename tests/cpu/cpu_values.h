/* cpu_values.h: fills memory and compares it, for the tests of this folder. */
#ifndef TN_TESTS_CPU_VALUES_H
#define TN_TESTS_CPU_VALUES_H

#include <math.h>

#include "cpu_plugin.h"

static size_t dtype_bytes(tn_dtype dtype)
{
    return dtype == TN_U8 ? 1 : dtype == TN_F32 ? 4 : 8;
}

/* fill() gives some floats the value `rare` and the others `usual`; if both are
 * NaN, floats are random. */
static double rare = NAN, usual = NAN;

static void fill(void *memory, tn_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = (double)(int64_t)random_bits() * 0x1p-62;
        bool is_rare = random_below(700) == 0;
        x = isnan(usual) ? x : usual;
        x = is_rare && !(isnan(rare) && isnan(usual)) ? rare : x;
        if (dtype == TN_U8)
            ((uint8_t *)memory)[i] = (uint8_t)random_bits();
        else if (dtype == TN_F32)
            ((float *)memory)[i] = (float)x;
        else if (dtype == TN_F64)
            ((double *)memory)[i] = x;
        else
            ((int64_t *)memory)[i] = (int64_t)random_bits();
    }
}

/* Returns whether count elements have equal bits. All NaNs are equal. */
static bool same_bits(tn_dtype dtype, const void *got, const void *want,
                      int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const char *g = got, *w = want;
        size_t bytes = dtype_bytes(dtype);
        bool both_nan =
            dtype == TN_F32
                ? isnan(((const float *)got)[i]) &&
                      isnan(((const float *)want)[i])
                : dtype == TN_F64 && isnan(((const double *)got)[i]) &&
                      isnan(((const double *)want)[i]);
        if (!both_nan && memcmp(g + bytes * (size_t)i, w + bytes * (size_t)i,
                                bytes) != 0)
            return false;
    }
    return true;
}

#endif
