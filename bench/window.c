/* window.c: convolutions, poolings, paddings and resizings besides those of
 * vision.c: in one and three dimensions, transposed, of groups, adaptive. */
#include "bench.h"

/* size: samples, channels, length of each of the 1, 2 or 3 dimensions */
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

/* As many channels out as in. */
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

#define BOTH(name, open, n, c, h)                                             \
    {#name, {n, c, h}, open, name, BENCH_NO_BOUND, 0, 0},                     \
    {#name "_back", {n, c, h}, open, name##_back, BENCH_NO_BOUND, 0, 0}

static const bench_work work[] = {
    BOTH(conv1d, open_conv1d, 16, 64, 512),
    BOTH(conv2d_1x1, open_conv2d_1x1, 16, 64, 28),
    BOTH(conv2d_depthwise, open_conv2d_depthwise, 16, 64, 28),
    BOTH(conv2d_strided, open_conv2d_strided, 16, 64, 28),
    BOTH(conv3d, open_conv3d, 4, 16, 16),
    BOTH(conv_transpose1d, open_conv_transpose1d, 16, 64, 256),
    BOTH(conv_transpose2d, open_conv_transpose2d, 16, 32, 16),
    BOTH(max_pool1d, open_lines, 16, 64, 1024),
    BOTH(max_pool3d, open_solids, 4, 16, 32),
    BOTH(avg_pool3d, open_solids, 4, 16, 32),
    BOTH(max_pool2d_3x3, open_images, 16, 64, 56),
    BOTH(adaptive_avg_pool2d, open_images, 32, 256, 14),
    BOTH(adaptive_avg_pool2d_7, open_images, 16, 64, 56),
    BOTH(adaptive_max_pool2d_7, open_images, 16, 64, 56),
    BOTH(max_unpool2d, open_unpool, 16, 64, 56),
    BOTH(pad, open_images, 16, 64, 56),
    BOTH(pad_reflect, open_images, 16, 64, 56),
    BOTH(pad_replicate, open_images, 16, 64, 56),
    BOTH(pad_circular, open_images, 16, 64, 56),
    BOTH(nearest, open_images, 8, 64, 28),
    BOTH(bilinear, open_images, 8, 64, 28),
    BOTH(bicubic, open_images, 8, 64, 28),
    BOTH(shrink_bilinear, open_images, 8, 64, 56),
    BOTH(unfold, open_images, 16, 16, 32),
    BOTH(pixel_shuffle, open_images, 16, 64, 28),
    {.name = NULL},
};
const bench_group bench_window = {"window", work};
