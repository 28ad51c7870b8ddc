/* cuda_factor.c: the extension "lapack" by cuSOLVER, a matrix of the batch after the
 * other. All calls are the stream's; what went wrong with a matrix is a number
 * on the device, which the core reads when it has to know.
 *
 * Eigenvalues are found by Jacobi's sweeps (syevj). The faster division (syevd of
 * CUDA 13.0 on an H100) gives eigenvectors that are not at right angles where
 * eigenvalues are equal, and says nothing: off by 0.12 for ones of 17 x 17 in
 * float64 (docs/gpu.md).
 *
 * cuSOLVER's handle is the device's, made at its first factorisation, and used
 * under its lock: the core has one queue most often. */
#include <string.h>

#include "cuda.h"
#include "cusolver.h"

/* ---- the library -------------------------------------------------------- */

static tn_status fits(tn_plugin_device *device)
{
    const char *why = tn__cuda_open(TN_CUDA_SOLVER);
    if (why)
        return tn__cuda_host->fail(TN_ERR_UNSUPPORTED, "%s", why);
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_told(device, "cuCtxSetCurrent", entered.error);
    pthread_mutex_lock(&device->build_lock);
    if (!device->solver && tn__solver.create(&device->solver)) {
        device->solver = NULL;
        why = "cusolverDnCreate fails: is the driver older than the library?";
    }
    pthread_mutex_unlock(&device->build_lock);
    return why ? tn__cuda_host->fail(TN_ERR_UNSUPPORTED, "%s", why) : TN_OK;
}

void tn__cuda_factor_close(tn_plugin_device *device)
{
    if (device->blas)
        tn__solver.blas_destroy(device->blas);
    if (device->sweeps)
        tn__solver.sweeps_destroy(device->sweeps);
    if (device->solver)
        tn__solver.destroy(device->solver);
}

/* ---- a batch ------------------------------------------------------------ */

/* Scratch memory: what a routine asks for, then these many elements for what
 * stands beside a matrix (tau, and numbers that nobody reads). */
typedef struct work {
    tn_queue *queue;
    const tn_lapack_args *args;
    tn_solver_handle solver;
    tn_blas_handle blas;
    tn_solver_sweeps sweeps;
    int m, n, sides, least, lda, ldb;
    int triangle, turn;
    bool single, vectors;
    int room;              /* elements */
    void *scratch, *beside; /* of the device */
    int *unread;
} work;

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Where matrix k of x begins. */
static void *at(const tn_strided *x, int64_t k)
{
    return tn__cuda_place(x, k * x->stride[0]);
}

static int line(const tn_strided *x)
{
    return x->buffer ? (int)x->stride[1] : 1;
}

/* How much room the routines want. */
static tn_solver_status ask(work *w)
{
    const tn_lapack_args *args = w->args;
    void *a = at(&args->a, 0);
    int more = 0;
    tn_solver_status e = 0;
    switch (args->kind) {
    case TN_LAPACK_CHOLESKY:
        return tn__solver.potrf_room[w->single](w->solver, w->triangle, w->n, a,
                                                w->lda, &w->room);
    case TN_LAPACK_LU:
        return tn__solver.getrf_room[w->single](w->solver, w->m, w->n, a,
                                                w->lda, &w->room);
    case TN_LAPACK_QR:
        e = tn__solver.geqrf_room[w->single](w->solver, w->m, w->n, a, w->lda,
                                             &w->room);
        if (!e && w->sides)
            e = tn__solver.orgqr_room[w->single](w->solver, w->m, w->sides,
                                                 w->least, at(&args->b, 0),
                                                 w->ldb, a, &more);
        w->room = more > w->room ? more : w->room;
        return e;
    case TN_LAPACK_EIGH:
        return tn__solver.syevj_room[w->single](
            w->solver, w->vectors, w->triangle, w->n, a, w->lda,
            at(&args->values, 0), &w->room, w->sweeps);
    case TN_LAPACK_SVD:
        return tn__solver.gesvd_room[w->single](w->solver, w->m, w->n,
                                                &w->room);
    default:
        return 0;
    }
}

/* R, and the first columns of Q: from the reflections that stand below R. */
static tn_solver_status qr(const work *w, void *a, void *b, int *info)
{
    tn_solver_status e = tn__solver.geqrf[w->single](
        w->solver, w->m, w->n, a, w->lda, w->beside, w->scratch, w->room, info);
    if (e || !w->sides)
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
    return tn__solver.orgqr[w->single](w->solver, w->m, w->sides, w->least, b,
                                       w->ldb, w->beside, w->scratch, w->room,
                                       w->unread);
}

/* cuBLAS has numbers of its own. */
static tn_solver_status of_blas(tn_solver_status e)
{
    return e == TN_BLAS_ALLOC_FAILED ? TN_SOLVER_ALLOC_FAILED : e;
}

static tn_solver_status triangle(const work *w, const void *a, void *b)
{
    static const double one = 1;
    static const float one_single = 1;
    return of_blas(tn__solver.trsm[w->single](
        w->blas, TN_SOLVER_RIGHT, w->triangle, w->turn,
        w->args->flags & TN_LAPACK_UNIT ? TN_SOLVER_UNIT
                                        : TN_SOLVER_ANY_DIAGONAL,
        w->sides, w->n, w->single ? (const void *)&one_single : &one, a, w->lda,
        b, w->ldb));
}

static tn_solver_status one(const work *w, int64_t k)
{
    const tn_lapack_args *args = w->args;
    void *a = at(&args->a, k);
    void *b = args->b.buffer ? at(&args->b, k) : NULL;
    int *info = args->info.buffer ? at(&args->info, k) : NULL;
    const signed char job = !w->vectors ? 'N' : w->sides == w->m ? 'A' : 'S';
    switch (args->kind) {
    case TN_LAPACK_CHOLESKY:
        return tn__solver.potrf[w->single](w->solver, w->triangle, w->n, a,
                                           w->lda, w->scratch, w->room, info);
    case TN_LAPACK_LU:
        return tn__solver.getrf[w->single](w->solver, w->m, w->n, a, w->lda,
                                           w->scratch, at(&args->pivots, k),
                                           info);
    case TN_LAPACK_SOLVE:
        return tn__solver.getrs[w->single](w->solver, w->turn, w->n, w->sides,
                                           a, w->lda, at(&args->pivots, k), b,
                                           w->ldb, w->unread);
    case TN_LAPACK_TRIANGLE:
        return triangle(w, a, b);
    case TN_LAPACK_QR:
        return qr(w, a, b, info);
    case TN_LAPACK_EIGH:
        return tn__solver.syevj[w->single](w->solver, w->vectors, w->triangle,
                                           w->n, a, w->lda,
                                           at(&args->values, k), w->scratch,
                                           w->room, info, w->sweeps);
    default: /* TN_LAPACK_SVD */
        return tn__solver.gesvd[w->single](
            w->solver, job, job, w->m, w->n, a, w->lda, at(&args->values, k),
            b, w->ldb, w->vectors ? at(&args->c, k) : NULL,
            w->vectors ? line(&args->c) : w->n, w->scratch, w->room, w->beside,
            info);
    }
}

static work begin(tn_queue *queue, const tn_lapack_args *args)
{
    const uint32_t flags = args->flags;
    work w = {.queue = queue, .args = args,
              .m = (int)args->m, .n = (int)args->n, .sides = (int)args->sides,
              .least = least(args->m, args->n),
              .lda = line(&args->a), .ldb = line(&args->b),
              .triangle = flags & TN_LAPACK_UPPER ? TN_SOLVER_UPPER
                                                  : TN_SOLVER_LOWER,
              .turn = flags & TN_LAPACK_TURNED ? TN_SOLVER_TURNED
                                               : TN_SOLVER_PLAIN,
              .single = args->a.dtype == TN_F32,
              .vectors = flags & TN_LAPACK_VECTORS};
    if (args->kind == TN_LAPACK_SVD && !w.vectors)
        w.ldb = w.m; /* of nothing */
    return w;
}

/* The handles are told the queue's stream; the room is there. */
static tn_solver_status ready(work *w)
{
    tn_plugin_device *device = w->queue->device;
    tn_solver_status e = 0;
    const bool blas = w->args->kind == TN_LAPACK_TRIANGLE;
    if (blas && !device->blas)
        e = of_blas(tn__solver.blas_create(&device->blas));
    if (w->args->kind == TN_LAPACK_EIGH && !device->sweeps)
        e = tn__solver.sweeps_create(&device->sweeps);
    w->solver = device->solver;
    w->blas = device->blas;
    w->sweeps = device->sweeps;
    if (!e)
        e = blas ? of_blas(tn__solver.blas_stream_set(w->blas,
                                                      w->queue->stream))
                 : tn__solver.stream_set(w->solver, w->queue->stream);
    if (!e)
        e = ask(w);
    if (e)
        return e;
    const uint64_t bytes = w->single ? 4 : 8, most = (uint64_t)w->room;
    const uint64_t behind = (most * bytes + 255) / 256 * 256;
    const uint64_t more = ((uint64_t)w->least * bytes + 15) / 16 * 16;
    if (tn__cuda_scratch(w->queue, behind + more + sizeof(int)))
        return TN_SOLVER_ALLOC_FAILED;
    w->scratch = (void *)(uintptr_t)w->queue->scratch;
    w->beside = (void *)(uintptr_t)(w->queue->scratch + behind);
    w->unread = (void *)(uintptr_t)(w->queue->scratch + behind + more);
    return 0;
}

static tn_status run(tn_queue *queue, const tn_lapack_args *args)
{
    tn_plugin_device *device = queue->device;
    if (!tn_lapack_is_known(args))
        return tn__cuda_unknown("lapack");
    work w = begin(queue, args);
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_told(device, "cuCtxSetCurrent", entered.error);
    pthread_mutex_lock(&device->build_lock);
    tn_solver_status e = ready(&w);
    for (int64_t k = 0; k < args->batch && !e; k++)
        e = one(&w, k);
    pthread_mutex_unlock(&device->build_lock);
    if (!e)
        return tn__cuda_queue_given(queue, args->tag);
    return tn__cuda_host->fail(e == TN_SOLVER_ALLOC_FAILED ? TN_ERR_MEMORY
                                                           : TN_ERR_INTERNAL,
                               "%s: cuSOLVER: status %d",
                               device->listed->info.name, e);
}

const tn_lapack_extension tn__cuda_lapack = {
    .size = sizeof tn__cuda_lapack, .fits = fits, .run = run};
