/* index.c: operators that read or write elements by index. */
#include <onnx/ops/ops.h>

#include <string.h>

/* Adds the size of the dimension to negative indices. An index that is out of
 * range stays as it is, so that the error of the operator that uses it names
 * the index that the model computed. */
static tn_tensor *wrap_index(tn_tensor *index, int64_t size)
{
    static const tn_op *wrap;
    if (!tn_op_define_once("onnx_wrap_index(i; size: i64) = "
                           "where(i < 0 && i >= -size, i + size, i)",
                           &wrap))
        return NULL;
    tn_tensor *i = tn_to_dtype(index, TN_I64);
    return tn_op_apply(wrap, &i, (double[]){(double)size});
}

static int axis_of(tn__onnx_call *c, int attr)
{
    return tn__onnx_axis(c, tn__onnx_int(c, attr), tn_tensor_ndim(c->x[0]));
}

/* ---- gathering ----------------------------------------------------------- */

/* Gathers with a constant index of one element: a view. */
static void gather_one(tn__onnx_call *c, int axis, int64_t i)
{
    tn_tensor *x = c->x[0];
    const int64_t size = tn_tensor_size(x, axis);
    if (i < -size || i >= size) {
        tn__onnx_refuse(c, TN_ERR_INDEX,
                        "indices has %lld; expected %lld to %lld, because "
                        "dimension %d of data has size %lld",
                        (long long)i, (long long)-size, (long long)size - 1,
                        axis, (long long)size);
        return;
    }
    i = i < 0 ? i + size : i;
    c->y[0] = tn_tensor_ndim(c->x[1]) ? tn_narrow(x, axis, i, 1)
                                      : tn_select(x, axis, i);
}

static void gather(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *index = c->x[1];
    const int axis = axis_of(c, 0);
    int64_t one;
    if (axis < 0)
        return;
    if (tn_tensor_ndim(index) <= 1 && tn_tensor_numel(index) == 1 &&
        c->value[1]->fixed && c->value[1]->host) {
        if (tn__onnx_ints(c, 1, &one, 1) == 1)
            gather_one(c, axis, one);
        return;
    }
    tn_dims_list to = tn__onnx_blank(0);
    to.count = tn_tensor_ndim(x) - 1 + tn_tensor_ndim(index);
    if (to.count > TN_MAX_NDIM) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the result has more than %d dimensions", TN_MAX_NDIM);
        return;
    }
    int at = 0;
    for (int i = 0; i < tn_tensor_ndim(x); i++) {
        if (i != axis)
            to.dim[at++] = tn_tensor_size(x, i);
        for (int j = 0; i == axis && j < tn_tensor_ndim(index); j++)
            to.dim[at++] = tn_tensor_size(index, j);
    }
    tn_tensor *flat = tn_reshape(wrap_index(index, tn_tensor_size(x, axis)),
                                 tn_dims(tn_tensor_numel(index)));
    c->y[0] = tn_reshape(tn_index_select(x, axis, flat), to);
}

static void gather_elements(tn__onnx_call *c)
{
    const int axis = axis_of(c, 0);
    if (axis >= 0)
        c->y[0] = tn_gather(
            c->x[0], axis,
            wrap_index(c->x[1], tn_tensor_size(c->x[0], axis)));
}

/* The last dimension of index has tuples of indices of dimensions of x. They
 * follow `batch` dimensions, which have the same sizes in both tensors. Stores
 * one tensor of indices for each indexed dimension of x in out, and those of
 * the batch dimensions before. Returns the number of tensors, or -1 with an
 * error. */
static int tuples(tn__onnx_call *c, tn_tensor *x, tn_tensor *index, int batch,
                  tn_tensor **out)
{
    const int ndim = tn_tensor_ndim(index);
    const int64_t depth = ndim ? tn_tensor_size(index, -1) : 0;
    if (batch < 0 || batch >= ndim || depth < 1 ||
        batch + depth > tn_tensor_ndim(x) ||
        batch > tn_tensor_ndim(x)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "indices select along %lld dimensions (the size of "
                        "their last dimension); expected 1 to %d, because data "
                        "has %d dimensions and batch_dims is %d",
                        (long long)depth, tn_tensor_ndim(x) - batch,
                        tn_tensor_ndim(x), batch);
        return -1;
    }
    for (int i = 0; i < batch; i++) {
        int64_t to[TN_MAX_NDIM];
        for (int j = 0; j < ndim - 1; j++)
            to[j] = j == i ? tn_tensor_size(index, i) : 1;
        out[i] = tn_reshape(tn_arange(0, tn_tensor_size(index, i), 1,
                                      .dtype = TN_I64,
                                      .device = tn_tensor_device(index)),
                            tn_dims_from_array(to, ndim - 1));
    }
    for (int i = 0; i < depth; i++)
        out[batch + i] = wrap_index(tn_select(index, ndim - 1, i),
                                    tn_tensor_size(x, batch + i));
    return batch + (int)depth;
}

static void gather_nd(tn__onnx_call *c)
{
    tn_tensor *index[TN_MAX_NDIM];
    const int count =
        tuples(c, c->x[0], c->x[1], (int)tn__onnx_int(c, 0), index);
    if (count > 0)
        c->y[0] = tn_index(c->x[0], index, count);
}

/* ---- scattering ---------------------------------------------------------- */

/* Returns tn_scatter_reduce's name of an ONNX reduction, NULL for "none", or ""
 * if it is unknown. */
static const char *reduction(tn__onnx_call *c, const char *name)
{
    static const char *const known[][2] = {
        {"none", NULL}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"},
        {"min", "amin"}};
    for (int i = 0; i < 5; i++)
        if (strcmp(known[i][0], name) == 0)
            return known[i][1];
    tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                    "reduction is \"%.40s\"; it must be none, add, mul, max or "
                    "min",
                    name);
    return "";
}

static void scatter(tn__onnx_call *c, const char *reduce)
{
    tn_tensor *x = c->x[0];
    const int axis = axis_of(c, 0);
    if (axis < 0 || (reduce && !*reduce))
        return;
    tn_tensor *index = wrap_index(c->x[1], tn_tensor_size(x, axis));
    c->y[0] = reduce ? tn_scatter_reduce(x, axis, index, c->x[2], reduce)
                     : tn_scatter(x, axis, index, c->x[2]);
}
static void scatter_elements(tn__onnx_call *c)
{
    scatter(c, reduction(c, tn__onnx_string(c, 1)));
}

static void scatter_nd(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *index[TN_MAX_NDIM];
    const char *reduce = reduction(c, tn__onnx_string(c, 0));
    if (reduce && !*reduce)
        return;
    const int count = tuples(c, x, c->x[1], 0, index);
    if (count <= 0)
        return;
    if (!reduce || strcmp(reduce, "sum") == 0) {
        c->y[0] = tn_index_put(x, index, count, c->x[2],
                               .accumulate = reduce != NULL);
        return;
    }
    /* views x as a matrix: a row for each tuple of indices, with the elements
     * that the tuple selects */
    int64_t rows = 1;
    for (int i = 0; i < count; i++)
        rows *= tn_tensor_size(x, i);
    /* tn_index rejects an index that is out of range in its own dimension */
    tn_tensor *number =
        tn_arange(0, rows, 1, .dtype = TN_I64, .device = c->device);
    tn_tensor *row = tn_index(
        tn_reshape(number, tn_dims_from_array(tn_tensor_shape(x), count)), index,
        count);
    const int64_t each = rows ? tn_tensor_numel(x) / rows : 0;
    const int64_t writes = tn_tensor_numel(row);
    tn_tensor *at = tn_expand(tn_reshape(row, tn_dims(writes, 1)),
                              tn_dims(writes, each));
    tn_tensor *y = tn_scatter_reduce(
        tn_reshape(x, tn_dims(rows, each)), 0, at,
        tn_reshape(c->x[2], tn_dims(writes, each)), reduce);
    c->y[0] = tn_reshape(y, tn__onnx_shape(x));
}

/* ---- finding ------------------------------------------------------------- */

static void nonzero(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *rows = NULL;
    if (tn_tensor_ndim(x) == 0)
        x = tn_reshape(x, tn_dims(1));
    if (tn_nonzero_with(x, &rows, 1, NULL) > 0)
        c->y[0] = tn_contiguous(tn_transpose(rows, 0, 1));
    c->y_type[0] = TN__ONNX_INT64;
}

static void compress(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *rows = NULL;
    int64_t axis = 0;
    if (c->attr[0])
        axis = axis_of(c, 0);
    else
        x = tn_reshape(x, tn_dims(tn_tensor_numel(x)));
    if (axis < 0 || tn_nonzero_with(c->x[1], &rows, 1, NULL) <= 0)
        return;
    tn_tensor *at = tn_reshape(rows, tn_dims(tn_tensor_size(rows, 0)));
    c->y[0] = tn_index_select(x, axis, at);
}

static void top(tn__onnx_call *c, int64_t k, int64_t axis, bool largest,
                bool sorted)
{
    tn_tensor *x = c->x[0];
    axis = tn__onnx_axis(c, axis, tn_tensor_ndim(x));
    if (axis >= 0)
        c->y[0] = tn_topk(x, k, axis, largest, sorted, &c->y[1]);
    c->y_type[1] = TN__ONNX_INT64;
}
static void topk_attr(tn__onnx_call *c)
{
    top(c, tn__onnx_int(c, 1), tn__onnx_int(c, 0), true, true);
}
static void topk(tn__onnx_call *c)
{
    int64_t k;
    if (tn__onnx_ints(c, 1, &k, 1) == 1)
        top(c, k, tn__onnx_int(c, 0), true, true);
}
static void topk_11(tn__onnx_call *c)
{
    int64_t k;
    if (tn__onnx_ints(c, 1, &k, 1) == 1)
        top(c, k, tn__onnx_int(c, 0), tn__onnx_int(c, 1) != 0,
            tn__onnx_int(c, 2) != 0);
}

static void one_hot(tn__onnx_call *c)
{
    int64_t depth;
    tn_tensor *values = c->x[2], *index = c->x[0];
    if (tn__onnx_ints(c, 1, &depth, 1) != 1)
        return;
    const int axis =
        tn__onnx_axis(c, tn__onnx_int(c, 0), tn_tensor_ndim(index) + 1);
    tn_dims_list to = tn__onnx_blank(tn_tensor_ndim(index) + 1);
    if (axis < 0 || to.count > TN_MAX_NDIM)
        return;
    for (int i = 0, at = 0; i < to.count; i++)
        to.dim[i] = i == axis ? depth : tn_tensor_size(index, at++);
    if (!tn__onnx_may_make(c, to))
        return;
    tn_dims_list along = tn__onnx_blank(to.count);
    for (int i = 0; i < to.count; i++)
        along.dim[i] = i == axis ? depth : 1;
    tn_tensor *number = tn_reshape(
        tn_arange(0, depth, 1, .dtype = TN_I64, .device = c->device), along);
    /* an index that is out of range gives a row without a 1 */
    tn_tensor *hot =
        tn_eq(tn_unsqueeze(wrap_index(index, depth), axis), number);
    c->y[0] = tn_where(hot, tn_select(values, 0, 1), tn_select(values, 0, 0));
    c->y_type[0] = c->x_type[2];
}

/* Finds distinct elements or slices. They are sorted, or in the order of their
 * first occurrence. */
static void unique(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *out[3] = {NULL};
    int64_t axis = TN_NONE_INT;
    if (c->attr[0] && (axis = axis_of(c, 0)) < 0)
        return;
    const bool sorted = tn__onnx_int(c, 1) != 0;
    if (!c->attr[0])
        x = tn_reshape(x, tn_dims(tn_tensor_numel(x)));
    const int made = c->attr[0]
                         ? tn_unique(x, true, true, true, out, 3, .dim = axis)
                         : tn_unique(x, true, true, true, out, 3);
    if (made < 3)
        return;
    tn_tensor *y = out[0], *inverse = out[1], *counts = out[2];
    const int64_t n = tn_tensor_numel(inverse), k = tn_tensor_numel(counts);
    tn_tensor *place =
        tn_arange(0, n, 1, .dtype = TN_I64, .device = c->device);
    inverse = tn_reshape(inverse, tn_dims(n));
    tn_tensor *first = tn_scatter_reduce(
        tn_full(tn_dims(k), n, .dtype = TN_I64, .device = c->device), 0,
        inverse, place, "amin");
    if (!sorted) {
        tn_tensor *order = tn_argsort(first, -1, false);
        tn_tensor *rank = tn_scatter(
            tn_zeros_like(order), 0, order,
            tn_arange(0, k, 1, .dtype = TN_I64, .device = c->device));
        y = tn_index_select(y, c->attr[0] ? axis : 0, order);
        counts = tn_index_select(counts, 0, order);
        first = tn_index_select(first, 0, order);
        inverse = tn_index_select(rank, 0, inverse);
    }
    tn_tensor *all[] = {y, first, inverse, counts};
    for (int i = 0; i < c->out_count; i++) {
        c->y[i] = all[i];
        c->y_type[i] = i ? TN__ONNX_INT64 : c->x_type[0];
    }
}

/* ---- rows ---------------------------------------------------------------- */

#define ROW(label, first, last, in_min, in_max, list, function, ...)           \
    {.name = label, .since = first, .until = last, .min_in = in_min,          \
     .max_in = in_max, .attributes = list, .run = function, __VA_ARGS__}

static const tn__onnx_op rows[] = {
    ROW("Gather", 1, 0, 2, 2, "axis:int=0", gather, .max_out = 1),
    ROW("GatherElements", 11, 0, 2, 2, "axis:int=0", gather_elements,
        .max_out = 1),
    ROW("GatherND", 11, 0, 2, 2, "batch_dims:int=0", gather_nd, .max_out = 1),
    ROW("Scatter", 9, 10, 3, 3, "axis:int=0 reduction:string=none",
        scatter_elements, .max_out = 1),
    ROW("ScatterElements", 11, 0, 3, 3, "axis:int=0 reduction:string=none",
        scatter_elements, .max_out = 1),
    ROW("ScatterND", 11, 0, 3, 3, "reduction:string=none", scatter_nd,
        .max_out = 1),
    ROW("NonZero", 9, 0, 1, 1, "", nonzero, .max_out = 1, .by_data = true),
    ROW("Compress", 9, 0, 2, 2, "axis:int", compress, .max_out = 1,
        .by_data = true),
    ROW("TopK", 1, 9, 1, 1, "axis:int=-1 k:int!", topk_attr, .max_out = 2),
    ROW("TopK", 10, 10, 2, 2, "axis:int=-1", topk, .max_out = 2, .host = 2),
    ROW("TopK", 11, 0, 2, 2, "axis:int=-1 largest:int=1 sorted:int=1", topk_11,
        .max_out = 2, .host = 2),
    ROW("OneHot", 9, 0, 3, 3, "axis:int=-1", one_hot, .max_out = 1, .host = 2),
    ROW("Unique", 11, 0, 1, 1, "axis:int sorted:int=1", unique, .max_out = 4,
        .by_data = true),
};
const tn__onnx_family tn__onnx_index = TN__ONNX_FAMILY(rows);
