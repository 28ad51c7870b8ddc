/* isa_here.h: finds out which of the cpu plugin's instruction sets this machine
 * supports. */
#ifndef TN_TESTS_ISA_HERE_H
#define TN_TESTS_ISA_HERE_H

#include <stdbool.h>
#include <string.h>

static bool is_here(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strncmp(name, "v3", 2))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!strncmp(name, "v4", 2))
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return !strcmp(name, "generic");
}

#endif
