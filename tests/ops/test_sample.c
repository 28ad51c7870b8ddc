/* test_sample.c: checks that random samples have the distribution that tensors
 * of weights or probabilities define, and that wrong weights are rejected.
 * Tolerances are five standard deviations. */
#include <math.h>
#include <tap.h>
#include <tenon/ops.h>
#include <tenon/random.h>

enum { DRAWS = 100000 };

static void refused(const void *got, tn_status code, const char *want)
{
    is_int(tn_error_code(), code, "the code of: %s", want);
    is_str(got ? "(a result)" : tn_error(), want, "%s", want);
    tn_error_clear();
}

/* Checks the share `got` of DRAWS draws, whose probability is p. */
static void is_share(double got, double p, const char *what)
{
    double bound = 5 * sqrt(p * (1 - p) / DRAWS);
    ok(fabs(got / DRAWS - p) <= bound, "%s: %.4f of the draws, %.4f +- %.4f",
       what, got / DRAWS, p, bound);
}

/* The weights w are 0, 1, 2 and 7. */
static void test_multinomial(tn_tensor *w)
{
    static const double share[] = {0, 0.1, 0.2, 0.7};
    tn_tensor *drawn =
        tn_multinomial(w, DRAWS, .replacement = true);
    is_int(tn_tensor_dtype(drawn), TN_I64, "places are int64");
    for (int k = 0; k < 4; k++) {
        char what[32];
        snprintf(what, sizeof what, "place %d", k);
        is_share(tn_item(tn_sum(tn_eq_scalar(drawn, k))), share[k], what);
    }
    tn_tensor *rows = tn_expand(w, tn_dims(DRAWS, 4));
    tn_tensor *pairs = tn_multinomial(rows, 2);
    is_int(tn_tensor_size(pairs, 1), 2, "two of each row");
    tn_tensor *first = tn_select(pairs, 1, 0), *second = tn_select(pairs, 1, 1);
    is_int(tn_item_int(tn_any(tn_eq(first, second))), 0,
           "without replacement no index is drawn twice");
    is_share(tn_item(tn_sum(tn_eq_scalar(first, 3))), 0.7, "3 comes first");
    /* element 1 after element 2: 0.2 * 0.1 / 0.8; after element 3: 0.7 * 0.1 /
     * 0.3 */
    is_share(tn_item(tn_sum(tn_eq_scalar(second, 1))),
             0.2 * 0.1 / 0.8 + 0.7 * 0.1 / 0.3, "1 comes second");
}

static void test_others(void)
{
    tn_tensor *half = tn_full(tn_dims(DRAWS), 0.25);
    is_share(tn_item(tn_sum(tn_bernoulli(half))), 0.25, "bernoulli");
    tn_tensor *x = tn_normal(tn_full(tn_dims(DRAWS), 3.0), half);
    double mean = tn_item(tn_mean(x));
    ok(fabs(mean - 3) < 5 * 0.25 / sqrt(DRAWS), "normal: mean %.4f", mean);
    tn_tensor *d = tn_sub_scalar(x, 3);
    double var = tn_item(tn_mean(tn_mul(d, d)));
    ok(fabs(var / 0.0625 - 1) < 5 * sqrt(2.0 / DRAWS), "normal: variance %.5f",
       var);
    mean = tn_item(tn_mean(tn_rand_like(x)));
    ok(fabs(mean - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS), "rand_like: mean %.4f",
       mean);
    mean = tn_item(tn_mean(tn_randn_like(x)));
    ok(fabs(mean) < 5 / sqrt(DRAWS), "randn_like: mean %.4f", mean);
}

static void test_mistakes(tn_tensor *w)
{
    refused(tn_multinomial(tn_neg(w), 1), TN_ERR_ARGUMENT,
            "multinomial: input has weights below 0, infinite or NaN; expected "
            "finite numbers of at least 0");
    refused(tn_multinomial(w, 4), TN_ERR_ARGUMENT,
            "multinomial: a row of input has 3 weights above 0, too few "
            "to draw 4 samples without replacement");
    refused(tn_multinomial(tn_zeros(tn_dims(2, 3)), 1, .replacement = true),
            TN_ERR_ARGUMENT,
            "multinomial: a row of input has 0 weights above 0, too few "
            "to draw 1 samples");
    refused(tn_multinomial(w, 0), TN_ERR_ARGUMENT,
            "multinomial: num_samples is 0; expected at least 1");
    refused(tn_multinomial(tn_ones(tn_dims(2, 2, 2)), 1), TN_ERR_SHAPE,
            "multinomial: input has shape (2, 2, 2); expected (C) or (N, C) "
            "with a C of at least 1");
    is_int(tn_tensor_size(tn_multinomial(w, 3), 0), 3, "the next call works");
}

int main(void)
{
    plan_later();
    note("seed 7");
    tn_manual_seed(7);
    float weight[] = {0, 1, 2, 7};
    tn_tensor *w = tn_tensor_from_array(weight, TN_F32, tn_dims(4));
    test_multinomial(w);
    test_others();
    test_mistakes(w);
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
