/* origin.h: whose code starts a thread or changes the environment.
 *
 * A plugin must do neither before a device is opened. But it calls libraries of
 * its vendor, which do: the CUDA driver starts a thread in cuInit, PoCL sets a
 * variable. The kit interposes the C library's functions and reads the stack.
 * The first frame outside the language's runtime (the C and C++ libraries,
 * OpenMP) decides:
 *   the plugin's file, a library in its folder, the host table's functions:
 *       the plugin did it;
 *   any other library: its vendor did it, which is reported as a note and is no
 *       failure. */
#ifndef TN_CHECK_ORIGIN_H
#define TN_CHECK_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* Since the process began. */
typedef struct origin_counts {
    int threads;        /* started by the plugin, including ended ones */
    int vendor_threads; /* started by vendors' libraries */
    unsigned long vendor_environment; /* what others' changes have added to
                                       * process_environment */
} origin_counts;

/* Whether this build can find the origin. */
bool origin_is_known(void);
/* Call before the plugin is loaded. */
void origin_watch(void);
origin_counts origin_read(void);
/* Writes what vendors' libraries did: "libpocl.so.2.10.0 started 2 threads, set
 * HWLOC_PLUGINS_PATH". False: nothing. */
bool origin_vendors(char *text, size_t room);

#endif
