/* conv_sum.c: prepares conv2d (FORWARD) and its gradient in the images (INPUT).
 * Finds the taps that each pixel uses, that is, elements of the window. Cuts
 * the pixels into tasks, and packs the weights. */
#include <string.h>

#include "conv_sum.h"

enum {
    /* The channels of a block are divided among tasks, each with at least
     * SHARE_WORK multiply-adds (70 us), until there are MIN_TASKS. */
    MIN_TASKS = 4,
    SHARE_WORK = 8388608,
    /* Maximum number of elements in a block's sums. As floats they have 256
     * KiB, which fits L2. */
    BLOCK_SUMS = 65536,
    BLOCK_WORK = 524288, /* multiply-adds in a block: about 10 us */
    /* maximum and minimum number of pixels in a block */
    MAX_PIXELS = 1024,
    MIN_PIXELS = 256,
    /* If vectors hold pixels: approximate number of elements in a block's frame
     * and sums together. */
    STRIP_ELEMENTS = 16384,
    /* Minimum number of taps for which a panel of weights is packed by
     * transposing square blocks. The weights of the taps must be adjacent. */
    MIN_TAPS = 6
};

static void take_forward(convolution *c, const tn_conv_args *args,
                         conv_tap *tap)
{
    c->from = tn__cpu_conv_images(&args->in, args->in_size, c->bytes);
    c->to = tn__cpu_conv_images(&args->out, args->out_size, c->bytes);
    c->from_channels = args->in_channels / args->groups;
    c->to_channels = args->out_channels / args->groups;
    c->weight_from = args->weight.stride[1];
    c->weight_to = args->weight.stride[0];
    c->step[0] = c->step[1] = 1;
    c->class_count = 1;
    c->class[0].first[0] = c->class[0].first[1] = 0;
    tn__cpu_conv_forward_grid(&c->class[0].grid, args, tap);
}

/* For the gradient of the input (INPUT): returns whether, along axis a, the
 * pixels r, r + stride, r + 2 * stride ... of `in` receive a gradient through
 * element k of the window. They do if r + pad - k * dilation is a multiple of
 * the stride. Pixel r + i * stride then receives it from element *at + i of
 * `out`. */
static bool tap_reaches(const tn_conv_args *args, int a, int64_t r, int64_t k,
                        int64_t *at)
{
    int64_t place = r + args->pad[a] - k * args->dilation[a];
    *at = place / args->stride[a];
    return place % args->stride[a] == 0;
}

/* Initialises a class: the pixels (r0 + i * stride[0], r1 + j * stride[1]) for
 * all i and j, which use the same taps (elements of the window). Stores their
 * taps in an array that begins at `tap`, and returns the address after the last
 * one. */
static conv_tap *take_class(pixel_class *class, const tn_conv_args *args,
                            int64_t r0, int64_t r1, conv_tap *tap)
{
    conv_grid *grid = &class->grid;
    const int64_t r[2] = {r0, r1};
    *grid = (conv_grid){.count = args->count, .step = {1, 1}, .tap = tap};
    for (int a = 0; a < 2; a++) {
        class->first[a] = r[a];
        grid->size[a] =
            (args->in_size[a] - r[a] + args->stride[a] - 1) / args->stride[a];
    }
    for (int64_t i = 0; i < args->kernel[0]; i++)
        for (int64_t j = 0; j < args->kernel[1]; j++) {
            conv_tap t = {.weight = i * args->weight.stride[2] +
                                    j * args->weight.stride[3]};
            if (tap_reaches(args, 0, r0, i, &t.at[0]) &&
                tap_reaches(args, 1, r1, j, &t.at[1]))
                tap[grid->taps++] = t;
        }
    return tap + grid->taps;
}

static void take_input(convolution *c, const tn_conv_args *args, conv_tap *tap)
{
    c->from = tn__cpu_conv_images(&args->out, args->out_size, c->bytes);
    c->to = tn__cpu_conv_images(&args->in, args->in_size, c->bytes);
    c->from_channels = args->out_channels / args->groups;
    c->to_channels = args->in_channels / args->groups;
    c->weight_from = args->weight.stride[0];
    c->weight_to = args->weight.stride[1];
    memcpy(c->step, args->stride, sizeof c->step);
    c->class_count = 0;
    for (int64_t i = 0; i < args->stride[0] && i < args->in_size[0]; i++)
        for (int64_t j = 0; j < args->stride[1] && j < args->in_size[1]; j++)
            tap = take_class(&c->class[c->class_count++], args, i, j, tap);
}

/* Returns the number of pixels in a block if vectors hold pixels. */
static int64_t pixels_of_strip(const convolution *c, const conv_grid *grid)
{
    int64_t frames = c->from_channels * tn__cpu_min(grid->step[0], 4) *
                     tn__cpu_min(grid->step[1], 4);
    int64_t pixels = STRIP_ELEMENTS / (frames + c->to_channels);
    return pixels < MIN_PIXELS ? MIN_PIXELS : pixels;
}

/* Returns whether all result images are set to zero first. If the stride
 * exceeds the window, some pixels use no tap, and their result is 0. If the
 * images are set to zero, these pixels need no tasks. This requires contiguous
 * planes, because each plane is cleared by one memset. */
static bool can_clear(const convolution *c)
{
    bool some = false;
    for (int64_t i = 0; i < c->class_count; i++)
        some |= c->class[i].grid.taps == 0;
    return some && c->to.stride[3] == 1 && c->to.stride[2] == c->to.size[1];
}

/* Divides the channels of a block among several tasks, if there are few blocks
 * and a task keeps enough work. Each of these tasks copies the block's pixels
 * to its frame. c->tasks is the number of blocks of all groups. */
static void share_channels(convolution *c)
{
    const conv_grid *grid = &c->class[0].grid;
    const double work = (double)grid->block[0] * (double)grid->block[1] *
                        (double)grid->block[2] * (double)grid->taps *
                        (double)c->from_channels * (double)c->width;
    c->share = c->width;
    c->shares = 1;
    if (c->by_pixels || c->class_count > 1 || c->class[0].line >= 0)
        return;
    while (c->tasks * c->shares < MIN_TASKS && c->share >= 4 * c->panel &&
           work / (double)c->shares >= 2 * SHARE_WORK) {
        c->share = conv_round_up(c->share / 2, c->panel);
        c->shares = (c->width + c->share - 1) / c->share;
    }
}

/* Cuts the pixels of every class (pixels that use the same elements of the
 * window) into blocks. A task computes one block for one group of channels. */
static void cut(convolution *c)
{
    c->tasks = 0;
    for (int64_t i = 0; i < c->class_count; i++) {
        pixel_class *class = &c->class[i];
        int64_t depth = class->grid.taps * c->from_channels;
        int64_t pixels = BLOCK_WORK / (depth * c->width + 1);
        pixels =
            pixels < MIN_PIXELS ? MIN_PIXELS : tn__cpu_min(pixels, MAX_PIXELS);
        if (c->by_pixels)
            pixels = pixels_of_strip(c, &class->grid);
        else if (pixels * c->width > BLOCK_SUMS)
            pixels = BLOCK_SUMS / c->width;
        tn__cpu_conv_grid_init(&class->grid, &c->from);
        tn__cpu_conv_grid_cut(&class->grid, pixels);
        class->line = c->routines->filter_rows &&
                              c->width == c->routines->lanes &&
                              tn__cpu_conv_min_columns(&class->grid) >=
                                  c->routines->min_columns
                          ? tn__cpu_conv_row_taps(&class->grid, &c->from)
                          : -1;
        if (class->grid.taps > 0 || !c->cleared)
            c->tasks += c->groups * class->grid.block_count;
    }
    share_channels(c);
    c->tasks = 0;
    for (int64_t i = 0; i < c->class_count; i++) {
        pixel_class *class = &c->class[i];
        class->first_task = c->tasks;
        if (class->grid.taps > 0 || !c->cleared)
            c->tasks += c->groups * class->grid.block_count * c->shares;
    }
}

void tn__cpu_conv_describe(convolution *c, const tn_conv_args *args,
                           conv_tap *tap)
{
    const int64_t lanes = c->routines->lanes;
    if (args->kind == TN_CONV_FORWARD)
        take_forward(c, args, tap);
    else
        take_input(c, args, tap);
    c->weight = tn__cpu_at(args->weight.buffer, args->weight.offset, c->bytes);
    c->weight_group =
        args->out_channels / args->groups * args->weight.stride[0];
    if (args->kind == TN_CONV_FORWARD && args->bias.buffer) {
        c->bias = tn__cpu_at(args->bias.buffer, args->bias.offset, c->bytes);
        c->bias_stride = args->bias.stride[0];
    }
    c->by_pixels = conv_by_pixels(c->to_channels, c->routines);
    c->panel = c->by_pixels ? 4 : 2 * lanes;
    c->width = c->by_pixels ? c->to_channels
                            : conv_round_up(c->to_channels, lanes);
    c->cleared = can_clear(c);
    cut(c);
}

/* ---- weights ------------------------------------------------------------- */

int64_t tn__cpu_conv_panels_bytes(const convolution *c,
                                  const pixel_class *class)
{
    return class->grid.taps * c->from_channels * c->width * c->groups *
           (int64_t)c->bytes;
}

void tn__cpu_conv_pack_panel(void *context, int64_t i)
{
    const convolution *c = context;
    int64_t panels = (c->width + c->panel - 1) / c->panel;
    int64_t group = i / panels % c->groups, first = i % panels * c->panel;
    const pixel_class *class = &c->class[i / panels / c->groups];
    const conv_grid *grid = &class->grid;
    int64_t depth = grid->taps * c->from_channels;
    int64_t width = tn__cpu_min(c->panel, c->width - first);
    char *to = class->panels +
               (group * c->width + first) * depth * (int64_t)c->bytes;
    const char *from =
        c->weight + (group * c->weight_group + first * c->weight_to) *
                        (int64_t)c->bytes;
    const int64_t bytes = (int64_t)c->bytes, row = width * bytes;
    int64_t channels = tn__cpu_min(width, c->to_channels - first);
    bool squares = channels == width && grid->taps >= MIN_TAPS;
    for (int64_t t = 1; t < grid->taps && squares; t++)
        squares = grid->tap[t].weight == grid->tap[0].weight + t;
    /* If the weights of all taps of a channel are adjacent in memory, they are
     * packed by transposing square blocks. */
    for (int64_t p = 0; p < c->from_channels && squares; p++)
        c->general->transpose[bytes](
            to + p * row, c->from_channels * width,
            from + (grid->tap[0].weight + p * c->weight_from) * bytes,
            c->weight_to, channels, grid->taps, 0);
    for (int64_t t = 0; t < grid->taps && !squares; t++)
        tn__cpu_conv_gather(&(conv_transfer){
            .routines = c->general,
            .bytes = c->bytes,
            .channels = channels,
            .rows = 1,
            .columns = c->from_channels,
            .images = (char *)(uintptr_t)from + grid->tap[t].weight * bytes,
            .channel = c->weight_to,
            .step = c->weight_from,
            .pixels = to + t * c->from_channels * row,
            .width = width});
}
