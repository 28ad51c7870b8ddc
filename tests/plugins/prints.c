/* A bad plugin: prints to the program's standard output in device_count. */
#include "fake.h"

#include <stdio.h>

static tn_status loud_count(uint32_t *count)
{
    printf("hello\n");
    *count = 1;
    return TN_OK;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "prints");
    table->device_count = loud_count;
    return table;
}
