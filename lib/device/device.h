/* device.h: an open device, for the rooms above: its plugin's table, its queue,
 * and memory from the caching allocator. */
#ifndef TN_LIB_DEVICE_DEVICE_H
#define TN_LIB_DEVICE_DEVICE_H

#include <base/lock.h>
#include <device/deferred_error.h>

#include <stdatomic.h>
#include <tenon/device.h>
#include <tenon/error.h>
#include <tenon/plugin.h>

struct tn_device {
    const tn_plugin *plugin;   /* complete table; missing functions are NULL */
    tn_plugin_device *handle;
    tn_queue *queue;           /* in order; if asynchronous, guarded by */
    tn__lock queue_lock;       /*   this lock */
    bool synchronous;          /* no TN_CAP_ASYNC: work is done on return, any
                                  number of threads may call, and queue_lock is
                                  not taken */
    bool host_visible;
    uint32_t align;
    uint32_t storage_types;    /* copy from info: read for every new tensor */
    uint32_t index;            /* of the device within its plugin */
    int id;                    /* 0, 1, ... over all open devices */
    tn_device_info info;
    char name[80];             /* "cuda:0" */
    struct tn__allocator *allocator; /* owned */
    struct tn__builds *builds; /* owned: built programs (built.c) */
    struct tn__work *work;     /* owned: names of launches (launch.c) */
    /* Extensions: the plugin's tables, or NULL; set by extension.c. */
    _Atomic(const void *) conv; /* tn_conv_extension */
    _Atomic(const void *) pool; /* tn_pool_extension */
    _Atomic(const void *) product; /* tn_product_extension */
    _Atomic(const void *) graph_replay; /* tn_graph_replay_extension */
    _Atomic(const void *) attention; /* tn_attention_extension */
    _Atomic(const void *) lapack; /* tn_lapack_extension */
};

/* Most devices that can be open at once; tn_device.id is below it. */
#define TN__MAX_DEVICES 64

/* ---- dtypes ------------------------------------------------------------ */

/* Records and returns TN_ERR_UNSUPPORTED: the device does not store the dtype.
 * The message names the running operator, or `what` if none is running. */
tn_status tn__device_refuse_storage(const tn_device *device, tn_dtype dtype,
                                    const char *what);

/* ---- memory ----------------------------------------------------------- */

/* A part of a slab. */
typedef struct tn__block {
    tn_buffer *buffer;     /* the slab's */
    void *host;            /* address of the block if host_visible */
    uint64_t offset;       /* within buffer, bytes, a multiple of align and of
                              64 */
    uint64_t bytes;        /* at least the requested size */
    tn_device *device;
    struct tn__block *next, *previous;       /* in a list of free blocks */
    struct tn__block *prev_in_slab, *next_in_slab;
    struct tn__slab *slab;
    bool used;
    const char *made_by;     /* while used, if above 1 KiB: the operator that */
    const tn_path *made_in;  /*   allocated it, and its module; NULL: none */
} tn__block;

/* At least `bytes` bytes (0 is valid), uninitialised. NULL with TN_ERR_MEMORY;
 * the message has the bytes requested, in use, cached and free, and the limit.
 * Small sizes take no lock (per-thread caches). A block may be freed by another
 * thread. */
tn__block *tn__block_alloc(tn_device *device, uint64_t bytes);
void tn__block_free(tn__block *block);

/* ---- work: calls of the plugin, with order, tags and error texts added. All
 * return the plugin's status, with its error recorded. `what` names the operator
 * in errors; it must have static lifetime. --------------------------------- */

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes);
tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes);
/* On one device by the plugin, between two devices through the host. */
tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src,
                          uint64_t src_offset, uint64_t bytes);

/* The compiled form of a program on a device: compiled once, then looked up
 * without a lock. program must have static lifetime. */
tn_built *tn__device_built(tn_device *device, const tn_program *program);

/* Launches a compiled program. On TN_ERR_INDEX *fault has the details and no
 * error is recorded: the caller knows the operator and writes the message.
 * fault->operand is TN_NONE if the details are lost because another thread,
 * with a fault at the same time, got them. Other failures are recorded here.
 * deferred: for the message of a fault that an asynchronous device reports
 * later; NULL: it has only the operator's name and the value. */
tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what,
                            const tn__deferred_error *deferred,
                            tn_fault *fault);

/* The other kinds of work (work.h: TN__WORK_MATMUL ..), with the plugin's
 * arguments. deferred and fault are as above, NULL if faults are impossible. If
 * the plugin declines a kind that it may decline, returns TN_ERR_UNSUPPORTED
 * with no error recorded; the caller then uses primitives. */
tn_status tn__device_work(tn_device *device, int kind, void *args,
                          const char *what, const tn__deferred_error *deferred,
                          tn_fault *fault);
/* Does the device's extension accept this attention? Then it does not decline
 * it later (extension.c). */
bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention);
/* The same for a LAPACK job. *by_rows: matrices may be row-major. */
bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows);

/* For replays: a recorded copy, and work that the device itself captured. */
tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what);
tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *recorded);

/* Counts a run of a `host` row, or fails if TENON_HOST_OPS=error or
 * tn_host_ops_allow(false) forbids it. what names the operator. */
tn_status tn__host_run_begin(const char *what);

/* ---- set by the rooms above ------------------------------------------ */

typedef tn_status tn__host_interpret(const tn_program *program,
                                     const tn_launch *launch,
                                     void *const *memory, tn_fault *fault);
/* Sets the function that host->interpret calls. Until then host->interpret
 * returns TN_ERR_UNSUPPORTED. */
void tn__host_set_interpret(tn__host_interpret *interpret);
/* Sets the functions plan_program ... fault_read of the host table, for plugins
 * that are loaded from now on. */
void tn__host_set_source(const tn_host *functions);

#endif
