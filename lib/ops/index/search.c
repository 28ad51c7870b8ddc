/* search.c: binary search in sorted rows (PyTorch's searchsorted and
 * bucketize), and histograms (bincount, histc, histogram). */
#include <math.h>
#include <ops/engine/native.h>

/* ---- searchsorted and bucketize ------------------------------------------ */

/* Returns how often a range of `size` elements must be halved until one
 * position is left. */
static int64_t rounds_for(int64_t size)
{
    int64_t rounds = 1;
    while (size >> rounds)
        rounds++;
    return rounds;
}

/* The kernel of a binary search for v in s, with a fixed number of rounds. Once
 * lo = hi < n, further rounds change nothing. Once lo = hi = n, a further round
 * compares the last element and may increase lo to n + 1. So the result is
 * min(lo, n). */
#define SEARCH(up)                                                            \
    TN__FORMULA("search(s, v; n: i64, rounds: i64) = "                        \
                "let (lo, hi) = loop(k < rounds; lo = i64(0), hi = n)"        \
                "  let mid = (lo + hi) >> 1;"                                 \
                "  let up = !(s[min(mid, n - 1)] " up " v);"                  \
                "  (where(up, mid + 1, lo), where(up, hi, mid)); min(lo, n)")

tn_status tn__run_search_rows(tn__call *call)
{
    static tn__formula search[] = {SEARCH(">="), SEARCH(">")};
    tn_tensor *s = tn__call_tensor(call, TN__ARG_SEARCH_ROWS_SORTED_SEQUENCE);
    tn_tensor *v = tn__call_tensor(call, TN__ARG_SEARCH_ROWS_INPUT);
    const char *name = tn__op_outer("searchsorted");
    int last = s->ndim - 1;
    if (s->ndim != 1 &&
        (last < 0 || v->ndim != s->ndim ||
         !tn__shape_equal(last, s->shape, last, v->shape))) {
        char rows[TN__SHAPE_TEXT], given[TN__SHAPE_TEXT];
        return tn__fail(TN_ERR_SHAPE, "%s: {sorted_sequence} has shape %s and "
                        "{input} %s; expected equal sizes in all dimensions "
                        "but the last, or a 1-d {sorted_sequence}", name,
                        tn__shape_text(rows, s->ndim, s->shape),
                        tn__shape_text(given, v->ndim, v->shape));
    }
    const tn_dtype dtype[] = {s->dtype, v->dtype};
    const tn__kernel *kernel = tn__formula_kernel(
        &search[tn__call_int(call, TN__ARG_SEARCH_ROWS_RIGHT) != 0], dtype);
    if (!kernel)
        return tn_error_code();
    tn_tensor *out = tn__tensor_new(v->storage->device, TN_I64, v->ndim,
                                    v->shape, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    if (s->shape[last] == 0)
        return tn__fill(out, 0, name);
    tn__shape shape = {.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++)
        shape.dim[d] = v->shape[d];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, s);
    /* A 1-d sequence keeps stride 0 in these dimensions: all values search the
     * same row. */
    for (int d = 0; d < last; d++)
        from->stride[d] = s->stride[d];
    from->index_stride[0] = s->stride[last];
    from->index_extent[0] = s->shape[last];
    tn__space_add(&space, &shape, 0, v);
    tn__space_add_out(&space, &shape, 0, false, false, out);
    const tn_number param[] = {
        {.i = s->shape[last]},
        {.i = rounds_for(s->shape[last])}};
    return tn__kernel_launch(out->storage->device, kernel, &space, param,
                             name);
}

/* Returns argument i as a tensor. A number becomes a 0-d tensor on the device
 * of `like`. */
static tn_tensor *tensor_of(const tn__call *call, int i, const tn_tensor *like)
{
    const tn_value *value = &call->value[i];
    if (value->kind == TN_VALUE_TENSOR)
        return value->of.tensor;
    const tn_dims_list none = {0};
    const tn_value full[] = {tn__value_dims(&none), *value,
                             tn__value_dtype(value->count == TN_SCALAR_FLOAT
                                                 ? TN_F32 : TN_I64),
                             tn__value_device(like->storage->device)};
    return tn__row(TN__OP_ID_FULL, full, 4);
}

static tn_tensor *search_rows(tn_tensor *rows, tn_tensor *x, bool right)
{
    const tn_value value[] = {tn__value_tensor(rows), tn__value_tensor(x),
                              tn__value_bool(right)};
    return rows && x ? tn__row(TN__OP_ID_SEARCH_ROWS, value, 3) : NULL;
}

static tn_status give_places(tn__call *call, tn_tensor *rows, tn_tensor *x,
                             bool right, bool narrow)
{
    tn_tensor *place = search_rows(rows, x, right);
    return tn__give(call, narrow ? tn_to_dtype(place, TN_I32) : place);
}

/* Checks that `rows` is 1-d, or has the shape of x except for the last
 * dimension. */
static tn_status check_rows(const tn_tensor *rows, const tn_tensor *x)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    bool fits = rows->ndim == x->ndim && rows->ndim > 0;
    for (int d = 0; d < rows->ndim - 1 && fits; d++)
        fits = rows->shape[d] == x->shape[d];
    if (fits || rows->ndim == 1)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {sorted_sequence} has shape %s and "
                    "{input} %s; expected equal sizes in all dimensions but "
                    "the last, or a 1-d {sorted_sequence}", "searchsorted",
                    tn__shape_text(a, rows->ndim, rows->shape),
                    tn__shape_text(b, x->ndim, x->shape));
}

tn_status tn__run_searchsorted(tn__call *call)
{
    tn_tensor *rows =
        tn__call_tensor(call, TN__ARG_SEARCHSORTED_SORTED_SEQUENCE);
    tn_tensor *x = tensor_of(call, TN__ARG_SEARCHSORTED_INPUT, rows);
    bool right = tn__call_int(call, TN__ARG_SEARCHSORTED_RIGHT);
    if (!x)
        return tn_error_code();
    if (tn__call_has(call, TN__ARG_SEARCHSORTED_SIDE)) {
        const char *side = call->value[TN__ARG_SEARCHSORTED_SIDE].of.string;
        if (strcmp(side, "right") != 0 && strcmp(side, "left") != 0)
            return tn__fail(TN_ERR_ARGUMENT, "searchsorted: {side} \"%s\" is "
                            "neither \"left\" nor \"right\"", side);
        if (right && side[0] == 'l')
            return tn__fail(TN_ERR_ARGUMENT, "searchsorted: {side} is "
                            "\"left\", but {right} is true: give only one of "
                            "them");
        right = side[0] == 'r';
    }
    tn_status status = check_rows(rows, x);
    if (status < 0)
        return status;
    if (tn__call_has(call, TN__ARG_SEARCHSORTED_SORTER))
        rows = tn_gather(rows, -1,
                         tn__call_tensor(call, TN__ARG_SEARCHSORTED_SORTER));
    return give_places(call, rows, x, right,
                       tn__call_int(call, TN__ARG_SEARCHSORTED_OUT_INT32));
}

tn_status tn__run_bucketize(tn__call *call)
{
    tn_tensor *rows = tn__call_tensor(call, TN__ARG_BUCKETIZE_BOUNDARIES);
    tn_tensor *x = tensor_of(call, TN__ARG_BUCKETIZE_INPUT, rows);
    char text[TN__SHAPE_TEXT];
    if (rows->ndim != 1)
        return tn__fail(TN_ERR_SHAPE, "bucketize: {boundaries} has shape %s; "
                        "expected a 1-d tensor",
                        tn__shape_text(text, rows->ndim, rows->shape));
    return give_places(call, rows, x,
                       tn__call_int(call, TN__ARG_BUCKETIZE_RIGHT),
                       tn__call_int(call, TN__ARG_BUCKETIZE_OUT_INT32));
}

tn_status tn__run_isin(tn__call *call)
{
    enum { elements = TN__ARG_ISIN_ELEMENTS, tests = TN__ARG_ISIN_TEST_ELEMENTS };
    tn_tensor *like = tn__call_tensor(call, elements);
    if (!like)
        like = tn__call_tensor(call, tests);
    if (!like)
        return tn__fail(TN_ERR_ARGUMENT, "isin: {elements} and {test_elements} "
                        "are both numbers; one has to be a tensor");
    tn_tensor *x = tensor_of(call, elements, like);
    tn_tensor *list = tensor_of(call, tests, like);
    if (!x || !list)
        return tn_error_code();
    tn_tensor *found, *order = NULL;
    if (list->numel == 0) {
        found = tn_zeros_like(x, .dtype = TN_BOOL);
    } else {
        list = tn_sort(tn_reshape(list, tn_dims(-1)), 0, false, &order);
        tn_tensor *at = tn_clamp_max_scalar(search_rows(list, x, false),
                                            list ? list->numel - 1 : 0);
        found = tn_eq(tn_take(list, at), x);
    }
    return tn__give(call, tn__call_int(call, TN__ARG_ISIN_INVERT)
                              ? tn_logical_not(found) : found);
}

/* ---- histograms ---------------------------------------------------------- */

/* Returns how often each integer in [0, size) occurs in `place`, or the sum of
 * the weights of its occurrences if weight is not NULL. */
static tn_tensor *count_places(tn_tensor *place, tn_tensor *weight,
                               tn_dtype dtype, int64_t size)
{
    if (!place)
        return NULL;
    tn_device *device = place->storage->device;
    tn_tensor *each =
        weight ? tn_to_dtype(tn_reshape(weight, tn_dims(-1)), dtype)
               : tn_expand(tn_ones(tn_dims(1), .dtype = dtype,
                                   .device = device),
                           tn_dims(place->numel));
    tn_tensor *none = tn_zeros(tn_dims(size), .dtype = dtype,
                               .device = device);
    return tn_scatter_add(none, 0, place, each);
}

tn_status tn__run_bincount(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_BINCOUNT_INPUT);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_BINCOUNT_WEIGHTS);
    int64_t least = tn__call_int(call, TN__ARG_BINCOUNT_MINLENGTH);
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 1 || tn_dtype_is_floating(x->dtype) || x->dtype == TN_BOOL)
        return tn__fail(TN_ERR_SHAPE, "bincount: {input} has shape %s and "
                        "dtype %s: it must be a 1-d tensor of an integer dtype",
                        tn__shape_text(text, x->ndim, x->shape),
                        tn_dtype_name(x->dtype));
    if (weight && (weight->ndim != 1 || weight->numel != x->numel))
        return tn__fail(TN_ERR_SHAPE, "bincount: {weights} has shape %s; "
                        "expected a 1-d tensor of one number for each of the "
                        "%lld elements of {input}",
                        tn__shape_text(text, weight->ndim, weight->shape),
                        (long long)x->numel);
    if (least < 0)
        return tn__fail(TN_ERR_ARGUMENT, "bincount: {minlength} is %lld; "
                        "expected at least 0", (long long)least);
    tn_tensor *greatest = NULL;
    int64_t low = x->numel ? tn_item_int(tn_aminmax(x, &greatest)) : 0;
    int64_t size =
        x->numel ? tn__size_add(tn_item_int(greatest), 1) : 0;
    if (tn__error_pending())
        return tn_error_code();
    if (low < 0)
        return tn__fail(TN_ERR_ARGUMENT, "bincount: {input} has the value "
                        "%lld; expected values of at least 0", (long long)low);
    if (size == INT64_MAX)
        return tn__fail(TN_ERR_ARGUMENT, "bincount: {input} has the value "
                        "%lld; the result, one element for each integer up to "
                        "it, would be too large",
                        (long long)tn_item_int(greatest));
    tn_dtype dtype = !weight                    ? TN_I64
                     : weight->dtype == TN_F32 ? TN_F32
                                                : TN_F64;
    return tn__give(call, count_places(x, weight, dtype,
                                       size > least ? size : least));
}

/* Sets *low and *high to the minimum and maximum of x. If x has no elements,
 * *low and *high are unchanged. */
static tn_status range_of(tn_tensor *x, double *low, double *high)
{
    if (x->numel == 0)
        return TN_OK;
    *low = tn_item(tn_min(x));
    *high = tn_item(tn_max(x));
    if (tn__error_pending())
        return tn_error_code();
    if (isfinite(*low) && isfinite(*high))
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT, "%s: {input} has values from %g to %g; "
                    "give a finite {range}",
                    tn__op_outer("histogram"), *low, *high);
}

/* Returns the number of elements in each bin, or the sum of their weights.
 * place[i] is the bin of element i, or `bins` if the element is outside of all
 * bins. */
static tn_tensor *count_bins(tn_tensor *place, int64_t bins, tn_tensor *weight,
                             tn_dtype dtype)
{
    return tn_narrow(count_places(place, weight, dtype,
                                  tn__size_add(bins, 1)), 0, 0, bins);
}

/* Returns, for each pair of adjacent edges, how many elements of x are between
 * them, or the sum of their weights. The last edge is inclusive. */
static tn_tensor *count_between(tn_tensor *edges, tn_tensor *x,
                                tn_tensor *weight)
{
    if (!edges)
        return NULL;
    int64_t bins = edges->numel - 1;
    x = tn_reshape(x, tn_dims(-1));
    tn_tensor *place = tn_sub_scalar(search_rows(edges, x, true), 1);
    tn_tensor *top = tn_eq(x, tn_select(edges, 0, -1));
    place = tn_masked_fill_scalar(place, top, bins - 1);
    tn_tensor *outside = tn_logical_or(tn_lt_scalar(place, 0),
                                       tn_ge_scalar(place, bins));
    return count_bins(tn_masked_fill_scalar(place, outside, bins), bins,
                      weight, edges->dtype);
}

/* Returns the number of elements of x in each of `bins` bins of equal width
 * over the range [low, high]. As in PyTorch, the range is rounded to the dtype
 * of x. */
static tn_tensor *count_evenly(tn_tensor *x, double low, double high,
                               int64_t bins)
{
    tn_device *device = x->storage->device;
    x = tn_reshape(x, tn_dims(-1));
    tn_tensor *from = tn_full((tn_dims_list){0}, low, .dtype = x->dtype,
                              .device = device);
    tn_tensor *to = tn_full((tn_dims_list){0}, high, .dtype = x->dtype,
                            .device = device);
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(from),
                              tn__value_tensor(to), tn__value_int(bins)};
    tn_tensor *place = x && from && to
                           ? tn__row(TN__OP_ID_BIN_BETWEEN, value, 4)
                           : NULL;
    return count_bins(place, bins, NULL, x ? x->dtype : TN_F32);
}

static tn_status check_floating(const char *name, const tn_tensor *x)
{
    if (tn_dtype_is_floating(x->dtype))
        return TN_OK;
    return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; convert it to a "
                    "floating-point dtype with tn_to_dtype",
                    name, tn_dtype_name(x->dtype));
}

static tn_tensor *edges_between(double low, double high, int64_t bins,
                                const tn_tensor *x)
{
    return tn_linspace(low, high, tn__size_add(bins, 1), .dtype = x->dtype,
                       .device = x->storage->device);
}

tn_status tn__run_histc(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_HISTC_INPUT);
    int64_t bins = tn__call_int(call, TN__ARG_HISTC_BINS);
    double low = tn__call_float(call, TN__ARG_HISTC_MIN);
    double high = tn__call_float(call, TN__ARG_HISTC_MAX);
    tn_status status = check_floating("histc", x);
    if (status < 0)
        return status;
    if (bins < 1)
        return tn__fail(TN_ERR_ARGUMENT, "histc: {bins} is %lld; expected at "
                        "least 1", (long long)bins);
    if (!isfinite(low) || !isfinite(high))
        return tn__fail(TN_ERR_ARGUMENT, "histc: {min} is %g and {max} %g; "
                        "expected finite numbers", low, high);
    if (low > high)
        return tn__fail(TN_ERR_ARGUMENT, "histc: {min} %g is above {max} %g",
                        low, high);
    if (low == high && (status = range_of(x, &low, &high)) < 0)
        return status;
    if (low == high) {
        low -= 1;
        high += 1;
    }
    return tn__give(call, count_evenly(x, low, high, bins));
}

/* Adds the outputs hist and edges to the call. weight has a weight for each
 * element of x, and may be NULL. */
static tn_status give_histogram(tn__call *call, tn_tensor *x, tn_tensor *edges,
                                tn_tensor *weight, bool density)
{
    tn_tensor *hist = count_between(edges, x, weight);
    if (hist && density) {
        int64_t bins = edges->numel - 1;
        tn_tensor *width = tn_sub(tn_narrow(edges, 0, 1, bins),
                                  tn_narrow(edges, 0, 0, bins));
        hist = tn_div(tn_div(hist, tn_sum(hist)), width);
    }
    tn_status status = tn__give(call, hist);
    return status < 0 ? status : tn__give(call, edges);
}

static tn_status check_weight(const tn_tensor *x, const tn_tensor *weight)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = check_floating("histogram", x);
    if (status < 0 || !weight ||
        tn__shape_equal(x->ndim, x->shape, weight->ndim, weight->shape))
        return status;
    return tn__fail(TN_ERR_SHAPE, "histogram: {weight} has shape %s and "
                    "{input} %s; expected equal shapes",
                    tn__shape_text(a, weight->ndim, weight->shape),
                    tn__shape_text(b, x->ndim, x->shape));
}

tn_status tn__run_histogram(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_HISTOGRAM_INPUT);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_HISTOGRAM_WEIGHT);
    const tn_value *range = &call->value[TN__ARG_HISTOGRAM_RANGE];
    int64_t bins = tn__call_int(call, TN__ARG_HISTOGRAM_BINS);
    double low = 0, high = 0;
    tn_status status = check_weight(x, weight);
    if (status < 0)
        return status;
    if (bins < 1)
        return tn__fail(TN_ERR_ARGUMENT, "histogram: {bins} is %lld; expected "
                        "at least 1", (long long)bins);
    if (range->kind == TN_VALUE_NONE) {
        high = 1; /* an empty input gets the range [0, 1] */
        status = range_of(x, &low, &high);
    } else if (range->count != 2) {
        status = tn__fail(TN_ERR_ARGUMENT, "histogram: {range} has %d numbers; "
                          "expected 2", (int)range->count);
    } else {
        low = range->of.floats[0];
        high = range->of.floats[1];
    }
    if (status >= 0 && (!isfinite(low) || !isfinite(high)))
        status = tn__fail(TN_ERR_ARGUMENT, "histogram: {range} is from %g to "
                          "%g; expected finite numbers", low, high);
    if (status >= 0 && low > high)
        status = tn__fail(TN_ERR_ARGUMENT, "histogram: {range} is from %g to "
                          "%g; expected a second number of at least the first",
                          low, high);
    if (status < 0)
        return status;
    if (low == high) {
        low -= 0.5;
        high += 0.5;
    }
    return give_histogram(call, x, edges_between(low, high, bins, x), weight,
                          tn__call_int(call, TN__ARG_HISTOGRAM_DENSITY));
}

tn_status tn__run_histogram_at(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_HISTOGRAM_AT_INPUT);
    tn_tensor *edges = tn__call_tensor(call, TN__ARG_HISTOGRAM_AT_BINS);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_HISTOGRAM_AT_WEIGHT);
    char text[TN__SHAPE_TEXT];
    tn_status status = check_weight(x, weight);
    if (status >= 0)
        status = tn__check_same_dtype("histogram", x, "input", edges, "bins");
    if (status < 0)
        return status;
    if (edges->ndim != 1 || edges->numel < 2)
        return tn__fail(TN_ERR_SHAPE, "histogram: {bins} has shape %s; "
                        "expected a 1-d tensor of at least 2 edges",
                        tn__shape_text(text, edges->ndim, edges->shape));
    return give_histogram(call, x, tn_clone(edges), weight,
                          tn__call_int(call, TN__ARG_HISTOGRAM_AT_DENSITY));
}
