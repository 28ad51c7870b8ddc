/* norms.c: vector norms (PyTorch's linalg.vector_norm and weight_norm). There
 * is a separate operator for each order whose norm needs no powers, for example
 * 1, 2 or infinity. */
#include <math.h>
#include <ops/engine/native.h>

static int row_of(double order)
{
    return order == 2           ? TN__OP_ID_NORM_EUCLID
           : order == 1         ? TN__OP_ID_NORM_SUM
           : order == 0         ? TN__OP_ID_NORM_COUNT
           : order == INFINITY  ? TN__OP_ID_NORM_GREATEST
           : order == -INFINITY ? TN__OP_ID_NORM_LEAST
                                : TN__OP_ID_NORM_POWER;
}

static tn_tensor *norm(tn_tensor *x, double order, tn_value dim,
                       tn_value keepdim)
{
    int row = row_of(order);
    const tn_value value[] = {tn__value_tensor(x), tn__value_float(order), dim,
                              keepdim};
    const tn_value short_value[] = {value[0], dim, keepdim};
    if (!x)
        return NULL;
    return row == TN__OP_ID_NORM_POWER ? tn__row(row, value, 4)
                                       : tn__row(row, short_value, 3);
}

tn_status tn__run_vector_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_VECTOR_NORM_INPUT);
    if (tn__call_has(call, TN__ARG_VECTOR_NORM_DTYPE))
        x = tn_to_dtype(
            x, (tn_dtype)tn__call_int(call, TN__ARG_VECTOR_NORM_DTYPE));
    return tn__give(call, norm(x, tn__call_float(call, TN__ARG_VECTOR_NORM_ORD),
                               call->value[TN__ARG_VECTOR_NORM_DIM],
                               call->value[TN__ARG_VECTOR_NORM_KEEPDIM]));
}

tn_status tn__run_dist(tn__call *call)
{
    tn_tensor *d = tn_sub(tn__call_tensor(call, TN__ARG_DIST_INPUT),
                          tn__call_tensor(call, TN__ARG_DIST_OTHER));
    return tn__give(call, norm(d, tn__call_float(call, TN__ARG_DIST_P),
                               tn__value_none(), tn__value_bool(false)));
}

/* Computes weight normalisation (arXiv:1602.07868): v is scaled so that the
 * norm of each slice along dim is the element of g. A dim of -1 means one norm
 * for all elements. */
tn_status tn__run_weight_norm(tn__call *call)
{
    tn_tensor *v = tn__call_tensor(call, TN__ARG_WEIGHT_NORM_V);
    tn_tensor *g = tn__call_tensor(call, TN__ARG_WEIGHT_NORM_G);
    int64_t keep = tn__call_int(call, TN__ARG_WEIGHT_NORM_DIM);
    int dim = keep == -1 ? -1
                         : tn__call_dim(call, TN__ARG_WEIGHT_NORM_DIM, v->ndim);
    if (dim < 0 && keep != -1)
        return TN_ERR_ARGUMENT;
    tn_dims_list dims = {0, {0}};
    for (int d = 0; d < v->ndim; d++)
        if (d != dim)
            dims.dim[dims.count++] = d;
    bool slices = dims.count > 0; /* if false, each element is a slice */
    tn_tensor *size = slices ? norm(v, 2, tn__value_dims(&dims),
                                    tn__value_bool(true))
                             : tn_abs(v);
    return tn__give(call, tn_mul(v, tn_div(g, size)));
}
