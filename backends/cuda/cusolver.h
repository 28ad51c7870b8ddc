/* cusolver.h: declares the functions of cuSOLVER for dense matrices, and the
 * triangular solver of cuBLAS, a library that cuSOLVER is linked with.
 * cuda_driver.c opens the library at the first factorisation. The constants are
 * those of cusolverDn.h and cublas_api.h of CUDA 11 and later. Enumeration
 * types of NVIDIA are declared as int here. tests/cuda/declarations.c compares
 * all of them with the toolkit's headers. */
#ifndef TN_CUDA_CUSOLVER_H
#define TN_CUDA_CUSOLVER_H

#include "cuda_driver.h"

/* cusolverStatus_t and cublasStatus_t; 0 is success */
typedef int tn_solver_status;
typedef struct cusolverDnContext *tn_solver_handle;
typedef struct cublasContext *tn_blas_handle;
typedef struct syevjInfo *tn_solver_jacobi; /* parameters of the Jacobi method
                                             * for eigenvalues */

/* The values CUSOLVER_STATUS_ALLOC_FAILED and CUBLAS_STATUS_ALLOC_FAILED. */
enum { TN_SOLVER_ALLOC_FAILED = 2, TN_BLAS_ALLOC_FAILED = 3 };

/* Values of cublasFillMode_t, cublasOperation_t, cublasSideMode_t,
 * cublasDiagType_t and cusolverEigMode_t, two of each. */
enum { TN_SOLVER_LOWER = 0, TN_SOLVER_UPPER = 1, TN_SOLVER_PLAIN = 0,
       TN_SOLVER_TRANSPOSED = 1, TN_SOLVER_LEFT = 0, TN_SOLVER_RIGHT = 1,
       TN_SOLVER_ANY_DIAGONAL = 0, TN_SOLVER_UNIT = 1, TN_SOLVER_VALUES = 0,
       TN_SOLVER_VECTORS = 1 };

/* Functions of cuSOLVER and cuBLAS, each as X(name of the field, symbol,
 * parameters). */
#define TN_SOLVER_MAP(X)                                                      \
    X(create, cusolverDnCreate, (tn_solver_handle *handle))                   \
    X(destroy, cusolverDnDestroy, (tn_solver_handle handle))                  \
    X(stream_set, cusolverDnSetStream,                                        \
      (tn_solver_handle handle, tn_cu_stream stream))                         \
    X(jacobi_create, cusolverDnCreateSyevjInfo, (tn_solver_jacobi *jacobi))   \
    X(jacobi_destroy, cusolverDnDestroySyevjInfo, (tn_solver_jacobi jacobi))  \
    X(blas_create, cublasCreate_v2, (tn_blas_handle *handle))                 \
    X(blas_destroy, cublasDestroy_v2, (tn_blas_handle handle))                \
    X(blas_stream_set, cublasSetStream_v2,                                    \
      (tn_blas_handle handle, tn_cu_stream stream))

/* Functions that exist in two versions. Their symbols contain the letter D for
 * float64 or S for float32. Each is X(name of the field, symbol before the
 * letter, symbol after the letter, parameters). lwork is a number of float64 or
 * float32 elements. */
#define TN_SOLVER_TYPED_MAP(X)                                                \
    X(potrf_workspace, cusolverDn, potrf_bufferSize,                          \
      (tn_solver_handle handle, int triangle, int n, void *a, int lda,        \
       int *lwork))                                                           \
    X(potrf, cusolverDn, potrf,                                               \
      (tn_solver_handle handle, int triangle, int n, void *a, int lda,        \
       void *work, int lwork, int *info))                                     \
    X(getrf_workspace, cusolverDn, getrf_bufferSize,                          \
      (tn_solver_handle handle, int m, int n, void *a, int lda, int *lwork))  \
    X(getrf, cusolverDn, getrf,                                               \
      (tn_solver_handle handle, int m, int n, void *a, int lda, void *work,   \
       int *pivots, int *info))                                               \
    X(getrs, cusolverDn, getrs,                                               \
      (tn_solver_handle handle, int transpose, int n, int nrhs, const void *a,\
       int lda, const int *pivots, void *b, int ldb, int *info))              \
    X(geqrf_workspace, cusolverDn, geqrf_bufferSize,                          \
      (tn_solver_handle handle, int m, int n, void *a, int lda, int *lwork))  \
    X(geqrf, cusolverDn, geqrf,                                               \
      (tn_solver_handle handle, int m, int n, void *a, int lda, void *tau,    \
       void *work, int lwork, int *info))                                     \
    X(orgqr_workspace, cusolverDn, orgqr_bufferSize,                          \
      (tn_solver_handle handle, int m, int n, int k, const void *a, int lda,  \
       const void *tau, int *lwork))                                          \
    X(orgqr, cusolverDn, orgqr,                                               \
      (tn_solver_handle handle, int m, int n, int k, void *a, int lda,        \
       const void *tau, void *work, int lwork, int *info))                    \
    X(syevj_workspace, cusolverDn, syevj_bufferSize,                          \
      (tn_solver_handle handle, int vectors, int triangle, int n,             \
       const void *a, int lda, const void *values, int *lwork,                \
       tn_solver_jacobi jacobi))                                              \
    X(syevj, cusolverDn, syevj,                                               \
      (tn_solver_handle handle, int vectors, int triangle, int n, void *a,    \
       int lda, void *values, void *work, int lwork, int *info,               \
       tn_solver_jacobi jacobi))                                              \
    X(gesvd_workspace, cusolverDn, gesvd_bufferSize,                          \
      (tn_solver_handle handle, int m, int n, int *lwork))                    \
    X(gesvd, cusolverDn, gesvd,                                               \
      (tn_solver_handle handle, signed char u_job, signed char vt_job, int m, \
       int n, void *a, int lda, void *values, void *u, int ldu, void *vt,     \
       int ldvt, void *work, int lwork, void *extra, int *info))              \
    X(trsm, cublas, trsm_v2,                                                  \
      (tn_blas_handle handle, int side, int triangle, int transpose,          \
       int diagonal, int m, int n, const void *alpha, const void *a, int lda, \
       void *b, int ldb))

typedef struct tn_solver {
#define TN_SOLVER_FIELD(field, symbol, parameters)                            \
    tn_solver_status(*field) parameters;
    TN_SOLVER_MAP(TN_SOLVER_FIELD)
#define TN_SOLVER_TYPED_FIELD(field, before, behind, parameters)              \
    tn_solver_status(*field[2]) parameters; /* [0] float64, [1] float32 */
    TN_SOLVER_TYPED_MAP(TN_SOLVER_TYPED_FIELD)
} tn_solver;

extern tn_solver tn__solver;

#endif
