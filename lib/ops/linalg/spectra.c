/* spectra.c: operators composed of eigenvalues, singular values, LU and matrix
 * products (PyTorch's svd, pinv, matrix_rank, det, matrix_exp and others). Some
 * have a gradient formula of their own (NATIVE operators). This formula also
 * holds where the gradients of the factorisations that they call do not
 * exist. */
#include <float.h>
#include <math.h>
#include <ops/engine/native.h>

static tn_tensor *transposed(tn_tensor *x)
{
    return x ? tn_transpose(x, -1, -2) : NULL;
}

static int64_t tail_size(const tn_tensor *x, int back)
{
    return x->shape[x->ndim - back];
}

static tn_status check_matrices(const tn__call *call, const tn_tensor *x,
                                bool square)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim >= 2 && (!square || tail_size(x, 1) == tail_size(x, 2)))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected %smatrices "
                    "in the last two dimensions", call->op->name,
                    call->op->arg[0].name,
                    tn__shape_text(text, x->ndim, x->shape),
                    square ? "square " : "");
}

static tn_status svd_of(tn_tensor *a, bool full, tn_tensor *out[3])
{
    if (!a)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_bool(full)};
    int count =
        tn__op_run(&tn__op_table[TN__OP_ID_LINALG_SVD], value, 2, out, 3);
    return count < 0 ? count : TN_OK;
}

static tn_status eigh_of(tn_tensor *a, tn_tensor *out[2])
{
    const tn_value value[] = {tn__value_tensor(a)};
    int count =
        tn__op_run(&tn__op_table[TN__OP_ID_LINALG_EIGH], value, 1, out, 2);
    return count < 0 ? count : TN_OK;
}

/* Returns u @ diag(s) @ v. */
static tn_tensor *product(tn_tensor *u, tn_tensor *s, tn_tensor *v)
{
    return tn_matmul(tn_mul(u, tn_unsqueeze(s, -2)), v);
}

/* Runs `body` in a new scope and adds its result to the call's outputs. */
static tn_status give_in_scope(tn__call *call,
                               tn_tensor *(*body)(tn__call *call))
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = scope ? tn__ref(body(call)) : NULL;
    tn_scope_close(scope);
    return tn__give(call, out);
}

tn_status tn__run_svd(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SVD_INPUT), *out[3];
    bool some = tn__call_int(call, TN__ARG_SVD_SOME);
    bool vectors = tn__call_int(call, TN__ARG_SVD_COMPUTE_UV);
    if (check_matrices(call, x, false) < 0)
        return tn_error_code();
    if (!vectors) { /* as in PyTorch, U and V are square matrices of zeros */
        out[0] = tn_zeros_like(tn_matmul(x, transposed(x)));
        out[1] = tn_linalg_svdvals(x);
        out[2] = tn_zeros_like(tn_matmul(transposed(x), x));
    } else if (svd_of(x, !some, out) < 0) {
        return tn_error_code();
    } else {
        out[2] = transposed(out[2]);
    }
    tn_status status = TN_OK;
    for (int k = 0; k < 3 && status >= 0; k++)
        status = tn__give(call, out[k]);
    return status;
}

/* Computes the first columns of a product of Householder reflections, by
 * applying the reflections to columns of the identity, the last reflection
 * first: Golub and Van Loan, "Matrix Computations", 5.1.6. */
tn_status tn__run_linalg_householder_product(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call,
                                   TN__ARG_LINALG_HOUSEHOLDER_PRODUCT_A);
    tn_tensor *tau = tn__call_tensor(call,
                                     TN__ARG_LINALG_HOUSEHOLDER_PRODUCT_TAU);
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    if (a->ndim < 2 || tau->ndim != a->ndim - 1 ||
        tail_size(a, 2) < tail_size(a, 1) ||
        tail_size(tau, 1) > tail_size(a, 1) ||
        !tn__shape_equal(a->ndim - 2, a->shape, tau->ndim - 1, tau->shape))
        return tn__fail(TN_ERR_SHAPE, "linalg_householder_product: {A} has "
                        "shape %s and {tau} %s; expected (..., m, n) with m "
                        ">= n, and (..., k) with k <= n",
                        tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, tau->ndim, tau->shape));
    int64_t m = tail_size(a, 2), n = tail_size(a, 1), k = tail_size(tau, 1);
    tn_dims_list size = {a->ndim, {0}};
    for (int d = 0; d < a->ndim; d++)
        size.dim[d] = a->shape[d];
    tn_tensor *q = tn_expand(tn_eye(m, .m = n, .dtype = a->dtype,
                                    .device = a->storage->device),
                             size);
    /* The columns of v are the vectors of the reflections: the elements of a
     * below the diagonal, with ones on the diagonal. */
    tn_tensor *v = tn_add(tn_tril(a, .diagonal = -1), q);
    for (int64_t i = k - 1; i >= 0 && q; i--) {
        tn_tensor *column = tn_narrow(v, -1, i, 1);
        tn_tensor *by = tn_unsqueeze(tn_narrow(tau, -1, i, 1), -1);
        q = tn_sub(q, tn_mul(by, tn_matmul(column,
                                           tn_matmul(transposed(column), q))));
    }
    return tn__give(call, k ? q : tn_clone(q));
}

/* ---- pseudo-inverse, rank ------------------------------------------------ */

static double epsilon_of(tn_dtype dtype)
{
    return dtype == TN_F64 ? DBL_EPSILON : FLT_EPSILON;
}

/* Returns a mask of the singular values s (..., k) of a that are above
 * max(atol, rtol * largest value). The default of rtol is max(M, N) * epsilon
 * of the dtype, or 0 if atol is given. */
static tn_tensor *above_tolerance(tn_tensor *s, const tn_tensor *a,
                                  tn_tensor *atol, tn_tensor *rtol)
{
    tn_dtype dtype = a->dtype;
    int64_t size =
        tail_size(a, 1) > tail_size(a, 2) ? tail_size(a, 1) : tail_size(a, 2);
    if (!s || s->numel == 0)
        return s ? tn_gt_scalar(s, 0) : NULL;
    tn_tensor *most = tn_amax(s, .dim = -1);
    tn_tensor *by_rtol =
        rtol   ? tn_mul(most, tn_to_dtype(rtol, dtype))
        : atol ? tn_zeros_like(most)
               : tn_mul_scalar(most, epsilon_of(dtype) * (double)size);
    tn_tensor *least =
        atol ? tn_maximum(tn_to_dtype(atol, dtype), by_rtol) : by_rtol;
    return tn_gt(s, tn_unsqueeze(least, -1));
}

static tn_tensor *pseudo_inverse(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_PINV_A);
    tn_tensor *atol = tn__call_tensor(call, TN__ARG_LINALG_PINV_ATOL);
    tn_tensor *rtol = tn__call_tensor(call, TN__ARG_LINALG_PINV_RTOL);
    tn_tensor *out[3], *s;
    if (a->numel == 0) {
        tn_dims_list size = {a->ndim, {0}};
        for (int d = 0; d < a->ndim; d++)
            size.dim[d] = a->shape[d];
        size.dim[a->ndim - 1] = tail_size(a, 2);
        size.dim[a->ndim - 2] = tail_size(a, 1);
        return tn_zeros(size, .dtype = a->dtype, .device = a->storage->device);
    }
    if (tn__call_int(call, TN__ARG_LINALG_PINV_HERMITIAN)) {
        if (eigh_of(a, out) < 0)
            return NULL;
        s = tn_abs(out[0]);
        tn_tensor *inverse = tn_where_scalar(above_tolerance(s, a, atol, rtol),
                                             tn_reciprocal(out[0]), 0);
        return product(out[1], inverse, transposed(out[1]));
    }
    if (svd_of(a, false, out) < 0)
        return NULL;
    s = tn_where_scalar(above_tolerance(out[1], a, atol, rtol),
                        tn_reciprocal(out[1]), 0);
    return product(transposed(out[2]), s, transposed(out[0]));
}

tn_status tn__run_linalg_pinv(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_PINV_A);
    bool square = tn__call_int(call, TN__ARG_LINALG_PINV_HERMITIAN);
    if (check_matrices(call, a, square) < 0)
        return tn_error_code();
    return give_in_scope(call, pseudo_inverse);
}

/* Returns x as a 0-d tensor of the dtype and device of a. */
static tn_tensor *scalar_like(const tn_tensor *a, double x)
{
    return tn_full(TN_SCALAR, x, .dtype = a->dtype,
                   .device = a->storage->device);
}

static tn_tensor *pinv_by(tn_value a, double atol, double rtol,
                          tn_value hermitian)
{
    const tn_value value[] = {
        a, tn__value_optional(atol > 0 ? scalar_like(a.of.tensor, atol) : NULL),
        tn__value_optional(rtol >= 0 ? scalar_like(a.of.tensor, rtol) : NULL),
        hermitian};
    return tn_error() ? NULL : tn__row(TN__OP_ID_LINALG_PINV, value, 4);
}

tn_status tn__run_linalg_pinv_by(tn__call *call)
{
    return tn__give(call,
                    pinv_by(call->value[TN__ARG_LINALG_PINV_BY_A],
                            tn__call_float(call, TN__ARG_LINALG_PINV_BY_ATOL),
                            tn__call_float(call, TN__ARG_LINALG_PINV_BY_RTOL),
                            call->value[TN__ARG_LINALG_PINV_BY_HERMITIAN]));
}

tn_status tn__run_linalg_pinv_rcond(tn__call *call)
{
    return tn__give(
        call, pinv_by(call->value[TN__ARG_LINALG_PINV_RCOND_A], 0,
                      tn__call_float(call, TN__ARG_LINALG_PINV_RCOND_RCOND),
                      call->value[TN__ARG_LINALG_PINV_RCOND_HERMITIAN]));
}

tn_status tn__run_pinverse(tn__call *call)
{
    return tn__give(call, pinv_by(call->value[TN__ARG_PINVERSE_INPUT], 0,
                                  tn__call_float(call,
                                                 TN__ARG_PINVERSE_RCOND),
                                  tn__value_bool(false)));
}

static tn_tensor *rank_of(tn_tensor *a, tn_tensor *atol, tn_tensor *rtol,
                          bool hermitian)
{
    tn_tensor *s = hermitian ? tn_abs(tn_linalg_eigvalsh(a))
                             : tn_linalg_svdvals(a);
    tn_tensor *mask = above_tolerance(s, a, atol, rtol);
    return mask ? tn_sum(mask, .dim = -1, .dtype = TN_I64) : NULL;
}

tn_status tn__run_linalg_matrix_rank(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_MATRIX_RANK_A);
    if (check_matrices(call, a, false) < 0)
        return tn_error_code();
    return tn__give(
        call,
        rank_of(a, tn__call_tensor(call, TN__ARG_LINALG_MATRIX_RANK_ATOL),
                tn__call_tensor(call, TN__ARG_LINALG_MATRIX_RANK_RTOL),
                tn__call_int(call, TN__ARG_LINALG_MATRIX_RANK_HERMITIAN)));
}

tn_status tn__run_linalg_matrix_rank_by(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_MATRIX_RANK_BY_A);
    double atol = tn__call_float(call, TN__ARG_LINALG_MATRIX_RANK_BY_ATOL);
    double rtol = tn__call_float(call, TN__ARG_LINALG_MATRIX_RANK_BY_RTOL);
    if (check_matrices(call, a, false) < 0)
        return tn_error_code();
    return tn__give(
        call,
        rank_of(a, atol > 0 ? scalar_like(a, atol) : NULL,
                rtol >= 0 ? scalar_like(a, rtol) : NULL,
                tn__call_int(call, TN__ARG_LINALG_MATRIX_RANK_BY_HERMITIAN)));
}

/* ---- polar decomposition, square root ------------------------------------ */

tn_status tn__run_linalg_polar(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_POLAR_A);
    tn_tensor *out[3], *u = NULL, *h = NULL;
    char text[TN__SHAPE_TEXT];
    if (a->ndim < 2 || tail_size(a, 2) < tail_size(a, 1))
        return tn__fail(TN_ERR_SHAPE, "linalg_polar: {A} has shape %s; "
                        "expected matrices with at least as many rows as "
                        "columns", tn__shape_text(text, a->ndim, a->shape));
    tn_scope *scope = tn_scope_open();
    if (scope && svd_of(a, false, out) >= 0) {
        u = tn__ref(tn_matmul(out[0], out[2]));
        h = tn__ref(product(transposed(out[2]), out[1], out[2]));
    }
    tn_scope_close(scope);
    tn_status status = tn__give(call, u);
    return status < 0 ? status : tn__give(call, h);
}

static tn_tensor *matrix_sqrt(tn__call *call)
{
    tn_tensor *out[2];
    if (eigh_of(tn__call_tensor(call, 0), out) < 0)
        return NULL;
    return product(out[1], tn_sqrt(out[0]), transposed(out[1]));
}

tn_status tn__run_linalg_matrix_sqrth(tn__call *call)
{
    if (check_matrices(call, tn__call_tensor(call, 0), true) < 0)
        return tn_error_code();
    return give_in_scope(call, matrix_sqrt);
}

/* ---- determinants -------------------------------------------------------- */

/* Factors a by LU. Sets *diagonal to the diagonal of U and *sign to the
 * determinant of the row exchanges, 1 or -1. */
static tn_status pivots_of(tn_tensor *a, tn_tensor **diagonal,
                           tn_tensor **sign)
{
    const tn_value value[] = {tn__value_tensor(a)};
    tn_tensor *out[3];
    if (tn__op_run(&tn__op_table[TN__OP_ID_LINALG_LU_FACTOR_EX], value, 1,
                   out, 3) < 0)
        return tn_error_code();
    *diagonal = tn_diagonal(out[0], .dim1 = -2, .dim2 = -1);
    tn_tensor *own = tn_arange(1, tail_size(a, 1) + 1, 1, .dtype = TN_I32,
                               .device = a->storage->device);
    tn_tensor *exchanged = tn_sum(tn_ne(out[1], own), .dim = -1);
    *sign = tn_to_dtype(
        tn_add_scalar(
            tn_mul_scalar(tn_remainder_scalar(exchanged, 2), -2), 1),
        a->dtype);
    return *sign && *diagonal ? TN_OK : tn_error_code();
}

static tn_tensor *determinant(tn__call *call)
{
    tn_tensor *diagonal, *sign;
    if (pivots_of(tn__call_tensor(call, 0), &diagonal, &sign) < 0)
        return NULL;
    return tn_mul(tn_prod(diagonal, .dim = -1), sign);
}

tn_status tn__run_linalg_det(tn__call *call)
{
    if (check_matrices(call, tn__call_tensor(call, 0), true) < 0)
        return tn_error_code();
    return give_in_scope(call, determinant);
}

tn_status tn__run_linalg_slogdet(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, 0), *diagonal, *sign;
    tn_tensor *out[2] = {NULL, NULL};
    if (check_matrices(call, a, true) < 0)
        return tn_error_code();
    tn_scope *scope = tn_scope_open();
    if (scope && pivots_of(a, &diagonal, &sign) >= 0) {
        out[0] = tn__ref(tn_mul(
            sign, tn_prod(tn_sign(diagonal), .dim = -1)));
        out[1] = tn__ref(
            tn_sum(tn_log(tn_abs(diagonal)), .dim = -1));
    }
    tn_scope_close(scope);
    tn_status status = tn__give(call, out[0]);
    return status < 0 ? status : tn__give(call, out[1]);
}

tn_status tn__run_logdet(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, 0), *out[2];
    const tn_value value[] = {tn__value_tensor(a)};
    if (check_matrices(call, a, true) < 0 ||
        tn__op_run(&tn__op_table[TN__OP_ID_LINALG_SLOGDET], value, 1, out, 2) <
            0)
        return tn_error_code();
    return tn__give(call, tn_masked_fill_scalar(
                              out[1], tn_lt_scalar(out[0], 0), NAN));
}

/* ---- powers and the exponential ------------------------------------------ */

tn_status tn__run_linalg_matrix_power(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_MATRIX_POWER_A);
    int64_t n = tn__call_int(call, TN__ARG_LINALG_MATRIX_POWER_N);
    if (check_matrices(call, a, true) < 0)
        return tn_error_code();
    if (n == 0) {
        tn_dims_list size = {a->ndim, {0}};
        for (int d = 0; d < a->ndim; d++)
            size.dim[d] = a->shape[d];
        return tn__give(call,
                        tn_clone(tn_expand(
                            tn_eye(tail_size(a, 1), .dtype = a->dtype,
                                   .device = a->storage->device),
                            size)));
    }
    tn_tensor *power = n < 0 ? tn_linalg_inv(a) : a, *out = NULL;
    for (uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n; left && power;
         left >>= 1) {
        if (left & 1)
            out = out ? tn_matmul(out, power) : power;
        if (left > 1)
            power = tn_matmul(power, power);
    }
    return tn__give(call, !power     ? NULL
                          : out == a ? tn_clone(a)
                                     : out);
}

/* Returns four terms of Taylor's series, plus a multiple of `rest`: the sum
 * over k < 4 of power[k] / (first + k)!, plus last * rest. power[k] is A^k. */
static tn_tensor *four_terms(tn_tensor *const power[4], int first,
                             tn_tensor *rest, double last)
{
    static tn__formula formula = TN__FORMULA(
        "four_terms(a, b, c, d, rest; p, q, r, s, t) ="
        "t * rest + s * d + r * c + q * b + p * a");
    tn_tensor *input[5], *out = NULL;
    tn_dtype dtype[5];
    tn_number factor[5];
    double by = 1 / tgamma(first + 1);
    for (int k = 0; k < 5; k++, by /= first + k) {
        input[k] = k < 4 ? power[k] : rest;
        if (!input[k])
            return NULL;
        dtype[k] = input[k]->dtype;
        factor[k].f = k < 4 ? by : last;
    }
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    return kernel && tn__apply_kernel(kernel, input, factor, NULL, 0,
                                      "linalg_matrix_exp", &out) >= 0
               ? out
               : NULL;
}

/* Returns Taylor's series of e^A up to A^16, by six matrix products: Paterson
 * and Stockmeyer, "On the number of nonscalar multiplications necessary to
 * evaluate polynomials" (1973). */
static tn_tensor *series(tn_tensor *a)
{
    if (!a)
        return NULL;
    tn_tensor *a2 = tn_matmul(a, a), *a3 = tn_matmul(a2, a);
    tn_tensor *a4 = tn_matmul(a2, a2), *sum = a4;
    tn_tensor *const power[] = {tn_eye(tail_size(a, 1), .dtype = a->dtype,
                                       .device = a->storage->device),
                                a, a2, a3};
    for (int first = 12; first >= 0 && sum; first -= 4)
        sum = four_terms(power, first, first < 12 ? tn_matmul(a4, sum) : a4,
                         first < 12 ? 1 : 1 / tgamma(17));
    return sum;
}

/* Returns e^A by scaling and squaring: e^A = (e^(A / 2^s))^(2^s), where the
 * inner power is computed by Taylor's series. Each matrix has its own s.
 *
 * `reach` is the largest norm for which the backward error of the series is
 * below half the epsilon of the dtype. It is the largest x with
 *
 *     sum over k of abs(c[k]) * x^k < x * epsilon / 2
 *
 * where c[k] are the coefficients of log(e^-x * series(x)). The method is that
 * of Bader, Blanes and Casas, "Computing the matrix exponential with an
 * optimized Taylor polynomial approximation" (2019), who give such limits for
 * series of other lengths. */
static tn_tensor *exponential(tn_tensor *a)
{
    const double reach = a->dtype == TN_F64 ? 0.7802 : 2.478;
    tn_tensor *norm = tn_amax(tn_sum(tn_abs(a), .dim = -2),
                              .dim = -1); /* the norm of the matrix: its largest
                                           * column sum of absolute values */
    tn_tensor *times = tn_ceil(tn_clamp_min_scalar(
        tn_log2(tn_div_scalar(norm, reach)), 0));
    times = times ? tn_unsqueeze(tn_unsqueeze(times, -1), -1) : NULL;
    tn_tensor *least = times ? tn_min(times) : NULL;
    tn_tensor *most = times ? tn_max(times) : NULL;
    if (!least || !most)
        return NULL;
    double all = tn_item(least), squarings = tn_item(most);
    if (!(squarings < 1100)) /* if the norm is not finite, neither is the
                                result */
        squarings = 0;
    tn_tensor *sum = series(tn_mul(a, tn_exp2(tn_neg(times))));
    for (int k = 0; k < squarings && sum; k++) {
        tn_tensor *square = tn_matmul(sum, sum);
        sum = k < all ? square
                      : tn_where(tn_gt_scalar(times, k), square, sum);
    }
    return sum;
}

static tn_tensor *matrix_exp(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, 0);
    bool half = tn_dtype_bytes(a->dtype) < 4;
    if (a->numel == 0)
        return tn_clone(a);
    tn_tensor *e = exponential(half ? tn_to_dtype(a, TN_F32) : a);
    return e && half ? tn_to_dtype(e, a->dtype) : e;
}

tn_status tn__run_linalg_matrix_exp(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, 0);
    if (check_matrices(call, a, true) < 0)
        return tn_error_code();
    if (!tn_dtype_is_floating(a->dtype))
        return tn__fail(TN_ERR_DTYPE, "linalg_matrix_exp: {A} is %s; expected "
                        "a floating-point dtype; convert it with tn_to_dtype",
                        tn_dtype_name(a->dtype));
    return give_in_scope(call, matrix_exp);
}
