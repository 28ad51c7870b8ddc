/* sim.h: what the files of the simulated CUDA driver share. Names and values
 * of the driver's interface are those of backends/cuda/cuda_driver.h. */
#ifndef TN_SIM_SIM_H
#define TN_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../backends/cuda/cuda_driver.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_DEVICES 8

/* The driver's functions, as the plugin calls them. */
#define SIM_DECLARE(field, symbol, parameters)                                \
    EXPORT tn_cu_result symbol parameters;
TN_CUDA_DRIVER_MAP(SIM_DECLARE)

/* CUresult values that the plugin does not distinguish */
enum {
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_HANDLE = 400,
    SIM_CAPTURE_UNSUPPORTED = 900,
    /* An error that no device reports, such as a race. The context is lost, so
     * that no test can ignore it. */
    SIM_FOUND = TN_CU_LAUNCH_FAILED
};

/* Reports an error that a real driver would not, to stderr and for sim_reports.
 * Returns the error. */
tn_cu_result sim_refuse(tn_cu_result error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define sim_report(...) ((void)sim_refuse(0, __VA_ARGS__))

/* ---- calls (driver.c) --------------------------------------------------- */

bool sim_lock(void);
void sim_unlock(const bool *holds);
/* The error that the call returns at once, or 0. name: of the function. */
tn_cu_result sim_enter(const char *name, bool needs_context);

/* Holds the lock until the function returns. */
#define HOLD()                                                                \
    __attribute__((cleanup(sim_unlock), unused)) const bool holds = sim_lock()
#define TRY(call)                                                             \
    do {                                                                      \
        const tn_cu_result tried = (call);                                    \
        if (tried)                                                            \
            return tried;                                                     \
    } while (0)
#define ENTER(needs_context)                                                  \
    HOLD();                                                                   \
    TRY(sim_enter(__func__, needs_context))

/* A pseudo-random number below limit, seeded by TENON_SIM_SEED; always 0 if
 * that is not set. */
unsigned sim_random(unsigned limit);

/* ---- contexts and handles (driver.c) ------------------------------------ */

struct CUctx_st {
    int device;
    int retained;
    tn_cu_result sticky; /* after a fault, what every call returns */
};

/* The calling thread's. */
struct CUctx_st *sim_current(void);

/* The head of a stream, event or module. It is kept after it was destroyed, so
 * that a later use is detected. */
typedef struct sim_handle {
    const char *kind; /* "stream" */
    struct CUctx_st *context;
    bool live;
    struct sim_handle *older;
} sim_handle;

/* Makes one in the current context; NULL: no memory. */
void *sim_handle_make(const char *kind, size_t bytes);
/* Reports and returns SIM_INVALID_HANDLE unless it is a live object of that
 * kind and, if required, of the current context. */
tn_cu_result sim_handle_check(const void *handle, const char *kind,
                              bool of_current);
#define ENTER_WITH(handle, kind, of_current)                                  \
    ENTER(true);                                                              \
    TRY(sim_handle_check(handle, kind, of_current))

/* ---- the order of work (stream.c) --------------------------------------- */

/* A vector clock: the n-th piece of work of a stream, and how many pieces of
 * each other stream are known to be done before it. */
#define SIM_CLOCKS 16
typedef struct sim_clock {
    uint32_t done[SIM_CLOCKS];
} sim_clock;
typedef struct sim_actor {
    struct CUctx_st *context;
    unsigned stream; /* < SIM_CLOCKS; races between streams that share a number
                      * are not detected */
    uint32_t work;
    sim_clock clock;
} sim_actor;

/* One piece of work. run is called when its turn comes, release after that or
 * when it is dropped. Both receive a struct that begins with a sim_work. */
typedef struct sim_work {
    struct sim_work *next;
    tn_cu_result (*run)(struct sim_work *work, const sim_actor *actor);
    void (*release)(struct sim_work *work); /* or NULL */
    void *owned;                            /* malloc's, or NULL */
    const void *uses; /* a module that must not be unloaded before */
    int kind;         /* of copies: which sides are the host's */
    sim_clock given;  /* what the host knew to be done when it submitted this */
} sim_work;

/* Pieces of work, in their order; owned. */
typedef struct sim_queue {
    sim_work *first, **last; /* the latter: where the next one goes */
} sim_queue;
void sim_queue_drop(sim_queue *queue);
bool sim_queue_uses(const sim_queue *queue, const void *uses);

/* Appends a copy of the work, of so many bytes, to a stream. The stream then
 * owns what the work holds; on an error that is released at once. */
tn_cu_result sim_give(tn_cu_stream stream, void *work, size_t bytes);

/* Is the stream capturing? Its work then goes to the graph. */
bool sim_captures(tn_cu_stream stream);
/* Does a live graph use this? (graph.c) */
bool sim_graph_uses(const void *uses);

/* The work that a stream captured, in order. */
struct CUgraph_st {
    sim_handle handle;
    sim_queue work;
    int holders; /* the graph, and what was made of it */
};

/* Runs all work of the streams of a context. The host then knows that it is
 * done. */
void sim_finish(const struct CUctx_st *context);

/* Drops the pending work of the streams of a context. Does any work use this?
 */
void sim_drop(const struct CUctx_st *context);
bool sim_is_used(const void *uses);

/* Runs some work at random if TENON_SIM_SEED is set. */
void sim_stir(void);

/* ---- device memory (memory.c) ------------------------------------------- */

/* Device addresses are in a region that is inaccessible to the process. The
 * same memory is mapped elsewhere for the driver. An address is never reused.
 */
tn_cu_result sim_memory_alloc(int device, size_t bytes, tn_cu_pointer *out);
tn_cu_result sim_memory_free(tn_cu_pointer pointer);
void sim_memory_info(int device, size_t *left, size_t *total);
/* The number of live allocations; the device that has an address, or -1. */
size_t sim_memory_live(int device);
int sim_memory_device(tn_cu_pointer at);

/* The kind of an access: by a kernel, which may only read initialized memory of
 * its own device; or by a copy, which may copy uninitialized memory, to any
 * device. */
enum { SIM_READ, SIM_WRITE, SIM_CARRY, SIM_PUT };

/* The driver's mapping of [at, at + bytes) for an access. NULL, with a report
 * and *error set, if that is not within one live allocation, if a kernel reads
 * uninitialized memory, or if an access of another stream is not ordered with
 * this one. what: such as "a copy's read"; NULL: no report. */
void *sim_memory_at(const sim_actor *actor, int how, const char *what,
                    tn_cu_pointer at, size_t bytes, tn_cu_result *error);
/* The same for accesses of the threads of a warp, of `bytes` each, aligned,
 * without reports. For those that are not allowed, `to` does not change. */
void sim_memory_lanes(const sim_actor *actor, bool writes, const uint64_t *at,
                      unsigned count, size_t bytes, unsigned char **to);
/* Marks as uninitialized at dst what is uninitialized at src. */
void sim_memory_carry(tn_cu_pointer dst, tn_cu_pointer src, size_t bytes);

/* ---- for the simulated libraries (stream.c) ----------------------------- */

/* Submits a library's kernel, which runs in its stream with a copy of `bytes`
 * of context. It returns 0 or the device's error. */
typedef tn_cu_result sim_function(void *context, const sim_actor *actor);
EXPORT tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                             const void *context, size_t bytes);
/* sim_memory_at, for what sim_call runs; sim_report, for the rest. */
EXPORT void *sim_reach(const sim_actor *actor, int how, const char *what,
                       tn_cu_pointer at, size_t bytes, tn_cu_result *error);
EXPORT void sim_library_says(const char *text);

/* ---- kernels (ptx_parse.c, ptx_run.c) ----------------------------------- */

typedef struct ptx_kernel ptx_kernel;
typedef struct ptx_module ptx_module;

/* NULL, with a report, if a line is not supported. */
ptx_module *ptx_load(const char *text);
void ptx_free(ptx_module *module);
const ptx_kernel *ptx_find(const ptx_module *module, const char *name);

/* Bytes of all parameters. Fills in the offset of each, of at most `most`. */
size_t ptx_parameters(const ptx_kernel *kernel, size_t *count,
                      const size_t **offset, const size_t **bytes);

/* The largest thread block that the kernel was compiled for. */
unsigned ptx_most_threads(const ptx_kernel *kernel);

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    unsigned grid, block;
    void *parameters; /* their bytes, as ptx_parameters places them */
    unsigned sample;  /* run only so many thread blocks, evenly spaced, without
                       * checks of shared memory; 0: run all */
    uint64_t *steps;  /* takes the instructions that warps ran; or NULL */
} ptx_launch;

/* 0, or the device's error, with a report. */
tn_cu_result ptx_run(const ptx_launch *launch, const sim_actor *actor);

#endif
