/* cuda_memory.c: allocates buffers, and copies between host and device and
 * between buffers. Buffers are allocated by cuMemAlloc, which is fast enough,
 * because the core allocates slabs of megabytes and divides them itself. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

tn_status tn__cuda_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                                tn_buffer **out)
{
    size_t left = 0, total = 0;
    tn_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a buffer");
    buffer->device = device;
    TN_CUDA_ENTER(device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.alloc(&buffer->pointer, bytes ? (size_t)bytes : 1);
    if (!error) {
        buffer->bytes = bytes;
        *out = buffer;
        return TN_OK;
    }
    free(buffer);
    if (error == TN_CU_OUT_OF_MEMORY)
        atomic_store(&device->short_of_memory, true);
    if (error != TN_CU_OUT_OF_MEMORY ||
        tn__cu.memory_info(&left, &total))
        return tn__cuda_check(device, "cuMemAlloc", error);
    return tn__host->fail(
        TN_ERR_MEMORY,
        "%s: out of memory for a buffer of %llu bytes: %zu of %zu are free",
        device->listed->info.name, (unsigned long long)bytes, left, total);
}

/* Frees a buffer. cuMemFree first waits for all work that may use its
 * memory. */
void tn__cuda_buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    TN_CUDA_ENTER(device);
    if (buffer && !entered.error)
        tn__cu.free(buffer->pointer);
    free(buffer);
}

/* Allocates page-locked host memory, which the driver can copy
 * asynchronously. */
tn_status tn__cuda_host_alloc(tn_plugin_device *device, uint64_t bytes,
                              void **memory)
{
    TN_CUDA_ENTER(device);
    tn_cu_result error = entered.error;
    if (!error)
        error = tn__cu.host_alloc(memory, bytes ? (size_t)bytes : 1, 0);
    return tn__cuda_check(device, "cuMemHostAlloc", error);
}

void tn__cuda_host_free(tn_plugin_device *device, void *memory)
{
    TN_CUDA_ENTER(device);
    if (!entered.error)
        tn__cu.host_free(memory);
}

/* Copies from another device. The first copy enables peer access. If the
 * devices do not support peer access, the driver copies through the host. */
static tn_cu_result copy_peer(tn_plugin_device *device, tn_cu_stream stream,
                              const tn_copy_args *c, uint64_t dst,
                              uint64_t src, uint64_t bytes)
{
    const tn_plugin_device *peer = c->src->device;
    const uint64_t bit = 1ull << (peer->listed->device & 63);
    if (!(atomic_fetch_or(&device->peers, bit) & bit))
        tn__cu.peer_enable(peer->context, 0);
    return tn__cu.from_peer(c->dst->pointer + dst, device->context,
                            c->src->pointer + src, peer->context,
                            (size_t)bytes, stream);
}

static int copy_flat(tn_queue *queue, const tn_copy_args *c, void *host,
                     uint64_t dst, uint64_t src, uint64_t bytes)
{
    const tn_cu_stream stream = queue->stream;
    switch (c->direction) {
    case TN_COPY_TO_DEVICE:
        return tn__cu.to_device(c->dst->pointer + dst, host, (size_t)bytes,
                                stream);
    case TN_COPY_PEER:
        return copy_peer(queue->device, stream, c, dst, src, bytes);
    case TN_COPY_TO_HOST:
        return tn__cu.to_host(host, c->src->pointer + src, (size_t)bytes,
                              stream);
    default:
        return tn__cu.on_device(c->dst->pointer + dst, c->src->pointer + src,
                                (size_t)bytes, stream);
    }
}

/* Returns whether cuMemcpy2D can do the copy: rows do not overlap, and the
 * distances between rows are within the hardware's limit. */
static bool is_rectangle(const tn_copy_args *c)
{
    return c->dst_pitch >= c->bytes && c->src_pitch >= c->bytes &&
           c->dst_pitch < 1u << 30 && c->src_pitch < 1u << 30;
}

static tn_cu_result copy_rectangle(tn_cu_stream stream, const tn_copy_args *c)
{
    bool from_host = c->direction == TN_COPY_TO_DEVICE;
    bool to_host = c->direction == TN_COPY_TO_HOST;
    const tn_cu_rectangle r = {
        .src_type = from_host ? TN_CU_HOST : TN_CU_DEVICE,
        .src_host = from_host ? c->host : NULL,
        .src_device = from_host ? 0 : c->src->pointer + c->src_offset,
        .src_pitch = (size_t)c->src_pitch,
        .dst_type = to_host ? TN_CU_HOST : TN_CU_DEVICE,
        .dst_host = to_host ? c->host : NULL,
        .dst_device = to_host ? 0 : c->dst->pointer + c->dst_offset,
        .dst_pitch = (size_t)c->dst_pitch,
        .width = (size_t)c->bytes,
        .height = (size_t)c->rows,
    };
    return tn__cu.copy_rectangle(&r, stream);
}

tn_status tn__cuda_copy(tn_queue *queue, const tn_copy_args *c)
{
    if (!tn_copy_is_known(c))
        return tn__refuse_unknown("copy");
    if (!c->bytes || !c->rows)
        return TN_OK;
    TN_CUDA_ENTER(queue->device);
    tn_cu_result error = entered.error;
    if (!error && tn__copy_is_flat(c))
        error = copy_flat(queue, c, c->host, c->dst_offset, c->src_offset,
                          c->rows * c->bytes);
    else if (!error && c->direction != TN_COPY_PEER && is_rectangle(c))
        error = copy_rectangle(queue->stream, c);
    else if (!error)
        error = tn__copy_rows(queue, c, copy_flat);
    if (error)
        return tn__cuda_check(queue->device, "a copy", error);
    return tn__cuda_queue_submitted(queue, c->tag);
}
