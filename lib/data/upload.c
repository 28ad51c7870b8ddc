/* upload.c: copies batches to a device while it computes. The copies go through
 * page-locked host memory and a second queue of the device, so that the next
 * batch arrives while the device works on the current one.
 *
 * Each batch uses a slot of a ring: host memory, tensors on the device, and two
 * events. When the batch is taken, the device's main queue waits for the event
 * `arrived`, which follows the copies. The event `released` follows all work on
 * the batch, and the copies of the slot's next batch wait for it. A slot is
 * reused no earlier than two batches after its batch was taken. By then that
 * batch has been released. Tensors that the program still holds are not reused.
 */
#include <data/upload.h>

#include <base/error.h>
#include <base/memory.h>
#include <device/transfer.h>
#include <string.h>
#include <tenon/ops.h>
#include <tensor/tensor.h>

typedef struct slot {
    tn_tensor *field[TN_MAX_FIELDS]; /* on the device; counted references */
    void *memory[TN_MAX_FIELDS];     /* owned; host memory */
    uint64_t room[TN_MAX_FIELDS];    /* size of memory[f] in bytes */
    tn_event *arrived, *released;    /* owned */
    bool used; /* a batch has been copied by way of this slot */
} slot;

struct tn__upload {
    tn_device *device;
    tn__transfer *transfer; /* owned; NULL if the device has no second queue */
    int64_t count;
    slot ring[];
};

tn__upload *tn__upload_new(tn_device *device, int64_t ahead)
{
    const int64_t count = ahead + 2;
    tn__upload *upload =
        tn__calloc(1, sizeof *upload + (size_t)count * sizeof *upload->ring);
    if (!upload)
        return NULL;
    upload->device = device;
    upload->count = count;
    upload->transfer = tn__transfer_open(device);
    for (int64_t i = 0; upload->transfer && i < count; i++) {
        slot *p = &upload->ring[i];
        p->arrived = tn__transfer_event(upload->transfer);
        p->released = p->arrived ? tn__transfer_event(upload->transfer) : NULL;
        if (!p->released) {
            tn__upload_free(upload);
            return NULL;
        }
    }
    return upload;
}

void tn__upload_free(tn__upload *upload)
{
    if (!upload)
        return;
    tn__transfer *transfer = upload->transfer;
    tn__error before;
    tn__error_hide(&before);
    if (transfer)
        tn__transfer_sync(transfer);
    tn_error_clear();
    tn__error_restore(&before);
    for (int64_t i = 0; transfer && i < upload->count; i++) {
        slot *p = &upload->ring[i];
        for (int f = 0; f < TN_MAX_FIELDS; f++) {
            tn__unref(p->field[f]);
            tn__transfer_memory_free(transfer, p->memory[f]);
        }
        tn__transfer_event_close(transfer, p->arrived);
        tn__transfer_event_close(transfer, p->released);
    }
    tn__transfer_close(transfer);
    tn__free(upload);
}

/* ---- sending ------------------------------------------------------------ */

/* Returns whether a field can be copied through the second queue. If not, tn_to
 * copies it. */
static bool can_transfer(const tn__upload *upload, const tn_tensor *x)
{
    return upload->transfer && x->storage->device->synchronous &&
           x->storage->device->host_visible && x->numel > 0;
}

/* Returns the slot's device tensor for a field, and makes its host memory large
 * enough. Sets *fresh if the tensor is new; then earlier work may still use its
 * memory. */
static tn_tensor *tensor_for(tn__upload *upload, slot *p, int f,
                             const tn_tensor *x, bool *fresh)
{
    const uint64_t bytes = (uint64_t)x->numel * tn_dtype_bytes(x->dtype);
    tn_tensor *target = p->field[f];
    if (target &&
        (atomic_load(&target->storage->references) != 1 ||
         target->dtype != x->dtype ||
         !tn__shape_equal(target->ndim, target->shape, x->ndim, x->shape))) {
        tn__unref(target);
        p->field[f] = target = NULL;
    }
    if (p->room[f] < bytes) {
        tn__transfer_memory_free(upload->transfer, p->memory[f]);
        p->room[f] = 0;
        p->memory[f] = tn__transfer_memory(upload->transfer, bytes);
        if (!p->memory[f])
            return NULL;
        p->room[f] = bytes;
    }
    if (!target) {
        *fresh = true;
        target = tn__tensor_new(upload->device, x->dtype, x->ndim, x->shape,
                                "loader");
        p->field[f] = target;
    }
    return target;
}

static int send_by_queue(tn__upload *upload, slot *p, tn_tensor **fields,
                         int count)
{
    tn__upload_copy copy[TN_MAX_FIELDS];
    bool fresh = !p->used;
    int copies = 0;
    /* An earlier copy may still read the slot's host memory. */
    if (p->used && tn__transfer_sync(upload->transfer) < 0)
        return tn_error_code();
    for (int f = 0; f < count; f++) {
        if (!can_transfer(upload, fields[f]))
            continue;
        tn_tensor *target = tensor_for(upload, p, f, fields[f], &fresh);
        const size_t bytes =
            (size_t)fields[f]->numel * tn_dtype_bytes(fields[f]->dtype);
        if (!target || tn_tensor_to_array(fields[f], p->memory[f], bytes) < 0)
            return tn_error_code();
        copy[copies++] = (tn__upload_copy){
            .block = target->storage->block,
            .offset = (uint64_t)target->offset * tn_dtype_bytes(target->dtype),
            .bytes = bytes,
            .memory = p->memory[f],
        };
        fields[f] = tn__scope_own(tn__tensor_alias(target));
        if (!fields[f])
            return tn_error_code();
    }
    if (fresh && tn__transfer_mark(upload->transfer, p->released) < 0)
        return tn_error_code();
    p->used = true;
    return tn__transfer_copy(upload->transfer, copy, copies, p->released,
                             p->arrived) < 0
               ? tn_error_code()
               : count;
}

int tn__upload_send(tn__upload *upload, int64_t k, tn_tensor **fields,
                    int count)
{
    if (count > 0 && upload->transfer)
        count = send_by_queue(upload, &upload->ring[k % upload->count], fields,
                              count);
    for (int f = 0; f < count; f++) {
        fields[f] = tn_to(fields[f], upload->device);
        if (!fields[f])
            return tn_error_code();
    }
    return count;
}

tn_status tn__upload_taken(tn__upload *upload, int64_t k)
{
    if (!upload->transfer)
        return TN_OK;
    slot *before = &upload->ring[(k + upload->count - 1) % upload->count];
    tn_status status = before->used ? tn__transfer_mark(upload->transfer,
                                                        before->released)
                                    : TN_OK;
    return status < 0 ? status
                      : tn__transfer_await(
                            upload->transfer,
                            upload->ring[k % upload->count].arrived);
}

tn_status tn__upload_restart(tn__upload *upload)
{
    tn_status status =
        upload->transfer ? tn__transfer_sync(upload->transfer) : TN_OK;
    for (int64_t i = 0; upload->transfer && i < upload->count && !status; i++)
        if (upload->ring[i].used)
            status = tn__transfer_mark(upload->transfer,
                                       upload->ring[i].released);
    return status;
}
