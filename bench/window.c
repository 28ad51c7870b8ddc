/* window.c: measures convolutions, poolings, paddings and resizings that
 * vision.c does not have: in one and three dimensions, transposed, grouped and
 * adaptive. */
#include "bench.h"

/* size[] is the number of samples, the number of channels, and the length of
 * each of the 1, 2 or 3 dimensions. */
static void open_lines(bench_state *s)
{
    s->a =
        tn_requires_grad(tn_rand(tn_dims(s->size[0], s->size[1], s->size[2])));
}

static void open_images(bench_state *s)
{
    s->a = tn_requires_grad(
        tn_rand(tn_dims(s->size[0], s->size[1], s->size[2], s->size[2])));
}

static void open_solids(bench_state *s)
{
    s->a = tn_requires_grad(tn_rand(
        tn_dims(s->size[0], s->size[1], s->size[2], s->size[2], s->size[2])));
}

/* Prepares a convolution with as many output channels as input channels. */
#define OPEN_CONV(name, inputs, ...)                                          \
    static void open_##name(bench_state *s)                                   \
    {                                                                         \
        int64_t c = s->size[1];                                               \
        open_##inputs(s);                                                     \
        s->b = tn_requires_grad(tn_rand(tn_dims(c, __VA_ARGS__)));            \
    }
OPEN_CONV(conv1d, lines, c, 3)
OPEN_CONV(conv2d_1x1, images, c, 1, 1)
OPEN_CONV(conv2d_depthwise, images, 1, 3, 3)
OPEN_CONV(conv2d_strided, images, c, 3, 3)
OPEN_CONV(conv3d, solids, c, 3, 3, 3)
OPEN_CONV(conv_transpose1d, lines, c, 4)
OPEN_CONV(conv_transpose2d, images, c, 4, 4)

static void open_unpool(bench_state *s)
{
    open_images(s);
    tn_tensor *all = s->a;
    s->a = tn_max_pool2d_with_indices(tn_detach(all), tn_dims(2), &s->b);
    s->a = tn_requires_grad(s->a);
}

BENCH_BOTH(conv1d, tn_conv1d(s->a, s->b, NULL, .padding = 1))
BENCH_BOTH(conv2d_1x1, tn_conv2d(s->a, s->b, NULL))
BENCH_BOTH(conv2d_depthwise,
           tn_conv2d(s->a, s->b, NULL, .padding = 1, .groups = s->size[1]))
BENCH_BOTH(conv2d_strided,
           tn_conv2d(s->a, s->b, NULL, .padding = 1, .stride = 2))
BENCH_BOTH(conv3d, tn_conv3d(s->a, s->b, NULL, .padding = 1))
BENCH_BOTH(conv_transpose1d,
           tn_conv_transpose1d(s->a, s->b, NULL, .padding = 1, .stride = 2))
BENCH_BOTH(conv_transpose2d,
           tn_conv_transpose2d(s->a, s->b, NULL, .padding = 1, .stride = 2))
BENCH_BOTH(max_pool1d, tn_max_pool1d(s->a, tn_dims(2)))
BENCH_BOTH(max_pool3d, tn_max_pool3d(s->a, tn_dims(2)))
BENCH_BOTH(avg_pool3d, tn_avg_pool3d(s->a, tn_dims(2)))
BENCH_BOTH(max_pool2d_3x3,
           tn_max_pool2d(s->a, tn_dims(3), .stride = 2, .padding = 1))
BENCH_BOTH(adaptive_avg_pool2d, tn_adaptive_avg_pool2d(s->a, tn_dims(1)))
BENCH_BOTH(adaptive_avg_pool2d_7, tn_adaptive_avg_pool2d(s->a, tn_dims(7)))
BENCH_BOTH(adaptive_max_pool2d_7, tn_adaptive_max_pool2d(s->a, tn_dims(7)))
BENCH_BOTH(max_unpool2d, tn_max_unpool2d(s->a, s->b, tn_dims(2)))
BENCH_BOTH(pad, tn_pad(s->a, tn_dims(1, 1, 1, 1)))
BENCH_BOTH(pad_reflect, tn_pad(s->a, tn_dims(1, 1, 1, 1), .mode = "reflect"))
BENCH_BOTH(pad_replicate,
           tn_pad(s->a, tn_dims(1, 1, 1, 1), .mode = "replicate"))
BENCH_BOTH(pad_circular, tn_pad(s->a, tn_dims(1, 1, 1, 1), .mode = "circular"))
BENCH_BOTH(nearest, tn_interpolate(s->a, (tn_dims_list){0}, .scale_factor = 2))
BENCH_BOTH(bilinear, tn_interpolate(s->a, (tn_dims_list){0}, .scale_factor = 2,
                                    .mode = "bilinear"))
BENCH_BOTH(bicubic, tn_interpolate(s->a, (tn_dims_list){0}, .scale_factor = 2,
                                   .mode = "bicubic"))
BENCH_BOTH(shrink_bilinear,
           tn_interpolate(s->a, tn_dims(24, 24), .mode = "bilinear"))
BENCH_BOTH(unfold, tn_unfold_images(s->a, tn_dims(3), .padding = 1))
BENCH_BOTH(pixel_shuffle, tn_pixel_shuffle(s->a, 2))

/* One multiply-add for each of `taps` weights and each pair of channels. Each
 * of the two gradients needs as many. */
#define CONV(name, n, c, h, taps)                                             \
    {#name, {n, c, h}, open_##name, name,                                     \
     BENCH_FLOPS(2. * (n) * (c) * (c) * (taps)), 0},                          \
    {#name "_back", {n, c, h}, open_##name, name##_back,                      \
     BENCH_FLOPS(6. * (n) * (c) * (c) * (taps)), 0}
/* `in` and `out` are the floats of a channel that are read and written. The
 * gradient reads `out` and writes `in`. */
#define BOTH(name, open, n, c, h, in, out)                                    \
    {#name, {n, c, h}, open, name,                                            \
     BENCH_MOVE((n) * (c) * (in), (n) * (c) * (out)), 0},                     \
    {#name "_back", {n, c, h}, open, name##_back,                             \
     BENCH_COPY((n) * (c) * ((in) + (out))), 0}
/* For images of 56 x 56 and 28 x 28 pixels. */
#define LARGE(name, out) BOTH(name, open_images, 16, 64, 56, 56 * 56, out)
#define RESIZED(name, out) BOTH(name, open_images, 8, 64, 28, 28 * 28, out)

static const bench_work work[] = {
    CONV(conv1d, 16, 64, 512, BENCH_1X3 * 3 * 512),
    CONV(conv2d_1x1, 16, 64, 28, 28 * 28),
    {"conv2d_depthwise",
     {16, 64, 28},
     open_conv2d_depthwise,
     conv2d_depthwise,
     BENCH_COPY(16 * 64 * 28 * 28),
     0},
    {"conv2d_depthwise_back",
     {16, 64, 28},
     open_conv2d_depthwise,
     conv2d_depthwise_back,
     BENCH_MOVE(3 * 16 * 64 * 28 * 28, 2 * 16 * 64 * 28 * 28),
     0},
    CONV(conv2d_strided, 16, 64, 28, 9 * 14 * 14),
    CONV(conv3d, 4, 16, 16, BENCH_3X3 * 27 * 16 * 16 * 16),
    CONV(conv_transpose1d, 16, 64, 256, 4 * 256),
    CONV(conv_transpose2d, 16, 32, 16, 16 * 16 * 16),
    BOTH(max_pool1d, open_lines, 16, 64, 1024, 1024, 512),
    BOTH(max_pool3d, open_solids, 4, 16, 32, 32 * 32 * 32, 16 * 16 * 16),
    BOTH(avg_pool3d, open_solids, 4, 16, 32, 32 * 32 * 32, 16 * 16 * 16),
    LARGE(max_pool2d_3x3, 28 * 28),
    BOTH(adaptive_avg_pool2d, open_images, 32, 256, 14, 14 * 14, 1),
    LARGE(adaptive_avg_pool2d_7, 7 * 7),
    LARGE(adaptive_max_pool2d_7, 7 * 7),
    /* also reads int64 indices */
    BOTH(max_unpool2d, open_unpool, 16, 64, 56, 3 * 28 * 28, 56 * 56),
    LARGE(pad, 58 * 58),
    LARGE(pad_reflect, 58 * 58),
    LARGE(pad_replicate, 58 * 58),
    LARGE(pad_circular, 58 * 58),
    RESIZED(nearest, 56 * 56),
    RESIZED(bilinear, 56 * 56),
    RESIZED(bicubic, 56 * 56),
    BOTH(shrink_bilinear, open_images, 8, 64, 56, 56 * 56, 24 * 24),
    BOTH(unfold, open_images, 16, 16, 32, 32 * 32, 9 * 32 * 32),
    BOTH(pixel_shuffle, open_images, 16, 64, 28, 28 * 28, 28 * 28),
    {.name = NULL},
};
const bench_group bench_window = {"window", work};
