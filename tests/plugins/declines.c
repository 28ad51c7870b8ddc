/* A plugin that fails to load and reports a reason. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    fake_table(h, "declines");
    h->fail(TN_ERR_PLUGIN, "not on a Monday");
    return NULL;
}
