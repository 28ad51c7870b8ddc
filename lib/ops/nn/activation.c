/* activation.c: activation functions composed of other operators (prelu, glu
 * and others). */
#include <ops/engine/native.h>

tn_status tn__run_prelu(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PRELU_INPUT);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_PRELU_WEIGHT);
    int64_t channels = x->ndim > 1 ? x->shape[1] : 1;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (weight->ndim > 1 || (weight->numel != 1 && weight->numel != channels))
        return tn__fail(TN_ERR_SHAPE, "prelu: {weight} has shape %s; expected "
                        "one number, or one for each of the %lld channels "
                        "(dim 1) of {input} %s",
                        tn__shape_text(a, weight->ndim, weight->shape),
                        (long long)channels,
                        tn__shape_text(b, x->ndim, x->shape));
    tn_dims_list shape = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = d == 1 ? weight->numel : 1;
    tn_value value[] = {tn__value_tensor(x),
                        tn__value_tensor(x->ndim == 1 && weight->numel > 1
                                             ? weight
                                             : tn_reshape(weight, shape))};
    return tn__give(call, tn__row(TN__OP_ID_PRELU_SLOPE, value, 2));
}

tn_status tn__run_glu(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_GLU_INPUT);
    char text[TN__SHAPE_TEXT];
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "glu: {input} has no dimensions; "
                        "expected at least one");
    int dim = tn__call_dim(call, TN__ARG_GLU_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t half = x->shape[dim] / 2;
    if (x->shape[dim] % 2)
        return tn__fail(TN_ERR_SHAPE, "glu: {dim} %d of {input} %s has an odd "
                        "size; expected an even one", dim,
                        tn__shape_text(text, x->ndim, x->shape));
    tn_tensor *first = tn_narrow(x, dim, 0, half);
    tn_tensor *second = tn_narrow(x, dim, half, half);
    if (!first || !second)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(first),
                              tn__value_tensor(second)};
    return tn__give(call, tn__row(TN__OP_ID_GATED, value, 2));
}

tn_status tn__run_softmin(tn__call *call)
{
    tn_value value[] = {
        tn__value_tensor(tn_neg(tn__call_tensor(call,
                                                TN__ARG_SOFTMIN_INPUT))),
        call->value[TN__ARG_SOFTMIN_DIM], call->value[TN__ARG_SOFTMIN_DTYPE]};
    return tn__give(call, tn__row(TN__OP_ID_SOFTMAX, value, 3));
}
