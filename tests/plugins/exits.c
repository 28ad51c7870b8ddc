/* A bad plugin: exits the process while it loads. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    fake_table(h, "exits");
    exit(3);
}
