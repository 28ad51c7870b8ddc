/* sim.h: what the files of the simulated CUDA driver share. Names and values
 * of the driver's interface are those of backends/cuda/driver.h. */
#ifndef TN_SIM_SIM_H
#define TN_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../backends/cuda/driver.h"

/* What a real driver would not say: to stderr, and for sim_said. */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- device memory (memory.c) ------------------------------------------- */

/* Device addresses are those of a region that the process may not touch; the
 * same memory stands elsewhere too, where the driver reaches it. An address is
 * never given out twice. */
tn_cu_result sim_memory_alloc(size_t bytes, tn_cu_pointer *out);
tn_cu_result sim_memory_free(tn_cu_pointer pointer);
void sim_memory_info(size_t *left, size_t *total);

/* Where the driver reaches [at, at + bytes); NULL, said, if that is not within
 * one live allocation. what: "a read", "a write". */
void *sim_memory_at(tn_cu_pointer at, size_t bytes, const char *what);

/* How many allocations live. */
size_t sim_memory_live(void);

/* ---- for the simulated libraries (driver.c) ----------------------------- */

/* A library's kernel: run when its stream is, with a copy of bytes of context;
 * 0, or what the device ends with. */
typedef tn_cu_result sim_function(void *context);
#define SIM_EXPORT __attribute__((visibility("default")))
SIM_EXPORT tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                                 const void *context, size_t bytes);
/* sim_memory_at, for what sim_call runs; sim_say, for the rest. */
SIM_EXPORT void *sim_reach(tn_cu_pointer at, size_t bytes, const char *what);
SIM_EXPORT void sim_library_says(const char *text);

/* ---- kernels (ptx_parse.c, ptx_run.c) ----------------------------------- */

typedef struct ptx_kernel ptx_kernel;
typedef struct ptx_module ptx_module;

/* NULL, said, if a line is not understood. */
ptx_module *ptx_load(const char *text);
void ptx_free(ptx_module *module);
const ptx_kernel *ptx_find(const ptx_module *module, const char *name);

/* Bytes of all parameters; the place of each is filled in, as far as most. */
size_t ptx_parameters(const ptx_kernel *kernel, size_t *count,
                      const size_t **offset, const size_t **bytes);

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    unsigned grid, block;
    void *parameters; /* their bytes, as ptx_parameters places them */
} ptx_launch;

/* 0, or what the device would end with; said. */
tn_cu_result ptx_run(const ptx_launch *launch);

#endif
