/* compiled.c: a plugin for the simplest device that runs its own kernels.
 * Kernels are printed as plain C (TN_TARGET_C), compiled by the C compiler and
 * loaded with dlopen. Memory is the host's, and calls are synchronous.
 *
 * Options: "cc", the compiler with its fixed options (cc); "flags", more
 * options (-O1). */
#include <tenon/plugin.h>

#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const tn_host *host;

struct tn_plugin_device {
    char unused;
};
struct tn_buffer {
    unsigned char *data;
};
struct tn_built {
    const tn_program *program; /* owned by the library; valid until
                                * program_free */
};
enum { FAULT_ROOM = 4096 };
struct tn_queue {
    char unused;
};

/* The first index fault of this thread's calls since its last sync. (Several
 * threads may use a synchronous device at once, so each has its own.) */
static _Thread_local tn_fault first_fault;

static const tn_target target = {.size = sizeof target,
                                 .flags = TN_TARGET_C,
                                 .units = 2,
                                 .group_limit = 1,
                                 .argument_room = 4096,
                                 .fault_room = FAULT_ROOM,
                                 .local_bytes = 32768};

static tn_status made(const void *object)
{
    return object ? TN_OK : host->fail(TN_ERR_MEMORY, "no memory");
}

/* ---- kernels ------------------------------------------------------------ */

typedef struct kernel {
    struct kernel *next;
    uint64_t key[2];
    tn_kernel_c *run;
} kernel;

static kernel *kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Appends the words of text, which is modified. */
static void append_words(const char **argv, int *count, int most, char *text)
{
    for (char *word; *count < most && (word = strtok_r(text, " ", &text));)
        argv[(*count)++] = word;
}

static bool run_compiler(const char *source, const char *object)
{
    extern char **environ;
    const char *cc = host->option("cc"), *flags = host->option("flags");
    const char *const own[] = {"-std=c11", "-ffp-contract=off",
                               "-fno-strict-aliasing", "-fPIC", "-shared",
                               source, "-o", object, "-lm"};
    enum { OWN = sizeof own / sizeof *own, MOST = 40 };
    const char *argv[MOST + 1] = {NULL};
    char first[256], more[256];
    int count = 0, status = -1;
    pid_t child;
    snprintf(first, sizeof first, "%s", cc ? cc : "cc");
    snprintf(more, sizeof more, "%s", flags ? flags : "-O1");
    append_words(argv, &count, MOST - OWN, first);
    append_words(argv, &count, MOST - OWN, more);
    for (int i = 0; i < OWN; i++)
        argv[count++] = own[i];
    return posix_spawnp(&child, argv[0], NULL, NULL, (char *const *)argv,
                        environ) == 0 &&
           waitpid(child, &status, 0) == child && status == 0;
}

/* Compiles a source in a temporary folder, which is removed afterwards. */
static tn_status compile(const tn_source *text, tn_kernel_c **out)
{
    char folder[128], source[160], object[160];
    const char *where = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.80s/tenon-compiled.XXXXXX",
             where ? where : "/tmp");
    if (!mkdtemp(folder))
        return host->fail(TN_ERR_BUILD, "%s: no folder can be made", folder);
    snprintf(source, sizeof source, "%s/kernel.c", folder);
    snprintf(object, sizeof object, "%s/kernel.so", folder);
    FILE *file = fopen(source, "w");
    bool written = file && fputs(text->text, file) >= 0;
    written = file && fclose(file) == 0 && written;
    void *opened = NULL, *symbol = NULL;
    if (written && run_compiler(source, object))
        opened = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (opened)
        symbol = dlsym(opened, text->kernel);
    unlink(source);
    unlink(object);
    rmdir(folder);
    memcpy(out, &symbol, sizeof symbol);
    return symbol ? TN_OK
                  : host->fail(TN_ERR_BUILD, "the C compiler builds no kernel");
}

/* Returns the kernel of a plan; builds it if it does not exist yet. */
static tn_status find(const tn_program *program, const tn_plan *plan,
                      tn_kernel_c **out)
{
    tn_source text = {.size = sizeof text};
    kernel *k = kernels;
    while (k && memcmp(k->key, plan->key, sizeof k->key) != 0)
        k = k->next;
    if (k) {
        *out = k->run;
        return TN_OK;
    }
    tn_status status = host->print(&target, program, plan, &text);
    if (status != TN_OK)
        return status;
    status = compile(&text, out);
    host->print_free(&text);
    if (status != TN_OK)
        return status;
    k = calloc(1, sizeof *k);
    if (!k)
        return made(NULL);
    *k = (kernel){.next = kernels,
                  .key = {plan->key[0], plan->key[1]},
                  .run = *out};
    kernels = k;
    return TN_OK;
}

static tn_status run_plan(const tn_program *program, const tn_plan *plan)
{
    void *pointer[TN_PLAN_BUFFERS + 2], *scratch = NULL, *faults = NULL;
    uint32_t count = plan->buffer_count;
    tn_kernel_c *run;
    pthread_mutex_lock(&lock);
    tn_status status = find(program, plan, &run);
    pthread_mutex_unlock(&lock);
    if (status != TN_OK)
        return status;
    for (uint32_t k = 0; k < count; k++)
        pointer[k] = plan->buffer[k] ? plan->buffer[k]->data : NULL;
    if (plan->flags & TN_PLAN_SCRATCH) {
        if (posix_memalign(&scratch, 64, (size_t)plan->scratch_bytes + 1) != 0)
            return made(NULL);
        pointer[count++] = scratch;
    }
    if (plan->flags & TN_PLAN_FAULTS) {
        faults = calloc(1, TN_FAULT_BYTES(FAULT_ROOM));
        if (!faults) {
            free(scratch);
            return made(NULL);
        }
        pointer[count++] = faults;
    }
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    run(pointer, plan->argument, 0, plan->group_count, plan->group_count);
    fesetenv(&before);
    free(scratch);
    tn_fault fault = {.size = sizeof fault};
    if (faults)
        status = host->fault_read(faults, FAULT_ROOM, &fault);
    free(faults);
    if (status != TN_OK && first_fault.code == TN_OK)
        first_fault = fault;
    return status;
}

/* Runs the steps of a launch or primitive. */
#define STEPS(program, planned)                                                \
    tn_plan plan = {.size = sizeof plan};                                      \
    tn_status status;                                                          \
    do {                                                                       \
        status = (planned);                                                    \
        if (status == TN_OK && plan.group_count > 0)                           \
            status = run_plan(program, &plan);                                 \
    } while (status == TN_OK && ++plan.step < plan.step_count);                \
    return status

static tn_status launch(tn_queue *queue, tn_built *built, const tn_launch *l)
{
    (void)queue;
    STEPS(built->program,
          host->plan_program(&target, built->program, l, &plan));
}

static tn_status matmul(tn_queue *queue, const tn_matmul_args *a)
{
    (void)queue;
    STEPS(NULL, host->plan_matmul(&target, a, &plan));
}

static tn_status scatter(tn_queue *queue, const tn_scatter_args *a)
{
    (void)queue;
    STEPS(NULL, host->plan_scatter(&target, a, &plan));
}

static tn_status scan(tn_queue *queue, const tn_scan_args *a)
{
    (void)queue;
    STEPS(NULL, host->plan_scan(&target, a, &plan));
}

static tn_status sort(tn_queue *queue, const tn_sort_args *a)
{
    (void)queue;
    STEPS(NULL, host->plan_sort(&target, a, &plan));
}

static tn_status queue_sync(tn_queue *queue, tn_fault *fault)
{
    (void)queue;
    tn_status status = first_fault.code;
    if (status != TN_OK && fault)
        tn_struct_copy(fault, &first_fault);
    first_fault.code = TN_OK;
    return status;
}

/* ---- the device --------------------------------------------------------- */

static tn_status device_count(uint32_t *count)
{
    *count = 1;
    return TN_OK;
}

static tn_status device_info(uint32_t i, tn_device_info *info)
{
    (void)i;
    const tn_device_info mine = {
        .size = sizeof mine,
        .kind = TN_KIND_SIMULATED,
        .caps = TN_CAP_HOST_VISIBLE | TN_CAP_BIT_EXACT,
        .align = 64,
        .register_types = 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                          1u << TN_I64 | 1u << TN_BOOL,
        .storage_types = (1u << TN_DTYPE_END) - 2,
        .name = "kernels by the C compiler",
        .uid = "compiled"};
    tn_struct_copy(info, &mine);
    return TN_OK;
}

static tn_status device_open(uint32_t i, tn_plugin_device **device)
{
    (void)i;
    return made(*device = calloc(1, sizeof **device));
}

static void device_close(tn_plugin_device *device)
{
    free(device);
}

static tn_status buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                              tn_buffer **out)
{
    (void)device;
    tn_buffer *buffer = calloc(1, sizeof *buffer);
    void *data = NULL;
    if (!buffer || posix_memalign(&data, 64, bytes ? (size_t)bytes : 1) != 0) {
        free(buffer);
        return made(NULL);
    }
    buffer->data = data;
    *out = buffer;
    return TN_OK;
}

static void buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    free(buffer->data);
    free(buffer);
}

static tn_status buffer_map(tn_plugin_device *device, tn_buffer *buffer,
                            void **pointer)
{
    (void)device;
    *pointer = buffer->data;
    return TN_OK;
}

static tn_status copy(tn_queue *queue, const tn_copy_args *c)
{
    (void)queue;
    if (!tn_copy_is_known(c))
        return host->fail(TN_ERR_UNSUPPORTED,
                          "copy: a direction of a later version");
    unsigned char *dst = c->direction == TN_COPY_TO_HOST
                             ? c->host
                             : c->dst->data + c->dst_offset;
    const unsigned char *src = c->direction == TN_COPY_TO_DEVICE
                                   ? c->host
                                   : c->src->data + c->src_offset;
    for (uint64_t row = 0; row < c->rows; row++)
        memmove(dst + row * c->dst_pitch, src + row * c->src_pitch,
                (size_t)c->bytes);
    return TN_OK;
}

static tn_status queue_open(tn_plugin_device *device, tn_queue **queue)
{
    (void)device;
    return made(*queue = calloc(1, sizeof **queue));
}

static void queue_close(tn_queue *queue)
{
    free(queue);
}

static tn_status program_build(tn_plugin_device *device,
                               const tn_program *program, tn_built **out)
{
    (void)device;
    tn_built *built = calloc(1, sizeof *built);
    if (built)
        built->program = program;
    *out = built;
    return made(built);
}

static void program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device;
    free(built);
}

static const tn_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "compiled",
    .version = "1",
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .queue_sync = queue_sync,
    .copy = copy,
    .program_build = program_build,
    .program_free = program_free,
    .launch = launch,
    .matmul = matmul,
    .scatter = scatter,
    .scan = scan,
    .sort = sort,
    .buffer_map = buffer_map,
};

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    host = h;
    if (h->abi_major != TN_ABI_MAJOR || !TN_HAS(tn_host, h, fault_read)) {
        h->fail(TN_ERR_PLUGIN, "compiled: needs a host of version %u that "
                               "prints kernels", TN_ABI_MAJOR);
        return NULL;
    }
    return &plugin;
}
