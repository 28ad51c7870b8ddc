/* origin.h: finds out whether the plugin itself, or a library of the device's
 * vendor, starts a thread or changes the environment.
 *
 * A plugin must do neither before a device is opened. But it calls libraries of
 * the vendor, which may: the CUDA driver starts a thread in cuInit, and PoCL
 * sets an environment variable. The kit interposes the C library's functions
 * and reads the call stack. It searches for the first frame outside the C and
 * C++ libraries and OpenMP. If that frame is in the plugin's file, in a library
 * in the plugin's folder or in a function of the host table, the plugin did it.
 * If it is in another library, the vendor did it, which is reported as a note
 * and is not a failure. */
#ifndef TN_CHECK_ORIGIN_H
#define TN_CHECK_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* What libraries have done since the process began. */
typedef struct origin_counts {
    int threads;        /* number of threads that the plugin has started,
                           including those that have ended */
    int vendor_threads; /* number of threads that vendors' libraries have
                           started */
    unsigned long vendor_environment; /* by how much vendors' libraries have
                                       * changed process_environment() */
} origin_counts;

/* Returns whether this build can tell plugins and vendors' libraries apart. */
bool origin_is_known(void);
/* Prepares the search. Must be called before the plugin is loaded. */
void origin_watch(void);
origin_counts origin_read(void);
/* Writes what vendors' libraries did, for example "libpocl.so.2.10.0 started 2
 * threads, set HWLOC_PLUGINS_PATH". Returns false if they did nothing. */
bool origin_vendors(char *text, size_t room);

#endif
