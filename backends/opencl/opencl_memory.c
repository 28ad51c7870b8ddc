/* opencl_memory.c: allocates buffers and copies between host and device and
 * between buffers. */
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

/* Makes the driver allocate a buffer's memory now. Otherwise drivers allocate
 * it at the first use, and a lack of memory would be reported as the failure of
 * a launch. Migrating the buffer to the device, with undefined content,
 * allocates its memory. */
static cl_int make_resident(tn_plugin_device *device, cl_mem memory)
{
    cl_int error = cl.EnqueueMigrateMemObjects(
        device->queue, 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
        NULL, NULL);
    return error ? error : cl.Finish(device->queue);
}

tn_status tn__opencl_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                                  tn_buffer **out)
{
    cl_int error = CL_INVALID_BUFFER_SIZE;
    tn_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a buffer");
    if (bytes <= device->max_buffer_bytes)
        buffer->memory = cl.CreateBuffer(device->context, CL_MEM_READ_WRITE,
                                         bytes ? (size_t)bytes : 1, NULL,
                                         &error);
    if (!error && !(error = make_resident(device, buffer->memory))) {
        *out = buffer;
        return TN_OK;
    }
    tn__opencl_buffer_free(device, buffer);
    return tn__host->fail(TN_ERR_MEMORY,
                          "out of memory for a buffer of %llu bytes: %s; the "
                          "limit for a buffer is %llu",
                          (unsigned long long)bytes,
                          tn__opencl_error_name(error),
                          (unsigned long long)device->max_buffer_bytes);
}

void tn__opencl_buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    if (buffer && buffer->memory)
        cl.ReleaseMemObject(buffer->memory);
    free(buffer);
}

static int copy_flat(tn_queue *queue, const tn_copy_args *c, void *host,
                     uint64_t dst, uint64_t src, uint64_t bytes)
{
    const cl_command_queue q = queue->queue;
    switch (c->direction) {
    case TN_COPY_TO_DEVICE:
        return cl.EnqueueWriteBuffer(q, c->dst->memory, CL_FALSE, (size_t)dst,
                                     (size_t)bytes, host, 0, NULL, NULL);
    case TN_COPY_TO_HOST:
        return cl.EnqueueReadBuffer(q, c->src->memory, CL_FALSE, (size_t)src,
                                    (size_t)bytes, host, 0, NULL, NULL);
    default:
        return cl.EnqueueCopyBuffer(q, c->src->memory, c->dst->memory,
                                    (size_t)src, (size_t)dst, (size_t)bytes, 0,
                                    NULL, NULL);
    }
}

/* Returns whether OpenCL's rectangular copy can be used. The rows must not
 * overlap. The copy must not be within one buffer, because OpenCL then requires
 * the same pitch for source and destination. */
static bool is_rectangle(const tn_copy_args *c)
{
    return c->dst_pitch >= c->bytes && c->src_pitch >= c->bytes &&
           (c->direction != TN_COPY_ON_DEVICE ||
            c->dst->memory != c->src->memory);
}

static cl_int copy_rectangle(cl_command_queue q, const tn_copy_args *c)
{
    const size_t dst[3] = {(size_t)c->dst_offset, 0, 0};
    const size_t src[3] = {(size_t)c->src_offset, 0, 0};
    const size_t region[3] = {(size_t)c->bytes, (size_t)c->rows, 1};
    const size_t none[3] = {0, 0, 0};
    switch (c->direction) {
    case TN_COPY_TO_DEVICE:
        return cl.EnqueueWriteBufferRect(
            q, c->dst->memory, CL_FALSE, dst, none, region,
            (size_t)c->dst_pitch, 0, (size_t)c->src_pitch, 0, c->host, 0, NULL,
            NULL);
    case TN_COPY_TO_HOST:
        return cl.EnqueueReadBufferRect(
            q, c->src->memory, CL_FALSE, src, none, region,
            (size_t)c->src_pitch, 0, (size_t)c->dst_pitch, 0, c->host, 0, NULL,
            NULL);
    default:
        return cl.EnqueueCopyBufferRect(q, c->src->memory, c->dst->memory, src,
                                        dst, region, (size_t)c->src_pitch, 0,
                                        (size_t)c->dst_pitch, 0, 0, NULL,
                                        NULL);
    }
}

tn_status tn__opencl_copy(tn_queue *queue, const tn_copy_args *c)
{
    cl_int error;
    if (!tn_copy_is_known(c))
        return tn__refuse_unknown("copy");
    if (!c->bytes || !c->rows)
        return TN_OK;
    if (tn__copy_is_flat(c))
        error = copy_flat(queue, c, c->host, c->dst_offset, c->src_offset,
                          c->rows * c->bytes);
    else if (is_rectangle(c))
        error = copy_rectangle(queue->queue, c);
    else
        error = tn__copy_rows(queue, c, copy_flat);
    if (error)
        return tn__opencl_fail(queue->device, "a copy", error);
    return tn__opencl_queue_submitted(queue, c->tag);
}
