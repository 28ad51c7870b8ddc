/* blas.c: see blas.h. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

static tn_cpu_blas blas;
static bool blas_there;
static atomic_bool blas_missing;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

static bool find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void blas_open(void)
{
    void *library = tn__cpu_host->openblas();
    if (library && find(library, "cblas_sgemm", &blas.sgemm) &&
        find(library, "cblas_dgemm", &blas.dgemm)) {
        blas_there = true;
        return;
    }
    if (tn__cpu_host->log)
        tn__cpu_host->log(1, "cpu: libopenblas.so.0 cannot be opened; matrix "
                             "products run several times slower");
    atomic_store(&blas_missing, true);
}

const tn_cpu_blas *tn__cpu_blas(void)
{
    pthread_once(&blas_once, blas_open);
    return blas_there ? &blas : NULL;
}

void tn__cpu_blas_note(char *note, size_t room)
{
    if (atomic_load(&blas_missing))
        snprintf(note, room,
                 "libopenblas.so.0 cannot be opened: matrix products are "
                 "slow (Debian: apt-get install libopenblas0)");
}
