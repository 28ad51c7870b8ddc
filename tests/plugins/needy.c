/* Its manifest, which the test writes, requires a library that no machine has.
 * Otherwise it would be a good one. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    return fake_table(h, "needy");
}
