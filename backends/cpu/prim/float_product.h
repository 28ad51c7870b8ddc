/* float_product.h: products of floats (float_product.c). */
#ifndef TN_CPU_PRODUCT_H
#define TN_CPU_PRODUCT_H

#include "../cpu.h"

/* A matrix; strides in elements. One of them is 1 or belongs to a dimension of
 * one element. */
typedef struct tn_cpu_matrix {
    char *memory;
    int64_t row, column;
} tn_cpu_matrix;

/* c[m, n] = alpha * a[m, k] b[k, n] + beta * c. With beta 0, c is not read. */
typedef struct tn_cpu_product {
    const tn_cpu_routines *routines;
    unsigned type; /* CPU_F32 or CPU_F64: the type of all matrices */
    int64_t m, n, k;
    tn_cpu_matrix a, b, c;
    double alpha, beta;
    bool alone; /* part of a product of one row or one column */
} tn_cpu_product;

/* Runs a product on this thread. False: out of memory for panels. */
bool tn__cpu_multiply(const tn_cpu_product *p);

/* Runs a large product on all threads, with the same bits: k is not 0, p is not
 * `alone`. */
bool tn__cpu_multiply_shared(const tn_cpu_product *p);

#endif
