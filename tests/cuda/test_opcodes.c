/* Compares each PTX instruction of the simulator with its meaning in the manual
 * (PTX ISA, "Instruction Set"), implemented a second time in another way:
 * integers in 128 bits, floating point in 113 bits and then rounded, bits one
 * by one. An instruction without an implementation here is a failure. Operands
 * are all pairs of corner cases; all NaNs are equal. */
#include "calls.h"

#include <float.h>
#include <math.h>

__extension__ typedef __int128 whole;
__extension__ typedef unsigned __int128 bits;
#if LDBL_MANT_DIG >= 113
typedef long double wide;
#else
__extension__ typedef __float128 wide;
#endif

static const char *const rows[] = {
#define PTX(name, kind, value) name,
#include "../sim/ptx.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static const uint64_t wholes[] = {0,          1,          2,
                                  7,          8,          31,
                                  32,         33,         64,
                                  0x7f,       0x80,       0x7fff,
                                  0x8000,     0xffff,     0x7fffffff,
                                  0x80000000, 0xffffffff, 0x123456789abcdef0,
                                  INT64_MAX,  1ull << 63, ~0ull};
static const double reals[] = {
    0,         -0.,      1,        -1,        0.5,       1.0 / 3,      3,
    2.5,       -3.5,     0.3,      -0.7,      1e-3,      0x1.000002p0, 0x1p-149,
    -0x1p-149, 0x1p-126, FLT_MAX,  3e9,       -3e9,      1e19,         -1e19,
    65519,     65520,    2049,     0x1p-24,   0x1.8p-25, 0x1p-1074,    DBL_MAX,
    DBL_MIN,   0x1p52,   INFINITY, -INFINITY, NAN};
enum {
    WHOLES = sizeof wholes / sizeof *wholes,
    REALS = sizeof reals / sizeof *reals
};

/* ---- types of operands --------------------------------------------------- */

/* A type as in ".u32": its letter and its number of bits. */
typedef struct type {
    char kind;
    unsigned width;
} type;

/* Returns the type that an instruction's name ends with, or the one `before`
 * types earlier. */
static type type_of(const char *name, int before)
{
    const char *dot = strrchr(name, '.');
    while (before-- && dot)
        while (*--dot != '.')
            ;
    type t = {dot[1], (unsigned)atoi(dot + 2)};
    return strncmp(dot, ".pred", 5) == 0 ? (type){'p', 1} : t;
}

static uint64_t cut(bits x, unsigned width)
{
    return (uint64_t)(width < 64 ? x & (((bits)1 << width) - 1) : x);
}

static whole whole_of(uint64_t x, type t)
{
    const whole value = (whole)cut(x, t.width);
    return t.kind == 's' && value >> (t.width - 1)
               ? value - ((whole)1 << t.width)
               : value;
}

/* Returns the code of the nearest half-precision number, found by search; ties
 * go to the even code. */
static uint64_t half_of(double x, unsigned fraction)
{
    const int bias = fraction == 10 ? 15 : 127;
    uint64_t best = 0;
    wide apart = (wide)INFINITY;
    if (x != x)
        return 0x7fff;
    const wide size = x < 0 ? -(wide)x : (wide)x;
    /* the code of infinity counts as the number that would follow the
     * largest */
    for (uint64_t code = 0; code <= 0x7fffu >> fraction << fraction; code++) {
        const int power = (int)(code >> fraction);
        wide value = (wide)(code & ((1u << fraction) - 1));
        value += power ? (wide)(1u << fraction) : 0;
        value *= (wide)ldexp(1, (power ? power : 1) - bias - (int)fraction);
        const wide d = value < size ? size - value : value - size;
        if (d < apart || (d == apart && code % 2 == 0)) {
            best = code;
            apart = d;
        }
    }
    if (size == (wide)INFINITY)
        best = 0x7fffu >> fraction << fraction;
    return best + (signbit(x) ? 0x8000u : 0);
}

/* Returns the value of a float16 code. */
static double value_of_half(uint64_t code)
{
    const int power = (int)(code >> 10 & 31), fraction = (int)(code & 1023);
    const double size = power == 31 ? fraction ? (double)NAN : (double)INFINITY
                        : power     ? ldexp(1024 + fraction, power - 25)
                                    : ldexp(fraction, -24);
    return code & 0x8000 ? -size : size;
}

static double real_of(uint64_t x, type t)
{
    float narrow;
    double real;
    memcpy(&narrow, &x, sizeof narrow);
    memcpy(&real, &x, sizeof real);
    return t.width == 16   ? value_of_half(x)
           : t.width == 32 ? (double)narrow
                           : real;
}

/* Returns the bits of the type's number nearest to x. */
static uint64_t of_real(wide x, type t)
{
    const float narrow = (float)x;
    const double real = (double)x;
    uint64_t code = 0;
    if (t.width == 16)
        code = half_of(real, 10);
    else if (t.width == 32)
        memcpy(&code, &narrow, sizeof narrow);
    else
        memcpy(&code, &real, sizeof real);
    return code;
}

/* ---- meaning of instructions --------------------------------------------- */

static bool is(const char *name, const char *begin)
{
    return strncmp(name, begin, strlen(begin)) == 0;
}

static bool of_wholes(const char *name, const uint64_t v[3], uint64_t *d)
{
    const type t = type_of(name, 0);
    const whole a = whole_of(v[0], t), b = whole_of(v[1], t);
    const unsigned w = t.width, by = cut(v[1], 32) > w ? w : (unsigned)v[1];
    whole r;
    if (is(name, "add."))
        r = a + b;
    else if (is(name, "sub."))
        r = a - b;
    else if (is(name, "mul.lo."))
        r = (whole)((bits)a * (bits)b);
    else if (is(name, "mad.lo."))
        r = (whole)((bits)a * (bits)b + (bits)whole_of(v[2], t));
    else if (is(name, "mul.hi."))
        r = (whole)(t.kind == 's' ? (bits)(a * b >> w)
                                  : (bits)a * (bits)b >> w);
    else if (is(name, "mul.wide."))
        return *d = cut((bits)(a * b), 2 * w), true;
    else if (is(name, "mad.wide."))
        return *d = cut((bits)(a * b) + v[2], 2 * w), true;
    else if (is(name, "dp4a.")) {
        r = whole_of(v[2], t);
        for (int i = 0; i < 4; i++)
            r += whole_of(v[0] >> 8 * i, (type){'s', 8}) *
                 whole_of(v[1] >> 8 * i, (type){'s', 8});
    } else if (is(name, "div."))
        r = b ? a / b : -1;
    else if (is(name, "rem."))
        r = b ? a % b : a;
    else if (is(name, "min."))
        r = a < b ? a : b;
    else if (is(name, "max."))
        r = a > b ? a : b;
    else if (is(name, "neg."))
        r = -a;
    else if (is(name, "abs."))
        r = a < 0 ? -a : a;
    else if (is(name, "and."))
        r = a & b;
    else if (is(name, "or."))
        r = a | b;
    else if (is(name, "xor."))
        r = a + b - 2 * (a & b);
    else if (is(name, "not."))
        r = -a - 1;
    else if (is(name, "shl."))
        r = by < w ? (whole)((bits)a << by) : 0;
    else if (is(name, "shr."))
        r = a >> by; /* whole is wide enough for the sign bits */
    else
        return false;
    *d = cut((bits)r, w);
    return true;
}

/* The root is the number whose rounding interval contains the exact root. */
static wide root(double x, type t)
{
    uint64_t low = 0, high = of_real((wide)INFINITY, t);
    if (!(x > 0) || x == (double)INFINITY)
        return x < 0 ? (wide)NAN : (wide)x;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        const wide r = real_of(middle, t);
        if (r * r <= x)
            low = middle;
        else
            high = middle;
    }
    const wide middle = ((wide)real_of(low, t) + (wide)real_of(high, t)) / 2;
    return real_of(middle * middle <= x ? high : low, t);
}

/* Returns x + y rounded to odd if it is inexact, so that rounding it once more
 * gives the right result (Boldo and Melquiond, 2008). */
static wide sum_to_odd(wide x, wide y)
{
    wide sum = x + y, part = sum - x;
    const wide rest = (x - (sum - part)) + (y - part);
    bits code;
    memcpy(&code, &sum, sizeof code);
    if (rest == 0 || rest != rest || code % 2)
        return sum;
    code += (rest > 0) == (sum > 0) ? 1 : (bits)-1;
    memcpy(&sum, &code, sizeof code);
    return sum;
}

static bool of_reals(const char *name, const uint64_t v[3], uint64_t *d)
{
    const type t = type_of(name, 0);
    const double a = real_of(v[0], t), b = real_of(v[1], t);
    const uint64_t sign = 1ull << (t.width - 1), code = cut(v[0], t.width);
    const bool below = a < b || (a == b && signbit(a));
    wide r;
    if (is(name, "add."))
        r = (wide)a + b;
    else if (is(name, "sub."))
        r = (wide)a - b;
    else if (is(name, "mul."))
        r = (wide)a * b;
    else if (is(name, "div."))
        r = (wide)a / b;
    else if (is(name, "rcp."))
        r = 1 / (wide)a;
    else if (is(name, "sqrt."))
        r = root(a, t);
    else if (is(name, "fma."))
        r = sum_to_odd((wide)a * b, real_of(v[2], t));
    else if (is(name, "min."))
        r = a != a ? b : b != b || below ? a : b;
    else if (is(name, "max."))
        r = a != a ? b : b != b || !below ? a : b;
    else if (is(name, "neg."))
        return *d = code < sign ? code + sign : code - sign, true;
    else if (is(name, "abs."))
        return *d = code % sign, true;
    else if (is(name, "copysign.")) /* takes the sign of the first operand */
        return *d = cut(v[1], t.width) % sign + (code < sign ? 0 : sign), true;
    else
        return false;
    *d = of_real(r, t);
    return true;
}

/* Rounds x to an integer in the given rounding mode. */
static double rounded(double x, const char *mode)
{
    if (!(x > -0x1p62 && x < 0x1p62))
        return x;
    double down = (double)(int64_t)x - (x < (double)(int64_t)x);
    const double rest = x - down;
    const bool odd = (int64_t)down % 2 != 0;
    if (rest > 0 && (is(mode, "rpi") || (is(mode, "rzi") && x < 0) ||
                     (is(mode, "rni") && (rest > 0.5 || (rest == 0.5 && odd)))))
        down++;
    return copysign(down, x);
}

static bool of_conversion(const char *name, const uint64_t v[3], uint64_t *d)
{
    const type from = type_of(name, 0), to = type_of(name, 1);
    const double x = real_of(v[0], from);
    if (from.kind != 'f') {
        const whole value = whole_of(v[0], from);
        *d = to.kind == 'f' ? of_real((wide)value, to)
                            : cut((bits)value, to.width);
    } else if (strstr(name, "16x2")) {
        const unsigned fraction = strstr(name, "bf16") ? 7 : 10;
        *d =
            half_of(x, fraction) << 16 | half_of(real_of(v[1], from), fraction);
    } else if (to.kind != 'f') { /* rzi: rounds to zero and saturates */
        const wide most = (wide)((bits)1 << (to.width - 1));
        const whole value = x != x             ? to.width == 32 ? 0 : INT64_MIN
                            : (wide)x >= most  ? (whole)most - 1
                            : (wide)x <= -most ? (whole)-most
                                               : (whole)x;
        *d = cut((bits)value, to.width);
    } else if (is(name, "cvt.r") && !is(name, "cvt.rn.")) {
        *d = of_real(rounded(x, name + 4), to);
    } else {
        *d = of_real(x, to);
    }
    return true;
}

static bool of_bits(const char *name, const uint64_t v[3], unsigned length,
                    uint64_t *d)
{
    const unsigned by = (unsigned)v[2] % 32, at = (unsigned)v[1] & 255;
    const unsigned place = (unsigned)v[2] & 255;
    for (unsigned n = 0; n < 32; n++) {
        uint64_t bit = 0;
        if (is(name, "shf.l."))
            bit = n >= by ? v[1] >> (n - by) : v[0] >> (32 + n - by);
        else if (is(name, "shf.r."))
            bit = n + by < 32 ? v[0] >> (n + by) : v[1] >> (n + by - 32);
        else if (is(name, "bfe.")) /* the third operand is the length */
            bit = n < place && n + at < 32 ? v[0] >> (n + at) : 0;
        else if (is(name, "bfi."))
            bit = n >= place && n - place < length ? v[0] >> (n - place)
                                                   : v[1] >> n;
        else if (is(name, "prmt.")) {
            const unsigned which = (unsigned)v[2] >> n / 8 * 4 & 15;
            const uint64_t from = which & 4 ? v[1] : v[0];
            bit = from >> (which % 4 * 8 + (which & 8 ? 7 : n % 8));
        } else
            return false;
        *d |= (bit & 1) << n;
    }
    return true;
}

static bool compares(const char *name, const uint64_t v[3], bool *holds)
{
    const type t = type_of(name, 0);
    const char *how = name + 5;
    const whole m = whole_of(v[0], t), n = whole_of(v[1], t);
    const double x = real_of(v[0], t), y = real_of(v[1], t);
    const bool real = t.kind == 'f', apart = real && (x != x || y != y);
    const bool less = real ? x < y : m < n, same = real ? x == y : m == n;
    const bool with_nan = strcspn(how, ".") == 3 && how[2] == 'u';
    if (is(how, "num.") || is(how, "nan."))
        return *holds = apart == (how[1] == 'a'), true;
    *holds = apart           ? with_nan
             : is(how, "eq") ? same
             : is(how, "ne") ? !same
             : is(how, "lt") ? less
             : is(how, "le") ? less || same
             : is(how, "gt") ? !less && !same
                             : !less; /* ge */
    return is(how, "eq") || is(how, "ne") || is(how, "lt") || is(how, "le") ||
           is(how, "gt") || is(how, "ge");
}

/* Computes what the instruction stores in %d for the operands v. Returns false
 * for an instruction whose name is unknown. */
static bool meaning(const char *name, const uint64_t v[3], unsigned length,
                    uint64_t *d)
{
    const type t = type_of(name, 0);
    bool holds = true, known = true;
    *d = 0;
    if (is(name, "setp.")) {
        known = compares(name, v, &holds);
        *d = holds ? 1 : 2;
    } else if (t.kind == 'p') { /* sets a predicate; operands are a != 0 and b
                                 * != 0 */
        holds = is(name, "mov.")   ? v[0] != 0
                : is(name, "not.") ? v[0] == 0
                : is(name, "and.") ? v[0] && v[1]
                : is(name, "or.")  ? v[0] || v[1]
                                   : !v[0] != !v[1];
        *d = holds ? 1 : 2;
    } else if (is(name, "selp.")) {
        *d = cut(v[2] ? v[0] : v[1], t.width);
    } else if (is(name, "mov.") || is(name, "cvta.")) {
        *d = cut(v[0], t.width);
    } else if (is(name, "ex2.")) { /* `equal` allows two units in the last
                                    * place */
        *d = of_real(exp2(real_of(v[0], t)), t);
        *d = real_of(v[0], t) < -126 ? 0 : *d;
    } else if (is(name, "cvt.")) {
        known = of_conversion(name, v, d);
    } else if (t.kind == 'f') {
        known = of_reals(name, v, d);
    } else {
        known = of_wholes(name, v, d) || of_bits(name, v, length, d);
    }
    return known;
}

/* ---- running instructions ------------------------------------------------ */

/* Returns whether two half-precision codes are equal; all NaNs are equal. */
static bool same_half(uint64_t x, uint64_t y, uint64_t infinity)
{
    x &= 0xffff;
    y &= 0xffff;
    return x == y || (x % 0x8000 > infinity && y % 0x8000 > infinity);
}

static bool equal(const char *name, uint64_t got, uint64_t want)
{
    const type t = type_of(name, is(name, "cvt."));
    const uint64_t infinity = strstr(name, "bf16") ? 0x7f80 : 0x7c00;
    if (got == want)
        return true;
    if (is(name, "ex2."))
        return got - want + 2 <= 4;
    if (strstr(name, "16x2"))
        return same_half(got, want, infinity) &&
               same_half(got >> 16, want >> 16, infinity);
    if (t.kind != 'f' || is(name, "setp."))
        return false;
    const double x = real_of(got, t), y = real_of(want, t);
    return x != x && y != y;
}

/* Writes the kernel body for an instruction. Returns how many of the operands
 * a, b and c it has. */
static int write_body(char *body, size_t room, const char *name,
                      unsigned length)
{
    const bool whole_bits =
        is(name, "shf.") || is(name, "bfe.") || is(name, "prmt.");
    int count = is(name, "mad.") || is(name, "fma.") || is(name, "dp4a.") ||
                        whole_bits
                    ? 3
                : is(name, "mov.") || is(name, "cvt") || is(name, "not.") ||
                        is(name, "neg.") || is(name, "abs.") ||
                        is(name, "rcp.") || is(name, "sqrt.") ||
                        is(name, "ex2.")
                    ? 1
                    : 2;
    count = strstr(name, "x2") ? 2 : count;
    if (strstr(name, ".pred"))
        snprintf(body, room,
                 "setp.ne.u64 %%p1, %%a, 0;setp.ne.u64 %%p2, %%b, "
                 "0;%s %%p3, %%p1%s;selp.u64 %%d, 1, 2, %%p3;",
                 name, count == 2 ? ", %p2" : "");
    else if (is(name, "setp."))
        snprintf(body, room, "%s %%p1, %%a, %%b;selp.u64 %%d, 1, 2, %%p1;",
                 name);
    else if (is(name, "selp."))
        snprintf(body, room, "setp.ne.u64 %%p1, %%c, 0;%s %%d, %%a, %%b, %%p1;",
                 name);
    else if (is(name, "bfi."))
        snprintf(body, room, "%s %%d, %%a, %%b, %%c, %u;", name, length);
    else
        snprintf(body, room, "%s %%d, %%a%s%s;", name, count > 1 ? ", %b" : "",
                 count > 2 ? ", %c" : "");
    return is(name, "selp.") || is(name, "bfi.") ? 3 : count;
}

static tn_cu_stream stream;
static tn_cu_pointer out;

/* Stores operand n of that type. Returns false if there are no more. */
static bool operand(type t, int n, uint64_t *value)
{
    if (n < (t.kind == 'f' ? REALS : WHOLES))
        *value = t.kind == 'f' ? of_real(reals[n], t) : wholes[n];
    return n < (t.kind == 'f' ? REALS : WHOLES);
}

/* Tests all a and b, and every fourth c. (c of a wide multiplication has twice
 * the width.) */
static void test_row(const char *name, unsigned length)
{
    char body[256];
    uint64_t v[3] = {0}, got, want;
    const int count = write_body(body, sizeof body, name, length);
    const type t = type_of(name, 0);
    tn_cu_module module;
    tn_cu_function f = kernel_of(body, &module);
    int cases = 0, wrong = 0;
    for (int i = 0; operand(t, i, &v[0]); i++)
        for (int j = 0; operand(t, j, &v[1]) && (j == 0 || count > 1); j++)
            for (int k = 0; operand(t, k, &v[2]) && (k == 0 || count > 2);
                 k += 4) {
                void *parameters[] = {&out, &v[0], &v[1], &v[2]};
                MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                                    NULL));
                MUST(cuMemcpyDtoHAsync_v2(&got, out, 8, stream));
                MUST(cuStreamSynchronize(stream));
                const bool known = meaning(name, v, length, &want);
                cases++;
                if ((!known || !equal(name, got, want)) && wrong++ < 5)
                    note("%s a %llx b %llx c %llx: %llx, %s%llx", body,
                         (unsigned long long)v[0], (unsigned long long)v[1],
                         (unsigned long long)v[2], (unsigned long long)got,
                         known ? "not " : "of no known meaning ",
                         (unsigned long long)want);
            }
    ok(!wrong, "%s: %d cases", body, cases);
    MUST(cuModuleUnload(module));
}

int main(void)
{
    static const unsigned lengths[] = {0, 1, 8, 31, 32, 33, 255};
    tn_cu_context context;
    plan_later();
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, TN_CU_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&out, 8));
    for (int r = 0; r < ROWS; r++)
        if (!is(rows[r], "bfi."))
            test_row(rows[r], 0);
        else
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
                test_row(rows[r], lengths[n]);
    return done_testing();
}
