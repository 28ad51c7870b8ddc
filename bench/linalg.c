/* linalg.c: measures factorisations and operators that use them. Tenon and
 * PyTorch both call a LAPACK library, each its own. */
#include "bench.h"

/* size[] is the number of matrices, of rows and of columns. a is well
 * conditioned. b is a times its transpose. c has the right-hand sides. */
static void open_matrices(bench_state *s)
{
    int64_t batch = s->size[0], n = s->size[1];
    tn_tensor *eye = tn_mul_scalar(tn_eye(n), tn_num(n));
    s->a = tn_add(tn_rand(tn_dims(batch, n, n)), eye);
    s->b = tn_matmul(s->a, tn_transpose(s->a, 1, 2));
    s->c = tn_rand(tn_dims(batch, n, 8));
}

#define WITH(n, call)                                                         \
    tn_tensor *out[n];                                                        \
    call

BENCH_CALL(cholesky, tn_linalg_cholesky(s->b))
BENCH_CALL(lu_factor, WITH(1, tn_linalg_lu_factor(s->a, &out[0])))
BENCH_CALL(qr, WITH(1, tn_linalg_qr(s->a, &out[0])))
BENCH_CALL(eigh, WITH(1, tn_linalg_eigh(s->b, &out[0])))
BENCH_CALL(eigvalsh, tn_linalg_eigvalsh(s->b))
BENCH_CALL(svd, WITH(2, tn_linalg_svd(s->a, &out[0], &out[1])))
BENCH_CALL(svdvals, tn_linalg_svdvals(s->a))
BENCH_CALL(solve, tn_linalg_solve(s->a, s->c))
BENCH_CALL(solve_triangular,
           tn_linalg_solve_triangular(s->a, s->c, .upper = true))
BENCH_CALL(lstsq,
           WITH(3, tn_linalg_lstsq(s->a, s->c, &out[0], &out[1], &out[2])))
BENCH_CALL(inv, tn_linalg_inv(s->a))
BENCH_CALL(pinv, tn_linalg_pinv(s->a))
BENCH_CALL(det, tn_linalg_det(s->a))
BENCH_CALL(slogdet, WITH(1, tn_linalg_slogdet(s->a, &out[0])))
BENCH_CALL(matrix_exp, tn_linalg_matrix_exp(s->b))
BENCH_CALL(matrix_power, tn_linalg_matrix_power(s->a, 7))

#define SIZES(name)                                                           \
    {#name, {256, 16}, open_matrices, name, BENCH_UNKNOWN, 0},            \
    {#name, {1, 256}, open_matrices, name, BENCH_UNKNOWN, 0}

static const bench_work work[] = {
    SIZES(cholesky),
    SIZES(lu_factor),
    SIZES(qr),
    SIZES(eigh),
    SIZES(eigvalsh),
    SIZES(svd),
    SIZES(svdvals),
    SIZES(solve),
    SIZES(solve_triangular),
    SIZES(lstsq),
    SIZES(inv),
    SIZES(pinv),
    SIZES(det),
    SIZES(slogdet),
    SIZES(matrix_exp),
    SIZES(matrix_power),
    {.name = NULL},
};
const bench_group bench_linalg = {"linalg", work};
