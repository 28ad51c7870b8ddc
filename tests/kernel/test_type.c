/* Tests the dtypes of the kernel language: promotion, where integers wrap and
 * where floats round. */
#include <tenon/base.h>

#include "../tap.h"
#include "base/memory.h"
#include "run.h"

static const tn__kernel *kernel_of(const char *text, tn_dtype x, tn_dtype y)
{
    const tn_dtype dtypes[] = {x, y, x, y};
    tn__def *def = tn__def_parse(text, "t");
    return def ? tn__def_kernel(def, dtypes) : NULL;
}

/* ---- errors ------------------------------------------------------------ */

static const struct {
    const char *text, *message;
} bad[] = {
    {"f(x) = ~x", "t:1:8: '~' takes integers or bool, not float32"},
    {"f(x) = x & 1", "t:1:10: '&' takes integers or bool, not float32"},
    {"f(x) = x << 1", "t:1:10: '<<' takes integers, not float32"},
    {"f(x) = -(x > 1)", "t:1:8: '-' is not defined for bool"},
    {"f(x) = x[x]", "t:1:10: an index is an integer, not float32"},
    {"f(x) = loop(i < x; c = 1) (c)",
     "t:1:17: a loop's bound is an integer, not float32"},
    {"f(x) = loop(i < i64(x); c = 1) (c)",
     "t:1:17: a loop's bound is the same for all elements: use only "
     "numbers, parameters and rlen()"},
    {"f(x) = loop(i < 4; c = 1) (c + rsum(x))",
     "t:1:32: rsum cannot be used inside a loop"},
    {"f(x) = mulhi(i64(x), 1)",
     "t:1:8: mulhi takes integers of at most 32 bits, not int64"},
    {"f(x) = bits(1)", "t:1:8: bits takes a float, not a whole number"},
    {"f(x) = random(x, 1, 2)", "t:1:8: random takes integers, not float32"},
    {"f(x) = from_bits(x)",
     "t:1:8: from_bits takes int32 or int64, not float32"},
    {"f(x) = loop(i < 2; a = 1) (loop(j < i; b = a) (b + 1))",
     "t:1:37: a loop's bound is the same for all elements: use only "
     "numbers, parameters and rlen()"},
    {"f(x) = div(x > 1, x > 2)", "t:1:8: div is not defined for bool"},
};

static void test_messages(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tn__kernel *k = kernel_of(bad[i].text, TN_F32, TN_F32);
        is_str(k ? "accepted" : tn_error(), bad[i].message, "'%s'",
               bad[i].text);
        is_int(tn_error_code(), k ? TN_OK : TN_ERR_DTYPE,
               "its code is TN_ERR_DTYPE");
        tn_error_clear();
    }
    static const struct {
        const char *text, *place;
    } mixed[] = {
        {"f(x, y) = x + y", "1:13"},
        {"f(x, y) = 1 + where(x == x, x, 2 * y)", "1:15"},
        {"f(x, y) = max(y, x)", "1:11"},
        {"f(x, y) = atan2(x, y)", "1:11"},
        {"f(x, y) = loop(i < 3; c = x) (c * 1) + y", "1:38"},
        {"f(x, y) = loop(i < 3; c = x) (y)", "1:23"},
    };
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        char want[200];
        bool turned = strstr(mixed[i].text, "max");
        snprintf(want, sizeof want,
                 "t:%s: %s and %s have no common dtype: convert one, as by "
                 "f32()",
                 mixed[i].place, tn_dtype_name(turned ? TN_F32 : TN_F8E4M3),
                 tn_dtype_name(turned ? TN_F8E4M3 : TN_F32));
        ok(!kernel_of(mixed[i].text, TN_F8E4M3, TN_F32),
           "a float8 meets no other dtype: '%s'", mixed[i].text);
        is_str(tn_error(), want, "and that is reported");
        tn_error_clear();
    }
    ok(kernel_of("f(x, y) = f32(x) + y", TN_F8E4M3, TN_F32) &&
           kernel_of("f(x, y) = 2 * x + y", TN_F8E5M2, TN_F8E5M2),
       "it promotes with numbers, with itself, and with the types that it is "
       "converted to");
    tn__def *def = tn__def_parse("f(x) = x", "t");
    const tn_dtype none = TN_DTYPE_NONE;
    ok(!tn__def_kernel(def, &none), "an input without a dtype is refused");
    is_str(tn_error(), "f: input x: 0 is not a dtype", "by name");
    tn_error_clear();
}

/* ---- dtypes of results ------------------------------------------------- */

static const struct {
    const char *text;
    tn_dtype x, y, out;
} results[] = {
    {"f(x, y) = x + y", TN_F32, TN_F64, TN_F64},
    {"f(x, y) = x + y", TN_F16, TN_BF16, TN_F32},
    {"f(x, y) = x + y", TN_F16, TN_I64, TN_F16},
    {"f(x, y) = x + y", TN_I8, TN_U8, TN_I16},
    {"f(x, y) = x + y", TN_BOOL, TN_BOOL, TN_BOOL},
    {"f(x, y) = x * y", TN_BOOL, TN_I8, TN_I8},
    {"f(x, y) = x / y", TN_I32, TN_I64, TN_F32},
    {"f(x, y) = x / y", TN_BOOL, TN_BOOL, TN_F32},
    {"f(x, y) = x / y", TN_F64, TN_I64, TN_F64},
    {"f(x, y) = x % y", TN_I16, TN_I32, TN_I32},
    {"f(x, y) = div(x, y)", TN_I16, TN_I8, TN_I16},
    {"f(x, y) = x < y", TN_F16, TN_I64, TN_BOOL},
    {"f(x, y) = x && y", TN_F16, TN_I64, TN_BOOL},
    {"f(x, y) = x & y", TN_U8, TN_I8, TN_I16},
    {"f(x, y) = x << y", TN_I8, TN_I32, TN_I32},
    {"f(x, y) = min(x, y)", TN_BF16, TN_F32, TN_F32},
    {"f(x, y) = where(x > 0, x, y)", TN_I32, TN_F16, TN_F16},
    {"f(x, y) = like(x, y)", TN_I32, TN_F16, TN_F16},
    {"f(x) = x + 1", TN_I8, 0, TN_I8},
    {"f(x) = x + 1", TN_F16, 0, TN_F16},
    {"f(x) = x + 1.5", TN_I8, 0, TN_F32},
    {"f(x) = x + 1.5", TN_F16, 0, TN_F16},
    {"f(x) = x + 1.5", TN_BOOL, 0, TN_F32},
    {"f(x) = x + 1", TN_BOOL, 0, TN_I64},
    {"f(x; p) = x * p", TN_BF16, 0, TN_BF16},
    {"f(x; p) = x * p", TN_I64, 0, TN_F32},
    {"f(x; p: float) = x * p", TN_F64, 0, TN_F64},
    {"f(x; p: i64) = x * p", TN_I32, 0, TN_I64},
    {"f(x; p: f64) = x * p", TN_F32, 0, TN_F64},
    {"f(x) = sqrt(x)", TN_I64, 0, TN_F32},
    {"f(x) = sqrt(x)", TN_F16, 0, TN_F16},
    {"f(x) = exp(x)", TN_U8, 0, TN_F32},
    {"f(x) = exp(x)", TN_F64, 0, TN_F64},
    {"f(x) = exp(x)", TN_BF16, 0, TN_BF16},
    {"f(x) = floor(x)", TN_I16, 0, TN_I16},
    {"f(x) = abs(x)", TN_BOOL, 0, TN_BOOL},
    {"f(x) = float(x)", TN_I16, 0, TN_F32},
    {"f(x) = float(x)", TN_F16, 0, TN_F16},
    {"f(x, y) = float(y)", TN_F64, TN_I64, TN_F64},
    {"f(x) = fraction(x)", TN_BF16, 0, TN_BF16},
    {"f(x) = fraction(x)", TN_I64, 0, TN_I64},
    {"f(x) = bits(x)", TN_F16, 0, TN_I32},
    {"f(x) = bits(x)", TN_F64, 0, TN_I64},
    {"f(x) = from_bits(bits(x))", TN_F64, 0, TN_F64},
    {"f(x) = rsum(x)", TN_U8, 0, TN_I64},
    {"f(x) = rprod(x)", TN_BOOL, 0, TN_I64},
    {"f(x) = rsum(x)", TN_F16, 0, TN_F16},
    {"f(x) = rmean(x)", TN_F64, 0, TN_F64},
    {"f(x) = rmax(x)", TN_I8, 0, TN_I8},
    {"f(x) = rargmax(x)", TN_F16, 0, TN_I64},
    {"f(x) = rany(x)", TN_F16, 0, TN_BOOL},
    {"f(x) = rlen()", TN_F16, 0, TN_I64},
    {"f(x) = 1", TN_F16, 0, TN_I64},
    {"f(x) = 0.5", TN_F16, 0, TN_F32},
    {"f(x) = 0.5", TN_F64, 0, TN_F64},
    {"f(x) = i8(x)", TN_F32, 0, TN_I8},
    {"f(x) = f16(x)", TN_F32, 0, TN_F16},
    {"f(i: offset) = i", 0, 0, TN_I64},
    {"f(i: offset; a, b) = a + b * float(i)", 0, 0, TN_F32},
    {"f(x, y) = x[y]", TN_F16, TN_I32, TN_F16},
    {"f(x) = loop(i < 3; c = 0) (c + x)", TN_F16, 0, TN_F16},
    {"f(x) = loop(i < 3; c = 0) (c + x)", TN_I32, 0, TN_I32},
    {"f(x) = loop(i < 3; c = 0) (c + x * 0.5)", TN_I32, 0, TN_F32},
    {"f(x) = loop(i < 3; c = x) (c * 2)", TN_U8, 0, TN_U8},
    {"f(x) = loop(i < 3; c = 1) (c * 2)", TN_U8, 0, TN_I64},
    {"f(x; p) = loop(i < 3; c = 1) (c * p)", TN_F64, 0, TN_F64},
};

static void test_results(void)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const tn__kernel *k =
            kernel_of(results[i].text, results[i].x, results[i].y);
        if (!ok(k != NULL, "'%s' for %s has a type", results[i].text,
                tn_dtype_name(results[i].x)))
            note("%s", tn_error());
        else
            is_str(tn_dtype_name(k->out[0].dtype),
                   tn_dtype_name(results[i].out), "'%s' for %s, %s",
                   results[i].text, tn_dtype_name(results[i].x),
                   tn_dtype_name(results[i].y));
        tn_error_clear();
    }
}

static void test_levels(void)
{
    static const struct {
        const char *text;
        uint8_t level;
        bool has_row;
    } levels[] = {
        {"f(x) = x", TN_LEVEL_ELEM, false},
        {"f(x) = 1", TN_LEVEL_ELEM, false},
        {"f(x) = rsum(x)", TN_LEVEL_ROW, true},
        {"f(x) = x - rsum(x)", TN_LEVEL_ELEM, true},
        {"f(x: row) = x", TN_LEVEL_ROW, true},
        {"f(x, y: row) = x * y", TN_LEVEL_ELEM, true},
        {"f(x) = rlen()", TN_LEVEL_ROW, true},
        {"f(i: offset row) = i", TN_LEVEL_ROW, true},
        {"f(x) = loop(i < 2; c = rsum(x)) (c * 2)", TN_LEVEL_ROW, true},
        {"f(x) = loop(i < 2; c = rsum(x)) (c * x)", TN_LEVEL_ELEM, true}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const tn__kernel *k = kernel_of(levels[i].text, TN_F32, TN_F32);
        is_int(k ? k->out[0].level : -1, levels[i].level, "the level of '%s'",
               levels[i].text);
        is_int(k && k->has_row, levels[i].has_row, "'%s' has rows: %d",
               levels[i].text, levels[i].has_row);
    }
}

/* ---- values ------------------------------------------------------------ */

static void test_integers(void)
{
    static const struct {
        const char *text;
        int8_t x;
        int8_t want;
    } narrow[] = {{"f(x) = x + 1", 127, -128},
                  {"f(x) = x * 2", 100, -56},
                  {"f(x) = -x", -128, -128},
                  {"f(x) = abs(x)", -128, -128},
                  {"f(x) = div(x, -1)", -128, -128},
                  {"f(x) = div(x, 0)", 5, 0},
                  {"f(x) = x << 1", 64, -128},
                  {"f(x) = x >> 1", -3, -2},
                  {"f(x) = shrl(x, 1)", -2, 127},
                  {"f(x) = ~x", 5, -6},
                  {"f(x) = x + 300", 0, 44},
                  {"f(x) = i8(i64(x) + 200)", 100, 44},
                  {"f(x) = i8(float(x) * 0.5)", -3, -1}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        const tn__kernel *k = kernel_of(narrow[i].text, TN_I8, 0);
        int8_t x[CELLS] = {narrow[i].x}, y[CELLS] = {99};
        void *data[2] = {x, y};
        if (!ok(k && k->out[0].dtype == TN_I8 &&
                    run_kernel(k, data, NULL) == TN_OK,
                "'%s' runs for int8", narrow[i].text))
            continue;
        is_int(y[0], narrow[i].want, "'%s' of %d", narrow[i].text, narrow[i].x);
    }
}

/* Operators have the precedence of C: the same expression is evaluated as C and
 * as a kernel, of inputs and of constants. */
static void test_signs(void)
{
    static int64_t a[CELLS] = {7}, b[CELLS] = {-3}, c[CELLS] = {2};
    const int64_t A = 7, B = -3, C = 2;
/* the test needs expressions without parentheses */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#define SAME(upper, lower)                                                     \
    {                                                                          \
#upper, #lower, (int64_t)(upper)                                       \
    }
    const struct {
        const char *folded, *text;
        int64_t want;
    } same[] = {
        SAME(A - B - C, a - b - c),
        SAME(A - (B - C), a - (b - c)),
        SAME(A + B * C, a + b * c),
        SAME(A * B + C, a * b + c),
        SAME(A % B * C, a % b * c),
        SAME(-A % C, -a % c),
        SAME(-A * -B, -a * -b),
        SAME(A << C + 1, a << c + 1),
        SAME((A << C) + 1, (a << c) + 1),
        SAME(A >> C << 1, a >> c << 1),
        SAME(B >> 1, b >> 1),
        SAME(A < B == C, a < b == c),
        SAME(A > B == 1, a > b == 1),
        SAME(A <= 7 != C > 2, a <= 7 != c > 2),
        SAME(A & B == C, a & b == c),
        SAME((A & B) == C, (a & b) == c),
        SAME(A ^ B & C, a ^ b & c),
        SAME(A | B ^ C, a | b ^ c),
        SAME(A | B & C << 1, a | b & c << 1),
        SAME(A && B | C, a && b | c),
        SAME(A > 9 || B && C, a > 9 || b && c),
        SAME(A > 9 && B || C, a > 9 && b || c),
        SAME(!A + C, !a + c),
        SAME(~A + C, ~a + c),
        SAME(~-A, ~-a),
        SAME(!(A == 7) || A >= C, !(a == 7) || a >= c),
    };
#undef SAME
#pragma GCC diagnostic pop
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char text[160];
        int64_t out[CELLS] = {0};
        void *data[4] = {a, b, c, out};
        snprintf(text, sizeof text, "f(a, b, c) = i64(%s)", same[i].text);
        const tn__kernel *k = kernel_of(text, TN_I64, TN_I64);
        if (ok(k && run_kernel(k, data, NULL) == TN_OK, "'%s' runs", text))
            is_int(out[0], same[i].want, "'%s' is as in C", same[i].text);
        snprintf(text, sizeof text,
                 "f(x) = let A = %d; let B = -3;"
                 " let C = %d; i64(%s)",
                 (int)A, (int)C, same[i].folded);
        k = kernel_of(text, TN_I64, TN_I64);
        is_int(k && k->ins_count == 1 ? k->ins[0].imm.i : -1000, same[i].want,
               "'%s' is folded to the same", same[i].text);
    }
}

static void test_constants(void)
{
    /* 0.1 has all its digits in a float64 expression and is rounded once in a
     * float32 one; a half type computes with the float32 number */
    const tn__kernel *k = kernel_of("f(x, y) = y * 0.1", TN_F32, TN_F64);
    double y[CELLS] = {1}, out[CELLS];
    float x[CELLS] = {0};
    void *data[3] = {x, y, out};
    ok(k && run_kernel(k, data, NULL) == TN_OK && out[0] == 0.1,
       "0.1 of f64 is 0.1");
    k = kernel_of("f(x) = f64(x * 0.1)", TN_F32, 0);
    x[0] = 1;
    data[1] = out;
    ok(k && run_kernel(k, data, NULL) == TN_OK && out[0] == (double)0.1f,
       "0.1 of f32 is 0.1f");
    k = kernel_of("f(x) = f32(x) * (0.1 + 1 - 1)", TN_F16, 0);
    ok(k && k->ins_count == 3, "numbers are folded before they are rounded");
    k = kernel_of("f(x) = f32(f16(x))", TN_F32, 0);
    float rounded[CELLS];
    x[0] = 1.0001f;
    data[1] = rounded;
    ok(k && run_kernel(k, data, NULL) == TN_OK && rounded[0] == 1,
       "f16(x) rounds at once");
}

/* Equal expressions are computed once. Exact identities are applied, inexact
 * ones are not. */
static void test_simplified(void)
{
    static const struct {
        const char *text;
        uint32_t f32, i32; /* number of instructions that remain */
    } counts[] = {{"f(x) = x * 1", 1, 1},
                  {"f(x) = 1 * x / 1.0", 1, 2},
                  {"f(x) = x + 0", 3, 1}, /* not simplified: -0 + 0 is +0 */
                  {"f(x) = x - 0", 1, 1},
                  {"f(x) = x * 0", 3, 1},
                  {"f(x) = --x", 1, 1},
                  {"f(x) = x * -1", 2, 2},
                  {"f(x) = x * x + x * x", 3, 3},
                  {"f(x) = (x + 1) * (1 + x)", 4, 4},
                  {"f(x) = where(1 < 2, x, exp(x))", 1, 2},
                  {"f(x) = let unused = exp(x); x", 1, 1},
                  {"f(x) = min(x, x)", 1, 1},
                  {"f(x) = !!(x > 2)", 3, 3},
                  {"f(x) = f32(x)", 1, 2},
                  {"f(x) = where(x > 2, 1, where(x < 1, -1, 0)) * x", 10, 10},
                  {"f(x) = abs(abs(x))", 2, 2}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const tn__kernel *f = kernel_of(counts[i].text, TN_F32, 0);
        const tn__kernel *n = kernel_of(counts[i].text, TN_I32, 0);
        is_int(f ? f->ins_count : 0, counts[i].f32, "'%s' for float32",
               counts[i].text);
        is_int(n ? n->ins_count : 0, counts[i].i32, "'%s' for int32",
               counts[i].text);
    }
}

/* Tests nested where() expressions that share their operands. Following each
 * path separately would take 2^40 steps. */
static void test_shared_choices(void)
{
    enum { CHOICES = 40 };
    char text[4096] = "f(x) = let a0 = where(x > 0, 1, 2); ";
    size_t at = strlen(text);
    for (int i = 1; i <= CHOICES; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "let a%d = where(x > %d, a%d, where(x > %d, "
                               "a%d, %d)); ", i, i, i - 1, i + 100, i - 1,
                               i + 2);
    snprintf(text + at, sizeof text - at, "a%d * x", CHOICES);
    ok(kernel_of(text, TN_F32, 0) != NULL, "%d choices are one kernel, soon",
       CHOICES);
}

static void test_once(void)
{
    tn__def *def = tn__def_parse("f(x, i: offset) = x + 1", "t");
    const tn_dtype one[] = {TN_F32, TN_F32}, other[] = {TN_F32, TN_I64};
    const tn_dtype half[] = {TN_F16, 0};
    ok(tn__def_kernel(def, one) == tn__def_kernel(def, other),
       "a kernel is made once for all dtypes of an offset");
    ok(tn__def_kernel(def, one) != tn__def_kernel(def, half),
       "and one for each dtype");
    const tn__kernel *same = kernel_of("g(y, i: offset) = 1 + y", TN_F32, 0);
    ok(same->key[0] == tn__def_kernel(def, one)->key[0] &&
           same->key[1] == tn__def_kernel(def, one)->key[1],
       "names do not change a key");
    ok(same->key[0] != tn__def_kernel(def, half)->key[0],
       "dtypes change a key");
}

/* A type parameter is a dtype argument, which follows the dtypes of the
 * inputs. */
static void test_type_parameter(void)
{
    tn__def *def = tn__def_parse("f(x; p: int, t: type, u: type) = "
                                 "u(t(x) + p)", "t");
    if (!def)
        bail_out("%s", tn_error());
    const tn_dtype half[] = {TN_F32, TN_F16, TN_F64}, byte[] = {TN_F32, TN_I8,
                                                                TN_BOOL};
    is_int(tn__def_type_count(def), 2, "a definition has two type parameters");
    is_int(tn__def_param_count(def), 1, "which are no parameters of a launch");
    const tn__kernel *k = tn__def_kernel(def, half);
    is_int(k ? (int)k->out[0].dtype : -1, TN_F64, "the result is converted");
    const tn__kernel *same = kernel_of("f(x; p: int) = f64(f16(x) + p)", TN_F32,
                                       0);
    ok(k && same && k->key[0] == same->key[0] && k->key[1] == same->key[1],
       "the kernel is that of a text with the names of the dtypes");
    const tn__kernel *other = tn__def_kernel(def, byte);
    ok(other && other != k && other->out[0].dtype == TN_BOOL,
       "another dtype makes another kernel");
    ok(tn__def_kernel(def, half) == k, "which are both cached");
    const tn_dtype none[] = {TN_F32, TN_F16, TN_DTYPE_NONE};
    ok(!tn__def_kernel(def, none), "no dtype is refused");
    is_int(tn_error_code(), TN_ERR_DTYPE, "%s", tn_error());
    tn_error_clear();
}

/* Returns the listing of the kernel `text` without the word " weighted". */
static char *plain_listing(const char *text, tn_dtype dtype, bool *found)
{
    const tn__kernel *kernel = kernel_of(text, dtype, dtype);
    if (!kernel)
        bail_out("%s", tn_error());
    char *listing = tn__kernel_text(kernel);
    char *word = strstr(listing, " weighted");
    *found = word;
    if (word)
        memmove(word, word + strlen(" weighted"),
                strlen(word + strlen(" weighted")) + 1);
    return listing;
}

static void test_weighted(void)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_I32};
    for (int i = 0; i < 4; i++) {
        bool hint, none;
        char *weighted = plain_listing("f(x, y) = weighted(x, y)", dtypes[i],
                                       &hint);
        char *where = plain_listing("f(x, y) = where(y == 0, 0, x * y)",
                                    dtypes[i], &none);
        ok(hint && !none, "%s: only weighted has the hint",
           tn_dtype_name(dtypes[i]));
        is_str(weighted, where, "it is a select otherwise");
        tn__free(weighted);
        tn__free(where);
    }
}

int main(void)
{
    plan_later();
    test_weighted();
    test_type_parameter();
    test_messages();
    test_results();
    test_levels();
    test_integers();
    test_signs();
    test_constants();
    test_simplified();
    test_shared_choices();
    test_once();
    return done_testing();
}
