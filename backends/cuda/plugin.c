/* plugin.c: the table that the core sees, and the one exported symbol. */
#include <string.h>

#include "cuda.h"

const tn_host *tn__cuda_host;

static const void *extension(const char *name, uint32_t version)
{
    if (version != 1)
        return NULL;
    if (strcmp(name, "graph-replay") == 0)
        return &tn__cuda_graph_replay;
    if (strcmp(name, "product") == 0)
        return &tn__cuda_product_extension;
    if (strcmp(name, "conv") == 0)
        return &tn__cuda_conv;
    if (strcmp(name, "lapack") == 0)
        return &tn__cuda_lapack;
    return strcmp(name, "attention") == 0 &&
                   TN_HAS(tn_host, tn__cuda_host, plan_attention) &&
                   tn__cuda_host->plan_attention
               ? &tn__cuda_attention
               : NULL;
}

static const tn_plugin plugin = {
    .size = sizeof(tn_plugin),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "cuda",
    .version = "0.1.0",
    .device_count = tn__cuda_device_count,
    .device_info = tn__cuda_device_info,
    .device_open = tn__cuda_device_open,
    .device_close = tn__cuda_device_close,
    .buffer_alloc = tn__cuda_buffer_alloc,
    .buffer_free = tn__cuda_buffer_free,
    .queue_open = tn__cuda_queue_open,
    .queue_close = tn__cuda_queue_close,
    .queue_sync = tn__cuda_queue_sync,
    .copy = tn__cuda_copy,
    .program_build = tn__cuda_program_build,
    .program_free = tn__cuda_program_free,
    .launch = tn__cuda_launch,
    .matmul = tn__cuda_matmul,
    .scatter = tn__cuda_scatter,
    .scan = tn__cuda_scan,
    .sort = tn__cuda_sort,
    .event_open = tn__cuda_event_open,
    .event_close = tn__cuda_event_close,
    .event_record = tn__cuda_event_record,
    .event_query = tn__cuda_event_query,
    .queue_wait = tn__cuda_queue_wait,
    .extension = extension,
    .host_alloc = tn__cuda_host_alloc,
    .host_free = tn__cuda_host_free,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    if (host->abi_major != TN_ABI_MAJOR ||
        !TN_HAS(tn_host, host, fault_read) || !host->print) {
        if (TN_HAS(tn_host, host, fail))
            host->fail(TN_ERR_PLUGIN,
                       "cuda: made for a core that prints kernels, version "
                       "%u of the plugin interface, not %u.%u",
                       TN_ABI_MAJOR, host->abi_major, host->abi_minor);
        return NULL;
    }
    tn__cuda_host = host;
    return &plugin;
}
