/* cuda_driver.c: opens libcuda.so.1, NVRTC, cuBLASLt, cuDNN and cuSOLVER, and
 * names the driver's errors. Options `nvrtc`, `cublaslt`, `cudnn` and
 * `cusolver` name a file of those libraries. Option `libs` names folders to
 * search. */
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

/* ---- a library ----------------------------------------------------------- */

typedef struct entry {
    const char *symbol;
    void *field;
} entry;

typedef struct library {
    const char *name;
    /* plugin option that names the library's file; NULL for the driver */
    const char *option;
    const char *files[4]; /* file names, tried in this order */
    /* error message if no file is found; %s is replaced by dlerror() */
    const char *missing;
    const char *lacks;    /* end of the error message after "NAME has no
                             FUNCTION", for a library that is too old */
    const entry *entry;   /* list of the functions, which ends with symbol
                             NULL */
    /* Returns whether the driver can work with this file. If not, writes the
     * reason to `reason`, and the search continues. This field is NULL if any
     * file can be used. */
    bool (*accepts)(void *file, char *reason, size_t reason_bytes);
    /* Initialises the library further after its functions are found. May be
     * NULL. */
    void (*init)(struct library *l, void *file);
    atomic_bool tried;
    char error[512]; /* why opening failed; "" once the library is open */
} library;

/* Opens a file. Returns NULL if the file cannot be opened, or if the driver
 * cannot work with it. If the driver cannot, writes the reason to l->error. */
static void *try_file(library *l, const char *path)
{
    char reason[sizeof l->error];
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file || !l->accepts || l->accepts(file, reason, sizeof reason))
        return file;
    snprintf(l->error, sizeof l->error, "%s", reason);
    dlclose(file);
    return NULL;
}

/* Tries to open each of the library's file names in a folder. The folder's name
 * has `length` bytes. A length of 0 means the search path of dlopen. */
static void *try_folder(library *l, const char *folder, size_t length)
{
    char path[4096];
    void *file = NULL;
    for (int i = 0; i < 4 && l->files[i] && !file; i++) {
        int bytes = snprintf(path, sizeof path, "%.*s%s%s", (int)length,
                             folder, length ? "/" : "", l->files[i]);
        if (bytes > 0 && (size_t)bytes < sizeof path)
            file = try_file(l, path);
    }
    return file;
}

/* Opens the file that the option names. Without the option, searches the path
 * of dlopen, then the folders of option `libs`, then the folder of the CUDA
 * toolkit. */
static void *file_open(library *l)
{
    const char *asked = l->option ? tn__host->option(l->option) : NULL;
    const char *libs = l->option ? tn__host->option("libs") : NULL;
    if (asked && *asked)
        return try_file(l, asked);
    void *file = try_folder(l, "", 0);
    while (libs && *libs && !file) {
        size_t length = strcspn(libs, ":");
        if (length)
            file = try_folder(l, libs, length);
        libs += length + (libs[length] == ':');
    }
    if (!file && l->option)
        file = try_folder(l, TENON_CUDA_FOLDER "/lib64",
                          strlen(TENON_CUDA_FOLDER "/lib64"));
    return file;
}

static void log_file(const library *l, void *file)
{
    char folder[4096];
    if (!dlinfo(file, RTLD_DI_ORIGIN, folder))
        tn__host->log(3, "cuda: %s is loaded from %s", l->name, folder);
}

/* Opens the library and finds its functions. dlsym returns an object pointer.
 * ISO C does not allow converting it to a function pointer, but POSIX
 * guarantees that copying its bytes works. */
static void library_fill(library *l)
{
    void *file = file_open(l);
    if (file)
        /* The reasons why earlier files were rejected do not matter now. */
        l->error[0] = 0;
    if (!file && !l->error[0]) {
        const char *reason = dlerror();
        snprintf(l->error, sizeof l->error, l->missing,
                 reason ? reason : "it cannot be opened");
    }
    for (const entry *e = l->entry; file && e->symbol && !l->error[0]; e++) {
        void *found = dlsym(file, e->symbol);
        memcpy(e->field, &found, sizeof found);
        if (!found)
            snprintf(l->error, sizeof l->error, "%s has no %s%s", l->name,
                     e->symbol, l->lacks);
    }
    if (!l->error[0] && l->init)
        l->init(l, file);
    if (!l->error[0])
        log_file(l, file);
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
/* dlsym on cuSOLVER's library also finds the functions of cuBLAS, because
 * cuSOLVER links cuBLAS. */
#define AT(field, symbol, parameters) {#symbol, &tn__solver.field},
#define BOTH(field, before, behind, parameters)                               \
    {#before "D" #behind, &tn__solver.field[0]},                              \
        {#before "S" #behind, &tn__solver.field[1]},
static const entry solver_entries[] = {
    TN_SOLVER_MAP(AT) TN_SOLVER_TYPED_MAP(BOTH){NULL, NULL}};
#undef BOTH
#undef AT

/* ---- the libraries ------------------------------------------------------- */

bool tn__cuda_forked;

static void after_fork(void)
{
    tn__cuda_forked = true;
}

static void driver_init(library *l, void *file)
{
    (void)file;
    tn_cu_result error = tn__cu.init(0);
    const char *text = NULL;
    if (!error) {
        pthread_atfork(NULL, NULL, after_fork);
        return;
    }
    if (tn__cu.error_text(error, &text) || !text)
        text = "the driver gives no reason";
    snprintf(l->error, sizeof l->error, "cuInit: %s: %s%s",
             tn__cuda_error_name(error), text,
             error == TN_CU_STUB_LIBRARY
                 ? "; that is the toolkit's library for linking, not the driver"
                 : "");
}

/* Returns whether the driver can load code from this NVRTC. A driver cannot
 * load code of a later major version of CUDA. The driver must be open. */
static bool nvrtc_accepts(void *file, char *reason, size_t reason_bytes)
{
    int major, minor, driver;
    tn_nvrtc_result (*version)(int *, int *);
    void *found = dlsym(file, "nvrtcVersion");
    memcpy(&version, &found, sizeof found);
    if (!found || version(&major, &minor) || tn__cu.version(&driver) ||
        major <= driver / 1000)
        return true;
    snprintf(
        reason, reason_bytes,
        "NVRTC %d.%d is newer than the driver (CUDA %d.%d), which cannot load "
        "its code: install a newer driver, or install NVRTC of CUDA %d "
        "and set TENON_CUDA_LIBS to its folder",
        major, minor, driver / 1000, driver / 10 % 100, driver / 1000);
    return false;
}

/* Opens libnvrtc-builtins in the folder of NVRTC. NVRTC opens this file by
 * name, and dlopen finds a file only if it is on the search path or is already
 * open. If the file is missing, the first compilation reports that. */
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

/* clang-format off */
static library libraries[] = {
    [TN_CUDA_DRIVER] = {
        .name = "libcuda.so.1",
        .files = {"libcuda.so.1"},
        .missing = "%s",
        .lacks = ": it is older than CUDA 11.4",
        .entry = driver_entries,
        .init = driver_init},
    [TN_CUDA_NVRTC] = {
        .name = "NVRTC",
        .option = "nvrtc",
        .files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                  "libnvrtc.so"},
        .missing = "NVRTC, CUDA's run-time compiler, is not found; install the "
                   "CUDA toolkit, or set TENON_CUDA_LIBS to its folder, such "
                   "as /usr/local/cuda/lib64 (%s)",
        .lacks = ": it is older than CUDA 11.2",
        .entry = nvrtc_entries,
        .accepts = nvrtc_accepts,
        .init = nvrtc_builtins_open},
    [TN_CUDA_LT] = {
        .name = "cuBLASLt",
        .option = "cublaslt",
        .files = {"libcublasLt.so.13", "libcublasLt.so.12",
                  "libcublasLt.so.11", "libcublasLt.so"},
        .missing = "cuBLASLt is not found; install NVIDIA's libcublas, or set "
                   "TENON_CUDA_LIBS to its folder (%s)",
        .lacks = ": it is older than CUDA 11",
        .entry = lt_entries},
    [TN_CUDA_DNN] = {
        .name = "cuDNN",
        .option = "cudnn",
        .files = {"libcudnn.so.9"},
        .missing = "cuDNN is not found; install NVIDIA's libcudnn 9, or set "
                   "TENON_CUDA_LIBS to its folder (%s)",
        .lacks = "",
        .entry = dnn_entries},
    [TN_CUDA_SOLVER] = {
        .name = "cuSOLVER",
        .option = "cusolver",
        .files = {"libcusolver.so.12", "libcusolver.so.11",
                  "libcusolver.so"},
        .missing = "cuSOLVER is not found; install NVIDIA's libcusolver, or "
                   "set TENON_CUDA_LIBS to its folder (%s)",
        .lacks = ": it is older than CUDA 11",
        .entry = solver_entries}};
/* clang-format on */

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
    return l->error[0] ? l->error : NULL;
}
