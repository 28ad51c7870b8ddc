/* shared.h: what the plugins have in common whose driver compiles the kernels
 * that the core prints. Its files are compiled into each of these plugins. They
 * know <tenon/plugin.h> alone: a plugin passes in what touches its driver. */
#ifndef TN_SHARED_SHARED_H
#define TN_SHARED_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/plugin.h>

/* ---- the core's table (core_table.c) ------------------------------------- */

/* Set by tn__host_accept. */
extern const tn_host *tn__host;

/* Sets tn__host if this core prints kernels and has this plugin's ABI version;
 * else false, with the error recorded where the core can do that. */
bool tn__host_accept(const tn_host *host, const char *plugin);

/* Rejects a kind or a flag of a later version in this call. */
tn_status tn__refuse_unknown(const char *call);

/* Is the plugin's option `key` set to exactly this value? */
bool tn__option_is(const char *key, const char *value);

/* Has the core a disk cache? */
static inline bool tn__cache_exists(void)
{
    return TN_HAS(tn_host, tn__host, cache_write) && tn__host->cache_read;
}

/* A key of the disk cache: head, then text. The caller frees it. NULL without a
 * cache or without memory. */
char *tn__cache_key(const char *head, const char *text, uint64_t text_bytes,
                    size_t *key_bytes);

/* ---- the list of devices (device_list.c) --------------------------------- */

/* The plugin keeps the devices in an array of its own. */
typedef struct tn_device_list {
    void (*fill)(void);  /* lists the devices; called once */
    pthread_once_t once; /* PTHREAD_ONCE_INIT */
    uint32_t count;
    char error[320]; /* why there is no device */
} tn_device_list;

/* The slot device_count: TN_OK; if there is no device, the reason is
 * recorded. */
tn_status tn__device_list_count(tn_device_list *list, uint32_t *count);

/* Does device i exist? If not, an error is recorded. */
bool tn__device_list_has(tn_device_list *list, uint32_t i);

/* Copies *from to *out, which may be the struct of an older core. */
void tn__device_info_copy(const tn_device_info *from, tn_device_info *out);

/* ---- from source to binary (build_source.c) ------------------------------ */

/* What a compiler made; bytes belong to the caller (free). */
typedef struct tn_binary {
    void *bytes;
    size_t count;
} tn_binary;

/* A kernel's source and how the plugin builds it. */
typedef struct tn_build {
    const char *plugin;      /* "cuda" */
    const char *suffix;      /* of the file of a source that fails: ".cu" */
    const char *device_name; /* for the log */
    const char *key_head;    /* all that a binary depends on, but the source */
    const tn_source *source;
    /* Loads a binary of the disk cache; 0: the driver rejects it. */
    uint32_t (*load)(void *context, const void *binary, uint64_t bytes);
    /* Compiles and loads the source. Fills *binary, unless binary is NULL
     * (there is no cache); may leave it empty. */
    tn_status (*compile)(void *context, tn_binary *binary);
    void *context;
} tn_build;

/* Loads the source's binary from the disk cache; else compiles it and stores
 * the binary there. */
tn_status tn__build(const tn_build *build);

/* Records that the source did not compile. compiler names who says so
 * ("NVRTC"). The error has the first line of the compiler's output that speaks
 * of an error, and the path of a file with the source and the whole output.
 * log: NULL or "" if the compiler said nothing. */
tn_status tn__build_failed(const tn_build *build, const char *compiler,
                           const char *log);

/* ---- faults of submitted work (pending.c) -------------------------------- */

/* What a queue remembers of the work submitted since its last sync. */
typedef struct tn_pending {
    uint64_t last_tag, count; /* of its pieces */
    bool may_fault;    /* a launch of it may have recorded an index fault */
    bool faults_empty; /* the fault buffer holds no record */
} tn_pending;

/* The fault buffer of a queue: TN_FAULT_BYTES(records) of the device's
 * memory. */
typedef struct tn_fault_buffer {
    uint32_t records;
    int (*alloc)(tn_queue *queue); /* if it is not there; 0 or an error */
    int (*clear)(tn_queue *queue); /* fills it with zeros; 0 or an error */
    /* Copies its first bytes to the host, after all work of the queue. */
    tn_status (*read)(tn_queue *queue, void *to, size_t bytes);
} tn_fault_buffer;

static inline void tn__pending_add(tn_pending *pending, uint64_t tag)
{
    pending->last_tag = tag;
    pending->count++;
}

/* Allocates and clears the buffer for a launch that may record an index fault.
 * It clears here only if that failed after the last sync: a launch never finds
 * the records of another. Returns 0, or the error of alloc or clear. */
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

/* TN_ERR_INDEX, without a text, if a launch has recorded a fault; the next sync
 * reports it. Waits for the queue. */
tn_status tn__faults_check(const tn_fault_buffer *buffer, tn_queue *queue,
                           const tn_pending *pending);

/* At a sync: records the first index fault, if any, in *fault (may be NULL),
 * and clears the buffer. */
tn_status tn__faults_read(const tn_fault_buffer *buffer, tn_queue *queue,
                          tn_pending *pending, tn_fault *fault);

/* Fills *fault (may be NULL) for work that failed after it was submitted. Its
 * tag is known only if one piece was pending. */
void tn__pending_fault(const tn_pending *pending, tn_status code,
                       tn_fault *fault);

/* ---- submitting work (submit.c) ------------------------------------------ */

/* Plans step plan->step of a piece of work. */
typedef tn_status tn_plan_next(const tn_target *target,
                               const tn_program *program, const void *args,
                               tn_plan *plan);

/* By the core's function of that name. args: tn_launch, tn_matmul_args, ... */
tn_plan_next tn__next_program, tn__next_matmul, tn__next_scatter,
    tn__next_scan, tn__next_sort, tn__next_conv, tn__next_attention;

/* Launches a planned step. */
typedef tn_status tn_plan_launch(tn_queue *queue, const tn_target *target,
                                 const tn_program *program, tn_plan *plan);

/* Plans and launches all steps of a piece of work. program NULL: a
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

/* Are the rows of a copy contiguous on both sides? */
bool tn__copy_is_flat(const tn_copy_args *copy);

/* Copies row by row. flat copies bytes from offset src to offset dst; host is
 * the row's memory where one side is the host's. Returns flat's first error, or
 * 0. */
typedef int tn_copy_flat(tn_queue *queue, const tn_copy_args *copy, void *host,
                         uint64_t dst, uint64_t src, uint64_t bytes);
int tn__copy_rows(tn_queue *queue, const tn_copy_args *copy,
                  tn_copy_flat *flat);

#endif
