/* <tenon/device.h>: devices, which are plugins loaded on demand.
 *
 *     tn_device *gpu = tn_device_open("cuda:0");      // NULL, and the reason
 *     tn_device_set(gpu);                             // for this thread
 *     tn_tensor *x = tn_zeros(tn_dims(2, 3));         // lives there
 *
 * The first call that needs a device takes TENON_DEVICE: `auto` (default), a
 * name, or a `;` list in order of preference. A device asked for by name that
 * cannot be had is an error that says why; nothing falls back in silence.
 * A tn_device lives as long as the process; you never drop it.
 *
 * Threads: A device is shared by all threads: any may give it work, wait for
 * it, ask for its memory. Work of one thread runs in the order in which it was
 * given; where a thread needs what another one gives, the program orders the
 * calls. The current device is each thread's own; masks, limits, the cache
 * folder and host operators are the process's.
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device tn_device;

/* The device of a specification: "cpu", "cuda:1", "opencl:geforce" (a part of
 * the device's name or uid), "/path/tn_mine.so:0", "auto", or a list
 * "cuda;cpu". NULL (TN_ERR_NO_DEVICE) with the reason of
 * each that was tried. */
TN_API tn_device *tn_device_open(const char *specification);

/* The calling thread's device; where none was set, the process's default
 * (TENON_DEVICE). NULL if that cannot be had. */
TN_API tn_device *tn_device_current(void);

/* Makes device the calling thread's current one; NULL goes back to the
 * default. */
TN_API tn_status tn_device_set(tn_device *device);

/* Devices a plugin offers: tn_device_count("cuda"); with NULL, those of all
 * plugins. Opens no device. 0 where there are none; the reason is in
 * tn_load_report(). */
TN_API int tn_device_count(const char *plugin);

/* Can this specification be opened? Opens it; records no error. */
TN_API bool tn_device_is_available(const char *specification);

/* Waits until all work given to device is done; reports its first failure.
 * NULL: the current device. */
TN_API tn_status tn_device_synchronize(tn_device *device);

/* A place in a device's work, which knows when the device was there:
 *
 *     tn_mark *begin = tn_mark_set(NULL);
 *     tn_matmul(a, b);
 *     tn_mark_elapsed(begin, tn_mark_set(NULL), &seconds);
 *
 * Source: torch.cuda.Event(enable_timing=True). */
typedef struct tn_mark tn_mark;

/* Behind all work that device (NULL: the current one) was given. A device that
 * tells the time (CUDA) goes on; of the others the work is waited for, and the
 * host's clock is read. The open scope owns the mark. NULL: TN_ERR_MEMORY;
 * TN_ERR_STATE while a graph is recorded or an error is pending; what the device
 * reports. */
TN_API tn_mark *tn_mark_set(tn_device *device);

/* The device's seconds from one mark to another, negative where `to` was set
 * first. Waits for both, as tn_device_synchronize, whose errors it has.
 * TN_ERR_DEVICE for marks of two devices; TN_ERR_ARGUMENT for NULL. */
TN_API tn_status tn_mark_elapsed(tn_mark *from, tn_mark *to,
                                 double *out_seconds);

/* "cuda:0". Lent, alive as long as the process. */
TN_API const char *tn_device_name(const tn_device *device);
/* What the plugin says of it: "AMD EPYC ..., avx512". Lent. */
TN_API const char *tn_device_description(const tn_device *device);

/* Does it give the reference device's bits for generated kernels? What a
 * vendor's library computes (matmul ...) agrees within tolerances. */
TN_API bool tn_device_is_bit_exact(const tn_device *device);

/* Leaves extensions of a device's plugin unused (TENON_MASK): names with commas
 * between, "all", or NULL for none; NULL as device is the current one. What an
 * extension did is then done by the device's primitives, slower: for
 * comparisons and tests. TN_ERR_ARGUMENT for a name that is none. */
TN_API tn_status tn_device_mask(tn_device *device, const char *names);
/* Does the device do this by an extension of its plugin that is not masked:
 * "conv", "pool", "attention", "product", "lapack" (<tenon/plugin.h> tells what
 * they are)? Else by primitives. NULL as device is the current one; false with
 * TN_ERR_ARGUMENT for a name that is none. */
TN_API bool tn_device_has_extension(const tn_device *device, const char *name);

/* The folders looked through, then a line for each plugin (name, file, outcome,
 * remedy) and, indented, for each of its devices. Plugins that are not in use
 * are asked in child processes: one that crashes is a line of the report.
 * Lent until the next call of this thread; NULL if memory runs out. */
TN_API const char *tn_load_report(void);

/* The folders in which plugins are looked for, in order: "/a, /b". Lent, alive
 * as long as the process; NULL if memory runs out while they are looked through. */
TN_API const char *tn_plugin_folders(void);

typedef struct tn_memory_stats {
    size_t size;             /* set by tn_memory: bytes of this struct */
    int64_t allocated_bytes; /* in live storages */
    int64_t peak_bytes;      /* its maximum since the last reset */
    int64_t cached_bytes;    /* held for reuse, not in live storages */
    int64_t limit_bytes;     /* 0: none */
    int64_t allocation_count;/* storages handed out since start */
    int64_t slab_count;      /* times the plugin was asked for memory */
} tn_memory_stats;

/* In these four, NULL is the current device. */

/* Fills stats->size bytes of stats (set size = sizeof first). Blocks of up to
 * 1 KiB enter the peak some tens at a time. */
TN_API tn_status tn_memory(tn_device *device, tn_memory_stats *stats);
TN_API void tn_memory_reset_peak(tn_device *device);
/* Limits what storages and cache may hold (TENON_MEM_LIMIT); 0: no limit. */
TN_API tn_status tn_memory_set_limit(tn_device *device, int64_t bytes);
/* Gives cached blocks back to the device. */
TN_API void tn_cache_empty(tn_device *device);

/* Programs that went through a device's compiler since start: those found in
 * the cache on disk are not among them. A second run of a program has none. */
TN_API int64_t tn_programs_compiled(void);

/* The folder that keeps compiled programs, made if it is missing; NULL: none.
 * Where this is not called: TENON_CACHE_DIR ("off": none), else tenon in
 * $XDG_CACHE_HOME or ~/.cache. TN_ERR_IO, and nothing changes, unless it is an
 * absolute path to a folder of the user's own to which nobody else may write:
 * what lies there is run. Its size stays below 1 GiB or so. */
TN_API tn_status tn_cache_folder_set(const char *path);

/* Operators that ran on the host because the table says so (`host` rows: matrix
 * factorisations, through LAPACK on a copy of their inputs), where the device
 * has none of its own (the extension "lapack"), or not for these: the cpu has it
 * for batches of small matrices. */
TN_API int64_t tn_host_runs(void);
/* Whether they may. TENON_HOST_OPS=error refuses them; this call wins. Cannot
 * fail. */
TN_API void tn_host_ops_allow(bool allow);

#ifdef __cplusplus
}
#endif
#endif
