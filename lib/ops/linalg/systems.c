/* systems.c: linear systems and least squares (PyTorch's linalg.solve,
 * lu_solve, cholesky_solve, lstsq and others), composed of the factorisations.
 * Batch dimensions are broadcast here, because the operators that are called
 * require equal batches. */
#include <ops/engine/native.h>

static tn_tensor *transposed(tn_tensor *x)
{
    return x ? tn_transpose(x, -1, -2) : NULL;
}

static int64_t tail_size(const tn_tensor *x, int back)
{
    return x->shape[x->ndim - back];
}

static tn_tensor *eye_like(const tn_tensor *x, int64_t n)
{
    return tn_eye(n, .dtype = x->dtype, .device = x->storage->device);
}

static tn_status check_matrices(const tn__call *call, const tn_tensor *x,
                                int arg)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim >= 2)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected at least 2 "
                    "dimensions, the last two being a matrix", call->op->name,
                    call->op->arg[arg].name,
                    tn__shape_text(text, x->ndim, x->shape));
}

/* Expands *a and *b to common batch dimensions. The batch dimensions are those
 * before the last skip_a dimensions of *a and before the last skip_b dimensions
 * of *b. */
static tn_status broadcast_batches(const char *name, tn_tensor **a, int skip_a,
                                   tn_tensor **b, int skip_b)
{
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    tn__shape batch = {.ndim = (*a)->ndim - skip_a};
    for (int d = 0; d < batch.ndim; d++)
        batch.dim[d] = (*a)->shape[d];
    if (batch.ndim < 0 || (*b)->ndim < skip_b ||
        !tn__shape_broadcast(&batch, (*b)->ndim - skip_b, (*b)->shape) ||
        batch.ndim + 2 > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "%s: the shapes %s and %s do not fit: "
                        "all dimensions but those of the matrices must "
                        "broadcast", name,
                        tn__shape_text(s, (*a)->ndim, (*a)->shape),
                        tn__shape_text(t, (*b)->ndim, (*b)->shape));
    tn_tensor **which[] = {a, b};
    const int skip[] = {skip_a, skip_b};
    for (int k = 0; k < 2; k++) {
        tn_tensor *x = *which[k];
        tn_dims_list size = {batch.ndim + skip[k], {0}};
        for (int d = 0; d < batch.ndim; d++)
            size.dim[d] = batch.dim[d];
        for (int d = 0; d < skip[k]; d++)
            size.dim[batch.ndim + d] = x->shape[x->ndim - skip[k] + d];
        if (!tn__shape_equal(x->ndim, x->shape, size.count, size.dim))
            *which[k] = tn_expand(x, size);
        if (!*which[k])
            return tn_error_code();
    }
    return TN_OK;
}

/* ---- triangular systems -------------------------------------------------- */

static tn_tensor *solve_triangle(tn_tensor *a, tn_tensor *b, bool upper,
                                 bool left, bool unit)
{
    if (!a || !b)
        return NULL;
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_bool(upper), tn__value_bool(left),
                              tn__value_bool(unit)};
    return tn__row(TN__OP_ID_SOLVE_TRIANGLE, value, 5);
}

tn_status tn__run_linalg_solve_triangular(tn__call *call)
{
    enum {
        arg_a = TN__ARG_LINALG_SOLVE_TRIANGULAR_A,
        arg_b = TN__ARG_LINALG_SOLVE_TRIANGULAR_B
    };
    tn_tensor *a = tn__call_tensor(call, arg_a);
    tn_tensor *b = tn__call_tensor(call, arg_b);
    if (check_matrices(call, a, arg_a) < 0 ||
        check_matrices(call, b, arg_b) < 0 ||
        broadcast_batches(call->op->name, &a, 2, &b, 2) < 0)
        return tn_error_code();
    return tn__give(
        call,
        solve_triangle(
            a, b, tn__call_int(call, TN__ARG_LINALG_SOLVE_TRIANGULAR_UPPER),
            tn__call_int(call, TN__ARG_LINALG_SOLVE_TRIANGULAR_LEFT),
            tn__call_int(call, TN__ARG_LINALG_SOLVE_TRIANGULAR_UNITRIANGULAR)));
}

tn_status tn__run_triangular_solve(tn__call *call)
{
    enum {
        arg_b = TN__ARG_TRIANGULAR_SOLVE_INPUT,
        arg_a = TN__ARG_TRIANGULAR_SOLVE_A
    };
    tn_tensor *a = tn__call_tensor(call, arg_a);
    tn_tensor *b = tn__call_tensor(call, arg_b);
    bool upper = tn__call_int(call, TN__ARG_TRIANGULAR_SOLVE_UPPER);
    bool turn = tn__call_int(call, TN__ARG_TRIANGULAR_SOLVE_TRANSPOSE);
    if (check_matrices(call, a, arg_a) < 0 ||
        check_matrices(call, b, arg_b) < 0 ||
        broadcast_batches(call->op->name, &a, 2, &b, 2) < 0)
        return tn_error_code();
    tn_tensor *x = solve_triangle(
        turn ? transposed(a) : a, b, upper != turn, true,
        tn__call_int(call, TN__ARG_TRIANGULAR_SOLVE_UNITRIANGULAR));
    tn_status status = tn__give(call, x);
    return status < 0 ? status : tn__give(call, tn_clone(a));
}

/* ---- solving by a Cholesky factor ---------------------------------------- */

/* Returns X with A X = B, from a Cholesky factor: A = L L^T, or A = U^T U if
 * the factor is upper. */
static tn_tensor *solve_cholesky(tn_tensor *b, tn_tensor *l, bool upper)
{
    tn_tensor *low = upper ? transposed(l) : l;
    tn_tensor *y = solve_triangle(low, b, false, true, false);
    return solve_triangle(transposed(low), y, true, true, false);
}

tn_status tn__run_cholesky_solve(tn__call *call)
{
    enum {
        arg_b = TN__ARG_CHOLESKY_SOLVE_INPUT,
        arg_l = TN__ARG_CHOLESKY_SOLVE_INPUT2
    };
    tn_tensor *b = tn__call_tensor(call, arg_b);
    tn_tensor *l = tn__call_tensor(call, arg_l);
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = NULL;
    if (scope && check_matrices(call, b, arg_b) >= 0 &&
        check_matrices(call, l, arg_l) >= 0 &&
        broadcast_batches(call->op->name, &l, 2, &b, 2) >= 0)
        x = tn__ref(solve_cholesky(
            b, l, tn__call_int(call, TN__ARG_CHOLESKY_SOLVE_UPPER)));
    tn_scope_close(scope);
    return tn__give(call, x);
}

tn_status tn__run_cholesky_inverse(tn__call *call)
{
    tn_tensor *l = tn__call_tensor(call, TN__ARG_CHOLESKY_INVERSE_INPUT);
    if (check_matrices(call, l, 0) < 0)
        return tn_error_code();
    tn_scope *scope = tn_scope_open();
    tn_tensor *eye = scope ? eye_like(l, tail_size(l, 1)) : NULL, *x = NULL;
    if (eye && broadcast_batches(call->op->name, &l, 2, &eye, 2) >= 0)
        x = tn__ref(solve_cholesky(
            eye, l, tn__call_int(call, TN__ARG_CHOLESKY_INVERSE_UPPER)));
    tn_scope_close(scope);
    return tn__give(call, x);
}

tn_status tn__run_linalg_cholesky(tn__call *call)
{
    const tn_value value[] = {call->value[TN__ARG_LINALG_CHOLESKY_A],
                              call->value[TN__ARG_LINALG_CHOLESKY_UPPER],
                              tn__value_bool(true)};
    return tn__give(call, tn__row(TN__OP_ID_LINALG_CHOLESKY_EX, value, 3));
}

/* ---- LU ------------------------------------------------------------------ */

/* Factors a by LU. Stores LU, the pivots and LAPACK's info in out[]. */
static tn_status factor(tn_tensor *a, tn_value pivot, bool check,
                        tn_tensor *out[3])
{
    const tn_value value[] = {tn__value_tensor(a), pivot,
                              tn__value_bool(check)};
    int count = tn__op_run(&tn__op_table[TN__OP_ID_LINALG_LU_FACTOR_EX], value,
                           3, out, 3);
    return count < 0 ? count : TN_OK;
}

tn_status tn__run_linalg_lu_factor(tn__call *call)
{
    tn_tensor *out[3];
    tn_status status =
        factor(tn__call_tensor(call, TN__ARG_LINALG_LU_FACTOR_A),
               call->value[TN__ARG_LINALG_LU_FACTOR_PIVOT], true, out);
    for (int k = 0; k < 2 && status >= 0; k++)
        status = tn__give(call, out[k]);
    return status;
}

tn_status tn__run_lu(tn__call *call)
{
    bool infos = tn__call_int(call, TN__ARG_LU_GET_INFOS);
    tn_tensor *out[3];
    tn_status status = factor(tn__call_tensor(call, TN__ARG_LU_A),
                              call->value[TN__ARG_LU_PIVOT], !infos, out);
    for (int k = 0; k < 2 + infos && status >= 0; k++)
        status = tn__give(call, out[k]);
    return status;
}

static tn_tensor *row_order(tn_tensor *pivots, int64_t rows)
{
    const tn_value value[] = {tn__value_tensor(pivots), tn__value_int(rows)};
    return tn__row(TN__OP_ID_LU_ORDER, value, 2);
}

/* Return the two factors that lu holds: the unit lower triangle, with one
 * column for each pivot, and the upper triangle, with one row for each
 * pivot. */
static tn_tensor *lower_of(tn_tensor *lu)
{
    int64_t m = tail_size(lu, 2), n = tail_size(lu, 1), k = m < n ? m : n;
    tn_tensor *low =
        tn_tril(n > k ? tn_narrow(lu, -1, 0, k) : lu, .diagonal = -1);
    tn_tensor *ones = eye_like(lu, k);
    if (ones && m > k)
        ones = tn_constant_pad_nd(ones, tn_dims(0, 0, 0, m - k), 0);
    return tn_add(low, ones);
}

static tn_tensor *upper_of(tn_tensor *lu)
{
    int64_t m = tail_size(lu, 2), n = tail_size(lu, 1);
    return tn_triu(m > n ? tn_narrow(lu, -2, 0, n) : lu);
}

/* Returns the permutation matrix P with A = P L U. order[i] is the row of A
 * that became row i, so column i of P has its 1 in row order[i]. */
static tn_tensor *permutation(tn_tensor *order, const tn_tensor *like)
{
    if (!order)
        return NULL;
    const tn_value value[] = {tn__value_tensor(order),
                              tn__value_int(tail_size(order, 1))};
    tn_tensor *ones = tn__row(TN__OP_ID_ONE_HOT_DRAW, value, 2);
    return tn_contiguous(transposed(tn_to_dtype(ones, like->dtype)));
}

static tn_tensor *empty_like(const tn_tensor *x)
{
    return tn_empty(tn_dims(0), .dtype = x->dtype,
                    .device = x->storage->device);
}

static tn_status unpack(tn__call *call, tn_tensor *lu, tn_tensor *pivots,
                        bool data, bool with_pivots)
{
    int64_t rows = tail_size(lu, 2);
    tn_status status = tn__give(
        call, with_pivots ? permutation(row_order(pivots, rows), lu)
                          : empty_like(lu));
    if (status >= 0)
        status = tn__give(call, data ? lower_of(lu) : empty_like(lu));
    if (status >= 0)
        status = tn__give(call, data ? upper_of(lu) : empty_like(lu));
    return status;
}

tn_status tn__run_lu_unpack(tn__call *call)
{
    tn_tensor *lu = tn__call_tensor(call, TN__ARG_LU_UNPACK_LU_DATA);
    tn_tensor *pivots = tn__call_tensor(call, TN__ARG_LU_UNPACK_LU_PIVOTS);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status =
        check_matrices(call, lu, TN__ARG_LU_UNPACK_LU_DATA);
    if (status < 0)
        return status;
    int64_t m = tail_size(lu, 2), n = tail_size(lu, 1);
    if (pivots->ndim != lu->ndim - 1 ||
        !tn__shape_equal(lu->ndim - 2, lu->shape, pivots->ndim - 1,
                         pivots->shape) ||
        tail_size(pivots, 1) != (m < n ? m : n))
        return tn__fail(TN_ERR_SHAPE, "lu_unpack: {LU_pivots} has shape %s "
                        "and {LU_data} %s; expected (..., k) and (..., m, n), "
                        "where k is the smaller of m and n",
                        tn__shape_text(a, pivots->ndim, pivots->shape),
                        tn__shape_text(b, lu->ndim, lu->shape));
    return unpack(call, lu, pivots,
                  tn__call_int(call, TN__ARG_LU_UNPACK_UNPACK_DATA),
                  tn__call_int(call, TN__ARG_LU_UNPACK_UNPACK_PIVOTS));
}

tn_status tn__run_linalg_lu(tn__call *call)
{
    tn_tensor *out[3];
    tn_status status =
        factor(tn__call_tensor(call, TN__ARG_LINALG_LU_A),
               call->value[TN__ARG_LINALG_LU_PIVOT], false, out);
    return status < 0 ? status : unpack(call, out[0], out[1], true, true);
}

/* Returns b with its rows permuted: row i of the result is row order[i] of b.
 * If `back` is true, applies the inverse permutation. */
static tn_tensor *permute_rows(tn_tensor *b, tn_tensor *order, bool back)
{
    if (!b || !order)
        return NULL;
    if (back)
        order = tn_argsort(order, -1, false);
    tn_dims_list size = {b->ndim, {0}};
    for (int d = 0; d < b->ndim; d++)
        size.dim[d] = b->shape[d];
    return order ? tn_gather(b, -2, tn_expand(tn_unsqueeze(order, -1), size))
                 : NULL;
}

/* Returns X with P L U X = B, or with U^T L^T P^T X = B if `adjoint` is
 * true. */
static tn_tensor *solve_lu(tn_tensor *lu, tn_tensor *pivots, tn_tensor *b,
                           bool adjoint)
{
    if (broadcast_batches(tn__op_outer("lu_solve"), &lu, 2, &b, 2) < 0)
        return NULL;
    tn_tensor *order = row_order(pivots, tail_size(lu, 2));
    if (!order || broadcast_batches(tn__op_outer("lu_solve"), &order, 1, &b,
                                    2) < 0)
        return NULL;
    if (adjoint) {
        tn_tensor *y = solve_triangle(transposed(lu), b, false, true, false);
        return permute_rows(solve_triangle(transposed(lu), y, true, true, true),
                            order, true);
    }
    tn_tensor *y =
        solve_triangle(lu, permute_rows(b, order, false), false, true, true);
    return solve_triangle(lu, y, true, true, false);
}

static tn_status check_square(const tn__call *call, const tn_tensor *x,
                              int arg)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim >= 2 && tail_size(x, 1) == tail_size(x, 2))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected square "
                    "matrices", call->op->name, call->op->arg[arg].name,
                    tn__shape_text(text, x->ndim, x->shape));
}

static tn_status run_lu_solve(tn__call *call, int lu_arg, int pivots_arg,
                              int b_arg, bool left, bool adjoint)
{
    tn_tensor *lu = tn__call_tensor(call, lu_arg);
    tn_tensor *pivots = tn__call_tensor(call, pivots_arg);
    tn_tensor *b = tn__call_tensor(call, b_arg);
    if (check_square(call, lu, lu_arg) < 0 ||
        check_matrices(call, b, b_arg) < 0)
        return tn_error_code();
    /* X A = B is solved as A^T X^T = B^T. */
    tn_tensor *x =
        solve_lu(lu, pivots, left ? b : transposed(b), adjoint == left);
    return tn__give(call, left ? x : transposed(x));
}

tn_status tn__run_linalg_lu_solve(tn__call *call)
{
    return run_lu_solve(call, TN__ARG_LINALG_LU_SOLVE_LU,
                        TN__ARG_LINALG_LU_SOLVE_PIVOTS,
                        TN__ARG_LINALG_LU_SOLVE_B,
                        tn__call_int(call, TN__ARG_LINALG_LU_SOLVE_LEFT),
                        tn__call_int(call, TN__ARG_LINALG_LU_SOLVE_ADJOINT));
}

tn_status tn__run_lu_solve(tn__call *call)
{
    return run_lu_solve(call, TN__ARG_LU_SOLVE_LU_DATA,
                        TN__ARG_LU_SOLVE_LU_PIVOTS, TN__ARG_LU_SOLVE_INPUT,
                        true, false);
}

/* ---- square systems ------------------------------------------------------ */

/* Returns whether b holds one vector for each matrix of a, as opposed to
 * matrices. The rule is NumPy's. */
static bool is_vectors(const tn_tensor *a, const tn_tensor *b)
{
    return b->ndim == 1 ||
           (b->ndim == a->ndim - 1 &&
            tn__shape_equal(b->ndim, b->shape, b->ndim, a->shape));
}

static tn_status solve(tn__call *call, bool left, bool check, bool with_info)
{
    enum { arg_a = TN__ARG_LINALG_SOLVE_A, arg_b = TN__ARG_LINALG_SOLVE_B };
    tn_tensor *a = tn__call_tensor(call, arg_a);
    tn_tensor *b = tn__call_tensor(call, arg_b), *out[2] = {NULL};
    if (check_square(call, a, arg_a) < 0)
        return tn_error_code();
    bool vectors = left && is_vectors(a, b);
    if (vectors)
        b = tn_unsqueeze(b, -1);
    if (!b || check_matrices(call, b, arg_b) < 0 ||
        broadcast_batches(call->op->name, &a, 2, &b, 2) < 0)
        return tn_error_code();
    if (!left) { /* X A = B is solved as A^T X^T = B^T */
        a = transposed(a);
        b = transposed(b);
    }
    if (!a || !b)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_bool(check)};
    if (tn__op_run(&tn__op_table[TN__OP_ID_SOLVE_SQUARE], value, 3, out, 2) <
        0)
        return tn_error_code();
    tn_tensor *x = left ? out[0] : transposed(out[0]);
    tn_status status =
        tn__give(call, vectors ? tn_squeeze(x, .dim = -1) : x);
    return status < 0 || !with_info ? status : tn__give(call, out[1]);
}

tn_status tn__run_linalg_solve(tn__call *call)
{
    return solve(call, tn__call_int(call, TN__ARG_LINALG_SOLVE_LEFT), true,
                 false);
}

tn_status tn__run_linalg_solve_ex(tn__call *call)
{
    return solve(call, tn__call_int(call, TN__ARG_LINALG_SOLVE_EX_LEFT),
                 tn__call_int(call, TN__ARG_LINALG_SOLVE_EX_CHECK_ERRORS),
                 true);
}

static tn_status invert(tn__call *call, bool check, bool with_info)
{
    tn_tensor *a = tn__call_tensor(call, 0);
    tn_tensor *out[2] = {NULL};
    if (check_square(call, a, 0) < 0)
        return tn_error_code();
    tn_tensor *eye = eye_like(a, tail_size(a, 1));
    if (!eye || broadcast_batches(call->op->name, &a, 2, &eye, 2) < 0)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(eye),
                              tn__value_bool(check)};
    if (tn__op_run(&tn__op_table[TN__OP_ID_SOLVE_SQUARE], value, 3, out, 2) <
        0)
        return tn_error_code();
    tn_status status = tn__give(call, out[0]);
    return status < 0 || !with_info ? status : tn__give(call, out[1]);
}

tn_status tn__run_linalg_inv(tn__call *call)
{
    return invert(call, true, false);
}

tn_status tn__run_linalg_inv_ex(tn__call *call)
{
    return invert(call,
                  tn__call_int(call, TN__ARG_LINALG_INV_EX_CHECK_ERRORS),
                  true);
}

/* ---- symmetric indefinite matrices --------------------------------------- */

tn_status tn__run_linalg_ldl_factor(tn__call *call)
{
    const tn_value value[] = {call->value[TN__ARG_LINALG_LDL_FACTOR_A],
                              call->value[TN__ARG_LINALG_LDL_FACTOR_HERMITIAN],
                              tn__value_bool(true)};
    tn_tensor *out[3];
    if (tn__op_run(&tn__op_table[TN__OP_ID_LINALG_LDL_FACTOR_EX], value, 3,
                   out, 3) < 0)
        return tn_error_code();
    tn_status status = tn__give(call, out[0]);
    return status < 0 ? status : tn__give(call, out[1]);
}

tn_status tn__run_linalg_ldl_solve(tn__call *call)
{
    tn_tensor *ld = tn__call_tensor(call, TN__ARG_LINALG_LDL_SOLVE_LD);
    tn_tensor *pivots = tn__call_tensor(call, TN__ARG_LINALG_LDL_SOLVE_PIVOTS);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINALG_LDL_SOLVE_B);
    if (check_square(call, ld, TN__ARG_LINALG_LDL_SOLVE_LD) < 0 ||
        check_matrices(call, b, TN__ARG_LINALG_LDL_SOLVE_B) < 0 ||
        broadcast_batches("linalg_ldl_solve", &ld, 2, &b, 2) < 0 ||
        broadcast_batches("linalg_ldl_solve", &pivots, 1, &b, 2) < 0)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(ld), tn__value_tensor(pivots),
                              tn__value_tensor(b)};
    return tn__give(call, tn__row(TN__OP_ID_LDL_SOLVE_BATCH, value, 3));
}

/* ---- least squares ------------------------------------------------------- */

/* The drivers of lstsq, and which of PyTorch's results each returns. If
 * `spectral` is true, the driver uses singular values. Otherwise it uses QR
 * with pivoting. */
static const struct driver {
    const char *name;
    bool residuals, rank, spectral;
} drivers[] = {{"gelsy", false, true, false},
               {"gels", true, false, false},
               {"gelsd", true, true, true},
               {"gelss", true, true, true}};

static tn_tensor *empty_of(const tn_tensor *x, tn_dtype dtype)
{
    return tn_empty(tn_dims(0), .dtype = dtype, .device = x->storage->device);
}

/* Returns the sum of squared residuals of each column of B - A X, or an empty
 * tensor unless all matrices have full rank and more rows than columns. */
static tn_tensor *residuals(tn_tensor *a, tn_tensor *x, tn_tensor *b,
                            tn_tensor *rank)
{
    int64_t n = tail_size(a, 1);
    if (!rank || tail_size(a, 2) <= n || rank->numel == 0 ||
        tn_item_int(tn_min(rank)) < n)
        return empty_of(a, a->dtype);
    return tn_sum(tn_square(tn_sub(tn_matmul(a, x), b)), .dim = -2);
}

/* Solves least-squares problems. Stores the solution and the rank in out[]. */
static tn_status least_squares(tn_tensor *a, tn_tensor *b, tn_value rcond,
                               bool spectral, tn_tensor *out[2])
{
    if (spectral) {
        const tn_value value[] = {tn__value_tensor(a), tn__value_float(0),
                                  rcond, tn__value_bool(false)};
        out[0] = tn_matmul(tn__row(TN__OP_ID_LINALG_PINV_BY, value, 4), b);
        out[1] = tn__row(TN__OP_ID_LINALG_MATRIX_RANK_BY, value, 4);
        return out[0] && out[1] ? TN_OK : tn_error_code();
    }
    if (broadcast_batches("linalg_lstsq", &a, 2, &b, 2) < 0)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b), rcond};
    int count =
        tn__op_run(&tn__op_table[TN__OP_ID_LSTSQ_BATCH], value, 3, out, 2);
    return count < 0 ? count : TN_OK;
}

tn_status tn__run_linalg_lstsq(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_LSTSQ_A), *out[2];
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINALG_LSTSQ_B);
    const tn_value *text = &call->value[TN__ARG_LINALG_LSTSQ_DRIVER];
    const char *name = text->kind == TN_VALUE_STRING ? text->of.string
                                                     : drivers[0].name;
    const struct driver *driver = NULL;
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    for (size_t k = 0; k < sizeof drivers / sizeof *drivers; k++)
        if (strcmp(drivers[k].name, name) == 0)
            driver = &drivers[k];
    if (!driver)
        return tn__fail(TN_ERR_ARGUMENT, "linalg_lstsq: {driver} \"%s\" is "
                        "none of gelsy, gels, gelsd, gelss", name);
    bool vectors = b->ndim == 1 || b->ndim == a->ndim - 1;
    int rows_at = vectors ? 1 : 2;
    if (a->ndim < 2 || b->ndim < rows_at ||
        tail_size(b, rows_at) != tail_size(a, 2))
        return tn__fail(TN_ERR_SHAPE, "linalg_lstsq: {A} has shape %s and {B} "
                        "%s; expected (..., m, n) and (..., m, k), or (..., "
                        "m) for one right-hand side",
                        tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape));
    if (vectors && !(b = tn_unsqueeze(b, -1)))
        return tn_error_code();
    if (least_squares(a, b, call->value[TN__ARG_LINALG_LSTSQ_RCOND],
                      driver->spectral, out) < 0)
        return tn_error_code();
    tn_tensor *x = out[0], *rank = out[1];
    tn_status status =
        tn__give(call, vectors ? tn_squeeze(x, .dim = -1) : x);
    if (status >= 0)
        status = tn__give(call, driver->residuals ? residuals(a, x, b, rank)
                                                  : empty_of(a, a->dtype));
    if (status >= 0)
        status = tn__give(call, driver->rank ? tn_to_dtype(rank, TN_I64)
                                             : empty_of(a, TN_I64));
    if (status >= 0)
        status = tn__give(call, driver->spectral ? tn_linalg_svdvals(a)
                                                 : empty_of(a, a->dtype));
    return status;
}
