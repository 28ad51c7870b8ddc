/* routines_arith.c: the arithmetic instructions of TN_KERNEL_MAP, with one loop
 * for each instruction and register type. Small functions define instructions
 * for single values. They select bits instead of branching, so that a compiler
 * can vectorise the loops. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "scalar.h"

/* ---- what an instruction means for one value ----------------------------- */

#define INTEGER_FUNCTIONS(suffix, T, U, width)                                \
    static inline T div_##suffix(T x, T y)                                    \
    {                                                                         \
        T negated = (T)(0 - (U)x), safe = y == 0 || y == -1 ? 1 : y;          \
        return y == 0 ? 0 : y == -1 ? negated : x / safe;                     \
    }                                                                         \
    static inline T rem_##suffix(T x, T y)                                    \
    {                                                                         \
        T safe = y == 0 || y == -1 ? 1 : y;                                   \
        return x % safe;                                                      \
    }                                                                         \
    static inline T shl_##suffix(T x, T y)                                    \
    {                                                                         \
        return (U)y < width ? (T)((U)x << ((U)y & (width - 1))) : 0;          \
    }                                                                         \
    static inline T shr_##suffix(T x, T y)                                    \
    {                                                                         \
        return x >> ((U)y < width ? y : width - 1);                           \
    }                                                                         \
    static inline T shrl_##suffix(T x, T y)                                   \
    {                                                                         \
        return (U)y < width ? (T)((U)x >> ((U)y & (width - 1))) : 0;          \
    }
INTEGER_FUNCTIONS(i32, int32_t, uint32_t, 32)
INTEGER_FUNCTIONS(i64, int64_t, uint64_t, 64)

/* ---- tables of loops ----------------------------------------------------- */

#define UNUSED_BC (void)pb, (void)pc, (void)scalar

#define UNARY(name, T, R, expression)                                         \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        R *o = out;                                                           \
        const T *a = pa;                                                      \
        UNUSED_BC;                                                            \
        EACH(i, n)                                                            \
        {                                                                     \
            T x = a[i];                                                       \
            o[i] = (R)(expression);                                           \
        }                                                                     \
    }

#define BINARY(name, T, R, expression)                                        \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        R *o = out;                                                           \
        const T *a = pa, *b = pb;                                             \
        (void)pc;                                                             \
        if (scalar == 1) {                                                    \
            T x = *a;                                                         \
            EACH(i, n)                                                        \
            {                                                                 \
                T y = b[i];                                                   \
                o[i] = (R)(expression);                                       \
            }                                                                 \
        } else if (scalar == 2) {                                             \
            T y = *b;                                                         \
            EACH(i, n)                                                        \
            {                                                                 \
                T x = a[i];                                                   \
                o[i] = (R)(expression);                                       \
            }                                                                 \
        } else {                                                              \
            EACH(i, n)                                                        \
            {                                                                 \
                T x = a[i], y = b[i];                                         \
                o[i] = (R)(expression);                                       \
            }                                                                 \
        }                                                                     \
    }

/* An instruction with three operands a, b and c. A is the type of a. b and c
 * may be one value each. */
#define TERNARY_LOOP(A, T, R, yi, zi, expression)                             \
    EACH(i, n)                                                                \
    {                                                                         \
        A x = a[i];                                                           \
        T y = yi, z = zi;                                                     \
        o[i] = (R)(expression);                                               \
    }
#define TERNARY(name, A, T, R, expression)                                    \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        R *o = out;                                                           \
        const A *a = pa;                                                      \
        const T *b = pb, *c = pc;                                             \
        if (scalar == 6) {                                                    \
            T y0 = *b, z0 = *c;                                               \
            TERNARY_LOOP(A, T, R, y0, z0, expression)                         \
        } else if (scalar == 4) {                                             \
            T z0 = *c;                                                        \
            TERNARY_LOOP(A, T, R, b[i], z0, expression)                       \
        } else if (scalar == 2) {                                             \
            T y0 = *b;                                                        \
            TERNARY_LOOP(A, T, R, y0, c[i], expression)                       \
        } else {                                                              \
            TERNARY_LOOP(A, T, R, b[i], c[i], expression)                     \
        }                                                                     \
    }

#define FLOATS(suffix, T, f)                                                  \
    BINARY(add_##suffix, T, T, x + y)                                         \
    BINARY(sub_##suffix, T, T, x - y)                                         \
    BINARY(mul_##suffix, T, T, x * y)                                         \
    BINARY(divide_##suffix, T, T, x / y)                                      \
    BINARY(rem_##suffix, T, T, fmod##f(x, y))                                 \
    BINARY(lesser_##suffix, T, T, min_##suffix(x, y))                         \
    BINARY(greater_##suffix, T, T, max_##suffix(x, y))                        \
    TERNARY(fma_##suffix, T, T, T, fma##f(x, y, z))                           \
    UNARY(neg_##suffix, T, T, -x)                                             \
    UNARY(abs_##suffix, T, T, fabs##f(x))                                     \
    UNARY(sqrt_##suffix, T, T, sqrt##f(x))                                    \
    UNARY(floor_##suffix, T, T, floor##f(x))                                  \
    UNARY(ceil_##suffix, T, T, ceil##f(x))                                    \
    UNARY(trunc_##suffix, T, T, trunc##f(x))                                  \
    UNARY(rint_##suffix, T, T, rint##f(x))
FLOATS(f32, float, f)
FLOATS(f64, double, )

/* Divides many x by one y with multiplications. r is 1 / y, rounded. If q is
 * one of the floats next to x / y, then q + (x - q y) r is x / y correctly
 * rounded (Markstein, doi:10.1147/rd.341.0111). q is the product of x and 1 / y
 * in two parts (r and rest). The sign is set separately, for zeros. If x and y
 * are within the bounds, all intermediate results are normal numbers.
 * multiply_...() returns false if a block has an x outside the bounds. Its
 * caller then divides. 16 floats take 5 cycles this way, and 10 cycles with the
 * divider (Golden Cove). */
#if defined __FMA__ || defined __aarch64__
#define QUOTIENT(suffix, T, U, f, of, SIGN, X_LOW, X_HIGH, Y_LOW, Y_HIGH)     \
    static bool multiply_##suffix(T *o, const T *a, T y, int64_t n)           \
    {                                                                         \
        U least = X_HIGH, most = 0, sign = bits_##suffix(y);                  \
        EACH(i, n)                                                            \
        {                                                                     \
            U u = bits_##suffix(a[i]) & ~SIGN, v = u - 1;                     \
            most = u > most ? u : most;                                       \
            least = v < least ? v : least; /* u == 0, so v is the maximum of x
                                            * and y */     \
        }                                                                     \
        if (least < X_LOW || most > X_HIGH)                                   \
            return false;                                                     \
        T r = 1 / y, rest = fma##f(-r, y, 1) * r;                             \
        EACH(i, n)                                                            \
        {                                                                     \
            T x = a[i], q = fma##f(x, r, x * rest);                           \
            q = fma##f(fma##f(-q, y, x), r, q);                               \
            o[i] = of(bits_##suffix(q) | ((bits_##suffix(x) ^ sign) & SIGN)); \
        }                                                                     \
        return true;                                                          \
    }                                                                         \
    static void div_##suffix(void *out, const void *pa, const void *pb,       \
                             const void *pc, int64_t n, unsigned scalar)      \
    {                                                                         \
        enum { BLOCK = 256, LEAST = 64 };                                     \
        const T *a = pa, y = *(const T *)pb;                                  \
        T *o = out;                                                           \
        U u = bits_##suffix(y) & ~SIGN;                                       \
        if (scalar != 2 || n < LEAST || u < Y_LOW || u > Y_HIGH) {            \
            divide_##suffix(out, pa, pb, pc, n, scalar);                      \
            return;                                                           \
        }                                                                     \
        for (int64_t i = 0, m; i < n; i += m) {                               \
            m = n - i < BLOCK ? n - i : BLOCK;                                \
            if (!multiply_##suffix(o + i, a + i, y, m))                       \
                divide_##suffix(o + i, a + i, &y, NULL, m, scalar);           \
        }                                                                     \
    }
#define POWER_OF_2(e, U, bias, bits) ((U)((e) + (bias)) << (bits))
#define F32_POWER(e) POWER_OF_2(e, uint32_t, 127, 23)
#define F64_POWER(e) POWER_OF_2(e, uint64_t, 1023, 52)
QUOTIENT(f32, float, uint32_t, f, float_of, 0x80000000u, F32_POWER(-76),
         F32_POWER(80), F32_POWER(-40), F32_POWER(40))
QUOTIENT(f64, double, uint64_t, , double_of, 0x8000000000000000u,
         F64_POWER(-500), F64_POWER(500), F64_POWER(-400), F64_POWER(400))
#else
#define div_f32 divide_f32
#define div_f64 divide_f64
#endif

#define INTEGERS(suffix, T, U, width)                                         \
    BINARY(add_##suffix, T, T, (U)x + (U)y)                                   \
    BINARY(sub_##suffix, T, T, (U)x - (U)y)                                   \
    BINARY(mul_##suffix, T, T, (U)x *(U)y)                                    \
    BINARY(quotient_##suffix, T, T, div_##suffix(x, y))                       \
    BINARY(remainder_##suffix, T, T, rem_##suffix(x, y))                      \
    BINARY(lesser_##suffix, T, T, min_##suffix(x, y))                         \
    BINARY(greater_##suffix, T, T, max_##suffix(x, y))                        \
    UNARY(neg_##suffix, T, T, 0 - (U)x)                                       \
    UNARY(abs_##suffix, T, T, x < 0 ? 0 - (U)x : (U)x)                        \
    BINARY(left_##suffix, T, T, shl_##suffix(x, y))                           \
    BINARY(right_##suffix, T, T, shr_##suffix(x, y))                          \
    BINARY(logical_##suffix, T, T, shrl_##suffix(x, y))                       \
    BITS(suffix, T)                                                           \
    UNARY(not_##suffix, T, T, ~x)
#define BITS(suffix, T)                                                       \
    BINARY(and_##suffix, T, T, x &y)                                          \
    BINARY(or_##suffix, T, T, x | y)                                          \
    BINARY(xor_##suffix, T, T, x ^ y)
INTEGERS(i32, int32_t, uint32_t, 32)
INTEGERS(i64, int64_t, uint64_t, 64)
BITS(bool, uint8_t)
UNARY(not_bool, uint8_t, uint8_t, x ^ 1)
BINARY(mulhi_i32, int32_t, int32_t,
       (uint32_t)((uint64_t)(uint32_t)x * (uint32_t)y >> 32))

#define COMPARES(suffix, T)                                                   \
    BINARY(eq_##suffix, T, uint8_t, x == y)                                   \
    BINARY(ne_##suffix, T, uint8_t, x != y)                                   \
    BINARY(lt_##suffix, T, uint8_t, x < y)                                    \
    BINARY(le_##suffix, T, uint8_t, x <= y)
COMPARES(f32, float)
COMPARES(f64, double)
COMPARES(i32, int32_t)
COMPARES(i64, int64_t)
COMPARES(bool, uint8_t)

/* SELECT moves bits, so floats use the loops of integers of their width. */
TERNARY(select_1, uint8_t, uint8_t, uint8_t, x ? y : z)
TERNARY(select_4, uint8_t, uint32_t, uint32_t, x ? y : z)
TERNARY(select_8, uint8_t, uint64_t, uint64_t, x ? y : z)

/* BITCAST of floats to integers. Every NaN becomes the positive quiet NaN,
 * because the bits of a NaN result depend on the processor. */
UNARY(bits_of_f32, uint32_t, uint32_t,
      (x & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : x)
UNARY(bits_of_f64, uint64_t, uint64_t,
      (x & 0x7fffffffffffffff) > 0x7ff0000000000000 ? 0x7ff8000000000000 : x)
UNARY(copy_4, uint32_t, uint32_t, x)
UNARY(copy_8, uint64_t, uint64_t, x)

#define FILL(name, T)                                                         \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        T *o = out;                                                           \
        T x = *(const T *)pa;                                                 \
        UNUSED_BC;                                                            \
        EACH(i, n) o[i] = x;                                                  \
    }
FILL(fill_1, uint8_t)
FILL(fill_4, uint32_t)
FILL(fill_8, uint64_t)

/* Each element is a sum, because AVX2 has no multiplication of 64 bits. */
static void ramp(int64_t *out, int64_t first, int64_t step, int64_t n)
{
    uint64_t x = (uint64_t)first;
    for (int64_t i = 0; i < n; i++, x += (uint64_t)step)
        out[i] = (int64_t)x;
}

void TN_CPU_NAME(tn__cpu_arith)(tn_cpu_routines *table)
{
#define SET(NAME, ...) FILL_ROW(tn_cpu_run, table->op[TN_K_##NAME], __VA_ARGS__)
#define WIDE(loop) (TN_CPU_IS_SPARE && !table->family->wide ? NULL : (loop))
    SET(ADD, WIDE(add_f32), WIDE(add_f64), add_i32, add_i64, or_bool)
    SET(SUB, WIDE(sub_f32), WIDE(sub_f64), RARE(sub_i32), sub_i64)
    SET(MUL, WIDE(mul_f32), WIDE(mul_f64), RARE(mul_i32), mul_i64, and_bool)
    SET(DIV, div_f32, div_f64, RARE(quotient_i32), RARE(quotient_i64))
    SET(REM, RARE(rem_f32), RARE(rem_f64), RARE(remainder_i32),
             RARE(remainder_i64))
    SET(FMA, RARE(fma_f32), RARE(fma_f64))
    SET(NEG, neg_f32, neg_f64, RARE(neg_i32), RARE(neg_i64))
    SET(ABS, abs_f32, abs_f64, RARE(abs_i32), RARE(abs_i64))
    SET(MIN, lesser_f32, RARE(lesser_f64), RARE(lesser_i32), lesser_i64,
             and_bool)
    SET(MAX, greater_f32, RARE(greater_f64), RARE(greater_i32), greater_i64,
             or_bool)
    SET(SQRT, sqrt_f32, sqrt_f64)
    SET(FLOOR, floor_f32, floor_f64)
    SET(CEIL, ceil_f32, RARE(ceil_f64))
    SET(TRUNC, trunc_f32, RARE(trunc_f64))
    SET(RINT, rint_f32, RARE(rint_f64))
    SET(EQ, eq_f32, RARE(eq_f64), RARE(eq_i32), eq_i64, RARE(eq_bool))
    SET(NE, ne_f32, RARE(ne_f64), RARE(ne_i32), ne_i64, RARE(ne_bool))
    SET(LT, lt_f32, RARE(lt_f64), RARE(lt_i32), lt_i64, RARE(lt_bool))
    SET(LE, le_f32, RARE(le_f64), RARE(le_i32), RARE(le_i64), RARE(le_bool))
    SET(AND, NULL, NULL, RARE(and_i32), RARE(and_i64), and_bool)
    SET(OR, NULL, NULL, RARE(or_i32), RARE(or_i64), or_bool)
    SET(XOR, NULL, NULL, RARE(xor_i32), RARE(xor_i64), RARE(xor_bool))
    SET(NOT, NULL, NULL, RARE(not_i32), RARE(not_i64), not_bool)
    SET(SHL, NULL, NULL, RARE(left_i32), RARE(left_i64))
    SET(SHR, NULL, NULL, RARE(right_i32), right_i64)
    SET(SHRL, NULL, NULL, RARE(logical_i32), RARE(logical_i64))
    SET(MULHI, NULL, NULL, RARE(mulhi_i32))
    SET(SELECT, select_4, select_8, select_4, select_8, RARE(select_1))
    SET(BITCAST, RARE(bits_of_f32), RARE(bits_of_f64), RARE(copy_4),
                 RARE(copy_8))
#undef WIDE
#undef SET
    tn_cpu_run *const fill[] = {fill_4, fill_8, fill_4, fill_8, fill_1};
    memcpy(table->fill, fill, sizeof fill);
    table->ramp = ramp;
}
