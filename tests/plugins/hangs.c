/* Never answers when it is asked for its devices, as a driver that waits for a
 * card that is lost. */
#include "fake.h"

#include <unistd.h>

static tn_status endless_count(uint32_t *count)
{
    *count = 1;
    while (pause()) /* a signal's handler ran, and it goes on */
        ;
    return TN_OK;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "hangs");
    table->device_count = endless_count;
    return table;
}
