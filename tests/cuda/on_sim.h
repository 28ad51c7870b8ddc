/* on_sim.h: restarts a test program with the simulated driver in its library
 * path, because the loader reads LD_LIBRARY_PATH when a process begins. If
 * TENON_TEST_GPU is set (tests/gpu.sh), the installed driver is used: programs
 * that also work on a real driver run on it, others are skipped. */
#ifndef TN_TESTS_ON_SIM_H
#define TN_TESTS_ON_SIM_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenon/tenon.h>

#include "../plugins/folder.h"
#include "../tap.h"

/* Stores the address of a function of the simulated driver, or NULL. */
static inline void on_sim_find(const char *name, void *out)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = driver ? dlsym(driver, name) : NULL;
    memcpy(out, &found, sizeof found);
}

/* Prints in a child process why there is no device; called by on_sim_ready. */
static inline void on_sim_print_reason(void)
{
    tn_log_set(NULL, NULL);
    tn_device *device = tn_device_open("cuda");
    printf("%s", device ? "" : tn_error());
}

static inline bool on_sim_already(void)
{
    void *found;
    on_sim_find("sim_reports", &found);
    return found;
}

/* Returns whether the program should run on a real driver. */
static inline bool on_real_driver(void)
{
    return getenv("TENON_TEST_GPU") && !on_sim_already();
}

/* Restarts the program with the simulated driver if necessary. */
static inline void on_sim(char **argv)
{
    const char *build = getenv("top_builddir"), *now = getenv("LD_LIBRARY_PATH");
    char path[4096];
    if (on_sim_already())
        return;
    if (on_real_driver()) {
        skip(1, "is about the simulated driver");
        exit(done_testing());
    }
    if (getenv("TN_TEST_ON_SIM"))
        bail_out("the simulated driver is not in LD_LIBRARY_PATH=%s", now);
    snprintf(path, sizeof path, "%s/tests/sim/driver%s%s", build ? build : ".",
             now ? ":" : "", now ? now : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("TENON_CUDA_CODE", "ptx", 1);
    setenv("TN_TEST_ON_SIM", "1", 1);
    execv("/proc/self/exe", argv);
    bail_out("the program does not start again");
}

/* Like on_sim, for a program that also works on a real driver. */
static inline void on_any_driver(char **argv)
{
    if (!on_real_driver())
        on_sim(argv);
}

/* Returns whether the program can run; otherwise reports a skip. `reason` is
 * why there is no device. */
static inline bool on_sim_ready(const char *reason)
{
    if (strstr(reason, "NVRTC")) /* without NVRTC no kernel can be compiled */
        skip(1, reason);
    else if (*reason)
        bail_out("%s", reason);
    return !*reason;
}

#endif
