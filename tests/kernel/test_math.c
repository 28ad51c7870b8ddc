/* Compares the mathematical functions with MPFR: the largest error of each in
 * ulp, for float32 and float64, over random bit patterns, over ranges where
 * such functions are often wrong, and for special values. docs/math-errors.md
 * has the table.
 *
 *     test_math [SAMPLES [SEED]]      samples of each kind, 500 by default
 *
 * An ulp is the distance between adjacent numbers at the exact result. A wrong
 * special value (an infinity, a NaN, the sign of a zero) counts as an infinite
 * error. */
#include "../tap.h"
#include "kernel/kernel.h"

#ifdef HAVE_MPFR
#include <mpfr.h>
#include <tenon/base.h>

typedef int unary_fn(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
typedef int binary_fn(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

static const struct function {
    const char *name;
    unary_fn *unary;
    binary_fn *binary;
} functions[] = {
    {"exp", mpfr_exp, NULL},     {"exp2", mpfr_exp2, NULL},
    {"expm1", mpfr_expm1, NULL}, {"log", mpfr_log, NULL},
    {"log2", mpfr_log2, NULL},   {"log10", mpfr_log10, NULL},
    {"log1p", mpfr_log1p, NULL}, {"sin", mpfr_sin, NULL},
    {"cos", mpfr_cos, NULL},     {"tan", mpfr_tan, NULL},
    {"asin", mpfr_asin, NULL},   {"acos", mpfr_acos, NULL},
    {"atan", mpfr_atan, NULL},   {"atan2", NULL, mpfr_atan2},
    {"sinh", mpfr_sinh, NULL},   {"cosh", mpfr_cosh, NULL},
    {"tanh", mpfr_tanh, NULL},   {"erf", mpfr_erf, NULL},
    {"erfc", mpfr_erfc, NULL},   {"pow", NULL, mpfr_pow},
    {"hypot", NULL, mpfr_hypot},
};

/* ---- inputs -------------------------------------------------------------- */

static uint64_t random_state;

/* xorshift64* (S. Vigna, 2016) */
static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

/* Returns a random number in [-1, 1). */
static double random_unit(void)
{
    return (double)(int64_t)random_bits() * 0x1p-63;
}

static double random_sign(double x)
{
    return random_bits() & 1 ? x : -x;
}

enum { KINDS = 9 };

static double random_input(int kind, tn_dtype type)
{
    bool wide = type == TN_F64;
    uint64_t bits = random_bits();
    uint32_t low = (uint32_t)bits;
    double d;
    float f;
    switch (kind) {
    case 0: /* arbitrary bits */
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &low, sizeof f);
        return wide ? d : (double)f;
    case 1: /* the most common arguments */
        return random_unit() * 12;
    case 2: /* any magnitude, uniform in the exponent */
        return random_sign(exp2(random_unit() * 36));
    case 3: /* close to one */
        return random_sign(1 + random_unit() *
                                   exp2(-26 * (1 + random_unit())));
    case 4: /* up to the overflow of exp */
        return random_unit() * (wide ? 780 : 110);
    case 5:
        return random_unit();
    case 6: /* close to multiples of pi / 2 */
        return rint(random_unit() * (random_bits() & 1 ? 1e6 : 60)) *
               1.5707963267948966;
    case 7: /* integers */
        return random_sign(rint(exp2((wide ? 30 : 15) * (1 + random_unit()))));
    default: /* the tails of erfc */
        return random_unit() * 29;
    }
}

static const double special[] = {
    0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 4, 5, 7, 8, 10, 33, -33, 100,
    1000, 1e5, 1e10, 1e22, 0x1p127, 0x1p-126, 0x1p-149, -0x1p-149,
    0x1.fffffep127, -0x1.fffffep127, 0x1p1023, 0x1.fffffffffffffp1023,
    0x1p-1022, 0x1p-1074, -0x1p-1074, INFINITY, -INFINITY, NAN,
    /* limits of exp in float32 */
    88.7228, 88.723, -87.336, -103.97, -103.98, -104,
    /* limits of exp in float64 */
    709.78, 709.79, -745.1, -745.2, -708.4,
    0.7071067, 0.70710678118654752, 1.4142135623730951,
    1.5707963267948966, -1.5707963267948966, 3.141592653589793,
    6.283185307179586, 0x1.921fb4p22,
    0x1.6ac5b262ca1ffp849, /* the float64 number closest to a multiple of pi
                            * / 2 */
    0x1.fffffep-1, -0x1.fffffep-1, 0x1.000002p0, 0x1.fffffffffffffp-1,
    -0x1.fffffffffffffp-1, 0x1.0000000000001p0, 9.194, 10.05, 26.5, 27.2,
    0x1p24, 16777217, 0x1p31, -0x1p31, 0x1p32, 0x1p53, 0x1p63, 1.5, -1.5,
    2.5, -2.5, 127.99, 128, 129, -126, -149, -150, 1023.99, 1024, -1074,
    -1075, 1.3333333, 0.33333334, -0.33333334};
enum { SPECIALS = sizeof special / sizeof *special };

/* ---- functions applied to arrays ----------------------------------------- */

static int64_t bytes_of(tn_dtype type)
{
    return type == TN_F64 ? 8 : 4;
}

static void put(void *array, int64_t i, double x, tn_dtype type)
{
    if (type == TN_F64)
        ((double *)array)[i] = x;
    else
        ((float *)array)[i] = (float)x;
}

static double at(const void *array, int64_t i, tn_dtype type)
{
    return type == TN_F64 ? ((const double *)array)[i]
                          : (double)((const float *)array)[i];
}

static const tn_program *program_of(const struct function *f, tn_dtype type)
{
    char text[64];
    const tn_dtype dtype[2] = {type, type};
    snprintf(text, sizeof text,
             f->unary ? "f(x) = %s(x)" : "f(x, y) = %s(x, y)", f->name);
    tn__def *def = tn__def_parse(text, f->name);
    const tn__kernel *kernel = def ? tn__def_kernel(def, dtype) : NULL;
    return kernel ? tn__kernel_program(kernel) : NULL;
}

static bool run(const tn_program *program, void *const *memory, int64_t count)
{
    static const int64_t stride[1] = {1};
    tn_launch_operand operand[3] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = &count, .operand = operand};
    tn_fault fault = {.size = sizeof fault};
    return tn__interpret(program, &launch, memory, &fault) == TN_OK;
}

/* ---- errors -------------------------------------------------------------- */

static mpfr_t arg_x, arg_y, truth, difference;

static double error_of(const struct function *f, tn_dtype type, double x,
                       double y, double got)
{
    mpfr_set_d(arg_x, x, MPFR_RNDN);
    mpfr_set_d(arg_y, y, MPFR_RNDN);
    if (f->unary)
        f->unary(truth, arg_x, MPFR_RNDN);
    else
        f->binary(truth, arg_x, arg_y, MPFR_RNDN);
    if (mpfr_nan_p(truth) || isnan(got))
        return mpfr_nan_p(truth) && isnan(got) ? 0 : INFINITY;
    if (!signbit(got) != !mpfr_signbit(truth))
        return INFINITY;
    double rounded = type == TN_F64 ? mpfr_get_d(truth, MPFR_RNDN)
                                    : (double)mpfr_get_flt(truth, MPFR_RNDN);
    if (mpfr_zero_p(truth) || isinf(rounded))
        return got == rounded ? 0 : INFINITY;
    int digits = type == TN_F64 ? 53 : 24;
    int least = type == TN_F64 ? -1074 : -149;
    int end = type == TN_F64 ? 1024 : 128;
    long place = mpfr_get_exp(truth) - digits;
    if (place < least)
        place = least;
    if (isinf(got)) /* counts infinity as the number that would follow the
                     * largest finite one */
        mpfr_set_si_2exp(difference, got > 0 ? 1 : -1, end, MPFR_RNDN);
    else
        mpfr_set_d(difference, got, MPFR_RNDN);
    mpfr_sub(difference, difference, truth, MPFR_RNDN);
    mpfr_div_2si(difference, difference, place, MPFR_RNDN);
    return fabs(mpfr_get_d(difference, MPFR_RNDN));
}

struct worst {
    double error, x, y;
};

static void measure(const struct function *f, tn_dtype type,
                    void *const *array, int64_t count, struct worst *worst)
{
    for (int64_t i = 0; i < count; i++) {
        double x = at(array[0], i, type), y = 0;
        if (f->binary)
            y = at(array[1], i, type);
        double got = at(array[f->binary ? 2 : 1], i, type);
        double error = error_of(f, type, x, y, got);
        if (error >= worst->error) {
            worst->error = error;
            worst->x = x;
            worst->y = y;
        }
    }
}

/* Returns a y for which x^y is mostly finite. */
static double power_for(double x, tn_dtype type)
{
    double scale = log2(fabs(x));
    double y = random_unit() * (type == TN_F64 ? 1080 : 150) / scale;
    return isfinite(y) ? y : 1;
}

static void fill_random(const struct function *f, tn_dtype type,
                        void *const *array, int kind, int64_t samples)
{
    for (int64_t i = 0; i < samples; i++) {
        double x = random_input(kind, type);
        bool power = !strcmp(f->name, "pow");
        put(array[0], i, power && random_bits() & 7 ? fabs(x) : x, type);
        if (f->binary) {
            double y = random_input((int)(random_bits() % KINDS), type);
            if (power && random_bits() & 1)
                y = power_for(at(array[0], i, type), type);
            put(array[1], i, y, type);
        }
    }
}

static int64_t fill_special(const struct function *f, tn_dtype type,
                            void *const *array)
{
    int64_t count = 0;
    for (int i = 0; i < SPECIALS; i++)
        for (int j = 0; j < (f->binary ? SPECIALS : 1); j++, count++) {
            put(array[0], count, special[i], type);
            if (f->binary)
                put(array[1], count, special[j], type);
        }
    return count;
}

static void test_function(const struct function *f, tn_dtype type,
                          void *const *array, int64_t samples)
{
    const tn_program *program = program_of(f, type);
    const char *suffix = type == TN_F64 ? "f64" : "f32";
    if (!ok(program, "%s %s is typed", f->name, suffix)) {
        note("%s", tn_error());
        return;
    }
    struct worst random = {0}, edge = {0};
    bool ran = true;
    for (int kind = 0; kind < KINDS; kind++) {
        fill_random(f, type, array, kind, samples);
        ran = ran && run(program, array, samples);
        measure(f, type, array, samples, &random);
    }
    int64_t count = fill_special(f, type, array);
    ran = ran && run(program, array, count);
    measure(f, type, array, count, &edge);
    note("| %s | %s | %.3f | %.3f | random worst at (%a, %a), special at "
         "(%a, %a)", f->name, suffix, random.error, edge.error, random.x,
         random.y, edge.x, edge.y);
    ok(ran && random.error <= 2 && edge.error <= 2,
       "%s %s is within 2 ulp", f->name, suffix);
}

int main(int argc, char **argv)
{
    int64_t samples = argc > 1 ? strtoll(argv[1], NULL, 0) : 500;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : 20261121;
    plan_later();
    if (samples < 1 || !random_state)
        bail_out("usage: test_math [SAMPLES [SEED]], both at least 1");
    note("seed %" PRIu64 ", %" PRId64 " samples of each of %d kinds, %d "
         "special values (pairs of them)", random_state, samples, KINDS,
         SPECIALS);
    mpfr_inits2(53, arg_x, arg_y, (mpfr_ptr)NULL);
    mpfr_inits2(140, truth, difference, (mpfr_ptr)NULL);
    int64_t room = samples > SPECIALS * SPECIALS ? samples
                                                 : SPECIALS * SPECIALS;
    void *array[3];
    for (int i = 0; i < 3; i++)
        if (!(array[i] = malloc((size_t)(room * bytes_of(TN_F64)))))
            bail_out("no memory for %" PRId64 " samples", samples);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        test_function(&functions[i], TN_F32, array, samples);
        test_function(&functions[i], TN_F64, array, samples);
    }
    for (int i = 0; i < 3; i++)
        free(array[i]);
    mpfr_clears(arg_x, arg_y, truth, difference, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return done_testing();
}

#else

int main(void)
{
    plan_later();
    skip(1, "MPFR (libmpfr-dev) was not there when this was built");
    return done_testing();
}

#endif
