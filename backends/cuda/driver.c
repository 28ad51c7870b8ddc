/* driver.c: libcuda.so.1, NVRTC, cuBLASLt, cuDNN and cuSOLVER, and names for
 * what the driver returns. Options `nvrtc`, `cublaslt`, `cudnn` and `cusolver`
 * name the files of the latter four. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cublaslt.h"
#include "cuda.h"
#include "cudnn.h"
#include "cusolver.h"

tn_cuda_driver tn__cu;
tn_nvrtc tn__nvrtc;
tn_lt tn__lt;
tn_dnn tn__dnn;
tn_solver tn__solver;

/* A function by its symbol. POSIX promises what ISO C does not: an object
 * pointer holds it. */
static int find(void *library, const char *symbol, void *out)
{
    void *found = dlsym(library, symbol);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static void why_dlopen(char *out, size_t room, const char *file)
{
    const char *text = dlerror();
    snprintf(out, room, "%s%s", text ? text : file,
             text ? "" : " cannot be opened");
}

/* ---- the driver --------------------------------------------------------- */

static char no_driver[256];

static void driver_open(void)
{
    static const char file[] = "libcuda.so.1";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        why_dlopen(no_driver, sizeof no_driver, file);
        return;
    }
#define FIND(field, symbol, parameters)                                       \
    if (!find(library, #symbol, &tn__cu.field)) {                             \
        snprintf(no_driver, sizeof no_driver,                                 \
                 "%s has no " #symbol ": it is older than CUDA 11.4", file);  \
        return;                                                               \
    }
    TN_CUDA_DRIVER_MAP(FIND)
#undef FIND
    tn_cu_result error = tn__cu.init(0);
    if (!error)
        return;
    const char *text = NULL;
    if (tn__cu.error_text(error, &text) || !text)
        text = "it says no more";
    snprintf(no_driver, sizeof no_driver, "cuInit: %s: %s%s",
             tn__cuda_error_name(error), text,
             error == TN_CU_STUB_LIBRARY
                 ? "; that is the toolkit's library for linking, not the driver"
                 : "");
}

const char *tn__cuda_driver_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, driver_open);
    return no_driver[0] ? no_driver : NULL;
}

const char *tn__cuda_error_name(tn_cu_result error)
{
    static _Thread_local char number[32];
    const char *name = NULL;
    if (tn__cu.error_name && !tn__cu.error_name(error, &name) && name)
        return name;
    snprintf(number, sizeof number, "CUDA error %d", error);
    return number;
}

/* ---- the toolkit's libraries -------------------------------------------- */

/* The file that option `option` names; else the first there is of files (count
 * of them), where the loader looks, then in the toolkit's folder. */
static void *toolkit_library(const char *option, const char *const *files,
                             size_t count)
{
    char path[4096];
    const char *asked = tn__cuda_host->option(option);
    if (asked && *asked)
        return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    void *library = NULL;
    for (size_t i = 0; i < count && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < count && !library; i++) {
        snprintf(path, sizeof path, TENON_CUDA_FOLDER "/lib64/%s", files[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
#define COUNT(files) (sizeof files / sizeof *files)

static char no_nvrtc[512];

/* NVRTC opens its second file by name, where the loader looks, and that need
 * not be the folder it lies in itself. Open already, the file is found; one that
 * is nowhere is told by the first compilation. */
static void nvrtc_builtins_open(void *library)
{
    char folder[4096], path[sizeof folder + 64];
    int major, minor;
    if (dlinfo(library, RTLD_DI_ORIGIN, folder) ||
        tn__nvrtc.version(&major, &minor))
        return;
    snprintf(path, sizeof path, "%s/libnvrtc-builtins.so.%d.%d", folder, major,
             minor);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void nvrtc_open(void)
{
    static const char *const files[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so.11.2", "libnvrtc.so"};
    void *library = toolkit_library("nvrtc", files, COUNT(files));
    if (!library) {
        char said[256];
        why_dlopen(said, sizeof said, "libnvrtc");
        snprintf(no_nvrtc, sizeof no_nvrtc,
                 "NVRTC, CUDA's run-time compiler, is not found (%s); install "
                 "the CUDA toolkit, or name the file: TENON_CUDA_NVRTC="
                 "/usr/local/cuda/lib64/libnvrtc.so",
                 said);
        return;
    }
#define FIND(field, symbol, parameters)                                       \
    if (!find(library, #symbol, &tn__nvrtc.field)) {                          \
        snprintf(no_nvrtc, sizeof no_nvrtc,                                   \
                 "NVRTC has no " #symbol ": it is older than CUDA 11.2");     \
        return;                                                               \
    }
    TN_NVRTC_MAP(FIND)
#undef FIND
    nvrtc_builtins_open(library);
}

const char *tn__cuda_nvrtc_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, nvrtc_open);
    return no_nvrtc[0] ? no_nvrtc : NULL;
}

static char no_lt[512];

static void lt_open(void)
{
    static const char *const files[] = {"libcublasLt.so.13",
                                        "libcublasLt.so.12",
                                        "libcublasLt.so.11", "libcublasLt.so"};
    void *library = toolkit_library("cublaslt", files, COUNT(files));
    if (!library) {
        char said[256];
        why_dlopen(said, sizeof said, "libcublasLt");
        snprintf(no_lt, sizeof no_lt,
                 "cuBLASLt is not found; install NVIDIA's libcublas, or name "
                 "the file: TENON_CUDA_CUBLASLT=FILE (%s)",
                 said);
        return;
    }
#define FIND(field, symbol, parameters)                                       \
    if (!find(library, #symbol, &tn__lt.field)) {                             \
        snprintf(no_lt, sizeof no_lt,                                         \
                 "cuBLASLt has no " #symbol ": it is older than CUDA 11");    \
        return;                                                               \
    }
    TN_LT_MAP(FIND)
#undef FIND
}

const char *tn__cuda_lt_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, lt_open);
    return no_lt[0] ? no_lt : NULL;
}

static char no_dnn[512];

static void dnn_open(void)
{
    static const char *const files[] = {"libcudnn.so.9"};
    void *library = toolkit_library("cudnn", files, COUNT(files));
    if (!library) {
        char said[256];
        why_dlopen(said, sizeof said, "libcudnn");
        snprintf(no_dnn, sizeof no_dnn,
                 "cuDNN is not found; install NVIDIA's libcudnn 9, or name the "
                 "file: TENON_CUDA_CUDNN=FILE (%s)",
                 said);
        return;
    }
#define FIND(field, symbol, parameters)                                       \
    if (!find(library, #symbol, &tn__dnn.field)) {                            \
        snprintf(no_dnn, sizeof no_dnn, "cuDNN has no " #symbol);             \
        return;                                                               \
    }
    TN_DNN_MAP(FIND)
#undef FIND
}

const char *tn__cuda_dnn_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, dnn_open);
    return no_dnn[0] ? no_dnn : NULL;
}

static char no_solver[512];

/* cuBLAS's functions are looked for in what cuSOLVER's library has loaded. */
static void solver_open(void)
{
    static const char *const files[] = {"libcusolver.so.12",
                                        "libcusolver.so.11", "libcusolver.so"};
    void *library = toolkit_library("cusolver", files, COUNT(files));
    if (!library) {
        char said[256];
        why_dlopen(said, sizeof said, "libcusolver");
        snprintf(no_solver, sizeof no_solver,
                 "cuSOLVER is not found; install NVIDIA's libcusolver, or name "
                 "the file: TENON_CUDA_CUSOLVER=FILE (%s)",
                 said);
        return;
    }
#define FIND(field, symbol, parameters)                                       \
    if (!find(library, #symbol, &tn__solver.field)) {                         \
        snprintf(no_solver, sizeof no_solver,                                 \
                 "cuSOLVER has no " #symbol ": it is older than CUDA 11");    \
        return;                                                               \
    }
    TN_SOLVER_MAP(FIND)
#undef FIND
#define FIND(field, before, behind, parameters)                               \
    if (!find(library, #before "D" #behind, &tn__solver.field[0]) ||          \
        !find(library, #before "S" #behind, &tn__solver.field[1])) {          \
        snprintf(no_solver, sizeof no_solver,                                 \
                 "cuSOLVER has no " #before "D" #behind                       \
                 ": it is older than CUDA 11");                               \
        return;                                                               \
    }
    TN_SOLVER_TYPED_MAP(FIND)
#undef FIND
}

const char *tn__cuda_solver_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, solver_open);
    return no_solver[0] ? no_solver : NULL;
}
