/* plugin.c: the table that the core sees, and the one exported symbol. */
#include <fenv.h>

#include "opencl.h"

const tn_host *tn__opencl_host;

/* ---- the floating-point state --------------------------------------- */

/* A driver of CPUs may compute within a call, in its caller's rounding mode,
 * and threads that it starts keep the mode of the call that started them. So
 * slots that reach a driver run in the state that programs are defined for,
 * and the caller's is put back. */
static fenv_t default_state(void)
{
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    return before;
}

static tn_status put_back(const fenv_t *before, tn_status status)
{
    fesetenv(before);
    return status;
}

/* `slot` in the default state: tn__opencl_<slot> */
#define IN_DEFAULT_STATE(slot, declared, passed)                              \
    static tn_status slot declared                                            \
    {                                                                         \
        fenv_t before = default_state();                                      \
        return put_back(&before, tn__opencl_##slot passed);                   \
    }
IN_DEFAULT_STATE(device_count, (uint32_t *count), (count))
IN_DEFAULT_STATE(device_open, (uint32_t i, tn_plugin_device **device),
                 (i, device))
IN_DEFAULT_STATE(buffer_alloc,
                 (tn_plugin_device *device, uint64_t bytes, tn_buffer **out),
                 (device, bytes, out))
IN_DEFAULT_STATE(host_alloc,
                 (tn_plugin_device *device, uint64_t bytes, void **memory),
                 (device, bytes, memory))
IN_DEFAULT_STATE(queue_sync, (tn_queue *queue, tn_fault *fault),
                 (queue, fault))
IN_DEFAULT_STATE(copy, (tn_queue *queue, const tn_copy_args *args),
                 (queue, args))
IN_DEFAULT_STATE(launch,
                 (tn_queue *queue, tn_built *built, const tn_launch *args),
                 (queue, built, args))
IN_DEFAULT_STATE(matmul, (tn_queue *queue, const tn_matmul_args *args),
                 (queue, args))
IN_DEFAULT_STATE(scatter, (tn_queue *queue, const tn_scatter_args *args),
                 (queue, args))
IN_DEFAULT_STATE(scan, (tn_queue *queue, const tn_scan_args *args),
                 (queue, args))
IN_DEFAULT_STATE(sort, (tn_queue *queue, const tn_sort_args *args),
                 (queue, args))
IN_DEFAULT_STATE(event_record, (tn_queue *queue, tn_event *event),
                 (queue, event))
IN_DEFAULT_STATE(queue_wait, (tn_queue *queue, tn_event *event),
                 (queue, event))

static void host_free(tn_plugin_device *device, void *memory)
{
    fenv_t before = default_state();
    tn__opencl_host_free(device, memory);
    fesetenv(&before);
}

static void queue_close(tn_queue *queue)
{
    fenv_t before = default_state();
    tn__opencl_queue_close(queue);
    fesetenv(&before);
}

/* ---- the table ------------------------------------------------------ */

static const tn_plugin plugin = {
    .size = sizeof(tn_plugin),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "opencl",
    .version = "0.1.0",
    .device_count = device_count,
    .device_info = tn__opencl_device_info,
    .device_open = device_open,
    .device_close = tn__opencl_device_close,
    .buffer_alloc = buffer_alloc,
    .buffer_free = tn__opencl_buffer_free,
    .queue_open = tn__opencl_queue_open,
    .queue_close = queue_close,
    .queue_sync = queue_sync,
    .copy = copy,
    .program_build = tn__opencl_program_build,
    .program_free = tn__opencl_program_free,
    .launch = launch,
    .matmul = matmul,
    .scatter = scatter,
    .scan = scan,
    .sort = sort,
    .event_open = tn__opencl_event_open,
    .event_close = tn__opencl_event_close,
    .event_record = event_record,
    .event_query = tn__opencl_event_query,
    .queue_wait = queue_wait,
    .host_alloc = host_alloc,
    .host_free = host_free,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    if (host->abi_major != TN_ABI_MAJOR ||
        !TN_HAS(tn_host, host, fault_read) || !host->print) {
        if (TN_HAS(tn_host, host, fail))
            host->fail(TN_ERR_PLUGIN,
                       "opencl: made for a core that prints kernels, version "
                       "%u of the plugin interface, not %u.%u",
                       TN_ABI_MAJOR, host->abi_major, host->abi_minor);
        return NULL;
    }
    tn__opencl_host = host;
    return &plugin;
}
