/* conv_point.c: conv2d with windows of 1 x 1, and the gradient in its images,
 * as matrix products. An image with contiguous planes is a matrix
 * [channel][pixel]. The product of the weights and this matrix is the result,
 * without any transposition. */
#include "cpu_conv.h"
#include "../../prim/float_product.h"

enum {
    /* minimum number of channels of a group, in both in and out */
    MIN_CHANNELS = 8,
    /* Minimum number of pixels of an image. For smaller images cpu_conv.c is
     * used, which processes the pixels of several images together. */
    MIN_PIXELS = 512,
    TASK_WORK = 2097152 /* multiply-adds of a task */
};

typedef struct point {
    /* the matrix product for all pixels of the first image and the first
     * group */
    tn_cpu_product product;
    /* strides in elements from one image to the next: batch in the images that
     * are read (matrix b), channel in the images that are written (matrix c) */
    int64_t batch, channel;
    /* a_group, b_group and c_group are the strides between groups in each
     * matrix, in elements. groups is the number of groups. */
    int64_t b_group, c_group, a_group, groups;
    /* A task computes `pixels` pixels of one group of channels of one image.
     * cuts is the number of tasks for one group of one image. */
    int64_t pixels, cuts;
    const char *bias;
    int64_t bias_step;
    tn_cpu_epilogue *then; /* a launch over the result of a task, or NULL */
    atomic_int failed;
} point;

static void run_task(void *context, int64_t i)
{
    point *t = context;
    tn_cpu_product p = t->product;
    int64_t bytes = conv_type(4) == p.type ? 4 : 8;
    int64_t first = i % t->cuts * t->pixels;
    int64_t group = i / t->cuts % t->groups, image = i / t->cuts / t->groups;
    p.n = tn__cpu_min(t->pixels, p.n - first);
    p.a.memory += group * t->a_group * bytes;
    p.b.memory += (image * t->batch + group * t->b_group + first) * bytes;
    p.c.memory += (image * t->channel + group * t->c_group + first) * bytes;
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t o = 0; t->bias && o < p.m; o++)
        p.routines->fill[p.type](
            p.c.memory + o * p.c.row * bytes,
            t->bias + (group * p.m + o) * t->bias_step * bytes, NULL, NULL,
            p.n, 1);
    if (!tn__cpu_multiply(&p))
        atomic_store(&t->failed, 1);
    if (t->then) {
        const int64_t from[3] = {image, group * p.m, first};
        const int64_t end[3] = {image + 1, (group + 1) * p.m, first + p.n};
        tn__cpu_epilogue_run(t->then, from, end);
    }
    tn__cpu_fpu_restore(fpu);
}

static bool is_matrix(const tn_strided *images, const int64_t *size)
{
    return images->stride[3] == 1 && images->stride[2] == size[1];
}

bool tn__cpu_conv_point_suits(const tn_conv_args *args)
{
    bool good = is_matrix(&args->in, args->in_size) &&
                is_matrix(&args->out, args->out_size) &&
                args->weight.stride[1] == 1 &&
                args->in_channels / args->groups >= MIN_CHANNELS &&
                args->out_channels / args->groups >= MIN_CHANNELS &&
                args->in_size[0] * args->in_size[1] >= MIN_PIXELS;
    for (int a = 0; a < 2; a++)
        good = good && args->kernel[a] == 1 && args->stride[a] == 1 &&
               args->pad[a] == 0 && args->in_size[a] == args->out_size[a];
    return good;
}

bool tn__cpu_conv_point(const tn_conv_args *args,
                        const tn_cpu_routines *routines, size_t bytes,
                        tn_cpu_epilogue *then, tn_status *status)
{
    if (args->kind == TN_CONV_WEIGHT || !tn__cpu_conv_point_suits(args))
        return false;
    bool forward = args->kind == TN_CONV_FORWARD;
    const tn_strided *from = forward ? &args->in : &args->out;
    const tn_strided *to = forward ? &args->out : &args->in;
    int64_t out = args->out_channels / args->groups;
    int64_t in = args->in_channels / args->groups;
    int64_t step = args->weight.stride[0];
    point t = {
        .product = {.routines = routines, .type = conv_type(bytes),
                    .m = forward ? out : in, .k = forward ? in : out,
                    .n = args->in_size[0] * args->in_size[1],
                    .a = {tn__cpu_at(args->weight.buffer, args->weight.offset,
                                     bytes),
                          forward ? step : 1, forward ? 1 : step},
                    .b = {tn__cpu_at(from->buffer, from->offset, bytes),
                          from->stride[1], 1},
                    .c = {tn__cpu_at(to->buffer, to->offset, bytes),
                          to->stride[1], 1},
                    .alpha = 1},
        .batch = from->stride[0], .channel = to->stride[0],
        .groups = args->groups, .a_group = out * step};
    t.b_group = t.product.k * from->stride[1];
    t.c_group = t.product.m * to->stride[1];
    if (forward && args->bias.buffer) {
        t.bias = tn__cpu_at(args->bias.buffer, args->bias.offset, bytes);
        t.bias_step = args->bias.stride[0];
        t.product.beta = 1;
    }
    t.pixels = conv_round_up(TASK_WORK / (out * in) + MIN_PIXELS, 64);
    t.cuts = (t.product.n + t.pixels - 1) / t.pixels;
    t.pixels = conv_round_up((t.product.n + t.cuts - 1) / t.cuts, 64);
    const tn_cpu_epilogue_cut cut = {
        .blocks = args->count * args->groups * t.cuts, .parts = 1,
        .ranges = 3, .first = {0, 1, 2}, .whole = 3};
    t.then = tn__cpu_epilogue_take(then, &cut) ? then : NULL;
    tn__cpu_host->parallel_for(args->count * args->groups * t.cuts, run_task,
                               &t);
    *status = atomic_load(&t.failed)
                  ? tn__cpu_host->fail(TN_ERR_MEMORY, "conv: out of memory for "
                                       "panels of images")
                  : TN_OK;
    return true;
}
