/* Checks samples of distributions by their moments and by the
 * Kolmogorov-Smirnov statistic, gradients of samples, and errors. (tests/golden
 * compares densities, entropies and divergences with PyTorch's.) */
#include <base/memory.h>
#include <math.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include "tap.h"

enum { COUNT = 20000 };

static tn_tensor *row(const float *x, int count)
{
    return tn_tensor_from_array(x, TN_F32, tn_dims(count));
}
#define ROW(...)                                                              \
    row((float[]){__VA_ARGS__},                                               \
        (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double normal_below(double x, double loc, double scale)
{
    return 0.5 * (1 + erf((x - loc) / scale / sqrt(2)));
}

static double uniform_below(double x, double low, double high)
{
    return fmin(fmax((x - low) / (high - low), 0), 1);
}

/* Checks samples of two columns; column k has the parameters a[k] and b[k]. */
static void check_real(const char *name, tn_distribution *d,
                       double (*below)(double x, double a, double b),
                       const double a[2], const double b[2],
                       const double mean[2], const double deviation[2])
{
    static double x[2 * COUNT], column[COUNT];
    tn_tensor *s = tn_distribution_sample(d, tn_dims(COUNT));
    ok(s && tn_tensor_ndim(s) == 2 && tn_tensor_size(s, 1) == 2 &&
           !tn_tensor_requires_grad(s),
       "%s: sample shape, then batch shape", name);
    tn_tensor_to_array(tn_to_dtype(s, TN_F64), x, sizeof x);
    for (int k = 0; k < 2; k++) {
        double sum = 0, squares = 0, farthest = 0;
        for (int i = 0; i < COUNT; i++) {
            column[i] = x[2 * i + k];
            sum += column[i];
            squares += (column[i] - mean[k]) * (column[i] - mean[k]);
        }
        qsort(column, COUNT, sizeof *column, compare);
        for (int i = 0; i < COUNT; i++) {
            const double p = below(column[i], a[k], b[k]);
            farthest = fmax(farthest, fmax(fabs(p - (double)i / COUNT),
                                           fabs(p - (i + 1.0) / COUNT)));
        }
        /* five standard errors; the seed is fixed */
        is_double_near(sum / COUNT, mean[k],
                       5 * deviation[k] / sqrt((double)COUNT), "%s: mean %d",
                       name, k);
        is_double_near(sqrt(squares / COUNT), deviation[k],
                       5 * deviation[k] / sqrt(2.0 * COUNT),
                       "%s: standard deviation %d", name, k);
        /* Kolmogorov's bound for a probability of 0.001: 1.95 / sqrt(n) */
        ok(farthest < 1.95 / sqrt((double)COUNT),
           "%s: Kolmogorov-Smirnov statistic %d is %g", name, k, farthest);
    }
}

static void test_real(void)
{
    const double loc[] = {1, -3}, scale[] = {2, 0.25};
    check_real("normal", tn_distribution_normal(ROW(1, -3), ROW(2, 0.25f)),
               normal_below, loc, scale, loc, scale);
    const double low[] = {-1, 5}, high[] = {3, 5.5};
    const double mean[] = {1, 5.25};
    const double deviation[] = {4 / sqrt(12), 0.5 / sqrt(12)};
    check_real("uniform", tn_distribution_uniform(ROW(-1, 5), ROW(3, 5.5f)),
               uniform_below, low, high, mean, deviation);
}

static void test_discrete(void)
{
    static double x[3 * COUNT];
    tn_distribution *d = tn_distribution_bernoulli(ROW(0, 0.3f, 1), NULL);
    tn_tensor_to_array(
        tn_to_dtype(tn_distribution_sample(d, tn_dims(COUNT)), TN_F64), x,
        sizeof x);
    double sum[3] = {0};
    for (int i = 0; i < 3 * COUNT; i++)
        sum[i % 3] += x[i];
    ok(sum[0] == 0 && sum[2] == COUNT, "bernoulli: certain values");
    is_double_near(sum[1] / COUNT, 0.3, 5 * sqrt(0.21 / COUNT),
                   "bernoulli: a frequency");

    tn_tensor *logits = tn_reshape(
        ROW(0, logf(2), -INFINITY, logf(5), 1, 1, 1, 1), tn_dims(2, 4));
    d = tn_distribution_categorical(NULL, logits);
    tn_tensor *s = tn_distribution_sample(d, tn_dims(COUNT / 2, 2));
    ok(s && tn_tensor_dtype(s) == TN_I64 && tn_tensor_ndim(s) == 3 &&
           tn_tensor_size(s, 2) == 2,
       "categorical: int64, sample shape, then batch shape");
    static int64_t got[2 * COUNT];
    tn_tensor_to_array(s, got, sizeof got);
    int count[2][4] = {{0}};
    for (int i = 0; i < 2 * COUNT; i++)
        count[i % 2][got[i]]++;
    const double p[2][4] = {{0.125, 0.25, 0, 0.625}, {0.25, 0.25, 0.25, 0.25}};
    for (int r = 0; r < 2; r++) {
        double chi = 0;
        for (int k = 0; k < 4; k++)
            if (p[r][k] > 0)
                chi += (count[r][k] - COUNT * p[r][k]) *
                       (count[r][k] - COUNT * p[r][k]) / (COUNT * p[r][k]);
        /* 99.9 % quantile of the chi-squared distribution with 3 degrees of
         * freedom */
        ok(chi < 16.3, "categorical: chi-squared of row %d is %g", r, chi);
    }
    is_int(count[0][2], 0, "categorical: probability 0");
    s = tn_distribution_sample(d, tn_dims(0));
    ok(s && tn_tensor_numel(s) == 0, "no samples");
    s = tn_distribution_sample(tn_distribution_categorical(ROW(1, 3), NULL),
                               TN_SCALAR);
    ok(s && tn_tensor_ndim(s) == 0, "one sample of one row is a scalar");
}

/* The gradient of a sample x with respect to scale is (x - loc) / scale, the
 * noise from which x was made. */
static void test_rsample(void)
{
    tn_tensor *loc = tn_requires_grad(ROW(1, -3));
    tn_tensor *scale = tn_requires_grad(ROW(2, 0.25f));
    tn_tensor *x = tn_distribution_rsample(tn_distribution_normal(loc, scale),
                                           TN_SCALAR);
    tn_backward(tn_sum(x));
    float at[2], by_loc[2], by_scale[2];
    tn_tensor_to_array(x, at, sizeof at);
    tn_tensor_to_array(tn_tensor_grad(loc), by_loc, sizeof by_loc);
    tn_tensor_to_array(tn_tensor_grad(scale), by_scale, sizeof by_scale);
    const float l[] = {1, -3}, s[] = {2, 0.25f};
    for (int i = 0; i < 2; i++) {
        is_double_near((double)by_loc[i], 1, 0, "normal: by loc");
        is_double_near((double)by_scale[i], (double)((at[i] - l[i]) / s[i]),
                       1e-5, "normal: by scale");
    }
    tn_tensor *low = tn_requires_grad(ROW(0)), *high = tn_requires_grad(ROW(4));
    x = tn_distribution_rsample(tn_distribution_uniform(low, high), tn_dims(1));
    tn_backward(tn_sum(x));
    is_double_near(tn_item(tn_tensor_grad(high)), tn_item(x) / 4, 1e-6,
                   "uniform: by high");
    is_double_near(tn_item(tn_tensor_grad(low)), 1 - tn_item(x) / 4, 1e-6,
                   "uniform: by low");
    tn_tensor *leaf = tn_requires_grad(ROW(0.5f));
    tn_tensor *y = tn_distribution_sample(
        tn_distribution_normal(leaf, ROW(1)), TN_SCALAR);
    ok(!tn_tensor_requires_grad(y), "a sample has no gradient");
    ok(tn_tensor_requires_grad(leaf), "and its parameter still has one");
}

/* Parameters in float64 give samples in float64, a seed determines the samples,
 * and shapes follow the parameters. */
static void test_shapes(void)
{
    tn_distribution *d = tn_distribution_normal(
        tn_zeros(tn_dims(3, 1), .dtype = TN_F64),
        tn_ones(tn_dims(2), .dtype = TN_F64));
    tn_tensor *s = tn_distribution_sample(d, tn_dims(5));
    ok(s && tn_tensor_ndim(s) == 3 && tn_tensor_size(s, 1) == 3 &&
           tn_tensor_size(s, 2) == 2 && tn_tensor_dtype(s) == TN_F64,
       "parameters broadcast, and determine the dtype");
    tn_tensor *h = tn_distribution_entropy(d);
    ok(h && tn_tensor_ndim(h) == 2, "entropies have the batch shape");
    tn_manual_seed(5);
    double one = tn_item(tn_sum(tn_distribution_sample(d, TN_SCALAR)));
    tn_manual_seed(5);
    ok(tn_item(tn_sum(tn_distribution_sample(d, TN_SCALAR))) == one,
       "a seed determines the sample");
    int64_t before = tn_scope_count();
    tn_distribution_sample(d, TN_SCALAR);
    is_int(tn_scope_count(), before + 1, "sampling leaves one object");
}

#define REFUSED(make, code, text)                                             \
    do {                                                                      \
        ok(!(make), "refused: " #make);                                       \
        is_int(tn_error_code(), code, "with %s", tn_status_name(code));       \
        is_str(tn_error(), text, "and its message");                          \
        tn_error_clear();                                                     \
    } while (0)

static void test_mistakes(void)
{
    tn_tensor *a = ROW(0, 1, 2), *b = ROW(1, 1);
    tn_tensor *whole = tn_zeros(tn_dims(3), .dtype = TN_I64);
    tn_distribution *normal = tn_distribution_normal(ROW(0, 0), b);
    tn_distribution *coin = tn_distribution_bernoulli(ROW(0.5f), NULL);
    tn_distribution *dice = tn_distribution_categorical(ROW(1, 1), NULL);
    REFUSED(tn_distribution_normal(a, b), TN_ERR_SHAPE,
            "distribution_normal: loc and scale do not broadcast: dimension 1 "
            "from the last has sizes 3 and 2");
    REFUSED(tn_distribution_uniform(whole, a), TN_ERR_DTYPE,
            "distribution_uniform: low is int64; expected a floating-point "
            "dtype");
    REFUSED(tn_distribution_normal(a, NULL), TN_ERR_ARGUMENT,
            "distribution_normal: scale is NULL");
    REFUSED(tn_distribution_bernoulli(NULL, NULL), TN_ERR_ARGUMENT,
            "distribution_bernoulli: give exactly one of probs and logits, and "
            "NULL for the other");
    REFUSED(tn_distribution_categorical(a, a), TN_ERR_ARGUMENT,
            "distribution_categorical: give exactly one of probs and logits, "
            "and NULL for the other");
    REFUSED(tn_distribution_categorical(NULL, tn_zeros(TN_SCALAR)),
            TN_ERR_SHAPE,
            "distribution_categorical: logits has no categories: expected "
            "(..., K) with a K of at least 1");
    REFUSED(tn_distribution_rsample(coin, TN_SCALAR), TN_ERR_UNSUPPORTED,
            "distribution_rsample: samples of a bernoulli distribution are not "
            "differentiable in its parameters: use tn_distribution_sample");
    REFUSED(tn_distribution_sample(normal, tn_dims(-1)), TN_ERR_SHAPE,
            "distribution_sample: sample_shape has 1 dimensions, the batch "
            "shape 1: expected sizes of at least 0 in at most 12 dimensions");
    REFUSED(tn_distribution_kl(normal, coin), TN_ERR_UNSUPPORTED,
            "distribution_kl: p is a normal distribution, q a bernoulli "
            "distribution: expected two distributions of one kind");
    REFUSED(tn_distribution_kl(normal, NULL), TN_ERR_ARGUMENT,
            "distribution_kl: q is NULL");
    REFUSED(tn_distribution_log_prob(dice, b), TN_ERR_DTYPE,
            "distribution_log_prob: value is float32; a categorical "
            "distribution expects integers");
    REFUSED(tn_distribution_entropy(NULL), TN_ERR_ARGUMENT,
            "distribution_entropy: distribution is NULL");
    ok(!tn_distribution_log_prob(normal, a), "a value of another shape");
    is_int(tn_error_code(), TN_ERR_SHAPE, "is refused: %s", tn_error());
    tn_error_clear();
    ok(!tn_distribution_log_prob(
           dice, tn_full(tn_dims(1), 2, .dtype = TN_I64)) ||
           tn_device_synchronize(tn_device_current()) < 0,
       "a category that does not exist");
    is_int(tn_error_code(), TN_ERR_INDEX, "is refused: %s", tn_error());
    tn_error_clear();
    tn_error_set(TN_ERR_IO, "a batch is gone");
    ok(!tn_distribution_normal(b, b) && !tn_distribution_entropy(normal) &&
           !tn_distribution_bernoulli(NULL, b),
       "nothing is made while an error is pending");
    tn_error_clear();
}

/* Creates and uses every distribution; test_memory makes each of its
 * allocations fail in turn. */
static tn_tensor *use_all(void)
{
    tn_distribution *d[] = {
        tn_distribution_normal(ROW(0, 1), ROW(1, 2)),
        tn_distribution_uniform(ROW(0, 1), ROW(1, 2)),
        tn_distribution_bernoulli(ROW(0.5f), NULL),
        tn_distribution_categorical(NULL, ROW(1, 2))};
    tn_tensor *x = NULL;
    for (int i = 0; i < 4 && !tn_error(); i++) {
        x = tn_distribution_sample(d[i], tn_dims(3));
        tn_distribution_entropy(d[i]);
        tn_distribution_kl(d[i], d[i]);
        x = x ? tn_distribution_log_prob(d[i], x) : NULL;
    }
    return x;
}

static void test_memory(void)
{
    use_all();
    int failures = 0, wrong = 0;
    for (int n = 1; n < 5000; n++) {
        int64_t before = tn__memory_count();
        tn_scope *scope = tn_scope_open();
        tn__memory_fail_at(n);
        tn_tensor *x = scope ? use_all() : NULL;
        bool failed = tn_error() != NULL;
        bool reached = failed || tn__memory_count() - before >= n;
        tn__memory_fail_at(0);
        wrong += failed && (x || tn_error_code() != TN_ERR_MEMORY);
        tn_scope_close(scope);
        tn_error_clear();
        if (!reached)
            break;
        failures++;
    }
    ok(failures > 20 && !wrong, "%d allocations failed, %d without an error",
       failures, wrong);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    tn_manual_seed(1);
    test_real();
    test_discrete();
    test_rsample();
    test_shapes();
    test_mistakes();
    test_memory();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
