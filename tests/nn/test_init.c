/* test_init.c: tests initial values (nn_init.h): their distributions, that they
 * change the tensor in place, and errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

enum { N = 40000 };
static double value[N];

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Stores the elements of x in value[], sorted. Returns their number. */
static int read_sorted(tn_tensor *x)
{
    int n = (int)tn_tensor_numel(x);
    TN_NO_GRAD
    {
        tn_tensor *wide = tn_to_dtype(tn_reshape(x, tn_dims(n)), TN_F64);
        if (tn_tensor_to_array(wide, value, (size_t)n * sizeof *value) < 0)
            return 0;
    }
    qsort(value, (size_t)n, sizeof *value, by_size);
    return n;
}

/* ---- distribution functions ---------------------------------------------- */

/* A distribution. kind 'u': uniform in [a, b]; 'n': normal with mean a and
 * standard deviation b; 't': that normal distribution truncated to [low,
 * high]. */
struct law {
    char kind;
    double a, b, low, high;
};

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static double cdf(const struct law *law, double x)
{
    if (law->kind == 'u')
        return x < law->a   ? 0
               : x > law->b ? 1
                            : (x - law->a) / (law->b - law->a);
    if (law->kind == 'n')
        return normal_cdf((x - law->a) / law->b);
    /* Uses the symmetry of the distribution, so that in the upper tail small
     * numbers are subtracted. */
    double l = (law->low - law->a) / law->b, h = (law->high - law->a) / law->b;
    double z = (x - law->a) / law->b;
    if (l > 0)
        return (normal_cdf(-l) - normal_cdf(-z)) /
               (normal_cdf(-l) - normal_cdf(-h));
    return (normal_cdf(z) - normal_cdf(l)) / (normal_cdf(h) - normal_cdf(l));
}

/* Checks a distribution with the Kolmogorov-Smirnov test: sqrt(n) times the
 * largest distance of the empirical distribution function exceeds 1.95 with
 * probability 0.001. The seed is fixed, so the result is always the same. */
static void follows(tn_tensor *x, struct law law, const char *fact)
{
    int n = read_sorted(x);
    double most = 0, mean = 0, square = 0;
    for (int i = 0; i < n; i++) {
        double f = cdf(&law, value[i]);
        most = fmax(
            most, fmax(fabs(f - (double)i / n), fabs(f - (double)(i + 1) / n)));
        mean += value[i] / n;
        square += value[i] * value[i] / n;
    }
    ok(n > 0 && sqrt(n) * most < 1.95, "%s: the distribution (%g, n = %d)",
       fact, sqrt(n) * most, n);
    if (law.kind == 't')
        return;
    double width = law.kind == 'u' ? (law.b - law.a) / sqrt(12) : law.b;
    double middle = law.kind == 'u' ? (law.a + law.b) / 2 : law.a;
    /* Four standard errors of the mean and of the variance (sqrt(2 / n) for a
     * normal distribution, less for a uniform one). */
    is_double_near(mean, middle, 4 * width / sqrt(n), "%s: the mean", fact);
    is_double_near((square - mean * mean) / (width * width), 1,
                   4 * sqrt(2.0 / n), "%s: the variance", fact);
}

static tn_tensor *empty(tn_dims_list shape, tn_dtype dtype)
{
    return tn_requires_grad(tn_full(shape, NAN, .dtype = dtype));
}

static void test_distributions(void)
{
    tn_manual_seed(7);
    tn_tensor *x = empty(tn_dims(200, 200), TN_F32);
    ok(tn_init_uniform(x) == x, "the tensor is returned");
    follows(x, (struct law){'u', 0, 1, 0, 0}, "uniform");
    follows(tn_init_uniform(x, .a = -3, .b = 1), (struct law){'u', -3, 1, 0, 0},
            "uniform in [-3, 1)");
    follows(tn_init_normal(x), (struct law){'n', 0, 1, 0, 0}, "normal");
    follows(tn_init_normal(x, .mean = 2, .std = 0.5),
            (struct law){'n', 2, 0.5, 0, 0}, "normal (2, 0.5)");
    follows(tn_init_normal(empty(tn_dims(200, 200), TN_F64)),
            (struct law){'n', 0, 1, 0, 0}, "normal in float64");

    /* fan_in is 6 * 9, fan_out is 40 * 9 */
    tn_tensor *conv = empty(tn_dims(40, 6, 3, 3), TN_F32);
    double fan_in = 54, fan_out = 360, std = sqrt(2 / (fan_in + fan_out));
    follows(tn_init_xavier_uniform(conv),
            (struct law){'u', -sqrt(3) * std, sqrt(3) * std, 0, 0},
            "xavier_uniform");
    follows(tn_init_xavier_normal(conv, .gain = 2),
            (struct law){'n', 0, 2 * std, 0, 0}, "xavier_normal, gain 2");
    double bound = sqrt(3 * 2 / (1 + 5.0) / fan_in);
    follows(tn_init_kaiming_uniform(conv, .a = sqrt(5)),
            (struct law){'u', -bound, bound, 0, 0}, "kaiming_uniform");
    follows(
        tn_init_kaiming_normal(conv, .mode = "fan_out", .nonlinearity = "relu"),
        (struct law){'n', 0, sqrt(2 / fan_out), 0, 0},
        "kaiming_normal, fan_out, relu");
    follows(tn_init_kaiming_normal(conv, .nonlinearity = "tanh"),
            (struct law){'n', 0, 5.0 / 3 / sqrt(fan_in), 0, 0},
            "kaiming_normal, tanh");
}

static void test_trunc_normal(void)
{
    tn_manual_seed(8);
    static const struct {
        struct law law;
        const char *name;
    } cases[] = {{{'t', 0, 1, -2, 2}, "the default interval"},
                 {{'t', 0, 0.02, -2, 2}, "an interval of 100 deviations"},
                 {{'t', 1, 2, 0, 7}, "an interval that is not centred"},
                 {{'t', 0, 1, 3, 1e9}, "the upper tail"},
                 {{'t', 0, 1, -9, -8}, "the lower tail, at -8"},
                 {{'t', 5, 2, 9, 9.5}, "a short interval in the upper tail"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (tn_dtype dtype = TN_F32; dtype <= TN_F64; dtype++) {
            struct law law = cases[i].law;
            tn_tensor *x = tn_init_trunc_normal(empty(tn_dims(20000), dtype),
                                                .mean = law.a, .std = law.b,
                                                .a = law.low, .b = law.high);
            int n = read_sorted(x);
            /* The bound is rounded to float32. */
            ok(n && value[0] >= law.low - 1e-6 * fabs(law.low) &&
                   value[n - 1] <= law.high + 1e-6 * fabs(law.high),
               "trunc_normal, %s: within it", cases[i].name);
            follows(x, law, cases[i].name);
        }
    }
    tn_tensor *x =
        tn_init_trunc_normal(empty(tn_dims(20000), TN_F32), .std = 0.02);
    int n = read_sorted(x);
    ok(n && fmax(-value[0], value[n - 1]) < 0.02 * 5.5,
       "an end of the interval that is far away is never drawn");
}

/* ---- matrices ------------------------------------------------------------ */

/* Checks that q q^T, or q^T q, is gain^2 I within the tolerance. */
static void is_orthogonal(tn_tensor *x, double gain, double tolerance,
                          const char *fact)
{
    TN_NO_GRAD
    {
        tn_tensor *q = tn_to_dtype(tn_flatten(x, .start_dim = 1), TN_F64);
        if (tn_tensor_size(q, 0) > tn_tensor_size(q, 1))
            q = tn_transpose(q, 0, 1);
        tn_tensor *product = tn_matmul(q, tn_transpose(q, 0, 1));
        product =
            tn_sub(product,
                   tn_mul_scalar(tn_eye(tn_tensor_size(q, 0), .dtype = TN_F64),
                                 gain * gain));
        double most = tn_item(tn_max(tn_abs(product)));
        ok(most < tolerance, "%s: Q^T Q = gain^2 I to within %g", fact, most);
    }
}

static void test_orthogonal(void)
{
    tn_manual_seed(9);
    /* The tolerance is 4 units in the last place of 1 for each of the 30
     * columns. */
    is_orthogonal(tn_init_orthogonal(empty(tn_dims(30, 30), TN_F32)), 1, 3e-6,
                  "square");
    is_orthogonal(tn_init_orthogonal(empty(tn_dims(8, 3, 3, 3), TN_F32)), 1,
                  3e-6, "wide, of four dimensions");
    is_orthogonal(tn_init_orthogonal(empty(tn_dims(40, 10), TN_F64), .gain = 2),
                  2, 1e-13, "tall, float64, gain 2");
    /* Checks that the matrices are uniform among the rotations of the plane:
     * the angle of the first column is uniform. It would not be if QR's signs
     * were not corrected by the diagonal of R. */
    enum { ROUNDS = 2000 };
    static float angle[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        tn_scope *scope = tn_scope_open();
        float q[4] = {0};
        tn_tensor_to_array(tn_init_orthogonal(empty(tn_dims(2, 2), TN_F32)), q,
                           sizeof q);
        angle[i] = atan2f(q[2], q[0]);
        tn_scope_close(scope);
    }
    follows(tn_tensor_from_array(angle, TN_F32, tn_dims(ROUNDS)),
            (struct law){'u', -acos(-1), acos(-1), 0, 0},
            "the angle of an orthogonal matrix");
}

static void test_sparse(void)
{
    tn_manual_seed(10);
    enum { ROWS = 50, COLUMNS = 40 };
    static float got[ROWS][COLUMNS];
    tn_tensor *x =
        tn_init_sparse(empty(tn_dims(ROWS, COLUMNS), TN_F32), 0.11, .std = 3);
    tn_tensor_to_array(x, got, sizeof got);
    int wrong = 0, in_row[ROWS] = {0};
    double square = 0;
    for (int c = 0; c < COLUMNS; c++) {
        int zeros = 0;
        for (int r = 0; r < ROWS; r++) {
            zeros += got[r][c] == 0;
            in_row[r] += got[r][c] == 0;
            square += (double)got[r][c] * (double)got[r][c];
        }
        wrong += zeros != 6;
    }
    is_int(wrong, 0, "sparse: ceil(0.11 * 50) zeros in each column");
    int used = 0;
    for (int r = 0; r < ROWS; r++)
        used += in_row[r] > 0;
    ok(used > ROWS * 3 / 4, "sparse: in other rows for each column (%d)", used);
    is_double_near(sqrt(square / (44 * COLUMNS)), 3, 0.25,
                   "sparse: the standard deviation of the others");
    tn_init_sparse(x, 1);
    is_double_near(tn_item(tn_sum(x)), 0, 0, "sparse: 1 leaves nothing");
}

/* ---- constants ----------------------------------------------------------- */

static void is_all(tn_tensor *x, const float *want, const char *fact)
{
    float got[64] = {0};
    size_t bytes = x ? (size_t)tn_tensor_numel(x) * sizeof *got : 0;
    ok(x && tn_tensor_to_array(x, got, bytes) == TN_OK &&
           memcmp(got, want, bytes) == 0,
       "%s", fact);
}

static void test_constants(void)
{
    tn_tensor *x = empty(tn_dims(2, 3), TN_F32);
    is_all(tn_init_constant(x, 2.5), (float[]){2.5, 2.5, 2.5, 2.5, 2.5, 2.5},
           "constant");
    is_all(tn_init_ones(x), (float[]){1, 1, 1, 1, 1, 1}, "ones");
    is_all(tn_init_zeros(x), (float[]){0, 0, 0, 0, 0, 0}, "zeros");
    is_all(tn_init_eye(x), (float[]){1, 0, 0, 0, 1, 0}, "eye");
    is_int(
        (int)tn_item(tn_init_constant(tn_zeros(TN_SCALAR, .dtype = TN_I64), 7)),
        7, "constant: an integer tensor");
    /* torch.nn.init.dirac_(torch.empty(4, 2, 3), groups=2) */
    is_all(tn_init_dirac(empty(tn_dims(4, 2, 3), TN_F32), .groups = 2),
           (float[]){0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
                     0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0},
           "dirac: two groups");
    /* torch.nn.init.dirac_(torch.empty(3, 2, 2, 2)) */
    is_all(tn_init_dirac(empty(tn_dims(3, 2, 2, 2), TN_F32)),
           (float[]){0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                     0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
           "dirac: an even kernel, more outputs than inputs");
    tn_tensor *w = tn_init_dirac(empty(tn_dims(2, 3, 3, 3, 3), TN_F32));
    is_double_near(tn_item(tn_sum(w)), 2, 0, "dirac: three kernel sizes");
}

static void test_gain(void)
{
    static const struct {
        const char *name;
        double gain;
    } cases[] = {{"linear", 1},
                 {"conv_transpose3d", 1},
                 {"sigmoid", 1},
                 {"tanh", 5.0 / 3},
                 {"relu", 1.4142135623730951},
                 {"leaky_relu", 1.4141428569978354},
                 {"selu", 0.75}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_double_near(tn_init_calculate_gain(cases[i].name), cases[i].gain,
                       1e-15, "gain of %s", cases[i].name);
    is_double_near(tn_init_calculate_gain("leaky_relu", .a = 1), 1, 1e-15,
                   "gain of leaky_relu, slope 1");
}

/* ---- in-place behaviour -------------------------------------------------- */

static void test_in_place(void)
{
    tn_tensor *x = empty(tn_dims(3, 4), TN_F32);
    tn_init_ones(x);
    ok(tn_tensor_is_leaf(x) && tn_tensor_requires_grad(x),
       "a leaf that requires a gradient stays one");
    tn_tensor *y = tn_sum(tn_mul(x, x));
    tn_init_normal(x);
    is_int(tn_backward(y), TN_ERR_STATE,
           "autograd notices that a saved value changed");
    tn_error_clear();

    tn_tensor *whole = tn_zeros(tn_dims(4, 4));
    tn_init_ones(tn_select(whole, 1, 2));
    tn_init_eye(tn_transpose(tn_narrow(whole, 1, 0, 2), 0, 1));
    is_all(whole, (float[]){1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0},
           "views: strided and transposed");

    for (tn_dtype dtype = TN_F16; dtype <= TN_BF16; dtype++) {
        tn_manual_seed(1);
        tn_tensor *half = tn_init_normal(tn_zeros(tn_dims(5), .dtype = dtype));
        tn_manual_seed(1);
        tn_tensor *same = tn_init_normal(tn_zeros(tn_dims(5)));
        ok(tn_item(tn_all(tn_eq(half, tn_to_dtype(same, dtype)))) == 1,
           "%s: the float32 numbers, rounded", tn_dtype_name(dtype));
    }
    ok(tn_init_uniform(tn_zeros(TN_SCALAR)), "a 0-d tensor");
    tn_tensor *none = tn_zeros(tn_dims(0, 3));
    ok(tn_init_kaiming_uniform(none) == none &&
           tn_init_xavier_normal(none) == none &&
           tn_init_orthogonal(none) == none && tn_init_sparse(none, 0.5) &&
           tn_init_dirac(tn_zeros(tn_dims(0, 2, 2))) && !tn_error(),
       "an empty tensor is left as it is");
}

/* A layer's initial parameters equal those of the public functions. */
static void test_layers(void)
{
    tn_manual_seed(3);
    tn_module *layer = tn_nn_linear(16, 8);
    tn_manual_seed(3);
    tn_tensor *weight =
        tn_init_kaiming_uniform(tn_zeros(tn_dims(8, 16)), .a = sqrt(5));
    tn_tensor *bias =
        tn_init_uniform(tn_zeros(tn_dims(8)), .a = -0.25, .b = 0.25);
    TN_NO_GRAD
    {
        /* the layer computes the bound in another order: 2 ulp of 1/4 */
        ok(tn_item(tn_max(tn_abs(
               tn_sub(weight, tn_module_parameter(layer, "weight"))))) < 6e-8,
           "Linear's weight is kaiming_uniform with a = sqrt(5)");
        ok(tn_item(tn_all(tn_eq(bias, tn_module_parameter(layer, "bias")))) ==
               1,
           "Linear's bias is uniform");
    }
}

/* ---- errors -------------------------------------------------------------- */

static void refused(const void *made, tn_status code, const char *message)
{
    ok(!made, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

static void test_mistakes(void)
{
    tn_tensor *x = tn_zeros(tn_dims(2, 3)), *line = tn_zeros(tn_dims(3));
    tn_tensor *whole = tn_zeros(tn_dims(2, 3), .dtype = TN_I64);
    refused(tn_init_normal(NULL), TN_ERR_ARGUMENT, "init_normal: x is NULL");
    refused(tn_init_zeros(NULL), TN_ERR_ARGUMENT, "init_zeros: x is NULL");
    refused(tn_init_uniform(whole), TN_ERR_DTYPE,
            "init_uniform: x is int64: expected a floating-point dtype");
    refused(tn_init_orthogonal(whole), TN_ERR_DTYPE,
            "init_orthogonal: x is int64: expected a floating-point dtype");
    refused(tn_init_xavier_normal(line), TN_ERR_SHAPE,
            "init_xavier_normal: x (3,): expected 2 or more dimensions");
    refused(tn_init_kaiming_uniform(line), TN_ERR_SHAPE,
            "init_kaiming_uniform: x (3,): expected 2 or more dimensions");
    refused(tn_init_orthogonal(line), TN_ERR_SHAPE,
            "init_orthogonal: x (3,): expected 2 or more dimensions");
    refused(tn_init_eye(line), TN_ERR_SHAPE,
            "init_eye: x (3,): expected 2 dimensions");
    refused(tn_init_sparse(line, 0.5), TN_ERR_SHAPE,
            "init_sparse: x (3,): expected 2 dimensions");
    refused(tn_init_dirac(x), TN_ERR_SHAPE,
            "init_dirac: x (2, 3): expected 3 to 5 dimensions");
    refused(tn_init_dirac(tn_zeros(tn_dims(4, 2, 3)), .groups = 3),
            TN_ERR_ARGUMENT,
            "init_dirac: groups is 3; expected a divisor of 4, the size of "
            "dimension 0 of x");
    refused(tn_init_uniform(x, .a = 2, .b = 1), TN_ERR_ARGUMENT,
            "init_uniform: b is 1: expected a or more");
    refused(tn_init_normal(x, .std = -1), TN_ERR_ARGUMENT,
            "init_normal: std is -1: expected at least 0");
    refused(tn_init_trunc_normal(x, .std = 0), TN_ERR_ARGUMENT,
            "init_trunc_normal: std is 0: expected a number above 0");
    refused(tn_init_trunc_normal(x, .a = 2), TN_ERR_ARGUMENT,
            "init_trunc_normal: b is 2: expected a number above a");
    refused(tn_init_sparse(x, 1.5), TN_ERR_ARGUMENT,
            "init_sparse: sparsity is 1.5: expected a number in [0, 1]");
    refused(tn_init_kaiming_normal(x, .mode = "fan"), TN_ERR_ARGUMENT,
            "init_kaiming_normal: mode \"fan\" is none of fan_in, fan_out");
    refused(tn_init_kaiming_uniform(x, .nonlinearity = "gelu"), TN_ERR_ARGUMENT,
            "init_kaiming_uniform: nonlinearity \"gelu\" is none of linear, "
            "conv1d to conv3d, conv_transpose1d to conv_transpose3d, sigmoid, "
            "tanh, relu, leaky_relu, selu");
    ok(isnan(tn_init_calculate_gain("swish")), "an unknown gain is NAN");
    is_int(tn_error_code(), TN_ERR_ARGUMENT, "with an error");
    tn_error_clear();
    ok(isnan(tn_init_calculate_gain("relu", .a = 1)),
       "a slope of relu is rejected");
    is_str(tn_error(),
           "init_calculate_gain: .a has no effect with this nonlinearity: give "
           ".nonlinearity = \"leaky_relu\", or leave .a out",
           "with a message");
    tn_error_clear();
    ok(isnan(tn_init_calculate_gain(NULL)), "the gain of NULL is NAN");
    is_str(tn_error(), "init_calculate_gain: nonlinearity is NULL",
           "with a message");
    tn_error_clear();
    is_double_near(tn_item(tn_sum(x)), 0, 0, "a refused call changes nothing");
}

int main(void)
{
    tap_find_plugin();
    test_distributions();
    test_trunc_normal();
    test_orthogonal();
    test_sparse();
    test_constants();
    test_gain();
    test_in_place();
    test_layers();
    test_mistakes();
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
