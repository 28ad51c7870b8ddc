/* nvrtc.c: an NVRTC that says to be of the version in TENON_SIM_NVRTC ("12.4"),
 * and compiles by the one that is installed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static void *installed(const char *symbol)
{
    static const char *const files[] = {
        "libnvrtc.so.13", "libnvrtc.so.12",
        TENON_CUDA_FOLDER "/lib64/libnvrtc.so"};
    static void *file;
    for (int i = 0; i < 3 && !file; i++)
        file = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    return file ? dlsym(file, symbol) : NULL;
}

/* A function that passes its arguments on. */
#define PASS(symbol, parameters, arguments)                                   \
    EXPORT tn_nvrtc_result symbol parameters;                                 \
    tn_nvrtc_result symbol parameters                                         \
    {                                                                         \
        tn_nvrtc_result(*real) parameters;                                    \
        void *found = installed(#symbol);                                     \
        memcpy(&real, &found, sizeof found);                                  \
        return real ? real arguments : 11; /* NVRTC_ERROR_INTERNAL_ERROR */   \
    }
PASS(nvrtcGetNumSupportedArchs, (int *count), (count))
PASS(nvrtcGetSupportedArchs, (int *archs), (archs))
PASS(nvrtcCreateProgram,
     (tn_nvrtc_program *program, const char *text, const char *name,
      int headers, const char *const *header, const char *const *header_name),
     (program, text, name, headers, header, header_name))
PASS(nvrtcCompileProgram,
     (tn_nvrtc_program program, int options, const char *const *option),
     (program, options, option))
PASS(nvrtcGetProgramLogSize, (tn_nvrtc_program program, size_t *bytes),
     (program, bytes))
PASS(nvrtcGetProgramLog, (tn_nvrtc_program program, char *log),
     (program, log))
PASS(nvrtcGetPTXSize, (tn_nvrtc_program program, size_t *bytes),
     (program, bytes))
PASS(nvrtcGetPTX, (tn_nvrtc_program program, char *ptx), (program, ptx))
PASS(nvrtcGetCUBINSize, (tn_nvrtc_program program, size_t *bytes),
     (program, bytes))
PASS(nvrtcGetCUBIN, (tn_nvrtc_program program, char *cubin), (program, cubin))
PASS(nvrtcDestroyProgram, (tn_nvrtc_program *program), (program))

EXPORT tn_nvrtc_result nvrtcVersion(int *major, int *minor);
tn_nvrtc_result nvrtcVersion(int *major, int *minor)
{
    const char *told = getenv("TENON_SIM_NVRTC");
    return told && sscanf(told, "%d.%d", major, minor) == 2 ? 0 : 11;
}
