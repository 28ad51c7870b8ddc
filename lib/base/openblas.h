/* openblas.h: OpenBLAS, opened when the first factorisation wants it, for its
 * LAPACK. */
#ifndef TN_LIB_BASE_OPENBLAS_H
#define TN_LIB_BASE_OPENBLAS_H

/* dlopen's handle of the one library of the process, which stays open; NULL
 * where it cannot be opened. It computes on the thread that calls it alone:
 * bits must not depend on the number of threads. Any thread may call. */
void *tn__openblas(void);

#endif
