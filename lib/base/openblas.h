/* openblas.h: loads OpenBLAS, whose LAPACK is used for matrix
 * factorisations. */
#ifndef TN_LIB_BASE_OPENBLAS_H
#define TN_LIB_BASE_OPENBLAS_H

/* Returns the dlopen handle of OpenBLAS, which is loaded on the first call and
 * stays loaded. Returns NULL if the library cannot be opened. OpenBLAS is set
 * to use one thread, because results must not depend on the number of threads.
 * Any thread may call this. */
void *tn__openblas(void);

#endif
