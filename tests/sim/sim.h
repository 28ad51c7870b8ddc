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

/* CUresult values that the plugin does not tell apart */
enum {
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_HANDLE = 400,
    SIM_CAPTURE_UNSUPPORTED = 900,
    /* What no device would say, such as a race: the context is lost with this,
     * so that no test passes over it. */
    SIM_FOUND = TN_CU_LAUNCH_FAILED
};

/* Says what a real driver would not, to stderr and for sim_said; the error. */
tn_cu_result sim_refuse(tn_cu_result error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define sim_say(...) ((void)sim_refuse(0, __VA_ARGS__))

/* ---- calls (driver.c) --------------------------------------------------- */

bool sim_lock(void);
void sim_unlock(const bool *holds);
/* What the call returns at once, or 0. name: of the function. */
tn_cu_result sim_enter(const char *name, bool needs_context);

/* Holds the lock until the function returns, wherever it does. */
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

/* The next of a sequence that TENON_SIM_SEED begins, below limit; 0, always,
 * where it is not set. */
unsigned sim_random(unsigned limit);

/* ---- contexts and handles (driver.c) ------------------------------------ */

struct CUctx_st {
    int device;
    int retained;
    tn_cu_result sticky; /* after a fault, what every call returns */
};

/* The calling thread's. */
struct CUctx_st *sim_current(void);

/* How a stream, event or module begins. It is kept after its end, so that its
 * use then is seen. */
typedef struct sim_handle {
    const char *kind; /* "stream" */
    struct CUctx_st *context;
    bool live;
    struct sim_handle *older;
} sim_handle;

/* Of the current context; NULL: no memory. */
void *sim_handle_make(const char *kind, size_t bytes);
/* SIM_INVALID_HANDLE, said, unless it is a live one of that kind and, if asked
 * for, of the current context. */
tn_cu_result sim_handle_check(const void *handle, const char *kind,
                              bool of_current);
#define ENTER_WITH(handle, kind, of_current)                                  \
    ENTER(true);                                                              \
    TRY(sim_handle_check(handle, kind, of_current))

/* ---- the order of work (stream.c) --------------------------------------- */

/* Who works: the n-th piece of work of a stream, and how many of each other
 * stream's are known to be done before it. */
#define SIM_CLOCKS 16
typedef struct sim_clock {
    uint32_t done[SIM_CLOCKS];
} sim_clock;
typedef struct sim_actor {
    struct CUctx_st *context;
    unsigned stream; /* < SIM_CLOCKS; of those that share a number, nothing is
                      * found */
    uint32_t work;
    sim_clock clock;
} sim_actor;

/* One piece of work: run is called when its turn comes, release after that or
 * when it is dropped. Both are given a struct that begins with one. */
typedef struct sim_work {
    struct sim_work *next;
    tn_cu_result (*run)(struct sim_work *work, const sim_actor *actor);
    void (*release)(struct sim_work *work); /* or NULL */
    void *owned;                            /* malloc's, or NULL */
    const void *uses; /* a module that must not go before */
    int kind;         /* of copies: which sides are the host's */
    sim_clock given; /* what the host knew to be done when it gave this */
} sim_work;

/* Pieces of work, in their order; owned. */
typedef struct sim_queue {
    sim_work *first, **last; /* the latter: where the next one goes */
} sim_queue;
void sim_queue_drop(sim_queue *queue);
bool sim_queue_uses(const sim_queue *queue, const void *uses);

/* Gives a stream a copy of that work, of so many bytes; what it holds is given
 * with it, and released now if there is an error. */
tn_cu_result sim_give(tn_cu_stream stream, void *work, size_t bytes);

/* A stream that captures: work given to it goes to the graph. */
bool sim_captures(tn_cu_stream stream);
/* Does a graph that lives use this? (graph.c) */
bool sim_graph_uses(const void *uses);

/* What a stream captured, in its order. */
struct CUgraph_st {
    sim_handle handle;
    sim_queue work;
    int holders; /* the graph, and what was made of it */
};

/* Everything that was given to the streams of a context, of which the host
 * then knows that it is done. */
void sim_finish(const struct CUctx_st *context);

/* Drops what is left in the streams of a context; does any work use this? */
void sim_drop(const struct CUctx_st *context);
bool sim_is_used(const void *uses);

/* Runs some work here and there, if TENON_SIM_SEED is set. */
void sim_stir(void);

/* ---- device memory (memory.c) ------------------------------------------- */

/* Device addresses are those of a region that the process may not touch; the
 * same memory stands elsewhere too, where the driver reaches it. An address is
 * never given out twice. */
tn_cu_result sim_memory_alloc(int device, size_t bytes, tn_cu_pointer *out);
tn_cu_result sim_memory_free(tn_cu_pointer pointer);
void sim_memory_info(int device, size_t *left, size_t *total);
/* How many allocations live; the device that has an address, -1: none. */
size_t sim_memory_live(int device);
int sim_memory_device(tn_cu_pointer at);

/* What is done with memory: by a kernel, which reads what has been written, of
 * its own device; by a copy, which may carry what has not, to any. */
enum { SIM_READ, SIM_WRITE, SIM_CARRY, SIM_PUT };

/* Where the driver reaches [at, at + bytes) for somebody's access. NULL, said,
 * with *error set, if that is not within one live allocation, if a kernel reads
 * what nothing has written, or if another stream's access has no order with
 * this one. what: "a copy's read"; NULL: nothing is said. */
void *sim_memory_at(const sim_actor *actor, int how, const char *what,
                    tn_cu_pointer at, size_t bytes, tn_cu_result *error);
/* The same for what the threads of a warp reach in a kernel, bytes each at its
 * alignment, saying nothing: what may not stays as it was in `to`. */
void sim_memory_lanes(const sim_actor *actor, bool writes, const uint64_t *at,
                      unsigned count, size_t bytes, unsigned char **to);
/* What was not written at src is not written at dst either. */
void sim_memory_carry(tn_cu_pointer dst, tn_cu_pointer src, size_t bytes);

/* ---- for the simulated libraries (stream.c) ----------------------------- */

/* A library's kernel: run when its stream is, with a copy of bytes of context;
 * 0, or what the device ends with. */
typedef tn_cu_result sim_function(void *context, const sim_actor *actor);
EXPORT tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                             const void *context, size_t bytes);
/* sim_memory_at, for what sim_call runs; sim_say, for the rest. */
EXPORT void *sim_reach(const sim_actor *actor, int how, const char *what,
                       tn_cu_pointer at, size_t bytes, tn_cu_result *error);
EXPORT void sim_library_says(const char *text);

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

/* The greatest group that the kernel was compiled for. */
unsigned ptx_most_threads(const ptx_kernel *kernel);

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    unsigned grid, block;
    void *parameters; /* their bytes, as ptx_parameters places them */
    unsigned sample;  /* so many groups run, evenly spaced, and what they do
                       * to shared memory is not checked; 0: all */
    uint64_t *steps;  /* takes the instructions that warps ran; or NULL */
} ptx_launch;

/* 0, or what the device would end with; said. */
tn_cu_result ptx_run(const ptx_launch *launch, const sim_actor *actor);

#endif
