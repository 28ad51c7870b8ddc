/* opencl.h: what the files of this plugin share. */
#ifndef TN_OPENCL_OPENCL_H
#define TN_OPENCL_OPENCL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/plugin.h>

#include "../shared/shared.h"
#include "opencl_driver.h"

/* Records of a queue's fault buffer: the most groups of a launch that may
 * find a bad index. 64 Ki of them are 2.5 MiB, and more than any GPU runs at
 * once. */
#define TN_OPENCL_FAULTS 65536

/* Classes of matrix products (choose.c). */
#define TN_OPENCL_PRODUCTS 2000

/* Ways to lay out a launch, and kinds of launches: elements, rows (tune.c). */
enum { TN_OPENCL_VARIANTS = 4, TN_OPENCL_KINDS = 2 };

/* A device that a driver offers; nothing of it is open. */
typedef struct tn_opencl_listed {
    cl_platform_id platform;
    cl_device_id device;
    cl_uint index; /* among the devices of its platform */
    char platform_name[128], device_name[128];
    char device_version[128], driver_version[128];
    bool usable; /* else info.note says why not */
    tn_device_info info;
} tn_opencl_listed;

/* A built program of one kernel. */
typedef struct tn_opencl_kernel {
    uint64_t key[2];
    cl_program program; /* owned; NULL: the slot is free */
    cl_kernel kernel;   /* owned */
} tn_opencl_kernel;

typedef struct tn_opencl_mapped tn_opencl_mapped; /* opencl_host.c */

struct tn_plugin_device {
    const tn_opencl_listed *listed;
    cl_context context;
    cl_command_queue queue; /* for what belongs to no queue of the core's */
    uint64_t max_buffer_bytes;
    bool blocking; /* option `blocking`: each piece of work is waited for */
    char options[256]; /* of the compiler; some are option `options` */
    tn_target targets[TN_OPENCL_VARIANTS]; /* the first is what all else is for */
    /* 1 + which of them a kind has; 0: not measured yet */
    _Atomic uint8_t variant[TN_OPENCL_KINDS];
    bool clblast;  /* has matrix products where it can, or, */
    bool measures; /* where that is faster */
    /* Which is, for each class; 0: not measured yet (choose.c). */
    _Atomic uint8_t product[TN_OPENCL_PRODUCTS];
    /* Types (1 << dtype) that it has multiplied, or failed to; under its own
     * lock (clblast.c). */
    uint32_t clblast_compiled, clblast_failed;

    pthread_mutex_t cpu_lock; /* held by calls, on a CPU (opencl_plugin.c) */

    /* Guards what follows, and the arguments of the kernels, which are part
     * of them until a launch has taken them. */
    pthread_mutex_t lock;
    tn_opencl_kernel *kernels; /* owned: open addressing by key, room of them */
    size_t kernel_count, kernel_capacity;
    tn_opencl_mapped *mapped; /* memory of the host that is lent */
};

struct tn_buffer {
    cl_mem memory; /* owned */
};

struct tn_queue {
    tn_plugin_device *device;
    cl_command_queue queue; /* owned, in order */
    cl_mem faults;  /* owned; NULL until a launch may fail */
    cl_mem scratch; /* owned; the greatest that was needed */
    uint64_t scratch_bytes;
    unsigned unflushed; /* pieces of work since the last flush */
    tn_pending pending;
};

struct tn_built {
    const tn_program *program; /* lent: outlives its built form */
};

struct tn_event {
    cl_event event; /* owned; NULL: not recorded yet */
};

/* ---- failures (opencl_queue.c) ------------------------------------------------- */

/* Records what a call of the driver returned; what = "clFinish". */
tn_status tn__opencl_fail(const tn_plugin_device *device, const char *what,
                          cl_int error);

/* The fault buffer of a queue. */
extern const tn_fault_buffer tn__opencl_faults;

/* After a piece of work was given to the queue: flushes now and then, or
 * waits (`blocking`). */
tn_status tn__opencl_queue_submitted(tn_queue *queue, uint64_t tag);

/* ---- signals (opencl_driver.c) -------------------------------------------------- */

/* Compilers within drivers put handlers of their own on the program's signals
 * (LLVM does): what stands between these two changes none. */
typedef struct tn_opencl_signals {
    struct sigaction action[32];
} tn_opencl_signals;
void tn__opencl_signals_save(tn_opencl_signals *signals);
void tn__opencl_signals_restore(const tn_opencl_signals *signals);

/* ---- programs (opencl_launch.c, opencl_compile.c) ------------------------------------- */

/* The program of a text, from the disk cache or the compiler. */
tn_status tn__opencl_compile(const tn_plugin_device *device,
                             const tn_source *source, cl_program *out);
/* What a binary depends on besides its source, as the head of a cache key. */
void tn__opencl_cache_head(const tn_plugin_device *device, char *out,
                           size_t out_bytes);
enum { TN_OPENCL_HEAD = 1024 }; /* its bytes */
/* One at a time, in all processes, for one text; a hold of -1 is none. */
int32_t tn__opencl_text_lock(const tn_source *source);
void tn__opencl_text_unlock(int32_t hold);
void tn__opencl_kernels_release(tn_plugin_device *device);

/* ---- matrix products (choose.c, clblast.c, opencl_launch.c) --------------------- */

void tn__opencl_products_init(tn_plugin_device *device);
void tn__opencl_clblast_close(tn_plugin_device *device);

/* May CLBlast have it, as far as options, type and strides say? */
bool tn__opencl_clblast_fits(const tn_plugin_device *device,
                             const tn_matmul_args *matmul);

/* Gives the product to the queue; false: it is for the core's own kernel. */
bool tn__opencl_clblast(tn_queue *queue, const tn_matmul_args *matmul);
tn_status tn__opencl_matmul_own(tn_queue *queue, const tn_matmul_args *matmul);

/* ---- choices (measure.c, tune.c) ----------------------------------------- */

/* What was chosen for `what`: 1 to most, 0 if nothing is known. */
uint8_t tn__opencl_choice_load(const tn_plugin_device *device,
                               const char *what, uint8_t most);
void tn__opencl_choice_store(const tn_plugin_device *device, const char *what,
                            uint8_t choice);

/* The seconds of work done in that way, waited for before and after; of no
 * meaning unless *status is TN_OK. */
typedef tn_status tn_opencl_work(tn_queue *queue, void *context, uint8_t variant);
double tn__opencl_time(tn_queue *queue, tn_opencl_work *work, void *context,
                       uint8_t variant, tn_status *status);

void tn__opencl_tune_init(tn_plugin_device *device);
tn_status tn__opencl_launch_for(tn_queue *queue, const tn_target *target,
                                tn_built *built, const tn_launch *launch);

/* ---- slots of the plugin's table, by the file that fills them ----------- */

/* opencl_device.c */
tn_status tn__opencl_device_count(uint32_t *count);
tn_status tn__opencl_device_info(uint32_t i, tn_device_info *info);
tn_status tn__opencl_device_open(uint32_t i, tn_plugin_device **device);
void tn__opencl_device_close(tn_plugin_device *device);

/* opencl_memory.c */
tn_status tn__opencl_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                                  tn_buffer **buffer);
void tn__opencl_buffer_free(tn_plugin_device *device, tn_buffer *buffer);
tn_status tn__opencl_copy(tn_queue *queue, const tn_copy_args *copy);

/* opencl_host.c */
tn_status tn__opencl_host_alloc(tn_plugin_device *device, uint64_t bytes,
                                void **memory);
void tn__opencl_host_free(tn_plugin_device *device, void *memory);

/* opencl_queue.c */
tn_status tn__opencl_queue_open(tn_plugin_device *device, tn_queue **queue);
void tn__opencl_queue_close(tn_queue *queue);
tn_status tn__opencl_queue_sync(tn_queue *queue, tn_fault *fault);
tn_status tn__opencl_event_open(tn_plugin_device *device, tn_event **event);
void tn__opencl_event_close(tn_event *event);
tn_status tn__opencl_event_record(tn_queue *queue, tn_event *event);
tn_status tn__opencl_event_query(tn_event *event, uint32_t *done);
tn_status tn__opencl_queue_wait(tn_queue *queue, tn_event *event);

/* tune.c */
tn_status tn__opencl_launch(tn_queue *queue, tn_built *built,
                            const tn_launch *launch);

/* choose.c */
tn_status tn__opencl_matmul(tn_queue *queue, const tn_matmul_args *matmul);

/* opencl_launch.c */
tn_status tn__opencl_program_build(tn_plugin_device *device,
                                   const tn_program *program,
                                   tn_built **built);
void tn__opencl_program_free(tn_plugin_device *device, tn_built *built);
tn_status tn__opencl_conv(tn_queue *queue, const tn_conv_args *conv);
tn_status tn__opencl_scatter(tn_queue *queue, const tn_scatter_args *scatter);
tn_status tn__opencl_scan(tn_queue *queue, const tn_scan_args *scan);
tn_status tn__opencl_sort(tn_queue *queue, const tn_sort_args *sort);

#endif
