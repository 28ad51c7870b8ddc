/* order.c: measures searches, order statistics, histograms, scans, and scatters
 * with a reduction. */
#include "bench.h"

enum { ROWS = 1024, COLUMNS = 1024, MANY = 1 << 20, KINDS = 1000 };

static void open_matrix(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
}

static void open_vector(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0]));
}

/* Makes a of integers, in which values occur repeatedly. */
static void open_kinds(bench_state *s)
{
    s->a = tn_randint(0, KINDS, tn_dims(s->size[0]), .dtype = TN_I64);
}

static void open_kinds_matrix(bench_state *s)
{
    s->a =
        tn_randint(0, KINDS, tn_dims(s->size[0], s->size[1]), .dtype = TN_I64);
}

/* size[] is the number of values and of sorted bounds. */
static void open_bounds(bench_state *s)
{
    tn_tensor *at;
    s->a = tn_rand(tn_dims(s->size[0]));
    s->b = tn_sort(tn_rand(tn_dims(s->size[1])), 0, false, &at);
}

/* Makes b: for each element of a, an index in its column. Makes c: true for
 * half of the elements. */
static void open_places(bench_state *s)
{
    open_matrix(s);
    s->b = tn_randint(0, s->size[0], tn_dims(s->size[0], s->size[1]),
                      .dtype = TN_I64);
    s->c = tn_gt_scalar(s->a, 0.5);
}

/* Makes b: as many random indices into a as a has elements. */
static void open_anywhere(bench_state *s)
{
    open_vector(s);
    s->b = tn_randint(0, s->size[0], tn_dims(s->size[0]), .dtype = TN_I64);
    s->c = tn_gt_scalar(s->a, 0.5);
}

#define TWO(call)                                                             \
    tn_tensor *at;                                                            \
    call

BENCH_CALL(searchsorted, tn_searchsorted(s->b, s->a))
BENCH_CALL(bucketize, tn_bucketize(s->a, s->b))
BENCH_CALL(median, tn_median(s->a))
BENCH_CALL(median_rows, TWO(tn_median_dim(s->a, 1, false, &at)))
BENCH_CALL(kthvalue, TWO(tn_kthvalue(s->a, COLUMNS / 4, 1, false, &at)))
BENCH_CALL(quantile, tn_quantile_scalar(s->a, 0.9, .dim = 1))
BENCH_CALL(mode, TWO(tn_mode(s->a, 1, false, &at)))
BENCH_CALL(unique, TWO(tn_unique(s->a, true, false, false, &at, 1)))
BENCH_CALL(unique_counts, tn_tensor *out[3];
           tn_unique(s->a, true, true, true, out, 3))
BENCH_CALL(histc, tn_histc(s->a, .bins = 100, .min = 0, .max = 1))
BENCH_CALL(bincount, tn_bincount(s->a))
BENCH_CALL(cummax_rows, TWO(tn_cummax(s->a, 1, &at)))
BENCH_CALL(cummax_columns, TWO(tn_cummax(s->a, 0, &at)))
BENCH_CALL(cumprod_rows, tn_cumprod(s->a, 1))
BENCH_CALL(logcumsumexp_rows, tn_logcumsumexp(s->a, 1))
BENCH_CALL(logcumsumexp_columns, tn_logcumsumexp(s->a, 0))
BENCH_CALL(argsort_rows, tn_argsort(s->a, 1, false))
BENCH_CALL(sort_columns, TWO(tn_sort(s->a, 0, false, &at)))
BENCH_CALL(topk, TWO(tn_topk(s->a, 100, 0, true, true, &at)))
BENCH_CALL(argmax_rows, tn_argmax(s->a, .dim = 1))
BENCH_CALL(nonzero, TWO(tn_nonzero(s->c, &at, 1)))
BENCH_CALL(masked_select, tn_masked_select(s->a, s->c))
BENCH_CALL(masked_fill, tn_masked_fill_scalar(s->a, s->c, 0))
BENCH_CALL(take, tn_take(s->a, s->b))
BENCH_CALL(put, tn_put(s->a, s->b, s->a, true))
BENCH_CALL(index_put, tn_index_put(s->a, &s->b, 1, s->a, .accumulate = true))
BENCH_CALL(scatter, tn_scatter(s->a, 0, s->b, s->a))
BENCH_CALL(scatter_sum, tn_scatter_reduce(s->a, 0, s->b, s->a, "sum"))
BENCH_CALL(scatter_prod, tn_scatter_reduce(s->a, 0, s->b, s->a, "prod"))
BENCH_CALL(scatter_amax, tn_scatter_reduce(s->a, 0, s->b, s->a, "amax"))
BENCH_CALL(scatter_mean, tn_scatter_reduce(s->a, 0, s->b, s->a, "mean"))

#define MATRIX(name, open, ...)                                               \
    {#name, {ROWS, COLUMNS}, open, name, __VA_ARGS__, 0}
#define VECTOR(name, open, ...) {#name, {MANY}, open, name, __VA_ARGS__, 0}
#define N MANY /* equals ROWS * COLUMNS */

/* The minimum work is counted in floats. An int64 counts as two floats, a bool
 * as a quarter. */
static const bench_work work[] = {
    {"searchsorted", {MANY, 65536}, open_bounds, searchsorted,
     BENCH_MOVE(N + 65536, 2 * N), 0},
    {"bucketize", {MANY, 100}, open_bounds, bucketize, BENCH_MOVE(N, 2 * N), 0},
    VECTOR(median, open_vector, BENCH_READ(N)),
    MATRIX(median_rows, open_matrix, BENCH_READ(N)),
    MATRIX(kthvalue, open_matrix, BENCH_READ(N)),
    MATRIX(quantile, open_matrix, BENCH_READ(N)),
    MATRIX(mode, open_kinds_matrix, BENCH_READ(2 * N)),
    VECTOR(unique, open_kinds, BENCH_READ(2 * N)),
    VECTOR(unique_counts, open_kinds, BENCH_COPY(2 * N)),
    VECTOR(histc, open_vector, BENCH_READ(N)),
    VECTOR(bincount, open_kinds, BENCH_READ(2 * N)),
    MATRIX(cummax_rows, open_matrix, BENCH_MOVE(N, 3 * N)),
    MATRIX(cummax_columns, open_matrix, BENCH_MOVE(N, 3 * N)),
    MATRIX(cumprod_rows, open_matrix, BENCH_COPY(N)),
    MATRIX(logcumsumexp_rows, open_matrix, BENCH_COPY(N)),
    MATRIX(logcumsumexp_columns, open_matrix, BENCH_COPY(N)),
    MATRIX(argsort_rows, open_matrix, BENCH_MOVE(N, 2 * N)),
    MATRIX(sort_columns, open_matrix, BENCH_MOVE(N, 3 * N)),
    VECTOR(topk, open_vector, BENCH_READ(N)),
    MATRIX(argmax_rows, open_matrix, BENCH_READ(N)),
    VECTOR(nonzero, open_anywhere, BENCH_MOVE(N / 4, N)),
    VECTOR(masked_select, open_anywhere, BENCH_MOVE(N + N / 4, N / 2)),
    VECTOR(masked_fill, open_anywhere, BENCH_MOVE(N + N / 4, N)),
    VECTOR(take, open_anywhere, BENCH_MOVE(3 * N, N)),
    VECTOR(put, open_anywhere, BENCH_MOVE(3 * N, N)),
    VECTOR(index_put, open_anywhere, BENCH_MOVE(3 * N, N)),
    MATRIX(scatter, open_places, BENCH_MOVE(3 * N, N)),
    MATRIX(scatter_sum, open_places, BENCH_MOVE(3 * N, N)),
    MATRIX(scatter_prod, open_places, BENCH_MOVE(3 * N, N)),
    MATRIX(scatter_amax, open_places, BENCH_MOVE(3 * N, N)),
    MATRIX(scatter_mean, open_places, BENCH_MOVE(3 * N, N)),
    {.name = NULL},
};
const bench_group bench_order = {"order", work};
