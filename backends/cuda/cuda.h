/* cuda.h: what the files of this plugin share. */
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

/* x rounded to the nearest float, whatever the caller's mode is; volatile keeps
 * the conversion between the two changes of it. */
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

/* Records of a queue's fault buffer: 2.5 MiB. */
#define TN_CUDA_FAULTS 65536

/* A device that the driver has; nothing of it is open. */
typedef struct tn_cuda_listed {
    tn_cu_device device;
    int major, minor; /* compute capability */
    bool usable;      /* else info.note says why not */
    tn_device_info info;
} tn_cuda_listed;

/* A built kernel. The table of them is read without a lock: a slot's function
 * is stored last, and a table that has become too small stays until the device
 * is closed. */
typedef struct tn_cuda_kernel {
    uint64_t key[2];
    tn_cu_module module; /* owned */
    _Atomic(tn_cu_function) function; /* NULL: the slot is free */
} tn_cuda_kernel;

typedef struct tn_cuda_table {
    struct tn_cuda_table *older; /* owned */
    size_t room, count;          /* room: a power of two */
    tn_cuda_kernel slot[];       /* open addressing by key */
} tn_cuda_table;

/* What was chosen for a queue's products (cuda_product.c), of cuDNN (cudnn.c). */
typedef struct tn_cuda_choices tn_cuda_choices;
typedef struct tn_cuda_plans tn_cuda_plans;
/* For which attentions cuDNN was compared with the own kernels
 * (attention_check.c). */
typedef struct tn_cuda_checks tn_cuda_checks;

typedef struct tn_cuda_compilation tn_cuda_compilation; /* cuda_compile.c */

struct tn_plugin_device {
    const tn_cuda_listed *listed;
    tn_cu_context context; /* the primary one, retained */
    tn_target target;
    bool blocking;    /* option `blocking`: each piece of work is waited for */
    bool wants_ptx;   /* option `code`: ptx, which the driver compiles */
    /* Matrix products: option `matmul` is own, or cublaslt, whose absence is an
     * error then; option `tf32` has f32 multiplied in 19 bits. */
    bool own_products, lt_wanted, tf32;
    /* Option `attention`: own, or cudnn, which is not checked then. */
    bool own_attention, dnn_attention;
    _Atomic bool lt_failed; /* it was looked for in vain */
    _Atomic(struct cublasLtContext *) lt; /* owned; NULL: none yet */
    /* Factorisations: owned, NULL until needed, used under build_lock. */
    struct syevjInfo *jacobi;
    struct cusolverDnContext *solver;
    struct cublasContext *blas;
    char arch[48];    /* "--gpu-architecture=sm_90" */
    int driver_version; /* 13000: 13.0 */
    /* The table of kernels changes under it; those that threads make now, without
     * it, and the news that one has been made. */
    pthread_mutex_t build_lock;
    pthread_cond_t compiled;
    struct tn_cuda_compilation *compilations;
    _Atomic(tn_cuda_table *) kernels; /* owned; NULL: none yet */
    _Atomic uint64_t peers; /* a bit for each device that was copied from */
    /* A buffer was refused: the next sync gives back scratch memory. */
    _Atomic bool short_of_memory;
};

struct tn_buffer {
    const tn_plugin_device *device;
    tn_cu_pointer pointer; /* owned */
    uint64_t bytes;
};

/* Where an element of x lies, counted from its offset on: the host never looks
 * there. */
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
    /* On the device, owned, 0 until needed: the list of index faults, the
     * greatest scratch that was needed, argument words too long for a
     * launch. */
    tn_cu_pointer faults, scratch, words;
    uint64_t scratch_bytes;
    tn_recorded *capture; /* owned: what is recorded; NULL: work runs */
    tn_cuda_choices *choices; /* owned; NULL: none yet */
    tn_cuda_plans *plans;     /* likewise */
    tn_cuda_checks *checks;   /* likewise */
    tn_pending pending;
};

typedef struct tn_cuda_memory {
    struct tn_cuda_memory *next;
    tn_cu_pointer pointer; /* owned */
} tn_cuda_memory;

struct tn_recorded {
    tn_cu_graph_exec exec;  /* owned */
    tn_cuda_memory *memory; /* owned */
    bool may_fault;         /* a kernel of it may record index faults */
    /* The queue's own, while it captures. */
    tn_cu_pointer scratch;
    uint64_t scratch_bytes;
    bool queue_may_fault;
    tn_cu_stream aside; /* for what is done while it captures */
};

struct tn_event {
    const tn_plugin_device *device;
    tn_cu_event event; /* owned */
};

/* ---- errors (cuda_error.c) ------------------------------------------------- */

/* Records what a call of the driver returned, what = "cuMemAlloc"; TN_OK, and
 * nothing is recorded, for 0. */
tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                        tn_cu_result error);

tn_status tn__cuda_fail_deferred(tn_queue *queue, tn_cu_result error,
                                 tn_fault *fault);

/* From TN_CUDA_ENTER(device) to the end of the block the calling thread's
 * current context is that of the device, and then what it was before: others in
 * the process may use CUDA, too. entered.error: 0, or what the driver says. */
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

/* ---- kernels (cuda_compile.c) ------------------------------------------------ */

/* For which architecture is compiled; an error if this NVRTC makes nothing that
 * the driver would load. */
tn_status tn__cuda_arch_choose(tn_plugin_device *device);
/* The function of a plan, built if need be. program NULL: of a primitive. */
tn_status tn__cuda_kernel(tn_plugin_device *device, const tn_program *program,
                          const tn_plan *plan, tn_cu_function *out);
void tn__cuda_kernels_unload(tn_plugin_device *device);
void tn__cuda_kernels_free(tn_plugin_device *device);

/* ---- matrix products (cuda_product.c) ---------------------------------------- */

/* TN_ERR_UNSUPPORTED, without words: it is for the core's own kernel. */
tn_status tn__cuda_product(tn_queue *queue, const tn_matmul_args *matmul);
extern const tn_product_extension tn__cuda_product_extension;
/* Are products cuBLASLt's? */
bool tn__cuda_has_cublaslt(tn_plugin_device *device);
/* Why there is no cuBLASLt; NULL: there is, or nobody has asked yet. */
const char *tn__cuda_cublaslt_error(void);
void tn__cuda_cublaslt_close(tn_plugin_device *device);
void tn__cuda_choices_free(tn_cuda_choices *choices);

/* Of a shape: bytes, a multiple of eight. */
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

/* ---- by cuDNN (cudnn.c, cuda_conv.c, cuda_attention.c) ---------------------------- */

void tn__cuda_plans_free(tn_cuda_plans *plans);
extern const tn_conv_extension tn__cuda_conv;
/* TN_ERR_UNSUPPORTED, without words: it is for the core's own kernel. */
typedef bool tn_cuda_is_accurate(tn_queue *queue,
                                 const tn_attention_args *attention);
tn_status tn__cuda_attention_cudnn(tn_queue *queue,
                                   const tn_attention_args *attention,
                                   tn_cuda_is_accurate *is_accurate);
/* By cuDNN, whether that is right or not, with the device's context current;
 * TN_ERR_UNSUPPORTED, without words but with *why set, if that cannot be. */
tn_status tn__cuda_attention_try(tn_queue *queue,
                                 const tn_attention_args *attention,
                                 const char **why);
/* Has cuDNN the own kernels' results for attentions like this one? Tries it the
 * first time, with the device's context current. */
tn_cuda_is_accurate tn__cuda_attention_is_accurate;
void tn__cuda_checks_free(tn_cuda_checks *checks);
extern const tn_attention_extension tn__cuda_attention; /* attention_choose.c */

/* ---- factorisations (cuda_factor.c) ------------------------------------------ */

extern const tn_lapack_extension tn__cuda_lapack;
void tn__cuda_factor_close(tn_plugin_device *device);

/* ---- what work needs of its queue (cuda_work.c) --------------------------------------- */

/* The fault buffer of a queue. */
extern const tn_fault_buffer tn__cuda_faults;

/* The queue has a list of faults; its scratch memory has so many bytes. */
static inline tn_cu_result tn__cuda_faults_ready(tn_queue *queue)
{
    return tn__faults_ready(&tn__cuda_faults, queue, &queue->pending);
}
tn_cu_result tn__cuda_scratch_ready(tn_queue *queue, uint64_t bytes);
tn_cu_result tn__cuda_words_ready(tn_queue *queue, const tn_plan *plan,
                                  tn_cu_pointer *out);

/* After a piece of work was given to the queue: waits if `blocking`. */
tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag);

/* ---- graphs (cuda_graph.c) --------------------------------------------------- */

extern const tn_graph_replay_extension tn__cuda_graph_replay;

/* ---- by the core's kernels (cuda_launch.c) ------------------------------------- */

tn_status tn__cuda_conv_own(tn_queue *queue, const tn_conv_args *args);
tn_status tn__cuda_attention_own(tn_queue *queue,
                                 const tn_attention_args *attention);

/* ---- slots of the plugin's table, by the file that fills them ----------- */

#define TN_CUDA_SLOTS(X)                                                      \
    /* cuda_device.c */                                                            \
    X(device_count) X(device_info) X(device_open) X(device_close)             \
    /* cuda_memory.c */                                                            \
    X(buffer_alloc) X(buffer_free) X(host_alloc) X(host_free) X(copy)         \
    /* cuda_queue.c */                                                             \
    X(queue_open) X(queue_close) X(queue_sync) X(queue_wait)                  \
    X(event_open) X(event_close) X(event_record) X(event_query)               \
    X(event_open_timed) X(event_elapsed)                                      \
    /* cuda_launch.c */                                                            \
    X(program_build) X(program_free) X(launch) X(matmul) X(scatter) X(scan)   \
    X(sort)

/* tn__cuda_<slot>, of the type that plugin.h gives the slot. */
#define TN_CUDA_DECLARE(slot) __typeof__(*((tn_plugin *)0)->slot) tn__cuda_##slot;
TN_CUDA_SLOTS(TN_CUDA_DECLARE)

#endif
