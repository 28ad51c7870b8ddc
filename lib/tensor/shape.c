/* shape.c: computes with shapes and strides: broadcasting, contiguous strides,
 * the span of a view. */
#include <string.h>
#include <tensor/tensor.h>

bool tn__shape_equal(int andim, const int64_t *a, int bndim, const int64_t *b)
{
    if (andim != bndim)
        return false;
    for (int d = 0; d < andim; d++)
        if (a[d] != b[d])
            return false;
    return true;
}

bool tn__shape_broadcast(tn__shape *out, int ndim, const int64_t *b)
{
    int add = ndim - out->ndim;
    if (add > 0) {
        memmove(out->dim + add, out->dim,
                (size_t)out->ndim * sizeof out->dim[0]);
        for (int d = 0; d < add; d++)
            out->dim[d] = 1;
        out->ndim = ndim;
    }
    int64_t *dim = out->dim + (out->ndim - ndim);
    for (int d = 0; d < ndim; d++) {
        if (dim[d] == b[d] || b[d] == 1)
            continue;
        if (dim[d] != 1)
            return false;
        dim[d] = b[d];
    }
    return true;
}

int64_t tn__shape_numel(int ndim, const int64_t *shape)
{
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++)
        numel *= shape[d];
    return numel;
}

int tn__shape_dim(int ndim, int64_t dim)
{
    int64_t count = ndim ? ndim : 1;
    if (dim < -count || dim >= count)
        return -1;
    return (int)(dim < 0 ? dim + count : dim);
}

void tn__shape_contiguous_strides(int ndim, const int64_t *shape,
                                  int64_t *stride)
{
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        /* As in PyTorch, a size of 0 counts as 1 in this product; otherwise the
         * strides of outer dimensions would be 0. */
        step = tn__size_mul(step, shape[d] > 1 ? shape[d] : 1);
    }
}

bool tn__shape_is_contiguous(int ndim, const int64_t *shape,
                             const int64_t *stride)
{
    int64_t step = 1;
    bool dense = true;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 0)
            return true;
        if (shape[d] != 1) {
            dense = dense && stride[d] == step;
            step *= shape[d];
        }
    }
    return dense;
}

void tn__shape_span(int ndim, const int64_t *shape, const int64_t *stride,
                    int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) { /* an empty view has no elements, whatever its
                                strides */
            *high = -1;
            return;
        }
    for (int d = 0; d < ndim; d++) {
        int64_t reach = (shape[d] - 1) * stride[d];
        if (reach < 0)
            *low += reach;
        else
            *high += reach;
    }
}

bool tn__shape_repeats(int ndim, const int64_t *shape, const int64_t *stride)
{
    int64_t reach = 0, beyond = -1; /* `reach` is the span of all dimensions
                                     * with strides up to `beyond` */
    for (int round = 0; round < ndim; round++) {
        /* Finds the smallest stride greater than `beyond`. */
        int64_t next = INT64_MAX, moved = 0;
        int count = 0;
        for (int d = 0; d < ndim; d++) {
            if (shape[d] < 2) /* the stride of a dimension with one element has
                               * no effect */
                continue;
            int64_t step = stride[d] < 0 ? -stride[d] : stride[d];
            if (step <= beyond || step > next)
                continue;
            count = step == next ? count + 1 : 1;
            next = step;
            moved = shape[d] - 1;
        }
        if (count == 0)
            return false;
        if (count > 1 || next <= reach)
            return true;
        reach += moved * next;
        beyond = next;
    }
    return false;
}
