/* factor.c: the operators with the flag `host` that factor matrices (Cholesky,
 * LU, QR) and solve with the factors, by one LAPACK routine for each matrix of
 * a batch. Other operators of linear algebra are composed of these. */
#include <base/memory.h>
#include <float.h>
#include <math.h>
#include <ops/linalg/job.h>

/* ---- Cholesky ------------------------------------------------------------ */

/* Returns the status of a Cholesky factorisation. It is the index (counted from
 * 1) of the first diagonal element of the factor that is not positive and
 * finite. If there is none, it is info, LAPACK's status. LAPACK itself does not
 * report NaN and inf. */
static int cholesky_info(const void *a, bool single, int n, int info)
{
    int end = info > 0 && info <= n ? info - 1 : n;
    for (int i = 0; i < end; i++) {
        size_t at = (size_t)i * ((size_t)n + 1);
        double x = single ? (double)((const float *)a)[at]
                          : ((const double *)a)[at];
        if (!(x > 0 && isfinite(x)))
            return i + 1;
    }
    return info;
}

tn_status tn__run_linalg_cholesky_ex(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_CHOLESKY_EX_A);
    bool upper = tn__call_int(call, TN__ARG_LINALG_CHOLESKY_EX_UPPER);
    bool check = tn__call_int(call, TN__ARG_LINALG_CHOLESKY_EX_CHECK_ERRORS);
    tn__job j;
    tn_status status = tn__job_begin(call, &j, TN__ARG_LINALG_CHOLESKY_EX_A,
                                     TN__STAGE_TRANSPOSED);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    if (status >= 0) {
        int n = j.a.rows, lda = n ? n : 1;
        for (int64_t k = 0; k < j.matrices; k++) {
            void *a = tn__staged_at(&j.a, k);
            j.lapack->potrf[j.a.single](upper ? "L" : "U", &n, a, &lda,
                                        &j.info[k], 1);
            j.info[k] = cholesky_info(a, j.a.single, n, j.info[k]);
        }
        tn__staged_clear(&j.a, !upper);
        if (check)
            status = tn__job_refuse(&j, "is not positive-definite");
    }
    if (status >= 0)
        status = tn__job_give(call, &j.a);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.info, -1);
    tn__job_end(&j);
    return status;
}

/* ---- LU ------------------------------------------------------------------ */

static void lu(tn__job *j, int64_t k, bool pivot, int *pivots)
{
    j->info[k] = tn__lu(j->lapack, j->a.single, pivot, j->a.rows, j->a.columns,
                        tn__staged_at(&j->a, k), pivots);
}

tn_status tn__run_linalg_lu_factor_ex(tn__call *call)
{
    bool pivot = tn__call_int(call, TN__ARG_LINALG_LU_FACTOR_EX_PIVOT);
    bool check = tn__call_int(call, TN__ARG_LINALG_LU_FACTOR_EX_CHECK_ERRORS);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LINALG_LU_FACTOR_EX_A, TN__STAGE);
    int width = tn__staged_min(&j.a);
    if (status >= 0)
        status = tn__job_ints(&j.pivots, j.matrices * width);
    if (status >= 0) {
        for (int64_t k = 0; k < j.matrices; k++)
            lu(&j, k, pivot, j.pivots + k * width);
        if (check)
            status =
                tn__job_refuse(&j, "is singular: U has a 0 on its diagonal");
    }
    if (status >= 0)
        status = tn__job_give(call, &j.a);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.pivots, width);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.info, -1);
    tn__job_end(&j);
    return status;
}

/* Computes the order of rows that results from the pivots of an LU
 * factorisation: exchanges row i with row pivots[i], for each i in turn. */
tn_status tn__run_lu_order(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LU_ORDER_PIVOTS);
    int64_t rows = tn__call_int(call, TN__ARG_LU_ORDER_ROWS);
    const char *name = tn__op_outer("lu_order");
    if (x->ndim < 1 || x->dtype != TN_I32 || rows < x->shape[x->ndim - 1])
        return tn__fail(TN_ERR_SHAPE, "%s: {pivots} has dtype %s and %d "
                        "dimensions for matrices of height %lld; expected "
                        "int32 (..., k) with k at most that height", name,
                        tn_dtype_name(x->dtype), x->ndim, (long long)rows);
    int64_t width = x->shape[x->ndim - 1], batch = 1, shape[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim - 1; d++)
        batch *= shape[d] = x->shape[d];
    shape[x->ndim - 1] = rows;
    tn_tensor *out =
        tn__tensor_new(x->storage->device, TN_I64, x->ndim, shape, name);
    if (!out)
        return tn_error_code();
    int32_t *pivot = tn__alloc_many(x->numel + 1, sizeof *pivot);
    int64_t *order = tn__alloc_many(out->numel, sizeof *order);
    tn_status status = pivot && order ? TN_OK : TN_ERR_MEMORY;
    if (status >= 0 && x->numel)
        status = tn_tensor_to_array(x, pivot,
                                    (size_t)x->numel * sizeof *pivot);
    for (int64_t k = 0; k < batch && rows && status >= 0; k++) {
        int64_t *row = order + k * rows;
        for (int64_t i = 0; i < rows; i++)
            row[i] = i;
        for (int64_t i = 0; i < width && status >= 0; i++) {
            int64_t other = pivot[k * width + i] - 1, kept = row[i];
            if (other < 0 || other >= rows) {
                status = tn__fail_outside(
                    TN_ERR_INDEX,
                    tn__error_index_in(other + 1, 1, rows + 1, k * width + i,
                                       x->ndim, x->shape),
                    "%s: {pivots:pivot} %lld is outside [1, %lld]", name,
                    (long long)other + 1, (long long)rows);
                break;
            }
            row[i] = row[other];
            row[other] = kept;
        }
    }
    if (status >= 0 && out->numel)
        status = tn__device_copy_in(out->storage->device, out->storage->block,
                                    0, order, (uint64_t)out->numel * 8);
    if (status >= 0)
        status = tn__give(call, out);
    else
        tn__unref(out);
    tn__free(pivot);
    tn__free(order);
    return status;
}

/* ---- linear systems ------------------------------------------------------ */

/* Stages argument arg, the right-hand sides B, as j->b (copies it to host
 * memory as LAPACK requires it). The equation is A X = B if left is true, else
 * X A = B. Checks that B has the batch of A and fits its rows or columns. */
static tn_status stage_sides(tn__job *j, const tn__call *call, int arg,
                             bool left, tn__staging how)
{
    tn_tensor *x = tn__call_tensor(call, arg);
    char text[TN__SHAPE_TEXT];
    tn_status status =
        tn__stage(&j->b, x, how, j->name, call->op->arg[arg].name);
    if (status < 0)
        return status;
    if (j->b.batch != j->a.batch || j->b.element != j->a.element ||
        (left != j->b.transposed ? j->b.rows : j->b.columns) != j->a.rows)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s and dtype %s, "
                        "but the matrices are %d x %d of %s; expected the "
                        "same dtype, batch and size to multiply", j->name,
                        call->op->arg[arg].name,
                        tn__shape_text(text, x->ndim, x->shape),
                        tn_dtype_name(x->dtype), j->a.rows, j->a.columns,
                        tn_dtype_name(j->a.single ? TN_F32 : TN_F64));
    return TN_OK;
}

/* Solves X T = B for X, where T is a triangle of matrix k of j->a. X replaces
 * matrix k of j->b. */
static void solve_right(tn__job *j, int64_t k, tn__triangle t)
{
    t.lda = j->a.rows;
    tn__solve_right(j->lapack, j->a.single, &t, j->b.rows, j->b.columns,
                    tn__staged_at(&j->a, k), tn__staged_at(&j->b, k));
}

/* Undoes row exchanges in the columns of matrix k of j->b: exchanges column i
 * with column pivots[i] (counted from 1), for each i in turn, the last one
 * first. */
static void put_back(tn__job *j, int64_t k, const int *pivots)
{
    size_t bytes = (size_t)j->b.rows * j->b.element;
    char *b = tn__staged_at(&j->b, k);
    for (int i = j->a.rows; i-- > 0;)
        if (pivots[i] - 1 != i) {
            char *other = b + (size_t)(pivots[i] - 1) * bytes;
            memcpy(j->work, b + (size_t)i * bytes, bytes);
            memcpy(b + (size_t)i * bytes, other, bytes);
            memcpy(other, j->work, bytes);
        }
}

/* Solves A X = B for a square A by LU. The memory of A, read in column-major
 * order, is A^T. So A^T = P L U is factored, and X^T P L U = B^T is solved. */
tn_status tn__run_solve_square(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SOLVE_SQUARE_A);
    bool check = tn__call_int(call, TN__ARG_SOLVE_SQUARE_CHECK_ERRORS);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_SOLVE_SQUARE_A, TN__STAGE_TRANSPOSED);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    if (status >= 0)
        status = stage_sides(&j, call, TN__ARG_SOLVE_SQUARE_B, true,
                             TN__STAGE_TRANSPOSED);
    if (status >= 0)
        status = tn__job_ints(&j.pivots, j.a.rows);
    if (status >= 0)
        status = tn__job_workspace(&j.work, &j, j.b.rows);
    for (int64_t k = 0; k < j.matrices && status >= 0; k++) {
        lu(&j, k, true, j.pivots);
        if (j.info[k] || !j.b.rows)
            continue;
        solve_right(&j, k, (tn__triangle){.upper = true});
        solve_right(&j, k, (tn__triangle){.unit = true});
        put_back(&j, k, j.pivots);
    }
    if (status >= 0 && check)
        status = tn__job_refuse(&j, "is singular");
    if (status >= 0)
        status = tn__job_give(call, &j.b);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.info, -1);
    tn__job_end(&j);
    return status;
}

tn_status tn__run_solve_triangle(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SOLVE_TRIANGLE_A);
    bool upper = tn__call_int(call, TN__ARG_SOLVE_TRIANGLE_UPPER);
    bool left = tn__call_int(call, TN__ARG_SOLVE_TRIANGLE_LEFT);
    bool unit = tn__call_int(call, TN__ARG_SOLVE_TRIANGLE_UNITRIANGULAR);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_SOLVE_TRIANGLE_A, TN__STAGE_READ);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    if (status >= 0)
        status = stage_sides(&j, call, TN__ARG_SOLVE_TRIANGLE_B, left,
                             left ? TN__STAGE_TRANSPOSED : TN__STAGE);
    /* A X = B is solved as X^T T = B^T with T = A^T, the matrix in j.a. X A = B
     * is solved as X T = B with T = A, the transpose of the matrix in j.a. */
    const tn__triangle t = {.upper = left != upper, .unit = unit,
                            .transposed = !left};
    for (int64_t k = 0; k < j.matrices && status >= 0; k++)
        solve_right(&j, k, t);
    if (status >= 0)
        status = tn__job_give(call, &j.b);
    tn__job_end(&j);
    return status;
}

/* ---- symmetric indefinite matrices --------------------------------------- */

tn_status tn__run_linalg_ldl_factor_ex(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_LDL_FACTOR_EX_A);
    bool check = tn__call_int(call, TN__ARG_LINALG_LDL_FACTOR_EX_CHECK_ERRORS);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LINALG_LDL_FACTOR_EX_A, TN__STAGE);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    int n = j.a.rows, lda = n ? n : 1, room = -1;
    if (status >= 0)
        status = tn__job_ints(&j.pivots, j.matrices * n);
    if (status >= 0 && j.matrices) {
        double asked[2] = {0};
        j.lapack->sytrf[j.a.single]("L", &n, NULL, &lda, j.pivots, asked,
                                    &room, &j.info[0], 1);
        room = tn__workspace_size(asked, j.a.single);
        status = tn__job_workspace(&j.work, &j, room);
    }
    for (int64_t k = 0; k < j.matrices && status >= 0; k++)
        j.lapack->sytrf[j.a.single]("L", &n, tn__staged_at(&j.a, k), &lda,
                                    j.pivots + k * n, j.work, &room,
                                    &j.info[k], 1);
    if (status >= 0 && check)
        status = tn__job_refuse(&j, "is singular: D has a 0 block");
    if (status >= 0)
        tn__staged_clear(&j.a, false);
    if (status >= 0)
        status = tn__job_give(call, &j.a);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.pivots, n);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.info, -1);
    tn__job_end(&j);
    return status;
}

tn_status tn__run_ldl_solve_batch(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LDL_SOLVE_BATCH_LD);
    tn_tensor *pivots = tn__call_tensor(call, TN__ARG_LDL_SOLVE_BATCH_PIVOTS);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LDL_SOLVE_BATCH_LD, TN__STAGE);
    if (status >= 0)
        status = tn__job_square(&j, x, "LD");
    if (status >= 0)
        status = stage_sides(&j, call, TN__ARG_LDL_SOLVE_BATCH_B, true,
                             TN__STAGE);
    int n = j.a.rows, sides = j.b.columns, lda = n ? n : 1;
    if (status >= 0)
        status = tn__job_ints(&j.pivots, j.matrices * n);
    if (status >= 0 &&
        (pivots->dtype != TN_I32 || pivots->numel != j.matrices * n))
        status = tn__fail(TN_ERR_SHAPE, "%s: {pivots} has dtype %s and %lld "
                          "elements; expected int32 and %lld, n for each n x "
                          "n matrix of {LD}", j.name,
                          tn_dtype_name(pivots->dtype),
                          (long long)pivots->numel,
                          (long long)(j.matrices * n));
    if (status >= 0 && pivots->numel)
        status = tn_tensor_to_array(pivots, j.pivots,
                                    (size_t)pivots->numel * sizeof(int));
    for (int64_t k = 0; status >= 0 && k < j.matrices * n; k++)
        if (j.pivots[k] == 0 || j.pivots[k] > n || j.pivots[k] < -n)
            status = tn__fail_outside(
                TN_ERR_INDEX,
                tn__error_index_in(j.pivots[k], -n, n + 1, k, pivots->ndim,
                                   pivots->shape),
                "%s: {pivots:pivot} %d is out of range; expected 1 to %d, or "
                "the negative of one of these", j.name, j.pivots[k], n);
    for (int64_t k = 0; k < j.matrices && status >= 0 && sides; k++)
        j.lapack->sytrs[j.a.single]("L", &n, &sides, tn__staged_at(&j.a, k),
                                    &lda, j.pivots + k * n,
                                    tn__staged_at(&j.b, k), &lda, &j.info[k],
                                    1);
    if (status >= 0)
        status = tn__job_give(call, &j.b);
    tn__job_end(&j);
    return status;
}

/* ---- QR ------------------------------------------------------------------ */

/* Factors matrix `at` of j->a into Q R. R replaces its elements on and above
 * the diagonal. Matrix `at` of j->b holds the first columns of the identity on
 * entry, and the first columns of Q on return. */
static void qr(tn__job *j, int64_t at)
{
    int m = j->a.rows;
    bool single = j->a.single;
    void *a = tn__staged_at(&j->a, at);
    tn__qr(j->lapack, single, m, j->a.columns, a, j->extra, j->work);
    if (j->b.columns)
        tn__reflect(j->lapack, single, m, tn__staged_min(&j->a), a, m,
                    j->extra, j->b.columns, tn__staged_at(&j->b, at), m, true,
                    j->work);
}

tn_status tn__run_linalg_qr(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_QR_A);
    const char *mode = call->value[TN__ARG_LINALG_QR_MODE].of.string;
    bool reduced = strcmp(mode, "reduced") == 0, none = strcmp(mode, "r") == 0;
    if (!reduced && !none && strcmp(mode, "complete") != 0)
        return tn__fail(TN_ERR_ARGUMENT, "linalg_qr: {mode} \"%s\" is none of "
                        "reduced, complete, r", mode);
    tn__job j;
    tn_status status = tn__job_begin(call, &j, TN__ARG_LINALG_QR_A, TN__STAGE);
    int m = j.a.rows, n = j.a.columns, k = tn__staged_min(&j.a);
    int columns = none ? 0 : reduced ? k : m;
    if (status >= 0)
        status = tn__stage_new(&j.b, &j.a, m, columns);
    if (status >= 0)
        tn__staged_eye(&j.b);
    if (status >= 0 && k)
        status = tn__job_workspace(&j.extra, &j, k);
    if (status >= 0 && k)
        status = tn__job_workspace(&j.work, &j,
                                   tn__reflect_workspace(m, m > n ? m : n));
    for (int64_t at = 0; at < j.matrices && status >= 0; at++)
        qr(&j, at);
    if (status >= 0) {
        tn__staged_clear(&j.a, true);
        status = none ? tn__give(call, tn__tensor_new(
                                           x->storage->device, x->dtype, 1,
                                           (const int64_t[]){0}, j.name))
                      : tn__job_give(call, &j.b);
    }
    if (status >= 0)
        status = tn__job_give_rows(call, &j.a, none || reduced ? k : m);
    tn__job_end(&j);
    return status;
}

/* ---- least squares ------------------------------------------------------- */

/* Appends rows of zeros to the matrices, so that they have `rows` rows. */
static tn_status lengthen(tn__staged *s, int64_t rows)
{
    tn__staged longer;
    tn_status status = tn__stage_new(&longer, s, rows, s->columns);
    size_t from = (size_t)s->rows * s->element;
    size_t to = (size_t)rows * s->element;
    int64_t lines = s->tensor->numel ? s->batch * s->columns : 0;
    for (int64_t k = 0; k < lines && status >= 0; k++)
        memcpy(longer.data + (size_t)k * to, s->data + (size_t)k * from, from);
    tn__staged_free(s);
    *s = longer;
    return status;
}

static double step_of(const tn__staged *s)
{
    return s->single ? FLT_EPSILON : DBL_EPSILON;
}

/* Solves the least-squares problems of all matrices. j->b holds B on entry and
 * X on return. j->b has as many rows as A or X, whichever has more. */
static tn_status lstsq_all(tn__job *j, double rcond, int *rank)
{
    int m = j->a.rows, n = j->a.columns, sides = j->b.columns, room = -1;
    int ldb = j->b.rows;
    float single = (float)rcond;
    const void *by = j->a.single ? (const void *)&single : (const void *)&rcond;
    double asked[2] = {0};
    tn_status status = tn__job_ints(&j->pivots, n);
    if (status < 0 || !sides || !j->matrices)
        return status;
    j->lapack->gelsy[j->a.single](&m, &n, &sides, NULL, &m, NULL, &ldb,
                                  j->pivots, by, rank, asked, &room, j->info);
    room = tn__workspace_size(asked, j->a.single);
    status = tn__job_workspace(&j->work, j, room);
    for (int64_t k = 0; k < j->matrices && status >= 0; k++) {
        memset(j->pivots, 0, (size_t)n * sizeof *j->pivots);
        j->lapack->gelsy[j->a.single](
            &m, &n, &sides, tn__staged_at(&j->a, k), &m,
            tn__staged_at(&j->b, k), &ldb, j->pivots, by, &rank[k], j->work,
            &room, &j->info[k]);
    }
    return status;
}

tn_status tn__run_lstsq_batch(tn__call *call)
{
    double rcond = tn__call_float(call, TN__ARG_LSTSQ_BATCH_RCOND);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LSTSQ_BATCH_A, TN__STAGE);
    int m = j.a.rows, n = j.a.columns;
    if (status >= 0)
        status = stage_sides(&j, call, TN__ARG_LSTSQ_BATCH_B, true,
                             TN__STAGE);
    if (status >= 0 && n > m)
        status = lengthen(&j.b, n);
    if (status >= 0)
        status = tn__job_ints(&j.iwork, j.matrices);
    if (status >= 0 && rcond < 0)
        rcond = step_of(&j.a) * (m > n ? m : n);
    if (status >= 0)
        status = lstsq_all(&j, rcond, j.iwork);
    if (status >= 0)
        status = tn__job_give_rows(call, &j.b, n);
    if (status >= 0)
        status = tn__job_give_ints(call, &j, j.iwork, -1);
    tn__job_end(&j);
    return status;
}
