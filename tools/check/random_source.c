/* random_source.c: generates random numbers that depend only on the seed. */
#include "random_source.h"

#include <math.h>
#include <string.h>

/* The generator is splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
uint64_t random_bits(random_source *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint32_t random_below(random_source *r, uint32_t n)
{
    return (uint32_t)((random_bits(r) >> 32) * n >> 32);
}

bool random_chance(random_source *r, uint32_t percent)
{
    return random_below(r, 100) < percent;
}

int64_t random_between(random_source *r, int64_t low, int64_t high)
{
    return low + random_below(r, (uint32_t)(high - low + 1));
}

/* Values that implementations often get wrong: the limits of dtypes, values
 * halfway between two 16-bit floats, infinities, NaN and others. */
static const double float_corners[] = {0.0,
                                       -0.0,
                                       1.0,
                                       -1.0,
                                       INFINITY,
                                       -INFINITY,
                                       NAN,
                                       0x1p-149,
                                       -0x1p-149,
                                       0x1.fffffcp-127,
                                       0x1p-126,
                                       0x1.fffffep127,
                                       -0x1.fffffep127,
                                       0x1p-24,
                                       0x1p-14,
                                       65504,
                                       65520,
                                       448,
                                       464,
                                       57344,
                                       0x1p31,
                                       -0x1p31,
                                       0x1p63,
                                       -0x1p63,
                                       0x1.fffffep-1,
                                       0x1.000002p0,
                                       0x1p24,
                                       2.5,
                                       -0.5,
                                       1e30,
                                       1e-30,
                                       0x1p-1074,
                                       0x1.fffffffffffffp1023,
                                       0x1p-1022,
                                       0.1};
static const int64_t int_corners[] = {
    0,         1,         -1,         2,           31,        32,
    63,        64,        127,        128,         -128,      255,
    256,       32767,     -32768,     65535,       INT32_MAX, INT32_MIN,
    INT64_MAX, INT64_MIN, 0xffffffff, 0x100000000, 16777217,  9007199254740993};

double random_float_corner(uint64_t i)
{
    return float_corners[i % (sizeof float_corners / sizeof *float_corners)];
}

int64_t random_int_corner(uint64_t i)
{
    return int_corners[i % (sizeof int_corners / sizeof *int_corners)];
}

double random_float(random_source *r, bool tame)
{
    uint32_t kind = random_below(r, 100);
    if (tame || kind < 50)
        return (double)random_between(r, -1000000, 1000000) / 250000;
    if (kind < 65)
        return (double)random_between(r, -20, 20);
    if (kind < 85)
        return float_corners[random_below(r, sizeof float_corners /
                                                 sizeof *float_corners)];
    uint64_t bits = random_bits(r);
    if (kind < 92) {
        float single;
        memcpy(&single, &bits, sizeof single);
        return single;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int64_t random_int(random_source *r, bool tame)
{
    uint32_t kind = random_below(r, 100);
    if (tame || kind < 50)
        return random_between(r, -12, 12);
    if (kind < 75)
        return int_corners[random_below(r, sizeof int_corners /
                                               sizeof *int_corners)];
    return (int64_t)random_bits(r);
}

bool random_is_float(tn_dtype dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

tn_dtype random_register_type(tn_dtype dtype)
{
    switch (dtype) {
#define REGISTER(name, code, text, bytes, kind, reg)                           \
    case TN_##name:                                                            \
        return TN_##reg;
        TN_DTYPE_MAP(REGISTER)
#undef REGISTER
    default:
        return TN_DTYPE_NONE;
    }
}

size_t random_dtype_bytes(tn_dtype dtype)
{
    switch (dtype) {
#define BYTES(name, code, text, bytes, kind, reg)                              \
    case TN_##name:                                                            \
        return bytes;
        TN_DTYPE_MAP(BYTES)
#undef BYTES
    default:
        return 0;
    }
}

const char *random_dtype_name(tn_dtype dtype)
{
    static const char *const names[TN_DTYPE_END] = {
        [TN_DTYPE_NONE] = "-",
#define NAME(name, code, text, bytes, kind, reg) [code] = #name,
        TN_DTYPE_MAP(NAME)
#undef NAME
    };
    return dtype < TN_DTYPE_END ? names[dtype] : "?";
}
