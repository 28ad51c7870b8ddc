/* calculus.c: numerical differentiation and integration (PyTorch's diff,
 * trapezoid, gradient), covariance (cov, corrcoef), logcumsumexp, and norms of
 * slices (renorm), as composites. */
#include <ops/engine/native.h>

static tn_tensor *join(tn_tensor *a, tn_tensor *b, int dim)
{
    tn_tensor *const parts[] = {a, b};
    return a && b ? tn_cat(parts, 2, dim) : NULL;
}

static tn_tensor *floating(tn_tensor *x)
{
    return !x || tn_dtype_is_floating(x->dtype) ? x : tn_to_dtype(x, TN_F32);
}

static tn_tensor *from_second(tn_tensor *x, int dim)
{
    return x ? tn_narrow(x, dim, 1, x->shape[dim] - 1) : NULL;
}

static tn_tensor *to_last_but_one(tn_tensor *x, int dim)
{
    return x ? tn_narrow(x, dim, 0, x->shape[dim] - 1) : NULL;
}

/* ---- diff ---------------------------------------------------------------- */

static tn_tensor *difference(tn_tensor *x, int dim)
{
    tn_tensor *after = from_second(x, dim), *before = to_last_but_one(x, dim);
    return x && x->dtype == TN_BOOL ? tn_logical_xor(after, before)
                                    : tn_sub(after, before);
}

tn_status tn__run_diff(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIFF_INPUT);
    int64_t n = tn__call_int(call, TN__ARG_DIFF_N);
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "diff: {input} has no dimensions; "
                        "expected at least one");
    int dim = tn__call_dim(call, TN__ARG_DIFF_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (n < 0)
        return tn__fail(TN_ERR_ARGUMENT, "diff: {n} is %lld; expected at least "
                        "0", (long long)n);
    if (n == 0)
        return tn__give(call, tn_clone(x));
    if (tn__call_has(call, TN__ARG_DIFF_PREPEND))
        x = join(tn__call_tensor(call, TN__ARG_DIFF_PREPEND), x, dim);
    if (tn__call_has(call, TN__ARG_DIFF_APPEND))
        x = join(x, tn__call_tensor(call, TN__ARG_DIFF_APPEND), dim);
    /* If another dimension has size 0, there are no elements, and all n steps
     * are done at once. */
    if (x && x->numel == 0)
        x = tn_clone(tn_narrow(x, dim, 0,
                               n < x->shape[dim] ? x->shape[dim] - n : 0));
    for (int64_t k = 0; k < n && x && x->numel > 0; k++)
        x = difference(x, dim);
    return tn__give(call, x);
}

/* ---- trapezoid ----------------------------------------------------------- */

/* Returns twice the areas of the trapezoids between adjacent elements of y
 * along dim. */
static tn_tensor *areas(const tn__call *call, int dim)
{
    tn_tensor *y = tn__call_tensor(call, TN__ARG_TRAPEZOID_Y);
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TRAPEZOID_X);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_tensor *sums =
        tn_add(from_second(y, dim), to_last_but_one(y, dim));
    if (!x)
        return tn_mul_scalar(floating(sums),
                             tn__call_float(call, TN__ARG_TRAPEZOID_DX));
    if (x->ndim == 1 && x->shape[0] == y->shape[dim]) {
        tn_dims_list along = {y->ndim, {0}};
        for (int d = 0; d < y->ndim; d++)
            along.dim[d] = d == dim ? y->shape[dim] : 1;
        x = tn_reshape(x, along);
    }
    int own = dim - (y->ndim - (x ? x->ndim : 0));
    if (x && (own < 0 || x->shape[own] != y->shape[dim])) {
        tn__fail(TN_ERR_SHAPE, "%s: {x} has shape %s; expected one coordinate "
                 "along {dim} %d for each element of {y} %s", call->op->name,
                 tn__shape_text(a, x->ndim, x->shape), dim,
                 tn__shape_text(b, y->ndim, y->shape));
        return NULL;
    }
    tn_tensor *steps = x ? difference(x, own) : NULL;
    return steps ? floating(tn_mul(sums, steps)) : NULL;
}

/* Returns the dimension of y along which to integrate, or -1 with the error
 * recorded. The size of y in this dimension must not be 0. */
static int integral_dim(const tn__call *call)
{
    const tn_tensor *y = tn__call_tensor(call, TN__ARG_TRAPEZOID_Y);
    if (y->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {y} has no dimensions; expected at "
                        "least one", call->op->name);
    int dim = tn__call_dim(call, TN__ARG_TRAPEZOID_DIM, y->ndim);
    if (dim >= 0 && y->shape[dim] == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {y} has no elements along {dim} %d",
                        call->op->name, dim);
    return dim;
}

tn_status tn__run_trapezoid(tn__call *call)
{
    int dim = integral_dim(call);
    if (dim < 0)
        return tn_error_code();
    tn_tensor *sum = tn_sum(areas(call, dim), .dim = dim);
    return tn__give(call, tn_mul_scalar(sum, 0.5));
}

tn_status tn__run_cumulative_trapezoid(tn__call *call)
{
    int dim = integral_dim(call);
    if (dim < 0)
        return tn_error_code();
    return tn__give(call,
                    tn_mul_scalar(tn_cumsum(areas(call, dim), dim), 0.5));
}

/* ---- gradient ------------------------------------------------------------ */

/* Returns weight[0] * x[i] + weight[1] * x[i + 1] + weight[2] * x[i + 2] along
 * dim, for the `count` positions i beginning at `from`. */
static tn_tensor *weighted(tn_tensor *x, int dim, int64_t from, int64_t count,
                           tn_tensor *const *weight)
{
    tn_tensor *sum = NULL;
    for (int k = 0; k < 3; k++) {
        tn_tensor *part =
            tn_mul(tn_narrow(x, dim, from + k, count), weight[k]);
        sum = k ? tn_add(sum, part) : part;
    }
    return sum;
}

/* Sets weight[0..2] to the weights of three points x0, x1, x2 in the derivative
 * of the parabola through them, at the point with index `at`. p = x1 - x0 and q
 * = x2 - x1. Fornberg, Math. Comp. 51 (1988). */
static void parabola(tn_tensor *p, tn_tensor *q, int at, tn_tensor **weight)
{
    tn_tensor *both = tn_add(p, q), *product = tn_mul(p, q);
    tn_tensor *left = tn_mul(p, both), *right = tn_mul(q, both);
    tn_tensor *top[3];
    switch (at) {
    case 0:
        top[0] = tn_neg(tn_add(p, both));
        top[1] = both;
        top[2] = tn_neg(p);
        break;
    case 1:
        top[0] = tn_neg(q);
        top[1] = tn_sub(q, p);
        top[2] = p;
        break;
    default:
        top[0] = q;
        top[1] = tn_neg(both);
        top[2] = tn_add(q, both);
    }
    weight[0] = tn_div(top[0], left);
    weight[1] = tn_div(top[1], product);
    weight[2] = tn_div(top[2], right);
}

/* Returns the slope of x at its first element along dim, or at its last point
 * if `last` is true. `step` holds the distances of adjacent points. `order` is
 * edge_order, 1 or 2. */
static tn_tensor *slope_at_end(tn_tensor *x, tn_tensor *step, int dim,
                               bool last, int64_t order)
{
    int64_t size = x->shape[dim];
    if (order == 1) {
        tn_tensor *pair = tn_narrow(x, dim, last ? size - 2 : 0, 2);
        return tn_div(difference(pair, dim),
                      tn_narrow(step, dim, last ? size - 2 : 0, 1));
    }
    tn_tensor *weight[3];
    parabola(tn_narrow(step, dim, last ? size - 3 : 0, 1),
             tn_narrow(step, dim, last ? size - 2 : 1, 1), last ? 2 : 0,
             weight);
    return weighted(x, dim, last ? size - 3 : 0, 1, weight);
}

static tn_tensor *slope(tn_tensor *x, tn_tensor *step, int dim, int64_t order)
{
    int64_t inner = x->shape[dim] - 2;
    tn_tensor *weight[3];
    tn_tensor *out = slope_at_end(x, step, dim, false, order);
    if (inner > 0) {
        parabola(tn_narrow(step, dim, 0, inner),
                 tn_narrow(step, dim, 1, inner), 1, weight);
        out = join(out, weighted(x, dim, 0, inner, weight), dim);
    }
    return join(out, slope_at_end(x, step, dim, true, order), dim);
}

/* Returns the distances of adjacent points along dim, as a tensor with size 1
 * in all other dimensions. If `places` holds coordinates, the distances are
 * their differences. If it is NULL, they are all `step`. */
static tn_tensor *steps_of(const tn_tensor *x, int dim, double step,
                           tn_tensor *places)
{
    tn_dims_list along = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        along.dim[d] = d == dim ? x->shape[dim] - 1 : 1;
    if (places)
        return tn_reshape(tn_to_dtype(difference(places, 0), x->dtype), along);
    return tn_full(along, step, .dtype = x->dtype,
                   .device = x->storage->device);
}

/* The indices of the arguments that the operators for gradient share. */
enum { SPACING = 1, SLOPE_DIM, EDGE_ORDER };

/* Returns the slope of x along dim, with element k of the argument spacing. */
static tn_tensor *slope_of(const tn__call *call, tn_tensor *x, int dim, int k)
{
    const tn_value *spacing = &call->value[SPACING];
    const char *name = call->op->name;
    int64_t order = tn__call_int(call, EDGE_ORDER);
    char text[TN__SHAPE_TEXT];
    if (x->shape[dim] <= order) {
        tn__fail(TN_ERR_SHAPE, "%s: {dim} %d has size %lld; {edge_order} %lld "
                 "requires at least %lld", name, dim, (long long)x->shape[dim],
                 (long long)order, (long long)order + 1);
        return NULL;
    }
    tn_tensor *places = NULL;
    double step = 1;
    if (spacing->kind == TN_VALUE_TENSORS)
        places = floating(spacing->of.tensors[k]);
    else if (spacing->kind == TN_VALUE_FLOATS)
        step = spacing->of.floats[k];
    else if (spacing->kind != TN_VALUE_NONE)
        step = tn__call_float(call, SPACING);
    if (places && (places->ndim != 1 || places->shape[0] != x->shape[dim])) {
        tn__fail(TN_ERR_SHAPE, "%s: {spacing[%d]} has shape %s; expected a "
                 "1-d tensor of %lld coordinates, one for each element along "
                 "{dim} %d", name, k,
                 tn__shape_text(text, places->ndim, places->shape),
                 (long long)x->shape[dim], dim);
        return NULL;
    }
    tn_tensor *steps = steps_of(x, dim, step, places);
    return steps ? slope(x, steps, dim, order) : NULL;
}

static tn_status give_slopes(tn__call *call)
{
    tn_tensor *x = floating(tn__call_tensor(call, 0));
    const tn_value *spacing = &call->value[SPACING];
    const tn_value *given = &call->value[SLOPE_DIM];
    int64_t order = tn__call_int(call, EDGE_ORDER);
    if (!x)
        return tn_error_code();
    if (order != 1 && order != 2)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {edge_order} %lld is neither 1 "
                        "nor 2", call->op->name, (long long)order);
    int count = given->kind == TN_VALUE_NONE ? x->ndim : given->of.dims->count;
    bool several = spacing->kind == TN_VALUE_TENSORS ||
                   spacing->kind == TN_VALUE_FLOATS;
    if (several && spacing->count != count)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {spacing} is a list of %d "
                        "numbers; expected one number, or a list of %d, one "
                        "for each dimension",
                        call->op->name, (int)spacing->count,
                        count);
    for (int k = 0; k < count; k++) {
        int64_t asked = given->kind == TN_VALUE_NONE ? k
                                                     : given->of.dims->dim[k];
        int dim = tn__shape_dim(x->ndim, asked);
        if (dim < 0 || x->ndim == 0)
            return tn__fail_dim(call->op->name, "dim", asked, x->ndim);
        tn_status status = tn__give(call, slope_of(call, x, dim, k));
        if (status < 0)
            return status;
    }
    return TN_OK;
}

tn_status tn__run_gradient(tn__call *call)
{
    return give_slopes(call);
}

tn_status tn__run_gradient_by(tn__call *call)
{
    return give_slopes(call);
}

tn_status tn__run_gradient_at(tn__call *call)
{
    return give_slopes(call);
}

/* ---- cov and corrcoef ---------------------------------------------------- */

static tn_status check_weights(const tn__call *call, int arg, int64_t count)
{
    const tn_tensor *w = tn__call_tensor(call, arg);
    char text[TN__SHAPE_TEXT];
    bool whole = arg == TN__ARG_COV_FWEIGHTS;
    if (!w || (w->ndim == 1 && w->shape[0] == count &&
               tn_dtype_is_floating(w->dtype) != whole))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "cov: {%s} has shape %s and dtype %s; "
                    "expected a 1-d tensor of %s numbers, one for each of the "
                    "%lld observations", whole ? "fweights" : "aweights",
                    tn__shape_text(text, w->ndim, w->shape),
                    tn_dtype_name(w->dtype),
                    whole ? "integer" : "floating-point", (long long)count);
}

/* Checks the weights of cov. As in PyTorch, negative weights are rejected, and
 * so are weights whose sum is 0. */
static tn_status check_weight_values(const tn__call *call, tn_tensor *w)
{
    double sum = w && w->numel ? tn_item(tn_sum(w)) : 1;
    for (int arg = TN__ARG_COV_FWEIGHTS; arg <= TN__ARG_COV_AWEIGHTS; arg++) {
        tn_tensor *x = tn__call_tensor(call, arg);
        double least = x && x->numel ? tn_item(tn_min(x)) : 0;
        if (tn__error_pending())
            return tn_error_code();
        if (!(least >= 0))
            return tn__fail(TN_ERR_ARGUMENT, "cov: {%s} has %g; expected at "
                            "least 0", call->op->arg[arg].name, least);
    }
    if (sum == 0)
        return tn__fail(TN_ERR_ARGUMENT, "cov: the weights add up to 0; "
                        "expected a sum above 0");
    return TN_OK;
}

/* Returns the divisor of the covariance: the sum of the weights, reduced by the
 * correction `less`, but at least 0. w is the product of the weights, and a is
 * the argument aweights. w and a may be NULL. */
static tn_tensor *degrees_of_freedom(double less, tn_tensor *w, tn_tensor *a,
                                     const tn_tensor *x)
{
    if (!w) {
        double n = (double)x->shape[1] - less;
        return tn_full((tn_dims_list){0}, n > 0 ? n : 0, .dtype = x->dtype,
                       .device = x->storage->device);
    }
    tn_tensor *sum = tn_sum(w);
    if (a && less != 0) {
        tn_tensor *part = tn_sum(tn_mul(w, a));
        sum = tn_sub(sum, tn_div(tn_mul_scalar(part, less), sum));
    } else {
        sum = tn_sub_scalar(sum, less);
    }
    return tn_clamp_min_scalar(sum, 0);
}

tn_status tn__run_cov(tn__call *call)
{
    tn_tensor *x = floating(tn__call_tensor(call, TN__ARG_COV_INPUT));
    char text[TN__SHAPE_TEXT];
    if (x && x->ndim > 2)
        return tn__fail(TN_ERR_SHAPE, "cov: {input} has shape %s; expected at "
                        "most 2 dimensions",
                        tn__shape_text(text, x->ndim, x->shape));
    if (x && x->ndim < 2)
        x = tn_reshape(x, tn_dims(1, -1));
    if (!x)
        return tn_error_code();
    tn_status status =
        check_weights(call, TN__ARG_COV_FWEIGHTS, x->shape[1]);
    if (status >= 0)
        status = check_weights(call, TN__ARG_COV_AWEIGHTS, x->shape[1]);
    if (status < 0)
        return status;
    tn_tensor *f = tn__call_tensor(call, TN__ARG_COV_FWEIGHTS);
    tn_tensor *a = tn__call_tensor(call, TN__ARG_COV_AWEIGHTS);
    /* With aweights, cov is computed in float64. The gradient with respect to a
     * weight is a difference of terms that become larger as the degrees of
     * freedom become fewer. With two observations the terms cancel
     * completely. */
    tn_dtype dtype = a ? tn_dtype_promote(x->dtype, a->dtype) : x->dtype;
    if (a) {
        x = tn_to_dtype(x, TN_F64);
        a = tn_to_dtype(a, TN_F64);
    }
    tn_tensor *w = f && a ? tn_mul(f, a) : f ? f : a;
    if (w && (status = check_weight_values(call, w)) < 0)
        return status;
    tn_tensor *mean =
        w ? tn_div(tn_sum(tn_mul(x, w), .dim = 1, .keepdim = true),
                   tn_sum(w))
          : tn_mean(x, .dim = 1, .keepdim = true);
    tn_tensor *apart = tn_sub(x, mean);
    tn_tensor *product = tn_matmul(w ? tn_mul(apart, w) : apart,
                                   tn_transpose(apart, 0, 1));
    double less = tn__call_float(call, TN__ARG_COV_CORRECTION);
    product = tn_div(product, degrees_of_freedom(less, w, a, x));
    if (x && x->shape[0] == 1)
        product = tn_reshape(product, (tn_dims_list){0});
    return tn__give(call, tn_to_dtype(product, dtype));
}

tn_status tn__run_corrcoef(tn__call *call)
{
    tn_tensor *c = tn_cov(tn__call_tensor(call, 0));
    if (!c)
        return tn_error_code();
    if (c->ndim == 0)
        return tn__give(call, tn_div(c, c));
    tn_tensor *deviation = tn_sqrt(tn_diagonal(c));
    c = tn_div(tn_div(c, tn_unsqueeze(deviation, 1)), deviation);
    return tn__give(call, tn_clamp_max_scalar(tn_clamp_min_scalar(c, -1), 1));
}

/* ---- logcumsumexp -------------------------------------------------------- */

/* Returns logcumsumexp of x along dim by a parallel scan: Brent and Kung, IEEE
 * Trans. Comp. 31 (1982).
 *
 *   y[k] = logaddexp(x[2 k], x[2 k + 1])
 *   out[2 k + 1] = logcumsumexp(y)[k]
 *   out[2 k] = logaddexp(out[2 k - 1], x[2 k])
 *
 * The logarithm of cumsum(exp(x - maximum of the row)) would be wrong: if a row
 * rises by more than the range of exp, its first elements would underflow. */
static tn_tensor *log_sums(tn_tensor *x, int dim)
{
    int64_t size = x && x->ndim ? x->shape[dim] : 1, pairs = size / 2;
    if (!x || pairs == 0)
        return x;
    tn_tensor *odd = log_sums(
        tn_logaddexp(tn_slice(x, dim, 0, 2 * pairs, 2),
                     tn_slice(x, dim, 1, 2 * pairs, 2)),
        dim);
    int64_t after = (size - 1) / 2; /* the number of even elements except the
                                       first */
    tn_tensor *even = tn_narrow(x, dim, 0, 1);
    if (after > 0)
        even = join(even,
                    tn_logaddexp(tn_narrow(odd, dim, 0, after),
                                 tn_slice(x, dim, 2, size, 2)),
                    dim);
    tn_tensor *const both[] = {
        size % 2 ? tn_narrow(even, dim, 0, pairs) : even, odd};
    tn_tensor *out = even && odd ? tn_stack(both, 2, dim + 1) : NULL;
    if (!out)
        return NULL;
    tn_dims_list shape = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d == dim ? 2 * pairs : x->shape[d];
    out = tn_reshape(out, shape);
    return size % 2 ? join(out, tn_narrow(even, dim, pairs, 1), dim) : out;
}

tn_status tn__run_logcumsumexp(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LOGCUMSUMEXP_INPUT);
    int dim = tn__call_dim(call, TN__ARG_LOGCUMSUMEXP_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "logcumsumexp: {input} is %s; convert it "
                        "to a floating-point dtype with tn_to_dtype",
                        tn_dtype_name(x->dtype));
    /* The sums are computed in a wider dtype, because each gradient is exp of a
     * difference of two sums. Near 1e4, float32 has only three digits after the
     * decimal point. */
    tn_dtype dtype = x->dtype, wide = dtype == TN_F32 ? TN_F64 : TN_F32;
    bool narrow = dtype != TN_F64;
    tn_tensor *sum = narrow ? tn_to_dtype(x, wide) : x;
    sum = log_sums(sum, dim);
    if (!narrow && sum == x)
        sum = tn_clone(x);
    return tn__give(call, narrow ? tn_to_dtype(sum, dtype) : sum);
}

/* ---- renorm -------------------------------------------------------------- */

tn_status tn__run_renorm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_RENORM_INPUT);
    double p = tn__call_float(call, TN__ARG_RENORM_P);
    double most = tn__call_float(call, TN__ARG_RENORM_MAXNORM);
    int dim = tn__call_dim(call, TN__ARG_RENORM_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (x->ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "renorm: {input} has %d dimensions; "
                        "expected at least 2", x->ndim);
    if (!(p > 0) || !(most >= 0))
        return tn__fail(TN_ERR_ARGUMENT, "renorm: {%s} %g is %s",
                        p > 0 ? "maxnorm" : "p", p > 0 ? most : p,
                        p > 0 ? "negative" : "not positive");
    tn_dims_list others = {0, {0}};
    for (int d = 0; d < x->ndim; d++)
        if (d != dim)
            others.dim[others.count++] = d;
    tn_dtype dtype = x->dtype;
    tn_tensor *wide =
        tn_dtype_bytes(dtype) == 2 ? tn_to_dtype(x, TN_F32) : x;
    tn_tensor *norm = tn_vector_norm(wide, .ord = p, .dims = tn__marked(others),
                                     .keepdim = true);
    tn_tensor *scale = tn_mul_scalar(
        tn_reciprocal(tn_add_scalar(norm, 1e-7)), most);
    scale = tn_where_scalar(tn_gt_scalar(norm, most), scale, 1);
    return tn__give(call, tn_to_dtype(tn_mul(wide, scale), dtype));
}
