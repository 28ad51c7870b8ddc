/* A bad plugin: its function table is shorter than that of version 1.0. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "short");
    table->size = TN_END(tn_plugin, sort);
    return table;
}
