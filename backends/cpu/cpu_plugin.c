/* cpu_plugin.c: the plugin's table of functions, which the core calls. The
 * function that returns this table is the plugin's only exported symbol. */
#include <stddef.h>
#include <string.h>

#include "cpu_device.h"
#include "cpu_programs.h"

static const void *extension(const char *name, uint32_t version)
{
    if (version == 1 && strcmp(name, "conv") == 0)
        return &tn__cpu_conv_extension;
    if (version == 1 && strcmp(name, "pool") == 0)
        return &tn__cpu_pool_extension;
    if (version == 1 && strcmp(name, "attention") == 0)
        return &tn__cpu_attention_extension;
    if (version == 1 && strcmp(name, "lapack") == 0)
        return &tn__cpu_lapack_extension;
    if (version == 1 && strcmp(name, "quantised-product") == 0)
        return &tn__cpu_quantised_extension;
    if (version == 1 && strcmp(name, "epilogue") == 0)
        return &tn__cpu_epilogue_extension;
    if (version == 1 && strcmp(name, "launch-list") == 0)
        return &tn__cpu_list_extension;
    return NULL;
}

static const tn_plugin plugin = {
    .size = sizeof(tn_plugin),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "cpu",
    .version = "0.1.0",
    .device_count = tn__cpu_device_count,
    .device_info = tn__cpu_device_info,
    .device_open = tn__cpu_device_open,
    .device_close = tn__cpu_device_close,
    .buffer_alloc = tn__cpu_buffer_alloc,
    .buffer_free = tn__cpu_buffer_free,
    .queue_open = tn__cpu_queue_open,
    .queue_close = tn__cpu_queue_close,
    .queue_sync = tn__cpu_queue_sync,
    .copy = tn__cpu_copy,
    .program_build = tn__cpu_program_build,
    .program_free = tn__cpu_program_free,
    .launch = tn__cpu_launch,
    .matmul = tn__cpu_matmul,
    .scatter = tn__cpu_scatter,
    .scan = tn__cpu_scan,
    .sort = tn__cpu_sort,
    .buffer_map = tn__cpu_buffer_map,
    .buffer_wrap = tn__cpu_buffer_wrap,
    .extension = extension,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    if (host->abi_major != TN_ABI_MAJOR || !TN_HAS(tn_host, host, option)) {
        if (TN_HAS(tn_host, host, fail))
            host->fail(TN_ERR_PLUGIN,
                       "cpu: needs version %u of the plugin interface; "
                       "libtenon has %u.%u",
                       TN_ABI_MAJOR, host->abi_major, host->abi_minor);
        return NULL;
    }
    tn__cpu_host = host;
    return &plugin;
}
