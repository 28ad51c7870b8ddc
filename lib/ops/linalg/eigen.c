/* eigen.c: eigenvalues of symmetric matrices and singular values (PyTorch's
 * linalg.eigh, eigvalsh, svd and svdvals) by LAPACK on the host. */
#include <base/memory.h>
#include <float.h>
#include <math.h>
#include <ops/linalg/job.h>

/* ---- eigenvalues of symmetric matrices ----------------------------------- */

/* Multiplies the lower triangle of matrix k of a by `by`. Returns the largest
 * absolute value of the result, or NaN if an element is NaN. */
static double scale(const tn__staged *a, int64_t k, double by)
{
    void *matrix = tn__staged_at(a, k);
    double most = 0;
    for (int j = 0; j < a->columns; j++)
        for (int i = j; i < a->rows; i++) {
            size_t at = (size_t)j * (size_t)a->rows + (size_t)i;
            float *single = (float *)matrix + at;
            double *wide = (double *)matrix + at;
            double x = by * (a->single ? (double)*single : *wide);
            most = isnan(x) || fabs(x) > most ? fabs(x) : most;
            if (by == 1)
                continue;
            if (a->single)
                *single = (float)x;
            else
                *wide = x;
        }
    return most;
}

/* Returns the factor by which a matrix whose largest absolute value is `most`
 * is scaled, so that squares neither overflow nor underflow. The bounds are
 * those of LAPACK's syevd. As in syevd, the factor is 0 for infinities, which
 * makes all values NaN. */
static double scale_for(double most, bool single)
{
    double low = sqrt(single ? FLT_MIN / FLT_EPSILON : DBL_MIN / DBL_EPSILON);
    if (most > 0 && most < low)
        return low / most;
    return most > 1 / low ? 1 / low / most : 1;
}

/* Allocates the workspace for LAPACK's sytrd and stedc. */
static tn_status eigh_workspace(tn__job *j, int *room, int *ints)
{
    int n = j->a.rows, ask = -1;
    double asked[2] = {0}, more[2] = {0};
    j->lapack->sytrd[j->a.single]("L", &n, NULL, &n, NULL, NULL, NULL, asked,
                                  &ask, j->info, 1);
    j->lapack->stedc[j->a.single]("I", &n, NULL, NULL, NULL, &n, more, &ask,
                                  ints, &ask, j->info, 1);
    int a = tn__workspace_size(asked, j->a.single);
    int b = tn__workspace_size(more, j->a.single);
    int64_t least = tn__reflect_workspace(n, n);
    *room = a > b ? a : b;
    tn_status status =
        tn__job_workspace(&j->work, j, *room > least ? *room : least);
    if (status >= 0)
        status = tn__job_workspace(&j->extra, j, 2 * (int64_t)n);
    return status < 0 ? status : tn__job_ints(&j->iwork, *ints);
}

/* Computes eigenvalues and eigenvectors by the steps of LAPACK's syevd, except
 * that the last step is tn__reflect: a = Q T Q^T, then the eigenvectors z of
 * the tridiagonal T, then Q z. */
static tn_status eigh_all(tn__job *j, tn__staged *z)
{
    int n = j->a.rows, room = 0, ints = 0;
    bool single = j->a.single;
    size_t element = j->a.element;
    tn_status status = eigh_workspace(j, &room, &ints);
    for (int64_t k = 0; k < j->matrices && status >= 0; k++) {
        char *a = tn__staged_at(&j->a, k), *v = tn__staged_at(z, k);
        char *w = tn__staged_at(&j->b, k), *beside = j->extra;
        char *tau = beside + (size_t)n * element;
        double by = scale_for(scale(&j->a, k, 1), single);
        if (by != 1)
            scale(&j->a, k, by);
        j->lapack->sytrd[single]("L", &n, a, &n, w, beside, tau, j->work,
                                 &room, &j->info[k], 1);
        j->lapack->stedc[single]("I", &n, w, beside, v, &n, j->work, &room,
                                 j->iwork, &ints, &j->info[k], 1);
        tn__reflect(j->lapack, single, n - 1, n - 1, a + element, n, tau, n,
                    v + element, n, false, j->work);
        for (int i = 0; i < n && by != 1; i++)
            if (single)
                ((float *)(void *)w)[i] /= (float)by;
            else
                ((double *)(void *)w)[i] /= by;
    }
    return status;
}

static tn_status eigvalsh_all(tn__job *j)
{
    int n = j->a.rows, room = -1, ints = -1, asked_ints = 0;
    double asked[2] = {0};
    j->lapack->syevd[j->a.single]("N", "L", &n, NULL, &n, NULL, asked, &room,
                                  &asked_ints, &ints, j->info, 1, 1);
    room = tn__workspace_size(asked, j->a.single);
    ints = asked_ints > 1 ? asked_ints : 1;
    tn_status status = tn__job_workspace(&j->work, j, room);
    if (status >= 0)
        status = tn__job_ints(&j->iwork, ints);
    for (int64_t k = 0; k < j->matrices && status >= 0; k++)
        j->lapack->syevd[j->a.single]("N", "L", &n, tn__staged_at(&j->a, k),
                                      &n, tn__staged_at(&j->b, k), j->work,
                                      &room, j->iwork, &ints, &j->info[k], 1,
                                      1);
    return status;
}

static tn_status eigh(tn__call *call, bool vectors)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_EIGH_A);
    const char *uplo = call->value[TN__ARG_LINALG_EIGH_UPLO].of.string;
    if (strlen(uplo) != 1 || !strchr("LlUu", uplo[0]))
        return tn__fail(TN_ERR_ARGUMENT, "%s: {UPLO} \"%s\" is neither \"L\" "
                        "nor \"U\"", call->op->name, uplo);
    /* The upper triangle of A is the lower triangle of A^T. */
    bool upper = strchr("Uu", uplo[0]) != NULL;
    tn__job j;
    tn__staged z = {0};
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LINALG_EIGH_A,
                      upper ? TN__STAGE_TRANSPOSED : TN__STAGE);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    int n = j.a.rows;
    if (status >= 0)
        status = tn__stage_new(&j.b, &j.a, n, 1);
    if (status >= 0 && vectors)
        status = tn__stage_new(&z, &j.a, n, n);
    if (status >= 0 && j.matrices)
        status = vectors ? eigh_all(&j, &z) : eigvalsh_all(&j);
    if (status >= 0)
        status = tn__job_refuse(&j, "has eigenvalues that do not converge");
    if (status >= 0)
        status = tn__give(call, tn__unstage(&j.b, true));
    if (status >= 0 && vectors)
        status = tn__job_give(call, &z);
    tn__staged_free(&z);
    tn__job_end(&j);
    return status;
}

tn_status tn__run_linalg_eigh(tn__call *call)
{
    return eigh(call, true);
}

tn_status tn__run_linalg_eigvalsh(tn__call *call)
{
    return eigh(call, false);
}

/* ---- singular values ----------------------------------------------------- */

/* Returns whether all elements are finite. LAPACK's SVD may never return if
 * they are not. */
static bool is_finite(const tn__staged *s)
{
    size_t count = (size_t)s->batch * (size_t)s->rows * (size_t)s->columns;
    for (size_t i = 0; i < count; i++) {
        double x = s->single ? (double)((const float *)(void *)s->data)[i]
                             : ((const double *)(void *)s->data)[i];
        if (x - x != 0)
            return false;
    }
    return true;
}

/* Computes the singular value decompositions of all matrices in j->a: the
 * values in s, the left vectors in u, and the right vectors in vt. */
static tn_status svd_all(tn__job *j, const char *text, tn__staged *s,
                         tn__staged *u, tn__staged *vt)
{
    int m = j->a.rows, n = j->a.columns, k = tn__staged_min(&j->a), room = -1;
    int ldvt = vt->rows ? vt->rows : 1;
    bool single = j->a.single;
    double asked[2] = {0};
    tn_status status = tn__job_ints(&j->iwork, 8 * (int64_t)k);
    if (status < 0 || !j->matrices)
        return status;
    j->lapack->gesdd[single](text, &m, &n, NULL, &m, NULL, NULL, &m, NULL,
                             &ldvt, asked, &room, j->iwork, &j->info[0], 1);
    room = tn__workspace_size(asked, single);
    status = tn__job_workspace(&j->work, j, room);
    for (int64_t i = 0; i < j->matrices && status >= 0; i++)
        j->lapack->gesdd[single](text, &m, &n, tn__staged_at(&j->a, i), &m,
                                 tn__staged_at(s, i), tn__staged_at(u, i), &m,
                                 tn__staged_at(vt, i), &ldvt, j->work, &room,
                                 j->iwork, &j->info[i], 1);
    return status < 0
               ? status
               : tn__job_refuse(j, "has singular values that do not converge");
}

static tn_status svd(tn__call *call, bool vectors, bool full)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_SVD_A);
    tn__job j;
    tn__staged s = {0}, u = {0}, vt = {0};
    tn_status status = tn__job_begin(call, &j, TN__ARG_LINALG_SVD_A, TN__STAGE);
    int m = j.a.rows, n = j.a.columns, k = tn__staged_min(&j.a);
    if (status >= 0 && !is_finite(&j.a))
        status = tn__lapack_refuse_nan(j.name, x);
    if (status >= 0)
        status = tn__stage_new(&s, &j.a, k, 1);
    if (status >= 0)
        status = tn__stage_new(&u, &j.a, m, !vectors ? 0 : full ? m : k);
    if (status >= 0)
        status = tn__stage_new(&vt, &j.a, !vectors ? 0 : full ? n : k, n);
    if (status >= 0) {
        tn__staged_eye(&u);
        tn__staged_eye(&vt);
        status = svd_all(&j, !vectors ? "N" : full ? "A" : "S", &s, &u, &vt);
    }
    if (status >= 0 && vectors)
        status = tn__job_give(call, &u);
    if (status >= 0)
        status = tn__give(call, tn__unstage(&s, true));
    if (status >= 0 && vectors)
        status = tn__job_give(call, &vt);
    tn__staged_free(&s);
    tn__staged_free(&u);
    tn__staged_free(&vt);
    tn__job_end(&j);
    return status;
}

tn_status tn__run_linalg_svd(tn__call *call)
{
    return svd(call, true,
               tn__call_int(call, TN__ARG_LINALG_SVD_FULL_MATRICES));
}

tn_status tn__run_linalg_svdvals(tn__call *call)
{
    return svd(call, false, false);
}
