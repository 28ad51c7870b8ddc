/* cuda_compile.c: finds or compiles the kernel of a plan. Searches the table of
 * compiled kernels and then the core's disk cache. If neither has the kernel,
 * compiles its source with NVRTC. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

/* With these options kernels give results that are bit-identical to those of
 * Tenon's interpreter: no fused multiply-add, correctly rounded division and
 * square root, and subnormal numbers. */
static const char *const options[] = {"--fmad=false", "--prec-div=true",
                                      "--prec-sqrt=true", "--ftz=false"};
#define OPTIONS (sizeof options / sizeof *options)

/* ---- NVRTC --------------------------------------------------------------- */

/* Chooses the target for which NVRTC compiles. If NVRTC supports the device's
 * architecture, the target is machine code. Otherwise the target is PTX for the
 * latest architecture that NVRTC supports and that precedes the device's. The
 * driver compiles PTX, but not PTX of a later version of CUDA than its own.
 * Fails if no target is possible. */
tn_status tn__cuda_arch_choose(tn_plugin_device *device)
{
    int archs[64], count = 0, best = 0, major = 0, minor = 0;
    int own = device->listed->major * 10 + device->listed->minor;
    const int driver = device->driver_version;
    if (tn__nvrtc.arch_count(&count) || count > 64 || tn__nvrtc.archs(archs))
        count = 0;
    for (int i = 0; i < count; i++)
        if (archs[i] <= own && archs[i] > best)
            best = archs[i];
    if (!best)
        return tn__host->fail(
            TN_ERR_NO_DEVICE,
            "this NVRTC cannot compile for %s; install a CUDA toolkit that "
            "supports compute capability %d.%d",
            device->listed->info.name, device->listed->major,
            device->listed->minor);
    const bool is_own = best == own && !device->wants_ptx;
    if (!is_own && driver && !tn__nvrtc.version(&major, &minor) &&
        major * 1000 + minor * 10 > driver)
        return tn__host->fail(
            TN_ERR_NO_DEVICE,
            "%s needs PTX, but the PTX of NVRTC %d.%d is newer than the driver "
            "(CUDA %d.%d): install a newer driver, or install NVRTC of CUDA "
            "%d.%d or earlier and set TENON_CUDA_LIBS to its folder",
            device->listed->info.name, major, minor, driver / 1000,
            driver / 10 % 100, driver / 1000, driver / 10 % 100);
    snprintf(device->arch, sizeof device->arch, "--gpu-architecture=%s_%d",
             is_own ? "sm" : "compute", best);
    return TN_OK;
}

static char *build_log(tn_nvrtc_program program)
{
    size_t bytes = 0;
    if (tn__nvrtc.log_size(program, &bytes))
        return NULL;
    char *log = calloc(1, bytes + 1);
    if (log && tn__nvrtc.log(program, log))
        log[0] = 0;
    return log;
}

/* Reads the compiled code in the form that cuModuleLoadData accepts. */
static tn_status image_read(const tn_plugin_device *device,
                            tn_nvrtc_program program, tn_binary *out)
{
    bool machine_code = strstr(device->arch, "=sm_") != NULL;
    tn_nvrtc_result error =
        machine_code ? tn__nvrtc.cubin_size(program, &out->count)
                     : tn__nvrtc.ptx_size(program, &out->count);
    out->bytes = error ? NULL : malloc(out->count + 1);
    if (!error && !out->bytes)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a kernel");
    if (!error)
        error = machine_code ? tn__nvrtc.cubin(program, out->bytes)
                             : tn__nvrtc.ptx(program, out->bytes);
    return error ? tn__host->fail(TN_ERR_BUILD,
                                  "NVRTC returned no code: error %d", error)
                 : TN_OK;
}

typedef struct building {
    tn_build build;
    const tn_plugin_device *device;
    tn_cu_module module; /* the compiled and loaded module */
} building;

static tn_status compile_text(const building *b, tn_binary *out)
{
    tn_nvrtc_program program = NULL;
    const char *option[OPTIONS + 1];
    tn_status status = TN_OK;
    option[0] = b->device->arch;
    memcpy(&option[1], options, sizeof options);
    if (tn__nvrtc.create(&program, b->build.source->text, "tenon.cu", 0, NULL,
                         NULL))
        return tn__host->fail(TN_ERR_MEMORY, "nvrtcCreateProgram fails");
    if (tn__nvrtc.compile(program, (int)OPTIONS + 1, option)) {
        char *log = build_log(program);
        status = tn__build_failed(&b->build, "NVRTC", log);
        free(log);
    } else {
        status = image_read(b->device, program, out);
    }
    tn__nvrtc.destroy(&program);
    return status;
}

static tn_status module_compile(void *context, tn_binary *binary)
{
    building *b = context;
    tn_binary image = {.bytes = NULL};
    tn_status status = compile_text(b, &image);
    if (!status)
        status = tn__cuda_check(b->device, "cuModuleLoadData",
                                tn__cu.module_load(&b->module, image.bytes));
    if (!status && binary)
        *binary = image;
    else
        free(image.bytes);
    return status;
}

/* Loads code from the disk cache as a module. Returns 1 on success, or 0 if the
 * driver rejects the code. */
static uint32_t module_load(void *context, const void *value, uint64_t bytes)
{
    building *b = context;
    (void)bytes;
    return !tn__cu.module_load(&b->module, value);
}

static tn_status module_make(const tn_plugin_device *device,
                             const tn_source *source, tn_cu_module *out)
{
    char head[256];
    building b = {.build = {.plugin = "cuda",
                            .suffix = ".cu",
                            .device_name = device->listed->info.name,
                            .key_head = head,
                            .source = source,
                            .load = module_load,
                            .compile = module_compile,
                            .context = &b},
                  .device = device};
    /* The key of the disk cache. It has everything that the code depends on,
     * except the version of NVRTC, which does not change the results. */
    snprintf(head, sizeof head, "cuda 1\n%d.%d %s\n%s %s %s %s\n",
             device->listed->major, device->listed->minor,
             device->wants_ptx ? "ptx" : "cubin", options[0], options[1],
             options[2], options[3]);
    tn_status status = tn__build(&b.build);
    *out = b.module;
    return status;
}

/* ---- the table ----------------------------------------------------------- */

static size_t slot_of(tn_cuda_table *table, const uint64_t key[2])
{
    size_t mask = table->capacity - 1, i = (size_t)key[0] & mask;
    while (atomic_load_explicit(&table->slot[i].function,
                                memory_order_acquire) &&
           (table->slot[i].key[0] != key[0] ||
            table->slot[i].key[1] != key[1]))
        i = (i + 1) & mask;
    return i;
}

/* Finds a kernel. Returns NULL if the table has no such kernel. */
static tn_cu_function table_find(tn_plugin_device *device,
                                 const uint64_t key[2])
{
    tn_cuda_table *table =
        atomic_load_explicit(&device->kernels, memory_order_acquire);
    return table ? atomic_load_explicit(
                       &table->slot[slot_of(table, key)].function,
                       memory_order_acquire)
                 : NULL;
}

static void table_put(tn_cuda_table *table, const uint64_t key[2],
                      tn_cu_module module, tn_cu_function function)
{
    tn_cuda_kernel *slot = &table->slot[slot_of(table, key)];
    memcpy(slot->key, key, sizeof slot->key);
    slot->module = module;
    table->count++;
    atomic_store_explicit(&slot->function, function, memory_order_release);
}

/* Returns a table with a free entry. If the table is too full, makes a larger
 * table. The old one is not freed, because other threads may still read it.
 * Returns NULL if out of memory. */
static tn_cuda_table *table_reserve(tn_plugin_device *device)
{
    tn_cuda_table *old =
        atomic_load_explicit(&device->kernels, memory_order_relaxed);
    if (old && old->count * 2 < old->capacity)
        return old;
    size_t capacity = old ? old->capacity * 2 : 64;
    tn_cuda_table *grown =
        calloc(1, sizeof *grown + capacity * sizeof *grown->slot);
    if (!grown)
        return NULL;
    grown->older = old;
    grown->capacity = capacity;
    for (size_t i = 0; old && i < old->capacity; i++) {
        tn_cu_function function = atomic_load_explicit(
            &old->slot[i].function, memory_order_relaxed);
        if (function)
            table_put(grown, old->slot[i].key, old->slot[i].module, function);
    }
    atomic_store_explicit(&device->kernels, grown, memory_order_release);
    return grown;
}

/* Stores the module in the table. If out of memory, unloads the module and
 * returns an error. */
static tn_status kernel_store(tn_plugin_device *device, const uint64_t key[2],
                              tn_cu_module module, tn_cu_function function)
{
    tn_cuda_table *table = table_reserve(device);
    if (!table) {
        tn__cu.module_unload(module);
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a kernel");
    }
    table_put(table, key, module, function);
    return TN_OK;
}

void tn__cuda_kernels_unload(tn_plugin_device *device)
{
    tn_cuda_table *table =
        atomic_load_explicit(&device->kernels, memory_order_relaxed);
    for (size_t i = 0; table && i < table->capacity; i++)
        if (table->slot[i].module)
            tn__cu.module_unload(table->slot[i].module);
}

void tn__cuda_kernels_free(tn_plugin_device *device)
{
    tn_cuda_table *table =
        atomic_load_explicit(&device->kernels, memory_order_relaxed);
    while (table) {
        tn_cuda_table *older = table->older;
        free(table);
        table = older;
    }
}

/* ---- compiling a kernel -------------------------------------------------- */

/* Prints the source of a plan's kernel and compiles it. The caller holds no
 * lock, so that several threads can compile at the same time. */
static tn_status plan_compile(tn_plugin_device *device,
                              const tn_program *program, const tn_plan *plan,
                              tn_cu_module *module, tn_cu_function *out)
{
    tn_source source = {.size = sizeof source};
    fenv_t callers;
    /* The printer and the compiler round constants in the thread's rounding
     * mode, so the default mode is set. */
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    tn_status status = tn__print_plan(&device->target, program, plan, &source);
    if (!status) {
        status = module_make(device, &source, module);
        tn_cu_result error =
            status ? 0
                   : tn__cu.module_function(out, *module, source.kernel);
        if (error) {
            status = tn__cuda_check(device, "cuModuleGetFunction", error);
            tn__cu.module_unload(*module);
        }
        tn__host->print_free(&source);
    }
    fesetenv(&callers);
    return status;
}

/* A kernel that a thread is compiling. The struct is on that thread's stack and
 * is in the list device->compilations. */
struct tn_cuda_compilation {
    struct tn_cuda_compilation *next;
    const uint64_t *key;
};

static bool is_being_compiled(const tn_plugin_device *device,
                              const uint64_t key[2])
{
    const tn_cuda_compilation *m = device->compilations;
    while (m && (m->key[0] != key[0] || m->key[1] != key[1]))
        m = m->next;
    return m != NULL;
}

static void compilation_end(tn_plugin_device *device,
                            tn_cuda_compilation *ended)
{
    tn_cuda_compilation **at = &device->compilations;
    while (*at != ended)
        at = &(*at)->next;
    *at = ended->next;
    pthread_cond_broadcast(&device->compiled);
}

/* Sets *out to the kernel of a plan. Each kernel is compiled once: if another
 * thread is compiling it, this thread waits. If that compilation fails, this
 * thread compiles the kernel too, so that it records the error. */
tn_status tn__cuda_kernel(tn_plugin_device *device, const tn_program *program,
                          const tn_plan *plan, tn_cu_function *out)
{
    *out = table_find(device, plan->key);
    if (*out)
        return TN_OK;
    tn_status status = TN_OK;
    tn_cu_module module = NULL;
    pthread_mutex_lock(&device->build_lock);
    while (!(*out = table_find(device, plan->key)) &&
           is_being_compiled(device, plan->key))
        pthread_cond_wait(&device->compiled, &device->build_lock);
    if (!*out) {
        tn_cuda_compilation mine = {device->compilations, plan->key};
        device->compilations = &mine;
        pthread_mutex_unlock(&device->build_lock);
        status = plan_compile(device, program, plan, &module, out);
        pthread_mutex_lock(&device->build_lock);
        if (!status)
            status = kernel_store(device, plan->key, module, *out);
        compilation_end(device, &mine);
    }
    pthread_mutex_unlock(&device->build_lock);
    return status;
}
