/* diagonal.c: diagonals as views (PyTorch's diagonal), tensors built from
 * diagonals (diag_embed, diag), the indices of triangles (tril_indices), and
 * copies of a tensor with a part replaced (select_scatter and others). */
#include <base/memory.h>
#include <ops/engine/native.h>

/* The position of a diagonal in a tensor. */
typedef struct line {
    int dim1, dim2; /* the dimensions of the rows and of the columns */
    /* the distance in memory from the tensor's first element to the diagonal's
     * first element, in elements */
    int64_t offset;
    int64_t length; /* number of elements */
} line;

/* Finds the diagonal that a call names by its arguments offset, dim1 and dim2,
 * which have the indices first, first + 1 and first + 2. */
static tn_status find_line(const tn__call *call, int first, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           line *l)
{
    int64_t offset = tn__call_int(call, first);
    if (ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions; "
                        "expected at least 2", call->op->name, ndim);
    l->dim1 = tn__call_dim(call, first + 1, ndim);
    l->dim2 = l->dim1 < 0 ? -1 : tn__call_dim(call, first + 2, ndim);
    if (l->dim2 < 0)
        return TN_ERR_ARGUMENT;
    if (l->dim1 == l->dim2)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {dim1} and {dim2} are both %d; "
                        "expected two different dimensions", call->op->name,
                        l->dim1);
    int64_t rows = shape[l->dim1], columns = shape[l->dim2];
    if (offset >= 0)
        columns -= offset;
    else
        rows += offset;
    l->length = rows < columns ? rows : columns;
    if (l->length < 0)
        l->length = 0;
    l->offset = l->length == 0 ? 0
                : offset >= 0  ? offset * stride[l->dim2]
                               : -offset * stride[l->dim1];
    return TN_OK;
}

/* Sets *view to the diagonal of x. The dimensions are those of x other than
 * dim1 and dim2, then the diagonal. */
static void view_line(const tn_tensor *x, const line *l, tn_tensor *view)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d == l->dim1 || d == l->dim2)
            continue;
        view->shape[n] = x->shape[d];
        view->stride[n++] = x->stride[d];
    }
    view->shape[n] = l->length;
    view->stride[n++] =
        tn__size_add(x->stride[l->dim1], x->stride[l->dim2]);
    view->ndim = (uint8_t)n;
    view->storage = x->storage;
    view->dtype = x->dtype;
    view->offset = x->offset + l->offset;
}

tn_status tn__run_diagonal(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIAGONAL_INPUT);
    line l;
    tn_status status = find_line(call, TN__ARG_DIAGONAL_OFFSET, x->ndim,
                                 x->shape, x->stride, &l);
    if (status < 0)
        return status;
    tn_tensor v;
    view_line(x, &l, &v);
    return tn__give(call, tn__tensor_view(x, x->dtype, v.ndim, v.shape,
                                          v.stride, v.offset));
}

tn_status tn__run_diagonal_backward(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIAGONAL_BACKWARD_INPUT);
    const tn_dims_list *size =
        call->value[TN__ARG_DIAGONAL_BACKWARD_SIZE].of.dims;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, size->count,
                                    size->dim, "diagonal");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    line l;
    tn_status status = find_line(call, TN__ARG_DIAGONAL_BACKWARD_OFFSET,
                                 out->ndim, out->shape, out->stride, &l);
    if (status < 0)
        return status;
    tn_tensor view;
    view_line(out, &l, &view);
    if (!tn__shape_equal(x->ndim, x->shape, view.ndim, view.shape)) {
        char text[TN__SHAPE_TEXT], whole[TN__SHAPE_TEXT];
        return tn__fail(TN_ERR_SHAPE, "diagonal_backward: {input} has shape "
                        "%s, which is not that of this diagonal of a tensor %s",
                        tn__shape_text(text, x->ndim, x->shape),
                        tn__shape_text(whole, size->count, size->dim));
    }
    status = tn__fill(out, 0, "diagonal");
    return status < 0 ? status : tn__copy_into(&view, x, "diagonal");
}

/* ---- operators composed of diagonals ------------------------------------- */

/* Calls an operator with the arguments of diagonal. The public C function is
 * not called, because there an offset of INT64_MIN means that none is given. */
static tn_tensor *by_row(int id, tn_tensor *x, int64_t offset, int dim1,
                         int dim2)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(offset),
                              tn__value_int(dim1), tn__value_int(dim2)};
    return x ? tn__row(id, value, 4) : NULL;
}

static tn_tensor *diagonal(tn_tensor *x, int64_t offset)
{
    return by_row(TN__OP_ID_DIAGONAL, x, offset, 0, 1);
}

static tn_tensor *diag_embed(tn_tensor *x, int64_t offset)
{
    return by_row(TN__OP_ID_DIAG_EMBED, x, offset, -2, -1);
}

/* Returns a tensor of zeros of this size with x as the diagonal. */
static tn_tensor *embedded(tn_tensor *x, const tn_dims_list *size,
                           int64_t offset, int64_t dim1, int64_t dim2)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_dims(size),
                              tn__value_int(offset), tn__value_int(dim1),
                              tn__value_int(dim2)};
    return x ? tn__row(TN__OP_ID_DIAGONAL_BACKWARD, value, 5) : NULL;
}

tn_status tn__run_linalg_diagonal(tn__call *call)
{
    return tn__give(call,
                    tn__row(TN__OP_ID_DIAGONAL, call->value, 4));
}

tn_status tn__run_diag_embed(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIAG_EMBED_INPUT);
    int64_t offset = tn__call_int(call, TN__ARG_DIAG_EMBED_OFFSET);
    int ndim = x->ndim + 1;
    if (x->ndim < 1 || ndim > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "diag_embed: {input} has %d dimensions; "
                        "expected 1 to %d", x->ndim, TN_MAX_NDIM - 1);
    int dim1 = tn__call_dim(call, TN__ARG_DIAG_EMBED_DIM1, ndim);
    int dim2 = dim1 < 0 ? -1 : tn__call_dim(call, TN__ARG_DIAG_EMBED_DIM2,
                                            ndim);
    if (dim2 < 0)
        return TN_ERR_ARGUMENT;
    int64_t side = tn__size_add(x->shape[x->ndim - 1],
                                offset < 0 ? tn__size_mul(offset, -1) : offset);
    tn_dims_list size = {ndim, {0}};
    for (int d = 0, from = 0; d < ndim; d++)
        size.dim[d] = d == dim1 || d == dim2 ? side : x->shape[from++];
    return tn__give(call, embedded(x, &size, offset, dim1, dim2));
}

tn_status tn__run_diag(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIAG_INPUT);
    int64_t offset = tn__call_int(call, TN__ARG_DIAG_DIAGONAL);
    if (x->ndim == 1)
        return tn__give(call, diag_embed(x, offset));
    if (x->ndim == 2)
        return tn__give(call, tn_clone(diagonal(x, offset)));
    return tn__fail(TN_ERR_SHAPE, "diag: {input} has %d dimensions; expected "
                    "1 or 2", x->ndim);
}

tn_status tn__run_diagflat(tn__call *call)
{
    int64_t offset = tn__call_int(call, TN__ARG_DIAGFLAT_OFFSET);
    tn_tensor *x = tn_reshape(tn__call_tensor(call, TN__ARG_DIAGFLAT_INPUT),
                              tn_dims(-1));
    return tn__give(call, diag_embed(x, offset));
}

tn_status tn__run_trace(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    if (x->ndim != 2)
        return tn__fail(TN_ERR_SHAPE, "trace: {input} has %d dimensions; a "
                        "matrix has 2", x->ndim);
    return tn__give(call, tn_sum(diagonal(x, 0)));
}

/* ---- the indices of a triangle ------------------------------------------- */

/* Returns how many elements of row r are on or below a diagonal. */
static int64_t columns_below(int64_t r, int64_t columns, int64_t offset)
{
    int64_t count = r + offset + 1;
    return count < 0 ? 0 : count > columns ? columns : count;
}

/* Returns how many elements of all rows are on or below a diagonal. */
static int64_t elements_below(int64_t rows, int64_t columns, int64_t offset)
{
    /* Rows before `some` have no element on or below the diagonal. In the rows
     * [some, full), row r has r + offset + 1 such elements. In later rows all
     * elements count. */
    int64_t some = offset < 0 ? -offset : 0;
    int64_t full = columns - offset - 1;
    some = some > rows ? rows : some;
    full = full < some ? some : full > rows ? rows : full;
    return (full - some) * (some + full + 1 + 2 * offset) / 2 +
           (rows - full) * columns;
}

/* Writes the row indices of the `count` elements on one side of a diagonal into
 * row[0 .. count - 1], and their column indices into the next `count` elements
 * of row. */
static void list_triangle(int64_t rows, int64_t columns, int64_t offset,
                          bool lower, int64_t count, int64_t *row)
{
    int64_t *column = row + count;
    for (int64_t r = 0, at = 0; at < count && r < rows; r++) {
        int64_t c = lower ? 0 : columns_below(r, columns, offset - 1);
        int64_t end = lower ? columns_below(r, columns, offset) : columns;
        for (; c < end; c++, at++) {
            row[at] = r;
            column[at] = c;
        }
    }
}

/* Runs tril_indices and triu_indices, which have the same arguments. */
static tn_status triangle_indices(tn__call *call, bool lower)
{
    const int64_t most = INT32_MAX;
    int64_t rows = tn__call_int(call, TN__ARG_TRIL_INDICES_ROW);
    int64_t columns = tn__call_int(call, TN__ARG_TRIL_INDICES_COL);
    int64_t offset = tn__call_int(call, TN__ARG_TRIL_INDICES_OFFSET);
    if (rows < 0 || columns < 0 || rows > most || columns > most)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {row} is %lld and {col} %lld; "
                        "expected 0 to 2^31 - 1 for each", call->op->name,
                        (long long)rows, (long long)columns);
    offset = offset > most ? most : offset < -most ? -most : offset;
    int64_t count =
        lower ? elements_below(rows, columns, offset)
              : rows * columns - elements_below(rows, columns, offset - 1);
    /* The device memory is allocated before the host memory is filled, because
     * the device may have too little. */
    tn_tensor *out = tn_empty(tn_dims(2, count), .dtype = TN_I64);
    int64_t *at =
        out ? tn__alloc_many(tn__size_mul(2, count), sizeof *at) : NULL;
    if (!at)
        return tn_error_code();
    list_triangle(rows, columns, offset, lower, count, at);
    tn_status status =
        tn_tensor_set_array(out, at, (size_t)(2 * count) * sizeof *at);
    tn__free(at);
    if (status < 0)
        return status;
    if (tn__call_has(call, TN__ARG_TRIL_INDICES_DTYPE))
        out = tn_to_dtype(
            out, (tn_dtype)tn__call_int(call, TN__ARG_TRIL_INDICES_DTYPE));
    if (tn__call_has(call, TN__ARG_TRIL_INDICES_DEVICE))
        out = tn_to(out, call->value[TN__ARG_TRIL_INDICES_DEVICE].of.device);
    return tn__give(call, out);
}

tn_status tn__run_tril_indices(tn__call *call)
{
    return triangle_indices(call, true);
}

tn_status tn__run_triu_indices(tn__call *call)
{
    return triangle_indices(call, false);
}

/* ---- copies with a part replaced ----------------------------------------- */

/* Computes an output of the call: a copy of x in which elements are replaced by
 * those of `placed` where `mask` is not 0. */
static tn_status put_in(tn__call *call, tn_tensor *x, tn_tensor *placed,
                        tn_tensor *mask)
{
    return tn__give(call, tn_where(mask, placed, x));
}

static tn_tensor *marks(tn_tensor *src)
{
    return tn_ones_like(src, .dtype = TN_BOOL);
}

static tn_tensor *in_slices(tn_tensor *src, const tn_tensor *x, int dim,
                            int64_t start, int64_t step)
{
    tn_dims_list size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        size.dim[d] = x->shape[d];
    const tn_value value[] = {tn__value_tensor(src), tn__value_dims(&size),
                              tn__value_int(dim), tn__value_int(start),
                              tn__value_int(step)};
    return src ? tn__row(TN__OP_ID_SLICE_BACKWARD, value, 5) : NULL;
}

/* Checks that src has the shape of `part`, the part of the tensor that it
 * replaces. */
static tn_status check_part(const tn__call *call, const tn_tensor *part,
                            const tn_tensor *src)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!part)
        return tn_error_code();
    if (tn__shape_equal(part->ndim, part->shape, src->ndim, src->shape))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {src} has shape %s; expected %s, the "
                    "shape of the part of {input} that it replaces",
                    call->op->name, tn__shape_text(a, src->ndim, src->shape),
                    tn__shape_text(b, part->ndim, part->shape));
}

tn_status tn__run_select_scatter(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SELECT_SCATTER_INPUT);
    tn_tensor *src = tn__call_tensor(call, TN__ARG_SELECT_SCATTER_SRC);
    int64_t index = tn__call_int(call, TN__ARG_SELECT_SCATTER_INDEX);
    int dim = tn__call_dim(call, TN__ARG_SELECT_SCATTER_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_part(call, tn_select(x, dim, index), src);
    if (status < 0)
        return status;
    if (index < 0)
        index += x->shape[dim];
    src = tn_unsqueeze(src, dim);
    return put_in(call, x, in_slices(src, x, dim, index, 1),
                  in_slices(marks(src), x, dim, index, 1));
}

tn_status tn__run_slice_scatter(tn__call *call)
{
    enum {
        start = TN__ARG_SLICE_SCATTER_START,
        end = TN__ARG_SLICE_SCATTER_END,
        step = TN__ARG_SLICE_SCATTER_STEP
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SLICE_SCATTER_INPUT);
    tn_tensor *src = tn__call_tensor(call, TN__ARG_SLICE_SCATTER_SRC);
    int dim = tn__call_dim(call, TN__ARG_SLICE_SCATTER_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              call->value[start], call->value[end],
                              call->value[step]};
    tn_status status =
        check_part(call, tn__row(TN__OP_ID_SLICE, value, 5), src);
    if (status < 0)
        return status;
    int64_t from = tn__call_has(call, start) ? tn__call_int(call, start) : 0;
    if (from < 0)
        from = from + x->shape[dim] < 0 ? 0 : from + x->shape[dim];
    if (from > x->shape[dim])
        from = x->shape[dim];
    int64_t by = tn__call_int(call, step);
    return put_in(call, x, in_slices(src, x, dim, from, by),
                  in_slices(marks(src), x, dim, from, by));
}

tn_status tn__run_diagonal_scatter(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DIAGONAL_SCATTER_INPUT);
    tn_tensor *src = tn__call_tensor(call, TN__ARG_DIAGONAL_SCATTER_SRC);
    int64_t offset = tn__call_int(call, TN__ARG_DIAGONAL_SCATTER_OFFSET);
    int64_t dim1 = tn__call_int(call, TN__ARG_DIAGONAL_SCATTER_DIM1);
    int64_t dim2 = tn__call_int(call, TN__ARG_DIAGONAL_SCATTER_DIM2);
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(offset),
                              tn__value_int(dim1), tn__value_int(dim2)};
    tn_status status =
        check_part(call, tn__row(TN__OP_ID_DIAGONAL, value, 4), src);
    if (status < 0)
        return status;
    tn_dims_list size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        size.dim[d] = x->shape[d];
    return put_in(call, x, embedded(src, &size, offset, dim1, dim2),
                  embedded(marks(src), &size, offset, dim1, dim2));
}
