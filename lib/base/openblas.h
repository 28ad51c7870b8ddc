/* openblas.h: loads OpenBLAS at the first matrix factorisation, for its
 * LAPACK. */
#ifndef TN_LIB_BASE_OPENBLAS_H
#define TN_LIB_BASE_OPENBLAS_H

/* Returns the dlopen handle of OpenBLAS, which stays open; NULL if the library
 * cannot be opened. OpenBLAS is set to one thread, because results must not
 * depend on the number of threads. Thread-safe. */
void *tn__openblas(void);

#endif
