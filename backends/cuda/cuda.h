/* cuda.h: types and functions that the files of the CUDA plugin share. */
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

/* Rounds x to the nearest float, whatever the caller's rounding mode. The
 * volatile variables keep the compiler from moving the conversion out of the
 * two mode changes. */
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

/* Records in the fault buffer of a queue: 2.5 MiB. */
#define TN_CUDA_FAULTS 65536

/* A device that the driver lists. Listing opens nothing. */
typedef struct tn_cuda_listed {
    tn_cu_device device;
    int major, minor; /* compute capability */
    bool usable;      /* if not, info.note says why */
    tn_device_info info;
} tn_cuda_listed;

/* A compiled kernel in a hash table that is read without a lock. A slot's
 * function is stored last. A table that has become too small is freed only when
 * the device is closed. */
typedef struct tn_cuda_kernel {
    uint64_t key[2];
    tn_cu_module module; /* owned */
    _Atomic(tn_cu_function) function; /* NULL: the slot is free */
} tn_cuda_kernel;

typedef struct tn_cuda_table {
    struct tn_cuda_table *older; /* owned */
    size_t capacity, count;      /* capacity is a power of two */
    tn_cuda_kernel slot[];       /* open addressing by key */
} tn_cuda_table;

/* Algorithms that cuBLASLt chose (cuda_product.c) and plans of cuDNN (cudnn.c),
 * each for one queue. */
typedef struct tn_cuda_choices tn_cuda_choices;
typedef struct tn_cuda_plans tn_cuda_plans;
/* For which classes of attention cuDNN was compared with Tenon's own kernels
 * (attention_check.c). */
typedef struct tn_cuda_checks tn_cuda_checks;

typedef struct tn_cuda_compilation tn_cuda_compilation; /* cuda_compile.c */

struct tn_plugin_device {
    const tn_cuda_listed *listed;
    tn_cu_context context; /* the primary one, retained */
    tn_target target;
    bool blocking;  /* option `blocking`: wait after each piece of work */
    bool wants_ptx; /* option `code` is ptx: the driver compiles PTX */
    /* Option `matmul`: "own" never uses cuBLASLt; "cublaslt" makes a missing
     * cuBLASLt an error. Option `tf32` multiplies float32 in TF32 (19 bits). */
    bool own_products, lt_wanted, tf32;
    /* Option `attention`: "own" never uses cuDNN; "cudnn" uses it without a
     * check. */
    bool own_attention, dnn_attention;
    _Atomic bool lt_failed;               /* cuBLASLt could not be opened */
    _Atomic(struct cublasLtContext *) lt; /* owned; NULL: not created yet */
    /* For factorisations: owned, NULL until needed, used under build_lock. */
    struct syevjInfo *jacobi;
    struct cusolverDnContext *solver;
    struct cublasContext *blas;
    char arch[48];      /* "--gpu-architecture=sm_90" */
    int driver_version; /* 13000 is CUDA 13.0 */
    /* build_lock guards changes to the table of kernels and to the list of
     * kernels that threads compile at this moment. Threads compile without it.
     * `compiled` is signalled when a kernel is done. */
    pthread_mutex_t build_lock;
    pthread_cond_t compiled;
    struct tn_cuda_compilation *compilations;
    _Atomic(tn_cuda_table *) kernels; /* owned; NULL: no kernel yet */
    _Atomic uint64_t peers; /* bit i: peer access to device i was requested */
    /* A buffer could not be allocated: the next sync frees scratch memory. */
    _Atomic bool short_of_memory;
};

struct tn_buffer {
    const tn_plugin_device *device;
    tn_cu_pointer pointer; /* owned */
    uint64_t bytes;
};

/* The device address of an element of x, counted from x->offset. The host never
 * reads it. */
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
    /* On the device, owned, 0 until needed: the fault buffer; scratch memory,
     * as large as the largest request; argument words that are too long for a
     * launch. */
    tn_cu_pointer faults, scratch, words;
    uint64_t scratch_bytes;
    tn_recorded *capture;     /* owned: captures the work; NULL: work runs */
    tn_cuda_choices *choices; /* owned; NULL: none yet */
    tn_cuda_plans *plans;     /* likewise */
    tn_cuda_checks *checks;   /* likewise */
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
    bool may_fault;         /* a kernel of it may record index faults */
    /* The queue's values, restored when the capture ends. */
    tn_cu_pointer scratch;
    uint64_t scratch_bytes;
    bool queue_may_fault;
    tn_cu_stream copy_stream; /* for copies that are not captured */
};

struct tn_event {
    const tn_plugin_device *device;
    tn_cu_event event; /* owned */
};

/* ---- errors (cuda_error.c) ----------------------------------------------- */

/* TN_OK for error 0. Else records the error of the driver's function `what`
 * ("cuMemAlloc") and returns its status. */
tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                        tn_cu_result error);

tn_status tn__cuda_fail_deferred(tn_queue *queue, tn_cu_result error,
                                 tn_fault *fault);

/* Between TN_CUDA_ENTER(device) and the end of the block, the device's context
 * is the thread's current one. Then the previous context is restored, because
 * other code in the process may use CUDA. entered.error is 0 or the driver's
 * error. */
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

/* Chooses the architecture to compile for. An error if this NVRTC makes no code
 * that the driver can load. */
tn_status tn__cuda_arch_choose(tn_plugin_device *device);
/* The function of a plan, compiled if it is not in the table. program is NULL
 * for a primitive. */
tn_status tn__cuda_kernel(tn_plugin_device *device, const tn_program *program,
                          const tn_plan *plan, tn_cu_function *out);
void tn__cuda_kernels_unload(tn_plugin_device *device);
void tn__cuda_kernels_free(tn_plugin_device *device);

/* ---- matrix products (cuda_product.c) ------------------------------------ */

/* TN_ERR_UNSUPPORTED, with no error text: use Tenon's own kernel. */
tn_status tn__cuda_product(tn_queue *queue, const tn_matmul_args *matmul);
extern const tn_product_extension tn__cuda_product_extension;
/* Does cuBLASLt compute this device's products? */
bool tn__cuda_has_cublaslt(tn_plugin_device *device);
/* Why cuBLASLt cannot be opened. NULL: it is open, or was not needed yet. */
const char *tn__cuda_cublaslt_error(void);
void tn__cuda_cublaslt_close(tn_plugin_device *device);
void tn__cuda_choices_free(tn_cuda_choices *choices);

/* A hash of a shape. bytes is a multiple of 8. */
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
/* Are cuDNN's results accurate for attentions like this one? */
typedef bool tn_cuda_is_accurate(tn_queue *queue,
                                 const tn_attention_args *attention);
/* Attention by cuDNN, if is_accurate returns true for it. TN_ERR_UNSUPPORTED,
 * with no error text: use Tenon's own kernel. */
tn_status tn__cuda_attention_cudnn(tn_queue *queue,
                                   const tn_attention_args *attention,
                                   tn_cuda_is_accurate *is_accurate);
/* Attention by cuDNN without that check; the device's context is current.
 * TN_ERR_UNSUPPORTED, with *why set and no error text, if cuDNN cannot compute
 * it. */
tn_status tn__cuda_attention_try(tn_queue *queue,
                                 const tn_attention_args *attention,
                                 const char **why);
/* Does cuDNN give the results of Tenon's own kernels for attentions of this
 * class? Runs a test attention the first time. The device's context is
 * current. */
tn_cuda_is_accurate tn__cuda_attention_is_accurate;
void tn__cuda_checks_free(tn_cuda_checks *checks);
extern const tn_attention_extension tn__cuda_attention; /* attention_choose.c */

/* ---- factorisations (cuda_factor.c) -------------------------------------- */

extern const tn_lapack_extension tn__cuda_lapack;
void tn__cuda_factor_close(tn_plugin_device *device);

/* ---- what work needs of its queue (cuda_work.c) -------------------------- */

/* How the fault buffer of a queue is allocated, cleared and read. */
extern const tn_fault_buffer tn__cuda_faults;

/* Before a launch that may record index faults. */
static inline tn_cu_result tn__cuda_faults_ready(tn_queue *queue)
{
    return tn__faults_ready(&tn__cuda_faults, queue, &queue->pending);
}
tn_cu_result tn__cuda_scratch_ready(tn_queue *queue, uint64_t bytes);
tn_cu_result tn__cuda_words_ready(tn_queue *queue, const tn_plan *plan,
                                  tn_cu_pointer *out);

/* After a piece of work was submitted. With option `blocking`: waits, and
 * reports its failure. */
tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag);

/* ---- graphs (cuda_graph.c) ----------------------------------------------- */

extern const tn_graph_replay_extension tn__cuda_graph_replay;

/* ---- Tenon's own kernels (cuda_launch.c) --------------------------------- */

tn_status tn__cuda_conv_own(tn_queue *queue, const tn_conv_args *args);
tn_status tn__cuda_attention_own(tn_queue *queue,
                                 const tn_attention_args *attention);

/* ---- slots of the plugin's table, by the file that fills them ------------ */

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

/* Declares tn__cuda_<slot> with the type that plugin.h gives to the slot. */
#define TN_CUDA_DECLARE(slot)                                                 \
    __typeof__(*((tn_plugin *)0)->slot) tn__cuda_##slot;
TN_CUDA_SLOTS(TN_CUDA_DECLARE)

#endif
