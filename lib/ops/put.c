/* put.c: copies with elements put in or folded by their number, in terms of
 * scatter. */
#include <float.h>
#include <math.h>
#include <ops/native.h>

static tn_tensor *as_list(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* Numbers below 0 count from the end. */
static tn_tensor *from_front(tn_tensor *index, int64_t size)
{
    return tn_where(tn_lt_scalar(index, 0), tn_add_scalar(index, size), index);
}

/* A list of slices along dim, for each element of those slices of x. */
static tn_tensor *for_elements(tn_tensor *index, const tn_tensor *x, int dim)
{
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
        return tn__fail(TN_ERR_SHAPE, "put: %lld indices for %lld elements of "
                        "source", (long long)index->numel,
                        (long long)source->numel);
    tn_tensor *out = scattered(as_list(x), as_list(from_front(index, x->numel)),
                               as_list(source),
                               tn__call_int(call, TN__ARG_PUT_ACCUMULATE));
    return tn__give(call, tn_reshape_as(out, x));
}

/* ---- by several indices ---- */

/* A bool index becomes a list of coordinates for each of its dimensions. */
static int add_index(tn_tensor *index, tn_tensor **list, int count)
{
    tn_tensor *parts[TN_MAX_NDIM];
    if (index->dtype != TN_BOOL) {
        list[count] = index;
        return count + 1;
    }
    if (count + index->ndim > TN_MAX_NDIM)
        return tn__fail(TN_ERR_ARGUMENT, "index_put: indices for more than %d "
                        "dimensions", TN_MAX_NDIM);
    int found = tn_nonzero(index, parts, TN_MAX_NDIM, .as_tuple = true);
    for (int k = 0; k < found; k++)
        list[count + k] = parts[k];
    return found < 0 ? found : count + found;
}

static tn_status check_within(tn_tensor *index, int dim, int64_t size)
{
    char what[64];
    snprintf(what, sizeof what, "index_put: indices[%d]: index", dim);
    return tn__check_indices(what, index, -size, size);
}

/* The numbers, among the slices of the first dimensions of x, that the indices
 * name together. */
static tn_tensor *slice_numbers(const tn_tensor *x, tn_tensor *const *index,
                                int count)
{
    tn_tensor *list[TN_MAX_NDIM];
    int used = 0;
    for (int k = 0; k < count && used >= 0; k++) {
        if (tn_dtype_is_floating(index[k]->dtype)) {
            tn__fail(TN_ERR_DTYPE, "index_put: indices[%d] is %s; convert it "
                     "to int64 with tn_to_dtype", k,
                     tn_dtype_name(index[k]->dtype));
            return NULL;
        }
        if (used == TN_MAX_NDIM)
            break;
        used = add_index(index[k], list, used);
    }
    if (used < 0)
        return NULL;
    if (used > x->ndim || count < 1) {
        tn__fail(TN_ERR_ARGUMENT, "index_put: indices for %d dimensions, input "
                 "has %d", used, x->ndim);
        return NULL;
    }
    if (tn_broadcast_tensors(list, used, list, TN_MAX_NDIM) != used)
        return NULL;
    tn_tensor *number = tn_zeros_like(list[0], .dtype = TN_I64);
    for (int d = 0; d < used && number; d++) {
        if (check_within(list[d], d, x->shape[d]) < 0)
            return NULL;
        const tn_value value[] = {tn__value_tensor(number),
                                  tn__value_tensor(list[d]),
                                  tn__value_int(x->shape[d])};
        number = tn__row(TN__OP_ID_LINEAR_INDEX, value, 3);
    }
    return number;
}

/* How many dimensions of x the indices stand for. */
static int dims_taken(tn_tensor *const *index, int count)
{
    int taken = 0;
    for (int k = 0; k < count; k++)
        taken += index[k]->dtype == TN_BOOL ? index[k]->ndim : 1;
    return taken;
}

tn_status tn__run_index_put(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_PUT_INPUT);
    const tn_value *indices = &call->value[TN__ARG_INDEX_PUT_INDICES];
    tn_tensor *values = tn__call_tensor(call, TN__ARG_INDEX_PUT_VALUES);
    tn_tensor *number =
        slice_numbers(x, indices->of.tensors, indices->count);
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

/* ---- along a dimension ---- */

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
        return tn__fail(TN_ERR_SHAPE, "index_fill: index %s of %s is no list of "
                        "whole numbers",
                        tn__shape_text(text, index->ndim, index->shape),
                        tn_dtype_name(index->dtype));
    if (value && value->ndim > 0)
        return tn__fail(TN_ERR_SHAPE, "index_fill: value %s is not one number",
                        tn__shape_text(text, value->ndim, value->shape));
    tn_tensor *list = x->ndim ? x : as_list(x);
    if (!list)
        return tn_error_code();
    index = for_elements(from_front(index, list->shape[dim]), list, dim);
    /* By a mask: an index that is given twice fills once, so that the value's
     * gradient counts each element once. */
    tn_tensor *mask = tn_zeros_like(list, .dtype = TN_BOOL);
    mask = tn_scatter_scalar(mask, dim, index, true);
    const tn_value args[] = {tn__value_tensor(list), tn__value_tensor(mask),
                             call->value[TN__ARG_INDEX_FILL_VALUE]};
    tn_tensor *out = mask ? tn__row(TN__OP_ID_MASKED_FILL, args, 3) : NULL;
    return tn__give(call, tn_reshape_as(out, x));
}

/* ---- folds ---- */

/* What changes nothing in a fold. */
static tn_scalar identity(const char *reduce, tn_dtype dtype)
{
    bool whole = !tn_dtype_is_floating(dtype), least = reduce[2] == 'a';
    if (reduce[0] != 'a')
        return tn_num(reduce[0] == 'p' ? 1 : 0);
    if (!whole)
        return tn_num(least ? -INFINITY : INFINITY);
    int bits = 8 * (int)tn_dtype_bytes(dtype);
    if (dtype == TN_U8 || dtype == TN_BOOL)
        return tn_num(least ? 0 : dtype == TN_BOOL ? 1 : 255);
    int64_t top = INT64_MAX >> (64 - bits);
    return tn_num(least ? -top - 1 : top);
}

static tn_tensor *mean_of(tn_tensor *x, int dim, tn_tensor *index,
                          tn_tensor *source, bool with_own)
{
    tn_tensor *own = tn_ones_like(x);
    if (!with_own)
        own = tn_scatter_scalar(own, dim, index, 0);
    tn_tensor *count =
        tn_scatter_add(own, dim, index, tn_ones_like(source));
    tn_tensor *sum = tn_scatter_add(x, dim, index, source);
    count = tn_clamp_min_scalar(count, 1);
    return tn_dtype_is_floating(x->dtype) ? tn_div(sum, count)
                                          : tn_floor_divide(sum, count);
}

/* scatter_reduce and index_reduce, with an index for each element. */
static tn_tensor *folded(const char *name, tn_tensor *x, int dim,
                         tn_tensor *index, tn_tensor *source,
                         const char *reduce, bool with_own)
{
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known = known || strcmp(reduce, names[i]) == 0;
    if (!known) {
        tn__fail(TN_ERR_ARGUMENT, "%s: reduce \"%s\" is none of \"sum\", "
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
        folded("scatter_reduce", x, dim,
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
        return tn__fail(TN_ERR_SHAPE, "index_reduce: source %s has not one "
                        "slice along dim %d for each of index %s",
                        tn__shape_text(a, source->ndim, source->shape), dim,
                        tn__shape_text(b, index->ndim, index->shape));
    index = x->ndim ? for_elements(index, source, dim)
                    : tn_reshape(index, (tn_dims_list){0});
    return tn__give(
        call, folded("index_reduce", x, dim, index, source,
                     call->value[TN__ARG_INDEX_REDUCE_REDUCE].of.string,
                     tn__call_int(call, TN__ARG_INDEX_REDUCE_INCLUDE_SELF)));
}
