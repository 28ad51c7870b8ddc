/* nn_init.c: sets initial values of parameters, as torch.nn.init does.
 *
 * A call computes the values in a new tensor, then copies them into x. So x is
 * unchanged if something fails, and may have any strides. Layers use the new
 * tensors directly as their parameters. */
#include <nn/init.h>
#include <nn/tree.h>

#include <math.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/nn_init.h>
#include <tenon/ops.h>

/* Compile for size: nearly all time is spent in operators, not in this file. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

/* ---- checks and fans ---------------------------------------------------- */

static bool check_dims(const tn_tensor *x, const char *what, int least,
                       int most)
{
    int ndim = tn_tensor_ndim(x);
    char text[TN__NN_SHAPE_TEXT];
    if (ndim >= least && ndim <= most)
        return true;
    const tn_given given = {"x", x};
    if (least == most)
        tn_error_refuse(TN_ERR_SHAPE, what, &given, 1,
                        "x %s: expected %d dimensions",
                        tn__nn_shape_text(text, x), least);
    else
        tn_error_refuse(TN_ERR_SHAPE, what, &given, 1,
                        "x %s: expected %d %s dimensions",
                        tn__nn_shape_text(text, x), least,
                        most == TN_MAX_NDIM ? "or more" : "to 5");
    return false;
}

/* Returns whether x is a floating-point tensor with `least` to `most`
 * dimensions. If not, records an error. */
static bool check(const tn_tensor *x, const char *what, int least, int most)
{
    if (!tn__nn_tensor(x, what, "x"))
        return false;
    if (!tn_dtype_is_floating(tn_tensor_dtype(x))) {
        tn_error_refuse(TN_ERR_DTYPE, what, &(tn_given){"x", x}, 1,
                        "x is %s: expected a floating-point dtype",
                        tn_dtype_name(tn_tensor_dtype(x)));
        return false;
    }
    return check_dims(x, what, least, most);
}

static bool check_option(bool fine, const char *what, const char *option,
                         double value, const char *wanted)
{
    if (!fine)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, option,
                                 "%s is %g: expected %s", option, value,
                                 wanted);
    return fine;
}

static bool check_std(double std, const char *what)
{
    return check_option(std >= 0, what, "std", std, "at least 0");
}

static double fan_in(const tn_tensor *x)
{
    double fan = 1;
    for (int d = 1; d < tn_tensor_ndim(x); d++)
        fan *= (double)tn_tensor_size(x, d);
    return fan;
}

static double fan_out(const tn_tensor *x)
{
    double fan = 1;
    for (int d = 0; d < tn_tensor_ndim(x); d++)
        fan *= d == 1 ? 1 : (double)tn_tensor_size(x, d);
    return fan;
}

/* Checks that the option a, the slope, is given with "leaky_relu" only. */
static bool check_slope(const tn_options_type *type, const void *own,
                        const char *nonlinearity)
{
    const tn_option_need need = {"a", strcmp(nonlinearity, "leaky_relu") == 0,
                                 "with this nonlinearity",
                                 "give .nonlinearity = \"leaky_relu\""};
    return tn_options_check_needs(type, own, &need, 1) == TN_OK;
}

/* Returns the gain of a nonlinearity, or NAN with an error for an unknown
 * name. */
static double gain_of(const char *name, double a, const char *what)
{
    static const struct {
        const char *name;
        double gain;
    } table[] = {{"linear", 1},           {"conv1d", 1},
                 {"conv2d", 1},           {"conv3d", 1},
                 {"conv_transpose1d", 1}, {"conv_transpose2d", 1},
                 {"conv_transpose3d", 1}, {"sigmoid", 1},
                 {"tanh", 5.0 / 3},       {"relu", 1.4142135623730951},
                 {"selu", 0.75}};
    if (strcmp(name, "leaky_relu") == 0)
        return sqrt(2 / (1 + a * a));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0)
            return table[i].gain;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "nonlinearity",
                             "nonlinearity \"%s\" is none of linear, conv1d "
                             "to conv3d, conv_transpose1d to conv_transpose3d, "
                             "sigmoid, tanh, relu, leaky_relu, selu",
                             name);
    return NAN;
}

/* ---- values ------------------------------------------------------------- */

enum { UNIFORM, NORMAL };

/* Returns shift + scale * r with r uniform in [0, 1) or standard normal.
 * Without a dtype or device, the default one is used. */
static tn_tensor *draw(int kind, tn_dims_list shape, tn_dtype dtype,
                       tn_device *device, double scale, double shift)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = kind == NORMAL
                       ? tn_randn(shape, .dtype = dtype, .device = device)
                       : tn_rand(shape, .dtype = dtype, .device = device);
    if (scale != 1)
        x = tn_mul_scalar(x, scale);
    if (shift != 0)
        x = tn_add_scalar(x, shift);
    return tn_scope_result(scope, x);
}

static tn_dtype draw_dtype(const tn_tensor *x)
{
    return tn_tensor_dtype(x) == TN_F64 ? TN_F64 : TN_F32;
}

static tn_tensor *draw_like(int kind, const tn_tensor *x, double scale,
                            double shift)
{
    return draw(kind, tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x)),
                draw_dtype(x), tn_tensor_device(x), scale, shift);
}

/* Copies value into x, then closes the scope in which value was made. Returns
 * x, or NULL on failure. */
static tn_tensor *put(tn_scope *scope, tn_tensor *x, tn_tensor *value)
{
    bool fine = tn__nn_set(x, value);
    tn_scope_close(scope);
    return fine ? x : NULL;
}

bool tn__nn_set(tn_tensor *parameter, tn_tensor *value)
{
    bool fine = false;
    TN_NO_GRAD
    {
        fine = parameter && value && tn_copy_(parameter, value);
    }
    return fine;
}

tn_tensor *tn__nn_init_fan_in(tn_dims_list shape, int64_t fan)
{
    double bound = fan > 0 ? 1 / sqrt((double)fan) : 0;
    return draw(UNIFORM, shape, TN_DTYPE_NONE, NULL, 2 * bound, -bound);
}

tn_tensor *tn__nn_init_xavier(int64_t out, int64_t in)
{
    double bound = sqrt(6 / ((double)in + (double)out));
    return draw(UNIFORM, tn_dims(out, in), TN_DTYPE_NONE, NULL, 2 * bound,
                -bound);
}

tn_tensor *tn__nn_init_normal(tn_dims_list shape)
{
    return draw(NORMAL, shape, TN_DTYPE_NONE, NULL, 1, 0);
}

/* ---- constants ---------------------------------------------------------- */

static tn_tensor *fill(tn_tensor *x, double value, const char *what)
{
    bool fine = false;
    if (!tn__nn_tensor(x, what, "x"))
        return NULL;
    TN_NO_GRAD
    {
        fine = tn_fill_scalar_(x, value);
    }
    return fine ? x : NULL;
}

tn_tensor *tn_init_constant(tn_tensor *x, double value)
{
    return fill(x, value, "init_constant");
}

tn_tensor *tn_init_zeros(tn_tensor *x)
{
    return fill(x, 0, "init_zeros");
}

tn_tensor *tn_init_ones(tn_tensor *x)
{
    return fill(x, 1, "init_ones");
}

tn_tensor *tn_init_eye(tn_tensor *x)
{
    if (!tn__nn_tensor(x, "init_eye", "x") || !check_dims(x, "init_eye", 2, 2))
        return NULL;
    tn_scope *scope = tn_scope_open();
    return put(scope, x,
               tn_eye(tn_tensor_size(x, 0), .m = tn_tensor_size(x, 1),
                      .dtype = tn_tensor_dtype(x),
                      .device = tn_tensor_device(x)));
}

TN_OPTIONS_TYPE(tn_init_dirac, "init_dirac", "x", TN_INIT_DIRAC_OPTIONS_LIST)

tn_tensor *tn_init_dirac_with(tn_tensor *x,
                              const tn_init_dirac_options *options)
{
    tn_init_dirac_options o;
    if (tn_options_take(tn_init_dirac_type(), &o, options) < 0 ||
        !check(x, "init_dirac", 3, 5))
        return NULL;
    int64_t out = tn_tensor_size(x, 0), in = tn_tensor_size(x, 1);
    if (o.groups < 1 || out % o.groups != 0) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "init_dirac", "groups",
                                 "groups is %lld; expected a divisor of %lld, "
                                 "the size of dimension 0 of x",
                                 (long long)o.groups, (long long)out);
        return NULL;
    }
    if (tn_tensor_numel(x) == 0)
        return x;
    /* Each group of output channels is the first rows of an identity matrix, at
     * the centre of the kernel. */
    bool fine = false;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        int64_t rows = out / o.groups;
        tn_tensor *one = tn_eye(rows, .m = in, .dtype = tn_tensor_dtype(x),
                                .device = tn_tensor_device(x));
        tn_tensor *all = tn_reshape(
            tn_expand(tn_unsqueeze(one, 0), tn_dims(o.groups, rows, in)),
            tn_dims(out, in));
        tn_tensor *value = tn_zeros_like(x), *at = value;
        for (int d = 2; d < tn_tensor_ndim(x); d++)
            at = tn_select(at, 2, tn_tensor_size(x, d) / 2);
        fine = all && at && tn_copy_(at, all) && tn_copy_(x, value);
    }
    tn_scope_close(scope);
    return fine ? x : NULL;
}

/* ---- distributions ------------------------------------------------------ */

TN_OPTIONS_TYPE(tn_init_uniform, "init_uniform", "x",
                TN_INIT_UNIFORM_OPTIONS_LIST)

tn_tensor *tn_init_uniform_with(tn_tensor *x,
                                const tn_init_uniform_options *options)
{
    const char *what = "init_uniform";
    tn_init_uniform_options o;
    if (tn_options_take(tn_init_uniform_type(), &o, options) < 0 ||
        !check(x, what, 0, TN_MAX_NDIM) ||
        !check_option(o.a <= o.b, what, "b", o.b, "a or more"))
        return NULL;
    tn_scope *scope = tn_scope_open();
    return put(scope, x, draw_like(UNIFORM, x, o.b - o.a, o.a));
}

TN_OPTIONS_TYPE(tn_init_normal, "init_normal", "x", TN_INIT_NORMAL_OPTIONS_LIST)

tn_tensor *tn_init_normal_with(tn_tensor *x,
                               const tn_init_normal_options *options)
{
    const char *what = "init_normal";
    tn_init_normal_options o;
    if (tn_options_take(tn_init_normal_type(), &o, options) < 0 ||
        !check(x, what, 0, TN_MAX_NDIM) || !check_std(o.std, what))
        return NULL;
    tn_scope *scope = tn_scope_open();
    return put(scope, x, draw_like(NORMAL, x, o.std, o.mean));
}

TN_OPTIONS_TYPE(tn_init_trunc_normal, "init_trunc_normal", "x",
                TN_INIT_TRUNC_NORMAL_OPTIONS_LIST)

/* Draws standard normal numbers in [low, high] for low > 0 by Marsaglia's tail
 * method (Technometrics 6, 1964): z = sqrt(low^2 - 2 log(u)) has a density
 * proportional to z exp(-z^2 / 2), and is accepted with probability low / z.
 * For low = 2 and a large high, 84 % of the draws are accepted, and more for
 * larger low. */
static tn_tensor *draw_tail(tn_tensor *x, double low, double high)
{
    double rest = exp((low - high) * (low + high) / 2);
    tn_tensor *z = NULL, *missing = NULL;
    do {
        tn_tensor *u = draw_like(UNIFORM, x, rest - 1, 1);
        tn_tensor *next =
            tn_sqrt(tn_add_scalar(tn_mul_scalar(tn_log(u), -2), low * low));
        z = missing ? tn_where(missing, next, z) : next;
        tn_tensor *refused =
            tn_ge_scalar(tn_mul(draw_like(UNIFORM, x, 1, 0), next), low);
        missing = missing ? tn_logical_and(missing, refused) : refused;
    } while (missing && tn_item(tn_any(missing)) == 1);
    return z;
}

static tn_tensor *draw_trunc_normal(tn_tensor *x,
                                    const tn_init_trunc_normal_options *o)
{
    double low = (o->a - o->mean) / o->std, high = (o->b - o->mean) / o->std;
    double sign = high < 0 ? -1 : 1;
    tn_tensor *z;
    if (low >= 2 || high <= -2) {
        z = draw_tail(x, high < 0 ? -high : low, high < 0 ? -low : high);
    } else {
        /* Draws u uniformly between erf(low / sqrt(2)) and erf(high / sqrt(2))
         * and inverts erf. In a tail these bounds are too close to 1 for that.
         * The smallest uniform number is 0, so half its step is added:
         * erfinv(-1) is infinite. */
        const double root2 = 1.4142135623730951;
        double from = erf(low / root2), span = erf(high / root2) - from;
        double half = draw_dtype(x) == TN_F64 ? 0x1p-54 : 0x1p-25;
        sign = root2;
        z = tn_erfinv(draw_like(UNIFORM, x, span, from + half * span));
    }
    z = tn_add_scalar(tn_mul_scalar(z, sign * o->std), o->mean);
    return tn_clamp_scalars(z, o->a, o->b);
}

tn_tensor *tn_init_trunc_normal_with(
    tn_tensor *x, const tn_init_trunc_normal_options *options)
{
    const char *what = "init_trunc_normal";
    tn_init_trunc_normal_options o;
    if (tn_options_take(tn_init_trunc_normal_type(), &o, options) < 0 ||
        !check(x, what, 0, TN_MAX_NDIM) ||
        !check_option(o.std > 0, what, "std", o.std, "a number above 0") ||
        !check_option(o.a < o.b, what, "b", o.b, "a number above a"))
        return NULL;
    tn_scope *scope = tn_scope_open();
    return put(scope, x, draw_trunc_normal(x, &o));
}

/* Fills x with random numbers of mean 0 and standard deviation std. */
static tn_tensor *centred(tn_tensor *x, int kind, double std)
{
    tn_scope *scope = tn_scope_open();
    double bound = sqrt(3) * std;
    return put(scope, x,
               tn_tensor_numel(x) == 0 ? tn_zeros_like(x)
               : kind == UNIFORM ? draw_like(UNIFORM, x, 2 * bound, -bound)
                                 : draw_like(NORMAL, x, std, 0));
}

TN_OPTIONS_TYPE(tn_init_xavier_uniform, "init_xavier_uniform", "x",
                TN_INIT_XAVIER_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_init_xavier_normal, "init_xavier_normal", "x",
                TN_INIT_XAVIER_OPTIONS_LIST)

static tn_tensor *xavier(tn_tensor *x, int kind, double gain, const char *what)
{
    return check(x, what, 2, TN_MAX_NDIM)
               ? centred(x, kind, gain * sqrt(2 / (fan_in(x) + fan_out(x))))
               : NULL;
}

tn_tensor *tn_init_xavier_uniform_with(
    tn_tensor *x, const tn_init_xavier_uniform_options *options)
{
    tn_init_xavier_uniform_options o;
    return tn_options_take(tn_init_xavier_uniform_type(), &o, options) < 0
               ? NULL
               : xavier(x, UNIFORM, o.gain, "init_xavier_uniform");
}

tn_tensor *tn_init_xavier_normal_with(
    tn_tensor *x, const tn_init_xavier_normal_options *options)
{
    tn_init_xavier_normal_options o;
    return tn_options_take(tn_init_xavier_normal_type(), &o, options) < 0
               ? NULL
               : xavier(x, NORMAL, o.gain, "init_xavier_normal");
}

TN_OPTIONS_TYPE(tn_init_kaiming_uniform, "init_kaiming_uniform", "x",
                TN_INIT_KAIMING_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_init_kaiming_normal, "init_kaiming_normal", "x",
                TN_INIT_KAIMING_OPTIONS_LIST)

static tn_tensor *kaiming(tn_tensor *x, int kind, double a, const char *mode,
                          const char *nonlinearity, const char *what)
{
    if (!check(x, what, 2, TN_MAX_NDIM))
        return NULL;
    bool in = strcmp(mode, "fan_in") == 0;
    if (!in && strcmp(mode, "fan_out") != 0) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "mode",
                                 "mode \"%s\" is none of fan_in, fan_out",
                                 mode);
        return NULL;
    }
    double gain = gain_of(nonlinearity, a, what);
    return tn_error()
               ? NULL
               : centred(x, kind, gain / sqrt(in ? fan_in(x) : fan_out(x)));
}

tn_tensor *tn_init_kaiming_uniform_with(
    tn_tensor *x, const tn_init_kaiming_uniform_options *options)
{
    tn_init_kaiming_uniform_options o;
    return tn_options_take(tn_init_kaiming_uniform_type(), &o, options) < 0 ||
                   !check_slope(tn_init_kaiming_uniform_type(), &o,
                                o.nonlinearity)
               ? NULL
               : kaiming(x, UNIFORM, o.a, o.mode, o.nonlinearity,
                         "init_kaiming_uniform");
}

tn_tensor *tn_init_kaiming_normal_with(
    tn_tensor *x, const tn_init_kaiming_normal_options *options)
{
    tn_init_kaiming_normal_options o;
    return tn_options_take(tn_init_kaiming_normal_type(), &o, options) < 0 ||
                   !check_slope(tn_init_kaiming_normal_type(), &o,
                                o.nonlinearity)
               ? NULL
               : kaiming(x, NORMAL, o.a, o.mode, o.nonlinearity,
                         "init_kaiming_normal");
}

TN_OPTIONS_TYPE(tn_init_orthogonal, "init_orthogonal", "x",
                TN_INIT_ORTHOGONAL_OPTIONS_LIST)

/* Draws from the uniform distribution on orthonormal matrices: Q of the QR
 * decomposition of a normal matrix, with signs such that R has a positive
 * diagonal (Mezzadri, arXiv:math-ph/0609050). */
static tn_tensor *draw_orthogonal(tn_tensor *x, double gain)
{
    int64_t rows = tn_tensor_size(x, 0), columns = tn_tensor_numel(x) / rows;
    bool wide = rows < columns;
    tn_tensor *r = NULL,
              *normal =
                  draw(NORMAL,
                       wide ? tn_dims(columns, rows) : tn_dims(rows, columns),
                       draw_dtype(x), tn_tensor_device(x), 1, 0);
    tn_tensor *q = tn_linalg_qr(normal, &r);
    q = tn_mul(q, tn_sign(tn_diagonal(r)));
    q = tn_mul_scalar(wide ? tn_transpose(q, 0, 1) : q, gain);
    return tn_reshape(
        q, tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x)));
}

tn_tensor *tn_init_orthogonal_with(tn_tensor *x,
                                   const tn_init_orthogonal_options *options)
{
    tn_init_orthogonal_options o;
    if (tn_options_take(tn_init_orthogonal_type(), &o, options) < 0 ||
        !check(x, "init_orthogonal", 2, TN_MAX_NDIM))
        return NULL;
    if (tn_tensor_numel(x) == 0)
        return x;
    tn_scope *scope = tn_scope_open();
    return put(scope, x, draw_orthogonal(x, o.gain));
}

TN_OPTIONS_TYPE(tn_init_sparse, "init_sparse", "x, sparsity",
                TN_INIT_SPARSE_OPTIONS_LIST)

tn_tensor *tn_init_sparse_with(tn_tensor *x, double sparsity,
                               const tn_init_sparse_options *options)
{
    const char *what = "init_sparse";
    tn_init_sparse_options o;
    if (tn_options_take(tn_init_sparse_type(), &o, options) < 0 ||
        !check(x, what, 2, 2) || !check_std(o.std, what) ||
        !check_option(sparsity >= 0 && sparsity <= 1, what, "sparsity",
                      sparsity, "a number in [0, 1]"))
        return NULL;
    int64_t rows = tn_tensor_size(x, 0), columns = tn_tensor_size(x, 1);
    tn_scope *scope = tn_scope_open();
    tn_tensor *value = draw_like(NORMAL, x, o.std, 0);
    /* The rows of the zeros are the first elements of a random permutation of
     * the rows, drawn for each column. */
    tn_tensor *order = tn_argsort(draw(UNIFORM, tn_dims(rows, columns), TN_F32,
                                       tn_tensor_device(x), 1, 0),
                                  0, false);
    order = tn_narrow(order, 0, 0, (int64_t)ceil(sparsity * (double)rows));
    return put(scope, x, tn_scatter_scalar(value, 0, order, 0));
}

/* ---- gain --------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_init_calculate_gain, "init_calculate_gain", "nonlinearity",
                TN_INIT_CALCULATE_GAIN_OPTIONS_LIST)

double tn_init_calculate_gain_with(
    const char *nonlinearity, const tn_init_calculate_gain_options *options)
{
    const char *what = "init_calculate_gain";
    tn_init_calculate_gain_options o;
    if (tn_options_take(tn_init_calculate_gain_type(), &o, options) < 0 ||
        !tn__nn_not_null(nonlinearity, what, "nonlinearity") ||
        !check_slope(tn_init_calculate_gain_type(), &o, nonlinearity))
        return NAN;
    return gain_of(nonlinearity, o.a, what);
}
