/* A bad plugin: has events that can be recorded but not waited for. */
#include "fake.h"

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "halfset");
    table->event_open = fake_event_open;
    table->event_close = fake_event_close;
    table->event_record = fake_event_use;
    table->event_query = fake_event_query;
    return table;
}
