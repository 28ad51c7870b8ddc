/* tensor_systems.c: PyTorch's tensorinv and tensorsolve, which reshape a tensor
 * to a square matrix and invert it or solve with it. */
#include <ops/engine/native.h>

static tn_dims_list sizes_from(const tn_tensor *x, int first, int end,
                               int64_t *numel)
{
    tn_dims_list list = {0, {0}};
    *numel = 1;
    for (int d = first; d < end; d++)
        *numel *= list.dim[list.count++] = x->shape[d];
    return list;
}

tn_status tn__run_linalg_tensorinv(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_TENSORINV_A);
    int64_t ind = tn__call_int(call, TN__ARG_LINALG_TENSORINV_IND), m, n;
    char text[TN__SHAPE_TEXT];
    if (ind < 1 || ind > x->ndim)
        return tn__fail(TN_ERR_ARGUMENT, "linalg_tensorinv: {ind} %lld is "
                        "outside [1, %d]", (long long)ind, x->ndim);
    tn_dims_list front = sizes_from(x, 0, (int)ind, &m);
    tn_dims_list behind = sizes_from(x, (int)ind, x->ndim, &n);
    if (m != n)
        return tn__fail(TN_ERR_SHAPE, "linalg_tensorinv: {A} has shape %s, "
                        "whose sizes multiply to %lld in the first %lld "
                        "dimensions and to %lld in the others; expected equal "
                        "products", tn__shape_text(text, x->ndim, x->shape),
                        (long long)m, (long long)ind, (long long)n);
    for (int d = 0; d < front.count; d++)
        behind.dim[behind.count++] = front.dim[d];
    return tn__give(call, tn_reshape(tn_linalg_inv(
                                         tn_reshape(x, tn_dims(m, n))),
                                     behind));
}

tn_status tn__run_linalg_tensorsolve(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_LINALG_TENSORSOLVE_A);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINALG_TENSORSOLVE_B);
    int ndim = a->ndim;
    int64_t n;
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    if (tn__call_has(call, TN__ARG_LINALG_TENSORSOLVE_DIMS)) {
        const tn_dims_list *dims =
            call->value[TN__ARG_LINALG_TENSORSOLVE_DIMS].of.dims;
        tn_dims_list to = {dims->count, {0}};
        uint32_t moved = 0;
        for (int d = 0; d < dims->count; d++) {
            int dim = tn__shape_dim(ndim, dims->dim[d]);
            if (dim < 0)
                return tn__fail_dim("linalg_tensorsolve", "dims:dim",
                                    dims->dim[d], ndim);
            if (moved >> dim & 1)
                return tn__fail(TN_ERR_ARGUMENT, "linalg_tensorsolve: "
                                "{dims:dim} %d is given twice", dim);
            moved |= 1u << dim;
            to.dim[d] = ndim - dims->count + d;
        }
        a = tn_movedim(a, *dims, to);
        if (!a)
            return tn_error_code();
    }
    tn_dims_list shape =
        sizes_from(a, b->ndim < ndim ? b->ndim : ndim, ndim, &n);
    if (n != b->numel || a->numel != n * n)
        return tn__fail(TN_ERR_SHAPE, "linalg_tensorsolve: {A} has shape %s "
                        "and {B} %s; expected the sizes of {B}, followed by "
                        "sizes with the same product",
                        tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape));
    tn_tensor *x = tn_linalg_solve(tn_reshape(a, tn_dims(n, n)),
                                   tn_reshape(b, tn_dims(n)));
    return tn__give(call, tn_reshape(x, shape));
}
