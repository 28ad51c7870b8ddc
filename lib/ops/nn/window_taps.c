/* window_taps.c: linear maps along one dimension, as in interpolation. A tap is
 * one term of an output element: an input index and its weight. The table of a
 * map has the taps of each output element (window_taps.h). */
#include <base/memory.h>
#include <ops/nn/window_taps.h>

tn_status tn__taps_new(tn__taps *taps, int64_t in, int64_t out, int64_t reach)
{
    *taps = (tn__taps){.in = in, .out = out, .reach = (int)reach};
    int64_t count;
    if (__builtin_mul_overflow(out, reach, &count) || count > INT64_MAX / 16)
        return tn__fail(TN_ERR_SHAPE, "%s: %lld weights for each of the %lld "
                        "elements of the output are too many",
                        tn__op_outer("resample"), (long long)reach,
                        (long long)out);
    size_t room = count ? (size_t)count : 1;
    taps->index = tn__alloc(room * sizeof *taps->index);
    taps->weight = taps->index ? tn__alloc(room * sizeof *taps->weight) : NULL;
    if (!taps->weight)
        return TN_ERR_MEMORY;
    memset(taps->index, 0, room * sizeof *taps->index);
    memset(taps->weight, 0, room * sizeof *taps->weight);
    return TN_OK;
}

tn_status tn__taps_check_memory(const tn_tensor *x, int dim, int64_t out)
{
    const char *name = tn__op_outer("resample");
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == dim ? out : x->shape[d];
    tn_device *device = x->storage->device;
    tn_tensor *result =
        tn__tensor_new(device, x->dtype, x->ndim, shape, name);
    tn_tensor *table =
        result ? tn__tensor_new(device, TN_I64, 1, &out, name) : NULL;
    tn_tensor *back =
        table ? tn__tensor_new(device, TN_I64, 1, &x->shape[dim], name) : NULL;
    bool fits = back;
    tn__unref(result);
    tn__unref(table);
    tn__unref(back);
    return fits ? TN_OK : tn_error_code();
}

void tn__taps_free(tn__taps *taps)
{
    tn__free(taps->index);
    tn__free(taps->weight);
}

/* Makes the transposed table. Its taps for input j are the outputs to which j
 * contributes, in ascending order, with the same weights. */
static tn_status turn_around(const tn__taps *taps, tn__taps *back)
{
    int64_t total = taps->out * taps->reach, most = 1;
    int64_t *count = tn__alloc_many(taps->in + 1, sizeof *count);
    *back = (tn__taps){0};
    if (!count)
        return TN_ERR_MEMORY;
    memset(count, 0, (size_t)(taps->in + 1) * sizeof *count);
    for (int64_t k = 0; k < total; k++)
        if (taps->weight[k] != 0 && ++count[taps->index[k]] > most)
            most = count[taps->index[k]];
    tn_status status = tn__taps_new(back, taps->out, taps->in, most);
    memset(count, 0, (size_t)(taps->in + 1) * sizeof *count);
    for (int64_t k = 0; k < total && status >= 0; k++)
        if (taps->weight[k] != 0) {
            int64_t i = taps->index[k];
            tn__taps_set(back, i, (int)count[i]++, k / taps->reach,
                         taps->weight[k]);
        }
    tn__free(count);
    return status;
}

/* Return taps->index and taps->weight as tensors of shape (out, reach) on the
 * device of x. */
static tn_tensor *index_tensor(const tn__taps *taps, const tn_tensor *x)
{
    return tn__number_table(taps->index, TN_I64, TN_I64,
                            tn_dims(taps->out, taps->reach),
                            x->storage->device);
}

static tn_tensor *weight_tensor(const tn__taps *taps, const tn_tensor *x)
{
    return tn__number_table(taps->weight, TN_F64, x->dtype,
                            tn_dims(taps->out, taps->reach),
                            x->storage->device);
}

tn_tensor *tn__taps_sum(tn_tensor *x, int dim, const tn__taps *taps)
{
    tn__taps back;
    tn_tensor *out = NULL;
    if (!x)
        return NULL;
    if (turn_around(taps, &back) >= 0) {
        tn_tensor *table[] = {index_tensor(taps, x), weight_tensor(taps, x),
                              index_tensor(&back, x), weight_tensor(&back, x)};
        if (table[0] && table[1] && table[2] && table[3]) {
            const tn_value value[] = {
                tn__value_tensor(x),        tn__value_tensor(table[0]),
                tn__value_tensor(table[1]), tn__value_tensor(table[2]),
                tn__value_tensor(table[3]), tn__value_int(dim)};
            out = tn__row(TN__OP_ID_RESAMPLE, value, 6);
        }
    }
    tn__taps_free(&back);
    return out;
}

tn_status tn__taps_max(tn_tensor *x, int dim, const tn__taps *taps,
                       tn_tensor **values, tn_tensor **places)
{
    tn_tensor *table = x ? index_tensor(taps, x) : NULL, *out[2];
    if (!table)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              tn__value_tensor(table)};
    int count =
        tn__op_run(&tn__op_table[TN__OP_ID_WINDOW_MAX], value, 3, out, 2);
    if (count < 0)
        return count;
    *values = out[0];
    *places = out[1];
    return TN_OK;
}

/* ---- the sum and the maximum of taps ------------------------------------- */

static tn_status check_tables(const char *name, const tn_tensor *x,
                              const tn_tensor *index, const tn_tensor *weight)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (index->ndim != 2 || index->dtype != TN_I64 || !index->contiguous ||
        (weight && (!tn__shape_equal(2, index->shape, weight->ndim,
                                     weight->shape) ||
                    weight->dtype != x->dtype || !weight->contiguous)))
        return tn__fail(TN_ERR_SHAPE, "%s: the tables are %s of %s and %s of "
                        "%s; expected two contiguous matrices, the first of "
                        "int64 and the second of the dtype of {input}", name,
                        tn__shape_text(a, index->ndim, index->shape),
                        tn_dtype_name(index->dtype),
                        weight ? tn__shape_text(b, weight->ndim, weight->shape)
                               : "none",
                        weight ? tn_dtype_name(weight->dtype) : "none");
    if (x->ndim < 1 || x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions; "
                        "expected 1 to %d", name, x->ndim, TN_MAX_NDIM - 1);
    return TN_OK;
}

static tn_tensor *new_out(tn__call *call, const tn_tensor *x, int dim,
                          int64_t size, tn_dtype dtype)
{
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == dim ? size : x->shape[d];
    tn_tensor *out = tn__tensor_new(x->storage->device, dtype, x->ndim, shape,
                                    tn__op_outer(call->op->name));
    if (out)
        call->out[call->out_count++] = out;
    return out;
}

static void begin(tn__space *space, const tn_tensor *out, int64_t row)
{
    *space = (tn__space){.outer_ndim = out->ndim, .row_ndim = row >= 0};
    for (int d = 0; d < out->ndim; d++)
        space->extent[d] = out->shape[d];
    if (row >= 0)
        space->extent[out->ndim] = row;
}

/* Adds the operand x, whose dimension dim the kernel reads by index. */
static void add_indexed(tn__space *space, tn_tensor *x, int dim)
{
    tn__operand *from = tn__space_add_bare(space, x);
    for (int d = 0; d < x->ndim; d++)
        from->stride[d] = d == dim ? 0 : x->stride[d];
    from->index_stride[0] = x->stride[dim];
    from->index_extent[0] = x->shape[dim];
}

/* Adds the table table[out][reach] as an operand. If the space has a row
 * dimension, a row has the taps of an output, and t is 0. Else the operand has
 * tap t of each output. */
static void add_table(tn__space *space, tn_tensor *table, int dim, int64_t t)
{
    tn__operand *at = tn__space_add_bare(space, table);
    at->offset = t;
    at->stride[dim] = table->shape[1];
    if (space->row_ndim)
        at->stride[space->outer_ndim] = 1;
}

static void add_out(tn__space *space, tn_tensor *out)
{
    tn__operand *to = tn__space_add_bare(space, out);
    for (int d = 0; d < out->ndim; d++)
        to->stride[d] = out->stride[d];
}

/* A tap is an input and its weight. With up to four taps per output, the
 * kernel's source has one term for each, and the kernel runs over adjacent
 * outputs. With more taps, the taps of an output form a row, which the kernel
 * sums. A tap of weight 0 adds 0, even if its element is NaN. */
#define TAP(n) "weighted(x[i" #n "], w" #n ")"
enum { WRITTEN_OUT = 4 };
static tn__formula resample[WRITTEN_OUT + 1] = {
    TN__FORMULA("resample(x, i, w) = rsum(weighted(x[i], w))"),
    TN__FORMULA("resample(x, i0, w0) = " TAP(0)),
    TN__FORMULA("resample(x, i0, w0, i1, w1) = " TAP(0) " + " TAP(1)),
    TN__FORMULA("resample(x, i0, w0, i1, w1, i2, w2) = " TAP(0) " + " TAP(1)
                " + " TAP(2)),
    TN__FORMULA("resample(x, i0, w0, i1, w1, i2, w2, i3, w3) = (" TAP(0)
                " + " TAP(1) ") + (" TAP(2) " + " TAP(3) ")"),
};

tn_status tn__run_resample(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_RESAMPLE_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_RESAMPLE_INDEX);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_RESAMPLE_WEIGHT);
    const char *name = tn__op_outer("resample");
    tn_status status = check_tables(name, x, index, weight);
    int dim = status < 0 ? -1
                         : tn__call_dim(call, TN__ARG_RESAMPLE_DIM, x->ndim);
    if (dim < 0)
        return tn_error_code();
    int64_t reach = index->shape[1];
    bool row = reach < 1 || reach > WRITTEN_OUT;
    tn_dtype dtype[1 + 2 * WRITTEN_OUT] = {x->dtype};
    for (int t = 0; t < WRITTEN_OUT; t++) {
        dtype[1 + 2 * t] = TN_I64;
        dtype[2 + 2 * t] = x->dtype;
    }
    const tn__kernel *kernel =
        tn__formula_kernel(&resample[row ? 0 : reach], dtype);
    tn_tensor *out =
        kernel ? new_out(call, x, dim, index->shape[0], x->dtype) : NULL;
    if (!out)
        return tn_error_code();
    tn__space space;
    begin(&space, out, row ? reach : -1);
    add_indexed(&space, x, dim);
    for (int t = 0; t < (row ? 1 : (int)reach); t++) {
        add_table(&space, index, dim, t);
        add_table(&space, weight, dim, t);
    }
    add_out(&space, out);
    return tn__kernel_launch(x->storage->device, kernel, &space, NULL, name);
}

tn_status tn__run_window_max(tn__call *call)
{
    static tn__formula greatest = TN__FORMULA(
        "window_max(x, i, table) = let v = x[i];"
        "(rmax(v), table[rargmax(v)])");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_WINDOW_MAX_INPUT);
    tn_tensor *table = tn__call_tensor(call, TN__ARG_WINDOW_MAX_TABLE);
    const char *name = tn__op_outer("window_max");
    tn_status status = check_tables(name, x, table, NULL);
    int dim = status < 0
                  ? -1
                  : tn__call_dim(call, TN__ARG_WINDOW_MAX_DIM, x->ndim);
    if (dim < 0)
        return tn_error_code();
    const tn_dtype dtype[] = {x->dtype, TN_I64, TN_I64};
    const tn__kernel *kernel = tn__formula_kernel(&greatest, dtype);
    int64_t size = table->shape[0];
    tn_tensor *out = kernel ? new_out(call, x, dim, size, x->dtype) : NULL;
    tn_tensor *places = out ? new_out(call, x, dim, size, TN_I64) : NULL;
    if (!places)
        return tn_error_code();
    tn__space space;
    begin(&space, out, table->shape[1]);
    add_indexed(&space, x, dim);
    add_table(&space, table, dim, 0);
    tn__operand *again = tn__space_add_bare(&space, table);
    again->stride[dim] = table->shape[1];
    again->index_stride[0] = 1;
    again->index_extent[0] = table->shape[1];
    add_out(&space, out);
    add_out(&space, places);
    return tn__kernel_launch(x->storage->device, kernel, &space, NULL, name);
}
