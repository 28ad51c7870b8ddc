/* A bad plugin: aborts the process in device_count, as a library that a plugin
 * uses might. */
#include "fake.h"

static tn_status fatal_count(uint32_t *count)
{
    *count = 1;
    abort();
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "aborts");
    table->device_count = fatal_count;
    return table;
}
