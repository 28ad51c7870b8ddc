/* gradients_recurrent.c: the gates of recurrent layers, and what the layers are
 * cut with. */
#include <autograd/autograd.h>
#include <base/memory.h>
#include <ops/native.h>
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

static tn_tensor *or_zeros(tn_tensor *g, tn_tensor *like)
{
    return g ? g : tn_zeros_like(like);
}

/* The cotangents of all gates and of the cell in one launch, which finds each
 * function of a gate once; where nobody differentiates them, the gates' are
 * written side by side. */
TN__GRADIENT(lstm_gates)
{
    tn_tensor *gates = tn__node_input(node, TN__ARG_LSTM_GATES_GATES);
    tn_tensor *cell = tn__node_input(node, TN__ARG_LSTM_GATES_CELL);
    tn_tensor *c = tn__node_output(node, 1), *part[4], *to[5];
    if (!gates || !cell || !c)
        return tn_error_code();
    int last = cell->ndim - 1;
    tn_value value[8];
    if (tn__apart(gates, last, cell->shape[last], part) != 4)
        return tn_error_code();
    for (int i = 0; i < 4; i++)
        value[i] = tn__value_tensor(part[i]);
    tn_tensor *const rest[] = {cell, c, or_zeros(g[0], c), or_zeros(g[1], c)};
    for (int i = 0; i < 4; i++) {
        if (!rest[i])
            return tn_error_code();
        value[4 + i] = tn__value_tensor(rest[i]);
    }
    const tn_op *back = &tn__op_table[TN__OP_ID_LSTM_GATES_BACK];
    if (tn_grad_mode() || gates->dtype != cell->dtype) {
        if (tn__op_run(back, value, 8, to, 5) < 0)
            return tn_error_code();
        out[0] = tn_cat(to, 4, last);
        out[1] = to[4];
        return out[0] ? TN_OK : tn_error_code();
    }
    out[0] = tn_empty(tn__node_shape(node, 0), .dtype = gates->dtype,
                      .device = gates->storage->device);
    out[1] = to[4] = tn_empty(tn__node_shape(node, 1), .dtype = cell->dtype,
                              .device = cell->storage->device);
    if (!out[0] || !out[1] ||
        tn__apart(out[0], last, cell->shape[last], to) != 4)
        return tn_error_code();
    return tn__op_run_into(back, value, 8, to, 5);
}
