/* numbers.c: functions that the other files of this plugin use. They load and
 * store elements of any dtype, compute one step of a reduction, and iterate
 * over strided views. */
#include "reference.h"

#include <math.h>
#include <string.h>

const tn_host *reference_host;

/* ---- narrow floats ------------------------------------------------------- */

/* An 8-bit or 16-bit float format. The fields after min_exponent are bit
 * patterns. */
typedef struct narrow {
    int mantissa_bits, min_exponent; /* min_exponent is the smallest exponent of
                                        a normal number */
    uint32_t sign, max_finite, infinity, overflow, nan; /* overflow is the
                                                           result if a number is
                                                           too large */
} narrow;

static narrow narrow_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_F16:
        return (narrow){10, -14, 0x8000, 0x7bff, 0x7c00, 0x7c00, 0x7e00};
    case TN_BF16:
        return (narrow){7, -126, 0x8000, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0};
    /* A number that is too large becomes the largest finite number; infinity
     * stays infinity. */
    case TN_F8E5M2:
        return (narrow){2, -14, 0x80, 0x7b, 0x7c, 0x7b, 0x7e};
    /* TN_F8E4M3 has no infinity. Infinity and numbers that are too large become
     * the largest finite number. */
    default:
        return (narrow){3, -6, 0x80, 0x7e, 0x7e, 0x7e, 0x7f};
    }
}

static uint32_t encode(narrow n, float x)
{
    uint32_t sign = signbit(x) ? n.sign : 0;
    if (isnan(x))
        return sign | n.nan;
    if (isinf(x))
        return sign | n.infinity;
    /* x is rounded to a multiple of the distance between neighbouring numbers
     * of the format at x. All subnormal numbers have the same distance as the
     * smallest normal number. x is scaled so that the distance becomes 1, and
     * rint rounds to nearest even. */
    int exponent = x == 0 ? n.min_exponent : ilogb(x);
    if (exponent < n.min_exponent)
        exponent = n.min_exponent;
    uint32_t steps =
        (uint32_t)rint(ldexp(fabs((double)x), n.mantissa_bits - exponent));
    /* The leading 1 bit of a normal number is not stored. In this sum it adds 1
     * to the exponent field, which is 0 for subnormal numbers. */
    uint32_t code =
        steps + ((uint32_t)(exponent - n.min_exponent) << n.mantissa_bits);
    return sign | (code > n.max_finite ? n.overflow : code);
}

static tn_number decode(narrow n, uint32_t code)
{
    uint32_t magnitude = code & (n.sign - 1), one = 1u << n.mantissa_bits;
    /* the exponent field, which is 0 if the number is subnormal */
    int field = (int)(magnitude / one);
    double x =
        field ? ldexp(magnitude % one + one, field - 1) : (double)magnitude;
    x = ldexp(x, n.min_exponent - n.mantissa_bits);
    if (magnitude > n.max_finite)
        x = magnitude > n.infinity ? NAN : INFINITY;
    return (tn_number){.f = code & n.sign ? -x : x};
}

/* ---- elements ------------------------------------------------------------ */

bool reference_is_float(tn_dtype dtype)
{
    return dtype >= TN_F32 && dtype <= TN_F8E5M2;
}

size_t reference_bytes(tn_dtype dtype)
{
    static const uint8_t bytes_of[TN_DTYPE_END] = {
#define BYTES(name, code, text, bytes, kind, reg) [code] = bytes,
        TN_DTYPE_MAP(BYTES)
#undef BYTES
    };
    return bytes_of[dtype];
}

tn_number reference_load(const tn_strided *view, int64_t at)
{
    const void *from =
        view->buffer->data + at * (int64_t)reference_bytes(view->dtype);
    switch (view->dtype) {
    case TN_F32:
        return (tn_number){.f = *(const float *)from};
    case TN_F64:
        return (tn_number){.f = *(const double *)from};
    case TN_F16:
    case TN_BF16:
        return decode(narrow_of(view->dtype), *(const uint16_t *)from);
    case TN_F8E4M3:
    case TN_F8E5M2:
        return decode(narrow_of(view->dtype), *(const uint8_t *)from);
    case TN_I64:
        return (tn_number){.i = *(const int64_t *)from};
    case TN_I32:
        return (tn_number){.i = *(const int32_t *)from};
    case TN_I16:
        return (tn_number){.i = *(const int16_t *)from};
    case TN_I8:
        return (tn_number){.i = *(const int8_t *)from};
    case TN_U8:
        return (tn_number){.i = *(const uint8_t *)from};
    default: /* the dtype is TN_BOOL */
        return (tn_number){.i = *(const uint8_t *)from != 0};
    }
}

void reference_store(const tn_strided *view, int64_t at, tn_number x)
{
    void *to = view->buffer->data + at * (int64_t)reference_bytes(view->dtype);
    switch (view->dtype) {
    case TN_F32:
        *(float *)to = (float)x.f;
        break;
    case TN_F64:
        *(double *)to = x.f;
        break;
    case TN_F16:
    case TN_BF16:
        *(uint16_t *)to = (uint16_t)encode(narrow_of(view->dtype), (float)x.f);
        break;
    case TN_F8E4M3:
    case TN_F8E5M2:
        *(uint8_t *)to = (uint8_t)encode(narrow_of(view->dtype), (float)x.f);
        break;
    case TN_I64:
        *(int64_t *)to = x.i;
        break;
    case TN_I32:
        *(uint32_t *)to = (uint32_t)x.i;
        break;
    case TN_I16:
        *(uint16_t *)to = (uint16_t)x.i;
        break;
    case TN_BOOL:
        *(uint8_t *)to = x.i != 0;
        break;
    default: /* the dtype is TN_I8 or TN_U8 */
        *(uint8_t *)to = (uint8_t)x.i;
        break;
    }
}

static double min_or_max(bool greater, double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y) /* for zeros of different sign, -0 counts as less than +0 */
        return (signbit(x) != 0) == greater ? y : x;
    return (x > y) == greater ? x : y;
}

tn_number reference_combine(unsigned kind, tn_dtype dtype, tn_number x,
                            tn_number y)
{
    /* Integers are unsigned here, so that an overflow wraps. */
    uint64_t xi = (uint64_t)x.i, yi = (uint64_t)y.i;
    bool is_float = reference_is_float(dtype);
    switch (kind) {
    case TN_REDUCE_SUM:
        if (is_float)
            x.f = dtype == TN_F64 ? x.f + y.f : (float)x.f + (float)y.f;
        else
            x.i = dtype == TN_BOOL ? x.i || y.i : (int64_t)(xi + yi);
        return x;
    case TN_REDUCE_PROD:
        if (is_float)
            x.f = dtype == TN_F64 ? x.f * y.f : (float)x.f * (float)y.f;
        else
            x.i = (int64_t)(xi * yi);
        return x;
    default:
        if (!is_float)
            return (x.i > y.i) == (kind == TN_REDUCE_MAX) ? x : y;
        x.f = min_or_max(kind == TN_REDUCE_MAX, x.f, y.f);
        return x;
    }
}

/* ---- views --------------------------------------------------------------- */

int64_t reference_offset(const tn_strided *view, const int64_t *point,
                         uint32_t ndim)
{
    int64_t at = view->offset;
    for (uint32_t d = 0; d < ndim; d++)
        at += point[d] * view->stride[d];
    return at;
}

bool reference_next(int64_t *point, const int64_t *extent, uint32_t ndim)
{
    for (uint32_t d = ndim; d-- > 0;) {
        if (++point[d] < extent[d])
            return true;
        point[d] = 0;
    }
    return false;
}

int64_t reference_numel(const int64_t *extent, uint32_t ndim)
{
    int64_t numel = 1;
    for (uint32_t d = 0; d < ndim; d++)
        numel *= extent[d];
    return numel;
}
