/* device.h: an open device as the rooms above see it: its plugin's table, its
 * one default queue, and memory from the caching allocator. */
#ifndef TN_LIB_DEVICE_DEVICE_H
#define TN_LIB_DEVICE_DEVICE_H

#include <base/lock.h>
#include <device/deferred_error.h>

#include <stdatomic.h>
#include <tenon/device.h>
#include <tenon/error.h>
#include <tenon/plugin.h>

struct tn_device {
    const tn_plugin *plugin;   /* full table: absent slots are NULL */
    tn_plugin_device *handle;
    tn_queue *queue;           /* in order; of an asynchronous device */
    tn__lock queue_lock;/*   guarded by queue_lock */
    bool synchronous;          /* no TN_CAP_ASYNC: work is done on return, and
                                  its calls may run at once from any thread:
                                  queue_lock is not taken */
    bool host_visible;
    uint32_t align;
    uint32_t storage_types;    /* of info: looked at for every new tensor */
    uint32_t index;            /* of the device within its plugin */
    int id;                    /* small, dense, over all open devices */
    tn_device_info info;
    char name[80];             /* "cuda:0" */
    struct tn__allocator *allocator; /* owned */
    struct tn__builds *builds; /* owned: built programs (built.c) */
    struct tn__work *work;     /* owned: names of launches (launch.c) */
    /* Extensions: a table of the plugin's, or NULL; extension.c fills them. */
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
 * Named is the operator that runs; `what`: where none does. */
tn_status tn__device_refuse_storage(const tn_device *device, tn_dtype dtype,
                                    const char *what);

/* ---- memory ----------------------------------------------------------- */

/* A piece of a slab. Lives in a free list between uses. */
typedef struct tn__block {
    tn_buffer *buffer;     /* the slab's */
    void *host;            /* address of the block where host_visible */
    uint64_t offset;       /* within buffer, bytes, a multiple of align and of
                              64 */
    uint64_t bytes;        /* at least those asked for */
    tn_device *device;
    struct tn__block *next, *previous;       /* in a list of free blocks */
    struct tn__block *prev_in_slab, *next_in_slab;
    struct tn__slab *slab;
    bool used;
    const char *made_by;     /* above 1 KiB, while used: the operator that */
    const tn_path *made_in;  /*   asked, and its module; NULL: none */
} tn__block;

/* At least `bytes` bytes (0 is legal), uninitialised. NULL with TN_ERR_MEMORY:
 * asked, held, cached, free, limit. Small sizes take no lock (per-thread
 * caches). A block may be freed by another thread. */
tn__block *tn__block_alloc(tn_device *device, uint64_t bytes);
void tn__block_free(tn__block *block);

/* ---- work: thin calls of the plugin that add order, tags and the errors'
 * text. All return the plugin's status with its text recorded. `what` names
 * the operator for asynchronous failures; it must live for ever. ---------- */

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes);
tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes);
/* On one device by the plugin; between two through the host. */
tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src,
                          uint64_t src_offset, uint64_t bytes);

/* The built form of a program on a device: made once, found without a lock
 * after that. program must live as long as the process. */
tn_built *tn__device_built(tn_device *device, const tn_program *program);

/* On TN_ERR_INDEX *fault has the details and nothing is recorded (the caller
 * words the message: it knows the operator); other failures are recorded here.
 * fault->operand is TN_NONE if the details are lost: another thread, at fault
 * at the same time, has them. deferred: how to word what an asynchronous device finds
 * later; NULL: by the operator's name and the value alone. */
tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what,
                            const tn__deferred_error *deferred,
                            tn_fault *fault);

/* The other kinds of work (work.h: TN__WORK_MATMUL ..), with the arguments that
 * the plugin takes; deferred and fault as above, NULL where none can be. Kinds that
 * may be declined: TN_ERR_UNSUPPORTED with no error recorded, and the caller then
 * does the work by primitives. */
tn_status tn__device_work(tn_device *device, int kind, void *args,
                          const char *what, const tn__deferred_error *deferred,
                          tn_fault *fault);
/* Whether the extension takes it: it does then, but for failures (extension.c). */
bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention);
/* by_rows: matrices may lie by rows. */
bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows);

/* A copy on the device, once more; and what the device recorded itself. */
tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what);
tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *recorded);

/* Counts a run of a `host` row, or refuses it where TENON_HOST_OPS=error or
 * tn_host_ops_allow(false) says so. what names the operator. */
tn_status tn__host_run_begin(const char *what);

/* ---- handed down by the rooms above --------------------------------- */

typedef tn_status tn__host_interpret(const tn_program *program,
                                     const tn_launch *launch,
                                     void *const *memory, tn_fault *fault);
/* What host->interpret of the plugins calls. Until it is set, that is
 * TN_ERR_UNSUPPORTED. */
void tn__host_set_interpret(tn__host_interpret *interpret);
/* The functions plan_program ... fault_read of this table, for plugins that
 * are loaded from now on; till then they have none. */
void tn__host_set_source(const tn_host *functions);

#endif
