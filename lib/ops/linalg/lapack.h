/* lapack.h: LAPACK, opened at the first call of a `host` row, and matrices as it
 * wants them: column-major, in host memory.
 *
 * A host row stages its inputs, calls one routine for each matrix of the batch,
 * and hands the results back to the device of its input. What has to be
 * transposed for that the device transposes. */
#ifndef TN_LIB_OPS_LAPACK_H
#define TN_LIB_OPS_LAPACK_H

#include <ops/engine/native.h>

/* Each routine for float64 and for float32. */
typedef struct tn__lapack {
#define LAPACK(name, arguments) void(*name[2]) arguments;
#include <ops/linalg/lapack.def>
#undef LAPACK
} tn__lapack;

/* NULL with TN_ERR_UNSUPPORTED where no library has it; what names the row. */
const tn__lapack *tn__lapack_open(const char *what);

/* Matrix k could not be done: the error that says so. */
tn_status tn__lapack_refuse(const char *name, int64_t k, const char *why,
                            int info);
/* x holds what is no number, from which LAPACK may not come back. */
tn_status tn__lapack_refuse_nan(const char *name, const tn_tensor *x);

/* Matrices (batch of them, rows x columns), column-major, one after another, in
 * memory of the device they came from where the host sees it. */
typedef struct tn__staged {
    int64_t batch;
    int rows, columns;
    bool single; /* float32, else float64 */
    bool transposed; /* these are the transposes of what the tensor holds */
    size_t element;
    char *data;        /* of tensor, or copy */
    void *copy;        /* owned; where the host does not see the device */
    tn_tensor *tensor; /* owned: (..., columns, rows), contiguous */
} tn__staged;

/* How matrices come: what a row-major tensor holds is, column-major, its
 * transpose, so routines that can work on that one need nothing moved. */
typedef enum tn__staging {
    TN__STAGE,        /* a copy, to be written over */
    TN__STAGE_TRANSPOSED, /* a copy of the transposes, likewise */
    TN__STAGE_READ    /* the transposes, only to be read: no copy, most often */
} tn__staging;

/* The matrices of x, (..., rows, columns) of float32 or float64; refuses others
 * with the argument's name. Free with tn__staged_free, also after a failure. */
tn_status tn__stage(tn__staged *s, tn_tensor *x, tn__staging how,
                    const char *what, const char *argument);
/* New ones, all 0, like others in number and dtype. */
tn_status tn__stage_new(tn__staged *s, const tn__staged *like, int64_t rows,
                        int64_t columns);
void tn__staged_free(tn__staged *s);
static inline void *tn__staged_at(const tn__staged *s, int64_t k)
{
    size_t at = (size_t)k * (size_t)s->rows * (size_t)s->columns * s->element;
    return at ? s->data + at : s->data; /* NULL where there is nothing */
}
static inline int tn__staged_min(const tn__staged *s)
{
    return s->rows < s->columns ? s->rows : s->columns;
}
/* Ones on the diagonal of every matrix. */
void tn__staged_eye(tn__staged *s);
/* Zeros below (or above) the diagonal. */
void tn__staged_clear(tn__staged *s, bool below);

/* A tensor (..., rows, columns) of them, in which turned ones are turned back;
 * as_vector: of one column, without its dimension. One reference. */
tn_tensor *tn__unstage(const tn__staged *s, bool as_vector);
/* `width` whole numbers for each matrix (width -1: one, without a dimension)
 * as an int32 tensor; zeros where the matrices have no elements. */
tn_tensor *tn__unstage_ints(const int *number, const tn__staged *s,
                            int64_t width, const char *what);

/* A triangle T, column-major, of n columns: of the matrix at hand, or (turned)
 * of its transpose. unit: of ones on its diagonal. */
typedef struct tn__triangle {
    bool upper, unit, transposed;
    int lda;
} tn__triangle;

/* X T = B: X in the place of b's m rows and n columns, which lie without gaps. */
void tn__solve_right(const tn__lapack *lapack, bool single,
                     const tn__triangle *t, int m, int n, const void *a,
                     void *b);
/* As LAPACK's getrf, in place of a's m rows and n columns without gaps (neither
 * is 0): which row each was exchanged with, from 1 (not pivot: none was).
 * Returns 0, or which pivot is 0, from 1. */
int tn__lu(const tn__lapack *lapack, bool single, bool pivot, int m, int n,
           void *a, int *pivots);

/* Numbers of room for the two below. */
int64_t tn__reflect_workspace(int m, int columns);
/* As LAPACK's geqrf, in place of a's m rows and n columns without gaps. */
void tn__qr(const tn__lapack *lapack, bool single, int m, int n, void *a,
            void *tau, void *room);
/* Q c in the place of c, of m rows, for the product Q of `count` reflections as
 * geqrf leaves them in a. from_unit: c is the first columns of the identity,
 * Q itself is wanted. */
void tn__reflect(const tn__lapack *lapack, bool single, int m, int count,
                 const void *a, int lda, const void *tau, int columns, void *c,
                 int ldc, bool from_unit, void *room);

/* c = alpha op(a) op(b) + beta c: of BLAS, but for one call of both types. */
static inline void tn__gemm(const tn__lapack *lapack, bool single,
                            const char *op_a, const char *op_b, int m, int n,
                            int k, double alpha, const void *a, int lda,
                            const void *b, int ldb, double beta, void *c,
                            int ldc)
{
    const float by[] = {(float)alpha, (float)beta};
    lapack->gemm[single](op_a, op_b, &m, &n, &k,
                         single ? (const void *)&by[0] : (const void *)&alpha,
                         a, &lda, b, &ldb,
                         single ? (const void *)&by[1] : (const void *)&beta, c,
                         &ldc, 1, 1);
}

/* The first number of a workspace query. */
int tn__workspace_size(const void *work, bool single);

#endif
