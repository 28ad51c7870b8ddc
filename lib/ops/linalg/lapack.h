/* lapack.h: LAPACK, opened at the first call of a `host` row, and matrices in
 * the form it requires: column-major, in host memory.
 *
 * A host row stages its inputs, calls one routine for each matrix of the batch,
 * and copies the results back to the device of its input. Transpositions for
 * that run on the device. */
#ifndef TN_LIB_OPS_LAPACK_H
#define TN_LIB_OPS_LAPACK_H

#include <ops/engine/native.h>

/* Each routine for float64 and for float32. */
typedef struct tn__lapack {
#define LAPACK(name, arguments) void(*name[2]) arguments;
#include <ops/linalg/lapack.def>
#undef LAPACK
} tn__lapack;

/* NULL with TN_ERR_UNSUPPORTED if no library has it. `what` names the row. */
const tn__lapack *tn__lapack_open(const char *what);

/* Reports that LAPACK failed for matrix k. */
tn_status tn__lapack_refuse(const char *name, int64_t k, const char *why,
                            int info);
/* Reports that x has NaN or infinities, for which LAPACK may not return. */
tn_status tn__lapack_refuse_nan(const char *name, const tn_tensor *x);

/* A batch of column-major matrices (rows x columns) in succession, in the
 * memory of their device if the host can access it. */
typedef struct tn__staged {
    int64_t batch;
    int rows, columns;
    bool single; /* float32, else float64 */
    bool transposed; /* they are the transposes of those in the tensor */
    size_t element;
    char *data;        /* of the tensor, or copy */
    void *copy;        /* owned; if the host cannot access the device */
    tn_tensor *tensor; /* owned: (..., columns, rows), contiguous */
} tn__staged;

/* How matrices are staged. A row-major tensor holds, in column-major order, the
 * transposes. Routines that can work on these need no copy. */
typedef enum tn__staging {
    TN__STAGE,        /* a copy, which may be overwritten */
    TN__STAGE_TRANSPOSED, /* a copy of the transposes, likewise */
    TN__STAGE_READ    /* the transposes, read only; usually no copy */
} tn__staging;

/* Stages the matrices of x, (..., rows, columns) of float32 or float64. Rejects
 * others and names the argument. Free them with tn__staged_free, also after a
 * failure. */
tn_status tn__stage(tn__staged *s, tn_tensor *x, tn__staging how,
                    const char *what, const char *argument);
/* New matrices, all 0, with the batch and dtype of `like`. */
tn_status tn__stage_new(tn__staged *s, const tn__staged *like, int64_t rows,
                        int64_t columns);
void tn__staged_free(tn__staged *s);
static inline void *tn__staged_at(const tn__staged *s, int64_t k)
{
    size_t at = (size_t)k * (size_t)s->rows * (size_t)s->columns * s->element;
    return at ? s->data + at : s->data; /* NULL if there are no elements */
}
static inline int tn__staged_min(const tn__staged *s)
{
    return s->rows < s->columns ? s->rows : s->columns;
}
/* Sets the diagonal of every matrix to 1. */
void tn__staged_eye(tn__staged *s);
/* Sets the elements below (or above) the diagonal to 0. */
void tn__staged_clear(tn__staged *s, bool below);

/* The matrices as a tensor (..., rows, columns), with transposes undone.
 * as_vector: they have one column, and its dimension is dropped. One
 * reference. */
tn_tensor *tn__unstage(const tn__staged *s, bool as_vector);
/* `width` integers for each matrix (width -1: one, without a dimension) as an
 * int32 tensor. Zeros if the matrices are empty. */
tn_tensor *tn__unstage_ints(const int *number, const tn__staged *s,
                            int64_t width, const char *what);

/* A column-major triangle T of n columns: that of a matrix, or (transposed) of
 * its transpose. unit: its diagonal counts as ones. */
typedef struct tn__triangle {
    bool upper, unit, transposed;
    int lda;
} tn__triangle;

/* Solves X T = B. X replaces b's m rows and n columns, which are contiguous. */
void tn__solve_right(const tn__lapack *lapack, bool single,
                     const tn__triangle *t, int m, int n, const void *a,
                     void *b);
/* Like LAPACK's getrf, in place of the contiguous a with m rows and n columns,
 * both at least 1. Stores for each row the row it was exchanged with, from 1;
 * without pivot, none is exchanged. Returns 0, or the number of the first pivot
 * that is 0, from 1. */
int tn__lu(const tn__lapack *lapack, bool single, bool pivot, int m, int n,
           void *a, int *pivots);

/* Number of elements of the workspace of the two functions below. */
int64_t tn__reflect_workspace(int m, int columns);
/* Like LAPACK's geqrf, in place of the contiguous a with m rows and n
 * columns. */
void tn__qr(const tn__lapack *lapack, bool single, int m, int n, void *a,
            void *tau, void *room);
/* Replaces c, with m rows, by Q c, where Q is the product of `count`
 * reflections as geqrf stores them in a. from_unit: c is the first columns of
 * the identity, so Q itself results. */
void tn__reflect(const tn__lapack *lapack, bool single, int m, int count,
                 const void *a, int lda, const void *tau, int columns, void *c,
                 int ldc, bool from_unit, void *room);

/* c = alpha op(a) op(b) + beta c by BLAS, for both dtypes. */
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

/* The first element of work after a workspace query. */
int tn__workspace_size(const void *work, bool single);

#endif
