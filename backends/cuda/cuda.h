/* cuda.h: types and functions that the files of the CUDA plugin share.
 *
 * The core is the library libtenon, which calls the plugin. A piece of work is
 * what one call of the core submits to a queue: a launch of a program, a
 * primitive, a copy or a call of an extension. A queue is a CUDA stream. "Own
 * kernels" are Tenon's kernels, whose source the core prints. All other kernels
 * are in NVIDIA's libraries. */
#ifndef TN_CUDA_CUDA_H
#define TN_CUDA_CUDA_H

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <tenon/plugin.h>

#include "../shared/shared.h"
#include "cuda_driver.h"

/* Rounds x to the nearest float in any rounding mode of the caller. The
 * variables are volatile so that the compiler cannot move the conversion before
 * the mode is set or after it is restored. */
static inline float tn__cuda_to_float(double x)
{
    fenv_t before;
    volatile double from = x;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    volatile float single = (float)from;
    fesetenv(&before);
    return single;
}

/* The number of records in a queue's fault buffer, in which kernels report
 * indices that are out of range. The buffer takes 2.5 MiB. */
#define TN_CUDA_FAULTS 65536

/* A device that the driver lists. Listing a device does not open it. */
typedef struct tn_cuda_listed {
    tn_cu_device device;
    int major, minor; /* compute capability */
    bool usable;      /* if false, info.note says why */
    tn_device_info info;
} tn_cuda_listed;

/* An entry of the hash table of compiled kernels, which is read without a lock.
 * When an entry is made, its function is stored last. If a table becomes too
 * small, a larger one replaces it. The old table is freed when the device is
 * closed, because threads may still read it. */
typedef struct tn_cuda_kernel {
    uint64_t key[2];
    tn_cu_module module; /* owned */
    _Atomic(tn_cu_function) function; /* NULL if the entry is free */
} tn_cuda_kernel;

typedef struct tn_cuda_table {
    struct tn_cuda_table *older; /* owned: the smaller table that this one
                                    replaced */
    size_t capacity, count;      /* capacity is a power of two */
    tn_cuda_kernel slot[];       /* a hash table with open addressing */
} tn_cuda_table;

/* cached algorithms of cuBLASLt (cuda_product.c) and cached plans of cuDNN
 * (cudnn.c) of a queue */
typedef struct tn_cuda_choices tn_cuda_choices;
typedef struct tn_cuda_plans tn_cuda_plans;
/* Kinds of attention for which cuDNN was compared with Tenon's own kernels, and
 * whether its results were right (attention_check.c). */
typedef struct tn_cuda_checks tn_cuda_checks;

/* A kernel that a thread is compiling (cuda_compile.c). */
typedef struct tn_cuda_compilation tn_cuda_compilation;

struct tn_plugin_device {
    const tn_cuda_listed *listed;
    tn_cu_context context; /* owned reference: the device's primary context */
    tn_target target;
    bool blocking;  /* option `blocking`: waits after each piece of work */
    bool wants_ptx; /* option `code` is "ptx": NVRTC makes PTX, which the driver
                       compiles */
    /* own_products: cuBLASLt is never used (option `matmul` is "own").
     * lt_wanted: a missing cuBLASLt is an error (option `matmul` is
     * "cublaslt"). tf32: float32 matrices are multiplied in TF32, 19 bits
     * (option `tf32`). */
    bool own_products, lt_wanted, tf32;
    /* own_attention: cuDNN is never used for attention (option `attention` is
     * "own"). dnn_attention: cuDNN is used without checking its results (option
     * `attention` is "cudnn"). */
    bool own_attention, dnn_attention;
    _Atomic bool lt_failed;               /* cuBLASLt could not be opened */
    _Atomic(struct cublasLtContext *) lt; /* owned; NULL until it is created */
    /* Owned handles for factorisations. They are NULL until the first
     * factorisation and guarded by build_lock. */
    struct syevjInfo *jacobi;
    struct cusolverDnContext *solver;
    struct cublasContext *blas;
    char arch[48];      /* option for NVRTC, such as
                           "--gpu-architecture=sm_90" */
    int driver_version; /* CUDA version of the driver; 13000 means 13.0 */
    /* build_lock guards changes of the table of kernels and of the list of
     * kernels that are being compiled. It is not held during a compilation.
     * `compiled` is signalled at the end of each compilation. */
    pthread_mutex_t build_lock;
    pthread_cond_t compiled;
    struct tn_cuda_compilation *compilations;
    /* owned: the table of compiled kernels; NULL until one is compiled */
    _Atomic(tn_cuda_table *) kernels;
    /* mask of the devices to which peer access was requested */
    _Atomic uint64_t peers;
    /* Set when a buffer could not be allocated. The next sync then frees
     * scratch memory. */
    _Atomic bool short_of_memory;
};

struct tn_buffer {
    const tn_plugin_device *device;
    tn_cu_pointer pointer; /* owned */
    uint64_t bytes;
};

/* Returns the device address of element `element` of x, counted from element
 * x->offset of its buffer. The host must not dereference the address. */
static inline void *tn__cuda_address(const tn_strided *x, int64_t element)
{
#define TN_CUDA_BYTES(name, code, text, bytes, kind, reg) [code] = bytes,
    static const uint8_t bytes[TN_DTYPE_END] = {TN_DTYPE_MAP(TN_CUDA_BYTES)};
    return (void *)(uintptr_t)(x->buffer->pointer +
                               (uint64_t)(x->offset + element) *
                                   bytes[x->dtype]);
}

struct tn_queue {
    tn_plugin_device *device;
    tn_cu_stream stream; /* owned */
    /* Memory on the device, owned, 0 until it is needed. faults is the buffer
     * in which kernels report indices that are out of range. scratch is
     * temporary memory, as large as the largest request so far. words contains
     * kernel arguments that are too long to be passed in a launch. */
    tn_cu_pointer faults, scratch, words;
    uint64_t scratch_bytes;
    /* Owned: the CUDA graph that captures the queue's work. NULL if work is
     * executed and not captured. */
    tn_recorded *capture;
    tn_cuda_choices *choices; /* owned; NULL until the first product */
    tn_cuda_plans *plans;     /* owned; NULL until cuDNN is first used */
    tn_cuda_checks *checks;   /* owned; NULL until the first check */
    tn_pending pending;
};

/* Memory that a captured graph owns. */
typedef struct tn_cuda_memory {
    struct tn_cuda_memory *next;
    tn_cu_pointer pointer; /* owned */
} tn_cuda_memory;

/* A captured graph (cuda_graph.c). */
struct tn_recorded {
    tn_cu_graph_exec exec;  /* owned */
    tn_cuda_memory *memory; /* owned */
    /* whether one of its kernels may report an index out of range */
    bool may_fault;
    /* The queue's values before the capture, which are restored when it
     * ends. */
    tn_cu_pointer scratch;
    uint64_t scratch_bytes;
    bool queue_may_fault;
    tn_cu_stream copy_stream; /* stream for copies that are executed during the
                                 capture */
};

struct tn_event {
    const tn_plugin_device *device;
    tn_cu_event event; /* owned */
};

/* ---- errors (cuda_error.c) ----------------------------------------------- */

/* Converts a result of the driver to a status and, if it is an error, records
 * it. `what` is the name of the driver's function, such as "cuMemAlloc". */
tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                        tn_cu_result error);

/* Records a failure of work that was submitted earlier, sets *fault and returns
 * the status of the failure. */
tn_status tn__cuda_fail_deferred(tn_queue *queue, tn_cu_result error,
                                 tn_fault *fault);

/* TN_CUDA_ENTER(device) makes the device's context the thread's current one
 * until the end of the block. Then the previous context is restored, because
 * other code in the process may use CUDA. It declares the variable `entered`,
 * whose field error is 0 or the driver's error. */
typedef struct tn_cuda_entered {
    tn_cu_context before;
    tn_cu_result error;
    bool changed;
} tn_cuda_entered;

static inline tn_cuda_entered tn__cuda_enter(const tn_plugin_device *device)
{
    tn_cuda_entered e = {.error = tn__cuda_forked
                                      ? TN_CU_FORKED
                                      : tn__cu.context_get(&e.before)};
    if (!e.error && e.before != device->context) {
        e.error = tn__cu.context_set(device->context);
        e.changed = true;
    }
    return e;
}

static inline void tn__cuda_leave(const tn_cuda_entered *e)
{
    if (e->changed)
        tn__cu.context_set(e->before);
}

#define TN_CUDA_ENTER(device)                                                 \
    __attribute__((cleanup(tn__cuda_leave), unused))                          \
    const tn_cuda_entered entered = tn__cuda_enter(device)

/* ---- kernels (cuda_compile.c) -------------------------------------------- */

/* Chooses the GPU architecture to compile for and sets device->arch. Fails if
 * the installed NVRTC cannot produce code that the driver can load. */
tn_status tn__cuda_arch_choose(tn_plugin_device *device);
/* Sets *out to the compiled kernel of a plan, and compiles the kernel if the
 * table does not have it. program is NULL for a primitive. */
tn_status tn__cuda_kernel(tn_plugin_device *device, const tn_program *program,
                          const tn_plan *plan, tn_cu_function *out);
void tn__cuda_kernels_unload(tn_plugin_device *device);
void tn__cuda_kernels_free(tn_plugin_device *device);

/* ---- matrix products (cuda_product.c) ------------------------------------ */

/* Computes a matrix product by cuBLASLt. Returns TN_ERR_UNSUPPORTED without
 * recording an error if the caller should use Tenon's own kernel. */
tn_status tn__cuda_product(tn_queue *queue, const tn_matmul_args *matmul);
extern const tn_product_extension tn__cuda_product_extension;
/* Returns whether cuBLASLt computes this device's matrix products. */
bool tn__cuda_has_cublaslt(tn_plugin_device *device);
/* Returns the reason why cuBLASLt cannot be opened. Returns NULL if it is open
 * or has not been needed yet. */
const char *tn__cuda_cublaslt_error(void);
void tn__cuda_cublaslt_close(tn_plugin_device *device);
void tn__cuda_choices_free(tn_cuda_choices *choices);

/* Returns a hash of an array. The array's size in bytes must be a multiple of
 * 8. */
static inline size_t tn__cuda_hash(const void *words, size_t bytes)
{
    const unsigned char *at = words;
    uint64_t hash = 0, word;
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, at + i, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (size_t)(hash >> 40);
}

/* ---- cuDNN (cudnn.c, cuda_conv.c, cuda_attention.c) ---------------------- */

void tn__cuda_plans_free(tn_cuda_plans *plans);
extern const tn_conv_extension tn__cuda_conv;
/* A function that returns whether cuDNN's results are accurate for attentions
 * like this one. */
typedef bool tn_cuda_is_accurate(tn_queue *queue,
                                 const tn_attention_args *attention);
/* Computes an attention by cuDNN. Returns TN_ERR_UNSUPPORTED without recording
 * an error if cuDNN does not support the attention or is_accurate returns false
 * for it. The caller then uses Tenon's own kernel. */
tn_status tn__cuda_attention_cudnn(tn_queue *queue,
                                   const tn_attention_args *attention,
                                   tn_cuda_is_accurate *is_accurate);
/* Computes an attention by cuDNN without checking its accuracy. The device's
 * context must be current. If cuDNN cannot compute it, sets *why to the reason
 * and returns TN_ERR_UNSUPPORTED without recording an error. */
tn_status tn__cuda_attention_try(tn_queue *queue,
                                 const tn_attention_args *attention,
                                 const char **why);
/* Returns whether cuDNN gives the results of Tenon's own kernels for attentions
 * of this kind. At the first call for a kind, computes a small attention in
 * both ways and compares the results. The device's context must be current. */
tn_cuda_is_accurate tn__cuda_attention_is_accurate;
void tn__cuda_checks_free(tn_cuda_checks *checks);
extern const tn_attention_extension tn__cuda_attention; /* attention_choose.c */

/* ---- factorisations (cuda_factor.c) -------------------------------------- */

extern const tn_lapack_extension tn__cuda_lapack;
void tn__cuda_factor_close(tn_plugin_device *device);

/* ---- what work needs of its queue (cuda_work.c) -------------------------- */

/* The functions that allocate, clear and read the fault buffer of a queue. */
extern const tn_fault_buffer tn__cuda_faults;

/* Prepares the fault buffer before a launch that may report an index out of
 * range. */
static inline tn_cu_result tn__cuda_faults_ready(tn_queue *queue)
{
    return tn__faults_ready(&tn__cuda_faults, queue, &queue->pending);
}
/* Ensures that queue->scratch has at least `bytes` bytes. */
tn_cu_result tn__cuda_scratch_ready(tn_queue *queue, uint64_t bytes);
/* Copies a plan's kernel arguments to the device and sets *out to their
 * address. Used for arguments that are too long to be passed in a launch. */
tn_cu_result tn__cuda_words_ready(tn_queue *queue, const tn_plan *plan,
                                  tn_cu_pointer *out);

/* Must be called after a piece of work was submitted. With option `blocking` it
 * waits for the work and reports its failure. */
tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag);

/* ---- graphs (cuda_graph.c) ----------------------------------------------- */

extern const tn_graph_replay_extension tn__cuda_graph_replay;

/* ---- Tenon's own kernels (cuda_launch.c) --------------------------------- */

extern const tn_quantised_product_extension tn__cuda_quantised;
extern const tn_epilogue_extension tn__cuda_epilogue;
tn_status tn__cuda_conv_own(tn_queue *queue, const tn_conv_args *args);
tn_status tn__cuda_attention_own(tn_queue *queue,
                                 const tn_attention_args *attention);

/* ---- the plugin's functions, by the file that defines them --------------- */

#define TN_CUDA_SLOTS(X)                                                      \
    /* cuda_device.c */                                                       \
    X(device_count) X(device_info) X(device_open) X(device_close)             \
    /* cuda_memory.c */                                                       \
    X(buffer_alloc) X(buffer_free) X(host_alloc) X(host_free) X(copy)         \
    /* cuda_queue.c */                                                        \
    X(queue_open) X(queue_close) X(queue_sync) X(queue_wait)                  \
    X(event_open) X(event_close) X(event_record) X(event_query)               \
    X(event_open_timed) X(event_elapsed)                                      \
    /* cuda_launch.c */                                                       \
    X(program_build) X(program_free) X(launch) X(matmul) X(scatter) X(scan)   \
    X(sort)

/* Declares the function tn__cuda_<slot>, where slot is a function pointer in
 * tn_plugin, with the type of that pointer. */
#define TN_CUDA_DECLARE(slot)                                                 \
    __typeof__(*((tn_plugin *)0)->slot) tn__cuda_##slot;
TN_CUDA_SLOTS(TN_CUDA_DECLARE)

#endif
