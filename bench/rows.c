/* rows.c: measures reductions and norms along the rows and the columns of a
 * matrix, broadcasting, and transposed copies. */
#include "bench.h"

enum { ROWS = 4096, COLUMNS = 1024 };

static void open(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
    s->b = tn_rand(tn_dims(s->size[1]));
    s->c = tn_rand(tn_dims(s->size[1]));
}

static void sum_rows(bench_state *s)
{
    tn_sum(s->a, .dim = 1);
}

static void sum_columns(bench_state *s)
{
    tn_sum(s->a, .dim = 0);
}

static void max_rows(bench_state *s)
{
    tn_amax(s->a, .dim = 1);
}

static void log_softmax(bench_state *s)
{
    tn_log_softmax(s->a, 1);
}

static void layer_norm(bench_state *s)
{
    tn_layer_norm(s->a, tn_dims(s->size[1]), s->b, s->c);
}

static void add_row(bench_state *s)
{
    tn_add(s->a, s->b);
}

static void transpose(bench_state *s)
{
    tn_contiguous(tn_transpose(s->a, 0, 1));
}

#define ROW(name, call, least)                                                \
    {name, {ROWS, COLUMNS}, open, call, least(ROWS * COLUMNS), 0}

static const bench_work work[] = {
    ROW("sum_rows", sum_rows, BENCH_READ),
    ROW("sum_columns", sum_columns, BENCH_READ),
    ROW("max_rows", max_rows, BENCH_READ),
    ROW("log_softmax", log_softmax, BENCH_COPY),
    ROW("layer_norm", layer_norm, BENCH_COPY),
    ROW("add_row", add_row, BENCH_COPY),
    ROW("transpose", transpose, BENCH_COPY),
    {.name = NULL},
};
const bench_group bench_rows = {"rows", work};
