/* test_narrow.c: tests results and gradients that once lost digits: in a
 * float32 intermediate between float64 numbers, in a half type or float32 by
 * cancellation, or by rounding arguments differently from PyTorch. */
#include <math.h>
#include <string.h>
#include <tap.h>
#include <tenon/tenon.h>

enum { MOST = 4096 };

/* Stores the elements of x as float64 and returns their number; negative on an
 * error. */
static int64_t read(tn_tensor *x, double *value)
{
    if (!x || tn_tensor_numel(x) > MOST)
        return -1;
    size_t bytes = (size_t)tn_tensor_numel(x) * sizeof *value;
    return tn_tensor_to_array(tn_to_dtype(tn_detach(x), TN_F64), value,
                              bytes) < 0
               ? -1
               : tn_tensor_numel(x);
}

/* Checks that x equals want, within `share` times want's largest element. */
static void near(tn_tensor *x, tn_tensor *want, double share, const char *what)
{
    static double a[MOST], b[MOST];
    int64_t count = read(x, a);
    bool good = count >= 0 && read(want, b) == count;
    double most = 0, far = 0;
    for (int64_t i = 0; good && i < count; i++) {
        most = fmax(most, fabs(b[i]));
        far = fmax(far, isnan(a[i]) ? INFINITY : fabs(a[i] - b[i]));
    }
    if (!ok(good && far <= share * most, "%s", what))
        note("%g away, the greatest is %g: %s", far, most,
             tn_error() ? tn_error() : "");
    tn_error_clear();
}

static tn_tensor *numbers(tn_dtype dtype, int count, const double *value)
{
    return tn_to_dtype(tn_tensor_from_array(value, TN_F64, tn_dims(count)),
                       dtype);
}
#define NUMBERS(dtype, ...)                                                   \
    numbers(dtype, (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)),     \
            (const double[]){__VA_ARGS__})

static tn_tensor *leaf(tn_tensor *x)
{
    return tn_requires_grad(tn_detach(x));
}

/* Returns the gradient by x of the sum of squares of out. */
static tn_tensor *gradient(tn_tensor *out, tn_tensor *x)
{
    return tn_backward(tn_sum(tn_square(out))) < 0 ? NULL : tn_tensor_grad(x);
}

/* The squared distances of these numbers from their mean, 2.35, sum to 55.7. */
static void test_corrections(void)
{
    tn_tensor *x =
        tn_requires_grad(NUMBERS(TN_F64, 1, 2.5, -3, 4.25, 7));
    double var = 55.7 / 3.7;
    near(tn_var(x, .correction = 1.3), NUMBERS(TN_F64, var), 1e-15,
         "var, float64: correction is no float32");
    near(tn_std(x, .correction = 1.3), NUMBERS(TN_F64, sqrt(var)), 1e-15,
         "std, likewise");
    tn_tensor *mean;
    near(tn_var_mean(x, &mean, .correction = 1.3), NUMBERS(TN_F64, var), 1e-15,
         "var_mean, likewise");
    tn_tensor *g = gradient(tn_sqrt(tn_var(x, .correction = 1.3)), x);
    near(g, NUMBERS(TN_F64, -2.7 / 3.7, .3 / 3.7, -10.7 / 3.7, 3.8 / 3.7,
                    9.3 / 3.7),
         1e-14, "var's gradient, likewise");
}

/* Computes a loss in bfloat16, and in float64 for the same inputs. */
static void test_losses(void)
{
    tn_tensor *x = tn_to_dtype(tn_mul_scalar(tn_randn(tn_dims(4, 6, 8)), 5),
                               TN_BF16);
    tn_tensor *y = tn_to_dtype(tn_randint(0, 6, tn_dims(4, 8)), TN_I64);
    tn_tensor *w = tn_to_dtype(tn_rand(tn_dims(6)), TN_BF16);
    tn_tensor *wide = tn_to_dtype(x, TN_F64), *ww = tn_to_dtype(w, TN_F64);
    tn_tensor *w0 = tn_to_dtype(tn_randn(tn_dims(8)), TN_BF16);
    tn_tensor *ww0 = tn_to_dtype(w0, TN_F64);
    static const char *const reduction[] = {"none", "sum", "mean"};
    for (int i = 0; i < 3; i++) {
        near(tn_nll_loss(x, y, .weight = w, .reduction = reduction[i]),
             tn_nll_loss(wide, y, .weight = ww, .reduction = reduction[i]),
             1.0 / 256, "nll_loss in bfloat16 rounds once");
        near(tn_cross_entropy(x, y, .weight = w, .reduction = reduction[i]),
             tn_cross_entropy(wide, y, .weight = ww,
                              .reduction = reduction[i]),
             1.0 / 256, "cross_entropy, likewise");
        near(tn_poisson_nll_loss(x, w0, .reduction = reduction[i]),
             tn_poisson_nll_loss(wide, ww0, .reduction = reduction[i]),
             1.0 / 256, "poisson_nll_loss, likewise");
    }
}

static tn_tensor *ctc_gradient(tn_tensor *logits, tn_tensor *target)
{
    tn_tensor *x = leaf(logits);
    tn_tensor *times = tn_full(tn_dims(2), 50, .dtype = TN_I64);
    tn_tensor *lengths = tn_full(tn_dims(2), 20, .dtype = TN_I64);
    return gradient(tn_ctc_loss(tn_log_softmax(x, 2), target, times, lengths,
                                .reduction = "sum"), x);
}

static void test_gradients(void)
{
    tn_tensor *x = tn_randn(tn_dims(50, 2, 20));
    tn_tensor *y = tn_to_dtype(tn_randint(1, 20, tn_dims(2, 20)), TN_I64);
    near(ctc_gradient(x, y), ctc_gradient(tn_to_dtype(x, TN_F64), y), 2e-6,
         "ctc_loss: gradient of 50 steps in float32");

    tn_tensor *a = tn_reshape(NUMBERS(TN_F32, 1, 1, 3, -2, 1, 1.001, 5, 2),
                              tn_dims(2, 4));
    tn_tensor *narrow = leaf(a), *wide = leaf(tn_to_dtype(a, TN_F64));
    tn_tensor *r = NULL, *rw = NULL;
    bool both = tn_linalg_qr(narrow, &r) && tn_linalg_qr(wide, &rw);
    near(both ? gradient(r, narrow) : NULL, both ? gradient(rw, wide) : NULL,
         1e-6, "linalg_qr: what flows back through R meets no R^-1");

    tn_tensor *w = tn_requires_grad(NUMBERS(TN_F32, .2598441839, .3666413426));
    x = tn_reshape(NUMBERS(TN_F32, -8.47, -1.76, -4.32, -2.4, -7.95, 3.61),
                   tn_dims(3, 2));
    tn_tensor *g = gradient(tn_cov(x, .aweights = w), w);
    near(tn_add_scalar(g, 1), NUMBERS(TN_F32, 1, 1), 1e-7,
         "cov: two observations weigh nothing");
    x = tn_reshape(NUMBERS(TN_F64, -4.82, -7.58, -.6, -1.54, -1.97, -4.14),
                   tn_dims(2, 3));
    w = NUMBERS(TN_F32, .3666413426, .0583007336, .7006447315);
    near(tn_cov(x, .correction = 2, .aweights = w),
         tn_cov(x, .correction = 2, .aweights = tn_to_dtype(w, TN_F64)), 0,
         "cov of float64 by float32 weights");
}

/* Checks that each element of x, of a half type, is the element of wide,
 * rounded once. */
static void rounded_once(tn_tensor *x, tn_tensor *wide, const char *what)
{
    bool f16 = x && tn_tensor_dtype(x) == TN_F16;
    wide = wide ? tn_detach(wide) : NULL;
    x = x ? tn_to_dtype(tn_detach(x), TN_F64) : NULL;
    tn_tensor *off = tn_div(tn_sub(x, wide), /* 1e-3, because subnormal
                                              * float16 numbers have a
                                              * spacing of 6e-8 */
                            tn_add_scalar(tn_abs(wide), 1e-3));
    near(tn_add_scalar(off, 1), off ? tn_ones_like(off) : NULL,
         ldexp(1.01, f16 ? -11 : -8), what);
}

/* Checks that the gradient of f in half types is the float64 gradient, rounded
 * once. */
static void sums_once(tn_tensor *(*f)(tn_tensor *x), tn_tensor *x,
                      const char *what)
{
    static const tn_dtype half[] = {TN_F16, TN_BF16};
    for (int k = 0; k < 2; k++) {
        tn_tensor *narrow = leaf(tn_to_dtype(x, half[k]));
        tn_tensor *wide = leaf(tn_to_dtype(narrow, TN_F64));
        tn_tensor *y = f(narrow), *z = f(wide);
        /* the same incoming gradients, rounded to the half type */
        tn_tensor *g = tn_to_dtype(tn_randn_like(tn_detach(y)), half[k]);
        bool both = tn_backward(tn_sum(tn_mul(y, g))) >= 0 &&
                    tn_backward(tn_sum(tn_mul(z, tn_to_dtype(g, TN_F64)))) >= 0;
        rounded_once(both ? tn_tensor_grad(narrow) : NULL,
                     both ? tn_tensor_grad(wide) : NULL, what);
    }
}

/* Returns numbers that look random, rounded to bfloat16. */
static tn_tensor *waves(tn_dims_list shape, tn_dtype dtype)
{
    tn_tensor *x = tn_sin(tn_reshape(tn_arange(0, 4200, 1), shape));
    return tn_to_dtype(tn_to_dtype(x, TN_BF16), dtype);
}

static tn_tensor *scaled(tn_tensor *x)
{
    return tn_mul(x, waves(tn_dims(600, 7), tn_tensor_dtype(x)));
}

static tn_tensor *gathered(tn_tensor *x)
{
    return tn_gather(x, 0, tn_to_dtype(tn_zeros(tn_dims(600)), TN_I64));
}

static tn_tensor *chosen(tn_tensor *x)
{
    return tn_index_select(x, 0, tn_to_dtype(tn_zeros(tn_dims(600)), TN_I64));
}

static tn_tensor *embedded(tn_tensor *x)
{
    return tn_embedding(tn_to_dtype(tn_zeros(tn_dims(600)), TN_I64),
                        tn_reshape(x, tn_dims(-1, 7)));
}

static tn_tensor *seen_often(tn_tensor *x)
{
    return tn_as_strided(x, tn_dims(300, 2), tn_dims(0, 1));
}

static tn_tensor *tiled(tn_tensor *x)
{
    return tn_tile(tn_reshape(x, tn_dims(7, 43)), tn_dims(20, 3, 11));
}

static tn_tensor *mirrored(tn_tensor *x)
{
    return tn_pad(tn_reshape(tn_narrow(x, 0, 0, 300), tn_dims(1, 3, 10, 10)),
                  tn_dims(9, 9, 9, 9), .mode = "reflect");
}

static tn_tensor *pooled(tn_tensor *x)
{
    return tn_max_pool3d(
        tn_reshape(tn_narrow(x, 0, 0, 300), tn_dims(1, 1, 3, 10, 10)),
        tn_dims(3, 9, 9), .strides = tn_dims(1, 1, 1),
        .paddings = tn_dims(1, 4, 4));
}

/* Broadcasts the left matrix over a batch. */
static tn_tensor *multiplied(tn_tensor *x)
{
    return tn_matmul(tn_reshape(x, tn_dims(43, 7)),
                     waves(tn_dims(100, 7, 6), tn_tensor_dtype(x)));
}

static void test_sums_of_halves(void)
{
    tn_manual_seed(5);
    tn_tensor *x = tn_randn(tn_dims(301));
    sums_once(scaled, tn_narrow(x, 0, 0, 7),
              "mul: a broadcast factor's gradient rounds once");
    sums_once(gathered, x, "gather, one element 600 times: likewise");
    sums_once(chosen, x, "index_select, likewise");
    sums_once(embedded, x, "embedding, likewise");
    sums_once(seen_often, x, "as_strided over one place 300 times, likewise");
    sums_once(tiled, x, "tile over three dimensions, likewise");
    sums_once(mirrored, x, "pad by reflections of two dimensions, likewise");
    sums_once(pooled, x, "max_pool3d, likewise");
    sums_once(multiplied, x, "matmul of one matrix with 100, likewise");

    tn_tensor *w = tn_reshape(NUMBERS(TN_BF16, 6.9375, 4.9375, 1.546875, -2.46875,
                                      14.9375, -3.71875), tn_dims(2, 3));
    tn_tensor *index = NUMBERS(TN_I64, 0, 1, 0);
    tn_tensor *by = NUMBERS(TN_BF16, 7.0625, 5.25, -6);
    tn_tensor *start = NUMBERS(TN_I64, 0);
    rounded_once(
        tn_embedding_bag(index, tn_clone(w), start, .max_norm = 1,
                         .norm_type = 1, .mode = "sum",
                         .per_sample_weights = by),
        tn_embedding_bag(index, tn_to_dtype(w, TN_F64), start, .max_norm = 1,
                         .norm_type = 1, .mode = "sum",
                         .per_sample_weights = tn_to_dtype(by, TN_F64)),
        "embedding_bag: scaled rows are not rounded before they are added");
}

/* The expected numbers are results of PyTorch 2.15. */
static void test_roundings(void)
{
    tn_tensor *x = tn_full(tn_dims(2), 6.3828125, .dtype = TN_F16);
    tn_tensor *y = tn_full(tn_dims(2), .2127685546875, .dtype = TN_F16);
    near(tn_div(x, y, .rounding_mode = "trunc"), NUMBERS(TN_F16, 30, 30), 0,
         "div, trunc: a quotient of halves is rounded first");
    near(tn_div(x, tn_narrow(y, 0, 0, 1), .rounding_mode = "trunc"),
         NUMBERS(TN_F16, 29, 29), 0, "by one element it is not");
    near(tn_histc(NUMBERS(TN_BF16, 1.00135803e-05, 0, 5e-6, 2e-6), .bins = 5,
                  .max = 1e-5),
         NUMBERS(TN_BF16, 1, 1, 1, 0, 1), 0,
         "histc: the range is rounded to the dtype");
    x = NUMBERS(TN_BF16, -9, 8.9375, -5.5, .25, 3, 7.125, -8, 1.5);
    near(tn_argwhere(tn_histc(x)),
         tn_reshape(NUMBERS(TN_I64, 0, 5, 19, 51, 58, 66, 90, 99),
                    tn_dims(-1, 1)),
         0, "histc: and its width");
    near(tn_logspace(4.3, 4, 4, 10, .dtype = TN_BF16),
         NUMBERS(TN_BF16, 20480, 16128, 12736, 9984), 0,
         "logspace: ends are rounded to the dtype");
    near(tn_logspace(4.3, 4, 1, 10, .dtype = TN_BF16), NUMBERS(TN_BF16, 19968), 0,
         "logspace: the only number is not");
    tn_tensor *at[2];
    int count =
        tn_unravel_index(tn_full(tn_dims(1), 7, .dtype = TN_I64),
                         tn_dims(1, INT64_MAX), at, 2);
    near(count == 2 ? at[1] : NULL, NUMBERS(TN_I64, 7), 0,
         "unravel_index: 2^63 - 1 elements are not too many");
}

/* Tests arguments of different dtypes, of different signs, and infinite
 * ones. */
static void test_arguments(void)
{
    tn_tensor *x = NUMBERS(TN_F64, 2.5, -1, .25);
    tn_tensor *t1 = NUMBERS(TN_F32, -7, .3, 9);
    tn_tensor *t2 = NUMBERS(TN_F32, 1.9, .7, -3);
    tn_tensor *w1 = tn_to_dtype(t1, TN_F64), *w2 = tn_to_dtype(t2, TN_F64);
    near(tn_addcdiv(x, t1, t2), tn_addcdiv(x, w1, w2), 0,
         "addcdiv: divides in the dtype of the result");
    near(tn_addcmul(x, t1, t2, .value = 3), tn_addcmul(x, w1, w2, .value = 3),
         0, "addcmul, likewise");
    near(tn_atan2(NUMBERS(TN_F64, 1, 0, -1, 2), NUMBERS(TN_F64, INFINITY, -0.0,
                                                       -INFINITY, 0)),
         NUMBERS(TN_F64, 0, 3.14159265358979, -3.14159265358979,
                 1.5707963267949),
         1e-14, "atan2: of infinities and -0");
    near(tn_pow(NUMBERS(TN_I64, 0, 1, -1, -1, 3, 3), NUMBERS(TN_I64, -1, -5,
                                                            -3, -4, -2, 3)),
         NUMBERS(TN_I64, 0, 1, -1, 1, 0, 27), 0,
         "pow: whole numbers to negative powers");
    x = NUMBERS(TN_F64, -.25);
    tn_tensor *y = tn_requires_grad(NUMBERS(TN_F64, -.001));
    tn_status status = tn_backward(tn_remainder(x, y));
    near(status < 0 ? NULL : tn_tensor_grad(y), NUMBERS(TN_F64, -249), 0,
         "remainder's gradient: the quotient that was taken off");
}

/* Differences that would be 0 or only rounding errors in float32. */
static void test_small_results(void)
{
    double pi = acos(-1), x = ldexp(1, -7), s = x * x, r = ldexp(1, -11);
    near(tn_sinc(NUMBERS(TN_F32, 1, -3, 6, 1000)), NUMBERS(TN_F64, 0, 0, 0, 0),
         0, "sinc of whole numbers is 0");
    near(tn_sinc(NUMBERS(TN_F32, 9 + r)),
         NUMBERS(TN_F64, -sin(pi * r) / (pi * (9 + r))), 2e-7,
         "sinc beside one");
    near(tn_tanhshrink(NUMBERS(TN_F32, x)),
         NUMBERS(TN_F64, x * s * (1. / 3 - s * (2. / 15 - s * 17. / 315))),
         2e-7, "tanhshrink near 0");
}

int main(void)
{
    plan_later();
    tn_manual_seed(1);
    tn_scope *scope = tn_scope_open();
    test_corrections();
    test_losses();
    test_gradients();
    test_sums_of_halves();
    test_roundings();
    test_arguments();
    test_small_results();
    tn_scope_close(scope);
    return done_testing();
}
