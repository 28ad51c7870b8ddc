/* sim.h: types and functions shared by the files of the simulated CUDA driver.
 * Names and values of the driver's interface are those of
 * backends/cuda/cuda_driver.h. */
#ifndef TN_SIM_SIM_H
#define TN_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../backends/cuda/cuda_driver.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_DEVICES 8

/* Declares the driver's functions, as the plugin calls them. */
#define SIM_DECLARE(field, symbol, parameters)                                \
    EXPORT tn_cu_result symbol parameters;
TN_CUDA_DRIVER_MAP(SIM_DECLARE)

/* values of CUresult that the plugin does not distinguish */
enum {
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_HANDLE = 400,
    SIM_CAPTURE_UNSUPPORTED = 900,
    /* The error for mistakes that a real device does not report, such as races.
     * It destroys the context, so that no test can ignore it. */
    SIM_FOUND = TN_CU_LAUNCH_FAILED
};

/* Reports a mistake that a real driver would not detect, to stderr and for
 * sim_reports. Returns the error. */
tn_cu_result sim_refuse(tn_cu_result error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define sim_report(...) ((void)sim_refuse(0, __VA_ARGS__))

/* ---- calls (driver.c) --------------------------------------------------- */

bool sim_lock(void);
void sim_unlock(const bool *holds);
/* Checks the start of a call. Returns the error that the call must return at
 * once, or 0. name: the function's name. */
tn_cu_result sim_enter(const char *name, bool needs_context);

/* Holds the lock until the enclosing function returns. */
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

/* Returns a pseudo-random number below limit, seeded by TENON_SIM_SEED; always
 * 0 if that is not set. */
unsigned sim_random(unsigned limit);

/* ---- contexts and handles (driver.c) ------------------------------------ */

struct CUctx_st {
    int device;
    int retained;
    tn_cu_result sticky; /* error that every call returns after a fault */
};

/* Returns the calling thread's current context. */
struct CUctx_st *sim_current(void);

/* The first field of a stream, event or module. Handles are not freed when they
 * are destroyed, so that a later use is detected. */
typedef struct sim_handle {
    const char *kind; /* such as "stream" */
    struct CUctx_st *context;
    bool live;
    struct sim_handle *older;
} sim_handle;

/* Creates a handle in the current context; NULL if memory runs out. */
void *sim_handle_make(const char *kind, size_t bytes);
/* Reports and returns SIM_INVALID_HANDLE unless the handle is a live object of
 * that kind and, if required, of the current context. */
tn_cu_result sim_handle_check(const void *handle, const char *kind,
                              bool of_current);
#define ENTER_WITH(handle, kind, of_current)                                  \
    ENTER(true);                                                              \
    TRY(sim_handle_check(handle, kind, of_current))

/* ---- the order of work (stream.c) --------------------------------------- */

/* A vector clock: the index of a piece of work in its stream, and how many
 * pieces of work of each other stream are known to be done before it. */
#define SIM_CLOCKS 16
typedef struct sim_clock {
    uint32_t done[SIM_CLOCKS];
} sim_clock;
typedef struct sim_actor {
    struct CUctx_st *context;
    unsigned stream; /* below SIM_CLOCKS; races between streams that share a
                      * number are not detected */
    uint32_t work;
    sim_clock clock;
} sim_actor;

/* A piece of work, the first field of larger structs. run executes it; release
 * is called after that, or when the work is dropped. Both receive the larger
 * struct. */
typedef struct sim_work {
    struct sim_work *next;
    tn_cu_result (*run)(struct sim_work *work, const sim_actor *actor);
    void (*release)(struct sim_work *work); /* may be NULL */
    void *owned;                            /* malloc'ed memory, or NULL */
    const void *uses; /* a module that must not be unloaded before the work is
                       * done */
    int kind;         /* for copies: which addresses are host memory */
    sim_clock given;  /* work that the host knew to be done when it submitted
                       * this */
} sim_work;

/* A list of pieces of work in order, which it owns. */
typedef struct sim_queue {
    sim_work *first, **last; /* last: where the next one is linked */
} sim_queue;
void sim_queue_drop(sim_queue *queue);
bool sim_queue_uses(const sim_queue *queue, const void *uses);

/* Appends a copy of the work, a struct of this many bytes, to a stream. The
 * stream then owns what the work owns; if sim_give fails, it releases that at
 * once. */
tn_cu_result sim_give(tn_cu_stream stream, void *work, size_t bytes);

/* Returns whether the stream is capturing; its work then becomes part of the
 * graph. */
bool sim_captures(tn_cu_stream stream);
/* Returns whether a live graph uses this object (graph.c). */
bool sim_graph_uses(const void *uses);

/* Makes the work of a launch, which the caller owns (driver.c). */
tn_cu_result sim_launch_make(const tn_cu_kernel_node *launch, sim_work **out);
/* Frees work that is in no queue. */
void sim_work_free(sim_work *work);

/* A graph: the work that a stream captured, in order. */
struct CUgraph_st {
    sim_handle handle;
    sim_queue work;
    sim_work *newest; /* the last node; NULL if there is none */
    int holders; /* number of references: the graph's own and those of its
                  * executables */
};

/* Runs all work of the streams of a context. Afterwards the host may rely on
 * its results. */
void sim_finish(const struct CUctx_st *context);

/* sim_drop drops the pending work of the streams of a context. sim_is_used
 * returns whether any pending work uses this object. */
void sim_drop(const struct CUctx_st *context);
bool sim_is_used(const void *uses);

/* Runs some of the pending work, chosen at random, if TENON_SIM_SEED is set. */
void sim_stir(void);

/* ---- device memory (memory.c) ------------------------------------------- */

/* Device addresses are in a region that the process cannot access. The same
 * memory is mapped at other addresses for the driver. An address is never
 * reused. */
tn_cu_result sim_memory_alloc(int device, size_t bytes, tn_cu_pointer *out);
tn_cu_result sim_memory_free(tn_cu_pointer pointer);
void sim_memory_info(int device, size_t *left, size_t *total);
/* sim_memory_live returns the number of live allocations of a device,
 * sim_memory_device the device that an address belongs to, or -1. */
size_t sim_memory_live(int device);
int sim_memory_device(tn_cu_pointer at);

/* Kinds of accesses. A kernel (SIM_READ, SIM_WRITE) may only read initialized
 * memory, of its own device. A copy (SIM_CARRY, SIM_PUT) may also read
 * uninitialized memory, of any device. */
enum { SIM_READ, SIM_WRITE, SIM_CARRY, SIM_PUT };

/* Returns the driver's mapping of [at, at + bytes) for an access. Returns NULL,
 * with a report and *error set, if the range is not within one live allocation,
 * if a kernel reads uninitialized memory, or if the access is not ordered with
 * one of another stream. what: a description such as "a copy's read"; NULL: no
 * report. */
void *sim_memory_at(const sim_actor *actor, int how, const char *what,
                    tn_cu_pointer at, size_t bytes, tn_cu_result *error);
/* Like sim_memory_at for the accesses of a warp's threads, aligned and of
 * `bytes` each, without reports. Elements of `to` whose access is not allowed
 * do not change. */
void sim_memory_lanes(const sim_actor *actor, bool writes, const uint64_t *at,
                      unsigned count, size_t bytes, unsigned char **to);
/* Marks the bytes at dst as uninitialized whose source bytes at src are. */
void sim_memory_carry(tn_cu_pointer dst, tn_cu_pointer src, size_t bytes);

/* ---- functions for the simulated libraries (stream.c) -------------------- */

/* Submits a library's kernel: a function that runs in the stream with a copy of
 * the context of `bytes` bytes. It returns 0 or the device's error. */
typedef tn_cu_result sim_function(void *context, const sim_actor *actor);
EXPORT tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                             const void *context, size_t bytes);
/* sim_reach is sim_memory_at for functions that sim_call runs; sim_report
 * reports a mistake. */
EXPORT void *sim_reach(const sim_actor *actor, int how, const char *what,
                       tn_cu_pointer at, size_t bytes, tn_cu_result *error);
EXPORT void sim_library_says(const char *text);

/* ---- kernels (ptx_parse.c, ptx_run.c) ----------------------------------- */

typedef struct ptx_kernel ptx_kernel;
typedef struct ptx_module ptx_module;

/* Parses a module. Returns NULL, with a report, if a line is not supported. */
ptx_module *ptx_load(const char *text);
void ptx_free(ptx_module *module);
const ptx_kernel *ptx_find(const ptx_module *module, const char *name);

/* Returns the size in bytes of all parameters, and stores their number, offsets
 * and sizes. */
size_t ptx_parameters(const ptx_kernel *kernel, size_t *count,
                      const size_t **offset, const size_t **bytes);

/* Returns the largest thread block that the kernel was compiled for. */
unsigned ptx_most_threads(const ptx_kernel *kernel);

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    unsigned grid, block;
    void *parameters; /* values of the parameters, at the offsets of
                       * ptx_parameters */
    unsigned sample;  /* run only this many thread blocks, evenly spaced,
                       * without checks of shared memory; 0: run all */
    uint64_t *steps;  /* receives the number of warp instructions that ran; may
                       * be NULL */
} ptx_launch;

/* Runs a launch. Returns 0, or the device's error after a report. */
tn_cu_result ptx_run(const ptx_launch *launch, const sim_actor *actor);

#endif
