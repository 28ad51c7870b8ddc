/* composite.c: various composites, operators composed of others (PyTorch's
 * clamp, dropout, stack, index_add, take, one_hot and others). The scope that
 * call.c opens around a composite owns the intermediate tensors. The gradients
 * are those of the operators that are called. */
#include <base/memory.h>
#include <float.h>
#include <math.h>
#include <ops/engine/native.h>

static tn_tensor *alias(tn_tensor *x)
{
    tn_value value[] = {tn__value_tensor(x)};
    return tn__row(TN__OP_ID_ALIAS, value, 1);
}

tn_status tn__run_clamp(tn__call *call)
{
    const tn_value *value = call->value;
    bool low = tn__call_has(call, TN__ARG_CLAMP_MIN);
    bool high = tn__call_has(call, TN__ARG_CLAMP_MAX);
    if (!low && !high)
        return tn__fail(TN_ERR_ARGUMENT,
                        "clamp: neither {min} nor {max} is given");
    tn_value x[] = {value[TN__ARG_CLAMP_INPUT], value[TN__ARG_CLAMP_MIN]};
    tn_tensor *out = x[0].of.tensor;
    if (low)
        out = tn__row(TN__OP_ID_CLAMP_MIN, x, 2);
    if (high && out) {
        x[0] = tn__value_tensor(out);
        x[1] = value[TN__ARG_CLAMP_MAX];
        out = tn__row(TN__OP_ID_CLAMP_MAX, x, 2);
    }
    return tn__give(call, out);
}

tn_status tn__run_dropout(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DROPOUT_INPUT);
    double p = tn__call_float(call, TN__ARG_DROPOUT_P);
    if (!(p >= 0 && p <= 1))
        return tn__fail(TN_ERR_ARGUMENT,
                        "dropout: {p} %g is outside [0, 1]", p);
    if (!tn__call_int(call, TN__ARG_DROPOUT_TRAINING) || p == 0)
        return tn__give(call, alias(x));
    if (p == 1) /* the factor 1 / (1 - p) would be infinite */
        return tn__give(call, tn_mul_scalar(x, 0));
    tn_value value[] = {tn__value_tensor(x), tn__value_float(p)};
    return tn__give(call, tn__row(TN__OP_ID_DROPOUT_DRAW, value, 2));
}

tn_status tn__run_stack(tn__call *call)
{
    tn_tensor *const *x = call->value[TN__ARG_STACK_TENSORS].of.tensors;
    int count = call->value[TN__ARG_STACK_TENSORS].count;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "stack: {tensors} is an empty list; "
                        "expected at least one tensor");
    int dim = tn__call_dim(call, TN__ARG_STACK_DIM, x[0]->ndim + 1);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_tensor **part = tn__alloc_many(count, sizeof *part);
    if (!part)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (int k = 0; k < count && status >= 0; k++) {
        if (!tn__shape_equal(x[0]->ndim, x[0]->shape, x[k]->ndim, x[k]->shape))
            status = tn__fail(TN_ERR_SHAPE, "stack: {tensors[%d]} %s does not "
                              "have the shape of {tensors[0]} %s", k,
                              tn__shape_text(b, x[k]->ndim, x[k]->shape),
                              tn__shape_text(a, x[0]->ndim, x[0]->shape));
        else if (!(part[k] = tn_unsqueeze(x[k], dim)))
            status = tn_error_code();
    }
    if (status >= 0) {
        tn_value value[] = {tn__value_tensors(part, count),
                            tn__value_int(dim)};
        status = tn__give(call, tn__row(TN__OP_ID_CAT, value, 2));
    }
    tn__free(part);
    return status;
}

tn_status tn__run_index_add(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_ADD_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_INDEX_ADD_INDEX);
    tn_tensor *source = tn__call_tensor(call, TN__ARG_INDEX_ADD_SOURCE);
    int dim = tn__call_dim(call, TN__ARG_INDEX_ADD_DIM, x->ndim);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (index->ndim > 1 || source->ndim != x->ndim ||
        (x->ndim && source->shape[dim] != index->numel))
        return tn__fail(TN_ERR_SHAPE, "index_add: {source} has shape %s; "
                        "expected as many dimensions as {input} has, and in "
                        "{dim} %d one element for each of the 1-d {index}, "
                        "which has shape %s",
                        tn__shape_text(a, source->ndim, source->shape), dim,
                        tn__shape_text(b, index->ndim, index->shape));
    tn_dims_list along = {x->ndim, {0}}, size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++) {
        along.dim[d] = d == dim ? -1 : 1;
        size.dim[d] = source->shape[d];
    }
    double alpha = tn__call_float(call, TN__ARG_INDEX_ADD_ALPHA);
    if (alpha != 1) {
        tn_value value[] = {tn__value_tensor(source),
                            call->value[TN__ARG_INDEX_ADD_ALPHA]};
        source = tn__row(TN__OP_ID_MUL, value, 2);
    }
    tn_tensor *all = tn_expand(tn_reshape(index, along), size);
    return tn__give(call, tn_scatter_add(x, dim, all, source));
}

/* Expands index, a 1-d tensor that names slices of x along dim, to one index
 * for each element of these slices. */
static tn_tensor *for_elements(tn_tensor *index, const tn_tensor *x, int dim)
{
    tn_dims_list along = {x->ndim, {0}}, size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++) {
        along.dim[d] = d == dim ? -1 : 1;
        size.dim[d] = d == dim ? index->numel : x->shape[d];
    }
    return tn_expand(tn_reshape(index, along), size);
}

static tn_status check_list(const char *name, const tn_tensor *index)
{
    char text[TN__SHAPE_TEXT];
    if (index->ndim <= 1)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {index} has shape %s; expected a 1-d "
                    "tensor", name,
                    tn__shape_text(text, index->ndim, index->shape));
}

tn_status tn__run_index_copy(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_COPY_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_INDEX_COPY_INDEX);
    tn_tensor *source = tn__call_tensor(call, TN__ARG_INDEX_COPY_SOURCE);
    int dim = tn__call_dim(call, TN__ARG_INDEX_COPY_DIM, x->ndim);
    tn_status status =
        dim < 0 ? TN_ERR_ARGUMENT : check_list("index_copy", index);
    if (status < 0)
        return status;
    tn_tensor *all = for_elements(index, x, dim);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (all && x->ndim && !tn__shape_equal(all->ndim, all->shape, source->ndim,
                                           source->shape))
        return tn__fail(TN_ERR_SHAPE, "index_copy: {source} has shape %s; "
                        "expected %s, the shape of what {index} selects from "
                        "{input}",
                        tn__shape_text(a, source->ndim, source->shape),
                        tn__shape_text(b, all->ndim, all->shape));
    if (x->ndim == 0)
        source = tn_reshape(source, (tn_dims_list){0});
    return tn__give(call, tn_scatter(x, dim, all, source));
}

tn_status tn__run_take(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TAKE_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_TAKE_INDEX);
    tn_dims_list shape = {index->ndim, {0}};
    for (int d = 0; d < index->ndim; d++)
        shape.dim[d] = index->shape[d];
    tn__call_set_indices(call, TN__ARG_TAKE_INDEX, -x->numel, x->numel);
    tn_tensor *list = tn_reshape(tn__from_front(index, x->numel), tn_dims(-1));
    tn_tensor *flat = tn_reshape(x, tn_dims(-1));
    return tn__give(call, tn_reshape(tn_index_select(flat, 0, list), shape));
}

tn_status tn__run_take_along_dim(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TAKE_ALONG_DIM_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_TAKE_ALONG_DIM_INDICES);
    if (!tn__call_has(call, TN__ARG_TAKE_ALONG_DIM_DIM)) {
        tn__call_set_indices(call, TN__ARG_TAKE_ALONG_DIM_INDICES, -x->numel,
                             x->numel);
        return tn__give(
            call, tn_gather(tn_reshape(x, tn_dims(-1)), 0,
                            tn_reshape(tn__from_front(index, x->numel),
                                       tn_dims(-1))));
    }
    int dim = tn__call_dim(call, TN__ARG_TAKE_ALONG_DIM_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_dims_list own = {x->ndim, {0}}, other = {x->ndim, {0}};
    bool fits = index->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++) {
        int64_t m = x->shape[d], n = index->shape[d];
        fits = d == dim || m == n || m == 1 || n == 1;
        own.dim[d] = d == dim || m != 1 ? m : n;
        other.dim[d] = d == dim || n != 1 ? n : m;
    }
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "take_along_dim: {indices} has shape "
                        "%s, which does not broadcast with {input} %s in the "
                        "dimensions other than {dim} %d",
                        tn__shape_text(a, index->ndim, index->shape),
                        tn__shape_text(b, x->ndim, x->shape), dim);
    int64_t size = x->ndim ? x->shape[dim] : 1;
    tn__call_set_indices(call, TN__ARG_TAKE_ALONG_DIM_INDICES, -size, size);
    return tn__give(
        call, tn_gather(tn_expand(x, own), dim,
                        tn_expand(x->ndim ? tn__from_front(index, size) : index,
                                  other)));
}

tn_status tn__run_one_hot(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_ONE_HOT_INPUT);
    int64_t classes = tn__call_int(call, TN__ARG_ONE_HOT_NUM_CLASSES);
    if (x->dtype != TN_I64 && x->dtype != TN_I32)
        return tn__fail(TN_ERR_DTYPE, "one_hot: {input} is %s; convert it to "
                        "int64 with tn_to_dtype", tn_dtype_name(x->dtype));
    if (x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "one_hot: the result would have %d "
                        "dimensions; expected at most %d", x->ndim + 1,
                        TN_MAX_NDIM);
    if (x->numel == 0 && classes <= 0)
        return tn__fail(TN_ERR_ARGUMENT, "one_hot: {num_classes} cannot be "
                        "determined from an empty tensor: give a number above "
                        "0");
    if (x->numel) {
        if (classes < 0)
            classes = tn__size_add(tn_item_int(tn_max(x)), 1);
        tn_status status = tn__check_indices("one_hot", "input", -1, x, 0,
                                             classes);
        if (status < 0)
            return status;
    }
    tn_value value[] = {tn__value_tensor(x), tn__value_int(classes)};
    return tn__give(call, tn__row(TN__OP_ID_ONE_HOT_DRAW, value, 2));
}

/* ---- round and nan_to_num ------------------------------------------------ */

tn_status tn__run_round_decimals(tn__call *call)
{
    int64_t decimals = tn__call_int(call, TN__ARG_ROUND_DECIMALS_DECIMALS);
    double scale = pow(10, fabs((double)decimals));
    tn_value value[] = {call->value[TN__ARG_ROUND_DECIMALS_INPUT],
                        tn__value_float(decimals < 0 ? 1 : scale),
                        tn__value_float(decimals < 0 ? scale : 1)};
    return tn__give(call, tn__row(TN__OP_ID_ROUND_SCALED, value, 3));
}

/* Returns the largest finite number of a floating-point dtype. */
static double max_finite(tn_dtype dtype)
{
    return dtype == TN_F64   ? DBL_MAX
           : dtype == TN_F32 ? FLT_MAX
           : dtype == TN_F16 ? 65504
                             : 0x1.fep127; /* that of bfloat16 */
}

tn_status tn__run_nan_to_num(tn__call *call)
{
    enum {
        if_nan = TN__ARG_NAN_TO_NUM_NAN,
        posinf = TN__ARG_NAN_TO_NUM_POSINF,
        neginf = TN__ARG_NAN_TO_NUM_NEGINF
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NAN_TO_NUM_INPUT);
    if (!tn_dtype_is_floating(x->dtype))
        return tn__give(call, tn_clone(x));
    double most = max_finite(x->dtype);
    tn_value value[] = {
        tn__value_tensor(x), tn__value_float(tn__call_float(call, if_nan)),
        tn__value_float(tn__call_has(call, posinf)
                            ? tn__call_float(call, posinf) : most),
        tn__value_float(tn__call_has(call, neginf)
                            ? tn__call_float(call, neginf) : -most)};
    return tn__give(call, tn__row(TN__OP_ID_NAN_TO_NUM_BY, value, 4));
}
