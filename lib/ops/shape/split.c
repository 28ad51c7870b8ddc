/* split.c: splits a tensor into views (PyTorch's split, chunk, unbind,
 * tensor_split), brings several tensors to one shape (broadcast_tensors,
 * meshgrid, atleast_1d), and joins them (hstack, vstack). */
#include <base/memory.h>
#include <ops/engine/native.h>

/* Adds an output to the call's outputs. Fails if there are too many. */
static tn_status add_part(tn__call *call, tn_tensor *part)
{
    if (!part)
        return tn_error_code();
    if (call->out_count == TN__OP_MAX_OUTPUTS)
        return tn__fail(TN_ERR_UNSUPPORTED, "%s: the result has more than %d "
                        "parts, the limit", call->op->name, TN__OP_MAX_OUTPUTS);
    call->out[call->out_count++] = part;
    return TN_OK;
}

/* Returns argument i as a dimension of x, which must have at least one
 * dimension. */
static int dim_of(const tn__call *call, int i, const tn_tensor *x)
{
    if (x->ndim > 0)
        return tn__call_dim(call, i, x->ndim);
    tn__fail(TN_ERR_SHAPE, "%s: {input} has no dimensions; expected at least "
             "one", call->op->name);
    return -1;
}

/* ---- split, chunk and unbind --------------------------------------------- */

static tn_status split_evenly(tn__call *call, tn_tensor *x, int dim,
                              int64_t size)
{
    int64_t whole = x->shape[dim], at = 0;
    do {
        int64_t length = whole - at < size ? whole - at : size;
        tn_status status = add_part(call, tn_narrow(x, dim, at, length));
        if (status < 0)
            return status;
        at += size;
    } while (at < whole);
    return TN_OK;
}

tn_status tn__run_split(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SPLIT_INPUT);
    int64_t size = tn__call_int(call, TN__ARG_SPLIT_SPLIT_SIZE);
    int dim = dim_of(call, TN__ARG_SPLIT_DIM, x);
    if (dim < 0)
        return tn_error_code();
    if (size < 0 || (size == 0 && x->shape[dim] > 0))
        return tn__fail(TN_ERR_ARGUMENT, "split: {split_size} is %lld for a "
                        "dimension of size %lld; expected at least 1",
                        (long long)size, (long long)x->shape[dim]);
    return split_evenly(call, x, dim, size ? size : 1);
}

tn_status tn__run_chunk(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CHUNK_INPUT);
    int64_t chunks = tn__call_int(call, TN__ARG_CHUNK_CHUNKS);
    int dim = dim_of(call, TN__ARG_CHUNK_DIM, x);
    if (dim < 0)
        return tn_error_code();
    if (chunks < 1)
        return tn__fail(TN_ERR_ARGUMENT, "chunk: {chunks} is %lld; expected "
                        "at least 1", (long long)chunks);
    int64_t size = x->shape[dim] / chunks + (x->shape[dim] % chunks != 0);
    return split_evenly(call, x, dim, size ? size : 1);
}

tn_status tn__run_split_with_sizes(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SPLIT_WITH_SIZES_INPUT);
    const tn_dims_list *sizes =
        call->value[TN__ARG_SPLIT_WITH_SIZES_SPLIT_SIZES].of.dims;
    int dim = dim_of(call, TN__ARG_SPLIT_WITH_SIZES_DIM, x);
    char text[TN__SHAPE_TEXT];
    if (dim < 0)
        return tn_error_code();
    int64_t left = x->shape[dim];
    for (int k = 0; k < sizes->count && left >= 0; k++)
        left = sizes->dim[k] < 0 ? -1 : left - sizes->dim[k];
    if (left != 0)
        return tn__fail(TN_ERR_SHAPE, "split_with_sizes: {split_sizes} %s do "
                        "not add up to the size of {dim} %d, %lld",
                        tn__shape_text(text, sizes->count, sizes->dim), dim,
                        (long long)x->shape[dim]);
    int64_t at = 0;
    for (int k = 0; k < sizes->count; k++) {
        tn_status status =
            add_part(call, tn_narrow(x, dim, at, sizes->dim[k]));
        if (status < 0)
            return status;
        at += sizes->dim[k];
    }
    return TN_OK;
}

tn_status tn__run_unbind(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNBIND_INPUT);
    int dim = dim_of(call, TN__ARG_UNBIND_DIM, x);
    tn_status status = dim < 0 ? tn_error_code() : TN_OK;
    for (int64_t i = 0; status >= 0 && i < x->shape[dim]; i++)
        status = add_part(call, tn_select(x, dim, i));
    return status;
}

/* ---- tensor_split ---- */

static tn_status split_sections(tn__call *call, tn_tensor *x, int dim,
                                int64_t sections)
{
    if (sections < 1)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {sections} is %lld; expected at "
                        "least 1", call->op->name, (long long)sections);
    int64_t each = x->shape[dim] / sections, more = x->shape[dim] % sections;
    int64_t at = 0;
    for (int64_t k = 0; k < sections; k++) {
        int64_t length = each + (k < more);
        tn_status status = add_part(call, tn_narrow(x, dim, at, length));
        if (status < 0)
            return status;
        at += length;
    }
    return TN_OK;
}

static tn_status split_at(tn__call *call, tn_tensor *x, int dim,
                          const int64_t *index, int64_t count)
{
    int64_t start = 0;
    for (int64_t k = 0; k <= count; k++) {
        int64_t end = k < count ? index[k] : x->shape[dim];
        tn_status status =
            add_part(call, tn_slice(x, dim, start, end, 1));
        if (status < 0)
            return status;
        start = end;
    }
    return TN_OK;
}

tn_status tn__run_tensor_split(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TENSOR_SPLIT_INPUT);
    int dim = dim_of(call, TN__ARG_TENSOR_SPLIT_DIM, x);
    if (dim < 0)
        return tn_error_code();
    return split_sections(call, x, dim,
                          tn__call_int(call, TN__ARG_TENSOR_SPLIT_SECTIONS));
}

tn_status tn__run_tensor_split_at(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TENSOR_SPLIT_AT_INPUT);
    const tn_dims_list *index =
        call->value[TN__ARG_TENSOR_SPLIT_AT_INDICES].of.dims;
    int dim = dim_of(call, TN__ARG_TENSOR_SPLIT_AT_DIM, x);
    if (dim < 0)
        return tn_error_code();
    return split_at(call, x, dim, index->dim, index->count);
}

tn_status tn__run_tensor_split_by(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TENSOR_SPLIT_BY_INPUT);
    tn_tensor *by =
        tn__call_tensor(call, TN__ARG_TENSOR_SPLIT_BY_INDICES_OR_SECTIONS);
    int dim = dim_of(call, TN__ARG_TENSOR_SPLIT_BY_DIM, x);
    if (dim < 0)
        return tn_error_code();
    if (by->dtype != TN_I64 || by->ndim > 1 || by->numel >= TN__OP_MAX_OUTPUTS)
        return tn__fail(TN_ERR_ARGUMENT, "tensor_split: {indices_or_sections} "
                        "must be an int64 tensor of one number, or a 1-d one "
                        "of fewer than %d", TN__OP_MAX_OUTPUTS);
    int64_t index[TN__OP_MAX_OUTPUTS];
    if (tn_tensor_to_array(by, index, (size_t)by->numel * sizeof *index) < 0)
        return tn_error_code();
    return by->ndim == 0 ? split_sections(call, x, dim, index[0])
                         : split_at(call, x, dim, index, by->numel);
}

/* Runs hsplit, vsplit and dsplit, whose argument 1 is an int or a list. x must
 * have at least `least` dimensions. */
static tn_status split_along(tn__call *call, int dim, int least)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    const tn_value *by = &call->value[1];
    if (x->ndim < least)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions; "
                        "expected at least %d", call->op->name, x->ndim, least);
    if (by->kind == TN_VALUE_DIMS)
        return split_at(call, x, dim, by->of.dims->dim, by->of.dims->count);
    if (by->of.i < 1 || x->shape[dim] % by->of.i != 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {dim} %d of size %lld does not "
                        "divide into %lld equal parts", call->op->name, dim,
                        (long long)x->shape[dim], (long long)by->of.i);
    return split_sections(call, x, dim, by->of.i);
}

tn_status tn__run_hsplit(tn__call *call)
{
    return split_along(call, tn__call_tensor(call, 0)->ndim > 1, 1);
}

tn_status tn__run_vsplit(tn__call *call)
{
    return split_along(call, 0, 2);
}

tn_status tn__run_dsplit(tn__call *call)
{
    return split_along(call, 2, 3);
}

/* ---- broadcast_tensors, meshgrid and atleast_nd -------------------------- */

tn_status tn__run_broadcast_tensors(tn__call *call)
{
    tn_tensor *const *x = call->value[0].of.tensors;
    int count = call->value[0].count;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn__shape shape = {.ndim = 0};
    for (int k = 0; k < count; k++)
        if (!tn__shape_broadcast(&shape, x[k]->ndim, x[k]->shape))
            return tn__fail(TN_ERR_SHAPE, "broadcast_tensors: {tensors[%d]} %s "
                            "does not broadcast with %s", k,
                            tn__shape_text(a, x[k]->ndim, x[k]->shape),
                            tn__shape_text(b, shape.ndim, shape.dim));
    tn_dims_list size = {shape.ndim, {0}};
    for (int d = 0; d < shape.ndim; d++)
        size.dim[d] = shape.dim[d];
    tn_status status = TN_OK;
    for (int k = 0; k < count && status >= 0; k++)
        status = add_part(call, tn_expand(x[k], size));
    return status;
}

tn_status tn__run_meshgrid(tn__call *call)
{
    tn_tensor *const *x = call->value[TN__ARG_MESHGRID_TENSORS].of.tensors;
    int count = call->value[TN__ARG_MESHGRID_TENSORS].count;
    const char *indexing = call->value[TN__ARG_MESHGRID_INDEXING].of.string;
    bool xy = strcmp(indexing, "xy") == 0;
    if (!xy && strcmp(indexing, "ij") != 0)
        return tn__fail(TN_ERR_ARGUMENT, "meshgrid: {indexing} \"%s\" is "
                        "neither \"ij\" nor \"xy\"", indexing);
    if (count < 1 || count > TN_MAX_NDIM)
        return tn__fail(TN_ERR_ARGUMENT, "meshgrid: {tensors} has %d elements; "
                        "expected 1 to %d", count, TN_MAX_NDIM);
    tn_dims_list size = {count, {0}};
    for (int k = 0; k < count; k++) {
        if (x[k]->ndim > 1)
            return tn__fail(TN_ERR_SHAPE, "meshgrid: {tensors[%d]} has %d "
                            "dimensions; expected 0 or 1", k, x[k]->ndim);
        size.dim[k] = x[k]->numel;
    }
    tn_status status = TN_OK;
    for (int k = 0; k < count && status >= 0; k++) {
        tn_dims_list along = {count, {0}};
        for (int d = 0; d < count; d++)
            along.dim[d] = d == k ? x[k]->numel : 1;
        tn_tensor *grid = tn_expand(tn_reshape(x[k], along), size);
        if (xy && count > 1)
            grid = tn_transpose(grid, 0, 1);
        status = add_part(call, grid);
    }
    return status;
}

/* Returns a view of x with at least ndim dimensions, as atleast_1d does. */
static tn_tensor *at_least(tn_tensor *x, int ndim)
{
    if (x->ndim >= ndim) {
        const tn_value value[] = {tn__value_tensor(x)};
        return tn__row(TN__OP_ID_ALIAS, value, 1);
    }
    if (x->ndim == 0)
        x = tn_reshape(x, tn_dims(1));
    if (ndim >= 2 && x && x->ndim == 1)
        x = tn_unsqueeze(x, 0);
    if (ndim >= 3 && x && x->ndim == 2)
        x = tn_unsqueeze(x, -1);
    return x;
}

static tn_status run_at_least(tn__call *call, int ndim)
{
    tn_tensor *const *x = call->value[0].of.tensors;
    tn_status status = TN_OK;
    for (int k = 0; k < call->value[0].count && status >= 0; k++)
        status = add_part(call, at_least(x[k], ndim));
    return status;
}

tn_status tn__run_atleast_1d(tn__call *call)
{
    return run_at_least(call, 1);
}

tn_status tn__run_atleast_2d(tn__call *call)
{
    return run_at_least(call, 2);
}

tn_status tn__run_atleast_3d(tn__call *call)
{
    return run_at_least(call, 3);
}

/* ---- concatenation ------------------------------------------------------- */

/* Concatenates the tensors along dim, after each has been given at least ndim
 * dimensions (PyTorch's hstack, vstack and others). If `columns` is true, a 1-d
 * tensor becomes a column. If all tensors are 1-d, a dim of 1 means 0. */
static tn_status join(tn__call *call, int ndim, int dim, bool columns)
{
    tn_tensor *const *x = call->value[0].of.tensors;
    int count = call->value[0].count;
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {tensors} is an empty list; "
                        "expected at least one tensor", call->op->name);
    tn_tensor **part = tn__alloc_many(count, sizeof *part);
    if (!part)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (int k = 0; k < count && status >= 0; k++) {
        part[k] = columns && x[k]->ndim < 2
                      ? tn_reshape(x[k], tn_dims(x[k]->numel, 1))
                      : at_least(x[k], ndim);
        status = part[k] ? TN_OK : tn_error_code();
    }
    if (status >= 0 && dim == 1 && part[0]->ndim == 1)
        dim = 0;
    if (status >= 0) {
        const tn_value value[] = {tn__value_tensors(part, count),
                                  tn__value_int(dim)};
        status = tn__give(call, tn__row(TN__OP_ID_CAT, value, 2));
    }
    tn__free(part);
    return status;
}

tn_status tn__run_hstack(tn__call *call)
{
    return join(call, 1, 1, false);
}

tn_status tn__run_vstack(tn__call *call)
{
    return join(call, 2, 0, false);
}

tn_status tn__run_dstack(tn__call *call)
{
    return join(call, 3, 2, false);
}

tn_status tn__run_column_stack(tn__call *call)
{
    return join(call, 1, 1, true);
}

/* ---- the operators named ..._copy ---------------------------------------- */

/* Runs an operator x_copy: calls the operator x and copies its results. */
tn_status tn__run_copied(tn__call *call)
{
    char name[64] = "";
    size_t length = strlen(call->op->name) - strlen("_copy");
    if (length < sizeof name)
        memcpy(name, call->op->name, length);
    const tn_op *op = tn_op_find(name);
    if (!op)
        return tn__fail(TN_ERR_INTERNAL, "%s: operator %s is missing",
                        call->op->name, name);
    tn_tensor *view[TN__OP_MAX_OUTPUTS];
    int count = tn__op_run(op, call->value, call->op->arg_count, view,
                           TN__OP_MAX_OUTPUTS);
    tn_status status = count < 0 ? count : TN_OK;
    for (int k = 0; k < count && status >= 0; k++)
        status = add_part(call, tn_clone(view[k]));
    return status;
}
