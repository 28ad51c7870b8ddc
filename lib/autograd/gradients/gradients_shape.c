/* gradients_shape.c: gradients of views and of other operators that only move
 * elements. */
#include <autograd/autograd.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* Sets out[0] to x. Returns the pending error if x is NULL. */
static tn_status set_result(tn_tensor **out, tn_tensor *x)
{
    out[0] = x;
    return x ? TN_OK : tn_error_code();
}

/* ---- the same elements in another shape --------------------------------- */

TN__GRADIENT(tn__grad_reshape)
{
    return set_result(out, tn_reshape(g[0], tn__node_shape(node, 0)));
}

TN__GRADIENT(tn__grad_view)
{
    return set_result(out, tn_reshape(g[0], tn__node_shape(node, 0)));
}

TN__GRADIENT(tn__grad_unsqueeze)
{
    return set_result(out, tn_reshape(g[0], tn__node_shape(node, 0)));
}

TN__GRADIENT(tn__grad_squeeze)
{
    return set_result(out, tn_reshape(g[0], tn__node_shape(node, 0)));
}

TN__GRADIENT(tn__grad_transpose)
{
    return set_result(out, tn_transpose(g[0], tn__node_value(node, 1)->of.i,
                                        tn__node_value(node, 2)->of.i));
}

TN__GRADIENT(tn__grad_permute)
{
    const tn_dims_list *dims = tn__node_value(node, 1)->of.dims;
    tn_dims_list back = {dims->count, {0}};
    for (int d = 0; d < dims->count; d++)
        back.dim[tn__shape_dim(dims->count, dims->dim[d])] = d;
    return set_result(out, tn_permute(g[0], back));
}

/* ---- the same elements -------------------------------------------------- */

TN__GRADIENT(tn__grad_contiguous)
{
    (void)node;
    return set_result(out, g[0]);
}

TN__GRADIENT(tn__grad_alias)
{
    (void)node;
    return set_result(out, g[0]);
}

/* The backward pass sums the result over the expanded dimensions. */
TN__GRADIENT(tn__grad_expand)
{
    (void)node;
    return set_result(out, g[0]);
}

TN__GRADIENT(tn__grad_to)
{
    return set_result(out, tn_to(g[0], tn__node_device(node, 0)));
}

/* ---- parts -------------------------------------------------------------- */

/* Returns the gradient of a sliced tensor: zeros of shape `size` with g written
 * into the slice. If sum is not NULL, adds g to the slice of sum instead. Then
 * all slices of one tensor share one gradient, which is set to zero only
 * once. */
static tn_tensor *slice_backward(tn_tensor *g, tn_dims_list size, int64_t dim,
                                 int64_t start, int64_t step, tn_tensor *sum)
{
    if (!g)
        return NULL;
    if (sum && g->numel) {
        int64_t end = start + (g->shape[dim] - 1) * step + 1;
        return tn_add_(tn_slice(sum, dim, start, end, step), g) ? sum : NULL;
    }
    const tn_value value[] = {tn__value_tensor(g), tn__value_dims(&size),
                              tn__value_int(dim), tn__value_int(start),
                              tn__value_int(step)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_SLICE_BACKWARD], value, 5);
}

TN__GRADIENT(tn__grad_select)
{
    int dim = tn__node_dim(node, 1, 0);
    int64_t size = tn__node_size(node, 0, dim);
    int64_t index = tn__node_value(node, 2)->of.i;
    if (index < 0)
        index += size;
    return set_result(out, slice_backward(tn_unsqueeze(g[0], dim),
                                          tn__node_shape(node, 0), dim, index,
                                          1, out[0]));
}

/* Computes the gradient of a slice along one dimension. A negative start counts
 * from the end of the dimension. */
static tn_status part(const tn__node *node, tn_tensor *g, int64_t start,
                      int64_t step, tn_tensor **out)
{
    int dim = tn__node_dim(node, 1, 0);
    int64_t size = tn__node_size(node, 0, dim);
    if (start < 0)
        start += size;
    if (start < 0)
        start = 0;
    if (start > size)
        start = size;
    return set_result(out, slice_backward(g, tn__node_shape(node, 0), dim,
                                          start, step, out[0]));
}

TN__GRADIENT(tn__grad_narrow)
{
    return part(node, g[0], tn__node_value(node, 2)->of.i, 1, out);
}

TN__GRADIENT(tn__grad_slice)
{
    return part(node, g[0], tn__node_value(node, 2)->of.i,
                tn__node_value(node, 4)->of.i, out);
}

TN__GRADIENT(tn__grad_slice_backward)
{
    const tn_dims_list *size = tn__node_value(node, 1)->of.dims;
    int64_t dim = tn__node_value(node, 2)->of.i;
    int64_t start = tn__node_value(node, 3)->of.i;
    int64_t step = tn__node_value(node, 4)->of.i;
    tn_tensor *part = tn_slice(g[0], dim, start, size->dim[dim], step);
    return set_result(
        out, tn_narrow(part, dim, 0, tn__node_size(node, 0, (int)dim)));
}

TN__GRADIENT(tn__grad_flip)
{
    return set_result(out, tn_flip(g[0], *tn__node_value(node, 1)->of.dims));
}

TN__GRADIENT(tn__grad_diagonal)
{
    tn_dims_list size = tn__node_shape(node, 0);
    const tn_value value[] = {tn__value_tensor(g[0]), tn__value_dims(&size),
                              *tn__node_value(node, 1),
                              *tn__node_value(node, 2),
                              *tn__node_value(node, 3)};
    return set_result(
        out, tn__op_run1(&tn__op_table[TN__OP_ID_DIAGONAL_BACKWARD], value, 5));
}

TN__GRADIENT(tn__grad_diagonal_backward)
{
    const tn_value value[] = {tn__value_tensor(g[0]),
                              *tn__node_value(node, 2),
                              *tn__node_value(node, 3),
                              *tn__node_value(node, 4)};
    return set_result(out,
                      tn__op_run1(&tn__op_table[TN__OP_ID_DIAGONAL], value, 4));
}
