/* sum.c: reductions in the order that comm_plugin.h defines: a binary tree over
 * the ranks in which neighbours are added first. The shape of the tree depends
 * on the number of ranks alone, so the bits do not depend on the size of the
 * message, nor on how it is cut. */
#include "local.h"

#include <fenv.h>
#include <string.h>

enum { BLOCK = 1024 }; /* elements at a time: 4 KB of float32, which stay in the
                          L1 cache for all levels of the tree */
enum { LEVELS = 9 };   /* 2 to the power 8 is LOCAL_MAX_RANKS */

/* ---- half types ----------------------------------------------------------- */

static float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float from_bf16(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

static uint16_t to_bf16(float x)
{
    uint32_t bits = float_bits(x);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity and NaN */
        return bits_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x400)
        return bits_float(sign | ((magnitude << 13) + (112u << 23)));
    /* Subnormal: an integer times 2 to the power -24. */
    return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
}

static uint16_t to_f16(float x)
{
    uint32_t bits = float_bits(x);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits >= 0x38800000) /* normal: 2 to the power -14 and more */
        return (uint16_t)(sign |
                          ((bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >>
                           13));
    /* Adding 0.5 leaves an integer multiple of 2 to the power -24. */
    return (uint16_t)(sign | (float_bits(bits_float(bits) + 0.5f) - 0x3f000000));
}

/* ---- trees ---------------------------------------------------------------- */

/* Defines tree_NAME(reduce, source, n, r, width, at, count, level): the reduced
 * elements at .. at + count of sources r .. r + width, of which those from n on
 * do not exist. Returns where they are: in a source itself, or in level[0]. T is
 * the type of the arithmetic, LOAD(source, at, count, to) returns the elements
 * of one source in it. */
#define TREE(name, T, LOAD, SUM, PRODUCT)                                     \
    static const T *tree_##name(uint32_t reduce, const void *const *source,   \
                                int n, int r, int width, size_t at,           \
                                size_t count, T level[][BLOCK])               \
    {                                                                         \
        if (width == 1)                                                       \
            return LOAD(source[r], at, count, level[0]);                      \
        const T *a = tree_##name(reduce, source, n, r, width / 2, at, count,  \
                                 level);                                      \
        if (r + width / 2 >= n)                                               \
            return a;                                                         \
        const T *b = tree_##name(reduce, source, n, r + width / 2, width / 2, \
                                 at, count, level + 1);                       \
        T *out = level[0];                                                    \
        switch (reduce) {                                                     \
        case TN_COMM_SUM:                                                     \
            for (size_t i = 0; i < count; i++)                                \
                out[i] = (T)(SUM);                                            \
            break;                                                            \
        case TN_COMM_PRODUCT:                                                 \
            for (size_t i = 0; i < count; i++)                                \
                out[i] = (T)(PRODUCT);                                        \
            break;                                                            \
        case TN_COMM_MIN:                                                     \
            for (size_t i = 0; i < count; i++)                                \
                out[i] = a[i] < b[i] || a[i] != a[i] ? a[i] : b[i];           \
            break;                                                            \
        default:                                                              \
            for (size_t i = 0; i < count; i++)                                \
                out[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];           \
            break;                                                            \
        }                                                                     \
        return out;                                                           \
    }
#define LOAD_f32(s, at, count, to) ((const float *)(s) + (at))
#define LOAD_f64(s, at, count, to) ((const double *)(s) + (at))
#define LOAD_i64(s, at, count, to) ((const int64_t *)(s) + (at))
#define LOAD_i32(s, at, count, to) ((const int32_t *)(s) + (at))
#define LOAD_i16(s, at, count, to) ((const int16_t *)(s) + (at))
#define LOAD_i8(s, at, count, to) ((const int8_t *)(s) + (at))
#define LOAD_u8(s, at, count, to) ((const uint8_t *)(s) + (at))
/* Integers wrap around, as unsigned ones do. */
#define WRAP(op) (uint64_t)a[i] op (uint64_t)b[i]
TREE(f32, float, LOAD_f32, a[i] + b[i], a[i] * b[i])
TREE(f64, double, LOAD_f64, a[i] + b[i], a[i] * b[i])
TREE(i64, int64_t, LOAD_i64, WRAP(+), WRAP(*))
TREE(i32, int32_t, LOAD_i32, WRAP(+), WRAP(*))
TREE(i16, int16_t, LOAD_i16, WRAP(+), WRAP(*))
TREE(i8, int8_t, LOAD_i8, WRAP(+), WRAP(*))
TREE(u8, uint8_t, LOAD_u8, WRAP(+), WRAP(*))
TREE(bool, uint8_t, LOAD_u8, a[i] | b[i], a[i] & b[i])

static const float *load_f16(const void *source, size_t at, size_t count,
                             float *to)
{
    const uint16_t *from = (const uint16_t *)source + at;
    for (size_t i = 0; i < count; i++)
        to[i] = from_f16(from[i]);
    return to;
}

static const float *load_bf16(const void *source, size_t at, size_t count,
                              float *to)
{
    const uint16_t *from = (const uint16_t *)source + at;
    for (size_t i = 0; i < count; i++)
        to[i] = from_bf16(from[i]);
    return to;
}
TREE(f16, float, load_f16, a[i] + b[i], a[i] * b[i])
TREE(bf16, float, load_bf16, a[i] + b[i], a[i] * b[i])

static void store_f16(uint16_t *out, const float *x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = to_f16(x[i] * scale);
}

static void store_bf16(uint16_t *out, const float *x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = to_bf16(x[i] * scale);
}

bool local_reduces(uint32_t dtype)
{
    return dtype != TN_F8E4M3 && dtype != TN_F8E5M2 && dtype != TN_DTYPE_NONE &&
           dtype < TN_DTYPE_END;
}

static void reduce_block(uint32_t dtype, uint32_t op, double scale,
                         const void *const *source, int n, int width, void *out,
                         size_t at, size_t count)
{
    float f[LEVELS][BLOCK];
    const float s = (float)scale;
    switch (dtype) {
    case TN_F32: {
        const float *x = tree_f32(op, source, n, 0, width, at, count, f);
        float *to = (float *)out + at;
        for (size_t i = 0; i < count; i++)
            to[i] = x[i] * s;
        break;
    }
    case TN_F16:
        store_f16((uint16_t *)out + at,
                  tree_f16(op, source, n, 0, width, at, count, f), s, count);
        break;
    case TN_BF16:
        store_bf16((uint16_t *)out + at,
                   tree_bf16(op, source, n, 0, width, at, count, f), s, count);
        break;
    case TN_F64: {
        double d[LEVELS][BLOCK];
        const double *x = tree_f64(op, source, n, 0, width, at, count, d);
        double *to = (double *)out + at;
        for (size_t i = 0; i < count; i++)
            to[i] = x[i] * scale;
        break;
    }
#define WHOLE(DTYPE, name, T)                                                 \
    case DTYPE: {                                                             \
        T level[LEVELS][BLOCK];                                               \
        memmove((T *)out + at,                                                \
                tree_##name(op, source, n, 0, width, at, count, level),       \
                count * sizeof(T));                                           \
        break;                                                                \
    }
        WHOLE(TN_I64, i64, int64_t)
        WHOLE(TN_I32, i32, int32_t)
        WHOLE(TN_I16, i16, int16_t)
        WHOLE(TN_I8, i8, int8_t)
        WHOLE(TN_U8, u8, uint8_t)
        WHOLE(TN_BOOL, bool, uint8_t)
    default:
        break;
    }
}

void local_reduce(uint32_t dtype, uint32_t reduce, double scale,
                  const void *const *source, int n, void *out, size_t count)
{
    /* The caller's thread may flush subnormals to 0, or round otherwise. */
    fenv_t before;
    feholdexcept(&before);
    fesetenv(FE_DFL_ENV);
    int width = 1;
    while (width < n)
        width *= 2;
    for (size_t at = 0; at < count; at += BLOCK)
        reduce_block(dtype, reduce, scale, source, n, width, out, at,
                     count - at < BLOCK ? count - at : BLOCK);
    fesetenv(&before);
}
