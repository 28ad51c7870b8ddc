/* The fake device as a correct plugin. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    return fake_table(h, "fake");
}
