/* Has events that can be recorded, but nobody can wait for them. */
#include "fake.h"

static tn_status event_open(tn_plugin_device *device, tn_event **event)
{
    (void)device;
    (void)event;
    return host->fail(TN_ERR_UNSUPPORTED, "not today");
}

static void event_close(tn_event *event)
{
    (void)event;
}

static tn_status event_record(tn_queue *queue, tn_event *event)
{
    (void)queue;
    (void)event;
    return TN_OK;
}

static tn_status event_query(tn_event *event, uint32_t *done)
{
    (void)event;
    *done = 1;
    return TN_OK;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "halfset");
    table->event_open = event_open;
    table->event_close = event_close;
    table->event_record = event_record;
    table->event_query = event_query;
    return table;
}
