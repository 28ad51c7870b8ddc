/* vendor.c: counts the matrix products, convolutions and attentions that a
 * device computes (vendor.h). */
#include "vendor.h"

#include <device/device.h>

long vendor_sums;

static tn_device *watched;
static const tn_plugin *plugin;
static const tn_conv_extension *conv;
static const tn_attention_extension *attention;
static tn_plugin counting;
static tn_conv_extension counting_conv;
static tn_attention_extension counting_attention;

static tn_status count_matmul(tn_queue *queue, const tn_matmul_args *args)
{
    vendor_sums++;
    return plugin->matmul(queue, args);
}

static tn_status count_conv(tn_queue *queue, const tn_conv_args *args)
{
    vendor_sums++;
    return conv->run(queue, args);
}

static tn_status count_attention(tn_queue *queue,
                                 const tn_attention_args *args)
{
    vendor_sums++;
    return attention->run(queue, args);
}

void vendor_watch(tn_device *device)
{
    watched = device;
    plugin = device->plugin;
    counting = *plugin;
    counting.matmul = count_matmul;
    device->plugin = &counting;
    conv = atomic_load(&device->conv);
    if (conv) {
        counting_conv = *conv;
        counting_conv.run = count_conv;
        atomic_store(&device->conv, &counting_conv);
    }
    attention = atomic_load(&device->attention);
    if (attention) {
        counting_attention = *attention;
        counting_attention.run = count_attention;
        atomic_store(&device->attention, &counting_attention);
    }
}

void vendor_leave(void)
{
    watched->plugin = plugin;
    atomic_store(&watched->conv, conv);
    atomic_store(&watched->attention, attention);
}
