/* A bad plugin: has another major version of the ABI. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "badmajor");
    table->abi_major = 2;
    return table;
}
