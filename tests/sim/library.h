/* library.h: shared by the simulated libraries: loads OpenBLAS, and looks up
 * the driver's functions for libraries (sim.h) when a handle is created. */
#ifndef TN_SIM_LIBRARY_H
#define TN_SIM_LIBRARY_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static void *blas;
static struct {
    tn_cu_result (*call)(tn_cu_stream stream, sim_function *call,
                         const void *context, size_t bytes);
    void *(*reach)(const sim_actor *actor, int how, const char *what,
                   tn_cu_pointer at, size_t bytes, tn_cu_result *error);
    void (*say)(const char *text);
} driver;

static bool find(void *library, const char *name, void *out)
{
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static bool open_both(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void (*threads)(int count);
    blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!find(blas, "openblas_set_num_threads", &threads) ||
        !find(cuda, "sim_call", &driver.call) ||
        !find(cuda, "sim_reach", &driver.reach) ||
        !find(cuda, "sim_library_says", &driver.say))
        return false;
    threads(1);
    return true;
}

/* Defines the functions of a library's handles, which only store a stream. */
#define HANDLES(status, type, create, destroy)                                \
    status create(type *handle)                                               \
    {                                                                         \
        *handle = open_both() ? calloc(1, sizeof **handle) : NULL;            \
        return *handle ? 0 : 1; /* 1: NOT_INITIALIZED */                      \
    }                                                                         \
    status destroy(type handle) { return free(handle), 0; }

#endif
