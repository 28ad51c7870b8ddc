/* cuda_factor.c: the extension "lapack": computes Cholesky, LU, QR, eigh, SVD
 * and linear systems by cuSOLVER. The matrices of a batch are computed one
 * after the other. All calls run asynchronously on the queue's stream. The
 * status of each matrix (LAPACK's info) is written to an int on the device,
 * which the core reads when it needs it.
 *
 * Eigenvalues are computed by the Jacobi method (syevj). Divide and conquer
 * (syevd of CUDA 13.0, on an H100) gives eigenvectors that are not orthogonal
 * where eigenvalues are equal, without an error: off by 0.12 for a 17 x 17
 * matrix of ones in float64 (docs/gpu.md).
 *
 * The device owns cuSOLVER's handle, which is created at the first
 * factorisation. A lock of the device is held while the handle is used, because
 * queues share it. */
#include <string.h>

#include "cuda.h"
#include "cusolver.h"

/* ---- the library --------------------------------------------------------- */

static tn_status fits(tn_plugin_device *device)
{
    const char *why = tn__cuda_open(TN_CUDA_SOLVER);
    if (why)
        return tn__host->fail(TN_ERR_UNSUPPORTED, "%s", why);
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_check(device, "cuCtxSetCurrent", entered.error);
    pthread_mutex_lock(&device->build_lock);
    if (!device->solver && tn__solver.create(&device->solver)) {
        device->solver = NULL;
        why = "cusolverDnCreate failed; the driver may be older than the "
              "library";
    }
    pthread_mutex_unlock(&device->build_lock);
    return why ? tn__host->fail(TN_ERR_UNSUPPORTED, "%s", why) : TN_OK;
}

void tn__cuda_factor_close(tn_plugin_device *device)
{
    if (device->blas)
        tn__solver.blas_destroy(device->blas);
    if (device->jacobi)
        tn__solver.jacobi_destroy(device->jacobi);
    if (device->solver)
        tn__solver.destroy(device->solver);
}

/* ---- a batch ------------------------------------------------------------- */

/* The factorisation of a batch. The queue's scratch memory has three parts: the
 * workspace of cuSOLVER's routine (lwork elements), then `extra` (the scalar
 * factors tau of QR, and results that are not needed), then unused_info. */
typedef struct work {
    tn_queue *queue;
    const tn_lapack_args *args;
    tn_solver_handle solver;
    tn_blas_handle blas;
    tn_solver_jacobi jacobi;
    int m, n, nrhs, least, lda, ldb;
    int triangle, transpose;
    bool single, vectors;
    int lwork;             /* number of elements of the routine's workspace */
    void *scratch, *extra; /* addresses on the device */
    int *unused_info;
} work;

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Returns the device address of matrix k of x. */
static void *matrix_at(const tn_strided *x, int64_t k)
{
    return tn__cuda_address(x, k * x->stride[0]);
}

static int leading_dim(const tn_strided *x)
{
    return x->buffer ? (int)x->stride[1] : 1;
}

/* Sets w->lwork to the number of workspace elements that the routines need. */
static tn_solver_status workspace_query(work *w)
{
    const tn_lapack_args *args = w->args;
    void *a = matrix_at(&args->a, 0);
    int more = 0;
    tn_solver_status e = 0;
    switch (args->kind) {
    case TN_LAPACK_CHOLESKY:
        return tn__solver.potrf_workspace[w->single](
            w->solver, w->triangle, w->n, a, w->lda, &w->lwork);
    case TN_LAPACK_LU:
        return tn__solver.getrf_workspace[w->single](w->solver, w->m, w->n, a,
                                                     w->lda, &w->lwork);
    case TN_LAPACK_QR:
        e = tn__solver.geqrf_workspace[w->single](w->solver, w->m, w->n, a,
                                                  w->lda, &w->lwork);
        if (!e && w->nrhs)
            e = tn__solver.orgqr_workspace[w->single](
                w->solver, w->m, w->nrhs, w->least, matrix_at(&args->b, 0),
                w->ldb, a, &more);
        w->lwork = more > w->lwork ? more : w->lwork;
        return e;
    case TN_LAPACK_EIGH:
        return tn__solver.syevj_workspace[w->single](
            w->solver, w->vectors, w->triangle, w->n, a, w->lda,
            matrix_at(&args->values, 0), &w->lwork, w->jacobi);
    case TN_LAPACK_SVD:
        return tn__solver.gesvd_workspace[w->single](w->solver, w->m, w->n,
                                                     &w->lwork);
    default:
        return 0;
    }
}

/* Computes a QR factorisation. The first routine writes R and, below it, the
 * Householder reflectors. The second routine computes the first columns of Q
 * from the reflectors. */
static tn_solver_status qr(const work *w, void *a, void *b, int *info)
{
    tn_solver_status e = tn__solver.geqrf[w->single](
        w->solver, w->m, w->n, a, w->lda, w->extra, w->scratch, w->lwork, info);
    if (e || !w->nrhs)
        return e;
    const size_t bytes = w->single ? 4 : 8;
    const tn_cu_rectangle columns = {
        .src_type = TN_CU_DEVICE, .src_device = (uintptr_t)a,
        .src_pitch = (size_t)w->lda * bytes,
        .dst_type = TN_CU_DEVICE, .dst_device = (uintptr_t)b,
        .dst_pitch = (size_t)w->ldb * bytes,
        .width = (size_t)w->m * bytes, .height = (size_t)w->least};
    if (tn__cu.copy_rectangle(&columns, w->queue->stream))
        return -1;
    return tn__solver.orgqr[w->single](w->solver, w->m, w->nrhs, w->least, b,
                                       w->ldb, w->extra, w->scratch, w->lwork,
                                       w->unused_info);
}

/* Converts a status of cuBLAS to a status of cuSOLVER, whose codes differ. */
static tn_solver_status from_blas(tn_solver_status e)
{
    return e == TN_BLAS_ALLOC_FAILED ? TN_SOLVER_ALLOC_FAILED : e;
}

static tn_solver_status triangle(const work *w, const void *a, void *b)
{
    static const double one_double = 1;
    static const float one_float = 1;
    return from_blas(tn__solver.trsm[w->single](
        w->blas, TN_SOLVER_RIGHT, w->triangle, w->transpose,
        w->args->flags & TN_LAPACK_UNIT ? TN_SOLVER_UNIT
                                        : TN_SOLVER_ANY_DIAGONAL,
        w->nrhs, w->n, w->single ? (const void *)&one_float : &one_double, a,
        w->lda, b, w->ldb));
}

static tn_solver_status factor_matrix(const work *w, int64_t k)
{
    const tn_lapack_args *args = w->args;
    void *a = matrix_at(&args->a, k);
    void *b = args->b.buffer ? matrix_at(&args->b, k) : NULL;
    int *info = args->info.buffer ? matrix_at(&args->info, k) : NULL;
    const signed char job = !w->vectors ? 'N' : w->nrhs == w->m ? 'A' : 'S';
    switch (args->kind) {
    case TN_LAPACK_CHOLESKY:
        return tn__solver.potrf[w->single](w->solver, w->triangle, w->n, a,
                                           w->lda, w->scratch, w->lwork, info);
    case TN_LAPACK_LU:
        return tn__solver.getrf[w->single](w->solver, w->m, w->n, a, w->lda,
                                           w->scratch,
                                           matrix_at(&args->pivots, k), info);
    case TN_LAPACK_SOLVE:
        return tn__solver.getrs[w->single](
            w->solver, w->transpose, w->n, w->nrhs, a, w->lda,
            matrix_at(&args->pivots, k), b, w->ldb, w->unused_info);
    case TN_LAPACK_TRIANGLE:
        return triangle(w, a, b);
    case TN_LAPACK_QR:
        return qr(w, a, b, info);
    case TN_LAPACK_EIGH:
        return tn__solver.syevj[w->single](
            w->solver, w->vectors, w->triangle, w->n, a, w->lda,
            matrix_at(&args->values, k), w->scratch, w->lwork, info, w->jacobi);
    default: /* TN_LAPACK_SVD */
        return tn__solver.gesvd[w->single](
            w->solver, job, job, w->m, w->n, a, w->lda,
            matrix_at(&args->values, k), b, w->ldb,
            w->vectors ? matrix_at(&args->c, k) : NULL,
            w->vectors ? leading_dim(&args->c) : w->n, w->scratch, w->lwork,
            w->extra, info);
    }
}

static work work_begin(tn_queue *queue, const tn_lapack_args *args)
{
    const uint32_t flags = args->flags;
    work w = {.queue = queue,
              .args = args,
              .m = (int)args->m,
              .n = (int)args->n,
              .nrhs = (int)args->sides,
              .least = least(args->m, args->n),
              .lda = leading_dim(&args->a),
              .ldb = leading_dim(&args->b),
              .triangle =
                  flags & TN_LAPACK_UPPER ? TN_SOLVER_UPPER : TN_SOLVER_LOWER,
              .transpose = flags & TN_LAPACK_TURNED ? TN_SOLVER_TRANSPOSED
                                                    : TN_SOLVER_PLAIN,
              .single = args->a.dtype == TN_F32,
              .vectors = flags & TN_LAPACK_VECTORS};
    if (args->kind == TN_LAPACK_SVD && !w.vectors)
        w.ldb = w.m; /* an SVD without vectors does not use b */
    return w;
}

/* Creates the handles, sets their stream and allocates scratch memory. */
static tn_solver_status work_prepare(work *w)
{
    tn_plugin_device *device = w->queue->device;
    tn_solver_status e = 0;
    const bool blas = w->args->kind == TN_LAPACK_TRIANGLE;
    if (blas && !device->blas)
        e = from_blas(tn__solver.blas_create(&device->blas));
    if (w->args->kind == TN_LAPACK_EIGH && !device->jacobi)
        e = tn__solver.jacobi_create(&device->jacobi);
    w->solver = device->solver;
    w->blas = device->blas;
    w->jacobi = device->jacobi;
    if (!e)
        e = blas ? from_blas(
                       tn__solver.blas_stream_set(w->blas, w->queue->stream))
                 : tn__solver.stream_set(w->solver, w->queue->stream);
    if (!e)
        e = workspace_query(w);
    if (e)
        return e;
    const uint64_t bytes = w->single ? 4 : 8, most = (uint64_t)w->lwork;
    const uint64_t behind = (most * bytes + 255) / 256 * 256;
    const uint64_t more = ((uint64_t)w->least * bytes + 15) / 16 * 16;
    if (tn__cuda_scratch_ready(w->queue, behind + more + sizeof(int)))
        return TN_SOLVER_ALLOC_FAILED;
    w->scratch = (void *)(uintptr_t)w->queue->scratch;
    w->extra = (void *)(uintptr_t)(w->queue->scratch + behind);
    w->unused_info = (void *)(uintptr_t)(w->queue->scratch + behind + more);
    return 0;
}

static tn_status run(tn_queue *queue, const tn_lapack_args *args)
{
    tn_plugin_device *device = queue->device;
    if (!tn_lapack_is_known(args))
        return tn__refuse_unknown("lapack");
    work w = work_begin(queue, args);
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_check(device, "cuCtxSetCurrent", entered.error);
    pthread_mutex_lock(&device->build_lock);
    tn_solver_status e = work_prepare(&w);
    for (int64_t k = 0; k < args->batch && !e; k++)
        e = factor_matrix(&w, k);
    pthread_mutex_unlock(&device->build_lock);
    if (!e)
        return tn__cuda_queue_submitted(queue, args->tag);
    return tn__host->fail(
        e == TN_SOLVER_ALLOC_FAILED ? TN_ERR_MEMORY : TN_ERR_INTERNAL,
        "%s: cuSOLVER failed with status %d", device->listed->info.name, e);
}

const tn_lapack_extension tn__cuda_lapack = {
    .size = sizeof tn__cuda_lapack, .fits = fits, .run = run};
