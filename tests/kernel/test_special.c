/* Compares the special functions of the kernel language (lgamma, erfinv, Bessel
 * functions and others) with 40-digit values (special_values.def). The float32
 * functions equal the rounded float64 functions, except those that
 * narrow_limit() lists, at random arguments too, and where the float64 results
 * are infinite or NaN. */
#include "../tap.h"
#include "kernel/kernel.h"

#include <math.h>

static const struct value {
    const char *name;
    double x, y, want, limit;
} values[] = {
#define VALUE(name, x, y, want, limit) {name, x, y, want, limit},
#include "special_values.def"
#undef VALUE
};

enum { MANY = 4000 };

/* Computes out[i] = name(x[i]) or, with y, name(x[i], y[i]) in float32 or
 * float64, for `count` numbers that float32 can represent. */
static bool run(const char *name, tn_dtype type, const double *x,
                const double *y, double *out, int64_t count)
{
    static double wide[3][MANY];
    static float narrow[3][MANY];
    static const int64_t stride[1] = {1};
    const double *in[2] = {x, y};
    char text[64];
    snprintf(text, sizeof text, y ? "f(x, y) = %s(x, y)" : "f(x) = %s(x)",
             name);
    const tn_dtype dtype[2] = {type, type};
    tn__def *def = tn__def_parse(text, name);
    const tn__kernel *kernel = def ? tn__def_kernel(def, dtype) : NULL;
    const tn_program *program = kernel ? tn__kernel_program(kernel) : NULL;
    if (!program)
        return false;
    void *memory[3];
    int operands = 0;
    for (int k = 0; k < 2 && in[k]; k++, operands++) {
        for (int64_t i = 0; i < count; i++) {
            wide[k][i] = in[k][i];
            narrow[k][i] = (float)in[k][i];
        }
        memory[k] = type == TN_F64 ? (void *)wide[k] : (void *)narrow[k];
    }
    memory[operands] = type == TN_F64 ? (void *)wide[2] : (void *)narrow[2];
    tn_launch_operand operand[3] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = &count, .operand = operand};
    tn_fault fault = {.size = sizeof fault};
    if (tn__interpret(program, &launch, memory, &fault) != TN_OK)
        return false;
    for (int64_t i = 0; i < count; i++)
        out[i] = type == TN_F64 ? wide[2][i] : (double)narrow[2][i];
    return true;
}

/* Returns the distance of got from want in ulp of numbers with `digits`
 * bits. */
static double distance(double got, double want, int digits)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - digits);
}

/* Returns the allowed error in ulp. erfinv is computed in float32;
 * docs/math-errors.md has the largest error found. */
static double narrow_limit(const char *name)
{
    return strcmp(name, "erfinv") == 0 ? 0.8 : 0.51;
}

/* least, most: range of the arguments. floor: results below it count as this
 * large, since near a zero of the function terms cancel and the relative error
 * is large. */
static const struct range {
    const char *name;
    double least, most, least_y, most_y, floor;
} ranges[] = {
    {"lgamma", 0, 4, 0, 0, 0},       {"lgamma", 0.99, 1.01, 0, 0, 0},
    {"lgamma", 1.99, 2.01, 0, 0, 0}, {"lgamma", 2, 1e6, 0, 0, 0},
    {"lgamma", -40, 0, 0, 0, 1},     {"digamma", 0, 4, 0, 0, 0},
    {"digamma", 2, 1e6, 0, 0, 0},    {"digamma", -40, 0, 0, 0, 1},
    {"trigamma", 0, 4, 0, 0, 0},     {"trigamma", 2, 1e6, 0, 0, 0},
    {"trigamma", -40, 0, 0, 0, 0},   {"erfinv", -1, 1, 0, 0, 0},
    {"erfinv", 0.999, 1, 0, 0, 0},   {"erfinv", 0, 1e-4, 0, 0, 0},
    {"i0", -40, 40, 0, 0, 0},        {"i1", -40, 40, 0, 0, 0},
    {"i0e", -40, 40, 0, 0, 0},       {"i1e", -40, 40, 0, 0, 0},
    {"i0e", 0, 1e5, 0, 0, 0},        {"i1e", 0, 1e5, 0, 0, 0},
    {"igamma", 0, 10, 0, 10, 0},     {"igammac", 0, 10, 0, 10, 0},
    {"igamma", 0, 0.1, 0, 0.1, 0},   {"igammac", 0, 0.1, 0, 0.1, 0},
    {"igamma", 0, 80, 0, 12, 0},     {"igammac", 0, 80, 0, 12, 0},
};

static double random_from(double least, double most)
{
    static uint64_t state = 20261122;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    double unit = (double)(state * 0x2545f4914f6cdd1dull >> 11) * 0x1p-53;
    return (double)(float)(least + unit * (most - least));
}

static void test_range(const struct range *r)
{
    static double x[MANY], y[MANY], wide[MANY], narrow[MANY];
    bool two = r->most_y > 0;
    for (int i = 0; i < MANY; i++) {
        x[i] = random_from(r->least, r->most);
        y[i] = random_from(r->least_y, r->most_y);
    }
    bool ran = run(r->name, TN_F64, x, two ? y : NULL, wide, MANY) &&
               run(r->name, TN_F32, x, two ? y : NULL, narrow, MANY);
    double worst = 0;
    int at = 0;
    for (int i = 0; i < MANY; i++) {
        double want = fabs(wide[i]);
        if (isnan(want) || want > 3.4e38 || want < 0x1p-126)
            continue;
        want = want > r->floor ? want : r->floor;
        double far = distance(narrow[i] - wide[i] + want, want, 24);
        if (!(far <= worst)) {
            worst = far;
            at = i;
        }
    }
    ok(ran && worst <= narrow_limit(r->name),
       "%s from %g to %g in float32 is within %g ulp of float64's: %.3f at %a, "
       "%a",
       r->name, r->least, r->most, narrow_limit(r->name), worst, x[at], y[at]);
}

/* The float32 results are infinite, NaN and zero where the float64 results
 * are. */
static void test_edges(const char *name, bool two)
{
    static const double edge[] = {0, -0.0, 1, -1, 2, -2, -3, 8, 64, 100,
                                  INFINITY, -INFINITY, NAN, 0x1p-149,
                                  -0x1p-149, 0x1.fffffep127, -0x1p100};
    enum { EDGES = sizeof edge / sizeof *edge };
    static double x[EDGES * EDGES], y[EDGES * EDGES], wide[EDGES * EDGES],
        narrow[EDGES * EDGES];
    int count = two ? EDGES * EDGES : EDGES, wrong = -1;
    for (int i = 0; i < count; i++) {
        x[i] = edge[i % EDGES];
        y[i] = edge[i / EDGES];
    }
    bool ran = run(name, TN_F64, x, two ? y : NULL, wide, count) &&
               run(name, TN_F32, x, two ? y : NULL, narrow, count);
    for (int i = 0; i < count; i++) {
        float want = (float)wide[i], got = (float)narrow[i];
        bool same = isnan(want) ? isnan(got)
                    : isinf(want) || want == 0
                        ? want == got && !signbit(want) == !signbit(got)
                        : fabs(got - wide[i]) <=
                              1.2e-7 * fabs(wide[i]) + 0.51 * 0x1p-149;
        if (!same && wrong < 0)
            wrong = i;
    }
    ok(ran && wrong < 0, "%s has float64's edges in float32", name);
    if (wrong >= 0)
        note("at %a, %a: %a for %a", x[wrong], y[wrong], narrow[wrong],
             wide[wrong]);
}

/* Compares gelu and its derivative in float32 with C's erfc at some arguments.
 * docs/math-errors.md has the errors over all float32 numbers. */
static void test_gelu(void)
{
    static double x[MANY], got[MANY], slope[MANY];
    static const double edge[] = {-INFINITY, INFINITY, NAN, 0, -0.0, 0x1p-149,
                                  -0x1p100, 0x1p100};
    enum { EDGES = sizeof edge / sizeof *edge };
    for (int i = 0; i < MANY; i++)
        x[i] = i < EDGES ? edge[i]
                         : random_from(i % 2 ? -14 : -1, i % 2 ? 14 : 1);
    bool ran = run("gelu", TN_F32, x, NULL, got, MANY) &&
               run("gelu_slope", TN_F32, x, NULL, slope, MANY);
    double above = 0, below = 0, tail = 0, steep = 0;
    for (int i = EDGES; i < MANY; i++) {
        double rest = 0.5 * erfc(-x[i] * 0.70710678118654752);
        double want = x[i] * rest, off = fabs(got[i] - want);
        if (x[i] > 0)
            above = fmax(above, distance(got[i], want, 24));
        else
            below = fmax(below, off);
        if (x[i] < 0 && x[i] > -7)
            tail = fmax(tail, off / -want);
        want = rest + x[i] * exp(-0.5 * x[i] * x[i]) * 0.39894228040143268;
        steep = fmax(steep, fabs(slope[i] - want));
    }
    ok(ran && above < 1.6, "gelu above 0 is within 1.6 ulp: %.3f", above);
    ok(ran && below < 0.7 * 0x1p-24, "below within 0.7 of 2^-24: %.3f",
       below * 0x1p24);
    ok(ran && tail < 0.01, "and to -7 of itself within 0.01: %.4f", tail);
    ok(ran && steep < 1.8 * 0x1p-24, "its slope within 1.8 of 2^-24: %.3f",
       steep * 0x1p24);
    ok(got[0] == 0 && slope[0] == 0 && got[1] == INFINITY && slope[1] == 1 &&
           isnan(got[2]) && isnan(slope[2]) && got[6] == 0 && got[7] == x[7],
       "infinities and huge numbers give limits, NaN gives NaN");
    ok(got[3] == 0 && !signbit(got[3]) && got[4] == 0 && signbit(got[4]) &&
           slope[3] == 0.5 && slope[4] == 0.5,
       "zeros keep their signs");
}

int main(void)
{
    plan_later();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const struct value *v = &values[i];
        double wide = NAN, narrow = NAN;
        const double *y = v->y != 0 ? &v->y : NULL;
        bool ran = run(v->name, TN_F64, &v->x, y, &wide, 1) &&
                   run(v->name, TN_F32, &v->x, y, &narrow, 1);
        ok(ran && distance(wide, v->want, 53) <= v->limit,
           "%s(%g, %g) in float64 is within %g ulp: %.2f", v->name, v->x, v->y,
           v->limit, distance(wide, v->want, 53));
        ok(ran && distance(narrow, v->want, 24) <= narrow_limit(v->name),
           "in float32 within %g: %.2f", narrow_limit(v->name),
           distance(narrow, v->want, 24));
    }
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        test_range(&ranges[i]);
    static const char *const one[] = {"lgamma", "digamma", "trigamma", "erfinv",
                                      "i0", "i1", "i0e", "i1e"};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        test_edges(one[i], false);
    test_gelu();
    test_edges("igamma", true);
    test_edges("igammac", true);
    return done_testing();
}
