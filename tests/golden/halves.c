/* halves.c: compares operators in float16 and bfloat16 with float64.
 *
 *     halves [DIR [EVERY]]        every EVERYth (1) float32 sample of each file
 *
 * A sample's floating-point inputs are rounded to the half type. The operator
 * runs in that type and, on the same rounded values, in float64. Each element
 * of the half result must be within 1 unit in the last place (of the half type,
 * at the float64 value), or within 2 if the result has fewer elements than an
 * input, because it is then a reduction. Otherwise wider_halves.def must list
 * the operator with a reason: with a wider bound or, if float32 sums cancel,
 * with an error of a millionth of the largest element, as in compare.c.
 * Gradients are not compared, because they depend on the rounded result. Prints
 * counts. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RESULTS = 96 };

/* ---- inputs ------------------------------------------------------------- */

static tn_dtype half, wide;

/* ---- distance of results ------------------------------------------------- */

/* Returns the spacing of the half type's numbers at this magnitude. */
static double unit_at(double magnitude)
{
    int digits = half == TN_F16 ? 10 : 7;
    int lowest = half == TN_F16 ? -14 : -126, exponent;
    frexp(magnitude, &exponent);
    if (magnitude == 0 || exponent - 1 < lowest)
        exponent = lowest + 1;
    return ldexp(1, exponent - 1 - digits);
}

/* Returns the distance of got and want in units in the last place of the half
 * type. want is rounded if it is outside that type's range. */
static double ulps(double got, double want)
{
    double most = half == TN_F16 ? 65504 : 3.3895313892515355e38;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (fabs(want) > most) {
        double edge = most + unit_at(most) / 2;
        want = fabs(want) >= edge ? copysign(INFINITY, want)
                                  : copysign(most, want);
    }
    if (got == want)
        return 0;
    if (isinf(got) != isinf(want)) /* one is beyond the largest number, the
                                    * other is not */
        return fabs(fabs(isinf(got) ? want : got) - most) == 0 ? 1 : INFINITY;
    if (isinf(got))
        return INFINITY;
    return fabs(got - want) / unit_at(want);
}

/* Returns the elements of x, which the caller frees; NULL if x does not have
 * `count` elements. */
static double *elements(tn_tensor *x, int64_t count)
{
    size_t bytes = (size_t)count * sizeof(double);
    double *out = malloc(bytes + 1);
    if (out && (!x || tn_tensor_numel(x) != count ||
                tn_tensor_to_array(tn_to_dtype(x, TN_F64), out, bytes))) {
        free(out);
        out = NULL;
    }
    return out;
}

/* Operators with larger allowed errors, and the reasons. */
enum { UNITS, WHOLE, CANCELS };
static const struct wider {
    const char *op;
    int kind;
    double bound;
    const char *reason;
} wider[] = {
#define WIDER(op, bound, reason) {op, UNITS, bound, reason},
#define WHOLE(op, bound, reason) {op, WHOLE, bound, reason},
#define CANCELS(op, reason) {op, CANCELS, 0, reason},
#include "wider_halves.def"
#undef CANCELS
#undef WHOLE
#undef WIDER
};

static const struct wider *listed(const char *name)
{
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        if (strcmp(wider[i].op, name) == 0)
            return &wider[i];
    return NULL;
}

/* Returns the largest distance of an element in units. */
static double worst_of(tn_tensor *got, tn_tensor *want)
{
    int64_t count = tn_tensor_numel(got);
    double *a = elements(got, count), *b = elements(want, count), worst = 0;
    if (!a || !b)
        worst = INFINITY;
    for (int64_t i = 0; i < count && worst < INFINITY; i++)
        worst = fmax(worst, ulps(a[i], b[i]));
    free(a);
    free(b);
    return worst;
}

/* Returns whether each element is within the units, or allowed by the
 * exceptions. */
static bool may_be(const struct wider *w, double units, tn_tensor *got,
                   tn_tensor *want)
{
    int64_t count = tn_tensor_numel(got);
    double *a = elements(got, count), *b = elements(want, count);
    double lost = 1e-6 * golden_greatest(want);
    bool good = a && b;
    for (int64_t i = 0; good && i < count; i++) {
        double off = fabs(a[i] - b[i]);
        good = ulps(a[i], b[i]) <= units ||
               (w->kind == WHOLE
                    ? rint(a[i]) == a[i] && rint(b[i]) == b[i] && off <= w->bound
                    : off <= lost + units * unit_at(b[i]));
    }
    free(a);
    free(b);
    return good;
}

/* ---- loop over samples --------------------------------------------------- */

static int64_t largest; /* number of elements of the largest input */

/* Returns x rounded to the half type, then converted to the dtype `wide`. */
static tn_tensor *rounded(tn_tensor *x)
{
    if (x && tn_tensor_numel(x) > largest)
        largest = tn_tensor_numel(x);
    if (!x || !tn_dtype_is_floating(tn_tensor_dtype(x)))
        return x;
    return tn_clone(tn_to_dtype(tn_to_dtype(x, half), wide));
}

static struct counts {
    long half_ulp, one, two, wider, failed; /* numbers of results, by their
                                             * worst element */
    long refused; /* number of samples that one of the two dtypes does not
                   * support */
    long other;   /* number of results of another dtype */
} counts;

static void count(const char *name, size_t number, double worst, double units,
                  bool listed)
{
    if (!(worst <= units) && !listed) {
        if (counts.failed++ < 20)
            printf("# %s: %s, sample %zu: %.4g units, %g are allowed\n",
                   tn_dtype_name(half), name, number, worst, units);
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

/* Computes the results in dtype. Returns their number; below 0 if the call is
 * rejected. */
static int run(tn_safetensors *file, const json_t *json, const char *name,
               tn_dtype dtype, tn_rng_state start, tn_tensor **result)
{
    char why[400] = "";
    wide = dtype;
    tn_rng_restore(start);
    return op_sample_results(file, json, name, rounded, result, MOST_RESULTS,
                             why, sizeof why);
}

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype || strcmp(dtype, "float32") != 0)
        return;
    tn_tensor *got[MOST_RESULTS], *want[MOST_RESULTS];
    json_t *plain = json_copy((json_t *)json);
    json_object_del(plain, "diff_outs"); /* no gradients are computed */
    json_object_del(plain, "grads");
    tn_rng_state start = tn_rng_snapshot();
    const struct wider *w = listed(name);
    largest = 0;
    int wanted = run(file, plain, name, TN_F64, start, want);
    int filled = run(file, plain, name, half, start, got);
    if (wanted < 0 || filled != wanted)
        counts.refused++;
    for (int i = 0; i < wanted && filled == wanted; i++) {
        if (tn_tensor_dtype(got[i]) != half) {
            counts.other++;
            continue;
        }
        double worst = worst_of(got[i], want[i]);
        double units = tn_tensor_numel(got[i]) < largest ? 2 : 1;
        bool passes = worst > units && w &&
                      (w->kind == UNITS ? worst <= w->bound
                                        : may_be(w, units, got[i], want[i]));
        count(name, number, worst, units, passes);
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
        printf("# listed: %s: %s\n", wider[i].op, wider[i].reason);
    return failed;
}
