/* narrow_float.h: converts between float32 and the narrow floating-point types
 * (float16, bfloat16, float8). All types share one rounding routine. A type is
 * described by the width of its mantissa, its smallest normal exponent, and the
 * codes at the top of its range. A code is the bit pattern of a value. */
#ifndef TN_LIB_KERNEL_NARROW_FLOAT_H
#define TN_LIB_KERNEL_NARROW_FLOAT_H

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <tenon/types.h>

typedef struct tn__narrow_format {
    int mantissa_bits;
    int min_exponent; /* exponent of the smallest normal number */
    uint32_t sign;    /* code that has only the sign bit set */
    uint32_t max_finite;
    uint32_t infinity; /* code of infinity; max_finite if the type has no
                        * infinity */
    uint32_t overflow; /* code for a finite number that is rounded to more than
                        * max_finite */
    uint32_t nan;      /* code of the NaN that conversions produce; all codes
                        * above the code of infinity are NaN */
} tn__narrow_format;

static inline tn__narrow_format tn__narrow_format_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_F16:
        return (tn__narrow_format){10,     -14,    0x8000, 0x7bff,
                                   0x7c00, 0x7c00, 0x7e00};
    case TN_BF16:
        return (tn__narrow_format){7,      -126,   0x8000, 0x7f7f,
                                   0x7f80, 0x7f80, 0x7fc0};
    case TN_F8E5M2:
        return (tn__narrow_format){2, -14, 0x80, 0x7b, 0x7c, 0x7b, 0x7e};
    default: /* TN_F8E4M3 (torch.float8_e4m3fn) has no infinity; the code of NaN
              * is all ones */
        return (tn__narrow_format){3, -6, 0x80, 0x7e, 0x7e, 0x7e, 0x7f};
    }
}

/* Converts x to dtype (F16, BF16, F8E4M3 or F8E5M2), rounded to nearest even,
 * and returns its code. */
static inline uint32_t tn__narrow_encode(tn_dtype dtype, float x)
{
    tn__narrow_format format = tn__narrow_format_of(dtype);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = bits >> 31 ? format.sign : 0, magnitude = bits << 1 >> 1;
    if (magnitude > 0x7f800000)
        return sign | format.nan;
    if (magnitude == 0x7f800000)
        return sign | format.infinity;

    /* Now |x| = significand * 2^(exponent - 23). A subnormal float32 has the
     * exponent of the smallest normal number and no leading one. */
    bool subnormal = magnitude >> 23 == 0;
    int exponent = subnormal ? -126 : (int)(magnitude >> 23) - 127;
    uint32_t significand = (magnitude & 0x7fffff) | (subnormal ? 0 : 1u << 23);

    /* Subnormal numbers of the narrow type all have the same spacing, so they
     * are shifted further to the right. With a shift of 25, everything is
     * rounded to 0. */
    int above = exponent - format.min_exponent;
    int shift = 23 - format.mantissa_bits + (above < 0 ? -above : 0);
    if (shift > 25)
        shift = 25;
    uint32_t kept = significand >> shift, half = 1u << (shift - 1);
    uint32_t rest = significand & ((1u << shift) - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;

    /* If the result is a normal number, the leading one of `kept` is the lowest
     * bit of the code's exponent field, so the field is 1 before `above` is
     * added. If rounding carries to the next power of two, the field becomes
     * one greater. */
    uint32_t code = kept;
    if (above > 0)
        code += (uint32_t)above << format.mantissa_bits;
    return sign | (code > format.max_finite ? format.overflow : code);
}

static inline float tn__narrow_decode(tn_dtype dtype, uint32_t code)
{
    tn__narrow_format format = tn__narrow_format_of(dtype);
    uint32_t magnitude = code & (format.sign - 1);
    float x;
    if (magnitude > format.infinity) {
        x = NAN;
    } else if (magnitude > format.max_finite) {
        x = INFINITY;
    } else {
        /* value of the significand's leading one, which is also the lowest bit
         * of the exponent field */
        uint32_t one = 1u << format.mantissa_bits;
        int field = (int)(magnitude / one);
        uint32_t significand = magnitude % one + (field ? one : 0);
        x = ldexpf((float)significand, format.min_exponent -
                                           format.mantissa_bits +
                                           (field ? field - 1 : 0));
    }
    return code & format.sign ? -x : x;
}

#endif
