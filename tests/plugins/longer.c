/* A correct plugin of a later minor version: its function table has additional
 * fields. */
#include "fake.h"

static struct {
    tn_plugin known;
    void *later[4];
} table;

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    table.known = *fake_table(h, "longer");
    table.known.size = sizeof table;
    table.known.abi_minor = 7;
    table.later[0] = &table;
    return &table.known;
}
