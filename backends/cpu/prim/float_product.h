/* float_product.h: products of two matrices of floats (float_product.c,
 * shared_product.c). */
#ifndef TN_CPU_PRODUCT_H
#define TN_CPU_PRODUCT_H

#include "../epilogue.h"

/* A matrix of floats. Element (i, j) is memory[i * row + j * column], with
 * strides in elements. One of the strides is 1, unless the matrix has a single
 * row or column. */
typedef struct tn_cpu_matrix {
    char *memory;
    int64_t row, column;
} tn_cpu_matrix;

/* The product c = alpha * a b + beta * c, where a is m x k, b is k x n and c is
 * m x n. If beta is 0, c is not read. */
typedef struct tn_cpu_product {
    const tn_cpu_routines *routines;
    unsigned type; /* CPU_F32 or CPU_F64: the type of all matrices */
    int64_t m, n, k;
    tn_cpu_matrix a, b, c;
    double alpha, beta;
    /* Whether the whole product has one row or one column. This product may be
     * a tile of it. */
    bool alone;
} tn_cpu_product;

/* Computes a product on the calling thread. Returns false if out of memory for
 * packed operands. */
bool tn__cpu_multiply(const tn_cpu_product *p);

/* The largest number of rows and columns of c that tn__cpu_multiply_shared computes
 * at a time. */
#define TN_CPU_SHARED 2048

/* Computes a large product on all threads, with results that are bit-identical
 * to tn__cpu_multiply. k must not be 0, and p->alone must be false. Runs `then`,
 * a launch that was taken with the ranges (rows, columns), or NULL, for blocks of
 * rows of c; row 0 of c is row `row` of its result. With it, c has at most
 * TN_CPU_SHARED columns. Returns false if out of memory for packed operands. */
bool tn__cpu_multiply_shared(const tn_cpu_product *p, tn_cpu_epilogue *then,
                             int64_t row);

#endif
