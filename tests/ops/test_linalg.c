/* Tests linear algebra: that operators that run on the host are counted or
 * rejected, that matrices that cannot be factored are reported, and cases that
 * the golden samples lack. */
#include <base/memory.h>
#include <float.h>
#include <math.h>
#include <tap.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>

static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

static tn_tensor *matrix(double a, double b, double c, double d)
{
    const double number[] = {a, b, c, d};
    return tn_tensor_from_array(number, TN_F64, tn_dims(2, 2));
}

static void check_host_runs(void)
{
    tn_tensor *a = matrix(4, 1, 1, 3);
    int64_t runs = tn_host_runs();
    tn_matmul(a, a);
    tn_linalg_matrix_exp(a);
    tn_linalg_matrix_power(a, 3);
    tn_norm(a);
    is_int(tn_host_runs(), runs, "products, powers and norms run nowhere else");
    tn_linalg_inv(a);
    is_int(tn_host_runs(), runs + 1, "an inverse is one run on the host");
    tn_linalg_cholesky(tn_expand(a, tn_dims(3, 2, 2)));
    is_int(tn_host_runs(), runs + 2, "so is a small batch of factorisations");
    tn_host_ops_allow(false);
    refused(tn_linalg_inv(a), TN_ERR_UNSUPPORTED,
            "linalg_inv: runs on the host, which TENON_HOST_OPS=error "
            "forbids; tn_host_ops_allow(true) allows it");
    is_int(tn_host_runs(), runs + 2, "what is refused is not counted");
    tn_host_ops_allow(true);
    ok(tn_linalg_inv(a) != NULL, "allowed again, it runs");
}

static void check_mistakes(void)
{
    tn_tensor *a = matrix(1, 2, 2, 4), *wide = tn_ones(tn_dims(2, 3));
    tn_tensor *v = tn_ones(tn_dims(3));
    refused(tn_linalg_inv(a), TN_ERR_ARGUMENT,
            "linalg_inv: matrix 0 of the batch is singular (LAPACK's info is "
            "2)");
    refused(tn_linalg_solve(a, tn_ones(tn_dims(2), .dtype = TN_F64)),
            TN_ERR_ARGUMENT,
            "linalg_solve: matrix 0 of the batch is singular (LAPACK's info "
            "is 2)");
    refused(tn_linalg_cholesky(matrix(1, 2, 2, 1)), TN_ERR_ARGUMENT,
            "linalg_cholesky: matrix 0 of the batch is not positive-definite "
            "(LAPACK's info is 2)");
    refused(tn_linalg_inv(wide), TN_ERR_SHAPE,
            "linalg_inv: A has shape (2, 3); expected square matrices");
    refused(tn_linalg_cholesky(wide), TN_ERR_SHAPE,
            "linalg_cholesky: A has shape (2, 3); expected square matrices");
    refused(tn_linalg_qr(v, NULL), TN_ERR_SHAPE,
            "linalg_qr: A has shape (3,); expected at least 2 dimensions, the "
            "last two with fewer than 2^28 elements each");
    refused(tn_linalg_qr(wide, NULL, .mode = "full"), TN_ERR_ARGUMENT,
            "linalg_qr: mode \"full\" is none of reduced, complete, r");
    refused(tn_linalg_svdvals(tn_ones(tn_dims(2, 2), .dtype = TN_F16)),
            TN_ERR_DTYPE,
            "linalg_svdvals: A is float16; LAPACK supports float32 and "
            "float64: convert it with tn_to_dtype");
    refused(tn_linalg_svdvals(matrix(1, NAN, 0, 1)), TN_ERR_ARGUMENT,
            "linalg_svdvals: A (2, 2) has NaN or infinite elements");
    refused(tn_linalg_eigvalsh(a, .UPLO = "X"), TN_ERR_ARGUMENT,
            "linalg_eigvalsh: UPLO \"X\" is neither \"L\" nor \"U\"");
    refused(tn_linalg_solve(a, v), TN_ERR_SHAPE,
            "linalg_solve: B has shape (3, 1) and dtype float32, but the "
            "matrices are 2 x 2 of float64; expected the same dtype, batch and "
            "size to multiply");
    refused(tn_linalg_matrix_norm(wide, .ord = 3), TN_ERR_ARGUMENT,
            "linalg_matrix_norm: no matrix norm has order 3; expected 1, 2, "
            "inf or their negatives");
    refused(tn_linalg_matrix_norm_by(wide, .ord = "max"), TN_ERR_ARGUMENT,
            "linalg_matrix_norm_by: norm \"max\" is neither \"fro\" nor "
            "\"nuc\"");
    refused(tn_linalg_lstsq(wide, wide, NULL, NULL, NULL, .driver = "qr"),
            TN_ERR_ARGUMENT,
            "linalg_lstsq: driver \"qr\" is none of gelsy, gels, gelsd, "
            "gelss");
    refused(tn_linalg_polar(wide, NULL), TN_ERR_SHAPE,
            "linalg_polar: A has shape (2, 3); expected matrices with at least "
            "as many rows as columns");
    refused(tn_linalg_tensorinv(wide, .ind = 1), TN_ERR_SHAPE,
            "linalg_tensorinv: A has shape (2, 3), whose sizes multiply to 2 "
            "in the first 1 dimensions and to 3 in the others; expected equal "
            "products");
}

static double at(tn_tensor *x, int i, int j)
{
    return tn_item(tn_select(tn_select(x, -2, i), -1, j));
}

/* The determinant of [[1, 2], [2, 4]] is 0, but its cofactors, which are the
 * gradient, are not. */
static void check_singular(void)
{
    tn_tensor *a = tn_requires_grad(matrix(1, 2, 2, 4));
    tn_backward(tn_linalg_det(a));
    tn_tensor *g = tn_tensor_grad(a);
    ok(fabs(at(g, 0, 0) - 4) < 1e-12 && fabs(at(g, 0, 1) + 2) < 1e-12 &&
           fabs(at(g, 1, 0) + 2) < 1e-12 && fabs(at(g, 1, 1) - 1) < 1e-12,
       "the gradient of a determinant that is 0 is made of the cofactors");

    tn_tensor *info = NULL;
    tn_linalg_inv_ex(matrix(1, 2, 2, 4), &info);
    is_int(tn_item_int(info), 2, "inv_ex says which pivot is 0");
    tn_tensor *p = tn_linalg_pinv(matrix(1, 2, 2, 4));
    ok(fabs(at(p, 0, 0) - 0.04) < 1e-12 && fabs(at(p, 1, 1) - 0.16) < 1e-12,
       "a singular matrix has a pseudo-inverse");
    is_int(tn_item_int(tn_linalg_matrix_rank(matrix(1, 2, 2, 4))), 1,
           "and rank 1");
}

static void check_shapes(void)
{
    tn_tensor *r = NULL, *a = tn_rand(tn_dims(5, 3), .dtype = TN_F64);
    tn_tensor *q = tn_linalg_qr(a, &r, .mode = "complete");
    ok(tn_tensor_size(q, 1) == 5 && tn_tensor_size(r, 0) == 5,
       "a complete QR has all of Q");
    tn_tensor *error = tn_max(tn_abs(tn_sub(tn_matmul(q, r), a)));
    ok(tn_item(error) < 1e-14, "and Q R is A");
    tn_tensor *s = NULL, *vh = NULL;
    tn_tensor *u = tn_linalg_svd(a, &s, &vh);
    error = tn_max(tn_abs(tn_sub(tn_matmul(tn_transpose(u, 0, 1), u),
                                 tn_eye(5, .dtype = TN_F64))));
    ok(tn_tensor_size(u, 1) == 5 && tn_item(error) < 1e-14,
       "a full SVD has all of U, orthogonal");
}

static double distance(tn_tensor *a, tn_tensor *b)
{
    return tn_item(tn_max(tn_abs(tn_sub(a, b))));
}

/* Checks that P L U equals A and that the inverse is right, for shapes around
 * four columns, at which the recursive elimination stops halving. */
static void check_elimination(void)
{
    static const int64_t sizes[] = {1, 3, 4, 5, 8, 13, 70};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int single = 0; single < 2; single++) {
        tn_dtype dtype = single ? TN_F32 : TN_F64;
        double far = 0, off = 0, step = single ? FLT_EPSILON : DBL_EPSILON;
        tn_manual_seed(9);
        for (int k = 0; k < COUNT * COUNT; k++) {
            int64_t m = sizes[k / COUNT], n = sizes[k % COUNT];
            tn_tensor *l, *u;
            tn_tensor *a = tn_randn(tn_dims(2, m, n), .dtype = dtype);
            tn_tensor *p = tn_linalg_lu(a, &l, &u);
            far = fmax(far, distance(tn_matmul(p, tn_matmul(l, u)), a));
            if (m != n)
                continue;
            a = tn_add(a, tn_mul_scalar(tn_eye(n, .dtype = dtype),
                                        tn_num(8 * sqrt((double)n))));
            off = fmax(off, distance(tn_matmul(tn_linalg_inv(a), a),
                                     tn_eye(n, .dtype = dtype)));
        }
        ok(far < 64 * step && off < 16 * step,
           "%s: L and U make up A (%g), an inverse 1 (%g)",
           tn_dtype_name(dtype), far, off);
    }

    tn_tensor *info, *pivots;
    tn_tensor *a = tn_cat(((tn_tensor *[]){tn_ones(tn_dims(6, 2)),
                                           tn_eye(6, .m = 4)}),
                          2, 1);
    tn_linalg_lu_factor_ex(a, &pivots, &info);
    is_int(tn_item_int(info), 2, "the first pivot that is 0 is reported");
    tn_tensor *tiny = tn_mul_scalar(tn_eye(2), tn_num(1e-40));
    tn_tensor *one = tn_add(tiny, tn_flip(tiny, tn_dims(0)));
    tn_tensor *lu = tn_linalg_lu_factor_ex(one, &pivots, &info);
    ok(at(lu, 1, 0) == 1, "subnormal numbers are divided by");
}

/* Least squares by QR with pivoting equals that by singular values, for
 * matrices of any shape and rank; so does the gradient. */
static void check_least_squares(void)
{
    static const struct {
        int64_t m, n, rank;
    } shape[] = {{6, 3, 3}, {3, 6, 3}, {6, 4, 2}, {4, 6, 2}, {4, 4, 1}};
    tn_manual_seed(5);
    int64_t runs = tn_host_runs();
    tn_linalg_lstsq(matrix(1, 2, 3, 5), matrix(1, 0, 0, 1), NULL, NULL, NULL);
    is_int(tn_host_runs(), runs + 1, "least squares are one run on the host");
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
        int64_t m = shape[k].m, n = shape[k].n, r = shape[k].rank;
        tn_tensor *a = tn_matmul(
            tn_randn(tn_dims(2, m, r), .dtype = TN_F64),
            tn_randn(tn_dims(2, r, n), .dtype = TN_F64));
        tn_tensor *b = tn_randn(tn_dims(2, m, 2), .dtype = TN_F64);
        tn_tensor *x[2], *rank[2], *ga[2], *gb[2];
        for (int i = 0; i < 2; i++) {
            tn_tensor *left = tn_requires_grad(tn_clone(a));
            tn_tensor *right = tn_requires_grad(tn_clone(b));
            x[i] = tn_linalg_lstsq(left, right, NULL, &rank[i], NULL, .rcond =
                                   1e-10, .driver = i ? "gelsd" : "gelsy");
            tn_backward(tn_sum(tn_square(x[i])));
            ga[i] = tn_tensor_grad(left);
            gb[i] = tn_tensor_grad(right);
        }
        ok(distance(x[0], x[1]) < 1e-10 && distance(ga[0], ga[1]) < 1e-8 &&
               distance(gb[0], gb[1]) < 1e-8,
           "%dx%d of rank %d: as by singular values", (int)m, (int)n, (int)r);
        is_int(tn_item_int(tn_min(rank[0])), r, "and the rank is reported");
    }
}

/* Solves with column-major triangular matrices, on either side. */
static void check_triangles(void)
{
    tn_tensor *a = tn_add(tn_rand(tn_dims(3, 5, 5), .dtype = TN_F64),
                          tn_mul_scalar(tn_eye(5, .dtype = TN_F64),
                                        tn_num(5)));
    tn_tensor *lying = tn_transpose(tn_contiguous(tn_transpose(a, 1, 2)), 1, 2);
    for (int left = 0; left < 2; left++)
        for (int upper = 0; upper < 2; upper++) {
            tn_tensor *t = upper ? tn_triu(a) : tn_tril(a);
            tn_tensor *b = left ? tn_rand(tn_dims(3, 5, 2), .dtype = TN_F64)
                                : tn_rand(tn_dims(3, 2, 5), .dtype = TN_F64);
            tn_tensor *x = tn_linalg_solve_triangular(
                lying, b, .upper = upper, .left = left);
            ok(distance(left ? tn_matmul(t, x) : tn_matmul(x, t), b) < 1e-13,
               "%s triangle on the %s", upper ? "upper" : "lower",
               left ? "left" : "right");
        }
}

/* Tests shapes around 16, the number of Householder reflections that are
 * applied as one block. */
static void check_reflections(void)
{
    static const int64_t sizes[] = {1, 7, 16, 17, 33, 70};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int single = 0; single < 2; single++) {
        tn_dtype dtype = single ? TN_F32 : TN_F64;
        double far = 0, off = 0, step = single ? FLT_EPSILON : DBL_EPSILON;
        tn_manual_seed(10);
        for (int k = 0; k < 2 * COUNT * COUNT; k++) {
            int64_t m = sizes[k / 2 / COUNT], n = sizes[k / 2 % COUNT];
            tn_tensor *r, *a = tn_randn(tn_dims(2, m, n), .dtype = dtype);
            tn_tensor *q = tn_linalg_qr(a, &r, .mode = k % 2 ? "complete"
                                                             : "reduced");
            far = fmax(far, distance(tn_matmul(q, r), a));
            off = fmax(off, distance(tn_matmul(tn_transpose(q, 1, 2), q),
                                     tn_eye(tn_tensor_size(q, 2),
                                            .dtype = dtype)));
            off = fmax(off, distance(r, tn_triu(r)));
        }
        ok(far < 64 * step && off < 32 * step,
           "%s: Q R is A (%g), Q^T Q 1 (%g)", tn_dtype_name(dtype), far, off);
    }
}

/* Tests either triangle, and numbers whose squares underflow or overflow. */
static void check_eigenvectors(void)
{
    static const int64_t sizes[] = {1, 2, 17, 40};
    static const double sizes_of[] = {1, 1e-160, 1e160};
    for (int k = 0; k < 24; k++) {
        int64_t n = sizes[k % 4];
        double by = sizes_of[k / 4 % 3];
        bool upper = k >= 12;
        tn_tensor *v, *x = tn_randn(tn_dims(2, n, n), .dtype = TN_F64);
        tn_tensor *a = tn_add(x, tn_transpose(x, 1, 2));
        tn_tensor *half = upper ? tn_triu(a) : tn_tril(a);
        tn_tensor *w = tn_linalg_eigh(tn_mul_scalar(half, tn_num(by)), &v,
                                      .UPLO = upper ? "U" : "L");
        w = tn_mul_scalar(w, tn_num(1 / by));
        tn_tensor *one = tn_eye(n, .dtype = TN_F64);
        double far = distance(tn_matmul(a, v), tn_mul(v, tn_unsqueeze(w, 1)));
        double off = distance(tn_matmul(tn_transpose(v, 1, 2), v), one);
        ok(far < 1e-13 && off < 1e-14,
           "%d eigenvectors, %s triangle, times %g (%g, %g)", (int)n,
           upper ? "upper" : "lower", by, far, off);
    }
}

/* e^(t J) for J = [[0, -1], [1, 0]] is the rotation by t. Each matrix of a
 * batch is scaled by its own norm. */
static void check_exponential(void)
{
    const double turn[] = {0, 1e-3, 0.7, 3, 40};
    double number[5 * 4] = {0};
    for (int k = 0; k < 5; k++) {
        number[4 * k + 1] = -turn[k];
        number[4 * k + 2] = turn[k];
    }
    tn_tensor *e = tn_linalg_matrix_exp(
        tn_tensor_from_array(number, TN_F64, tn_dims(5, 2, 2)));
    for (int k = 0; k < 5; k++) {
        tn_tensor *one = tn_select(e, 0, k);
        double far = fabs(at(one, 0, 0) - cos(turn[k])) +
                     fabs(at(one, 1, 0) - sin(turn[k])) +
                     fabs(at(one, 0, 1) + sin(turn[k]));
        /* each squaring doubles the rounding error */
        ok(far <= 4 * DBL_EPSILON * turn[k], "a turn by %g: %g off", turn[k],
           far);
    }
}

static tn_tensor *one_of_each(tn_tensor *a)
{
    tn_tensor *out[3], *v, *x = tn_linalg_solve(a, a);
    x = tn_add(x, tn_linalg_qr(a, &v));
    tn_linalg_eigh(a, &v);
    x = tn_add(x, v);
    x = tn_add(x, tn_linalg_svd(a, &out[0], &out[1]));
    x = tn_add(x, tn_linalg_lu_factor(a, &v));
    x = tn_add(x, tn_linalg_solve_triangular(a, a, .upper = true));
    x = tn_add(x, tn_linalg_lstsq(a, a, &out[0], &out[1], &out[2]));
    return tn_add(x, tn_linalg_matrix_exp(a));
}

/* Each of the `count` allocations of a run fails in turn. Returns how many were
 * reported as an error, or -1 if one was not reported. */
static int fail_each(tn_tensor *a, int64_t count)
{
    int failures = 0, untold = 0;
    for (int64_t n = 1; n <= count; n++) {
        tn_scope *scope = tn_scope_open();
        tn__memory_fail_at(n);
        bool done = one_of_each(a) != NULL;
        tn__memory_fail_at(0);
        failures += !done;
        untold += !done && tn_error_code() != TN_ERR_MEMORY;
        tn_error_clear();
        tn_scope_close(scope);
    }
    return untold ? -1 : failures;
}

static void check_memory(void)
{
    tn_tensor *a = tn_add(tn_rand(tn_dims(2, 20, 20)),
                          tn_mul_scalar(tn_eye(20), tn_num(20)));
    int64_t count = 0, live = 0;
    for (int k = 0; k < 2; k++) {
        tn_scope *warm = tn_scope_open();
        count = -tn__memory_count();
        one_of_each(a);
        count += tn__memory_count();
        tn_scope_close(warm);
    }
    int first = fail_each(a, count);
    live = tn__memory_live();
    int second = fail_each(a, count);
    ok(first > 10 && second > 10, "%d of %d failing allocations are errors",
       first, (int)count);
    is_int(tn__memory_live(), live, "and nothing is left behind");
}

int main(void)
{
    plan_later();
    check_memory();
    check_elimination();
    check_reflections();
    check_eigenvectors();
    check_exponential();
    check_least_squares();
    check_triangles();
    check_host_runs();
    check_mistakes();
    check_singular();
    check_shapes();
    ok(tn_error() == NULL, "no error is left");
    return done_testing();
}
