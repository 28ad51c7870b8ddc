/* cpu_device.c: the single CPU device, its memory and its queue. Every call is
 * complete when it returns, so a queue never holds work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu_device.h"

/* For buffers of at least this size, huge pages are requested from the system.
 * Writing to 64 MiB of fresh memory takes 18 ms with pages of 4 KiB and 3 ms
 * with pages of 2 MiB. */
#define HUGE_BYTES (2u << 20)

/* Results of at least this many bytes are written by non-temporal stores. An
 * ordinary store reads each cache line before it overwrites it, and a large
 * result evicts everything else from the caches. An addition of 64 MiB takes
 * 4.4 ms with ordinary and 3.2 ms with non-temporal stores, one of 16 MiB 0.40
 * ms with ordinary and 0.78 ms with non-temporal stores (Zen 4, 32 MiB of L3, 1
 * thread, 2026-11). The size is a constant, because the cache size that the
 * system reports is unreliable: virtual machines often report a cache that many
 * of them share. */
#define STREAM_BYTES (24 << 20)

tn_status tn__cpu_device_count(uint32_t *count)
{
    *count = 1;
    return TN_OK;
}

/* Writes the processor's name to `name`, or "CPU" if the system does not report
 * the name. */
static void processor_name(char *name, size_t room)
{
    char line[256];
    snprintf(name, room, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[1 + strcspn(colon + 1, "\n")] = 0;
        snprintf(name, room, "%.40s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

tn_status tn__cpu_device_info(uint32_t i, tn_device_info *info)
{
    if (i != 0)
        return tn__cpu_host->fail(TN_ERR_ARGUMENT,
                                  "cpu: device %u does not exist: 0 is the "
                                  "only one",
                                  i);
    char name[64];
    tn_device_info full = {
        .size = sizeof full,
        .kind = TN_KIND_CPU,
        .caps = TN_CAP_HOST_VISIBLE | TN_CAP_BIT_EXACT,
        .align = TN_CPU_ALIGN,
        .register_types = 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                          1u << TN_I64 | 1u << TN_BOOL,
        .uid = "cpu",
    };
    for (tn_dtype d = TN_F32; d < TN_DTYPE_END; d++)
        full.storage_types |= 1u << d;
    long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    long free_pages = sysconf(_SC_AVPHYS_PAGES);
    if (page > 0 && pages > 0)
        full.memory_total = (uint64_t)pages * (uint64_t)page;
    if (page > 0 && free_pages > 0)
        full.memory_free = (uint64_t)free_pages * (uint64_t)page;
    processor_name(name, sizeof name);
    const tn_cpu_routines *routines =
        tn__cpu_routines_for(tn__cpu_host->option("isa"));
    snprintf(full.name, sizeof full.name, "%.44s, %s", name,
             routines ? routines->isa : "unusable");
    if (!routines)
        snprintf(full.note, sizeof full.note,
                 "the requested instruction set is not available");
    tn_struct_copy(info, &full);
    return TN_OK;
}

tn_status tn__cpu_device_open(uint32_t i, tn_plugin_device **device)
{
    if (i != 0)
        return tn__cpu_host->fail(TN_ERR_ARGUMENT,
                                  "cpu: device %u does not exist: 0 is the "
                                  "only one",
                                  i);
    const tn_cpu_routines *routines =
        tn__cpu_routines_for(tn__cpu_host->option("isa"));
    if (!routines)
        return TN_ERR_NO_DEVICE;
    const char *winograd = tn__cpu_host->option("winograd");
    if (winograd && strcmp(winograd, "0") != 0 && strcmp(winograd, "1") != 0)
        return tn__cpu_host->fail(TN_ERR_ARGUMENT,
                                  "cpu: winograd=%s is invalid: use 0 (never) "
                                  "or 1 (always)",
                                  winograd);
    tn_plugin_device *opened = calloc(1, sizeof *opened);
    if (!opened)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "cpu: out of memory");
    opened->routines = routines;
    const char *stream = tn__cpu_host->option("stream");
    opened->stream_bytes = stream ? strtoll(stream, NULL, 0) : STREAM_BYTES;
    if (!routines->stream)
        opened->stream_bytes = INT64_MAX;
    opened->conv = !winograd            ? CONV_BY_COST
                   : winograd[0] == '1' ? CONV_WINOGRAD
                                        : CONV_DIRECT;
    *device = opened;
    return TN_OK;
}

void tn__cpu_device_close(tn_plugin_device *device)
{
    free(device);
}

/* ---- memory -------------------------------------------------------------- */

void *tn__cpu_pages(uint64_t bytes)
{
    const size_t align = bytes >= HUGE_BYTES ? HUGE_BYTES : TN_CPU_ALIGN;
    if (bytes > SIZE_MAX - align)
        return NULL;
    const size_t room = ((size_t)bytes + align) & ~(align - 1);
    void *memory = aligned_alloc(align, room);
#ifdef MADV_HUGEPAGE
    if (memory && align == HUGE_BYTES)
        madvise(memory, room, MADV_HUGEPAGE);
#endif
    return memory;
}

tn_status tn__cpu_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                               tn_buffer **buffer)
{
    (void)device;
    tn_buffer *made = calloc(1, sizeof *made);
    if (made) {
        made->memory = tn__cpu_pages(bytes);
        made->bytes = bytes;
    }
    if (!made || !made->memory) {
        free(made);
        return tn__cpu_host->fail(
            TN_ERR_MEMORY, "cpu: out of memory for a buffer of %llu bytes",
            (unsigned long long)bytes);
    }
    *buffer = made;
    return TN_OK;
}

void tn__cpu_buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    if (buffer && !buffer->wrapped)
        free(buffer->memory);
    free(buffer);
}

tn_status tn__cpu_buffer_wrap(tn_plugin_device *device, void *host,
                              uint64_t bytes, tn_buffer **buffer)
{
    (void)device;
    tn_buffer *made = calloc(1, sizeof *made);
    if (!made)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "cpu: out of memory");
    made->memory = host;
    made->bytes = bytes;
    made->wrapped = true;
    *buffer = made;
    return TN_OK;
}

tn_status tn__cpu_buffer_map(tn_plugin_device *device, tn_buffer *buffer,
                             void **pointer)
{
    (void)device;
    *pointer = buffer->memory;
    return TN_OK;
}

/* ---- queues -------------------------------------------------------------- */

tn_status tn__cpu_queue_open(tn_plugin_device *device, tn_queue **queue)
{
    tn_queue *opened = calloc(1, sizeof *opened);
    if (!opened)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "cpu: out of memory");
    opened->routines = device->routines;
    opened->stream_bytes = device->stream_bytes;
    opened->conv = device->conv;
    *queue = opened;
    return TN_OK;
}

void tn__cpu_queue_close(tn_queue *queue)
{
    free(queue);
}

tn_status tn__cpu_queue_sync(tn_queue *queue, tn_fault *fault)
{
    (void)queue;
    return tn__cpu_fault_take(fault);
}

#define COPY_TASK_BYTES (4u << 20)

typedef struct copy_work {
    char *dst;
    const char *src;
    uint64_t bytes;
} copy_work;

static void copy_part(void *context, int64_t i)
{
    const copy_work *work = context;
    uint64_t first = (uint64_t)i * COPY_TASK_BYTES;
    uint64_t bytes = work->bytes - first;
    memcpy(work->dst + first, work->src + first,
           bytes < COPY_TASK_BYTES ? bytes : COPY_TASK_BYTES);
}

tn_status tn__cpu_unknown(const char *call)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED,
                              "%s: unknown kind or flag; libtenon and the "
                              "plugin must have the same version",
                              call);
}

tn_status tn__cpu_copy(tn_queue *queue, const tn_copy_args *copy)
{
    (void)queue;
    if (!tn_copy_is_known(copy))
        return tn__cpu_unknown("copy");
    bool to_device = copy->direction == TN_COPY_TO_DEVICE;
    bool to_host = copy->direction == TN_COPY_TO_HOST;
    char *dst = to_host ? copy->host : copy->dst->memory;
    const char *src = to_device ? copy->host : copy->src->memory;
    dst += copy->dst_offset;
    src += copy->src_offset;
    if (copy->rows == 1 && copy->bytes > COPY_TASK_BYTES &&
        (dst + copy->bytes <= src || src + copy->bytes <= dst)) {
        copy_work work = {dst, src, copy->bytes};
        tn__cpu_host->parallel_for(
            (int64_t)((copy->bytes + COPY_TASK_BYTES - 1) / COPY_TASK_BYTES),
            copy_part, &work);
        return TN_OK;
    }
    for (uint64_t r = 0; r < copy->rows && copy->bytes > 0; r++)
        memmove(dst + r * copy->dst_pitch, src + r * copy->src_pitch,
                copy->bytes);
    return TN_OK;
}
