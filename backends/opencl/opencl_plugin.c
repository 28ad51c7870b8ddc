/* opencl_plugin.c: the plugin's function table, and tenon_plugin_v1, the only
 * exported symbol. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"


/* ---- calls that enter a driver ------------------------------------------- */

/* The state of the calling thread while it calls the driver.
 *
 * The driver of a CPU may compute within a call, in the caller's rounding mode,
 * and threads that it starts inherit that mode. Therefore each function below
 * sets the default floating-point state, and restores the caller's state at the
 * end.
 *
 * PoCL's device `basic` (version 3.1) may deadlock if two threads call it at
 * the same time, because a call may run commands of another thread. Therefore
 * on CPUs only one thread at a time calls the driver. */
typedef struct call_state {
    fenv_t before;
    pthread_mutex_t *cpu_lock; /* NULL if the lock was not taken */
} call_state;

static call_state call_begin(tn_plugin_device *device)
{
    call_state made = {.cpu_lock = NULL};
    if (device && device->listed->info.kind == TN_KIND_CPU)
        pthread_mutex_lock(made.cpu_lock = &device->cpu_lock);
    fegetenv(&made.before);
    fesetenv(FE_DFL_ENV);
    return made;
}

static tn_status call_end(const call_state *made, tn_status status)
{
    fesetenv(&made->before);
    if (made->cpu_lock)
        pthread_mutex_unlock(made->cpu_lock);
    return status;
}

/* Whether this process is a forked child of the process that loaded the plugin.
 * A child does not have the driver's threads and device files, so a call of the
 * driver would wait for ever. In a child, all functions below return without
 * calling the driver. */
static bool is_forked;

static void after_fork(void)
{
    is_forked = true;
}

static void fork_watch(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static tn_status refuse(const tn_plugin_device *device)
{
    return tn__host->fail(
        device ? TN_ERR_DEVICE_LOST : TN_ERR_NO_DEVICE,
        "%s%sthe process was forked after OpenCL was initialised; open devices "
        "in the child only, or start it with exec",
        device ? device->listed->info.name : "", device ? ": " : "");
}

/* Defines the function for the field `slot` of the plugin's table. It calls
 * tn__opencl_<slot> between call_begin and call_end, and fails in a forked
 * child. device is the device that the call uses, or NULL. */
#define DRIVER_CALL(slot, device, declared, passed)                           \
    static tn_status slot declared                                            \
    {                                                                         \
        if (is_forked)                                                        \
            return refuse(device);                                            \
        call_state made = call_begin(device);                                 \
        return call_end(&made, tn__opencl_##slot passed);                     \
    }
static tn_status device_count(uint32_t *count)
{
    /* This works in a forked child too, because the list is filled only once,
     * possibly by the parent process. */
    call_state made = call_begin(NULL);
    return call_end(&made, tn__opencl_device_count(count));
}

static tn_status device_open(uint32_t i, tn_plugin_device **device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (is_forked)
        return refuse(NULL);
    call_state made = call_begin(NULL);
    tn_status status = tn__opencl_device_open(i, device);
    if (!status)
        pthread_once(&once, fork_watch);
    return call_end(&made, status);
}

DRIVER_CALL(queue_open, device, (tn_plugin_device * device, tn_queue **queue),
            (device, queue))
DRIVER_CALL(buffer_alloc, device,
            (tn_plugin_device * device, uint64_t bytes, tn_buffer **out),
            (device, bytes, out))
DRIVER_CALL(host_alloc, device,
            (tn_plugin_device * device, uint64_t bytes, void **memory),
            (device, bytes, memory))
DRIVER_CALL(queue_sync, queue->device, (tn_queue * queue, tn_fault *fault),
            (queue, fault))
DRIVER_CALL(copy, queue->device, (tn_queue * queue, const tn_copy_args *args),
            (queue, args))
DRIVER_CALL(launch, queue->device,
            (tn_queue * queue, tn_built *built, const tn_launch *args),
            (queue, built, args))
DRIVER_CALL(matmul, queue->device,
            (tn_queue * queue, const tn_matmul_args *args), (queue, args))
DRIVER_CALL(scatter, queue->device,
            (tn_queue * queue, const tn_scatter_args *args), (queue, args))
DRIVER_CALL(scan, queue->device, (tn_queue * queue, const tn_scan_args *args),
            (queue, args))
DRIVER_CALL(sort, queue->device, (tn_queue * queue, const tn_sort_args *args),
            (queue, args))
DRIVER_CALL(event_record, queue->device, (tn_queue * queue, tn_event *event),
            (queue, event))
DRIVER_CALL(queue_wait, queue->device, (tn_queue * queue, tn_event *event),
            (queue, event))

DRIVER_CALL(conv, queue->device, (tn_queue * queue, const tn_conv_args *args),
            (queue, args))
DRIVER_CALL(quantised_product, queue->device,
            (tn_queue * queue, const tn_quantised_product_args *args),
            (queue, args))

static tn_status quantised_takes(tn_plugin_device *device, uint32_t format)
{
    return tn__quantised_takes(device->targets, format);
}

/* Closes a device. In a forked child nothing is released, because the driver's
 * objects belong to the parent process. */
static void device_close(tn_plugin_device *device)
{
    if (!is_forked)
        tn__opencl_device_close(device);
}

static void buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    if (is_forked)
        free(buffer);
    else
        tn__opencl_buffer_free(device, buffer);
}

static void event_close(tn_event *event)
{
    if (is_forked)
        free(event);
    else
        tn__opencl_event_close(event);
}

/* Sets *done to whether an event is complete. In a forked child every event is
 * complete, because the child has no pending work. */
static tn_status event_query(tn_event *event, uint32_t *done)
{
    *done = 1;
    return is_forked ? TN_OK : tn__opencl_event_query(event, done);
}

static void host_free(tn_plugin_device *device, void *memory)
{
    if (is_forked)
        return;
    call_state made = call_begin(device);
    tn__opencl_host_free(device, memory);
    call_end(&made, TN_OK);
}

static void queue_close(tn_queue *queue)
{
    if (is_forked) {
        free(queue);
        return;
    }
    call_state made = call_begin(queue->device);
    tn__opencl_queue_close(queue);
    call_end(&made, TN_OK);
}

DRIVER_CALL(epilogue, queue->device,
            (tn_queue * queue, const tn_epilogue_args *args), (queue, args))

static const void *extension(const char *name, uint32_t version)
{
    static const tn_conv_extension table = {.size = sizeof table, .run = conv};
    static const tn_quantised_product_extension quantised = {
        .size = sizeof quantised,
        .takes = quantised_takes,
        .run = quantised_product};
    static const tn_epilogue_extension epilogues = {
        .size = sizeof epilogues, .takes = tn__opencl_epilogue_takes,
        .run = epilogue};
    if (version == 1 && strcmp(name, "quantised-product") == 0)
        return &quantised;
    if (version == 1 && strcmp(name, "epilogue") == 0)
        return &epilogues;
    return version == 1 && strcmp(name, "conv") == 0 &&
                   TN_HAS(tn_host, tn__host, plan_conv) && tn__host->plan_conv
               ? &table
               : NULL;
}

/* ---- the table ----------------------------------------------------------- */

static const tn_plugin plugin = {
    .size = sizeof(tn_plugin),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "opencl",
    .version = "0.1.0",
    .device_count = device_count,
    .device_info = tn__opencl_device_info,
    .device_open = device_open,
    .device_close = device_close,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .queue_open = queue_open,
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
    .event_close = event_close,
    .event_record = event_record,
    .event_query = event_query,
    .queue_wait = queue_wait,
    .extension = extension,
    .host_alloc = host_alloc,
    .host_free = host_free,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    return tn__host_accept(host, plugin.name) ? &plugin : NULL;
}
