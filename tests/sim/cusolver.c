/* cusolver.c: a libcusolver.so.12 for the simulated driver, with the functions
 * that backends/cuda calls. OpenBLAS's LAPACK computes them when the stream
 * runs, in the given workspace. Memory accesses are checked as for a kernel. */
#include <stdio.h>

#include "../../backends/cuda/cusolver.h"
#include "library.h"

#define DECLARE(field, symbol, parameters)                                    \
    EXPORT tn_solver_status symbol parameters;
TN_SOLVER_MAP(DECLARE)
#undef DECLARE
#define DECLARE(field, before, behind, parameters)                            \
    EXPORT tn_solver_status before##D##behind parameters;                     \
    EXPORT tn_solver_status before##S##behind parameters;
TN_SOLVER_TYPED_MAP(DECLARE)
#undef DECLARE

struct cusolverDnContext { tn_cu_stream stream; };
struct cublasContext { tn_cu_stream stream; };
struct syevjInfo { int unread; };

/* ---- running a LAPACK routine, when its stream runs ---------------------- */

/* An argument of a LAPACK routine, passed by address: a letter, an integer, or
 * device memory. */
typedef struct value {
    char letter;
    int64_t number; /* a 32-bit integer is its lower half */
    const void *at;
    size_t count; /* number of elements; 0: the argument is not memory */
    int how, bytes; /* how: SIM_READ, ...; bytes: element size, 0: that of the
                     * routine's type */
} value;

/* A call of a routine. Entries of v[] after the routine's own arguments are
 * further memory that it uses. */
typedef struct task {
    char name[8];
    int single;
    value v[16];
} task;

/* All Fortran arguments are addresses, so any routine can be called with 15 of
 * them; it reads as many as it has parameters. */
#define FIVE void *, void *, void *, void *, void *
typedef void routine(FIVE, FIVE, FIVE);

static tn_cu_result go(void *context, const sim_actor *actor)
{
    task *t = context;
    void *p[16];
    char name[16];
    routine *run;
    tn_cu_result error = 0;
    for (int i = 0; i < 16 && !error; i++) {
        value *v = &t->v[i];
        int bytes = v->bytes ? v->bytes : t->single ? 4 : 8;
        p[i] = v->count    ? driver.reach(actor, v->how, "cuSOLVER's operand",
                                          (uintptr_t)v->at,
                                          v->count * (size_t)bytes, &error)
               : v->letter ? (void *)&v->letter
                           : &v->number;
    }
    snprintf(name, sizeof name, "%c%s_", t->single ? 's' : 'd', t->name);
    if (!error && find(blas, name, &run))
        run(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10],
            p[11], p[12], p[13], p[14]);
    return error;
}

static tn_solver_status give(tn_cu_stream stream, task t)
{
    /* The status 6 is EXECUTION_FAILED. */
    return driver.call(stream, go, &t, sizeof t) ? 6 : 0;
}

/* ---- functions of the library -------------------------------------------- */

#define HANDLES_OF(type, create, destroy, set)                                \
    HANDLES(tn_solver_status, type, create, destroy)                          \
    tn_solver_status set(type h, tn_cu_stream s) { return h->stream = s, 0; }
HANDLES_OF(tn_solver_handle, cusolverDnCreate, cusolverDnDestroy,
           cusolverDnSetStream)
HANDLES_OF(tn_blas_handle, cublasCreate_v2, cublasDestroy_v2,
           cublasSetStream_v2)
HANDLES(tn_solver_status, tn_solver_jacobi, cusolverDnCreateSyevjInfo,
        cusolverDnDestroySyevjInfo)

/* Defines the functions for double (D) and float (S). */
#define TYPED(before, behind, parameters, ...)                                \
    tn_solver_status before##D##behind parameters                             \
    { enum { single }; __VA_ARGS__ }                                          \
    tn_solver_status before##S##behind parameters                             \
    { enum { single = 1 }; __VA_ARGS__ }
#define S tn_solver_handle h
#define ROOM(elements) (void)h, (void)single, *room = (elements); return 0;
#define ROOM_OF_TWO(name, elements)                                           \
    TYPED(cusolverDn, name##_bufferSize,                                      \
          (S, int m, int n, void *a, int ld, int *room),                      \
          (void)m, (void)n, (void)a, (void)ld; ROOM(elements))
ROOM_OF_TWO(potrf, n)
ROOM_OF_TWO(getrf, m)
ROOM_OF_TWO(geqrf, 32 * n)
TYPED(cusolverDn, orgqr_bufferSize, (S, int m, int n, int k, const void *a,
                                     int ld, const void *tau, int *room),
      (void)m, (void)k, (void)a, (void)ld, (void)tau; ROOM(32 * n))
/* Returns the size of syevd's workspace in elements. syevd also needs 3 + 5 n
 * integers. */
#define SYEVD(n) (1 + 6 * (n) + 2 * (n) * (n))
TYPED(cusolverDn, syevj_bufferSize, (S, int v, int u, int n, const void *a,
                                     int ld, const void *w, int *room,
                                     tn_solver_jacobi sweeps),
      (void)v, (void)u, (void)a, (void)ld, (void)w;
      if (!sweeps) return 3; /* the status INVALID_VALUE */
      ROOM(SYEVD(n) + 3 + 5 * n))
TYPED(cusolverDn, gesvd_bufferSize, (S, int m, int n, int *room),
      ROOM(5 * (m + n)))

#define LETTER(c) {c, 0, NULL, 0, 0, 0}
#define UPLO(u) LETTER(u == TN_SOLVER_UPPER ? 'U' : 'L')
#define NUMBER(n) {0, n, NULL, 0, 0, 0}
#define LIST(x, n, how) {0, 0, x, (size_t)(n), how, 0}
#define INTS(x, n, how) {0, 0, x, (size_t)(n), how, 4}
#define MATRIX(x, m, n, ld, how)                                              \
    LIST(x, (m) && (n) ? ((n) - 1) * (ld) + (m) : 0, how)
#define INFO INTS(info, 1, SIM_WRITE)
#define WORK LIST(work, room, SIM_WRITE)
#define CALL(name, ...)                                                       \
    return give(h->stream, (task){name, single, {__VA_ARGS__}});
TYPED(cusolverDn, potrf, (S, int u, int n, void *a, int ld, void *work,
                          int room, int *info),
      CALL("potrf", UPLO(u), NUMBER(n), MATRIX(a, n, n, ld, SIM_READ),
           NUMBER(ld), INFO, MATRIX(a, n, n, ld, SIM_WRITE), WORK))
TYPED(cusolverDn, getrf, (S, int m, int n, void *a, int ld, void *work,
                          int *pivots, int *info),
      CALL("getrf", NUMBER(m), NUMBER(n), MATRIX(a, m, n, ld, SIM_READ),
           NUMBER(ld), INTS(pivots, m < n ? m : n, SIM_WRITE), INFO,
           MATRIX(a, m, n, ld, SIM_WRITE), LIST(work, m, SIM_WRITE)))
TYPED(cusolverDn, getrs, (S, int turn, int n, int sides, const void *a, int ld,
                          const int *pivots, void *b, int ldb, int *info),
      CALL("getrs", LETTER(turn ? 'T' : 'N'), NUMBER(n), NUMBER(sides),
           MATRIX(a, n, n, ld, SIM_READ), NUMBER(ld),
           INTS(pivots, n, SIM_READ), MATRIX(b, n, sides, ldb, SIM_READ),
           NUMBER(ldb), INFO, MATRIX(b, n, sides, ldb, SIM_WRITE)))
TYPED(cusolverDn, geqrf, (S, int m, int n, void *a, int ld, void *tau,
                          void *work, int room, int *info),
      CALL("geqrf", NUMBER(m), NUMBER(n), MATRIX(a, m, n, ld, SIM_READ),
           NUMBER(ld), LIST(tau, m < n ? m : n, SIM_WRITE), WORK, NUMBER(room),
           INFO, MATRIX(a, m, n, ld, SIM_WRITE)))
TYPED(cusolverDn, orgqr, (S, int m, int n, int k, void *a, int ld,
                          const void *tau, void *work, int room, int *info),
      CALL("orgqr", NUMBER(m), NUMBER(n), NUMBER(k),
           MATRIX(a, m, k, ld, SIM_READ), NUMBER(ld), LIST(tau, k, SIM_READ),
           WORK, NUMBER(room), INFO, MATRIX(a, m, n, ld, SIM_WRITE)))
TYPED(cusolverDn, syevj, (S, int v, int u, int n, void *a, int ld, void *w,
                          void *work, int room, int *info,
                          tn_solver_jacobi sweeps),
      if (!sweeps) return 3;
      char *ints = (char *)work + SYEVD(n) * (single ? 4 : 8);
      CALL("syevd", LETTER(v ? 'V' : 'N'), UPLO(u), NUMBER(n),
           MATRIX(a, n, n, ld, SIM_READ), NUMBER(ld), LIST(w, n, SIM_WRITE),
           WORK, NUMBER(room - 3 - 5 * n), INTS(ints, 3 + 5 * n, SIM_WRITE),
           NUMBER(3 + 5 * n), INFO, MATRIX(a, n, n, ld, SIM_WRITE)))
TYPED(cusolverDn, gesvd, (S, signed char job, signed char jobvt, int m, int n,
                          void *a, int ld, void *s, void *u, int ldu, void *vt,
                          int ldvt, void *work, int room, void *z, int *info),
      const int columns = job == 'A' ? m : job == 'S' ? n : 0;
      if (m < n || job != jobvt || !z) return 3; /* the status INVALID_VALUE */
      CALL("gesvd", LETTER((char)job), LETTER((char)job), NUMBER(m), NUMBER(n),
           MATRIX(a, m, n, ld, SIM_READ), NUMBER(ld), LIST(s, n, SIM_WRITE),
           MATRIX(u, m, columns, ldu, SIM_WRITE), NUMBER(ldu),
           MATRIX(vt, n, columns ? n : 0, ldvt, SIM_WRITE), NUMBER(ldvt), WORK,
           NUMBER(room), INFO, MATRIX(a, m, n, ld, SIM_WRITE)))
TYPED(cublas, trsm_v2, (tn_blas_handle h, int side, int u, int turn, int unit,
                        int m, int n, const void *alpha, const void *a, int ld,
                        void *b, int ldb),
      const int64_t one = single ? 0x3f800000 : 0x3ff0000000000000;
      const int k = alpha && side ? n : m;
      CALL("trsm", LETTER(side ? 'R' : 'L'), UPLO(u), LETTER(turn ? 'T' : 'N'),
           LETTER(unit ? 'U' : 'N'), NUMBER(m), NUMBER(n), NUMBER(one),
           MATRIX(a, k, k, ld, SIM_READ), NUMBER(ld),
           MATRIX(b, m, n, ldb, SIM_READ), NUMBER(ldb),
           MATRIX(b, m, n, ldb, SIM_WRITE)))
