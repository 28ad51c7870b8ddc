/* driver.c: libcuda.so.1, NVRTC, cuBLASLt, cuDNN and cuSOLVER, and names for
 * what the driver returns. Options `nvrtc`, `cublaslt`, `cudnn` and `cusolver`
 * name the files of the latter four. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
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

const char *tn__cuda_error_name(tn_cu_result error)
{
    static _Thread_local char number[32];
    const char *name = NULL;
    if (tn__cu.error_name && !tn__cu.error_name(error, &name) && name)
        return name;
    snprintf(number, sizeof number, "CUDA error %d", error);
    return number;
}

/* ---- a library ---------------------------------------------------------- */

typedef struct entry {
    const char *symbol;
    void *field;
} entry;

typedef struct library {
    const char *name;
    const char *option;   /* may name its file; NULL: none of the toolkit's */
    const char *files[4]; /* else the first of these that there is */
    const char *missing;  /* is said where there is none; %s: by the loader */
    const char *lacks;    /* is said behind a function that it has not */
    const entry *entry;   /* ends with NULL */
    void (*then)(struct library *l, void *file); /* NULL: no more is to do */
    atomic_bool tried;
    char why[512]; /* "": it is open */
} library;

/* Where the loader looks, then in the toolkit's folder. */
static void *file_open(const library *l)
{
    char path[4096];
    const char *asked = l->option ? tn__cuda_host->option(l->option) : NULL;
    if (asked && *asked)
        return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    void *file = NULL;
    for (int i = 0; i < 4 && l->files[i] && !file; i++)
        file = dlopen(l->files[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < 4 && l->files[i] && !file && l->option; i++) {
        snprintf(path, sizeof path, TENON_CUDA_FOLDER "/lib64/%s",
                 l->files[i]);
        file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return file;
}

/* POSIX promises what ISO C does not: an object pointer holds a function's. */
static void library_fill(library *l)
{
    void *file = file_open(l);
    if (!file) {
        const char *said = dlerror();
        snprintf(l->why, sizeof l->why, l->missing,
                 said ? said : "it cannot be opened");
    }
    for (const entry *e = l->entry; file && e->symbol && !l->why[0]; e++) {
        void *found = dlsym(file, e->symbol);
        memcpy(e->field, &found, sizeof found);
        if (!found)
            snprintf(l->why, sizeof l->why, "%s has no %s%s", l->name,
                     e->symbol, l->lacks);
    }
    if (!l->why[0] && l->then)
        l->then(l, file);
}

#define AT(field, symbol, parameters) {#symbol, &tn__cu.field},
static const entry driver_entries[] = {TN_CUDA_DRIVER_MAP(AT){NULL, NULL}};
#undef AT
#define AT(field, symbol, parameters) {#symbol, &tn__nvrtc.field},
static const entry nvrtc_entries[] = {TN_NVRTC_MAP(AT){NULL, NULL}};
#undef AT
#define AT(field, symbol, parameters) {#symbol, &tn__lt.field},
static const entry lt_entries[] = {TN_LT_MAP(AT){NULL, NULL}};
#undef AT
#define AT(field, symbol, parameters) {#symbol, &tn__dnn.field},
static const entry dnn_entries[] = {
    TN_DNN_MAP(AT){"cudnnGetVersion", &tn__dnn.version}, {NULL, NULL}};
#undef AT
/* cuBLAS's functions are looked for in what cuSOLVER's library has loaded. */
#define AT(field, symbol, parameters) {#symbol, &tn__solver.field},
#define BOTH(field, before, behind, parameters)                               \
    {#before "D" #behind, &tn__solver.field[0]},                              \
        {#before "S" #behind, &tn__solver.field[1]},
static const entry solver_entries[] = {
    TN_SOLVER_MAP(AT) TN_SOLVER_TYPED_MAP(BOTH){NULL, NULL}};
#undef BOTH
#undef AT

/* ---- those that there are ----------------------------------------------- */

static void driver_init(library *l, void *file)
{
    (void)file;
    tn_cu_result error = tn__cu.init(0);
    const char *text = NULL;
    if (!error)
        return;
    if (tn__cu.error_text(error, &text) || !text)
        text = "it says no more";
    snprintf(l->why, sizeof l->why, "cuInit: %s: %s%s",
             tn__cuda_error_name(error), text,
             error == TN_CU_STUB_LIBRARY
                 ? "; that is the toolkit's library for linking, not the driver"
                 : "");
}

/* NVRTC opens its second file by name, where the loader looks, and that need
 * not be the folder it lies in itself. Open already, the file is found; one that
 * is nowhere is told by the first compilation. */
static void nvrtc_builtins_open(library *l, void *file)
{
    (void)l;
    char folder[4096], path[sizeof folder + 64];
    int major, minor;
    if (dlinfo(file, RTLD_DI_ORIGIN, folder) ||
        tn__nvrtc.version(&major, &minor))
        return;
    snprintf(path, sizeof path, "%s/libnvrtc-builtins.so.%d.%d", folder, major,
             minor);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static library libraries[] = {
    [TN_CUDA_DRIVER] = {
        .name = "libcuda.so.1",
        .files = {"libcuda.so.1"},
        .missing = "%s",
        .lacks = ": it is older than CUDA 11.4",
        .entry = driver_entries,
        .then = driver_init},
    [TN_CUDA_NVRTC] = {
        .name = "NVRTC",
        .option = "nvrtc",
        .files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                  "libnvrtc.so"},
        .missing = "NVRTC, CUDA's run-time compiler, is not found; install the "
                   "CUDA toolkit, or name the file: TENON_CUDA_NVRTC="
                   "/usr/local/cuda/lib64/libnvrtc.so (%s)",
        .lacks = ": it is older than CUDA 11.2",
        .entry = nvrtc_entries,
        .then = nvrtc_builtins_open},
    [TN_CUDA_LT] = {
        .name = "cuBLASLt",
        .option = "cublaslt",
        .files = {"libcublasLt.so.13", "libcublasLt.so.12",
                  "libcublasLt.so.11", "libcublasLt.so"},
        .missing = "cuBLASLt is not found; install NVIDIA's libcublas, or name "
                   "the file: TENON_CUDA_CUBLASLT=FILE (%s)",
        .lacks = ": it is older than CUDA 11",
        .entry = lt_entries},
    [TN_CUDA_DNN] = {
        .name = "cuDNN",
        .option = "cudnn",
        .files = {"libcudnn.so.9"},
        .missing = "cuDNN is not found; install NVIDIA's libcudnn 9, or name "
                   "the file: TENON_CUDA_CUDNN=FILE (%s)",
        .lacks = "",
        .entry = dnn_entries},
    [TN_CUDA_SOLVER] = {
        .name = "cuSOLVER",
        .option = "cusolver",
        .files = {"libcusolver.so.12", "libcusolver.so.11",
                  "libcusolver.so"},
        .missing = "cuSOLVER is not found; install NVIDIA's libcusolver, or "
                   "name the file: TENON_CUDA_CUSOLVER=FILE (%s)",
        .lacks = ": it is older than CUDA 11",
        .entry = solver_entries}};

const char *tn__cuda_open(tn_cuda_library which)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    library *l = &libraries[which];
    if (!atomic_load_explicit(&l->tried, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!l->tried)
            library_fill(l);
        atomic_store_explicit(&l->tried, true, memory_order_release);
        pthread_mutex_unlock(&lock);
    }
    return l->why[0] ? l->why : NULL;
}
