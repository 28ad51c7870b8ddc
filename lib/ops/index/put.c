/* put.c: indexing with several index tensors (x[i, j] in PyTorch, index_put),
 * and copies of a tensor in which indexed elements are replaced or reduced
 * (index_fill, index_add, scatter_reduce and others), composed of gather and
 * scatter. */
#include <float.h>
#include <math.h>
#include <ops/engine/native.h>

static tn_tensor *as_list(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* Expands index, a 1-d tensor that names slices of x along dim, to one index
 * for each element of these slices. */
static tn_tensor *for_elements(tn_tensor *index, const tn_tensor *x, int dim)
{
    if (!index)
        return NULL;
    tn_dims_list along = {x->ndim, {0}}, size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++) {
        along.dim[d] = d == dim ? -1 : 1;
        size.dim[d] = d == dim ? index->numel : x->shape[d];
    }
    return tn_expand(tn_reshape(index, along), size);
}

static tn_tensor *scattered(tn_tensor *x, tn_tensor *index, tn_tensor *source,
                            bool add)
{
    return add ? tn_scatter_add(x, 0, index, source)
               : tn_scatter(x, 0, index, source);
}

tn_status tn__run_put(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PUT_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_PUT_INDEX);
    tn_tensor *source = tn__call_tensor(call, TN__ARG_PUT_SOURCE);
    if (index->numel != source->numel)
        return tn__fail(TN_ERR_SHAPE, "put: {index} has %lld elements and "
                        "{source} %lld; expected the same number",
                        (long long)index->numel, (long long)source->numel);
    tn__call_set_indices(call, TN__ARG_PUT_INDEX, -x->numel, x->numel);
    tn_tensor *at = as_list(tn__from_front(index, x->numel));
    tn_tensor *out = scattered(as_list(x), at,
                               as_list(source),
                               tn__call_int(call, TN__ARG_PUT_ACCUMULATE));
    return tn__give(call, tn_reshape_as(out, x));
}

/* ---- indexing with several index tensors --------------------------------- */

/* Appends an index tensor to list, which has `count` elements, and returns the
 * new number of elements. A bool index (a mask) becomes one index tensor for
 * each of its dimensions. */
static int add_index(tn_tensor *index, tn_tensor **list, int count)
{
    tn_tensor *parts[TN_MAX_NDIM];
    if (index->dtype != TN_BOOL) {
        list[count] = index;
        return count + 1;
    }
    int found = tn_nonzero(index, parts, TN_MAX_NDIM, .as_tuple = true);
    for (int k = 0; k < found; k++)
        list[count + k] = parts[k];
    return found < 0 ? found : count + found;
}

/* Checks index tensor number k, which applies to dimension dim of x and, if it
 * is a mask, also to the following dimensions. */
static tn_status check_within(const char *name, tn_tensor *index, int k,
                              const tn_tensor *x, int dim)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (index->dtype == TN_BOOL) {
        if (tn__shape_equal(index->ndim, index->shape, index->ndim,
                            x->shape + dim))
            return TN_OK;
        return tn__fail(TN_ERR_SHAPE, "%s: {indices[%d]} is a bool mask of "
                        "shape %s; expected the sizes from dimension %d on of "
                        "{input}, which has shape %s", name, k,
                        tn__shape_text(a, index->ndim, index->shape), dim,
                        tn__shape_text(b, x->ndim, x->shape));
    }
    return tn__check_indices(name, "indices", k, index, -x->shape[dim],
                             x->shape[dim]);
}

/* Returns the number of dimensions of x to which the index tensors apply. */
static int dims_taken(tn_tensor *const *index, int count)
{
    int taken = 0;
    for (int k = 0; k < count; k++)
        taken += index[k]->dtype == TN_BOOL ? index[k]->ndim : 1;
    return taken;
}

/* Returns the numbers of the slices that the index tensors select together. The
 * index tensors apply to the first dimensions of x. Slices are numbered in
 * row-major order over these dimensions. */
static tn_tensor *slice_numbers(const char *name, const tn_tensor *x,
                                tn_tensor *const *index, int count)
{
    tn_tensor *list[TN_MAX_NDIM];
    int used = 0;
    for (int k = 0; k < count && used >= 0; k++) {
        if (tn_dtype_is_floating(index[k]->dtype)) {
            tn__fail(TN_ERR_DTYPE, "%s: {indices[%d]} is %s; convert it to "
                     "int64 with tn_to_dtype", name, k,
                     tn_dtype_name(index[k]->dtype));
            return NULL;
        }
        int taken = index[k]->dtype == TN_BOOL ? index[k]->ndim : 1;
        if (used + taken > x->ndim) {
            tn__fail(TN_ERR_ARGUMENT, "%s: {indices} select along %d "
                     "dimensions, but {input} has only %d", name,
                     dims_taken(index, count), x->ndim);
            return NULL;
        }
        if (check_within(name, index[k], k, x, used) < 0)
            return NULL;
        used = add_index(index[k], list, used);
    }
    if (used < 0)
        return NULL;
    if (count < 1) {
        tn__fail(TN_ERR_ARGUMENT, "%s: {indices} is an empty list; expected "
                 "at least one tensor", name);
        return NULL;
    }
    if (tn_broadcast_tensors(list, used, list, TN_MAX_NDIM) != used)
        return NULL;
    tn_tensor *number = tn__from_front(list[0], x->shape[0]);
    for (int d = 1; d < used && number; d++) {
        const tn_value value[] = {tn__value_tensor(number),
                                  tn__value_tensor(list[d]),
                                  tn__value_int(x->shape[d])};
        number = tn__row(TN__OP_ID_LINEAR_INDEX, value, 3);
    }
    return number;
}

tn_status tn__run_index_put(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_PUT_INPUT);
    const tn_value *indices = &call->value[TN__ARG_INDEX_PUT_INDICES];
    tn_tensor *values = tn__call_tensor(call, TN__ARG_INDEX_PUT_VALUES);
    tn_tensor *number =
        slice_numbers("index_put", x, indices->of.tensors, indices->count);
    if (!number)
        return tn_error_code();
    int taken = dims_taken(indices->of.tensors, indices->count);
    int64_t slices = 1, width = 1;
    tn_dims_list shape = {0, {0}};
    for (int d = 0; d < number->ndim; d++)
        shape.dim[shape.count++] = number->shape[d];
    for (int d = 0; d < x->ndim; d++) {
        *(d < taken ? &slices : &width) *= x->shape[d];
        if (d >= taken && shape.count < TN_MAX_NDIM)
            shape.dim[shape.count++] = x->shape[d];
    }
    int64_t count = number->numel;
    tn_tensor *rows = tn_reshape(x, tn_dims(slices, width));
    tn_tensor *source = tn_reshape(tn_expand(values, shape),
                                   tn_dims(count, width));
    number = tn_expand(tn_reshape(number, tn_dims(count, 1)),
                       tn_dims(count, width));
    return tn__give(
        call, tn_reshape_as(
                  scattered(rows, number, source,
                            tn__call_int(call, TN__ARG_INDEX_PUT_ACCUMULATE)),
                  x));
}

/* Stores in taken[], in ascending order, the dimensions of x to which the index
 * tensors apply. Returns their number. */
static int dims_indexed(const tn__call *call, const tn_tensor *x,
                        int64_t *taken)
{
    const tn_value *indices = &call->value[TN__ARG_INDEX_INDICES];
    const tn_dims_list *dims = tn__call_has(call, TN__ARG_INDEX_DIMS)
                                   ? call->value[TN__ARG_INDEX_DIMS].of.dims
                                   : NULL;
    char text[TN__SHAPE_TEXT];
    int count = 0;
    if (dims && dims->count != indices->count)
        return tn__fail(TN_ERR_ARGUMENT, "index: {dims} has %d numbers and "
                        "{indices} %d tensors; expected one number for each "
                        "tensor", dims->count, indices->count);
    for (int k = 0; k < indices->count; k++) {
        const tn_tensor *index = indices->of.tensors[k];
        int64_t at = dims ? dims->dim[k] : count;
        int64_t span = index->dtype == TN_BOOL ? index->ndim : 1;
        at += at < 0 ? x->ndim : 0;
        if (span < 1 || at < 0 || at >= x->ndim || at + span > x->ndim ||
            (count && at <= taken[count - 1]))
            return tn__fail(TN_ERR_ARGUMENT, "index: {indices[%d]} %s of %s "
                            "cannot index dimension %lld of {input}, which has "
                            "%d; expected ascending dimensions, where a bool "
                            "tensor indexes as many as it has", k,
                            tn__shape_text(text, index->ndim, index->shape),
                            tn_dtype_name(index->dtype), (long long)at,
                            x->ndim);
        for (int64_t d = 0; d < span; d++)
            taken[count++] = at + d;
    }
    return count;
}

/* Computes x[..., index, ..., index, ...]. Moves the indexed dimensions to the
 * front, merges them, and selects slices. If the indexed dimensions were
 * adjacent, the dimensions that replace them are then moved back to that
 * place. */
tn_status tn__run_index(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_INPUT);
    const tn_value *indices = &call->value[TN__ARG_INDEX_INDICES];
    tn_dims_list order = {x->ndim, {0}};
    int taken = dims_indexed(call, x, order.dim), filled = taken;
    if (taken < 0)
        return tn_error_code();
    int64_t slices = 1, width = 1;
    for (int d = 0; d < x->ndim; d++) {
        bool indexed = false;
        for (int k = 0; k < taken; k++)
            indexed = indexed || order.dim[k] == d;
        *(indexed ? &slices : &width) *= x->shape[d];
        if (!indexed)
            order.dim[filled++] = d;
    }
    tn_tensor *moved = tn_permute(x, order);
    tn_tensor *number = moved ? slice_numbers("index", moved,
                                              indices->of.tensors,
                                              indices->count)
                              : NULL;
    if (!number)
        return tn_error_code();
    int own = number->ndim, rest = x->ndim - taken;
    tn_dims_list shape = {own + rest, {0}}, back = shape;
    if (shape.count > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "index: the result would have %d "
                        "dimensions; expected at most %d", shape.count,
                        TN_MAX_NDIM);
    bool adjacent = order.dim[taken - 1] - order.dim[0] == taken - 1;
    int before = adjacent ? (int)order.dim[0] : 0;
    for (int d = 0; d < shape.count; d++) {
        shape.dim[d] =
            d < own ? number->shape[d] : moved->shape[taken + d - own];
        back.dim[d] = d < before         ? own + d
                      : d < before + own ? d - before
                                         : d;
    }
    tn_tensor *picked = tn_index_select(
        tn_reshape(moved, tn_dims(slices, width)), 0, as_list(number));
    return tn__give(call, tn_permute(tn_reshape(picked, shape), back));
}

/* ---- index_fill ---------------------------------------------------------- */

tn_status tn__run_index_fill(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_FILL_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_INDEX_FILL_INDEX);
    tn_tensor *value = tn__call_tensor(call, TN__ARG_INDEX_FILL_VALUE);
    char text[TN__SHAPE_TEXT];
    int dim = tn__call_dim(call, TN__ARG_INDEX_FILL_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (index->ndim > 1 || tn_dtype_is_floating(index->dtype) ||
        index->dtype == TN_BOOL)
        return tn__fail(TN_ERR_SHAPE, "index_fill: {index} has shape %s and "
                        "dtype %s; expected a 1-d tensor of an integer dtype",
                        tn__shape_text(text, index->ndim, index->shape),
                        tn_dtype_name(index->dtype));
    if (value && value->ndim > 0)
        return tn__fail(TN_ERR_SHAPE, "index_fill: {value} has shape %s; "
                        "expected a tensor without dimensions",
                        tn__shape_text(text, value->ndim, value->shape));
    if (tn__check_fits("index_fill", "value",
                       &call->value[TN__ARG_INDEX_FILL_VALUE], x->dtype) < 0)
        return TN_ERR_ARGUMENT;
    tn_tensor *list = x->ndim ? x : as_list(x);
    if (!list)
        return tn_error_code();
    int64_t size = list->shape[dim];
    tn__call_set_indices(call, TN__ARG_INDEX_FILL_INDEX, -size, size);
    tn_tensor *all = for_elements(tn__from_front(index, size), list, dim);
    /* The indices become a mask, so that the gradient of `value` counts each
     * element once, even if an index is given twice. */
    tn_tensor *mask = tn_zeros_like(list, .dtype = TN_BOOL);
    mask = tn_scatter_scalar(mask, dim, all, true);
    const tn_value args[] = {tn__value_tensor(list), tn__value_tensor(mask),
                             call->value[TN__ARG_INDEX_FILL_VALUE]};
    tn_tensor *out = tn__row(TN__OP_ID_MASKED_FILL, args, 3);
    return tn__give(call, tn_reshape_as(out, x));
}

/* ---- scatter_reduce and index_reduce ------------------------------------- */

/* Returns the neutral element of a reduction, as 0 for a sum. */
static tn_scalar identity(const char *reduce, tn_dtype dtype)
{
    bool whole = !tn_dtype_is_floating(dtype), least = reduce[2] == 'a';
    if (reduce[0] != 'a')
        return tn_num(reduce[0] == 'p' ? 1 : 0);
    if (!whole)
        return tn_num(least ? -INFINITY : INFINITY);
    int64_t low = 0, high = 1; /* of bool */
    tn__int_limits(dtype, &low, &high);
    return tn_num(least ? low : high);
}

static tn_tensor *mean_of(tn_tensor *x, int dim, tn_tensor *index,
                          tn_tensor *source, bool with_own)
{
    /* `one` is a single element, expanded to the shape of x without more
     * memory. scatter makes a full copy of it. */
    tn_tensor *one = tn_ones((tn_dims_list){0}, .dtype = x->dtype,
                             .device = x->storage->device);
    tn_tensor *own = tn_expand_as(one, x);
    if (!with_own)
        own = tn_scatter_scalar(own, dim, index, 0);
    tn_tensor *count =
        tn_scatter_add(own, dim, index, tn_expand_as(one, source));
    tn_tensor *sum = tn_scatter_add(x, dim, index, source);
    if (!with_own)
        count = tn_clamp_min_scalar(count, 1);
    return tn_dtype_is_floating(x->dtype) ? tn_div(sum, count)
                                          : tn_floor_divide(sum, count);
}

/* Computes scatter_reduce: reduces each element of source into the element of x
 * at its index along dim. If with_own is false, the reduction ignores the
 * former values of these elements of x. */
static tn_tensor *reduced(const char *name, tn_tensor *x, int dim,
                          tn_tensor *index, tn_tensor *source,
                          const char *reduce, bool with_own)
{
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known = known || strcmp(reduce, names[i]) == 0;
    if (!known) {
        tn__fail(TN_ERR_ARGUMENT, "%s: {reduce} \"%s\" is none of \"sum\", "
                 "\"prod\", \"mean\", \"amax\" and \"amin\"", name, reduce);
        return NULL;
    }
    if (!with_own)
        x = tn_scatter_scalar_with(x, dim, index, identity(reduce, x->dtype),
                                   NULL);
    if (!x)
        return NULL;
    if (reduce[0] == 'm')
        return mean_of(x, dim, index, source, with_own);
    if (reduce[0] == 's')
        return tn_scatter_add(x, dim, index, source);
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              tn__value_tensor(index),
                              tn__value_tensor(source),
                              tn__value_string(reduce)};
    return tn__row(TN__OP_ID_SCATTER_FOLD, value, 5);
}

tn_status tn__run_scatter_reduce(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SCATTER_REDUCE_INPUT);
    int dim = tn__call_dim(call, TN__ARG_SCATTER_REDUCE_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    return tn__give(
        call,
        reduced("scatter_reduce", x, dim,
                tn__call_tensor(call, TN__ARG_SCATTER_REDUCE_INDEX),
                tn__call_tensor(call, TN__ARG_SCATTER_REDUCE_SRC),
                call->value[TN__ARG_SCATTER_REDUCE_REDUCE].of.string,
                tn__call_int(call, TN__ARG_SCATTER_REDUCE_INCLUDE_SELF)));
}

tn_status tn__run_index_reduce(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_REDUCE_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_INDEX_REDUCE_INDEX);
    tn_tensor *source = tn__call_tensor(call, TN__ARG_INDEX_REDUCE_SOURCE);
    int dim = tn__call_dim(call, TN__ARG_INDEX_REDUCE_DIM, x->ndim);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (index->ndim > 1 || source->ndim != x->ndim ||
        (x->ndim && source->shape[dim] != index->numel))
        return tn__fail(TN_ERR_SHAPE, "index_reduce: {source} has shape %s; "
                        "expected as many dimensions as {input} has, and in "
                        "{dim} %d one element for each of the 1-d {index}, "
                        "which has shape %s",
                        tn__shape_text(a, source->ndim, source->shape), dim,
                        tn__shape_text(b, index->ndim, index->shape));
    index = x->ndim ? for_elements(index, source, dim)
                    : tn_reshape(index, (tn_dims_list){0});
    return tn__give(
        call, reduced("index_reduce", x, dim, index, source,
                      call->value[TN__ARG_INDEX_REDUCE_REDUCE].of.string,
                      tn__call_int(call, TN__ARG_INDEX_REDUCE_INCLUDE_SELF)));
}
