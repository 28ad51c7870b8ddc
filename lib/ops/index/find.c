/* find.c: operators that search, count and select by value (PyTorch's nonzero,
 * masked_select, unique, equal, combinations and others). The size of some
 * results depends on the data. Then a count is read back from the device, and
 * nothing else. */
#include <base/memory.h>
#include <ops/engine/native.h>

static tn_tensor *whole_numbers(int64_t count, const tn_tensor *like)
{
    return tn_arange(0, count, 1, .dtype = TN_I64,
                     .device = like->storage->device);
}

static tn_tensor *as_list(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* ---- nonzero and argwhere ------------------------------------------------ */

/* The rank of an element of a mask is the number of true elements up to and
 * including it. The mask is reshaped to rows of RANK_ROW elements, and the last
 * row is padded with false. Then rank[r][i] = before[r] + within[r][i]. The
 * sums within rows do not depend on each other and fit into int32. */
enum { RANK_ROW = 1024 };
typedef struct ranks {
    tn_tensor *mask;   /* the mask, of shape (rows, RANK_ROW) */
    tn_tensor *within; /* within[r][i] is the number of true elements among the
                          elements 0 to i of row r */
    tn_tensor *before; /* before[r][0] is the number of true elements in the
                          rows before r, as int64 */
    int64_t count;     /* the number of elements without the padding */
} ranks;

static bool rank_rows(ranks *r, tn_tensor *mask)
{
    if (!mask)
        return false;
    int64_t count = mask->numel;
    int64_t row = count < RANK_ROW ? count + !count : RANK_ROW;
    int64_t rows = (count + row - 1) / row;
    mask = as_list(mask);
    if (rows * row > count)
        mask = tn_constant_pad_nd(mask, tn_dims(0, rows * row - count), 0);
    r->mask = tn_reshape(mask, tn_dims(rows, row));
    r->within = tn_cumsum(tn_to_dtype(r->mask, TN_I32), 1, .dtype = TN_I32);
    tn_tensor *sum = tn_to_dtype(tn_narrow(r->within, 1, row - 1, 1), TN_I64);
    tn_tensor *up_to = tn_cumsum(sum, 0);
    r->before = tn_sub(up_to, sum);
    r->count = count;
    return r->before != NULL;
}

/* Returns the rank of each element of mask (the number of true elements up to
 * it), as a 1-d tensor. */
static tn_tensor *rank_of_each(tn_tensor *mask)
{
    ranks r;
    if (!rank_rows(&r, mask))
        return NULL;
    return tn_narrow(as_list(tn_add(r.before, r.within)), 0, 0, r.count);
}

/* Writes the row-major numbers of the true elements of the mask into `places`,
 * in ascending order. `places` has one additional element at the end. The
 * numbers of false elements, and of true elements that do not fit, are written
 * into this element. */
static tn_tensor *place_numbers(const ranks *r, tn_tensor *places)
{
    if (!places)
        return NULL;
    int64_t size = places->numel - 1;
    const tn_value value[] = {
        tn__value_tensor(r->mask), tn__value_tensor(r->within),
        tn__value_tensor(tn_sub_scalar(r->before, 1)), tn__value_int(size)};
    tn_tensor *made[2];
    if (tn__op_run(&tn__op_table[TN__OP_ID_TRUE_PLACE], value, 4, made, 2) < 0)
        return NULL;
    if (tn__scatter_into("nonzero", places, 0, as_list(made[0]),
                         as_list(made[1]), TN_SCATTER_SET) < 0)
        return NULL;
    return tn_narrow(places, 0, 0, size);
}

/* Returns the row-major positions of the true elements of mask, in ascending
 * order. */
static tn_tensor *true_numbers(tn_tensor *mask)
{
    tn_tensor *list = mask ? as_list(mask) : NULL, *out[2];
    if (!list)
        return NULL;
    int64_t found = list->numel ? tn_item_int(tn_sum(list)) : 0;
    if (found < 1)
        return found < 0 ? NULL : whole_numbers(0, mask);
    const tn_value value[] = {tn__value_tensor(list), tn__value_int(0),
                              tn__value_bool(true), tn__value_int(found),
                              tn__value_bool(false)};
    return tn__op_run(&tn__op_table[TN__OP_ID_SORT_FIRST], value, 5, out,
                      2) < 0
               ? NULL
               : out[1];
}

/* Returns the coordinate along dim of the elements with these row-major numbers
 * in a tensor of this shape. */
static tn_tensor *coordinate(tn_tensor *number, int ndim, const int64_t *shape,
                             int dim)
{
    int64_t below = 1;
    if (ndim == 1)
        return number;
    for (int d = dim + 1; d < ndim; d++)
        below = tn__size_mul(below, shape[d] ? shape[d] : 1);
    const tn_value value[] = {tn__value_tensor(number), tn__value_int(below),
                              tn__value_int(shape[dim])};
    return number ? tn__row(TN__OP_ID_COORDINATE, value, 3) : NULL;
}

/* Returns the coordinates in x of the elements with these row-major numbers.
 * Row k of the result has the coordinates of element k. */
static tn_tensor *coordinates(tn_tensor *number, const tn_tensor *x)
{
    tn_tensor *column[TN_MAX_NDIM];
    if (number && x->ndim == 0)
        return tn_zeros(tn_dims(number->numel, 0), .dtype = TN_I64,
                        .device = x->storage->device);
    if (x->ndim == 1)
        return tn_reshape(number, tn_dims(-1, 1));
    for (int d = 0; d < x->ndim; d++)
        column[d] = coordinate(number, x->ndim, x->shape, d);
    return number ? tn_stack(column, x->ndim, 1) : NULL;
}

static tn_tensor *is_nonzero(tn_tensor *x)
{
    return x->dtype == TN_BOOL ? x : tn_ne_scalar(x, 0);
}

tn_status tn__run_argwhere(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_ARGWHERE_INPUT);
    return tn__give(call, coordinates(true_numbers(is_nonzero(x)), x));
}

tn_status tn__run_nonzero(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NONZERO_INPUT);
    tn_tensor *number = true_numbers(is_nonzero(x));
    if (!number)
        return tn_error_code();
    if (!tn__call_int(call, TN__ARG_NONZERO_AS_TUPLE))
        return tn__give(call, coordinates(number, x));
    if (x->ndim == 0) /* a 0-d tensor counts as a 1-d tensor with one element */
        return tn__give(call, number);
    for (int d = 0; d < x->ndim; d++) {
        tn_status status =
            tn__give(call, coordinate(number, x->ndim, x->shape, d));
        if (status < 0)
            return status;
    }
    return TN_OK;
}

tn_status tn__run_nonzero_static(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NONZERO_STATIC_INPUT);
    int64_t size = tn__call_int(call, TN__ARG_NONZERO_STATIC_SIZE);
    int64_t fill = tn__call_int(call, TN__ARG_NONZERO_STATIC_FILL_VALUE);
    if (size < 0)
        return tn__fail(TN_ERR_ARGUMENT, "nonzero_static: {size} is %lld; "
                        "expected 0 or greater", (long long)size);
    ranks r;
    if (!rank_rows(&r, is_nonzero(x)))
        return tn_error_code();
    tn_tensor *number = place_numbers(
        &r, tn_full(tn_dims(tn__size_add(size, 1)), -1, .dtype = TN_I64,
                    .device = x->storage->device));
    tn_tensor *out = coordinates(number, x);
    if (out && x->ndim && fill != -1)
        out = tn_masked_fill_scalar(
            out, tn_lt_scalar(tn_unsqueeze(number, 1), 0), fill);
    return tn__give(call, out);
}

tn_status tn__run_unravel_index(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNRAVEL_INDEX_INDICES);
    const tn_dims_list *shape =
        call->value[TN__ARG_UNRAVEL_INDEX_SHAPE].of.dims;
    if (tn_dtype_is_floating(x->dtype) || x->dtype == TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "unravel_index: {indices} is %s; convert "
                        "it to int64 with tn_to_dtype",
                        tn_dtype_name(x->dtype));
    char text[TN__SHAPE_TEXT];
    int64_t numel = 1;
    bool overflows = false;
    for (int d = 0; d < shape->count; d++) {
        if (shape->dim[d] < 0)
            return tn__fail(TN_ERR_ARGUMENT, "unravel_index: {shape} has the "
                            "number %lld; expected only numbers of 0 or "
                            "greater", (long long)shape->dim[d]);
        if (__builtin_mul_overflow(numel, shape->dim[d], &numel))
            overflows = true;
    }
    if (overflows)
        return tn__fail(TN_ERR_ARGUMENT, "unravel_index: {shape} %s has more "
                        "than 2^63 elements",
                        tn__shape_text(text, shape->count, shape->dim));
    tn_status status =
        tn__check_indices("unravel_index", "indices", -1, x, -numel, numel);
    if (status < 0)
        return status;
    x = tn_to_dtype(x, TN_I64);
    x = tn__from_front(x, numel);
    for (int d = 0; d < shape->count; d++) {
        status = tn__give(call, coordinate(x, shape->count, shape->dim, d));
        if (status < 0)
            return status;
    }
    return TN_OK;
}

/* ---- masked_select and masked_scatter ------------------------------------ */

static tn_status check_mask(const char *name, const tn_tensor *mask)
{
    if (mask->dtype == TN_BOOL)
        return TN_OK;
    return tn__fail(TN_ERR_DTYPE, "%s: {mask} is %s; convert it to bool with "
                    "tn_to_dtype", name, tn_dtype_name(mask->dtype));
}

/* Stores input and mask, the first two arguments, broadcast to a common shape,
 * in both[]. */
static tn_status broadcast(const tn__call *call, tn_tensor **both)
{
    tn_tensor *const given[] = {tn__call_tensor(call, 0),
                                tn__call_tensor(call, 1)};
    tn_status status = check_mask(call->op->name, given[1]);
    return status < 0                                       ? status
           : tn_broadcast_tensors(given, 2, both, 2) == 2 ? TN_OK
                                                            : tn_error_code();
}

tn_status tn__run_masked_select(tn__call *call)
{
    tn_tensor *both[2];
    tn_status status = broadcast(call, both);
    if (status < 0)
        return status;
    return tn__give(call, tn_index_select(as_list(both[0]), 0,
                                          true_numbers(both[1])));
}

tn_status tn__run_masked_scatter(tn__call *call)
{
    tn_tensor *source = tn__call_tensor(call, TN__ARG_MASKED_SCATTER_SOURCE);
    tn_tensor *both[2];
    tn_status status = broadcast(call, both);
    if (status >= 0)
        status = tn__check_same_dtype("masked_scatter", both[0], "input",
                                      source, "source");
    if (status < 0)
        return status;
    if (both[1]->numel == 0)
        return tn__give(call, tn_clone(both[0]));
    tn_tensor *rank = rank_of_each(as_list(both[1]));
    int64_t wanted = rank ? tn_item_int(tn_select(rank, 0, -1)) : INT64_MIN;
    if (wanted < 0)
        return tn_error_code();
    if (wanted > source->numel)
        return tn__fail(TN_ERR_SHAPE, "masked_scatter: {mask} is true for "
                        "%lld elements, but {source} has only %lld; expected "
                        "at least as many", (long long)wanted,
                        (long long)source->numel);
    if (wanted == 0)
        return tn__give(call, tn_clone(both[0]));
    tn_tensor *taken = tn_index_select(
        as_list(source), 0,
        tn_clamp_min_scalar(tn_sub_scalar(rank, 1), 0));
    return tn__give(call, tn_where(both[1], tn_reshape_as(taken, both[0]),
                                   both[0]));
}

/* ---- unique -------------------------------------------------------------- */

/* Returns a matrix whose rows are the slices of x along dim. If `slices` is
 * false, the rows are the elements of x. */
static tn_tensor *rows_of(tn_tensor *x, bool slices, int dim)
{
    if (!slices)
        return tn_reshape(x, tn_dims(x->numel, 1));
    tn_tensor *first = tn_movedim(x, tn_dims(dim), tn_dims(0));
    int64_t count = x->shape[dim];
    return tn_reshape(first, tn_dims(count, count ? x->numel / count : 0));
}

/* Sorts the rows of a matrix by their first element, then by their second, and
 * so on, with stable sorts that begin with the last column. Replaces *rows by
 * the sorted matrix and returns the order: the old number of each row. */
static tn_tensor *order_of_rows(tn_tensor **rows)
{
    int64_t count = (*rows)->shape[0], columns = (*rows)->shape[1];
    tn_tensor *order = NULL;
    if (columns == 1) { /* one sort returns the rows and the order */
        *rows = tn_sort(tn_select(*rows, 1, 0), 0, false, &order);
        *rows = tn_reshape(*rows, tn_dims(count, 1));
        return *rows ? order : NULL;
    }
    if (columns == 0)
        order = whole_numbers(count, *rows);
    for (int64_t c = columns - 1; c >= 0; c--) {
        tn_tensor *key = tn_select(*rows, 1, c);
        if (!key || (c < columns - 1 && !order))
            return NULL;
        order = !order ? tn_argsort(key, 0, false)
                       : tn_index_select(
                             order, 0,
                             tn_argsort(tn_index_select(key, 0, order), 0,
                                        false));
    }
    *rows = tn_index_select(*rows, 0, order);
    return *rows ? order : NULL;
}

/* Returns for each row whether it differs from the row before it. The first row
 * counts as different. */
static tn_tensor *row_starts(tn_tensor *rows)
{
    int64_t count = rows->shape[0];
    tn_tensor *differ = tn_ne(tn_narrow(rows, 0, 1, count - 1),
                              tn_narrow(rows, 0, 0, count - 1));
    tn_tensor *const parts[] = {
        tn_ones(tn_dims(1), .dtype = TN_BOOL, .device = rows->storage->device),
        rows->shape[1] == 1 ? tn_select(differ, 1, 0)
                            : tn_any(differ, .dim = 1)};
    return tn_cat(parts, 2, 0);
}

/* The options of unique. `slices` says that slices along dim are compared, not
 * elements. `inverse` and `counts` say which other results are returned. */
struct uniques {
    bool slices, inverse, counts;
    int dim;
};

/* Returns the elements of x with these row-major numbers. If u->slices is true,
 * returns the slices along u->dim with these numbers. */
static tn_tensor *chosen(tn_tensor *x, const struct uniques *u,
                         tn_tensor *number)
{
    return u->slices ? tn_index_select(x, u->dim, number)
                     : tn_index_select(as_list(x), 0, number);
}

static tn_status give_empty(tn__call *call, tn_tensor *x,
                            const struct uniques *u)
{
    tn_tensor *none = whole_numbers(0, x);
    tn_status status =
        tn__give(call, u->slices ? tn_clone(x) : as_list(x));
    if (status >= 0 && u->inverse)
        status = tn__give(call, u->slices ? none
                                          : tn_to_dtype(x, TN_I64));
    if (status >= 0 && u->counts)
        status = tn__give(call, tn_clone(none));
    return status;
}

static tn_status give_unique(tn__call *call, tn_tensor *x,
                             const struct uniques *u, bool in_order)
{
    tn_tensor *rows = rows_of(tn_detach(x), u->slices, u->dim);
    if (!rows)
        return tn_error_code();
    int64_t count = rows->shape[0];
    if (count == 0)
        return give_empty(call, x, u);
    tn_tensor *order = in_order ? order_of_rows(&rows) : NULL;
    if (in_order && !order)
        return tn_error_code();
    tn_tensor *starts = rows ? row_starts(rows) : NULL;
    tn_tensor *first = true_numbers(starts);
    if (!first)
        return tn_error_code();
    tn_status status = tn__give(
        call,
        chosen(x, u, order ? tn_index_select(order, 0, first) : first));
    if (status >= 0 && u->inverse) {
        tn_tensor *group = tn_sub_scalar(rank_of_each(starts), 1);
        if (order)
            group = tn_scatter(tn_zeros_like(group), 0, order, group);
        status = tn__give(call, u->slices ? group : tn_reshape_as(group, x));
    }
    if (status >= 0 && u->counts) {
        tn_tensor *const ends[] = {
            tn_narrow(first, 0, 1, first->numel - 1),
            tn_full(tn_dims(1), count, .dtype = TN_I64,
                    .device = x->storage->device)};
        status = tn__give(call, tn_sub(tn_cat(ends, 2, 0), first));
    }
    return status;
}

/* Returns whether x holds integers in so small a range that unique can count
 * how often each integer occurs, instead of sorting. Sets *low to the start of
 * the range and *size to its length. */
static bool is_small_range(tn_tensor *x, int64_t *low, int64_t *size)
{
    enum { LEAST = 64 };
    if (tn_dtype_is_floating(x->dtype) || x->dtype == TN_BOOL ||
        x->numel < LEAST)
        return false;
    tn_tensor *greatest = NULL;
    *low = tn_item_int(tn_aminmax(x, &greatest));
    int64_t high = tn_item_int(greatest);
    if (*low >= 0 && high < x->numel)
        *low = 0; /* no integer is negative, so the integers are counted without
                   * subtracting *low */
    return !__builtin_sub_overflow(high, *low, size) && *size < x->numel &&
           ++*size;
}

static tn_status give_counted(tn__call *call, tn_tensor *x,
                              const struct uniques *u, int64_t low,
                              int64_t size)
{
    tn_tensor *place = tn_to_dtype(as_list(x), TN_I64);
    if (low)
        place = tn_sub_scalar(place, low);
    tn_tensor *count = tn_bincount(place, .minlength = size);
    tn_tensor *is_there = count ? is_nonzero(count) : NULL;
    tn_tensor *number = true_numbers(is_there);
    if (!number)
        return tn_error_code();
    tn_status status = tn__give(
        call, tn_to_dtype(tn_add_scalar(number, low), x->dtype));
    if (status >= 0 && u->inverse) {
        tn_tensor *group = tn_sub_scalar(rank_of_each(is_there), 1);
        status = tn__give(call,
                          tn_reshape_as(tn_index_select(group, 0, place), x));
    }
    if (status >= 0 && u->counts)
        status = tn__give(call, tn_index_select(count, 0, number));
    return status;
}

tn_status tn__run_unique(tn__call *call)
{
    int64_t low, size;
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNIQUE_INPUT);
    struct uniques u = {
        .slices = tn__call_has(call, TN__ARG_UNIQUE_DIM),
        .inverse = tn__call_int(call, TN__ARG_UNIQUE_RETURN_INVERSE),
        .counts = tn__call_int(call, TN__ARG_UNIQUE_RETURN_COUNTS)};
    if (u.slices)
        u.dim = tn__call_dim(call, TN__ARG_UNIQUE_DIM, x->ndim);
    if (u.dim < 0)
        return TN_ERR_ARGUMENT;
    u.slices = u.slices && x->ndim > 0;
    tn_status status = tn__space_check("unique", "input", x->ndim, x->shape);
    if (status < 0)
        return status;
    if (!u.slices && is_small_range(x, &low, &size))
        return give_counted(call, x, &u, low, size);
    return give_unique(call, x, &u, true);
}

tn_status tn__run_unique_consecutive(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNIQUE_CONSECUTIVE_INPUT);
    struct uniques u = {
        .slices = tn__call_has(call, TN__ARG_UNIQUE_CONSECUTIVE_DIM),
        .inverse =
            tn__call_int(call, TN__ARG_UNIQUE_CONSECUTIVE_RETURN_INVERSE),
        .counts =
            tn__call_int(call, TN__ARG_UNIQUE_CONSECUTIVE_RETURN_COUNTS)};
    if (u.slices)
        u.dim = tn__call_dim(call, TN__ARG_UNIQUE_CONSECUTIVE_DIM, x->ndim);
    if (u.dim < 0)
        return TN_ERR_ARGUMENT;
    u.slices = u.slices && x->ndim > 0;
    return give_unique(call, x, &u, false);
}

/* ---- allclose and equal -------------------------------------------------- */

tn_status tn__run_allclose(tn__call *call)
{
    return tn__give(call,
                    tn_all(tn__row(TN__OP_ID_ISCLOSE, call->value,
                                   call->op->arg_count)));
}

tn_status tn__run_equal(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_EQUAL_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_EQUAL_OTHER);
    if (!tn__shape_equal(a->ndim, a->shape, b->ndim, b->shape))
        return tn__give(call, tn_zeros((tn_dims_list){0}, .dtype = TN_BOOL,
                                       .device = a->storage->device));
    return tn__give(call, tn_all(tn_eq(a, b)));
}

/* ---- combinations ---- */

/* Returns the number of ways to choose r of n elements, or -1 if it is too
 * large. */
static int64_t binomial(int64_t n, int64_t r)
{
    int64_t ways = 1;
    if (n < r)
        return 0;
    r = r > n - r ? n - r : r;
    for (int64_t k = 1; k <= r; k++) {
        if (__builtin_mul_overflow(ways, n - r + k, &ways))
            return -1;
        ways /= k;
    }
    return ways;
}

/* Stores the `ways` combinations of r of n elements in number[]. Each
 * combination is r consecutive entries, the numbers of its elements. If `again`
 * is true, an element can be chosen several times. */
static void write_combinations(int64_t *number, int64_t ways, int64_t n,
                               int64_t r, bool again)
{
    for (int64_t k = 0; k < r && ways; k++)
        number[k] = again ? 0 : k;
    for (int64_t w = 1; w < ways; w++) {
        const int64_t *before = number + (w - 1) * r;
        int64_t *row = number + w * r, k = r - 1;
        while (before[k] == (again ? n - 1 : n - r + k))
            k--;
        for (int64_t i = 0; i < r; i++)
            row[i] = i < k    ? before[i]
                     : again  ? before[k] + 1
                              : before[k] + 1 + i - k;
    }
}

/* Returns all combinations of r elements of a 1-d tensor. Which elements are
 * chosen depends only on sizes, so the host computes their numbers. */
tn_status tn__run_combinations(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_COMBINATIONS_INPUT);
    int64_t r = tn__call_int(call, TN__ARG_COMBINATIONS_R);
    bool again = tn__call_int(call, TN__ARG_COMBINATIONS_WITH_REPLACEMENT);
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 1)
        return tn__fail(TN_ERR_SHAPE, "combinations: {input} has shape %s; "
                        "expected a 1-d tensor",
                        tn__shape_text(text, x->ndim, x->shape));
    if (r < 0)
        return tn__fail(TN_ERR_ARGUMENT, "combinations: {r} is %lld; expected "
                        "0 or greater", (long long)r);
    if (r == 0)
        return tn__give(call, tn_narrow(x, 0, 0, 0));
    int64_t n = x->shape[0], ways, bytes;
    ways = again && n ? binomial(tn__size_add(n, r - 1), r)
           : again    ? 0
                      : binomial(n, r);
    if (ways < 0 || __builtin_mul_overflow(ways, tn__size_mul(8, r), &bytes))
        return tn__fail(TN_ERR_ARGUMENT, "combinations: {r} is %lld, and the "
                        "combinations of %lld elements are too many to store",
                        (long long)r, (long long)n);
    /* The device memory is allocated before the host memory is filled, because
     * the device may have too little. */
    tn_tensor *taken = tn_empty(tn_dims(bytes / 8), .dtype = TN_I64,
                                .device = x->storage->device);
    int64_t *number = taken ? tn__alloc((size_t)bytes) : NULL;
    if (!number)
        return tn_error_code();
    write_combinations(number, ways, n, r, again);
    tn_status status = tn_tensor_set_array(taken, number, (size_t)bytes);
    tn__free(number);
    if (status < 0)
        return status;
    return tn__give(call, tn_reshape(tn_index_select(x, 0, taken),
                                     tn_dims(ways, r)));
}
