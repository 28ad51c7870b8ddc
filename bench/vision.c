/* vision.c: measures convolution, pooling and normalisation of images, with and
 * without gradients. The limit of a convolution is its multiply-adds. The limit
 * of the other workloads is to read and write each tensor once. */
#include "bench.h"

/* size[] is the number of images, the number of channels, and the height, which
 * is also the width. */
static void open_images(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1], s->size[2], s->size[2]));
}

static void open_recorded(bench_state *s)
{
    open_images(s);
    s->a = tn_requires_grad(s->a);
}

/* Prepares a 3 x 3 convolution whose output has as many channels as its input,
 * and the same size. */
static void open_conv(bench_state *s)
{
    open_images(s);
    s->b = tn_rand(tn_dims(s->size[1], s->size[1], 3, 3));
}

static void open_conv_recorded(bench_state *s)
{
    open_conv(s);
    s->a = tn_requires_grad(s->a);
    s->b = tn_requires_grad(s->b);
}

BENCH_BOTH(conv, tn_conv2d(s->a, s->b, NULL, .padding = 1))
BENCH_BOTH(max_pool, tn_max_pool2d(s->a, tn_dims(2)))
BENCH_BOTH(avg_pool, tn_avg_pool2d(s->a, tn_dims(2)))

static void open_norm(bench_state *s)
{
    open_recorded(s);
    s->b = tn_requires_grad(tn_ones(tn_dims(s->size[1])));
    s->c = tn_requires_grad(tn_zeros(tn_dims(s->size[1])));
}

BENCH_BOTH(batch_norm,
           tn_batch_norm(s->a, NULL, NULL, s->b, s->c, .training = true))

#define CONV(n, c, h)                                                         \
    {"conv2d", {n, c, h}, open_conv, conv,                                    \
     BENCH_FLOPS(BENCH_3X3 * 18 * (n) * (c) * (c) * (h) * (h)), 0},                      \
    {"conv2d_back", {n, c, h}, open_conv_recorded, conv_back,                 \
     BENCH_FLOPS(BENCH_3X3 * 54 * (n) * (c) * (c) * (h) * (h)), 0}
#define POOL(name, n, c, h)                                                   \
    {#name "2d", {n, c, h}, open_images, name,                                \
     BENCH_MOVE((n) * (c) * (h) * (h), (n) * (c) * (h) * (h) / 4), 0},        \
    {#name "2d_back", {n, c, h}, open_recorded, name##_back,                  \
     BENCH_COPY((n) * (c) * (h) * (h) / 4 * 5), 0}
#define NORM(n, c, h)                                                         \
    {"batch_norm", {n, c, h}, open_norm, batch_norm,                          \
     BENCH_COPY((n) * (c) * (h) * (h)), 0},                                   \
    {"batch_norm_back", {n, c, h}, open_norm, batch_norm_back,                \
     BENCH_MOVE(3 * (n) * (c) * (h) * (h), 2 * (n) * (c) * (h) * (h)), 0}

static const bench_work work[] = {
    CONV(32, 16, 32),
    CONV(16, 64, 28),
    CONV(8, 256, 14),
    POOL(max_pool, 32, 16, 32),
    POOL(max_pool, 8, 64, 112),
    POOL(avg_pool, 32, 16, 32),
    POOL(avg_pool, 8, 64, 112),
    NORM(32, 16, 32),
    NORM(8, 64, 56),
    {.name = NULL},
};
const bench_group bench_vision = {"vision", work};
