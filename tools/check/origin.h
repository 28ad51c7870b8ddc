/* origin.h: whose code starts a thread or changes the environment.
 *
 * A plugin does neither before a device is opened, but it asks libraries of
 * its vendor for devices, and these do as they like: the CUDA driver starts a
 * thread in cuInit, PoCL sets a variable. The kit stands in front of the C
 * library's functions and looks at the stack. The first frame that is not the
 * language's runtime (the C and C++ libraries, OpenMP) counts:
 *   the plugin's file, a library in its folder, the host table's functions:
 *       the plugin did it;
 *   any other library: its vendor did it, which is noted and no fault. */
#ifndef TN_CHECK_ORIGIN_H
#define TN_CHECK_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* Since the process began. */
typedef struct origin_counts {
    int threads;        /* that the plugin started, ended ones too */
    int vendor_threads; /* that others did */
    unsigned long vendor_environment; /* what others' changes have added to
                                       * process_environment */
} origin_counts;

/* Is there a way to tell, in this build? */
bool origin_is_known(void);
/* Before the plugin is loaded. */
void origin_watch(void);
origin_counts origin_read(void);
/* "libpocl.so.2.10.0 started 2 threads, set HWLOC_PLUGINS_PATH": what others
 * did. False: nothing. */
bool origin_vendors(char *text, size_t room);

#endif
