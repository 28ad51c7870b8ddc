/* rank.c: order statistics along a dimension (PyTorch's kthvalue, median, mode,
 * quantile and others). The index of the element is found by sorting, which can
 * stop once the element of the wanted rank is known. Autograd does not record
 * the sort. The element is then read by a gather, which gives the gradient. */
#include <math.h>
#include <ops/engine/native.h>

/* Returns x, or a view of shape (1) if x is 0-d. */
static tn_tensor *as_list(tn_tensor *x)
{
    return x->ndim ? x : tn_reshape(x, tn_dims(1));
}

/* Adds the elements of x at `index`, and index itself, to the call. index has
 * size 1 along dim. */
static tn_status give_at(tn__call *call, tn_tensor *x, int dim,
                         tn_tensor *index, bool keepdim)
{
    tn_tensor *value = tn_gather(x, dim, index);
    if (!keepdim || tn__call_tensor(call, 0)->ndim == 0) {
        value = tn_squeeze(value, .dim = dim);
        index = tn_squeeze(index, .dim = dim);
    }
    tn_status status = tn__give(call, value);
    return status < 0 ? status : tn__give(call, index);
}

static tn_status fail_empty(const char *name, int dim)
{
    return tn__fail(TN_ERR_SHAPE, "%s: {input} has no elements along {dim} %d",
                    name, dim);
}

/* ---- k-th smallest, median ----------------------------------------------- */

static tn_tensor *index_of_rank(tn_tensor *x, int64_t rank, int dim)
{
    tn_tensor *fixed = tn_detach(x), *out[2];
    const tn_value value[] = {tn__value_tensor(fixed), tn__value_int(dim),
                              tn__value_bool(false), tn__value_int(rank + 1),
                              tn__value_bool(true)};
    if (!fixed ||
        tn__op_run(&tn__op_table[TN__OP_ID_SORT_FIRST], value, 5, out, 2) < 0)
        return NULL;
    return out[1];
}

tn_status tn__run_kthvalue(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_KTHVALUE_INPUT);
    int64_t k = tn__call_int(call, TN__ARG_KTHVALUE_K);
    int dim = tn__call_dim(call, TN__ARG_KTHVALUE_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    x = as_list(x);
    if (!x)
        return tn_error_code();
    if (k < 1 || k > x->shape[dim])
        return tn__fail(TN_ERR_ARGUMENT, "kthvalue: {k} %lld is outside [1, "
                        "%lld], the size of {dim} %d", (long long)k,
                        (long long)x->shape[dim], dim);
    return give_at(call, x, dim, index_of_rank(x, k - 1, dim),
                   tn__call_int(call, TN__ARG_KTHVALUE_KEEPDIM));
}

/* Returns the index of the median along dim: the lower of two middle elements,
 * or the first NaN if there is one. */
static tn_tensor *median_index(tn_tensor *x, int dim)
{
    tn_tensor *index = index_of_rank(x, (x->shape[dim] - 1) / 2, dim);
    if (!tn_dtype_is_floating(x->dtype))
        return index;
    tn_tensor *nan = tn_any(tn_isnan(x), .dim = dim, .keepdim = true);
    return tn_where(nan, tn_argmax(x, .dim = dim, .keepdim = true),
                    index);
}

static tn_tensor *nanmedian_index(tn_tensor *x, int dim)
{
    if (!tn_dtype_is_floating(x->dtype))
        return median_index(x, dim);
    tn_tensor *count = tn_sum(tn_logical_not(tn_isnan(x)),
                              .dim = dim, .keepdim = true);
    tn_tensor *rank = tn_clamp_min_scalar(
        tn_bitwise_right_shift_scalar(tn_sub_scalar(count, 1), 1), 0);
    return tn_gather(tn_argsort(x, dim, false), dim, rank);
}

static tn_status give_median(tn__call *call,
                             tn_tensor *index_of(tn_tensor *, int))
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MEDIAN_DIM_INPUT);
    int dim = tn__call_dim(call, TN__ARG_MEDIAN_DIM_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    x = as_list(x);
    if (!x)
        return tn_error_code();
    if (x->shape[dim] == 0)
        return fail_empty(call->op->name, dim);
    return give_at(call, x, dim, index_of(x, dim),
                   tn__call_int(call, TN__ARG_MEDIAN_DIM_KEEPDIM));
}

/* Adds the median of all elements to the call. index_of is the function that
 * finds its index in the flattened input. */
static tn_status give_median_of_all(tn__call *call,
                                    tn_tensor *index_of(tn_tensor *, int))
{
    tn_tensor *x = tn_reshape(tn__call_tensor(call, 0), tn_dims(-1));
    if (!x)
        return tn_error_code();
    if (x->numel == 0)
        return fail_empty(call->op->name, 0);
    tn_tensor *fixed = tn_detach(x);
    const tn_value value[] = {
        tn__value_tensor(x),
        tn__value_tensor(fixed ? tn_gather(fixed, 0, index_of(fixed, 0))
                               : NULL)};
    if (!value[1].of.tensor)
        return tn_error_code();
    return tn__give(call, tn__row(TN__OP_ID_SHARED_VALUE, value, 2));
}

tn_status tn__run_median(tn__call *call)
{
    return give_median_of_all(call, median_index);
}

tn_status tn__run_median_dim(tn__call *call)
{
    return give_median(call, median_index);
}

tn_status tn__run_nanmedian(tn__call *call)
{
    return give_median_of_all(call, nanmedian_index);
}

tn_status tn__run_nanmedian_dim(tn__call *call)
{
    return give_median(call, nanmedian_index);
}

/* ---- mode ---------------------------------------------------------------- */

/* Returns the index of the most frequent value along dim. The elements are
 * sorted, and the elements of each run of equal elements are numbered from 0.
 * The largest number is at the end of the longest run. Of several runs of this
 * length the first is chosen, which has the smallest value. */
static tn_tensor *mode_index(tn_tensor *x, int dim)
{
    tn_tensor *order = NULL, *where = NULL;
    int64_t size = x->shape[dim];
    tn_tensor *sorted = tn_sort(tn_detach(x), dim, false, &order);
    tn_tensor *changes = tn_ne(tn_narrow(sorted, dim, 1, size - 1),
                               tn_narrow(sorted, dim, 0, size - 1));
    tn_dims_list along = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        along.dim[d] = d == dim ? size - 1 : 1;
    tn_tensor *number = tn_reshape(
        tn_arange(1, size, 1, .dtype = TN_I64, .device = x->storage->device),
        along);
    tn_tensor *start = tn_mul(changes, number);
    start = tn_cummax(start, dim, &where);
    tn_tensor *within = tn_sub(number, start);
    tn_tensor *first = tn_zeros_like(tn_narrow(order, dim, 0, 1));
    tn_tensor *const parts[] = {first, within};
    tn_tensor *end = tn_argmax(tn_cat(parts, 2, dim), .dim = dim,
                               .keepdim = true);
    return tn_gather(order, dim, end);
}

tn_status tn__run_mode(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MODE_INPUT);
    int dim = tn__call_dim(call, TN__ARG_MODE_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    x = as_list(x);
    if (!x)
        return tn_error_code();
    if (x->shape[dim] == 0)
        return fail_empty("mode", dim);
    return give_at(call, x, dim, mode_index(x, dim),
                   tn__call_int(call, TN__ARG_MODE_KEEPDIM));
}

/* ---- quantiles ---- */

enum { LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT };

static int interpolation_of(const tn__call *call)
{
    static const char *const names[] = {"linear", "lower", "higher", "nearest",
                                        "midpoint"};
    const char *name =
        call->value[TN__ARG_QUANTILE_INTERPOLATION].of.string;
    for (int i = 0; i <= MIDPOINT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return tn__fail(TN_ERR_ARGUMENT, "%s: {interpolation} \"%s\" is none of "
                    "\"linear\", \"lower\", \"higher\", \"nearest\" and "
                    "\"midpoint\"", call->op->name, name);
}

/* Returns the argument q as a tensor of the dtype of x, or NULL on failure. */
static tn_tensor *parts_of(const tn__call *call, const tn_tensor *x)
{
    tn_tensor *q = tn__call_tensor(call, TN__ARG_QUANTILE_Q);
    const char *name = call->op->name;
    char text[TN__SHAPE_TEXT];
    if (q && q->ndim > 1) {
        tn__fail(TN_ERR_SHAPE, "%s: {q} has shape %s; expected one number or "
                 "a 1-d tensor", name, tn__shape_text(text, q->ndim, q->shape));
        return NULL;
    }
    if (q) {
        const tn_value value[] = {tn__value_tensor(q)};
        return tn__check_same_dtype(name, x, "input", q, "q") < 0
                   ? NULL
                   : tn__row(TN__OP_ID_QUANTILE_PARTS, value, 1);
    }
    double part = tn__call_float(call, TN__ARG_QUANTILE_Q);
    if (!(part >= 0 && part <= 1)) {
        tn__fail(TN_ERR_ARGUMENT, "%s: {q} %g is outside [0, 1]", name, part);
        return NULL;
    }
    return tn_full((tn_dims_list){0}, part, .dtype = x->dtype,
                   .device = x->storage->device);
}

/* Returns the rank of each quantile q in each row of the sorted last dimension.
 * A rank need not be an integer. NaN is last in the order. In a row with NaN,
 * all quantiles have the last rank, unless ignore_nan is true. */
static tn_tensor *ranks_of(tn_tensor *x, tn_tensor *q, bool ignore_nan)
{
    int last = x->ndim - 1;
    tn_tensor *nan = tn_isnan(x);
    if (ignore_nan) {
        tn_tensor *count = tn_sum(tn_logical_not(nan), .dim = last,
                                  .keepdim = true);
        count = tn_clamp_min_scalar(tn_sub_scalar(count, 1), 0);
        return tn_mul(q, tn_to_dtype(count, x->dtype));
    }
    double top = (double)(x->shape[last] - 1);
    tn_tensor *any = tn_any(nan, .dim = last, .keepdim = true);
    return tn_masked_fill_scalar(tn_mul_scalar(q, top), any, top);
}

/* A tensor x from which elements are read by their rank along the last
 * dimension. */
typedef struct ranked {
    tn_tensor *sorted; /* x sorted along its last dimension. NULL if each row is
                          read at one rank only: at `known`, or at the last rank
                          if the row has NaN. */
    tn_tensor *x, *nan, *top; /* x itself, a mask of the rows that have NaN, and
                                 the index of the element with the last rank in
                                 each row */
    double known;      /* the single rank, if sorted is NULL */
} ranked;

static tn_tensor *at_rank(const ranked *r, tn_tensor *rank, double known)
{
    int last = r->x->ndim - 1;
    if (r->sorted)
        return tn_gather(r->sorted, last, tn_to_dtype(rank, TN_I64));
    return tn_gather(r->x, last,
                     tn_where(r->nan, r->top,
                              index_of_rank(r->x, (int64_t)known, last)));
}

/* Returns the elements at these ranks. For a rank between two integers, the
 * elements at both are interpolated as `how` says. */
static tn_tensor *between(const ranked *r, tn_tensor *rank, int how)
{
    const tn_tensor *x = r->x;
    tn_dims_list size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim - 1; d++)
        size.dim[d] = x->shape[d];
    size.dim[x->ndim - 1] = rank->shape[rank->ndim - 1];
    rank = tn_expand(rank, size);
    tn_tensor *low = tn_floor(rank);
    if (how == NEAREST)
        return at_rank(r, tn_round(rank), rint(r->known));
    if (how == HIGHER)
        return at_rank(r, tn_ceil(rank), ceil(r->known));
    tn_tensor *below = at_rank(r, low, floor(r->known));
    if (how == LOWER)
        return below;
    tn_tensor *above = at_rank(r, tn_ceil(rank), ceil(r->known));
    return how == MIDPOINT ? tn_lerp_scalar(below, above, 0.5)
                           : tn_lerp(below, above, tn_sub(rank, low));
}

/* Returns the quantiles in the shape of the result. In `out` they are in the
 * last dimension. If q is a list, they become the first dimension. If q is a
 * number, this dimension is dropped. keepdim restores dim with size 1. */
static tn_tensor *arranged(tn_tensor *out, const tn__call *call,
                           const tn_tensor *q, int dim)
{
    const tn_tensor *x = tn__call_tensor(call, TN__ARG_QUANTILE_INPUT);
    bool all = !tn__call_has(call, TN__ARG_QUANTILE_DIM);
    int last = out ? out->ndim - 1 : 0;
    out = q->ndim ? tn_movedim(out, tn_dims(last), tn_dims(0))
                  : tn_select(out, last, 0);
    if (!out || !tn__call_int(call, TN__ARG_QUANTILE_KEEPDIM) || x->ndim == 0)
        return out;
    if (!all)
        return tn_unsqueeze(out, dim + q->ndim);
    tn_dims_list ones = {x->ndim + q->ndim, {0}};
    for (int d = 0; d < ones.count; d++)
        ones.dim[d] = d == 0 && q->ndim ? q->shape[0] : 1;
    return tn_reshape(out, ones);
}

static tn_status give_quantile(tn__call *call, bool ignore_nan)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_QUANTILE_INPUT);
    if (x->dtype != TN_F32 && x->dtype != TN_F64)
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; convert it to "
                        "float32 or float64 with tn_to_dtype", call->op->name,
                        tn_dtype_name(x->dtype));
    int how = interpolation_of(call);
    tn_tensor *q = how < 0 ? NULL : parts_of(call, x);
    if (!q)
        return tn_error_code();
    int dim = 0;
    if (tn__call_has(call, TN__ARG_QUANTILE_DIM)) {
        dim = tn__call_dim(call, TN__ARG_QUANTILE_DIM, x->ndim);
        if (dim < 0)
            return TN_ERR_ARGUMENT;
        x = tn_movedim(as_list(x), tn_dims(dim), tn_dims(-1));
    } else {
        x = tn_reshape(x, tn_dims(-1));
    }
    if (!x)
        return tn_error_code();
    if (x->shape[x->ndim - 1] == 0)
        return fail_empty(call->op->name, dim);
    tn_tensor *rank = ranks_of(x, tn_reshape(q, tn_dims(-1)), ignore_nan);
    ranked r = {.x = x};
    int last = x->ndim - 1;
    tn_tensor *order = NULL;
    if (ignore_nan || tn__call_tensor(call, TN__ARG_QUANTILE_Q)) {
        r.sorted = tn_sort(x, last, false, &order);
    } else { /* computes the rank q * (size - 1) in the dtype of x, as ranks_of
                does */
        int64_t top = x->shape[last] - 1;
        double part = tn__call_float(call, TN__ARG_QUANTILE_Q);
        r.known = x->dtype == TN_F64 ? part * (double)top
                                     : (double)((float)part * (float)top);
        r.nan = tn_any(tn_isnan(x), .dim = last, .keepdim = true);
        r.top = index_of_rank(x, top, last);
    }
    if (!rank || (!r.sorted && !r.top))
        return tn_error_code();
    return tn__give(call, arranged(between(&r, rank, how), call, q, dim));
}

tn_status tn__run_quantile(tn__call *call)
{
    return give_quantile(call, false);
}

tn_status tn__run_nanquantile(tn__call *call)
{
    return give_quantile(call, true);
}
