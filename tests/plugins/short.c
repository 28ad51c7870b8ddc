/* Its table ends before 1.0's does. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "short");
    table->size = TN_END(tn_plugin, sort);
    return table;
}
