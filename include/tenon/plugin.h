/* <tenon/plugin.h>: the device plugin ABI, major version 1. Kernel programs are
 * in plugin_program.h, the other primitives in plugin_primitives.h, and the
 * optional extensions in plugin_extensions.h; this header includes all three. A
 * plugin includes no other header of Tenon and links nothing of Tenon. It
 * exports one symbol:
 *
 *     const tn_plugin *tenon_plugin_v1(const tn_host *host);
 *
 * The function returns the plugin's table, which is static and valid until the
 * process ends. To fail, it calls host->fail(code, "why") and returns NULL. It
 * fails if the host has another major version. plugins/reference is the
 * smallest complete plugin and is meant to be copied. tenon-plugin-check checks
 * whether a plugin keeps the rules below.
 *
 * Rules
 *
 * Structs
 *  - Structs grow only at their end. A struct that crosses the interface begins
 *    with `size`: sizeof the struct in the header of the side that made it.
 *    Read a field only if TN_HAS says that it is present. Ignore fields that
 *    your header does not have. Treat an absent slot (function pointer) as
 *    NULL.
 *  - TN_..._SIZE_1_0 is the minimum size of a struct. The fields that it covers
 *    are always present. Read all other fields only after TN_HAS; in the host
 *    table these are the fields after `extension`.
 *  - Never copy or write such a struct whole, by assignment or sizeof: the
 *    struct of the other side may be shorter than yours. tn_struct_copy copies
 *    the fields that both sides have.
 *  - A struct to be filled arrives with its size set. The rest of tn_fault and
 *    tn_source is 0. The rest of tn_device_info may be uninitialised: write all
 *    of it. The side that fills a struct writes no byte beyond that size,
 *    leaves `size` unchanged, and writes 0 to fields that it does not support.
 *  - Later versions add values of kinds, flags and directions. A plugin rejects
 *    values that its header does not have: it returns TN_ERR_UNSUPPORTED,
 *    passes a reason to host->fail, and writes nothing. tn_scatter_is_known and
 *    similar functions check each struct for this. If a plugin rejects a new
 *    value, the core does the work in another way. The flags of a launch are
 *    hints: ignore those that your header does not have. The fields that a
 *    longer struct adds never change the meaning of its older fields.
 *  - A struct without `size` is closed: it does not change within major 1.
 *    These are tn_kernel_ins, tn_kernel_fn, tn_kernel_operand, tn_kernel_stage,
 *    tn_number, tn_launch_operand and tn_strided. A later version extends a
 *    closed struct by a new field of the struct that contains it or points to
 *    it.
 *
 * Behaviour
 *  - A call reports an error by its status and passes a message to host->fail.
 *    The message belongs to the calling thread. So call `fail` before the call
 *    returns, on the calling thread or within host->parallel_for. On a thread
 *    that the plugin started, the message is lost: store the failure with the
 *    queue, and pass its message to `fail` in the queue_sync that reports it.
 *  - A plugin never aborts, exits, or writes to stdout or stderr (use
 *    host->log). It never changes the locale, the environment, the current
 *    folder, the caller's floating-point state or a signal handler.
 *  - A plugin starts no thread before a device is opened: not while its file is
 *    loaded, and not in tenon_plugin_v1, device_count or device_info. These
 *    four steps may run in a child process. Threads that a plugin starts block
 *    all signals.
 *  - A plugin is not responsible for what a library of its vendor does
 *    independently. Such a library may start threads in any call (CUDA's driver
 *    does so when it lists devices) and set environment variables (PoCL does).
 *    A plugin is responsible for all libraries in the folder of its file, and
 *    for what a language's runtime, such as libstdc++ or OpenMP, does for it.
 *  - device_count and device_info create no context and open no heavy library.
 *    Zero devices is a success: device_count returns TN_OK, and passes the
 *    reason to host->fail as a note.
 *  - Arithmetic rounds to nearest even, and supports subnormals as operands and
 *    as results, whatever mode the calling thread has set. A new thread
 *    inherits the mode of the thread that started it. So set the mode in each
 *    thread that computes, including those of host->parallel_for.
 *
 * Life
 *  - A plugin's file is never closed. An open device, its first queue and what
 *    was built for it exist until the process ends. No function is called at
 *    the process's end. Threads that still run then must not need what exit
 *    handlers destroy. The core calls device_close only if opening failed after
 *    device_open, and it need not call program_free. Both functions must work:
 *    tenon-plugin-check calls them, and checks what they leave behind.
 *  - What a call points to belongs to the caller, which may overwrite it as
 *    soon as the call returns: descriptors, and a launch with its extents,
 *    operands, strides and parameters. A device that executes later copies
 *    them. Three things stay valid longer: a tn_program until program_free,
 *    host memory in a copy until the next sync of that queue, and the host
 *    memory of buffer_wrap until buffer_free.
 *  - An object is closed or freed once. No other call uses it at that time or
 *    later. Work submitted before is still done. queue_close waits for it.
 *    buffer_free, program_free and event_close may be called while such work
 *    uses the object: they wait for the work, or free the object later. After
 *    that nothing is left of the object. All objects of a device are closed or
 *    freed before device_close.
 *
 * Order
 *  - Work on a queue executes in order. A synchronous device (without
 *    TN_CAP_ASYNC) completes it before the call returns.
 *  - Work on different queues has no order, except the order set by queue_wait.
 *
 * Threads
 *  - Calls come from any thread of the program, also from threads that start
 *    later. An object belongs to no thread: one thread makes it, others use it,
 *    another frees it. Set what a vendor's library stores per thread (a current
 *    context) anew in each call.
 *  - The core makes one of these calls at a time, over all plugins: loading the
 *    file, tenon_plugin_v1, device_count, device_open with the device's first
 *    queue_open, and device_close.
 *  - The core makes one of these calls at a time for each queue of an
 *    asynchronous device: launch, copy and the other primitives, the work of an
 *    extension on the queue, event_record, queue_wait, queue_sync and
 *    queue_close. So nothing is submitted to a queue while queue_sync waits for
 *    it. Other queues continue.
 *  - The core makes one of these calls at a time for each event: event_open,
 *    event_record and event_close. queue_wait, event_query and event_elapsed
 *    may run concurrently, but not during these three.
 *  - All other calls may run concurrently, also on one device: buffer_...,
 *    host_..., device_info, program_build, program_free, queue_open, extension,
 *    all calls on the queue of a synchronous device, calls on different queues,
 *    and any of these during a queue_sync. The exception is an object that is
 *    being closed or freed: no other call uses it (see Life).
 *  - The thread that gives up the last reference to an object closes or frees
 *    it. A thread that needs memory may also free a buffer. This may happen
 *    while the thread ends, after the destructors of its thread-specific data
 *    (pthread_key_create) have run.
 *
 * Operands
 *  - Strides, offsets and extents count elements. Sizes named bytes count
 *    bytes. Strides may be 0 or negative. The core has checked that everything
 *    that a launch accesses is inside its buffers. Indexed loads and scatters
 *    check their own index against its extent.
 *  - An output may share memory with an input only element for element: with
 *    the same offset, strides and width. Otherwise they never overlap.
 *  - The core passes only operands with dtypes in the device's storage_types,
 *    and only programs that compute in its register_types.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <string.h>
#include <tenon/plugin_primitives.h>
#include <tenon/plugin_program.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major and minor version of this interface. */
#define TN_ABI_MAJOR 1u
#define TN_ABI_MINOR 0u
/* TN_END is the offset of the first byte after field f of struct T. TN_HAS
 * is true if struct *p, of type T, has field f. */
#define TN_END(T, f) ((uint32_t)(offsetof(T, f) + sizeof(((T *)0)->f)))
#define TN_HAS(T, p, f) ((p)->size >= TN_END(T, f))

/* Copies the fields that both structs have from *from to *to. *from and *to are
 * structs of the same type, and begin with their size. Sets the other fields of
 * *to to 0. Leaves the size of *to unchanged, and writes nothing beyond it. */
static inline void tn_struct_copy(void *to, const void *from)
{
    uint32_t room, known;
    memcpy(&room, to, sizeof room);
    memcpy(&known, from, sizeof known);
    if (known > room)
        known = room;
    if (known < sizeof known)
        return;
    memcpy((char *)to + sizeof room, (const char *)from + sizeof known,
           known - sizeof known);
    memset((char *)to + known, 0, room - known);
}

typedef struct tn_plugin_device tn_plugin_device; /* an open device */
typedef struct tn_queue tn_queue;
typedef struct tn_event tn_event;
typedef struct tn_built tn_built; /* a program, built for a device */

/* ------------------------------------------------------------------------
 * Programs and primitives as source
 *
 * A plugin whose device compiles source (OpenCL C 1.2 and later, CUDA C
 * through NVRTC, C11) contains no kernels. The core generates their source. For
 * each launch it determines which source to run, with how many work-items, and
 * with which arguments. All five primitives work the same way:
 *
 *     tn_plan plan = {.size = sizeof plan};
 *     do {
 *         host->plan_program(&target, program, launch, &plan);
 *         if (plan.group_count == 0)
 *             continue;                        // nothing to do
 *         kernel = kernels_find(plan.key);     // else, once:
 *             host->print(&target, program, &plan, &source);
 *             ... build source.text, take source.kernel out of it ...
 *             host->print_free(&source);
 *         set the arguments; run plan.group_count work-groups
 *             of plan.group_size work-items
 *     } while (++plan.step < plan.step_count);
 *
 * The source depends only on the structure of the program, on dtypes and on a
 * few properties of the launch (dimensions after merging, unit strides,
 * vectors, 32-bit indexing), never on extents, strides or scalars. Equal keys
 * mean equal source. Work-groups and work-items have one dimension.
 *
 * The kernel's arguments, in this order:
 *   1. buffer[0 .. buffer_count): one global pointer each, to the buffer's
 *      first byte (offsets are inside the argument words). The pointer is a
 *      multiple of 16 bytes and may be NULL;
 *   2. with TN_PLAN_SCRATCH, a buffer of scratch_bytes, the same for all
 *      steps, its content undefined;
 *   3. with TN_PLAN_FAULTS, the queue's fault buffer;
 *   4. the argument words: one struct by value of argument_bytes, or, with
 *      TN_PLAN_WORDS_IN_BUFFER, a global pointer to them.
 *
 * In plain C (TN_TARGET_C) source.kernel names a tn_kernel_c, the only function
 * of the source that is not static. It receives these pointers as an array, and
 * plan.argument unchanged. It runs a range of work-groups. Several threads may
 * run ranges of one launch concurrently. Any C11 compiler with <math.h> and
 * <stdatomic.h> builds the source, so this is the shortest way to a device with
 * its own kernels. Results are bit-identical to the reference plugin's if the
 * source is compiled by `cc -std=c11 -O2 -ffp-contract=off -fno-strict-aliasing
 * -fPIC -shared ... -lm`, opened by dlopen and dlsym, and run in the
 * floating-point mode that Behaviour requires. tests/plugins/compiled.c is such
 * a device.
 *
 * A queue's fault buffer has TN_FAULT_BYTES(fault_room) and starts as zeros. A
 * launch with an index fault writes to the buffer only if no earlier launch on
 * that queue has done so. After a sync its first 4 bytes are 0 exactly if no
 * launch failed. Otherwise copy the buffer to the host: fault_read converts it
 * to the tn_fault (tag, operand, dim, index, extent, lowest position). Then
 * fill the buffer with zeros again. The format of the buffer is private to the
 * core.
 * ---------------------------------------------------------------------- */

/* Flags of a target: what the device's compiler and hardware support. */
enum {
    TN_TARGET_F64 = 1,        /* has double precision; without it, a program
                               * that needs it is rejected
                               * (TN_ERR_UNSUPPORTED) */
    TN_TARGET_CHUNKED = 2,    /* a work-item processes adjacent elements and
                               * whole rows (CPUs, where a work-group is a
                               * loop); without it, adjacent work-items process
                               * adjacent elements, and a work-group processes
                               * a row or, if there are few long rows, a part
                               * of one */
    TN_TARGET_EXACT_DIVIDE = 4, /* f32 division and square root are correctly
                                 * rounded: always in CUDA C built with
                                 * --prec-div=true --prec-sqrt=true; in OpenCL C
                                 * with -cl-fp32-correctly-rounded-divide-sqrt
                                 * if the device supports it. Without the flag,
                                 * the generated source computes division and
                                 * square root in double or in integers */
    TN_TARGET_MMA = 8,         /* mma.sync multiplies half types: CUDA C for
                                * compute capability 8.0 and later */
    TN_TARGET_PLAIN = 16,      /* C11; only as a part of TN_TARGET_C */
    TN_TARGET_C = TN_TARGET_PLAIN | TN_TARGET_F64 | TN_TARGET_CHUNKED |
                  TN_TARGET_EXACT_DIVIDE /* plain C, in which a work-group is
                                          * one work-item */
};

/* The device for which the core generates source and plans launches. A device's
 * flags never change. */
typedef struct tn_target {
    uint32_t size, flags;
    uint32_t units;         /* number of compute units */
    uint32_t group_limit;   /* largest number of work-items of a work-group */
    uint32_t argument_room; /* bytes of by-value arguments, including the
                             * pointers to buffers: 1024 in OpenCL, 4096 in
                             * CUDA */
    uint32_t fault_room;    /* number of records of a fault buffer, which limits
                             * the number of work-groups of a launch that may
                             * fault; at least 4096; 65536 is enough */
    uint32_t local_bytes;   /* bytes of local (shared) memory of a work-group */
    uint32_t reserved;
} tn_target;

/* Flags of a plan: which arguments the kernel has besides buffers. */
enum {
    TN_PLAN_SCRATCH = 1,
    TN_PLAN_FAULTS = 2,
    TN_PLAN_WORDS_IN_BUFFER = 4
};
#define TN_PLAN_BUFFERS 32  /* largest number of buffers of a kernel */
#define TN_PLAN_WORDS 1024  /* largest number of argument words */
/* Bytes of a fault buffer of `room` records. */
#define TN_FAULT_BYTES(room) (8 + 40 * (uint64_t)(room))

/* One launch of one kernel, filled by host->plan_.... The caller sets size and
 * step. step is 0 at first. */
typedef struct tn_plan {
    uint32_t size, step, step_count, flags;
    uint64_t key[2];  /* equal keys mean equal source, for equal target flags */
    uint64_t variant; /* host->plan_... sets it for host->print */
    uint64_t group_count;
    uint32_t group_size, buffer_count;
    tn_buffer *buffer[TN_PLAN_BUFFERS];
    uint64_t scratch_bytes;
    uint32_t argument_bytes, reserved;
    uint64_t argument[TN_PLAN_WORDS];
} tn_plan;

/* A kernel in plain C. Runs the work-groups from `first` up to but not
 * including `end`. count is plan.group_count. pointer[] has the buffers, then
 * the scratch memory and the fault buffer if the plan has them. word is
 * plan.argument. */
typedef void tn_kernel_c(void *const *pointer, const uint64_t *word,
                         uint64_t first, uint64_t end, uint64_t count);

typedef struct tn_source {
    uint32_t size, reserved;
    const char *text;   /* the whole translation unit, ended by a 0 byte */
    uint64_t text_bytes; /* length of text without that byte */
    const char *kernel; /* name of the only kernel in text */
} tn_source;

/* ------------------------------------------------------------------------
 * The two tables
 * ---------------------------------------------------------------------- */

/* Kinds of devices. */
enum { TN_KIND_CPU, TN_KIND_GPU, TN_KIND_ACCELERATOR, TN_KIND_SIMULATED };
/* Capabilities of a device. */
enum {
    TN_CAP_HOST_VISIBLE = 1, /* buffer_map returns a pointer for the CPU */
    TN_CAP_ASYNC = 2,        /* calls return before the work is done */
    TN_CAP_BIT_EXACT = 4, /* results of programs are bit-identical to the
                           * reference plugin's */
    TN_CAP_PEER = 8 /* can copy between the plugin's devices (TN_COPY_PEER) */
};

/* device_info writes all `size` bytes, and 0 for a field that has no value or
 * that it does not support. The core calls it before it opens the device, and
 * later at any time to read memory_free. */
typedef struct tn_device_info {
    uint32_t size, kind, caps;
    uint32_t align; /* alignment of buffers in bytes, a power of two up to
                       65536 */
    /* Masks of one bit (1 << dtype) for each dtype. register_types are the
     * dtypes in which programs compute. storage_types are the dtypes of
     * elements in buffers: every program and primitive must support all of
     * them, and the core makes no tensor of another dtype. F32 is in both
     * masks. If a dtype is in storage_types, its register type (TN_DTYPE_MAP)
     * is in register_types. */
    uint32_t register_types;
    uint32_t storage_types;
    uint64_t memory_total, memory_free; /* in bytes; 0 if unknown */
    char name[64]; /* "AMD EPYC 9554, 2 threads, avx512" */
    char uid[64];  /* PCI address or serial number; the same in each run */
    char note[128]; /* why the device is unusable or not bit-exact */
} tn_device_info;

struct tn_attention_args;
struct tn_conv_args;

/* What the core provides to a plugin, valid until the process ends. Any thread
 * may call all of its functions. */
typedef struct tn_host {
    uint32_t size, abi_major, abi_minor, reserved;
    const char *plugin_path; /* this plugin's file */
    /* Records a message for the calling thread and returns code. The core reads
     * only the message of a thread on which it called the plugin (see
     * Behaviour). */
    tn_status (*fail)(tn_status code, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    /* Writes a line to the log if its level (TENON_LOG) is at least `level`. */
    void (*log)(int level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    /* Calls body(context, i) for i in [0, count) on the core's threads.
     * Returns when all calls are done. Partition by the shape, never by the
     * number of threads. Do not nest calls: a nested call runs serially. Each
     * thread has its own floating-point state. */
    void (*parallel_for)(int64_t count, void (*body)(void *context, int64_t i),
                         void *context);
    /* Runs a program over host memory with the reference interpreter.
     * memory[k] is what the buffer of operand k points to. On an index fault,
     * returns TN_ERR_INDEX and fills *fault up to the size that is set in
     * it. */
    tn_status (*interpret)(const tn_program *program, const tn_launch *launch,
                           void *const *memory, tn_fault *fault);
    /* Returns the value of TENON_<PLUGIN>_<key>, or of "key=value" after the
     * device's name, or NULL if neither is set. Copy it, because the program
     * may change its environment. */
    const char *(*option)(const char *key);
    const void *(*extension)(const char *name, uint32_t version);
    /* Each of these fills *plan for a program or primitive ("Programs and
     * primitives as source" above). */
    tn_status (*plan_program)(const tn_target *target,
                              const tn_program *program,
                              const tn_launch *launch, tn_plan *plan);
    tn_status (*plan_matmul)(const tn_target *target,
                             const tn_matmul_args *matmul, tn_plan *plan);
    tn_status (*plan_scatter)(const tn_target *target,
                              const tn_scatter_args *scatter, tn_plan *plan);
    tn_status (*plan_scan)(const tn_target *target, const tn_scan_args *scan,
                           tn_plan *plan);
    tn_status (*plan_sort)(const tn_target *target, const tn_sort_args *sort,
                           tn_plan *plan);
    /* Generates the source of a plan's kernel in *source, which is valid until
     * print_free. program is NULL if the plan is for a primitive. */
    tn_status (*print)(const tn_target *target, const tn_program *program,
                       const tn_plan *plan, tn_source *source);
    void (*print_free)(tn_source *source);
    /* Reads a queue's fault buffer, copied to the host. Returns TN_OK if no
     * launch failed. Otherwise returns TN_ERR_INDEX and fills *fault up to the
     * size that is set in it. */
    tn_status (*fault_read)(const void *buffer, uint32_t fault_room,
                            tn_fault *fault);
    /* An on-disk cache of what the device's compiler makes. The key contains
     * everything on which the value depends: the plugin, the device, its
     * driver's version, options, the whole source. cache_read passes the value
     * to `take` and returns what `take` returns, or 0 if there is no value or
     * no cache. It removes a damaged value, and one for which `take` returns 0.
     * cache_write stores a value. It does not report a failure. */
    uint32_t (*cache_read)(const void *key, uint64_t key_bytes,
                           uint32_t (*take)(void *context, const void *value,
                                            uint64_t value_bytes),
                           void *context);
    void (*cache_write)(const void *key, uint64_t key_bytes, const void *value,
                        uint64_t value_bytes);
    /* Locks the key until cache_release. Waits while another thread holds the
     * lock, in any process with the same cache. Returns the argument of
     * cache_release, which is -1 if nothing is locked, because there is no
     * cache or the file cannot be locked. If plugins compile a source only
     * under the lock, it is compiled only once, and never in two processes at
     * the same time. Some compilers' temporary files would collide if two
     * processes compiled the same source. A thread holds at most one key. */
    int32_t (*cache_hold)(const void *key, uint64_t key_bytes);
    void (*cache_release)(int32_t hold);
    /* Fills *plan for the extension "attention", like plan_program for a
     * program. Returns TN_ERR_UNSUPPORTED, with the reason, if there is no
     * kernel for these arguments. */
    tn_status (*plan_attention)(const tn_target *target,
                                const struct tn_attention_args *attention,
                                tn_plan *plan);
    /* Fills *plan for the extension "conv", on devices without
     * TN_TARGET_CHUNKED. The results are bit-identical to im2col followed by a
     * matrix product of plan_matmul. The exception is a gradient of weights
     * over more than 1024 images, or over more columns than the core makes at
     * once. */
    tn_status (*plan_conv)(const tn_target *target,
                           const struct tn_conv_args *conv, tn_plan *plan);
    /* Like print, but for a kernel that the plugin brings: `text` defines the
     * function `kernel` in the dialect of the core's kernels. The source begins
     * with the definitions of lib/source/platform.cl, instructions.cl and
     * storage.cl (such as TK_KERNEL, TK_LOCAL, tk_div_f32) and two macros:
     * TK_WORDS is the parameter with the argument words, TK_WORD(i) is word i.
     * Then `text` follows. The plugin sets the plan's key, flags, buffers,
     * argument words and groups. */
    tn_status (*print_text)(const tn_target *target, const tn_plan *plan,
                            const char *kernel, const char *text,
                            tn_source *source);
} tn_host;

/* The plugin's table. An optional function that is absent is NULL. */
typedef struct tn_plugin {
    uint32_t size, abi_major, abi_minor, reserved;
    const char *name, *version;

    /* Required functions. */
    tn_status (*device_count)(uint32_t *count);
    tn_status (*device_info)(uint32_t i, tn_device_info *info);
    tn_status (*device_open)(uint32_t i, tn_plugin_device **device);
    void (*device_close)(tn_plugin_device *device);
    tn_status (*buffer_alloc)(tn_plugin_device *device, uint64_t bytes,
                              tn_buffer **buffer);
    void (*buffer_free)(tn_plugin_device *device, tn_buffer *buffer);
    tn_status (*queue_open)(tn_plugin_device *device, tn_queue **queue);
    void (*queue_close)(tn_queue *queue);
    /* Waits for all work submitted to the queue. If work has failed since the
     * last sync, fills *fault with the first failure (see tn_fault) and returns
     * its code. Otherwise returns TN_OK and leaves *fault unchanged. Pass the
     * message of a failure to host->fail here. The core writes the message of
     * TN_ERR_INDEX itself. */
    tn_status (*queue_sync)(tn_queue *queue, tn_fault *fault);
    tn_status (*copy)(tn_queue *queue, const tn_copy_args *copy);
    /* Builds a program for the device. *program stays unchanged, at the same
     * address, until program_free of *built. */
    tn_status (*program_build)(tn_plugin_device *device,
                               const tn_program *program, tn_built **built);
    void (*program_free)(tn_plugin_device *device, tn_built *built);
    /* The five compute primitives. queue_sync reports an index fault. A
     * synchronous device also returns TN_ERR_INDEX at once. The calling thread
     * then reads the details of its own call by queue_sync; other threads do
     * not see them. */
    tn_status (*launch)(tn_queue *queue, tn_built *built,
                        const tn_launch *launch);
    tn_status (*matmul)(tn_queue *queue, const tn_matmul_args *matmul);
    tn_status (*scatter)(tn_queue *queue, const tn_scatter_args *scatter);
    tn_status (*scan)(tn_queue *queue, const tn_scan_args *scan);
    tn_status (*sort)(tn_queue *queue, const tn_sort_args *sort);

    /* Optional functions: the core works without them. */
    tn_status (*buffer_map)(tn_plugin_device *device, tn_buffer *buffer,
                            void **pointer); /* TN_CAP_HOST_VISIBLE */
    /* Makes a buffer over the caller's host memory, which stays valid until
     * buffer_free. */
    tn_status (*buffer_wrap)(tn_plugin_device *device, void *host,
                             uint64_t bytes, tn_buffer **buffer);
    /* Events: a plugin has all five functions, or none. An event marks a
     * position in a queue: the end of the work submitted to that queue before
     * the event's last event_record.
     *   event_query  sets *done to 1 if all of that work is done, else to 0.
     *   queue_wait   lets work submitted to this queue afterwards start when
     *                the event's work, on whichever queue, is done. The wait
     *                refers to the last event_record before it; a later
     *                event_record does not change that. The calling thread does
     *                not wait.
     * An event that was never recorded is done, and queue_wait then waits for
     * nothing. A new record replaces the one before: event_query then reports
     * only the new one. If event_close is called while a record or a wait is
     * pending, the record or wait is still carried out. The rules under
     * "Threads" say which calls may run concurrently. */
    tn_status (*event_open)(tn_plugin_device *device, tn_event **event);
    void (*event_close)(tn_event *event);
    tn_status (*event_record)(tn_queue *queue, tn_event *event);
    tn_status (*event_query)(tn_event *event, uint32_t *done);
    tn_status (*queue_wait)(tn_queue *queue, tn_event *event);
    const void *(*extension)(const char *name, uint32_t version);
    /* Allocates page-locked host memory, which the device's copies can read and
     * write while other queues work. A plugin has both functions, or none. It
     * needs neither if its copies from ordinary memory already run while other
     * queues work; the core then uses ordinary memory. When host_free is
     * called, no copy uses the memory any more. */
    tn_status (*host_alloc)(tn_plugin_device *device, uint64_t bytes,
                            void **memory);
    void (*host_free)(tn_plugin_device *device, void *memory);
    /* Like event_open, for an event that also stores the time when it was
     * reached. Such events may cost more. */
    tn_status (*event_open_timed)(tn_plugin_device *device, tn_event **event);
    /* Stores the device's time from one timed event to another in *ns, in
     * nanoseconds. If the events were not recorded on queues of one device, or
     * are not done, the call fails and leaves *ns unchanged. A plugin has this
     * function together with event_open_timed and the five event functions
     * above, or not at all. */
    tn_status (*event_elapsed)(tn_event *from, tn_event *to, double *ns);
} tn_plugin;

/* The minimum sizes of structs. They never change; tests/device/test_abi.c has
 * the numbers. The minimum sizes for extensions are in plugin_extensions.h. */
#define TN_PROGRAM_SIZE_1_0 TN_END(tn_program, key)
#define TN_LAUNCH_SIZE_1_0 TN_END(tn_launch, tag)
#define TN_FAULT_SIZE_1_0 TN_END(tn_fault, position)
#define TN_MATMUL_ARGS_SIZE_1_0 TN_END(tn_matmul_args, tag)
#define TN_SCATTER_ARGS_SIZE_1_0 TN_END(tn_scatter_args, tag)
#define TN_SCAN_ARGS_SIZE_1_0 TN_END(tn_scan_args, tag)
#define TN_SORT_ARGS_SIZE_1_0 TN_END(tn_sort_args, tag)
#define TN_COPY_ARGS_SIZE_1_0 TN_END(tn_copy_args, tag)
#define TN_TARGET_SIZE_1_0 TN_END(tn_target, reserved)
#define TN_PLAN_SIZE_1_0 TN_END(tn_plan, argument)
#define TN_SOURCE_SIZE_1_0 TN_END(tn_source, kernel)
#define TN_DEVICE_INFO_SIZE_1_0 TN_END(tn_device_info, note)
#define TN_HOST_SIZE_1_0 TN_END(tn_host, extension)
#define TN_PLUGIN_SIZE_1_0 TN_END(tn_plugin, extension)

/* The plugin defines this function, its only exported symbol. */
TN_API const tn_plugin *tenon_plugin_v1(const tn_host *host);

#ifdef __cplusplus
}
#endif

#include <tenon/plugin_extensions.h>
#endif
