/* Batches of small matrices, which a device may factor in parallel. The factors
 * have the properties that LAPACK guarantees, for many kinds of matrices, and a
 * matrix's results are bit-identical at any position in a batch. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <same_bits.h>
#include <tap.h>
#include <tenon/device.h>
#include <tenon/ops.h>
#include <tenon/random.h>

enum { BATCH = 19 }; /* not a multiple of the number of SIMD lanes */

static tn_dtype dtype;

static double epsilon(void)
{
    return dtype == TN_F32 ? FLT_EPSILON : DBL_EPSILON;
}

static tn_tensor *turned(tn_tensor *x)
{
    return tn_transpose(x, -1, -2);
}

static tn_tensor *steps(tn_tensor *x)
{
    return tn_diff(x, 1, -1, NULL, NULL);
}

static tn_tensor *wide(tn_tensor *x)
{
    return tn_to_dtype(x, TN_F64);
}

/* ---- matrices ------------------------------------------------------------ */

enum {
    ANY, ZERO, DIAGONAL, SAME, ONES, RANK_ONE, HILBERT, GRADED, TWIN, KINDS
};
static const char *const kind_name[] = {
    "any", "zero", "diagonal", "3 I", "ones", "of rank one", "Hilbert's",
    "graded", "with twin eigenvalues"};

/* Returns a float64 tensor of BATCH matrices (m, n) of this kind. */
static tn_tensor *make(int kind, int64_t m, int64_t n)
{
    tn_tensor *any = tn_randn(tn_dims(BATCH, m, n), .dtype = TN_F64);
    tn_tensor *eye = tn_eye(m, .m = n, .dtype = TN_F64);
    tn_tensor *i = tn_unsqueeze(tn_arange(0, m, 1, .dtype = TN_F64), -1);
    tn_tensor *j = tn_arange(0, n, 1, .dtype = TN_F64), *q = NULL;
    switch (kind) {
    case ZERO:
        return tn_zeros_like(any);
    case DIAGONAL:
        return tn_mul(any, eye);
    case SAME:
        return tn_mul(tn_ones_like(any), tn_mul_scalar(eye, 3));
    case ONES:
        return tn_ones_like(any);
    case RANK_ONE:
        return tn_mul(tn_narrow(any, -1, 0, 1), tn_narrow(any, -2, 0, 1));
    case HILBERT: /* half of the matrices with the opposite sign */
        return tn_div(tn_sign(tn_narrow(tn_narrow(any, 1, 0, 1), 2, 0, 1)),
                      tn_add_scalar(tn_add(i, j), 1));
    case GRADED: /* rows and columns scaled down to 2^-40 */
        return tn_mul(any, tn_exp2(tn_mul_scalar(
                               tn_add(i, j), -40.0 / (double)(m + n))));
    case TWIN: /* I - 2 v v^T / v^T v: eigenvalues 1, and once -1 */
        q = tn_narrow(any, -1, 0, 1);
        q = tn_div(q, tn_norm(q, .dim = -2, .keepdim = true));
        return m == n ? tn_sub(eye, tn_mul_scalar(tn_matmul(q, turned(q)), 2))
                      : tn_mul(tn_ones_like(any), eye);
    default:
        return any;
    }
}

/* ---- properties of the factors ------------------------------------------- */

static double most(tn_tensor *x)
{
    return tn_item(tn_max(tn_abs(x)));
}

/* Returns the largest difference of a and b, relative to the largest element of
 * a. */
static double differs(tn_tensor *a, tn_tensor *b)
{
    double scale = most(wide(a));
    return most(tn_sub(wide(a), wide(b))) / (scale > 0 ? scale : 1);
}

static double skewed(tn_tensor *q)
{
    q = wide(q);
    tn_tensor *dots = tn_matmul(turned(q), q);
    return most(tn_sub(dots, tn_eye(tn_tensor_size(q, -1), .dtype = TN_F64)));
}

/* Returns whether the error is at most 30 + 4 n epsilon. LAPACK's own errors
 * are at most 24 + 3 n epsilon. */
static int holds(double error, int64_t n, const char *what, int kind,
                  int64_t rows)
{
    const int small = error <= (double)(30 + 4 * n) * epsilon();
    if (!small)
        note("%s of %s %lld x %lld, %s: %g", what, kind_name[kind],
             (long long)rows, (long long)n, tn_dtype_name(dtype), error);
    return small;
}

static tn_tensor *product(tn_tensor *a, tn_tensor *b)
{
    return tn_matmul(wide(a), wide(b));
}

static int check_eigen(int kind, int64_t n)
{
    tn_tensor *a = make(kind, n, n), *v, *info;
    a = tn_to_dtype(tn_add(tn_tril(a), turned(tn_tril(a, .diagonal = -1))),
                    dtype);
    tn_tensor *w = tn_linalg_eigh(a, &v);
    tn_tensor *up = tn_linalg_eigvalsh(tn_triu(a), .UPLO = "U");
    info = tn_mul(wide(v), tn_unsqueeze(wide(w), -2));
    const int rises = n == 1 || tn_item(tn_min(steps(w))) >= 0;
    if (!rises)
        note("eigenvalues of %s do not rise", kind_name[kind]);
    return holds(differs(a, product(info, turned(v))), n, "V W V^T", kind, n) &
           holds(skewed(v), n, "eigenvectors", kind, n) & rises &
           holds(most(w) > 0 ? differs(w, up) : most(up), n, "eigvalsh", kind,
                 n);
}

static int check_svd(int kind, int64_t m, int64_t n)
{
    tn_tensor *a = tn_to_dtype(make(kind, m, n), dtype), *s, *v;
    int fine = 1;
    for (int full = 0; full < 2; full++) {
        int64_t k = m < n ? m : n;
        tn_tensor *u = tn_linalg_svd(a, &s, &v, .full_matrices = full);
        tn_tensor *us = tn_mul(wide(tn_narrow(u, -1, 0, k)),
                               tn_unsqueeze(wide(s), -2));
        fine &= holds(differs(a, product(us, tn_narrow(v, -2, 0, k))), n,
                      "U S V", kind, m);
        fine &= holds(skewed(u), n, "U", kind, m);
        fine &= holds(skewed(turned(v)), n, "V", kind, m);
        fine &= k == 1 || tn_item(tn_max(steps(s))) <= 0;
        fine &= tn_item(tn_min(s)) >= 0;
    }
    tn_tensor *alone = tn_linalg_svdvals(a);
    return fine & holds(differs(s, alone), n, "svdvals", kind, m);
}

static int check_qr(int kind, int64_t m, int64_t n)
{
    static const char *const modes[] = {"reduced", "complete"};
    tn_tensor *a = tn_to_dtype(make(kind, m, n), dtype), *r;
    int fine = 1;
    for (int i = 0; i < 2; i++) {
        tn_tensor *q = tn_linalg_qr(a, &r, .mode = modes[i]);
        fine &= holds(differs(a, product(q, r)), n, "Q R", kind, m);
        fine &= holds(skewed(q), n, "Q", kind, m);
        fine &= tn_item(tn_all(tn_eq(r, tn_triu(r)))) != 0;
    }
    return fine;
}

static int check_lu(int kind, int64_t m, int64_t n)
{
    tn_tensor *a = tn_to_dtype(make(kind, m, n), dtype), *l, *u;
    tn_tensor *p = tn_linalg_lu(a, &l, &u);
    int fine = most(l) <= 1;
    return fine & holds(differs(a, product(p, product(l, u))), n, "P L U",
                        kind, m);
}

/* Solves with matrices that are far from singular. */
static int check_solve(int64_t n, int64_t sides)
{
    tn_tensor *a = tn_add(make(ANY, n, n),
                          tn_mul_scalar(tn_flip(tn_eye(n, .dtype = TN_F64),
                                                tn_dims(0)),
                                        2 * (double)n));
    tn_tensor *b = tn_to_dtype(make(ANY, n, sides), dtype);
    a = tn_to_dtype(a, dtype);
    int fine = holds(differs(b, product(a, tn_linalg_solve(a, b))), n,
                      "solve", ANY, n);
    fine &= holds(differs(turned(b),
                          product(tn_linalg_solve(a, turned(b), .left = false),
                                  a)),
                  n, "solve from the right", ANY, n);
    tn_tensor *pivots, *lu = tn_linalg_lu_factor(a, &pivots);
    fine &= holds(differs(b, product(a, tn_linalg_lu_solve(lu, pivots, b))), n,
                  "lu_solve", ANY, n);
    tn_tensor *t = tn_add(a, turned(tn_flip(a, tn_dims(-1)))), *x;
    for (int how = 0; how < 8; how++) {
        bool upper = how & 1, left = how & 2, unit = how & 4;
        tn_tensor *side = left ? b : turned(b);
        tn_tensor *half = upper ? tn_triu(t) : tn_tril(t);
        if (unit)
            half = tn_add(tn_mul_scalar(
                              upper ? tn_triu(t, .diagonal = 1)
                                    : tn_tril(t, .diagonal = -1),
                              1.0 / (double)(4 * n)),
                          tn_eye(n, .dtype = dtype));
        x = tn_linalg_solve_triangular(half, side, .upper = upper,
                                       .left = left, .unitriangular = unit);
        fine &= holds(differs(side, left ? product(half, x)
                                         : product(x, half)),
                      4 * n, "solve_triangular", ANY, n);
    }
    return fine;
}

static int check_cholesky(int64_t n)
{
    tn_tensor *a = make(ANY, n, n);
    a = tn_to_dtype(tn_add(tn_matmul(a, turned(a)),
                           tn_eye(n, .dtype = TN_F64)),
                    dtype);
    tn_tensor *l = tn_linalg_cholesky(a);
    tn_tensor *u = tn_linalg_cholesky(a, .upper = true);
    return holds(differs(a, product(l, turned(l))), n, "L L^T", ANY, n) &
           holds(differs(a, product(turned(u), u)), n, "U^T U", ANY, n);
}

/* Checks that the residual is orthogonal to the columns. */
static int check_least(int64_t m, int64_t n, int64_t sides)
{
    tn_tensor *a = tn_to_dtype(make(ANY, m, n), dtype), *left, *rank, *none;
    tn_tensor *b = tn_to_dtype(make(ANY, m, sides), dtype);
    tn_tensor *x = tn_linalg_lstsq(a, b, &left, &rank, &none);
    tn_tensor *rest = tn_sub(wide(b), product(a, x));
    const int fine = holds(most(tn_matmul(turned(wide(a)), rest)) / most(a) /
                         (most(b) + most(a) * most(x)),
                     n, "A^T (A X - B)", ANY, m);
    return fine & (tn_item(tn_min(rank)) == (double)n);
}

/* For a matrix with equal columns, checks the rank and that X has minimum
 * norm. */
static void check_ranks(void)
{
    tn_tensor *a = make(ANY, 5, 3), *x[2], *rank[2], *left, *none;
    tn_tensor *one = tn_narrow(tn_narrow(a, 0, 4, 1), 2, 0, 1);
    tn_copy_(tn_narrow(tn_narrow(a, 0, 4, 1), 2, 1, 1), one);
    a = tn_to_dtype(a, dtype);
    tn_tensor *b = tn_to_dtype(make(ANY, 5, 2), dtype);
    for (int i = 0; i < 2; i++) {
        x[i] = tn_linalg_lstsq(a, b, &left, &rank[i], &none);
        tn_device_mask(NULL, i ? NULL : "lapack");
    }
    ok(same_bits(x[0], x[1]) && same_bits(rank[0], rank[1]) &&
           tn_item(tn_min(rank[0])) == 2 && tn_item(tn_max(rank[0])) == 3,
       "a rank that is not full is LAPACK's, and so is the X (%s)",
       tn_dtype_name(dtype));
}

static void check_factors(void)
{
    static const int64_t size[] = {1, 2, 3, 5, 8, 16, 17, 32};
    for (int s = 0; s < 8; s++) {
        const int64_t n = size[s];
        int fine = 1;
        tn_scope *scope = tn_scope_open();
        for (int kind = 0; kind < KINDS; kind++) {
            fine &= check_eigen(kind, n) & check_svd(kind, n, n) &
                    check_qr(kind, n, n) & check_lu(kind, n, n);
            if (n > 2 && n < 32)
                fine &= check_svd(kind, n + 3, n) & check_svd(kind, n - 2, n) &
                        check_qr(kind, n + 3, n) & check_qr(kind, n - 2, n) &
                        check_lu(kind, n + 3, n) & check_lu(kind, n - 2, n);
        }
        fine &= check_solve(n, 1) & check_solve(n, 7) & check_cholesky(n);
        if (n > 2 && n < 30)
            fine &= check_least(n + 3, n, 2);
        ok(fine && !tn_error(), "factors of %s, %lld x %lld",
           tn_dtype_name(dtype), (long long)n, (long long)n);
        if (tn_error())
            note("%s", tn_error());
        tn_error_clear();
        tn_scope_close(scope);
    }
}

/* ---- results do not depend on the position in a batch -------------------- */

/* Computes the factorisation with index `how` of x. Returns the number of
 * results. */
static int made(int how, tn_tensor *x, tn_tensor **out)
{
    out[1] = out[2] = NULL;
    switch (how) {
    case 0:
        out[0] = tn_linalg_cholesky_ex(x, &out[1]);
        return 2;
    case 1:
        out[0] = tn_linalg_lu_factor_ex(x, &out[1], &out[2]);
        return 3;
    case 2:
        out[0] = tn_linalg_qr(x, &out[1]);
        return 2;
    case 3:
        out[0] = tn_linalg_eigh(x, &out[1]);
        return 2;
    case 4:
        out[0] = tn_linalg_svd(x, &out[1], &out[2]);
        return 3;
    case 5:
        out[0] = tn_linalg_svdvals(x);
        return 1;
    default:
        out[0] = tn_linalg_solve_ex(x, x, &out[1]);
        return 2;
    }
}

/* The second matrix is positive definite. The others need not be: some are
 * singular, or need no iterations. */
static void check_places(void)
{
    tn_tensor *q = make(ANY, 6, 6), *good = tn_matmul(q, turned(q));
    tn_tensor *const parts[] = {make(HILBERT, 6, 6), good, make(ZERO, 6, 6),
                                make(GRADED, 6, 6), make(DIAGONAL, 6, 6)};
    tn_tensor *x = tn_cat(parts, 5, 0);
    x = tn_flatten(tn_transpose(tn_reshape(x, tn_dims(5, BATCH, 6, 6)), 0, 1),
                   .end_dim = 1);
    x = tn_to_dtype(x, dtype);
    for (int how = 0; how < 7; how++) {
        tn_tensor *all[3], *some[3];
        int same = 1;
        int count = made(how, x, all);
        for (int64_t first = 3; first < 65; first += 11) {
            made(how, tn_narrow(x, 0, first, 29), some);
            for (int i = 0; i < count; i++)
                same &= same_bits(tn_narrow(all[i], 0, first, 29), some[i]);
        }
        ok(same, "matrices have the same bits in any place (%d, %s)", how,
           tn_dtype_name(dtype));
    }
}

/* ---- errors -------------------------------------------------------------- */

static double number[BATCH][3][3];

static tn_tensor *numbers(void)
{
    return tn_to_dtype(tn_tensor_from_array(number, TN_F64,
                                            tn_dims(BATCH, 3, 3)),
                       dtype);
}

static void start(void)
{
    for (int k = 0; k < BATCH; k++)
        for (int i = 0; i < 9; i++)
            number[k][i / 3][i % 3] = i % 4 == 0 ? 4 : 1;
}

static void is_info(tn_tensor *told, int seventh, const char *what)
{
    int32_t info[BATCH] = {0};
    tn_tensor_to_array(told, info, sizeof info);
    int others = 0;
    for (int k = 0; k < BATCH; k++)
        others += k != 7 && info[k];
    is_int(info[7] + 100 * others, seventh, "%s", what);
}

static void refused(const void *got, const char *want)
{
    bool told = got == NULL && tn_error_code() == TN_ERR_ARGUMENT;
    is_str(told ? tn_error() : "(a result)", want, "%s", want);
    tn_error_clear();
}

static bool is_cpu(void)
{
    return strncmp(tn_device_name(tn_device_current()), "cpu", 3) == 0;
}

/* cuSOLVER has other info values, and writes elements after the minor that
 * fails. */
static bool is_cuda(void)
{
    return strncmp(tn_device_name(tn_device_current()), "cuda", 4) == 0;
}

/* For matrices with infinities LAPACK sometimes returns eigenvalues, and other
 * devices do the same. */
static void refused_here(const void *got, const char *want)
{
    if (is_cpu()) {
        refused(got, want);
        return;
    }
    const size_t same = is_cuda() ? strcspn(want, "(") : strlen(want) + 1;
    ok(got || !strncmp(tn_error(), want, same), "%s, or a result", want);
    tn_error_clear();
}

/* Matrices 7, 8 and 9 contain infinities: all their results are NaN, as with
 * LAPACK. */
static void check_infinite(double x)
{
    double value[BATCH * 3];
    tn_tensor *v;
    for (int vectors = 0; vectors < 2; vectors++)
        for (int one = 0; one < 2; one++) { /* first the matrices in a batch,
                                             * then each alone */
            tn_tensor *a = numbers();
            const int count = one ? 1 : BATCH;
            a = one ? tn_narrow(a, 0, 8, 1) : a;
            a = vectors ? tn_linalg_eigh(a, &v) : tn_linalg_eigvalsh(a);
            tn_tensor_to_array(tn_to_dtype(a, TN_F64), value,
                               (size_t)count * 3 * sizeof *value);
            int wrong = 0;
            for (int i = 0; i < count * 3 && !tn_error(); i++)
                wrong += isnan(value[i]) != (one || (i >= 21 && i < 30));
            ok((!tn_error() && wrong == 0) || !is_cpu(),
               "eigenvalues of matrices with %g are NaN%s%s", x,
               vectors ? ", and there are vectors" : "",
               one ? ", of one too" : "");
            tn_error_clear();
        }
}

static void check_infos(void)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    tn_tensor *info, *v;
    double left[9];
    start();
    number[7][1][1] = -1;
    tn_tensor *l = tn_linalg_cholesky_ex(numbers(), &info);
    is_info(info, 2, "the second minor is not positive");
    tn_tensor_to_array(tn_to_dtype(tn_contiguous(tn_select(l, 0, 7)), TN_F64),
                       left, sizeof left);
    ok(left[0] == 2 && left[3] == 0.5 &&
           (is_cuda() || (left[4] == -1.25 && left[7] == 1 && left[8] == 4)),
       "and memory behind it is unchanged, except by cuSOLVER");
    refused(tn_linalg_cholesky(numbers()),
            "linalg_cholesky: matrix 7 of the batch is not positive-definite "
            "(LAPACK's info is 2)");
    memcpy(number[7][2], number[7][0], sizeof number[7][2]);
    tn_linalg_lu_factor_ex(numbers(), &v, &info);
    is_info(info, 3, "the third pivot is 0");
    refused(tn_linalg_solve(numbers(), numbers()),
            "linalg_solve: matrix 7 of the batch is singular (LAPACK's info "
            "is 3)");
    for (int i = 0; i < 3; i++) {
        start();
        number[7][2][1] = number[8][0][0] = number[9][1][0] = bad[i];
        tn_linalg_cholesky_ex(numbers(), &info);
        tn_linalg_lu_factor_ex(numbers(), &v, &info);
        tn_linalg_qr(numbers(), &v);
        ok(!tn_error(), "factors of %g come to an end", bad[i]);
        if (isnan(bad[i]))
            refused_here(tn_linalg_eigh(numbers(), &v),
                         "linalg_eigh: matrix 7 of the batch has eigenvalues "
                         "that do not converge (LAPACK's info is 2)");
        else
            check_infinite(bad[i]);
        refused(tn_linalg_svdvals(numbers()),
                "linalg_svdvals: A (19, 3, 3) has NaN or infinite elements");
    }
}

/* Tests numbers whose squares overflow. */
static void check_far(void)
{
    const double far = dtype == TN_F32 ? 0x1p100 : 0x1p900;
    for (int i = 0; i < 2; i++) {
        const double by = i ? far : 1 / far;
        int fine = 1;
        tn_tensor *x = tn_to_dtype(make(ANY, 7, 7), dtype), *v, *u, *s;
        tn_tensor *a = tn_mul_scalar(tn_add(x, turned(x)), by);
        tn_tensor *w = tn_linalg_eigh(a, &v);
        fine &= holds(differs(tn_mul_scalar(wide(a), 1 / by),
                              product(tn_mul(wide(v),
                                             tn_unsqueeze(tn_mul_scalar(
                                                              wide(w), 1 / by),
                                                          -2)),
                                      turned(v))),
                      7, "V W V^T", ANY, 7);
        u = tn_linalg_svd(a, &s, &v);
        fine &= holds(differs(tn_mul_scalar(wide(a), 1 / by),
                              product(tn_mul(wide(u),
                                             tn_unsqueeze(tn_mul_scalar(
                                                              wide(s), 1 / by),
                                                          -2)),
                                      v)),
                      7, "U S V", ANY, 7);
        u = tn_linalg_qr(a, &v);
        fine &= holds(differs(tn_mul_scalar(wide(a), 1 / by),
                              product(u, tn_mul_scalar(wide(v), 1 / by))),
                      7, "Q R", ANY, 7);
        ok(fine, "numbers near %g have factors, %s", by, tn_dtype_name(dtype));
    }
}

/* On x86, the cpu's instruction set "generic" declines all batches. */
static bool does_batches(const tn_device *device)
{
    bool does = tn_device_has_extension(device, "lapack");
#if defined(__x86_64__)
    const char *set = getenv("TENON_CPU_ISA");
    does = does && (strncmp(tn_device_name(device), "cpu", 3) != 0 ||
                    (__builtin_cpu_supports("avx2") &&
                     (!set || strcmp(set, "generic") != 0)));
#endif
    return does;
}

static void check_host(void)
{
    tn_device *device = tn_device_current();
    const bool here = does_batches(device);
    int64_t runs = tn_host_runs();
    dtype = TN_F32;
    if (is_cpu())
        ok(tn_device_has_extension(device, "lapack"), "the cpu has lapack");
    tn_tensor *many = tn_to_dtype(make(ANY, 16, 16), dtype), *v;
    tn_linalg_inv(many);
    tn_linalg_svd(many, &v, &v);
    is_int(tn_host_runs() - runs, here ? 0 : 2,
           "a device that has the extension does batches itself");
    tn_device_mask(device, "lapack");
    tn_linalg_inv(many);
    is_int(tn_host_runs() - runs, here ? 1 : 3, "masked, they are the host's");
    tn_device_mask(device, NULL);
    tn_linalg_inv(tn_to_dtype(make(ANY, 100, 100), dtype));
    tn_linalg_inv(tn_narrow(many, 0, 0, 1));
    is_int(tn_host_runs() - runs, !here ? 5 : is_cpu() ? 3 : 1,
           "large ones, and one alone, the cpu leaves to the host");
}

int main(void)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64};
    plan_later();
    tn_manual_seed(7);
    for (int i = 0; i < 2; i++) {
        dtype = dtypes[i];
        check_factors();
        tn_scope *scope = tn_scope_open();
        check_places();
        check_ranks();
        check_infos();
        check_far();
        tn_scope_close(scope);
    }
    check_host();
    return done_testing();
}
