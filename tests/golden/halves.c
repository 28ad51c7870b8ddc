/* halves.c: operators in f16 and bf16 beside f64.
 *
 *     halves [DIR [EVERY]]        each EVERYth float32 sample of each file: 1
 *
 * A sample's floating inputs are rounded to the half type; the operator runs in
 * that type and, on the same rounded values, in f64. Each element of the half
 * result lies within 1 unit in the last place (of the type, at the f64 value) of
 * that; within 2 where the result has fewer elements than an input, so that it
 * was folded. What lies beyond fails, unless wider_halves.def has the operator
 * with its bound and the reason. Gradients are not compared: those of a half
 * result begin from its rounding. Prints counts. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RESULTS = 96 };

/* ---- inputs ------------------------------------------------------------- */

static tn_dtype half, wide;

/* ---- distance ------------------------------------------------------------ */

/* Units in the last place of half between got and want, where want is rounded
 * beyond what half holds. */
static double ulps(double got, double want)
{
    int digits = half == TN_F16 ? 10 : 7;
    int lowest = half == TN_F16 ? -14 : -126;
    double most = half == TN_F16 ? 65504 : 3.3895313892515355e38;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (fabs(want) > most) {
        double edge = most + ldexp(0.5, (half == TN_F16 ? 15 : 127) - digits);
        want = fabs(want) >= edge ? copysign(INFINITY, want)
                                  : copysign(most, want);
    }
    if (got == want)
        return 0;
    if (isinf(got) != isinf(want)) /* one side of the edge */
        return fabs(fabs(isinf(got) ? want : got) - most) == 0 ? 1 : INFINITY;
    if (isinf(got))
        return INFINITY;
    int exponent;
    frexp(want, &exponent);
    if (want == 0 || exponent - 1 < lowest)
        exponent = lowest + 1;
    return fabs(got - want) / ldexp(1, exponent - 1 - digits);
}

static double worst_of(tn_tensor *got, tn_tensor *want)
{
    int64_t count = tn_tensor_numel(got);
    size_t bytes = (size_t)count * sizeof(double);
    double *a = malloc(bytes + 1), *b = malloc(bytes + 1), worst = 0;
    if (count != tn_tensor_numel(want) || !a || !b ||
        tn_tensor_to_array(tn_to_dtype(got, TN_F64), a, bytes) ||
        tn_tensor_to_array(tn_to_dtype(want, TN_F64), b, bytes))
        worst = INFINITY;
    for (int64_t i = 0; i < count && worst < INFINITY; i++)
        worst = fmax(worst, ulps(a[i], b[i]));
    free(a);
    free(b);
    return worst;
}

static const struct wider {
    const char *op;
    double bound;
    const char *reason;
} wider[] = {
#define WIDER(op, bound, reason) {op, bound, reason},
#include "wider_halves.def"
#undef WIDER
};

static double bound_of(const char *name, bool folded)
{
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        if (strcmp(wider[i].op, name) == 0)
            return wider[i].bound;
    return folded ? 2 : 1;
}

/* ---- the walk ------------------------------------------------------------ */

static int64_t largest; /* elements of an input */

/* Rounded to half, then given the dtype `wide`. */
static tn_tensor *rounded(tn_tensor *x)
{
    if (x && tn_tensor_numel(x) > largest)
        largest = tn_tensor_numel(x);
    if (!x || !tn_dtype_is_floating(tn_tensor_dtype(x)))
        return x;
    return tn_clone(tn_to_dtype(tn_to_dtype(x, half), wide));
}

static struct counts {
    long half_ulp, one, two, wider, failed; /* results, by their worst element */
    long refused; /* samples that one of the two dtypes does not have */
    long other;   /* results of another dtype */
} counts;

static void count(const char *name, size_t number, double worst, bool folded)
{
    if (!(worst <= bound_of(name, folded))) {
        if (counts.failed++ < 20)
            printf("# %s: %s, sample %zu: %.4g units, %g are allowed\n",
                   tn_dtype_name(half), name, number, worst,
                   bound_of(name, folded));
    } else if (worst <= 0.5) {
        counts.half_ulp++;
    } else if (worst <= 1) {
        counts.one++;
    } else if (worst <= 2) {
        counts.two++;
    } else {
        counts.wider++;
    }
}

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype || strcmp(dtype, "float32") != 0)
        return;
    tn_tensor *got[MOST_RESULTS], *want[MOST_RESULTS];
    char why[400] = "";
    json_t *plain = json_copy((json_t *)json);
    json_object_del(plain, "diff_outs"); /* no gradients */
    json_object_del(plain, "grads");
    tn_rng_state start = tn_rng_state_get();
    largest = 0;
    wide = TN_F64;
    int wanted = op_sample_results(file, plain, name, rounded, want,
                                   MOST_RESULTS, why, sizeof why);
    tn_rng_state_set(start);
    wide = half;
    int filled = op_sample_results(file, plain, name, rounded, got,
                                   MOST_RESULTS, why, sizeof why);
    if (wanted < 0 || filled != wanted)
        counts.refused++;
    for (int i = 0; i < wanted && filled == wanted; i++) {
        if (tn_tensor_dtype(got[i]) == half)
            count(name, number, worst_of(got[i], want[i]),
                  tn_tensor_numel(got[i]) < largest);
        else
            counts.other++;
    }
    json_decref(plain);
    tn_error_clear();
}

int main(int argc, char **argv)
{
    size_t every = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 1;
    printf("1..2\n");
    bool failed = false;
    for (int k = 0; k < 2; k++) {
        half = k ? TN_BF16 : TN_F16;
        counts = (struct counts){0};
        if (!golden_each_sample(argc > 1 ? argv[1] : NULL, every, one_sample,
                                NULL))
            return 1;
        bool good = !counts.failed && counts.half_ulp;
        printf("%s %d - %s beside float64: %ld results within half a unit, "
               "%ld within 1, %ld within 2, %ld within what is listed, %ld "
               "failed; %ld samples refused, %ld results of another dtype\n",
               good ? "ok" : "not ok", k + 1, tn_dtype_name(half),
               counts.half_ulp, counts.one, counts.two, counts.wider,
               counts.failed, counts.refused, counts.other);
        failed = failed || !good;
    }
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        printf("# listed: %s within %g: %s\n", wider[i].op, wider[i].bound,
               wider[i].reason);
    return failed;
}
