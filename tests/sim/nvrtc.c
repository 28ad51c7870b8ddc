/* nvrtc.c: an NVRTC that reports the version in TENON_SIM_NVRTC ("12.4") and
 * compiles with the installed NVRTC. It counts compilations, and how many run
 * at the same time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

static void *installed(const char *symbol)
{
    static const char *const files[] = {
        "libnvrtc.so.13", "libnvrtc.so.12",
        TENON_CUDA_FOLDER "/lib64/libnvrtc.so"};
    void *file = NULL;
    for (int i = 0; i < 3 && !file; i++)
        file = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    return file ? dlsym(file, symbol) : NULL;
}

/* Defines a function that forwards its arguments. */
#define PASS(symbol, parameters, arguments)                                   \
    EXPORT tn_nvrtc_result symbol parameters;                                 \
    tn_nvrtc_result symbol parameters                                         \
    {                                                                         \
        tn_nvrtc_result(*real) parameters;                                    \
        void *found = installed(#symbol);                                     \
        memcpy(&real, &found, sizeof found);                                  \
        return real ? real arguments : 11; /* an internal error */            \
    }
PASS(nvrtcGetNumSupportedArchs, (int *count), (count))
PASS(nvrtcGetSupportedArchs, (int *archs), (archs))
PASS(nvrtcCreateProgram,
     (tn_nvrtc_program *program, const char *text, const char *name,
      int headers, const char *const *header, const char *const *header_name),
     (program, text, name, headers, header, header_name))
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int compiled, now, most, wanted;

/* Makes each compilation wait, ten seconds at most, until `wait_for` run at
 * once. Stores the number of compilations so far and the most at once, and
 * resets both. */
EXPORT void sim_nvrtc(int wait_for, int *all, int *at_once);
void sim_nvrtc(int wait_for, int *all, int *at_once)
{
    pthread_mutex_lock(&lock);
    wanted = wait_for;
    *all = compiled;
    *at_once = most;
    compiled = most = 0;
    pthread_mutex_unlock(&lock);
}

static void compile_begin(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    pthread_mutex_lock(&lock);
    compiled++;
    now++;
    most = now > most ? now : most;
    pthread_cond_broadcast(&news);
    while (most < wanted && !pthread_cond_timedwait(&news, &lock, &end))
        ;
    pthread_mutex_unlock(&lock);
}

static void compile_end(void)
{
    pthread_mutex_lock(&lock);
    now--;
    pthread_mutex_unlock(&lock);
}

EXPORT tn_nvrtc_result nvrtcCompileProgram(tn_nvrtc_program program,
                                           int options,
                                           const char *const *option);
tn_nvrtc_result nvrtcCompileProgram(tn_nvrtc_program program, int options,
                                    const char *const *option)
{
    tn_nvrtc_result (*real)(tn_nvrtc_program, int, const char *const *);
    void *found = installed("nvrtcCompileProgram");
    memcpy(&real, &found, sizeof found);
    compile_begin();
    tn_nvrtc_result result = real ? real(program, options, option) : 11;
    compile_end();
    return result;
}

EXPORT tn_nvrtc_result nvrtcVersion(int *major, int *minor);
tn_nvrtc_result nvrtcVersion(int *major, int *minor)
{
    const char *told = getenv("TENON_SIM_NVRTC");
    return told && sscanf(told, "%d.%d", major, minor) == 2 ? 0 : 11;
}
