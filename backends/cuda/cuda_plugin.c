/* cuda_plugin.c: the plugin's function table, and tenon_plugin_v1, the only
 * exported symbol. */
#include <string.h>

#include "cuda.h"

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
    if (strcmp(name, "quantised-product") == 0)
        return &tn__cuda_quantised;
    if (strcmp(name, "epilogue") == 0)
        return &tn__cuda_epilogue;
    return strcmp(name, "attention") == 0 &&
                   TN_HAS(tn_host, tn__host, plan_attention) &&
                   tn__host->plan_attention
               ? &tn__cuda_attention
               : NULL;
}

static const tn_plugin plugin = {
    .size = sizeof(tn_plugin),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "cuda",
    .version = "0.1.0",
    .extension = extension,
#define FILL(slot) .slot = tn__cuda_##slot,
    TN_CUDA_SLOTS(FILL)
#undef FILL
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    return tn__host_accept(host, plugin.name) ? &plugin : NULL;
}
