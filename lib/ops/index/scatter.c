/* scatter.c: operators that write elements at indices, or reduce them into the
 * elements there (PyTorch's scatter, scatter_add, scatter_reduce). The device
 * runs them as its primitive `scatter`. */
#include <device/work.h>
#include <ops/engine/late.h>
#include <ops/index/index.h>

static tn_strided strided(const tn_tensor *x)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        view.stride[d] = x->stride[d];
    return view;
}

/* Reports an index out of range. The destination has no elements, so every
 * index is. The message names the first index, since an expanded index tensor
 * may have more elements than can be searched. */
static tn_status fail_no_place(const char *name, const tn_tensor *index)
{
    tn_tensor *first = tn__tensor_view(index, index->dtype, 0, NULL, NULL,
                                       index->offset);
    tn_fault fault = {.size = sizeof fault,
                      .index = first ? tn_item_int(first) : 0};
    tn__unref(first);
    return tn__fail_index(name, "index", &fault, index->ndim,
                                    index->shape);
}

tn_status tn__scatter_into(const char *name, tn_tensor *dst, int dim,
                           tn_tensor *index, tn_tensor *src, uint32_t reduce)
{
    if (!src)
        return tn_error_code();
    tn_status status = tn__index_check_dtype(name, "index", index);
    if (status < 0)
        return status;
    if (index->dtype != TN_I64) /* the device's primitive scatter accepts only
                                 * int64 indices */
        index = tn_to_dtype(index, TN_I64);
    if (!index)
        return tn_error_code();
    dst = tn__at_least_1d(dst);
    index = tn__at_least_1d(index);
    if (!dst || !index)
        return tn_error_code();
    status = tn__index_check_shape(name, index, "input", dst, dim);
    if (status >= 0) {
        status = tn__check_same_dtype(name, dst, "input", src, "src");
        src = tn__at_least_1d(src);
        if (status >= 0)
            status = src ? tn__index_check_shape(name, index, "src", src, -1)
                         : tn_error_code();
    }
    if (status >= 0 && index->numel && dst->shape[dim] == 0)
        status = fail_no_place(name, index);
    if (status >= 0 && index->numel) {
        tn_scatter_args args = {.size = sizeof args,
                                .ndim = index->ndim, .dim = (uint32_t)dim,
                                .reduce = reduce,
                                .dst_extent = dst->shape[dim],
                                .dst = strided(dst), .index = strided(index),
                                .src = strided(src)};
        for (int d = 0; d < index->ndim; d++)
            args.extent[d] = index->shape[d];
        tn_fault fault = {.size = sizeof fault};
        tn__deferred_error late;
        tn_device *device = dst->storage->device;
        status = tn__device_work(
            device, TN__WORK_SCATTER, &args, name,
            device->synchronous ? NULL : tn__late_of_index(&late, index),
            &fault);
        if (status == TN_ERR_INDEX)
            status = tn__fail_index(name, "index", &fault, index->ndim,
                                    index->shape);
    }
    return status;
}

/* Returns a contiguous copy of x, into which elements are then scattered. The
 * caller owns one reference. */
static tn_tensor *copy_of(tn_tensor *x, const char *name)
{
    tn_tensor *copy = tn__tensor_new(x->storage->device, x->dtype, x->ndim,
                                     x->shape, name);
    if (copy && tn__copy_for_update(copy, x, name) < 0) {
        tn__unref(copy);
        return NULL;
    }
    return copy;
}

/* Returns what a call of scatter scatters: a tensor, or a number as an element
 * that is repeated for each index. */
static tn_tensor *source_of(const tn__call *call, const tn_tensor *x,
                            tn_tensor *index)
{
    const tn_value *src = &call->value[TN__ARG_SCATTER_SRC];
    if (src->kind == TN_VALUE_TENSOR)
        return src->of.tensor;
    if (tn__check_fits(call->op->name, "src", src, x->dtype) < 0)
        return NULL;
    const tn_value value[] = {*src, tn__value_dtype(x->dtype),
                              tn__value_device(x->storage->device)};
    return tn_expand_as(tn__row(TN__OP_ID_SCALAR_TENSOR, value, 3), index);
}

/* Runs scatter and scatter_add, which have the same arguments. */
static tn_status run_scatter(tn__call *call, uint32_t reduce)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SCATTER_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_SCATTER_INDEX);
    const char *name = call->op->name;
    int dim = tn__call_dim(call, TN__ARG_SCATTER_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_tensor *out = copy_of(x, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    tn_status status =
        !scope ? TN_ERR_MEMORY
               : tn__scatter_into(name, out, dim, index,
                                  source_of(call, x, index), reduce);
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_scatter(tn__call *call)
{
    if (!tn__call_has(call, TN__ARG_SCATTER_REDUCE))
        return run_scatter(call, TN_SCATTER_SET);
    const char *reduce = call->value[TN__ARG_SCATTER_REDUCE].of.string;
    if (strcmp(reduce, "add") == 0)
        return run_scatter(call, TN_SCATTER_ADD);
    if (strcmp(reduce, "multiply") == 0)
        return run_scatter(call, TN_SCATTER_MUL);
    return tn__fail(TN_ERR_ARGUMENT, "scatter: {reduce} \"%s\" is neither "
                    "\"add\" nor \"multiply\"", reduce);
}

tn_status tn__run_scatter_add(tn__call *call)
{
    return run_scatter(call, TN_SCATTER_ADD);
}

tn_status tn__run_scatter_fold(tn__call *call)
{
    static const struct {
        const char *name;
        uint32_t reduce;
    } folds[] = {{"prod", TN_SCATTER_MUL},
                 {"amin", TN_SCATTER_MIN},
                 {"amax", TN_SCATTER_MAX}};
    const char *reduce = call->value[TN__ARG_SCATTER_FOLD_REDUCE].of.string;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (strcmp(reduce, folds[i].name) == 0)
            return run_scatter(call, folds[i].reduce);
    return tn__fail(TN_ERR_ARGUMENT, "scatter_fold: {reduce} is \"%s\"; "
                    "expected \"prod\", \"amin\" or \"amax\"", reduce);
}
