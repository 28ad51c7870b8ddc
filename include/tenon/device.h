/* <tenon/device.h>: devices, which are plugins that are loaded on demand.
 *
 *     tn_device *gpu = tn_device_open("cuda:0");      // NULL, and the reason
 *     tn_device_set(gpu);                             // for this thread
 *     tn_tensor *x = tn_zeros(tn_dims(2, 3));         // on the GPU
 *
 * The first call that needs a device opens the one that TENON_DEVICE names:
 * `auto` (default), a name, or names separated by `;` in order of preference.
 * If a named device cannot be opened, the call fails with the reason; there is
 * no silent fallback. A tn_device lives until the process ends; do not drop it.
 *
 * Threads: A device is shared by all threads. Any thread may give it work,
 * wait for it and allocate its memory. Work of one thread runs in order. If a
 * thread needs the results of another, the program must order the calls. The
 * current device is per thread. Disabled extensions, memory limits, the cache
 * folder and the permission for host operators are per process.
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device tn_device;

/* Opens the device of a specification: "cpu", "cuda:1", "opencl:geforce" (a
 * part of the device's name or uid), "/path/tn_mine.so:0", "auto", or a list
 * "cuda;cpu". If no device can be opened, returns NULL with TN_ERR_NO_DEVICE,
 * and the message has the reason for each device that was tried. Returns NULL
 * with TN_ERR_MEMORY if memory runs out. The library owns the device, which
 * lives until the process ends. */
TN_API tn_device *tn_device_open(const char *specification);

/* Returns the calling thread's current device. If none was set, it is the
 * process's default (TENON_DEVICE). Returns NULL (TN_ERR_NO_DEVICE) if the
 * default device cannot be opened. */
TN_API tn_device *tn_device_current(void);

/* Makes device the calling thread's current one. NULL restores the default.
 * Fails with TN_ERR_STATE for NULL while an error is pending. */
TN_API tn_status tn_device_set(tn_device *device);

/* Returns the number of devices that a plugin offers: tn_device_count("cuda").
 * For NULL, returns the number for all plugins together. Opens no device. If
 * the number is 0, tn_load_report() has the reason. */
TN_API int tn_device_count(const char *plugin);

/* Returns whether this specification can be opened. Opens the device, and
 * records no error. */
TN_API bool tn_device_is_available(const char *specification);

/* Waits until all work of device is done, and returns its first failure. NULL
 * means the current device. */
TN_API tn_status tn_device_synchronize(tn_device *device);

/* A timestamp in a device's sequence of work:
 *
 *     tn_mark *begin = tn_mark_set(NULL);
 *     tn_matmul(a, b);
 *     tn_mark_elapsed(begin, tn_mark_set(NULL), &seconds);
 *
 * Source: torch.cuda.Event(enable_timing=True). */
typedef struct tn_mark tn_mark;

/* Sets a mark after all work that device has been given so far. NULL means the
 * current device. On a device with timing events (CUDA) the call does not wait.
 * On other devices it waits for the work and reads the host's clock. The open
 * scope owns the mark. Returns NULL with TN_ERR_STATE while a graph is recorded
 * or an error is pending, with TN_ERR_MEMORY if memory runs out, or with an
 * error of the device. */
TN_API tn_mark *tn_mark_set(tn_device *device);

/* Stores the seconds on the device between two marks in *out_seconds. They are
 * negative if `to` was set first. Waits for both marks. Fails as
 * tn_device_synchronize does, with TN_ERR_DEVICE for marks of two devices, and
 * with TN_ERR_ARGUMENT for NULL. */
TN_API tn_status tn_mark_elapsed(tn_mark *from, tn_mark *to,
                                 double *out_seconds);

/* Returns the device's name, "cuda:0". Returns NULL if device is NULL. The
 * string is valid until the process ends. */
TN_API const char *tn_device_name(const tn_device *device);
/* Returns the plugin's description of the device: "AMD EPYC ..., avx512". The
 * string is valid until the process ends. */
TN_API const char *tn_device_description(const tn_device *device);

/* Returns whether the results of generated kernels are bit-identical on this
 * device and on the reference device. Results of a vendor's library (matmul
 * ...) agree within tolerances. */
TN_API bool tn_device_is_bit_exact(const tn_device *device);

/* Disables extensions of a device's plugin (TENON_MASK), for comparisons and
 * tests. names has extensions separated by commas, or is "all", or NULL for
 * none. Instead of a disabled extension, the device's slower primitives run. A
 * device of NULL means the current one. Fails with TN_ERR_ARGUMENT for an
 * unknown name. */
TN_API tn_status tn_device_mask(tn_device *device, const char *names);
/* Returns whether the device's plugin has this extension and it is not
 * disabled: "conv", "pool", "attention", "product", "lapack", "graph-replay",
 * "quantised-product" (<tenon/plugin_extensions.h>). Without an extension, the
 * device's primitives run instead. A device of NULL means the current one.
 * Returns false, with TN_ERR_ARGUMENT, for an unknown name. */
TN_API bool tn_device_has_extension(const tn_device *device, const char *name);

/* Returns a report on the plugins: the folders searched for them, then a line
 * for each plugin (name, file, result, remedy), followed by an indented line
 * for each of its devices. Plugins that are not in use are loaded in child
 * processes, so a plugin that crashes becomes a line of the report. The string
 * is valid until the next call in this thread. Returns NULL on failure
 * (TN_ERR_MEMORY). */
TN_API const char *tn_load_report(void);

/* Returns the folders searched for plugins, in order: "/a, /b". The string is
 * valid until the process ends. Returns NULL on failure (TN_ERR_MEMORY). */
TN_API const char *tn_plugin_folders(void);

typedef struct tn_memory_stats {
    size_t size;             /* sizeof(tn_memory_stats) */
    int64_t allocated_bytes; /* bytes in use by storages */
    int64_t peak_bytes;      /* largest allocated_bytes since the last reset */
    int64_t cached_bytes;    /* free bytes that are cached for reuse */
    int64_t limit_bytes;     /* 0 if there is no limit */
    int64_t allocation_count;/* storages allocated since start */
    int64_t slab_count;      /* allocations from the plugin since start */
} tn_memory_stats;

/* In the four calls below, a device of NULL means the current one. */

/* Fills the first stats->size bytes of *stats. Set stats->size = sizeof *stats
 * first. Blocks of up to 1 KiB are counted in batches of some tens, so
 * peak_bytes may be off by that many blocks. Fails with TN_ERR_ARGUMENT if
 * stats is NULL or its size is invalid. */
TN_API tn_status tn_memory(tn_device *device, tn_memory_stats *stats);
/* Sets peak_bytes to allocated_bytes. */
TN_API void tn_memory_reset_peak(tn_device *device);
/* Limits the bytes in storages and cache together (TENON_MEM_LIMIT). 0 removes
 * the limit. */
TN_API tn_status tn_memory_set_limit(tn_device *device, int64_t bytes);
/* Returns cached free blocks to the device. */
TN_API void tn_cache_empty(tn_device *device);

/* Returns the number of programs that a device's compiler has compiled since
 * start. Programs read from the cache on disk are not counted, so the second
 * run of the same program reports 0. Cannot fail. */
TN_API int64_t tn_programs_compiled(void);

/* Sets the folder that caches compiled programs, and makes it if it is missing.
 * NULL means that there is no cache. By default it is TENON_CACHE_DIR ("off"
 * for no cache), or else tenon in $XDG_CACHE_HOME or ~/.cache. path must be
 * absolute. The folder must belong to the user and be writable by no one else,
 * because its contents are executed. Otherwise the call fails with TN_ERR_IO,
 * and nothing changes. The folder's size stays below about 1 GiB. */
TN_API tn_status tn_cache_folder_set(const char *path);

/* Returns the number of operator calls that ran on the host with LAPACK. These
 * are matrix factorisations (`host` rows of the operator table) that the
 * device's plugin cannot run, because it has no extension "lapack" or the
 * extension declines the call. Their inputs are copied to the host. The cpu's
 * extension runs batches of small matrices; those calls are not counted. Cannot
 * fail. */
TN_API int64_t tn_host_runs(void);
/* Allows or forbids calls that run on the host (tn_host_runs). By default they
 * are allowed, unless TENON_HOST_OPS=error is set. Cannot fail. */
TN_API void tn_host_ops_allow(bool allow);

#ifdef __cplusplus
}
#endif
#endif
