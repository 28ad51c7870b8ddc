/* reduce.c: reductions over axes. The axes are an attribute in old opsets (up
 * to 12 or 17, by operator), and an input later. */
#include <onnx/ops/ops.h>

#include <math.h>

static bool is_float(const tn_tensor *x)
{
    return tn_dtype_is_floating(tn_tensor_dtype(x));
}

/* ---- reductions: all have a list of at least one axis -------------------- */

static tn_tensor *sum(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    return tn_sum(x, .dims = dims, .keepdim = keepdim,
                  .dtype = tn_tensor_dtype(x));
}
static tn_tensor *mean(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    if (is_float(x))
        return tn_mean(x, .dims = dims, .keepdim = keepdim);
    return tn_to_dtype(tn_mean(tn_to_dtype(x, TN_F64), .dims = dims,
                               .keepdim = keepdim),
                       tn_tensor_dtype(x));
}
static tn_tensor *sum_square(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    return sum(tn_mul(x, x), dims, keepdim);
}
static tn_tensor *l1(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    return sum(tn_abs(x), dims, keepdim);
}
static tn_tensor *l2(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    if (is_float(x))
        return tn_vector_norm(x, .dims = dims, .keepdim = keepdim);
    return tn_to_dtype(tn_vector_norm(tn_to_dtype(x, TN_F64), .dims = dims,
                                      .keepdim = keepdim),
                       tn_tensor_dtype(x));
}
static tn_tensor *log_sum(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    return tn_to_dtype(tn_log(sum(x, dims, keepdim)), tn_tensor_dtype(x));
}
static tn_tensor *log_sum_exp(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    const tn_dtype dtype = tn_tensor_dtype(x);
    return tn_to_dtype(tn_logsumexp(is_float(x) ? x : tn_to_dtype(x, TN_F64),
                                    dims, .keepdim = keepdim),
                       dtype);
}
static tn_tensor *product(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    const tn_dtype dtype = tn_tensor_dtype(x);
    for (int i = 0; i < dims.count; i++)
        x = tn_prod(x, .dim = dims.dim[i], .keepdim = true, .dtype = dtype);
    return keepdim ? x : tn_squeeze(x, .dims = dims);
}

/* Returns whether a reduced axis has size 0. */
static bool is_empty(const tn_tensor *x, tn_dims_list dims)
{
    for (int i = 0; i < dims.count; i++)
        if (tn_tensor_size(x, (int)dims.dim[i]) == 0)
            return true;
    return false;
}

/* Returns the result of a reduction without elements: the lowest number of the
 * dtype for a maximum, the highest for a minimum. */
static tn_tensor *limit(tn_tensor *x, tn_dims_list dims, bool keepdim,
                        bool least)
{
    static const struct {
        tn_dtype dtype;
        int64_t least, most;
    } range[] = {{TN_I64, INT64_MIN, INT64_MAX}, {TN_I32, INT32_MIN, INT32_MAX},
                 {TN_I16, INT16_MIN, INT16_MAX}, {TN_I8, INT8_MIN, INT8_MAX},
                 {TN_U8, 0, UINT8_MAX}, {TN_BOOL, 0, 1}};
    const tn_dtype dtype = tn_tensor_dtype(x);
    int64_t size[TN_MAX_NDIM];
    int count = 0;
    for (int i = 0; i < tn_tensor_ndim(x); i++) {
        bool reduced = false;
        for (int j = 0; j < dims.count; j++)
            reduced = reduced || dims.dim[j] == i;
        if (!reduced || keepdim)
            size[count++] = reduced ? 1 : tn_tensor_size(x, i);
    }
    const tn_dims_list shape = tn_dims_from_array(size, count);
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (range[i].dtype == dtype)
            return tn_full(shape, least ? range[i].least : range[i].most,
                           .dtype = dtype, .device = tn_tensor_device(x));
    return tn_full(shape, least ? -INFINITY : INFINITY, .dtype = dtype,
                   .device = tn_tensor_device(x));
}

static tn_tensor *greatest(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    if (is_empty(x, dims))
        return limit(x, dims, keepdim, true);
    if (tn_tensor_dtype(x) == TN_BOOL)
        return tn_any(x, .dims = dims, .keepdim = keepdim);
    return tn_amax(x, .dims = dims, .keepdim = keepdim);
}
static tn_tensor *least(tn_tensor *x, tn_dims_list dims, bool keepdim)
{
    if (is_empty(x, dims))
        return limit(x, dims, keepdim, false);
    if (tn_tensor_dtype(x) == TN_BOOL)
        return tn_all(x, .dims = dims, .keepdim = keepdim);
    return tn_amin(x, .dims = dims, .keepdim = keepdim);
}

/* ---- axes ---------------------------------------------------------------- */

static void reduce(tn__onnx_call *c, tn_dims_list axes, bool keepdim)
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    if (!tn__onnx_axes(c, &axes, ndim))
        return;
    if (axes.count <= 0) {
        axes.count = ndim;
        for (int i = 0; i < ndim; i++)
            axes.dim[i] = i;
    }
    if (ndim == 0) { /* 0 dimensions are treated as one dimension of size 1 */
        c->y[0] = c->node->row->reduce(tn_reshape(x, tn_dims(1)), tn_dims(0),
                                       false);
        return;
    }
    c->y[0] = c->node->row->reduce(x, axes, keepdim);
}

static void reduce_attr(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (tn__onnx_dims(c, 0, -1, &axes))
        reduce(c, axes, tn__onnx_int(c, 1) != 0);
}

static void reduce_input(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (!tn__onnx_dims(c, -1, 1, &axes))
        return;
    if (axes.count <= 0 && tn__onnx_int(c, 1)) {
        /* over no axes: each element alone, so that ReduceLogSum is its logarithm */
        tn_tensor *row = tn_reshape(c->x[0],
                                    tn_dims(1, tn_tensor_numel(c->x[0])));
        c->y[0] = tn_reshape(c->node->row->reduce(row, tn_dims(0), false),
                             tn__onnx_shape(c->x[0]));
        return;
    }
    reduce(c, axes, tn__onnx_int(c, 0) != 0);
}

/* ---- argmax -------------------------------------------------------------- */

static void arg(tn__onnx_call *c, bool greatest_one)
{
    tn_tensor *x = c->x[0];
    const int axis = tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(x));
    const bool keepdim = tn__onnx_int(c, 1), last = tn__onnx_int(c, 2);
    if (axis < 0)
        return;
    if (last)
        x = tn_flip(x, tn_dims(axis));
    tn_tensor *y = greatest_one ? tn_argmax(x, .dim = axis, .keepdim = keepdim)
                                : tn_argmin(x, .dim = axis, .keepdim = keepdim);
    c->y[0] = last ? tn_rsub_scalar(y, tn_tensor_size(x, axis) - 1) : y;
    c->y_type[0] = TN__ONNX_INT64;
}
static void argmax(tn__onnx_call *c) { arg(c, true); }
static void argmin(tn__onnx_call *c) { arg(c, false); }

/* ---- rows ---------------------------------------------------------------- */

#define REDUCE_ATTR(label, last, call)                                         \
    {.name = label, .since = 1, .until = last, .min_in = 1, .max_in = 1,       \
     .max_out = 1, .attributes = "axes:ints keepdims:int=1",                  \
     .run = reduce_attr, .reduce = call, .wraps = true}
#define REDUCE_INPUT(label, first, call)                                       \
    {.name = label, .since = first, .min_in = 1, .max_in = 2, .max_out = 1,    \
     .attributes = "keepdims:int=1 noop_with_empty_axes:int=0",               \
     .run = reduce_input, .reduce = call, .host = 2, .wraps = true}
#define REDUCE(label, call)                                                    \
    REDUCE_ATTR(label, 17, call), REDUCE_INPUT(label, 18, call)

static const tn__onnx_op rows[] = {
    REDUCE_ATTR("ReduceSum", 12, sum),
    REDUCE_INPUT("ReduceSum", 13, sum),
    REDUCE("ReduceMean", mean),
    REDUCE("ReduceMax", greatest),
    REDUCE("ReduceMin", least),
    REDUCE("ReduceProd", product),
    REDUCE("ReduceSumSquare", sum_square),
    REDUCE("ReduceL1", l1),
    REDUCE("ReduceL2", l2),
    REDUCE("ReduceLogSum", log_sum),
    REDUCE("ReduceLogSumExp", log_sum_exp),
    {.name = "ArgMax", .since = 1, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "axis:int=0 keepdims:int=1 select_last_index:int=0",
     .run = argmax},
    {.name = "ArgMin", .since = 1, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "axis:int=0 keepdims:int=1 select_last_index:int=0",
     .run = argmin},
};
const tn__onnx_family tn__onnx_reduce = TN__ONNX_FAMILY(rows);
