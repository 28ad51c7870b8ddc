/* matmul.c: measures matrix products: square ones, and products with few rows.
 * The limit is the multiply-adds of all threads. */
#include "bench.h"

static void open(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
    s->b = tn_rand(tn_dims(s->size[1], s->size[2]));
}

static void matmul(bench_state *s)
{
    tn_matmul(s->a, s->b);
}

#define PRODUCT(m, k, n)                                                      \
    {"matmul", {m, k, n}, open, matmul, BENCH_FLOPS(2. * (m) * (k) * (n)), 0}

static const bench_work work[] = {
    PRODUCT(64, 64, 64),      PRODUCT(64, 784, 128),
    PRODUCT(256, 256, 256),   PRODUCT(1024, 1024, 1024),
    PRODUCT(2048, 2048, 2048), {.name = NULL},
};
const bench_group bench_matmul = {"matmul", work};
