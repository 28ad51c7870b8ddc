/* Tests the result of every instruction, as plugin.h defines it, with its
 * corner cases. */
#include "../tap.h"
#include "kernel/narrow_float.h"
#include "kernel/kernel.h"
#include "kernel/philox.h"

/* ---- one instruction --------------------------------------------------- */

static bool same_float(double x, double y)
{
    return isnan(x) || isnan(y) ? isnan(x) && isnan(y)
                                : x == y && !signbit(x) == !signbit(y);
}

static const char *op_name(unsigned op)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    return names[op];
}

static tn_number eval(unsigned op, tn_dtype type, tn_dtype a_type, tn_number a,
                      tn_number b, tn_number c)
{
    tn_kernel_ins ins = {.op = (uint8_t)op, .dtype = (uint8_t)type};
    return tn__kernel_eval(&ins, a, b, c, a_type);
}

static void test_floats(void)
{
    static const double big = 0x1.fffffep127, tiny = 0x1p-149;
    static const struct {
        unsigned op;
        double x, y, z, want;
    } facts[] = {
        {TN_K_ADD, 1, 2, 0, 3},
        {TN_K_ADD, -0.0, -0.0, 0, -0.0},
        {TN_K_ADD, INFINITY, -INFINITY, 0, NAN},
        {TN_K_SUB, 1, 1, 0, 0.0},
        {TN_K_SUB, INFINITY, INFINITY, 0, NAN},
        {TN_K_MUL, 0, INFINITY, 0, NAN},
        {TN_K_MUL, -0.0, 3, 0, -0.0},
        {TN_K_DIV, 1, 0, 0, INFINITY},
        {TN_K_DIV, 1, -0.0, 0, -INFINITY},
        {TN_K_DIV, 0, 0, 0, NAN},
        {TN_K_DIV, 1, INFINITY, 0, 0.0},
        {TN_K_REM, 5.5, 2, 0, 1.5},
        {TN_K_REM, -5.5, 2, 0, -1.5},
        {TN_K_REM, 5.5, -2, 0, 1.5},
        {TN_K_REM, -4, 2, 0, -0.0},
        {TN_K_REM, 1, 0, 0, NAN},
        {TN_K_REM, INFINITY, 2, 0, NAN},
        {TN_K_REM, 3, INFINITY, 0, 3},
        {TN_K_REM, 0x1p100, 3, 0, 1},
        {TN_K_FMA, 2, 3, 4, 10},
        {TN_K_FMA, 0, INFINITY, 1, NAN},
        {TN_K_FMA, 1, -0.0, -0.0, -0.0},
        {TN_K_NEG, 0.0, 0, 0, -0.0},
        {TN_K_NEG, NAN, 0, 0, NAN},
        {TN_K_ABS, -0.0, 0, 0, 0.0},
        {TN_K_ABS, -INFINITY, 0, 0, INFINITY},
        {TN_K_MIN, 0.0, -0.0, 0, -0.0},
        {TN_K_MIN, -0.0, 0.0, 0, -0.0},
        {TN_K_MIN, NAN, 1, 0, NAN},
        {TN_K_MIN, 1, NAN, 0, NAN},
        {TN_K_MIN, -INFINITY, 1, 0, -INFINITY},
        {TN_K_MAX, 0.0, -0.0, 0, 0.0},
        {TN_K_MAX, -0.0, 0.0, 0, 0.0},
        {TN_K_MAX, NAN, 1, 0, NAN},
        {TN_K_MAX, 1, NAN, 0, NAN},
        {TN_K_MAX, -1, -2, 0, -1},
        {TN_K_SQRT, 4, 0, 0, 2},
        {TN_K_SQRT, -1, 0, 0, NAN},
        {TN_K_SQRT, -0.0, 0, 0, -0.0},
        {TN_K_SQRT, -tiny, 0, 0, NAN},
        {TN_K_FLOOR, -0.5, 0, 0, -1},
        {TN_K_FLOOR, -0.0, 0, 0, -0.0},
        {TN_K_FLOOR, 2.5, 0, 0, 2},
        {TN_K_CEIL, -0.5, 0, 0, -0.0},
        {TN_K_CEIL, 2.5, 0, 0, 3},
        {TN_K_TRUNC, -2.5, 0, 0, -2},
        {TN_K_TRUNC, -0.5, 0, 0, -0.0},
        {TN_K_RINT, 2.5, 0, 0, 2},
        {TN_K_RINT, 3.5, 0, 0, 4},
        {TN_K_RINT, -0.5, 0, 0, -0.0},
        {TN_K_RINT, INFINITY, 0, 0, INFINITY},
        {TN_K_RINT, big, 0, 0, big},
        {TN_K_TRUNC, NAN, 0, 0, NAN},
    };
    static const tn_dtype types[] = {TN_F32, TN_F64};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        for (int t = 0; t < 2; t++) {
            double got =
                eval(facts[i].op, types[t], types[t],
                     (tn_number){.f = facts[i].x}, (tn_number){.f = facts[i].y},
                     (tn_number){.f = facts[i].z})
                    .f;
            ok(same_float(got, facts[i].want), "%s %s(%g, %g, %g) is %g",
               t ? "f64" : "f32", op_name(facts[i].op), facts[i].x, facts[i].y,
               facts[i].z, facts[i].want);
        }
}

static double f32_of(unsigned op, double x, double y, double z)
{
    return eval(op, TN_F32, TN_F32, (tn_number){.f = x}, (tn_number){.f = y},
                (tn_number){.f = z})
        .f;
}

static void test_rounding(void)
{
    ok(f32_of(TN_K_ADD, 0x1p24, 1, 0) == 0x1p24, "f32 ADD rounds to f32");
    ok(f32_of(TN_K_ADD, 0x1p24, 3, 0) == 0x1p24 + 4, "ties go to even");
    ok(f32_of(TN_K_MUL, 0x1.fffffep127, 2, 0) == INFINITY,
       "f32 MUL overflows to infinity");
    ok(f32_of(TN_K_MUL, 0x1p-149, 0.5, 0) == 0, "half of the least is 0");
    ok(f32_of(TN_K_MUL, 0x1p-126, 0.5, 0) == 0x1p-127, "subnormals are kept");
    ok(f32_of(TN_K_ADD, 0x1p-149, 0x1p-149, 0) == 0x1p-148,
       "subnormals add up");
    ok(f32_of(TN_K_DIV, 1, 3, 0) == (double)(1.0f / 3), "f32 DIV rounds once");
    ok(f32_of(TN_K_SQRT, 2, 0, 0) == (double)0x1.6a09e6p0f, "sqrt(2) in f32");
    /* x * y = 1 + 2^-11 + 2^-24 is a tie, which z breaks. */
    double x = 1 + 0x1p-12, tie = 1 + 0x1p-11;
    ok(f32_of(TN_K_MUL, x, x, 0) == tie, "1 + 2^-12 squared is a tie");
    ok(f32_of(TN_K_FMA, x, x, 0x1p-100) == tie + 0x1p-23,
       "FMA rounds once, where the product in double would lose z");
    ok(f32_of(TN_K_FMA, x, x, -tie) == 0x1p-24, "FMA keeps the whole product");
    double e = 0x1p-30, d = 1 + e;
    ok(eval(TN_K_FMA, TN_F64, TN_F64, (tn_number){.f = d}, (tn_number){.f = d},
            (tn_number){.f = -(1 + 2 * e)})
               .f == e * e,
       "f64 FMA keeps the whole product");
    tn_kernel_ins constant = {.op = TN_K_CONST, .dtype = TN_F32};
    constant.imm.f = 0.1;
    tn_number none = {.i = 0};
    ok(tn__kernel_eval(&constant, none, none, none, 0).f == (double)0.1f,
       "an f32 CONST is rounded to f32");
}

static int64_t int_of(unsigned op, tn_dtype type, int64_t x, int64_t y)
{
    return eval(op, type, type, (tn_number){.i = x}, (tn_number){.i = y},
                (tn_number){.i = 0})
        .i;
}

static void test_ints(void)
{
    for (int t = 0; t < 2; t++) {
        tn_dtype type = t ? TN_I64 : TN_I32;
        const char *n = t ? "i64" : "i32";
        int64_t min = t ? INT64_MIN : INT32_MIN,
                max = t ? INT64_MAX : INT32_MAX;
        int width = t ? 64 : 32;
        is_int(int_of(TN_K_ADD, type, max, 1), min, "%s MAX + 1 wraps", n);
        is_int(int_of(TN_K_SUB, type, min, 1), max, "%s MIN - 1 wraps", n);
        is_int(int_of(TN_K_MUL, type, max, 2), -2, "%s MAX * 2 wraps", n);
        is_int(int_of(TN_K_MUL, type, min, -1), min, "%s MIN * -1 wraps", n);
        is_int(int_of(TN_K_DIV, type, 7, -2), -3, "%s 7 / -2 truncates", n);
        is_int(int_of(TN_K_DIV, type, -7, 2), -3, "%s -7 / 2 truncates", n);
        is_int(int_of(TN_K_DIV, type, 5, 0), 0, "%s 5 / 0 is 0", n);
        is_int(int_of(TN_K_DIV, type, min, -1), min, "%s MIN / -1 is MIN", n);
        is_int(int_of(TN_K_REM, type, -7, 2), -1, "%s -7 %% 2 is -1", n);
        is_int(int_of(TN_K_REM, type, 7, -2), 1, "%s 7 %% -2 is 1", n);
        is_int(int_of(TN_K_REM, type, 5, 0), 0, "%s 5 %% 0 is 0", n);
        is_int(int_of(TN_K_REM, type, min, -1), 0, "%s MIN %% -1 is 0", n);
        is_int(int_of(TN_K_NEG, type, min, 0), min, "%s -MIN is MIN", n);
        is_int(int_of(TN_K_ABS, type, min, 0), min, "%s |MIN| is MIN", n);
        is_int(int_of(TN_K_ABS, type, -5, 0), 5, "%s |-5| is 5", n);
        is_int(int_of(TN_K_MIN, type, min, max), min, "%s MIN is signed", n);
        is_int(int_of(TN_K_MAX, type, -1, 0), 0, "%s MAX is signed", n);
        is_int(int_of(TN_K_AND, type, 12, 10), 8, "%s 12 & 10", n);
        is_int(int_of(TN_K_OR, type, 12, 10), 14, "%s 12 | 10", n);
        is_int(int_of(TN_K_XOR, type, 12, -1), -13, "%s 12 ^ -1", n);
        is_int(int_of(TN_K_NOT, type, 0, 0), -1, "%s ~0", n);
        is_int(int_of(TN_K_SHL, type, 1, width - 1), min, "%s 1 << top", n);
        is_int(int_of(TN_K_SHL, type, 1, width), 0, "%s 1 << width is 0", n);
        is_int(int_of(TN_K_SHL, type, 1, -1), 0, "%s 1 << -1 is 0", n);
        is_int(int_of(TN_K_SHR, type, min, width - 1), -1, "%s MIN >> top", n);
        is_int(int_of(TN_K_SHR, type, -5, 1), -3, "%s -5 >> 1 is -3", n);
        is_int(int_of(TN_K_SHR, type, -5, width), -1, "%s -5 >> width", n);
        is_int(int_of(TN_K_SHR, type, 5, width), 0, "%s 5 >> width is 0", n);
        is_int(int_of(TN_K_SHR, type, -5, -1), -1, "%s -5 >> -1 is -1", n);
        is_int(int_of(TN_K_SHRL, type, -1, width - 1), 1, "%s -1 >>> top", n);
        is_int(int_of(TN_K_SHRL, type, -1, 0), -1, "%s -1 >>> 0 is -1", n);
        is_int(int_of(TN_K_SHRL, type, -1, width), 0, "%s -1 >>> width", n);
        is_int(int_of(TN_K_SHRL, type, -1, -1), 0, "%s -1 >>> -1 is 0", n);
    }
    is_int(int_of(TN_K_MULHI, TN_I32, -1, -1), -2,
           "MULHI of 0xffffffff twice is 0xfffffffe");
    is_int(int_of(TN_K_MULHI, TN_I32, INT32_MIN, 2), 1,
           "MULHI of 2^31 is that of MIN");
    is_int(int_of(TN_K_SHRL, TN_I32, INT32_MIN, 31), 1,
           "an i32 is shifted as 32 bits");
}

static void test_bools(void)
{
    static const struct {
        unsigned op;
        int want[4]; /* results for (0,0) (0,1) (1,0) (1,1) */
    } facts[] = {
        {TN_K_ADD, {0, 1, 1, 1}}, {TN_K_MUL, {0, 0, 0, 1}},
        {TN_K_MIN, {0, 0, 0, 1}}, {TN_K_MAX, {0, 1, 1, 1}},
        {TN_K_AND, {0, 0, 0, 1}}, {TN_K_OR, {0, 1, 1, 1}},
        {TN_K_XOR, {0, 1, 1, 0}}, {TN_K_NOT, {1, 1, 0, 0}},
        {TN_K_EQ, {1, 0, 0, 1}},  {TN_K_LT, {0, 1, 0, 0}},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        for (int j = 0; j < 4; j++)
            is_int(int_of(facts[i].op, TN_BOOL, j >> 1, j & 1),
                   facts[i].want[j], "bool %s(%d, %d)", op_name(facts[i].op),
                   j >> 1, j & 1);
}

static void test_comparisons(void)
{
    static const unsigned ops[] = {TN_K_EQ, TN_K_NE, TN_K_LT, TN_K_LE};
    static const struct {
        double x, y;
        int want[4]; /* results of EQ NE LT LE */
    } facts[] = {
        {1, 2, {0, 1, 1, 1}},      {2, 2, {1, 0, 0, 1}},
        {NAN, NAN, {0, 1, 0, 0}},  {NAN, 1, {0, 1, 0, 0}},
        {-0.0, 0.0, {1, 0, 0, 1}}, {-INFINITY, 0, {0, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        for (int j = 0; j < 4; j++)
            is_int(eval(ops[j], TN_BOOL, TN_F32, (tn_number){.f = facts[i].x},
                        (tn_number){.f = facts[i].y}, (tn_number){.i = 0})
                       .i,
                   facts[i].want[j], "%s(%g, %g)", op_name(ops[j]), facts[i].x,
                   facts[i].y);
    is_int(eval(TN_K_LT, TN_BOOL, TN_I64, (tn_number){.i = INT64_MIN},
                (tn_number){.i = INT64_MAX}, (tn_number){.i = 0})
               .i,
           1, "integers compare signed");
    is_int(eval(TN_K_LT, TN_BOOL, TN_I64, (tn_number){.i = 9007199254740992},
                (tn_number){.i = 9007199254740993}, (tn_number){.i = 0})
               .i,
           1, "integers do not compare as doubles");
}

/* ---- conversions ------------------------------------------------------- */

static tn_number cast_f(tn_dtype to, tn_dtype from, double x)
{
    tn_number none = {.i = 0};
    return eval(TN_K_CAST, to, from, (tn_number){.f = x}, none, none);
}

static tn_number cast_i(tn_dtype to, tn_dtype from, int64_t x)
{
    tn_number none = {.i = 0};
    return eval(TN_K_CAST, to, from, (tn_number){.i = x}, none, none);
}

static void test_casts(void)
{
    is_int(cast_f(TN_I32, TN_F32, 2.9).i, 2, "2.9 to i32 truncates");
    is_int(cast_f(TN_I32, TN_F32, -2.9).i, -2, "-2.9 to i32 truncates");
    is_int(cast_f(TN_I32, TN_F32, NAN).i, 0, "NaN to i32 is 0");
    is_int(cast_f(TN_I32, TN_F32, 0x1p31).i, INT32_MAX, "2^31 saturates");
    is_int(cast_f(TN_I32, TN_F64, 2147483647.5).i, INT32_MAX,
           "2^31 - 0.5 is 2^31 - 1");
    is_int(cast_f(TN_I32, TN_F64, -2147483648.5).i, INT32_MIN,
           "-2^31 - 0.5 is -2^31");
    is_int(cast_f(TN_I32, TN_F32, -INFINITY).i, INT32_MIN, "-inf to i32");
    is_int(cast_f(TN_I64, TN_F64, 0x1p63).i, INT64_MAX, "2^63 saturates");
    is_int(cast_f(TN_I64, TN_F64, -0x1p63).i, INT64_MIN, "-2^63 fits");
    is_int(cast_f(TN_I64, TN_F64, -INFINITY).i, INT64_MIN, "-inf to i64");
    is_int(cast_f(TN_I64, TN_F64, NAN).i, 0, "NaN to i64 is 0");
    is_int(cast_f(TN_I64, TN_F32, 0x1p40).i, 1099511627776, "2^40 fits i64");
    is_int(cast_f(TN_BOOL, TN_F32, NAN).i, 1, "NaN to bool is true");
    is_int(cast_f(TN_BOOL, TN_F32, -0.0).i, 0, "-0 to bool is false");
    is_int(cast_f(TN_BOOL, TN_F32, 0x1p-149).i, 1, "a subnormal is true");
    is_int(cast_i(TN_BOOL, TN_I64, 0x100000000).i, 1, "2^32 is true");
    is_int(cast_i(TN_I32, TN_I64, 0x180000000).i, INT32_MIN,
           "i64 to i32 wraps");
    is_int(cast_i(TN_I64, TN_I32, -1).i, -1, "i32 to i64 keeps the sign");
    is_int(cast_i(TN_I64, TN_BOOL, 1).i, 1, "true to i64 is 1");
    ok(cast_i(TN_F32, TN_BOOL, 1).f == 1, "true to f32 is 1");
    ok(cast_i(TN_F32, TN_I32, 16777217).f == 16777216, "2^24 + 1 to f32");
    /* 2^60 + 2^36 + 1 rounded to float64 first would be halfway between two
     * float32 numbers; rounded to float32 directly it goes up. */
    ok(cast_i(TN_F32, TN_I64, (1LL << 60) + (1LL << 36) + 1).f ==
           0x1p60 + 0x1p37,
       "i64 to f32 rounds once");
    ok(cast_i(TN_F64, TN_I64, 9007199254740993).f == 9007199254740992,
       "2^53 + 1 to f64 rounds to even");
    ok(cast_f(TN_F32, TN_F64, 1 + 0x1p-24).f == 1, "a tie to f32 is even");
    ok(cast_f(TN_F32, TN_F64, 1e300).f == INFINITY, "1e300 to f32 is inf");
    ok(cast_f(TN_F32, TN_F64, 0x1p-150).f == 0, "2^-150 to f32 is 0");
    ok(cast_f(TN_F32, TN_F64, 0x1.8p-149).f == 0x1p-148,
       "f64 to f32 rounds subnormals to even");

    tn_number none = {.i = 0};
    is_int(
        eval(TN_K_BITCAST, TN_I32, TN_F32, (tn_number){.f = -0.0}, none, none)
            .i,
        INT32_MIN, "the bits of -0 are the sign");
    is_int(
        eval(TN_K_BITCAST, TN_I32, TN_F32, (tn_number){.f = -NAN}, none, none)
            .i,
        0x7fc00000, "the bits of any f32 NaN are 0x7fc00000");
    is_int(
        eval(TN_K_BITCAST, TN_I64, TN_F64, (tn_number){.f = -NAN}, none, none)
            .i,
        0x7ff8000000000000, "those of any f64 NaN 0x7ff8000000000000");
    is_int(
        eval(TN_K_BITCAST, TN_I64, TN_F64, (tn_number){.f = 1}, none, none).i,
        0x3ff0000000000000, "the bits of 1 in f64");
    ok(eval(TN_K_BITCAST, TN_F32, TN_I32, (tn_number){.i = 1}, none, none).f ==
           0x1p-149,
       "the bits 1 are the least subnormal");
    ok(eval(TN_K_SELECT, TN_F32, TN_BOOL, (tn_number){.i = 1},
            (tn_number){.f = 2}, (tn_number){.f = 3})
               .f == 2,
       "SELECT returns b if a is true");
    ok(eval(TN_K_SELECT, TN_F32, TN_BOOL, (tn_number){.i = 0},
            (tn_number){.f = 2}, (tn_number){.f = 3})
               .f == 3,
       "SELECT returns c if a is false");
}

static double narrow_f(tn_dtype to, double x)
{
    tn_kernel_ins ins = {.op = TN_K_NARROW, .dtype = TN_F32};
    ins.sub = (uint8_t)to;
    tn_number none = {.i = 0};
    return tn__kernel_eval(&ins, (tn_number){.f = x}, none, none, TN_F32).f;
}

static int64_t narrow_i(tn_dtype to, int64_t x)
{
    tn_kernel_ins ins = {.op = TN_K_NARROW, .dtype = TN_I32};
    ins.sub = (uint8_t)to;
    tn_number none = {.i = 0};
    return tn__kernel_eval(&ins, (tn_number){.i = x}, none, none, TN_I32).i;
}

static void test_narrow(void)
{
    ok(narrow_f(TN_F16, 65519) == 65504, "65519 in f16 is 65504");
    ok(narrow_f(TN_F16, 65520) == INFINITY, "65520 in f16 is inf");
    ok(narrow_f(TN_F16, 0x1p-25) == 0, "2^-25 in f16 ties to 0");
    ok(narrow_f(TN_F16, 0x1.8p-24) == 0x1p-23, "1.5 * 2^-24 ties to 2^-23");
    ok(same_float(narrow_f(TN_F16, -0x1p-149), -0.0), "-0 stays negative");
    ok(narrow_f(TN_BF16, 0x1.fffffep127) == INFINITY, "bf16 overflows to inf");
    ok(narrow_f(TN_BF16, 1 + 0x1p-8) == 1, "bf16 ties to even");
    ok(narrow_f(TN_BF16, 0x1p-133) == 0x1p-133, "bf16 keeps subnormals");
    ok(narrow_f(TN_F8E4M3, 500) == 448, "f8e4m3 saturates at 448");
    ok(narrow_f(TN_F8E4M3, -INFINITY) == -448, "f8e4m3 has no infinity");
    ok(narrow_f(TN_F8E4M3, 464) == 448, "half way beyond 448 is 448");
    ok(isnan(narrow_f(TN_F8E4M3, NAN)), "f8e4m3 keeps NaN");
    ok(narrow_f(TN_F8E4M3, 0x1p-10) == 0, "2^-10 in f8e4m3 ties to 0");
    ok(narrow_f(TN_F8E5M2, 1e9) == 57344, "f8e5m2 saturates at 57344");
    ok(narrow_f(TN_F8E5M2, INFINITY) == INFINITY, "f8e5m2 keeps infinities");
    ok(isnan(narrow_f(TN_F8E5M2, NAN)), "f8e5m2 keeps NaN");
    is_int(narrow_i(TN_I8, 128), -128, "128 in i8 wraps");
    is_int(narrow_i(TN_I16, -32769), 32767, "-32769 in i16 wraps");
    is_int(narrow_i(TN_U8, -1), 255, "-1 in u8 wraps");

    static const struct {
        tn_dtype dtype;
        uint32_t finite; /* code of the largest finite number */
        const char *name;
    } types[] = {{TN_F16, 0x7bff, "f16"},
                 {TN_BF16, 0x7f7f, "bf16"},
                 {TN_F8E4M3, 0x7e, "f8e4m3"},
                 {TN_F8E5M2, 0x7b, "f8e5m2"}};
    for (int t = 0; t < 4; t++) {
        tn_dtype dtype = types[t].dtype;
        uint32_t wrong = 0;
        for (uint32_t code = 0; code < types[t].finite; code++) {
            float x = tn__narrow_decode(dtype, code);
            float y = tn__narrow_decode(dtype, code + 1);
            float half = x / 2 + y / 2; /* exact: the sum needs one more bit,
                                         * which float32 has */
            wrong += tn__narrow_encode(dtype, x) != code || !(x < y) ||
                     tn__narrow_encode(dtype, half) != code + (code & 1) ||
                     tn__narrow_encode(dtype, nextafterf(half, x)) != code ||
                     tn__narrow_encode(dtype, nextafterf(half, y)) != code + 1;
        }
        is_int(wrong, 0,
               "%s: all finite codes rise, come back, and round to "
               "nearest even",
               types[t].name);
    }
}

static void test_philox(void)
{
    /* Test vectors of Random123 (kat_vectors), philox4x32 with 10 rounds. */
    static const uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8};
    static const uint32_t ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                    0x6d5451fd};
    static const uint32_t pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                  0x24126ea1};
    for (unsigned word = 0; word < 4; word++) {
        tn_number none = {.i = 0};
        is_int((uint32_t)eval(TN_K_PHILOX, TN_I32, TN_I64,
                              (tn_number){.i = word}, none, none)
                   .i,
               zeros[word], "PHILOX of zeros, word %u", word);
        is_int(tn__philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, word), ones[word],
               "Philox of ones, word %u", word);
        is_int(tn__philox(0x85a308d3243f6a88, 0x0370734413198a2e,
                          0x299f31d0a4093822, word),
               pi[word], "Philox of the digits of pi, word %u", word);
        is_int((uint32_t)eval(TN_K_PHILOX, TN_I32, TN_I64,
                              (tn_number){.i = -4 + (int64_t)word},
                              (tn_number){.i = 5}, (tn_number){.i = 6})
                   .i,
               tn__philox(UINT64_MAX >> 2, 6, 5, word),
               "PHILOX uses a >> 2 as unsigned, word %u", word);
    }
}

int main(void)
{
    plan_later();
    test_floats();
    test_rounding();
    test_ints();
    test_bools();
    test_comparisons();
    test_casts();
    test_narrow();
    test_philox();
    return done_testing();
}
