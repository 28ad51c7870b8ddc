/* gradients_recurrent.c: what recurrent layers are cut with. */
#include <autograd/autograd.h>
#include <base/memory.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* The cotangents of all parts side by side: zeros for those without one. */
TN__GRADIENT(apart)
{
    int dim = (int)tn__node_value(node, TN__ARG_APART_DIM)->of.i;
    int64_t size = tn__node_value(node, TN__ARG_APART_SIZE)->of.i;
    tn_dims_list shape = tn__node_shape(node, 0);
    int64_t whole = shape.dim[dim];
    int count = 0;
    tn_tensor *part[TN__OP_MAX_OUTPUTS];
    for (int64_t at = 0; at < whole; at += size, count++) {
        shape.dim[dim] = whole - at < size ? whole - at : size;
        part[count] = g[count] ? g[count]
                               : tn_zeros(shape,
                                          .dtype = tn__node_dtype(node, 0),
                                          .device = tn__node_device(node, 0));
        if (!part[count])
            return tn_error_code();
    }
    const tn_value value[] = {tn__value_tensors(part, count),
                              tn__value_int(dim)};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_CAT], value, 2);
    return out[0] ? TN_OK : tn_error_code();
}
