/* device.h: an open device, as the folders above use it: the plugin's function
 * table, a queue (a stream in CUDA), and the caching allocator. */
#ifndef TN_LIB_DEVICE_DEVICE_H
#define TN_LIB_DEVICE_DEVICE_H

#include <base/lock.h>
#include <device/deferred_error.h>

#include <stdatomic.h>
#include <tenon/device.h>
#include <tenon/error.h>
#include <tenon/plugin.h>

struct tn_device {
    const tn_plugin *plugin;   /* A copy of the plugin's function table, as
                                * tn_plugin is declared in this version.
                                * Functions that the plugin lacks are NULL. */
    tn_plugin_device *handle;
    tn_queue *queue;           /* queue of the device (a CUDA stream): runs work
                                * in the order of submission */
    tn__lock queue_lock; /* guards `queue` if the device is asynchronous */
    bool synchronous;          /* True if the plugin has no TN_CAP_ASYNC. Then
                                * work is done when its call returns, any number
                                * of threads may call at once, and queue_lock is
                                * not taken. */
    bool host_visible;
    uint32_t align;
    uint32_t storage_types;    /* bit for each dtype that the device can store;
                                * a copy of info.storage_types, because every
                                * new tensor reads it */
    uint32_t index;            /* index of the device within its plugin */
    int id; /* index of the device among all open devices, from 0 */
    tn_device_info info;
    char name[80];             /* name for messages, such as "cuda:0" */
    struct tn__allocator *allocator; /* the caching allocator, owned */
    struct tn__builds *builds; /* table of compiled programs, owned (built.c) */
    struct tn__work *work;     /* record of submitted work, owned (launch.c) */
    /* Function tables of the plugin's optional extensions. A pointer is NULL if
     * the plugin lacks the extension or TENON_MASK hides it. extension.c sets
     * them. */
    _Atomic(const void *) conv; /* points to a tn_conv_extension */
    _Atomic(const void *) pool; /* points to a tn_pool_extension */
    _Atomic(const void *) product; /* points to a tn_product_extension */
    _Atomic(const void *) graph_replay; /* points to a
                                         * tn_graph_replay_extension */
    _Atomic(const void *) attention; /* points to a tn_attention_extension */
    _Atomic(const void *) lapack; /* points to a tn_lapack_extension */
    _Atomic(const void *) quantised_product; /* points to a
                                        * tn_quantised_product_extension */
    _Atomic(const void *) epilogue; /* points to a tn_epilogue_extension */
    _Atomic(const void *) launch_list; /* points to a
                                        * tn_launch_list_extension */
};

/* Largest number of devices that can be open at the same time. tn_device.id is
 * less than this. */
#define TN__MAX_DEVICES 64

/* ---- dtypes ------------------------------------------------------------ */

/* Records TN_ERR_UNSUPPORTED because the device cannot store the dtype, and
 * returns it. The message names the running operator, or `what` if no operator
 * is running. */
tn_status tn__device_refuse_storage(const tn_device *device, tn_dtype dtype,
                                    const char *what);

/* ---- memory ----------------------------------------------------------- */

/* A block of device memory, which is a range of a slab. A slab is a large
 * buffer that the plugin allocated. */
typedef struct tn__block {
    tn_buffer *buffer;     /* the plugin's buffer that contains the block */
    void *host;            /* address of the block in host memory, if the device
                            * is host_visible */
    uint64_t offset;       /* start of the block within `buffer` in bytes; a
                            * multiple of 64 and of the device's alignment */
    uint64_t bytes;        /* size of the block in bytes, at least the requested
                            * size */
    tn_device *device;
    struct tn__block *next, *previous; /* neighbours in a list of free blocks of
                                        * the same size class */
    struct tn__block *prev_in_slab, *next_in_slab;
    struct tn__slab *slab;
    bool used;
    /* For a used block above 1 KiB: the operator that allocated it (made_by)
     * and the module that the operator ran in (made_in). NULL if there is
     * none. */
    const char *made_by;
    const tn_path *made_in;
} tn__block;

/* Allocates a block of at least `bytes` bytes (0 is valid), uninitialised. On
 * failure records TN_ERR_MEMORY and returns NULL; the message says how many
 * bytes were requested, are in use, cached and free, and what the limit is. A
 * small size takes no lock, since each thread caches small blocks. Any thread
 * may free the block. */
tn__block *tn__block_alloc(tn_device *device, uint64_t bytes);
void tn__block_free(tn__block *block);

/* ---- work -----------------------------------------------------------------
 *
 * The functions below call the plugin. They also keep work in order, store what
 * an error message will need, and record errors. All return the plugin's
 * status, with its error recorded. `what` names the operator in errors and must
 * have static lifetime. */

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes);
tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes);
/* Copies between two blocks. Within one device the plugin copies. Between two
 * devices the copy goes through the host, unless the plugin can copy between
 * its own devices. */
tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src,
                          uint64_t src_offset, uint64_t bytes);

/* Returns the compiled form of a program on a device. A program is compiled
 * once; later calls take no lock. `program` must have static lifetime. */
tn_built *tn__device_built(tn_device *device, const tn_program *program);

/* Launches a compiled program. If the program read an index out of range,
 * returns TN_ERR_INDEX with the details in *fault and records no error: the
 * caller knows the operator and writes the message. If another thread had a
 * fault at the same time and got the details, fault->operand is TN_NONE. Other
 * failures are recorded here.
 *
 * `deferred` describes the launch for the message of a fault that an
 * asynchronous device reports later. If it is NULL, that message has only the
 * operator's name and the value. */
tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what,
                            const tn__deferred_error *deferred,
                            tn_fault *fault);

/* Submits work that is not a launch or a copy. `kind` is a constant of work.h,
 * such as TN__WORK_MATMUL, and args is the kind's argument struct of
 * <tenon/plugin_primitives.h> or <tenon/plugin_extensions.h>. `deferred` and
 * `fault` have the meaning they have for tn__device_launch; both are NULL if
 * the work cannot fault. A plugin may decline some kinds. Then no error is
 * recorded, the result is TN_ERR_UNSUPPORTED, and the caller does the work by
 * other operators. */
tn_status tn__device_work(tn_device *device, int kind, void *args,
                          const char *what, const tn__deferred_error *deferred,
                          tn_fault *fault);
/* Returns whether the device's extension accepts this attention. If so, the
 * extension does not decline when the same attention is submitted. */
bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention);
/* Returns whether the device's extension accepts this LAPACK job. Sets *by_rows
 * to whether the matrices may be row-major. */
bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows);

/* Submit recorded work again during a replay: a copy, or work that the device
 * captured as a whole. */
tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what);
tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *recorded, const char *what);

/* Runs the launches of a recorded command that the device has prepared.
 * `fault` has the meaning it has for tn__device_launch. */
struct tn__command;
tn_status tn__device_launch_list(tn_device *device,
                                 const tn_launch_list_extension *extension,
                                 struct tn__command *command, tn_fault *fault);

/* Counts one run of an operator that runs on the host (one with `host` in the
 * operator table). Fails if TENON_HOST_OPS=error or tn_host_ops_allow(false)
 * forbids such runs. `what` names the operator. */
tn_status tn__host_run_begin(const char *what);

/* ---- set by the folders above ------------------------------------------ */

typedef tn_status tn__host_interpret(const tn_program *program,
                                     const tn_launch *launch,
                                     void *const *memory, tn_fault *fault);
/* Sets the function that host->interpret calls. Until it is set,
 * host->interpret returns TN_ERR_UNSUPPORTED. */
void tn__host_set_interpret(tn__host_interpret *interpret);
/* Sets those functions of the host table (the functions that the core offers to
 * plugins) that print kernel source, which are the members from plan_program to
 * fault_read. Plugins that were loaded before the call do not get them. */
void tn__host_set_source(const tn_host *functions);

#endif
