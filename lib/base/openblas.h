/* openblas.h: OpenBLAS, for its LAPACK, loaded at the first factorisation. */
#ifndef TN_LIB_BASE_OPENBLAS_H
#define TN_LIB_BASE_OPENBLAS_H

/* The dlopen handle of the library, which stays open; NULL if it cannot be
 * opened. OpenBLAS is set to one thread, because results must not depend on the
 * number of threads. Thread-safe. */
void *tn__openblas(void);

#endif
