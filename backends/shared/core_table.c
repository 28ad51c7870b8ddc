/* core_table.c: checks the function table that the core gives to the plugin,
 * reads the plugin's options, and makes keys for the core's disk cache. */
#include "shared.h"

#include <stdlib.h>
#include <string.h>

const tn_host *tn__host;

bool tn__host_accept(const tn_host *host, const char *plugin)
{
    if (host->abi_major == TN_ABI_MAJOR && TN_HAS(tn_host, host, fault_read) &&
        host->print) {
        tn__host = host;
        return true;
    }
    if (TN_HAS(tn_host, host, fail))
        host->fail(
            TN_ERR_PLUGIN,
            "%s: needs version %u of the plugin interface with the function "
            "print; this libtenon has version %u.%u: install libtenon and its "
            "plugins from one build",
            plugin, TN_ABI_MAJOR, host->abi_major, host->abi_minor);
    return false;
}

tn_status tn__refuse_unknown(const char *call)
{
    return tn__host->fail(TN_ERR_UNSUPPORTED,
                          "%s: unknown kind or flag; libtenon and the "
                          "plugin must have the same version",
                          call);
}

bool tn__option_is(const char *key, const char *value)
{
    const char *text = tn__host->option(key);
    return text && strcmp(text, value) == 0;
}

char *tn__cache_key(const char *head, const char *text, uint64_t text_bytes,
                    size_t *key_bytes)
{
    if (!tn__cache_exists())
        return NULL;
    const size_t length = strlen(head);
    char *key = malloc(length + (size_t)text_bytes + 1);
    if (!key)
        return NULL;
    memcpy(key, head, length);
    memcpy(key + length, text, (size_t)text_bytes);
    *key_bytes = length + (size_t)text_bytes;
    return key;
}
