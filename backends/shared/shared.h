/* shared.h: what the plugins share whose driver compiles the kernels that the
 * core prints as source (cuda, opencl). These files are compiled into each of
 * the plugins. They include <tenon/plugin.h> alone: a plugin passes functions
 * that call its driver. A piece of work is what one call of the core submits to
 * a queue: a launch of a program, a primitive, a copy or a call of an
 * extension. */
#ifndef TN_SHARED_SHARED_H
#define TN_SHARED_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/plugin.h>

/* ---- the core's table (core_table.c) ------------------------------------- */

/* The core's table. tn__host_accept sets it. */
extern const tn_host *tn__host;

/* Checks that this core prints kernels and has this plugin's ABI version, and
 * sets tn__host. Returns false if not; then an error is recorded if the core
 * can do that. */
bool tn__host_accept(const tn_host *host, const char *plugin);

/* Records the error that `call` has a kind or flag that this version of the
 * plugin does not know, and returns the status. */
tn_status tn__refuse_unknown(const char *call);

/* Returns true if the plugin's option `key` has exactly this value. */
bool tn__option_is(const char *key, const char *value);

/* Returns true if the core has a disk cache. */
static inline bool tn__cache_exists(void)
{
    return TN_HAS(tn_host, tn__host, cache_write) && tn__host->cache_read;
}

/* Returns a key for the disk cache: head, then text. The caller frees it.
 * Returns NULL if there is no cache or no memory. */
char *tn__cache_key(const char *head, const char *text, uint64_t text_bytes,
                    size_t *key_bytes);

/* ---- the list of devices (device_list.c) --------------------------------- */

/* The devices that a driver lists. The plugin has an array of its own for them;
 * this struct has their number. */
typedef struct tn_device_list {
    void (*fill)(void);  /* lists the devices; called once */
    pthread_once_t once; /* initialised to PTHREAD_ONCE_INIT */
    uint32_t count;
    char error[320]; /* why there is no device, if count is 0 */
} tn_device_list;

/* Implements the plugin's slot device_count. Returns TN_OK; if there is no
 * device, records the reason. */
tn_status tn__device_list_count(tn_device_list *list, uint32_t *count);

/* Returns true if device i exists. If not, records an error. */
bool tn__device_list_has(tn_device_list *list, uint32_t i);

/* Copies *from to *out, whose struct may be that of an older core. */
void tn__device_info_copy(const tn_device_info *from, tn_device_info *out);

/* ---- from source to binary (build_source.c) ------------------------------ */

/* The result of a compiler. The caller frees bytes. */
typedef struct tn_binary {
    void *bytes;
    size_t count;
} tn_binary;

/* A kernel's source, and how the plugin builds it. */
typedef struct tn_build {
    const char *plugin;      /* name of the plugin, such as "cuda" */
    /* suffix of the file that holds a source which does not compile, such as
     * ".cu" */
    const char *suffix;
    const char *device_name; /* name of the device, for the log */
    /* all that a binary depends on besides its source */
    const char *key_head;
    const tn_source *source;
    /* Loads a binary from the disk cache. Returns 0 if the driver rejects
     * it. */
    uint32_t (*load)(void *context, const void *binary, uint64_t bytes);
    /* Compiles the source and loads the result. Fills *binary, or leaves it
     * empty. binary is NULL if there is no cache. */
    tn_status (*compile)(void *context, tn_binary *binary);
    void *context;
} tn_build;

/* Builds a kernel: loads its binary from the disk cache if the cache has one.
 * Otherwise compiles the source and stores the binary there. */
tn_status tn__build(const tn_build *build);

/* Records that the source did not compile, and returns the status. compiler is
 * the name of the compiler ("NVRTC"). The error has the first line of the
 * compiler's output that contains an error, and the path of a file with the
 * source and the whole output. log is NULL or "" if there was no output. */
tn_status tn__build_failed(const tn_build *build, const char *compiler,
                           const char *log);

/* ---- faults of submitted work (pending.c) -------------------------------- */

/* The work that was submitted to a queue since its last sync. */
typedef struct tn_pending {
    /* tag of the last piece of work, and the number of pieces of work */
    uint64_t last_tag, count;
    bool may_fault;    /* a launch may have recorded an index fault */
    bool faults_empty; /* the fault buffer holds no record */
} tn_pending;

/* The fault buffer of a queue: TN_FAULT_BYTES(records) bytes of device
 * memory. */
typedef struct tn_fault_buffer {
    uint32_t records;
    /* Allocates the buffer if it does not exist. Returns 0 or the driver's
     * error. */
    int (*alloc)(tn_queue *queue);
    /* Fills the buffer with zeros. Returns 0 or the driver's error. */
    int (*clear)(tn_queue *queue);
    /* Copies the buffer's first bytes to the host, after all work of the
     * queue. */
    tn_status (*read)(tn_queue *queue, void *to, size_t bytes);
} tn_fault_buffer;

/* Counts a piece of work that was submitted. */
static inline void tn__pending_add(tn_pending *pending, uint64_t tag)
{
    pending->last_tag = tag;
    pending->count++;
}

/* Makes the fault buffer ready for a launch that may record an index fault:
 * allocates it, and clears it if it was not cleared after the last sync. So a
 * launch never finds the records of another. Returns 0, or the error of alloc
 * or clear. */
static inline int tn__faults_ready(const tn_fault_buffer *buffer,
                                   tn_queue *queue, tn_pending *pending)
{
    int error = buffer->alloc(queue);
    if (!error && !pending->faults_empty)
        error = buffer->clear(queue);
    pending->faults_empty = !error;
    pending->may_fault |= !error;
    return error;
}

/* Waits for the queue. Returns TN_ERR_INDEX, without recording an error, if a
 * launch has recorded a fault; the next sync reports the fault. */
tn_status tn__faults_check(const tn_fault_buffer *buffer, tn_queue *queue,
                           const tn_pending *pending);

/* Called at a sync. Stores the first index fault, if there is one, in *fault
 * (which may be NULL), and clears the buffer. */
tn_status tn__faults_read(const tn_fault_buffer *buffer, tn_queue *queue,
                          tn_pending *pending, tn_fault *fault);

/* Fills *fault (which may be NULL) for work that failed after it was submitted.
 * The tag of that work is known only if one piece of work was pending. */
void tn__pending_fault(const tn_pending *pending, tn_status code,
                       tn_fault *fault);

/* ---- submitting work (submit.c) ------------------------------------------ */

/* Plans step number plan->step of a piece of work. */
typedef tn_status tn_plan_next(const tn_target *target,
                               const tn_program *program, const void *args,
                               tn_plan *plan);

/* These plan by the core's function of the same name. args is a tn_launch,
 * tn_matmul_args, and so on. */
tn_plan_next tn__next_program, tn__next_matmul, tn__next_scatter,
    tn__next_scan, tn__next_sort, tn__next_conv, tn__next_attention;

/* Launches a planned step. */
typedef tn_status tn_plan_launch(tn_queue *queue, const tn_target *target,
                                 const tn_program *program, tn_plan *plan);

/* Plans and launches all steps of a piece of work. program is NULL for a
 * primitive. */
static inline tn_status tn__run_steps(tn_queue *queue, const tn_target *target,
                                      tn_plan_next *next,
                                      const tn_program *program,
                                      const void *args, tn_plan_launch *launch)
{
    tn_plan plan; /* 8 KiB; the core fills only what a step uses */
    tn_status status;
    plan.size = sizeof plan;
    plan.step = 0;
    do {
        status = next(target, program, args, &plan);
        if (!status && plan.group_count)
            status = launch(queue, target, program, &plan);
    } while (!status && ++plan.step < plan.step_count);
    return status;
}

/* Returns true if the rows of a copy are contiguous in source and
 * destination. */
bool tn__copy_is_flat(const tn_copy_args *copy);

/* tn__copy_rows copies row by row. For each row it calls flat, which copies
 * `bytes` bytes from offset src to offset dst. If source or destination is host
 * memory, host is the row's address there. Returns flat's first error, or 0. */
typedef int tn_copy_flat(tn_queue *queue, const tn_copy_args *copy, void *host,
                         uint64_t dst, uint64_t src, uint64_t bytes);
int tn__copy_rows(tn_queue *queue, const tn_copy_args *copy,
                  tn_copy_flat *flat);

#endif
