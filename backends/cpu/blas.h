/* blas.h: OpenBLAS, opened at the first product that wants it (blas.c). */
#ifndef TN_CPU_BLAS_H
#define TN_CPU_BLAS_H

#include <stdbool.h>

/* CBLAS's own values. */
enum { BLAS_ROW_MAJOR = 101, BLAS_PLAIN = 111, BLAS_TRANSPOSED = 112 };

typedef struct tn_cpu_blas {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k,
                  float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k,
                  double alpha, const double *a, int lda, const double *b,
                  int ldb, double beta, double *c, int ldc);
} tn_cpu_blas;

/* NULL where OpenBLAS cannot be opened. It runs on the thread that calls it
 * alone: the plugin spreads products over threads by itself. */
const tn_cpu_blas *tn__cpu_blas(void);

#endif
