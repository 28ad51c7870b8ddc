/* conv_plane.c: depthwise conv2d (groups = channels) and its gradients, in
 * float32. It supports windows of three columns, stride 1, contiguous planes,
 * and results as large as the images. A plane is one channel of one image.
 *
 * The rows of a plane follow each other without gaps, so the element of the
 * window in row i and column j has the same offset for all pixels of a plane.
 * At the first and last pixel of a row, a column of the window is outside the
 * image and would read the previous or next row. A mask sets these elements to
 * 0. There is one mask for each column of the window. */
#include <stdlib.h>
#include <string.h>

#include "cpu_conv.h"
#include "../../cpu_device.h"

enum {
    /* Minimum number of groups. With fewer groups cpu_conv.c is used, which
     * also divides the images among threads. */
    MIN_GROUPS = 8,
    /* Approximate number of pixels of a block. As floats they take 8 KiB of L1;
     * the masks take more. */
    BLOCK_PIXELS = 2048,
    MAX_ROWS = 9, /* maximum number of rows of a window, a multiple of three */
    MAX_LANES = 16,
    /* number of elements that vectors read beyond the last element used */
    READ_BEYOND = 6 * MAX_LANES,
    TASK_WORK = 524288 /* multiply-adds of a task */
};

typedef struct plane {
    const tn_conv_args *args;
    const tn_cpu_conv_routines *routines;
    /* The images. `from` is read and `to` is written, except for WEIGHT, the
     * gradient of the weights, which reads both. */
    conv_images from, to;
    int64_t width; /* elements of a row */
    /* low is the window's first row relative to the pixel's row. reach is the
     * distance from the window's first row to its last. */
    int64_t low, reach;
    /* block is the number of rows of a block. room is the number of elements of
     * a mask. */
    int64_t block, room;
    int64_t planes_per_task; /* number of planes in a task */
    /* The memory of the masks: masks[column][room] for a block of full size,
     * then the same for the last block. An unused vector precedes them, because
     * loops read a vector before a mask. */
    char *memory;
    tn_cpu_epilogue *then; /* a launch over the result of a task, or NULL */
    atomic_int failed;
} plane;

/* Returns the address of the weight in row `tap / 3` and column `tap % 3` of a
 * group's window. */
static float *weight_at(const plane *p, int64_t group, int64_t tap)
{
    const tn_strided *w = &p->args->weight;
    return (float *)tn__cpu_at(w->buffer, w->offset, 4) +
           group * w->stride[0] + tap / 3 * w->stride[2] +
           tap % 3 * w->stride[3];
}

/* Copies to frame the rows of the plane that the pixels of rows [first, first +
 * count) read. Rows outside the plane, and the elements that vectors read past
 * the end, are zeros. */
static void fill_rows(const plane *p, const char *from, int64_t first,
                      int64_t count, char *frame)
{
    int64_t row = p->width * 4, low = first + p->low;
    int64_t end = low + count + p->reach, start = low < 0 ? 0 : low;
    int64_t last = tn__cpu_min(end, p->from.size[0]);
    memset(frame, 0, (size_t)((start - low) * row + 4));
    /* skips an element, because the first pixel also reads the element before
     * its row */
    frame += 4;
    memcpy(frame + (start - low) * row, from + start * row,
           (size_t)((last - start) * row));
    memset(frame + (last - low) * row, 0,
           (size_t)((end - last) * row + READ_BEYOND * 4 - 4));
}

/* Computes one plane. w holds the weights. For the gradient of the weights
 * (WEIGHT), w receives the sums instead. Each of these sums is a vector, whose
 * lanes are added later. */
static void run_plane(const plane *p, int64_t image, int64_t group,
                      char *frame, char *y, float *w, float bias)
{
    const tn_conv_args *args = p->args;
    int64_t rows = p->from.size[0], row = args->dilation[0] * p->width;
    const char *mask = p->memory + MAX_LANES * 4;
    const char *from = p->from.memory + (image * p->from.stride[0] +
                                         group * p->from.stride[1]) * 4;
    char *to = p->to.memory +
               (image * p->to.stride[0] + group * p->to.stride[1]) * 4;
    for (int64_t r = 0; r < rows; r += p->block) {
        int64_t some = tn__cpu_min(p->block, rows - r);
        int64_t pixels = some * p->width;
        fill_rows(p, from, r, some, frame);
        if (args->kind != TN_CONV_WEIGHT) {
            p->routines->filter_plane(pixels, args->kernel[0], row, frame, w,
                                      mask, p->room, to, bias);
        } else {
            memcpy(y, to, (size_t)pixels * 4);
            memset(y + pixels * 4, 0, (size_t)(p->room - pixels) * 4);
            p->routines->correlate_plane(
                pixels + 2, args->kernel[0], row, frame, y,
                mask + (some < p->block ? 3 * p->room * 4 : 0), p->room, w);
        }
        to += pixels * 4;
    }
}

/* Computes task i, which is some consecutive planes, or one channel of all
 * images for the gradient of the weights (WEIGHT). */
static void run_task(void *context, int64_t i)
{
    plane *p = context;
    const tn_conv_args *args = p->args;
    bool weight = args->kind == TN_CONV_WEIGHT;
    int64_t first = weight ? i : i * p->planes_per_task,
            step = weight ? args->groups : 1;
    int64_t end = args->count * args->groups;
    int64_t taps = 3 * args->kernel[0], lanes = p->routines->lanes;
    int64_t frame_bytes =
        (p->reach * p->width + p->room + READ_BEYOND + MAX_LANES) * 4;
    char *frame = tn__cpu_scratch((size_t)(frame_bytes + p->room * 4));
    if (!frame) {
        atomic_store(&p->failed, 1);
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    char *y = frame + frame_bytes;
    float w[3 * MAX_ROWS * MAX_LANES] = {0}, bias = 0;
    memset(y - MAX_LANES * 4, 0, MAX_LANES * 4);
    end = weight ? end : tn__cpu_min(first + p->planes_per_task, end);
    for (int64_t n = first; n < end; n += step) {
        int64_t group = n % args->groups;
        for (int64_t t = 0; t < taps && !weight; t++)
            w[t] = *weight_at(
                p, group, args->kind == TN_CONV_INPUT ? taps - 1 - t : t);
        if (args->kind == TN_CONV_FORWARD && args->bias.buffer)
            bias = ((float *)tn__cpu_at(args->bias.buffer, args->bias.offset,
                                        4))[group * args->bias.stride[0]];
        run_plane(p, n / args->groups, group, frame, y, w, bias);
    }
    if (p->then) {
        const int64_t from[2] = {first, 0};
        const int64_t whole[2] = {end, args->out_size[0] * args->out_size[1]};
        tn__cpu_epilogue_run(p->then, from, whole);
    }
    for (int64_t t = 0; t < taps && weight; t++) {
        float sum = 0;
        for (int64_t l = 0; l < lanes; l++)
            sum += w[t * lanes + l];
        *weight_at(p, i, t) = sum;
    }
    tn__cpu_fpu_restore(fpu);
}

/* Sets the masks of a block of `pixels` pixels. mask[j][p] has all bits set if
 * column j of the window of pixel p - j is in the pixel's own row. It has no
 * bits set if that column is in the previous or next row. */
static void fill_masks(const plane *p, int64_t pixels, char *mask)
{
    memset(mask, 0, (size_t)(3 * p->room) * 4);
    for (int64_t j = 0; j < 3; j++, mask += (p->room + 1) * 4) {
        memset(mask, 0xff, (size_t)pixels * 4);
        for (int64_t q = j / 2 * (p->width - 1); q < pixels && j != 1;
             q += p->width)
            memset(mask + q * 4, 0, 4);
    }
}

/* Returns whether rows are contiguous and follow each other without gaps. */
static bool is_whole(const tn_strided *images, const int64_t *size)
{
    return images->stride[3] == 1 && images->stride[2] == size[1];
}

bool tn__cpu_conv_plane_suits(const tn_conv_args *args,
                              const tn_cpu_conv_routines *routines)
{
    int64_t reach = (args->kernel[0] - 1) * args->dilation[0];
    return routines->filter_plane && is_whole(&args->in, args->in_size) &&
           is_whole(&args->out, args->out_size) &&
           args->in_size[0] == args->out_size[0] &&
           args->in_size[1] == args->out_size[1] &&
           args->groups >= MIN_GROUPS && args->in_channels == args->groups &&
           args->out_channels == args->groups && args->stride[0] == 1 &&
           args->stride[1] == 1 && args->kernel[0] <= MAX_ROWS &&
           args->kernel[1] == 3 && args->dilation[1] == 1 &&
           args->pad[1] == 1 && args->pad[0] >= 0 && args->pad[0] <= reach &&
           reach <= args->in_size[0];
}

bool tn__cpu_conv_plane(const tn_conv_args *args,
                        const tn_cpu_conv_routines *routines,
                        tn_cpu_epilogue *then, tn_status *status)
{
    if (!tn__cpu_conv_plane_suits(args, routines))
        return false;
    bool back = args->kind == TN_CONV_INPUT;
    conv_images in = tn__cpu_conv_images(&args->in, args->in_size, 4);
    conv_images out = tn__cpu_conv_images(&args->out, args->out_size, 4);
    plane p = {.args = args, .routines = routines, .from = back ? out : in,
               .to = back ? in : out, .width = args->in_size[1],
               .reach = (args->kernel[0] - 1) * args->dilation[0]};
    int64_t rows = args->in_size[0], blocks = rows * p.width / BLOCK_PIXELS + 1;
    p.low = back ? args->pad[0] - p.reach : -args->pad[0];
    p.block = (rows + blocks - 1) / blocks;
    p.room = conv_round_up(p.block * p.width + 2, MAX_LANES) + READ_BEYOND;
    p.planes_per_task = TASK_WORK / (3 * rows * p.width * args->kernel[0]) + 1;
    const tn_cpu_epilogue_cut cut = {
        .blocks = (args->count * args->groups + p.planes_per_task - 1) /
                  p.planes_per_task,
        .parts = 1, .ranges = 2, .first = {0, 2}, .whole = 1};
    p.then = tn__cpu_epilogue_take(then, &cut) ? then : NULL;
    p.memory = tn__cpu_memory_acquire((size_t)(6 * p.room + 2 * MAX_LANES) * 4);
    if (p.memory) {
        char *mask = p.memory + MAX_LANES * 4;
        fill_masks(&p, p.block * p.width, mask);
        fill_masks(&p, rows % p.block * p.width, mask + 3 * p.room * 4);
        int64_t planes = args->count * args->groups;
        tn__cpu_host->parallel_for(args->kind == TN_CONV_WEIGHT
                                       ? args->groups
                                       : (planes + p.planes_per_task - 1) /
                                             p.planes_per_task,
                                   run_task, &p);
    }
    tn__cpu_memory_release(p.memory);
    *status = p.memory && !atomic_load(&p.failed)
                  ? TN_OK
                  : tn__cpu_host->fail(TN_ERR_MEMORY, "conv: out of memory for "
                                       "masks of planes");
    return true;
}
