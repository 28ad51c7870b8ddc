/* gradients_linalg.c: gradients of matrix factorisations, linear systems,
 * inverses, determinants and the matrix exponential.
 *
 * Sources: Giles, "An extended collection of matrix derivative results for
 * forward and reverse mode algorithmic differentiation" (2008), for linear
 * systems, determinants and eigenvalues; Murray, arXiv:1602.07527, for
 * Cholesky; Walter and Lehmann, arXiv:1001.1654, for QR; Golub and Pereyra,
 * "The differentiation of pseudo-inverses and nonlinear least squares problems"
 * (1973). Signs and projections are PyTorch's, so that results also agree where
 * the gradient is not defined. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <ops/table.h>
#include <tenon/ops.h>

static tn_status set_result(tn_tensor **out, tn_tensor *x)
{
    *out = x;
    return x ? TN_OK : tn_error_code();
}

static tn_tensor *transposed(tn_tensor *x)
{
    return x ? tn_transpose(x, -1, -2) : NULL;
}

/* matmul_tn computes a^T b, and matmul_nt a b^T. The letters are those of BLAS:
 * t for a transposed operand, n for one that is not. */
static tn_tensor *matmul_tn(tn_tensor *a, tn_tensor *b)
{
    return tn_matmul(transposed(a), b);
}
static tn_tensor *matmul_nt(tn_tensor *a, tn_tensor *b)
{
    return tn_matmul(a, transposed(b));
}

static int64_t size_from_end(const tn_tensor *x, int back)
{
    return x->shape[x->ndim - back];
}

static tn_tensor *add_optional(tn_tensor *a, tn_tensor *b)
{
    return a && b ? tn_add(a, b) : a ? a : b;
}

/* Multiplies the diagonal of x by a number. */
static tn_tensor *diagonal_times(tn_tensor *x, double by)
{
    tn_tensor *d = x ? tn_diagonal(x, .dim1 = -2, .dim2 = -1) : NULL;
    return d ? tn_add(x, tn_diag_embed(tn_mul_scalar(d, by - 1))) : NULL;
}

static tn_tensor *solve_triangle(tn_tensor *a, tn_tensor *b, bool upper,
                                 bool left, bool unit)
{
    if (!a || !b)
        return NULL;
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_bool(upper), tn__value_bool(left),
                              tn__value_bool(unit)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_SOLVE_TRIANGLE], value, 5);
}

/* ---- Cholesky ----------------------------------------------------------- */

/* For A = L L^T the gradient of A is sym(L^-T phi(L^T g) L^-1). phi(X) is the
 * lower triangle of X with its diagonal halved. sym(X) = (X + X^T) / 2, because
 * A is symmetric. */
TN__GRADIENT(tn__grad_linalg_cholesky_ex)
{
    bool upper = tn__node_value(node, 1)->of.i;
    tn_tensor *l = tn__node_output(node, 0);
    if (!g[0])
        return TN_OK;
    if (!l)
        return tn_error_code();
    tn_tensor *low = upper ? transposed(l) : l,
              *gl = upper ? transposed(g[0]) : g[0];
    tn_tensor *phi = diagonal_times(tn_tril(matmul_tn(low, gl)), 0.5);
    phi = solve_triangle(low, phi, false, false, false);
    phi = solve_triangle(transposed(low), phi, true, true, false);
    return set_result(out, tn_mul_scalar(tn_add(phi, transposed(phi)), 0.5));
}

/* Computes the gradient of the Cholesky factor from the gradient gA of the
 * matrix A = L L^T (L^T L if upper). common = -(gA + gA^T), and the result is
 * -common L (-L common if upper). */
static tn_tensor *cholesky_chain(tn_tensor *common, tn_tensor *l, bool upper)
{
    return tn_neg(upper ? tn_matmul(l, common) : tn_matmul(common, l));
}

TN__GRADIENT(tn__grad_cholesky_solve)
{
    bool upper = tn__node_value(node, 2)->of.i;
    tn_tensor *l = tn__node_input(node, 1);
    tn_tensor *gb = l ? tn_cholesky_solve(g[0], l, .upper = upper) : NULL;
    if (!gb)
        return tn_error_code();
    if (tn__node_wants(node, 0))
        out[0] = gb;
    if (!tn__node_wants(node, 1))
        return TN_OK;
    tn_tensor *common = matmul_nt(gb, tn__node_output(node, 0));
    common = tn_add(common, transposed(common));
    return set_result(&out[1], cholesky_chain(common, l, upper));
}

TN__GRADIENT(tn__grad_cholesky_inverse)
{
    bool upper = tn__node_value(node, 1)->of.i;
    tn_tensor *l = tn__node_input(node, 0);
    tn_tensor *inverse = tn__node_output(node, 0);
    if (!l || !inverse)
        return tn_error_code();
    tn_tensor *common = tn_add(g[0], transposed(g[0]));
    common = tn_matmul(inverse, tn_matmul(common, inverse));
    return set_result(out, cholesky_chain(common, l, upper));
}

/* ---- linear systems ----------------------------------------------------- */

static tn_tensor *solve_square(tn_tensor *a, tn_tensor *b)
{
    if (!a || !b)
        return NULL;
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_SOLVE_SQUARE], value, 2);
}

TN__GRADIENT(tn__grad_solve_square)
{
    if (!g[0])
        return TN_OK;
    tn_tensor *gb = solve_square(transposed(tn__node_input(node, 0)), g[0]);
    if (!gb)
        return tn_error_code();
    if (tn__node_wants(node, 1))
        out[1] = gb;
    if (!tn__node_wants(node, 0))
        return TN_OK;
    return set_result(out, tn_neg(matmul_nt(gb, tn__node_output(node, 0))));
}

TN__GRADIENT(tn__grad_solve_triangle)
{
    enum { UPPER = 2, LEFT, UNIT };
    bool upper = tn__node_value(node, UPPER)->of.i;
    bool left = tn__node_value(node, LEFT)->of.i;
    bool unit = tn__node_value(node, UNIT)->of.i;
    tn_tensor *gb = solve_triangle(transposed(tn__node_input(node, 0)), g[0],
                                   !upper, left, unit);
    if (!gb)
        return tn_error_code();
    if (tn__node_wants(node, 1))
        out[1] = gb;
    if (!tn__node_wants(node, 0))
        return TN_OK;
    tn_tensor *x = tn__node_output(node, 0);
    tn_tensor *ga = tn_neg(left ? matmul_nt(gb, x) : matmul_tn(x, gb));
    return set_result(out, upper ? tn_triu(ga, .diagonal = unit)
                                 : tn_tril(ga, .diagonal = unit ? -1 : 0));
}

/* ---- LU ----------------------------------------------------------------- */

/* P^T A = L U for an m x n matrix A. The leading square block of lu stores both
 * L and U. Any further rows belong to L, any further columns to U, and their
 * gradients also contribute to the gradient of the square block. */
TN__GRADIENT(tn__grad_linalg_lu_factor_ex)
{
    tn_tensor *lu = tn__node_output(node, 0);
    tn_tensor *pivots = tn__node_output(node, 1);
    if (!g[0])
        return TN_OK;
    if (!lu || !pivots)
        return tn_error_code();
    int64_t m = size_from_end(lu, 2), n = size_from_end(lu, 1),
            k = m < n ? m : n;
    tn_tensor *square = tn_narrow(tn_narrow(lu, -2, 0, k), -1, 0, k);
    tn_tensor *gs = tn_narrow(tn_narrow(g[0], -2, 0, k), -1, 0, k);
    tn_tensor *low = tn_tril(square, .diagonal = -1), *up = tn_triu(square);
    tn_tensor *one = tn_eye(k, .dtype = lu->dtype,
                            .device = lu->storage->device);
    tn_tensor *l = tn_add(low, one);
    tn_tensor *by_l = matmul_tn(l, tn_tril(gs, .diagonal = -1));
    tn_tensor *by_u = matmul_nt(tn_triu(gs), up);
    tn_tensor *rest = NULL;
    if (m > k) { /* L has more rows */
        tn_tensor *l2 = tn_narrow(lu, -2, k, m - k);
        tn_tensor *g2 = tn_narrow(g[0], -2, k, m - k);
        by_u = tn_sub(by_u, matmul_tn(l2, g2));
        rest = solve_triangle(transposed(up), g2, false, false, false);
    } else if (n > k) { /* U has more columns */
        tn_tensor *u2 = tn_narrow(lu, -1, k, n - k);
        tn_tensor *g2 = tn_narrow(g[0], -1, k, n - k);
        by_l = tn_sub(by_l, matmul_nt(g2, u2));
        rest = solve_triangle(transposed(l), g2, true, true, true);
    }
    tn_tensor *ga = tn_add(tn_tril(by_l, .diagonal = -1), tn_triu(by_u));
    ga = solve_triangle(transposed(l), ga, true, true, true);
    ga = solve_triangle(transposed(up), ga, false, false, false);
    if (rest)
        ga = tn_cat(((tn_tensor *[]){ga, rest}), 2, m > k ? -2 : -1);
    const tn_value value[] = {tn__value_tensor(pivots), tn__value_int(m)};
    tn_tensor *order =
        tn__op_run1(&tn__op_table[TN__OP_ID_LU_ORDER], value, 2);
    if (!order || !ga)
        return tn_error_code();
    /* Row i of P^T A is row order[i] of A. */
    tn_dims_list size = tn__node_shape(node, 0);
    tn_tensor *back = tn_argsort(order, -1, false);
    return set_result(
        out, tn_gather(ga, -2, tn_expand(tn_unsqueeze(back, -1), size)));
}

/* ---- QR ----------------------------------------------------------------- */

/* For A = Q R the gradient of A is
 *
 *   Q gR + (Q S + (I - Q Q^T) gQ) U^-T
 *
 * U is the square block of the first columns of R. S is the part of M - M^T
 * below the diagonal, where M = Q^T gQ - gR R^T. This function computes the
 * second term. The formula follows from dQ = Q K + (a matrix orthogonal to Q),
 * where K is skew-symmetric and equals Q^T dA U^-1 below the diagonal. */
static tn_tensor *qr_through_q(tn_tensor *q, tn_tensor *r, tn_tensor *gq,
                               tn_tensor *gr)
{
    int64_t m = size_from_end(q, 2), k = size_from_end(q, 1);
    tn_tensor *along = gq ? matmul_tn(q, gq) : NULL;
    tn_tensor *by_r = gr ? tn_neg(matmul_nt(gr, r)) : NULL;
    tn_tensor *inner = by_r ? add_optional(along, by_r) : along;
    inner =
        tn_matmul(q, tn_tril(tn_sub(inner, transposed(inner)), .diagonal = -1));
    if (gq && m > k)
        inner = tn_add(inner, tn_sub(gq, tn_matmul(q, along)));
    return solve_triangle(transposed(tn_narrow(r, -1, 0, k)), inner, false,
                          false, false);
}

TN__GRADIENT(tn__grad_linalg_qr)
{
    const char *mode = tn__node_value(node, 1)->of.string;
    tn_tensor *q = tn__node_output(node, 0), *r = tn__node_output(node, 1);
    int64_t m = tn__node_size(node, 0, tn__node_ndim(node, 0) - 2);
    int64_t n = tn__node_size(node, 0, tn__node_ndim(node, 0) - 1);
    if (mode[0] == 'r' && mode[1] == '\0')
        return tn__fail(TN_ERR_UNSUPPORTED, "linalg_qr: no gradient with "
                        "{mode} \"r\", which has no Q: use \"reduced\"");
    if (mode[0] == 'c' && m > n)
        return tn__fail(TN_ERR_UNSUPPORTED, "linalg_qr: no gradient with "
                        "{mode} \"complete\" for more rows than columns, where "
                        "the added columns of Q are arbitrary: use "
                        "\"reduced\"");
    if (!q || !r)
        return tn_error_code();
    tn_tensor *gr = g[1] ? tn_triu(g[1]) : NULL;
    tn_tensor *a = qr_through_q(q, r, g[0], gr);
    if (a && n > m) /* columns of A with index m or higher do not affect Q */
        a = tn_cat(((tn_tensor *[]){
                       a, tn_zeros_like(tn_matmul(
                              q, tn_narrow(r, -1, m, n - m)))}),
                   2, -1);
    return set_result(out, gr ? tn_add(a, tn_matmul(q, gr)) : a);
}

/* ---- eigenvalues -------------------------------------------------------- */

/* Returns the matrix d[i][j] = s[j] - s[i]. */
static tn_tensor *differences(tn_tensor *s)
{
    return tn_sub(tn_unsqueeze(s, -2), tn_unsqueeze(s, -1));
}

/* Returns the matrix d[i][j] = s[i] + s[j]. */
static tn_tensor *sums(tn_tensor *s)
{
    return tn_add(tn_unsqueeze(s, -2), tn_unsqueeze(s, -1));
}

/* Sets the diagonal of e, which is 0, to 1. */
static tn_tensor *with_unit_diagonal(tn_tensor *e)
{
    return e ? tn_add(e, tn_eye(size_from_end(e, 1), .dtype = e->dtype,
                                .device = e->storage->device))
             : NULL;
}

/* Computes v x v^T. */
static tn_tensor *congruence(tn_tensor *v, tn_tensor *x)
{
    return tn_matmul(v, matmul_nt(x, v));
}

static tn_tensor *skew(tn_tensor *x)
{
    return x ? tn_sub(x, transposed(x)) : NULL;
}

/* For symmetric A = V diag(s) V^T the gradient is V (diag(gS) + E) V^T. With M
 * = V^T gV, E[i][j] = (M - M^T)[i][j] / (2 (s[j] - s[i])) for i != j, and
 * E[i][i] = 0. */
TN__GRADIENT(tn__grad_linalg_eigh)
{
    tn_tensor *s = tn__node_output(node, 0), *v = tn__node_output(node, 1);
    if (!s || !v)
        return tn_error_code();
    if (!g[1])
        return set_result(
            out, tn_matmul(tn_mul(v, tn_unsqueeze(g[0], -2)), transposed(v)));
    tn_tensor *inner = tn_mul_scalar(
        tn_div(skew(matmul_tn(v, g[1])), with_unit_diagonal(differences(s))),
        0.5);
    if (g[0])
        inner = tn_add(inner, tn_diag_embed(g[0]));
    return set_result(out, congruence(v, inner));
}

TN__GRADIENT(tn__grad_linalg_eigvalsh)
{
    tn_tensor *a = tn__node_input(node, 0), *part[2];
    if (!a)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), *tn__node_value(node, 1)};
    if (tn__op_run(&tn__op_table[TN__OP_ID_LINALG_EIGH], value, 2, part, 2) <
        0)
        return tn_error_code();
    return set_result(out, tn_matmul(tn_mul(part[1], tn_unsqueeze(g[0], -2)),
                                     transposed(part[1])));
}

/* ---- singular values ---------------------------------------------------- */

/* Computes the part of A's gradient that comes from gU and gV and lies in the
 * span of the singular vectors. The denominators s[j]^2 - s[i]^2 are computed
 * as (s[j] - s[i]) * (s[j] + s[i]), because subtracting two close squares would
 * lose digits. */
static tn_tensor *svd_inner(tn_tensor *u, tn_tensor *s, tn_tensor *vh,
                            tn_tensor *gu, tn_tensor *gvh)
{
    tn_tensor *e = with_unit_diagonal(tn_mul(differences(s), sums(s))),
              *inner = NULL;
    if (gu)
        inner = tn_mul(tn_div(skew(matmul_tn(u, gu)), e), tn_unsqueeze(s, -2));
    if (gvh) {
        tn_tensor *by_v =
            tn_mul(tn_div(skew(matmul_nt(vh, gvh)), e), tn_unsqueeze(s, -1));
        inner = add_optional(inner, by_v);
    }
    return inner;
}

TN__GRADIENT(tn__grad_linalg_svd)
{
    tn_tensor *u = tn__node_output(node, 0), *s = tn__node_output(node, 1);
    tn_tensor *vh = tn__node_output(node, 2), *gu = g[0], *gvh = g[2];
    if (!u || !s || !vh)
        return tn_error_code();
    int64_t k = size_from_end(s, 1), m = size_from_end(u, 2),
            n = size_from_end(vh, 1);
    /* With full_matrices, U and Vh have more columns or rows than there are
     * singular values. The additional vectors are arbitrary, so their gradients
     * are ignored. */
    u = tn_narrow(u, -1, 0, k);
    vh = tn_narrow(vh, -2, 0, k);
    gu = gu ? tn_narrow(gu, -1, 0, k) : NULL;
    gvh = gvh ? tn_narrow(gvh, -2, 0, k) : NULL;
    tn_tensor *inner =
        gu || gvh ? svd_inner(u, s, vh, gu, gvh) : NULL;
    if (g[1])
        inner = add_optional(inner, tn_diag_embed(g[1]));
    tn_tensor *ga = tn_matmul(u, inner);
    if (gu && m > k) {
        tn_tensor *beyond = tn_sub(gu, tn_matmul(u, matmul_tn(u, gu)));
        ga = tn_add(ga, tn_div(beyond, tn_unsqueeze(s, -2)));
    }
    ga = tn_matmul(ga, vh);
    if (gvh && n > k) {
        tn_tensor *beyond = tn_sub(gvh, tn_matmul(matmul_nt(gvh, vh), vh));
        ga = tn_add(ga, tn_matmul(u, tn_div(beyond, tn_unsqueeze(s, -1))));
    }
    return set_result(out, ga);
}

/* Computes the singular value decomposition of the node's input. Sets part[] to
 * U, S and Vh. */
static tn_status svd_of_input(const tn__node *node, tn_tensor *part[3])
{
    tn_tensor *a = tn__node_input(node, 0);
    if (!a)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_bool(false)};
    int count =
        tn__op_run(&tn__op_table[TN__OP_ID_LINALG_SVD], value, 2, part, 3);
    return count < 0 ? count : TN_OK;
}

TN__GRADIENT(tn__grad_linalg_svdvals)
{
    tn_tensor *part[3];
    if (svd_of_input(node, part) < 0)
        return tn_error_code();
    return set_result(
        out, tn_matmul(tn_mul(part[0], tn_unsqueeze(g[0], -2)), part[2]));
}

static tn_tensor *symmetric(tn_tensor *x)
{
    return x ? tn_mul_scalar(tn_add(x, transposed(x)), 0.5) : NULL;
}

/* Polar decomposition A = U H, with H H = A^T A. The derivatives satisfy
 * dH H + H dH = dA^T A + A^T dA, which is solved in the basis of the right
 * singular vectors V, and dU = (dA - U dH) H^-1. So gU adds gU H^-1 to the
 * gradient of A and -U^T gU H^-1 to the gradient of H. */
TN__GRADIENT(tn__grad_linalg_polar)
{
    tn_tensor *part[3];
    if (svd_of_input(node, part) < 0)
        return tn_error_code();
    tn_tensor *a = tn__node_input(node, 0), *s = part[1];
    tn_tensor *v = transposed(part[2]), *ga = NULL, *gh = g[1];
    if (g[0]) {
        tn_tensor *by_h = tn_matmul(
            g[0], tn_matmul(tn_div(v, tn_unsqueeze(s, -2)), part[2]));
        tn_tensor *u = tn_matmul(part[0], part[2]);
        gh = add_optional(gh, tn_neg(matmul_tn(u, by_h)));
        ga = by_h;
    }
    tn_tensor *inner = tn_matmul(part[2], tn_matmul(symmetric(gh), v));
    tn_tensor *y = congruence(v, tn_div(inner, sums(s)));
    return set_result(out, add_optional(ga, tn_mul_scalar(tn_matmul(a, y), 2)));
}

/* X is the square root of A. X X = A gives dX X + X dX = dA, which is solved in
 * the basis of A's eigenvectors. */
TN__GRADIENT(tn__grad_linalg_matrix_sqrth)
{
    tn_tensor *a = tn__node_input(node, 0), *part[2];
    if (!a)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a)};
    if (tn__op_run(&tn__op_table[TN__OP_ID_LINALG_EIGH], value, 1, part, 2) <
        0)
        return tn_error_code();
    tn_tensor *v = part[1];
    tn_tensor *inner = tn_matmul(matmul_tn(v, symmetric(g[0])), v);
    return set_result(out,
                      congruence(v, tn_div(inner, sums(tn_sqrt(part[0])))));
}

/* ---- pseudo-inverse ----------------------------------------------------- */

/* Computes the gradient of a from p, the pseudo-inverse of a, and g, the
 * gradient of p. This is equation (4.12) of Golub and Pereyra; it assumes that
 * the rank of a does not change. */
static tn_tensor *pinv_chain(tn_tensor *a, tn_tensor *p, tn_tensor *g)
{
    if (!a || !p || !g)
        return NULL;
    tn_tensor *gt = transposed(g), *pt = transposed(p);
    if (size_from_end(a, 2) <= size_from_end(a, 1)) {
        tn_tensor *k = tn_matmul(gt, p), *kpt = tn_matmul(k, pt);
        tn_tensor *ga = tn_neg(transposed(tn_matmul(p, k)));
        ga = tn_add(ga, kpt);
        ga = tn_sub(ga, tn_matmul(tn_matmul(a, p), kpt));
        return tn_add(ga, tn_matmul(tn_matmul(pt, p),
                                    tn_sub(gt, tn_matmul(k, a))));
    }
    tn_tensor *k = tn_matmul(p, gt), *ptk = tn_matmul(pt, k);
    tn_tensor *ga = tn_neg(transposed(tn_matmul(k, p)));
    ga = tn_add(ga, tn_matmul(tn_matmul(tn_sub(gt, tn_matmul(a, k)), p), pt));
    ga = tn_add(ga, ptk);
    return tn_sub(ga, tn_matmul(tn_matmul(ptk, p), a));
}

TN__GRADIENT(tn__grad_linalg_pinv)
{
    return set_result(out, pinv_chain(tn__node_input(node, 0),
                                      tn__node_output(node, 0), g[0]));
}

/* The least-squares solution is X = P B, where P is the pseudo-inverse of
 * A. */
TN__GRADIENT(tn__grad_lstsq_batch)
{
    tn_tensor *a = tn__node_input(node, 0);
    if (!g[0])
        return TN_OK;
    if (!a)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(a), tn__value_float(0),
                              *tn__node_value(node, 2)};
    tn_tensor *p =
        tn__op_run1(&tn__op_table[TN__OP_ID_LINALG_PINV_BY], value, 3);
    tn_status status = TN_OK;
    if (tn__node_wants(node, 1))
        status = set_result(&out[1], matmul_tn(p, g[0]));
    if (status >= 0 && tn__node_wants(node, 0)) {
        tn_tensor *b = tn__node_input(node, 1);
        status =
            set_result(out, b ? pinv_chain(a, p, matmul_nt(g[0], b)) : NULL);
    }
    return status;
}

/* ---- determinants ------------------------------------------------------- */

/* Reshapes x, which has one element per matrix of a batch, so that it
 * broadcasts over the matrices. */
static tn_tensor *over_matrices(tn_tensor *x)
{
    return tn_unsqueeze(tn_unsqueeze(x, -1), -1);
}

/* Returns for each singular value the product of all others: the product of
 * those before it times the product of those after it. */
static tn_tensor *products_of_others(tn_tensor *s)
{
    int64_t k = size_from_end(s, 1);
    tn_dims_list pad = tn_dims(1, -1);
    tn_tensor *before = tn_constant_pad_nd(tn_cumprod(s, -1), pad, 1);
    tn_tensor *reversed = tn_flip(s, tn_dims(-1));
    tn_tensor *behind = tn_constant_pad_nd(tn_cumprod(reversed, -1), pad, 1);
    return k ? tn_mul(before, tn_flip(behind, tn_dims(-1))) : s;
}

/* The gradient is g det(A) A^-T. If a matrix is singular, it is g times the
 * cofactor matrix det(U V^T) U diag(q) V^T, where q[i] is the product of all
 * singular values except the i-th. */
TN__GRADIENT(tn__grad_linalg_det)
{
    tn_tensor *a = tn__node_input(node, 0), *det = tn__node_output(node, 0);
    tn_tensor *part[3];
    if (!a || !det)
        return tn_error_code();
    bool regular =
        a->numel == 0 || tn_item(tn_min(tn_abs(tn_detach(det)))) > 0;
    if (regular) {
        tn_tensor *inverse = tn_linalg_inv(a);
        return set_result(
            out, tn_mul(over_matrices(tn_mul(g[0], det)), transposed(inverse)));
    }
    if (svd_of_input(node, part) < 0)
        return tn_error_code();
    tn_tensor *sign = tn_linalg_det(tn_matmul(part[0], part[2]));
    tn_tensor *inner = tn_mul(part[0], tn_unsqueeze(
                                           products_of_others(part[1]), -2));
    return set_result(out, tn_mul(over_matrices(tn_mul(g[0], sign)),
                                  tn_matmul(inner, part[2])));
}

TN__GRADIENT(tn__grad_linalg_slogdet)
{
    tn_tensor *a = tn__node_input(node, 0);
    if (!g[1]) /* only the sign is used, whose gradient is 0 */
        return TN_OK;
    tn_tensor *inverse = a ? tn_linalg_inv(a) : NULL;
    return set_result(
        out, inverse ? tn_mul(over_matrices(g[1]), transposed(inverse)) : NULL);
}

/* ---- exponential -------------------------------------------------------- */

/* The gradient is the upper right block of exp([[A^T, G], [0, A^T]]), where G
 * is the gradient of the result: Najfeld and Havel, "Derivatives of the matrix
 * exponential and their computation" (1995). */
TN__GRADIENT(tn__grad_linalg_matrix_exp)
{
    tn_tensor *a = transposed(tn__node_input(node, 0));
    if (!a)
        return tn_error_code();
    if (a->numel == 0)
        return set_result(out, g[0]);
    int64_t n = size_from_end(a, 1);
    tn_tensor *zero = tn_zeros_like(a);
    tn_tensor *upper = tn_cat(((tn_tensor *[]){a, g[0]}), 2, -1);
    tn_tensor *lower = zero ? tn_cat(((tn_tensor *[]){zero, a}), 2, -1) : NULL;
    if (!upper || !lower)
        return tn_error_code();
    tn_tensor *e =
        tn_linalg_matrix_exp(tn_cat(((tn_tensor *[]){upper, lower}), 2, -2));
    return set_result(out,
                      e ? tn_narrow(tn_narrow(e, -2, 0, n), -1, n, n) : NULL);
}
