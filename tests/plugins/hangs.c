/* A bad plugin: device_count never returns, as with a driver that waits for a
 * lost card. */
#include "fake.h"

#include <unistd.h>

static tn_status endless_count(uint32_t *count)
{
    *count = 1;
    while (pause()) /* pause returns after each signal */
        ;
    return TN_OK;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "hangs");
    table->device_count = endless_count;
    return table;
}
