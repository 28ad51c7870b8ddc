/* eigen.c: the `host` rows of eigenvalues and singular values. */
#include <base/memory.h>
#include <ops/job.h>

/* ---- eigenvalues of symmetric matrices --------------------------------------- */

static tn_status eigh(tn__call *call, bool vectors)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_EIGH_A);
    const char *uplo = call->value[TN__ARG_LINALG_EIGH_UPLO].of.string;
    const char *job_text = vectors ? "V" : "N";
    if (strlen(uplo) != 1 || !strchr("LlUu", uplo[0]))
        return tn__fail(TN_ERR_ARGUMENT, "%s: UPLO \"%s\" is neither \"L\" nor "
                        "\"U\"", call->op->name, uplo);
    tn__job j;
    tn_status status =
        tn__job_begin(call, &j, TN__ARG_LINALG_EIGH_A, TN__STAGE);
    if (status >= 0)
        status = tn__job_square(&j, x, "A");
    int n = j.a.rows, room = -1, ints = -1, asked_ints = 0;
    if (status >= 0)
        status = tn__stage_new(&j.b, &j.a, n, 1);
    if (status >= 0 && n && j.a.batch) {
        double asked[2] = {0};
        j.lapack->syevd[j.a.single](job_text, uplo, &n, NULL, &n, NULL, asked,
                                    &room, &asked_ints, &ints, &j.info[0], 1,
                                    1);
        room = tn__lapack_room(asked, j.a.single);
        ints = asked_ints > 1 ? asked_ints : 1;
        status = tn__job_room(&j.work, &j, room);
        if (status >= 0)
            status = tn__job_ints(&j.iwork, ints);
    }
    for (int64_t k = 0; k < j.a.batch && status >= 0 && n; k++)
        j.lapack->syevd[j.a.single](job_text, uplo, &n, tn__staged_at(&j.a, k),
                                    &n, tn__staged_at(&j.b, k), j.work, &room,
                                    j.iwork, &ints, &j.info[k], 1, 1);
    if (status >= 0)
        status = tn__job_refuse(&j, "has eigenvalues that do not converge");
    if (status >= 0)
        status = tn__give(call, tn__unstage(&j.b, true));
    if (status >= 0 && vectors)
        status = tn__job_give(call, &j.a);
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

/* ---- singular values ----------------------------------------------------------- */

/* Is there anything that is not a finite number? LAPACK may not come back then. */
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

/* u and vt with `columns` of the one and `rows` of the other. */
static tn_status svd_all(tn__job *j, const char *text, tn__staged *s,
                         tn__staged *u, tn__staged *vt)
{
    int m = j->a.rows, n = j->a.columns, k = tn__staged_least(&j->a), room = -1;
    int ldvt = vt->rows ? vt->rows : 1;
    bool single = j->a.single;
    double asked[2] = {0};
    tn_status status = tn__job_ints(&j->iwork, 8 * (int64_t)k);
    if (status < 0 || k == 0 || j->a.batch == 0)
        return status;
    j->lapack->gesdd[single](text, &m, &n, NULL, &m, NULL, NULL, &m, NULL,
                             &ldvt, asked, &room, j->iwork, &j->info[0], 1);
    room = tn__lapack_room(asked, single);
    status = tn__job_room(&j->work, j, room);
    for (int64_t i = 0; i < j->a.batch && status >= 0; i++)
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
    char text[TN__SHAPE_TEXT];
    tn_status status = tn__job_begin(call, &j, TN__ARG_LINALG_SVD_A, TN__STAGE);
    int m = j.a.rows, n = j.a.columns, k = tn__staged_least(&j.a);
    if (status >= 0 && !is_finite(&j.a))
        status = tn__fail(TN_ERR_ARGUMENT, "%s: A %s holds NaN or infinities",
                          j.name, tn__shape_text(text, x->ndim, x->shape));
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
