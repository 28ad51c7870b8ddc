/* cpu_conv.c: the extension `conv`: conv2d and its two gradients, without
 * im2col.
 *
 * Each of these is a sum of products: a matrix product whose left operand is
 * never stored. Element (i, p) of that operand is x[i][at[p]] of the images.
 * Images are copied into a frame of zeros if windows reach beyond them.
 *
 *     FORWARD  out[pixel][o]     = in[pixel + tap, c]   x  weight[tap, c][o]
 *     INPUT    in[pixel][c]      = out[pixel + tap, o]  x  weight[tap, o][c]
 *     WEIGHT   weight[tap, c][o] = in[tap, c + pixel]   x  out[pixel][o]
 *
 * A tap is one element of the window (conv.h). For WEIGHT the roles are
 * exchanged: a row of the product is a tap of one channel, and the sum is over
 * pixels. Vectors hold channels, so stride and dilation cost nothing and one
 * loop serves all three sums (routines_conv.c). If a group has few channels,
 * vectors hold pixels (conv_strip.c). The right operand is packed into panels:
 * the weights of a few adjacent columns, that is, channels of the result. Work
 * is cut into blocks of pixels by shape alone, so results do not depend on the
 * number of threads. */
#include <stdlib.h>
#include <string.h>

#include "conv.h"
#include "../../cpu_device.h"

enum {
    /* greatest number of elements of a block's sums: 256 KiB, part of an L2 */
    BLOCK_SUMS = 65536,
    BLOCK_WORK = 524288, /* multiply-adds of a block, about 10 us */
    /* greatest and least number of pixels of a block */
    MAX_PIXELS = 1024,
    MIN_PIXELS = 256,
    STRIP_ELEMENTS = 16384, /* elements of a strip's frame and sums together */
    /* Rows of a panel of weights that are multiplied at a time. These 32 KiB
     * are reused for consecutive tiles of pixels. */
    DEPTH = 256,
    /* Least number of taps with adjacent weights for which a panel is packed by
     * transposing square blocks. */
    MIN_TAPS = 6,
    /* In blocks with at least this many columns, each row of pixels skips the
     * taps outside the images. */
    MIN_COLUMNS = 8,
    /* If there are at least this many channels, the frame has the channels of a
     * pixel next to each other. */
    LAST_CHANNELS = 8,
    /* greatest number of pixel classes */
    MAX_CLASSES = 64
};

/* Pixels that use the same taps. For INPUT with stride s, pixels h with equal h
 * mod s, along both axes, form one class. FORWARD has one class. */
typedef struct pixel_class {
    conv_grid grid;
    int64_t first[2]; /* position of the class's pixel (0, 0) in the images */
    /* index of the first task of the class */
    int64_t first_task;
    /* If the class is computed by filter_rows(), for three adjacent taps at a
     * time: the index of the leftmost of them, 0 or 2. Otherwise -1. */
    int64_t line;
    char *panels; /* packed weights: [group][panel][tap][channel][width] */
} pixel_class;

typedef struct convolution {
    const tn_cpu_routines *general;
    const tn_cpu_conv_routines *routines;
    size_t bytes; /* bytes of an element */
    conv_images from, to;
    /* groups is the number of groups. from_channels and to_channels are the
     * numbers of channels of one group in the images that are read and
     * written. */
    int64_t groups, from_channels, to_channels;
    /* distance between pixels of a class in `to` */
    int64_t step[2];
    const char *weight;
    /* Strides of the weights in elements: weight_from between channels that are
     * read, weight_to between channels that are written, weight_group between
     * groups. */
    int64_t weight_from, weight_to, weight_group;
    const char *bias;
    int64_t bias_stride;
    /* true if vectors hold pixels, false if they hold channels */
    bool by_pixels;
    /* True if `to` is set to zero first. Then classes without taps have no
     * tasks. */
    bool cleared;
    /* Number of written channels in a panel of weights: as many as two vectors
     * hold, or 4 if vectors hold pixels. */
    int64_t panel;
    /* Number of channels of the sums: to_channels rounded up to whole vectors,
     * or exactly to_channels if vectors hold pixels. */
    int64_t width;
    int64_t class_count, tasks;
    pixel_class class[MAX_CLASSES];
    atomic_int failed;
} convolution;

/* ---- describing the sum -------------------------------------------------- */

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

/* Returns whether the pixels r, r + stride, r + 2 * stride ... of `in` use
 * element k of the window along axis a. They do if r + pad - k * dilation is a
 * multiple of the stride. Then pixel r + i * stride reads element *at + i of
 * `out`. */
static bool tap_reaches(const tn_conv_args *args, int a, int64_t r, int64_t k,
                        int64_t *at)
{
    int64_t place = r + args->pad[a] - k * args->dilation[a];
    *at = place / args->stride[a];
    return place % args->stride[a] == 0;
}

/* Makes the class of pixels (r0 + i * stride, r1 + j * stride), with its taps
 * from `tap` on. Returns the end of the taps. */
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

/* Returns the number of pixels of a block if vectors hold pixels. */
static int64_t pixels_of_strip(const convolution *c, const conv_grid *grid)
{
    int64_t frames = c->from_channels * tn__cpu_min(grid->step[0], 4) *
                     tn__cpu_min(grid->step[1], 4);
    int64_t pixels = STRIP_ELEMENTS / (frames + c->to_channels);
    return pixels < MIN_PIXELS ? MIN_PIXELS : pixels;
}

/* Returns whether all images that are written are set to zero first. If the
 * stride exceeds the window, some pixels use no tap and are 0. If also planes
 * are contiguous, all images are set to zero, and these pixels need no
 * tasks. */
static bool can_clear(const convolution *c)
{
    bool some = false;
    for (int64_t i = 0; i < c->class_count; i++)
        some |= c->class[i].grid.taps == 0;
    return some && c->to.stride[3] == 1 && c->to.stride[2] == c->to.size[1];
}

static void clear_plane(void *context, int64_t i)
{
    const convolution *c = context;
    int64_t channels = c->groups * c->to_channels, n = i / channels;
    memset(c->to.memory + (n * c->to.stride[0] +
                           (i - n * channels) * c->to.stride[1]) *
                              (int64_t)c->bytes,
           0, (size_t)(c->to.size[0] * c->to.size[1]) * c->bytes);
}

/* Cuts every class into blocks. Each pair of a group and a block is a task. */
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
        class->first_task = c->tasks;
        if (class->grid.taps > 0 || !c->cleared)
            c->tasks += c->groups * class->grid.block_count;
    }
}

/* ---- weights ------------------------------------------------------------- */

static int64_t panels_bytes(const convolution *c, const pixel_class *class)
{
    return class->grid.taps * c->from_channels * c->width * c->groups *
           (int64_t)c->bytes;
}

/* Packs the weights of panel i, where i counts over panels, groups and
 * classes. */
static void pack_panel(void *context, int64_t i)
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
    /* If the weights of all taps of a channel are adjacent, they are packed by
     * transposing square blocks. */
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

/* ---- blocks -------------------------------------------------------------- */

typedef struct scattering {
    const convolution *c;
    char *sums;
    const char *bias;
    int64_t channel; /* stride of the channels of `to` in elements */
} scattering;

/* Writes the sums of some rows of pixels to the images. */
static void scatter_rows(void *context, const conv_rows *r)
{
    const scattering *s = context;
    const convolution *c = s->c;
    const conv_transfer t = {.routines = c->general,
                             .bytes = c->bytes,
                             .channels = c->to_channels,
                             .rows = r->rows,
                             .columns = r->columns,
                             .images = r->memory,
                             .channel = s->channel,
                             .row = r->row,
                             .step = r->step,
                             .pixels = s->sums +
                                       r->pixel * c->width * (int64_t)c->bytes,
                             .width = c->width};
    tn__cpu_conv_scatter(&t, s->bias, c->bias_stride);
}

/* Consecutive pixels of a block that use the same range [from, end) of
 * products, which are numbered tap * from_channels + channel. Rows at the
 * images' edges use fewer taps. */
typedef struct pixel_run {
    int64_t first, count, from, end;
} pixel_run;

/* Finds the taps [from, end) whose row is within the images for pixels of row
 * `row`. Taps are sorted by rows, so these are contiguous. */
static void find_taps(const conv_grid *grid, const conv_images *images,
                      int64_t row, int64_t *from, int64_t *end)
{
    const int64_t place = row * grid->step[0];
    const uint64_t size = (uint64_t)images->size[0];
    *from = 0;
    *end = grid->taps;
    while (*from < *end &&
           (uint64_t)(place + grid->tap[*from].at[0]) >= size)
        ++*from;
    while (*end > *from &&
           (uint64_t)(place + grid->tap[*end - 1].at[0]) >= size)
        --*end;
    if (*from == *end)
        *from = *end = 0;
}

/* Finds the runs of a block, at most one for each row, and returns their
 * number. */
static int64_t find_runs(const convolution *c, const conv_grid *grid,
                         const conv_block *block, pixel_run *run)
{
    int64_t count = 0;
    for (int64_t i = 0; i < block->size[0] * block->size[1]; i++) {
        int64_t from = 0, end = grid->taps;
        if (block->size[2] >= MIN_COLUMNS)
            find_taps(grid, &c->from, block->first[1] + i % block->size[1],
                      &from, &end);
        from *= c->from_channels;
        end *= c->from_channels;
        if (count == 0 || run[count - 1].from != from ||
            run[count - 1].end != end)
            run[count++] =
                (pixel_run){i * block->size[2], 0, from, end};
        run[count - 1].count += block->size[2];
    }
    return count;
}

/* The computation of the sums of one block of one group. */
typedef struct block_job {
    const convolution *c;
    const pixel_class *class;
    int64_t group;
    const pixel_run *run;
    int64_t runs;
    const int64_t *at; /* at[tap][channel]: offset in the block's view */
    char *sums;
    conv_prefetch_state ahead; /* to prefetch what the next block reads */
} block_job;

/* Computes the sums of a block. x[i] is the address of the block's pixel i. */
static void multiply(block_job *j, const void *const *x)
{
    const convolution *c = j->c;
    int64_t depth = j->class->grid.taps * c->from_channels;
    int64_t bytes = (int64_t)c->bytes;
    const char *panels = j->class->panels + j->group * depth * c->width * bytes;
    int64_t calls = (depth + DEPTH - 1) / DEPTH * j->runs *
                    ((c->width + c->panel - 1) / c->panel);
    int64_t lines = j->ahead.lines / (calls + 1) + 1;
    for (int64_t p = 0; p == 0 || p < depth; p += DEPTH)
        for (int64_t o = 0; o < c->width; o += c->panel)
            for (int64_t i = 0; i < j->runs; i++) {
                const pixel_run *r = &j->run[i];
                int64_t width = tn__cpu_min(c->panel, c->width - o);
                int64_t from = r->from > p ? r->from : p;
                int64_t end = tn__cpu_min(r->end, p + DEPTH);
                if (from < end || (p == 0 && r->end == 0))
                    c->routines->tiles(
                        r->count, width / c->routines->lanes, end - from,
                        x + r->first, j->at + from,
                        panels + (o * depth + from * width) * bytes, width,
                        j->sums + (r->first * c->width + o) * bytes, c->width,
                        1, from > r->from ? TN_CPU_TILE_ADD : 0);
                tn__cpu_conv_prefetch(&j->ahead, lines);
            }
}

/* Computes the sums of a block row by row with filter_rows(). The pixels of a
 * row are adjacent in the view, and taps form groups of three. */
static void multiply_rows(block_job *j, const conv_block *block,
                          const conv_view *view)
{
    const convolution *c = j->c;
    const pixel_class *class = j->class;
    int64_t depth = class->grid.taps * c->from_channels;
    int64_t bytes = (int64_t)c->bytes, tap = c->from_channels;
    int64_t rows = block->size[1], columns = block->size[2];
    int64_t row = class->grid.step[0] * view->stride[2];
    const char *panel = class->panels + j->group * depth * c->width * bytes;
    int64_t lines = j->ahead.lines / (block->size[0] * rows) + 1;
    for (const pixel_run *r = j->run; r < j->run + j->runs; r++)
        for (int64_t i = r->first; i < r->first + r->count; i += columns) {
            int64_t n = i / columns / rows, from = r->from + class->line * tap;
            int64_t x = n * view->stride[0] + (i / columns - n * rows) * row;
            c->routines->filter_rows(columns, (r->end - r->from) / (3 * tap),
                                     tap, view->base + x * bytes, j->at + from,
                                     panel + from * c->width * bytes,
                                     (1 - class->line) * tap * c->width,
                                     j->sums + i * c->width * bytes);
            tn__cpu_conv_prefetch(&j->ahead, lines);
        }
}

/* Computes one block of one group, with channels as lanes. */
static void run_block(convolution *c, const pixel_class *class, int64_t group,
                      int64_t number)
{
    const conv_grid *grid = &class->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    int64_t depth = grid->taps * c->from_channels, bytes = (int64_t)c->bytes;
    conv_order order = class->line < 0 && c->from_channels >= LAST_CHANNELS &&
                               c->to_channels >= LAST_CHANNELS
                           ? CONV_CHANNELS_LAST
                           : CONV_PLANES;
    int64_t frame_bytes = conv_round_up(
        tn__cpu_conv_frame_size(grid, &block, c->from_channels, order) * bytes,
        64);
    int64_t sums_bytes = conv_round_up(block.pixels * c->width * bytes, 64);
    char *memory = tn__cpu_scratch(
        (size_t)(frame_bytes + sums_bytes + (2 * block.pixels + depth) * 8) +
        (size_t)(block.size[0] * block.size[1]) * sizeof(pixel_run));
    if (!memory) {
        atomic_store(&c->failed, 1);
        return;
    }
    char *sums = memory + frame_bytes;
    int64_t *pixel = (int64_t *)(sums + sums_bytes);
    int64_t *at = pixel + block.pixels;
    const void **x = (const void **)(at + depth);
    pixel_run *run = (pixel_run *)(x + block.pixels);
    const conv_source from = {c->general, &c->from, group * c->from_channels,
                              c->from_channels, c->bytes};
    conv_view view = tn__cpu_conv_view(grid, &block, &from, order, memory);
    tn__cpu_conv_taps(grid, &view, c->from_channels, at);
    block_job job = {.c = c,
                     .class = class,
                     .group = group,
                     .run = run,
                     .runs = find_runs(c, grid, &block, run),
                     .at = at,
                     .sums = sums,
                     .ahead = tn__cpu_conv_ahead(grid, number + 1, &from)};
    if (class->line >= 0) {
        multiply_rows(&job, &block, &view);
    } else {
        tn__cpu_conv_pixels(grid, &block, &view, pixel);
        for (int64_t i = 0; i < block.pixels; i++)
            x[i] = view.base + pixel[i] * bytes;
        multiply(&job, x);
    }

    conv_images to = c->to;
    int64_t channel = group * c->to_channels;
    to.memory += channel * to.stride[1] * bytes;
    scattering s = {c, sums,
                    c->bias ? c->bias + channel * c->bias_stride * bytes : NULL,
                    to.stride[1]};
    const conv_placement placement = {&to, class->first, c->step, c->bytes};
    tn__cpu_conv_visit_rows(&block, &placement, scatter_rows, &s);
}

/* Computes one block of one group, with pixels as lanes. */
static void run_strip(convolution *c, const pixel_class *class, int64_t group,
                      int64_t number)
{
    const conv_grid *grid = &class->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    conv_strip strip =
        tn__cpu_conv_strip(grid, &block, c->from_channels, c->routines);
    int64_t depth = grid->taps * c->from_channels, bytes = (int64_t)c->bytes;
    int64_t frame_bytes = conv_round_up(strip.elements * bytes, 64);
    int64_t sums_bytes = c->panel * strip.pixels * bytes;
    char *frame = tn__cpu_scratch(
        (size_t)(frame_bytes + sums_bytes + depth * 8));
    if (!frame) {
        atomic_store(&c->failed, 1);
        return;
    }
    char *sums = frame + frame_bytes;
    int64_t *at = (int64_t *)(sums + sums_bytes);
    const conv_source from = {c->general, &c->from, group * c->from_channels,
                              c->from_channels, c->bytes};
    tn__cpu_conv_strip_fill(grid, &block, &strip, &from, frame);
    tn__cpu_conv_strip_taps(grid, &block, &strip, c->from_channels, at);
    conv_images to = c->to;
    to.memory += group * c->to_channels * to.stride[1] * bytes;
    const conv_placement placement = {&to, class->first, c->step, c->bytes};
    for (int64_t o = 0; o < c->to_channels; o++) {
        int64_t of_panel = o % c->panel, channel = group * c->to_channels + o;
        if (of_panel == 0)
            c->routines->filter_strip(
                strip.pixels, tn__cpu_min(c->panel, c->to_channels - o), depth,
                frame, at,
                class->panels + (group * c->width + o) * depth * bytes, sums,
                strip.pixels,
                c->bias ? c->bias + channel * c->bias_stride * bytes : NULL,
                c->bias_stride);
        tn__cpu_conv_strip_copy(&block, &strip, &placement, c->general,
                                sums + of_panel * strip.pixels * bytes, true);
        to.memory += to.stride[1] * bytes;
    }
}

static void run_task(void *context, int64_t i)
{
    convolution *c = context;
    const pixel_class *class = c->class;
    while (class + 1 < c->class + c->class_count && class[1].first_task <= i)
        class++;
    i -= class->first_task;
    unsigned fpu = tn__cpu_fpu_set();
    (c->by_pixels ? run_strip : run_block)(c, class,
                                           i / class->grid.block_count,
                                           i % class->grid.block_count);
    tn__cpu_fpu_restore(fpu);
}

static void run_all(int64_t count, void (*body)(void *, int64_t),
                    void *context, bool serial)
{
    for (int64_t i = 0; serial && i < count; i++)
        body(context, i);
    if (!serial)
        tn__cpu_host->parallel_for(count, body, context);
}

static tn_status out_of_memory(const tn_conv_args *args)
{
    return tn__cpu_host->fail(
        TN_ERR_MEMORY, "conv: out of memory for weights of (%lld, %lld, "
        "%lld, %lld)", (long long)args->out_channels,
        (long long)(args->in_channels / args->groups),
        (long long)args->kernel[0], (long long)args->kernel[1]);
}

static tn_status run_images(const tn_conv_args *args,
                            const tn_cpu_routines *general, size_t bytes)
{
    const tn_cpu_conv_routines *routines = general->conv[conv_type(bytes)];
    convolution c = {.general = general, .routines = routines,
                     .bytes = bytes, .groups = args->groups};
    conv_tap *tap = malloc((size_t)(args->kernel[0] * args->kernel[1]) *
                           sizeof *tap);
    if (!tap)
        return out_of_memory(args);
    if (args->kind == TN_CONV_FORWARD)
        take_forward(&c, args, tap);
    else
        take_input(&c, args, tap);
    c.weight = tn__cpu_at(args->weight.buffer, args->weight.offset, bytes);
    c.weight_group = args->out_channels / args->groups * args->weight.stride[0];
    if (args->kind == TN_CONV_FORWARD && args->bias.buffer) {
        c.bias = tn__cpu_at(args->bias.buffer, args->bias.offset, bytes);
        c.bias_stride = args->bias.stride[0];
    }
    c.by_pixels = conv_by_pixels(c.to_channels, routines);
    c.panel = c.by_pixels ? 4 : 2 * routines->lanes;
    c.width = c.by_pixels ? c.to_channels
                          : conv_round_up(c.to_channels, routines->lanes);
    c.cleared = can_clear(&c);
    cut(&c);

    int64_t room = 0;
    for (int64_t i = 0; i < c.class_count; i++)
        room += panels_bytes(&c, &c.class[i]);
    char *panels = tn__cpu_memory_acquire((size_t)room);
    if (panels) {
        char *at = panels;
        for (int64_t i = 0; i < c.class_count; i++) {
            c.class[i].panels = at;
            at += panels_bytes(&c, &c.class[i]);
        }
        run_all(c.class_count * c.groups *
                    ((c.width + c.panel - 1) / c.panel),
                pack_panel, &c, room < 65536);
        if (c.cleared)
            run_all(args->count * args->in_channels, clear_plane, &c,
                    c.tasks <= 1);
        run_all(c.tasks, run_task, &c, c.tasks == 1);
    }
    tn__cpu_memory_release(panels);
    free(tap);
    return panels && !atomic_load(&c.failed) ? TN_OK : out_of_memory(args);
}

/* Returns whether windows cover far more than the images. Blocks would then be
 * copied into huge frames of zeros. */
static bool is_mostly_outside(const tn_conv_args *args)
{
    double reach = 1, image = 1;
    for (int a = 0; a < 2; a++) {
        reach *= (double)(args->out_size[a] - 1) * (double)args->stride[a] +
                 (double)(args->kernel[a] - 1) * (double)args->dilation[a] + 1;
        image *= (double)args->in_size[a];
    }
    return reach > 16 * image && reach > 1e6;
}

static tn_status run(tn_queue *queue, const tn_conv_args *args)
{
    unsigned type = args->out.dtype == TN_F32   ? CPU_F32
                    : args->out.dtype == TN_F64 ? CPU_F64
                                                : CPU_TYPE_COUNT;
    if (!tn_conv_is_known(args))
        return tn__cpu_unknown("conv");
    if (type == CPU_TYPE_COUNT)
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "conv: the dtype must be "
                                  "float32 or float64");
    if (is_mostly_outside(args))
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "conv: most of what the "
                                  "windows cover is outside the images");
    if (args->kind == TN_CONV_INPUT &&
        tn__cpu_min(args->stride[0], args->in_size[0]) *
                tn__cpu_min(args->stride[1], args->in_size[1]) >
            MAX_CLASSES)
        return tn__cpu_host->fail(
            TN_ERR_UNSUPPORTED, "conv: the gradient of in at stride (%lld, "
            "%lld): the product of the strides exceeds %d",
            (long long)args->stride[0], (long long)args->stride[1],
            MAX_CLASSES);
    size_t bytes = type == CPU_F32 ? 4 : 8;
    tn_status status;
    if (tn__cpu_conv_point(args, queue->routines, bytes, &status) ||
        tn__cpu_conv_plane(args, queue->routines->conv[type], &status) ||
        (bytes == 4 && tn__cpu_conv_winograd(args, queue->routines,
                                             queue->conv, &status)))
        return status;
    return args->kind == TN_CONV_WEIGHT
               ? tn__cpu_conv_weight(args, queue->routines, bytes)
               : run_images(args, queue->routines, bytes);
}

const tn_conv_extension tn__cpu_conv_extension = {
    .size = sizeof(tn_conv_extension), .run = run};
