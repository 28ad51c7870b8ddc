/* scan.c: prefix sums (PyTorch's cumsum, cumprod, cummax and others) and
 * sorting (sort, argsort, topk) along a dimension, by the device's primitives
 * scan and sort. The primitives work along the last dimension, so they get a
 * view in which dim is the last dimension. */
#include <base/memory.h>
#include <device/device.h>
#include <ops/engine/native.h>
#include <device/work.h>

/* Describes x for the device with dimension dim moved to the end. */
static tn_strided dim_last(const tn_tensor *x, int dim)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = x->ndim};
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != dim)
            view.stride[n++] = x->stride[d];
    if (x->ndim)
        view.stride[n] = x->stride[dim];
    else
        view.ndim = 1; /* a 0-d tensor becomes one row of one element */
    return view;
}

static uint32_t extents(const tn_tensor *x, int dim, int64_t *extent)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != dim)
            extent[n++] = x->shape[d];
    extent[n++] = x->ndim ? x->shape[dim] : 1;
    return (uint32_t)n;
}

/* Makes an output with the shape of x, except that it has `keep` elements along
 * dim, and adds it to the call. */
static tn_tensor *output(tn__call *call, const tn_tensor *x, tn_dtype dtype,
                         int dim, int64_t keep)
{
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == dim ? keep : x->shape[d];
    tn_tensor *out = tn__tensor_new(x->storage->device, dtype, x->ndim, shape,
                                    call->op->name);
    if (out)
        call->out[call->out_count++] = out;
    return out;
}

/* ---- scans --------------------------------------------------------------- */

static tn_status scan(tn__call *call, uint32_t kind, bool with_index)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    int dim = tn__call_dim(call, 1, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t size = x->ndim ? x->shape[dim] : 1;
    tn_tensor *out = output(call, x, x->dtype, dim, size);
    tn_tensor *index =
        out && with_index ? output(call, x, TN_I64, dim, size) : NULL;
    if (!out || (with_index && !index))
        return tn_error_code();
    if (x->numel == 0)
        return TN_OK;
    tn_scan_args args = {.size = sizeof args, .kind = kind,
                         .in = dim_last(x, dim), .out = dim_last(out, dim)};
    if (index)
        args.out_index = dim_last(index, dim);
    args.ndim = extents(x, dim, args.extent);
    return tn__device_work(x->storage->device, TN__WORK_SCAN, &args,
                           call->op->name, NULL, NULL);
}

tn_status tn__run_scan_sum(tn__call *call)
{
    return scan(call, TN_REDUCE_SUM, false);
}

tn_status tn__run_scan_prod(tn__call *call)
{
    return scan(call, TN_REDUCE_PROD, false);
}

tn_status tn__run_cummax(tn__call *call)
{
    return scan(call, TN_REDUCE_MAX, true);
}

tn_status tn__run_cummin(tn__call *call)
{
    return scan(call, TN_REDUCE_MIN, true);
}

/* Runs cumsum and cumprod. Without an argument dtype, integers and bools are
 * converted to int64 first. */
static tn_status cumulate(tn__call *call, int row)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CUMSUM_INPUT);
    tn_dtype dtype = tn__call_has(call, TN__ARG_CUMSUM_DTYPE)
                         ? (tn_dtype)tn__call_int(call, TN__ARG_CUMSUM_DTYPE)
                     : tn_dtype_is_floating(x->dtype) ? x->dtype
                                                      : TN_I64;
    if (dtype != x->dtype)
        x = tn_to_dtype(x, dtype);
    if (!x)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(x),
                              call->value[TN__ARG_CUMSUM_DIM]};
    return tn__give(call, tn__row(row, value, 2));
}

tn_status tn__run_cumsum(tn__call *call)
{
    return cumulate(call, TN__OP_ID_SCAN_SUM);
}

tn_status tn__run_cumprod(tn__call *call)
{
    return cumulate(call, TN__OP_ID_SCAN_PROD);
}

/* ---- sorting ------------------------------------------------------------- */

/* Replaces output o of the call by its last element along dim. The sort has not
 * set the other elements, so callers must not see them. */
static tn_status leave_last(tn__call *call, int o, int dim)
{
    tn_tensor *all = call->out[o];
    int64_t shape[TN_MAX_NDIM], last = all->shape[dim] - 1;
    for (int d = 0; d < all->ndim; d++)
        shape[d] = d == dim ? 1 : all->shape[d];
    tn_tensor *one =
        tn__tensor_view(all, all->dtype, all->ndim, shape, all->stride,
                        all->offset + last * all->stride[dim]);
    if (!one)
        return TN_ERR_MEMORY;
    call->out[o] = one;
    tn__unref(all);
    return TN_OK;
}

tn_status tn__run_sort_first(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SORT_FIRST_INPUT);
    int dim = tn__call_dim(call, TN__ARG_SORT_FIRST_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t size = x->ndim ? x->shape[dim] : 1;
    int64_t keep = tn__call_int(call, TN__ARG_SORT_FIRST_KEEP);
    if (keep < 0)
        keep = size;
    if (keep > size)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {k} is %lld; expected at most "
                        "%lld, the size of the dimension", tn__op_outer("sort"),
                        (long long)keep, (long long)size);
    tn_tensor *out = output(call, x, x->dtype, dim, keep);
    tn_tensor *index = out ? output(call, x, TN_I64, dim, keep) : NULL;
    if (!index)
        return tn_error_code();
    bool down = tn__call_int(call, TN__ARG_SORT_FIRST_DESCENDING) != 0;
    bool last = tn__call_int(call, TN__ARG_SORT_FIRST_LAST) != 0;
    if (x->numel == 0 || keep == 0) {
        tn_status status = TN_OK;
        for (int o = 0; o < 2 && status >= 0 && last && keep; o++)
            status = leave_last(call, o, dim);
        return status;
    }
    tn_sort_args args = {.size = sizeof args, .keep = keep,
                         .flags = (down ? TN_SORT_DESCENDING : 0u) |
                                  (last ? TN_SORT_LAST : 0u),
                         .in = dim_last(x, dim), .out = dim_last(out, dim),
                         .out_index = dim_last(index, dim)};
    args.ndim = extents(x, dim, args.extent);
    tn_status status =
        tn__device_work(x->storage->device, TN__WORK_SORT, &args,
                        tn__op_outer("sort"), NULL, NULL);
    for (int o = 0; o < 2 && status >= 0 && last && x->ndim; o++)
        status = leave_last(call, o, dim);
    return status;
}

/* Stores the first `keep` elements of x in sorted order along dim, and their
 * indices, in out[]. A keep of -1 means all elements. */
static tn_status first_of(tn_tensor *x, int64_t dim, bool descending,
                          int64_t keep, tn_tensor **out)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              tn__value_bool(descending),
                              tn__value_int(keep), tn__value_bool(false)};
    int count = tn__op_run(&tn__op_table[TN__OP_ID_SORT_FIRST], value, 5, out,
                           2);
    return count < 0 ? count : TN_OK;
}

static tn_status give_both(tn__call *call, tn_status status,
                           tn_tensor *const *out)
{
    if (status >= 0)
        status = tn__give(call, out[0]);
    return status < 0 ? status : tn__give(call, out[1]);
}

tn_status tn__run_sort(tn__call *call)
{
    tn_tensor *out[2];
    return give_both(call,
                     first_of(tn__call_tensor(call, TN__ARG_SORT_INPUT),
                              tn__call_int(call, TN__ARG_SORT_DIM),
                              tn__call_int(call, TN__ARG_SORT_DESCENDING),
                              -1, out),
                     out);
}

tn_status tn__run_argsort(tn__call *call)
{
    tn_tensor *out[2];
    tn_status status =
        first_of(tn__call_tensor(call, TN__ARG_ARGSORT_INPUT),
                 tn__call_int(call, TN__ARG_ARGSORT_DIM),
                 tn__call_int(call, TN__ARG_ARGSORT_DESCENDING), -1, out);
    return status < 0 ? status : tn__give(call, out[1]);
}

tn_status tn__run_msort(tn__call *call)
{
    tn_tensor *out[2];
    tn_status status = first_of(tn__call_tensor(call, 0), 0, false, -1, out);
    return status < 0 ? status : tn__give(call, out[0]);
}

tn_status tn__run_topk(tn__call *call)
{
    int64_t k = tn__call_int(call, TN__ARG_TOPK_K);
    tn_tensor *out[2];
    if (k < 0)
        return tn__fail(TN_ERR_ARGUMENT, "topk: {k} is %lld; expected at least "
                        "0", (long long)k);
    return give_both(call,
                     first_of(tn__call_tensor(call, TN__ARG_TOPK_INPUT),
                              tn__call_int(call, TN__ARG_TOPK_DIM),
                              tn__call_int(call, TN__ARG_TOPK_LARGEST), k,
                              out),
                     out);
}
