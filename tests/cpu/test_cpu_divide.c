/* Tests divisions of many numbers by the same number. The cpu plugin replaces
 * them by multiplications if those give identical bits. Compares them with C's
 * division, for every instruction set. */
#include <math.h>

#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/simd/routines.h"
#include "isa_here.h"

enum { COUNT = 4096 + 77, EACH_KIND = 200 };

static uint64_t random_state = 20261122;

static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static double power(int low, int high)
{
    return exp2(low + (double)(random_bits() % (uint64_t)(high - low + 1)));
}

/* Returns a mantissa in [1, 2), sometimes the largest of float or double. */
static double mantissa(void)
{
    double x = 1 + (double)(random_bits() >> 11) * 0x1p-53;
    uint64_t kind = random_bits() % 8;
    return kind == 0 ? 2 - 0x1p-23 : kind == 1 ? 2 - 0x1p-52 : x;
}

/* Draws a number. Kind 0: of a magnitude for which quotients are normal
 * numbers; kind 1: also zeros; kind 2: also arbitrary bits, rarely; kind 3:
 * arbitrary bits. */
static double number(int kind, int limit)
{
    uint64_t bits = random_bits();
    double any, sign = bits & 1 ? -1 : 1;
    memcpy(&any, &bits, sizeof any);
    if (kind == 3 || (kind == 2 && bits % 512 == 0))
        return limit > 200 ? any : any * 0x1p-300;
    if (kind == 1 && bits % 4 == 0)
        return sign * 0.0;
    return sign * mantissa() * power(-limit, limit);
}

static void test_f32(const tn_cpu_routines *r, const char *isa)
{
    static float x[COUNT], got[COUNT];
    int64_t wrong = 0, odd = 0;
    for (int i = 0; i < 4 * EACH_KIND; i++) {
        float y = (float)number(i / 4 % 4, 45);
        for (int k = 0; k < COUNT; k++)
            x[k] = (float)number(i % 4, i % 3 ? 75 : 90);
        r->op[TN_K_DIV][CPU_F32](got, x, &y, NULL, COUNT - i % 64, 2);
        for (int k = 0; k < COUNT - i % 64; k++) {
            volatile float want = x[k] / y;
            float w = want;
            odd += isnan(w) || isinf(w) || fabsf(w) < 0x1p-126f;
            wrong += memcmp(&w, &got[k], sizeof w) &&
                     !(isnan(w) && isnan(got[k]));
        }
    }
    ok(odd > 0, "%s: some quotients are no normal f32", isa);
    is_int(wrong, 0, "%s: f32 by one number is divided", isa);
}

static void test_f64(const tn_cpu_routines *r, const char *isa)
{
    static double x[COUNT], got[COUNT];
    int64_t wrong = 0, odd = 0;
    for (int i = 0; i < 4 * EACH_KIND; i++) {
        double y = number(i / 4 % 4, 420);
        for (int k = 0; k < COUNT; k++)
            x[k] = number(i % 4, i % 3 ? 499 : 520);
        r->op[TN_K_DIV][CPU_F64](got, x, &y, NULL, COUNT - i % 64, 2);
        for (int k = 0; k < COUNT - i % 64; k++) {
            volatile double want = x[k] / y;
            double w = want;
            odd += isnan(w) || isinf(w) || fabs(w) < 0x1p-1022;
            wrong += memcmp(&w, &got[k], sizeof w) &&
                     !(isnan(w) && isnan(got[k]));
        }
    }
    ok(odd > 0, "%s: some quotients are no normal f64", isa);
    is_int(wrong, 0, "%s: f64 by one number is divided", isa);
}

static void test_set(const char *isa, void (*fill)(tn_cpu_routines *))
{
    static const tn_cpu_family family = {.wide = 1};
    static tn_cpu_routines routines;
    if (!is_here(isa)) {
        skip(4, "this machine cannot run the set");
        return;
    }
    routines.family = &family;
    fill(&routines);
    test_f32(&routines, isa);
    test_f64(&routines, isa);
}

int main(void)
{
    plan_later();
    test_set("generic", tn__cpu_arith__generic);
#if defined(__x86_64__)
    test_set("v3", tn__cpu_arith__v3);
    test_set("v4", tn__cpu_arith__v4);
#endif
    return done_testing();
}
