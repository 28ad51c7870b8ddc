/* set_data.c: tn_tensor_set_data, which replaces the memory of a leaf tensor,
 * like assigning to x.data in PyTorch. The tensor stays the same object, so an
 * optimizer keeps working after a model has moved to another device. */
#include <base/error.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tensor/tensor.h>

/* Copies storage, offset, shape, strides and dtype. */
static void take_view(tn_tensor *to, const tn_tensor *from)
{
    to->storage = from->storage;
    to->offset = from->offset;
    to->numel = from->numel;
    to->dtype = from->dtype;
    to->ndim = from->ndim;
    to->contiguous = from->contiguous;
    memcpy(to->shape, from->shape, sizeof to->shape);
    memcpy(to->stride, from->stride, sizeof to->stride);
}

tn_status tn_tensor_set_data(tn_tensor *x, tn_tensor *data)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__tensor_check(x, "set_data", "x") ||
        !tn__tensor_check(data, "set_data", "data"))
        return tn_error_code();
    if (!tn_tensor_is_leaf(x))
        return tn__fail(TN_ERR_STATE,
                        "set_data: {x} was made by an operator; only leaves "
                        "can get other data");
    tn_tensor *view = tn__tensor_alias(data);
    if (!view)
        return TN_ERR_MEMORY;
    if (tn_tensor_grad(x))
        tn_tensor_set_grad(x, NULL);
    tn__storage *old = x->storage;
    take_view(x, view);
    view->storage = old; /* `view` now owns the old storage and releases it */
    x->storage->has_leaf |= x->requires_grad;
    tn__unref(view);
    return TN_OK;
}
