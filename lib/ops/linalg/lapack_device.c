/* lapack_device.c: runs operators with the flag `host` on a device that has the
 * extension `lapack`. The device also runs the transpositions, zeroing and
 * checks around a factorisation, as other operators. Only the status of the
 * factorisation is copied to the host. The extension works on column-major
 * matrices. The memory of a row-major matrix, read in column-major order, is
 * the transpose of the matrix. */
#include <base/memory.h>
#include <float.h>
#include <limits.h>
#include <ops/linalg/lapack.h>
#include <device/work.h>

typedef struct work {
    tn__call *call;
    const char *name;
    tn_tensor *x, *info; /* x is argument 0 of the call. info has the status of
                            each matrix. */
    bool by_rows;        /* the device also accepts row-major matrices */
    tn_lapack_args args;
} work;

static tn_tensor *transposed(tn_tensor *x)
{
    return tn_transpose(x, -1, -2);
}

/* Makes a contiguous tensor (..., columns, rows) with the batch dimensions of
 * x. A size of -1 omits the dimension. The open scope owns the tensor. */
static tn_tensor *new_matrices(const work *w, tn_dtype dtype, int64_t columns,
                               int64_t rows)
{
    tn_dims_list size = {w->x->ndim - 2, {0}};
    for (int d = 0; d < size.count; d++)
        size.dim[d] = w->x->shape[d];
    if (columns >= 0)
        size.dim[size.count++] = columns;
    if (rows >= 0)
        size.dim[size.count++] = rows;
    return tn_empty(size, .dtype = dtype, .device = w->x->storage->device);
}

/* Makes matrices with `rows` rows and `columns` columns for the device: a
 * tensor (..., columns, rows). If the device accepts row-major matrices, this
 * is a transposed view of a contiguous tensor (..., rows, columns). */
static tn_tensor *new_columns(const work *w, int64_t columns, int64_t rows)
{
    return w->by_rows ? transposed(new_matrices(w, w->x->dtype, rows, columns))
                      : new_matrices(w, w->x->dtype, columns, rows);
}

/* Returns a copy of the matrices of x that may be overwritten, in the form
 * (..., columns, rows) in which the device sees matrices. */
static tn_tensor *by_column(const work *w, tn_tensor *x)
{
    return w->by_rows ? transposed(tn_clone(x)) : tn_clone(transposed(x));
}

static tn_tensor *copied(tn_tensor *x)
{
    return tn_clone(x);
}

/* Returns the matrices (..., columns, rows) in the form (..., rows, columns).
 * Nothing is copied if the result is contiguous already. */
static tn_tensor *by_row(tn_tensor *columns)
{
    return tn_contiguous(transposed(columns));
}

/* Describes x for the device as (batch, columns, rows). */
static tn_strided matrices(const tn_tensor *x)
{
    int64_t rows = x->shape[x->ndim - 1], columns = x->shape[x->ndim - 2];
    bool contiguous = tn_tensor_is_contiguous(x);
    return (tn_strided){.buffer = tn__tensor_buffer(x),
                        .offset = tn__tensor_buffer_offset(x),
                        .dtype = x->dtype, .ndim = 3,
                        .stride = {rows * columns, contiguous ? rows : 1,
                                   contiguous ? 1 : columns}};
}

static tn_strided dense_rows(const tn_tensor *x, int64_t width)
{
    return (tn_strided){.buffer = tn__tensor_buffer(x),
                        .offset = tn__tensor_buffer_offset(x),
                        .dtype = x->dtype, .ndim = 2, .stride = {width, 1}};
}

/* Calls the device. Describes the matrices `a` in w->args. The caller has
 * described all other operands there. */
static tn_status run(work *w, uint32_t kind, uint32_t flags, tn_tensor *a)
{
    if (!a || !w->info)
        return tn_error_code();
    w->args.kind = kind;
    w->args.flags = flags;
    w->args.a = matrices(a);
    w->args.info = dense_rows(w->info, 1);
    return tn__device_work(w->x->storage->device, TN__WORK_LAPACK, &w->args,
                           w->name, NULL, NULL);
}

/* Checks that the device succeeded for all matrices. If not, reports the first
 * one that failed. This waits for the device. */
static tn_status refuse(const work *w, const char *why)
{
    int64_t batch = w->args.batch;
    int32_t *info = tn__alloc_many(batch, sizeof *info);
    if (!info)
        return TN_ERR_MEMORY;
    tn_status status = tn_tensor_to_array(w->info, info,
                                          (size_t)batch * sizeof *info);
    for (int64_t k = 0; k < batch && status >= 0; k++)
        if (info[k])
            status = tn__lapack_refuse(w->name, k, why, info[k]);
    tn__free(info);
    return status;
}

/* ---- operators by the device --------------------------------------------- */

/* Each of the following functions runs one operator and stores the outputs in
 * out[]. The open scope owns them. */

static tn_status cholesky(work *w, tn_tensor **out)
{
    bool upper = tn__call_int(w->call, TN__ARG_LINALG_CHOLESKY_EX_UPPER);
    out[0] = w->by_rows ? copied(w->x)
                        : tn_contiguous(upper ? tn_triu(w->x) : tn_tril(w->x));
    out[1] = w->info;
    tn_status status = run(w, TN_LAPACK_CHOLESKY,
                           (upper ? 0 : TN_LAPACK_UPPER) |
                               (w->by_rows ? TN_LAPACK_ALONE : 0),
                           out[0]);
    /* Devices report NaN and inf differently, so the diagonal is checked
     * here. */
    if (status >= 0) {
        const tn_value value[] = {
            tn__value_optional(tn_diagonal(out[0], .dim1 = -2, .dim2 = -1)),
            tn__value_optional(tn_unsqueeze(w->info, -1)), tn__value_int(-1)};
        w->info = out[1] =
            value[0].of.tensor && value[1].of.tensor
                ? tn__row(TN__OP_ID_CHOLESKY_INFO, value, 3) : NULL;
        status = w->info ? TN_OK : tn_error_code();
    }
    if (status >= 0 &&
        tn__call_int(w->call, TN__ARG_LINALG_CHOLESKY_EX_CHECK_ERRORS))
        status = refuse(w, "is not positive-definite");
    return status;
}

static tn_status lu_run(work *w, tn_tensor *a, tn_tensor **pivots)
{
    int64_t width = w->args.m < w->args.n ? w->args.m : w->args.n;
    *pivots = new_matrices(w, TN_I32, width, -1);
    if (!*pivots)
        return tn_error_code();
    w->args.pivots = dense_rows(*pivots, width);
    return run(w, TN_LAPACK_LU, 0, a);
}

static tn_status lu(work *w, tn_tensor **out)
{
    tn_tensor *a = by_column(w, w->x);
    tn_status status = lu_run(w, a, &out[1]);
    if (status >= 0 &&
        tn__call_int(w->call, TN__ARG_LINALG_LU_FACTOR_EX_CHECK_ERRORS))
        status = refuse(w, "is singular: U has a 0 on its diagonal");
    out[0] = by_row(a);
    out[2] = w->info;
    return status;
}

/* Solves A X = B. The device gets a copy of the memory of A, which it sees as
 * A^T, and factors A^T. */
static tn_status solve(work *w, tn_tensor **out)
{
    tn_tensor *b =
        by_column(w, tn__call_tensor(w->call, TN__ARG_SOLVE_SQUARE_B));
    tn_tensor *a = copied(w->x), *pivots;
    tn_status status = lu_run(w, a, &pivots);
    if (status >= 0 &&
        tn__call_int(w->call, TN__ARG_SOLVE_SQUARE_CHECK_ERRORS))
        status = refuse(w, "is singular");
    if (status >= 0 && b) {
        w->args.b = matrices(b);
        w->args.sides = b->shape[b->ndim - 2];
        status = run(w, TN_LAPACK_SOLVE, TN_LAPACK_TURNED, a);
    }
    out[0] = by_row(b);
    out[1] = w->info;
    return status;
}

/* Solves a triangular system. The device sees A X = B in memory as X^T A^T =
 * B^T. If A is an upper triangle, A^T is a lower one, and vice versa. */
static tn_status triangle(work *w, tn_tensor **out)
{
    bool upper = tn__call_int(w->call, TN__ARG_SOLVE_TRIANGLE_UPPER);
    bool left = tn__call_int(w->call, TN__ARG_SOLVE_TRIANGLE_LEFT);
    bool unit = tn__call_int(w->call, TN__ARG_SOLVE_TRIANGLE_UNITRIANGULAR);
    tn_tensor *b = tn__call_tensor(w->call, TN__ARG_SOLVE_TRIANGLE_B);
    b = left ? copied(b) : by_column(w, b);
    if (!b)
        return tn_error_code();
    w->args.b = matrices(b);
    w->args.sides = b->shape[b->ndim - 1];
    tn_status status = run(w, TN_LAPACK_TRIANGLE,
                           (upper ? 0 : TN_LAPACK_UPPER) |
                               (left ? 0 : TN_LAPACK_TURNED) |
                               (unit ? TN_LAPACK_UNIT : 0),
                           tn_contiguous(w->x));
    out[0] = left ? b : by_row(b);
    return status;
}

static tn_status qr(work *w, tn_tensor **out)
{
    const char *mode = w->call->value[TN__ARG_LINALG_QR_MODE].of.string;
    int64_t m = w->args.m, n = w->args.n, least = m < n ? m : n;
    bool whole = strcmp(mode, "complete") == 0, none = strcmp(mode, "r") == 0;
    int64_t sides = whole ? m : none ? 0 : least;
    tn_tensor *a = by_column(w, w->x);
    tn_tensor *b = none ? tn_empty(tn_dims(0), .dtype = w->x->dtype,
                                   .device = w->x->storage->device)
                        : new_columns(w, sides, m);
    if (!b)
        return tn_error_code();
    w->args.sides = sides;
    if (!none)
        w->args.b = matrices(b);
    tn_status status =
        run(w, TN_LAPACK_QR, w->by_rows ? TN_LAPACK_ALONE : 0, a);
    tn_tensor *r = tn_narrow(transposed(a), -2, 0, whole ? m : least);
    out[0] = none ? b : by_row(b);
    out[1] = tn_contiguous(w->by_rows ? r : tn_triu(r));
    return status;
}

/* Solves least-squares problems by QR without pivoting, if all matrices
 * certainly have full rank. An upper bound of the condition of R is computed
 * from the sums of squares of R and R^-1. If the bound is too large, returns
 * TN_ERR_UNSUPPORTED, without an error recorded. */
static tn_status least_squares(work *w, tn_tensor **out)
{
    tn_tensor *b = tn__call_tensor(w->call, TN__ARG_LSTSQ_BATCH_B);
    const int64_t m = w->args.m, n = w->args.n;
    double rcond = tn__call_float(w->call, TN__ARG_LSTSQ_BATCH_RCOND);
    if (rcond < 0)
        rcond = (double)m *
                (w->x->dtype == TN_F32 ? FLT_EPSILON : DBL_EPSILON);
    if (!w->by_rows || !(rcond > 0))
        return TN_ERR_UNSUPPORTED;
    tn_tensor *a = by_column(w, w->x), *q = new_columns(w, n, m);
    if (!q)
        return tn_error_code();
    w->args.sides = n;
    w->args.b = matrices(q);
    tn_status status = run(w, TN_LAPACK_QR, TN_LAPACK_ALONE, a);
    tn_tensor *r = tn_contiguous(tn_narrow(transposed(a), -2, 0, n));
    tn_tensor *x = tn_matmul(q, b); /* q holds the transpose of Q */
    tn_tensor *inverse = tn_add(tn_zeros_like(r),
                                tn_eye(n, .dtype = r->dtype,
                                       .device = r->storage->device));
    tn_tensor *solved[] = {inverse, x};
    w->args.m = n;
    for (int i = 0; i < 2 && status >= 0; i++) {
        if (!solved[i])
            return tn_error_code();
        w->args.sides = solved[i]->shape[solved[i]->ndim - 1];
        w->args.b = matrices(solved[i]);
        status = run(w, TN_LAPACK_TRIANGLE, 0, r);
    }
    if (status < 0)
        return status;
    const tn_dims_list both = tn_dims(-2, -1);
    tn_tensor *square = tn_mul(tn_sum(tn_square(r), .dims = tn__marked(both)),
                               tn_sum(tn_square(inverse),
                                      .dims = tn__marked(both)));
    double most = tn_item(tn_max(square));
    out[0] = x;
    out[1] = new_matrices(w, TN_I32, -1, -1);
    status = out[1] ? tn__fill(out[1], (double)n, w->name) : tn_error_code();
    return status < 0 || most * rcond * rcond <= 1 ? status
                                                   : TN_ERR_UNSUPPORTED;
}

/* Computes the eigenvalues of symmetric matrices A, and eigenvectors if
 * `vectors` is true. A device that accepts row-major matrices gets A. Any other
 * device sees A^T in the memory of A, so the argument that selects the triangle
 * is inverted. */
static tn_status eigen(work *w, bool vectors, tn_tensor **out)
{
    const char *uplo =
        w->call->value[TN__ARG_LINALG_EIGH_UPLO].of.string;
    bool upper = strcmp(uplo, "U") == 0 || strcmp(uplo, "u") == 0;
    tn_tensor *a = w->by_rows ? by_column(w, w->x) : copied(w->x);
    out[0] = new_matrices(w, w->x->dtype, w->args.n, -1);
    if (!out[0])
        return tn_error_code();
    w->args.values = dense_rows(out[0], w->args.n);
    tn_status status = run(w, TN_LAPACK_EIGH,
                           (upper == w->by_rows ? TN_LAPACK_UPPER : 0) |
                               (vectors ? TN_LAPACK_VECTORS : 0),
                           a);
    if (status >= 0)
        status = refuse(w, "has eigenvalues that do not converge");
    if (vectors)
        out[1] = by_row(a);
    return status;
}

static tn_status eigh(work *w, tn_tensor **out)
{
    return eigen(w, true, out);
}

static tn_status eigvalsh(work *w, tn_tensor **out)
{
    return eigen(w, false, out);
}

/* Computes the singular value decomposition A = U S V^T. The device requires
 * matrices with at least as many rows as columns. If A has fewer, the device
 * gets the memory of A, in which it sees A^T = V S U^T. Its column-major
 * factors are then the row-major factors of A. */
static tn_status svd(work *w, bool vectors, bool full, tn_tensor **out)
{
    if (tn_item(tn_all(tn_isfinite(w->x))) == 0)
        return tn__lapack_refuse_nan(w->name, w->x);
    bool wide = w->args.m < w->args.n;
    int64_t most = wide ? w->args.n : w->args.m;
    int64_t least = wide ? w->args.m : w->args.n;
    tn_tensor *a = wide ? copied(w->x) : by_column(w, w->x);
    tn_tensor *b = NULL, *c = NULL;
    tn_tensor *values = new_matrices(w, w->x->dtype, least, -1);
    if (!values)
        return tn_error_code();
    w->args.m = most;
    w->args.n = least;
    w->args.values = dense_rows(values, least);
    if (vectors) {
        w->args.sides = full ? most : least;
        b = wide ? new_matrices(w, w->x->dtype, w->args.sides, most)
                 : new_columns(w, w->args.sides, most);
        c = wide ? new_matrices(w, w->x->dtype, least, least)
                 : new_columns(w, least, least);
        if (!b || !c)
            return tn_error_code();
        w->args.b = matrices(b);
        w->args.c = matrices(c);
    }
    tn_status status =
        run(w, TN_LAPACK_SVD, vectors ? TN_LAPACK_VECTORS : 0, a);
    if (status >= 0)
        status = refuse(w, "has singular values that do not converge");
    out[vectors] = values;
    if (vectors) {
        out[0] = wide ? c : by_row(b);
        out[2] = wide ? b : by_row(c);
    }
    return status;
}

static tn_status svd_whole(work *w, tn_tensor **out)
{
    return svd(w, true, tn__call_int(w->call, TN__ARG_LINALG_SVD_FULL_MATRICES),
               out);
}

static tn_status svd_values(work *w, tn_tensor **out)
{
    return svd(w, false, false, out);
}

/* ---- which operators the device runs ------------------------------------- */

/* Returns whether the right-hand sides b have the dtype and batch of x, and
 * `rows` rows (if left is false, `rows` columns). Sets w->args.sides to the
 * number of right-hand sides. */
static bool sides_fit(work *w, const tn_tensor *b, int64_t rows, bool left)
{
    const tn_tensor *x = w->x;
    bool fit = b->dtype == x->dtype && b->ndim == x->ndim && b->numel > 0 &&
               b->shape[b->ndim - (left ? 2 : 1)] == rows;
    for (int d = 0; d < x->ndim - 2 && fit; d++)
        fit = b->shape[d] == x->shape[d];
    w->args.sides = fit ? b->numel / w->args.batch / rows : 0;
    return fit && w->args.sides <= INT_MAX / 8;
}

static bool fits_pivoted(work *w)
{
    return tn__call_int(w->call, TN__ARG_LINALG_LU_FACTOR_EX_PIVOT);
}

static bool fits_solve(work *w)
{
    return sides_fit(w, tn__call_tensor(w->call, TN__ARG_SOLVE_SQUARE_B),
                     w->args.n, true);
}

static bool fits_least(work *w)
{
    return w->args.m >= w->args.n &&
           sides_fit(w, tn__call_tensor(w->call, TN__ARG_LSTSQ_BATCH_B),
                     w->args.m, true);
}

static bool fits_triangle(work *w)
{
    return sides_fit(w, tn__call_tensor(w->call, TN__ARG_SOLVE_TRIANGLE_B),
                     w->args.n,
                     tn__call_int(w->call, TN__ARG_SOLVE_TRIANGLE_LEFT));
}

static bool fits_mode(work *w)
{
    const char *mode = w->call->value[TN__ARG_LINALG_QR_MODE].of.string;
    return strcmp(mode, "reduced") == 0 || strcmp(mode, "complete") == 0 ||
           strcmp(mode, "r") == 0;
}

static bool fits_uplo(work *w)
{
    const char *uplo = w->call->value[TN__ARG_LINALG_EIGH_UPLO].of.string;
    return strlen(uplo) == 1 && strchr("LlUu", uplo[0]);
}

static const struct {
    tn_status (*on_host)(tn__call *call);
    tn_status (*here)(work *w, tn_tensor **out);
    bool (*fits)(work *w); /* returns whether the device supports the arguments
                            * other than the matrices. NULL if it supports all
                            * values */
    uint32_t kind, flags;
    int outputs;
} rows[] = {
    {tn__run_linalg_cholesky_ex, cholesky, NULL, TN_LAPACK_CHOLESKY, 0, 2},
    {tn__run_linalg_lu_factor_ex, lu, fits_pivoted, TN_LAPACK_LU, 0, 3},
    {tn__run_solve_square, solve, fits_solve, TN_LAPACK_SOLVE, 0, 2},
    {tn__run_solve_triangle, triangle, fits_triangle, TN_LAPACK_TRIANGLE, 0, 1},
    {tn__run_linalg_qr, qr, fits_mode, TN_LAPACK_QR, 0, 2},
    {tn__run_lstsq_batch, least_squares, fits_least, TN_LAPACK_QR, 0, 2},
    {tn__run_linalg_eigh, eigh, fits_uplo, TN_LAPACK_EIGH, TN_LAPACK_VECTORS,
     2},
    {tn__run_linalg_eigvalsh, eigvalsh, fits_uplo, TN_LAPACK_EIGH, 0, 1},
    {tn__run_linalg_svd, svd_whole, NULL, TN_LAPACK_SVD, TN_LAPACK_VECTORS, 3},
    {tn__run_linalg_svdvals, svd_values, NULL, TN_LAPACK_SVD, 0, 1},
};
enum { ROWS = sizeof rows / sizeof *rows, OUTPUTS = 3 };

static bool begin(work *w, uint32_t kind)
{
    const tn_tensor *x = w->x;
    const bool square = kind != TN_LAPACK_LU && kind != TN_LAPACK_QR &&
                        kind != TN_LAPACK_SVD;
    if ((x->dtype != TN_F32 && x->dtype != TN_F64) || x->ndim < 2 ||
        x->numel == 0)
        return false;
    int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1];
    w->args = (tn_lapack_args){.size = sizeof w->args, .m = m, .n = n,
                               .batch = x->numel / m / n};
    return m <= INT_MAX / 8 && n <= INT_MAX / 8 && (m == n || !square);
}

/* Returns whether the device supports this call, where rows[r] describes the
 * operator. */
static bool device_runs(work *w, int r)
{
    if (rows[r].fits && !rows[r].fits(w))
        return false;
    tn_lapack_args args = w->args;
    args.kind = rows[r].kind;
    args.flags = rows[r].flags;
    args.a.dtype = w->x->dtype;
    if (args.kind == TN_LAPACK_SVD && args.m < args.n) {
        args.m = w->args.n;
        args.n = w->args.m;
    }
    return tn__device_lapack_fits(w->x->storage->device, &args, w->name,
                                  &w->by_rows);
}

/* Runs the call by the device, where rows[r] describes the operator, and adds
 * the results to its outputs. Returns false if the device does not support it.
 * Else sets *status. */
static bool run_here(work *w, int r, tn_status *status)
{
    tn_tensor *out[OUTPUTS] = {NULL};
    tn_scope *scope = tn_scope_open();
    *status = tn_error_code();
    if (!scope)
        return true;
    bool fits = device_runs(w, r);
    if (fits) {
        w->info = new_matrices(w, TN_I32, -1, -1);
        *status = rows[r].here(w, out);
        fits = *status != TN_ERR_UNSUPPORTED || tn__error_pending();
        for (int i = 0; i < rows[r].outputs && *status >= 0; i++)
            if (!out[i])
                *status = tn_error_code();
        for (int i = 0; i < rows[r].outputs && *status >= 0; i++)
            tn__give(w->call, tn__ref(out[i]));
    }
    tn_scope_close(scope);
    return fits;
}

tn_status tn__run_host_row(tn__call *call)
{
    work w = {.call = call, .name = tn__op_outer(call->op->name),
              .x = tn__call_tensor(call, 0)};
    int r = 0;
    tn_status status;
    while (r < ROWS && rows[r].on_host != call->op->rare->host)
        r++;
    if (r < ROWS && begin(&w, rows[r].kind) && run_here(&w, r, &status))
        return status;
    status = tn__host_run_begin(w.name);
    return status < 0 ? status : call->op->rare->host(call);
}
