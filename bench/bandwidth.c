/* bandwidth.c: elementwise operators on medium and large arrays. Memory
 * bandwidth limits their speed. Each result is a new tensor, as in a user's
 * program. */
#include "bench.h"

#define M16 ((int64_t)4096 * 4096)
#define M1 ((int64_t)1024 * 1024)

static void open_flat(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0]));
    s->b = tn_rand(tn_dims(s->size[0]));
}

static void open_square(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
}

static void add(bench_state *s)
{
    tn_add(s->a, s->b);
}

static void mul(bench_state *s)
{
    tn_mul(s->a, s->b);
}

static void exponential(bench_state *s)
{
    tn_exp(s->a);
}

static void sum(bench_state *s)
{
    tn_sum(s->a);
}

static void softmax(bench_state *s)
{
    tn_softmax(s->a, 1);
}

#define AT(n, side)                                                           \
    {"add", {n}, open_flat, add, BENCH_TRIAD(n), 0},                \
    {"mul", {n}, open_flat, mul, BENCH_TRIAD(n), 0},                \
    {"exp", {n}, open_flat, exponential, BENCH_COPY(n), 0},         \
    {"sum", {n}, open_flat, sum, BENCH_READ(n), 0},                 \
    {"softmax", {side, side}, open_square, softmax, BENCH_COPY(n), 0}

static const bench_work work[] = {AT(M16, 4096), AT(M1, 1024), {.name = NULL}};
const bench_group bench_bandwidth = {"bandwidth", work};
