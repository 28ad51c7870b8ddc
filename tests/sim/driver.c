/* driver.c: the simulated CUDA driver: devices, contexts, handles, modules and
 * launches, and the checks at the entry and exit of each call. One lock
 * protects all data. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct CUmod_st {
    sim_handle handle;
    ptx_module *module; /* owned until the module is unloaded */
};
struct CUfunc_st {
    struct CUmod_st *of;
    const ptx_kernel *kernel;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;
/* Whether the process was forked after cuInit: all calls then fail, as with a
 * real driver. */
static bool is_forked;
static int device_count = 1;
static struct CUctx_st contexts[MOST_DEVICES];
static sim_handle *handles;
static _Thread_local struct CUctx_st *current;
static char said[4096];
static uint32_t seed; /* seed of the random order of work; 0: not random */

/* A requested failure: the n-th call from now, of the function fail_name if
 * that is set, returns this error. failed_name: the function that failed. */
static long fail_in = -1;
static char fail_name[64];
static const char *failed_name;
static tn_cu_result fail_with;

bool sim_lock(void)
{
    return !is_forked && pthread_mutex_lock(&lock) == 0;
}

void sim_unlock(const bool *holds)
{
    if (*holds)
        pthread_mutex_unlock(&lock);
}

tn_cu_result sim_refuse(tn_cu_result error, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    size_t length = strlen(said);
    snprintf(said + length, sizeof said - length, "%s\n", line);
    if (getenv("TENON_SIM_SAY"))
        fprintf(stderr, "simulated driver: %s\n", line);
    return error;
}

unsigned sim_random(unsigned limit)
{
    if (!seed)
        return 0;
    seed ^= seed << 13; /* xorshift (G. Marsaglia, "Xorshift RNGs") */
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % limit;
}

/* ---- functions for tests ------------------------------------------------- */

/* Copies the reports since the last call into the caller's memory. */
EXPORT void sim_reports(char *out, size_t room);
void sim_reports(char *out, size_t room)
{
    HOLD();
    snprintf(out, room, "%s", said);
    said[0] = 0;
}

/* Makes the n-th call from now (0: the next) of the function of that name
 * (NULL: of any) return this error. If the error is one that destroys the
 * context, all later calls return it, too. */
EXPORT void sim_fail(const char *name, long n, tn_cu_result error);
void sim_fail(const char *name, long n, tn_cu_result error)
{
    HOLD();
    snprintf(fail_name, sizeof fail_name, "%s", name ? name : "");
    fail_in = n;
    fail_with = error;
    failed_name = NULL;
}

/* Returns the name of the function that failed; NULL if no call has failed
 * yet. */
EXPORT const char *sim_failed(void);
const char *sim_failed(void)
{
    HOLD();
    return failed_name;
}

/* Resets the devices: clears errors and drops pending work. */
EXPORT void sim_mend(void);
void sim_mend(void)
{
    HOLD();
    for (int i = 0; i < device_count; i++) {
        if (contexts[i].sticky)
            sim_drop(&contexts[i]);
        contexts[i].sticky = 0;
    }
}

/* Prints a report for the simulated libraries. */
void sim_library_says(const char *text)
{
    HOLD();
    sim_report("%s", text);
}

/* ---- entry of a call ----------------------------------------------------- */

/* Returns whether this is an error of a kernel that, as the manual says,
 * "leaves the process in an inconsistent state". */
static bool is_sticky(tn_cu_result error)
{
    return error == TN_CU_ILLEGAL_ADDRESS || error == TN_CU_LAUNCH_TIMEOUT ||
           error == TN_CU_ASSERT ||
           (error >= TN_CU_HARDWARE_STACK_ERROR &&
            error <= TN_CU_LAUNCH_FAILED) ||
           error == TN_CU_TENSOR_MEMORY_LEAK;
}

tn_cu_result sim_enter(const char *name, bool needs_context)
{
    if (fail_in >= 0 && (!*fail_name || strcmp(fail_name, name) == 0) &&
        fail_in-- == 0) {
        failed_name = name;
        if (is_sticky(fail_with) && current)
            current->sticky = fail_with;
        return fail_with;
    }
    if (!is_open || is_forked)
        return TN_CU_NOT_INITIALIZED;
    if (needs_context && (!current || !current->retained))
        return sim_refuse(TN_CU_INVALID_CONTEXT,
                          "%s without a current context", name);
    if (needs_context && current->sticky)
        return current->sticky;
    sim_stir();
    return 0;
}

/* ---- handles ------------------------------------------------------------ */

struct CUctx_st *sim_current(void)
{
    return current;
}

/* Returns zeroed memory that is never freed. It uses few malloc blocks, since
 * tests count blocks to find leaks. */
static void *keep(size_t bytes)
{
    static struct chunk {
        struct chunk *older;
        size_t left;
        _Alignas(16) unsigned char byte[1 << 20];
    } *newest;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!newest || newest->left < bytes) {
        struct chunk *more = calloc(1, sizeof *more);
        if (!more)
            return NULL;
        more->older = newest;
        more->left = sizeof more->byte;
        newest = more;
    }
    newest->left -= bytes;
    return newest->byte + newest->left;
}

void *sim_handle_make(const char *kind, size_t bytes)
{
    sim_handle *h = keep(bytes);
    if (!h)
        return NULL;
    *h = (sim_handle){
        .kind = kind, .context = current, .live = true, .older = handles};
    handles = h;
    return h;
}

tn_cu_result sim_handle_check(const void *handle, const char *kind,
                              bool of_current)
{
    const sim_handle *h = handle;
    if (!h || strcmp(h->kind, kind) != 0)
        sim_report("what is no %s is used as one", kind);
    else if (!h->live)
        sim_report("a %s is used after its end", kind);
    else if (of_current && h->context != current)
        sim_report("a %s of device %d is used on device %d", kind,
                   h->context->device, current->device);
    else
        return 0;
    return SIM_INVALID_HANDLE;
}

/* Reports the objects of a context that the user has not released. */
static void say_left(const struct CUctx_st *context)
{
    const size_t buffers = sim_memory_live(context->device);
    if (buffers)
        sim_report("device %d is closed with %zu allocations left",
                   context->device, buffers);
    for (sim_handle *h = handles; h; h = h->older)
        if (h->live && h->context == context) {
            sim_report("device %d is closed with a %s left", context->device,
                       h->kind);
            h->live = false;
        }
}

/* ---- initialisation and devices ------------------------------------------ */

static void after_fork(void)
{
    is_forked = true;
}

tn_cu_result cuInit(unsigned flags)
{
    HOLD();
    if (is_forked)
        return TN_CU_NOT_INITIALIZED;
    if (!is_open)
        pthread_atfork(NULL, NULL, after_fork);
    const char *count = getenv("TENON_SIM_DEVICES");
    const char *fails = getenv("TENON_SIM_INIT");
    const char *chance = getenv("TENON_SIM_SEED");
    seed = chance ? (uint32_t)strtoul(chance, NULL, 0) * 2654435761u : 0;
    if (count && atoi(count) >= 0 && atoi(count) <= MOST_DEVICES)
        device_count = atoi(count);
    for (int i = 0; i < device_count; i++)
        contexts[i].device = i;
    is_open = !fails;
    return flags ? TN_CU_INVALID_VALUE : fails ? atoi(fails) : 0;
}

tn_cu_result cuDriverGetVersion(int *version)
{
    const char *told = getenv("TENON_SIM_VERSION");
    *version = told ? atoi(told) : 13000;
    return 0;
}

#define ERROR(of, name, text) {of##name, {"CUDA_ERROR_" #name, text}}
static const struct {
    tn_cu_result error;
    const char *said[2]; /* the error's name and its description */
} errors[] = {
    {0, {"CUDA_SUCCESS", "no error"}},
    ERROR(TN_CU_, INVALID_VALUE, "invalid argument"),
    ERROR(TN_CU_, OUT_OF_MEMORY, "out of memory"),
    ERROR(TN_CU_, NOT_INITIALIZED, "initialization error"),
    ERROR(TN_CU_, DEINITIALIZED, "driver shutting down"),
    ERROR(TN_CU_, NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(TN_CU_, INVALID_CONTEXT, "invalid device context"),
    ERROR(SIM_, INVALID_DEVICE, "invalid device ordinal"),
    ERROR(SIM_, INVALID_HANDLE, "invalid resource handle"),
    ERROR(TN_CU_, INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(TN_CU_, NOT_FOUND, "named symbol not found"),
    ERROR(TN_CU_, NOT_READY, "device not ready"),
    ERROR(TN_CU_, ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(TN_CU_, MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(TN_CU_, LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(TN_CU_, TENSOR_MEMORY_LEAK, "tensor memory not completely freed"),
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
           "too many resources requested for launch"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

static tn_cu_result error_said(tn_cu_result error, int which, const char **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            *out = errors[i].said[which];
    return *out ? 0 : TN_CU_INVALID_VALUE;
}

tn_cu_result cuGetErrorName(tn_cu_result error, const char **name)
{
    return error_said(error, 0, name);
}

tn_cu_result cuGetErrorString(tn_cu_result error, const char **text)
{
    return error_said(error, 1, text);
}

static bool device_is(tn_cu_device device)
{
    return device >= 0 && device < device_count;
}

tn_cu_result cuDeviceGetCount(int *count)
{
    ENTER(false);
    *count = device_count;
    return 0;
}

tn_cu_result cuDeviceGet(tn_cu_device *device, int ordinal)
{
    ENTER(false);
    *device = ordinal;
    return device_is(ordinal) ? 0 : SIM_INVALID_DEVICE;
}

tn_cu_result cuDeviceGetName(char *name, int room, tn_cu_device device)
{
    ENTER(false);
    snprintf(name, (size_t)room, "Simulated GPU %d", device);
    return 0;
}

tn_cu_result cuDeviceGetUuid(tn_cu_uuid *uuid, tn_cu_device device)
{
    ENTER(false);
    memset(uuid, 0x5a, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return 0;
}

tn_cu_result cuDeviceGetUuid_v2(tn_cu_uuid *uuid, tn_cu_device device)
{
    ENTER(false);
    memset(uuid, getenv("TENON_SIM_MIG") ? 0x3c : 0x5a, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return 0;
}

tn_cu_result cuDeviceTotalMem_v2(size_t *bytes, tn_cu_device device)
{
    size_t left;
    ENTER(false);
    sim_memory_info(device, &left, bytes);
    return 0;
}

tn_cu_result cuDeviceGetAttribute(int *value, int attribute,
                                  tn_cu_device device)
{
    static const int values[][2] = {{TN_CU_MAX_THREADS_PER_BLOCK, 1024},
                                    {TN_CU_SHARED_PER_BLOCK, 49152},
                                    {TN_CU_MULTIPROCESSORS, 2}};
    const char *arch = getenv("TENON_SIM_ARCH");
    const int capability = arch ? atoi(arch) : 75;
    ENTER(false);
    *value = attribute == TN_CU_PCI_BUS  ? device
             : attribute == TN_CU_MAJOR ? capability / 10
             : attribute == TN_CU_MINOR ? capability % 10
                                        : 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][0] == attribute)
            *value = values[i][1];
    return 0;
}

/* NVRTC opens any libcuda.so.1 and calls this function. */
EXPORT tn_cu_result cuGetExportTable(const void **table,
                                     const tn_cu_uuid *uuid);
tn_cu_result cuGetExportTable(const void **table, const tn_cu_uuid *uuid)
{
    (void)uuid;
    *table = NULL;
    return TN_CU_NOT_FOUND;
}

/* ---- contexts ----------------------------------------------------------- */

tn_cu_result cuDevicePrimaryCtxRetain(tn_cu_context *context,
                                      tn_cu_device device)
{
    ENTER(false);
    if (!device_is(device))
        return SIM_INVALID_DEVICE;
    *context = &contexts[device];
    contexts[device].retained++;
    return 0;
}

tn_cu_result cuDevicePrimaryCtxRelease_v2(tn_cu_device device)
{
    ENTER(false);
    if (!device_is(device) || !contexts[device].retained)
        return sim_refuse(TN_CU_INVALID_CONTEXT,
                          "a context is released that is not retained");
    if (--contexts[device].retained == 0 && !contexts[device].sticky) {
        sim_finish(&contexts[device]);
        say_left(&contexts[device]);
    }
    return 0;
}

tn_cu_result cuCtxGetCurrent(tn_cu_context *context)
{
    ENTER(false);
    *context = current;
    return 0;
}

tn_cu_result cuCtxSetCurrent(tn_cu_context context)
{
    ENTER(false);
    current = context;
    return context ? context->sticky : 0;
}

/* ---- modules and launches ----------------------------------------------- */

tn_cu_result cuModuleLoadData(tn_cu_module *module, const void *image)
{
    ENTER(true);
    ptx_module *text = NULL;
    if (memcmp(image, "\177ELF", 4) == 0)
        sim_report("machine code: the simulated device takes PTX alone");
    else
        text = ptx_load(image);
    if (!text)
        return TN_CU_INVALID_PTX;
    struct CUmod_st *m = sim_handle_make("module", sizeof *m);
    if (!m) {
        ptx_free(text);
        return TN_CU_OUT_OF_MEMORY;
    }
    m->module = text;
    *module = m;
    return 0;
}

tn_cu_result cuModuleUnload(tn_cu_module module)
{
    ENTER_WITH(module, "module", true);
    if (sim_graph_uses(module))
        return sim_refuse(
            SIM_FOUND, "a module is unloaded, of which a graph has a launch");
    if (sim_is_used(module))
        return module->handle.context->sticky = sim_refuse(
                   SIM_FOUND, "a module is unloaded, of which a launch waits");
    ptx_free(module->module);
    module->module = NULL;
    module->handle.live = false;
    return 0;
}

tn_cu_result cuModuleGetFunction(tn_cu_function *function, tn_cu_module module,
                                 const char *name)
{
    ENTER_WITH(module, "module", true);
    const ptx_kernel *kernel = ptx_find(module->module, name);
    struct CUfunc_st *f = kernel ? keep(sizeof *f) : NULL;
    if (!f)
        return kernel ? TN_CU_OUT_OF_MEMORY : TN_CU_NOT_FOUND;
    f->of = module;
    f->kernel = kernel;
    *function = f;
    return 0;
}

typedef struct launch_work {
    sim_work work; /* first; it owns the launch's parameters */
    ptx_launch launch;
} launch_work;

static tn_cu_result run_launch(sim_work *work, const sim_actor *actor)
{
    return ptx_run(&((launch_work *)work)->launch, actor);
}

/* Checks the grid, which may only have one dimension, as in the plugin's
 * launches. */
static tn_cu_result launch_check(const struct CUfunc_st *f, unsigned gx,
                                 unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz)
{
    const unsigned most = ptx_most_threads(f->kernel);
    if (!gx || gx > 0x7fffffff || gy != 1 || gz != 1 || !bx || bx > 1024 ||
        by != 1 || bz != 1)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "a launch of %u x %u x %u groups of %u x %u x %u",
                          gx, gy, gz, bx, by, bz);
    if (bx > most)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "a group of %u threads of a kernel made for %u", bx,
                          most);
    return 0;
}

/* Copies the values of a launch's parameters to *out; the caller frees it. */
static tn_cu_result values_of(const struct CUfunc_st *f, void **parameters,
                              unsigned char **out)
{
    size_t count;
    const size_t *offset, *bytes;
    size_t total = ptx_parameters(f->kernel, &count, &offset, &bytes);
    if (total > 4096) /* 4096 is the limit of CUDA before 12.1 */
        return sim_refuse(TN_CU_INVALID_VALUE, "%zu bytes of parameters",
                          total);
    for (size_t i = 0; i < count; i++)
        if (!parameters || !parameters[i])
            return sim_refuse(TN_CU_INVALID_VALUE,
                              "a launch without its parameter %zu", i);
    *out = malloc(total + 1);
    for (size_t i = 0; i < count && *out; i++)
        memcpy(*out + offset[i], parameters[i], bytes[i]);
    return *out ? 0 : TN_CU_OUT_OF_MEMORY;
}

/* Checks a launch, and stores it in *w. */
static tn_cu_result work_of(const tn_cu_kernel_node *l, launch_work *w)
{
    unsigned char *values = NULL;
    if (!l->function)
        return SIM_INVALID_HANDLE;
    TRY(sim_handle_check(l->function->of, "module", true));
    if (l->extra || l->shared_bytes)
        return TN_CU_INVALID_VALUE;
    TRY(launch_check(l->function, l->grid_x, l->grid_y, l->grid_z, l->block_x,
                     l->block_y, l->block_z));
    TRY(values_of(l->function, l->parameters, &values));
    *w = (launch_work){.work = {.run = run_launch, .uses = l->function->of,
                                .owned = values},
                       .launch = {.kernel = l->function->kernel,
                                  .grid = l->grid_x, .block = l->block_x,
                                  .parameters = values}};
    return 0;
}

tn_cu_result sim_launch_make(const tn_cu_kernel_node *launch, sim_work **out)
{
    launch_work w;
    TRY(work_of(launch, &w));
    launch_work *made = malloc(sizeof *made);
    if (!made) {
        free(w.work.owned);
        return TN_CU_OUT_OF_MEMORY;
    }
    *made = w;
    *out = &made->work;
    return 0;
}

tn_cu_result cuLaunchKernel(tn_cu_function function, unsigned gx, unsigned gy,
                            unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, tn_cu_stream stream,
                            void **parameters, void **extra)
{
    launch_work w;
    ENTER(true);
    TRY(sim_handle_check(stream, "stream", true));
    const tn_cu_kernel_node launch = {function, gx, gy, gz, bx, by, bz, shared,
                                      parameters, extra};
    TRY(work_of(&launch, &w));
    return sim_give(stream, &w, sizeof w);
}
