/* fake.h: a fake device that computes nothing, for tests of the loader, the
 * allocator and launches. The bad plugins of this folder change its function
 * table.
 *
 * Options (TENON_FAKE_<KEY>, or after the device's name): `devices`, the number
 * of devices; `async`: failures are reported by a later sync; `hidden`: the
 * host cannot map device memory; `events`: the device has events; `memory`,
 * total bytes; `kind`, the kind of its devices as a number; `storage` and
 * `registers`, its dtypes as bit masks.
 *
 * The first parameter of a launch determines its result: 0 success, 1 an index
 * fault, 2 a failure with a reason, 3 one without. A program of 99 instructions
 * cannot be built. */
#ifndef TN_TESTS_FAKE_H
#define TN_TESTS_FAKE_H

#include <tenon/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn_plugin_device {
    uint64_t room;
};
struct tn_buffer {
    void *memory;
    uint64_t bytes;
};
struct tn_queue {
    int async;
    tn_fault fault;
};
struct tn_built {
    int nothing;
};
struct tn_event {
    int nothing;
};

static const tn_host *host;
static struct tn_plugin_device fake_device;

static uint64_t number(const char *key, uint64_t otherwise)
{
    const char *text = host->option(key);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static tn_status fake_count(uint32_t *count)
{
    *count = (uint32_t)number("devices", 1);
    if (!*count)
        host->fail(TN_ERR_NO_DEVICE, "the fake is switched off");
    return TN_OK;
}

static tn_status fake_info(uint32_t i, tn_device_info *info)
{
    info->kind = (uint32_t)number("kind", TN_KIND_SIMULATED);
    info->caps = (number("async", 0) ? TN_CAP_ASYNC : 0) |
                 (number("hidden", 0) ? 0 : TN_CAP_HOST_VISIBLE);
    info->align = (uint32_t)number("align", 64);
    info->register_types = (uint32_t)number(
        "registers", 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                         1u << TN_I64 | 1u << TN_BOOL);
    info->storage_types =
        (uint32_t)number("storage", (1u << TN_DTYPE_END) - 2);
    info->memory_total = number("memory", 0);
    info->memory_free = fake_device.room;
    strcpy(info->name, "a device that computes nothing");
    snprintf(info->uid, sizeof info->uid, "Slot 7:%u", i);
    strcpy(info->note, "computes nothing");
    return TN_OK;
}

static tn_status fake_open(uint32_t i, tn_plugin_device **device)
{
    (void)i;
    if (number("broken", 0))
        return host->fail(TN_ERR_NO_DEVICE, "the fake is broken");
    fake_device.room = number("memory", UINT64_MAX);
    *device = &fake_device;
    return TN_OK;
}

static void fake_close(tn_plugin_device *device)
{
    (void)device;
}

static tn_status fake_alloc(tn_plugin_device *device, uint64_t bytes,
                            tn_buffer **buffer)
{
    if (bytes > device->room)
        return host->fail(TN_ERR_MEMORY, "the fake has no more");
    tn_buffer *b = malloc(sizeof *b);
    void *memory = aligned_alloc(4096, (size_t)(bytes + 4095) / 4096 * 4096);
    if (!b || !memory) {
        free(b);
        free(memory);
        return host->fail(TN_ERR_MEMORY, "malloc has no more");
    }
    device->room -= bytes;
    b->memory = memory;
    b->bytes = bytes;
    *buffer = b;
    return TN_OK;
}

static void fake_free(tn_plugin_device *device, tn_buffer *buffer)
{
    device->room += buffer->bytes;
    free(buffer->memory);
    free(buffer);
}

static tn_status fake_queue(tn_plugin_device *device, tn_queue **queue)
{
    (void)device;
    *queue = calloc(1, sizeof **queue);
    if (!*queue)
        return host->fail(TN_ERR_MEMORY, "malloc has no more");
    (*queue)->async = number("async", 0) != 0;
    return TN_OK;
}

static void fake_queue_close(tn_queue *queue)
{
    free(queue);
}

static tn_status fake_sync(tn_queue *queue, tn_fault *fault)
{
    tn_status code = queue->fault.code;
    if (!code)
        return TN_OK;
    tn_struct_copy(fault, &queue->fault);
    memset(&queue->fault, 0, sizeof queue->fault);
    return code == TN_ERR_INDEX ? code
                                : host->fail(code, "the fake gave up");
}

static tn_status fake_copy(tn_queue *queue, const tn_copy_args *c)
{
    (void)queue;
    char *dst = c->direction == TN_COPY_TO_HOST
                    ? c->host
                    : (char *)c->dst->memory + c->dst_offset;
    char *src = c->direction == TN_COPY_TO_DEVICE
                    ? c->host
                    : (char *)c->src->memory + c->src_offset;
    memcpy(dst, src, (size_t)c->bytes);
    return TN_OK;
}

static tn_status fake_build(tn_plugin_device *device,
                            const tn_program *program, tn_built **built)
{
    (void)device;
    if (program->ins_count == 99)
        return host->fail(TN_ERR_BUILD, "99 instructions are too many");
    *built = malloc(sizeof **built);
    return *built ? TN_OK : host->fail(TN_ERR_MEMORY, "malloc has no more");
}

static void fake_built_free(tn_plugin_device *device, tn_built *built)
{
    (void)device;
    free(built);
}

static tn_status fake_launch(tn_queue *queue, tn_built *built,
                             const tn_launch *launch)
{
    (void)built;
    tn_fault fault = {sizeof fault, 0, launch->tag, 0, 1, -7, 5, 42};
    switch (launch->param[0].i) {
    case 0:
        return TN_OK;
    case 1:
        fault.code = TN_ERR_INDEX;
        break;
    case 2:
        fault.code = TN_ERR_DEVICE_LOST;
        break;
    default:
        return TN_ERR_INTERNAL;
    }
    if (queue->async || fault.code == TN_ERR_INDEX)
        if (!queue->fault.code)
            queue->fault = fault;
    if (queue->async)
        return TN_OK;
    return host->fail(fault.code, "the fake gave up");
}

static tn_status fake_matmul(tn_queue *queue, const tn_matmul_args *m)
{
    (void)queue;
    (void)m;
    return host->fail(TN_ERR_UNSUPPORTED, "the fake has no matmul");
}

static tn_status fake_scatter(tn_queue *queue, const tn_scatter_args *s)
{
    (void)queue;
    (void)s;
    return host->fail(TN_ERR_UNSUPPORTED, "the fake has no scatter");
}

static tn_status fake_scan(tn_queue *queue, const tn_scan_args *s)
{
    (void)queue;
    (void)s;
    return TN_OK;
}

static tn_status fake_sort(tn_queue *queue, const tn_sort_args *s)
{
    (void)queue;
    (void)s;
    return TN_ERR_UNSUPPORTED;
}

static tn_status fake_map(tn_plugin_device *device, tn_buffer *buffer,
                          void **pointer)
{
    (void)device;
    *pointer = buffer->memory;
    return TN_OK;
}

/* ---- events: all work is done when it is submitted ----------------------- */

static tn_status fake_event_open(tn_plugin_device *device, tn_event **event)
{
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? TN_OK : host->fail(TN_ERR_MEMORY, "malloc has no more");
}

static void fake_event_close(tn_event *event)
{
    free(event);
}

static tn_status fake_event_use(tn_queue *queue, tn_event *event)
{
    (void)queue;
    (void)event;
    return TN_OK;
}

static tn_status fake_event_query(tn_event *event, uint32_t *done)
{
    (void)event;
    *done = 1;
    return TN_OK;
}

/* Returns the complete function table, which a bad plugin may change. */
static tn_plugin *fake_table(const tn_host *h, const char *name)
{
    static tn_plugin table = {
        .size = sizeof table,
        .abi_major = TN_ABI_MAJOR,
        .abi_minor = TN_ABI_MINOR,
        .version = "1",
        .device_count = fake_count,
        .device_info = fake_info,
        .device_open = fake_open,
        .device_close = fake_close,
        .buffer_alloc = fake_alloc,
        .buffer_free = fake_free,
        .queue_open = fake_queue,
        .queue_close = fake_queue_close,
        .queue_sync = fake_sync,
        .copy = fake_copy,
        .program_build = fake_build,
        .program_free = fake_built_free,
        .launch = fake_launch,
        .matmul = fake_matmul,
        .scatter = fake_scatter,
        .scan = fake_scan,
        .sort = fake_sort,
        .buffer_map = fake_map,
    };
    host = h;
    if (TN_HAS(tn_host, h, option) && number("events", 0)) {
        table.event_open = fake_event_open;
        table.event_close = fake_event_close;
        table.event_record = table.queue_wait = fake_event_use;
        table.event_query = fake_event_query;
    }
    table.name = name;
    return &table;
}

#endif
