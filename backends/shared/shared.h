/* shared.h: functions that the plugins cuda and opencl share. In both plugins
 * the driver compiles kernels, whose source the core prints.
 *
 * The core is the library libtenon, which calls the plugin. A piece of work is
 * what one call of the core submits to a queue: a launch of a program, a
 * primitive, a copy or a call of an extension. The files of this folder are
 * compiled into each of the two plugins and include only <tenon/plugin.h>. If a
 * function here needs the driver, the plugin passes it a pointer to a function
 * that calls the driver. */
#ifndef TN_SHARED_SHARED_H
#define TN_SHARED_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/plugin.h>

/* ---- the core's table (core_table.c) ------------------------------------- */

/* The core's function table. tn__host_accept sets it. */
extern const tn_host *tn__host;

/* Returns whether the core has the plugin's ABI version and can print kernels,
 * and sets tn__host if so. Otherwise records an error, if the core has a
 * function for that. */
bool tn__host_accept(const tn_host *host, const char *plugin);

/* Records an error and returns its status: `call` has a kind or flag that this
 * version of the plugin does not support. */
tn_status tn__refuse_unknown(const char *call);

/* Returns whether the plugin's option `key` has exactly this value. */
bool tn__option_is(const char *key, const char *value);

/* Returns whether the core has a disk cache. */
static inline bool tn__cache_exists(void)
{
    return TN_HAS(tn_host, tn__host, cache_write) && tn__host->cache_read;
}

/* Returns a key for the disk cache: head followed by text. The caller frees it.
 * Returns NULL if there is no cache or if out of memory. */
char *tn__cache_key(const char *head, const char *text, uint64_t text_bytes,
                    size_t *key_bytes);

/* ---- the list of devices (device_list.c) --------------------------------- */

/* The list of a driver's devices: the function that lists them, how many there
 * are, and why there are none. The devices themselves are in an array of the
 * plugin. */
typedef struct tn_device_list {
    void (*fill)(void);  /* lists the devices; called once */
    pthread_once_t once; /* initialised to PTHREAD_ONCE_INIT */
    uint32_t count;      /* number of devices */
    char error[320]; /* why there is no device, if count is 0 */
} tn_device_list;

/* Implements the plugin's function device_count. Always returns TN_OK. If there
 * is no device, records the reason. */
tn_status tn__device_list_count(tn_device_list *list, uint32_t *count);

/* Returns whether device i exists, and records an error if it does not. */
bool tn__device_list_has(tn_device_list *list, uint32_t i);

/* Copies *from to *out. An older core's struct may be shorter, so only the
 * fields that it has are copied. */
void tn__device_info_copy(const tn_device_info *from, tn_device_info *out);

/* ---- from source to binary (build_source.c) ------------------------------ */

/* Compiled code. The caller frees `bytes`. */
typedef struct tn_binary {
    void *bytes;
    size_t count;
} tn_binary;

/* The source of a kernel and the functions by which the plugin builds it. */
typedef struct tn_build {
    const char *plugin;      /* name of the plugin, such as "cuda" */
    /* suffix of the file, such as ".cu", in which a source that does not
     * compile is saved */
    const char *suffix;
    const char *device_name; /* name of the device, for the log */
    /* first part of the key in the disk cache. It contains everything that a
     * binary depends on except its source. */
    const char *key_head;
    const tn_source *source;
    /* Loads a binary from the disk cache. Returns 0 if the driver rejects
     * it. */
    uint32_t (*load)(void *context, const void *binary, uint64_t bytes);
    /* Compiles the source and loads the result. If binary is not NULL, also
     * stores the compiled code in *binary, or leaves *binary empty if the
     * driver does not return the code. binary is NULL if there is no disk
     * cache. */
    tn_status (*compile)(void *context, tn_binary *binary);
    void *context;
} tn_build;

/* Builds a kernel: loads its binary from the disk cache if the cache has one.
 * Otherwise compiles the source and stores the binary there. */
tn_status tn__build(const tn_build *build);

/* Records the error that a source did not compile, and returns its status.
 * compiler is the name of the compiler, such as "NVRTC". log is the compiler's
 * output, or NULL or "". The error message quotes the first error in the log
 * and names a file to which the source and the log are saved. */
tn_status tn__build_failed(const tn_build *build, const char *compiler,
                           const char *log);

/* ---- faults of submitted work (pending.c) -------------------------------- */

/* The work that was submitted to a queue since its last sync. */
typedef struct tn_pending {
    /* tag of the last call that submitted work, and number of such calls */
    uint64_t last_tag, count;
    bool may_fault;    /* a launch may have reported an index out of range */
    bool faults_empty; /* the fault buffer has been cleared and not used
                          since */
} tn_pending;

/* The functions by which a plugin manages the fault buffer of a queue. Kernels
 * report indices that are out of range in this buffer. It is device memory of
 * TN_FAULT_BYTES(records) bytes. */
typedef struct tn_fault_buffer {
    uint32_t records;
    /* Allocates the buffer if it does not exist. Returns 0 or the driver's
     * error. */
    int (*alloc)(tn_queue *queue);
    /* Fills the buffer with zeros. Returns 0 or the driver's error. */
    int (*clear)(tn_queue *queue);
    /* Waits for all work of the queue and copies the first `bytes` bytes of the
     * buffer to the host. */
    tn_status (*read)(tn_queue *queue, void *to, size_t bytes);
} tn_fault_buffer;

/* Called after work was submitted (one launch, product, ...). tag is the tag in
 * the call's arguments. */
static inline void tn__pending_add(tn_pending *pending, uint64_t tag)
{
    pending->last_tag = tag;
    pending->count++;
}

/* Prepares the fault buffer for a launch that may report an index out of range.
 * Allocates the buffer if it does not exist. Clears it, unless this was done
 * since the last sync, so that it contains no old records. Returns 0, or the
 * error of alloc or clear. */
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

/* Waits for the queue. If a launch has reported an index out of range, returns
 * TN_ERR_INDEX without recording an error, because the next sync records it. */
tn_status tn__faults_check(const tn_fault_buffer *buffer, tn_queue *queue,
                           const tn_pending *pending);

/* Called when the host waits for the queue. If a launch has reported an index
 * out of range, stores the first such report in *fault, unless fault is NULL.
 * Clears the buffer. */
tn_status tn__faults_read(const tn_fault_buffer *buffer, tn_queue *queue,
                          tn_pending *pending, tn_fault *fault);

/* Sets *fault, unless fault is NULL, for work that failed after it was
 * submitted. The tag of that work is known only if exactly one piece of work
 * was pending. */
void tn__pending_fault(const tn_pending *pending, tn_status code,
                       tn_fault *fault);

/* ---- submitting work (submit.c) ------------------------------------------ */

/* Plans one launch: step plan->step of a program, primitive or extension
 * call. */
typedef tn_status tn_plan_next(const tn_target *target,
                               const tn_program *program, const void *args,
                               tn_plan *plan);

/* Functions that plan a step by calling the core's planning function of the
 * same name. args is a tn_launch for a program, a tn_matmul_args for matmul,
 * and so on. */
tn_plan_next tn__next_program, tn__next_matmul, tn__next_scatter,
    tn__next_scan, tn__next_sort, tn__next_conv, tn__next_attention;

/* Plans a step of the extension "quantised-product" (quantised.c). args is a
 * tn_quantised_product_args. */
tn_plan_next tn__next_quantised;

/* Returns TN_OK if the target can multiply by blocks of this format
 * (TN_BLOCK_MAP). Otherwise records the reason. */
tn_status tn__quantised_takes(const tn_target *target, uint32_t format);

/* Prints the source of a plan's kernel: of a plan of this folder by
 * tn__host->print_text, of the core's plans by tn__host->print. The caller
 * frees it with tn__host->print_free. */
tn_status tn__print_plan(const tn_target *target, const tn_program *program,
                    const tn_plan *plan, tn_source *source);

/* Names and contents of the files in quantised/, alternating, ended by two
 * NULL. embed.awk makes it. */
extern const char *const tn__quantised_text[];

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
    tn_plan plan; /* not initialised as a whole, because it takes 8 KiB and the
                     core sets all fields that a step uses */
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

/* Returns whether the rows of a copy are contiguous in source and destination.
 * They can then be copied as one row. */
bool tn__copy_is_flat(const tn_copy_args *copy);

/* Copies one row: `bytes` bytes from offset src to offset dst. If source or
 * destination is host memory, host is the address of the row there. Returns 0
 * or an error. */
typedef int tn_copy_flat(tn_queue *queue, const tn_copy_args *copy, void *host,
                         uint64_t dst, uint64_t src, uint64_t bytes);
/* Makes a copy row by row, by calling flat for each row. Returns the first
 * error of flat, or 0. */
int tn__copy_rows(tn_queue *queue, const tn_copy_args *copy,
                  tn_copy_flat *flat);

/* ---- epilogues (epilogue.c) ------------------------------------------------ */

/* The plugin's functions for each kind of work of the extension "epilogue", NULL
 * if it has none, and its function for launches. */
typedef struct tn_epilogue_calls {
    tn_status (*matmul)(tn_queue *queue, const tn_matmul_args *args);
    tn_status (*conv)(tn_queue *queue, const tn_conv_args *args);
    tn_status (*product)(tn_queue *queue, const tn_product_args *args);
    tn_status (*attention)(tn_queue *queue, const tn_attention_args *args);
    tn_status (*quantised_product)(tn_queue *queue,
                                   const tn_quantised_product_args *args);
    tn_status (*launch)(tn_queue *queue, tn_built *built,
                        const tn_launch *launch);
} tn_epilogue_calls;

/* Implement the extension's functions. */
tn_status tn__epilogue_takes(const tn_epilogue_calls *calls, uint32_t kind);
tn_status tn__epilogue_run(tn_queue *queue, const tn_epilogue_args *args,
                           const tn_epilogue_calls *calls);

#endif
