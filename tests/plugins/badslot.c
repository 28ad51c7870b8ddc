/* A bad plugin: lacks a function that every plugin must have. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "badslot");
    table->scatter = NULL;
    return table;
}
