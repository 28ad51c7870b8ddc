/* norms.c: vector norms: a row for each order that needs less than powers. */
#include <math.h>
#include <ops/native.h>

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
