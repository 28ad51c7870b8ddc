/* copies.c: copies memory from and to the host, within a device, and between
 * devices. */
#include <device/recorder.h>
#include <device/registry.h>

#include <base/context.h>
#include <base/memory.h>
#include <base/platform.h>

#include <string.h>

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes)
{
    if (TN__UNLIKELY(tn__me.recording != NULL) &&
        tn__record_refuse_host(device, "copy to the device"))
        return TN_ERR_STATE;
    if (device->host_visible && device->synchronous) {
        if (bytes)
            memcpy((char *)dst->host + dst_offset, src, bytes);
        return TN_OK;
    }
    /* The field `host` is not const because it is also the destination of
     * copies to the host. A copy to the device only reads it. */
    tn_copy_args copy = {.direction = TN_COPY_TO_DEVICE,
                         .dst = dst->buffer,
                         .host = (void *)(uintptr_t)src,
                         .dst_offset = dst->offset + dst_offset,
                         .bytes = bytes};
    return tn__device_copy_now(device, &copy, "copy to the device");
}

tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes)
{
    if (TN__UNLIKELY(tn__me.recording != NULL) &&
        tn__record_refuse_host(device, "copy to the host"))
        return TN_ERR_STATE;
    if (device->host_visible && device->synchronous) {
        if (bytes)
            memcpy(dst, (const char *)src->host + src_offset, bytes);
        return TN_OK;
    }
    tn_copy_args copy = {.direction = TN_COPY_TO_HOST,
                         .src = src->buffer,
                         .host = dst,
                         .src_offset = src->offset + src_offset,
                         .bytes = bytes};
    return tn__device_copy_now(device, &copy, "copy to the host");
}

/* Copies between two devices through a buffer in host memory, 4 MiB at a
 * time. */
static tn_status copy_staged(tn_device *to, tn__block *dst, uint64_t dst_offset,
                             tn_device *from, tn__block *src,
                             uint64_t src_offset, uint64_t bytes)
{
    enum { PIECE = 4 << 20 };
    void *stage = tn__alloc(bytes < PIECE ? (size_t)bytes : PIECE);
    if (!stage)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (uint64_t done = 0; done < bytes && !status; done += PIECE) {
        uint64_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        status =
            tn__device_copy_out(from, stage, src, src_offset + done, piece);
        if (!status)
            status =
                tn__device_copy_in(to, dst, dst_offset + done, stage, piece);
    }
    tn__free(stage);
    return status;
}

/* Copies between two devices of one plugin with the plugin's copy function.
 * Waits for both devices: after this call returns, the source device may reuse
 * the memory of src. */
static tn_status copy_peer(tn_device *to, tn__block *dst, uint64_t dst_offset,
                           tn_device *from, tn__block *src,
                           uint64_t src_offset, uint64_t bytes)
{
    static const char what[] = "copy between devices";
    tn_copy_args copy = {.direction = TN_COPY_PEER,
                         .dst = dst->buffer,
                         .src = src->buffer,
                         .dst_offset = dst->offset + dst_offset,
                         .src_offset = src->offset + src_offset,
                         .bytes = bytes};
    tn_status status = tn__record_refuse_host(to, what);
    if (!status)
        status = tn__record_refuse_host(from, what);
    if (!status)
        status = tn_device_synchronize(from);
    if (!status)
        status = tn__device_copy_now(to, &copy, what);
    return status ? status : tn_device_synchronize(to);
}

tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src, uint64_t src_offset,
                          uint64_t bytes)
{
    if (to == from) {
        tn_copy_args copy = {.direction = TN_COPY_ON_DEVICE,
                             .dst = dst->buffer,
                             .src = src->buffer,
                             .dst_offset = dst->offset + dst_offset,
                             .src_offset = src->offset + src_offset,
                             .bytes = bytes};
        return tn__device_copy_again(to, &copy, "copy on the device");
    }
    if (to->plugin == from->plugin && to->info.caps & TN_CAP_PEER)
        return copy_peer(to, dst, dst_offset, from, src, src_offset, bytes);
    /* If one of the devices has memory that the host can access, the copy needs
     * no buffer in between. The host may access that memory only after the
     * device has finished its work. */
    if (from->host_visible) {
        tn_status status = tn_device_synchronize(from);
        return status
                   ? status
                   : tn__device_copy_in(to, dst, dst_offset,
                                        (char *)src->host + src_offset, bytes);
    }
    if (to->host_visible) {
        tn_status status = tn_device_synchronize(to);
        return status
                   ? status
                   : tn__device_copy_out(from, (char *)dst->host + dst_offset,
                                         src, src_offset, bytes);
    }
    return copy_staged(to, dst, dst_offset, from, src, src_offset, bytes);
}
