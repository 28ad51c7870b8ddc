/* reference.c: the smallest complete plugin. It has one device, which computes
 * in plain scalar C. All work is synchronous. Tests compare other devices with
 * this one. It is also a template for a new plugin: copy the folder, rename
 * `reference`, and replace one primitive after the other.
 *
 * The core is the library libtenon, which calls the plugin. */
#include "reference.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

/* A plugin defines these structs for its own use. Here they are empty: the
 * device has no state, and a queue has no pending work. */
struct tn_plugin_device {
    char unused;
};
struct tn_queue {
    char unused;
};

struct tn_built {
    const tn_program *program; /* not owned: the core frees it after this
                                  struct */
};

/* The first index out of range since the last queue_sync. Several threads may
 * call a synchronous device at the same time. The thread whose call failed
 * reads the details, so each thread has its own variable. The core's struct
 * tn_fault may be shorter or longer than the plugin's, so tn_struct_copy copies
 * it. */
static _Thread_local tn_fault first_fault;

static tn_status allocated(const void *object)
{
    return object ? TN_OK : reference_host->fail(TN_ERR_MEMORY, "no memory");
}

static tn_status unknown(const char *call)
{
    return reference_host->fail(TN_ERR_UNSUPPORTED,
                                "%s: unknown kind or flag; libtenon and the "
                                "plugin must have the same version", call);
}

/* ---- the device ---------------------------------------------------------- */

static tn_status device_count(uint32_t *count)
{
    *count = 1;
    return TN_OK;
}

static tn_status device_info(uint32_t i, tn_device_info *info)
{
    (void)i;
    const tn_device_info own = {
        .size = sizeof own,
        .kind = TN_KIND_SIMULATED,
        .caps = TN_CAP_HOST_VISIBLE | TN_CAP_BIT_EXACT,
        .align = 64,
        .register_types = 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                          1u << TN_I64 | 1u << TN_BOOL,
        .storage_types = (1u << TN_DTYPE_END) - 2, /* all dtypes */
        .name = "scalar interpreter",
        .uid = "reference",
    };
    tn_struct_copy(info, &own);
    return TN_OK;
}

static tn_status device_open(uint32_t i, tn_plugin_device **device)
{
    (void)i;
    return allocated(*device = calloc(1, sizeof **device));
}

static void device_close(tn_plugin_device *device)
{
    free(device);
}

/* ---- memory -------------------------------------------------------------- */

static tn_status buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                              tn_buffer **out)
{
    (void)device;
    tn_buffer *buffer = calloc(1, sizeof *buffer);
    void *data = NULL;
    if (!buffer || posix_memalign(&data, 64, bytes ? (size_t)bytes : 1) != 0) {
        free(buffer);
        return allocated(NULL);
    }
    buffer->data = data;
    *out = buffer;
    return TN_OK;
}

static void buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    if (buffer)
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
        return unknown("copy");
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

/* ---- work ---------------------------------------------------------------- */

static tn_status queue_open(tn_plugin_device *device, tn_queue **queue)
{
    (void)device;
    return allocated(*queue = calloc(1, sizeof **queue));
}

static void queue_close(tn_queue *queue)
{
    free(queue);
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

static tn_status program_build(tn_plugin_device *device,
                               const tn_program *program, tn_built **out)
{
    (void)device;
    tn_built *built = calloc(1, sizeof *built);
    if (built)
        built->program = program;
    *out = built;
    return allocated(built);
}

static void program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device;
    free(built);
}

/* Stores the details if a call returned TN_ERR_INDEX. Returns the status of
 * the call. */
static tn_status note_fault(tn_status status, const tn_fault *fault)
{
    if (status == TN_ERR_INDEX && first_fault.code == TN_OK)
        first_fault = *fault;
    return status;
}

/* Launches a program. This plugin lets the core's interpreter run it. Another
 * plugin would run its own kernels here. */
static tn_status launch(tn_queue *queue, tn_built *built,
                        const tn_launch *launch)
{
    (void)queue;
    uint32_t count = built->program->operand_count;
    void **memory = calloc(count + 1, sizeof *memory);
    if (!memory)
        return allocated(NULL);
    for (uint32_t k = 0; k < count; k++)
        if (launch->operand[k].buffer)
            memory[k] = launch->operand[k].buffer->data;
    tn_fault fault = {.size = sizeof fault};
    tn_status status =
        reference_host->interpret(built->program, launch, memory, &fault);
    free(memory);
    return note_fault(status, &fault);
}

/* Sets the default floating-point state and returns the caller's, so that it
 * can be restored. The primitives need subnormal numbers and rounding to
 * nearest, but the program may have set another mode. */
static fenv_t default_fpu(void)
{
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    return before;
}

static tn_status with_fpu(const fenv_t *before, tn_status status)
{
    fesetenv(before);
    return status;
}

static tn_status matmul(tn_queue *queue, const tn_matmul_args *matmul)
{
    (void)queue;
    fenv_t before = default_fpu();
    return with_fpu(&before, reference_matmul(matmul));
}

static tn_status scatter(tn_queue *queue, const tn_scatter_args *scatter)
{
    (void)queue;
    if (!tn_scatter_is_known(scatter))
        return unknown("scatter");
    tn_fault fault = {.size = sizeof fault};
    fenv_t before = default_fpu();
    return note_fault(with_fpu(&before, reference_scatter(scatter, &fault)),
                      &fault);
}

static tn_status scan(tn_queue *queue, const tn_scan_args *scan)
{
    (void)queue;
    if (!tn_scan_is_known(scan))
        return unknown("scan");
    fenv_t before = default_fpu();
    return with_fpu(&before, reference_scan(scan));
}

static tn_status sort(tn_queue *queue, const tn_sort_args *sort)
{
    (void)queue;
    if (!tn_sort_is_known(sort))
        return unknown("sort");
    fenv_t before = default_fpu();
    return with_fpu(&before, reference_sort(sort));
}

/* ---- extensions ---------------------------------------------------------- */

/* "epilogue": a product and the launch that reads its result. Other work that the
 * extension describes is work of extensions, of which this plugin has none. */
static tn_status epilogue_takes(tn_plugin_device *device, uint32_t kind)
{
    (void)device;
    return kind == TN_EPILOGUE_MATMUL ? TN_OK : unknown("epilogue");
}

static tn_status epilogue(tn_queue *queue, const tn_epilogue_args *args)
{
    tn_status status = epilogue_takes(NULL, args->kind);
    if (status == TN_OK)
        status = matmul(queue, args->work);
    return status == TN_OK ? launch(queue, args->built, args->launch) : status;
}

static const void *extension(const char *name, uint32_t version)
{
    static const tn_epilogue_extension epilogues = {
        .size = sizeof epilogues, .takes = epilogue_takes, .run = epilogue};
    return version == 1 && strcmp(name, "epilogue") == 0 ? &epilogues : NULL;
}

/* ---- the table ----------------------------------------------------------- */

static const tn_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "reference",
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
    .extension = extension,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    reference_host = host;
    if (host->abi_major != TN_ABI_MAJOR) {
        host->fail(TN_ERR_PLUGIN,
                   "reference: needs ABI version %u; libtenon has %u",
                   TN_ABI_MAJOR, host->abi_major);
        return NULL;
    }
    return &plugin;
}
