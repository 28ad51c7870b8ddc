/* to_device.c: transfers between devices (PyTorch's Tensor.to). Only these
 * operators have an output on another device than their input. */
#include <base/error.h>
#include <ops/table.h>
#include <tenon/ops.h>

tn_status tn__run_to(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TO_INPUT);
    tn_device *device = call->value[TN__ARG_TO_DEVICE].of.device;
    if (!device)
        return tn__fail(TN_ERR_ARGUMENT, "to: {device} is NULL");
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    tn_tensor *out = NULL;
    if (device == x->storage->device) {
        out = tn__tensor_alias(x);
    } else {
        /* A view is made contiguous by its own device before the transfer,
         * unless the host can access the memory of both devices. */
        const tn_tensor *src = x;
        if (!x->contiguous &&
            !(x->storage->device->host_visible && device->host_visible))
            src = tn_clone(x);
        if (src)
            out = tn__tensor_new(device, x->dtype, x->ndim, x->shape, "to");
        if (out)
            status = tn__tensor_transfer(out, src);
    }
    tn_scope_close(scope);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return status;
}

tn_tensor *tn_to(tn_tensor *x, tn_device *device)
{
    if (tn__tensor_is_live(x) && x->storage->device == device)
        return x;
    tn_value value[] = {tn__value_tensor(x), tn__value_device(device)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_TO], value, 2);
}
