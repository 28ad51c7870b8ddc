/* distributions.c: probability distributions. Densities, entropies and
 * divergences are kernels in the kernel language (<tenon/op.h>). */
#include <tenon/distributions.h>

#include <string.h>
#include <tenon/autograd.h>
#include <tenon/op.h>
#include <tenon/ops.h>

typedef enum family { NORMAL, UNIFORM, BERNOULLI, CATEGORICAL, KINDS } family;

struct tn_distribution {
    tn_object object;
    family kind;
    tn_tensor *a, *b;   /* counted references: loc and scale, or low and high;
                           or probs or logits in a, with b NULL */
    bool logits;        /* a is logits, not probs */
    tn_dims_list batch; /* batch shape */
};

static const char *const kind_name[KINDS] = {"normal", "uniform", "bernoulli",
                                             "categorical"};

/* Source of the kernels by kind; "" if a kind has none. SP(x) is log(1 +
 * exp(x)). */
enum { LOG_PROB, ENTROPY, DIVERGENCE, FORMULAS };
#define SP(x) "(max(" x ", 0) + log1p(exp(-abs(" x "))))"
static const char *const formula[KINDS][FORMULAS] = {
    [NORMAL] =
        {"distribution_normal_log_prob(value, loc, scale) = "
         "let d = value - loc; -(d * d) / (2 * (scale * scale)) - log(scale) - "
         "0.9189385332046727", /* log(sqrt(2 pi)) */
         "distribution_normal_entropy(loc, scale) = "
         "1.4189385332046727 + log(scale)", /* log(sqrt(2 pi)) + 1/2 */
         "distribution_normal_kl(p_loc, p_scale, q_loc, q_scale) = "
         "let r = p_scale / q_scale; let t = (p_loc - q_loc) / q_scale; "
         "0.5 * (r * r + t * t - 1 - log(r * r))"},
    [UNIFORM] =
        {"distribution_uniform_log_prob(value, low, high) = "
         "where((low <= value) & (high > value), 0, -inf) - log(high - low)",
         "distribution_uniform_entropy(low, high) = log(high - low)",
         "distribution_uniform_kl(p_low, p_high, q_low, q_high) = "
         "where((q_low > p_low) | (q_high < p_high), inf, "
         "log((q_high - q_low) / (p_high - p_low)))"},
    [BERNOULLI] =
        {"distribution_bernoulli_log_prob(value, probs, logits) = "
         "value * logits - " SP("logits"),
         "distribution_bernoulli_entropy(probs, logits) = " SP(
             "logits") " - probs * logits",
         "distribution_bernoulli_kl(p, p_logits, q, q_logits) = "
         "where(p == 0, 0, where(q == 0, inf, p * (" SP("-q_logits") " - " SP(
             "-p_logits") "))) + "
                          "where(p == 1, 0, where(q == 1, inf, (1 - p) * (" SP(
                              "q_logits") " - " SP("p_logits") ")))"},
    [CATEGORICAL] = {
        "",
        /* A logit of -inf has probability 0, and 0 * -inf would be NaN.
         * Therefore logits are clamped to the lowest finite float32. */
        "distribution_categorical_entropy(probs, logits) = "
        "-(probs * max(logits, -3.4028234663852886e38))",
        "distribution_categorical_kl(p, p_logits, q, q_logits) = "
        "where(p == 0, 0, where(q == 0, inf, p * (p_logits - q_logits)))"}};
static const tn_op *defined[KINDS][FORMULAS];

static tn_tensor *apply(family kind, int which, tn_tensor *const *tensors)
{
    const tn_op *op =
        tn_op_define_once(formula[kind][which], &defined[kind][which]);
    return op ? tn_op_apply(op, tensors, NULL) : NULL;
}

/* ---- making ------------------------------------------------------------- */

static void distribution_release(void *object)
{
    tn_distribution *d = object;
    tn_drop(d->a);
    tn_drop(d->b);
}

static const tn_object_class distribution_class = {
    sizeof distribution_class, "distribution", sizeof(tn_distribution),
    distribution_release};

static bool check_parameter(const char *call, const char *name, tn_tensor *x)
{
    if (!tn_object_check_kind(x, "tensor", call, name))
        return false;
    if (tn_dtype_is_floating(tn_tensor_dtype(x)))
        return true;
    tn_error_refuse(TN_ERR_DTYPE, call, &(tn_given){name, x}, 1,
                    "%s is %s; expected a floating-point dtype", name,
                    tn_dtype_name(tn_tensor_dtype(x)));
    return false;
}

static tn_distribution *make(family kind, const char *call, tn_tensor *a,
                             tn_tensor *b)
{
    tn_distribution *d = tn_object_new(&distribution_class, 0);
    if (d) {
        d->kind = kind;
        d->a = tn_keep(a);
        d->b = tn_keep(b);
        tn_object_set_maker(d, call);
    }
    return d;
}

/* Returns the size of dimension `i` counted from the last one, or 1 if x does
 * not have that dimension. */
static int64_t size_from_end(const tn_tensor *x, int i)
{
    const int ndim = tn_tensor_ndim(x);
    return i < ndim ? tn_tensor_shape(x)[ndim - 1 - i] : 1;
}

static tn_distribution *make_pair(family kind, const char *call,
                                  const char *const names[2], tn_tensor *a,
                                  tn_tensor *b)
{
    if (tn_error() || !check_parameter(call, names[0], a) ||
        !check_parameter(call, names[1], b))
        return NULL;
    const tn_given given[] = {{names[0], a}, {names[1], b}};
    if (tn_tensor_device(a) != tn_tensor_device(b)) {
        tn_error_refuse(TN_ERR_DEVICE, call, given, 2,
                        "%s is on %s, %s on %s: move one with tn_to", names[0],
                        tn_device_name(tn_tensor_device(a)), names[1],
                        tn_device_name(tn_tensor_device(b)));
        return NULL;
    }
    tn_dims_list batch = {tn_tensor_ndim(a), {0}};
    if (tn_tensor_ndim(b) > batch.count)
        batch.count = tn_tensor_ndim(b);
    for (int i = 0; i < batch.count; i++) {
        const int64_t m = size_from_end(a, i), n = size_from_end(b, i);
        if (m != n && m != 1 && n != 1) {
            tn_error_refuse(TN_ERR_SHAPE, call, given, 2,
                            "%s and %s do not broadcast: dimension %d from the "
                            "last has sizes %lld and %lld",
                            names[0], names[1], i + 1, (long long)m,
                            (long long)n);
            return NULL;
        }
        batch.dim[batch.count - 1 - i] = m == 1 ? n : m;
    }
    tn_distribution *d = make(kind, call, a, b);
    if (d)
        d->batch = batch;
    return d;
}

tn_distribution *tn_distribution_normal(tn_tensor *loc, tn_tensor *scale)
{
    static const char *const names[] = {"loc", "scale"};
    return make_pair(NORMAL, "distribution_normal", names, loc, scale);
}

tn_distribution *tn_distribution_uniform(tn_tensor *low, tn_tensor *high)
{
    static const char *const names[] = {"low", "high"};
    return make_pair(UNIFORM, "distribution_uniform", names, low, high);
}

static tn_distribution *make_discrete(family kind, const char *call,
                                      tn_tensor *probs, tn_tensor *logits)
{
    if (tn_error() || (probs && !check_parameter(call, "probs", probs)) ||
        (logits && !check_parameter(call, "logits", logits)))
        return NULL;
    if (!probs == !logits) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "probs",
                                 "give exactly one of probs and logits, and "
                                 "NULL for the other");
        return NULL;
    }
    tn_tensor *a = probs ? probs : logits;
    const char *name = probs ? "probs" : "logits";
    const int rows = kind == CATEGORICAL, ndim = tn_tensor_ndim(a);
    if (rows && (ndim == 0 || size_from_end(a, 0) == 0)) {
        tn_error_refuse(TN_ERR_SHAPE, call, &(tn_given){name, a}, 1,
                        "%s has no categories: expected (..., K) with a K of "
                        "at least 1",
                        name);
        return NULL;
    }
    tn_distribution *d = make(kind, call, a, NULL);
    if (d) {
        d->logits = logits != NULL;
        d->batch.count = ndim - rows;
        for (int i = 0; i < d->batch.count; i++)
            d->batch.dim[i] = tn_tensor_shape(a)[i];
    }
    return d;
}

tn_distribution *tn_distribution_bernoulli(tn_tensor *probs, tn_tensor *logits)
{
    return make_discrete(BERNOULLI, "distribution_bernoulli", probs, logits);
}

tn_distribution *tn_distribution_categorical(tn_tensor *probs,
                                             tn_tensor *logits)
{
    return make_discrete(CATEGORICAL, "distribution_categorical", probs,
                         logits);
}

/* ---- parameters --------------------------------------------------------- */

static double eps_of(tn_dtype dtype)
{
    return dtype == TN_F64    ? 0x1p-52
           : dtype == TN_F16  ? 0x1p-10
           : dtype == TN_BF16 ? 0x1p-7
                              : 0x1p-23;
}

static tn_tensor *probs_of(const tn_distribution *d)
{
    if (d->kind == BERNOULLI)
        return d->logits ? tn_sigmoid(d->a) : d->a;
    return d->logits ? tn_softmax(d->a, -1)
                     : tn_div(d->a, tn_sum(d->a, .dim = -1, .keepdim = true));
}

static tn_tensor *logits_of(const tn_distribution *d, tn_tensor *probs)
{
    if (d->logits)
        return d->kind == BERNOULLI ? d->a : tn_log_softmax(d->a, -1);
    const double eps = eps_of(tn_tensor_dtype(d->a));
    tn_tensor *p = tn_clamp_scalars(probs, eps, 1 - eps);
    return d->kind == BERNOULLI ? tn_sub(tn_log(p), tn_log1p(tn_neg(p)))
                                : tn_log(p);
}

/* Sets out[] to the two parameters of the formulas. Returns false on
 * failure. */
static bool parameters_of(const tn_distribution *d, tn_tensor **out)
{
    out[0] = d->a;
    out[1] = d->b;
    if (d->kind == BERNOULLI || d->kind == CATEGORICAL) {
        out[0] = probs_of(d);
        out[1] = logits_of(d, out[0]);
    }
    return out[0] && out[1];
}

static bool check(const tn_distribution *d, const char *call, const char *name)
{
    return !tn_error() && tn_object_check(d, &distribution_class, call, name);
}

/* ---- sampling ----------------------------------------------------------- */

static bool extend(const tn_distribution *d, tn_dims_list sample,
                   const char *call, tn_dims_list *out)
{
    int bad = sample.count < 0 || sample.count + d->batch.count > TN_MAX_NDIM;
    for (int i = 0; i < sample.count && !bad; i++)
        bad = sample.dim[i] < 0;
    if (bad) {
        tn_error_refuse_argument(
            TN_ERR_SHAPE, call, "sample_shape",
            "sample_shape has %d dimensions, the batch shape %d: expected "
            "sizes of at least 0 in at most %d dimensions",
            sample.count, d->batch.count, TN_MAX_NDIM);
        return false;
    }
    *out = sample;
    for (int i = 0; i < d->batch.count; i++)
        out->dim[out->count++] = d->batch.dim[i];
    return true;
}

static tn_tensor *draw_real(const tn_distribution *d, tn_dims_list shape)
{
    const tn_dtype dtype = tn_tensor_dtype(d->a);
    tn_device *device = tn_tensor_device(d->a);
    if (d->kind == NORMAL)
        return tn_add(d->a, tn_mul(d->b, tn_randn(shape, .dtype = dtype,
                                                  .device = device)));
    return tn_add(d->a, tn_mul(tn_rand(shape, .dtype = dtype, .device = device),
                               tn_sub(d->b, d->a)));
}

static tn_tensor *draw_category(const tn_distribution *d, tn_dims_list sample,
                                tn_dims_list shape)
{
    tn_tensor *probs = probs_of(d);
    int64_t count = 1;
    for (int i = 0; i < sample.count; i++)
        if (__builtin_mul_overflow(count, sample.dim[i], &count))
            count = INT64_MAX; /* tn_multinomial rejects this */
    if (!probs)
        return NULL;
    if (count == 0 || tn_tensor_numel(probs) == 0)
        return tn_zeros(shape, .dtype = TN_I64,
                        .device = tn_tensor_device(d->a));
    tn_tensor *rows = tn_reshape(probs, tn_dims(-1, size_from_end(d->a, 0)));
    return tn_reshape(tn_t(tn_multinomial(rows, count, .replacement = true)),
                      shape);
}

tn_tensor *tn_distribution_sample(const tn_distribution *distribution,
                                  tn_dims_list sample_shape)
{
    const char *call = "distribution_sample";
    tn_dims_list shape;
    if (!check(distribution, call, "distribution") ||
        !extend(distribution, sample_shape, call, &shape))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = NULL;
    TN_NO_GRAD
    {
        x = distribution->kind == CATEGORICAL
                ? draw_category(distribution, sample_shape, shape)
            : distribution->kind == BERNOULLI
                ? tn_bernoulli(tn_expand(probs_of(distribution), shape))
                : draw_real(distribution, shape);
    }
    return tn_scope_result(scope, x);
}

tn_tensor *tn_distribution_rsample(const tn_distribution *distribution,
                                   tn_dims_list sample_shape)
{
    const char *call = "distribution_rsample";
    tn_dims_list shape;
    if (!check(distribution, call, "distribution"))
        return NULL;
    if (!distribution->b) {
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, "distribution",
            "samples of a %s distribution are not differentiable in its "
            "parameters: use tn_distribution_sample",
            kind_name[distribution->kind]);
        return NULL;
    }
    return extend(distribution, sample_shape, call, &shape)
               ? draw_real(distribution, shape)
               : NULL;
}

/* ---- densities, entropies, divergences ---------------------------------- */

/* Returns logits[..., value], where the shape of value and the batch shape
 * broadcast. */
static tn_tensor *select_category(tn_tensor *logits, tn_tensor *value)
{
    tn_tensor *index = tn_unsqueeze(tn_to_dtype(value, TN_I64), -1);
    if (!index)
        return NULL;
    const int extra = tn_tensor_ndim(index) - tn_tensor_ndim(logits);
    tn_dims_list shape = {tn_tensor_ndim(index), {0}};
    if (extra < 0)
        shape.count = tn_tensor_ndim(logits);
    for (int i = 0; i < shape.count; i++) {
        const int64_t m = i ? size_from_end(index, i) : 1;
        const int64_t n = size_from_end(logits, i);
        shape.dim[shape.count - 1 - i] = i && n == 1 ? m : n;
    }
    tn_tensor *all = tn_expand(logits, shape);
    shape.dim[shape.count - 1] = 1;
    return tn_squeeze(tn_gather(all, -1, tn_expand(index, shape)), .dim = -1);
}

tn_tensor *tn_distribution_log_prob(const tn_distribution *distribution,
                                    tn_tensor *value)
{
    const char *call = "distribution_log_prob";
    if (!check(distribution, call, "distribution") ||
        !tn_object_check_kind(value, "tensor", call, "value"))
        return NULL;
    tn_tensor *in[3] = {value, NULL, NULL};
    if (distribution->kind != CATEGORICAL)
        return parameters_of(distribution, in + 1)
                   ? apply(distribution->kind, LOG_PROB, in)
                   : NULL;
    const tn_dtype dtype = tn_tensor_dtype(value);
    if (tn_dtype_is_floating(dtype) || dtype == TN_BOOL) {
        tn_error_refuse(TN_ERR_DTYPE, call, &(tn_given){"value", value}, 1,
                        "value is %s; a categorical distribution expects "
                        "integers",
                        tn_dtype_name(dtype));
        return NULL;
    }
    return parameters_of(distribution, in + 1) ? select_category(in[2], value)
                                               : NULL;
}

tn_tensor *tn_distribution_entropy(const tn_distribution *distribution)
{
    tn_tensor *in[2];
    if (!check(distribution, "distribution_entropy", "distribution") ||
        !parameters_of(distribution, in))
        return NULL;
    tn_tensor *h = apply(distribution->kind, ENTROPY, in);
    return distribution->kind == CATEGORICAL ? tn_sum(h, .dim = -1) : h;
}

tn_tensor *tn_distribution_kl(const tn_distribution *p,
                              const tn_distribution *q)
{
    tn_tensor *in[4];
    if (!check(p, "distribution_kl", "p") || !check(q, "distribution_kl", "q"))
        return NULL;
    if (p->kind != q->kind) {
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, "distribution_kl", "q",
            "p is a %s distribution, q a %s distribution: expected two "
            "distributions of one kind",
            kind_name[p->kind], kind_name[q->kind]);
        return NULL;
    }
    if (!parameters_of(p, in) || !parameters_of(q, in + 2))
        return NULL;
    tn_tensor *kl = apply(p->kind, DIVERGENCE, in);
    return p->kind == CATEGORICAL ? tn_sum(kl, .dim = -1) : kl;
}
