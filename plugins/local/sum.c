/* sum.c: reductions in the order that comm_plugin.h defines: a binary tree over
 * the ranks in which neighbours are added first. The shape of the tree depends
 * on the number of ranks alone, so the bits do not depend on the size of the
 * message, nor on how it is cut. */
#include "sum.h"

#include <fenv.h>
#include <string.h>

enum { BLOCK = 1024 }; /* elements at a time: 4 KB of float32, which stay in the
                          L1 cache for all levels of the tree */
enum { LEVELS = 13 };  /* 2 to the power 12 is LOCAL_MOST_SOURCES */

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

/* ---- loops over vectors ---------------------------------------------------- */

/* 64 bytes at a time, in whatever registers the compiler has. Compilers leave
 * loops whose length they do not know as they are, unless they are told to
 * optimise for speed above all. */
#define VECTOR(T) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias))
typedef float vector_f32 VECTOR(float);
typedef double vector_f64 VECTOR(double);
typedef uint32_t vector_u32 VECTOR(uint32_t);
typedef uint16_t half_u16
    __attribute__((vector_size(32), aligned(2), may_alias));

#define VECTOR_LOOPS(name, T)                                                 \
    enum { LANES_##name = 64 / sizeof(T) };                                   \
    static void add_##name(T *out, const T *a, const T *b, size_t count)      \
    {                                                                         \
        size_t i = 0;                                                         \
        for (; i + LANES_##name <= count; i += LANES_##name)                  \
            *(vector_##name *)(out + i) = *(const vector_##name *)(a + i) +   \
                                          *(const vector_##name *)(b + i);    \
        for (; i < count; i++)                                                \
            out[i] = a[i] + b[i];                                             \
    }                                                                         \
    /* Four at once: more streams for the prefetcher. */                     \
    static bool add_four_##name(T *out, const void *const *source, size_t at, \
                                size_t count)                                 \
    {                                                                         \
        const T *a = (const T *)source[0] + at, *b = (const T *)source[1] + at; \
        const T *c = (const T *)source[2] + at, *d = (const T *)source[3] + at; \
        size_t i = 0;                                                         \
        for (; i + LANES_##name <= count; i += LANES_##name)                  \
            *(vector_##name *)(out + i) = (*(const vector_##name *)(a + i) +  \
                                           *(const vector_##name *)(b + i)) + \
                                          (*(const vector_##name *)(c + i) +  \
                                           *(const vector_##name *)(d + i));  \
        for (; i < count; i++)                                                \
            out[i] = (a[i] + b[i]) + (c[i] + d[i]);                           \
        return true;                                                          \
    }                                                                         \
    static void scale_##name(T *out, const T *x, T scale, size_t count)       \
    {                                                                         \
        size_t i = 0;                                                         \
        if (scale == 1) {                                                     \
            if (out != x)                                                     \
                memmove(out, x, count * sizeof(T));                           \
            return;                                                           \
        }                                                                     \
        for (; i + LANES_##name <= count; i += LANES_##name)                  \
            *(vector_##name *)(out + i) =                                     \
                *(const vector_##name *)(x + i) * scale;                      \
        for (; i < count; i++)                                                \
            out[i] = x[i] * scale;                                            \
    }
VECTOR_LOOPS(f32, float)
VECTOR_LOOPS(f64, double)

static void load_bf16s(const uint16_t *from, size_t count, float *to)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        *(vector_u32 *)(to + i) =
            __builtin_convertvector(*(const half_u16 *)(from + i), vector_u32)
            << 16;
    for (; i < count; i++)
        to[i] = from_bf16(from[i]);
}

static void store_bf16s(uint16_t *out, const float *x, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const vector_f32 v = *(const vector_f32 *)(x + i);
        const vector_u32 bits = (vector_u32)v, nan = (vector_u32)(v != v);
        const vector_u32 near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        *(half_u16 *)(out + i) = __builtin_convertvector(
            (nan & (bits >> 16 | 0x40)) | (~nan & near), half_u16);
    }
    for (; i < count; i++)
        out[i] = to_bf16(x[i]);
}

/* ---- trees ---------------------------------------------------------------- */

/* Defines tree_NAME(reduce, source, n, r, width, at, count, out, level): the
 * reduced elements at .. at + count of sources r .. r + width, of which those from
 * n on do not exist. Returns where they are: in a source itself, or in out, which
 * is written last and may be a source. level has room for the other nodes of the
 * tree. T is the type of the arithmetic, LOAD(source, at, count, to) returns the elements
 * of one source in it, FOUR adds four sources to out at once, or is false. */
#define TREE(name, T, LOAD, FOUR, ADD, PRODUCT)                               \
    static const T *tree_##name(uint32_t reduce, const void *const *source,   \
                                int n, int r, int width, size_t at,           \
                                size_t count, T *out, T level[][BLOCK])       \
    {                                                                         \
        if (width == 1)                                                       \
            return LOAD(source[r], at, count, out);                           \
        if (width == 4 && r + 4 <= n && reduce == TN_COMM_SUM && FOUR)        \
            return out;                                                       \
        const T *a = tree_##name(reduce, source, n, r, width / 2, at, count,  \
                                 level[0], level);                            \
        if (r + width / 2 >= n)                                               \
            return a;                                                         \
        const T *b = tree_##name(reduce, source, n, r + width / 2, width / 2, \
                                 at, count, level[1], level + 1);             \
        switch (reduce) {                                                     \
        case TN_COMM_SUM:                                                     \
            ADD;                                                              \
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
#define EACH(T, value)                                                        \
    for (size_t i = 0; i < count; i++)                                        \
    out[i] = (T)(value)
/* Integers wrap around, as unsigned ones do. */
#define WRAP(op) (uint64_t)a[i] op (uint64_t)b[i]
TREE(f32, float, LOAD_f32, add_four_f32(out, source + r, at, count),
     add_f32(out, a, b, count), a[i] * b[i])
TREE(f64, double, LOAD_f64, add_four_f64(out, source + r, at, count),
     add_f64(out, a, b, count), a[i] * b[i])
TREE(i64, int64_t, LOAD_i64, false, EACH(int64_t, WRAP(+)), WRAP(*))
TREE(i32, int32_t, LOAD_i32, false, EACH(int32_t, WRAP(+)), WRAP(*))
TREE(i16, int16_t, LOAD_i16, false, EACH(int16_t, WRAP(+)), WRAP(*))
TREE(i8, int8_t, LOAD_i8, false, EACH(int8_t, WRAP(+)), WRAP(*))
TREE(u8, uint8_t, LOAD_u8, false, EACH(uint8_t, WRAP(+)), WRAP(*))
TREE(bool, uint8_t, LOAD_u8, false, EACH(uint8_t, a[i] | b[i]), a[i] & b[i])

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
    load_bf16s((const uint16_t *)source + at, count, to);
    return to;
}
TREE(f16, float, load_f16, false, add_f32(out, a, b, count), a[i] * b[i])
TREE(bf16, float, load_bf16, false, add_f32(out, a, b, count), a[i] * b[i])

static void store_f16(uint16_t *out, const float *x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = to_f16(x[i] * scale);
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
        float *to = (float *)out + at;
        scale_f32(to, tree_f32(op, source, n, 0, width, at, count, to, f), s,
                  count);
        break;
    }
    case TN_F16:
        store_f16((uint16_t *)out + at,
                  tree_f16(op, source, n, 0, width, at, count, f[0], f), s,
                  count);
        break;
    case TN_BF16:
        scale_f32(f[0], tree_bf16(op, source, n, 0, width, at, count, f[0], f),
                  s, count);
        store_bf16s((uint16_t *)out + at, f[0], count);
        break;
    case TN_F64: {
        double d[LEVELS][BLOCK];
        double *to = (double *)out + at;
        scale_f64(to, tree_f64(op, source, n, 0, width, at, count, to, d), scale,
                  count);
        break;
    }
#define WHOLE(DTYPE, name, T)                                                 \
    case DTYPE: {                                                             \
        T level[LEVELS][BLOCK], *to = (T *)out + at;                          \
        const T *x =                                                          \
            tree_##name(op, source, n, 0, width, at, count, to, level);       \
        if (x != to)                                                          \
            memmove(to, x, count * sizeof(T));                                \
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
                  const void *const *source, int n, void *const *out, int outs,
                  size_t count)
{
    const size_t width_bytes = local_dtype_bytes(dtype);
    /* The caller's thread may flush subnormals to 0, or round otherwise. */
    fenv_t before;
    feholdexcept(&before);
    fesetenv(FE_DFL_ENV);
    int width = 1;
    while (width < n)
        width *= 2;
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t some = count - at < BLOCK ? count - at : BLOCK;
        reduce_block(dtype, reduce, scale, source, n, width, out[0], at, some);
        for (int i = 1; i < outs; i++) /* from the L1 cache */
            memcpy((unsigned char *)out[i] + at * width_bytes,
                   (const unsigned char *)out[0] + at * width_bytes,
                   some * width_bytes);
    }
    fesetenv(&before);
}
