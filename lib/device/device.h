/* device.h: an open device, as the folders above use it. It has the plugin's
 * function table, a queue, and memory from the caching allocator. */
#ifndef TN_LIB_DEVICE_DEVICE_H
#define TN_LIB_DEVICE_DEVICE_H

#include <base/lock.h>
#include <device/deferred_error.h>

#include <stdatomic.h>
#include <tenon/device.h>
#include <tenon/error.h>
#include <tenon/plugin.h>

struct tn_device {
    const tn_plugin *plugin;   /* table of the full size; functions that the
                                * plugin lacks are NULL */
    tn_plugin_device *handle;
    tn_queue *queue;           /* runs work in the order of submission */
    tn__lock queue_lock;       /* guards queue if the device is asynchronous */
    bool synchronous;          /* The plugin has no TN_CAP_ASYNC. Work is done
                                * when its call returns, any number of threads
                                * may call, and queue_lock is not taken. */
    bool host_visible;
    uint32_t align;
    uint32_t storage_types;    /* copy of the field in info, which every new
                                * tensor reads */
    uint32_t index;            /* number of the device within its plugin */
    int id;                    /* number of the device among all open devices */
    tn_device_info info;
    char name[80];             /* "cuda:0" */
    struct tn__allocator *allocator; /* owned */
    struct tn__builds *builds; /* owned; compiled programs (built.c) */
    struct tn__work *work;     /* owned; record of submitted work (launch.c) */
    /* The plugin's extension tables, which extension.c sets; NULL if the plugin
     * lacks the extension or it is masked. */
    _Atomic(const void *) conv; /* tn_conv_extension */
    _Atomic(const void *) pool; /* tn_pool_extension */
    _Atomic(const void *) product; /* tn_product_extension */
    _Atomic(const void *) graph_replay; /* tn_graph_replay_extension */
    _Atomic(const void *) attention; /* tn_attention_extension */
    _Atomic(const void *) lapack; /* tn_lapack_extension */
};

/* Most devices that can be open at once. tn_device.id is below this number. */
#define TN__MAX_DEVICES 64

/* ---- dtypes ------------------------------------------------------------ */

/* Records and returns TN_ERR_UNSUPPORTED: the device does not store the dtype.
 * The message names the running operator, or `what` if none is running. */
tn_status tn__device_refuse_storage(const tn_device *device, tn_dtype dtype,
                                    const char *what);

/* ---- memory ----------------------------------------------------------- */

/* A block of device memory: a range of a slab. A slab is a large buffer that
 * the plugin allocated. */
typedef struct tn__block {
    tn_buffer *buffer;     /* buffer of the slab */
    void *host;            /* host address of the block if host_visible */
    uint64_t offset;       /* offset of the block in buffer, in bytes; a
                            * multiple of align and of 64 */
    uint64_t bytes;        /* size of the block, at least what was requested */
    tn_device *device;
    struct tn__block *next, *previous;       /* neighbours in a list of free
                                              * blocks */
    struct tn__block *prev_in_slab, *next_in_slab;
    struct tn__slab *slab;
    bool used;
    const char *made_by;     /* for a used block above 1 KiB, the operator that
                              * allocated it and that operator's module; NULL if
                              * there is none */
    const tn_path *made_in;
} tn__block;

/* Allocates a block of at least `bytes` bytes (0 is valid), uninitialised.
 * Returns NULL with TN_ERR_MEMORY on failure; the message has the bytes
 * requested, in use, cached and free, and the limit. Small sizes take no lock,
 * since each thread caches small blocks. A block may be freed by another
 * thread. */
tn__block *tn__block_alloc(tn_device *device, uint64_t bytes);
void tn__block_free(tn__block *block);

/* ---- work -----------------------------------------------------------------
 *
 * These calls of the plugin add order, tags and error messages. All return the
 * plugin's status, with its error recorded. `what` names the operator in errors
 * and must have static lifetime. */

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes);
tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes);
/* Copies between two blocks. The plugin copies within one device; copies
 * between two devices go through the host. */
tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src,
                          uint64_t src_offset, uint64_t bytes);

/* Returns the compiled form of a program on a device. A program is compiled
 * once; later calls take no lock. program must have static lifetime. */
tn_built *tn__device_built(tn_device *device, const tn_program *program);

/* Launches a compiled program. On TN_ERR_INDEX, *fault has the details and no
 * error is recorded, since the caller knows the operator and writes the
 * message. If another thread had a fault at the same time and got the details,
 * fault->operand is TN_NONE. Other failures are recorded here.
 *
 * `deferred` is for the message of a fault that an asynchronous device reports
 * later. If it is NULL, the message has only the operator's name and the
 * value. */
tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what,
                            const tn__deferred_error *deferred,
                            tn_fault *fault);

/* Submits work of another kind (TN__WORK_MATMUL and so on, work.h). args is the
 * kind's argument struct of plugin.h. `deferred` and `fault` have the meaning
 * they have for tn__device_launch, and are NULL if the work cannot fault. The
 * plugin may decline some kinds. Then TN_ERR_UNSUPPORTED is returned with no
 * error recorded, and the caller uses primitives. */
tn_status tn__device_work(tn_device *device, int kind, void *args,
                          const char *what, const tn__deferred_error *deferred,
                          tn_fault *fault);
/* Whether the device's extension accepts this attention. If it does, it does
 * not decline the attention later (extension.c). */
bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention);
/* Whether the device's extension accepts this LAPACK job. Sets *by_rows to
 * whether matrices may be row-major. */
bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows);

/* For replays: submits a recorded copy again, or work that the device itself
 * captured. */
tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what);
tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *recorded);

/* Counts a run of an operator that runs on the host (`host` in the operator
 * table). Fails if TENON_HOST_OPS=error or tn_host_ops_allow(false) forbids
 * such runs. `what` names the operator. */
tn_status tn__host_run_begin(const char *what);

/* ---- set by the folders above ------------------------------------------ */

typedef tn_status tn__host_interpret(const tn_program *program,
                                     const tn_launch *launch,
                                     void *const *memory, tn_fault *fault);
/* Sets the function that host->interpret calls. Before this call
 * host->interpret returns TN_ERR_UNSUPPORTED. */
void tn__host_set_interpret(tn__host_interpret *interpret);
/* Sets the functions plan_program ... fault_read of the host table, for plugins
 * that are loaded from now on. */
void tn__host_set_source(const tn_host *functions);

#endif
