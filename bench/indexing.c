/* indexing.c: measures concatenation, gather, scatter, prefix sums, sorts and
 * random numbers. */
#include "bench.h"

enum { ROWS = 4096, COLUMNS = 1024, KEPT = 10, WORDS = 32768 };

static void open_matrix(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
}

/* Makes b: for each element of a, the index of an element in the same row. */
static void open_gather(bench_state *s)
{
    open_matrix(s);
    s->b = tn_randint(0, s->size[1], tn_dims(s->size[0], s->size[1]));
}

/* Makes b: as many row indices as a has rows. */
static void open_select(bench_state *s)
{
    open_matrix(s);
    s->b = tn_randint(0, s->size[0], tn_dims(s->size[0]));
}

/* size[] is the number of tokens of a text, the size of the vocabulary, and the
 * number of features of a token. */
static void open_embedding(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[1], s->size[2]));
    s->b = tn_randint(0, s->size[1], tn_dims(s->size[0]));
}

static void open_nothing(bench_state *s)
{
    (void)s;
}

static void cumsum_rows(bench_state *s)
{
    tn_cumsum(s->a, 1);
}

static void cumsum_columns(bench_state *s)
{
    tn_cumsum(s->a, 0);
}

static void sort_rows(bench_state *s)
{
    tn_tensor *places;
    tn_sort(s->a, 1, false, &places);
}

static void topk(bench_state *s)
{
    tn_tensor *places;
    tn_topk(s->a, KEPT, 1, true, true, &places);
}

static void gather(bench_state *s)
{
    tn_gather(s->a, 1, s->b);
}

static void scatter_add(bench_state *s)
{
    tn_scatter_add(s->a, 1, s->b, s->a);
}

static void index_select(bench_state *s)
{
    tn_index_select(s->a, 0, s->b);
}

static void index_add(bench_state *s)
{
    tn_index_add(s->a, 0, s->b, s->a);
}

static void embedding(bench_state *s)
{
    tn_embedding(s->b, s->a);
}

static void cat_rows(bench_state *s)
{
    tn_cat((tn_tensor *[]){s->a, s->a}, 2, 0);
}

static void cat_columns(bench_state *s)
{
    tn_cat((tn_tensor *[]){s->a, s->a}, 2, 1);
}

static void uniform(bench_state *s)
{
    tn_rand(tn_dims(s->size[0], s->size[1]));
}

static void normal(bench_state *s)
{
    tn_randn(tn_dims(s->size[0], s->size[1]));
}

static void dropout(bench_state *s)
{
    tn_dropout(s->a, 0.5, true);
}

#define N (ROWS * COLUMNS)
#define WORK(name, open, call, ...)                                           \
    {name, {ROWS, COLUMNS}, open, call, __VA_ARGS__, 0}

/* The minimum work is counted in floats. An int64 index counts as two
 * floats. */
static const bench_work work[] = {
    WORK("cumsum_rows", open_matrix, cumsum_rows, BENCH_COPY(N)),
    WORK("cumsum_columns", open_matrix, cumsum_columns, BENCH_COPY(N)),
    WORK("sort_rows", open_matrix, sort_rows, BENCH_MOVE(N, 3 * N)),
    {"sort", {1, 1 << 20}, open_matrix, sort_rows,
     BENCH_MOVE(1 << 20, 3 << 20), 0},
    WORK("topk", open_matrix, topk, BENCH_READ(N)),
    WORK("gather", open_gather, gather, BENCH_MOVE(3 * N, N)),
    WORK("scatter_add", open_gather, scatter_add, BENCH_MOVE(3 * N, N)),
    WORK("index_select", open_select, index_select, BENCH_COPY(N)),
    WORK("index_add", open_select, index_add, BENCH_COPY(N)),
    {"embedding", {WORDS, 10000, 128}, open_embedding, embedding,
     BENCH_COPY(WORDS * 128), 0},
    WORK("cat_rows", open_matrix, cat_rows, BENCH_COPY(2 * N)),
    WORK("cat_columns", open_matrix, cat_columns, BENCH_COPY(2 * N)),
    WORK("rand", open_nothing, uniform, BENCH_MOVE(0, N)),
    WORK("randn", open_nothing, normal, BENCH_MOVE(0, N)),
    WORK("dropout", open_matrix, dropout, BENCH_COPY(N)),
    {.name = NULL},
};
const bench_group bench_indexing = {"indexing", work};
