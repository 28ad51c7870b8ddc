/* A bad plugin: its name differs from that of its file. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    return fake_table(h, "somebody");
}
