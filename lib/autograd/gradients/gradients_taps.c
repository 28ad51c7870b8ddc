/* gradients_taps.c: gradients of linear maps along one dimension: resampling,
 * padding and sliding windows. Each is a linear map, so its gradient is the
 * transposed map, which is the same operator or another one. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <ops/table.h>
#include <tenon/ops.h>

static tn_status set_result(tn_tensor **out, tn_tensor *x)
{
    *out = x;
    return x ? TN_OK : tn_error_code();
}

/* resample takes two pairs of index and weight tables, one for the map and one
 * for its transpose. So its gradient is resample with the two pairs
 * exchanged. */
TN__GRADIENT(tn__grad_resample)
{
    enum { INDEX = 1, WEIGHT, BACK_INDEX, BACK_WEIGHT, DIM };
    if (tn__node_wants(node, WEIGHT) || tn__node_wants(node, BACK_WEIGHT))
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "resample: weights have no gradient");
    tn_tensor *table[] = {
        tn__node_input(node, BACK_INDEX), tn__node_input(node, BACK_WEIGHT),
        tn__node_input(node, INDEX), tn__node_input(node, WEIGHT)};
    if (!table[0] || !table[1] || !table[2] || !table[3])
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(g[0]),     tn__value_tensor(table[0]),
        tn__value_tensor(table[1]), tn__value_tensor(table[2]),
        tn__value_tensor(table[3]), *tn__node_value(node, DIM)};
    return set_result(out,
                      tn__op_run1(&tn__op_table[TN__OP_ID_RESAMPLE], value, 6));
}

TN__GRADIENT(tn__grad_constant_pad_nd)
{
    tn_dims_list back = *tn__node_value(node, 1)->of.dims;
    for (int k = 0; k < back.count; k++)
        back.dim[k] = -back.dim[k];
    return set_result(out, tn_constant_pad_nd(g[0], back, 0));
}

/* The gradients of copies of an element are summed. For 16-bit floats the sum
 * is computed in float32 and rounded once. */
TN__GRADIENT(tn__grad_pad_edges)
{
    tn_dtype dtype = tn_tensor_dtype(g[0]);
    bool half = tn_dtype_bytes(dtype) == 2;
    tn_tensor *whole = half ? tn_to_dtype(g[0], TN_F32) : g[0];
    if (!whole)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(whole), *tn__node_value(node, 1),
                              *tn__node_value(node, 2)};
    tn_tensor *back =
        tn__op_run1(&tn__op_table[TN__OP_ID_PAD_EDGES_BACKWARD], value, 3);
    return set_result(out, half ? tn_to_dtype(back, dtype) : back);
}

TN__GRADIENT(tn__grad_pad_edges_backward)
{
    const tn_value value[] = {tn__value_tensor(g[0]), *tn__node_value(node, 1),
                              *tn__node_value(node, 2)};
    return set_result(
        out, tn__op_run1(&tn__op_table[TN__OP_ID_PAD_EDGES], value, 3));
}

TN__GRADIENT(tn__grad_windows)
{
    int ndim = tn__node_ndim(node, 0);
    if (ndim == 0)
        return set_result(out, tn_reshape(g[0], (tn_dims_list){0}));
    int dim = tn__node_dim(node, 1, 0);
    const tn_value value[] = {
        tn__value_tensor(g[0]), tn__value_int(dim),
        tn__value_int(tn__node_size(node, 0, dim)), *tn__node_value(node, 3),
        *tn__node_value(node, 4)};
    return set_result(
        out, tn__op_run1(&tn__op_table[TN__OP_ID_WINDOWS_BACKWARD], value, 5));
}

TN__GRADIENT(tn__grad_windows_backward)
{
    int last = tn__node_ndim(node, 0) - 1;
    int dim = tn__shape_dim(last, tn__node_value(node, 1)->of.i);
    int64_t windows = tn__node_size(node, 0, dim);
    const tn_value value[] = {
        tn__value_tensor(g[0]), tn__value_int(dim),
        tn__value_int(tn__node_size(node, 0, last)), *tn__node_value(node, 3),
        *tn__node_value(node, 4)};
    tn_tensor *view =
        tn__op_run1(&tn__op_table[TN__OP_ID_WINDOWS], value, 5);
    /* The dimension may be long enough for more windows than the input of the
     * forward call had. The additional windows are dropped. */
    return set_result(out, view && view->shape[dim] > windows
                               ? tn_narrow(view, dim, 0, windows)
                               : view);
}

/* If `back` is set, dft_real is the adjoint of dft_real without it. */
TN__GRADIENT(tn__grad_dft_real)
{
    const tn_value value[] = {
        tn__value_tensor(g[0]), *tn__node_value(node, 1),
        *tn__node_value(node, 2), tn__value_bool(!tn__node_value(node, 3)->of.i)};
    return set_result(out,
                      tn__op_run1(&tn__op_table[TN__OP_ID_DFT_REAL], value, 4));
}
