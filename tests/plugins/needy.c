/* A correct plugin; its manifest, which the test writes, requires a library
 * that does not exist. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    return fake_table(h, "needy");
}
