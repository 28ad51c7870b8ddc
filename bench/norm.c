/* norm.c: measures normalisation layers, with and without gradients. */
#include "bench.h"

static void open_weights(bench_state *s, int64_t count)
{
    s->a = tn_requires_grad(s->a);
    s->b = tn_requires_grad(tn_ones(tn_dims(count)));
    s->c = tn_requires_grad(tn_zeros(tn_dims(count)));
}

/* size[] is the number of samples, the number of channels, and the height,
 * which is also the width. */
static void open_images(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1], s->size[2], s->size[2]));
    open_weights(s, s->size[1]);
}

static void open_rows(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
    open_weights(s, s->size[1]);
}

static void open_weighted(bench_state *s)
{
    open_rows(s);
    s->c = NULL;
}

static void open_alone(bench_state *s)
{
    s->a = tn_requires_grad(
        s->size[2]
            ? tn_rand(tn_dims(s->size[0], s->size[1], s->size[2], s->size[2]))
            : tn_rand(tn_dims(s->size[0], s->size[1])));
}

BENCH_BOTH(group_norm, tn_group_norm(s->a, 8, s->b, s->c))
BENCH_BOTH(instance_norm, tn_instance_norm(s->a, NULL, NULL, s->b, s->c))
BENCH_BOTH(layer_norm, tn_layer_norm(s->a, tn_dims(s->size[1]), s->b, s->c))
BENCH_BOTH(rms_norm, tn_rms_norm(s->a, tn_dims(s->size[1]), s->b))
BENCH_BOTH(local_response_norm, tn_local_response_norm(s->a, 5))
BENCH_BOTH(normalize, tn_normalize(s->a))
BENCH_BOTH(softmax, tn_softmax(s->a, 1))
BENCH_BOTH(log_softmax, tn_log_softmax(s->a, 1))
BENCH_CALL(batch_norm_eval, tn_batch_norm(s->a, s->c, s->b, s->b, s->c))

/* The minimum work. The forward pass reads and writes n elements. The backward
 * pass reads the input or the output, reads the gradient of the output, and
 * writes the gradient of the input. */
#define BOTH(name, open, n, ...)                                              \
    {#name, {__VA_ARGS__}, open, name, BENCH_COPY(n), 0},                     \
    {#name "_back", {__VA_ARGS__}, open, name##_back,                         \
     BENCH_MOVE(3 * (n), 2 * (n)), 0}

enum { IMAGES = 16 * 64 * 56 * 56, SMALL = 16 * 64 * 28 * 28, FLAT = 2048 * 512 };

static const bench_work work[] = {
    {"batch_norm_eval", {16, 64, 56}, open_images, batch_norm_eval,
     BENCH_COPY(IMAGES), 0},
    BOTH(group_norm, open_images, IMAGES, 16, 64, 56),
    BOTH(instance_norm, open_images, IMAGES, 16, 64, 56),
    BOTH(local_response_norm, open_alone, SMALL, 16, 64, 28),
    BOTH(layer_norm, open_rows, FLAT, 2048, 512),
    BOTH(rms_norm, open_weighted, FLAT, 2048, 512),
    BOTH(normalize, open_alone, FLAT, 2048, 512),
    BOTH(softmax, open_alone, FLAT, 2048, 512),
    BOTH(log_softmax, open_alone, FLAT, 2048, 512),
    {.name = NULL},
};
const bench_group bench_norm = {"norm", work};
