/* opencl.h: types and functions that the files of the OpenCL plugin share.
 *
 * The core is the library libtenon, which calls the plugin. A piece of work is
 * what one call of the core submits to a queue: a launch of a program, a
 * primitive, a copy or a call of an extension. "Own kernels" are Tenon's
 * kernels, whose source the core prints. All other kernels are CLBlast's. */
#ifndef TN_OPENCL_OPENCL_H
#define TN_OPENCL_OPENCL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/plugin.h>

#include "../shared/shared.h"
#include "opencl_driver.h"

/* The number of records in a queue's fault buffer, in which kernels report
 * indices that are out of range. Each work-group has a record. A launch that
 * may report an index therefore has at most this many work-groups, which is
 * more than any GPU runs at once. The buffer takes 2.5 MiB. */
#define TN_OPENCL_FAULTS 65536

/* The number of classes of matrix products for which the faster implementation
 * is measured (choose.c). */
#define TN_OPENCL_PRODUCTS 2000

/* The number of variants of the work-group size, and the number of kinds of
 * launches for which a variant is chosen: over elements and over rows
 * (tune.c). */
enum { TN_OPENCL_VARIANTS = 4, TN_OPENCL_KINDS = 2 };

/* A device that a driver lists. Listing a device does not open it. */
typedef struct tn_opencl_listed {
    cl_platform_id platform;
    cl_device_id device;
    cl_uint index; /* index among the devices of its platform */
    char platform_name[128], device_name[128];
    char device_version[128], driver_version[128];
    bool usable; /* if false, info.note says why */
    tn_device_info info;
} tn_opencl_listed;

/* A built program of one kernel. */
typedef struct tn_opencl_kernel {
    uint64_t key[2];
    cl_program program; /* owned; NULL if this entry of the table is free */
    cl_kernel kernel;   /* owned */
} tn_opencl_kernel;

/* A block of mapped host memory (opencl_host.c). */
typedef struct tn_opencl_mapped tn_opencl_mapped;

struct tn_plugin_device {
    const tn_opencl_listed *listed;
    cl_context context;
    cl_command_queue queue; /* for the plugin's own work, outside the core's
                               queues */
    uint64_t max_buffer_bytes;
    bool blocking;     /* option `blocking`: waits after each piece of work */
    /* options for the OpenCL compiler, including those of the plugin's option
     * `options` */
    char options[256];
    /* One target for each variant of work-group sizes. Only programs use others
     * than targets[0]. */
    tn_target targets[TN_OPENCL_VARIANTS];
    /* 1 + the index of the best variant for each kind of launch, or 0 if it has
     * not been measured */
    _Atomic uint8_t variant[TN_OPENCL_KINDS];
    bool clblast;  /* CLBlast is used for matrix products that it supports */
    bool measures; /* CLBlast is used only if it is faster than Tenon's own
                      kernel */
    /* The faster implementation for each class of products, or 0 if it has not
     * been measured (choose.c). */
    _Atomic uint8_t product[TN_OPENCL_PRODUCTS];
    /* Bit masks of dtypes (1 << dtype): those for which CLBlast has compiled
     * its kernels, and those for which this failed. The lock in clblast.c
     * guards them. */
    uint32_t clblast_compiled, clblast_failed;

    pthread_mutex_t cpu_lock; /* on CPU devices, held during each call */

    /* Guards the fields below. Also guards the kernels' arguments, which are
     * set in the kernel object and read by the next launch. */
    pthread_mutex_t lock;
    tn_opencl_kernel *kernels; /* owned: a hash table with open addressing */
    size_t kernel_count, kernel_capacity;
    tn_opencl_mapped *mapped; /* list of the blocks of mapped host memory */
};

struct tn_buffer {
    cl_mem memory; /* owned */
};

struct tn_queue {
    tn_plugin_device *device;
    cl_command_queue queue; /* owned; executes in order */
    cl_mem faults;          /* owned: the buffer of index faults; NULL until a
                               launch may fault */
    cl_mem scratch;         /* owned: temporary memory, as large as the largest
                               request so far */
    uint64_t scratch_bytes;
    unsigned unflushed; /* number of pieces of work since the last flush */
    tn_pending pending;
};

struct tn_built {
    const tn_program *program; /* not owned: the core frees it after this
                                  struct */
};

struct tn_event {
    cl_event event; /* owned; NULL if the event was never recorded */
};

/* ---- errors (opencl_queue.c) --------------------------------------------- */

/* Records the error that a call of the driver returned, and returns its Tenon
 * status. `what` names the call, such as "clFinish". */
tn_status tn__opencl_fail(const tn_plugin_device *device, const char *what,
                          cl_int error);

/* The functions that allocate, clear and read the fault buffer of a queue. */
extern const tn_fault_buffer tn__opencl_faults;

/* Must be called after a piece of work was submitted. Flushes the queue from
 * time to time. With option `blocking` it waits for the work and reports its
 * failure. */
tn_status tn__opencl_queue_submitted(tn_queue *queue, uint64_t tag);

/* ---- signals (opencl_driver.c) ------------------------------------------- */

/* The signal handlers of the process. Compilers within drivers, such as LLVM,
 * install handlers. Therefore the handlers are saved before a call that may
 * compile, and restored after it. */
typedef struct tn_opencl_signals {
    struct sigaction action[32];
} tn_opencl_signals;
void tn__opencl_signals_save(tn_opencl_signals *signals);
void tn__opencl_signals_restore(const tn_opencl_signals *signals);

/* ---- programs (opencl_launch.c, opencl_compile.c) ------------------------ */

/* Makes the OpenCL program of a source: loads its binary from the disk cache,
 * or compiles it. */
tn_status tn__opencl_compile(const tn_plugin_device *device,
                             const tn_source *source, cl_program *out);
/* Writes the first part of a key for the disk cache. It contains everything
 * that a binary depends on except its source. */
void tn__opencl_cache_head(const tn_plugin_device *device, char *out,
                           size_t out_bytes);
enum { TN_OPENCL_HEAD = 1024 }; /* maximum size of a head in bytes */
/* Acquires a lock for this source that only one process can hold. Returns the
 * lock's handle, or -1 if the lock could not be acquired. */
int32_t tn__opencl_text_lock(const tn_source *source);
void tn__opencl_text_unlock(int32_t hold);
void tn__opencl_kernels_release(tn_plugin_device *device);

/* ---- matrix products (choose.c, clblast.c, opencl_launch.c) -------------- */

void tn__opencl_products_init(tn_plugin_device *device);
void tn__opencl_clblast_close(tn_plugin_device *device);

/* Returns whether CLBlast is enabled and supports the dtype and strides of this
 * product. */
bool tn__opencl_clblast_fits(const tn_plugin_device *device,
                             const tn_matmul_args *matmul);

/* Submits a matrix product by CLBlast. Returns false if this failed. The caller
 * then uses Tenon's own kernel. */
bool tn__opencl_clblast(tn_queue *queue, const tn_matmul_args *matmul);
tn_status tn__opencl_matmul_own(tn_queue *queue, const tn_matmul_args *matmul);

/* ---- choices (measure.c, tune.c) ----------------------------------------- */

/* Returns the choice that is stored for `what` in the disk cache, a number from
 * 1 to most. Returns 0 if none is stored. */
uint8_t tn__opencl_choice_load(const tn_plugin_device *device,
                               const char *what, uint8_t most);
void tn__opencl_choice_store(const tn_plugin_device *device, const char *what,
                            uint8_t choice);

/* Runs the work in one variant and returns the time that it takes, in seconds.
 * Waits for the queue before and after it. The time is valid only if *status is
 * TN_OK. */
typedef tn_status tn_opencl_work(tn_queue *queue, void *context,
                                 uint8_t variant);
double tn__opencl_time(tn_queue *queue, tn_opencl_work *work, void *context,
                       uint8_t variant, tn_status *status);

void tn__opencl_tune_init(tn_plugin_device *device);
tn_status tn__opencl_launch_for(tn_queue *queue, const tn_target *target,
                                tn_built *built, const tn_launch *launch);

/* ---- the plugin's functions, by the file that defines them --------------- */

/* These are defined in opencl_device.c. */
tn_status tn__opencl_device_count(uint32_t *count);
tn_status tn__opencl_device_info(uint32_t i, tn_device_info *info);
tn_status tn__opencl_device_open(uint32_t i, tn_plugin_device **device);
void tn__opencl_device_close(tn_plugin_device *device);

/* These are defined in opencl_memory.c. */
tn_status tn__opencl_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                                  tn_buffer **buffer);
void tn__opencl_buffer_free(tn_plugin_device *device, tn_buffer *buffer);
tn_status tn__opencl_copy(tn_queue *queue, const tn_copy_args *copy);

/* These are defined in opencl_host.c. */
tn_status tn__opencl_host_alloc(tn_plugin_device *device, uint64_t bytes,
                                void **memory);
void tn__opencl_host_free(tn_plugin_device *device, void *memory);

/* These are defined in opencl_queue.c. */
tn_status tn__opencl_queue_open(tn_plugin_device *device, tn_queue **queue);
void tn__opencl_queue_close(tn_queue *queue);
tn_status tn__opencl_queue_sync(tn_queue *queue, tn_fault *fault);
tn_status tn__opencl_event_open(tn_plugin_device *device, tn_event **event);
void tn__opencl_event_close(tn_event *event);
tn_status tn__opencl_event_record(tn_queue *queue, tn_event *event);
tn_status tn__opencl_event_query(tn_event *event, uint32_t *done);
tn_status tn__opencl_queue_wait(tn_queue *queue, tn_event *event);

/* This is defined in tune.c. */
tn_status tn__opencl_launch(tn_queue *queue, tn_built *built,
                            const tn_launch *launch);

/* This is defined in choose.c. */
tn_status tn__opencl_matmul(tn_queue *queue, const tn_matmul_args *matmul);

/* These are defined in opencl_launch.c. */
tn_status tn__opencl_program_build(tn_plugin_device *device,
                                   const tn_program *program,
                                   tn_built **built);
void tn__opencl_program_free(tn_plugin_device *device, tn_built *built);
tn_status tn__opencl_epilogue_takes(tn_plugin_device *device, uint32_t kind);
tn_status tn__opencl_epilogue(tn_queue *queue, const tn_epilogue_args *args);
tn_status tn__opencl_conv(tn_queue *queue, const tn_conv_args *conv);
tn_status
tn__opencl_quantised_product(tn_queue *queue,
                             const tn_quantised_product_args *product);
tn_status tn__opencl_scatter(tn_queue *queue, const tn_scatter_args *scatter);
tn_status tn__opencl_scan(tn_queue *queue, const tn_scan_args *scan);
tn_status tn__opencl_sort(tn_queue *queue, const tn_sort_args *sort);

#endif
