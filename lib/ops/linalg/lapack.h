/* lapack.h: calls of LAPACK, whose library is opened at the first call of an
 * operator with the flag `host`, and matrices in the form that LAPACK requires:
 * column-major, in host memory.
 *
 * To stage a matrix is to bring it into this form. An operator with the flag
 * `host` stages its inputs, calls one LAPACK routine for each matrix of the
 * batch, and copies the results back to the device of its input. Matrices are
 * transposed on the device. */
#ifndef TN_LIB_OPS_LAPACK_H
#define TN_LIB_OPS_LAPACK_H

#include <ops/engine/native.h>

/* The routines of LAPACK: name[0] is the one for float64, name[1] that for
 * float32. */
typedef struct tn__lapack {
#define LAPACK(name, arguments) void(*name[2]) arguments;
#include <ops/linalg/lapack.def>
#undef LAPACK
} tn__lapack;

/* Returns LAPACK's routines, and opens the library at the first call. Returns
 * NULL with TN_ERR_UNSUPPORTED recorded if there is no such library. `what` is
 * the operator that the message names. */
const tn__lapack *tn__lapack_open(const char *what);

/* Records the error that LAPACK failed for matrix k with the status info, and
 * returns its status. */
tn_status tn__lapack_refuse(const char *name, int64_t k, const char *why,
                            int info);
/* Records the error that x has NaN or infinities, for which LAPACK may not
 * return, and returns its status. */
tn_status tn__lapack_refuse_nan(const char *name, const tn_tensor *x);

/* A batch of column-major matrices of size rows x columns, one after the other,
 * in memory that the host can access. */
typedef struct tn__staged {
    int64_t batch;     /* the number of matrices */
    int rows, columns;
    bool single;       /* the elements are float32, else float64 */
    bool transposed;   /* the matrices here are the transposes of those in the
                        * caller's tensor */
    size_t element;    /* element size in bytes */
    char *data;        /* the elements, in the memory of `tensor` or in
                          `copy` */
    void *copy;        /* host memory for the elements, owned. NULL if the host
                          can access the memory of the device. */
    tn_tensor *tensor; /* the matrices as a contiguous tensor (..., columns,
                          rows) on the device, owned */
} tn__staged;

/* How matrices are staged (brought into the form that LAPACK requires). The
 * memory of a row-major matrix, read in column-major order, is the transpose of
 * the matrix. Routines that can work on the transpose need no copy. */
typedef enum tn__staging {
    TN__STAGE, /* a copy of the matrices, which may be overwritten */
    /* a copy of the transposed matrices, which may be overwritten */
    TN__STAGE_TRANSPOSED,
    /* the transposed matrices, which are only read and usually not copied */
    TN__STAGE_READ
} tn__staging;

/* Stages the matrices of x (brings them into the form that LAPACK requires). x
 * is of shape (..., rows, columns) and dtype float32 or float64. Rejects other
 * tensors, naming the argument. The caller frees *s with tn__staged_free, also
 * after a failure. */
tn_status tn__stage(tn__staged *s, tn_tensor *x, tn__staging how,
                    const char *what, const char *argument);
/* Makes matrices of zeros with the batch and dtype of `like`. */
tn_status tn__stage_new(tn__staged *s, const tn__staged *like, int64_t rows,
                        int64_t columns);
void tn__staged_free(tn__staged *s);
/* Returns the address of matrix k. */
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
/* Sets the elements below the diagonal to 0, or those above it if `below` is
 * false. */
void tn__staged_clear(tn__staged *s, bool below);

/* Returns the matrices as a tensor (..., rows, columns) on the device, with
 * transposes undone. If as_vector is true, the matrices have one column, and
 * its dimension is dropped. The caller owns one reference. */
tn_tensor *tn__unstage(const tn__staged *s, bool as_vector);
/* Returns an int32 tensor (..., width) on the device, with number[k][width] for
 * matrix k. If width is -1, the tensor has one number for each matrix and no
 * last dimension. If the matrices have no elements, the tensor is zero. */
tn_tensor *tn__unstage_ints(const int *number, const tn__staged *s,
                            int64_t width, const char *what);

/* How a triangular matrix T is stored: in a column-major matrix whose columns
 * are lda elements apart. T is an upper triangle if `upper` is true, else a
 * lower one. `unit` says that the diagonal of T counts as ones. `transposed`
 * says that the memory holds the transpose of T. */
typedef struct tn__triangle {
    bool upper, unit, transposed;
    int lda;
} tn__triangle;

/* Solves X T = B for X. T is n x n, in a. b is B, contiguous with m rows and n
 * columns, and is replaced by X. */
void tn__solve_right(const tn__lapack *lapack, bool single,
                     const tn__triangle *t, int m, int n, const void *a,
                     void *b);
/* Replaces a by its LU factors, like LAPACK's getrf. a is contiguous, with m
 * rows and n columns, both at least 1. Sets pivots[i] to the row with which row
 * i was exchanged, counted from 1. If pivot is false, no rows are exchanged.
 * Returns 0 if no pivot is 0, else the index of the first pivot that is 0,
 * counted from 1. */
int tn__lu(const tn__lapack *lapack, bool single, bool pivot, int m, int n,
           void *a, int *pivots);

/* Returns the number of elements that the workspace `room` of tn__qr and
 * tn__reflect must have. */
int64_t tn__reflect_workspace(int m, int columns);
/* Replaces a, contiguous with m rows and n columns, by its QR factors, like
 * LAPACK's geqrf. The scale factors of the reflections are stored in tau. */
void tn__qr(const tn__lapack *lapack, bool single, int m, int n, void *a,
            void *tau, void *room);
/* Replaces c, with m rows, by Q c, where Q is the product of `count`
 * reflections as geqrf stores them in a and tau. If from_unit is true, c is the
 * first columns of the identity, and the result is the first columns of Q. */
void tn__reflect(const tn__lapack *lapack, bool single, int m, int count,
                 const void *a, int lda, const void *tau, int columns, void *c,
                 int ldc, bool from_unit, void *room);

/* Computes c = alpha op_a(a) op_b(b) + beta c by BLAS, in float32 if single is
 * true, else in float64. op_a and op_b are "N" (no change) or "T"
 * (transpose). */
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

/* Returns the size that LAPACK has stored in the first element of work when it
 * was asked for the size of the workspace. */
int tn__workspace_size(const void *work, bool single);

#endif
